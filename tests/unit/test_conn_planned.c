/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Switches without a fault: by the operator, and back to rail 0. */
#include <string.h>

#include "tests/unit/planned.h"

static void operator_migrates(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(stats(0)->planned, 1);
	assert_int_equal(stats(0)->replayed, 0);
	assert_int_equal(stats(0)->reissued_reads, 0);
}

static void a_planned_switch_never_risks_an_atomic(void **state)
{
	(void)state;
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	w.data_cut[0] = true;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	w_msg(&w, 0);
	w_post(&w, 1, SHIFT_OP_SEND, 8, true); /* held, and posted when the plan is dropped */
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	w.now += 300 * MS;
	w_tick(&w, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	w.now += 400 * MS;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->abandoned, 1);
	w.data_cut[0] = false;
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[1].completed, 2);
}

/* --- attempts --------------------------------------------------------------------------------- */

static void each_attempt_is_followed_once(void **state)
{
	(void)state;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 40);
	w.now += 40 * MS;
	w_tick(&w, 1);
	lose_messages();
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 40);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 4, 40);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_equal(w.msgs, 0);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 6, 40);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	assert_int_equal(last_message(0)->serial, 6);
}

static void serials_wrap(void **state)
{
	static const uint32_t serial[] = {0x7fffffff, UINT32_MAX - 1, UINT32_MAX, 0, 1};

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		peer_says(1, SHIFT_MSG_PREPARE, 2, serial[i], 40);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
		w.now += 40 * MS;
		w_tick(&w, 1);
	}
	peer_says(1, SHIFT_MSG_PREPARE, 2, UINT32_MAX, 40);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
}

/* The starter has given up, the follower does not know, and is asked again, for another rail. */
static void a_newer_attempt_replaces_the_older(void **state)
{
	uint64_t start;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	w_msg(&w, 0);
	start = w.now;
	lose_messages();
	tick_at(0, start + 600 * MS);
	lose_messages();
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	w_msg(&w, 0);
	assert_int_equal(last_message(0)->serial, 2);
	assert_int_equal(last_message(0)->rail, 1);
	assert_int_equal(last_message(0)->hold_ms, 1600);
	tick_at(1, start + 2200 * MS - 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	w.now = start + 700 * MS;
	deliver_all();
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 1).r, 1);
	assert_int_equal(stats(0)->planned, 1);
}

static void a_newer_attempt_drains_anew(void **state)
{
	uint64_t start = w.now;

	(void)state;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	lose_messages();
	w.now = start + 39 * MS;
	peer_says(1, SHIFT_MSG_PREPARE, 1, 2, 400);
	assert_int_equal(last_message(0)->serial, 2);
	tick_at(1, start + 40 * MS);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	tick_at(1, start + 439 * MS - 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	tick_at(1, start + 439 * MS);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
}

static void a_withdrawn_attempt_ends_at_once(void **state)
{
	(void)state;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 40);
	lose_messages();
	peer_says(1, SHIFT_MSG_PREPARE, 2, 4, 0);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 0);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(1)->abandoned, 1);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 0);
	assert_int_equal(stats(1)->abandoned, 1);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 6, 40);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 7, 0); /* all older ones are over as well */
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
}

/* Two better rails are good at the same time. The peer answers for neither: each attempt costs it a
 * pause, so they must not follow without a gap. */
static void attempts_for_several_rails_have_a_gap(void **state)
{
	uint64_t over;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
	tick_at(0, w.now + 1500 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	assert_int_equal(last_message(1)->rail, 0);
	over = w.now + 600 * MS;
	tick_at(0, over);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	lose_messages();
	tick_at(0, over + 1000 * MS - 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	tick_at(0, over + 1000 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	assert_int_equal(last_message(1)->rail, 1); /* for rail 0 it has become two seconds */
}

/* Out of order: the withdrawal comes first. */
static void a_withdrawn_attempt_is_not_followed(void **state)
{
	(void)state;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 0);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 5, 40);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 6, 40);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
}

static void a_starter_cares_for_no_withdrawal(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	make_ready(0, 2);
	peer_says(0, SHIFT_MSG_PREPARE, 2, 1, 0);
	peer_says(0, SHIFT_MSG_PREPARE, 1, 2, 40);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	assert_int_equal(w.msgs, 0);
	assert_true(w_settle(&w, 20));
	assert_int_equal(stats(0)->planned, 1);
}

