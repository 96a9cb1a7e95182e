/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program may cancel a thread of its own (pthread_cancel) that is in a verb. Most verbs have no
 * cancellation point; ours wait, write to descriptors and log, with locks held that nobody would
 * ever release. So a cancellation waits until ours is done. The state belongs to the thread; there
 * are no locks.
 */
#ifndef SHIFT_BASE_UNCANCELLED_H
#define SHIFT_BASE_UNCANCELLED_H

#include <pthread.h>

struct uncancelled {
	unsigned int depth; /* they nest */
	int was;
};

extern _Thread_local struct uncancelled uncancelled_mine; /* reentry.c */

static inline void uncancelled_begin(void)
{
	if (!uncancelled_mine.depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &uncancelled_mine.was);
}

static inline void uncancelled_end(void)
{
	int ours;

	if (!--uncancelled_mine.depth)
		pthread_setcancelstate(uncancelled_mine.was, &ours);
}

#define uncancelled(call)                      \
	({                                     \
		uncancelled_begin();           \
		__typeof__(call) done_ = call; \
		uncancelled_end();             \
		done_;                         \
	})

#endif
