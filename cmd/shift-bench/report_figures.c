/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The plots of values: ratios with their intervals, growth, bars. */
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
	ROW = 24,      /* height of a row with its label beside it */
	TALL_ROW = 40, /* with its label above it */
	ROWS_MAX = 60,
	PANELS_MAX = 24,
	METRICS_MAX = 3, /* of a table that are drawn; the others are in the table */
	LABEL_WIDE = 36,
	LABEL_NARROW = 48,
	LETTER = 7, /* the width of a letter */
};

struct figure *figure_add(struct figures *f, enum section section)
{
	struct figure *one;

	f->list = check_alloc(realloc(f->list, (f->count + 1) * sizeof(*f->list)));
	one = &f->list[f->count++];
	*one = (struct figure){.section = section, .wide = NO_PLOT, .narrow = NO_PLOT};
	return one;
}

void tics_125(struct figures *f, const char *axis, double low, double high)
{
	static const double steps[] = {1, 2, 5};
	const char *comma = "";
	bool tens = high / low > 2000;

	fprintf(f->plots.script, "set %stics (", axis);
	for (int e = -12; e <= 15; e++)
		for (int i = 0; i < (tens ? 1 : 3); i++) {
			double at = steps[i] * pow(10, e);

			if (at < low * 0.999 || at > high * 1.001)
				continue;
			fprintf(f->plots.script, "%s'%g' %g", comma, at, at);
			comma = ", ";
		}
	fprintf(f->plots.script, ")\n");
}

/* ---- rows: labels on the left, or above if it is narrow -----------------------------------------
 */

struct row {
	const char *label;
	double value[SIDES], low[SIDES], high[SIDES];
	enum judgement judgement;
};

struct rows {
	struct row *list;
	size_t count, left_out;
};

static struct row *row_add(struct rows *rows, const char *label)
{
	if (rows->count == ROWS_MAX) {
		rows->left_out++;
		return NULL;
	}
	rows->list = check_alloc(realloc(rows->list, (rows->count + 1) * sizeof(struct row)));
	rows->list[rows->count] = (struct row){.label = label};
	return &rows->list[rows->count++];
}

static const char *left_out_text(const struct rows *rows)
{
	return rows->left_out ? format_text("Drawn are the first %zu of %zu; the others are in the "
					    "table.",
					    rows->count, rows->count + rows->left_out)
			      : NULL;
}

/* The frame of a plot of rows; row i is at y = count - i. */
static long rows_begin(struct figures *f, const struct rows *rows, bool wide)
{
	FILE *s = f->plots.script;
	size_t longest = 0;
	int row = wide ? ROW : TALL_ROW, height = (int)rows->count * row + 76;
	size_t number = plot_begin(&f->plots, wide ? WIDE : NARROW, height);

	s = f->plots.script;
	for (size_t i = 0; i < rows->count; i++)
		if (strlen(rows->list[i].label) > longest)
			longest = strlen(rows->list[i].label);
	longest = longest > LABEL_WIDE ? LABEL_WIDE : longest;
	fprintf(s,
		"set border 1\nset yrange [0.4:%g]\nunset ytics\nset grid xtics noytics\n"
		"set lmargin at screen %g\nset rmargin at screen %g\n"
		"set tmargin at screen %g\nset bmargin at screen %g\n",
		(double)rows->count + (wide ? 0.6 : 0.85),
		wide ? (double)(longest * LETTER + 12) / WIDE : 0.03, wide ? 0.975 : 0.95,
		1 - 6.0 / height, 54.0 / height);
	for (size_t i = 0; i < rows->count; i++)
		fprintf(s, "set label '%s' at graph 0,first %g %s front textcolor " RGB "\n",
			plot_label(&f->plots, rows->list[i].label,
				   wide ? LABEL_WIDE : LABEL_NARROW),
			(double)(rows->count - i) + (wide ? 0 : 0.42),
			wide ? "right offset character -0.8,0" : "left", COLOUR_TEXT);
	return (long)number;
}

/* ---- ratios --------------------------------------------------------------------------------- */

