/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What starts a switch, and what does not. */
#include "tests/unit/fixture.h"

#define MS 1000000ull

static void link_down_starts_it_at_once(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void without_another_rail_it_waits(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w_op(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
}

/* No rail was up when the link went down; now one is. The NIC's own retries may take 34 s. */
static void a_rail_that_comes_up_takes_over_from_one_that_is_down(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 2);
}

/* The connection has just come home, and rail 1 is in its quarantine. */
static void back_on_rail_0(void)
{
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_true(w_settle(&w, 20));
	w_post(&w, 0, SHIFT_OP_SEND, 10, true); /* else rail 1 is clean at once (7.52) */
	assert_true(w_settle(&w, 20));
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
}

static void stays_until_rail_1_is_clean(void)
{
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_in_range(shift_conn_deadline(w.h[0].c), w.now, w.now + 1000 * MS);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w_view(&w, 1).r, 1);
}

static void falls_silent(int rail, int witness)
{
	for (int i = 0; i < 4; i++) {
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, rail);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, witness);
		w.now += MS;
	}
}

/* A link that goes down while the other rail is in its quarantine is reported only once. */
static void a_link_down_is_remembered_until_a_rail_is_clean(void **state)
{
	(void)state;
	back_on_rail_0();
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	stays_until_rail_1_is_clean();
}

/* Nor are we told for ever that a rail is silent (7.48). */
static void a_silence_is_remembered_until_a_rail_is_clean(void **state)
{
	(void)state;
	back_on_rail_0();
	falls_silent(0, 1);
	stays_until_rail_1_is_clean();
}

static void only_rail_0_is_open(void)
{
	for (int r = 1; r < W_RAILS; r++)
		w_event(&w, 0, SHIFT_EV_RAIL_VETO, r);
}

/* Each would be told once, and in SETUP or of a rail that is shut it is told in vain. */
static void a_silence_is_remembered_until_a_rail_opens(void **state)
{
	(void)state;
	only_rail_0_is_open();
	falls_silent(0, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROBES_LOST);
}

static void only_rail_1_is_left(void)
{
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* Else two ends, each of which sees another rail as silent, would never stay on one. */
static void a_rail_that_was_silent_when_it_was_chosen_is_kept(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 2);
	falls_silent(1, 2);
	only_rail_1_is_left();
	w.now += MS;
	falls_silent(1, 2); /* it still is */
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 2);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		w.now += 1000 * MS;
		w_tick(&w, 0);
	}
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 2); /* nor is the other's answer news of it, */
	w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	for (int i = 0; i < 4; i++) /* nor that the other has no answer for a while. */
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 2);
	w.now += MS;
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 1); /* It was answered in between, */
	falls_silent(1, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

static void one_that_fell_silent_later_is_not(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 2);
	only_rail_1_is_left();
	w.now += MS;
	falls_silent(1, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* The link of the rail that we come from is back, and a third rail answers. */
static void one_that_falls_silent_before_the_commit_is_left(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	w.now += MS;
	falls_silent(1, 2);
	w.now += MS;
	for (int i = 0; i < 100 && !(w_state(&w, 0) == SHIFT_ST_ACTIVE); i++)
		if (!w_op(&w, 0) && !w_op(&w, 1) && !w_msg(&w, 0) && !w_msg(&w, 1))
			break;
	assert_int_equal(w_view(&w, 0).r, 1);
	w_tick(&w, 0);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
	assert_int_not_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
}

static void all_rails_miss(int times)
{
	for (int i = 0; i < times; i++)
		for (int r = 0; r < W_RAILS; r++)
			w_event(&w, 0, SHIFT_EV_PROBE_MISSED, r);
	w.now += MS;
}

/* Three misses, and then the witness: its answer is what tells that we were not stopped ourselves.
 */
static void an_answer_of_another_rail_makes_it_silent(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
		w.now += MS;
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
	}
	for (int i = 0; i < 3; i++)
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 1);
	w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w.now += MS;
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROBES_LOST);
}

/* It is remembered while no other rail is answered, but not acted upon: we may be stopped now. */
static void a_silence_without_a_witness_is_not_left(void **state)
{
	(void)state;
	only_rail_0_is_open();
	falls_silent(0, 1);
	for (int i = 0; i < 3; i++) {
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 1);
	}
	w.now += MS;
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

