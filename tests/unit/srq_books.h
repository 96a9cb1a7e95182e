/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of one SRQ, and what their actions said: for tests that are the NICs by hand. */
#ifndef TESTS_UNIT_SRQ_BOOKS_H
#define TESTS_UNIT_SRQ_BOOKS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/core/srq.h"

#define MS 1000000ull

enum { NICS = 3, CAP = 8, ALL = 512 };

static struct shift_srq s;
static void *mem;
static uint64_t now;

/* What the actions said: ids posted to each NIC and not completed, drains under way. */
static struct {
	uint64_t id[ALL];
	uint32_t n;
	uint32_t drain; /* 0: none under way */
	uint32_t evict;
} nic[NICS];

static inline void holds(void)
{
	const char *what = shift_srq_check(&s);

	if (what)
		fail_msg("%s", what);
}

static inline void run(void)
{
	struct shift_srq_action a;
	const char *what;

	holds();
	for (int i = 0; i < 10000 && shift_srq_action(&s, now, &a); i++) {
		holds();
		switch (a.type) {
		case SHIFT_SRQ_ACT_POST: nic[a.nic].id[nic[a.nic].n++] = a.id; break;
		case SHIFT_SRQ_ACT_DRAIN:
			assert_int_equal(nic[a.nic].drain, 0);
			assert_true(a.count > 0);
			nic[a.nic].drain = a.count;
			break;
		case SHIFT_SRQ_ACT_EVICT: nic[a.nic].evict++; break;
		case SHIFT_SRQ_ACT_COUNT: fail();
		}
	}
	what = shift_srq_rests(&s, now);
	if (what)
		fail_msg("%s", what);
}

static inline int start(uint32_t cap)
{
	struct shift_srq_cfg cfg = {.cap = cap, .sge_max = 4, .nics = NICS};

	free(mem);
	mem = calloc(1, shift_srq_size(cap, 4));
	shift_srq_init(&s, mem, &cfg);
	memset(nic, 0, sizeof(nic));
	now = 1000 * MS;
	return 0;
}

static inline int setup(void **state)
{
	(void)state;
	return start(CAP);
}

static inline int teardown(void **state)
{
	(void)state;
	free(mem);
	mem = NULL;
	return 0;
}

static inline int post_wr(uint64_t wr_id, uint32_t sges)
{
	struct shift_sge sge[5] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
	struct shift_raw_recv wr = {.wr_id = wr_id, .sge = sge, .num_sge = sges};
	uint64_t id = 77;
	int k = shift_srq_post(&s, &wr, shift_srq_alone(&s) ? 0 : now, &id);

	holds();
	if (k >= 0 && k < NICS)
		nic[k].id[nic[k].n++] = id;
	return k < 0 ? k : 0;
}

static inline void post(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(post_wr(100 + i, 1), 0);
	run();
}

static inline void join(unsigned int k)
{
	assert_true(shift_srq_join(&s, k, now));
	run();
}

static inline void leave(unsigned int k, bool cut)
{
	shift_srq_leave(&s, k, cut, now);
	run();
}

/* NIC k takes one out of its queue. */
static inline uint64_t takes(unsigned int k)
{
	assert_true(nic[k].n > 0);
	return nic[k].id[--nic[k].n];
}

static inline bool completes(unsigned int k)
{
	uint64_t wr_id = takes(k);
	bool ok = shift_srq_done(&s, k, &wr_id, now);

	run();
	return ok;
}

/* The drainer of NIC k is at rest, and has told all. */
static inline void drain_ends(unsigned int k, enum shift_srq_drain how)
{
	nic[k].drain = 0;
	holds();
	shift_srq_drain_ends(&s, k, how, now);
	run();
}

/* The drainer of NIC k takes what it was to take, or all there is. */
static inline void drains(unsigned int k)
{
	uint32_t want = nic[k].drain;
	enum shift_srq_drain how = want > nic[k].n ? SHIFT_SRQ_RNR : SHIFT_SRQ_TOOK_ALL;

	assert_true(want > 0);
	while (want-- && nic[k].n)
		shift_srq_drained(&s, k, takes(k), now);
	drain_ends(k, how);
}

#define BOOKS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
