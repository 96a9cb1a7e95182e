/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which messages are heard, what a connection that is over answers, and what each end looks like to
 * the program (doc/protocol.md, rules 17, 19, 20, 7.16, 7.17, 7.24). */
#include <string.h>

#include "tests/unit/planned.h"

static void give_msg(int h, const struct shift_msg *m, int rail)
{
	struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = (uint8_t)rail, .msg = m};

	give_event(h, &ev);
}

/* What host 1 could say to host 0. */
static struct shift_msg from_peer(enum shift_msg_type type)
{
	return (struct shift_msg){.src_nonce = 101,
				  .dst_nonce = 100,
				  .src_conn = 11,
				  .dst_conn = 10,
				  .type = (uint8_t)type,
				  .epoch = type == SHIFT_MSG_SWITCH ? 1 : w_view(&w, 0).e,
				  .rail = 1,
				  .serial = 7,
				  .hold_ms = 800};
}

static void say(enum shift_msg_type type, int rail)
{
	struct shift_msg m = from_peer(type);

	give_msg(0, &m, rail);
}

static const enum shift_msg_type every_type[] = {
	SHIFT_MSG_SWITCH,  SHIFT_MSG_FAILED,	SHIFT_MSG_CLOSED,
	SHIFT_MSG_UNKNOWN, SHIFT_MSG_NOT_YET,	SHIFT_MSG_PREPARE,
	SHIFT_MSG_READY,   SHIFT_MSG_QUERY_PSN, SHIFT_MSG_PSN};

#define FOR_EACH_TYPE(t)                                \
	for (const enum shift_msg_type *t = every_type; \
	     t < every_type + sizeof(every_type) / sizeof(*t); t++)

/* --- from whom, to whom ------------------------------------------------------------------------
 */

#define UNHEARD(type, field, value)                                 \
	do {                                                        \
		struct shift_msg m = from_peer(type);               \
		uint64_t before = stats(0)->stale_msgs;             \
		m.field = value;                                    \
		give_msg(0, &m, 1);                                 \
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);  \
		assert_int_equal(w.msgs + w.h[0].ops, 0);           \
		assert_int_equal(stats(0)->stale_msgs, before + 1); \
	} while (0)

/* Another run of the peer's process or of ours, another connection of either. */
static void only_the_peer_of_this_connection_is_heard(void **state)
{
	(void)state;
	FOR_EACH_TYPE(t)
	{
		UNHEARD(*t, src_nonce, 100);
		UNHEARD(*t, src_nonce, 102);
		UNHEARD(*t, src_nonce, 0);
		UNHEARD(*t, dst_nonce, 99);
		UNHEARD(*t, dst_nonce, 101);
		UNHEARD(*t, dst_nonce, 0);
		UNHEARD(*t, src_conn, 10);
		UNHEARD(*t, src_conn, 12);
		UNHEARD(*t, dst_conn, 9);
		UNHEARD(*t, dst_conn, 11);
	}
}

/* Who is not known yet is learned from HELLO, and from nothing else. */
static void a_nonce_is_learned_from_hello(void **state)
{
	static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};
	struct shift_conn_peer p = {.key = {7}, .conn = 99, .id = 11, .rails = W_RAILS};
	struct shift_msg hello;

	(void)state;
	again(&unconfirmed);
	assert_true(shift_conn_meet(w.h[0].c, &p)); /* with nonce 0 */
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	hello = w.msg[0].m;
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w.msgs = 0;
	say(SHIFT_MSG_FAILED, 0);
	assert_int_equal(stats(0)->stale_msgs, 1);
	give_msg(0, &hello, 0);
	assert_true(w_view(&w, 0).protected_);
	assert_int_equal(w.msg[0].m.dst_nonce, 101);
	hello.src_nonce = 4711;
	give_msg(0, &hello, 0);
	assert_int_equal(stats(0)->stale_msgs, 2);
	say(SHIFT_MSG_FAILED, 0);
	assert_true(w_state(&w, 0) >= SHIFT_ST_GIVEUP);
}

