/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue, rule by rule (doc/srq.md): which NIC has how many, and what
 * is missing. */
#include "tests/unit/srq_books.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOOKS_TEST(the_one_with_fewest_gets_it),
		BOOKS_TEST(among_those_without_the_one_that_waits_longest),
		BOOKS_TEST(a_newcomer_gets_its_share),
		BOOKS_TEST(none_while_another_has_two),
		BOOKS_TEST(the_one_that_has_most_gives_and_one_at_a_time),
		BOOKS_TEST(few_are_not_enough),
		BOOKS_TEST(nobody_waits_for_what_is_not_to_be_had),
		BOOKS_TEST(one_step_is_bounded),
		BOOKS_TEST(nothing_is_posted_while_it_is_drained),
		BOOKS_TEST(alone_it_waits_for_its_drain),
		BOOKS_TEST(a_donor_that_fails_is_asked_later),
		BOOKS_TEST(a_drain_fails_when_all_have_left_home),
		BOOKS_TEST(turns),
		BOOKS_TEST(the_turn_that_began_first_ends_first),
		BOOKS_TEST(a_turn_is_not_cut_short),
		BOOKS_TEST(a_turn_that_took_nothing),
		BOOKS_TEST(no_turns_where_nobody_waits),
		BOOKS_TEST(the_last_one_is_missing),
		BOOKS_TEST(a_sweep_that_fails),
		BOOKS_TEST(none_was_cut),
		BOOKS_TEST(it_was_in_the_middle),
		BOOKS_TEST(many_suspects_disturb_nobody),
		BOOKS_TEST(a_flush_tells),
		BOOKS_TEST(suspects_are_no_supply),
		BOOKS_TEST(progress_puts_it_off),
		BOOKS_TEST(nobody_comes_while_they_leave),
		BOOKS_TEST(a_supply_ends_the_eviction),
		BOOKS_TEST(who_has_two_gives_one),
		BOOKS_TEST(all_suspect_is_not_fast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
