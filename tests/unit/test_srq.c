/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue, rule by rule (doc/srq.md). */
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
	uint32_t shut, ready, evict;
} nic[NICS];

static void holds(void)
{
	const char *what = shift_srq_check(&s);

	if (what)
		fail_msg("%s", what);
}

static void run(void)
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
		case SHIFT_SRQ_ACT_SHUT: nic[a.nic].shut++; break;
		case SHIFT_SRQ_ACT_READY: nic[a.nic].ready++; break;
		case SHIFT_SRQ_ACT_EVICT: nic[a.nic].evict++; break;
		case SHIFT_SRQ_ACT_COUNT: fail();
		}
	}
	what = shift_srq_rests(&s, now);
	if (what)
		fail_msg("%s", what);
}

static int start(uint32_t cap)
{
	struct shift_srq_cfg cfg = {.cap = cap, .sge_max = 4, .nics = NICS};

	free(mem);
	mem = calloc(1, shift_srq_size(cap, 4));
	shift_srq_init(&s, mem, &cfg);
	memset(nic, 0, sizeof(nic));
	now = 1000 * MS;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return start(CAP);
}

static int teardown(void **state)
{
	(void)state;
	free(mem);
	mem = NULL;
	return 0;
}

static int post_wr(uint64_t wr_id, uint32_t sges)
{
	struct shift_sge sge[5] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
	struct shift_recv_wr wr = {.wr_id = wr_id, .sge = sge, .num_sge = sges};
	uint64_t id = 77;
	int err = shift_srq_post(&s, &wr, &id);

	if (!err && id)
		nic[0].id[nic[0].n++] = id;
	return err;
}

static void post(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(post_wr(100 + i, 1), 0);
	run();
}

static void join(unsigned int k)
{
	assert_true(shift_srq_join(&s, k, now));
	run();
}

static void leave(unsigned int k, bool cut)
{
	shift_srq_leave(&s, k, cut, now);
	run();
}

/* NIC k takes one out of its queue. */
static uint64_t takes(unsigned int k)
{
	assert_true(nic[k].n > 0);
	return nic[k].id[--nic[k].n];
}

static bool completes(unsigned int k)
{
	uint64_t wr_id = takes(k);
	bool ok = shift_srq_done(&s, k, &wr_id, now);

	run();
	return ok;
}

/* The drainer of NIC k takes what it was to take, or all there is. */
static void drains(unsigned int k)
{
	uint32_t want = nic[k].drain;
	enum shift_srq_drain how = want > nic[k].n ? SHIFT_SRQ_RNR : SHIFT_SRQ_TOOK_ALL;

	assert_true(want > 0);
	while (want-- && nic[k].n)
		shift_srq_drained(&s, k, takes(k), now);
	nic[k].drain = 0;
	holds();
	shift_srq_drain_ends(&s, k, how, now);
	run();
}

/* --- S1, S2, S3: receives --------------------------------------------------------------------- */

static void a_receive_comes_once(void **state)
{
	uint64_t id, wr_id;

	(void)state;
	join(0);
	post(1);
	id = wr_id = nic[0].id[0];
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	assert_int_equal(wr_id, 100);
	wr_id = id;
	assert_false(shift_srq_done(&s, 0, &wr_id, now));
	assert_int_equal(wr_id, id);
	assert_false(shift_srq_back(&s, 0, id, now));
	assert_int_equal(s.stats.stale, 2);
	assert_int_equal(s.total, 0);
	run();
}

static void an_id_is_never_used_again(void **state)
{
	uint64_t first, wr_id;

	(void)state;
	join(0);
	post(1);
	first = takes(0);
	wr_id = first;
	shift_srq_done(&s, 0, &wr_id, now);
	for (int i = 0; i < 100; i++) {
		post(1);
		assert_true(nic[0].id[0] > first);
		wr_id = first;
		assert_false(shift_srq_done(&s, 0, &wr_id, now));
		assert_true(completes(0));
	}
}

static void zero_is_no_id(void **state)
{
	uint64_t wr_id = 0;

	(void)state;
	join(0);
	assert_false(shift_srq_done(&s, 0, &wr_id, now));
	assert_false(shift_srq_back(&s, 0, 0, now));
	run();
}