static void a_silence_that_is_over_is_forgotten(void **state)
{
	(void)state;
	only_rail_0_is_open();
	falls_silent(0, 1);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void silence_counts_only_against_another_rail(void **state)
{
	(void)state;
	all_rails_miss(5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* the peer was stopped, or we were */
	for (int i = 0; i < 2; i++) {
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
}

/* A stopped peer goes on: the rail that answers last is not at fault. */
static void the_last_to_answer_after_a_stop_is_not_silent(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		all_rails_miss(5);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 2); /* two that were on their way */
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	}
}

static void a_refused_post_starts_it(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED};

	(void)state;
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* A send that the NIC refused does not flush, and must not shift the count of those that do. */
static void refused_sends_are_not_counted_as_flushed(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED, .count = 2};

	(void)state;
	for (int i = 0; i < 6; i++)
		w_post(&w, 0, SHIFT_OP_WRITE, 3000, i == 5);
	w.h[0].qp[0].head -= 2;
	pass_packets(0, 0, 4);
	w_ack(&w, 0, 0);
	give_event(0, &ev);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w.h[0].completed, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(w.h[0].placed[i], 3000);
}

/* The NIC dies: its event comes first, the refusal of the post second. */
static void a_refused_post_is_told_after_the_link_event(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED, .count = 1};

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.h[0].qp[0].head--; /* the third never entered the queue */
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].errors, 0);
	assert_int_equal(w.h[0].completed, 3);
}

/*
 * T8: an unsignaled SEND waits for the receive of a slow program, a signaled WRITE waits behind it.
 * Stock RC waits for ever, and so do we.
 */
static void a_slow_program_behind_a_signaled_write(void **state)
{
	(void)state;
	for (int i = 0; i < W_READY_RECVS; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_run(&w, 1);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_run(&w, 100);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->switches, 0);
	w_recv(&w, 1);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w.h[0].completed, W_READY_RECVS + 2);
}

/* An error that no program can cause is survived; one that only a program can cause is its own. */
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

/* --- a rail that is shut, and why (7.39)
 * ---------------------------------------------------------- */

/* Host 0 has left rail 0, of whose QP not everything is accounted for, and has no other rail left.
 */
static void has_nowhere_to_go(bool hung)
{
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE,
				 .fence = hung ? SHIFT_FENCE_UNSURE : SHIFT_FENCE_SURE,
				 .hung = hung,
				 .psn = 0xfffffe};

	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	give_event(0, &ev);
	w.h[0].ops = 0;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
}

/* Its fence of that epoch is clean after all. */
static void rail_0_is_clean(uint32_t epoch)
{
	give_event(0, &(struct shift_event){
			      .type = SHIFT_EV_FENCE_DONE, .epoch = epoch, .clean = true});
}

/* What the NIC sent until then dies. */
static void rail_0_comes_back(void)
{
	uint64_t from = w.now;

	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	w.now = shift_conn_deadline(w.h[0].c);
	assert_int_equal(w.now - from, 1000000000);
	w_tick(&w, 0);
	assert_int_not_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
}

static void opening_a_rail_does_not_wake_its_nic(void **state)
{
	(void)state;
	has_nowhere_to_go(true);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	rail_0_is_clean(0);
	rail_0_comes_back();
}

static void opening_a_rail_does_not_account_for_its_requests(void **state)
{
	(void)state;
	has_nowhere_to_go(false);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	rail_0_is_clean(0);
	assert_int_not_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
}

static void a_clean_qp_does_not_lift_a_veto(void **state)
{
	(void)state;
	has_nowhere_to_go(false);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	rail_0_is_clean(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 0);
	assert_int_not_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
}

/* Rail 0 was armed once more, and its newer fence is the one that is not clean. */
static void a_late_word_of_an_older_arming_is_not_heard(void **state)
{
	struct shift_event hung = {
		.type = SHIFT_EV_FENCE_DONE, .fence = SHIFT_FENCE_UNSURE, .hung = true};

	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 0);
	hung.epoch = w_view(&w, 0).e;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	give_event(0, &hung);
	w.h[0].ops = 0;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	rail_0_is_clean(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	rail_0_is_clean(hung.epoch);
	rail_0_comes_back();
}

/* The rail that failed is the only one, so it is the target, too. Both ends wait for its
 * quarantine, and tell each other so. Now it is vetoed at one end, and another rail is there. */
