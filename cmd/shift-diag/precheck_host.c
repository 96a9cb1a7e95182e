/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-diag/precheck.h"
#include "common/own_files.h"
#include "kv/endpoint.h"
#include "lib/base/run_dir.h"

enum { CAP_IPC_LOCK_BIT = 14, KV_MS = 2000 };

/* The number in a line of /proc: "HugePages_Total:    4". -1: there is none. */
static int64_t proc_number(const char *path, const char *name, int base)
{
	FILE *f = fopen(path, "re");
	size_t n = strlen(name);
	int64_t found = -1;
	char line[256];

	while (f && found < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && line[n] == ':')
			found = (int64_t)strtoull(line + n + 1, NULL, base);
	if (f)
		fclose(f);
	return found;
}

/* ---- limits --------------------------------------------------------------------------------- */

/* The kernel asks for the capability in the first user namespace, which has all numbers of users.
 */
static bool may_lock_all(void)
{
	int64_t caps = proc_number("/proc/self/status", "CapEff", 16);
	unsigned int inside = 1, outside = 1, count = 0;
	FILE *f = fopen("/proc/self/uid_map", "re");

	if (f && fscanf(f, "%u %u %u", &inside, &outside, &count) != 3)
		count = 0;
	if (f)
		fclose(f);
	return !inside && !outside && count == UINT32_MAX && caps > 0 &&
	       caps >> CAP_IPC_LOCK_BIT & 1;
}

void check_memlock(struct precheck *p)
{
	const char *how = "ulimit -l unlimited; memlock in limits.conf; LimitMEMLOCK=";
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		p->tell(p, "memlock", CHECK_SKIP, "%s", strerror(errno));
	else if (limit.rlim_cur == RLIM_INFINITY)
		p->tell(p, "memlock", CHECK_PASS, "unlimited");
	else if (may_lock_all())
		p->tell(p, "memlock", CHECK_PASS, "%" PRIu64 " kB, but this user may lock all",
			(uint64_t)limit.rlim_cur / 1024);
	else if (limit.rlim_cur < 64 << 20)
		p->tell(p, "memlock", CHECK_FAIL, "%" PRIu64 " kB: too little for RDMA; %s",
			(uint64_t)limit.rlim_cur / 1024, how);
	else
		p->tell(p, "memlock", CHECK_WARN,
			"%" PRIu64 " MB: the program's memory must fit once for each NIC; %s",
			(uint64_t)limit.rlim_cur >> 20, how);
}

void check_descriptors(struct precheck *p)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		p->tell(p, "descriptors", CHECK_SKIP, "%s", strerror(errno));
	else if (limit.rlim_cur < 4096)
		p->tell(p, "descriptors", CHECK_WARN,
			"%" PRIu64 ": a completion channel takes three; ulimit -n 65536",
			(uint64_t)limit.rlim_cur);
	else
		p->tell(p, "descriptors", CHECK_PASS, "%" PRIu64, (uint64_t)limit.rlim_cur);
}

void check_hugepages(struct precheck *p)
{
	int64_t total = proc_number("/proc/meminfo", "HugePages_Total", 10);
	int64_t unused = proc_number("/proc/meminfo", "HugePages_Free", 10);

	if (total <= 0)
		p->tell(p, "hugepages", CHECK_SKIP, "none are reserved; shift needs none");
	else if (!unused)
		p->tell(p, "hugepages", CHECK_WARN, "all %" PRId64 " are in use: by whom?", total);
	else
		p->tell(p, "hugepages", CHECK_PASS, "%" PRId64 " of %" PRId64 " are free", unused,
			total);
}

/* ---- clock ---------------------------------------------------------------------------------- */

