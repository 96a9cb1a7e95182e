/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The child of a fork() has none of our threads, and may have inherited a locked lock. In it every
 * verb is the real one, and what it destroys or resets is no longer ours. Any thread.
 */
#ifndef SHIFT_BASE_FORK_H
#define SHIFT_BASE_FORK_H

#include <stdbool.h>

/* Before the first thread of ours starts; again does nothing. 0 or a negative errno. Not by two
 * threads at once. */
int fork_watch(void);

/* Is this process the child of a fork() that came after fork_watch()? */
bool fork_in_child(void);

/* The same, for a verb of the program: logs a warning the first time. */
bool fork_in_child_warn(void);

#endif
