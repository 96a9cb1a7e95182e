/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The guard of an etcd. The etcd dies with its guard (PR_SET_PDEATHSIG). The guard starts it again
 * if it dies alone, and ends it when none of its leases is a shift-kvd's. Its content need not
 * outlive the job: daemons and processes put their keys again.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv/kvd_etcd.h"

enum {
	START_MS = 20000, /* until etcd answers */
	FIRST_MS = 15000, /* until the first shift-kvd has come */
	CHECK_MS = 1000,
	ASK_MS = 2000,
	DEAF_MS = 60000, /* it lives and does not answer: nobody can use it */
	RESTARTS_MAX = 20,
	STOP_MS = 2000,
	QUOTA_BYTES = 256 << 20,
	LOG_BYTES_MAX = 1 << 20,
};

static pid_t etcd_pid;

static void answer_starter(struct guard *g, const char *prefix, const char *text)
{
	if (g->answer_fd >= 0)
		dprintf(g->answer_fd, "%s%s", prefix, text);
	close(g->answer_fd);
	g->answer_fd = -1;
}

/* ---- etcd's process ------------------------------------------------------------------------ */

/*
 * etcd allocates its log in advance: 128 MB, in memory if the run directory is there. It goes on
 * without where the file system cannot allocate.
 */
static void forbid_fallocate(void)
{
#if defined(__x86_64__)
	const unsigned int arch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
	const unsigned int arch = AUDIT_ARCH_AARCH64;
#else
	const unsigned int arch = 0;
#endif
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static long long quota_bytes(void)
{
	const char *own = getenv("SHIFT_ETCD_QUOTA"); /* tests do not fill all of it */

	return own && *own ? atoll(own) : QUOTA_BYTES;
}

/*
 * Everybody who reaches it can write to it, and its files may be in memory. What a job needs is
 * little: some 500 bytes for each process and GID, and history for a shift-kvd that comes back. The
 * log of requests is kept from one snapshot to the next, in files of 64 MB.
 */
static void become_etcd(const struct guard *g, pid_t parent)
{
	static const char local[] = "unix://" ETCD_SOCKET, peer[] = "unix://" ETCD_PEER_SOCKET;
	char client[LISTENS_MAX * (LISTEN_CHARS + 8) + sizeof(local)] = "", cluster[128], quota[64];
	char *const argv[] = {
		"etcd",
		"--name",
		(char *)g->name,
		"--data-dir",
		(char *)g->data,
		"--listen-client-urls",
		client,
		"--advertise-client-urls",
		(char *)(g->listens ? g->url : local),
		"--listen-peer-urls",
		(char *)peer,
		"--initial-advertise-peer-urls",
		(char *)peer,
		"--initial-cluster",
		cluster,
		quota,
		"--snapshot-count=500",
		"--max-wals=2",
		"--max-snapshots=2",
		"--max-request-bytes=1048576",
		"--auto-compaction-mode=revision",
		"--auto-compaction-retention=1000",
		"--log-level=error",
		NULL,
	};
	/* Nothing else, as variables ETCD_* are options of etcd. etcd 3.4 needs the second one on
	 * arm64. */
	char *const environment[] = {"PATH=/usr/bin:/bin", "ETCD_UNSUPPORTED_ARCH=arm64", NULL};
	int log = open(g->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	sigset_t none;

	for (int i = 0; i < g->listens; i++)
		strcat(strcat(strcat(client, "http://"), g->listen[i]), ",");
	strcat(client, local);
	snprintf(quota, sizeof(quota), "--quota-backend-bytes=%lld", quota_bytes());
	snprintf(cluster, sizeof(cluster), "%s=%s", g->name, peer);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || chdir(g->dir))
		_exit(1);
	dup2(log, 1);
	dup2(log, 2);
	close_range(3, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	forbid_fallocate();
#ifndef __aarch64__
	((char **)environment)[1] = NULL;
#endif
	execve(g->program, argv, environment);
	dprintf(2, "%s: %s\n", g->program, strerror(errno));
	_exit(127);
}

static void remove_in_dir(const struct guard *g, const char *name)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/%s", g->dir, name);
	unlink(path);
}

static void remove_sockets(const struct guard *g)
{
	remove_in_dir(g, ETCD_SOCKET);
	remove_in_dir(g, ETCD_PEER_SOCKET);
}

static void spawn_etcd(struct guard *g)
{
	pid_t parent = getpid();

	remove_sockets(g); /* etcd 3.4 does not listen where a socket of a killed one is left */
	etcd_pid = fork();
	if (!etcd_pid)
		become_etcd(g, parent);
}

static bool etcd_is_running(void)
{
	if (etcd_pid > 0 && waitpid(etcd_pid, NULL, WNOHANG) == 0)
		return true;
	etcd_pid = 0;
	return false;
}

static void stop_etcd(void)
{
	int64_t end = now_ms() + STOP_MS;

	if (!etcd_is_running())
		return;
	kill(etcd_pid, SIGTERM);
	while (etcd_is_running() && now_ms() < end)
		poll(NULL, 0, 10);
	if (!etcd_is_running())
		return;
	kill(etcd_pid, SIGKILL);
	waitpid(etcd_pid, NULL, 0);
}

/* ---- its files ----------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static _Noreturn void guard_leave(const struct guard *g, int status)
{
	stop_etcd();
	unlink(g->url_file);
	nftw(g->data, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	unlink(g->log);
	remove_sockets(g);
	unlink(g->lock);
	rmdir(g->dir); /* shift-kvd may have its files there */
	_exit(status);
}

