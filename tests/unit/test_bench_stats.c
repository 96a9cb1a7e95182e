/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-bench's statistics: what is the same is called the same, what is not is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/shift-bench/stats.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void assert_near(double value, double expected)
{
	if (fabs(value - expected) > 1e-9)
		fail_msg("%g is not %g", value, expected);
}

static void percentiles_are_interpolated(void **state)
{
	const double v[] = {1, 2, 3, 4};

	(void)state;
	assert_near(sorted_percentile(v, 4, 0), 1);
	assert_near(sorted_percentile(v, 4, 0.5), 2.5);
	assert_near(sorted_percentile(v, 4, 1), 4);
	assert_near(sorted_percentile(v, 4, 0.9), 3.7);
	assert_near(sorted_percentile(v, 1, 0.999), 1);
}

static void summary_needs_no_order(void **state)
{
	const double v[] = {9, 1, 4};
	struct summary s = summary_of(v, 3);

	(void)state;
	assert_int_equal(s.count, 3);
	assert_near(s.median, 4);
	assert_near(s.min, 1);
	assert_near(s.max, 9);
	assert_near(s.mean, 14.0 / 3);
	assert_near(s.deviation * s.deviation, 49.0 / 3);
	assert_near(v[0], 9); /* and leaves the values alone */
	assert_true(isnan(summary_of(v, 0).median));
	assert_true(isnan(summary_of(v, 1).deviation));
}

static void as_many_values_as_the_level_needs(void **state)
{
	(void)state;
	assert_int_equal(ratio_needs(0.5), 2);
	assert_int_equal(ratio_needs(0.95), 6);
	assert_int_equal(ratio_needs(0.99), 8);
}

static void too_few_values_have_a_ratio_and_no_interval(void **state)
{
	const double a[] = {1, 1, 1, 1, 1, 1, 1}, b[] = {2, 2, 2, 2, 2, 2, 2, 2};
	struct ratio r = ratio_of_medians(a, 7, b, 8, 0.99, 1);

	(void)state;
	assert_near(r.ratio, 2);
	assert_true(isnan(r.low) && isnan(r.high));
	assert_int_equal(r.verdict, VERDICT_TOO_FEW);
}

static void what_has_no_ratio_has_none(void **state)
{
	const double zero[8] = {0}, one[] = {1, 1, 1, 1, 1, 1, 1, 1};

	(void)state;
	assert_true(isnan(ratio_of_medians(zero, 8, one, 8, 0.99, 1).ratio));
	assert_int_equal(ratio_of_medians(zero, 8, one, 8, 0.99, 1).verdict, VERDICT_TOO_FEW);
	assert_true(isnan(ratio_of_medians(one, 8, one, 0, 0.99, 1).ratio));
}

static void a_difference_beyond_the_noise_is_shown(void **state)
{
	const double a[] = {100, 101, 99, 100, 102, 98, 100, 101};
	const double b[] = {110, 111, 109, 110, 112, 108, 110, 111};
	struct ratio up = ratio_of_medians(a, 8, b, 8, 0.99, 1);
	struct ratio down = ratio_of_medians(b, 8, a, 8, 0.99, 1);

	(void)state;
	assert_int_equal(up.verdict, VERDICT_MORE);
	assert_int_equal(down.verdict, VERDICT_LESS);
	assert_true(up.low > 1.05 && up.low <= up.ratio && up.ratio <= up.high && up.high < 1.15);
}

static void the_same_seed_gives_the_same_interval(void **state)
{
	const double a[] = {5, 7, 6, 9, 3, 8, 7, 6, 5}, b[] = {6, 8, 3, 9, 9, 4, 7, 5, 8};
	struct ratio x = ratio_of_medians(a, 9, b, 9, 0.95, 7);
	struct ratio y = ratio_of_medians(a, 9, b, 9, 0.95, 7);

	(void)state;
	assert_true(x.low == y.low && x.high == y.high);
}

/* Noise with a long tail, as a machine makes that is away now and then. */
static double noise(uint64_t *state, double size)
{
	double u = (double)(random_next(state) >> 11) / 9007199254740992.0;
	double v = 100 + size * u;

	return random_below(state, 10) ? v : v * 1.5;
}

enum { TRIALS = 400, N = 10 };

static int found(double factor, double confidence)
{
	uint64_t state = 42;
	int n = 0;

	for (int t = 0; t < TRIALS; t++) {
		double a[N], b[N];
		enum verdict v;

		for (int i = 0; i < N; i++) {
			a[i] = noise(&state, 10);
			b[i] = noise(&state, 10) * factor;
		}
		v = ratio_of_medians(a, N, b, N, confidence, (uint64_t)t).verdict;
		n += v == VERDICT_MORE || v == VERDICT_LESS;
	}
	return n;
}

/* The control: what is the same differs no more often than the level says. */
static void the_level_holds(void **state)
{
	(void)state;
	assert_in_range(found(1, 0.99), 0, TRIALS / 100 + 2);
	assert_in_range(found(1, 0.9), 0, TRIALS / 10);
}

static void a_slower_one_is_found(void **state)
{
	(void)state;
	assert_in_range(found(1.3, 0.99), TRIALS * 7 / 10, TRIALS);
}

static void the_change_of_the_machine_is_taken_out(void **state)
{
	double base[] = {10, 11, 10, 9, 10, 11, 10, 9}, shift[] = {11, 12, 11, 10, 11, 12, 11, 10};
	double slow_base[8], slow_shift[8], worse[8];
	struct samples_of old = {base, shift, 8, 8}, slow = {slow_base, slow_shift, 8, 8};
	struct samples_of bad = {slow_base, worse, 8, 8};

	(void)state;
	for (size_t i = 0; i < COUNT(base); i++) {
		slow_base[i] = base[i] * 3;
		slow_shift[i] = shift[i] * 3;
		worse[i] = shift[i] * 4;
	}
	assert_int_equal(ratio_of_ratios(&old, &slow, 0.99, 1).verdict, VERDICT_NONE);
	assert_near(ratio_of_ratios(&old, &slow, 0.99, 1).ratio, 1);
	assert_int_equal(ratio_of_ratios(&old, &bad, 0.95, 1).verdict, VERDICT_MORE);
	bad.other_count = 5;
	assert_int_equal(ratio_of_ratios(&old, &bad, 0.95, 1).verdict, VERDICT_TOO_FEW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_interpolated),
		cmocka_unit_test(summary_needs_no_order),
		cmocka_unit_test(as_many_values_as_the_level_needs),
		cmocka_unit_test(too_few_values_have_a_ratio_and_no_interval),
		cmocka_unit_test(what_has_no_ratio_has_none),
		cmocka_unit_test(a_difference_beyond_the_noise_is_shown),
		cmocka_unit_test(the_same_seed_gives_the_same_interval),
		cmocka_unit_test(the_level_holds),
		cmocka_unit_test(a_slower_one_is_found),
		cmocka_unit_test(the_change_of_the_machine_is_taken_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
