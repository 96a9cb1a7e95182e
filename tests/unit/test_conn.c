/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Each rule by hand: two connections back to back over a small model of RC (world.c). */
#include <string.h>

#include "tests/unit/fixture.h"

#define MS 1000000ull

static void packets(int h, int rail, int n)
{
	while (n--)
		assert_true(w_packet(&w, h, rail));
}

static void cqes(int h)
{
	while (w_cqe(&w, h))
		;
}

/* The NIC gives up on rail 0 and its error completions arrive. */
static void breaks(int h)
{
	assert_true(w_break(&w, h, 0));
	cqes(h);
}

static void event(int h, const struct shift_event *ev)
{
	shift_conn_event(w.h[h].c, ev, w.now);
	w_tick(&w, h); /* performs what it asks for */
}

static void cqe_in(int h, const struct shift_cqe *cqe)
{
	struct shift_wc wc;

	assert_false(shift_conn_cqe(w.h[h].c, cqe, &wc, w.now));
	w_tick(&w, h);
}

/* Fail host h on its rail and let everything settle. */
static void fail_over(int h)
{
	assert_true(w_break(&w, h, w_view(&w, h).r));
	assert_true(w_settle(&w, 200));
}

static void cut(int rail, bool on)
{
	w.data_cut[rail] = w.ctl_cut[rail] = on;
}

/* --- 4.2 the proof of delivery --------------------------------------------------------------- */

static void lost_ack_of_a_send(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 100, true);
	w_post(&w, 0, SHIFT_OP_SEND, 100, true);
	packets(0, 0, 1); /* executed, never acknowledged */
	fail_over(0);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(stats(0)->replayed, 1);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[1].recv_completed, 2);
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void a_write_resumes_where_it_was_cut(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 4500, true);
	packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->trimmed, 1);
	assert_int_equal(w.h[0].completed, 1);
	assert_int_equal(w.h[0].placed[0], 4500);
}

static void a_send_cut_in_the_middle_is_replayed_whole(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 4500, true);
	packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->replayed_partial, 1);
	assert_int_equal(w.h[0].times[0], 1);
}

static void a_read_without_its_data_is_asked_again(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 3000, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 2);
	breaks(0);
	while (w_state(&w, 0) != SHIFT_ST_ACTIVE)
		if (!w_op(&w, 0) && !w_op(&w, 1) && !w_msg(&w, 0))
			break;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].completed, 0); /* the WRITE is done, but must wait for the READ */
	assert_true(w_settle(&w, 50));
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(stats(0)->proved, 1);
}

static void a_reissued_read_survives_the_next_failure(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 3000, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 2);
	w.ack_cut[1] = true;
	breaks(0);
	w_run(&w, 0);
	assert_int_equal(w_view(&w, 0).r, 1);
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 2);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].times[1], 1);
}

static void a_lost_atomic_is_terminal(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	packets(0, 0, 2);
	breaks(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DEAD); /* told by FAILED */
	assert_true(w.h[0].qp_err);
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_ATOMIC);
	assert_int_equal(w.h[0].times[1], 1);
	assert_int_equal(w.h[0].placed[2], 0);
}

static void a_read_before_a_lost_atomic_still_completes(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_post(&w, 0, SHIFT_OP_CMP_SWAP, 8, true);
	w_post(&w, 0, SHIFT_OP_SEND, 8, true);
	packets(0, 0, 2);
	breaks(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_ATOMIC);
	assert_int_equal(w.h[0].times[1], 1);
	assert_int_equal(w.h[0].times[2], 0);
}

static void a_lost_atomic_may_continue(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true};

	(void)state;
	cfg.lost_atomic_continue = true;
	again(&cfg);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	packets(0, 0, 1);
	fail_over(0);
	assert_int_equal(stats(0)->lost_atomics, 1);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].times[0], 1);
}

static void unsignaled_wrs_complete_silently(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		w_post(&w, 0, i % 2 ? SHIFT_OP_SEND : SHIFT_OP_WRITE, 10, i == 9);
	packets(0, 0, 6);
	for (int i = 0; i < 3; i++)
		w_ack(&w, 0, 0);
	fail_over(0);
	assert_int_equal(stats(0)->proved, 3);
	assert_int_equal(w.h[0].completed, 10);
	assert_int_equal(w.h[1].recv_completed, 5);
}

