/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where the statistics of processes are found. For any thread, no lock. */
#ifndef SHIFT_STATS_PLACES_H
#define SHIFT_STATS_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What root spends on each other user in one stats_each(): files and directories of jobs, bytes of
 * memory, and time, that of fn included. */
enum {
	STATS_OTHERS_NAMES = 4096,
	STATS_OTHERS_BYTES = 64 << 20, /* in JSON it takes ten times as much */
	STATS_OTHERS_MS = 5000,
};

/* Valid during the call of fn. */
struct stats_place {
	const char *path, *job;
	pid_t pid;
	uid_t owner; /* of the job's directory: whose the file, its process and its socket must be
		      */
	bool is_crash;
	size_t *kept_bytes; /* fn adds the memory that it goes on using for this file */
};

enum { STATS_CUT_USERS = 8 };

/* What was not looked at. */
struct stats_cut {
	uid_t uid[STATS_CUT_USERS]; /* of these users not everything */
	size_t users;
	bool has_more; /* of others, too */
	int err;       /* -EMFILE, -ENFILE, -ENOMEM: a directory could not be read; or 0 */
};

/*
 * Calls fn for every file of a job (NULL: of all jobs) and of a pid (0: of all), crash records
 * included. It looks in the run directory of this user (lib/base/run_dir.h). Unless that is
 * $SHIFT_RUN_DIR, it also looks, for root, in the run directories of all other users. Jobs of other
 * users are passed over, but not for root, who spends a limited amount on each of them
 * (STATS_OTHERS_*). Crash records come last: a file that becomes one at that moment is found twice
 * rather than never. cut: set to what was left out; may be NULL. Returns how many calls returned
 * true.
 */
size_t stats_each(const char *job, pid_t pid,
		  bool (*fn)(void *arg, const struct stats_place *place), void *arg,
		  struct stats_cut *cut);

/* The same for files with another ending, ".coll" (collectives/coll_file.h). */
size_t stats_each_of_ending(const char *ending, const char *job, pid_t pid,
			    bool (*fn)(void *arg, const struct stats_place *place), void *arg,
			    struct stats_cut *cut);

/* The same as stats_each() for the files of this user only, also for root. */
void stats_each_own(const char *job, bool (*fn)(void *arg, const struct stats_place *place),
		    void *arg);

#endif
