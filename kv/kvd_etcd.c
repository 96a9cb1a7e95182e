/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv/kvd_etcd.h"

enum {
	OTHER_MS = 20000,  /* for a guard that is just starting its etcd, or ending it */
	TAKEN_MS = 10000,  /* for what has the port to answer: an etcd that starts takes a while */
	NONSENSE_MS = 500, /* but if it answers something else */
	JOIN_S = 10,
};

/* ---- questions to etcd --------------------------------------------------------------------- */

struct question {
	bool done, is_etcd, is_other;
	int presences;
};

static void on_leases(void *arg, const cJSON *reply, int code, const char *text)
{
	struct question *q = arg;
	const cJSON *lease;

	q->done = true;
	q->is_other = code == ETCD_NO_ANSWER && strstr(text, ETCD_NO_JSON);
	/* One with users and passwords, or whose certificate is asked for, is one all the same. */
	q->is_etcd = code > 0 ||
		     cJSON_GetObjectItem(cJSON_GetObjectItem(reply, "header"), "cluster_id");
	cJSON_ArrayForEach (lease, cJSON_GetObjectItem(reply, "leases"))
		q->presences += etcd_is_presence_lease(etcd_int(lease, "ID"));
}

static void on_joined(void *arg, const cJSON *reply, int code, const char *text)
{
	(void)arg;
	(void)reply;
	(void)code;
	(void)text;
}

struct member {
	const char *name;
	bool done, is_it;
};

static void on_members(void *arg, const cJSON *reply, int code, const char *text)
{
	struct member *m = arg;
	const cJSON *list = cJSON_GetObjectItem(reply, "members");
	const char *name = cJSON_GetStringValue(
		cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "name"));

	(void)code;
	(void)text;
	m->done = true;
	m->is_it = name && !strcmp(name, m->name);
}

static struct question ask(const char *url, bool join, int timeout_ms)
{
	struct etcd_options o = {.endpoint = {url}, .endpoints = 1, .timeout_ms = timeout_ms};
	struct etcd *e = check_alloc(etcd_new(&o));
	struct question q = {0};
	cJSON *body;

	if (join) {
		body = cJSON_CreateObject();
		etcd_add_int(body, "TTL", JOIN_S);
		etcd_add_int(body, "ID", etcd_presence_lease());
		etcd_post(e, "/v3/lease/grant", body, on_joined, NULL);
	}
	etcd_post(e, "/v3/lease/leases", cJSON_CreateObject(), on_leases, &q);
	while (!q.done)
		etcd_wait(e, NULL, 0, timeout_ms);
	etcd_free(e);
	return q;
}

bool etcd_answers(const char *url, int timeout_ms)
{
	int64_t begun = now_ms();

	for (;;) {
		struct question q = ask(url, false, 1000);
		int64_t waited = now_ms() - begun;

		if (q.is_etcd)
			return true;
		if (waited >= timeout_ms || (q.is_other && waited >= NONSENSE_MS))
			return false;
		poll(NULL, 0, 50);
	}
}

bool etcd_is(const char *url, const char *name, int timeout_ms)
{
	struct etcd_options o = {.endpoint = {url}, .endpoints = 1, .timeout_ms = timeout_ms};
	struct etcd *e = check_alloc(etcd_new(&o));
	struct member m = {.name = name};

	etcd_post(e, "/v3/cluster/member/list", cJSON_CreateObject(), on_members, &m);
	while (!m.done)
		etcd_wait(e, NULL, 0, timeout_ms);
	etcd_free(e);
	return m.is_it;
}

int etcd_presences(const char *url, bool join, int timeout_ms)
{
	struct question q = ask(url, join, timeout_ms);

	return q.is_etcd ? q.presences : -1;
}

/* ---- the options --------------------------------------------------------------------------- */

static const char help[] =
	"usage: shift-kvd etcd [--job NAME] [--listen ADDRESS[:PORT]] [options]\n"
	"Starts an etcd for a job, and prints its address. It ends when no shift-kvd uses it.\n"
	"Prints the address of the one that runs already, if there is one.\n"
	"\n"
	"  -J, --job NAME        default: $SHIFT_JOB, or \"default\"\n"
	"  -l, --listen ADDRESS[:PORT]  default: 127.0.0.1, and a free port\n"
	"  -a, --advertise URL   how others reach it; default: http://ADDRESS:PORT\n"
	"  -g, --grace TIME      so long after the last shift-kvd; default: 10s\n"
	"      --help\n";

