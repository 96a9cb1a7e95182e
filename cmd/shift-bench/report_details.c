/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The plots of a sample's details: distributions, series and progress with their marks, phases; and
 * of what the machine was away. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/report.h"
#include "cmd/shift-bench/report_tree.h"

enum {
	WIDE = 760,
	NARROW = 360,
	PANEL_HEIGHT = 240,
	TIME_HEIGHT = 250,
	PANELS_MAX = 12,
	POINTS_MAX = 1000, /* of a series that are drawn */
	SERIES_MAX = 8,
	MARKS_MAX = 20,
	NINES_MAX = 5,
};

static const cJSON *detail_of(const cJSON *sample, const char *name)
{
	return report_member(report_member(sample, "detail"), name);
}

/* ---- distributions -------------------------------------------------------------------------- */

struct bin {
	double value, count;
};

static int by_value(const void *a, const void *b)
{
	const struct bin *p = a, *q = b;

	return (p->value > q->value) - (p->value < q->value);
}

/* All samples of a side together, ascending. The caller frees it. */
static struct bin *bins_of(const cJSON *bench_case, enum side side, size_t *count, double *total)
{
	const cJSON *s = NULL, *pair;
	struct bin *bins = NULL;

	*count = 0;
	*total = 0;
	while ((s = next_sample(bench_case, side, s)))
		cJSON_ArrayForEach (pair, report_member(detail_of(s, "distribution"), "bins")) {
			struct bin b = {cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 0)),
					cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 1))};

			if (!(b.value > 0) || !(b.count > 0) || !isfinite(b.value + b.count))
				continue;
			bins = check_alloc(realloc(bins, (*count + 1) * sizeof(*bins)));
			bins[(*count)++] = b;
			*total += b.count;
		}
	if (bins)
		qsort(bins, *count, sizeof(*bins), by_value);
	return bins;
}

/* Height is the count of nines: 90 % is 1, 99 % is 2. A point for each step that can be seen. */
static void write_distribution(FILE *s, enum side side, const struct bin *bins, size_t count,
			       double total)
{
	double sum = 0, shown_at = -1;

	fprintf(s, "$d%d << END\n", side);
	for (size_t i = 0; i < count; i++) {
		double nines;

		sum += bins[i].count;
		nines = sum < total ? -log10(1 - sum / total) : NINES_MAX + 1;
		if (nines - shown_at < 0.015 && i + 1 < count)
			continue;
		fprintf(s, "%.6g %.4f\n", bins[i].value, fmin(nines, NINES_MAX + 1));
		shown_at = nines;
	}
	fprintf(s, "NaN NaN\nEND\n");
}

static long draw_distribution(struct figures *f, struct bin *const bins[SIDES],
			      const size_t count[SIDES], const double total[SIDES],
			      const char *unit)
{
	FILE *s = f->plots.script;
	double low = INFINITY, high = 0;
	size_t number = plot_begin(&f->plots, NARROW, PANEL_HEIGHT);

	for (int side = 0; side < SIDES; side++) {
		if (count[side]) {
			low = fmin(low, bins[side][0].value);
			high = fmax(high, bins[side][count[side] - 1].value);
		}
		write_distribution(s, side, bins[side], count[side], total[side]);
	}
	fprintf(s, "set logscale x\nset xrange [%.9g:%.9g]\n", low / 1.05, high * 1.05);
	tics_125(f, "x", low / 1.05, high * 1.05);
	fprintf(s,
		"set yrange [0:%g]\n"
		"set ytics ('0' 0, '50 %%%%' 0.30103, '90 %%%%' 1, '99 %%%%' 2, '99.9 %%%%' 3, "
		"'99.99 %%%%' 4, '99.999 %%%%' 5)\n",
		fmax(2, fmin(NINES_MAX, floor(log10(fmax(total[0], total[1]))))));
	fprintf(s,
		"set xlabel '%s' textcolor " RGB "\n"
		"plot $d0 with steps lw 2 dt (6,4) lc " RGB ", $d1 with steps lw 2 lc " RGB "\n",
		plot_label(&f->plots, unit, 24), COLOUR_TEXT, COLOUR_BASELINE, COLOUR_SHIFT);
	return (long)number;
}

