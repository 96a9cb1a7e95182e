/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue, rule by rule (doc/srq.md): receives, lives, the fast way. */
#include "tests/unit/srq_books.h"

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
	const struct CMUnitTest tests[] = {
		BOOKS_TEST(a_receive_comes_once),
		BOOKS_TEST(an_id_is_never_used_again),
		BOOKS_TEST(zero_is_no_id),
		BOOKS_TEST(an_id_counts_on_its_nic_only),
		BOOKS_TEST(one_that_does_not_count_comes_back),
		BOOKS_TEST(wrs_are_kept),
		BOOKS_TEST(full),
		BOOKS_TEST(sizes),
		BOOKS_TEST(refused),
		BOOKS_TEST(a_mistake_is_forgotten),
		BOOKS_TEST(receives_lie_at_home_before_there_are_qps),
		BOOKS_TEST(all_move),
		BOOKS_TEST(the_first_armed_ends_the_life_of_an_idle_home),
		BOOKS_TEST(nobody_joins_ghosts),
		BOOKS_TEST(rnr_proves_empty),
		BOOKS_TEST(less_than_all_proves_nothing),
		BOOKS_TEST(a_drain_that_fails_proves_nothing),
		BOOKS_TEST(only_the_drainer_counts_ghosts),
		BOOKS_TEST(a_ghost_is_not_given_again),
		BOOKS_TEST(a_drain_outlives_its_life),
		BOOKS_TEST(an_empty_nic_needs_no_drain),
		BOOKS_TEST(home_is_opened_again),
		BOOKS_TEST(the_fast_way),
		BOOKS_TEST(the_fast_way_passes_slots_in_use),
		BOOKS_TEST(the_fast_way_is_full_at_last),
		BOOKS_TEST(what_is_not_fast),
		BOOKS_TEST(suspects_on_the_fast_way),
		BOOKS_TEST(limits),
		BOOKS_TEST(limits_are_never_late),
		BOOKS_TEST(growing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
