/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The timers of the handshake: rules 8, 17, 18, 25 and 7.14. */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define MS	1000000ull
#define SECOND	1000000000ull
#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(int h)
{
	return w.h[h].c;
}

/* Nobody hears the other from now on. */
static void cut_control_links(void)
{
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
}

/* Host h waits for the answer to its SWITCH. */
static void switching(int h)
{
	w_event(&w, h, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(h);
	assert_int_equal(w_state(&w, h), SHIFT_ST_SWITCHING);
}

/* The next tick, at its deadline; a nanosecond before, nothing happens. */
static void next_tick(int h)
{
	const uint64_t at = shift_conn_deadline(conn(h));
	const uint64_t repeated = stats(h)->retransmits;
	const uint32_t e = w_view(&w, h).target_e;
	const enum shift_state was = w_state(&w, h);

	assert_true(at != NEVER);
	w.now = at - 1;
	w_tick(&w, h);
	assert_int_equal(stats(h)->retransmits, repeated);
	assert_int_equal(w_view(&w, h).target_e, e);
	assert_int_equal(w_state(&w, h), was);
	w.now = at;
	w_tick(&w, h);
}

static void switch_is_repeated_at_doubling_times(void **state)
{
	static const unsigned int at_ms[2][9] = {
		{20, 60, 140, 300, 500},
		{20, 60, 140, 300, 500, 700, 750},
	};

	for (int h = 0; h < 2; h++) {
		uint64_t start;

		teardown(state);
		setup(state);
		switching(h);
		start = w.now;
		for (int i = 0; at_ms[h][i]; i++) {
			const bool last = !at_ms[h][i + 1]; /* the timeout */

			w.msgs = 0;
			next_tick(h);
			assert_int_equal((w.now - start) / MS, at_ms[h][i]);
			assert_int_equal(w_state(&w, h),
					 last ? SHIFT_ST_FENCE : SHIFT_ST_SWITCHING);
			assert_int_equal(w.msgs, 1);
			assert_int_equal(w.msg[0].m.fence,
					 last ? SHIFT_FENCE_LEAVING : SHIFT_FENCE_SURE);
			assert_int_equal(stats(h)->retransmits, last ? i : i + 1);
		}
		assert_int_equal(w_view(&w, h).target_r, 2);
		assert_int_equal(w_view(&w, h).reason, SHIFT_R_TIMEOUT);
	}
}

/* From one epoch to the next, in ms. */
static unsigned int time_until_next_epoch(int h)
{
	const uint64_t start = w.now;
	const uint32_t e = w_view(&w, h).target_e;

	while (w_view(&w, h).target_e == e) {
		next_tick(h);
		finish_ops(h);
	}
	return (unsigned int)((w.now - start) / MS);
}

/* At most eightfold; on a rail that is not clean the quarantine comes on top. */
static void the_timeout_doubles(void **state)
{
	static const unsigned int ms[2][7] = {
		{500, 1000, 2000 + 1000, 4000 + 1000, 4000 + 1000, 4000 + 1000},
		{750, 1500, 3000 + 1000, 6000 + 1000, 6000 + 1000, 6000 + 1000},
	};

	for (int h = 0; h < 2; h++) {
		teardown(state);
		setup(state);
		cut_control_links();
		switching(h);
		for (int i = 0; ms[h][i]; i++)
			assert_int_equal(time_until_next_epoch(h), ms[h][i]);
	}
}

/* --- slow is not dead (7.14)
 * -------------------------------------------------------------------------- */

/* Timeouts of this epoch that are waited out, while these rails answer their probes. */
static int timeouts_waited_out(int h, unsigned int answering)
{
	const uint32_t e = w_view(&w, h).target_e;

	for (int n = 0; n < 20; n++) {
		for (int r = 0; r < W_RAILS; r++)
			if (answering >> r & 1)
				w_event(&w, h, SHIFT_EV_PROBE_OK, r);
		while (w.now < conn(h)->timeout_at) {
			w.now = shift_conn_deadline(conn(h));
			if (w.now >= conn(h)->timeout_at)
				break;
			w_tick(&w, h);
		}
		w_tick(&w, h);
		if (w_state(&w, h) == SHIFT_ST_DEAD || w_state(&w, h) == SHIFT_ST_GIVEUP)
			return -1;
		if (w_view(&w, h).target_e != e)
			return n;
	}
	return -1;
}

static void a_rail_that_answers_is_waited_for(void **state)
{
	static const struct {
		unsigned int answering;
		int waited;
	} row[] = {
		{0, 0}, {1 << 2, 0}, {1 << 1 | 1 << 2, 4}, {1 << 1, -1}, {1 << 0 | 1 << 1, 4},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown(state);
		setup(state);
		cut_control_links();
		switching(0);
		w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
		assert_int_equal(timeouts_waited_out(0, row[i].answering), row[i].waited);
	}
}

/* Another that answers, but could not be taken, is no reason to leave. */
static void an_impossible_rail_is_no_alternative(void **state)
{
	(void)state;
	cut_control_links();
	switching(0);
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 2);
	assert_int_equal(timeouts_waited_out(0, 1 << 1 | 1 << 2), -1);
}

