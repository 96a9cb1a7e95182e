/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* When a tick is wanted in each state, what starts afresh once data moves, and which posts and
 * migrations are taken up (doc/protocol.md, T2, T4, T7, rules 3, 17, 7.15, 7.23). */
#include "tests/unit/planned.h"

static uint64_t deadline(int h)
{
	return shift_conn_deadline(w.h[h].c);
}

static void due(uint64_t ns)
{
	assert_true(deadline(0) == ns);
}

static void link_down(int rail)
{
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, rail);
}

static void in_state(enum shift_state s)
{
	assert_int_equal(w_state(&w, 0), s);
}

/* --- deadlines -----------------------------------------------------------------------------------
 */

/* A tick before its time changes nothing, at its time it does: so the deadline moves. */
static void in_active_it_asks_once_a_second(void **state)
{
	uint64_t at = w.now + SECOND;

	(void)state;
	due(at);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	tick_at(0, at - 1);
	due(at);
	assert_int_equal(w.msgs, 0);
	tick_at(0, at);
	due(at + SECOND);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.type, SHIFT_MSG_QUERY_PSN);
}

/* Only the give-up time bounds what others must do: a fence, an ARM, a rail that comes. */
static void fence_arm_and_no_rail_wait_for_the_give_up_time(void **state)
{
	uint64_t end = w.now + 30 * SECOND;

	(void)state;
	w.frozen_fence = w.frozen_arm = true;
	link_down(0);
	in_state(SHIFT_ST_FENCE);
	due(end);
	w.now += SECOND;
	w.frozen_fence = false;
	finish_ops(0);
	in_state(SHIFT_ST_ARM);
	due(end);
	w.arm_fails[1] = true;
	w.now += SECOND;
	link_down(1);
	link_down(2);
	in_state(SHIFT_ST_ARM);
	w.frozen_arm = false;
	finish_ops(0);
	in_state(SHIFT_ST_NO_RAIL);
	due(end);
	tick_at(0, end - 1);
	in_state(SHIFT_ST_NO_RAIL);
	tick_at(0, end);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_FENCED); /* nothing was armed any more */
	in_state(SHIFT_ST_DEAD);
	due(UINT64_MAX);
}

static void give_up_ends_a_fence(void **state)
{
	uint64_t end = w.now + 30 * SECOND;

	(void)state;
	w.frozen_fence = true;
	link_down(0);
	tick_at(0, end - 1);
	in_state(SHIFT_ST_FENCE);
	tick_at(0, end);
	in_state(SHIFT_ST_GIVEUP);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_GIVEUP_TIME);
	due(UINT64_MAX);
}

static void give_up_ends_an_arm(void **state)
{
	uint64_t end = w.now + 30 * SECOND;

	(void)state;
	w.frozen_arm = true;
	link_down(0);
	finish_ops(0);
	tick_at(0, end - 1);
	in_state(SHIFT_ST_ARM);
	tick_at(0, end);
	in_state(SHIFT_ST_GIVEUP);
}

/* SWITCH is repeated after 20 ms, 40, 80, 160, then every 200; after 500 ms another is tried. */
static void a_switch_is_repeated_and_then_given_up(void **state)
{
	static const uint64_t waits[] = {20, 40, 80, 160};
	uint64_t at = w.now;

	(void)state;
	waits_for_an_answer();
	for (unsigned int i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		w.ctl_cut[1] = false;
		at += waits[i] * MS;
		due(at);
		tick_at(0, at - 1);
		assert_int_equal(w.msgs, 0);
		tick_at(0, at);
		assert_int_equal(w.msgs, 1);
		assert_int_equal(w.msg[0].m.type, SHIFT_MSG_SWITCH);
		assert_int_equal(w.msg[0].rail, 1);
		lose_messages();
	}
	due(at + 200 * MS); /* 300 + 200 = 500: both */
	tick_at(0, at + 200 * MS - 1);
	assert_int_equal(w_view(&w, 0).target_e, 2);
	tick_at(0, at + 200 * MS);
	assert_int_equal(w_view(&w, 0).target_e, 4);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_TIMEOUT);
}

/* It waits for the end of the quarantine when that is known, and says PENDING meanwhile. */
static void a_quarantine_ends_in_time(void **state)
{
	uint64_t clean;

	(void)state;
	/* Rail 0 is dirty from here on, for a second. */
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	clean = w.now + SECOND;
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).r, 1);
	link_down(2);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	w.now += 900 * MS;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.ctl_cut[0] = true;
	assert_true(w_break(&w, 0, 1));
	take_cqes(0);
	finish_ops(0);
	in_state(SHIFT_ST_QUARANTINE);
	assert_int_equal(w_view(&w, 0).target_r, 0);
	due(w.now + 20 * MS); /* PENDING once more */
	tick_at(0, w.now + 20 * MS);
	tick_at(0, w.now + 40 * MS);
	in_state(SHIFT_ST_QUARANTINE);
	due(clean);
	tick_at(0, clean - 1);
	in_state(SHIFT_ST_QUARANTINE);
	tick_at(0, clean);
	in_state(SHIFT_ST_ARM);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_SETTLED);
}

