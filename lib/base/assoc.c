/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/assoc.h"

#include <stdlib.h>

#define SET_BYTES    sizeof(struct assoc_set)
#define SETS_AT_ONCE 4

struct assoc_set assoc_no_sets[1] = {{.way = {{.key = ASSOC_FREE},
					      {.key = ASSOC_FREE},
					      {.key = ASSOC_FREE},
					      {.key = ASSOC_FREE}}}};

static size_t sets_of(const struct assoc *a)
{
	return a->sets == assoc_no_sets ? 0 : a->mask / SET_BYTES + 1;
}

static struct assoc_entry *entry_of(struct assoc_set *s, uintptr_t key)
{
	for (int i = 0; i < ASSOC_WAYS; i++)
		if (atomic_load(&s->way[i].key) == key)
			return &s->way[i];
	return NULL;
}

static bool has_place(const struct assoc *a, uintptr_t key)
{
	return sets_of(a) && entry_of(assoc_set_of(a, key), ASSOC_FREE);
}

bool assoc_is_full(const struct assoc *a, uintptr_t key)
{
	return sets_of(a) < ASSOC_SETS_MAX && (!has_place(a, key) || 2 * a->puts >= sets_of(a));
}

/* In this order, because assoc_forget() may come at any time for the old key. */
static void set_entry(struct assoc_entry *e, uintptr_t key, void *object)
{
	atomic_store(&e->key, ASSOC_FREE);
	e->object = object;
	atomic_store(&e->key, key);
}

static struct assoc_set *sets_new(size_t sets)
{
	struct assoc_set *s = aligned_alloc(SET_BYTES, sets * SET_BYTES);

	for (size_t i = 0; s && i < sets; i++)
		s[i] = assoc_no_sets[0];
	return s;
}

void assoc_put(struct assoc *a, uintptr_t key, void *object)
{
	struct assoc_set *s = assoc_set_of(a, key);
	struct assoc_entry *e = entry_of(s, ASSOC_FREE);

	if (a->sets == assoc_no_sets)
		return; /* there was no memory */
	a->puts++;
	set_entry(e ? e : &s->way[key / sizeof(void *) % ASSOC_WAYS], key, object);
}

/* false: some set of it is too small for the keys of the other. */
static bool move_all(const struct assoc *from, struct assoc *to)
{
	for (size_t i = 0; i < sets_of(from); i++)
		for (int w = 0; w < ASSOC_WAYS; w++) {
			struct assoc_entry *e = &from->sets[i].way[w];
			uintptr_t key = atomic_load(&e->key);

			if (key == ASSOC_FREE)
				continue;
			if (!has_place(to, key))
				return false;
			assoc_put(to, key, e->object);
		}
	return true;
}

static size_t live_keys(const struct assoc *a)
{
	size_t n = 0;

	for (size_t i = 0; i < sets_of(a); i++)
		for (int w = 0; w < ASSOC_WAYS; w++)
			n += atomic_load(&a->sets[i].way[w].key) != ASSOC_FREE;
	return n;
}

void assoc_grow(struct assoc *a, uintptr_t key)
{
	size_t sets = sets_of(a) ? 2 * sets_of(a) : SETS_AT_ONCE;

	a->puts = live_keys(a); /* others were forgotten */
	if (!assoc_is_full(a, key))
		return;
	for (; sets <= ASSOC_SETS_MAX; sets *= 2) {
		struct assoc larger = {sets_new(sets), (sets - 1) * SET_BYTES, 0};

		if (!larger.sets)
			return;
		if (move_all(a, &larger) && has_place(&larger, key)) {
			assoc_clear(a);
			*a = larger;
			return;
		}
		free(larger.sets);
	}
}

void assoc_forget(struct assoc *a, uintptr_t key)
{
	struct assoc_set *s = assoc_set_of(a, key);

	for (int i = 0; i < ASSOC_WAYS; i++) {
		uintptr_t expected = key;

		if (atomic_load(&s->way[i].key) != key) /* most have never had it */
			continue;
		atomic_compare_exchange_strong(&s->way[i].key, &expected, ASSOC_FREE);
	}
}

void assoc_clear(struct assoc *a)
{
	if (a->sets != assoc_no_sets)
		free(a->sets);
	*a = (struct assoc)ASSOC_INIT;
}
