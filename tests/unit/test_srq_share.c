/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue, rule by rule (doc/srq.md): which NIC has how many. */
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
	assert_false(shift_srq_alone(&s));
	shift_srq_drained(&s, 0, takes(0), now);
	run();
	assert_int_equal(s.free, 1);
	drain_ends(0, SHIFT_SRQ_RNR);
	assert_int_equal(nic[0].n, 8);
}

static void a_donor_that_fails_is_asked_later(void **state)
{
	(void)state;
	join(0);
	post(4);
	join(1);
	drain_ends(0, SHIFT_SRQ_FAILED);
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(s.nic[0].cut, 0); /* nothing was on the wire */
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].drain, 2);
}

/* A1: however often it fails, it does not get what it never gives back. */
static void who_fails_gets_nothing(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(4);
	assert_true(completes(1));
	assert_true(completes(1));
	assert_int_equal(nic[0].drain, 1);
	drain_ends(0, SHIFT_SRQ_FAILED_SENT);
	post(4);
	assert_int_equal(nic[0].n, 2);
	assert_int_equal(nic[1].n, 4);
	leave(1, true);
	assert_int_equal(nic[0].n, 6); /* there is no other */
}

static void who_fails_gets_what_others_refuse(void **state)
{
	(void)state;
	join(0);
	post(2);
	join(1);
	drain_ends(0, SHIFT_SRQ_FAILED);
	post(1);
	assert_int_equal(nic[1].n, 1);
	shift_srq_refused(&s, takes(1), now);
	run();
	assert_int_equal(nic[0].n, 3);
}

/* The other cannot be posted to at this moment: that passes. */
static void who_fails_gets_nothing_while_others_are_drained(void **state)
{
	(void)state;
	start(16);
	join(0);
	join(1);
	post(8);
	join(2);
	drain_ends(0, SHIFT_SRQ_FAILED);
	assert_int_equal(nic[1].drain, 2);
	leave(2, false);
	post(1);
	assert_int_equal(s.free, 1);
	drains(1);
	assert_int_equal(nic[0].n, 4);
	assert_int_equal(nic[1].n, 5);
}

/* But it does not wait for one that hangs. */
static void who_fails_gets_it_while_others_hang(void **state)
{
	(void)state;
	start(16);
	join(0);
	join(1);
	post(8);
	join(2);
	drain_ends(0, SHIFT_SRQ_FAILED);
	leave(2, false);
	post(1);
	assert_int_equal(s.free, 1);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].n, 5);
}

/* Nor in a new life. */
static void a_new_life_has_not_failed(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(4);
	assert_true(completes(1));
	assert_true(completes(1));
	drain_ends(0, SHIFT_SRQ_FAILED);
	post(4);
	assert_true(completes(0));
	assert_true(completes(0));
	leave(0, true);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_EMPTY);
	join(0);
	assert_int_equal(nic[1].drain, 2);
}

/* Not for ever: as soon as its drainer works, it has its share. */
static void who_fails_is_tried_when_it_needs_some(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(4);
	assert_true(completes(1));
	assert_true(completes(1));
	drain_ends(0, SHIFT_SRQ_FAILED);
	assert_true(completes(0));
	assert_true(completes(0));
	post(4);
	assert_int_equal(nic[0].n, 0);
	assert_int_equal(nic[1].n, 4);
	assert_int_equal(nic[0].drain + nic[1].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now = shift_srq_deadline(&s);
	run();
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	assert_int_equal(nic[1].drain, 2);
	drains(1);
	assert_int_equal(nic[0].n, 2);
}

static void fail_once_more(enum shift_srq_drain how)
{
	assert_int_equal(nic[0].drain, 1);
	drain_ends(0, how);
	now += 100 * MS;
	run();
}

static void failures_in_a_row_are_one_suspect(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(8);
	for (int i = 0; i < 4; i++)
		assert_true(completes(1));
	nic[0].drain = 1;
	fail_once_more(SHIFT_SRQ_FAILED);
	assert_int_equal(s.nic[0].cut, 0);
	nic[0].drain = 1;
	fail_once_more(SHIFT_SRQ_FAILED_SENT);
	assert_int_equal(s.nic[0].cut, 1);
	nic[0].drain = 1;
	fail_once_more(SHIFT_SRQ_FAILED_SENT);
	assert_int_equal(s.nic[0].cut, 1);
	assert_int_equal(s.stats.suspects, 1);
	drain_ends(0, SHIFT_SRQ_TOOK_ALL); /* of another run, then */
	drain_ends(0, SHIFT_SRQ_FAILED_SENT);
	assert_int_equal(s.nic[0].cut, 2);
}

/* Each may have taken one for all that: a peer that waits brings it to light. */
static void failures_in_a_row_may_have_taken_more(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(4);
	assert_true(completes(1));
	assert_true(completes(1));
	takes(0);
	fail_once_more(SHIFT_SRQ_FAILED_SENT);
	takes(0);
	fail_once_more(SHIFT_SRQ_FAILED_SENT);
	drains(0);
	assert_int_equal(s.nic[0].cut, 2);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* A4 */
static void a_drain_that_hangs_stops_no_other(void **state)
{
	(void)state;
	start(16);
	join(0);
	join(1);
	join(2);
	post(9);
	for (int i = 0; i < 3; i++)
		assert_true(completes(2));
	assert_int_equal(nic[0].drain, 1);
	now += 1000 * MS - 1;
	run();
	assert_int_equal(nic[1].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 1);
	now++;
	run();
	assert_int_equal(nic[1].drain, 1);
	drains(1);
	assert_int_equal(nic[2].n, 1);
	post(3);
	assert_int_equal(nic[0].n, 3);
	leave(0, true);
	assert_false(shift_srq_join(&s, 0, now)); /* it proves nothing */
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	drains(0);
	join(0);
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
	drain_ends(0, SHIFT_SRQ_FAILED_SENT);
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

/* A2: the NIC is in the middle of a message. There is nothing to take before that ends. */
static void a_turn_that_took_nothing(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(1);
	post(1);
	wr_id = takes(0);
	now += 20 * MS;
	run();
	drains(0);
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), UINT64_MAX);
	assert_true(shift_srq_supplied(&s, 1)); /* none is to be had */
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	run();
	post(1);
	assert_int_equal(nic[1].n, 1);
}

static void a_turn_that_took_nothing_is_not_over_at_once(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(1);
	now += 20 * MS;
	run();
	drain_ends(0, SHIFT_SRQ_TOOK_ALL); /* what it took, a flush had named before */
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
	drain_ends(0, SHIFT_SRQ_FAILED);
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
		BOOKS_TEST(who_has_two_gives_one),
		BOOKS_TEST(who_fails_gets_nothing),
		BOOKS_TEST(who_fails_gets_what_others_refuse),
		BOOKS_TEST(who_fails_gets_nothing_while_others_are_drained),
		BOOKS_TEST(who_fails_gets_it_while_others_hang),
		BOOKS_TEST(a_new_life_has_not_failed),
		BOOKS_TEST(who_fails_is_tried_when_it_needs_some),
		BOOKS_TEST(failures_in_a_row_are_one_suspect),
		BOOKS_TEST(failures_in_a_row_may_have_taken_more),
		BOOKS_TEST(a_drain_that_hangs_stops_no_other),
		BOOKS_TEST(a_turn_that_took_nothing_is_not_over_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
