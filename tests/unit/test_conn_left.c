/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The peer's process has said that it ends: who is told, and when (doc/protocol.md, 7.47). */
#include "tests/unit/fixture.h"

static void peer_leaves(void)
{
	w_event(&w, 0, SHIFT_EV_PEER_LEFT, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

static void is_quiet(void)
{
	assert_int_equal(w.h[0].errors, 0);
	assert_false(w.h[0].qp_err);
	assert_false(shift_conn_fast(w.h[0].c)); /* its posts come to us */
}

/* The first gets the error, the others and all receives flush. */
static void has_ended(unsigned int sends)
{
	assert_int_equal(w.h[0].errors, sends + W_READY_RECVS);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_LEFT);
	assert_true(w.h[0].qp_err);
}

static void who_waits_is_told_at_once(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_event(&w, 0, SHIFT_EV_PEER_LEFT, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PEER_LEFT);
	assert_int_equal(w.h[0].errors, 0); /* rule 19: the fences first */
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	has_ended(2);
	assert_int_equal(w.msgs, 0); /* nobody is there to be told */
}

/* What was acknowledged before it left has succeeded, though nobody has polled it. */
static void what_was_done_succeeds(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	pass_packets(0, 0, 1);
	w_ack(&w, 0, 0);
	peer_leaves();
	assert_int_equal(w.h[0].completed, 2);
	has_ended(1);
}

static void an_idle_one_is_told_when_it_sends(void **state)
{
	(void)state;
	peer_leaves();
	is_quiet();
	assert_int_equal(w.msgs, 0);
	w_recv(&w, 0);
	is_quiet(); /* stock verbs would let it wait, too */
	w_event(&w, 0, SHIFT_EV_PEER_LEFT, 0);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	is_quiet();
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	has_ended(1 + 1);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	has_ended(2 + 1);
}

/* An unsignaled one whose packets were acknowledged is not outstanding, and no completion says so.
 */
static void unsignaled_sends_do_not_count_once_done(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	pass_packets(0, 0, 1);
	w_ack(&w, 0, 0);
	peer_leaves();
	is_quiet();
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	has_ended(1);
}

static void an_unsignaled_send_that_waits_counts(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	peer_leaves();
	has_ended(1);
}

/* The fence that its end begins with takes a while. */
static void a_send_during_the_fence_counts(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_PEER_LEFT, 0);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	has_ended(1);
}

/* The same as without us: what waits flushes when the program says so. */
static void the_program_may_flush_it_itself(void **state)
{
	(void)state;
	peer_leaves();
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	assert_int_equal(w.h[0].errors, W_READY_RECVS);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_WR_FLUSH_ERR);
	assert_true(w.h[0].closed);
}

static void the_program_may_flush_it_during_the_fence(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_PEER_LEFT, 0);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	finish_ops(0);
	assert_int_equal(w.h[0].errors, W_READY_RECVS);
	assert_true(w.h[0].closed);
}

static void the_program_may_end_it(void **state)
{
	(void)state;
	peer_leaves();
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	assert_int_equal(w.h[0].errors, 0);
	assert_true(w.h[0].closed);
}

/* In the middle of a switch nobody would answer for the give-up time. */
static void a_switch_ends_with_it(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	break_rail_0(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	peer_leaves();
	has_ended(1);
}

static void before_hello_nothing_happens(void **state)
{
	static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};

	(void)state;
	again(&unconfirmed);
	w_event(&w, 0, SHIFT_EV_PEER_LEFT, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	assert_int_equal(w.h[0].ops, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(who_waits_is_told_at_once),
		TEST(what_was_done_succeeds),
		TEST(an_idle_one_is_told_when_it_sends),
		TEST(unsignaled_sends_do_not_count_once_done),
		TEST(an_unsignaled_send_that_waits_counts),
		TEST(a_send_during_the_fence_counts),
		TEST(the_program_may_flush_it_itself),
		TEST(the_program_may_flush_it_during_the_fence),
		TEST(the_program_may_end_it),
		TEST(a_switch_ends_with_it),
		TEST(before_hello_nothing_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
