/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Where the processes of a job on this host meet: RUNDIR/JOB has the socket of shift-kvd, and the
 * statistics and the control socket of each process. libshift.so, shift-kvd and the tools agree on
 * it here. libc only, no state, for any thread; nothing is created or looked for.
 *
 * Functions that return int give 0 or a negative errno.
 */
#ifndef SHIFT_BASE_RUN_DIR_H
#define SHIFT_BASE_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_DIR_JOB_MAX = 64 }; /* bytes of a job's name, without NUL */

/* Letters, digits, dot, dash, underscore; 1..RUN_DIR_JOB_MAX of them, not starting with dot or
 * dash. */
bool run_dir_job_is_valid(const char *job, size_t bytes);

/* RUNDIR, of all jobs: $SHIFT_RUN_DIR, or /run/shift (root), or $XDG_RUNTIME_DIR/shift, or
 * /tmp/shift-UID. -ENAMETOOLONG. */
int run_dir_path(char *path, size_t bytes);

/*
 * RUNDIR/JOB. -EINVAL: that is no name for a job. -ENAMETOOLONG: longer than `bytes`, or so long
 * that kvd.sock in it would be no address of a socket.
 */
int run_dir_of_job(char *path, size_t bytes, const char *job);

#endif