/* "1.2.3.4", "1.2.3.4:5", "[::1]", "[::1]:5"; only numbers. Without a port: a free one. To be
 * freed. */
static struct addrinfo *parse_listen(const char *words)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				 .ai_socktype = SOCK_STREAM};
	int bracket = *words == '[';
	size_t n = strcspn(words, bracket ? "]" : ":");
	const char *rest = words + n + (words[n] == ']');
	struct addrinfo *a = NULL;
	char address[64];

	snprintf(address, sizeof(address), "%.*s", (int)n - bracket, words + bracket);
	if ((*rest && *rest != ':') || getaddrinfo(address, *rest ? rest + 1 : "0", &hints, &a))
		die(EXIT_BAD_USAGE, "--listen %s: not ADDRESS[:PORT], in numbers", words);
	return a;
}

/* Sets g->listen: what can be bound, also where that fails now. 0 or a negative errno. */
static int try_bind(struct guard *g, const struct addrinfo *a)
{
	char port[8] = "", host[64] = "";
	struct sockaddr_storage bound;
	socklen_t bytes = a->ai_addrlen;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, err;

	memcpy(&bound, a->ai_addr, bytes);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	err = bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1) ? -errno : 0;
	if (!err)
		getsockname(fd, (struct sockaddr *)&bound, &bytes);
	getnameinfo((struct sockaddr *)&bound, bytes, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(g->listen, sizeof(g->listen), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	if (fd >= 0)
		close(fd);
	return err;
}

static bool begins(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool is_free(const char *words)
{
	struct addrinfo *a = parse_listen(words);
	struct guard g;
	int err = try_bind(&g, a);

	freeaddrinfo(a);
	return !err;
}

bool etcd_set_local(struct guard *g)
{
	bool is_all = begins(g->listen, "0.0.0.0:") || begins(g->listen, "[::]:");
	bool is_local = begins(g->listen, "127.") || begins(g->listen, "[::1]:");
	char here[32];
	bool too;

	snprintf(here, sizeof(here), "127.0.0.1%s", strrchr(g->listen, ':'));
	too = !is_all && !is_local && is_free(here); /* else it is another etcd's */
	snprintf(g->local_url, sizeof(g->local_url), "http://%s", is_all || too ? here : g->listen);
	return too;
}

static void set_file(char path[PATH_MAX], const struct guard *g, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", g->dir, name) >= PATH_MAX)
		die(EXIT_BAD_USAGE, "%s: too long a path", g->dir);
}

static void set_paths(struct guard *g)
{
	run_directory(g->dir, g->job);
	set_file(g->lock, g, "etcd.lock");
	set_file(g->url_file, g, "etcd.url");
	set_file(g->log, g, "etcd.log");
	set_file(g->data, g, "etcd");
	set_file(g->kvd_lock, g, "kvd.lock");
}

/* ---- one per job and host ------------------------------------------------------------------ */

int lock_file(const char *path, int operation, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	struct stat held, named;

	if (fd < 0)
		return -1;
	if (!flock(fd, operation | LOCK_NB) && !fstat(fd, &held) && !stat(path, &named) &&
	    held.st_ino == named.st_ino)
		return fd;
	close(fd);
	return -1;
}

/* The one that runs: its address, kept alive until a shift-kvd has come. */
static bool join_other(struct guard *g, const char *wanted)
{
	char url[sizeof(g->url)] = "";
	int fd = lock_file(g->url_file, LOCK_SH, 0);
	bool there;

	if (fd < 0)
		return false;
	if (read(fd, url, sizeof(url) - 1) < 0)
		*url = 0;
	if (*url && *wanted && strcmp(url, wanted))
		die(EXIT_FAILED, "job %s has an etcd at %s here already", g->job, url);
	there = *url && etcd_presences(url, true, 2000) >= 0;
	close(fd);
	if (there)
		puts(url);
	return there;
}

static bool find_program(char path[PATH_MAX])
{
	const char *own = getenv("PATH");
	char *all, *save = NULL;
	bool found = false;

	if (asprintf(&all, "%s:/usr/local/bin:/usr/bin:/usr/sbin", own ? own : "") < 0)
		check_alloc(NULL);
	for (char *p = strtok_r(all, ":", &save); p && !found; p = strtok_r(NULL, ":", &save))
		found = *p == '/' && snprintf(path, PATH_MAX, "%s/etcd", p) < PATH_MAX &&
			!access(path, X_OK);
	free(all);
	return found;
}

static void leave(const struct guard *g)
{
	unlink(g->lock);
	rmdir(g->dir);
}

/* Another etcd may have that port: any is good. True: it does. */
static bool check_port(struct guard *g, int err)
{
	if (!err)
		return false;
	if (err == -EADDRINUSE && etcd_answers(g->url, TAKEN_MS))
		return true;
	leave(g);
	if (err == -EADDRINUSE)
		die(EXIT_FAILED,
		    "%s is in use by something that is no etcd; another port is needed", g->listen);
	die(EXIT_FAILED, "%s: %s", g->listen, strerror(-err));
}

static int free_port(void)
{
	struct addrinfo *a = parse_listen("127.0.0.1");
	struct guard g;
	int err = try_bind(&g, a);

	freeaddrinfo(a);
	return err ? 0 : atoi(strrchr(g.listen, ':') + 1);
}

/* What the guard says first. */
static int wait_for_answer(int fd)
{
	char line[1024];
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, line + n, sizeof(line) - 1 - n)) > 0)
		n += got;
	line[n] = 0;
	if (n && *line != '!') {
		puts(line);
		return fflush(stdout) ? EXIT_FAILED : EXIT_OK;
	}
	say("%s", n ? line + 1 : "the guard of etcd ended without a word");
	return EXIT_FAILED;
}

