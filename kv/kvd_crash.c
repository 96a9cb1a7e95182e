/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A process that ends removes its statistics and control socket; one that crashes cannot. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collectives/coll_read.h"
#include "lib/stats/epoch_read.h"
#include "lib/stats/files_in.h"
#include "kv/kvd.h"
#include "lib/stats/read.h"

enum {
	MISSED_MAX = 4096,
	PRUNE_MS = 2000, /* at the end */
};

static bool has_new;

/* Processes that have died, and whose statistics were not where their pid says. */
static uint64_t missed[MISSED_MAX];
static size_t missed_count;

/*
 * A record's process has said where its report will be made: anywhere, also on a file server that
 * does not answer any more. So a child looks, for which nothing waits.
 */
static pid_t pruner;

/* PID-TIME.stats, PID-TIME.mpi.coll: TIME, of the death. */
static unsigned long long time_of(const char *path)
{
	const char *name = strrchr(path, '/') + 1, *dash = strchr(name, '-');

	return dash ? strtoull(dash + 1, NULL, 10) : 0;
}

static int newest_first(const void *a, const void *b)
{
	unsigned long long x = time_of(*(char *const *)a), y = time_of(*(char *const *)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

/* A shift-run will make a report of it. */
static bool is_awaited(const char *path)
{
	struct stats_copy copy;

	return !stats_read_header(path, &copy) && *copy.h.report_dir &&
	       !access(copy.h.report_dir, F_OK);
}

static void prune_files(const char *dir, const char *pattern, size_t kept)
{
	glob_t g;

	if (!glob_files_in(dir, pattern, GLOB_NOSORT, &g)) {
		qsort(g.gl_pathv, g.gl_pathc, sizeof(*g.gl_pathv), newest_first);
		for (size_t i = kept; i < g.gl_pathc; i++)
			if (!is_awaited(g.gl_pathv[i]))
				unlink(g.gl_pathv[i]);
	}
	globfree(&g);
}

static void prune_records(const char *dir)
{
	prune_files(dir, "crash/*.stats", CRASHES_KEPT);
	prune_files(dir, "crash/*.mpi" COLL_ENDING, COLLS_KEPT);
	prune_files(dir, "crash/*.nccl" COLL_ENDING, COLLS_KEPT);
	prune_files(dir, "crash/*" EPOCH_ENDING, EPOCHS_KEPT);
}

static bool pruner_is_busy(void)
{
	if (pruner > 0 && !waitpid(pruner, NULL, WNOHANG))
		return true;
	pruner = 0;
	return false;
}

void crash_prune(const char *dir)
{
	if (missed_count)
		crash_sweep(dir);
	if (pruner_is_busy() || !has_new)
		return;
	has_new = false;
	pruner = fork();
	if (pruner)
		return;
	close_range(0, ~0U, 0); /* it must not keep the lock, nor a client's connection */
	prune_records(dir);
	_exit(EXIT_OK);
}

void crash_finish(const char *dir)
{
	int64_t end = now_ms() + PRUNE_MS;

	crash_sweep(dir);
	for (crash_prune(dir); (has_new || pruner_is_busy()) && now_ms() < end; crash_prune(dir))
		poll(NULL, 0, 5);
}

/* The pid in the name tells two processes apart that died in the same microsecond. */
static void keep_crash(const char *dir, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char to[PATH_MAX];
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	snprintf(to, sizeof(to), "%s/crash", dir);
	if (mkdir(to, 0700) && errno != EEXIST)
		say("cannot create %s: %s", to, strerror(errno));
	snprintf(to, sizeof(to), "%s/crash/%.*s-%lld%s", dir, (int)strcspn(name, "."), name,
		 t.tv_sec * 1000000LL + t.tv_nsec / 1000, strchrnul(name, '.'));
	if (rename(path, to) && errno != ENOENT) {
		say("no crash record is made of %s: %s", path, strerror(errno));
		unlink(path);
	}
}

static bool is_missed(uint64_t nonce)
{
	for (size_t i = 0; nonce && i < missed_count; i++)
		if (missed[i] == nonce)
			return true;
	return false;
}

/* A process of another container is known to be dead only because its connection, with this nonce,
 * has closed. */
static bool is_dead(const char *path, uint64_t nonce)
{
	struct stats_copy copy;

	if (stats_read_header(path, &copy))
		return false;
	return copy.life == STATS_DEAD ||
	       /* A process that has ended is about to remove its file, unless it died while doing
		* so. */
	       (copy.life == STATS_ENDED && kill((pid_t)copy.h.pid, 0) && errno == ESRCH) ||
	       (copy.life == STATS_UNKNOWN &&
		((nonce && copy.h.nonce == nonce) || is_missed(copy.h.nonce)));
}

static bool is_dead_coll(const char *path)
{
	struct coll_copy copy;

	return !coll_read_header_of(geteuid(), path, &copy) && copy.life == STATS_DEAD;
}

static bool is_dead_epochs(const char *path)
{
	struct epoch_copy copy;

	return !epoch_read_header_of(geteuid(), path, &copy) && copy.life == STATS_DEAD;
}

static void bury_each(const char *dir, const char *pattern, bool (*has_died)(const char *path))
{
	glob_t g;

	if (!glob_files_in(dir, pattern, GLOB_NOSORT, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			if (has_died(g.gl_pathv[i])) {
				keep_crash(dir, g.gl_pathv[i]);
				has_new = true;
			}
	globfree(&g);
}

/* Collectives and traffic, which lie beside statistics, or alone: not every process opens an RDMA
 * device. One of another container that has no statistics stays until it is removed with the
 * directory. process: "PID.", or "" for all. */
static void bury_others(const char *dir, const char *process)
{
	char pattern[64];

	snprintf(pattern, sizeof(pattern), "%s*" COLL_ENDING, process);
	bury_each(dir, pattern, is_dead_coll);
	snprintf(pattern, sizeof(pattern), "%s*%s", process, EPOCH_ENDING + 1);
	bury_each(dir, pattern, is_dead_epochs);
}

static bool bury_process(const char *dir, const char *stats, uint64_t nonce)
{
	char path[PATH_MAX];

	if (!is_dead(stats, nonce))
		return false;
	keep_crash(dir, stats);
	has_new = true;
	snprintf(path, sizeof(path), "%.*s.sock", (int)(strlen(stats) - strlen(".stats")), stats);
	unlink(path);
	return true;
}

void crash_sweep(const char *dir)
{
	glob_t g;

	if (!glob_files_in(dir, "*.stats", GLOB_NOSORT, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			bury_process(dir, g.gl_pathv[i], 0);
	globfree(&g);
	bury_others(dir, "");
	missed_count = 0;
	has_new = true; /* a report may have been made meanwhile */
}

void crash_record(const char *dir, pid_t pid, uint64_t nonce)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d.stats", dir, pid);
	if (bury_process(dir, path, nonce)) {
		snprintf(path, sizeof(path), "%d.", pid);
		bury_others(dir, path);
		return;
	}
	/* It is a container's, where it has another number. One look at the directory for all. */
	if (missed_count == MISSED_MAX)
		crash_sweep(dir);
	missed[missed_count++] = nonce;
}
