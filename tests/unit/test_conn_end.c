/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A connection ends: it gives up, the program closes it or errs, its peer is gone. */
#include "tests/unit/fixture.h"

#define MS     1000000ull
#define SECOND 1000000000ull

static void give_up_hands_over_the_errors_after_the_fence(void **state)
{
	(void)state;
	for (int i = 0; i < W_RAILS; i++)
		cut_rail(i, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	break_rail_0(0);
	w.frozen_fence = true;
	w.now += 31000 * MS;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w.h[0].errors, 0);
	w.frozen_fence = false;
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].errors,
			 2 + 8); /* unsignaled WRs fail visibly too; receives flush */
	assert_true(w.h[0].qp_err);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false); /* as on a QP in ERR */
	assert_int_equal(w.h[0].errors, 11);
}

static void with_no_way_out_it_ends_in_time(void **state)
{
	uint64_t before = w.now;

	(void)state;
	for (int i = 0; i < W_RAILS; i++)
		cut_rail(i, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	while (w_state(&w, 0) != SHIFT_ST_DEAD && w.now < before + 60000 * MS)
		w_run(&w, 1);
	assert_true(w.now - before < 31000 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

/* The give-up time counts from the first trouble, whatever event comes next. */
static void trouble_that_lasts_ends_at_the_next_failure(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_LINK_DOWN, .rail = 1};

	(void)state;
	waits_for_an_answer();
	w.now += 40 * SECOND;
	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
	ends_dead(SHIFT_R_GIVEUP_TIME);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
}

/* The timer's thread read the clock, then waited for the lock; another thread began a switch. */
static void a_clock_read_before_the_trouble_began_is_no_give_up(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_TICK};

	(void)state;
	waits_for_an_answer();
	shift_conn_event(w.h[0].c, &ev, 1);
	assert_true(w_state(&w, 0) < SHIFT_ST_GIVEUP);
}

/* Rule 17: slow is not dead, but a rail that answers probes and not us is left in the end. */
static void patience_ends_where_another_rail_answers(void **state)
{
	uint32_t first;

	(void)state;
	waits_for_an_answer();
	first = w_view(&w, 0).e;
	for (int i = 0; i < 200 && w_view(&w, 0).target_e == first; i++) {
		w.now = shift_conn_deadline(w.h[0].c);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
		w_tick(&w, 0);
	}
	assert_true(w_view(&w, 0).target_e > first);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_TIMEOUT);
	assert_true(w_view(&w, 0).target_r != 1);
}

/* The rail that the next epoch is tried on, if this one is not answered. */
static uint8_t next_target(void)
{
	uint32_t e = w_view(&w, 0).target_e;

	for (int i = 0; i < 100 && w_view(&w, 0).target_e == e; i++) {
		w.now = shift_conn_deadline(w.h[0].c);
		w_tick(&w, 0);
		finish_ops(0);
	}
	assert_true(w_view(&w, 0).target_e > e);
	return w_view(&w, 0).target_r;
}

/* Rule 3: what could not be tried for a while is not tried as often as the others were meanwhile.
 */
static void a_rail_that_was_down_may_fail_but_a_few_times(void **state)
{
	struct shift_conn_cfg cfg = {
		.exactly_once = true, .confirmed = true, .giveup_ns = UINT64_MAX / 2};
	int tries = 0;

	(void)state;
	again(&cfg);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	waits_for_an_answer();
	for (int i = 0; i < 20; i++)
		assert_int_equal(next_target(), 1);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	while (tries < 20 && next_target() == 2)
		tries++;
	assert_in_range(tries, 1, 4);
}

static void a_peer_that_closed_may_have_lost_its_acks(void **state)
{
	struct shift_tombstone t;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	take_cqes(1);
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	assert_false(w.h[1].closed); /* not before its fence */
	w_op(&w, 1);
	assert_true(w.h[1].closed);
	shift_conn_tombstone(w.h[1].c, w.now, &t);
	assert_true(t.valid);
	assert_int_equal(t.answer.type, SHIFT_MSG_CLOSED);
	assert_int_equal(t.answer.recv_cum, 1);
	break_rail_0(0);
	w_run(&w, 5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_CLOSED);
	assert_int_equal(w.h[0].errors, 1 + 8); /* the first SEND completed */
	assert_int_equal(w.h[1].errors, 0);	/* destroyed: no completions */
}

/* No rail carries on: what is in doubt has failed, whatever SHIFT_LOST_ATOMIC says. */
static void an_atomic_in_doubt_fails_when_the_peer_has_closed(void **state)
{
	struct shift_conn_cfg cfg = {
		.exactly_once = true, .confirmed = true, .lost_atomic_continue = true};

	(void)state;
	again(&cfg);
	w.fence_unsure[1] = true;
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true); /* never executed */
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	w_op(&w, 1);
	break_rail_0(0);
	w_run(&w, 5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_CLOSED);
	assert_int_equal(w.h[0].errors, 1 + 8);
}