static void ratio_range(const struct rows *rows, double *low, double *high)
{
	*low = *high = 1;
	for (size_t i = 0; i < rows->count; i++) {
		*low = fmin(*low, fmin(rows->list[i].low[0], rows->list[i].value[0]));
		*high = fmax(*high, fmax(rows->list[i].high[0], rows->list[i].value[0]));
	}
	/* An effect of a thousandth shall not look large. */
	*low = fmin(*low / 1.02, 0.95);
	*high = fmax(*high * 1.02, 1.05);
}

static void ratio_points(FILE *s, const struct rows *rows, enum judgement judgement, int at)
{
	fprintf(s, "$d%d << END\n", at);
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *r = &rows->list[i];

		if (r->judgement != judgement)
			continue;
		fprintf(s, "%.9g %zu %.9g %.9g\n", r->value[0], rows->count - i,
			isnan(r->low[0]) ? r->value[0] : r->low[0],
			isnan(r->high[0]) ? r->value[0] : r->high[0]);
	}
	/* A block must not be empty. */
	fprintf(s, "NaN NaN NaN NaN\nEND\n");
}

/* 1, 2 or 5 times a power of ten, at least that much. */
static double nice_step(double least)
{
	double power = pow(10, floor(log10(least)));

	return least <= power	    ? power
	       : least <= 2 * power ? 2 * power
	       : least <= 5 * power ? 5 * power
				    : 10 * power;
}

static long draw_ratios(struct figures *f, const struct rows *rows, bool wide)
{
	static const struct {
		enum judgement judgement;
		enum colour colour;
		int point;
	} kinds[] = {{JUDGED_TOO_FEW, COLOUR_MUTED, 1},
		     {JUDGED_NONE, COLOUR_MUTED, 6},
		     {JUDGED_WORSE, COLOUR_WORSE, 5},
		     {JUDGED_BETTER, COLOUR_BETTER, 9}};
	long number = rows_begin(f, rows, wide);
	FILE *s = f->plots.script;
	double low, high;

	ratio_range(rows, &low, &high);
	fprintf(s,
		"set xrange [%.9g:%.9g]\nset xlabel 'ratio of the medians; 1 is no difference' "
		"textcolor " RGB "\n"
		"set arrow from 1,graph 0 to 1,graph 1 nohead front lw 1.5 lc " RGB "\n",
		low, high, COLOUR_TEXT, COLOUR_TEXT);
	if (high / low > 3) {
		fprintf(s, "set logscale x\n");
		tics_125(f, "x", low, high);
	} else {
		fprintf(s, "set xtics %.9g\n", nice_step((high - low) / (wide ? 8 : 4)));
	}
	for (int i = 0; i < 4; i++)
		ratio_points(s, rows, kinds[i].judgement, i);
	fprintf(s, "plot ");
	for (int i = 0; i < 4; i++)
		fprintf(s, "%s$d%d using 1:2:3:4 with xerrorbars lw 2 pt %d ps 0.9 lc " RGB,
			i ? ", " : "", i, kinds[i].point, kinds[i].colour);
	fprintf(s, "\n");
	return number;
}

static void add_ratio(struct rows *rows, const char *label, const cJSON *metric,
		      const cJSON *result)
{
	const cJSON *ratio = report_member(result, "ratio");
	double value = json_number(ratio, "ratio");
	struct row *r;

	if (!isfinite(value) || value <= 0 || !(r = row_add(rows, label)))
		return;
	r->value[0] = value;
	r->low[0] = json_number(ratio, "low");
	r->high[0] = json_number(ratio, "high");
	if (!(r->low[0] > 0) || !isfinite(r->high[0]))
		r->low[0] = r->high[0] = value;
	r->judgement = judgement_of(metric, result);
}

