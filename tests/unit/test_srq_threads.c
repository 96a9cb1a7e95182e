/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The fast way of the books of an SRQ (doc/srq.md, S20): one thread posts, others poll. What orders
 * them is nothing but the id of each slot: the queue of ids here does not, from pollers to poster.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/core/srq.h"

enum { POLLERS = 2, CAP = 64, RING = 128, POSTS = 200000 };

struct poller {
	pthread_t thread;
	uint64_t id[RING];
	uint32_t put, got; /* atomic */
	uint64_t sum, n;
	uint32_t wrong;
};

static struct shift_srq s;
static struct poller poller[POLLERS];
static uint32_t outstanding; /* atomic, orders nothing */

static uint64_t key_of(uint64_t wr_id)
{
	return wr_id * 0x9e3779b97f4a7c15ull;
}

static void poll_one(struct poller *p, uint64_t id)
{
	struct shift_recv_wr wr;
	uint64_t wr_id = id;

	shift_srq_recv_at(&s, id, &wr);
	p->wrong += wr.sge->addr != key_of(wr.wr_id);
	p->wrong += !shift_srq_done_fast(&s, &wr_id) || wr_id != wr.wr_id;
	p->sum += wr_id;
	p->n++;
}

static void *polls(void *arg)
{
	struct poller *p = arg;

	while (true) {
		uint64_t id;

		if (p->got == __atomic_load_n(&p->put, __ATOMIC_ACQUIRE)) {
			sched_yield();
			continue;
		}
		id = p->id[p->got % RING];
		/* Relaxed: the poster never has more than fits. */
		__atomic_store_n(&p->got, p->got + 1, __ATOMIC_RELAXED);
		if (!id)
			return NULL;
		poll_one(p, id);
		__atomic_fetch_sub(&outstanding, 1, __ATOMIC_RELAXED);
	}
}

static void hand_over(struct poller *p, uint64_t id)
{
	while (p->put - __atomic_load_n(&p->got, __ATOMIC_RELAXED) == RING)
		sched_yield();
	__atomic_store_n(&p->id[p->put % RING], id, __ATOMIC_RELAXED);
	__atomic_store_n(&p->put, p->put + 1, __ATOMIC_RELEASE);
}

static uint64_t post(uint64_t wr_id)
{
	struct shift_sge sge = {.addr = key_of(wr_id)};
	struct shift_raw_recv raw = {.wr_id = wr_id, .sge = &sge, .num_sge = 1};
	struct shift_recv_wr wr = {.wr_id = wr_id, .sge = &sge, .num_sge = 1};
	uint64_t id = shift_srq_post_fast(&s, &raw);

	if (!id)
		assert_int_equal(shift_srq_post(&s, &wr, &id), 0);
	return id;
}

static void one_posts_others_poll(void **state)
{
	struct shift_srq_cfg cfg = {.cap = CAP, .sge_max = 1, .nics = 2};
	void *mem = calloc(1, shift_srq_size(CAP, 1));
	uint64_t sum = 0, n = 0;

	(void)state;
	shift_srq_init(&s, mem, &cfg);
	shift_srq_let_go(&s);
	for (int i = 0; i < POLLERS; i++)
		pthread_create(&poller[i].thread, NULL, polls, &poller[i]);
	for (uint64_t i = 1; i <= POSTS; i++) {
		while (__atomic_load_n(&outstanding, __ATOMIC_RELAXED) >= CAP)
			sched_yield();
		__atomic_fetch_add(&outstanding, 1, __ATOMIC_RELAXED);
		hand_over(&poller[key_of(i) >> 63], post(i));
	}
	for (int i = 0; i < POLLERS; i++)
		hand_over(&poller[i], 0);
	for (int i = 0; i < POLLERS; i++) {
		pthread_join(poller[i].thread, NULL);
		assert_int_equal(poller[i].wrong, 0);
		sum += poller[i].sum;
		n += poller[i].n;
	}
	assert_int_equal(n, POSTS);
	assert_int_equal(sum, (uint64_t)POSTS * (POSTS + 1) / 2);
	shift_srq_recount(&s, 0);
	assert_int_equal(s.total, 0);
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_posts_others_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
