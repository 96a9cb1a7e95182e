/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/table.h"

static const char *number(char text[24], double value)
{
	if (isnan(value))
		snprintf(text, 24, "-");
	else if (fabs(value) >= 10000)
		snprintf(text, 24, "%.0f", value);
	else
		snprintf(text, 24, "%.4g", value);
	return text;
}

static const cJSON *member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

void table_head(const struct results *r)
{
	const cJSON *t = member(r->root, "testbed"), *m = member(r->root, "machine");

	progress(NULL);
	printf("%s: %g x %s, kernel %s", json_text(r->root, "command"),
	       json_number(m, "processors"), shown(json_text(m, "processor")),
	       json_text(m, "kernel"));
	if (t)
		printf("; testbed %s, layout %s", shown(json_text(t, "name")),
		       shown(json_text(t, "layout")));
	printf("; seed %s\n", json_text(r->root, "seed"));
	table_columns(r);
}

void table_columns(const struct results *r)
{
	printf("%-34s %-18s %10s %22s %10s %22s %7s  %s\n", "case", "metric", "baseline",
	       "min..max", r->options->control ? "baseline'" : "shift", "min..max", "ratio",
	       "interval");
	fflush(stdout);
}

static void print_summary(const cJSON *s)
{
	char median[24], min[24], max[24], range[52];

	number(min, json_number(s, "min"));
	number(max, json_number(s, "max"));
	snprintf(range, sizeof(range), "%s..%s", min, max);
	printf(" %10s %22s", number(median, json_number(s, "median")), range);
}

static void print_ratio(const cJSON *r)
{
	const char *difference = json_text(r, "difference");
	double ratio = json_number(r, "ratio");

	if (isnan(ratio)) {
		printf("       -\n");
		return;
	}
	printf(" %7.3f  ", ratio);
	if (!strcmp(difference, "too few")) {
		printf("too few repetitions for an interval\n");
		return;
	}
	printf("%.3f..%.3f%s\n", json_number(r, "low"), json_number(r, "high"),
	       !strcmp(difference, "none") ? "  no difference can be shown" : "");
}

/* The worst that happened to the machine during the samples that count. */
static void print_away(const cJSON *bench_case)
{
	const cJSON *s, *v;
	double steal = 0, pause = 0;
	int failed = 0;

	cJSON_ArrayForEach (s, member(bench_case, "samples")) {
		const cJSON *away = member(s, "away");

		failed += cJSON_HasObjectItem(s, "failure");
		if (cJSON_IsTrue(member(s, "warmup")))
			continue;
		pause = fmax(pause, json_number(away, "pause_max_ms"));
		cJSON_ArrayForEach (v, member(away, "steal_share"))
			steal = fmax(steal, cJSON_GetNumberValue(v));
	}
	printf("%34s machine: at most %.0f %% stolen in a run, longest pause %.0f ms", "",
	       steal * 100, pause);
	if (failed)
		printf("; %d runs failed", failed);
	putchar('\n');
}

static bool has_values(const cJSON *of_metric)
{
	return !isnan(json_number(member(of_metric, "baseline"), "median")) ||
	       !isnan(json_number(member(of_metric, "shift"), "median"));
}

void table_case(const cJSON *bench_case)
{
	const cJSON *metric, *list = member(bench_case, "metrics");
	int i = 0;

	progress(NULL);
	cJSON_ArrayForEach (metric, list) {
		const cJSON *c = cJSON_GetArrayItem(member(bench_case, "results"), i);
		char name[64];

		if (i++ && !has_values(c))
			continue; /* it is not of this case */
		snprintf(name, sizeof(name), "%s %s", json_text(metric, "name"),
			 json_text(metric, "unit"));
		printf("%-34s %-18s", i > 1 ? "" : json_text(bench_case, "id"), name);
		print_summary(member(c, "baseline"));
		print_summary(member(c, "shift"));
		print_ratio(member(c, "ratio"));
	}
	print_away(bench_case);
	fflush(stdout);
}

size_t differences(const struct results *r, size_t *of)
{
	const cJSON *c, *m;
	size_t shown_count = 0;

	*of = 0;
	cJSON_ArrayForEach (c, r->cases)
		cJSON_ArrayForEach (m, member(c, "results")) {
			const char *d = json_text(member(m, "ratio"), "difference");

			*of += strcmp(d, "too few") != 0;
			shown_count += !strcmp(d, "less") || !strcmp(d, "more");
		}
	return shown_count;
}

void table_foot(const struct results *r)
{
	size_t of, count = differences(r, &of);
	double level = r->options->confidence;

	progress(NULL);
	printf("ratio: median of %s / median of baseline, with its bootstrap interval at %g %%\n",
	       r->options->control ? "the second baseline" : "shift", level * 100);
	printf("a difference was shown in %zu of %zu; by chance alone about %.1f were to be "
	       "expected\n",
	       count, of, (double)of * (1 - level));
	fflush(stdout);
}

void progress(const char *text)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s", text ? text : "");
}
