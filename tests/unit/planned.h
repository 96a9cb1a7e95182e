/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the tests of planned switches share: PREPARE and READY by hand, and an atomic at risk. */
#ifndef SHIFT_TESTS_UNIT_PLANNED_H
#define SHIFT_TESTS_UNIT_PLANNED_H

#include "tests/unit/fixture.h"

#define MS     1000000ull
#define SECOND 1000000000ull

/* --- messages by hand ------------------------------------------------------------------------- */

static inline void lose_messages(void)
{
	w.msgs = 0;
}

/* The newest message on its way to host `to`; it arrives nowhere by this. */
static inline struct shift_msg *last_message(int to)
{
	for (uint32_t i = w.msgs; i-- > 0;)
		if (w.msg[i].to == to)
			return &w.msg[i].m;
	fail_msg("no message to host %d", to);
	return NULL;
}

static inline void deliver_message(int to, const struct shift_msg *m)
{
	assert_true(w.msgs < W_MSGS);
	w.msg[w.msgs++] = (struct w_msg){.m = *m, .rail = m->rail, .to = (uint8_t)to};
	assert_true(w_msg(&w, w.msgs - 1));
}

static inline void deliver_all(void)
{
	while (w_msg(&w, 0))
		;
}

/* What the peer of that host could say in its epoch. */
static inline void peer_says(int to, enum shift_msg_type type, int rail, uint32_t serial,
			     uint32_t hold_ms)
{
	struct shift_msg m = {.src_nonce = 100 + (uint64_t)!to,
			      .dst_nonce = 100 + (uint64_t)to,
			      .src_conn = 10 + (uint32_t)!to,
			      .dst_conn = 10 + (uint32_t)to,
			      .type = (uint8_t)type,
			      .epoch = w_view(&w, to).e,
			      .rail = (uint8_t)rail,
			      .serial = serial,
			      .hold_ms = hold_ms};

	deliver_message(to, &m);
}

static inline void tick_at(int h, uint64_t ns)
{
	w.now = ns;
	w_tick(&w, h);
}

/* The operator asks; PREPARE and READY arrive at once. The time of it. */
static inline uint64_t make_ready(int starter, int rail)
{
	w_event(&w, starter, SHIFT_EV_MIGRATE, rail);
	deliver_all();
	assert_int_equal(w_state(&w, !starter), SHIFT_ST_DRAIN);
	return w.now;
}

/* Nobody hears it. */
static inline void ask_in_vain(int h, int rail, int times)
{
	while (times--) {
		w_event(&w, h, SHIFT_EV_MIGRATE, rail);
		w.now += 10 * SECOND;
		w_tick(&w, h);
		assert_int_equal(w_state(&w, h), SHIFT_ST_ACTIVE);
		lose_messages();
	}
}

/* Host h posts an atomic; if that goes to its NIC, it is executed, and its ACK is late. */
static inline void risk_atomic(int h)
{
	w_post(&w, h, SHIFT_OP_FETCH_ADD, 8, true);
	w_packet(&w, h, 0);
	w.ack_cut_from[!h] = true;
}

/* What a switch needs; no time passes. */
static inline void let_messages_pass(void)
{
	for (int i = 0; i < 4; i++) {
		deliver_all();
		finish_ops(0);
		finish_ops(1);
	}
}

/* If a switch is under way, it is done before those ACKs come. */
static inline void nothing_is_lost(uint64_t wrs_0, uint64_t wrs_1)
{
	let_messages_pass();
	assert_int_equal(stats(0)->lost_atomics + stats(1)->lost_atomics, 0);
	w.ack_cut_from[0] = w.ack_cut_from[1] = false;
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].errors + w.h[1].errors, 0);
	assert_int_equal(w.h[0].completed, wrs_0);
	assert_int_equal(w.h[1].completed, wrs_1);
}

#endif