/* T4: a link says only once that it is down. */
static void the_end_of_the_other_rails_quarantine_is_awaited(void **state)
{
	static const struct shift_conn_cfg cfg = {
		.exactly_once = true, .confirmed = true, .quarantine_ns = 1700 * MS};
	uint64_t clean;

	(void)state;
	again(&cfg);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	clean = w.now + 1700 * MS;
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	link_down(2);
	tick_at(0, w.now + 1500 * MS);
	link_down(1); /* the rail in use; nowhere to go yet */
	in_state(SHIFT_ST_ACTIVE);
	due(clean);
	tick_at(0, clean - 1);
	in_state(SHIFT_ST_ACTIVE);
	due(clean);
	tick_at(0, clean);
	in_state(SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_LINK_DOWN);
	assert_int_equal(w_view(&w, 0).target_r, 0);
}

/* It leaves the rail at the same moment at which it would have asked: then it does not ask. */
static void who_leaves_does_not_ask(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	link_down(2);
	link_down(1);
	lose_messages();
	tick_at(0, w.now + SECOND);
	in_state(SHIFT_ST_FENCE);
	assert_int_equal(stats(0)->no_progress_asked, 0);
}

/* An operator's switch is no failure of the rail: the first hold-down is the shortest. */
static void a_rail_left_by_plan_is_held_down_once(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 1);
	w.now += 5 * SECOND;
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
	w_tick(&w, 0);
	tick_at(0, w.now + SECOND - 1);
	in_state(SHIFT_ST_ACTIVE);
	tick_at(0, w.now + 1);
	in_state(SHIFT_ST_PREPARE);
}

/* Data has moved, and a better rail is good again: that is awaited, too. */
static void the_end_of_a_hold_down_is_awaited(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w.now += 3 * SECOND;
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
	w_tick(&w, 0);
	due(w.now + SECOND);
	tick_at(0, w.now + SECOND - 1);
	in_state(SHIFT_ST_ACTIVE);
	tick_at(0, w.now + 1);
	in_state(SHIFT_ST_PREPARE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_FAIL_BACK);
}

static void a_planned_switch_has_its_times(void **state)
{
	uint64_t asked = w.now;

	(void)state;
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	due(asked + 20 * MS);
	for (int i = 1; i < 30; i++) {
		tick_at(0, asked + 20ull * (unsigned int)i * MS);
		in_state(SHIFT_ST_PREPARE);
	}
	due(asked + 600 * MS);
	tick_at(0, asked + 600 * MS - 1);
	in_state(SHIFT_ST_PREPARE);
	tick_at(0, asked + 600 * MS);
	in_state(SHIFT_ST_ACTIVE);
	due(w.now + SECOND);
}

static void a_drain_has_its_time(void **state)
{
	uint64_t began;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	peer_says(0, SHIFT_MSG_PREPARE, 1, 1, 800);
	began = w.now;
	in_state(SHIFT_ST_DRAIN);
	due(began + 200 * MS);
	tick_at(0, began + 200 * MS - 1);
	assert_int_equal(w.msgs, 0);
	tick_at(0, began + 200 * MS);
	assert_int_equal(w.msgs, 1); /* READY, a WRITE can be cut */
	due(began + 800 * MS);
}

/* --- data moves: all starts afresh
 * ----------------------------------------------------------------- */

/* Until a host of that name is in another epoch; how long that took. */
static uint64_t time_to_next_epoch(void)
{
	uint64_t start = w.now;
	uint32_t e = w_view(&w, 0).target_e;

	while (w_view(&w, 0).target_e == e) {
		w.now = deadline(0);
		w_tick(&w, 0);
	}
	finish_ops(0);
	return w.now - start;
}

static void cut_all(bool on)
{
	for (int r = 0; r < W_RAILS; r++)
		cut_rail(r, on);
}

static void outage(void)
{
	cut_all(true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_break(&w, 0, w_view(&w, 0).r));
	take_cqes(0);
	finish_ops(0);
	in_state(SHIFT_ST_SWITCHING);
}

static void outage_over(void)
{
	cut_all(false);
	assert_true(w_settle(&w, 200));
	w.now += 5 * SECOND;
}

