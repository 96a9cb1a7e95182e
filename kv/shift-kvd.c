/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-kvd: the rendezvous of one job on one host, over etcd. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kv/kvd.h"

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
	static const struct cli_command commands[] = {{"status", cmd_status}, {"etcd", cmd_etcd}};
	const char *run_dir = getenv("SHIFT_RUN_DIR");
	struct kvd_options o;
	int status;

	cli_begin("shift-kvd", EXIT_FAILED);
	/* Some launchers leave SIGCHLD ignored: then no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	/* The working directory changes. */
	if (run_dir && *run_dir && setenv("SHIFT_RUN_DIR", absolute_path(run_dir), 1))
		die(EXIT_FAILED, "out of memory");
	if (argc > 1 && cli_run_command(commands, 2, argc, argv, &status))
		return status;
	argv[0] = "shift-kvd"; /* getopt's messages begin with this */
	kvd_options_parse(&o, argc, argv);
	run_daemon(&o);
	return EXIT_OK;
}
