/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Gates: all but the owner's way through an open gate, which is inline in gate.h. */
#include "lib/base/gate.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The identity of a thread that remembers gates. It outlives the thread, because gates point to it,
 * and is then given to another thread. Only one thread has it at a time, and that one may enter as
 * the owner.
 */
struct gate_thread {
	struct gate_thread *next; /* in the list of all */
	struct gate_keys *keys;	  /* NULL: that thread has ended */
};

_Thread_local struct gate_keys gate_mine = {ASSOC_INIT, ASSOC_INIT, ASSOC_INIT, ASSOC_INIT};

static _Thread_local struct gate_thread *self;
static _Thread_local bool over; /* thread_ended() has run, and does not run again for sure */
/* Protects the keys of other threads, and the list of all identities. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gate_thread *threads;
static pthread_key_t at_exit;
static bool biased; /* gates can have owners: membarrier works, and we hear of a thread's end */
static bool forked; /* a child of fork(): a thread that held the lock may be gone */

/* --- threads --------------------------------------------------------------------------------- */

static void keys_forget_all(void)
{
	assoc_clear(&gate_mine.send);
	assoc_clear(&gate_mine.recv);
	assoc_clear(&gate_mine.poll);
	assoc_clear(&gate_mine.srq);
}

/* Runs when a thread ends. If the thread uses a gate after this, it shares it, and remembers
 * nothing: its keys would stay when the thread is gone. */
static void thread_ended(void *arg)
{
	struct gate_thread *t = arg;

	if (!forked) /* else a thread that is not there may have the lock */
		pthread_mutex_lock(&lock);
	keys_forget_all();
	t->keys = NULL;
	if (!forked)
		pthread_mutex_unlock(&lock);
	self = NULL;
	over = true;
}

/* One that is free, or a new one; or NULL. Under the lock. */
static struct gate_thread *thread_any(void)
{
	struct gate_thread *t = threads;

	while (t && t->keys)
		t = t->next;
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->next = threads;
		threads = t;
	}
	return t;
}

static struct gate_thread *thread_new(void)
{
	struct gate_thread *t;

	pthread_mutex_lock(&lock);
	t = thread_any();
	if (t)
		t->keys = &gate_mine;
	pthread_mutex_unlock(&lock);
	if (t && pthread_setspecific(at_exit, t)) {
		thread_ended(t);
		return NULL;
	}
	return t;
}

/* NULL: this thread cannot own or remember anything. */
static struct gate_thread *thread_self(void)
{
	if (!self && biased && !forked && !over)
		self = thread_new();
	return self;
}

static bool has_ended(const struct gate_thread *t)
{
	bool yes;

	if (forked)
		return false;
	pthread_mutex_lock(&lock);
	yes = !t->keys;
	pthread_mutex_unlock(&lock);
	return yes;
}

/* --- the barrier ----------------------------------------------------------------------------- */