/* It followed before. What it asks later is its own, and it withdraws that. */
static void a_follower_asks_later(void **state)
{
	(void)state;
	peer_says(0, SHIFT_MSG_PREPARE, 2, 1, 40);
	w.now += 40 * MS;
	w_tick(&w, 0);
	lose_messages();
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	w.now += 10 * SECOND;
	w_tick(&w, 0);
	assert_int_equal(last_message(1)->hold_ms, 0);
}

/* --- both at once ----------------------------------------------------------------------------- */

static void both_ask_at_once_and_side_0_leads(void **state)
{
	for (int first = 0; first < 2; first++) {
		struct shift_msg ask[2];

		again(NULL);
		w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
		w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w_event(&w, 1, SHIFT_EV_MIGRATE, 1);
		ask[0] = *last_message(1);
		ask[1] = *last_message(0);
		lose_messages();
		deliver_message(first, &ask[!first]);
		deliver_message(!first, &ask[first]);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
		nothing_is_lost(1, 1);
		assert_int_equal(w_view(&w, 1).r, 2);
		assert_int_equal(stats(0)->planned, 1);
		assert_int_equal(stats(1)->planned, 0);
		assert_int_equal(stats(1)->joins, 1);
		assert_int_equal(stats(0)->abandoned + stats(1)->abandoned, 0);
	}
	(void)state;
}

/* What side 1 had asked comes late, and is not followed: it has withdrawn that. */
static void side_1_withdraws_what_it_gives_up(void **state)
{
	struct shift_msg ask;

	(void)state;
	w_event(&w, 1, SHIFT_EV_MIGRATE, 1);
	ask = *last_message(0);
	lose_messages();
	risk_atomic(0);
	make_ready(0, 2);
	w.now += 200 * MS;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	deliver_message(0, &ask);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	nothing_is_lost(1, 0);
}

/* --- faults meanwhile ------------------------------------------------------------------------- */

enum target_fault { TARGET_DOWN, TARGET_SILENT, TARGET_WELL };

static void break_target(int h, enum target_fault fault)
{
	if (fault == TARGET_DOWN)
		w_event(&w, h, SHIFT_EV_LINK_DOWN, 2);
	for (int i = 0; i < (fault == TARGET_SILENT ? 3 : 2); i++)
		w_event(&w, h, SHIFT_EV_PROBE_MISSED, 2);
}

/* No READY for a rail that is lost meanwhile, and no switch there. */
static void the_target_is_lost_while_posts_are_held(void **state)
{
	(void)state;
	for (int fault = TARGET_DOWN; fault <= TARGET_WELL; fault++) {
		for (int h = 0; h < 2; h++) {
			again(NULL);
			w_post(&w, h, SHIFT_OP_READ, 10, true);
			make_ready(0, 2);
			break_target(h, (enum target_fault)fault);
			pass_packets(h, 0, 1);
			assert_true(w_ack(&w, h, 0));
			take_cqes(h);
			if (fault == TARGET_WELL)
				assert_int_equal(w_state(&w, h),
						 h ? SHIFT_ST_DRAIN : SHIFT_ST_FENCE);
			else
				assert_int_equal(w_state(&w, h), SHIFT_ST_ACTIVE);
			assert_int_equal(stats(h)->abandoned, fault != TARGET_WELL);
		}
	}
}

/* Posts are not even held for a rail that is of no use. */
static void a_bad_target_is_refused_at_once(void **state)
{
	(void)state;
	for (int fault = TARGET_DOWN; fault <= TARGET_WELL; fault++) {
		again(NULL);
		w_post(&w, 1, SHIFT_OP_READ, 10, true);
		break_target(1, (enum target_fault)fault);
		peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
		assert_int_equal(w_state(&w, 1),
				 fault == TARGET_WELL ? SHIFT_ST_DRAIN : SHIFT_ST_ACTIVE);
	}
	again(NULL);
	w_post(&w, 1, SHIFT_OP_READ, 10, true);
	peer_says(1, SHIFT_MSG_PREPARE, 0, 1, 40); /* where it is */
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
}