/* Rule 17: 500 ms, doubled each time up to eightfold, and 500 ms again in the next trouble. */
static void timeouts_double_and_begin_anew(void **state)
{
	static const struct shift_conn_cfg patient = {
		.exactly_once = true, .confirmed = true, .giveup_ns = 3600 * SECOND};

	(void)state;
	again(&patient);
	for (int round = 0; round < 2; round++) {
		outage();
		assert_int_equal(time_to_next_epoch(), 500 * MS);
		/* Rail 2, then a rail that is dirty: the quarantine counts, too. */
		assert_int_equal(time_to_next_epoch(), 1000 * MS);
		outage_over();
	}
}

/* 7.15: the clock runs from when data last moved, not from the first trouble ever. */
static void the_give_up_clock_begins_anew(void **state)
{
	uint64_t began;

	(void)state;
	outage();
	w.now += 10 * SECOND;
	outage_over();
	w.now += 100 * SECOND;
	began = w.now;
	outage();
	w.now = began + 30 * SECOND - 1;
	w_tick(&w, 0);
	assert_true(w_state(&w, 0) < SHIFT_ST_GIVEUP);
	w.now = began + 30 * SECOND;
	w_tick(&w, 0);
	in_state(SHIFT_ST_GIVEUP);
}

/* Without a completion the clock goes on over any number of switches that commit. */
static void the_give_up_clock_goes_on_while_no_data_moves(void **state)
{
	uint64_t began = w.now;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.data_cut[0] = w.data_cut[1] = w.data_cut[2] = true;
	while (w_state(&w, 0) < SHIFT_ST_GIVEUP && w.now < began + 60 * SECOND) {
		w_break(&w, 0, w_view(&w, 0).r);
		w_run(&w, 1);
		w.now += 100 * MS;
	}
	assert_true(stats(0)->switches > 2);
	assert_in_range(w.now - began, 30 * SECOND - 1, 31 * SECOND + SECOND);
}

static uint8_t rail_of_next_failover(void)
{
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_break(&w, 0, w_view(&w, 0).r));
	take_cqes(0);
	return w_view(&w, 0).target_r;
}

/* Rule 3: of rails tried equally often the lowest number is taken, and tries count in one trouble
 * only. */
static void tries_begin_anew_when_data_moves(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		assert_int_equal(rail_of_next_failover(), 1);
		assert_true(w_settle(&w, 200));
		w.now += 5 * SECOND;
		w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
		assert_true(w_settle(&w, 200));
		assert_int_equal(w_view(&w, 0).r, 0);
		w.now += 5 * SECOND;
	}
	assert_int_equal(rail_of_next_failover(), 1);
}

/* And while it does not, the rail tried least has its turn. */
static void tries_count_while_no_data_moves(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	assert_int_equal(w_view(&w, 0).target_r, 1);
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	assert_true(w_break(&w, 0, 1));
	take_cqes(0);
	assert_int_equal(w_view(&w, 0).target_r, 2);
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	w.now += 5 * SECOND; /* all are clean */
	assert_true(w_break(&w, 0, 2));
	take_cqes(0);
	assert_int_equal(w_view(&w, 0).target_r, 0);
}

/* SWITCHING is part of the switch under way: what leads on from there is not a new one. */
static void a_second_epoch_belongs_to_the_same_switch(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	deliver_all();
	assert_true(w_view(&w, 0).planned);
	w.ctl_cut[1] = true;
	finish_ops(0);
	in_state(SHIFT_ST_SWITCHING);
	lose_messages();
	time_to_next_epoch();
	assert_true(w_view(&w, 0).planned);
	assert_int_equal(w_view(&w, 0).target_e, 4);
	w.ctl_cut[1] = false;
	assert_true(w_settle(&w, 50));
	assert_int_equal(stats(0)->planned, 1);
	assert_int_equal(stats(0)->failovers, 0);
}

/* --- refused posts (T2, 7.23)
 * ---------------------------------------------------------------------- */

static void refuse(int rail, uint32_t epoch, uint32_t count)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED,
				 .rail = (uint8_t)rail,
				 .epoch = epoch,
				 .count = count};

	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
}

/* Of the rail in use, and of its present arming; else it is of the past. */
static void a_refusal_of_the_past_is_ignored(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	refuse(1, 0, 1);
	refuse(0, 1, 1);
	in_state(SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).send_sent, 1);
	assert_true(w_settle(&w, 20));
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	fail_over(0);
	refuse(1, 0, 1);
	refuse(1, 1, 1);
	refuse(1, 3, 1);
	refuse(0, 0, 1);
	refuse(0, 2, 1);
	in_state(SHIFT_ST_ACTIVE);
	refuse(1, 2, 0);
	in_state(SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_POST_FAILED);
}