static void distribution_of(struct figures *f, const cJSON *bench_case)
{
	struct bin *bins[SIDES];
	size_t count[SIDES];
	double total[SIDES];
	struct worst_away away = {0};
	const cJSON *sample = next_sample(bench_case, SIDE_BASELINE, NULL);

	for (int side = 0; side < SIDES; side++)
		bins[side] = bins_of(bench_case, side, &count[side], &total[side]);
	if (count[0] + count[1]) {
		struct figure *one = figure_add(f, SECTION_DISTRIBUTIONS);
		const char *unit = json_text(detail_of(sample, "distribution"), "unit");

		away_add(&away, bench_case);
		one->title = json_text(bench_case, "id");
		one->description = format_text(
			"Which share of messages took at most how long: %.0f without "
			"shift, %.0f with it.",
			total[0], total[1]);
		one->caption = format_text("Machine: %s.", worst_away_text(&away));
		one->narrow = draw_distribution(
			f, bins, count, total, strcmp(unit, "us") && *unit ? unit : "microseconds");
	}
	for (int side = 0; side < SIDES; side++)
		free(bins[side]);
}

static bool has_distribution(const cJSON *bench_case)
{
	return detail_of(next_sample(bench_case, SIDE_BASELINE, NULL), "distribution") ||
	       detail_of(next_sample(bench_case, SIDE_SHIFT, NULL), "distribution");
}

/* All of them, or PANELS_MAX of them from the first to the last. */
static void distributions(struct figures *f, const cJSON *root)
{
	const cJSON *c;
	size_t count = 0, at = 0, drawn = 0;

	cJSON_ArrayForEach (c, report_cases(root))
		count += has_distribution(c);
	cJSON_ArrayForEach (c, report_cases(root)) {
		if (!has_distribution(c))
			continue;
		if (count <= PANELS_MAX || at * (PANELS_MAX - 1) >= drawn * (count - 1)) {
			distribution_of(f, c);
			drawn++;
		}
		at++;
	}
}

/* ---- series --------------------------------------------------------------------------------- */

/* Behind the n that are there already; whose: what each begins with. Returns how many there are. */
static size_t marks_of(const cJSON *sample, const char *whose, size_t n, double at_ms[MARKS_MAX],
		       const char **texts)
{
	const cJSON *m;

	cJSON_ArrayForEach (m, detail_of(sample, "marks")) {
		const char *host = json_text(m, "host");
		double at = json_number(m, "at_ms");

		if (n == MARKS_MAX || !isfinite(at))
			continue;
		at_ms[n] = at;
		texts[n++] = format_text("%s%.2f s: %s%s%s", whose, at / 1000, json_text(m, "what"),
					 *host ? ", host " : "", host);
	}
	texts[n] = NULL;
	return n;
}

/* Neighbours are averaged if there are too many. */
static double write_series(FILE *s, const cJSON *series, int at)
{
	const cJSON *values = report_member(series, "values"), *v;
	double bin_ms = json_number(series, "bin_ms"), sum = 0, most = 0;
	int count = cJSON_GetArraySize(values), together = (count - 1) / POINTS_MAX + 1, in = 0,
	    known = 0, bin = 0;

	bin_ms = bin_ms > 0 && isfinite(bin_ms) ? bin_ms : 100;
	fprintf(s, "$d%d << END\n", at);
	cJSON_ArrayForEach (v, values) {
		double value = cJSON_GetNumberValue(v);

		if (isfinite(value)) {
			sum += value;
			known++;
		}
		bin++;
		if (++in < together && bin < count)
			continue;
		if (known) {
			fprintf(s, "%.6g %.6g\n", (bin - in) * bin_ms / 1000, sum / known);
			most = fmax(most, sum / known);
		} else {
			fprintf(s, "\n"); /* a gap */
		}
		sum = in = known = 0;
	}
	fprintf(s, "%.6g NaN\nEND\n", bin * bin_ms / 1000);
	return most;
}

