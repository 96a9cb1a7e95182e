/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The child of a fork() has none of our threads, and may have inherited a locked lock. So in the
 * child every verb is the real one, and what the child destroys or resets is no longer ours. Any
 * thread, any locks held, unless stated.
 */
#ifndef SHIFT_BASE_FORK_H
#define SHIFT_BASE_FORK_H

#include <stdbool.h>

/* To be called before the first thread of ours starts; calling it again does nothing. 0 or a
 * negative errno. Not by two threads at once. */
int fork_watch(void);

/* Is this process the child of a fork() that came after fork_watch()? */
bool fork_in_child(void);

/* The same question, asked when the program calls a verb: the first yes logs a warning. */
bool fork_in_child_warn(void);

#endif