static void modify_to_err_flushes(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	w_run(&w, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_WR_FLUSH_ERR);
	assert_int_equal(w.h[0].errors, 1 + 8);
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	assert_false(w_post(&w, 0, SHIFT_OP_SEND, 10, true));
}

static void close_during_a_switch(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w_op(&w, 0); /* ARM is under way */
	w_close(&w, 0, SHIFT_CLOSE_RESET);
	assert_false(w.h[0].closed);
	w_run(&w, 3);
	assert_true(w.h[0].closed);
	assert_true(w.h[0].qp[1].err || !w.h[0].qp[1].up);
}

/* Each of 3 posts has had its error: no second completion of any may follow. */
static void what_had_its_error_does_not_flush_again(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};
	struct shift_event close = {.type = SHIFT_EV_CLOSE, .how = SHIFT_CLOSE_ERR};
	struct shift_event fenced = {
		.type = SHIFT_EV_FENCE_DONE, .fence = SHIFT_FENCE_SURE, .clean = true};
	struct shift_cqe cqe = {.status = SHIFT_WC_RETRY_EXC_ERR};
	struct shift_conn *c;
	struct shift_action a;
	struct shift_wc wc;
	bool closed = false;

	(void)state;
	w_free(&w);
	w_init_ready(&w, &cfg);
	c = w.h[0].c;
	for (uint64_t i = 0; i < 3; i++) {
		struct shift_wr wr = {.wr_id = i, .flags = SHIFT_F_SIGNALED};
		int rail;

		assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	}
	for (uint64_t i = 0; i < 3; i++) {
		cqe.wr_id = i;
		assert_true(shift_conn_cqe(c, &cqe, &wc, w.now));
		cqe.status = SHIFT_WC_WR_FLUSH_ERR;
	}
	shift_conn_event(c, &close, w.now);
	shift_conn_event(c, &fenced, w.now);
	while (shift_conn_action(c, &a)) {
		closed |= a.type == SHIFT_ACT_CLOSED;
		assert_int_not_equal(a.type, SHIFT_ACT_FENCE);
		assert_int_not_equal(a.type, SHIFT_ACT_COMPLETE);
	}
	assert_true(closed);
	assert_false(shift_conn_completion(c, &wc));
	assert_true(shift_conn_cqe(c, &cqe, &wc, w.now)); /* of a WR that is posted now */
}

static void the_programs_own_mistake_passes(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_REM_ACCESS_ERR, .vendor_err = 0x88};

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	pass_packets(0, 0, 1);
	w_ack(&w, 0, 0);
	w.h[0].qp[0].tail++; /* the second one errs */
	give_cqe(0, &cqe);
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_REM_ACCESS_ERR);
	assert_int_equal(w.h[0].first_vendor, 0x88);
	assert_int_equal(w.h[0].completed, 2);
}

/* The link event points to the network, but the drained completions to the program's mistake. */
static void the_programs_mistake_shows_during_the_fence(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_REM_ACCESS_ERR, .vendor_err = 77};
	struct shift_wc wc;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_false(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	w_tick(&w, 0);
	ends_dead(SHIFT_R_PROGRAM_ERROR);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_REM_ACCESS_ERR);
	assert_int_equal(w.h[0].first_vendor, 77);
}

/* A mistake of the program in a receive shows in that receive, not in a send. */
static void a_bad_receive_keeps_its_status(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_LOC_LEN_ERR, .vendor_err = 77, .is_recv = true};
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE, .clean = true, .psn = 0xfffffe};
	struct shift_action a;
	struct shift_wc wc;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_false(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	shift_conn_event(w.h[0].c, &ev, w.now);
	while (shift_conn_action(w.h[0].c, &a))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_true(shift_conn_completion(w.h[0].c, &wc));
	assert_false(wc.is_recv);
	assert_int_equal(wc.status, SHIFT_WC_WR_FLUSH_ERR);
	assert_true(shift_conn_completion(w.h[0].c, &wc));
	assert_true(wc.is_recv);
	assert_int_equal(wc.status, SHIFT_WC_LOC_LEN_ERR);
	assert_int_equal(wc.vendor_err, 77);
	assert_true(shift_conn_completion(w.h[0].c, &wc));
	assert_int_equal(wc.status, SHIFT_WC_WR_FLUSH_ERR);
}

static void rnr_without_receives_is_the_programs(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_RNR_RETRY_EXC_ERR};

	(void)state;
	for (int i = 0; i < 9; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 8);
	for (int i = 0; i < 8; i++)
		w_ack(&w, 0, 0);
	take_cqes(0);
	take_cqes(1);
	w.h[0].qp[0].tail++;
	give_cqe(0, &cqe);
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RNR_RETRY_EXC_ERR);
}

static void a_dead_peer_is_an_error_at_once(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	w_op(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_DIED);
}