/* [[ms, value], ...]: not in bins. Every so many are drawn if there are too many, and where it goes
 * back. */
static double write_points(FILE *s, const cJSON *points, int at)
{
	int apart = cJSON_GetArraySize(points) / POINTS_MAX + 1, i = 0;
	double most = 0, before = -1;
	const cJSON *p;

	fprintf(s, "$d%d << END\n", at);
	cJSON_ArrayForEach (p, points) {
		double ms = cJSON_GetNumberValue(cJSON_GetArrayItem(p, 0)),
		       value = cJSON_GetNumberValue(cJSON_GetArrayItem(p, 1));

		if (!isfinite(ms) || !isfinite(value))
			continue;
		if (i++ % apart == 0 || value < before)
			fprintf(s, "%.6g %.6g\n", ms / 1000, value);
		most = fmax(most, value);
		before = value;
	}
	fprintf(s, "NaN NaN\nEND\n");
	return most;
}

static long draw_series(struct figures *f, const cJSON *const *series, size_t count,
			const double *at_ms, size_t mark_count, bool wide)
{
	static const char *const dashes[] = {"solid", "(7,3)", "(2,2)", "(9,3,2,3)"};
	size_t number = plot_begin(&f->plots, wide ? WIDE : NARROW, TIME_HEIGHT);
	FILE *s = f->plots.script;
	double most = 0;

	for (size_t i = 0; i < count; i++)
		most = fmax(most, cJSON_IsArray(series[i]) ? write_points(s, series[i], (int)i)
							   : write_series(s, series[i], (int)i));
	fprintf(s,
		"set yrange [0:%.9g]\nset xlabel 'seconds' textcolor " RGB "\nset tmargin 3.4\n"
		"set label '%s' at graph 0,1.19 left textcolor " RGB "\n",
		most > 0 ? most * 1.08 : 1, COLOUR_TEXT,
		plot_label(&f->plots,
			   cJSON_IsArray(series[0]) ? "steps" : json_text(series[0], "unit"), 24),
		COLOUR_TEXT);
	if (!wide)
		fprintf(s, "set ytics rotate by 0\n");
	for (size_t i = 0; i < mark_count; i++)
		fprintf(s,
			"set arrow from %.9g,graph 0 to %.9g,graph 1 nohead front lw 1.5 dt (4,3) "
			"lc " RGB "\nset label '%zu' at %.9g,graph %g center front textcolor " RGB
			"\n",
			at_ms[i] / 1000, at_ms[i] / 1000, COLOUR_MARK, i + 1, at_ms[i] / 1000,
			1.05 + 0.07 * (double)(i % 2), COLOUR_MARK);
	for (size_t i = 0; i < count; i++)
		fprintf(s, "%s$d%zu with steps lw 2 dt %s lc " RGB, i ? ", " : "plot ", i,
			dashes[i % 4], COLOUR_PART + (int)i % PARTS);
	fprintf(s, "\n");
	return (long)number;
}

static void timeline_of(struct figures *f, const cJSON *root, const cJSON *bench_case,
			enum side side, const cJSON *sample, const char *unit)
{
	const cJSON *series[SERIES_MAX], *s;
	const char **marks = check_alloc(calloc(MARKS_MAX + 1, sizeof(*marks)));
	const char **parts = check_alloc(calloc(SERIES_MAX + 1, sizeof(*parts)));
	double at_ms[MARKS_MAX];
	size_t count = 0, mark_count = marks_of(sample, "", 0, at_ms, marks);
	struct figure *one;

