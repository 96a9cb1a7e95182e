/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Atomics where the peer's NICs are not atomic with each other (doc/protocol.md, 7.54). */
#include <string.h>

#include "lib/core/conn_int.h"
#include "tests/unit/planned.h"

/* To host h the rails 1 and 2 are apart from rail 0. */
static void set_apart(int h)
{
	w_event(&w, h, SHIFT_EV_ATOMICS_APART, 1);
	w_event(&w, h, SHIFT_EV_ATOMICS_APART, 2);
}

static struct shift_conn *conn(int h)
{
	return w.h[h].c;
}

static void post_atomic(int h)
{
	assert_true(w_post(&w, h, SHIFT_OP_FETCH_ADD, 8, true));
}

/* Both ends are on rail 1, and rail 0 is not possible. */
static void move_away(void)
{
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 100));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w_view(&w, 1).r, 1);
}

/* The switch to that rail is over. */
static void run_until_on(uint8_t rail)
{
	for (int i = 0; i < 50 && (w_view(&w, 0).r != rail || w_state(&w, 0) != SHIFT_ST_ACTIVE ||
				   w_state(&w, 1) != SHIFT_ST_ACTIVE);
	     i++)
		w_run(&w, 1);
	assert_int_equal(w_view(&w, 0).r, rail);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void rail0_is_back(int h)
{
	w_event(&w, h, SHIFT_EV_LINK_UP, 0);
	w_event(&w, h, SHIFT_EV_PROBE_OK, 0);
}

static void without_atomics_nothing_is_released(void **state)
{
	(void)state;
	set_apart(0);
	set_apart(1);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	w_post(&w, 1, SHIFT_OP_SEND, 100, true);
	assert_false(shift_conn_release_due(conn(0)));
	assert_true(shift_conn_atomic_releases(conn(0)));
	move_away();
}

static void the_first_atomic_releases(void **state)
{
	(void)state;
	set_apart(0);
	post_atomic(0);
	assert_true(shift_conn_release_due(conn(0)));
	assert_false(shift_conn_atomic_releases(conn(0)));
	assert_false(shift_conn_release_due(conn(1)));
	assert_true(shift_conn_release(conn(0)));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	assert_false(shift_conn_release_due(conn(0)));
}

static void one_from_before_it_was_known_releases(void **state)
{
	(void)state;
	post_atomic(0);
	assert_false(shift_conn_release_due(conn(0)));
	set_apart(0);
	assert_true(shift_conn_release_due(conn(0)));
}

/* There is another NIC of the peer that is atomic with that of rail 0. */
static void a_rail_that_is_not_apart_is_taken(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_ATOMICS_APART, 1);
	post_atomic(0);
	assert_false(shift_conn_release_due(conn(0)));
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 0); /* the peer knows nothing, and names rail 1 */
	assert_true(w_settle(&w, 2000));
	assert_int_equal(w_view(&w, 0).r, 2);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void one_that_the_caller_keeps_shut_does_not_count(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_ATOMICS_APART, 1);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 2);
	post_atomic(0);
	assert_true(shift_conn_release_due(conn(0)));
}

/* It opens in a moment; a release would be for good. */
static void one_that_is_still_to_come_counts(void **state)
{
	struct shift_event awaited = {.type = SHIFT_EV_RAIL_VETO, .rail = 2, .awaited = true};

	(void)state;
	w_event(&w, 0, SHIFT_EV_ATOMICS_APART, 1);
	shift_conn_event(conn(0), &awaited, w.now);
	post_atomic(0);
	assert_false(shift_conn_release_due(conn(0)));
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0); /* but it is no target yet */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 2);
	assert_true(shift_conn_release_due(conn(0)));
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 2);
	assert_false(shift_conn_release_due(conn(0)));
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 2);
	assert_true(shift_conn_release_due(conn(0)));
}

static void one_that_is_to_come_and_apart_does_not(void **state)
{
	struct shift_event awaited = {.type = SHIFT_EV_RAIL_VETO, .rail = 2, .awaited = true};

	(void)state;
	set_apart(0);
	shift_conn_event(conn(0), &awaited, w.now);
	post_atomic(0);
	assert_true(shift_conn_release_due(conn(0)));
}

static void rail0_is_never_apart(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_ATOMICS_APART, 0);
	assert_false(shift_conn_atomic_releases(conn(0)));
	post_atomic(0);
	assert_false(w_view(&w, 0).holding);
	assert_false(shift_conn_release_due(conn(0)));
}

