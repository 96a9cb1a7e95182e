/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv/endpoint.h"
#include "kv/kvd_etcd.h"

enum {
	OTHER_MS = 20000, /* for a guard that is just starting its etcd, or ending it */
	TAKEN_MS = 10000, /* for the owner of the port to answer: it may be an etcd that starts */
};

/* ---- the options --------------------------------------------------------------------------- */

static const char help[] =
	"usage: shift-kvd etcd [--job NAME] [--listen ADDRESS[:PORT][,...]] [options]\n"
	"Starts an etcd for a job, and prints its address. It ends when no shift-kvd uses it.\n"
	"Prints the address of the one that runs already, if there is one.\n"
	"\n"
	"  -J, --job NAME        default: $SHIFT_JOB, or \"default\"\n"
	"  -l, --listen ADDRESS[:PORT][,...]  default: only at a socket that this user and root "
	"reach\n"
	"  -a, --advertise URL   how others reach that; default: http://ADDRESS:PORT, the first\n"
	"  -g, --grace TIME      so long after the last shift-kvd; default: 10s\n"
	"      --help\n";

static void set_file(char path[PATH_MAX], const struct guard *g, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", g->dir, name) >= PATH_MAX)
		die(EXIT_BAD_USAGE, "%s: too long a path", g->dir);
}

static void set_guard_paths(struct guard *g)
{
	run_directory(g->dir, g->job);
	set_file(g->lock, g, "etcd.lock");
	set_file(g->url_file, g, "etcd.url");
	set_file(g->log, g, "etcd.log");
	set_file(g->data, g, "etcd");
	set_file(g->kvd_lock, g, "kvd.lock");
	snprintf(g->local_url, sizeof(g->local_url), "%s%s/%s", ENDPOINT_UNIX, g->dir, ETCD_SOCKET);
}

/* ---- one per job and host ------------------------------------------------------------------ */

/* Prints the address of the etcd that runs, and keeps it alive until a shift-kvd has connected. */
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
	there = *url && etcd_presences(g->local_url, true, 2000) >= 0;
	close(fd);
	if (there)
		puts(shown(url));
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

static void leave_lock(const struct guard *g)
{
	unlink(g->lock);
	rmdir(g->dir);
}

static _Noreturn void refuse_port(const struct guard *g, const char *why)
{
	leave_lock(g);
	die(EXIT_FAILED, "%s", why);
}

static void leave_address_out(struct guard *g, struct addrinfo **listen_on, int i)
{
	freeaddrinfo(listen_on[i]);
	g->listens--;
	memmove(listen_on + i, listen_on + i + 1, (g->listens - i) * sizeof(*listen_on));
}

/* Returns how many of them others have, and where that is. An address that cannot be listened at
 * cannot be taken by others either: the rest will do. */
static int try_ports(struct guard *g, struct addrinfo **listen_on, int *at)
{
	int taken = 0;

	for (int i = 0; i < g->listens;) {
		int err = etcd_try_bind(g->listen[i], listen_on[i]);
		bool is_missing = err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT;

		if (is_missing && g->listens > 1) {
			say("%s: %s: it is left out", g->listen[i], strerror(-err));
			leave_address_out(g, listen_on, i);
			continue;
		}
		if (err && err != -EADDRINUSE)
			refuse_port(g, format_text("%s: %s", g->listen[i], strerror(-err)));
		taken += err != 0;
		*at = err ? i : *at;
		i++;
	}
	return taken;
}

/*
 * True: another etcd has these ports, and is as good as ours. It must have all of them: others
 * could listen at the rest.
 */
static bool check_ports(struct guard *g, struct addrinfo **listen_on)
{
	const char *why = NULL;
	int at = 0, taken = try_ports(g, listen_on, &at);

	if (taken == g->listens)
		why = taken ? etcd_port_refusal(g, TAKEN_MS) : NULL;
	else if (taken)
		why = etcd_owner_refusal(g->listen[at]);
	if (taken && taken < g->listens && !why)
		why = format_text(
			"%s is in use, by something that does not listen at all "
			"addresses of that host; another port is needed, or start@ADDRESS",
			g->listen[at]);
	if (why)
		refuse_port(g, why);
	return taken;
}

/* Prints the address that the guard reports, or its error. */
static int wait_for_answer(int fd)
{
	char line[1024];
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, line + n, sizeof(line) - 1 - n)) > 0)
		n += got;
	line[n] = 0;
	if (n && *line != '!') {
		puts(shown(line));
		return fflush(stdout) ? EXIT_FAILED : EXIT_OK;
	}
	say("%s", n ? line + 1 : "the guard of etcd ended without a message");
	return EXIT_FAILED;
}

static int start_guard(struct guard *g)
{
	int p[2], status;
	pid_t pid;

	if (!find_program(g->program)) {
		leave_lock(g);
		die(EXIT_FAILED, "etcd is not installed; try: apt-get install etcd-server");
	}
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

/* Ends the process if others have the port. True: an etcd there is as good as one of ours. */
static bool take_ports(struct guard *g, struct addrinfo **listen_on, const char *advertise)
{
	bool is_there = check_ports(g, listen_on);

	if (*advertise)
		snprintf(g->url, sizeof(g->url), "%s", advertise);
	else if (g->listens)
		snprintf(g->url, sizeof(g->url), "http://%s", g->listen[0]);
	else
		snprintf(g->url, sizeof(g->url), "%.*s", (int)sizeof(g->url) - 1, g->local_url);
	return is_there;
}

static int find_or_start(struct guard *g, struct addrinfo **listen_on, const char *advertise)
{
	int64_t end = now_ms() + OTHER_MS;

	for (;; poll(NULL, 0, 50)) {
		set_guard_paths(g);
		g->lock_fd = lock_file(g->lock, LOCK_EX, O_CREAT);
		if (g->lock_fd >= 0)
			break;
		if (join_other(g, advertise))
			return EXIT_OK;
		if (now_ms() > end)
			die(EXIT_FAILED, "the etcd of job %s here does not answer; see %s", g->job,
			    g->log);
	}
	if (!take_ports(g, listen_on, advertise))
		return start_guard(g);
	leave_lock(g);
	puts(g->url);
	return EXIT_OK;
}

/* words: changed. */
static void parse_listens(struct guard *g, struct addrinfo **listen_on, char *words)
{
	char *save = NULL;

	for (char *s = strtok_r(words, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		if (g->listens == LISTENS_MAX)
			die(EXIT_BAD_USAGE, "--listen: more than %d addresses", LISTENS_MAX);
		listen_on[g->listens++] = etcd_parse_listen(s);
	}
	if (!g->listens)
		die(EXIT_BAD_USAGE, "--listen: no address");
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
	const char *job = getenv("SHIFT_JOB"), *advertise = "";
	static struct guard g = {.grace_ms = 10000};
	struct addrinfo *listen_on[LISTENS_MAX];
	char *listens = NULL;
	int c, status;

	while ((c = getopt_long(argc, argv, "J:l:a:g:h", options, NULL)) != -1) {
		switch (c) {
		case 'J': job = optarg; break;
		case 'l': listens = optarg; break;
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
	if (*advertise && !listens)
		die(EXIT_BAD_USAGE, "--advertise is for --listen");
	if (listens)
		parse_listens(&g, listen_on, listens);
	status = find_or_start(&g, listen_on, advertise);
	for (int i = 0; i < g.listens; i++)
		freeaddrinfo(listen_on[i]);
	return status;
}
