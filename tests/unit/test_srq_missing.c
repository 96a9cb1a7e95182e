/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue, rule by rule (doc/srq.md): what is missing, or held. */
#include "tests/unit/srq_books.h"

/* --- S17 to S19, S23: missing
 * ---------------------------------------------------------------------- */

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
	assert_int_equal(shift_srq_deadline(&s), now + 500 * MS);
	now += 1999 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
	now += MS;
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
		drain_ends(0, SHIFT_SRQ_FAILED);
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
	assert_int_equal(s.nic[0].held, 1);
	assert_int_equal(nic[0].drain, 0); /* nothing has come */
	now += 999 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
	now += MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* C2: that others come and go says nothing of the one that is missing. */
static void progress_of_newer_ones_puts_nothing_off(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(2);
	takes(0);
	leave(0, true);
	assert_true(completes(0));
	drains(0);
	assert_int_equal(s.nic[0].held, 1);
	now += 100 * MS;
	post(1);
	now += 800 * MS;
	assert_true(completes(0));
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now += 100 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* What was wrong before says nothing of who leaves now. */
static void a_new_suspect_has_its_second(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(2);
	takes(0);
	shift_srq_look(&s, 0, now);
	run();
	drains(0); /* in the middle of a long message */
	now += 3000 * MS;
	leave(0, true);
	assert_int_equal(s.nic[0].cut, 1);
	assert_int_equal(nic[0].evict, 0);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* Nor does one that the NIC would not have (B5). */
static void a_refusal_puts_nothing_off(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(nic[0].evict, 0);
		if (i)
			now += 100 * MS;
		else
			post(1);
		run();
		shift_srq_refused(&s, takes(0), now);
		run();
		assert_int_equal(nic[0].drain, 0);
	}
	now += 100 * MS - 1;
	run();
	assert_int_equal(nic[0].evict, 0);
	shift_srq_unpost(&s, shift_srq_at(&s, s.free_first)->id, now); /* is free: nothing */
	now++;
	run();
	shift_srq_refused(&s, takes(0), now);
	run();
	assert_int_equal(nic[0].evict, 1);
}

static void a_refusal_puts_nothing_off_when_drains_fail(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	drain_ends(0, SHIFT_SRQ_FAILED);
	now += 900 * MS;
	run();
	drain_ends(0, SHIFT_SRQ_FAILED);
	post(1);
	shift_srq_refused(&s, takes(0), now);
	run();
	assert_int_equal(nic[0].evict, 0);
	now += 100 * MS;
	run();
	shift_srq_refused(&s, takes(0), now);
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* C3: where would they go? */
static void one_nic_at_a_time(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		join(k);
		join(k);
	}
	post(2);
	for (int k = 0; k < 2; k++) {
		takes(k);
		leave(k, true);
		drains(k);
	}
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
	now += 500 * MS - 1;
	run();
	assert_int_equal(nic[1].evict, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 1);
	now++;
	run();
	assert_int_equal(nic[1].evict, 1);
	assert_int_equal(nic[0].evict, 1);
}

/* Nor is it waited for one whose drainer hangs. */
static void but_if_that_hangs(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	now += 500 * MS;
	post(2);
	assert_int_equal(nic[1].n, 1);
	assert_true(completes(0));
	leave(1, true);
	assert_int_equal(nic[1].drain, 1);
	assert_true(completes(0));
	now += 999 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
	assert_int_equal(shift_srq_deadline(&s), now + MS);
	now += MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

static void not_while_another_is_emptied(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	now += 900 * MS;
	join(1);
	post(2);
	assert_int_equal(nic[1].n, 1);
	leave(1, true);
	assert_int_equal(nic[0].n, 2);
	assert_true(completes(0));
	assert_true(completes(0));
	assert_int_equal(nic[1].drain, 1);
	now += 100 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
	drain_ends(1, SHIFT_SRQ_FAILED); /* who knows when it will be */
	assert_int_equal(nic[0].evict, 1);
}

/* A3: what is in the middle, or gone with a QP that the program has ended, is no supply. */
static void a_peer_waits(void **state)
{
	(void)state;
	join(0);
	join(1);
	post(4);
	takes(0);
	takes(0);
	assert_int_equal(nic[1].drain, 0);
	shift_srq_look(&s, 0, now);
	run();
	assert_int_equal(nic[0].drain, 1);
	assert_int_equal(s.stats.looks, 1);
	assert_int_equal(shift_srq_good(&s, 0), 2);
	drains(0);
	assert_int_equal(s.nic[0].held, 2);
	assert_int_equal(shift_srq_good(&s, 0), 0);
	assert_int_equal(nic[1].drain, 1);
	shift_srq_look(&s, 0, now); /* that is known */
	run();
	assert_int_equal(nic[0].drain, 0);
	drains(1);
	assert_int_equal(nic[0].n, 1);
	shift_srq_look(&s, 0, now);
	run();
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	assert_int_equal(nic[0].n + nic[1].n, 2);
	assert_int_equal(nic[0].drain + nic[1].drain, 0);
}

static void nobody_looks_where_it_would_not_help(void **state)
{
	(void)state;
	shift_srq_look(&s, 1, now);
	join(0);
	shift_srq_look(&s, 0, now);
	post(2);
	shift_srq_look(&s, 0, now);
	run();
	assert_true(shift_srq_alone(&s));
	assert_int_equal(nic[0].drain, 0);
	join(1);
	assert_int_equal(nic[0].drain, 1);
	shift_srq_look(&s, 0, now); /* it is being looked at */
	drains(0);
	assert_int_equal(nic[0].drain, 0);
	assert_int_equal(s.stats.looks, 0);
}

static void alone_there_is_a_look_if_one_may_be_missing(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(3);
	takes(0);
	leave(0, true);
	takes(0);
	takes(0);
	shift_srq_look(&s, 0, now);
	run();
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	assert_int_equal(s.nic[0].held, 3);
	assert_int_equal(s.nic[0].cut, 1);
	assert_false(shift_srq_alone(&s));
}

/* The first look counts: that a peer asks again puts nothing off (C2). */
static void looks_put_nothing_off(void **state)
{
	uint64_t wr_id;

	(void)state;
	join(0);
	join(0);
	post(2);
	takes(0);
	leave(0, true);
	wr_id = takes(0);
	shift_srq_look(&s, 0, now);
	run();
	drains(0);
	assert_int_equal(s.nic[0].held, 2);
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	run();
	for (int i = 0; i < 2; i++) {
		now += 400 * MS;
		post(1);
		wr_id = takes(0);
		shift_srq_look(&s, 0, now);
		run();
		drains(0);
		assert_int_equal(s.nic[0].held, 2);
		assert_true(shift_srq_done(&s, 0, &wr_id, now));
		run();
	}
	now += 200 * MS - 1;
	run();
	assert_int_equal(nic[0].evict, 0);
	now++;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* When those of the first look have gone, the next ones have a second of their own. */
static void those_of_the_next_look_are_next(void **state)
{
	uint64_t first, second;

	(void)state;
	join(0);
	join(0);
	join(0);
	join(1);
	post(2);
	first = takes(0);
	shift_srq_look(&s, 0, now);
	run();
	drains(0);
	post(1);
	second = takes(0);
	leave(0, true);
	leave(0, true);
	drains(0);
	assert_int_equal(s.nic[0].held, 2);
	assert_int_equal(s.nic[0].cut, 2);
	now += 900 * MS;
	assert_true(shift_srq_done(&s, 0, &first, now));
	run();
	now += 900 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
	assert_int_equal(shift_srq_deadline(&s), now + 100 * MS);
	now += 100 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
	assert_true(shift_srq_done(&s, 0, &second, now));
	run();
}

static void completions_put_it_off_while_drains_fail(void **state)
{
	uint64_t wr_id;

	(void)state;
	for (int i = 0; i < 3; i++)
		join(0);
	post(2);
	takes(0);
	wr_id = takes(0);
	leave(0, true);
	leave(0, true);
	drain_ends(0, SHIFT_SRQ_FAILED);
	now += 900 * MS;
	assert_true(shift_srq_done(&s, 0, &wr_id, now));
	run();
	drain_ends(0, SHIFT_SRQ_FAILED);
	now += 999 * MS;
	run();
	assert_int_equal(nic[0].evict, 0);
	now += MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* The time began when the first drain failed, though others come and go. */
static void newer_ones_put_nothing_off_while_drains_fail(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(2);
	takes(0);
	leave(0, true);
	assert_true(completes(0));
	drain_ends(0, SHIFT_SRQ_FAILED);
	now += 500 * MS;
	run();
	drain_ends(0, SHIFT_SRQ_FAILED);
	post(1);
	assert_false(shift_srq_alone(&s));
	now += 400 * MS;
	assert_true(completes(0));
	drain_ends(0, SHIFT_SRQ_FAILED);
	now += 100 * MS - 1;
	run();
	assert_int_equal(nic[0].evict, 0);
	now++;
	run();
	assert_int_equal(nic[0].evict, 1);
}

static void the_program_has_ended_one_in_the_middle(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(2);
	takes(0);
	leave(0, false);
	assert_int_equal(nic[0].drain, 0);
	shift_srq_look(&s, 0, now);
	run();
	drains(0);
	assert_int_equal(s.nic[0].cut, 1);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* The look came first, and found nothing that could be missing. */
static void it_is_ended_after_the_look(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(2);
	takes(0);
	shift_srq_look(&s, 0, now);
	run();
	drains(0);
	assert_int_equal(s.nic[0].cut, 0);
	leave(0, false);
	assert_int_equal(s.nic[0].cut, 1);
	now += 1000 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
}

/* On NIC 0 one is held, and one has come since. Who leaves had either. */
static void a_sweep_ends_doubts(void **state)
{
	(void)state;
	join(0);
	join(0);
	join(1);
	post(2);
	takes(0);
	shift_srq_look(&s, 0, now);
	run();
	drains(0);
	post(1);
	assert_int_equal(s.nic[0].on, 2);
	leave(0, true);
	assert_int_equal(nic[0].drain, 1);
	drains(0);
	assert_int_equal(s.nic[0].doubt, 0);
	assert_int_equal(s.nic[0].cut, 1);
	assert_int_equal(nic[0].n, 1);
	assert_int_equal(nic[0].drain, 0);
}

/* Those who leave must not meet others who come, or the life never ends. */
static void nobody_comes_while_they_leave(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		join(0);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	now = shift_srq_deadline(&s);
	assert_true(shift_srq_join(&s, 0, now)); /* not yet */
	run();
	assert_int_equal(nic[0].evict, 1);
	assert_false(shift_srq_join(&s, 0, now));
	now += 400 * MS;
	leave(0, true);
	now += 400 * MS;
	assert_false(shift_srq_join(&s, 0, now));
	leave(0, true);
	now += 200 * MS - 1;
	assert_false(shift_srq_join(&s, 0, now));
	now++; /* C4: no longer than that, as some may not be able to leave */
	run();
	join(0);
	now += 400 * MS;
	leave(0, true); /* not shut, so not for longer */
	join(0);
	now += 599 * MS;
	run();
	assert_int_equal(nic[0].evict, 1);
	now += MS;
	run();
	assert_int_equal(nic[0].evict, 2);
	while (s.nic[0].live)
		leave(0, false);
	assert_int_equal(s.nic[0].state, SHIFT_SRQ_GHOSTS);
	drains(0);
	join(0);
	assert_int_equal(nic[0].n, 1);
}

static void half_a_second_if_nobody_leaves(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(1);
	takes(0);
	leave(0, true);
	drains(0);
	now += 1000 * MS;
	run();
	now += 500 * MS - 1;
	assert_false(shift_srq_join(&s, 0, now));
	now++;
	join(0);
	now += 100 * MS;
	leave(0, true);
	join(0);
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
	post(1);
	join(0);
	assert_int_equal(nic[0].evict, 1);
}

static void all_suspect_is_not_usual(void **state)
{
	(void)state;
	join(0);
	join(0);
	post(2);
	leave(0, true);
	assert_true(shift_srq_alone(&s));
	assert_true(completes(0));
	drains(0);
	assert_true(shift_srq_alone(&s)); /* it was there */
	takes(0);
	join(0);
	leave(0, true);
	drains(0);
	assert_false(shift_srq_alone(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		BOOKS_TEST(progress_of_newer_ones_puts_nothing_off),
		BOOKS_TEST(a_refusal_puts_nothing_off),
		BOOKS_TEST(a_new_suspect_has_its_second),
		BOOKS_TEST(a_refusal_puts_nothing_off_when_drains_fail),
		BOOKS_TEST(one_nic_at_a_time),
		BOOKS_TEST(not_while_another_is_emptied),
		BOOKS_TEST(but_if_that_hangs),
		BOOKS_TEST(a_peer_waits),
		BOOKS_TEST(nobody_looks_where_it_would_not_help),
		BOOKS_TEST(alone_there_is_a_look_if_one_may_be_missing),
		BOOKS_TEST(looks_put_nothing_off),
		BOOKS_TEST(those_of_the_next_look_are_next),
		BOOKS_TEST(completions_put_it_off_while_drains_fail),
		BOOKS_TEST(newer_ones_put_nothing_off_while_drains_fail),
		BOOKS_TEST(the_program_has_ended_one_in_the_middle),
		BOOKS_TEST(it_is_ended_after_the_look),
		BOOKS_TEST(a_sweep_ends_doubts),
		BOOKS_TEST(half_a_second_if_nobody_leaves),
		BOOKS_TEST(all_suspect_is_not_usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
