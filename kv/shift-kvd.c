/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-kvd: the rendezvous of one job on one host, over etcd. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

/* The job key is in it: it goes to no core file, and to no swap if that is allowed. */
static struct kvd *make_kvd(struct kvd_options *o)
{
	struct kvd *k = mmap(NULL, sizeof(*k), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	if (k == MAP_FAILED)
		check_alloc(NULL);
	if (madvise(k, sizeof(*k), MADV_DONTDUMP))
		say("the job key may get into a core file: %s", strerror(errno));
	mlock(k, sizeof(*k));
	k->o = *o;
	explicit_bzero(o->job_key, sizeof(o->job_key));
	return k;
}

static void free_kvd(struct kvd *k)
{
	explicit_bzero(k, sizeof(*k));
	munmap(k, sizeof(*k));
}

static void serve_job(struct kvd *k, struct run *r)
{
	raise_limit();
	k->listen_fd = r->listen_fd;
	k->dir = r->dir;
	crash_sweep(k->dir);
	clients_init(k);
	watch_init(k);
	store_init(k);
	subs_init(k);
	session_init(k);
	kvd_loop(k);
	crash_finish(k->dir);
	run_leave(r);
	session_free(k);
	clients_free(k);
	subs_free(k);
	on_switch_free(k);
	kv_table_free(&k->store.items);
}

static void run_daemon(struct kvd_options *o)
{
	struct kvd *k;
	struct run r;

	/* No other process of this user reads the job key from our memory, and no core file has
	 * it. */
	if (prctl(PR_SET_DUMPABLE, 0))
		say("cannot forbid core files (%s): one would contain the job key",
		    strerror(errno));
	if (run_take(&r, o->job) == -EEXIST) {
		if (o->foreground)
			die(EXIT_FAILED, "a shift-kvd of job %s runs here already", o->job);
		if (o->on_switch)
			say("--on-switch: a shift-kvd of job %s runs here already: this command is "
			    "not run",
			    o->job);
		return;
	}
	if (!o->foreground)
		run_detach(&r);
	k = make_kvd(o);
	serve_job(k, &r);
	free_kvd(k);
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
