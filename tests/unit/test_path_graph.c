/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The waiting graph of shift-diag path: cases small enough to compute by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/path.h"

static void add(struct path_steps *s, int rank, int step, uint64_t start, uint64_t end,
		int wait_rank, int wait_step)
{
	struct path_step *made = path_step_add(s);

	made->rank = rank;
	made->step = step;
	made->start_ns = start;
	made->end_ns = end;
	made->bytes = 100;
	made->wait_rank = wait_rank;
	made->wait_step = wait_step;
}

static void build(struct path_steps *s, struct path_graph *g)
{
	int rank, step;

	assert_int_equal(path_graph_build(s, g, &rank, &step), 0);
}

static void expect_path(const struct path_steps *s, const struct path_graph *g,
			const int (*want)[2], size_t n)
{
	assert_int_equal(g->critical_n, n);
	for (size_t k = 0; k < n; k++) {
		assert_int_equal(s->step[g->critical[k]].rank, want[k][0]);
		assert_int_equal(s->step[g->critical[k]].step, want[k][1]);
	}
}

static void done(struct path_steps *s, struct path_graph *g)
{
	path_graph_free(g);
	path_steps_free(s);
}

/* Figure 4: a ring reduce-scatter of four, three steps; rank 1's first step is slow. F2S2 waits for
 * F1S1, F3S3 for F2S2. */
static void test_a_slow_step_is_passed_on_along_the_ring(void **state)
{
	static const int want[][2] = {{1, 1}, {2, 2}, {3, 3}};
	struct path_steps s = {0};
	struct path_graph g;

	(void)state;
	for (int r = 0; r < 4; r++)
		add(&s, r, 1, 0, r == 1 ? 35 : 10, PATH_NONE, PATH_NONE);
	add(&s, 0, 2, 10, 20, 3, 1);
	add(&s, 1, 2, 35, 45, PATH_NONE, PATH_NONE); /* the data had come: not waiting */
	add(&s, 2, 2, 35, 45, 1, 1);
	add(&s, 3, 2, 10, 20, 2, 1);
	add(&s, 0, 3, 20, 30, 3, 2);
	add(&s, 1, 3, 45, 55, PATH_NONE, PATH_NONE);
	add(&s, 2, 3, 45, 55, 1, 2);
	add(&s, 3, 3, 45, 56, 2, 2);
	build(&s, &g);
	expect_path(&s, &g, want, 3);
	assert_int_equal(g.total_ns, 56);
	assert_int_equal(g.makespan_ns, 56);
	assert_int_equal(g.gap_ns, 0);
	assert_int_equal(g.missing, 0);
	/* Nobody waited for F0S1 and F0S2, and so nobody for F3S1, for which F0S2 waited. */
	assert_int_equal(g.kept_n, s.n - 3);
	for (size_t i = 0; i < s.n; i++)
		assert_int_equal(g.kept[i], !(s.step[i].rank == 0 && s.step[i].step < 3) &&
						    !(s.step[i].rank == 3 && s.step[i].step == 1));
	done(&s, &g);
}

/* Nobody waits for F1S2, and so nobody for F2S1, for which it waited. */
static void test_pruning_goes_on(void **state)
{
	struct path_steps s = {0};
	struct path_graph g;

	(void)state;
	add(&s, 1, 1, 0, 10, PATH_NONE, PATH_NONE);
	add(&s, 1, 2, 10, 20, 2, 1);
	add(&s, 1, 3, 20, 30, 3, 1);
	add(&s, 2, 1, 0, 10, PATH_NONE, PATH_NONE);
	add(&s, 2, 2, 12, 20, 3, 1);
	add(&s, 3, 1, 0, 12, PATH_NONE, PATH_NONE);
	build(&s, &g);
	/* Kept: the last ones (1,3), (2,2), (3,1). */
	assert_int_equal(g.kept_n, 3);
	assert_false(g.kept[0]);
	assert_false(g.kept[1]);
	assert_true(g.kept[2]);
	assert_false(g.kept[3]);
	assert_true(g.kept[4]);
	assert_true(g.kept[5]);
	done(&s, &g);
}

/* Milliseconds would choose the other one: 1.9 + 1.9 ms are more than 2.0 + 1.0. */
static void test_the_path_is_exact_in_ns(void **state)
{
	static const int want[][2] = {{1, 1}, {1, 2}};
	struct path_steps s = {0};
	struct path_graph g;

	(void)state;
	add(&s, 0, 1, 0, 2000000, PATH_NONE, PATH_NONE);
	add(&s, 0, 2, 2000000, 3000000, PATH_NONE, PATH_NONE);
	add(&s, 1, 1, 0, 1900000, PATH_NONE, PATH_NONE);
	add(&s, 1, 2, 1900000, 3800001, PATH_NONE, PATH_NONE);
	build(&s, &g);
	expect_path(&s, &g, want, 2);
	assert_int_equal(g.total_ns, 3800001);
	done(&s, &g);
}