static void a_stale_rq_psn_fails_visibly(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 4);
	w_ack(&w, 0, 0);
	w_ack(&w, 0, 0);
	cqes(0);
	w.fence_bias = -3; /* less than what our NIC acknowledged */
	breaks(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PROOF);
	assert_int_equal(w.h[0].times[3], 1);
}

static void psn_and_receive_count_must_agree(void **state)
{
	char line[512];

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 2);
	w.fence_bias = -1; /* a plausible PSN, but the peer has consumed two receives */
	breaks(0);
	w_run(&w, 20);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PROOF);
	shift_conn_dump(w.h[0].c, line, sizeof(line));
	assert_non_null(strstr(line, "theirs: rep (0,"));
	assert_non_null(strstr(line, ") recv 2 fence 0;"));
}

static void an_untrusted_nic_gives_at_least_once(void **state)
{
	(void)state;
	w.at_least_once_ok = true;
	w.fence_unsure[1] = true;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->at_least_once, 1);
	assert_int_equal(stats(0)->proved, 2);
	assert_int_equal(stats(0)->maybe_twice, 1);
	assert_int_equal(w.h[0].times[1], 1); /* two-sided: still exactly once */
	assert_int_equal(w.h[0].completed, 4);
}

static void exactly_once_can_be_switched_off(void **state)
{
	struct shift_conn_cfg cfg = {.confirmed = true};

	(void)state;
	again(&cfg);
	w.at_least_once_ok = true;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 1);
	fail_over(0);
	assert_int_equal(w.h[0].times[0], 2); /* the papers' duplicate */
	assert_int_equal(stats(0)->proved, 0);
}

/* --- 4.3 the handshake ----------------------------------------------------------------------- */

static void both_ends_fail_at_once(void **state)
{
	uint64_t before = w.now;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	breaks(0);
	breaks(1);
	w_run(&w, 0);
	/* Side 1's epoch 1 loses against 2 on the same rail. Nobody sent in it: no quarantine. */
	assert_int_equal(w_view(&w, 0).e, 2);
	assert_int_equal(w_view(&w, 1).e, 2);
	assert_true(w.now == before);
	assert_int_equal(w.h[0].completed + w.h[1].completed, 2);
}

static void the_target_dies_during_the_switch(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 1);
	cut(0, true);
	cut(1, true);
	breaks(0);
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
	packets(0, 0, 1);
	cut(1, true);
	cut(2, true);
	breaks(0);
	before = w.now;
	assert_true(w_settle(&w, 2000));
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w_view(&w, 1).r, 0);
	assert_true(w.now - before > 1000 * MS); /* not before its old packets have died */
	assert_int_equal(w.h[0].times[0], 1);
	assert_int_equal(w.h[0].completed, 1);
}

/* Rule 2: nothing was executed in the epoch just left; what counts is the one before. */
static void the_newest_executed_epoch_is_reported(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 1);
	breaks(0);
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
	breaks(0);
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
	breaks(0);
	w.msgs = 0; /* the announcement: SWITCH does without */
	w_op(&w, 0);
	w_op(&w, 0);
	dup = w.msg[0];
	w_msg(&w, 0);
	w_op(&w, 1);
	w_op(&w, 1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE); /* rule 9: it has heard me */
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
	breaks(0);
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
	packets(0, 0, 1);
	breaks(0);
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
	breaks(0);
	assert_true(w_settle(&w, 400));
	assert_int_equal(stats(0)->hung_fences, 1);
	assert_int_equal(stats(1)->at_least_once, 1);
	assert_int_equal(stats(0)->at_least_once, 0); /* the peer's word was sure */
	assert_true(w.now - before >= 1000 * MS);
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

static void a_peer_that_names_another_rail_is_refused(void **state)
{
	struct shift_msg m = {.src_nonce = 101, .dst_nonce = 100, .type = SHIFT_MSG_SWITCH};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	m.dst_conn = 10;
	m.src_conn = 11;
	m.epoch = w_view(&w, 0).e;
	m.rail = 2;
	event(0, &ev);
	w_run(&w, 5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[1].first_vendor, 0);
}

static void other_processes_are_ignored(void **state)
{
	struct shift_msg m = {.src_nonce = 999, .dst_nonce = 100, .type = SHIFT_MSG_UNKNOWN};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	(void)state;
	m.dst_conn = 10;
	m.src_conn = 11;
	event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->stale_msgs, 1);
	m.src_nonce = 101;
	m.type = SHIFT_MSG_NOT_YET;
	event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	m.type = SHIFT_MSG_UNKNOWN;
	event(0, &ev);
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