/* What the state machine does not know, and events of no rail, change nothing. */
static void the_rest_is_ignored(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_COUNT};
	struct shift_event no_rail = {.type = SHIFT_EV_LINK_DOWN, .rail = SHIFT_RAILS_MAX};
	struct shift_event no_msg = {.type = SHIFT_EV_MSG};
	uint8_t before[4096];

	(void)state;
	memcpy(before, w.h[0].mem, sizeof(before));
	shift_conn_event(w.h[0].c, &ev, w.now);
	shift_conn_event(w.h[0].c, &no_rail, w.now);
	assert_memory_equal(before, w.h[0].mem,
			    sizeof(before)); /* nothing behind the rails either */
	give_event(0, &no_msg);
	for (uint8_t t = SHIFT_MSG_KEY_ASK; t <= SHIFT_MSG_TYPE_END; t++)
		say((enum shift_msg_type)t, 1);
	say(SHIFT_MSG_NOT_YET, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w.msgs + w.h[0].ops, 0);
}

/* --- the peer's end ----------------------------------------------------------------------------
 */

/* Before HELLO nobody knows whose QP it is. */
static void before_hello_nobody_ends_it(void **state)
{
	static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};

	(void)state;
	again(&unconfirmed);
	FOR_EACH_TYPE(t)
	{
		say(*t, 1);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
		assert_int_equal(w.msgs + w.h[0].ops, 0);
	}
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	assert_int_equal(w.h[0].ops, 0);
}

struct peer_end {
	enum shift_msg_type type; /* 0: the event PEER_DIED */
	enum shift_reason reason;
	uint32_t vendor;
	bool announced; /* our end is told to the peer */
};

static const struct peer_end peer_ends[] = {
	{SHIFT_MSG_FAILED, SHIFT_R_PEER_FAILED, SHIFT_VENDOR_PEER_FAILED, true},
	{SHIFT_MSG_CLOSED, SHIFT_R_PEER_CLOSED, SHIFT_VENDOR_PEER_CLOSED, true},
	{SHIFT_MSG_UNKNOWN, SHIFT_R_PEER_UNKNOWN, SHIFT_VENDOR_PEER_FAILED, true},
	{0, SHIFT_R_PEER_DIED, SHIFT_VENDOR_PEER_DIED, false},
};

static void give_end(const struct peer_end *e)
{
	if (e->type)
		say(e->type, 1);
	else
		w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
}

/* Fence first, then the errors: RETRY_EXC with our cause, the rest flushes. */
static void ends_as(void **state, const struct peer_end *e)
{
	w.msgs = 0;
	give_end(e);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w_view(&w, 0).reason, e->reason);
	assert_int_equal(w.h[0].errors, 0);
	assert_int_equal(w.msgs, 0);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
	assert_true(w.h[0].qp_err);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, e->vendor);
	assert_int_equal(w.h[0].errors, w.h[0].posted + W_READY_RECVS);
	assert_int_equal(w.msgs, e->announced ? W_RAILS : 0);
	/* A second end changes nothing of it. */
	for (unsigned int i = 0; i < 4; i++)
		give_end(&peer_ends[i]);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_FENCED);
	assert_int_equal(w.h[0].errors, w.h[0].posted + W_READY_RECVS);
	teardown(state);
	setup(state);
}

static void the_peers_end_in_active(void **state)
{
	for (unsigned int i = 0; i < 4; i++) {
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
		ends_as(state, &peer_ends[i]);
	}
}

static void the_peers_end_in_fence(void **state)
{
	for (unsigned int i = 0; i < 4; i++) {
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
		w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
		ends_as(state, &peer_ends[i]);
	}
}

static void the_peers_end_in_switching(void **state)
{
	for (unsigned int i = 0; i < 4; i++) {
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
		w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
		ends_as(state, &peer_ends[i]);
	}
}

