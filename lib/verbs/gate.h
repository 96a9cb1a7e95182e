/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A gate of the data path: one thread is inside at a time, and gate_sync() waits for it to leave.
 * Who has set a flag that turns threads away and then syncs, knows that nobody acts on the old
 * value any more. Nothing that waits is done inside.
 */
#ifndef SHIFT_VERBS_GATE_H
#define SHIFT_VERBS_GATE_H

#include <sched.h>
#include <stdatomic.h>

struct gate {
	_Atomic int locked;
};

static inline void gate_enter(struct gate *g)
{
	while (__builtin_expect(atomic_exchange_explicit(&g->locked, 1, memory_order_acquire), 0))
		for (int spins = 0; atomic_load_explicit(&g->locked, memory_order_relaxed); spins++)
			if (spins > 100)
				sched_yield();
}

static inline void gate_leave(struct gate *g)
{
	atomic_store_explicit(&g->locked, 0, memory_order_release);
}

static inline void gate_sync(struct gate *g)
{
	atomic_thread_fence(memory_order_seq_cst);
	gate_enter(g);
	gate_leave(g);
}

#endif