/* The QP is about to end with its error; nothing behind it may be posted. */
static void a_lost_atomic_is_not_moved(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	pass_packets(0, 0, 2);
	break_rail_0(0);
	let_messages_pass();
	assert_int_equal(stats(0)->lost_atomics, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* until the READ is back */
	peer_says(0, SHIFT_MSG_PREPARE, 2, 1, 40);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void a_late_prepare_finds_another_epoch(void **state)
{
	struct shift_msg ask;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	ask = *last_message(1);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 1).r, 2);
	ask.rail = 1;
	ask.serial++;
	deliver_message(1, &ask);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	ask.epoch = w_view(&w, 1).e;
	deliver_message(1, &ask);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	ask.epoch = 0;
	ask.hold_ms = 0;
	deliver_message(1, &ask);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
}

/* --- was the switch planned with me? ---------------------------------------------------------- */

/* Host 1 goes back to rail 0, which has answered before, without another answer from it: it did not
 * take it for failed. */
static bool goes_back_at_once(void)
{
	let_messages_pass();
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_not_equal(w_view(&w, 1).r, 0);
	tick_at(1, w.now + 5 * SECOND);
	return w_state(&w, 1) == SHIFT_ST_PREPARE;
}

static void a_kept_promise_is_a_planned_switch(void **state)
{
	(void)state;
	for (int late = -1; late <= 1; late++) {
		uint64_t start;

		again(NULL);
		w_event(&w, 1, SHIFT_EV_PROBE_OK, 0);
		start = w.now;
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w_msg(&w, 0);
		w_msg(&w, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
		lose_messages(); /* LEAVING */
		finish_ops(0);
		w.now = start + 800 * MS + (uint64_t)(int64_t)late;
		assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
		assert_int_equal(goes_back_at_once(), late < 0);
		assert_true(w_view(&w, 0).planned);
		assert_int_equal(w_view(&w, 1).planned, late < 0);
	}
}

/* The whole of LEAVING and SWITCH was lost until the promise was over. What the follower posted
 * then was not executed: the starter's QP is fenced. */
static void an_atomic_after_the_promise_is_not_executed(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_PROBE_OK, 0);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	w_msg(&w, 0);
	w.ctl_cut[2] = true;
	deliver_all();
	finish_ops(0);
	w.now += 800 * MS;
	w_tick(&w, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	risk_atomic(1);
	w.ctl_cut[2] = false;
	w_tick(&w, 0);
	nothing_is_lost(0, 1);
	assert_false(goes_back_at_once());
}

/* Host 0 has trouble with rail 0 and leaves it, for rail 1. */
static void trouble_while_a_promise_is_made(bool given, int promised)
{
	w_event(&w, 1, SHIFT_EV_PROBE_OK, 0);
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_post(&w, 1, SHIFT_OP_READ, 10, true);
	if (given) {
		pass_packets(1, 0, 1);
		assert_true(w_ack(&w, 1, 0));
		take_cqes(1);
	}
	make_ready(0, promised);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

static void a_switch_to_another_rail_was_not_planned(void **state)
{
	(void)state;
	trouble_while_a_promise_is_made(true, 2);
	assert_false(goes_back_at_once());
	assert_int_equal(w_view(&w, 1).r, 1);
	assert_int_equal(stats(0)->failovers, 1);
}

static void a_switch_before_ready_was_not_planned(void **state)
{
	(void)state;
	trouble_while_a_promise_is_made(false, 1);
	assert_false(goes_back_at_once());
	assert_int_equal(stats(0)->failovers, 1);
}

/* The peer took its question back, and leaves for that rail later, by itself. */
static void a_withdrawn_promise_is_none(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_PROBE_OK, 0);
	risk_atomic(0);
	make_ready(0, 1);
	w.now += 200 * MS;
	w_tick(&w, 0);
	deliver_all();
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	w.ack_cut_from[1] = false;
	assert_true(w_ack(&w, 0, 0));
	take_cqes(0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_false(goes_back_at_once());
	assert_int_equal(w_view(&w, 1).r, 1);
}

/* Data moves when a planned switch is done. After another the give-up clock runs on (7.15), as what
 * host 1 waits for may never come: here it has trouble again, 7 s later. */
static void only_a_planned_switch_ends_the_trouble(void **state)
{
	(void)state;
	for (int planned = 0; planned < 2; planned++) {
		uint64_t start;

		again(NULL);
		w_post(&w, 1, SHIFT_OP_READ, 10, true);
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w_msg(&w, 0);
		start = w.now + (planned ? 200 * MS : 0);
		w.now = start;
		w_tick(&w, 1); /* READY, if so late */
		if (!planned)
			w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		let_messages_pass();
		assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
		assert_int_not_equal(w_view(&w, 1).r, 0);
		w.frozen_fence = true;
		w.now = start + 7 * SECOND;
		w_event(&w, 1, SHIFT_EV_LINK_DOWN, w_view(&w, 1).r);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_FENCE);
		tick_at(1, start + 30 * SECOND);
		assert_int_equal(w_state(&w, 1), planned ? SHIFT_ST_FENCE : SHIFT_ST_GIVEUP);
		w.frozen_fence = false;
	}
}

/* Host 1 has asked host 0 to move; then host 0 has trouble, and leaves for that rail by itself. */
static void a_starter_has_promised_nothing(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_PROBE_OK, 0);
	w_post(&w, 1, SHIFT_OP_READ, 10, true);
	w_event(&w, 1, SHIFT_EV_MIGRATE, 1);
	deliver_all();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_false(goes_back_at_once());
	assert_int_equal(stats(0)->failovers, 1);
}

