/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A lock that is held for some dozens of instructions, on the data path. It is given with a plain
 * store, as that of a provider's queue, so nobody is woken: a thread that has waited for a moment
 * sleeps, and looks again when it has waited twice as long, or 2 ms later. So one that is preempted
 * while it has the lock costs hardly any processor time, whatever the priorities. A leaf in the
 * order of locks. Any thread; also inside a gate. No point of cancellation.
 */
#ifndef SHIFT_BASE_SHORT_LOCK_H
#define SHIFT_BASE_SHORT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct short_lock {
	_Atomic uint32_t taken; /* or 0 */
};

/* The rare end of short_lock_take(). */
void short_lock_wait(struct short_lock *l);

/* Takes it if nobody has it. So written it is one instruction. */
static inline bool short_lock_try(struct short_lock *l)
{
	return !(atomic_fetch_or_explicit(&l->taken, 1, memory_order_acquire) & 1);
}

static inline void short_lock_take(struct short_lock *l)
{
	if (!short_lock_try(l))
		short_lock_wait(l);
}

static inline void short_lock_give(struct short_lock *l)
{
	atomic_store_explicit(&l->taken, 0, memory_order_release);
}

#endif
