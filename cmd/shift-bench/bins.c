/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/bench.h"
#include "cmd/shift-bench/bins.h"
#include "cmd/shift-bench/stats.h"

#define MIB 1048576.0

/* How many numbers stand in the line; no more than fit. */
static size_t numbers_of(const char *line, double numbers[COLUMNS_MAX + 1])
{
	size_t n = 0;
	char *end;

	while (n <= COLUMNS_MAX && *line && *line != '\n') {
		numbers[n] = strtod(line, &end);
		if (end == line)
			break;
		line = end;
		n++;
	}
	return n;
}

static void add_line(struct counts *c, const double *numbers, size_t n)
{
	if (n < 2)
		return;
	if (!c->lines) {
		c->columns = n - 1;
		c->began_unix_ms = numbers[0] * 1000;
	}
	if (n - 1 != c->columns)
		return;
	c->at_ms[c->lines] = numbers[0] * 1000 - c->began_unix_ms;
	if (c->lines && c->at_ms[c->lines] <= c->at_ms[c->lines - 1])
		return; /* the clock was set */
	for (size_t i = 0; i < c->columns; i++)
		c->bytes[i][c->lines] = numbers[i + 1];
	c->lines++;
}

void counts_parse(struct counts *c, const char *text)
{
	double numbers[COLUMNS_MAX + 1];
	size_t room = 2;

	for (const char *s = text; *s; s++)
		room += *s == '\n';
	memset(c, 0, sizeof(*c));
	c->at_ms = check_alloc(calloc(room, sizeof(double)));
	for (size_t i = 0; i < COLUMNS_MAX; i++)
		c->bytes[i] = check_alloc(calloc(room, sizeof(double)));
	for (const char *l = text; l && *l; l = strchr(l, '\n') ? strchr(l, '\n') + 1 : NULL)
		add_line(c, numbers, numbers_of(l, numbers));
}

void counts_free(struct counts *c)
{
	free(c->at_ms);
	for (size_t i = 0; i < COLUMNS_MAX; i++)
		free(c->bytes[i]);
	memset(c, 0, sizeof(*c));
}

/* The counter at that moment; *line: where to look first, as moments ascend. */
static double count_at(const struct counts *c, size_t column, double ms, size_t *line)
{
	const double *b = c->bytes[column];
	double share;

	while (*line + 2 < c->lines && c->at_ms[*line + 1] < ms)
		++*line;
	share = (ms - c->at_ms[*line]) / (c->at_ms[*line + 1] - c->at_ms[*line]);
	return b[*line] + (b[*line + 1] - b[*line]) * share;
}

double *counts_rates(const struct counts *c, size_t column, size_t *count)
{
	double *rates, before, after;
	size_t line = 0;

	*count = c->lines < 2 ? 0 : (size_t)(c->at_ms[c->lines - 1] / BIN_MS);
	rates = check_alloc(calloc(*count + 1, sizeof(double)));
	if (!*count)
		return rates;
	before = count_at(c, column, 0, &line);
	for (size_t i = 0; i < *count; i++) {
		after = count_at(c, column, (double)(i + 1) * BIN_MS, &line);
		rates[i] = (after - before) / MIB * 1000 / BIN_MS;
		before = after;
	}
	return rates;
}

double rates_median(const double *rates, size_t count, double from_ms, double to_ms)
{
	double *some = check_alloc(calloc(count + 1, sizeof(double))), median = NAN;
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if ((double)i * BIN_MS >= from_ms && (double)(i + 1) * BIN_MS <= to_ms)
			some[n++] = rates[i];
	if (n) {
		values_sort(some, n);
		median = sorted_percentile(some, n, 0.5);
	}
	free(some);
	return median;
}

double rates_gap_ms(const double *rates, size_t count, double rate, double share)
{
	size_t longest = 0, now = 0;

	for (size_t i = 0; i < count; i++) {
		now = rates[i] < rate * share ? now + 1 : 0;
		longest = now > longest ? now : longest;
	}
	return (double)longest * BIN_MS;
}
