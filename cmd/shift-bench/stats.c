/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
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

static void find_interval(struct ratio *r, const double *base, size_t base_count,
			  const double *other, size_t other_count, uint64_t state)
{
	size_t larger = base_count > other_count ? base_count : other_count;
	double *ratios = check_alloc(malloc(RATIO_ROUNDS * sizeof(*ratios)));
	double *room = check_alloc(malloc(larger * sizeof(*room)));

	for (int i = 0; i < RATIO_ROUNDS; i++) {
		double below = drawn_median(base, base_count, room, &state);

		ratios[i] = drawn_median(other, other_count, room, &state) / below;
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
	struct ratio r = {NAN, NAN, NAN, confidence, VERDICT_TOO_FEW};
	struct summary b = summary_of(base, base_count), o = summary_of(other, other_count);

	/* What is not above 0 has no ratio that means anything. */
	if (!base_count || !other_count || b.min <= 0 || o.min < 0)
		return r;
	r.ratio = o.median / b.median;
	if (base_count >= ratio_needs(confidence) && other_count >= ratio_needs(confidence))
		find_interval(&r, base, base_count, other, other_count, seed);
	r.verdict = verdict_of(&r);
	return r;
}