/* --- rules 17, 19, 20: the end --------------------------------------------------------------- */

static void give_up_hands_over_the_errors_after_the_fence(void **state)
{
	(void)state;
	for (int i = 0; i < W_RAILS; i++)
		cut(i, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	breaks(0);
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
		cut(i, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	breaks(0);
	while (w_state(&w, 0) != SHIFT_ST_DEAD && w.now < before + 60000 * MS)
		w_run(&w, 1);
	assert_true(w.now - before < 31000 * MS);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

static void a_peer_that_closed_may_have_lost_its_acks(void **state)
{
	struct shift_tombstone t;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 1);
	cqes(1);
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	assert_false(w.h[1].closed); /* not before its fence */
	w_op(&w, 1);
	assert_true(w.h[1].closed);
	shift_conn_tombstone(w.h[1].c, w.now, &t);
	assert_true(t.valid);
	assert_int_equal(t.answer.type, SHIFT_MSG_CLOSED);
	assert_int_equal(t.answer.recv_cum, 1);
	breaks(0);
	w_run(&w, 5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_CLOSED);
	assert_int_equal(w.h[0].errors, 1 + 8); /* the first SEND completed */
	assert_int_equal(w.h[1].errors, 0);	/* destroyed: no completions */
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
	breaks(0);
	w_op(&w, 0); /* ARM is under way */
	w_close(&w, 0, SHIFT_CLOSE_RESET);
	assert_false(w.h[0].closed);
	w_run(&w, 3);
	assert_true(w.h[0].closed);
	assert_true(w.h[0].qp[1].err || !w.h[0].qp[1].up);
}

static void the_programs_own_mistake_passes(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_REM_ACCESS_ERR, .vendor_err = 0x88};

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	packets(0, 0, 1);
	w_ack(&w, 0, 0);
	w.h[0].qp[0].tail++; /* the second one errs */
	cqe_in(0, &cqe);
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_REM_ACCESS_ERR);
	assert_int_equal(w.h[0].first_vendor, 0x88);
	assert_int_equal(w.h[0].completed, 2);
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

/* --- rule 21 and fail-back
 * ------------------------------------------------------------------------ */

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

static void probe(int rail, int n)
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
	probe(0, 10);
	assert_int_equal(w_view(&w, 0).r, 1);
	probe(0, 5);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w_view(&w, 1).r, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 2); /* rail 1 was left a moment ago and is still dirty */
	probe(0, 17);
	assert_int_equal(w_view(&w, 0).r, 2);
	probe(0, 20);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[0].completed, 2);
}

static void one_missed_probe_restarts_the_hold_down(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	probe(0, 9);
	w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	w_event(&w, 1, SHIFT_EV_PROBE_MISSED, 0);
	probe(0, 9);
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void back_on_rail_0_the_data_path_only_counts(void **state)
{
	char line[256];

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	probe(0, 40);
	assert_int_equal(w_view(&w, 0).r, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 10));
	shift_conn_dump(w.h[0].c, line, sizeof(line));
	assert_null(strstr(line, "tracked"));
}

/* --- 4.4 what starts a switch
 * --------------------------------------------------------------------- */

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
	breaks(0);
	w_op(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
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

static void silence_counts_only_against_another_rail(void **state)
{
	(void)state;
	all_rails_miss(5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* stopped, or we were */
	for (int i = 0; i < 2; i++) {
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 2);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
}

/* What stood still moves again: no rail of it is at fault because its answer comes last. */
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
	event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* What the NIC refused is not flushed, and must not shift the count of what was. */
static void refused_sends_are_not_counted_as_flushed(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED, .count = 2};

	(void)state;
	for (int i = 0; i < 6; i++)
		w_post(&w, 0, SHIFT_OP_WRITE, 3000, i == 5);
	w.h[0].qp[0].head -= 2;
	packets(0, 0, 4);
	w_ack(&w, 0, 0);
	event(0, &ev);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w.h[0].completed, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(w.h[0].placed[i], 3000);
}

static void rnr_without_receives_is_the_programs(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_RNR_RETRY_EXC_ERR};

	(void)state;
	for (int i = 0; i < 9; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	packets(0, 0, 8);
	for (int i = 0; i < 8; i++)
		w_ack(&w, 0, 0);
	cqes(0);
	cqes(1);
	w.h[0].qp[0].tail++;
	cqe_in(0, &cqe);
	w_run(&w, 3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RNR_RETRY_EXC_ERR);
}

/* --- HELLO
 * ------------------------------------------------------------------------------------------ */

static void hello_protects(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};

	(void)state;
	again(&cfg);
	assert_false(w_view(&w, 0).protected_);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w_run(&w, 3); /* the peer is not in RTS: no answer */
	assert_false(w_view(&w, 0).protected_);
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	w_run(&w, 3);
	assert_true(w_view(&w, 0).protected_);
	assert_true(w_view(&w, 1).protected_);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
}