static int start(struct guard *g)
{
	int p[2], status;
	pid_t pid;

	if (!find_program(g->program)) {
		leave(g);
		die(EXIT_FAILED, "etcd is not installed; try: apt-get install etcd-server");
	}
	g->peer_port = free_port();
	if (pipe2(p, O_CLOEXEC) || (pid = fork()) < 0)
		die(EXIT_FAILED, "cannot fork: %s", strerror(errno));
	if (!pid) {
		setsid();
		pid = fork();
		if (pid)
			_exit(pid < 0 ? EXIT_FAILED : EXIT_OK);
		g->answer_fd = p[1];
		guard_run(g);
	}
	close(p[1]);
	close(g->lock_fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return wait_for_answer(p[0]);
}

static int find_or_start(struct guard *g, const struct addrinfo *listen_on, const char *advertise)
{
	int64_t end = now_ms() + OTHER_MS;
	int err;

	for (;; poll(NULL, 0, 50)) {
		set_paths(g);
		g->lock_fd = lock_file(g->lock, LOCK_EX, O_CREAT);
		if (g->lock_fd >= 0)
			break;
		if (join_other(g, advertise))
			return EXIT_OK;
		if (now_ms() > end)
			die(EXIT_FAILED, "the etcd of job %s here does not answer; see %s", g->job,
			    g->log);
	}
	err = try_bind(g, listen_on);
	snprintf(g->url, sizeof(g->url), *advertise ? "%s" : "http://%s",
		 *advertise ? advertise : g->listen);
	if (!check_port(g, err))
		return start(g);
	leave(g);
	puts(g->url);
	return EXIT_OK;
}

int cmd_etcd(int argc, char **argv)
{
	static const struct option options[] = {
		{"job", required_argument, NULL, 'J'},
		{"listen", required_argument, NULL, 'l'},
		{"advertise", required_argument, NULL, 'a'},
		{"grace", required_argument, NULL, 'g'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *job = getenv("SHIFT_JOB"), *listen_on = "127.0.0.1", *advertise = "";
	static struct guard g = {.grace_ms = 10000};
	struct addrinfo *a;
	int c, status;

	while ((c = getopt_long(argc, argv, "J:l:a:g:h", options, NULL)) != -1) {
		switch (c) {
		case 'J': job = optarg; break;
		case 'l': listen_on = optarg; break;
		case 'a': advertise = optarg; break;
		case 'g': g.grace_ms = option_ms("grace", optarg, 0); break;
		case 'h': print_and_exit(help);
		default: return EXIT_BAD_USAGE;
		}
	}
	if (optind < argc)
		die(EXIT_BAD_USAGE, "etcd takes no %s", argv[optind]);
	job = job && *job ? job : "default";
	if (!kv_job_is_valid(job, strlen(job)))
		die(EXIT_BAD_USAGE, "%s is no name for a job", job);
	if (*advertise && (strncmp(advertise, "http://", 7) || strlen(advertise) >= sizeof(g.url)))
		die(EXIT_BAD_USAGE, "--advertise %s: not http://HOST:PORT", advertise);
	strcpy(g.job, job);
	a = parse_listen(listen_on);
	status = find_or_start(&g, a, advertise);
	freeaddrinfo(a);
	return status;
}
