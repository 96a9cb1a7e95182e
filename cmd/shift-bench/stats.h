/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Statistics of a few repetitions. Pure: no clock, no files, the same seed gives the same answer.
 */
#ifndef SHIFT_BENCH_STATS_H
#define SHIFT_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

/* splitmix64. Any seed will do. */
uint64_t random_next(uint64_t *state);

/* In 0..bound-1, bound > 0. */
size_t random_below(uint64_t *state, size_t bound);

/* Ascending. */
void values_sort(double *values, size_t count);

/* Of sorted values, count > 0; share in 0..1. Between two values it is interpolated linearly. */
double sorted_percentile(const double *sorted, size_t count, double share);

struct summary {
	size_t count; /* 0: the rest is NAN */
	double median, min, max, mean, deviation;
};

struct summary summary_of(const double *values, size_t count);

enum verdict {
	VERDICT_TOO_FEW, /* repetitions for an interval at this level */
	VERDICT_NONE,	 /* no difference can be shown: the interval contains 1 */
	VERDICT_LESS,	 /* the other is below the base */
	VERDICT_MORE,
};

struct ratio {
	double ratio, low,
		high;	   /* median of other / median of base, and its interval; may be NAN */
	double confidence; /* 0.99: what the interval is at */
	enum verdict verdict;
};

enum { RATIO_ROUNDS = 4000 };

/*
 * The ratio of the medians with its bootstrap interval: both sides are drawn again, with
 * replacement, RATIO_ROUNDS times, and the interval is what is left when (1 - confidence) / 2 of
 * the ratios are cut off at either end. Fewer values than ratio_needs() give no interval: the
 * median of n values lies outside their range with a chance of 2^(1-n), so that no interval drawn
 * from so few can keep the level.
 */
struct ratio ratio_of_medians(const double *base, size_t base_count, const double *other,
			      size_t other_count, double confidence, uint64_t seed);

struct samples_of {
	double *base, *other;
	size_t base_count, other_count;
};

/* The same of (other / base of after) / (other / base of before): all four are drawn again. */
struct ratio ratio_of_ratios(const struct samples_of *before, const struct samples_of *after,
			     double confidence, uint64_t seed);

/* How many values either side must have. */
size_t ratio_needs(double confidence);

#endif