static void an_id_counts_on_its_nic_only(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(1);
	post(2);
	assert_int_equal(nic[1].n, 1);
	wr_id = nic[1].id[0];
	assert_false(shift_srq_done(&s, 0, &wr_id, now));
	assert_true(shift_srq_done(&s, 1, &wr_id, now));
	run();
}

static void one_that_does_not_count_comes_back(void **state)
{
	uint64_t id;

	(void)state;
	join(0);
	post(1);
	id = takes(0);
	assert_true(shift_srq_back(&s, 0, id, now));
	run();
	assert_int_equal(nic[0].n, 1); /* posted anew */
	assert_true(nic[0].id[0] != id);
	assert_int_equal(s.stats.back, 1);
	assert_false(shift_srq_back(&s, 0, id, now));
}

static void wrs_are_kept(void **state)
{
	struct shift_recv_wr wr;

	(void)state;
	join(0);
	for (uint32_t sges = 0; sges <= 4; sges++)
		assert_int_equal(post_wr(sges, sges), 0);
	assert_int_equal(post_wr(9, 5), -EINVAL);
	run();
	for (uint32_t i = 0; i <= 4; i++) {
		shift_srq_recv_at(&s, nic[0].id[i], &wr);
		assert_int_equal(wr.wr_id, i);
		assert_int_equal(wr.num_sge, i);
		for (uint32_t n = 0; n < i; n++)
			assert_int_equal(wr.sge[n].lkey, 3 + 3 * n);
	}
}

static void full(void **state)
{
	(void)state;
	join(0);
	post(CAP);
	assert_int_equal(post_wr(1, 1), -ENOMEM);
	assert_true(completes(0));
	assert_int_equal(post_wr(1, 1), 0);
	assert_int_equal(post_wr(1, 1), -ENOMEM);
	run();
}

static void sizes(void **state)
{
	(void)state;
	assert_int_equal(shift_srq_size(0, 1), 0);
	assert_int_equal(shift_srq_size(1u << 23, 1), 0);
	assert_int_equal(shift_srq_size(8, 70000), 0);
	assert_int_equal(shift_srq_size(1, 1), 4 * sizeof(struct shift_srq_entry));
	assert_int_equal(shift_srq_size(9, 1), 32 * sizeof(struct shift_srq_entry));
	assert_int_equal(shift_srq_size(8, 2), 16 * (sizeof(struct shift_srq_entry) + 32));
}

/* A NIC that refuses one gets none for a while; it is not lost. */
static void refused(void **state)
{
	(void)state;
	join(0);
	post(1);
	shift_srq_refused(&s, takes(0), now);
	run();
	assert_int_equal(nic[0].n, 0);
	assert_int_equal(s.free, 1);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].n, 1);
}

static void a_mistake_is_forgotten(void **state)
{
	(void)state;
	join(0);
	post(2);
	shift_srq_unpost(&s, takes(0));
	assert_int_equal(s.total, 1);
	run();
	shift_srq_unpost(&s, 12345);
	assert_int_equal(s.total, 1);
}

/* --- S4 to S7: lives -------------------------------------------------------------------------- */

static void receives_lie_at_home_before_there_are_qps(void **state)
{
	(void)state;
	post(3);
	assert_int_equal(nic[0].n, 3);
	join(0);
	assert_true(completes(0));
	leave(0, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN); /* as with stock verbs */
	join(0);
	assert_true(completes(0));
	assert_int_equal(s.stats.lives, 0);
}

static void all_move(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(0);
	post(4);
	leave(0, true);
	assert_int_equal(nic[0].n, 4); /* the other may take them */
	assert_int_equal(s.free, 0);
	leave(0, true);
	assert_int_equal(s.free, 4);
	assert_int_equal(nic[0].shut, 1);
	assert_int_equal(s.nic[0].ghosts, 4);
	join(1);
	join(1);
	assert_int_equal(nic[1].n, 4);
	wr_id = nic[0].id[0];
	assert_false(shift_srq_done(&s, 0, &wr_id, now)); /* too late */
	for (int i = 0; i < 4; i++)
		assert_true(completes(1));
}

static void the_first_armed_ends_the_life_of_an_idle_home(void **state)
{
	(void)state;
	post(2);
	join(1);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(nic[1].n, 2);
}

