/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A lock that is held for some dozens of instructions, on the data path: a mutex of seven
 * instructions where nobody waits. A thread that has to wait sleeps in the kernel (futex), so one
 * that is preempted while it has the lock costs no processor time. A leaf in the order of locks.
 * Any thread; also inside a gate. No point of cancellation.
 */
#ifndef SHIFT_BASE_SHORT_LOCK_H
#define SHIFT_BASE_SHORT_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

enum { SHORT_LOCK_FREE, SHORT_LOCK_TAKEN, SHORT_LOCK_AWAITED };

struct short_lock {
	_Atomic uint32_t state; /* AWAITED: taken, and a thread may sleep for it */
};

/* The rare ends of the two below. */
void short_lock_wait(struct short_lock *l);
void short_lock_wake(struct short_lock *l);

static inline void short_lock_take(struct short_lock *l)
{
	uint32_t free = SHORT_LOCK_FREE;

	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
				     &l->state, &free, SHORT_LOCK_TAKEN, memory_order_acquire,
				     memory_order_relaxed),
			     0))
		short_lock_wait(l);
}

static inline void short_lock_give(struct short_lock *l)
{
	if (__builtin_expect(atomic_exchange_explicit(&l->state, SHORT_LOCK_FREE,
						      memory_order_release) == SHORT_LOCK_AWAITED,
			     0))
		short_lock_wake(l);
}

#endif