static void ratio_figure(struct figures *f, struct rows *rows, const char *title)
{
	struct figure *one;
	size_t worse = 0, better = 0, none = 0;

	for (size_t i = 0; i < rows->count; i++) {
		worse += rows->list[i].judgement == JUDGED_WORSE;
		better += rows->list[i].judgement == JUDGED_BETTER;
		none += rows->list[i].judgement == JUDGED_NONE;
	}
	if (rows->count) {
		one = figure_add(f, SECTION_RATIOS);
		one->title = title;
		one->description = format_text(
			"One row for each of %zu ratios, with its interval: %zu are worse with "
			"shift, %zu better, for %zu no difference can be shown. The table below "
			"has the numbers.",
			rows->count, worse, better, none);
		one->caption = left_out_text(rows);
		one->wide = draw_ratios(f, rows, true);
		one->narrow = draw_ratios(f, rows, false);
	}
	free(rows->list);
	*rows = (struct rows){0};
}

/* One case with many metrics, as the control verbs, is one figure; else each metric is. */
static void ratios_of_family(struct figures *f, const cJSON *const *family, size_t count)
{
	const cJSON *metric, *metrics = report_member(family[0], "metrics");
	struct rows rows = {0};
	int drawn = 0;

	cJSON_ArrayForEach (metric, metrics) {
		const char *name = json_text(metric, "name");

		for (size_t i = 0; i < count; i++)
			add_ratio(&rows,
				  count > 1 ? json_text(family[i], "id") : metric_title(name),
				  metric, result_of(family[i], name));
		if (count == 1 || !rows.count)
			continue;
		if (drawn++ == METRICS_MAX)
			break;
		ratio_figure(f, &rows, format_text("%s: with shift / without", metric_title(name)));
	}
	if (count == 1)
		ratio_figure(f, &rows,
			     format_text("%s: with shift / without", json_text(family[0], "id")));
	free(rows.list);
}

/* ---- growth --------------------------------------------------------------------------------- */

struct point {
	double x, value[SIDES], low[SIDES], high[SIDES];
};

static struct point point_of(const cJSON *bench_case, const char *metric, const char *parameter)
{
	struct point p = {.x = json_number(report_member(bench_case, "parameters"), parameter)};
	const cJSON *result = result_of(bench_case, metric);

	for (int side = 0; side < SIDES; side++) {
		const cJSON *s = side_of(result, side);

		p.value[side] = json_number(s, "median");
		p.low[side] = json_number(s, "min");
		p.high[side] = json_number(s, "max");
	}
	return p;
}

static void growth_axes(struct figures *f, const struct point *points, size_t count, bool sizes)
{
	double low = INFINITY, high = 0;
	FILE *s = f->plots.script;

	for (size_t i = 0; i < count; i++)
		for (int side = 0; side < SIDES; side++) {
			low = fmin(low, points[i].low[side]);
			high = fmax(high, points[i].high[side]);
		}
	fprintf(s, "set logscale x 2\nset xtics (");
	for (size_t i = 0; i<count; i += count> 6 ? 2 : 1)
		fprintf(s, "%s'%s' %.9g", i ? ", " : "",
			sizes ? size_text(points[i].x) : format_text("%g", points[i].x),
			points[i].x);
	fprintf(s, ")\nset xrange [%.9g:%.9g]\n", points[0].x / 1.4, points[count - 1].x * 1.4);
	if (low > 0 && high / low > 20 && isfinite(high)) {
		fprintf(s, "set logscale y\nset yrange [%.9g:%.9g]\n", low / 1.2, high * 1.2);
		tics_125(f, "y", low / 1.2, high * 1.2);
	} else {
		fprintf(s, "set yrange [0:%s]\n",
			isfinite(high) && high > 0 ? format_text("%.9g", high * 1.1) : "1");
	}
}

static void growth_points(FILE *s, const struct point *points, size_t count, enum side side)
{
	/* Beside one another, so that both bars can be seen. */
	double factor = side == SIDE_BASELINE ? 0.97 : 1.03;

	fprintf(s, "$d%d << END\n", side);
	for (size_t i = 0; i < count; i++)
		if (isfinite(points[i].value[side]) && isfinite(points[i].low[side]) &&
		    isfinite(points[i].high[side]))
			fprintf(s, "%.9g %.9g %.9g %.9g\n", points[i].x * factor,
				points[i].value[side], points[i].low[side], points[i].high[side]);
	fprintf(s, "NaN NaN NaN NaN\nEND\n");
}

