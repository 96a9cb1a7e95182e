/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Switches without a fault: by the operator, and back to rail 0. */
#include <string.h>

#include "tests/unit/fixture.h"

#define MS     1000000ull
#define SECOND 1000000000ull

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

/* The outstanding work did not drain within 200 ms: the next attempt gets 400 ms. */
static void a_slow_path_drains_longer_the_next_time(void **state)
{
	(void)state;
	w_post(&w, 1, SHIFT_OP_FETCH_ADD, 8, true);
	w.data_cut[0] = true;
	for (int i = 0; i < 2; i++) {
		w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
		w_msg(&w, 0);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
		w.now += SECOND * 3 / 10;
		w_tick(&w, 1);
		assert_int_equal(w_state(&w, 1), i ? SHIFT_ST_DRAIN : SHIFT_ST_ACTIVE);
		w.now += i ? 0 : SECOND * 4 / 10;
		w_tick(&w, 0);
		assert_int_equal(w_state(&w, 0), i ? SHIFT_ST_PREPARE : SHIFT_ST_ACTIVE);
	}
	w.data_cut[0] = false;
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w.h[1].completed, 1);
}

static void probes_pass(int rail, int n)
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
	probes_pass(0, 10);
	assert_int_equal(w_view(&w, 0).r, 1);
	probes_pass(0, 5);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w_view(&w, 1).r, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 2); /* rail 1 was left a moment ago and is still dirty */
	probes_pass(0, 17);
	assert_int_equal(w_view(&w, 0).r, 2);
	probes_pass(0, 20);
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_int_equal(w.h[0].completed, 2);
}

static void one_missed_probe_restarts_the_hold_down(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	probes_pass(0, 9);
	w_event(&w, 0, SHIFT_EV_PROBE_MISSED, 0);
	w_event(&w, 1, SHIFT_EV_PROBE_MISSED, 0);
	probes_pass(0, 9);
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void back_on_rail_0_the_data_path_only_counts(void **state)
{
	char line[256];

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	probes_pass(0, 40);
	assert_int_equal(w_view(&w, 0).r, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 10));
	shift_conn_dump(w.h[0].c, line, sizeof(line));
	assert_null(strstr(line, "tracked"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(operator_migrates),
		WORLD_TEST(a_planned_switch_never_risks_an_atomic),
		WORLD_TEST(a_slow_path_drains_longer_the_next_time),
		WORLD_TEST(fails_back_after_the_hold_down_which_doubles),
		WORLD_TEST(one_missed_probe_restarts_the_hold_down),
		WORLD_TEST(back_on_rail_0_the_data_path_only_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