static void a_veto_of_the_rail_that_we_left_and_wait_for(void **state)
{
	uint64_t began;

	(void)state;
	for (int h = 0; h < 2; h++)
		for (int r = 1; r < W_RAILS; r++)
			w_event(&w, h, SHIFT_EV_LINK_DOWN, r);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_int_equal(w_view(&w, 0).target_r, 0);
	for (int h = 0; h < 2; h++)
		w_event(&w, h, SHIFT_EV_LINK_UP, 1);
	began = w.now;
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_in_range(w.now - began, 0, 2000000000);
}

/* The peer has left rail 0 long ago, and its quarantine there is over. But our NIC hung, and what
 * it sent a moment ago may still arrive at whatever QP the peer arms there. */
static void a_nic_that_hung_is_not_used_at_once(void **state)
{
	uint64_t clean_at;

	(void)state;
	w.fence_hung[0] = true;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	fail_over(0);
	w.fence_hung[0] = false;
	assert_int_equal(w_view(&w, 0).r, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w.now += 5000000000;
	clean_at = w.now;
	rail_0_is_clean(0);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 1);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	for (; w.now < clean_at + 1000000000; w.now += 10000000) {
		w_tick(&w, 0);
		w_tick(&w, 1);
		while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
			;
		assert_int_equal(w_view(&w, 0).tag[0], 0); /* not armed again */
	}
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[0].completed, 2);
}

/* How many steps there are before time has to pass. */
static int steps_at_once(void)
{
	int steps = 0;

	while (steps < 1000 && (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0)))
		steps++;
	return steps;
}

/* Each end would refuse the other's rail at once, and for ever. */
static void without_a_common_rail_they_do_not_storm(void **state)
{
	(void)state;
	for (int h = 0; h < 2; h++) {
		w_event(&w, h, SHIFT_EV_RAIL_VETO, 2);
		w_event(&w, h, SHIFT_EV_RAIL_VETO, !h);
	}
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	assert_in_range(steps_at_once(), 4, 100);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 1);
	assert_true(w_settle(&w, 100));
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* Once data has moved. The other end has sent none, and waits. */
static void they_may_refuse_again_in_the_next_trouble(void **state)
{
	int at_first;

	(void)state;
	for (int h = 0; h < 2; h++) {
		w_event(&w, h, SHIFT_EV_RAIL_VETO, 2);
		w_event(&w, h, SHIFT_EV_RAIL_VETO, !h);
	}
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	at_first = steps_at_once();
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 1);
	assert_true(w_settle(&w, 100));
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 1);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_true(w_break(&w, 0, 1));
	take_cqes(0);
	assert_in_range(steps_at_once(), at_first / 3, 100); /* of one end */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(link_down_starts_it_at_once),
		WORLD_TEST(without_another_rail_it_waits),
		WORLD_TEST(a_rail_that_comes_up_takes_over_from_one_that_is_down),
		WORLD_TEST(a_link_down_is_remembered_until_a_rail_is_clean),
		WORLD_TEST(a_silence_is_remembered_until_a_rail_is_clean),
		WORLD_TEST(a_silence_is_remembered_until_a_rail_opens),
		WORLD_TEST(a_rail_that_was_silent_when_it_was_chosen_is_kept),
		WORLD_TEST(one_that_fell_silent_later_is_not),
		WORLD_TEST(one_that_falls_silent_before_the_commit_is_left),
		WORLD_TEST(an_answer_of_another_rail_makes_it_silent),
		WORLD_TEST(a_silence_without_a_witness_is_not_left),
		WORLD_TEST(a_silence_that_is_over_is_forgotten),
		WORLD_TEST(silence_counts_only_against_another_rail),
		WORLD_TEST(the_last_to_answer_after_a_stop_is_not_silent),
		WORLD_TEST(a_refused_post_starts_it),
		WORLD_TEST(refused_sends_are_not_counted_as_flushed),
		WORLD_TEST(a_refused_post_is_told_after_the_link_event),
		WORLD_TEST(a_slow_program_behind_a_signaled_write),
		WORLD_TEST(each_error_has_its_cause),
		WORLD_TEST(opening_a_rail_does_not_wake_its_nic),
		WORLD_TEST(opening_a_rail_does_not_account_for_its_requests),
		WORLD_TEST(a_clean_qp_does_not_lift_a_veto),
		WORLD_TEST(a_late_word_of_an_older_arming_is_not_heard),
		WORLD_TEST(a_veto_of_the_rail_that_we_left_and_wait_for),
		WORLD_TEST(a_nic_that_hung_is_not_used_at_once),
		WORLD_TEST(without_a_common_rail_they_do_not_storm),
		WORLD_TEST(they_may_refuse_again_in_the_next_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