static void nobody_joins_ghosts(void **state)
{
	(void)state;
	join(0);
	post(4);
	leave(0, true);
	join(1);
	assert_false(shift_srq_join(&s, 0, now));
	assert_int_equal(nic[0].drain, 4);
	drains(0);
	assert_int_equal(nic[0].ready, 1);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_EMPTY);
	join(0);
	assert_int_equal(s.stats.ghosts, 4);
}

/* One was cut, and the NIC has dropped it: only RNR says that no more will come. */
static void rnr_proves_empty(void **state)
{
	(void)state;
	join(0);
	post(4);
	takes(0);
	leave(0, true);
	join(1);
	assert_int_equal(nic[1].n, 4); /* the one that was cut, too */
	drains(0);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_EMPTY);
	assert_int_equal(s.stats.ghosts, 3);
}

static void less_than_all_proves_nothing(void **state)
{
	(void)state;
	join(0);
	post(4);
	leave(0, true);
	shift_srq_drained(&s, 0, takes(0), now);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_TOOK_ALL, now);
	run();
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(nic[0].drain, 3); /* at once */
	drains(0);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN); /* at home */
}

static void a_drain_that_fails_proves_nothing(void **state)
{
	(void)state;
	join(0);
	post(4);
	leave(0, true);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_FAILED, now);
	run();
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now += 100 * MS;
	run();
	assert_int_equal(nic[0].drain, 4);
}

/* A late completion of another QP says nothing of what is left. */
static void only_the_drainer_counts_ghosts(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	post(2);
	leave(0, true);
	join(1);
	for (int i = 0; i < 2; i++) {
		wr_id = nic[0].id[0];
		assert_false(shift_srq_done(&s, 0, &wr_id, now));
		assert_false(shift_srq_back(&s, 0, nic[0].id[0], now));
	}
	assert_int_equal(s.nic[0].ghosts, 2);
}

/* What the drainer takes of a life that is over is no receive any more: that lies elsewhere. */
static void a_ghost_is_not_given_again(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(1);
	leave(1, false);
	post(3);
	leave(0, true);
	leave(0, true);
	shift_srq_drained(&s, 0, takes(0), now);
	assert_int_equal(s.total, 4);
	assert_int_equal(s.free, 4);
	join(2);
	assert_int_equal(nic[2].n, 4);
	assert_int_equal(s.total, 4);
}

static void a_drain_outlives_its_life(void **state)
{
	(void)state;
	join(0);
	post(8);
	join(1);
	assert_int_equal(nic[0].drain, 4); /* for NIC 1 */
	shift_srq_drained(&s, 0, takes(0), now);
	run();
	assert_int_equal(nic[1].n, 1);
	leave(0, true);
	assert_int_equal(s.nic[0].ghosts, 7);
	assert_int_equal(nic[1].n, 8);
	shift_srq_drained(&s, 0, takes(0), now);
	assert_int_equal(s.nic[0].ghosts, 6);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_TOOK_ALL, now);
	run();
	assert_int_equal(nic[0].drain, 6);
	drains(0);
	assert_int_equal(nic[0].ready, 1);
}

static void an_empty_nic_needs_no_drain(void **state)
{
	(void)state;
	join(0);
	post(1);
	assert_true(completes(0));
	leave(0, true);
	assert_int_equal(nic[0].shut, 0);
	assert_true(shift_srq_join(&s, 0, now));
}

static void home_is_opened_again(void **state)
{
	(void)state;
	join(0);
	leave(0, false);
	join(1);
	post(2);
	assert_int_equal(nic[1].n, 2);
	leave(1, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN);
	assert_int_equal(nic[0].n, 2);
	assert_int_equal(nic[1].drain, 2);
	drains(1);
	assert_true(shift_srq_fast(&s));
}

/* --- S8 to S11, S16: sharing ------------------------------------------------------------------ */

static void the_one_with_fewest_gets_it(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(6);
	assert_int_equal(nic[0].n, 3);
	assert_int_equal(nic[1].n, 3);
	assert_true(completes(1));
	post(1);
	assert_int_equal(nic[1].n, 3);
}