/* In each state in which posts go out, a refusal leads away from the rail. */
static void a_refusal_in_prepare_and_drain(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	in_state(SHIFT_ST_PREPARE);
	refuse(0, 0, 0);
	in_state(SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 50));
	teardown(state);
	setup(state);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.h[0].qp[0].head--;
	peer_says(0, SHIFT_MSG_PREPARE, 1, 1, 800);
	in_state(SHIFT_ST_DRAIN);
	refuse(0, 0, 1);
	in_state(SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).send_sent, 0);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w.h[0].completed, 1);
}

/* Receives are posted before the commit. If one is refused then, no send of the log is taken back:
 * they were posted in an older epoch, and the peer's proof is about them. */
static void a_refusal_before_the_commit_takes_no_send_back(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 0, SHIFT_OP_WRITE, 2000, true);
	pass_packets(0, 0, 5);
	waits_for_an_answer();
	assert_int_equal(w_view(&w, 0).send_sent, 4);
	w.frozen_fence = true;
	refuse(1, 2, 2);
	in_state(SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_POST_FAILED);
	refuse(1, 2, 2); /* and one more, while it is being fenced */
	w.frozen_fence = false;
	assert_int_equal(w_view(&w, 0).send_sent, 4);
	assert_int_equal(w_view(&w, 0).packets_posted, 7);
	cut_all(false);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].errors, 0);
	assert_int_equal(w.h[0].completed, 4);
	assert_int_equal(stats(0)->proved, 2);
	assert_int_equal(stats(0)->trimmed, 1);
}

/* It comes before the FENCE_DONE of its QP (8.4): later the flushes have been counted. */
static void a_refusal_after_the_fence_is_ignored(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.frozen_arm = true;
	link_down(0);
	finish_ops(0);
	in_state(SHIFT_ST_ARM);
	refuse(0, 0, 1);
	in_state(SHIFT_ST_ARM);
	assert_int_equal(w_view(&w, 0).send_sent, 1);
	w.frozen_arm = false;
	assert_true(w_settle(&w, 50));
}

/* --- memory that the rail has no key for ------------------------------------------------------ */

static void no_key(int rail, uint32_t epoch)
{
	struct shift_event ev = {.type = SHIFT_EV_NO_KEY, .rail = (uint8_t)rail, .epoch = epoch};

	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
}

static void ends_with(uint32_t status)
{
	in_state(SHIFT_ST_GIVEUP);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_NO_KEY);
	w_run(&w, 20);
	in_state(SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, status);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_NO_KEY);
}

/* With the error of the NIC that was left; one that only flushed has named none. */
static void a_request_without_a_key_ends_the_connection(void **state)
{
	static const struct {
		uint32_t said, status;
	} cases[] = {
		{SHIFT_WC_LOC_QP_OP_ERR, SHIFT_WC_LOC_QP_OP_ERR},
		{SHIFT_WC_WR_FLUSH_ERR, SHIFT_WC_RETRY_EXC_ERR},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct shift_cqe cqe = {.status = cases[i].said};
		struct shift_wc wc;

		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now);
		assert_true(w_settle(&w, 200));
		in_state(SHIFT_ST_ACTIVE);
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		no_key(0, 2); /* of the past */
		no_key(1, 1);
		in_state(SHIFT_ST_ACTIVE);
		no_key(1, 2);
		ends_with(cases[i].status);
		no_key(1, 2);
		in_state(SHIFT_ST_DEAD);
		teardown(state);
		setup(state);
	}
}

/* A receive has none: it is posted before the commit. */
static void a_receive_without_a_key_ends_the_connection(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	waits_for_an_answer();
	no_key(1, 2);
	ends_with(SHIFT_WC_RETRY_EXC_ERR);
}

/* The rail is being left: what is posted behind the switch may have a key. */
static void while_a_rail_is_left_no_key_is_missed(void **state)
{
	(void)state;
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	in_state(SHIFT_ST_FENCE);
	no_key(0, 0);
	in_state(SHIFT_ST_FENCE);
	w.frozen_fence = false;
}

static void a_refusal_before_hello_is_the_programs(void **state)
{
	static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};

	(void)state;
	again(&unconfirmed);
	refuse(0, 0, 0);
	in_state(SHIFT_ST_SETUP);
	assert_int_equal(w.h[0].ops, 0);
	assert_false(w_view(&w, 0).holding);
}

/* --- the operator (T7)
 * ----------------------------------------------------------------------------- */