/* What a connection that is not released yet has posted stays on rail 0. */
static void it_does_not_move_before_it_is_released(void **state)
{
	(void)state;
	set_apart(0);
	post_atomic(0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	peer_says(0, SHIFT_MSG_PREPARE, 1, 5, 40);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_break(&w, 0, 0);
	take_cqes(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	assert_true(w_settle(&w, 2000));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_true(shift_conn_release_due(conn(0)));
}

/* Stock verbs would not have the completions that the switch has swallowed, nor post again. */
static void what_is_posted_again_is_done_first(void **state)
{
	(void)state;
	set_apart(0);
	post_atomic(0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	w_break(&w, 0, 0);
	take_cqes(0);
	finish_ops(0);
	w.ack_cut_from[1] = true;
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	for (int i = 0; i < 4000 && w_state(&w, 0) != SHIFT_ST_ACTIVE; i++)
		w_run(&w, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_false(shift_conn_release_due(conn(0)));
	w.ack_cut_from[1] = false;
	assert_true(w_settle(&w, 2000));
	assert_true(shift_conn_release_due(conn(0)));
}

static void the_peer_lets_go_too(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_PEER_RELEASED, 0);
	assert_true(shift_conn_release_due(conn(1)));
	assert_true(shift_conn_release(conn(1)));
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SETUP);
}

static void away_from_rail0_nothing_is_released(void **state)
{
	(void)state;
	move_away();
	w_event(&w, 1, SHIFT_EV_PEER_RELEASED, 0);
	assert_false(shift_conn_release_due(conn(1)));
	assert_false(shift_conn_release(conn(1)));
}

/* --- the first atomic on a twin --------------------------------------------------------------- */

static void the_first_on_a_twin_waits_for_rail0(void **state)
{
	(void)state;
	set_apart(0);
	move_away();
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	post_atomic(0);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true); /* behind it */
	assert_true(w_view(&w, 0).holding);
	w_tick(&w, 0);
	w_run(&w, 3);
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w.h[0].completed, 1);
	rail0_is_back(0); /* the hold-down is not waited for */
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(stats(0)->planned, 1);
	assert_false(w_view(&w, 0).holding);
	assert_true(shift_conn_release_due(conn(0)));
}

