/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The last that is seen of a connection: what may come after its end, and what must not. */
#include <string.h>

#include "tests/unit/planned.h"

static struct shift_msg from_peer(int to, enum shift_msg_type type)
{
	return (struct shift_msg){.src_nonce = 100 + (uint64_t)!to,
				  .dst_nonce = 100 + (uint64_t)to,
				  .src_conn = 10 + (uint32_t)!to,
				  .dst_conn = 10 + (uint32_t)to,
				  .type = (uint8_t)type};
}

static void give_msg(int h, const struct shift_msg *m)
{
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = m};

	give_event(h, &ev);
}

static struct shift_tombstone stone_of(int h)
{
	struct shift_tombstone t;

	memset(&t, 0xff, sizeof(t));
	shift_conn_tombstone(w.h[h].c, w.now, &t);
	return t;
}

/* --- proofs that are none ------------------------------------------------------------------------
 */

/* FAILED bears no report. PSN 0 is one that the log of host 1 could well have: 0xfffffe + 2. */
static void failed_completes_nothing(void **state)
{
	struct shift_msg m = from_peer(1, SHIFT_MSG_FAILED);

	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 1, SHIFT_OP_WRITE, 10, true);
	give_msg(1, &m);
	finish_ops(1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DEAD);
	assert_int_equal(stats(1)->proved, 0);
	assert_int_equal(w.h[1].errors, 3 + W_READY_RECVS);
}

/* The same report in a CLOSED counts, and not if it comes when the end is decided. */
static void only_the_closed_that_ends_it_is_a_proof(void **state)
{
	struct shift_msg m = from_peer(1, SHIFT_MSG_CLOSED);

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < 3; i++)
			w_post(&w, 1, SHIFT_OP_WRITE, 10, true);
		pass_packets(1, 0, 2);
		if (late)
			w_event(&w, 1, SHIFT_EV_PEER_DIED, 0);
		give_msg(1, &m);
		finish_ops(1);
		assert_int_equal(stats(1)->proved, late ? 0 : 2);
		assert_int_equal(w.h[1].errors, (late ? 3 : 1) + W_READY_RECVS);
		assert_int_equal(w.h[1].first_vendor,
				 late ? SHIFT_VENDOR_PEER_DIED : SHIFT_VENDOR_PEER_CLOSED);
		teardown(state);
		setup(state);
	}
}

/* --- what the program sees -----------------------------------------------------------------------
 */

/* It ended the QP itself: no status of the NIC's, which broke before, comes to light. */
static void modify_err_flushes_whatever_was_before(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_RESP_TIMEOUT_ERR, .vendor_err = 0x99};

	for (int broken = 0; broken < 2; broken++) {
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		if (broken) {
			w.h[0].qp[0].tail++;
			give_cqe(0, &cqe);
		}
		w_close(&w, 0, SHIFT_CLOSE_ERR);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
		assert_int_equal(w.h[0].errors, 1 + W_READY_RECVS);
		assert_int_equal(w.h[0].first_error, SHIFT_WC_WR_FLUSH_ERR);
		/* Of the flush that the NIC gave, if it gave one. */
		assert_int_equal(w.h[0].first_vendor, broken ? 0 : 0x81);
		assert_false(w.h[0].qp_err); /* the program knows */
		teardown(state);
		setup(state);
	}
}

/* All actions of the end, and how many of each. */
static void count_actions(uint32_t *n)
{
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE, .clean = true, .psn = 0xfffffe};
	struct shift_action a;

	memset(n, 0, SHIFT_ACT_COUNT * sizeof(*n));
	shift_conn_event(w.h[0].c, &ev, w.now);
	while (shift_conn_action(w.h[0].c, &a))
		n[a.type]++;
	w.h[0].ops = 0;
}

static void each_end_has_its_actions(void **state)
{
	uint32_t n[SHIFT_ACT_COUNT];

	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	count_actions(n);
	assert_int_equal(n[SHIFT_ACT_REPORT], 1);
	assert_int_equal(n[SHIFT_ACT_CLOSED], 1);
	assert_int_equal(n[SHIFT_ACT_COMPLETE], 0); /* its CQs may be gone */
	assert_int_equal(n[SHIFT_ACT_QP_ERR], 0);
	assert_int_equal(n[SHIFT_ACT_SEND_MSG], 0);
	teardown(state);
	setup(state);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	count_actions(n);
	assert_int_equal(n[SHIFT_ACT_CLOSED], 1);
	assert_int_equal(n[SHIFT_ACT_COMPLETE], 1);
	assert_int_equal(n[SHIFT_ACT_QP_ERR], 0);
	teardown(state);
	setup(state);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	count_actions(n);
	assert_int_equal(n[SHIFT_ACT_CLOSED], 0); /* no call of the program waits */
	assert_int_equal(n[SHIFT_ACT_COMPLETE], 1);
	assert_int_equal(n[SHIFT_ACT_QP_ERR], 1);
	assert_int_equal(n[SHIFT_ACT_SEND_MSG], 0);
}