static void the_peers_end_in_prepare_and_drain(void **state)
{
	for (unsigned int i = 0; i < 4; i++) {
		w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		ends_as(state, &peer_ends[i]);
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		say(SHIFT_MSG_PREPARE, 1);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
		ends_as(state, &peer_ends[i]);
	}
}

/* While the fence runs a second end does not take the place of the first. */
static void the_first_end_is_the_one(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	for (int i = 3; i >= 0; i--)
		give_end(&peer_ends[i]);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PEER_DIED);
	finish_ops(0);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_DIED);
	assert_int_equal(w.msgs, 0);
}

/* 7.17: over every rail whose link is up: the one in use is likely the one that is dead. */
static void failed_goes_over_every_rail_that_is_up(void **state)
{
	(void)state;
	for (int down = 0; down < W_RAILS; down++) {
		unsigned int seen = 0;

		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, down);
		w.msgs = 0;
		say(SHIFT_MSG_FAILED, 1);
		finish_ops(0);
		assert_int_equal(w.msgs, W_RAILS - 1);
		for (uint32_t i = 0; i < w.msgs; i++) {
			assert_int_equal(w.msg[i].m.type, SHIFT_MSG_FAILED);
			seen |= 1u << w.msg[i].rail;
		}
		assert_int_equal(seen, 7 & ~(1u << down));
		teardown(state);
		setup(state);
	}
}

/* --- what a connection that is over answers -----------------------------------------------------
 */

static void asked(enum shift_msg_type question, int rail, int answer)
{
	w.msgs = 0;
	say(question, rail);
	assert_int_equal(w.msgs, answer ? 1 : 0);
	if (!answer)
		return;
	assert_int_equal(w.msg[0].m.type, answer);
	assert_int_equal(w.msg[0].rail, rail);
	assert_int_equal(w.msg[0].m.src_nonce, 100);
	assert_int_equal(w.msg[0].m.dst_nonce, 101);
	assert_int_equal(w.msg[0].m.src_conn, 10);
	assert_int_equal(w.msg[0].m.dst_conn, 11);
}

static void dead_it_answers_failed(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	for (int rail = 0; rail < W_RAILS; rail++)
		FOR_EACH_TYPE(t)
	asked(*t, rail, 0); /* not fenced yet: the peer will ask again */
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	for (int rail = 0; rail < W_RAILS; rail++)
		FOR_EACH_TYPE(t)
	asked(*t, rail,
	      *t == SHIFT_MSG_SWITCH || *t == SHIFT_MSG_PREPARE || *t == SHIFT_MSG_QUERY_PSN
		      ? SHIFT_MSG_FAILED
		      : 0);
}

/* 7.24: but for PREPARE: stock verbs tell an idle peer nothing. */
static void closed_it_answers_closed(void **state)
{
	(void)state;
	w_close(&w, 0, SHIFT_CLOSE_RESET);
	for (int rail = 0; rail < W_RAILS; rail++)
		FOR_EACH_TYPE(t)
	asked(*t, rail, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
	for (int rail = 0; rail < W_RAILS; rail++)
		FOR_EACH_TYPE(t)
	asked(*t, rail, *t == SHIFT_MSG_SWITCH || *t == SHIFT_MSG_QUERY_PSN ? SHIFT_MSG_CLOSED : 0);
}

/* 7.49: rails 0 and 2 are on one NIC of ours. */
static void each_rail_that_it_may_have_come_over_is_answered(void **state)
{
	struct shift_msg m = {.type = SHIFT_MSG_SWITCH,
			      .src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10};

	(void)state;
	w_close(&w, 0, SHIFT_CLOSE_RESET);
	finish_ops(0);
	w.msgs = 0;
	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .also = 1u << 2, .msg = &m});
	assert_int_equal(w.msgs, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w.msg[i].m.type, SHIFT_MSG_CLOSED);
		assert_int_equal(w.msg[i].rail, 2 * i);
	}
}