static void migrate(int rail, bool taken_up)
{
	lose_messages();
	w_event(&w, 0, SHIFT_EV_MIGRATE, rail);
	in_state(taken_up ? SHIFT_ST_PREPARE : SHIFT_ST_ACTIVE);
	assert_int_equal(w.msgs, taken_up);
}

static void a_migration_needs_another_rail_that_is_usable(void **state)
{
	(void)state;
	migrate(0, false);	 /* it is there */
	migrate(W_RAILS, false); /* no such rail */
	link_down(1);
	migrate(1, false);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 1);
	migrate(1, true);
	assert_int_equal(w.msg[0].m.type, SHIFT_MSG_PREPARE);
	assert_int_equal(w.msg[0].rail, 1);
	/* While it asks, nothing else is begun. */
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_int_equal(w.msgs, 1);
}

/* Old packets may still be on their way there. */
static void no_migration_to_a_rail_in_quarantine(void **state)
{
	uint64_t clean;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	clean = w.now + SECOND;
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	migrate(0, false);
	w.now = clean - 1;
	migrate(0, false);
	w.now = clean;
	migrate(0, true);
}

/* Behind a READ that is asked again waits an atomic that is lost: posts are held until the end. */
static void no_migration_while_posts_are_held(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	pass_packets(0, 0, 2);
	w.ack_cut_from[1] = true;
	break_rail_0(0);
	let_messages_pass();
	in_state(SHIFT_ST_ACTIVE);
	assert_true(w_view(&w, 0).holding);
	w.now += 5 * SECOND;
	migrate(2, false);
	migrate(0, false);
}

#define UNTAKEN(st)                                               \
	do {                                                      \
		uint32_t before = w_view(&w, 0).target_e;         \
		in_state(st);                                     \
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);              \
		in_state(st);                                     \
		assert_int_equal(w_view(&w, 0).target_e, before); \
	} while (0)

static void no_migration_during_a_switch_or_after_the_end(void **state)
{
	(void)state;
	w.frozen_fence = w.frozen_arm = true;
	link_down(0);
	UNTAKEN(SHIFT_ST_FENCE);
	w.frozen_fence = false;
	finish_ops(0);
	UNTAKEN(SHIFT_ST_ARM);
	w.frozen_arm = false;
	finish_ops(0);
	UNTAKEN(SHIFT_ST_SWITCHING);
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	UNTAKEN(SHIFT_ST_GIVEUP);
	w.frozen_fence = false;
	finish_ops(0);
	UNTAKEN(SHIFT_ST_DEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(in_active_it_asks_once_a_second),
		WORLD_TEST(fence_arm_and_no_rail_wait_for_the_give_up_time),
		WORLD_TEST(give_up_ends_a_fence),
		WORLD_TEST(give_up_ends_an_arm),
		WORLD_TEST(a_switch_is_repeated_and_then_given_up),
		WORLD_TEST(a_quarantine_ends_in_time),
		WORLD_TEST(the_end_of_the_other_rails_quarantine_is_awaited),
		WORLD_TEST(the_end_of_a_hold_down_is_awaited),
		WORLD_TEST(who_leaves_does_not_ask),
		WORLD_TEST(a_rail_left_by_plan_is_held_down_once),
		WORLD_TEST(a_planned_switch_has_its_times),
		WORLD_TEST(a_drain_has_its_time),
		WORLD_TEST(timeouts_double_and_begin_anew),
		WORLD_TEST(the_give_up_clock_begins_anew),
		WORLD_TEST(the_give_up_clock_goes_on_while_no_data_moves),
		WORLD_TEST(tries_begin_anew_when_data_moves),
		WORLD_TEST(tries_count_while_no_data_moves),
		WORLD_TEST(a_second_epoch_belongs_to_the_same_switch),
		WORLD_TEST(a_refusal_of_the_past_is_ignored),
		WORLD_TEST(a_refusal_in_prepare_and_drain),
		WORLD_TEST(a_refusal_before_the_commit_takes_no_send_back),
		WORLD_TEST(a_refusal_after_the_fence_is_ignored),
		WORLD_TEST(a_refusal_before_hello_is_the_programs),
		WORLD_TEST(a_request_without_a_key_ends_the_connection),
		WORLD_TEST(a_receive_without_a_key_ends_the_connection),
		WORLD_TEST(while_a_rail_is_left_no_key_is_missed),
		WORLD_TEST(a_migration_needs_another_rail_that_is_usable),
		WORLD_TEST(no_migration_to_a_rail_in_quarantine),
		WORLD_TEST(no_migration_while_posts_are_held),
		WORLD_TEST(no_migration_during_a_switch_or_after_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