	cJSON_ArrayForEach (s, detail_of(sample, "series")) {
		if (count == SERIES_MAX || strcmp(json_text(s, "unit"), unit) != 0 ||
		    !cJSON_GetArraySize(report_member(s, "values")))
			continue;
		parts[count] = json_text(s, "name");
		series[count++] = s;
	}
	if (!count)
		return;
	one = figure_add(f, SECTION_TIMELINES);
	one->title = format_text("%s, %s", json_text(bench_case, "id"), side_title(root, side));
	one->description = format_text("%s over time, %zu lines; %zu events are marked.", unit,
				       count, mark_count);
	one->marks = marks;
	one->parts = parts;
	one->wide = draw_series(f, series, count, at_ms, mark_count, true);
	one->narrow = draw_series(f, series, count, at_ms, mark_count, false);
}

/* The first run of either side, a figure for each unit. */
static void timelines(struct figures *f, const cJSON *root)
{
	const cJSON *c, *s;
	int drawn = 0;

	cJSON_ArrayForEach (c, report_cases(root))
		for (int side = 0; side < SIDES && drawn < 2 * PANELS_MAX; side++) {
			const cJSON *sample = next_sample(c, side, NULL);
			const char *before = NULL;

			while (sample && !detail_of(sample, "series"))
				sample = next_sample(c, side, sample);
			cJSON_ArrayForEach (s, detail_of(sample, "series")) {
				const char *unit = json_text(s, "unit");

				if (before && !strcmp(before, unit))
					continue;
				before = unit;
				timeline_of(f, root, c, side, sample, unit);
				drawn++;
			}
		}
}

/* ---- progress of a training job ------------------------------------------------------------- */

/* The first run of a side that has some. */
static const cJSON *run_with_steps(const cJSON *bench_case, enum side side)
{
	const cJSON *sample = next_sample(bench_case, side, NULL);

	while (sample && !cJSON_GetArraySize(detail_of(sample, "steps")))
		sample = next_sample(bench_case, side, sample);
	return sample;
}

/* What the others are held against: the run without a failure and without shift. */
static const cJSON *unharmed_run(const cJSON *root)
{
	const cJSON *c;

	cJSON_ArrayForEach (c, report_cases(root))
		if (!strcmp(json_text(report_member(c, "parameters"), "scenario"), "none"))
			return run_with_steps(c, SIDE_BASELINE);
	return NULL;
}

/* Of both sides together, so that neighbours are told one after the other. */
static void sort_marks(size_t count, double *at_ms, const char **texts)
{
	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k && at_ms[k] < at_ms[k - 1]; k--) {
			double at = at_ms[k];
			const char *text = texts[k];

			at_ms[k] = at_ms[k - 1];
			texts[k] = texts[k - 1];
			at_ms[k - 1] = at;
			texts[k - 1] = text;
		}
}

static void progress_of_case(struct figures *f, const cJSON *root, const cJSON *bench_case)
{
	const cJSON *runs[SIDES + 1], *steps[SIDES + 1];
	const char **marks = check_alloc(calloc(MARKS_MAX + 1, sizeof(*marks)));
	const char **parts = check_alloc(calloc(SIDES + 2, sizeof(*parts)));
	double at_ms[MARKS_MAX];
	size_t count = 0, mark_count = 0;
	struct figure *one;

	for (int side = 0; side < SIDES; side++) {
		runs[count] = run_with_steps(bench_case, side);
		if (!runs[count])
			continue;
		parts[count] = side_title(root, side);
		mark_count = marks_of(runs[count], format_text("%s, ", parts[count]), mark_count,
				      at_ms, marks);
		count++;
	}
	if (!count)
		return;
	runs[count] = unharmed_run(root);
	if (runs[count] && runs[count] != runs[0])
		parts[count++] = "without shift, no failure";
	for (size_t i = 0; i < count; i++)
		steps[i] = detail_of(runs[i], "steps");
	sort_marks(mark_count, at_ms, marks);
	one = figure_add(f, SECTION_PROGRESS);
	one->title = json_text(bench_case, "id");
	one->description = format_text(
		"Steps that were done, over time, in %zu runs; %zu events are marked.", count,
		mark_count);
	one->marks = marks;
	one->parts = parts;
	one->wide = draw_series(f, steps, count, at_ms, mark_count, true);
	one->narrow = draw_series(f, steps, count, at_ms, mark_count, false);
}