static void test_of_two_that_are_as_long_the_data_counts(void **state)
{
	static const int want[][2] = {{1, 1}, {0, 2}};
	struct path_steps s = {0};
	struct path_graph g;

	(void)state;
	add(&s, 0, 1, 0, 10, PATH_NONE, PATH_NONE);
	add(&s, 1, 1, 0, 10, PATH_NONE, PATH_NONE);
	add(&s, 0, 2, 10, 20, 1, 1);
	build(&s, &g);
	expect_path(&s, &g, want, 2);
	done(&s, &g);
}

static void test_idle_time_on_the_path_is_told_with_its_rank(void **state)
{
	struct path_steps s = {0};
	struct path_graph g;

	(void)state;
	add(&s, 5, 1, 100, 110, PATH_NONE, PATH_NONE);
	add(&s, 5, 2, 113, 120, PATH_NONE, PATH_NONE);
	add(&s, 7, 3, 150, 160, 5, 2);
	build(&s, &g);
	assert_int_equal(g.total_ns, 27);
	assert_int_equal(g.makespan_ns, 60);
	assert_int_equal(g.gap_ns, 33);
	assert_int_equal(g.gap_rank, 7);
	done(&s, &g);
}

static void test_bad_graphs_are_refused(void **state)
{
	struct path_steps s = {0};
	struct path_graph g;
	int rank = -1, step = -1;

	(void)state;
	assert_int_equal(path_graph_build(&s, &g, &rank, &step), -ENODATA);
	add(&s, 0, 1, 0, 1, 1, 1);
	add(&s, 1, 1, 0, 1, 0, 1);
	assert_int_equal(path_graph_build(&s, &g, &rank, &step), -ELOOP);
	assert_int_equal(rank, 0);
	assert_int_equal(step, 1);
	path_graph_free(&g);
	add(&s, 1, 1, 0, 1, PATH_NONE, PATH_NONE);
	assert_int_equal(path_graph_build(&s, &g, &rank, &step), -EEXIST);
	assert_int_equal(rank, 1);
	done(&s, &g);
}

static void test_what_is_missing_is_counted_and_not_waited_for(void **state)
{
	struct path_steps s = {0};
	struct path_graph g;

	(void)state;
	add(&s, 0, 1, 0, 10, PATH_NONE, PATH_NONE);
	add(&s, 0, 2, 10, 20, 9, 1);
	build(&s, &g);
	assert_int_equal(g.missing, 1);
	assert_int_equal(g.total_ns, 20);
	done(&s, &g);
}

static void test_expected_durations_come_from_the_fastest_per_byte(void **state)
{
	struct path_steps s = {0};

	(void)state;
	add(&s, 0, 1, 0, 50, PATH_NONE, PATH_NONE);
	add(&s, 0, 2, 50, 150, PATH_NONE, PATH_NONE);
	s.step[1].bytes = 1000; /* 0.1 ns per byte */
	add(&s, 0, 3, 150, 160, PATH_NONE, PATH_NONE);
	s.step[2].expected_ns = 7;
	assert_int_equal(path_steps_expect(&s), 2);
	assert_int_equal(s.step[0].expected_ns, 10);
	assert_int_equal(s.step[1].expected_ns, 100);
	assert_int_equal(s.step[2].expected_ns, 7);
	assert_int_equal(path_step_excess_ns(s.step), 40);
	s.step[2].expected_ns = 70; /* faster than expected: not negative */
	assert_int_equal(path_step_excess_ns(s.step + 2), 0);
	path_steps_free(&s);
}

/* A ring of N ranks with S steps: each step and each edge is visited a bounded number of times. */
static size_t ring_visits(int ranks, int steps)
{
	struct path_steps s = {0};
	struct path_graph g;
	size_t visits;

	for (int r = 0; r < ranks; r++)
		for (int k = 1; k <= steps; k++)
			add(&s, r, k, (uint64_t)k * 10, (uint64_t)k * 10 + 10,
			    k > 1 ? (r + ranks - 1) % ranks : PATH_NONE, k - 1);
	build(&s, &g);
	assert_int_equal(g.total_ns, (uint64_t)steps * 10);
	visits = g.visits;
	done(&s, &g);
	return visits;
}

static void test_the_work_grows_as_ranks_times_steps(void **state)
{
	(void)state;
	/* A step, its two edges, and at most one pruning. */
	assert_in_range(ring_visits(8, 14), 8 * 14, 4 * 8 * 14);
	assert_in_range(ring_visits(1024, 14), 1024 * 14, 4 * 1024 * 14);
	assert_in_range(ring_visits(1024, 128), 1024 * 128, 4 * 1024 * 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_slow_step_is_passed_on_along_the_ring),
		cmocka_unit_test(test_pruning_goes_on),
		cmocka_unit_test(test_the_path_is_exact_in_ns),
		cmocka_unit_test(test_of_two_that_are_as_long_the_data_counts),
		cmocka_unit_test(test_idle_time_on_the_path_is_told_with_its_rank),
		cmocka_unit_test(test_bad_graphs_are_refused),
		cmocka_unit_test(test_what_is_missing_is_counted_and_not_waited_for),
		cmocka_unit_test(test_expected_durations_come_from_the_fastest_per_byte),
		cmocka_unit_test(test_the_work_grows_as_ranks_times_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