static void among_those_without_the_one_that_waits_longest(void **state)
{
	(void)state;
	join(0);
	now += MS;
	join(1);
	now += MS;
	join(2);
	post(1);
	assert_int_equal(nic[0].n, 1);
	now += MS;
	assert_true(completes(0));
	post(1);
	assert_int_equal(nic[1].n, 1);
	now += MS;
	assert_true(completes(1));
	post(1);
	assert_int_equal(nic[2].n, 1);
}

static void a_newcomer_gets_its_share(void **state)
{
	(void)state;
	join(0);
	post(8);
	assert_int_equal(nic[0].drain, 0);
	join(1);
	assert_false(shift_srq_supplied(&s, 1));
	assert_int_equal(nic[0].drain, 4);
	drains(0);
	assert_true(shift_srq_supplied(&s, 1));
	assert_int_equal(nic[0].n, 4);
	assert_int_equal(nic[1].n, 4);
	assert_int_equal(s.stats.drained, 4);
}

static void none_while_another_has_two(void **state)
{
	(void)state;
	join(0);
	post(2);
	join(1);
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	assert_int_equal(nic[1].n, 1);
	assert_int_equal(nic[0].drain, 0);
}

static void the_one_that_has_most_gives_and_one_at_a_time(void **state)
{
	(void)state;
	start(16);
	join(0);
	join(1);
	post(10);
	assert_true(completes(1));
	join(2);
	assert_int_equal(nic[0].drain, 2);
	assert_int_equal(nic[1].drain, 0);
	drains(0);
	assert_int_equal(nic[2].n, 2);
	assert_int_equal(nic[1].drain, 0);
}

/* On rail 0 the peer may not be patient. */
static void few_are_not_enough(void **state)
{
	(void)state;
	start(ALL);
	join(0);
	post(ALL);
	join(1);
	assert_int_equal(nic[0].drain, 64); /* equal to a quarter of 256: enough */
	drains(0);
	assert_int_equal(nic[0].drain, 0);
	assert_true(completes(1));
	assert_int_equal(nic[0].drain, 64);
}

static void nobody_waits_for_what_is_not_to_be_had(void **state)
{
	(void)state;
	join(0);
	assert_true(shift_srq_supplied(&s, 0));
	join(1);
	post(1);
	assert_true(shift_srq_supplied(&s, 0));
	assert_false(shift_srq_supplied(&s, 1));
}

static void one_step_is_bounded(void **state)
{
	(void)state;
	start(300);
	join(0);
	post(300);
	join(1);
	assert_int_equal(nic[0].drain, 64);
	drains(0);
	assert_int_equal(nic[1].n, 64);
	assert_int_equal(nic[0].drain, 0); /* more than a quarter of 150 */
}

static void nothing_is_posted_while_it_is_drained(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	assert_int_equal(nic[0].drain, 2);
	post(4);
	assert_int_equal(nic[0].n, 4);
	assert_int_equal(nic[1].n, 4);
	drains(0);
	assert_int_equal(nic[0].n + nic[1].n, 8);
}

static void alone_it_waits_for_its_drain(void **state)
{
	(void)state;
	join(0);
	post(8);
	join(1);
	leave(1, false);
	assert_int_equal(nic[0].drain, 4);
	assert_false(shift_srq_fast(&s));
	shift_srq_drained(&s, 0, takes(0), now);
	run();
	assert_int_equal(s.free, 1);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_RNR, now);
	run();
	assert_int_equal(nic[0].n, 8);
}

static void a_donor_that_fails_is_asked_later(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_FAILED, now);
	run();
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(s.nic[0].cut, 1); /* its last message may have had one (S19) */
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].drain, 1);
}

static void a_drain_fails_when_all_have_left_home(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	assert_int_equal(nic[0].drain, 2);
	leave(1, false);
	leave(0, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_OPEN);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_FAILED, now);
	run();
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	assert_int_equal(s.free, 4);
	now += 100 * MS;
	run();
	drains(0);
	assert_int_equal(nic[0].n, 4);
}

