/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Transitions that honest peers and kind networks never cause: each by hand (world.c). */
#include "tests/unit/fixture.h"

#define SECOND 1000000000ull

/* Host 0 gets a SWITCH that a peer of ours would not send. */
static void forged_switch(uint32_t epoch, uint8_t rail, uint32_t rep_epoch)
{
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_SWITCH,
			      .epoch = epoch,
			      .rail = rail,
			      .rep_epoch = rep_epoch};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
}

/* Host 0 has announced its epoch on rail 1, and hears nothing. */
static void waits_for_an_answer(void)
{
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	while (w_op(&w, 0))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
}

static void ends_dead(enum shift_reason why)
{
	assert_int_equal(w_view(&w, 0).reason, why);
	while (w_op(&w, 0))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].errors + w.h[0].flushes, w.h[0].posted + W_READY_RECVS);
}

static void a_rail_that_there_is_not_breaks_the_protocol(void **state)
{
	(void)state;
	forged_switch(1, W_RAILS, 0);
	ends_dead(SHIFT_R_PROTOCOL);
}

/* Rule 10: nobody can have executed in an epoch in which I sent nothing. */
static void a_report_of_an_epoch_never_sent_in_breaks_the_protocol(void **state)
{
	(void)state;
	waits_for_an_answer();
	forged_switch(w_view(&w, 0).e, w_view(&w, 0).r, w_view(&w, 0).e);
	ends_dead(SHIFT_R_PROTOCOL);
}

/* The link event said "network", the drained completions say "program": its mistake is its own. */
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

/* What no program can cause is survived; what only a program can cause it gets. */
static void each_error_has_its_cause(void **state)
{
	static const uint32_t network = 1u << SHIFT_WC_LOC_QP_OP_ERR | 1u << SHIFT_WC_WR_FLUSH_ERR |
					1u << SHIFT_WC_BAD_RESP_ERR | 1u << SHIFT_WC_RETRY_EXC_ERR |
					1u << SHIFT_WC_RNR_RETRY_EXC_ERR |
					1u << SHIFT_WC_FATAL_ERR | 1u << SHIFT_WC_RESP_TIMEOUT_ERR |
					1u << SHIFT_WC_GENERAL_ERR;

	for (uint32_t status = 1; status <= SHIFT_WC_GENERAL_ERR; status++) {
		struct shift_cqe cqe = {.status = status};
		struct shift_wc wc;

		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		assert_false(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
		assert_int_equal(w_state(&w, 0),
				 network >> status & 1 ? SHIFT_ST_FENCE : SHIFT_ST_GIVEUP);
		teardown(state);
		setup(state);
	}
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

/* Two threads: the timer's read the clock, and waited for the lock while the other began the
 * switch. */
static void a_clock_read_before_the_trouble_began_is_no_give_up(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_TICK};

	(void)state;
	waits_for_an_answer();
	shift_conn_event(w.h[0].c, &ev, 1);
	assert_true(w_state(&w, 0) < SHIFT_ST_GIVEUP);
}

/* Rule 17: slow is not dead, but patience with a rail that answers probes and not us ends. */
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

/* A link that goes just after a fail-back, while the other rail is in its quarantine, does not say
 * so again. */
static void a_link_down_is_remembered_until_a_rail_is_clean(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_true(w_settle(&w, 20));
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w_view(&w, 1).r, 1);
}

/* Memory windows: as without us from there on, and the peer learns it when it asks. */
static void released_it_stays_where_it_is(void **state)
{
	(void)state;
	assert_true(shift_conn_release(w.h[0].c));
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	assert_false(w_view(&w, 0).protected_);
	assert_true(shift_conn_release(w.h[0].c));
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 0);
	w_run(&w, 2000);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DEAD);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
}

/* Its QP may go without a close (direct verbs): the peer is not left to wait for an answer. */
static void released_it_leaves_a_tombstone(void **state)
{
	struct shift_tombstone stone;

	(void)state;
	shift_conn_tombstone(w.h[0].c, w.now, &stone);
	assert_false(stone.valid);
	assert_true(shift_conn_release(w.h[0].c));
	shift_conn_tombstone(w.h[0].c, w.now, &stone);
	assert_true(stone.valid);
	assert_int_equal(stone.answer.type, SHIFT_MSG_FAILED);
}

static void after_a_switch_it_is_not_released(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_false(shift_conn_release(w.h[0].c));
	assert_true(w_settle(&w, 2000));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_false(shift_conn_release(w.h[0].c));
	assert_false(shift_conn_release(w.h[1].c));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* Host 0 is in its fence, for which the NIC takes its time, and has said where it is going. */
static void leave_rail_0(void)
{
	assert_true(w_post(&w, 0, SHIFT_OP_SEND, 100, true));
	assert_true(w_break(&w, 0, 0));
	while (w_cqe(&w, 0))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w.msgs, 1);
}