void check_clock(struct precheck *p)
{
	struct timex t = {.modes = 0};
	int state = adjtimex(&t);

	if (state < 0)
		p->tell(p, "clock", CHECK_SKIP, "%s", strerror(errno));
	else if (state == TIME_ERROR || t.status & STA_UNSYNC)
		p->tell(p, "clock", CHECK_WARN,
			"not synchronized: times of two hosts cannot be compared; chrony or ntpd");
	else
		p->tell(p, "clock", CHECK_PASS, "synchronized, to %.1f ms at worst",
			(double)t.maxerror / 1000);
}

/* ---- shift ---------------------------------------------------------------------------------- */

/* The nearest directory of it that exists must be writable. */
void check_run_dir(struct precheck *p)
{
	char path[4096], *slash;
	int err = run_dir_path(path, sizeof(path));

	if (err) {
		p->tell(p, "run-dir", CHECK_FAIL, "%s", run_dir_problem(err));
		return;
	}
	while (access(path, F_OK) && (slash = strrchr(path, '/')) && slash != path)
		*slash = 0;
	if (access(path, W_OK | X_OK))
		p->tell(p, "run-dir", CHECK_FAIL, "%s: %s", path, strerror(errno));
	else
		p->tell(p, "run-dir", CHECK_PASS, "%s can be written", path);
}

/* Standard output and error of a program, up to the first newline. Returns its wait status. */
static int first_line_of(const char *path, char *const *argv, char *line, size_t bytes)
{
	int fd[2], status = -1;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	*line = 0;
	if (pipe(fd))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(fd[1], STDOUT_FILENO);
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		close(fd[1]);
		execv(path, argv);
		_exit(127);
	}
	close(fd[1]);
	while (pid > 0 && have < bytes - 1 && (n = read(fd[0], line + have, bytes - 1 - have)) > 0)
		have += (size_t)n;
	line[have] = 0;
	line[strcspn(line, "\n")] = 0;
	close(fd[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* shift-run knows how, and does it in a process of its own. */
void check_library(struct precheck *p)
{
	static char program[] = "shift-run", check[] = "--check", end[] = "--",
		    command[] = "/bin/true";
	char *const argv[] = {program, check, end, command, NULL};
	char path[PATH_MAX], line[512];
	int status;

	if (!find_own(path, "shift-run", "../shift-run", BINDIR, EXIT_FAILED)) {
		p->tell(p, "library", CHECK_FAIL, "shift-run is neither in %s nor in %s",
			own_directory(EXIT_FAILED), BINDIR);
		return;
	}
	status = first_line_of(path, argv, line, sizeof(line));
	if (status)
		p->tell(p, "library", CHECK_FAIL, "%s", *line ? line : "shift-run cannot be run");
	else
		p->tell(p, "library", CHECK_PASS, "libshift.so can be loaded");
}

/* ---- etcd ----------------------------------------------------------------------------------- */

static int connect_wait(int fd, const struct sockaddr *a, socklen_t bytes)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	socklen_t length = sizeof(int);
	int err = 0;

	if (!connect(fd, a, bytes))
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	if (poll(&wait, 1, KV_MS) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length))
		return -errno;
	return -err;
}

/* A socket to HOST:PORT or unix:/PATH; or a negative errno, -ENOENT: no such host. */
static int connect_place(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	int fd = -1, err = -ENOENT;

	if (getaddrinfo(host, port, &hints, &list))
		return -ENOENT;
	for (struct addrinfo *a = list; a && err; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		err = fd < 0 ? -errno : connect_wait(fd, a->ai_addr, a->ai_addrlen);
		if (err && fd >= 0)
			close(fd);
	}
	freeaddrinfo(list);
	return err ? err : fd;
}

/* {"health":"true"} */
static bool is_healthy(int fd, char *answer, size_t bytes)
{
	static const char ask[] = "GET /health HTTP/1.0\r\nHost: etcd\r\n\r\n";
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	size_t have = 0;
	ssize_t n;

	*answer = 0;
	if (send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) != sizeof(ask) - 1)
		return false;
	while (have < bytes - 1 && poll(&wait, 1, KV_MS) > 0 &&
	       (n = recv(fd, answer + have, bytes - 1 - have, 0)) > 0)
		have += (size_t)n;
	answer[have] = 0;
	return strstr(answer, "\"health\":\"true\"") || strstr(answer, "\"health\":true");
}