/* --- at random -------------------------------------------------------------------------------- */

/* Messages come late, twice, in any order, or never. */
static void mistreat_message(void)
{
	uint32_t i;

	if (!w.msgs)
		return;
	i = w_random(&w, w.msgs);
	switch (w_random(&w, 4)) {
	case 0: w.msg[i] = w.msg[--w.msgs]; return;
	case 1:
		if (w.msgs < W_MSGS)
			w.msg[w.msgs++] = w.msg[i];
		return;
	default: w_msg(&w, i); return;
	}
}

/* Timers and fences are late by up to 60 ms, which is less than a quarter of any promise. */
static void let_time_pass(void)
{
	w.now += w_random(&w, 60) * MS;
	for (int h = 0; h < 2; h++) {
		if (shift_conn_deadline(w.h[h].c) <= w.now)
			w_tick(&w, h);
		finish_ops(h);
	}
}

static void random_step(void)
{
	int h = (int)w_random(&w, 2), rail = w_view(&w, h).r;

	switch (w_random(&w, 16)) {
	case 0: w_event(&w, h, SHIFT_EV_MIGRATE, (int)w_random(&w, W_RAILS)); return;
	case 1:
		w_post(&w, h, w_random(&w, 4) ? SHIFT_OP_FETCH_ADD : SHIFT_OP_READ, 8, true);
		return;
	case 2:
	case 3:
	case 4: w_packet(&w, h, rail); return;
	case 5:
	case 6:
	case 7: w_ack(&w, h, rail); return;
	case 8:
	case 9: w_cqe(&w, h); return;
	case 10: let_time_pass(); return;
	default: mistreat_message(); return;
	}
}

/* Only the operator's orders: no link fails, no QP, and no timer takes the loss of so many messages
 * for a fault. So no atomic may lose its result. */
static void planned_switches_alone_lose_nothing(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true,
				     .confirmed = true,
				     .no_progress_ns = 1000000 * SECOND,
				     .switch_timeout_ns = 1000000 * SECOND,
				     .giveup_ns = 1000000 * SECOND};
	uint64_t planned = 0, abandoned = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		again(&cfg);
		w.rng = seed * 0x9e3779b97f4a7c15u + 1;
		for (int i = 0; i < 2000; i++)
			random_step();
		nothing_is_lost(w.h[0].posted, w.h[1].posted);
		planned += stats(0)->planned + stats(1)->planned;
		abandoned += stats(0)->abandoned + stats(1)->abandoned;
	}
	print_message("%llu planned switches, %llu attempts abandoned\n",
		      (unsigned long long)planned, (unsigned long long)abandoned);
	assert_true(planned > 1000 && abandoned > 1000);
}

