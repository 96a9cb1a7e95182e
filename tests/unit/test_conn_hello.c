/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* HELLO: who is believed, who speaks and when (doc/protocol.md, rule 22, 7.27, 7.29). */
#include "tests/unit/fixture.h"

#define MS     1000000ull
#define SECOND 1000000000ull

static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};

/* Each test begins with two connections that have not met. */
static int setup_unmet(void **state)
{
	setup(state);
	again(&unconfirmed);
	return 0;
}

static bool protected(int h)
{
	return w_view(&w, h).protected_;
}

/* What a host would say now, and nobody else hears it. */
static struct shift_msg hello_of(int h)
{
	struct shift_msg m;

	w_event(&w, h, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 1);
	m = w.msg[0].m;
	assert_int_equal(m.type, SHIFT_MSG_HELLO);
	assert_int_equal(w.msg[0].rail, 0); /* the one that the program chose */
	w.msgs = 0;
	return m;
}

static void give_msg(int h, const struct shift_msg *m, int rail)
{
	struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = (uint8_t)rail, .msg = m};

	give_event(h, &ev);
}

/* --- who is believed ---------------------------------------------------------------------------
 */

static void a_hello_says_who_speaks(void **state)
{
	struct shift_msg m = hello_of(0);

	(void)state;
	assert_int_equal(m.src_nonce, 100);
	assert_int_equal(m.dst_nonce, 101);
	assert_int_equal(m.src_conn, 10);
	assert_int_equal(m.dst_conn, 11);
	assert_int_equal(m.heard, 0);
	assert_int_equal(m.qpn, 20);
	assert_int_equal(m.dest_qpn, 21);
	assert_int_equal(m.sq_psn, 0x000010);
	assert_int_equal(m.rq_psn, 0xfffffe);
	assert_int_equal(m.life, 1);
	assert_int_equal(m.past_matched, 0);
}

static void what_fits_protects(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	give_msg(0, &m, 0);
	assert_true(protected(0));
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_HELLO);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.heard, 1); /* it is answered, as the peer has not heard us */
	assert_int_equal(stats(0)->hello_mismatch, 0);
	assert_int_equal(stats(0)->stale_msgs, 0);
}

#define MISFITS(field, delta, counter)                           \
	do {                                                     \
		struct shift_msg m = good;                       \
		uint64_t before = stats(0)->counter;             \
		m.field += (delta);                              \
		give_msg(0, &m, 0);                              \
		assert_false(protected(0));                      \
		assert_int_equal(w.msgs, 0);                     \
		assert_int_equal(stats(0)->counter, before + 1); \
	} while (0)

/* Each of them, by one more and one less: the QP is another, or was used before. */
static void what_does_not_fit_is_not_believed(void **state)
{
	struct shift_msg good = hello_of(1);

	(void)state;
	hello_of(0);
	for (int delta = -1; delta <= 1; delta += 2) {
		MISFITS(qpn, (uint32_t)delta, hello_mismatch);
		MISFITS(dest_qpn, (uint32_t)delta, hello_mismatch);
		MISFITS(sq_psn, (uint32_t)delta, hello_mismatch);
		MISFITS(rq_psn, (uint32_t)delta, hello_mismatch);
		MISFITS(life, (uint32_t)delta, hello_mismatch);
		MISFITS(src_conn, (uint32_t)delta, stale_msgs);
		MISFITS(dst_conn, (uint32_t)delta, stale_msgs);
		MISFITS(src_nonce, (uint64_t)(int64_t)delta, stale_msgs);
	}
	give_msg(0, &good, 0);
	assert_true(protected(0));
}

/* The peer may not know our nonce yet, or an old one. Who it is itself must be right. */
static void a_hello_may_be_for_a_nonce_not_known(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	m.dst_nonce = 0;
	give_msg(0, &m, 0);
	assert_true(protected(0));
}

/* In the wire's 24 bits. */
static void psns_are_compared_in_24_bits(void **state)
{
	struct shift_conn_start s = {.qpn = 20,
				     .dest_qpn = 21,
				     .sq_psn = 0x5000010,
				     .rq_psn = 0x5fffffe,
				     .sq_psn_known = true,
				     .mtu = 1024,
				     .giveup_ns = SECOND};
	struct shift_msg m = hello_of(1);

	(void)state;
	shift_conn_start(w.h[0].c, &s);
	hello_of(0);
	give_msg(0, &m, 0);
	assert_true(protected(0));
}

