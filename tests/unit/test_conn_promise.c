/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a READY is worth (doc/protocol.md, 7.35): for how long each end holds, believes and waits.
 */
#include "tests/unit/planned.h"

/* --- the promise is no shorter than what the starter believes ----------------------------------
 */

/* The starter waits for its READ longer than a peer that counts no refusals would hold. */
static void the_peer_holds_as_long_as_it_was_asked(void **state)
{
	(void)state;
	ask_in_vain(0, 2, 3);
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	make_ready(0, 2);
	w.now += 700 * MS;
	w_tick(&w, 1);
	risk_atomic(1);
	pass_packets(0, 0, 1);
	assert_true(w_ack(&w, 0, 0));
	take_cqes(0); /* drained */
	nothing_is_lost(1, 1);
	assert_int_equal(w_view(&w, 1).r, 2);
	assert_int_equal(stats(0)->planned, 1);
}

/* The first READY is lost. A later one does not make the starter believe in a longer promise. */
static void a_repeated_ready_is_believed_no_longer(void **state)
{
	uint64_t start;

	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	start = w.now;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	w_msg(&w, 0);
	lose_messages();
	tick_at(0, start + 590 * MS);
	deliver_all();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	tick_at(1, start + 650 * MS);
	risk_atomic(1);
	tick_at(0, start + 650 * MS);
	pass_packets(0, 0, 1);
	assert_true(w_ack(&w, 0, 0));
	take_cqes(0);
	nothing_is_lost(1, 1);
}

static void a_ready_of_an_abandoned_attempt_is_ignored(void **state)
{
	struct shift_msg ready;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	w_msg(&w, 0);
	ready = *last_message(0);
	assert_int_equal(ready.type, SHIFT_MSG_READY);
	lose_messages();
	w.now += SECOND;
	w_tick(&w, 0);
	w_tick(&w, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	lose_messages();
	risk_atomic(1);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	lose_messages();
	deliver_message(0, &ready);
	nothing_is_lost(0, 1);
}

static void only_the_ready_of_this_attempt_counts(void **state)
{
	struct shift_msg asked, other;

	(void)state;
	ask_in_vain(0, 2, 1);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	asked = *last_message(1);
	assert_int_equal(asked.serial, 2);
	peer_says(0, SHIFT_MSG_READY, 2, 1, 800);
	peer_says(0, SHIFT_MSG_READY, 2, 3, 800);
	peer_says(0, SHIFT_MSG_READY, 1, 2, 800);
	other = asked;
	other.type = SHIFT_MSG_READY;
	other.src_nonce = asked.dst_nonce;
	other.dst_nonce = asked.src_nonce;
	other.src_conn = asked.dst_conn;
	other.dst_conn = asked.src_conn;
	other.epoch = 1;
	deliver_message(0, &other);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	peer_says(0, SHIFT_MSG_READY, 2, 2, 800);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* Each refusal doubles what is asked, up to eightfold. Repetitions are of the same attempt. */
static void what_is_asked(void **state)
{
	static const uint32_t asked_ms[] = {800, 1600, 3200, 6400, 6400};

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(last_message(1)->serial, i + 1);
			assert_int_equal(last_message(1)->hold_ms, asked_ms[i]);
			lose_messages();
			w.now += 20 * MS;
			w_tick(&w, 0);
			assert_int_equal(shift_conn_deadline(w.h[0].c), w.now + 20 * MS);
		}
		lose_messages();
		w.now += 10 * SECOND;
		w_tick(&w, 0);
		assert_int_equal(last_message(1)->serial, i + 1);
		assert_int_equal(last_message(1)->hold_ms, 0); /* withdrawn */
		lose_messages();
	}
}

static void a_switch_that_is_done_forgets_the_refusals(void **state)
{
	(void)state;
	ask_in_vain(0, 2, 2);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_int_equal(last_message(1)->hold_ms, 3200);
	let_messages_pass();
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(last_message(1)->hold_ms, 800);
	assert_int_equal(last_message(1)->serial, 4);
}