/* The outstanding work did not drain within 200 ms: the next attempt gets 400 ms. */
static void a_slow_path_drains_longer_the_next_time(void **state)
{
	(void)state;
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	w.data_cut[0] = true;
	for (int i = 0; i < 2; i++) {
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		deliver_all();
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

static void probes_pass(int rail, int n)
{
	while (n--) {
		w.now += 100 * MS;
		w_event(&w, 0, SHIFT_EV_PROBE_OK, rail);
		w_event(&w, 1, SHIFT_EV_PROBE_OK, rail);
		for (int h = 0; h < 2; h++)
			if (shift_conn_deadline(w.h[h].c) <= w.now)
				w_tick(&w, h);
		while (w_op(&w, 0) || w_op(&w, 1) || w_cqe(&w, 0) || w_cqe(&w, 1) || w_msg(&w, 0))
			;
	}
}

static void fails_back_after_the_hold_down_which_doubles(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	probes_pass(0, 10);
	assert_int_equal(w_view(&w, 0).r, 1);
	probes_pass(0, 5);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w_view(&w, 1).r, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 2); /* rail 1 was left a moment ago and is still dirty */
	probes_pass(0, 17);
	assert_int_equal(w_view(&w, 0).r, 2);
	probes_pass(0, 20);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[0].completed, 2);
}

/* Each try that nobody answers costs the peer a pause if it hears it: so the next is later. */
/* On a twin each has a completion, so that a drain knows when it is back (7.25). */
static void an_unsignaled_atomic_on_a_twin_is_waited_for(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, false);
	assert_int_equal(stats(0)->secret_signals, 1);
	pass_packets(0, 1, 1);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	deliver_all();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	assert_true(w_ack(&w, 0, 1));
	take_cqes(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
}

static void a_fail_back_in_vain_is_tried_later_each_time(void **state)
{
	uint64_t asked_ns;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
	for (uint64_t hold_s = 1; hold_s <= 4; hold_s *= 2) {
		asked_ns = w.now;
		tick_at(0, asked_ns + hold_s * SECOND - 1);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		tick_at(0, asked_ns + hold_s * SECOND);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
		w.now += 10 * SECOND;
		w_tick(&w, 0);
		lose_messages();
	}
}

static void one_missed_probe_restarts_the_hold_down(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	probes_pass(0, 9);
	w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	w_event(&w, 1, SHIFT_EV_PROBE_MISSED, 0);
	probes_pass(0, 9);
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void back_on_rail_0_the_data_path_only_counts(void **state)
{
	char line[256];

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	probes_pass(0, 40);
	assert_int_equal(w_view(&w, 0).r, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 10));
	shift_conn_dump(w.h[0].c, line, sizeof(line));
	assert_null(strstr(line, "tracked"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(operator_migrates),
		WORLD_TEST(a_planned_switch_never_risks_an_atomic),
		WORLD_TEST(each_attempt_is_followed_once),
		WORLD_TEST(serials_wrap),
		WORLD_TEST(a_newer_attempt_replaces_the_older),
		WORLD_TEST(a_newer_attempt_drains_anew),
		WORLD_TEST(a_withdrawn_attempt_ends_at_once),
		WORLD_TEST(attempts_for_several_rails_have_a_gap),
		WORLD_TEST(a_withdrawn_attempt_is_not_followed),
		WORLD_TEST(a_starter_cares_for_no_withdrawal),
		WORLD_TEST(a_follower_asks_later),
		WORLD_TEST(both_ask_at_once_and_side_0_leads),
		WORLD_TEST(side_1_withdraws_what_it_gives_up),
		WORLD_TEST(the_target_is_lost_while_posts_are_held),
		WORLD_TEST(a_bad_target_is_refused_at_once),
		WORLD_TEST(a_lost_atomic_is_not_moved),
		WORLD_TEST(a_late_prepare_finds_another_epoch),
		WORLD_TEST(a_kept_promise_is_a_planned_switch),
		WORLD_TEST(an_atomic_after_the_promise_is_not_executed),
		WORLD_TEST(a_switch_to_another_rail_was_not_planned),
		WORLD_TEST(a_switch_before_ready_was_not_planned),
		WORLD_TEST(a_withdrawn_promise_is_none),
		WORLD_TEST(only_a_planned_switch_ends_the_trouble),
		WORLD_TEST(a_starter_has_promised_nothing),
		WORLD_TEST(planned_switches_alone_lose_nothing),
		WORLD_TEST(a_slow_path_drains_longer_the_next_time),
		WORLD_TEST(fails_back_after_the_hold_down_which_doubles),
		WORLD_TEST(an_unsignaled_atomic_on_a_twin_is_waited_for),
		WORLD_TEST(a_fail_back_in_vain_is_tried_later_each_time),
		WORLD_TEST(one_missed_probe_restarts_the_hold_down),
		WORLD_TEST(back_on_rail_0_the_data_path_only_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