/* Nothing is said to a peer that does not ask. */
static void a_close_is_not_announced(void **state)
{
	(void)state;
	for (int how = SHIFT_CLOSE_ERR; how <= SHIFT_CLOSE_DESTROY; how++) {
		w_close(&w, 0, (enum shift_close)how);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
		assert_int_equal(w.msgs, 0);
		assert_true(shift_conn_deadline(w.h[0].c) == UINT64_MAX);
		teardown(state);
		setup(state);
	}
}

static struct shift_msg closed_answer(void)
{
	w.msgs = 0;
	say(SHIFT_MSG_SWITCH, 1);
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.type, SHIFT_MSG_CLOSED);
	return w.msg[0].m;
}

/* Rule 19: what was executed, and how many receives that took. Those that flush do not count. */
static void closed_says_what_was_executed(void **state)
{
	struct shift_msg m;

	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	w_post(&w, 1, SHIFT_OP_WRITE, 2000, true);
	pass_packets(1, 0, 4);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	finish_ops(0);
	m = closed_answer();
	assert_int_equal(w.h[0].errors, W_READY_RECVS - 3);
	assert_int_equal(m.fence, SHIFT_FENCE_SURE);
	assert_int_equal(m.recv_valid, 1);
	assert_int_equal(m.rep_epoch, 0);
	assert_int_equal(m.rep_psn, 2); /* 0xfffffe + 4 */
	assert_int_equal(m.recv_cum, 3);
}

static void closed_reports_the_newest_epoch_with_execution(void **state)
{
	struct shift_msg m;

	(void)state;
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	fail_over(1);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	pass_packets(1, 1, 1);
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	finish_ops(0);
	m = closed_answer();
	assert_int_equal(m.rep_epoch, w_view(&w, 0).e);
	assert_int_equal(m.rep_psn, w.h[0].qp[1].rx_psn);
	assert_int_equal(m.recv_cum, 2);
}

/* The last fence decides nothing then, but the receives. */
static void closed_is_unsure_if_the_fence_was(void **state)
{
	struct shift_tombstone t;

	(void)state;
	w.fence_unsure[0] = true;
	w_close(&w, 0, SHIFT_CLOSE_DESTROY);
	finish_ops(0);
	assert_int_equal(closed_answer().fence, SHIFT_FENCE_UNSURE);
	shift_conn_tombstone(w.h[0].c, w.now, &t);
	assert_int_equal(t.answer.fence, SHIFT_FENCE_UNSURE);
}

/* The receives of an SRQ are counted like others (7.19). */
static void with_an_srq_closed_counts_receives(void **state)
{
	static const struct shift_conn_cfg srq = {
		.exactly_once = true, .confirmed = true, .srq = true};

	(void)state;
	for (int unsure = 0; unsure < 2; unsure++) {
		w_free(&w);
		w_init(&w, &srq, 1);
		w.fence_unsure[0] = unsure;
		w_close(&w, 0, SHIFT_CLOSE_DESTROY);
		finish_ops(0);
		assert_int_equal(closed_answer().recv_valid, 1);
	}
}

/* A tombstone says the same as the connection, for the time that was set, and only after the end.
 */
static void a_tombstone_says_the_same(void **state)
{
	static const struct shift_conn_cfg cfg = {
		.exactly_once = true, .confirmed = true, .tombstone_ns = 17 * SECOND};
	struct shift_tombstone t;

	(void)state;
	for (int dead = 0; dead < 2; dead++) {
		again(&cfg);
		w_post(&w, 1, SHIFT_OP_SEND, 10, true);
		pass_packets(1, 0, 1);
		memset(&t, 0xff, sizeof(t));
		shift_conn_tombstone(w.h[0].c, w.now, &t);
		assert_false(t.valid);
		if (dead)
			w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
		else
			w_close(&w, 0, SHIFT_CLOSE_DESTROY);
		shift_conn_tombstone(w.h[0].c, w.now, &t);
		assert_false(t.valid);
		finish_ops(0);
		shift_conn_tombstone(w.h[0].c, w.now, &t);
		assert_true(t.valid);
		assert_true(t.expires_ns == w.now + 17 * SECOND);
		w.msgs = 0;
		say(SHIFT_MSG_SWITCH, 0);
		assert_int_equal(w.msg[0].m.type, dead ? SHIFT_MSG_FAILED : SHIFT_MSG_CLOSED);
		assert_memory_equal(&t.answer, &w.msg[0].m, sizeof(t.answer));
	}
}

