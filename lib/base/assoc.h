/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A set-associative table from a key (an object's address, a QPN) to our object, in front of a
 * struct table: what is not found here is looked up there and put here. A set of four entries is
 * one cache line, so a search reads one line. A table whose set is full grows; at its largest it
 * forgets another entry of the set instead.
 *
 * One thread at a time finds, puts and clears. Another thread may make it forget a key meanwhile,
 * if a lock of the caller's keeps assoc_put() from growing the table under it (assoc_is_full()).
 */
#ifndef SHIFT_BASE_ASSOC_H
#define SHIFT_BASE_ASSOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/plain_read.h"

#define ASSOC_WAYS     4
#define ASSOC_SETS_MAX 4096

/* No address and no QPN. */
#define ASSOC_FREE UINTPTR_MAX

struct assoc_entry {
	_Atomic uintptr_t key; /* or ASSOC_FREE */
	void *object;
};

struct assoc_set {
	struct assoc_entry way[ASSOC_WAYS];
} __attribute__((aligned(64)));

struct assoc {
	struct assoc_set *sets;
	size_t mask; /* of byte offsets in sets: bytes - sizeof(*sets) */
	size_t puts; /* since it has grown */
};

/* Nothing is ever put into it. */
extern struct assoc_set assoc_no_sets[1];

#define ASSOC_INIT                     \
	{                              \
		.sets = assoc_no_sets, \
	}

/* Addresses and QPNs differ in their low 32 bits. The product's high bits depend on all of them. */
static inline struct assoc_set *assoc_set_of(const struct assoc *a, uintptr_t key)
{
	size_t at = ((uint32_t)key * 0x9e3779b1u >> 14) & a->mask;

	return (struct assoc_set *)(void *)((char *)a->sets + at);
}

static inline bool assoc_has(const struct assoc_entry *e, uintptr_t key)
{
	return PLAIN_READ(uintptr_t, &e->key) == key;
}

/* The object, or NULL. A key is never ASSOC_FREE. */
static inline void *assoc_find(const struct assoc *a, uintptr_t key)
{
	const struct assoc_entry *e = assoc_set_of(a, key)->way;

	_Static_assert(ASSOC_WAYS == 4, "each is looked at here");
	if (!assoc_has(e, key) && !assoc_has(++e, key) && !assoc_has(++e, key) &&
	    !assoc_has(++e, key))
		return NULL;
	if (!e->object) /* never; it spares the caller the question */
		__builtin_unreachable();
	return e->object;
}

/* Is it to grow before it takes the key? Most keys are to be the first of their set, which is found
 * first: so there are twice as many sets as keys. */
bool assoc_is_full(const struct assoc *a, uintptr_t key);

/* Doubles it, at least once, until every key of it and this one have a place. Without memory, and
 * at its largest, it stays as it is. */
void assoc_grow(struct assoc *a, uintptr_t key);

/* Adds a key that is not there; the object is not NULL. If there is no place for it, it takes that
 * of another one. */
void assoc_put(struct assoc *a, uintptr_t key, void *object);

/* Also from another thread: see above. */
void assoc_forget(struct assoc *a, uintptr_t key);

/* Forgets all, and frees its memory. */
void assoc_clear(struct assoc *a);

#endif
