/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A small table from handles (of communicators, requests, datatypes) to numbers. Any thread, no
 * lock. A handle is looked up only by threads to which the program has given it after it was put
 * here, and it is put by one thread at a time, as a handle belongs to one call.
 */
#ifndef SHIFT_COLLECTIVES_HANDLE_MAP_H
#define SHIFT_COLLECTIVES_HANDLE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HANDLE_SLOTS = 1024, HANDLE_PROBES = 16 };

/* Of handle_slot.handle: its value is being put or taken. */
#define HANDLE_BUSY UINT64_MAX

struct handle_map {
	struct handle_slot {
		uint64_t handle; /* 0: free */
		uint64_t value;
	} slot[HANDLE_SLOTS];
	uint64_t count;
};

static inline struct handle_slot *handle_slot_at(struct handle_map *m, uint64_t handle, unsigned i)
{
	uint64_t hash = handle * 0x9e3779b97f4a7c15ULL;

	return m->slot + ((hash >> 54) + i) % HANDLE_SLOTS;
}

/* handle: not 0. False: there is no room. */
static inline bool handle_put(struct handle_map *m, uint64_t handle, uint64_t value)
{
	for (unsigned i = 0; handle && i < HANDLE_PROBES; i++) {
		struct handle_slot *s = handle_slot_at(m, handle, i);
		uint64_t none = 0;

		if (__atomic_load_n(&s->handle, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&s->handle, &none, HANDLE_BUSY, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&s->value, value, __ATOMIC_RELAXED);
		__atomic_store_n(&s->handle, handle, __ATOMIC_RELEASE);
		__atomic_fetch_add(&m->count, 1, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

/* NULL: it is not there. */
static inline struct handle_slot *handle_find(struct handle_map *m, uint64_t handle)
{
	for (unsigned i = 0; handle && i < HANDLE_PROBES; i++) {
		struct handle_slot *s = handle_slot_at(m, handle, i);

		if (__atomic_load_n(&s->handle, __ATOMIC_ACQUIRE) == handle)
			return s;
	}
	return NULL;
}

/* Is it empty? One load. */
static inline bool handle_none(struct handle_map *m)
{
	return !__atomic_load_n(&m->count, __ATOMIC_RELAXED);
}

/* Takes it out. 0: it was not there. */
static inline uint64_t handle_take(struct handle_map *m, uint64_t handle)
{
	struct handle_slot *s;
	uint64_t value, is = handle;

	/* Another thread may take the same: what is complete at once has one request for all. */
	while ((s = handle_find(m, handle)) &&
	       !__atomic_compare_exchange_n(&s->handle, &is, HANDLE_BUSY, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED))
		is = handle;
	if (!s)
		return 0;
	value = __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
	__atomic_store_n(&s->handle, 0, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&m->count, 1, __ATOMIC_RELAXED);
	return value;
}

#endif