/* After its end nothing happens to it any more, not even after an overflow. */
static void the_end_is_final(void **state)
{
	struct shift_conn_view before, after;

	for (int overflow = 0; overflow < 2; overflow++) {
		memset(&before, 0,
		       sizeof(before)); /* they are compared with what is between their members */
		memset(&after, 0, sizeof(after));
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		w.overflow_ok = overflow;
		if (overflow) {
			struct shift_msg m = from_peer(0, SHIFT_MSG_QUERY_PSN);
			struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

			for (int i = 0; i < SHIFT_ACTIONS_MAX; i++)
				shift_conn_event(w.h[0].c, &ev, w.now);
			w_tick(&w, 0);
			assert_int_equal(w_view(&w, 0).reason, SHIFT_R_OVERFLOW);
		} else {
			w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
		}
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
		shift_conn_view(w.h[0].c, &before);
		w.h[0].qp_err = false;
		for (int type = SHIFT_EV_RTS; type < SHIFT_EV_COUNT; type++)
			if (type != SHIFT_EV_CLOSE)
				w_event(&w, 0, (enum shift_event_type)type, 1);
		shift_conn_view(w.h[0].c, &after);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_false(w.h[0].qp_err);
		assert_int_equal(w.h[0].ops, 0);
		teardown(state);
		setup(state);
	}
}

/* --- who answers when it is gone
 * ------------------------------------------------------------------- */

static void a_living_connection_leaves_no_tombstone(void **state)
{
	static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};

	(void)state;
	assert_false(stone_of(0).valid);
	again(&unconfirmed);
	assert_false(stone_of(0).valid); /* SETUP, and no error yet */
	shift_conn_event(w.h[0].c, &(struct shift_event){.type = SHIFT_EV_RTS}, w.now);
	assert_true(shift_conn_release(w.h[0].c));
	assert_true(stone_of(0).valid);
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSING);
	assert_false(stone_of(0).valid); /* its QP is not fenced */
	finish_ops(0);
	assert_true(stone_of(0).valid);
	assert_int_equal(stone_of(0).answer.type, SHIFT_MSG_FAILED);
}

/* Nothing in it but who speaks: no peer may take any of it for a report. */
static void failed_reports_nothing(void **state)
{
	struct shift_tombstone t;

	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	pass_packets(1, 0, 3);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	finish_ops(0);
	t = stone_of(0);
	assert_true(t.valid);
	assert_int_equal(t.answer.type, SHIFT_MSG_FAILED);
	assert_int_equal(t.answer.fence, 0);
	assert_int_equal(t.answer.epoch | t.answer.heard | t.answer.committed, 0);
	assert_int_equal(t.answer.rep_epoch | t.answer.rep_psn, 0);
	assert_int_equal(t.answer.recv_valid | t.answer.recv_avail | t.answer.recv_cum, 0);
}

/* It was refused, so it is as before: it repeats its SWITCH, and in the end says CLOSED. */
static void a_release_that_comes_too_late_changes_nothing(void **state)
{
	(void)state;
	waits_for_an_answer();
	assert_false(shift_conn_release(w.h[0].c));
	assert_true(shift_conn_deadline(w.h[0].c) == w.now + 20 * MS);
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	finish_ops(0);
	assert_int_equal(stone_of(0).answer.type, SHIFT_MSG_CLOSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(failed_completes_nothing),
		WORLD_TEST(only_the_closed_that_ends_it_is_a_proof),
		WORLD_TEST(modify_err_flushes_whatever_was_before),
		WORLD_TEST(each_end_has_its_actions),
		WORLD_TEST(the_end_is_final),
		WORLD_TEST(a_living_connection_leaves_no_tombstone),
		WORLD_TEST(failed_reports_nothing),
		WORLD_TEST(a_release_that_comes_too_late_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