static long membarrier_call(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

static void mark_forked(void)
{
	forked = true;
}

void gate_start(void)
{
	pthread_atfork(NULL, NULL, mark_forked);
	biased = !membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		 !membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
		 !pthread_key_create(&at_exit, thread_ended);
}

void gate_init(struct gate *g)
{
	*g = (struct gate){
		.inside = GATE_OUTSIDE,
		.shut = biased ? GATE_OPEN : GATE_OPEN | GATE_SHARED,
	};
}

/* Every other thread passes a full memory barrier, between two of its instructions. */
static void barrier_all_threads(void)
{
	/* This cannot fail once it is registered. The child of a fork() has only one thread. */
	if (biased)
		membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	atomic_thread_fence(memory_order_seq_cst);
}

static void gate_wait_empty(struct gate *g)
{
	for (int spins = 0; atomic_load(&g->inside) != GATE_OUTSIDE; spins++)
		if (spins > 100)
			sched_yield();
}

static void gate_wait_unlocked(struct gate *g)
{
	for (int spins = 0; atomic_load(&g->locked); spins++)
		if (spins > 100)
			sched_yield();
}

/* --- entering -------------------------------------------------------------------------------- */

static void gate_lock(struct gate *g)
{
	while (atomic_exchange(&g->locked, 1))
		gate_wait_unlocked(g);
}

/* Makes the gate shared, and waits until its owner is outside. Under the gate's lock. */
static void gate_share(struct gate *g)
{
	atomic_fetch_or(&g->shut, GATE_SHARED);
	barrier_all_threads();
	gate_wait_empty(g);
}

/* Under the gate's lock. true: this thread owns the gate. */
static bool gate_claim(struct gate *g)
{
	struct gate_thread *me = thread_self(), *owner = atomic_load(&g->owner);

	if (atomic_load(&g->shut) & GATE_SHARED)
		return false;
	if (me && (!owner || owner == me || has_ended(owner))) {
		atomic_store(&g->owner, me);
		return true;
	}
	gate_share(g);
	return false;
}

enum gate_how gate_enter_any(struct gate *g, const void *mark)
{
	gate_lock(g);
	if (gate_claim(g) && gate_enter_owned(g, mark)) {
		/* From now on another thread may take the gate from us. It waits until we leave. */
		atomic_store(&g->locked, 0);
		return GATE_OWNED;
	}
	/* A gate that is not shared by now has been shut: only the lock's holder makes it shared.
	 */
	if (atomic_load(&g->shut) != (GATE_OPEN | GATE_SHARED)) {
		atomic_store(&g->locked, 0);
		return GATE_IS_SHUT;
	}
	return GATE_LOCKED;
}

void gate_remember(struct assoc *a, const void *key, void *object)
{
	if (!thread_self()) /* nobody could make it forget */
		return;
	assoc_forget(a, (uintptr_t)key); /* if the gate was shut it is still there */
	/* Another thread may make us forget one at this moment. */
	if (assoc_is_full(a, (uintptr_t)key)) {
		if (!forked)
			pthread_mutex_lock(&lock);
		assoc_grow(a, (uintptr_t)key);
		if (!forked)
			pthread_mutex_unlock(&lock);
	}
	assoc_put(a, (uintptr_t)key, object);
}

static void forget_keys(struct gate_keys *keys, const void *key)
{
	assoc_forget(&keys->send, (uintptr_t)key);
	assoc_forget(&keys->recv, (uintptr_t)key);
	assoc_forget(&keys->poll, (uintptr_t)key);
	assoc_forget(&keys->srq, (uintptr_t)key);
}

/* By those threads alone that may know it: all of them, or one. */
static void threads_forget(const struct gate_thread *only, const void *key)
{
	pthread_mutex_lock(&lock);
	for (const struct gate_thread *t = threads; t; t = t->next)
		if (t->keys && (!only || t == only))
			forget_keys(t->keys, key);
	pthread_mutex_unlock(&lock);
}

void gate_forget_key(const void *key)
{
	if (forked)
		forget_keys(&gate_mine, key);
	else
		threads_forget(NULL, key);
}

void gate_forget(struct gate *g, const void *key)
{
	const struct gate_thread *owner = atomic_load(&g->owner);
	bool shared = atomic_load(&g->shut) & GATE_SHARED;

	if (forked) { /* only the thread that forked is left */
		forget_keys(&gate_mine, key);
		return;
	}
	if (!owner && !shared)
		return;
	threads_forget(shared ? NULL : owner, key);
}

/* --- shutting -------------------------------------------------------------------------------- */

void gate_shut(struct gate *g)
{
	atomic_fetch_add(&g->shut, GATE_REASON);
}

/* Counted before the reason goes, and each time: whoever saw that nobody was inside holds a reason,
 * so what it saw is over before the gate can be open. To count only the last would need both words
 * to change at once. Counting too often does no harm: gate_sync() then waits without need. */
void gate_open(struct gate *g)
{
	atomic_fetch_add(&g->opened, 1);
	atomic_fetch_sub(&g->shut, GATE_REASON);
}

/* Has the gate been shut without a break since nobody was inside? */
static bool is_settled(struct gate *g)
{
	return atomic_load(&g->settled) == atomic_load(&g->opened) + 1;
}

static void gate_settle(struct gate *g)
{
	uint32_t opened = atomic_load(&g->opened);

	/* In this order, because a thread that becomes the owner enters under the lock. */
	gate_wait_unlocked(g);
	gate_wait_empty(g);
	atomic_store(&g->settled, opened + 1);
}

/* Only an owner needs the barrier. A thread that becomes the owner after this sees the gate shut.
 */
static bool has_other_owner(struct gate *g)
{
	struct gate_thread *owner = atomic_load(&g->owner);

	return owner && owner != self;
}

void gate_sync(struct gate *const *gates, unsigned int n)
{
	bool barrier = false;

	for (unsigned int i = 0; i < n; i++)
		barrier |= !is_settled(gates[i]) && has_other_owner(gates[i]);
	if (barrier)
		barrier_all_threads();
	for (unsigned int i = 0; i < n; i++)
		if (!is_settled(gates[i]))
			gate_settle(gates[i]);
}
