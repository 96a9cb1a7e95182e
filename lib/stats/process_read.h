/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * For readers of RUNDIR/JOB/PID.something (process_file.h): such a file belongs to another process,
 * and for root it may be made by a user who wants to deceive. For any thread, no lock, no state.
 */
#ifndef SHIFT_STATS_PROCESS_READ_H
#define SHIFT_STATS_PROCESS_READ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/stats/read.h"

/* A file of that user, no longer than that, to be read. Does not wait, whatever it is. A
 * descriptor, or a negative errno: -EPERM, another user's; -EBADMSG, no plain file, or longer. */
int process_file_open(uid_t owner, const char *path, off_t bytes_max);

/* Opens it so, calls read() with the descriptor and the owner, and closes it. What that returns, or
 * the error of the opening. */
int process_file_with(uid_t owner, const char *path, off_t bytes_max,
		      int (*read)(int fd, uid_t owner, void *copy), void *copy);

uint64_t process_read_clock_ns(void); /* CLOCK_MONOTONIC */

/* All of them, from there on. 0; -EBADMSG: there are less; another negative errno. */
int process_file_read(int fd, void *to, size_t bytes, uint64_t at);

/* Whose a file is, as its header says. Texts are terminated. */
struct process_claim {
	uint32_t pid;
	uint64_t start_ticks, pid_namespace, closed_ns;
	const char *boot_id, *host;
};

/* Does that process live? 0; -ESRCH: it is another user's; or another negative errno. */
int process_find_life(const struct process_claim *c, uid_t owner, enum stats_life *life);

#endif
