/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* WRs outstanding, probes fine, and no completion (lib/core/progress.c). */
#include "tests/unit/fixture.h"

static void until_asked(uint64_t times)
{
	for (int i = 0; i < 100 && stats(0)->no_progress_asked < times; i++)
		w_run(&w, 1);
	assert_int_equal(stats(0)->no_progress_asked, times);
}

static void no_progress_with_a_dead_ack_path(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.ack_cut[0] = true;
	until_asked(3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).e, 0);
	until_asked(4);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(w.h[0].completed, 1);
}

static void no_progress_with_a_dead_data_path(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.data_cut[0] = true;
	w_run(&w, 20);
	assert_int_equal(stats(0)->no_progress_asked, 4);
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(w.h[0].completed, 1);
}

static void what_goes_on_by_itself_is_left_alone(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	for (int i = 1; i <= 3; i++) { /* a step forward begins the count anew */
		w.data_cut[0] = true;
		until_asked(3 * (uint64_t)i);
		w.data_cut[0] = false;
		w_run(&w, 1);
		assert_int_equal(w.h[0].completed, i);
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	}
	assert_int_equal(w_view(&w, 0).e, 0);
}

static void a_slow_program_is_left_alone(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_run(&w, 30); /* eight receives only */
	assert_true(stats(0)->no_progress_asked >= 2);
	assert_int_equal(w_view(&w, 0).e, 0);
	w_recv(&w, 1);
	assert_true(w_settle(&w, 5));
	assert_int_equal(w.h[0].completed, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(no_progress_with_a_dead_ack_path),
		WORLD_TEST(no_progress_with_a_dead_data_path),
		WORLD_TEST(what_goes_on_by_itself_is_left_alone),
		WORLD_TEST(a_slow_program_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
