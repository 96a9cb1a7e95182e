/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RUNDIR/JOB/PID.something: a file that this process makes for the tools, and what it says there of
 * itself. libshift.so and the libraries that record collectives (collectives/) make theirs alike.
 * libc only, no state; for any thread.
 */
#ifndef SHIFT_STATS_PROCESS_FILE_H
#define SHIFT_STATS_PROCESS_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/*
 * Creates RUNDIR/JOB/PID.ENDING, 0600, and the directories, 0700; one of that name is removed.
 * path gets its name. Returns a descriptor, or a negative errno; -EPERM: a directory is not ours
 * alone.
 */
int process_file_create(char *path, size_t bytes, const char *job, const char *ending);

/* The beginning of a small file; an empty text if it cannot be read. */
void process_read_text(const char *path, char *text, size_t bytes);

/* The command line of this process, its words with blanks between them. */
void process_read_command(char *text, size_t bytes);

/* When this process began: /proc/PID/stat, field 22. A pid may be used again. */
uint64_t process_start_ticks(void);

/* st_ino of /proc/self/ns/pid: whose pid that is. */
uint64_t process_pid_namespace(void);

uint64_t process_clock_ns(clockid_t clock);

#endif