/* What was answered before the SWITCH was sent says nothing of the path now. */
static void an_older_answer_is_not_waited_for(void **state)
{
	(void)state;
	cut_control_links();
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
	w.now += 1;
	switching(0);
	assert_int_equal(timeouts_waited_out(0, 0), 0);
}

static void an_answer_in_the_moment_of_the_switch_counts(void **state)
{
	(void)state;
	cut_control_links();
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
	switching(0);
	w.now = conn(0)->timeout_at;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
}

static void each_epoch_has_its_own_patience(void **state)
{
	(void)state;
	cut_control_links();
	switching(0);
	conn(0)->cfg.giveup_ns = 1000 * SECOND;
	assert_int_equal(timeouts_waited_out(0, 1 << 1 | 1 << 2), 4);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(timeouts_waited_out(0, 1 << 1 | 1 << 2), 4);
}

/* --- a word of the peer moves the timeout
 * --------------------------------------------------------------- */

static void hears_switch(int h, uint32_t epoch, int rail, enum shift_fence fence)
{
	struct shift_msg m = {.src_nonce = 100 + (uint64_t)!h,
			      .dst_nonce = 100 + (uint64_t)h,
			      .src_conn = 10 + (uint32_t)!h,
			      .dst_conn = 10 + (uint32_t)h,
			      .type = SHIFT_MSG_SWITCH,
			      .epoch = epoch,
			      .rail = (uint8_t)rail,
			      .fence = (uint8_t)fence};

	give_event(h, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &m});
}

/* It is on its way: its quarantine is no reason to try elsewhere. LEAVING promises nothing. */
static void pending_moves_the_timeout(void **state)
{
	uint64_t timeout;

	for (int h = 0; h < 2; h++) {
		const uint32_t e = h ? 1 : 2;

		teardown(state);
		setup(state);
		switching(h);
		timeout = conn(h)->timeout_at;
		w.now += 100 * MS;
		hears_switch(h, e, 1, SHIFT_FENCE_LEAVING);
		assert_true(conn(h)->timeout_at == timeout);
		hears_switch(h, e, 1, SHIFT_FENCE_PENDING);
		assert_true(conn(h)->timeout_at == w.now + (h ? 750 : 500) * MS + SECOND);
		assert_int_equal(w_state(&w, h), SHIFT_ST_SWITCHING);
	}
}

/* --- quarantine (rules 18, 25)
 * ---------------------------------------------------------------------------- */

/* Host 0 has left rail 0, whose NIC hung, for rail 1. */
static void nic_of_rail_0_hangs(void)
{
	w.fence_hung[0] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	w.fence_hung[0] = false;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_int_equal(w_view(&w, 0).target_r, 1);
}

static void a_hung_nic_is_waited_for_a_second_after_the_peers_word(void **state)
{
	uint64_t heard;

	(void)state;
	nic_of_rail_0_hangs();
	assert_true(switch_settles_at(conn(0)) == NEVER);
	heard = conn(0)->plan.since;
	w.now += 1;
	w_tick(&w, 0);
	assert_true(conn(0)->plan.since == heard); /* it waits, and does not begin to wait anew */
	w.now += 100 * MS;
	heard = w.now;
	hears_switch(0, 2, 1, SHIFT_FENCE_LEAVING); /* not fenced yet */
	assert_true(switch_settles_at(conn(0)) == NEVER);
	hears_switch(0, 2, 1, SHIFT_FENCE_PENDING);
	assert_true(switch_settles_at(conn(0)) == heard + SECOND);
	w.now += 500 * MS;
	hears_switch(0, 2, 1, SHIFT_FENCE_PENDING); /* a second copy does not begin it anew */
	w.now = heard + SECOND - 1;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_true(shift_conn_deadline(conn(0)) <= heard + SECOND);
	w.now = heard + SECOND;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_SETTLED);
}