static void turns(void **state)
{
	(void)state;
	join(0);
	post(1);
	now += 5 * MS;
	join(1);
	now += 5 * MS;
	join(2);
	for (unsigned int turn = 0; turn < 6; turn++) {
		unsigned int k = turn % 3;

		assert_int_equal(nic[k].n, 1);
		assert_int_equal(nic[k].drain, 0);
		now = shift_srq_deadline(&s);
		run();
		assert_int_equal(nic[k].drain, 1);
		now += MS;
		drains(k);
	}
	assert_int_equal(s.stats.turns, 6);
	assert_true(now < 1000 * MS + 6 * 25 * MS);
}

static void the_turn_that_began_first_ends_first(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	now += 5 * MS;
	post(1);
	assert_int_equal(nic[1].n, 1);
	join(2);
	now += 15 * MS;
	run();
	assert_int_equal(nic[0].drain, 1);
	assert_int_equal(nic[1].drain, 0);
}

static void a_turn_is_not_cut_short(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	assert_int_equal(shift_srq_deadline(&s), now + 20 * MS);
	now += 20 * MS - 1;
	run();
	assert_int_equal(nic[0].drain, 0);
	now++;
	run();
	assert_int_equal(nic[0].drain, 1);
}

/* The NIC is in the middle of a message: it has its turn. */
static void a_turn_that_took_nothing(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	now += 20 * MS;
	run();
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_RNR, now);
	run();
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 20 * MS);
}

static void no_turns_where_nobody_waits(void **state)
{
	(void)state;
	join(0);
	post(1);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), UINT64_MAX);
}

/* --- S17 to S19: missing ---------------------------------------------------------------------- */

/* Depth 1: A was cut and has moved, B is left on a NIC that dropped the receive. */
static void the_last_one_is_missing(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	assert_int_equal(s.nic[0].cut, 1);
	assert_false(shift_srq_supplied(&s, 0));
	assert_int_equal(nic[0].drain, 1);
	drains(0); /* RNR */
	assert_int_equal(nic[0].evict, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 1000 * MS);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].evict, 1);
	assert_int_equal(nic[0].drain, 0);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].evict, 2);
	join(1);
	leave(0, true);
	assert_int_equal(nic[1].n, 1);
}

/* A drainer that does not work keeps nobody from being helped. */
static void a_sweep_that_fails(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	leave(0, true);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(nic[0].drain, 1);
		assert_int_equal(nic[0].evict, 0);
		nic[0].drain = 0;
		shift_srq_drain_ends(&s, 0, SHIFT_SRQ_FAILED, now);
		run();
		now += 100 * MS;
		run();
	}
	assert_int_equal(nic[0].evict, 1);
}

static void none_was_cut(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	leave(0, true);
	assert_int_equal(nic[0].drain, 1);
	drains(0); /* it was there */
	assert_int_equal(s.nic[0].cut, 0);
	assert_int_equal(nic[0].n, 1);
	now += 5000 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
}

/* What is left is that of B's message, which ends. */
static void it_was_in_the_middle(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(0);
	post(1);
	wr_id = takes(0);
	leave(0, true);
	drains(0);
	now += 500 * MS;
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	run();
	assert_int_equal(s.nic[0].cut, 0);
	now += 5000 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
}

static void many_suspects_disturb_nobody(void **state)
{
	(void)state;
	join(0);
	post(8);
	for (int i = 0; i < 7; i++) {
		join(0);
		leave(0, true);
		assert_int_equal(nic[0].drain, 0);
	}
	assert_int_equal(s.nic[0].cut, 7);
	join(0);
	leave(0, true);
	assert_int_equal(nic[0].drain, 8);
	drains(0);
	assert_int_equal(s.nic[0].cut, 0);
	assert_int_equal(nic[0].n, 8);
	assert_int_equal(s.stats.suspects, 8);
}

/* A flush has named it: nothing is suspect. */
static void a_flush_tells(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	assert_true(shift_srq_back(&s, 0, takes(0), now));
	leave(0, false);
	assert_int_equal(nic[0].n, 1);
	assert_int_equal(nic[0].drain, 0);
}

/* Missing ones are not shared out: NIC 0 believes in two, and has one. */
static void suspects_are_no_supply(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(2);
	takes(0);
	leave(0, true);
	join(1);
	assert_int_equal(nic[0].drain, 0); /* one is sure, and two NICs: turns */
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	assert_int_equal(nic[1].n, 1);
}