static long draw_growth(struct figures *f, const struct point *points, size_t count,
			const char *parameter, const char *unit)
{
	size_t number = plot_begin(&f->plots, NARROW, PANEL_HEIGHT);
	FILE *s = f->plots.script;

	growth_axes(f, points, count, !strcmp(parameter, "size"));
	fprintf(s, "set xlabel '%s' textcolor " RGB "\n",
		!strcmp(parameter, "size")  ? "bytes of a message"
		: !strcmp(parameter, "qps") ? "queue pairs"
					    : "connections",
		COLOUR_TEXT);
	fprintf(s, "set label '%s' at graph 0,1.08 left textcolor " RGB "\nset tmargin 2.2\n",
		plot_label(&f->plots, !strcmp(unit, "1/s") ? "per s" : unit, 24), COLOUR_TEXT);
	for (int side = 0; side < SIDES; side++)
		growth_points(s, points, count, side);
	fprintf(s,
		"plot $d0 using 1:2:3:4 with yerrorlines lw 2 dt (6,4) pt 6 ps 0.8 lc " RGB
		", $d1 using 1:2:3:4 with yerrorlines lw 2 pt 5 ps 0.7 lc " RGB "\n",
		COLOUR_BASELINE, COLOUR_SHIFT);
	return (long)number;
}

static int by_x(const void *a, const void *b)
{
	const struct point *p = a, *q = b;

	return (p->x > q->x) - (p->x < q->x);
}

/* The cases from `from` on that differ from it only in the parameter. */
static size_t line_of(const cJSON *const *family, size_t count, size_t from, const char *parameter,
		      const char *metric, struct point *points)
{
	size_t n = 0;

	for (size_t i = 0; i < from; i++)
		if (same_but(family[i], family[from], parameter))
			return 0; /* it was drawn with that one */
	for (size_t i = from; i < count; i++) {
		struct point p = point_of(family[i], metric, parameter);

		if (p.x > 0 && isfinite(p.x) && same_but(family[i], family[from], parameter))
			points[n++] = p;
	}
	qsort(points, n, sizeof(*points), by_x);
	return n > 1 && points[0].x < points[n - 1].x ? n : 0;
}

static bool has_value(const struct point *points, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int side = 0; side < SIDES; side++)
			if (isfinite(points[i].value[side]))
				return true;
	return false;
}

static void growth_of_family(struct figures *f, const cJSON *const *family, size_t count,
			     const char *parameter)
{
	const cJSON *metric, *metrics = report_member(family[0], "metrics");
	struct point *points = check_alloc(calloc(count, sizeof(*points)));
	int panels = 0;

	/* Of latency and bandwidth the first metric says it; each of the others grows by itself. */
	bool only_first = !strcmp(json_text(metrics ? metrics->child : NULL, "name"), "p50") ||
			  !strcmp(json_text(metrics ? metrics->child : NULL, "name"), "rate");

	cJSON_ArrayForEach (metric, metrics) {
		const char *name = json_text(metric, "name");

		for (size_t i = 0; i < count && panels < PANELS_MAX; i++) {
			size_t n = line_of(family, count, i, parameter, name, points);
			const char *rest = parameters_text(family[i], parameter);
			struct figure *one;

			if (!n || !has_value(points, n))
				continue;
			one = figure_add(f, SECTION_GROWTH);
			one->title = *rest ? format_text("%s: %s", metric_title(name), rest)
					   : metric_title(name);
			one->description = format_text(
				"%s, from %g to %g %s, without and with shift; median, smallest "
				"and largest of the runs.",
				one->title, points[0].x, points[n - 1].x, parameter);
			one->narrow = draw_growth(f, points, n, parameter,
						  json_text(metric, "unit"));
			panels++;
		}
		if (only_first)
			break;
	}
	free(points);
}

/* ---- bars ----------------------------------------------------------------------------------- */