/* --- when --------------------------------------------------------------------------------------
 */

/* Our own QP is not in RTR: there is nothing to vouch for. */
static void before_it_has_started_it_believes_nobody(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	give_msg(0, &m, 0);
	assert_false(protected(0));
	assert_int_equal(w.msgs, 0);
	hello_of(0);
	give_msg(0, &m, 0);
	assert_true(protected(0));
}

static void repeats_after(const uint64_t *waits, unsigned int n)
{
	uint64_t at = w.now;

	hello_of(0);
	for (unsigned int i = 0; i < n; i++) {
		at += waits[i] * MS;
		assert_int_equal(shift_conn_deadline(w.h[0].c), at);
		w.now = at - 1;
		w_tick(&w, 0);
		assert_int_equal(w.msgs, 0);
		w.now = at;
		w_tick(&w, 0);
		assert_int_equal(w.msgs, 1);
		assert_int_equal(w.msg[0].rail, (i + 1) % W_RAILS);
		assert_int_equal(w.msg[0].m.type, SHIFT_MSG_HELLO);
		assert_int_equal(stats(0)->retransmits, i + 1);
		w.msgs = 0;
	}
}

/* While nobody answers: 20 ms, doubled up to a second, over each rail in turn. */
static void hello_is_repeated_over_each_rail(void **state)
{
	static const uint64_t usual[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000};
	static const uint64_t slow[] = {400, 800, 1000, 1000};
	static const struct shift_conn_cfg cfg = {.exactly_once = true, .rto_ns = 400 * MS};

	(void)state;
	repeats_after(usual, sizeof(usual) / sizeof(usual[0]));
	again(&cfg);
	repeats_after(slow, sizeof(slow) / sizeof(slow[0]));
}

static void heard_it_is_not_repeated(void **state)
{
	struct shift_msg m = hello_of(1);
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	(void)state;
	hello_of(0);
	shift_conn_event(w.h[0].c, &ev, w.now);
	/* From now on it asks after its progress, a second later. */
	assert_int_equal(shift_conn_deadline(w.h[0].c), w.now + SECOND);
	w_tick(&w, 0);
	w.msgs = 0;
	w.now += 10 * SECOND;
	w_tick(&w, 0);
	assert_int_equal(w.msgs, 0);
}

/* RTS after RTS: the timer is not set back, nothing is said twice. */
static void it_starts_once(void **state)
{
	uint64_t at;

	(void)state;
	hello_of(0);
	at = shift_conn_deadline(w.h[0].c);
	w.now += 5 * MS;
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 0);
	assert_int_equal(shift_conn_deadline(w.h[0].c), at);
}

/* The answer takes the way that the question came: rail 0's control link may be down. */
static void the_answer_goes_over_the_rail_that_asked(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	for (int rail = W_RAILS - 1; rail >= 0; rail--) {
		w.msgs = 0;
		give_msg(0, &m, rail);
		assert_int_equal(w.msgs, 1);
		assert_int_equal(w.msg[0].rail, rail);
		assert_int_equal(w.msg[0].m.type, SHIFT_MSG_HELLO);
		assert_int_equal(w.msg[0].m.heard, 1);
	}
}

/* Or the two would answer each other for ever. */
static void one_that_was_heard_does_not_answer(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	m.heard = 1;
	give_msg(0, &m, 0);
	assert_true(protected(0));
	assert_int_equal(w.msgs, 0);
	give_msg(0, &m, 0);
	assert_int_equal(w.msgs, 0);
}

/* It lost our HELLO and cannot be protected without: whatever we do meanwhile. */
static void a_peer_that_lost_it_is_answered_during_a_switch(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	give_msg(0, &m, 0);
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	w.msgs = 0;
	give_msg(0, &m, 2);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.type, SHIFT_MSG_HELLO);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	w.frozen_fence = false;
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	w.msgs = 0;
	give_msg(0, &m, 2);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
}

/* --- a QP that only receives (7.29) ------------------------------------------------------------
 */

static struct shift_conn_start rtr_only(void)
{
	return (struct shift_conn_start){.qpn = 20,
					 .dest_qpn = 21,
					 .rq_psn = 0xfffffe,
					 .mtu = 1024,
					 .giveup_ns = 30 * SECOND};
}

