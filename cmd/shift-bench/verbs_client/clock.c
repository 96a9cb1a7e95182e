/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The time of a work request: the median of many short stretches, because other work of the machine
 * disturbs only some of them. A stretch is shorter than the time that a thread has a processor.
 */
#include <stdlib.h>
#include <time.h>

#include "cmd/shift-bench/verbs_client/client.h"

enum { STRETCH_WRS = 400, STRETCHES_MAX = 4096 };

double client_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double client_median(double *values, uint64_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static uint64_t of_all(const struct stretches *s, uint64_t own)
{
	return own + (s->other ? __atomic_load_n(s->other, __ATOMIC_RELAXED) : 0);
}

static void next_stretch(struct stretches *s, uint64_t own)
{
	s->next = own + s->each;
	s->from = of_all(s, own);
	s->from_ns = client_now_ns();
}

void stretches_begin(struct stretches *s, uint64_t own, const uint64_t *other, uint64_t wrs)
{
	s->each = wrs / STRETCHES_MAX > STRETCH_WRS ? wrs / STRETCHES_MAX : STRETCH_WRS;
	s->ns = calloc(wrs / s->each + 2, sizeof(*s->ns));
	if (!s->ns)
		client_fail("calloc");
	s->count = 0;
	s->other = other;
	next_stretch(s, own);
}

void stretch_end(struct stretches *s, uint64_t own)
{
	double now = client_now_ns();

	s->ns[s->count++] = (now - s->from_ns) / (double)(of_all(s, own) - s->from);
	next_stretch(s, own);
}

double stretches_median(struct stretches *s)
{
	double median = s->count ? client_median(s->ns, s->count) : 0;

	free(s->ns);
	s->ns = NULL;
	return median;
}