static void split_url(const char *url, char host[256], char port[16], const char *otherwise)
{
	const char *at = strstr(url, "://"), *colon;
	size_t n;

	at = at ? at + 3 : url;
	n = strcspn(at, "/");
	colon = memrchr(at, ':', n);
	if (colon && memchr(colon, ']', n - (size_t)(colon - at)))
		colon = NULL; /* within an IPv6 address */
	snprintf(port, 16, "%.*s", colon ? (int)(at + n - colon - 1) : 15,
		 colon ? colon + 1 : otherwise);
	if (colon)
		n = (size_t)(colon - at);
	if (*at == '[' && n > 2) {
		at++;
		n -= 2;
	}
	snprintf(host, 256, "%.*s", (int)n, at);
}

static void check_url(struct precheck *p, const char *url)
{
	char host[256], port[16], answer[1024];
	int fd;

	split_url(url, host, port, "2379");
	fd = connect_place(host, port);
	if (fd < 0)
		p->tell(p, "etcd", CHECK_FAIL, "%s: %s", url,
			fd == -ENOENT ? "no such host" : strerror(-fd));
	else if (endpoint_is_encrypted(url))
		p->tell(p, "etcd", CHECK_PASS, "%s: something listens there; TLS is not tried",
			url);
	else if (is_healthy(fd, answer, sizeof(answer)))
		p->tell(p, "etcd", CHECK_PASS, "%s: healthy", url);
	else
		p->tell(p, "etcd", CHECK_FAIL, "%s: it does not say that it is healthy (/health)",
			url);
	if (fd >= 0)
		close(fd);
}

/* start@HOST: the shift-run there starts it with the job, so it need not be there yet. */
static void check_start(struct precheck *p, const char *place)
{
	char host[256], port[16];
	int fd;

	split_url(place, host, port, "29379");
	fd = connect_place(host, port);
	if (fd == -ENOENT)
		p->tell(p, "etcd", CHECK_FAIL, "start@%s: no such host", place);
	else if (fd == -ECONNREFUSED)
		p->tell(p, "etcd", CHECK_PASS, "start@%s: the host answers; none runs there yet",
			place);
	else if (fd < 0)
		p->tell(p, "etcd", CHECK_FAIL, "start@%s: %s: a firewall?", place, strerror(-fd));
	else
		p->tell(p, "etcd", CHECK_PASS, "start@%s: one runs there", place);
	if (fd >= 0)
		close(fd);
}

void check_kv(struct precheck *p)
{
	struct endpoint_user user = {0};
	char *urls, *save = NULL;

	if (!p->kv || !*p->kv) {
		p->tell(p, "etcd", CHECK_SKIP, "no --kv was given, and SHIFT_KV is not set");
		return;
	}
	if (!strncmp(p->kv, "start@", 6)) {
		check_start(p, p->kv + 6);
		return;
	}
	urls = check_alloc(strdup(p->kv));
	if (!endpoints_take_user(urls, &user))
		p->tell(p, "etcd", CHECK_FAIL, "--kv: a user that is not understood");
	else
		for (char *u = strtok_r(urls, ",", &save); u; u = strtok_r(NULL, ",", &save)) {
			const char *why = endpoint_refusal(u);

			if (why)
				p->tell(p, "etcd", CHECK_FAIL, "%s: %s", u, why);
			else if (!strncmp(u, ENDPOINT_UNIX, strlen(ENDPOINT_UNIX)))
				p->tell(p, "etcd",
					access(u + strlen(ENDPOINT_UNIX), R_OK | W_OK) ? CHECK_FAIL
										       : CHECK_PASS,
					"%s", u);
			else
				check_url(p, u);
		}
	explicit_bzero(&user, sizeof(user));
	free(urls);
}