static void hello_of_another_qp_does_not(void **state)
{
	struct shift_msg m = {.src_nonce = 101, .dst_nonce = 100, .type = SHIFT_MSG_HELLO};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};
	struct shift_conn_cfg cfg = {.exactly_once = true};

	(void)state;
	again(&cfg);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	m.dst_conn = 10;
	m.src_conn = 11;
	m.qpn = 4711;
	event(0, &ev);
	assert_false(w_view(&w, 0).protected_);
	assert_int_equal(stats(0)->hello_mismatch, 1);
}

static void unprotected_errors_pass_through(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};
	struct shift_cqe cqe = {.wr_id = 42, .status = SHIFT_WC_RETRY_EXC_ERR};
	struct shift_wc wc;

	(void)state;
	again(&cfg);
	assert_true(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	assert_true(wc.wr_id == 42);
}

static void impossible_configurations_are_refused(void **state)
{
	struct shift_conn_cfg cfg = {.nonce = 1, .rails = 1, .sq_cap = 1, .mtu = {1024}};

	(void)state;
	assert_true(shift_conn_size(&cfg) > 0);
	cfg.rails = 9;
	assert_int_equal(shift_conn_size(&cfg), 0);
	cfg.rails = 2; /* mtu[1] is 0 */
	assert_int_equal(shift_conn_size(&cfg), 0);
	cfg.rails = 1;
	cfg.sq_cap = 0;
	assert_int_equal(shift_conn_size(&cfg), 0);
	assert_null(shift_conn_init(&cfg, sizeof(cfg), &cfg, 0));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(lost_ack_of_a_send),
		T(a_write_resumes_where_it_was_cut),
		T(a_send_cut_in_the_middle_is_replayed_whole),
		T(a_read_without_its_data_is_asked_again),
		T(a_reissued_read_survives_the_next_failure),
		T(a_lost_atomic_is_terminal),
		T(a_read_before_a_lost_atomic_still_completes),
		T(a_lost_atomic_may_continue),
		T(unsignaled_wrs_complete_silently),
		T(a_stale_rq_psn_fails_visibly),
		T(psn_and_receive_count_must_agree),
		T(an_untrusted_nic_gives_at_least_once),
		T(exactly_once_can_be_switched_off),
		T(both_ends_fail_at_once),
		T(the_target_dies_during_the_switch),
		T(the_first_rail_comes_back_and_the_others_die),
		T(the_newest_executed_epoch_is_reported),
		T(a_lost_switch_is_sent_again),
		T(the_answer_lost_is_answered_again),
		T(no_data_before_the_switch_is_heard),
		T(receives_posted_during_the_switch_follow_in_order),
		T(a_twin_that_cannot_be_armed_is_passed_over),
		T(a_hung_nic_waits_for_the_peer_and_the_quarantine),
		T(stale_completions_are_swallowed),
		T(a_peer_that_names_another_rail_is_refused),
		T(other_processes_are_ignored),
		T(give_up_hands_over_the_errors_after_the_fence),
		T(with_no_way_out_it_ends_in_time),
		T(a_peer_that_closed_may_have_lost_its_acks),
		T(modify_to_err_flushes),
		T(close_during_a_switch),
		T(the_programs_own_mistake_passes),
		T(a_dead_peer_is_an_error_at_once),
		T(operator_migrates),
		T(a_planned_switch_never_risks_an_atomic),
		T(fails_back_after_the_hold_down_which_doubles),
		T(one_missed_probe_restarts_the_hold_down),
		T(back_on_rail_0_the_data_path_only_counts),
		T(link_down_starts_it_at_once),
		T(without_another_rail_it_waits),
		T(silence_counts_only_against_another_rail),
		T(the_last_to_answer_after_a_stop_is_not_silent),
		T(a_refused_post_starts_it),
		T(refused_sends_are_not_counted_as_flushed),
		T(rnr_without_receives_is_the_programs),
		T(hello_protects),
		T(hello_of_another_qp_does_not),
		T(unprotected_errors_pass_through),
		T(impossible_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