static void progress_figures(struct figures *f, const cJSON *root)
{
	const cJSON *c;
	int drawn = 0;

	cJSON_ArrayForEach (c, report_cases(root))
		if (drawn++ < PANELS_MAX)
			progress_of_case(f, root, c);
}

/* ---- phases --------------------------------------------------------------------------------- */

struct stack {
	const char *label;
	double us[PARTS];
};

static double median_phase(const cJSON *bench_case, const char *name)
{
	const cJSON *s = NULL;
	double *values = NULL, median;
	size_t count = 0;

	while ((s = next_sample(bench_case, SIDE_SHIFT, s))) {
		double us = json_number(detail_of(s, "phases_us"), name);

		if (!(us >= 0) || !isfinite(us))
			continue;
		values = check_alloc(realloc(values, (count + 1) * sizeof(*values)));
		values[count++] = us;
	}
	median = count ? summary_of(values, count).median : 0;
	free(values);
	return median;
}

static long draw_stacks(struct figures *f, const struct stack *stacks, size_t count,
			size_t part_count, bool wide)
{
	int row = wide ? 28 : 44, height = (int)count * row + 70;
	size_t number = plot_begin(&f->plots, wide ? WIDE : NARROW, height), longest = 0;
	FILE *s = f->plots.script;

	for (size_t i = 0; i < count; i++)
		longest = fmax((double)longest, fmin(34, (double)strlen(stacks[i].label)));
	fprintf(s,
		"set border 1\nunset ytics\nset grid xtics noytics\nset yrange [0.4:%g]\n"
		"set xrange [0:*]\nset xlabel 'milliseconds' textcolor " RGB "\n"
		"set lmargin at screen %g\nset rmargin at screen 0.96\n"
		"set tmargin at screen %g\nset bmargin at screen %g\n",
		(double)count + (wide ? 0.6 : 0.85), COLOUR_TEXT,
		wide ? (double)(longest * 7 + 12) / WIDE : 0.03, 1 - 6.0 / height, 54.0 / height);
	for (size_t i = 0; i < count; i++)
		fprintf(s, "set label '%s' at graph 0,first %g %s front textcolor " RGB "\n",
			plot_label(&f->plots, stacks[i].label, wide ? 34 : 48),
			(double)(count - i) + (wide ? 0 : 0.42),
			wide ? "right offset character -0.8,0" : "left", COLOUR_TEXT);
	for (size_t part = 0; part < part_count; part++) {
		fprintf(s, "$d%zu << END\n", part);
		for (size_t i = 0; i < count; i++) {
			double from = 0, y = (double)(count - i) - (wide ? 0 : 0.1);

			for (size_t j = 0; j < part; j++)
				from += stacks[i].us[j] / 1000;
			fprintf(s, "%.6g %.4f %.6g %.6g %.4f %.4f\n", from, y, from,
				from + stacks[i].us[part] / 1000, y - 0.28, y + 0.28);
		}
		fprintf(s, "END\n");
	}
	for (size_t part = 0; part < part_count; part++)
		fprintf(s, "%s$d%zu using 1:2:3:4:5:6 with boxxyerror fill solid noborder lc " RGB,
			part ? ", " : "plot ", part, COLOUR_PART + (int)part);
	fprintf(s, "\n");
	return (long)number;
}

/* The names, in the order of the first sample that has them. */
static const char **phase_names(const cJSON *root, size_t *count)
{
	const char **names = check_alloc(calloc(PARTS + 1, sizeof(*names)));
	const cJSON *c, *s, *m;

	*count = 0;
	cJSON_ArrayForEach (c, report_cases(root))
		for (s = NULL; (s = next_sample(c, SIDE_SHIFT, s));)
			cJSON_ArrayForEach (m, detail_of(s, "phases_us")) {
				bool known = !m->string;

				for (size_t i = 0; i < *count && !known; i++)
					known = !strcmp(names[i], m->string);
				if (!known && *count < PARTS)
					names[(*count)++] = m->string;
			}
	return names;
}

