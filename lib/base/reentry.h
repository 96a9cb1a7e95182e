/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * libibverbs, librdmacm and the providers call exported verbs through their PLT, and so they reach
 * our hooks. What they call on behalf of a verb that is under way is no call of the program, and
 * passes straight through. The flag belongs to the thread; there are no locks.
 */
#ifndef SHIFT_BASE_REENTRY_H
#define SHIFT_BASE_REENTRY_H

#include <stdbool.h>

/* While it is true, every verb that this thread calls passes through. */
extern _Thread_local bool hooks_off;

/* Calls a real verb on a thread of the program. The verbs that it calls in turn pass through. */
#define quietly(call)                            \
	({                                       \
		bool was_off = hooks_off;        \
		hooks_off = true;                \
		__typeof__(call) result_ = call; \
		hooks_off = was_off;             \
		result_;                         \
	})

#endif
