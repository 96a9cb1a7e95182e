/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A table from a key (an object's address, a QPN, an lkey) to our object. Readers take no lock and
 * may run on the data path. Writers take the table's lock, a leaf. The table does not own the
 * objects: a thread that removes one must wait for the readers (gate.h) before it frees it. Any
 * thread.
 */
#ifndef SHIFT_BASE_TABLE_H
#define SHIFT_BASE_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_slot {
	_Atomic uint64_t key;
	_Atomic(void *) value; /* NULL: free, or removed */
};

/* The size is a power of two. At most half of it is used, so that a search always meets a free
 * slot. */
struct table_array {
	struct table_array *older; /* kept, because readers may still be in it */
	uint64_t mask;
	struct table_slot slot[];
};

struct table {
	_Atomic(struct table_array *) array; /* NULL until something is put */
	_Atomic uint32_t renewed; /* times it was renewed: a reader that sees it change repeats */
	pthread_mutex_t lock;
	uint64_t used; /* slots that were ever taken in this array; under the lock */
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

			/* Has another key taken the slot meanwhile? */
			k = atomic_load_explicit(&s->key, memory_order_acquire);
			return k == key ? value : NULL;
		}
		if (!k)
			return NULL;
	}
}

/* The object, or NULL. No lock. */
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

/* The object, or NULL. take() is called for it under the writers' lock, so that nobody can remove
 * the object before the caller has a reference to it. */
void *table_take(struct table *t, uint64_t key, void (*take)(void *value));

/* Adds an object, or replaces the one of this key. A key is never 0. 0 or -ENOMEM. */
int table_put(struct table *t, uint64_t key, void *value);

/* Removes the object and returns it, or NULL if there is none. */
void *table_remove(struct table *t, uint64_t key);

/* Removes this object, unless another has taken its place. Returns whether it was there. */
bool table_remove_value(struct table *t, uint64_t key, const void *value);

/* Removes the object without taking the lock: only in the child of a fork(), where no other thread
 * writes, and a thread of the parent may have held the lock. */
void table_remove_forked(struct table *t, uint64_t key);

/* Calls fn for every object, under the writers' lock: fn must not put into this table nor remove.
 */
void table_each(struct table *t, void (*fn)(void *value, void *arg), void *arg);

#endif
