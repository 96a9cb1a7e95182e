/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The two ends agree on a rail and an epoch, though messages are lost, late or forged. */
#include "tests/unit/fixture.h"

#define MS 1000000ull

static void both_ends_fail_at_once(void **state)
{
	uint64_t before = w.now;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	break_rail_0(1);
	w_run(&w, 0);
	/* Side 1's epoch 1 loses against 2 on the same rail. No packets in it: no quarantine. */
	assert_int_equal(w_view(&w, 0).e, 2);
	assert_int_equal(w_view(&w, 1).e, 2);
	assert_true(w.now == before);
	assert_int_equal(w.h[0].completed + w.h[1].completed, 2);
}

/*
 * Host 1 commits epoch 2 on rail 1, sends, and is answered. Host 0 never hears that, and both go to
 * rail
 * 2. It did not commit epoch 2, so it sent no data there; but its answers may still be in the
 * network.
 */
static void the_peers_answers_have_their_quarantine(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w.msgs = 0;
	w_op(&w, 0);
	w_op(&w, 0);
	w_msg(&w, 0);
	w_op(&w, 1);
	w_op(&w, 1);
	w.msgs = 0;
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	assert_true(w_packet(&w, 1, 1));
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	while (w_op(&w, 0) || w_op(&w, 1) || w_cqe(&w, 0) || w_cqe(&w, 1) || w_msg(&w, 0))
		;
	assert_int_equal(w_view(&w, 1).r, 2);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_int_equal(w.h[1].completed, 1);
	w_event(&w, 1, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE); /* rail 1 is not usable yet */
	w.now += 1001 * MS;
	w_event(&w, 1, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_PREPARE);
}

static void the_target_dies_during_the_switch(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	cut_rail(0, true);
	cut_rail(1, true);
	break_rail_0(0);
	assert_true(w_settle(&w, 400));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w_view(&w, 1).r, 2);
	assert_int_equal(w.h[0].times[0], 1);
	assert_int_equal(w.h[0].completed, 1);
}

static void the_first_rail_comes_back_and_the_others_die(void **state)
{
	uint64_t before;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	cut_rail(1, true);
	cut_rail(2, true);
	break_rail_0(0);
	before = w.now;
	assert_true(w_settle(&w, 2000));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w_view(&w, 1).r, 0);
	assert_true(w.now - before > 1000 * MS); /* not before its old packets have died */
	assert_int_equal(w.h[0].times[0], 1);
	assert_int_equal(w.h[0].completed, 1);
}

/* Rule 2: nothing was executed in the epoch just left, so the one before it is reported. */
static void the_newest_executed_epoch_is_reported(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	break_rail_0(0);
	w.ctl_cut[1] = true;
	w_run(&w, 60); /* epoch on rail 1 is entered here, never committed there */
	assert_true(w_settle(&w, 400));
	assert_true(w_view(&w, 0).e > 2);
	assert_int_equal(w.h[0].times[0], 1);
	assert_int_equal(stats(0)->proved, 1);
}

static void a_lost_switch_is_sent_again(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w.msgs = 0; /* the announcement: SWITCH does without */
	w_op(&w, 0);
	w_op(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	assert_int_equal(w.msgs, 1);
	w.msgs = 0;
	w.now = shift_conn_deadline(w.h[0].c);
	w_tick(&w, 0);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(stats(0)->retransmits, 1);
	assert_true(w_settle(&w, 20));
}

static void the_answer_lost_is_answered_again(void **state)
{
	struct w_msg dup;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w.msgs = 0; /* the announcement: SWITCH does without */
	w_op(&w, 0);
	w_op(&w, 0);
	dup = w.msg[0];
	w_msg(&w, 0);
	w_op(&w, 1);
	w_op(&w, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE); /* rule 9: it has heard host 0 */
	w.msgs = 0;
	w.msg[w.msgs++] = dup;
	w_msg(&w, 0); /* rule 8 */
	assert_int_equal(w.msgs, 1);
	w_msg(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w.msgs, 0); /* and no answer to an answer */
}

static void no_data_before_the_switch_is_heard(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w_op(&w, 0);
	w_op(&w, 0);
	assert_true(w.h[0].qp[1].up);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_int_equal(w.h[0].qp[1].head, 0);
	assert_int_equal(stats(0)->held_posts, 1);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w.h[0].completed, 2);
}

