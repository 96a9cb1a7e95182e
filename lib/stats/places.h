/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where the statistics of processes are found. For any thread, no lock. */
#ifndef SHIFT_STATS_PLACES_H
#define SHIFT_STATS_PLACES_H

#include <stdbool.h>
#include <sys/types.h>

/* Valid during the call of fn. */
struct stats_place {
	const char *path, *job;
	pid_t pid;
	uid_t owner; /* of the job's directory: whose the file, its process and its socket must be
		      */
	bool is_crash;
};

/*
 * Calls fn for every file of a job (NULL: of all jobs) and of a pid (0: of all), crash records
 * included. It looks in the run directory of this user (lib/base/run_dir.h). Unless that is
 * $SHIFT_RUN_DIR, it also looks, for root, in the run directories of all other users, at the first
 * 1,024 files of each. Directories of other users are passed over, but not for root. Crash records
 * come last: a file that becomes one at that moment is found twice rather than never. Returns how
 * many calls returned true.
 */
size_t stats_each(const char *job, pid_t pid,
		  bool (*fn)(void *arg, const struct stats_place *place), void *arg);

#endif