/* What completes shows that the NIC is not out of receives for good. */
static void progress_puts_it_off(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(0);
	join(0);
	post(2);
	wr_id = takes(0); /* in the middle */
	takes(0);
	leave(0, true);
	leave(0, true);
	assert_int_equal(s.nic[0].cut, 2);
	drains(0);
	now += 900 * MS;
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	run();
	assert_int_equal(s.nic[0].cut, 1);
	drains(0);
	now += 999 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
	now += MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* Those who leave must not meet others who come, or the life never ends. */
static void nobody_comes_while_they_leave(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	now = shift_srq_deadline(&s);
	assert_true(shift_srq_join(&s, 0, now)); /* not yet */
	run();
	assert_int_equal(nic[0].evict, 1);
	assert_int_equal(nic[0].shut, 1);
	assert_false(shift_srq_join(&s, 0, now));
	now += 499 * MS;
	leave(0, true);
	assert_false(shift_srq_join(&s, 0, now));
	now += 499 * MS;
	assert_false(shift_srq_join(&s, 0, now));
	assert_int_equal(shift_srq_deadline(&s), now + MS);
	now = shift_srq_deadline(&s);
	run(); /* another round: who stays may be joined for a while */
	assert_int_equal(nic[0].evict, 1);
	assert_int_equal(nic[0].ready, 1);
	join(0);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].evict, 2);
	assert_int_equal(nic[0].shut, 2);
	leave(0, true);
	leave(0, true);
	leave(0, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	drains(0);
	join(0);
	assert_int_equal(nic[0].n, 1);
}

static void a_supply_ends_the_eviction(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].shut, 1);
	post(1);
	assert_int_equal(nic[0].ready, 1);
	join(0);
	assert_int_equal(nic[0].evict, 1);
}

/* NIC 0 has more than its share, and does not give. */
static void who_has_two_gives_one(void **state)
{
	(void)state;
	start(16);
	join(0);
	join(1);
	post(4);
	assert_int_equal(nic[1].n, 2);
	leave(1, false);
	nic[1].n = 0;
	drains(1);
	join(2);
	assert_int_equal(nic[0].drain, 2);
	nic[0].drain = 0;
	shift_srq_drain_ends(&s, 0, SHIFT_SRQ_FAILED, now);
	run();
	join(1);
	post(3);
	assert_int_equal(nic[1].n, 2);
	assert_int_equal(nic[2].n, 1);
	assert_true(completes(2));
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(nic[1].drain, 1);
	drains(1);
	assert_int_equal(nic[2].n, 1);
}

static void all_suspect_is_not_fast(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(2);
	leave(0, true);
	assert_true(shift_srq_fast(&s));
	assert_true(completes(0));
	drains(0);
	assert_true(shift_srq_fast(&s)); /* it was there */
	takes(0);
	join(0);
	leave(0, true);
	drains(0);
	assert_false(shift_srq_fast(&s));
}

/* --- S20: fast and slow ----------------------------------------------------------------------- */

static uint64_t post_fast(uint64_t wr_id, uint32_t sges)
{
	struct shift_sge sge[2] = {{1, 2, 3}, {4, 5, 6}};
	struct shift_raw_recv wr = {.wr_id = wr_id, .sge = sge, .num_sge = sges};

	return shift_srq_post_fast(&s, &wr);
}

static void the_fast_way(void **state)
{
	struct shift_recv_wr wr;
	uint64_t id, wr_id;

	(void)state;
	join(0);
	post(2);
	assert_true(shift_srq_fast(&s));
	shift_srq_let_go(&s);
	id = post_fast(7, 1);
	assert_true(id);
	shift_srq_recv_at(&s, id, &wr);
	assert_int_equal(wr.sge[0].lkey, 3);
	wr_id = id;
	assert_true(shift_srq_done_fast(&s, &wr_id));
	assert_int_equal(wr_id, 7);
	wr_id = id;
	assert_false(shift_srq_done_fast(&s, &wr_id));
	assert_int_equal(wr_id, id);
	wr_id = nic[0].id[0] + 2ull * CAP; /* of that slot, but not yet */
	assert_false(shift_srq_done_fast(&s, &wr_id));
	assert_int_equal(post_fast(8, 0), 0);
	assert_int_equal(post_fast(9, 2), 0);
	assert_int_equal(post_wr(9, 2), 0); /* the id comes at once */
	assert_int_equal(nic[0].n, 3);
	shift_srq_recount(&s, now);
	assert_int_equal(s.total, 3);
	assert_int_equal(s.nic[0].on, 3);
	run();
}

