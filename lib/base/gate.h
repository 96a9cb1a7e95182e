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
 * A thread remembers the gates that it owns by the program's pointer (gate_remember). A pointer
 * that is found there proves the ownership. To take a gate away, or to destroy it, is to make its
 * owner forget it (gate_forget).
 *
 * Any thread. Gates are leaves in the order of locks: no lock is taken inside.
 */
#ifndef SHIFT_BASE_GATE_H
#define SHIFT_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	_Atomic uint32_t opened; /* how often; changes before the last reason is removed */
	_Atomic uint32_t settled; /* opened + 1 once it was shut and nobody was inside any more */
	_Atomic(struct gate_thread *) owner;
};

/* A gate that a thread owns, by the program's pointer, with our object behind it. */
struct gate_key {
	_Atomic(const void *) key;
	void *object;
};

/* Of each kind a thread remembers the one that it used last. */
struct gate_keys {
	struct gate_key send, recv, poll;
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

/* Enters as the owner or with the lock, or is turned away. Waits for a thread that is inside. Not
 * from inside the same gate. mark as with gate_enter_owned(), but it is not kept when the answer is
 * GATE_LOCKED. */
enum gate_how gate_enter(struct gate *g, const void *mark);

static inline void gate_leave(struct gate *g, enum gate_how how)
{
	if (how == GATE_LOCKED)
		atomic_store_explicit(&g->locked, 0, memory_order_release);
	else
		atomic_store_explicit(&g->inside, GATE_OUTSIDE, memory_order_release);
}

/* After entering as GATE_OWNED: from now on gate_owns(k, key) is true. */
void gate_remember(struct gate_key *k, const void *key, void *object);

/* Makes the owner of the gate forget this key. To be called when the gate is never used again by
 * that key. */
void gate_forget(struct gate *g, const void *key);

/*
 * Reads a word that another thread may write. The load is a plain one where the processor does not
 * reorder loads, because the compiler does not fold an atomic load into the comparison.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define GATE_READ(type, word) (*(const type *)(word))
#else
#define GATE_READ(type, word) atomic_load_explicit(word, memory_order_acquire)
#endif

/* Does this thread own what the program knows by that pointer? If so, our object is k->object. */
static inline bool gate_owns(const struct gate_key *k, const void *key)
{
	return __builtin_expect(GATE_READ(void *, &k->key) == key, 1);
}

/*
 * Enters; only for the owner. false: the gate is shut or shared, and gate_enter() knows which. mark
 * is a pointer of the caller's, which gate_mark() returns while the caller is inside. It saves the
 * caller from keeping it in a register over a call.
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

/* The mark with which the owner entered. Only inside. */
static inline void *gate_mark(const struct gate *g)
{
	return (void *)atomic_load_explicit(&g->inside, memory_order_relaxed);
}

/* Adds a reason to turn everybody away; also from inside. A thread that is inside stays until it
 * leaves: gate_sync() waits for it. */
void gate_shut(struct gate *g);

/* Removes a reason. Without any, the gate is open. */
void gate_open(struct gate *g);

/*
 * Returns when every thread that was inside one of these gates has left it. The caller must have
 * shut each of them, and must not be inside any.
 */
void gate_sync(struct gate *const *gates, unsigned int n);

#endif