static void both_ends_fence_at_the_same_time(void **state)
{
	(void)state;
	leave_rail_0();
	assert_true(w_msg(&w, 0));
	assert_int_equal(w_state(&w, 1), SHIFT_ST_FENCE);
	assert_true(w_op(&w, 1));
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ARM);
	assert_true(w_op(&w, 1));
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SWITCHING); /* a word is no proof */
	while (w.msgs)
		assert_true(w_msg(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SWITCHING);
	assert_true(w_op(&w, 0) && w_op(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* the peer was there already */
	assert_true(w_settle(&w, 10));
	assert_int_equal(w_view(&w, 1).e, w_view(&w, 0).e);
}

/* It went there alone: the next word takes it along. */
static void who_changes_its_mind_in_the_fence_is_followed(void **state)
{
	uint32_t first;

	(void)state;
	leave_rail_0();
	while (w.msgs)
		assert_true(w_msg(&w, 0));
	first = w_view(&w, 1).e;
	while (w_op(&w, 1))
		;
	assert_true(w_view(&w, 1).e > first);
	first = w_view(&w, 1).e;
	w.data_cut[1] = w.ctl_cut[1] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_true(w_settle(&w, 20));
	assert_true(w_view(&w, 0).e > first);
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w_view(&w, 1).r, 2);
}

/* Where the peer is going cannot be followed: what is named instead is newer, or it would be stale.
 */
static void an_announcement_counts_though_it_is_not_followed(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 1);
	leave_rail_0();
	assert_true(w_msg(&w, 0));
	while (w_op(&w, 1))
		;
	assert_int_equal(w_view(&w, 1).e, 3); /* it was going to 2 */
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w_view(&w, 1).r, 2);
}

/* 3 posts, of which each has its error: what comes of it later is the NIC's to say, once. */
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
	assert_true(shift_conn_cqe(c, &cqe, &wc, w.now)); /* of what is posted now */
}

/* Its count of receives is wrong by those that flushed: the peer must not build on it. */
static void an_unprotected_end_vouches_for_nothing(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_WR_FLUSH_ERR, .is_recv = true};
	struct shift_tombstone t;
	struct shift_wc wc;

	(void)state;
	assert_true(shift_conn_release(w.h[1].c));
	w_close(&w, 1, SHIFT_CLOSE_ERR);
	assert_true(shift_conn_cqe(w.h[1].c, &cqe, &wc, w.now));
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	while (w_op(&w, 1))
		;
	assert_int_equal(w_state(&w, 1), SHIFT_ST_CLOSED);
	assert_int_equal(w.msgs, 0); /* an idle peer is told nothing */
	shift_conn_tombstone(w.h[1].c, w.now, &t);
	assert_int_equal(t.answer.type, SHIFT_MSG_FAILED);
}

static void names_are_complete(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SHIFT_ST_COUNT; i++)
		assert_non_null(shift_state_name(i));
	for (unsigned int i = 0; i < SHIFT_R_COUNT; i++)
		assert_non_null(shift_reason_name(i));
	for (unsigned int i = 0; i < SHIFT_EV_COUNT; i++)
		assert_non_null(shift_event_name(i));
	for (unsigned int i = 0; i < SHIFT_ACT_COUNT; i++)
		assert_non_null(shift_action_name(i));
}

/* 200 ms were too short for what is outstanding: 400 ms. */
static void a_slow_path_drains_longer_the_next_time(void **state)
{
	(void)state;
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	w.data_cut[0] = true;
	for (int i = 0; i < 2; i++) {
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w_msg(&w, 0);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
		w.now += SECOND * 3 / 10;
		w_tick(&w, 1);
		assert_int_equal(w_state(&w, 1), i ? SHIFT_ST_DRAIN : SHIFT_ST_ACTIVE);
		w.now += i ? 0 : SECOND * 4 / 10;
		w_tick(&w, 0);
		assert_int_equal(w_state(&w, 0), i ? SHIFT_ST_PREPARE : SHIFT_ST_ACTIVE);
	}
	w.data_cut[0] = false;
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w.h[1].completed, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_rail_that_there_is_not_breaks_the_protocol),
		T(a_report_of_an_epoch_never_sent_in_breaks_the_protocol),
		T(the_programs_mistake_shows_during_the_fence),
		T(each_error_has_its_cause),
		T(trouble_that_lasts_ends_at_the_next_failure),
		T(a_clock_read_before_the_trouble_began_is_no_give_up),
		T(patience_ends_where_another_rail_answers),
		T(a_link_down_is_remembered_until_a_rail_is_clean),
		T(released_it_stays_where_it_is),
		T(released_it_leaves_a_tombstone),
		T(after_a_switch_it_is_not_released),
		T(both_ends_fence_at_the_same_time),
		T(who_changes_its_mind_in_the_fence_is_followed),
		T(an_announcement_counts_though_it_is_not_followed),
		T(what_had_its_error_does_not_flush_again),
		T(an_unprotected_end_vouches_for_nothing),
		T(names_are_complete),
		T(a_slow_path_drains_longer_the_next_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