static void the_fast_way_passes_slots_in_use(void **state)
{
	uint64_t parked, wr_id;

	(void)state;
	join(0);
	shift_srq_let_go(&s);
	parked = post_fast(1, 1);
	for (int i = 0; i < 200; i++) {
		uint64_t id = post_fast(2, 1);

		if (!id) {
			struct shift_recv_wr wr = {.wr_id = 2};

			assert_int_equal(shift_srq_post(&s, &wr, &id), 0);
			assert_true(id > parked);
		}
		wr_id = id;
		assert_true(shift_srq_done_fast(&s, &wr_id));
		assert_int_equal(wr_id, 2);
	}
	wr_id = parked;
	assert_true(shift_srq_done_fast(&s, &wr_id));
	assert_int_equal(wr_id, 1);
}

static void the_fast_way_is_full_at_last(void **state)
{
	uint32_t n = 0;
	struct shift_recv_wr wr = {.wr_id = 2};
	uint64_t id;

	(void)state;
	join(0);
	shift_srq_let_go(&s);
	while (!shift_srq_post(&s, &wr, &id))
		n++;
	assert_int_equal(n, 2 * CAP);
	shift_srq_unpost(&s, id);
	assert_int_equal(shift_srq_post(&s, &wr, &id), 0);
}

static void what_is_not_fast(void **state)
{
	(void)state;
	join(0);
	post(4);
	assert_true(shift_srq_fast(&s));
	join(1);
	assert_false(shift_srq_fast(&s));
	drains(0);
	leave(1, true);
	assert_true(shift_srq_fast(&s)); /* NIC 1 is drained meanwhile */
	shift_srq_let_go(&s);
	assert_true(nic[1].drain > 0);
	while (nic[1].n)
		shift_srq_drained(&s, 1, takes(1), now);
	shift_srq_drain_ends(&s, 1, SHIFT_SRQ_TOOK_ALL, now);
	assert_int_equal(s.nic[1].state, SHIFT_SRQ_EMPTY);
}

static void suspects_on_the_fast_way(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(0);
	post(3);
	leave(0, true);
	assert_true(shift_srq_fast(&s));
	shift_srq_let_go(&s);
	assert_false(shift_srq_suspicious(&s));
	for (int i = 0; i < 2; i++) {
		wr_id = takes(0);
		assert_true(shift_srq_done_fast(&s, &wr_id));
	}
	assert_true(shift_srq_suspicious(&s));
	shift_srq_recount(&s, now);
	run();
	assert_int_equal(nic[0].drain, 1);
}

/* --- S21, and the rest ------------------------------------------------------------------------ */

static void limits(void **state)
{
	(void)state;
	join(0);
	post(8);
	assert_int_equal(shift_srq_limit(&s, 0, 3), 3); /* alone it is the program's */
	assert_int_equal(shift_srq_limit(&s, 0, 8), 8);
	assert_int_equal(shift_srq_limit(&s, 0, 9), 0); /* due */
	assert_int_equal(shift_srq_limit(&s, 0, 0), 0);
	assert_int_equal(shift_srq_limit(&s, 1, 3), 0);
	join(1);
	drains(0);
	/* 8 - 3 + 1 may be taken: each fires when 3 of its 4 are. */
	assert_int_equal(shift_srq_limit(&s, 0, 3), 2);
	assert_int_equal(shift_srq_limit(&s, 1, 3), 2);
	/* 8 - 2 + 1: 4 of 4. */
	assert_int_equal(shift_srq_limit(&s, 1, 2), 1);
	assert_int_equal(shift_srq_limit(&s, 1, 1), 1);
}