/* The program closes while a twin is armed, and that fails. What its QP says was never announced to
 * the peer, who sent nothing there. */
static void a_twin_that_was_not_announced_proves_nothing(void **state)
{
	struct shift_event ev = {
		.type = SHIFT_EV_FENCE_DONE, .rail = 1, .epoch = 2, .clean = true, .psn = 77};
	struct shift_tombstone t;

	(void)state;
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	pass_packets(1, 0, 1);
	w.frozen_arm = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
	shift_conn_tombstone(w.h[0].c, w.now, &t);
	assert_int_equal(t.answer.rep_epoch, 0);
	assert_int_equal(t.answer.rep_psn, 0xffffff);
	assert_int_equal(t.answer.fence, SHIFT_FENCE_SURE);
}

/* --- more actions than the queue holds (7.40) ----------------------------------------------------
 */

/* Host 0 gets n HELLOs, and answers each, while nobody carries its actions out. */
static void pile_up_answers(int n)
{
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_HELLO,
			      .qpn = 21,
			      .dest_qpn = 20,
			      .sq_psn = 0xfffffe,
			      .rq_psn = 0x10,
			      .life = 1};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	w.overflow_ok = true;
	while (n--)
		shift_conn_event(w.h[0].c, &ev, w.now);
}

static void two_sends(void)
{
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
}

static void ends_by_overflow(void)
{
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	w_tick(&w, 0); /* its actions are carried out */
	ends_dead(SHIFT_R_OVERFLOW);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_OVERFLOW);
	assert_true(w.h[0].qp_err);
}

static void an_overflow_of_messages_ends_it_visibly(void **state)
{
	(void)state;
	two_sends();
	pile_up_answers(SHIFT_ACTIONS_USUAL);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	pile_up_answers(1);
	ends_by_overflow();
}

static void no_fence_is_lost_by_an_overflow(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_LINK_DOWN};

	(void)state;
	two_sends();
	pile_up_answers(SHIFT_ACTIONS_USUAL);
	shift_conn_event(w.h[0].c, &ev, w.now);
	ends_by_overflow();
}

/* The log says that they were sent, and not one flushes: nobody has posted them. */
static void sends_that_an_overflow_lost_do_not_complete(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_MSG};

	(void)state;
	two_sends();
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	for (int i = 0; i < 100 && w.h[1].c && w_state(&w, 1) != SHIFT_ST_SWITCHING; i++)
		if (!w_op(&w, 0) && !w_op(&w, 1))
			w_msg(&w, 0);
	while (w.msgs && w.msg[0].to != 0)
		w_msg(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	ev.rail = w.msg[0].rail;
	ev.msg = &w.msg[0].m;
	pile_up_answers(SHIFT_ACTIONS_USUAL);
	shift_conn_event(w.h[0].c, &ev, w.now);
	ends_by_overflow();
}

/* What the core does by itself is noticed at the next tick, which it asks for at once. */
static void an_overflow_without_an_event_asks_for_a_tick(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_RETRY_EXC_ERR};
	struct shift_wc wc;

	(void)state;
	two_sends();
	pile_up_answers(SHIFT_ACTIONS_USUAL);
	assert_false(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(shift_conn_deadline(w.h[0].c), 0);
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	ends_dead(SHIFT_R_OVERFLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(give_up_hands_over_the_errors_after_the_fence),
		WORLD_TEST(with_no_way_out_it_ends_in_time),
		WORLD_TEST(trouble_that_lasts_ends_at_the_next_failure),
		WORLD_TEST(a_clock_read_before_the_trouble_began_is_no_give_up),
		WORLD_TEST(a_rail_that_was_down_may_fail_but_a_few_times),
		WORLD_TEST(patience_ends_where_another_rail_answers),
		WORLD_TEST(a_peer_that_closed_may_have_lost_its_acks),
		WORLD_TEST(an_atomic_in_doubt_fails_when_the_peer_has_closed),
		WORLD_TEST(modify_to_err_flushes),
		WORLD_TEST(close_during_a_switch),
		WORLD_TEST(what_had_its_error_does_not_flush_again),
		WORLD_TEST(the_programs_own_mistake_passes),
		WORLD_TEST(the_programs_mistake_shows_during_the_fence),
		WORLD_TEST(a_bad_receive_keeps_its_status),
		WORLD_TEST(rnr_without_receives_is_the_programs),
		WORLD_TEST(a_dead_peer_is_an_error_at_once),
		WORLD_TEST(a_twin_that_was_not_announced_proves_nothing),
		WORLD_TEST(an_overflow_of_messages_ends_it_visibly),
		WORLD_TEST(no_fence_is_lost_by_an_overflow),
		WORLD_TEST(sends_that_an_overflow_lost_do_not_complete),
		WORLD_TEST(an_overflow_without_an_event_asks_for_a_tick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