static void phases(struct figures *f, const cJSON *root)
{
	size_t part_count, count = 0;
	const char **parts = phase_names(root, &part_count);
	struct stack *stacks;
	struct figure *one;
	const cJSON *c;

	if (!part_count)
		return;
	stacks = check_alloc(
		calloc((size_t)cJSON_GetArraySize(report_cases(root)) + 1, sizeof(*stacks)));
	cJSON_ArrayForEach (c, report_cases(root)) {
		struct stack one_stack = {.label = json_text(c, "id")};
		double sum = 0;

		for (size_t i = 0; i < part_count; i++)
			sum += one_stack.us[i] = median_phase(c, parts[i]);
		if (sum > 0 && count < 60)
			stacks[count++] = one_stack;
	}
	if (count) {
		one = figure_add(f, SECTION_PHASES);
		one->title = "What a switch to the backup NIC spends its time with";
		one->description = format_text(
			"A bar for each of %zu cases, made of %zu phases; medians of "
			"the runs with shift.",
			count, part_count);
		one->parts = parts;
		one->wide = draw_stacks(f, stacks, count, part_count, true);
		one->narrow = draw_stacks(f, stacks, count, part_count, false);
	}
	free(stacks);
}

/* ---- the machine ---------------------------------------------------------------------------- */

static long draw_machine(struct figures *f, const cJSON *root, bool wide)
{
	size_t number = plot_begin(&f->plots, wide ? WIDE : NARROW, 200);
	FILE *out = f->plots.script;
	const cJSON *c, *s, *v;

	fprintf(out, "$d0 << END\n");
	cJSON_ArrayForEach (c, report_cases(root))
		cJSON_ArrayForEach (s, report_member(c, "samples")) {
			const cJSON *away = report_member(s, "away");
			double steal = 0, at = json_number(away, "at_ms"),
			       pause = json_number(away, "pause_max_ms");

			cJSON_ArrayForEach (v, report_member(away, "steal_share"))
				steal = fmax(steal, cJSON_GetNumberValue(v));
			if (isfinite(at) && isfinite(pause) && isfinite(steal))
				fprintf(out, "%.6g %.6g %.6g\n", at / 60000, steal * 100, pause);
		}
	fprintf(out,
		"NaN NaN NaN\nEND\nset xlabel 'minutes since the beginning' textcolor " RGB "\n"
		"set yrange [0:*]\nset xrange [0:*]\nset tmargin 2.4\n"
		"set label '%% stolen (impulses), ms of pause (crosses)' at graph 0,1.1 left "
		"textcolor " RGB "\n"
		"plot $d0 using 1:2 with impulses lw 2 lc " RGB
		", $d0 using 1:3 with points pt 2 ps 0.6 lc " RGB "\n",
		COLOUR_TEXT, COLOUR_TEXT, COLOUR_PART, COLOUR_MARK);
	return (long)number;
}

static void machine(struct figures *f, const cJSON *root)
{
	struct worst_away away = {0};
	struct figure *one;
	const cJSON *c;
	bool any = false;

	cJSON_ArrayForEach (c, report_cases(root)) {
		away_add(&away, c);
		any = any || report_member(next_sample(c, SIDE_BASELINE, NULL), "away") ||
		      report_member(next_sample(c, SIDE_SHIFT, NULL), "away");
	}
	if (!any)
		return;
	one = figure_add(f, SECTION_MACHINE);
	one->title = "The machine during the measurement, run by run";
	one->description = format_text("For each run how much processor time the hypervisor gave "
				       "to others, and the longest pause: %s.",
				       worst_away_text(&away));
	one->wide = draw_machine(f, root, true);
	one->narrow = draw_machine(f, root, false);
}

void figures_of_details(struct figures *f, const cJSON *root)
{
	distributions(f, root);
	progress_figures(f, root);
	phases(f, root);
	timelines(f, root);
	machine(f, root);
}