static void a_failover_to_a_rail_apart_keeps_it_waiting(void **state)
{
	(void)state;
	set_apart(0);
	move_away();
	post_atomic(0);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	w_tick(&w, 0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	run_until_on(2);
	assert_true(w_view(&w, 0).holding);
	assert_int_equal(w.h[0].completed, 0);
	rail0_is_back(0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[0].completed, 2);
}

/* It was posted while posts were held for a switch. */
static void one_that_was_held_by_a_switch_waits_too(void **state)
{
	(void)state;
	set_apart(0);
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	post_atomic(0);
	w.frozen_fence = false;
	run_until_on(1);
	assert_true(w_cqe(&w, 0) || w.h[0].completed == 1);
	assert_true(w_view(&w, 0).holding);
	rail0_is_back(0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 0);
}

/* The peer asks for another rail that is apart, and nothing comes of it. */
static void an_abandoned_plan_does_not_let_it_go(void **state)
{
	(void)state;
	set_apart(0);
	move_away();
	post_atomic(0);
	peer_says(0, SHIFT_MSG_PREPARE, 2, 5, 40);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	peer_says(0, SHIFT_MSG_PREPARE, 2, 5, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_true(w_view(&w, 0).holding);
	assert_false(w_packet(&w, 0, 1));
}

/* Those before it are posted when a plan is abandoned. */
static void what_is_before_it_goes(void **state)
{
	(void)state;
	set_apart(0);
	move_away();
	peer_says(0, SHIFT_MSG_PREPARE, 2, 5, 40);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	post_atomic(0);
	peer_says(0, SHIFT_MSG_PREPARE, 2, 5, 0);
	pass_packets(0, 1, 1);
	assert_false(w_packet(&w, 0, 1));
	assert_int_equal(w_view(&w, 0).send_sent + 1, w_view(&w, 0).send_head);
}

static void an_abandoned_plan_on_rail0_lets_it_go(void **state)
{
	(void)state;
	set_apart(0);
	peer_says(0, SHIFT_MSG_PREPARE, 1, 5, 40);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	post_atomic(0);
	peer_says(0, SHIFT_MSG_PREPARE, 1, 5, 0);
	assert_false(w_view(&w, 0).holding);
	pass_packets(0, 0, 1);
	assert_true(w_settle(&w, 2));
	assert_true(shift_conn_release_due(conn(0)));
}

/* A planned switch for an atomic that waits, which the peer does not answer. */
static void attempt_in_vain(void)
{
	set_apart(0);
	move_away();
	post_atomic(0);
	rail0_is_back(0);
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	lose_messages();
	tick_at(0, w.now + 600 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	lose_messages();
}

/* The peer, which held its posts, has a pause. */
static void attempts_in_vain_have_a_gap(void **state)
{
	uint64_t at;

	(void)state;
	attempt_in_vain();
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	at = shift_conn_deadline(conn(0));
	assert_in_range(at, w.now + SECOND, w.now + 4 * SECOND);
}

/* It would be endless where the operator alone fails back. */
static void the_hold_down_is_not_waited_for(void **state)
{
	uint64_t from;

	(void)state;
	attempt_in_vain();
	conn(0)->rail[0].hold_down_ns = 1000 * SECOND;
	from = w.now;
	tick_at(0, from + SECOND);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	tick_at(0, from + 4 * SECOND);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
}

static void nor_by_the_operator(void **state)
{
	(void)state;
	attempt_in_vain();
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 0);
}

static void silent_rails_are_not_asked(void **state)
{
	(void)state;
	set_apart(0);
	move_away();
	post_atomic(0);
	rail0_is_back(0);
	for (int i = 0; i < 3; i++)
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void it_does_not_wait_for_ever(void **state)
{
	uint64_t begin;

	(void)state;
	set_apart(0);
	move_away();
	w.data_cut[0] = true;
	begin = w.now;
	post_atomic(0);
	assert_true(shift_conn_deadline(conn(0)) <= begin); /* its wait begins with the next tick */
	w_tick(&w, 0);
	tick_at(0, begin + 30 * SECOND - 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(shift_conn_deadline(conn(0)) <= begin + 30 * SECOND, 1);
	tick_at(0, begin + 30 * SECOND);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_ATOMICS);
	finish_ops(0);
	w_run(&w, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_APART);
}

/* A post that cannot be logged holds nothing. */
static void one_that_is_refused_holds_nothing(void **state)
{
	struct shift_sge sge[100] = {{.length = 8}};
	struct shift_wr wr = {.opcode = SHIFT_OP_CMP_SWAP, .num_sge = 100, .sge = sge};
	int rail;

	(void)state;
	set_apart(0);
	move_away();
	assert_true(shift_conn_post_send(conn(0), &wr, &rail) < 0);
	assert_false(w_view(&w, 0).holding);
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w.h[0].completed, 1);
}

/* The peer has lost our SWITCH, with which we came back to rail 0 and were released. */
static void released_it_still_answers_the_switch_that_was(void **state)
{
	struct shift_msg theirs;

	(void)state;
	set_apart(0);
	move_away();
	post_atomic(0);
	rail0_is_back(0);
	rail0_is_back(1);
	assert_true(w_settle(&w, 20));
	assert_true(shift_conn_release(conn(0)));
	theirs = (struct shift_msg){.src_nonce = 101,
				    .dst_nonce = 100,
				    .src_conn = 11,
				    .dst_conn = 10,
				    .type = SHIFT_MSG_SWITCH,
				    .epoch = w_view(&w, 0).e,
				    .rail = 0};
	deliver_message(0, &theirs);
	assert_int_equal(last_message(1)->type, SHIFT_MSG_SWITCH);
	assert_int_equal(last_message(1)->epoch, theirs.epoch);
	theirs.epoch++;
	deliver_message(0, &theirs);
	assert_int_equal(last_message(1)->type, SHIFT_MSG_FAILED);
	lose_messages();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(without_atomics_nothing_is_released),
		WORLD_TEST(the_first_atomic_releases),
		WORLD_TEST(one_from_before_it_was_known_releases),
		WORLD_TEST(a_rail_that_is_not_apart_is_taken),
		WORLD_TEST(one_that_the_caller_keeps_shut_does_not_count),
		WORLD_TEST(one_that_is_still_to_come_counts),
		WORLD_TEST(one_that_is_to_come_and_apart_does_not),
		WORLD_TEST(rail0_is_never_apart),
		WORLD_TEST(it_does_not_move_before_it_is_released),
		WORLD_TEST(what_is_posted_again_is_done_first),
		WORLD_TEST(the_peer_lets_go_too),
		WORLD_TEST(away_from_rail0_nothing_is_released),
		WORLD_TEST(the_first_on_a_twin_waits_for_rail0),
		WORLD_TEST(a_failover_to_a_rail_apart_keeps_it_waiting),
		WORLD_TEST(one_that_was_held_by_a_switch_waits_too),
		WORLD_TEST(an_abandoned_plan_does_not_let_it_go),
		WORLD_TEST(what_is_before_it_goes),
		WORLD_TEST(an_abandoned_plan_on_rail0_lets_it_go),
		WORLD_TEST(attempts_in_vain_have_a_gap),
		WORLD_TEST(the_hold_down_is_not_waited_for),
		WORLD_TEST(nor_by_the_operator),
		WORLD_TEST(silent_rails_are_not_asked),
		WORLD_TEST(it_does_not_wait_for_ever),
		WORLD_TEST(one_that_is_refused_holds_nothing),
		WORLD_TEST(released_it_still_answers_the_switch_that_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
