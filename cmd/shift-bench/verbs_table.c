/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/table.h"
#include "cmd/shift-bench/verbs_table.h"

static const cJSON *member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

/* The conclusion about a metric, or NULL. */
static const cJSON *result_of(const cJSON *bench_case, const char *metric)
{
	const cJSON *m;

	cJSON_ArrayForEach (m, member(bench_case, "results"))
		if (!strcmp(json_text(m, "metric"), metric))
			return m;
	return NULL;
}

static double median_of(const cJSON *bench_case, const char *metric, const char *side)
{
	return json_number(member(result_of(bench_case, metric), side), "median");
}

static double added(const cJSON *bench_case, const char *metric)
{
	return median_of(bench_case, metric, "shift") - median_of(bench_case, metric, "baseline");
}

static const char *other; /* the name of the other side; NULL: the columns have their names */

void verbs_head(const struct results *r)
{
	const cJSON *m = member(r->root, "machine");

	other = r->options->control ? "baseline'" : "shift";
	progress(NULL);
	printf("verbs: %g x %s, kernel %s; %s; seed %s\n", json_number(m, "processors"),
	       shown(json_text(m, "processor")), json_text(m, "kernel"),
	       shown(json_text(r->root, "nic")), json_text(r->root, "seed"));
	printf("instructions: %s\n", json_text(r->root, "instructions"));
	fflush(stdout);
}

static void print_columns(void)
{
	printf("%-16s %-44s   %-34s\n", "", "ns per work request", "instructions per work request");
	printf("%-16s %9s %9s %7s  %-16s   %9s %9s %9s  %s\n", "pattern", "baseline", other,
	       "ratio", "interval", "baseline", other, "added", "post + poll");
}

static void print_number(double value, int width, const char *sign)
{
	char text[32] = "-";

	if (!isnan(value))
		snprintf(text, sizeof(text), *sign ? "%+.1f" : "%.1f", value);
	printf(" %*s", width, text);
}

static void print_interval(const cJSON *ratio)
{
	char text[32] = "-";

	if (!strcmp(json_text(ratio, "difference"), "too few"))
		snprintf(text, sizeof(text), "too few runs");
	else
		snprintf(text, sizeof(text), "%.3f..%.3f%s", json_number(ratio, "low"),
			 json_number(ratio, "high"),
			 strcmp(json_text(ratio, "difference"), "none") ? "" : " =");
	printf("  %-16s", text);
}

static void print_time(const cJSON *bench_case)
{
	const cJSON *ratio = member(result_of(bench_case, "time"), "ratio");
	double value = json_number(ratio, "ratio");

	print_number(median_of(bench_case, "time", "baseline"), 9, "");
	print_number(median_of(bench_case, "time", "shift"), 9, "");
	if (isnan(value)) {
		printf(" %7s  %-16s", "-", "-");
		return;
	}
	printf(" %7.3f", value);
	print_interval(ratio);
}

void verbs_row(const cJSON *bench_case)
{
	progress(NULL);
	if (other)
		print_columns();
	other = NULL;
	printf("%-16s", json_text(bench_case, "id"));
	print_time(bench_case);
	printf("  ");
	print_number(median_of(bench_case, "instructions", "baseline"), 9, "");
	print_number(median_of(bench_case, "instructions", "shift"), 9, "");
	print_number(added(bench_case, "instructions"), 9, "+");
	if (!isnan(added(bench_case, "post")))
		printf("  %+.1f %+.1f", added(bench_case, "post"), added(bench_case, "poll"));
	putchar('\n');
	fflush(stdout);
}

static bool is_mix(const cJSON *bench_case)
{
	return cJSON_HasObjectItem(member(bench_case, "parameters"), "mix");
}

void verbs_foot(const struct results *r)
{
	size_t size = (size_t)cJSON_GetArraySize(r->cases), n = 0;
	double *values = check_alloc(malloc((size + 1) * sizeof(*values)));
	const cJSON *c;

	progress(NULL);
	if (!other)
		puts("=: no difference can be shown");
	cJSON_ArrayForEach (c, r->cases)
		if (is_mix(c) && !isnan(added(c, "instructions")))
			values[n++] = added(c, "instructions");
	values_sort(values, n);
	if (n > 1)
		printf("instructions added, of %zu seeds: median %.1f, most %.1f\n", n,
		       sorted_percentile(values, n, 0.5), values[n - 1]);
	free(values);
}

unsigned int verbs_more_than(const struct results *r, double bound)
{
	unsigned int n = 0;
	const cJSON *c;

	cJSON_ArrayForEach (c, r->cases) {
		double value = added(c, "instructions");

		if (isnan(value) || value <= bound)
			continue;
		say("verbs: %s: %.1f instructions added, at most %.0f", json_text(c, "id"), value,
		    bound);
		n++;
	}
	return n;
}