/* --- the program's end --------------------------------------------------------------------------
 */

/* The program closes while the errors are being prepared: its call returns when the fence is done,
 * and it sees of its WRs what its call lets it see. To the peer it has failed. */
static void closed_while_it_gives_up(void **state)
{
	for (int how = SHIFT_CLOSE_ERR; how <= SHIFT_CLOSE_DESTROY; how++) {
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		say(SHIFT_MSG_FAILED, 1);
		w_close(&w, 0, (enum shift_close)how);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSING);
		assert_false(w.h[0].closed);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_CLOSED);
		assert_true(w.h[0].closed);
		assert_false(w.h[0].qp_err);
		assert_int_equal(w.h[0].errors, how == SHIFT_CLOSE_ERR ? 1 + W_READY_RECVS : 0);
		asked(SHIFT_MSG_SWITCH, 2, SHIFT_MSG_FAILED);
		teardown(state);
		setup(state);
	}
}

/* modify(ERR), and destroy before that is done: the destroy decides. Nor does a later ERR undo it.
 */
static void a_destroy_is_silent_whatever_came_before(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		w_close(&w, 0, first ? SHIFT_CLOSE_ERR : SHIFT_CLOSE_DESTROY);
		w_close(&w, 0, first ? SHIFT_CLOSE_DESTROY : SHIFT_CLOSE_ERR);
		finish_ops(0);
		assert_true(w.h[0].closed);
		assert_int_equal(w.h[0].errors, 0);
		assert_false(w_post(&w, 0, SHIFT_OP_WRITE, 10, true));
		assert_false(w_recv(&w, 0));
		teardown(state);
		setup(state);
	}
}

/* It is fenced already: the call returns at once. */
static void after_the_end_a_close_returns_at_once(void **state)
{
	for (int how = SHIFT_CLOSE_ERR; how <= SHIFT_CLOSE_DESTROY; how++) {
		bool silent = how != SHIFT_CLOSE_ERR;

		w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
		w_close(&w, 0, (enum shift_close)how);
		assert_true(w.h[0].closed);
		assert_int_equal(w.h[0].ops, 0);
		assert_int_equal(w_post(&w, 0, SHIFT_OP_WRITE, 10, true), !silent);
		assert_int_equal(w_recv(&w, 0), !silent);
		/* RESET is for good, whatever comes after. */
		w.h[0].closed = false;
		w_close(&w, 0, SHIFT_CLOSE_ERR);
		assert_true(w.h[0].closed);
		assert_int_equal(w_post(&w, 0, SHIFT_OP_WRITE, 10, true), !silent);
		teardown(state);
		setup(state);
	}
}

/* The peer closed and said what it executed, but the program ends the QP itself before that is
 * used: then all that is outstanding flushes. */
