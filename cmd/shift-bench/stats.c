/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/stats.h"
#include "common/cli.h"

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

size_t random_below(uint64_t *state, size_t bound)
{
	return (size_t)((unsigned __int128)random_next(state) * bound >> 64);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void values_sort(double *values, size_t count)
{
	if (count)
		qsort(values, count, sizeof(*values), by_value);
}

double sorted_percentile(const double *sorted, size_t count, double share)
{
	double at = share * (double)(count - 1);
	size_t below = (size_t)at;

	if (below + 1 >= count)
		return sorted[count - 1];
	return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

static double *sorted_copy(const double *values, size_t count)
{
	double *copy = check_alloc(malloc((count + 1) * sizeof(*copy)));

	if (count)
		memcpy(copy, values, count * sizeof(*copy));
	values_sort(copy, count);
	return copy;
}

struct summary summary_of(const double *values, size_t count)
{
	struct summary s = {count, NAN, NAN, NAN, NAN, NAN};
	double *sorted, sum = 0, squares = 0;

	if (!count)
		return s;
	sorted = sorted_copy(values, count);
	s.median = sorted_percentile(sorted, count, 0.5);
	s.min = sorted[0];
	s.max = sorted[count - 1];
	for (size_t i = 0; i < count; i++)
		sum += sorted[i];
	s.mean = sum / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (sorted[i] - s.mean) * (sorted[i] - s.mean);
	s.deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : NAN;
	free(sorted);
	return s;
}

/* The median of as many values, drawn with replacement. */
static double drawn_median(const double *values, size_t count, double *room, uint64_t *state)
{
	for (size_t i = 0; i < count; i++)
		room[i] = values[random_below(state, count)];
	values_sort(room, count);
	return sorted_percentile(room, count, 0.5);
}

size_t ratio_needs(double confidence)
{
	size_t n = 2;

	while (1 - pow(2, 1 - (double)n) < confidence)
		n++;
	return n;
}

static enum verdict verdict_of(const struct ratio *r)
{
	if (isnan(r->low))
		return VERDICT_TOO_FEW;
	if (r->low > 1)
		return VERDICT_MORE;
	return r->high < 1 ? VERDICT_LESS : VERDICT_NONE;
}

static double drawn_ratio(const struct samples_of *s, double *room, uint64_t *state)
{
	double base = drawn_median(s->base, s->base_count, room, state);

	return drawn_median(s->other, s->other_count, room, state) / base;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t largest(const struct samples_of *s)
{
	return larger(s->base_count, s->other_count);
}

static bool have_ratio(const struct samples_of *s)
{
	/* What is not above 0 has no ratio that means anything. */
	return s->base_count && s->other_count && summary_of(s->base, s->base_count).min > 0 &&
	       summary_of(s->other, s->other_count).min > 0;
}

static bool are_enough(const struct samples_of *s, double confidence)
{
	size_t needs = ratio_needs(confidence);

	return s->base_count >= needs && s->other_count >= needs;
}

static double ratio_of(const struct samples_of *s)
{
	return summary_of(s->other, s->other_count).median /
	       summary_of(s->base, s->base_count).median;
}

/* before: NULL, or what after is divided by. */
static void find_interval(struct ratio *r, const struct samples_of *before,
			  const struct samples_of *after, uint64_t state)
{
	size_t size = larger(largest(after), before ? largest(before) : 0);
	double *ratios = check_alloc(malloc(RATIO_ROUNDS * sizeof(*ratios)));
	double *room = check_alloc(malloc(size * sizeof(*room)));

	for (int i = 0; i < RATIO_ROUNDS; i++) {
		ratios[i] = drawn_ratio(after, room, &state);
		if (before)
			ratios[i] /= drawn_ratio(before, room, &state);
	}
	values_sort(ratios, RATIO_ROUNDS);
	r->low = sorted_percentile(ratios, RATIO_ROUNDS, (1 - r->confidence) / 2);
	r->high = sorted_percentile(ratios, RATIO_ROUNDS, (1 + r->confidence) / 2);
	free(room);
	free(ratios);
}

struct ratio ratio_of_medians(const double *base, size_t base_count, const double *other,
			      size_t other_count, double confidence, uint64_t seed)
{
	struct samples_of s = {(double *)base, (double *)other, base_count, other_count};
	struct ratio r = {NAN, NAN, NAN, confidence, VERDICT_TOO_FEW};

	if (!have_ratio(&s))
		return r;
	r.ratio = ratio_of(&s);
	if (are_enough(&s, confidence))
		find_interval(&r, NULL, &s, seed);
	r.verdict = verdict_of(&r);
	return r;
}

struct ratio ratio_of_ratios(const struct samples_of *before, const struct samples_of *after,
			     double confidence, uint64_t seed)
{
	struct ratio r = {NAN, NAN, NAN, confidence, VERDICT_TOO_FEW};

	if (!have_ratio(before) || !have_ratio(after))
		return r;
	r.ratio = ratio_of(after) / ratio_of(before);
	if (are_enough(before, confidence) && are_enough(after, confidence))
		find_interval(&r, before, after, seed);
	r.verdict = verdict_of(&r);
	return r;
}
