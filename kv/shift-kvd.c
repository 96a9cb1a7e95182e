/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-kvd: the rendezvous of one job on one host, over etcd. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <syslog.h>
#include <time.h>

#include "kv/kvd.h"

static bool to_syslog;

static void vsay(const char *fmt, va_list ap)
{
	char line[2048];

	vsnprintf(line, sizeof(line), fmt, ap);
	if (to_syslog)
		syslog(LOG_WARNING, "%s", line);
	else
		fprintf(stderr, "shift-kvd: %s\n", line);
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
}

void die(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
	exit(status);
}

void say_to_syslog(void)
{
	to_syslog = true;
	openlog("shift-kvd", LOG_PID, LOG_DAEMON);
}

void *need(void *p)
{
	if (!p)
		die(EXIT_FAILED, "out of memory");
	return p;
}

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * (int64_t)1000 + t.tv_nsec / 1000000;
}

/* A socket and a pidfd for each client: more than the usual 1024. */
static void raise_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return;
	l.rlim_cur = l.rlim_max < 8192 ? l.rlim_max : 8192;
	setrlimit(RLIMIT_NOFILE, &l);
}

static void run_daemon(const struct kvd_options *o)
{
	struct kvd k = {.o = *o};
	struct run r;

	if (run_take(&r, o->job) == -EEXIST) {
		if (o->foreground)
			die(EXIT_FAILED, "a shift-kvd of job %s runs here already", o->job);
		return;
	}
	if (!o->foreground)
		run_detach(&r);
	raise_limit();
	k.listen_fd = r.listen_fd;
	k.dir = r.dir;
	crash_sweep(k.dir, 0);
	kv_table_init(&k.store.items, sizeof(struct item));
	session_init(&k);
	kvd_loop(&k);
	crash_sweep(k.dir, 0);
	crash_prune(k.dir);
	run_leave(&r);
	session_free(&k);
	clients_free(&k);
	kv_table_free(&k.store.items);
}

int main(int argc, char **argv)
{
	static char status[] = "shift-kvd: status", etcd[] = "shift-kvd: etcd";
	struct kvd_options o;

	/* Ignored, as some launchers leave it, no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	/* getopt's messages begin with these */
	if (argc > 1 && !strcmp(argv[1], "status")) {
		argv[1] = status;
		return cmd_status(argc - 1, argv + 1);
	}
	if (argc > 1 && !strcmp(argv[1], "etcd")) {
		argv[1] = etcd;
		return cmd_etcd(argc - 1, argv + 1);
	}
	argv[0] = "shift-kvd";
	options_parse(&o, argc, argv);
	run_daemon(&o);
	return EXIT_OK;
}
