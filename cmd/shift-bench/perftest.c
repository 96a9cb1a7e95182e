/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/perftest.h"

enum { WORDS = 32, LIMIT_MS = 120000 };

static size_t words_of(const char **words, const struct hosts *h, const struct perftest *p,
		       enum host host)
{
	size_t n = 0;

	words[n++] = p->program;
	words[n++] = "-F";
	words[n++] = "-d";
	words[n++] = h->nic[host];
	words[n++] = "-x";
	words[n++] = format_text("%ld", h->gid_index[host]);
	words[n++] = "-p";
	words[n++] = format_text("%d", PERFTEST_PORT);
	words[n++] = "-s";
	words[n++] = format_text("%ld", p->size);
	words[n++] = "-n";
	words[n++] = format_text("%ld", p->iterations);
	if (p->qps > 1) {
		words[n++] = "-q";
		words[n++] = format_text("%ld", p->qps);
	}
	if (p->both_ways)
		words[n++] = "-b";
	if (p->unsorted)
		words[n++] = "-U";
	if (p->events)
		words[n++] = "-e";
	if (host == HOST_A)
		words[n++] = h->peer;
	words[n] = NULL;
	return n;
}

int perftest_run(struct hosts *h, const struct perftest *p, const struct bench_options *o,
		 bool with_shift, struct pair_outcome *out)
{
	const char *words[HOSTS][WORDS];
	struct pair_words w = {.environment = o->environment,
			       .with_shift = with_shift,
			       .port = PERFTEST_PORT,
			       .limit_ms = LIMIT_MS};

	for (int i = 0; i < HOSTS; i++) {
		words_of(words[i], h, p, i);
		w.words[i] = words[i];
	}
	return pair_run(h, &w, out);
}

/* ---- what it prints ------------------------------------------------------------------------- */

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : NULL;
}

/* "17, 3.42". Versions differ in blanks only. */
static bool latency_of(const char *line, double *us)
{
	long number;
	int used = 0;

	if (sscanf(line, " %ld , %lf%n", &number, us, &used) != 2 || number < 1)
		return false;
	/* perftest measures its clock's rate first. If the machine was away then, it takes it for
	 * 0. */
	if (!isfinite(*us) || *us <= 0)
		return false;
	return strchr(" \t\r\n", line[used]) != NULL; /* or the end */
}

double *perftest_latencies(const char *output, size_t *count)
{
	size_t size = 1;
	double *values;

	for (const char *l = output; l; l = next_line(l))
		size++;
	values = check_alloc(malloc(size * sizeof(*values)));
	*count = 0;
	for (const char *l = output; l; l = next_line(l))
		if (latency_of(l, &values[*count]))
			++*count;
	return values;
}

bool perftest_bandwidth(const char *output, struct bandwidth *b)
{
	double size, iterations, peak, average, million;

	for (const char *l = output; l; l = next_line(l))
		if (sscanf(l, "%lf %lf %lf %lf %lf", &size, &iterations, &peak, &average,
			   &million) == 5) {
			b->mib_per_s = average;
			/* Computed: perftest's own has few digits. */
			b->messages_per_s = size > 0 ? average * 1048576 / size : million * 1e6;
			return true;
		}
	return false;
}