static void receives_posted_during_the_switch_follow_in_order(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	break_rail_0(0);
	w_recv(&w, 1);
	w_op(&w, 0);
	w_op(&w, 0);
	w_msg(&w, 0);
	w_recv(&w, 1);
	w_op(&w, 1);
	w_recv(&w, 1);
	assert_true(w_settle(&w, 20));
	for (int i = 0; i < 8; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w.h[1].recv_completed, 11);
}

static void a_twin_that_cannot_be_armed_is_passed_over(void **state)
{
	(void)state;
	w.arm_fails[1] = true;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 2);
}

static void a_hung_nic_waits_for_the_peer_and_the_quarantine(void **state)
{
	uint64_t before = w.now;

	(void)state;
	w.at_least_once_ok = true;
	w.fence_hung[0] = true;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	assert_true(w_settle(&w, 400));
	assert_int_equal(stats(0)->hung_fences, 1);
	assert_int_equal(stats(1)->at_least_once, 1);
	assert_int_equal(stats(0)->at_least_once, 0); /* the peer's word was sure */
	assert_true(w.now - before >= 1000 * MS);
}

/* Host 0's NIC of rail 0 hangs in its fence; both go to rail 1; later rail 1 fails as well. */
static void second_switch_after_a_hung_nic(void)
{
	w.fence_hung[0] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 1);
	w.fence_hung[0] = false;
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* Its receives have been posted on rail 1 since: completions of the hung NIC are stale. */
static void a_hung_nic_is_not_heard_in_a_later_switch(void **state)
{
	struct shift_cqe cqe = {.is_recv = true};

	(void)state;
	second_switch_after_a_hung_nic();
	give_cqe(0, &cqe);
	assert_int_equal(w_view(&w, 0).recv_cum, 0);
	w.frozen_fence = false;
	assert_true(w_settle(&w, 200));
}

/* Nor may it complete a WR that it never had. */
static void a_hung_nic_completes_nothing_in_a_later_switch(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_SUCCESS};

	(void)state;
	second_switch_after_a_hung_nic();
	give_cqe(0, &cqe);
	assert_int_equal(w.h[0].completed, 0); /* world: "completed without its data" */
	w.frozen_fence = false;
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].completed, 1);
}

static void stale_completions_are_swallowed(void **state)
{
	struct shift_cqe old = {.wr_id = 5, .epoch = 0, .rail = 0};
	struct shift_wc wc;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_false(shift_conn_cqe(w.h[0].c, &old, &wc, w.now));
	old.rail = 200;
	assert_false(shift_conn_cqe(w.h[0].c, &old, &wc, w.now));
	assert_int_equal(stats(0)->stale_cqes, 2);
}

/* Host 0 has announced its new rail; its NIC has not finished the fence. */
static void leave_rail_0(void)
{
	assert_true(w_post(&w, 0, SHIFT_OP_SEND, 100, true));
	break_rail_0(0);
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
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SWITCHING); /* an announcement is no proof */
	while (w.msgs)
		assert_true(w_msg(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SWITCHING);
	assert_true(w_op(&w, 0) && w_op(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* the peer was there already */
	assert_true(w_settle(&w, 10));
	assert_int_equal(w_view(&w, 1).e, w_view(&w, 0).e);
}

/* Host 1 has followed to rail 1 alone: the next announcement takes it to rail 2. */
static void a_target_that_changes_in_the_fence_is_followed(void **state)
{
	uint32_t first;

	(void)state;
	leave_rail_0();
	while (w.msgs)
		assert_true(w_msg(&w, 0));
	first = w_view(&w, 1).e;
	finish_ops(1);
	assert_true(w_view(&w, 1).e > first);
	first = w_view(&w, 1).e;
	w.data_cut[1] = w.ctl_cut[1] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_true(w_settle(&w, 20));
	assert_true(w_view(&w, 0).e > first);
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w_view(&w, 1).r, 2);
}

/* Host 1 cannot follow to the announced rail: its own epoch must be newer, or it would be stale. */
static void an_announcement_counts_though_it_is_not_followed(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 1);
	leave_rail_0();
	assert_true(w_msg(&w, 0));
	finish_ops(1);
	assert_int_equal(w_view(&w, 1).e, 3); /* it was going to 2 */
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w_view(&w, 1).r, 2);
}