/* However the receives of two NICs are taken, one fires before the program's limit is passed. */
static void limits_are_never_late(void **state)
{
	(void)state;
	for (uint32_t a = 0; a < 8; a++)
		for (uint32_t b = 0; a + b < 8; b++)
			for (uint32_t limit = 1; limit <= a + b; limit++) {
				s.nic[0].live = s.nic[1].live = 1;
				s.nic[1].state = SHIFT_SRQ_OPEN;
				s.nic[0].on = a;
				s.nic[1].on = b;
				s.total = a + b;
				for (uint32_t x = 0; x <= a; x++)
					for (uint32_t y = 0; y <= b; y++) {
						bool due = a - x + b - y < limit;
						bool fired = a - x < shift_srq_limit(&s, 0,
										     limit) ||
							     b - y < shift_srq_limit(&s, 1, limit);

						assert_true(fired || !due);
					}
			}
}

static void growing(void **state)
{
	struct shift_recv_wr wr;
	void *old = mem;

	(void)state;
	post(3);
	join(1); /* all free, then on NIC 1 */
	leave(1, true);
	assert_int_equal(nic[1].drain, 3);
	assert_int_equal(post_wr(55, 4), 0);
	shift_srq_drained(&s, 1, takes(1), now);
	assert_int_equal(s.free, 4);
	mem = calloc(1, shift_srq_size(4 * CAP, 4));
	shift_srq_grow(&s, mem, 4 * CAP);
	free(old);
	nic[0].n = 0; /* ghosts */
	run();
	drains(0);
	assert_int_equal(nic[0].n, 4);
	assert_int_equal(s.total, 4);
	shift_srq_recv_at(&s, nic[0].id[3], &wr);
	assert_int_equal(wr.wr_id, 55);
	assert_int_equal(wr.sge[3].lkey, 12);
	for (int i = 0; i < 4; i++)
		assert_true(completes(0));
	post(4 * CAP);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_receive_comes_once),
		TEST(an_id_is_never_used_again),
		TEST(zero_is_no_id),
		TEST(an_id_counts_on_its_nic_only),
		TEST(one_that_does_not_count_comes_back),
		TEST(wrs_are_kept),
		TEST(full),
		TEST(sizes),
		TEST(refused),
		TEST(a_mistake_is_forgotten),
		TEST(receives_lie_at_home_before_there_are_qps),
		TEST(all_move),
		TEST(the_first_armed_ends_the_life_of_an_idle_home),
		TEST(nobody_joins_ghosts),
		TEST(rnr_proves_empty),
		TEST(less_than_all_proves_nothing),
		TEST(a_drain_that_fails_proves_nothing),
		TEST(only_the_drainer_counts_ghosts),
		TEST(a_ghost_is_not_given_again),
		TEST(a_drain_outlives_its_life),
		TEST(an_empty_nic_needs_no_drain),
		TEST(home_is_opened_again),
		TEST(the_one_with_fewest_gets_it),
		TEST(among_those_without_the_one_that_waits_longest),
		TEST(a_newcomer_gets_its_share),
		TEST(none_while_another_has_two),
		TEST(the_one_that_has_most_gives_and_one_at_a_time),
		TEST(few_are_not_enough),
		TEST(nobody_waits_for_what_is_not_to_be_had),
		TEST(one_step_is_bounded),
		TEST(nothing_is_posted_while_it_is_drained),
		TEST(alone_it_waits_for_its_drain),
		TEST(a_donor_that_fails_is_asked_later),
		TEST(a_drain_fails_when_all_have_left_home),
		TEST(turns),
		TEST(the_turn_that_began_first_ends_first),
		TEST(a_turn_is_not_cut_short),
		TEST(a_turn_that_took_nothing),
		TEST(no_turns_where_nobody_waits),
		TEST(the_last_one_is_missing),
		TEST(a_sweep_that_fails),
		TEST(none_was_cut),
		TEST(it_was_in_the_middle),
		TEST(many_suspects_disturb_nobody),
		TEST(a_flush_tells),
		TEST(suspects_are_no_supply),
		TEST(progress_puts_it_off),
		TEST(nobody_comes_while_they_leave),
		TEST(a_supply_ends_the_eviction),
		TEST(who_has_two_gives_one),
		TEST(all_suspect_is_not_fast),
		TEST(the_fast_way),
		TEST(the_fast_way_passes_slots_in_use),
		TEST(the_fast_way_is_full_at_last),
		TEST(what_is_not_fast),
		TEST(suspects_on_the_fast_way),
		TEST(limits),
		TEST(limits_are_never_late),
		TEST(growing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
