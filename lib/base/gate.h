/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A gate of the data path: one thread is inside at a time, and the gate can be shut. A thread that
 * is inside waits for nothing but the provider's own locks.
 *
 * The first thread that enters owns the gate and from then on enters with plain stores: it writes
 * that it is inside, then reads whether the gate is shut. A thread that shuts the gate, or takes it
 * from its owner, makes every thread of the process pass a memory barrier (membarrier(2)) and then
 * reads whether somebody is inside. So one of the two sees the other. A gate that a second thread
 * has entered is shared for good, with a lock. Where the kernel has no membarrier, every gate is
 * shared.
 *
 * A thread remembers by the program's pointer which gates it owns or shares (gate_remember). So it
 * may enter what it finds there as if it were the owner: where it is not, the gate is shared, and
 * it is turned away. To destroy a gate is to make its owner forget it, or all threads that share it
 * (gate_forget).
 *
 * Any thread. Gates are leaves in the order of locks: no lock is taken inside, but that of the keys
 * of threads, when a thread remembers a gate for the first time and its table has to grow, and that
 * of an SRQ (lib/object/vsrq.h), with the leaves below it. Nobody who has one of these waits for a
 * gate.
 */
#ifndef SHIFT_BASE_GATE_H
#define SHIFT_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/assoc.h"
#include "lib/base/plain_read.h"

/* Values of gate.shut. Open is not 0, because a comparison with 0 is compiled to a load and a test.
 */
#define GATE_OPEN   1u
#define GATE_REASON 2u
#define GATE_SHARED 0x80000000u

/* No pointer has this value, not even NULL. */
#define GATE_OUTSIDE ((uintptr_t)1)

struct gate_thread;

struct gate {
	_Atomic uintptr_t inside; /* the mark of the owner who is inside; GATE_OUTSIDE: nobody */
	_Atomic uint32_t shut;	 /* GATE_OPEN, plus GATE_REASON for each gate_shut(); GATE_SHARED */
	_Atomic uint32_t locked; /* by a thread that shares it, or for a change of owner */
	_Atomic uint32_t opened; /* how many reasons were removed; changes before each */
	_Atomic uint32_t settled; /* opened + 1 once it was shut and nobody was inside any more */
	_Atomic(struct gate_thread *) owner;
};

/* The gates that a thread owns or shares, of each kind: our object by the program's pointer. */
struct gate_keys {
	struct assoc send, recv, poll;
	struct assoc srq; /* that has a lock, and no gate */
};

extern _Thread_local struct gate_keys gate_mine;

/* To be called once, before the first gate is used. Without it, or if the kernel refuses, all gates
 * are shared. */
void gate_start(void);

void gate_init(struct gate *g);

enum gate_how {
	GATE_IS_SHUT, /* not inside */
	GATE_OWNED,
	GATE_LOCKED,
};

static inline void gate_leave(struct gate *g, enum gate_how how)
{
	if (how == GATE_LOCKED)
		atomic_store_explicit(&g->locked, 0, memory_order_release);
	else
		atomic_store_explicit(&g->inside, GATE_OUTSIDE, memory_order_release);
}

/* Inside the gate: from now on gate_find(a, key) is the object, until the gate is forgotten, or, in
 * a thread that uses very many gates, until another one takes its place. a: one of gate_mine. */
void gate_remember(struct assoc *a, const void *key, void *object);

/* Makes every thread that remembers the gate forget this key. To be called when the gate is never
 * used again by that key. */
void gate_forget(struct gate *g, const void *key);

/* Makes every thread forget a key of what has no gate (gate_keys.srq). */
void gate_forget_key(const void *key);

/* What the program knows by that pointer, if this thread remembers its gate; or NULL. */
static inline void *gate_find(const struct assoc *a, const void *key)
{
	return assoc_find(a, (uintptr_t)key);
}

/*
 * Enters; only for a thread that remembers the gate. false: the gate is shut or shared, and
 * gate_enter() knows which. mark is a pointer of the caller's, which gate_mark() returns while the
 * caller is inside. It saves the caller from keeping it in a register over a call.
 */
static inline bool gate_enter_owned(struct gate *g, const void *mark)
{
	atomic_store_explicit(&g->inside, (uintptr_t)mark, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(PLAIN_READ(uint32_t, &g->shut) == GATE_OPEN, 1)) {
		atomic_signal_fence(memory_order_seq_cst);
		return true;
	}
	atomic_store_explicit(&g->inside, GATE_OUTSIDE, memory_order_release);
	return false;
}

/* gate_enter() but for the way below. */
enum gate_how gate_enter_any(struct gate *g, const void *mark);

/* Enters as the owner or with the lock, or is turned away. Waits for a thread that is inside. Not
 * from inside the same gate. mark as with gate_enter_owned(), but it is not kept when the answer is
 * GATE_LOCKED. */
static inline enum gate_how gate_enter(struct gate *g, const void *mark)
{
	if (PLAIN_READ(uint32_t, &g->shut) != (GATE_OPEN | GATE_SHARED) ||
	    atomic_exchange(&g->locked, 1))
		return gate_enter_any(g, mark);
	if (__builtin_expect(atomic_load(&g->shut) == (GATE_OPEN | GATE_SHARED), 1))
		return GATE_LOCKED;
	atomic_store(&g->locked, 0);
	return gate_enter_any(g, mark);
}

/* The mark with which the owner entered. Only inside. */
static inline void *gate_mark(const struct gate *g)
{
	return (void *)atomic_load_explicit(&g->inside, memory_order_relaxed);
}

/* Adds a reason to turn everybody away; also from inside. A thread that is inside stays until it
 * leaves: gate_sync() waits for it. */
void gate_shut(struct gate *g);

/* Has anybody a reason to keep it shut? The answer may be old at once. */
static inline bool gate_is_shut(struct gate *g)
{
	return (atomic_load(&g->shut) & ~GATE_SHARED) != GATE_OPEN;
}

/* Removes a reason. Without any, the gate is open. */
void gate_open(struct gate *g);

/*
 * Returns when every thread that was inside one of these gates has left it. The caller must have
 * shut each of them, and must not be inside any.
 */
void gate_sync(struct gate *const *gates, unsigned int n);

#endif
