/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A gate of the data path: one thread is inside at a time, and it can be shut. Nothing that waits
 * is done inside, but for the provider's own locks.
 *
 * The first thread that enters owns the gate and from then on enters with plain stores: it says
 * that it is inside, then looks whether the gate is shut. Who shuts the gate, or takes it from its
 * owner, makes every thread of the process pass a memory barrier (membarrier(2)) before he looks
 * whether somebody is inside: so one of the two sees the other. A gate that a second thread has
 * entered is shared for good, with a lock; and so is every gate where the kernel has no membarrier.
 *
 * A thread remembers what it owns, by the program's pointer: being found there is the proof of
 * ownership. Who takes a gate away, or destroys it, makes its owner forget (gate_forget).
 */
#ifndef SHIFT_BASE_GATE_H
#define SHIFT_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* gate.shut: not 0 when open, as a comparison with 0 is compiled to a load and a test. */
#define GATE_OPEN   1u
#define GATE_REASON 2u
#define GATE_SHARED 0x80000000u

/* No pointer has this value, not even NULL. */
#define GATE_OUTSIDE ((uintptr_t)1)

struct gate_thread;

struct gate {
	_Atomic uintptr_t inside; /* its owner is, with this mark; GATE_OUTSIDE: nobody */
	_Atomic uint32_t shut;	  /* GATE_OPEN, reasons to turn everybody away, GATE_SHARED */
	_Atomic uint32_t locked;  /* by one of those who share it, or for a change of owner */
	_Atomic uint32_t opened;  /* how often; moves before the last reason goes */
	_Atomic uint32_t settled; /* opened + 1 when it was shut and nobody was inside any more */
	_Atomic(struct gate_thread *) owner;
};

/* What a thread owns: what it used last of each kind. */
struct gate_key {
	_Atomic(const void *) key;
	void *object;
};

struct gate_keys {
	struct gate_key send, recv, poll;
};

extern _Thread_local struct gate_keys gate_mine;

/* Once, before the first gate is used: without it, or if the kernel refuses, all gates are shared.
 */
void gate_start(void);

void gate_init(struct gate *g);

enum gate_how {
	GATE_IS_SHUT, /* not inside */
	GATE_OWNED,
	GATE_LOCKED,
};

/* Waits for who is inside. Not from inside the same gate. mark as with gate_enter_owned(), unless
 * it is GATE_LOCKED. */
enum gate_how gate_enter(struct gate *g, const void *mark);

static inline void gate_leave(struct gate *g, enum gate_how how)
{
	if (how == GATE_LOCKED)
		atomic_store_explicit(&g->locked, 0, memory_order_release);
	else
		atomic_store_explicit(&g->inside, GATE_OUTSIDE, memory_order_release);
}

/* Entered as GATE_OWNED: from now on gate_owns(k, key). */
void gate_remember(struct gate_key *k, const void *key, void *object);

/* Nobody remembers this key of this gate's owner any more. The gate is shut for good. */
void gate_forget(struct gate *g, const void *key);

/*
 * Of a word that another thread may write. Plain where the processor does not reorder loads: the
 * compiler does not fold an atomic load into the comparison.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define GATE_READ(type, word) (*(const type *)(word))
#else
#define GATE_READ(type, word) atomic_load_explicit(word, memory_order_acquire)
#endif

/* Does this thread own what the program knows by that pointer? Then it is k->object. */
static inline bool gate_owns(const struct gate_key *k, const void *key)
{
	return __builtin_expect(GATE_READ(void *, &k->key) == key, 1);
}

/*
 * The owner only. false: shut, or shared: gate_enter() knows which. mark, a pointer of the
 * caller's, is there to be read as long as he is inside: what he would have to save over a call.
 */
static inline bool gate_enter_owned(struct gate *g, const void *mark)
{
	atomic_store_explicit(&g->inside, (uintptr_t)mark, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(GATE_READ(uint32_t, &g->shut) == GATE_OPEN, 1)) {
		atomic_signal_fence(memory_order_seq_cst);
		return true;
	}
	atomic_store_explicit(&g->inside, GATE_OUTSIDE, memory_order_release);
	return false;
}

/* What its owner, who is inside, entered with. */
static inline void *gate_mark(const struct gate *g)
{
	return (void *)atomic_load_explicit(&g->inside, memory_order_relaxed);
}

/* One more reason to turn everybody away; from inside too. Who is inside by then stays until he
 * leaves: gate_sync(). */
void gate_shut(struct gate *g);

/* One reason less. */
void gate_open(struct gate *g);

/*
 * The caller has a reason of his own in each of these gates: returns when nobody is inside who
 * entered before. Not from inside one of them.
 */
void gate_sync(struct gate *const *gates, unsigned int n);

#endif
