/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The threads of ours in the program's process: the background thread, and the workers and
 * resolvers of the NICs. No locks. */
#ifndef SHIFT_BASE_THREAD_H
#define SHIFT_BASE_THREAD_H

#include <pthread.h>

/* Starts a detached thread with all signals blocked and a small stack. 0 or a negative errno. Any
 * thread. */
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

/* The first call of such a thread: sets its name (15 bytes) and its CPUs, and lets the verbs that
 * it calls pass through. */
void thread_init(const char *name);

#endif
