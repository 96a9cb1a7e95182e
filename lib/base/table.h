/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * From a key (an object's address, a QPN, an lkey) to our object. Readers take no lock and may
 * run on the data path; writers are serialised inside. What was found stays valid only as long as
 * its owner grants: who removes an object waits for the readers (gate.h) before he frees it.
 */
#ifndef SHIFT_BASE_TABLE_H
#define SHIFT_BASE_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot {
	_Atomic uint64_t key;
	_Atomic(void *) value; /* NULL: free, or removed */
};

/* Power of two, at most half full, so that a search always meets a free slot. */
struct table_array {
	struct table_array *older; /* somebody may still read it: kept */
	uint64_t mask;
	struct table_slot slot[];
};

struct table {
	_Atomic(struct table_array *) array; /* NULL until something is put */
	_Atomic uint32_t renewed; /* how often the array was: who sees it move looks again */
	pthread_mutex_t lock;
	uint64_t used; /* slots that were ever taken in this array */
};

#define TABLE_INIT                                \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

static inline uint64_t table_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 20;
}

static inline void *table_search(const struct table_array *a, uint64_t key)
{
	for (uint64_t i = table_hash(key);; i++) {
		const struct table_slot *s = &a->slot[i & a->mask];
		uint64_t k = atomic_load_explicit(&s->key, memory_order_acquire);

		if (k == key) {
			void *value = atomic_load_explicit(&s->value, memory_order_acquire);

			/* Taken over by another key meanwhile? */
			k = atomic_load_explicit(&s->key, memory_order_acquire);
			return k == key ? value : NULL;
		}
		if (!k)
			return NULL;
	}
}

/* The object, or NULL. */
static inline void *table_get(const struct table *t, uint64_t key)
{
	for (;;) {
		uint32_t renewed = atomic_load_explicit(&t->renewed, memory_order_acquire);
		const struct table_array *a = atomic_load_explicit(&t->array, memory_order_acquire);
		void *value = a ? table_search(a, key) : NULL;

		if (atomic_load_explicit(&t->renewed, memory_order_acquire) == renewed)
			return value;
	}
}

/* The object, after take() was called for it: before who removes it has got it back. */
void *table_take(struct table *t, uint64_t key, void (*take)(void *value));

/* Replaces what was there. Keys are not 0. 0 or -ENOMEM. */
int table_put(struct table *t, uint64_t key, void *value);

/* Returns what was there, or NULL. */
void *table_remove(struct table *t, uint64_t key);

/* Takes it out without the lock: in the child of a fork(), where nobody puts, and a thread that is
 * not there may hold it. */
void table_remove_forked(struct table *t, uint64_t key);

/* Calls fn for every object, under the writers' lock: fn must not put or remove here. */
void table_each(struct table *t, void (*fn)(void *value, void *arg), void *arg);

#endif