/* Whichever is later: the target's quarantine, or that of our own NIC. */
static void both_quarantines_are_waited_for(void **state)
{
	const uint64_t start = w.now;

	(void)state;
	nic_of_rail_0_hangs();
	hears_switch(0, 2, 1, SHIFT_FENCE_PENDING);
	conn(0)->rail[1].dirty_until = start + 3 * SECOND;
	assert_true(switch_settles_at(conn(0)) == start + 3 * SECOND);
	w.now = start + 2 * SECOND;
	conn(0)->timeout_at = conn(0)->rto_at = NEVER - 1;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	conn(0)->rail[1].dirty_until = start;
	assert_true(switch_settles_at(conn(0)) == start + SECOND);
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
}

/* --- the give-up time (rule 17)
 * ----------------------------------------------------------------------------- */

static void no_switch_begins_after_the_giveup_time(void **state)
{
	static const struct {
		int64_t ns;
		enum shift_state then;
	} row[] = {{-1, SHIFT_ST_FENCE}, {0, SHIFT_ST_GIVEUP}, {1, SHIFT_ST_GIVEUP}};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown(state);
		setup(state);
		conn(0)->plan.trouble = w.now;
		w.now += 30 * SECOND + (uint64_t)row[i].ns;
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		assert_int_equal(w_state(&w, 0), row[i].then);
		if (row[i].then == SHIFT_ST_GIVEUP)
			assert_int_equal(w_view(&w, 0).reason, SHIFT_R_GIVEUP_TIME);
	}
}

/* In each state of a switch. */
static void a_switch_ends_at_the_giveup_time(void **state)
{
	static const enum shift_state in[] = {SHIFT_ST_FENCE, SHIFT_ST_NO_RAIL, SHIFT_ST_QUARANTINE,
					      SHIFT_ST_ARM, SHIFT_ST_SWITCHING};

	for (size_t i = 0; i < ROWS(in); i++) {
		uint64_t end;

		teardown(state);
		setup(state);
		cut_control_links();
		w.frozen_fence = in[i] == SHIFT_ST_FENCE;
		w.frozen_arm = in[i] == SHIFT_ST_ARM;
		w.fence_hung[0] = in[i] == SHIFT_ST_QUARANTINE;
		if (in[i] == SHIFT_ST_NO_RAIL) {
			w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
			w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
			break_rail_0(0);
			w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
			w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
		} else {
			w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		}
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), in[i]);
		end = conn(0)->plan.trouble + 30 * SECOND;
		assert_true(shift_conn_deadline(conn(0)) <= end);
		conn(0)->timeout_at = conn(0)->rto_at = NEVER - 1;
		assert_true(shift_conn_deadline(conn(0)) == end);
		w.now = end - 1;
		w_tick(&w, 0);
		assert_int_equal(w_state(&w, 0), in[i]);
		w.now = end;
		w_tick(&w, 0);
		assert_true(w_state(&w, 0) >= SHIFT_ST_GIVEUP);
		assert_int_equal(conn(0)->end_reason, SHIFT_R_GIVEUP_TIME);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(switch_is_repeated_at_doubling_times),
		WORLD_TEST(the_timeout_doubles),
		WORLD_TEST(a_rail_that_answers_is_waited_for),
		WORLD_TEST(an_impossible_rail_is_no_alternative),
		WORLD_TEST(an_older_answer_is_not_waited_for),
		WORLD_TEST(an_answer_in_the_moment_of_the_switch_counts),
		WORLD_TEST(each_epoch_has_its_own_patience),
		WORLD_TEST(pending_moves_the_timeout),
		WORLD_TEST(a_hung_nic_is_waited_for_a_second_after_the_peers_word),
		WORLD_TEST(both_quarantines_are_waited_for),
		WORLD_TEST(no_switch_begins_after_the_giveup_time),
		WORLD_TEST(a_switch_ends_at_the_giveup_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