static void who_closes_sees_flushes_only(void **state)
{
	struct shift_msg m;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	finish_ops(1);
	m = from_peer(SHIFT_MSG_CLOSED);
	m.recv_valid = 1;
	m.recv_cum = 1;
	m.rep_psn = 0x11;
	give_msg(0, &m, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	finish_ops(0);
	assert_int_equal(w.h[0].errors, 2 + W_READY_RECVS);
	assert_int_equal(stats(0)->proved, 0);
}

/* --- the give-up time ---------------------------------------------------------------------------
 */

/* Nobody answers; at its end it gives the errors that the NIC gave. */
static void give_up_after(uint32_t status, uint32_t vendor)
{
	struct shift_cqe cqe = {.status = status, .vendor_err = vendor};
	uint64_t began = w.now;

	for (int i = 0; i < W_RAILS; i++)
		cut_rail(i, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.h[0].qp[0].tail++;
	give_cqe(0, &cqe);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	tick_at(0, began + 30 * SECOND - 1);
	assert_true(w_state(&w, 0) < SHIFT_ST_GIVEUP);
	tick_at(0, began + 30 * SECOND);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_GIVEUP_TIME);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

/* Rule 17: never worse than without us. */
static void giving_up_it_hands_over_the_nics_own_status(void **state)
{
	(void)state;
	give_up_after(SHIFT_WC_RESP_TIMEOUT_ERR, 0x99);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RESP_TIMEOUT_ERR);
	assert_int_equal(w.h[0].first_vendor, 0x99);
}

/* A flush names no cause. */
static void giving_up_after_a_flush_it_names_the_cause(void **state)
{
	(void)state;
	give_up_after(SHIFT_WC_WR_FLUSH_ERR, 0x99);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_GIVEUP);
}

/* The peer's end is its own cause, whatever the NIC said before. */
static void the_peers_end_is_the_cause_of_its_errors(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_RESP_TIMEOUT_ERR, .vendor_err = 0x99};

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.h[0].qp[0].tail++;
	give_cqe(0, &cqe);
	say(SHIFT_MSG_FAILED, 1);
	finish_ops(0);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PEER_FAILED);
}

/* Rule 19: each QP that may accept a packet, on every rail, before the first error. */
static void every_armed_rail_is_fenced_before_the_first_error(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.frozen_arm = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	say(SHIFT_MSG_FAILED, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w.h[0].ops, 2); /* ARM and the fence of what it arms */
	assert_int_equal(w.h[0].op[1].type, SHIFT_ACT_FENCE);
	assert_int_equal(w.h[0].op[1].rail, 1);
	assert_int_equal(w.h[0].errors, 0);
	w.frozen_arm = false;
	assert_true(w_op(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w.h[0].errors, 0);
	assert_true(w_op(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].errors, 1 + W_READY_RECVS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(only_the_peer_of_this_connection_is_heard),
		WORLD_TEST(a_nonce_is_learned_from_hello),
		WORLD_TEST(the_rest_is_ignored),
		WORLD_TEST(before_hello_nobody_ends_it),
		WORLD_TEST(the_peers_end_in_active),
		WORLD_TEST(the_peers_end_in_fence),
		WORLD_TEST(the_peers_end_in_switching),
		WORLD_TEST(the_peers_end_in_prepare_and_drain),
		WORLD_TEST(the_first_end_is_the_one),
		WORLD_TEST(failed_goes_over_every_rail_that_is_up),
		WORLD_TEST(dead_it_answers_failed),
		WORLD_TEST(closed_it_answers_closed),
		WORLD_TEST(each_rail_that_it_may_have_come_over_is_answered),
		WORLD_TEST(a_close_is_not_announced),
		WORLD_TEST(closed_says_what_was_executed),
		WORLD_TEST(closed_reports_the_newest_epoch_with_execution),
		WORLD_TEST(closed_is_unsure_if_the_fence_was),
		WORLD_TEST(with_an_srq_closed_counts_receives),
		WORLD_TEST(a_tombstone_says_the_same),
		WORLD_TEST(closed_while_it_gives_up),
		WORLD_TEST(a_destroy_is_silent_whatever_came_before),
		WORLD_TEST(after_the_end_a_close_returns_at_once),
		WORLD_TEST(who_closes_sees_flushes_only),
		WORLD_TEST(giving_up_it_hands_over_the_nics_own_status),
		WORLD_TEST(giving_up_after_a_flush_it_names_the_cause),
		WORLD_TEST(the_peers_end_is_the_cause_of_its_errors),
		WORLD_TEST(every_armed_rail_is_fenced_before_the_first_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
