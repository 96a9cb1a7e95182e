/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/table.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS_MIN 64

static struct table_array *array_new(uint64_t slots)
{
	struct table_array *a = calloc(1, sizeof(*a) + slots * sizeof(a->slot[0]));

	if (a)
		a->mask = slots - 1;
	return a;
}

/* The slot of a key. If there is none, the slot where it can be put: one that was removed, or a
 * free one. */
static struct table_slot *slot_find(struct table_array *a, uint64_t key)
{
	struct table_slot *removed = NULL;

	for (uint64_t i = table_hash(key);; i++) {
		struct table_slot *s = &a->slot[i & a->mask];
		uint64_t k = atomic_load_explicit(&s->key, memory_order_relaxed);

		if (k == key)
			return s;
		if (!k)
			return removed ? removed : s;
		if (!removed && !atomic_load_explicit(&s->value, memory_order_relaxed))
			removed = s;
	}
}

static void slot_insert(struct table_array *a, uint64_t key, void *value)
{
	struct table_slot *s = slot_find(a, key);

	/* Key first: a reader that meets the key without its value rightly finds nothing. */
	atomic_store_explicit(&s->key, key, memory_order_release);
	atomic_store_explicit(&s->value, value, memory_order_release);
}

/* An older array of that size. Readers may still be in it, but they repeat their search, because
 * the array was renewed since (table_get). */
static struct table_array *array_reuse(struct table_array *newest, uint64_t slots)
{
	for (struct table_array *a = newest; a && a->older; a = a->older) {
		struct table_array *old = a->older;

		if (old->mask != slots - 1)
			continue;
		a->older = old->older;
		for (uint64_t i = 0; i < slots; i++) {
			atomic_store_explicit(&old->slot[i].value, NULL, memory_order_relaxed);
			atomic_store_explicit(&old->slot[i].key, 0, memory_order_relaxed);
		}
		return old;
	}
	return NULL;
}

/*
 * Moves what is alive to an array with four times the room. Old arrays stay for the readers that
 * are in them. One of the same size is used again, so that objects that come and go all day cost
 * two arrays and no more.
 */
static int array_renew(struct table *t, struct table_array *old)
{
	uint64_t slots = SLOTS_MIN, alive = 0;
	struct table_array *a;

	for (uint64_t i = 0; old && i <= old->mask; i++)
		alive += atomic_load_explicit(&old->slot[i].value, memory_order_relaxed) != NULL;
	while (slots < 4 * (alive + 1))
		slots *= 2;
	a = array_reuse(old, slots);
	if (!a)
		a = array_new(slots);
	if (!a)
		return -ENOMEM;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		void *value = atomic_load_explicit(&old->slot[i].value, memory_order_relaxed);

		if (value)
			slot_insert(a,
				    atomic_load_explicit(&old->slot[i].key, memory_order_relaxed),
				    value);
	}
	a->older = old;
	t->used = alive;
	atomic_store_explicit(&t->array, a, memory_order_release);
	atomic_fetch_add_explicit(&t->renewed, 1, memory_order_release);
	return 0;
}

int table_put(struct table *t, uint64_t key, void *value)
{
	struct table_array *a;
	int err = 0;

	pthread_mutex_lock(&t->lock);
	a = atomic_load_explicit(&t->array, memory_order_relaxed);
	if (!a || t->used + 1 > (a->mask + 1) / 2)
		err = array_renew(t, a);
	if (!err) {
		a = atomic_load_explicit(&t->array, memory_order_relaxed);
		t->used += !atomic_load_explicit(&slot_find(a, key)->key, memory_order_relaxed);
		slot_insert(a, key, value);
	}
	pthread_mutex_unlock(&t->lock);
	return err;
}

void *table_take(struct table *t, uint64_t key, void (*take)(void *value))
{
	void *value;

	pthread_mutex_lock(&t->lock);
	value = table_get(t, key);
	if (value)
		take(value);
	pthread_mutex_unlock(&t->lock);
	return value;
}

void *table_remove(struct table *t, uint64_t key)
{
	struct table_array *a;
	void *value = NULL;

	pthread_mutex_lock(&t->lock);
	a = atomic_load_explicit(&t->array, memory_order_relaxed);
	if (a && table_get(t, key))
		value = atomic_exchange(&slot_find(a, key)->value, NULL);
	pthread_mutex_unlock(&t->lock);
	return value;
}

bool table_remove_value(struct table *t, uint64_t key, const void *value)
{
	bool there;

	pthread_mutex_lock(&t->lock);
	there = value && table_get(t, key) == value;
	if (there)
		atomic_store(&slot_find(atomic_load(&t->array), key)->value, NULL);
	pthread_mutex_unlock(&t->lock);
	return there;
}

void table_remove_forked(struct table *t, uint64_t key)
{
	struct table_array *a = atomic_load_explicit(&t->array, memory_order_acquire);

	if (a && table_search(a, key))
		atomic_store(&slot_find(a, key)->value, NULL);
}

void table_each(struct table *t, void (*fn)(void *value, void *arg), void *arg)
{
	struct table_array *a;

	pthread_mutex_lock(&t->lock);
	a = atomic_load_explicit(&t->array, memory_order_relaxed);
	for (uint64_t i = 0; a && i <= a->mask; i++) {
		void *value = atomic_load_explicit(&a->slot[i].value, memory_order_relaxed);

		if (value)
			fn(value, arg);
	}
	pthread_mutex_unlock(&t->lock);
}
