/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Where the processes of a job on this host meet: RUNDIR/JOB has the socket of shift-kvd, and the
 * statistics and the control socket of each process. libshift.so, shift-kvd and the tools take the
 * path from here. Needs libc only, has no state, and may be called by any thread. It creates
 * nothing, and the path need not exist.
 *
 * Functions that return int return 0 or a negative errno.
 */
#ifndef SHIFT_BASE_RUN_DIR_H
#define SHIFT_BASE_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_DIR_JOB_MAX = 64 }; /* bytes of a job's name, without NUL */

/* Is this a name for a job? It has 1 to RUN_DIR_JOB_MAX letters, digits, dots, dashes and
 * underscores, and does not begin with a dot or a dash. */
bool run_dir_job_is_valid(const char *job, size_t bytes);

/*
 * RUNDIR, the directory of all jobs: $SHIFT_RUN_DIR, or /run/shift for root. For another user it is
 * the first of $XDG_RUNTIME_DIR/shift (if that is absolute), /run/user/UID/shift, /tmp/shift-UID
 * and /var/tmp/shift-UID that is this user's own directory and closed to others' writing; or the
 * first of them that can be made, if none is there. -ENAMETOOLONG. -EPERM: others have all of them.
 */
int run_dir_path(char *path, size_t bytes);

/* What to tell the user about an error of these functions. */
const char *run_dir_problem(int err);

/*
 * RUNDIR/JOB. Errors as of run_dir_path(). -EINVAL: that is no name for a job. -ENAMETOOLONG: the
 * path is longer than `bytes`, or so long that kvd.sock in it does not fit the address of a socket.
 */
int run_dir_of_job(char *path, size_t bytes, const char *job);

#endif