/* Whoever asked for it. */
static void what_was_followed_in_vain_counts(void **state)
{
	(void)state;
	peer_says(0, SHIFT_MSG_PREPARE, 2, 1, 800);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	peer_says(0, SHIFT_MSG_PREPARE, 2, 1, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_int_equal(last_message(1)->hold_ms, 1600);
}

/* --- the starter's times ---------------------------------------------------------------------- */

static void the_starter_waits_for_ready_until_it_would_be_too_late(void **state)
{
	uint64_t start = w.now;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	tick_at(0, start + 600 * MS - 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	tick_at(0, start + 600 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* Three quarters of what the peer promises, from the moment of the question. */
static void a_ready_that_promises_less(void **state)
{
	for (int late = -1; late <= 1; late++) {
		uint64_t start;

		again(NULL);
		start = w.now;
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w.now = start + 300 * MS + (uint64_t)(int64_t)late;
		peer_says(0, SHIFT_MSG_READY, 2, 1, 400);
		assert_int_equal(w_state(&w, 0), late < 0 ? SHIFT_ST_FENCE : SHIFT_ST_ACTIVE);
		assert_int_equal(stats(0)->abandoned, late >= 0);
	}
	(void)state;
}

/* It is drained at the last moment: its own bound would be 700 ms, but the promise is of 800. */
static void the_starter_abandons_what_it_cannot_fence_in_time(void **state)
{
	for (int late = -1; late <= 1; late++) {
		uint64_t start;

		again(NULL);
		start = w.now;
		w_post(&w, 0, SHIFT_OP_READ, 10, true);
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w.now = start + 500 * MS;
		peer_says(0, SHIFT_MSG_READY, 2, 1, 800);
		assert_int_equal(shift_conn_deadline(w.h[0].c), start + 600 * MS);
		tick_at(0, start + 600 * MS - 1);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
		w.now = start + 600 * MS + (uint64_t)(int64_t)late;
		pass_packets(0, 0, 1);
		assert_true(w_ack(&w, 0, 0));
		take_cqes(0);
		assert_int_equal(w_state(&w, 0), late < 0 ? SHIFT_ST_FENCE : SHIFT_ST_ACTIVE);
	}
	(void)state;
}

/* A READ may be interrupted, so the starter goes on; but not at the end of what it may believe. */
static void the_starters_own_bound(void **state)
{
	for (int late = 0; late < 2; late++) {
		uint64_t start, bound = (late ? 600 : 599) * MS;

		again(NULL);
		start = w.now;
		w_post(&w, 0, SHIFT_OP_READ, 10, true);
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w.now = start + bound - 200 * MS;
		peer_says(0, SHIFT_MSG_READY, 2, 1, 800);
		tick_at(0, start + bound - 1);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
		tick_at(0, start + bound);
		assert_int_equal(w_state(&w, 0), late ? SHIFT_ST_ACTIVE : SHIFT_ST_FENCE);
	}
	(void)state;
}

static void the_starters_bound_doubles_as_well(void **state)
{
	(void)state;
	ask_in_vain(0, 2, 1);
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	peer_says(0, SHIFT_MSG_READY, 2, 2, 1600);
	assert_int_equal(shift_conn_deadline(w.h[0].c), w.now + 400 * MS);
}

/* While it drains, and when it has left. */
static void a_second_ready_changes_nothing(void **state)
{
	uint64_t start = w.now;

	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	peer_says(0, SHIFT_MSG_READY, 2, 1, 800);
	w.now = start + 100 * MS;
	peer_says(0, SHIFT_MSG_READY, 2, 1, 800);
	assert_int_equal(shift_conn_deadline(w.h[0].c), start + 200 * MS);
	tick_at(0, start + 200 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	peer_says(0, SHIFT_MSG_READY, 2, 1, 800);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* The peer is told at once, and need not wait for the end of its promise. */
static void the_starters_own_atomic_is_not_risked(void **state)
{
	uint64_t start;

	(void)state;
	risk_atomic(0);
	start = make_ready(0, 2);
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	assert_int_equal(w_view(&w, 1).send_sent, 0);
	tick_at(0, start + 200 * MS - 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	tick_at(0, start + 200 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(shift_conn_deadline(w.h[0].c), w.now + SECOND); /* T8 */
	deliver_all();
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 1).send_sent, 1);
	nothing_is_lost(1, 1);
	assert_int_equal(w_view(&w, 0).r, 0);
}

/* --- the follower's times --------------------------------------------------------------------- */

static void the_promise_ends_when_it_said(void **state)
{
	uint64_t start = w.now;

	(void)state;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	assert_int_equal(last_message(0)->type, SHIFT_MSG_READY);
	assert_int_equal(last_message(0)->serial, 1);
	assert_int_equal(last_message(0)->hold_ms, 40);
	assert_int_equal(shift_conn_deadline(w.h[1].c), start + 40 * MS);
	w_post(&w, 1, SHIFT_OP_SEND, 8, true);
	tick_at(1, start + 40 * MS - 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	assert_int_equal(w_view(&w, 1).send_sent, 0);
	tick_at(1, start + 40 * MS);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 1).send_sent, 1);
}

/* A quarter of what was asked, whatever the follower has seen refused. */
static void the_follower_drains_for_a_quarter(void **state)
{
	uint64_t start;

	(void)state;
	ask_in_vain(1, 2, 3);
	risk_atomic(1);
	start = w.now;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	assert_int_equal(w.msgs, 0); /* no READY yet */
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	assert_int_equal(w.msgs, 0);
	tick_at(1, start + 10 * MS - 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	tick_at(1, start + 10 * MS);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_equal(w.msgs, 0);
}

/* An unsignaled SEND may be interrupted at any time, an atomic never; the rest if it takes too
 * long. */
static void what_a_drain_waits_for(void **state)
{
	static const struct {
		enum shift_opcode op;
		bool signaled, waits, stops;
	} wr[] = {
		{SHIFT_OP_SEND, false, false, false},	 {SHIFT_OP_SEND, true, true, false},
		{SHIFT_OP_READ, false, true, false},	 {SHIFT_OP_READ, true, true, false},
		{SHIFT_OP_CMP_SWAP, false, true, true},	 {SHIFT_OP_CMP_SWAP, true, true, true},
		{SHIFT_OP_FETCH_ADD, false, true, true}, {SHIFT_OP_FETCH_ADD, true, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wr) / sizeof(wr[0]); i++) {
		again(NULL);
		w_post(&w, 1, wr[i].op, 8, wr[i].signaled);
		w_post(&w, 1, SHIFT_OP_WRITE, 8, false);
		peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
		assert_int_equal(w.msgs, !wr[i].waits);
		w.now += 10 * MS;
		w_tick(&w, 1);
		assert_int_equal(w_state(&w, 1), wr[i].stops ? SHIFT_ST_ACTIVE : SHIFT_ST_DRAIN);
		assert_int_equal(w.msgs, !wr[i].stops);
	}
}

/* It waits behind a READ that is asked again, and is done itself: nothing of it can be lost. */
static void an_atomic_that_is_done_stops_no_drain(void **state)
{
	struct shift_conn_cfg cfg = {
		.exactly_once = true, .confirmed = true, .lost_atomic_continue = true};

	(void)state;
	again(&cfg);
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	pass_packets(0, 0, 2);
	break_rail_0(0);
	let_messages_pass();
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w.h[0].completed, 0);
	peer_says(0, SHIFT_MSG_PREPARE, 2, 1, 40);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	w.now += 10 * MS;
	w_tick(&w, 0);
	assert_int_equal(last_message(1)->type, SHIFT_MSG_READY);
}

static void a_drain_waits_for_all(void **state)
{
	(void)state;
	w_post(&w, 1, SHIFT_OP_READ, 8, true);
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	pass_packets(1, 0, 2);
	assert_true(w_ack(&w, 1, 0));
	take_cqes(1);
	assert_int_equal(w.msgs, 0);
	assert_true(w_ack(&w, 1, 0));
	take_cqes(1);
	assert_int_equal(last_message(0)->type, SHIFT_MSG_READY);
}

/* A READ does not stop it, but what is left of the promise is shorter then. */
static void ready_at_the_bound_lasts_no_longer(void **state)
{
	uint64_t start = w.now;

	(void)state;
	w_post(&w, 1, SHIFT_OP_READ, 8, true);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	tick_at(1, start + 10 * MS);
	assert_int_equal(last_message(0)->type, SHIFT_MSG_READY);
	tick_at(1, start + 40 * MS - 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	tick_at(1, start + 40 * MS);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
}

/* The timer came late. It drains when nothing of the promise is left, or just before. */
static void no_ready_after_the_end_of_the_promise(void **state)
{
	for (int late = -1; late <= 1; late++) {
		again(NULL);
		w_post(&w, 1, SHIFT_OP_READ, 8, true);
		peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
		w.now += 40 * MS + (uint64_t)(int64_t)late;
		pass_packets(1, 0, 1);
		assert_true(w_ack(&w, 1, 0));
		take_cqes(1);
		assert_int_equal(w_state(&w, 1), late < 0 ? SHIFT_ST_DRAIN : SHIFT_ST_ACTIVE);
		assert_int_equal(w.msgs, late < 0);
	}
	(void)state;
}

/* Whatever becomes of the rail, what was promised holds: the starter may be on its way. */
static void a_promise_outlasts_its_rail(void **state)
{
	uint64_t start = w.now;

	(void)state;
	w_post(&w, 1, SHIFT_OP_READ, 8, true);
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	tick_at(1, start + 10 * MS);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	pass_packets(1, 0, 1);
	assert_true(w_ack(&w, 1, 0));
	take_cqes(1);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
}

static void a_promise_has_a_maximum(void **state)
{
	static const uint32_t promised_ms[][2] = {
		{1, 1}, {6399, 6399}, {6400, 6400}, {6401, 6400}, {UINT32_MAX, 6400}};

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		again(NULL);
		peer_says(1, SHIFT_MSG_PREPARE, 2, 1, promised_ms[i][0]);
		assert_int_equal(last_message(0)->hold_ms, promised_ms[i][1]);
		assert_int_equal(shift_conn_deadline(w.h[1].c), w.now + promised_ms[i][1] * MS);
	}
}

/* The question again: the answer again. Posts are held no longer for it. */
static void a_repeated_prepare_is_answered(void **state)
{
	uint64_t start = w.now;

	(void)state;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	lose_messages();
	w.now = start + 30 * MS;
	peer_says(1, SHIFT_MSG_PREPARE, 2, 1, 40);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(last_message(0)->type, SHIFT_MSG_READY);
	assert_int_equal(last_message(0)->hold_ms, 40);
	tick_at(1, start + 40 * MS);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(the_peer_holds_as_long_as_it_was_asked),
		WORLD_TEST(a_repeated_ready_is_believed_no_longer),
		WORLD_TEST(a_ready_of_an_abandoned_attempt_is_ignored),
		WORLD_TEST(only_the_ready_of_this_attempt_counts),
		WORLD_TEST(what_is_asked),
		WORLD_TEST(a_switch_that_is_done_forgets_the_refusals),
		WORLD_TEST(what_was_followed_in_vain_counts),
		WORLD_TEST(the_starter_waits_for_ready_until_it_would_be_too_late),
		WORLD_TEST(a_ready_that_promises_less),
		WORLD_TEST(the_starter_abandons_what_it_cannot_fence_in_time),
		WORLD_TEST(the_starters_own_bound),
		WORLD_TEST(the_starters_bound_doubles_as_well),
		WORLD_TEST(a_second_ready_changes_nothing),
		WORLD_TEST(the_starters_own_atomic_is_not_risked),
		WORLD_TEST(the_promise_ends_when_it_said),
		WORLD_TEST(the_follower_drains_for_a_quarter),
		WORLD_TEST(what_a_drain_waits_for),
		WORLD_TEST(an_atomic_that_is_done_stops_no_drain),
		WORLD_TEST(a_drain_waits_for_all),
		WORLD_TEST(ready_at_the_bound_lasts_no_longer),
		WORLD_TEST(no_ready_after_the_end_of_the_promise),
		WORLD_TEST(a_promise_outlasts_its_rail),
		WORLD_TEST(a_promise_has_a_maximum),
		WORLD_TEST(a_repeated_prepare_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