static void last_line(const struct guard *g, char *line, size_t size)
{
	FILE *f = fopen(g->log, "re");
	char next[512];

	snprintf(line, size, "its log is empty");
	while (f && fgets(next, sizeof(next), f)) {
		next[strcspn(next, "\n")] = 0;
		if (*next)
			snprintf(line, size, "%s", next);
	}
	if (f)
		fclose(f);
}

static void publish_url(struct guard *g)
{
	char temporary[PATH_MAX + 4];
	int fd;

	snprintf(temporary, sizeof(temporary), "%s.new", g->url_file);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, g->url, strlen(g->url)) < 0 || rename(temporary, g->url_file)) {
		answer_starter(g, "!cannot write ", g->url_file);
		guard_leave(g, EXIT_FAILED);
	}
	close(fd);
	answer_starter(g, "", g->url);
}

/* ---- from the start to the end ------------------------------------------------------------- */

static void guard_wait_for_etcd(struct guard *g)
{
	int64_t end = now_ms() + START_MS;
	char line[600], text[640];

	for (;; poll(NULL, 0, 20)) {
		bool runs = etcd_is_running();

		if (runs && etcd_is(g->local_url, g->name, ASK_MS))
			return;
		/* Another etcd has taken this port a moment earlier. It is not ours to end. */
		if (!runs && g->listens && !etcd_port_refusal(g, ASK_MS)) {
			answer_starter(g, "", g->url);
			guard_leave(g, EXIT_OK);
		}
		if (runs && now_ms() < end)
			continue;
		last_line(g, line, sizeof(line));
		snprintf(text, sizeof(text), "!etcd %s: ", runs ? "does not answer" : "ended");
		answer_starter(g, text, line);
		guard_leave(g, EXIT_FAILED);
	}
}

/* Ends etcd if no shift-kvd uses it, and none looks up its address at this moment. */
static void end_if_unused(const struct guard *g)
{
	int fd = lock_file(g->url_file, LOCK_EX, 0);

	if (fd >= 0 && etcd_presences(g->local_url, false, ASK_MS) == 0)
		guard_leave(g, EXIT_OK);
	close(fd);
}

/* A shift-kvd of this host may live although its lease is gone: with the network down, all lose
 * etcd. */
static bool kvd_is_here(const struct guard *g)
{
	int fd = open(g->kvd_lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	bool is_taken = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return is_taken;
}

/* Whoever reaches etcd can make it complain. It appends, so it goes on at the beginning. */
static void bound_log(const struct guard *g)
{
	struct stat st;

	if (!stat(g->log, &st) && st.st_size > LOG_BYTES_MAX && truncate(g->log, 0))
		say("%s: %s", g->log, strerror(errno));
}

static int64_t deaf_ms(void)
{
	const char *own = getenv("SHIFT_ETCD_DEAF_MS"); /* tests do not wait for a minute */

	return own && *own ? atoll(own) : DEAF_MS;
}

static void watch_etcd(struct guard *g, int signal_fd)
{
	struct pollfd p = {.fd = signal_fd, .events = POLLIN};
	int64_t used_ms = now_ms() + (g->grace_ms < FIRST_MS ? FIRST_MS - g->grace_ms : 0);
	int64_t heard_ms = now_ms(), deaf_max_ms = deaf_ms();
	int restarts = 0, n;

	while (poll(&p, 1, CHECK_MS) <= 0) {
		if (!etcd_is_running() && restarts++ < RESTARTS_MAX)
			spawn_etcd(g);
		bound_log(g);
		n = etcd_presences(g->local_url, false, ASK_MS);
		if (n >= 0)
			heard_ms = now_ms();
		if (n > 0)
			used_ms = now_ms();
		if (n == 0 && now_ms() - used_ms >= g->grace_ms && !kvd_is_here(g))
			end_if_unused(g);
		if (now_ms() - heard_ms > deaf_max_ms)
			guard_leave(g, EXIT_FAILED);
	}
	guard_leave(g, EXIT_OK);
}

/* Closes all descriptors but the lock and the answer. The working directory becomes /, which is
 * never unmounted. */
static void guard_detach(struct guard *g)
{
	int null = open("/dev/null", O_RDWR), low = 3, high = 4;

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	/* high ones first: neither is overwritten before it is copied */
	g->lock_fd = fcntl(g->lock_fd, F_DUPFD_CLOEXEC, 100);
	g->answer_fd = fcntl(g->answer_fd, F_DUPFD_CLOEXEC, 100);
	low = g->lock_fd < g->answer_fd ? g->lock_fd : g->answer_fd;
	high = g->lock_fd < g->answer_fd ? g->answer_fd : g->lock_fd;
	close_range(3, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0U, 0);
	if (chdir("/"))
		_exit(EXIT_FAILED);
	messages_to_syslog();
}

static int guard_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_SETMASK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static void name_it(struct guard *g)
{
	uint64_t n;

	if (getrandom(&n, sizeof(n), 0) != sizeof(n))
		n = now_ms();
	snprintf(g->name, sizeof(g->name), "shift-%016" PRIx64, n);
}

_Noreturn void guard_run(struct guard *g)
{
	int signal_fd;

	guard_detach(g);
	signal_fd = guard_signals();
	nftw(g->data, remove_one, 8, FTW_DEPTH | FTW_PHYS); /* of a guard that was killed */
	unlink(g->url_file);
	unlink(g->log);
	name_it(g);
	spawn_etcd(g);
	guard_wait_for_etcd(g);
	publish_url(g);
	watch_etcd(g, signal_fd);
	_exit(EXIT_OK);
}