static void in_rtr_it_does_not_speak_first(void **state)
{
	struct shift_conn_start s = rtr_only();
	struct shift_msg m = hello_of(1);

	(void)state;
	shift_conn_start(w.h[0].c, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 0);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	give_msg(0, &m, 0);
	assert_true(protected(0));
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.sq_psn, 0x000010); /* as the peer expects */
}

/* All but what it cannot know must fit. */
static void in_rtr_the_rest_is_compared(void **state)
{
	struct shift_conn_start s = rtr_only();
	struct shift_msg good = hello_of(1);

	(void)state;
	shift_conn_start(w.h[0].c, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	MISFITS(qpn, 1, hello_mismatch);
	MISFITS(dest_qpn, 1, hello_mismatch);
	MISFITS(sq_psn, 1, hello_mismatch);
	give_msg(0, &good, 0);
	assert_true(protected(0));
}

/* Should it send one day, its packets are counted from the PSN that the peer expects. */
static void what_it_adopts_maps_its_packets(void **state)
{
	struct shift_conn_start s = rtr_only();
	struct shift_msg m = hello_of(1);

	(void)state;
	shift_conn_start(w.h[0].c, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	give_msg(0, &m, 0);
	w_run(&w, 0);
	assert_true(protected(1));
	w_post(&w, 0, SHIFT_OP_SEND, 2000, true);
	w_post(&w, 0, SHIFT_OP_SEND, 2000, true);
	pass_packets(0, 0, 2);
	fail_over(0);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(stats(0)->replayed, 1);
	assert_int_equal(w.h[0].completed, 2);
}

/* What it adopted is what later HELLOs are compared with. */
static void what_it_adopted_is_compared_from_then_on(void **state)
{
	struct shift_conn_start s = rtr_only();
	struct shift_msg m = hello_of(1);

	(void)state;
	shift_conn_start(w.h[0].c, &s);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	give_msg(0, &m, 0);
	w.msgs = 0;
	m.rq_psn++;
	give_msg(0, &m, 0);
	assert_int_equal(stats(0)->hello_mismatch, 1);
	assert_int_equal(w.msgs, 0);
}

/* --- unprotected for good ----------------------------------------------------------------------
 */

/* An error went to the program before HELLO, of a send or of a receive. */
static void have_an_error(bool is_recv)
{
	struct shift_cqe cqe = {.wr_id = 42, .status = SHIFT_WC_WR_FLUSH_ERR, .is_recv = is_recv};
	struct shift_wc wc;

	assert_true(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
}

static void an_error_is_final(bool is_recv)
{
	struct shift_msg m = hello_of(1);

	hello_of(0);
	have_an_error(is_recv);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	w.now += 10 * SECOND;
	w_tick(&w, 0);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 0); /* it calls nobody any more */
	give_msg(0, &m, 0);
	assert_false(protected(0));
	assert_int_equal(w.msgs, 0); /* and answers no HELLO */
}

static void an_error_of_a_send_before_hello_is_final(void **state)
{
	(void)state;
	an_error_is_final(false);
}

static void an_error_of_a_receive_before_hello_is_final(void **state)
{
	(void)state;
	an_error_is_final(true);
}

static void with_an_error_it_does_not_begin(void **state)
{
	(void)state;
	have_an_error(false);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w.msgs, 0);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
}

/* A good completion is no error. */
static void a_success_before_hello_is_not_final(void **state)
{
	struct shift_cqe cqe = {.wr_id = 0, .is_recv = true};
	struct shift_msg m = hello_of(1);
	struct shift_wc wc;

	(void)state;
	hello_of(0);
	assert_true(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	give_msg(0, &m, 0);
	assert_true(protected(0));
}

/* The program moves the QP to ERR before HELLO: CLOSED at once, nothing is fenced, and what the NIC
 * flushes passes as it comes. Made from the log it would come twice. */
static void modify_err_before_hello_is_left_to_the_nic(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	assert_true(w.h[0].closed);
	assert_int_equal(w.h[0].ops, 0);
	assert_int_equal(w.h[0].errors, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	give_msg(0, &m, 0);
	assert_false(protected(0));
	assert_true(w_break(&w, 0, 0));
	take_cqes(0);
	assert_int_equal(w.h[0].errors, 1);
}

/* The peer has never heard of it: nothing is to be proved, and the NIC stops the QP by itself. */
static void reset_before_hello_is_left_to_the_nic(void **state)
{
	for (int how = SHIFT_CLOSE_RESET; how <= SHIFT_CLOSE_DESTROY; how++) {
		w_close(&w, 0, (enum shift_close)how);
		assert_true(w.h[0].closed);
		assert_int_equal(w.h[0].ops, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
		teardown(state);
		setup_unmet(state);
	}
}

/* Once HELLO was sent the peer may be protected, and ask. */
static void reset_amid_hello_is_fenced(void **state)
{
	for (int how = SHIFT_CLOSE_RESET; how <= SHIFT_CLOSE_DESTROY; how++) {
		hello_of(0);
		w_close(&w, 0, (enum shift_close)how);
		assert_false(w.h[0].closed);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSING);
		finish_ops(0);
		assert_true(w.h[0].closed);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
		assert_int_equal(w.h[0].errors, 0);
		teardown(state);
		setup_unmet(state);
	}
}

/* --- release -----------------------------------------------------------------------------------
 */

/* ACTIVE on epoch 0 it can be, as in SETUP; in all other states it is too late. */
static void released_before_it_met_anybody(void **state)
{
	struct shift_msg m = hello_of(1);

	(void)state;
	hello_of(0);
	assert_true(shift_conn_release(w.h[0].c));
	w_tick(&w, 0);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	give_msg(0, &m, 0);
	assert_false(protected(0));
	assert_int_equal(w.msgs, 0);
}

static void released_it_says_why(void **state)
{
	(void)state;
	again(NULL);
	assert_true(shift_conn_release(w.h[0].c));
	w_tick(&w, 0);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_RELEASED);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
}

/* A planned switch has begun: the peer may be on its way. */
static void during_a_planned_switch_it_is_not_released(void **state)
{
	(void)state;
	again(NULL);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	assert_false(shift_conn_release(w.h[0].c));
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	while (w_msg(&w, 0))
		;
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	assert_false(shift_conn_release(w.h[1].c));
	assert_true(w_settle(&w, 50));
}

static void after_the_end_it_is_not_released(void **state)
{
	(void)state;
	again(NULL);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	assert_false(shift_conn_release(w.h[0].c));
	finish_ops(0);
	assert_false(shift_conn_release(w.h[0].c));
}

/* Rule 20: a peer that asks is told FAILED, whether with SWITCH or later by the tombstone. */
static void released_it_answers_failed(void **state)
{
	struct shift_msg m;

	(void)state;
	again(NULL);
	assert_true(shift_conn_release(w.h[0].c));
	w_tick(&w, 0);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 0);
	m = w.msg[0].m;
	assert_int_equal(m.type, SHIFT_MSG_SWITCH);
	w.msgs = 0;
	give_msg(0, &m, 2);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.type, SHIFT_MSG_FAILED);
	assert_int_equal(w.msg[0].rail, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
}

#define UNMET(f) cmocka_unit_test_setup_teardown(f, setup_unmet, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNMET(a_hello_says_who_speaks),
		UNMET(what_fits_protects),
		UNMET(what_does_not_fit_is_not_believed),
		UNMET(a_hello_may_be_for_a_nonce_not_known),
		UNMET(psns_are_compared_in_24_bits),
		UNMET(before_it_has_started_it_believes_nobody),
		UNMET(hello_is_repeated_over_each_rail),
		UNMET(heard_it_is_not_repeated),
		UNMET(it_starts_once),
		UNMET(the_answer_goes_over_the_rail_that_asked),
		UNMET(one_that_was_heard_does_not_answer),
		UNMET(a_peer_that_lost_it_is_answered_during_a_switch),
		UNMET(in_rtr_it_does_not_speak_first),
		UNMET(in_rtr_the_rest_is_compared),
		UNMET(what_it_adopts_maps_its_packets),
		UNMET(what_it_adopted_is_compared_from_then_on),
		UNMET(an_error_of_a_send_before_hello_is_final),
		UNMET(an_error_of_a_receive_before_hello_is_final),
		UNMET(with_an_error_it_does_not_begin),
		UNMET(a_success_before_hello_is_not_final),
		UNMET(modify_err_before_hello_is_left_to_the_nic),
		UNMET(reset_before_hello_is_left_to_the_nic),
		UNMET(reset_amid_hello_is_fenced),
		UNMET(released_before_it_met_anybody),
		UNMET(released_it_says_why),
		UNMET(during_a_planned_switch_it_is_not_released),
		UNMET(after_the_end_it_is_not_released),
		UNMET(released_it_answers_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