static void a_peer_that_names_another_rail_is_refused(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	forged_switch(w_view(&w, 0).e, 2, 0);
	w_run(&w, 5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[1].first_vendor, 0);
}

static void a_rail_that_does_not_exist_breaks_the_protocol(void **state)
{
	(void)state;
	forged_switch(1, W_RAILS, 0);
	ends_dead(SHIFT_R_PROTOCOL);
}

/* Rule 10: a peer cannot have executed anything in an epoch in which we sent nothing. */
static void a_report_of_an_epoch_never_sent_in_breaks_the_protocol(void **state)
{
	(void)state;
	waits_for_an_answer();
	forged_switch(w_view(&w, 0).e, w_view(&w, 0).r, w_view(&w, 0).e);
	ends_dead(SHIFT_R_PROTOCOL);
}

/* Epochs never wrap: no peer of ours counts that far. */
static void an_epoch_at_the_end_of_numbers(void **state)
{
	(void)state;
	forged_switch(UINT32_MAX, 1, 0);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROTOCOL);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_WR_FLUSH_ERR); /* only receives were posted */
}

static void other_processes_are_ignored(void **state)
{
	struct shift_msg m = {.src_nonce = 999, .dst_nonce = 100, .type = SHIFT_MSG_UNKNOWN};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	(void)state;
	m.dst_conn = 10;
	m.src_conn = 11;
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->stale_msgs, 1);
	m.src_nonce = 101;
	m.type = SHIFT_MSG_NOT_YET;
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	m.type = SHIFT_MSG_UNKNOWN;
	give_event(0, &ev);
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(both_ends_fail_at_once),
		WORLD_TEST(the_peers_answers_have_their_quarantine),
		WORLD_TEST(the_target_dies_during_the_switch),
		WORLD_TEST(the_first_rail_comes_back_and_the_others_die),
		WORLD_TEST(the_newest_executed_epoch_is_reported),
		WORLD_TEST(a_lost_switch_is_sent_again),
		WORLD_TEST(the_answer_lost_is_answered_again),
		WORLD_TEST(no_data_before_the_switch_is_heard),
		WORLD_TEST(receives_posted_during_the_switch_follow_in_order),
		WORLD_TEST(a_twin_that_cannot_be_armed_is_passed_over),
		WORLD_TEST(a_hung_nic_waits_for_the_peer_and_the_quarantine),
		WORLD_TEST(a_hung_nic_is_not_heard_in_a_later_switch),
		WORLD_TEST(a_hung_nic_completes_nothing_in_a_later_switch),
		WORLD_TEST(stale_completions_are_swallowed),
		WORLD_TEST(both_ends_fence_at_the_same_time),
		WORLD_TEST(a_target_that_changes_in_the_fence_is_followed),
		WORLD_TEST(an_announcement_counts_though_it_is_not_followed),
		WORLD_TEST(a_peer_that_names_another_rail_is_refused),
		WORLD_TEST(a_rail_that_does_not_exist_breaks_the_protocol),
		WORLD_TEST(a_report_of_an_epoch_never_sent_in_breaks_the_protocol),
		WORLD_TEST(an_epoch_at_the_end_of_numbers),
		WORLD_TEST(other_processes_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
