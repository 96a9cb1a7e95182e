/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One world with receives posted, anew for each test, in which nothing may have gone wrong. */
#ifndef SHIFT_TESTS_UNIT_FIXTURE_H
#define SHIFT_TESTS_UNIT_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/unit/world.h"

static struct world w;

static int setup(void **state)
{
	(void)state;
	w_init_ready(&w, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(w.bad, 0);
	w_free(&w);
	return 0;
}

/* Replaces the world of this test by one of that configuration. */
static inline void again(const struct shift_conn_cfg *cfg)
{
	w_free(&w);
	w_init_ready(&w, cfg);
}

static inline const struct shift_conn_stats *stats(int h)
{
	return shift_conn_stats(w.h[h].c);
}

/* --- one step of one host ------------------------------------------------------------------- */

/* The next n packets that host h has posted on that rail reach the peer's NIC. */
static inline void pass_packets(int h, int rail, int n)
{
	while (n--)
		assert_true(w_packet(&w, h, rail));
}

static inline void take_cqes(int h)
{
	while (w_cqe(&w, h))
		;
}

/* All that the connection has asked for (fence, arm ...) is done. */
static inline void finish_ops(int h)
{
	while (w_op(&w, h))
		;
}

static inline void give_event(int h, const struct shift_event *ev)
{
	shift_conn_event(w.h[h].c, ev, w.now);
	w_tick(&w, h); /* does as it asks */
}

/* A completion that the connection keeps to itself. */
static inline void give_cqe(int h, const struct shift_cqe *cqe)
{
	struct shift_wc wc;

	assert_false(shift_conn_cqe(w.h[h].c, cqe, &wc, w.now));
	w_tick(&w, h);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* The NIC gives up on rail 0 and its error completions arrive. */
static inline void break_rail_0(int h)
{
	assert_true(w_break(&w, h, 0));
	take_cqes(h);
}

/* Host h fails on its rail, and everything settles. */
static inline void fail_over(int h)
{
	assert_true(w_break(&w, h, w_view(&w, h).r));
	assert_true(w_settle(&w, 200));
}

static inline void cut_rail(int rail, bool on)
{
	w.data_cut[rail] = w.ctl_cut[rail] = on;
}

/* Host 0 gets a SWITCH that a peer of ours would not send. */
static inline void forged_switch(uint32_t epoch, uint8_t rail, uint32_t rep_epoch)
{
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_SWITCH,
			      .epoch = epoch,
			      .rail = rail,
			      .rep_epoch = rep_epoch};

	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &m});
}

/* --- where host 0 is -------------------------------------------------------------------------- */

/* It has announced its epoch on rail 1, and hears nothing. */
static inline void waits_for_an_answer(void)
{
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
}

/* It ends for that reason, and each of its WRs with it. */
static inline void ends_dead(enum shift_reason why)
{
	assert_int_equal(w_view(&w, 0).reason, why);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].errors + w.h[0].flushes, w.h[0].posted + W_READY_RECVS);
}

#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