static long draw_bars(struct figures *f, const struct rows *rows, const char *unit, bool wide)
{
	long number = rows_begin(f, rows, wide);
	FILE *s = f->plots.script;
	/* Thickness and place of a bar, in rows. */
	double thick = wide ? 0.34 : 0.24, shift_by = wide ? 0 : -0.1;

	fprintf(s, "set xrange [0:*]\nset xlabel '%s' textcolor " RGB "\n",
		plot_label(&f->plots, unit, 24), COLOUR_TEXT);
	for (int side = 0; side < SIDES; side++) {
		double middle = shift_by + (side == SIDE_BASELINE ? thick : -thick) / 2;

		fprintf(s, "$d%d << END\n", side);
		for (size_t i = 0; i < rows->count; i++) {
			const struct row *r = &rows->list[i];
			double y = (double)(rows->count - i) + middle;

			if (isfinite(r->value[side]))
				fprintf(s, "%.9g %.4f 0 %.9g %.4f %.4f %.9g %.9g\n", r->value[side],
					y, r->value[side], y - thick / 2 + 0.02,
					y + thick / 2 - 0.02, r->low[side], r->high[side]);
		}
		fprintf(s, "NaN NaN NaN NaN NaN NaN NaN NaN\nEND\n");
	}
	fprintf(s,
		"plot $d0 using 1:2:3:4:5:6 with boxxyerror fill solid border lc " RGB
		", $d1 using 1:2:3:4:5:6 with boxxyerror fill solid border lc " RGB
		", $d0 using 1:2:7:8 with xerrorbars pt 0 lw 1.5 lc " RGB
		", $d1 using 1:2:7:8 with xerrorbars pt 0 lw 1.5 lc " RGB "\n",
		COLOUR_BASELINE, COLOUR_SHIFT, COLOUR_TEXT, COLOUR_TEXT);
	return number;
}

static void add_bar(struct rows *rows, const char *label, const cJSON *result)
{
	struct row r = {.label = label}, *added;

	for (int side = 0; side < SIDES; side++) {
		const cJSON *s = side_of(result, side);

		r.value[side] = json_number(s, "median");
		r.low[side] = json_number(s, "min");
		r.high[side] = json_number(s, "max");
		if (!isfinite(r.low[side]) || !isfinite(r.high[side]))
			r.low[side] = r.high[side] = r.value[side];
	}
	if ((isfinite(r.value[0]) || isfinite(r.value[1])) && (added = row_add(rows, label)))
		*added = r;
}

static void bars_of_family(struct figures *f, const cJSON *const *family, size_t count)
{
	const cJSON *metric;
	int drawn = 0;

	cJSON_ArrayForEach (metric, report_member(family[0], "metrics")) {
		const char *name = json_text(metric, "name"), *unit = json_text(metric, "unit");
		struct rows rows = {0};
		struct figure *one;

		for (size_t i = 0; i < count; i++)
			add_bar(&rows, count > 1 ? json_text(family[i], "id") : metric_title(name),
				result_of(family[i], name));
		if (rows.count && drawn++ < METRICS_MAX + 1) {
			one = figure_add(f, SECTION_BARS);
			one->title = count > 1 ? metric_title(name)
					       : format_text("%s: %s", json_text(family[0], "id"),
							     metric_title(name));
			one->description = format_text(
				"Two bars for each of %zu rows, without and with shift, in %s; "
				"the table below has the numbers.",
				rows.count, unit);
			one->caption = left_out_text(&rows);
			one->wide = draw_bars(f, &rows, unit, true);
			one->narrow = draw_bars(f, &rows, unit, false);
		}
		free(rows.list);
	}
}

void figures_make(struct figures *f, const cJSON *root)
{
	const cJSON *c;

	cJSON_ArrayForEach (c, report_cases(root)) {
		const cJSON **family;
		const char *parameter;
		size_t count;

		if (!begins_family(root, c))
			continue;
		family = family_of(root, c, &count);
		ratios_of_family(f, family, count);
		parameter = growth_parameter(family, count);
		if (parameter)
			growth_of_family(f, family, count, parameter);
		else
			bars_of_family(f, family, count);
		free(family);
	}
	figures_of_details(f, root);
}
