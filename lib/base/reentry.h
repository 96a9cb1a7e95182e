/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * libibverbs, librdmacm and the providers call exported verbs through their PLT, and so come to us.
 * What they call on behalf of a verb that is under way is no call of the program's own, and passes
 * straight through.
 */
#ifndef SHIFT_BASE_REENTRY_H
#define SHIFT_BASE_REENTRY_H

#include <stdbool.h>

/* true while this thread calls verbs on our own behalf: everything passes through. */
extern _Thread_local bool hooks_off;

/* A real verb on a thread of the program: verbs that it calls in its turn pass through. */
#define quietly(call)                            \
	({                                       \
		bool was_off = hooks_off;        \
		hooks_off = true;                \
		__typeof__(call) result_ = call; \
		hooks_off = was_off;             \
		result_;                         \
	})

#endif
