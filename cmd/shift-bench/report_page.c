/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/report.h"
#include "cmd/shift-bench/report_tree.h"
#include "common/html.h"
#include "common/page.h"

enum { CARDS_MAX = 4 };

static const char *title_of(const cJSON *root)
{
	static const char *const titles[][2] = {
		{"latency", "What shift costs in latency"},
		{"bandwidth", "What shift costs in throughput"},
		{"verbs", "What shift costs in each verb"},
		{"failover", "What a failure costs, with shift and without"},
		{"timeline", "Throughput while a NIC fails and returns"},
		{"setup", "What shift costs when a program starts"},
		{"training", "Training while a NIC fails"},
		{"all", "What shift costs, and what it saves"},
	};
	const char *command = json_text(root, "command");

	if (cJSON_IsTrue(report_member(root, "control")))
		return "Control: shift on neither side, nothing may differ";
	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		if (!strcmp(command, titles[i][0]))
			return titles[i][1];
	return format_text("shift-bench %s", command);
}

/* ---- the answer ----------------------------------------------------------------------------- */

struct tally {
	size_t of, none, worse, better, too_few, cases;
	long runs;
};

static struct tally tally_of(const cJSON *root)
{
	struct tally t = {0};
	const cJSON *c, *m;

	cJSON_ArrayForEach (c, report_cases(root)) {
		const cJSON *s = NULL;
		long runs = 0;

		t.cases++;
		while ((s = next_sample(c, SIDE_SHIFT, s)))
			runs++;
		t.runs = runs > t.runs ? runs : t.runs;
		cJSON_ArrayForEach (m, report_member(c, "metrics"))
			switch (judgement_of(m, result_of(c, json_text(m, "name")))) {
			case JUDGED_NONE: t.none++; break;
			case JUDGED_WORSE: t.worse++; break;
			case JUDGED_BETTER: t.better++; break;
			case JUDGED_TOO_FEW: t.too_few++; break;
			case JUDGED_UNKNOWN: break;
			}
	}
	t.of = t.none + t.worse + t.better;
	return t;
}

static void lead(FILE *f, const cJSON *root, const struct tally *t)
{
	double level = json_number(root, "confidence");

	level = level >= 0.5 && level < 1 ? level : 0.99;
	if (!t->cases) {
		fputs("<p class=\"lead\">Nothing was measured.</p>\n", f);
	} else if (!t->of) {
		fputs(t->too_few
			      ? "<p class=\"lead\">There were too few runs to say whether "
				"there is a difference.</p>\n"
			      : "<p class=\"lead\">There is nothing to compare: one of the sides "
				"has no values.</p>\n",
		      f);
	} else {
		fputs("<p class=\"lead\">", f);
		if (t->none == t->of)
			fprintf(f,
				"In none of %zu comparisons can a difference be shown: if there is "
				"one, it is smaller than the noise.",
				t->of);
		else
			fprintf(f,
				"Of %zu comparisons, shift is <b>worse in %zu</b> and <b>better in "
				"%zu</b>; in <b>%zu no difference can be shown</b>.",
				t->of, t->worse, t->better, t->none);
		fprintf(f,
			"</p>\n<p class=\"note\">Intervals hold at %g&nbsp;%%: by chance alone, "
			"about "
			"%.1f of %zu would show a difference where there is none.",
			level * 100, (double)t->of * (1 - level), t->of);
		if (t->too_few)
			fprintf(f, " For %zu more there were too few runs.", t->too_few);
		fputs("</p>\n", f);
	}
}

/* What was measured, and on what. */
static void measured_on(FILE *f, const cJSON *root, const struct tally *t)
{
	const cJSON *machine = report_member(root, "machine"),
		    *testbed = report_member(root, "testbed"), *c;
	struct worst_away away = {0};

	cJSON_ArrayForEach (c, report_cases(root))
		away_add(&away, c);
	fprintf(f, "<p>%zu %s, up to %ld runs of each side, in turn", t->cases,
		t->cases == 1 ? "case" : "cases", t->runs);
	if (*json_text(root, "began")) {
		fputs(", on ", f);
		html_text(f, format_text("%.10s", json_text(root, "began")));
	}
	fputs(". Measured ", f);
	if (testbed) {
		fputs("between two hosts of testbed ", f);
		html_clipped(f, json_text(testbed, "name"), 60);
		if (*json_text(testbed, "layout")) {
			fputs(" (layout ", f);
			html_clipped(f, json_text(testbed, "layout"), 20);
			fputc(')', f);
		}
		fputs(", ", f);
	}
	fprintf(f, "on %s &times; ", html_number(json_number(machine, "processors")));
	html_clipped(f, json_text(machine, "processor"), 80);
	fputs(", kernel ", f);
	html_clipped(f, json_text(machine, "kernel"), 60);
	fprintf(f, ". Meanwhile, the machine itself was away: %s.</p>\n", worst_away_text(&away));
}

static void state_line(FILE *f, const cJSON *root)
{
	const char *state = json_text(root, "state");

	if (!strcmp(state, "complete"))
		return;
	fputs("<p class=\"state\">Not complete: ", f);
	if (!strcmp(state, "running"))
		fputs("the measurement was still running, or was killed", f);
	else if (!strcmp(state, "interrupted"))
		fputs("the measurement was interrupted", f);
	else if (!strcmp(state, "failed"))
		fputs("some runs failed", f);
	else
		html_text(f, *state ? state : "the file does not say how it ended");
	fputs(". What was measured is here.</p>\n", f);
}

/* ---- cards ---------------------------------------------------------------------------------- */

static const cJSON *first_metric(const cJSON *bench_case)
{
	const cJSON *metrics = report_member(bench_case, "metrics");

	return metrics ? metrics->child : NULL;
}

static const cJSON *first_result(const cJSON *bench_case)
{
	return result_of(bench_case, json_text(first_metric(bench_case), "name"));
}

static double first_ratio(const cJSON *bench_case)
{
	return json_number(report_member(first_result(bench_case), "ratio"), "ratio");
}

static void card_change(FILE *f, const cJSON *bench_case)
{
	static const char *const words[] = {
		[JUDGED_UNKNOWN] = "",
		[JUDGED_TOO_FEW] = "Too few runs for an interval",
		[JUDGED_NONE] = "No difference can be shown",
		[JUDGED_WORSE] = "Worse with shift",
		[JUDGED_BETTER] = "Better with shift",
	};
	static const char *const classes[] = {
		[JUDGED_WORSE] = " worse", [JUDGED_BETTER] = " better"};
	const cJSON *metric = first_metric(bench_case), *result = first_result(bench_case);
	const cJSON *ratio = report_member(result, "ratio");
	enum judgement j = judgement_of(metric, result);
	double low = json_number(ratio, "low"), high = json_number(ratio, "high");

	if (isfinite(first_ratio(bench_case))) {
		fprintf(f, "<div class=\"change\">%s</div>", html_change(first_ratio(bench_case)));
		if (isfinite(low) && isfinite(high))
			fprintf(f, "<div>interval %s to %s</div>", html_change(low),
				html_change(high));
		fprintf(f, "<div class=\"verdict%s\">%s</div>",
			j == JUDGED_WORSE || j == JUDGED_BETTER ? classes[j] : "", words[j]);
	}
}

static void card_values(FILE *f, const cJSON *root, const cJSON *bench_case)
{
	const cJSON *result = first_result(bench_case);
	const char *unit = json_text(first_metric(bench_case), "unit");

	fputs("<div class=\"note\">", f);
	for (int side = 0; side < SIDES; side++) {
		const cJSON *s = side_of(result, side);

		fprintf(f, "%s%s: ", side ? "; " : "", side_title(root, side));
		if (!isfinite(json_number(s, "median"))) {
			fputs("no value", f);
			continue;
		}
		fprintf(f, "%s&nbsp;", html_number(json_number(s, "median")));
		html_unit(f, unit);
		fprintf(f, " (%s&hellip;%s)", html_number(json_number(s, "min")),
			html_number(json_number(s, "max")));
	}
	fputs("</div>", f);
}

static void card(FILE *f, const cJSON *root, const cJSON *bench_case, const char *why)
{
	const cJSON *side = side_of(first_result(bench_case), SIDE_SHIFT);

	fputs("<li><h3>", f);
	html_clipped(f, json_text(bench_case, "id"), 60);
	fputs(": ", f);
	html_clipped(f, metric_title(json_text(first_metric(bench_case), "name")), 60);
	fputs("</h3>", f);
	if (isfinite(first_ratio(bench_case))) {
		card_change(f, bench_case);
	} else {
		fprintf(f, "<div class=\"change\">%s&nbsp;",
			html_number(json_number(side, "median")));
		html_unit(f, json_text(first_metric(bench_case), "unit"));
		fputs("</div>", f);
	}
	card_values(f, root, bench_case);
	if (why)
		fprintf(f, "<div class=\"note\">%s</div>", why);
	fputs("</li>\n", f);
}

static bool has_first(const cJSON *bench_case)
{
	const cJSON *result = first_result(bench_case);

	return isfinite(json_number(side_of(result, SIDE_BASELINE), "median")) ||
	       isfinite(json_number(side_of(result, SIDE_SHIFT), "median"));
}

/* A card for the first case of each kind of operation, or of any kind that there is. */
static bool begins_kind(const cJSON *root, const cJSON *bench_case, bool by_op)
{
	const char *op = json_text(report_member(bench_case, "parameters"), "op");
	const cJSON *c;

	if (!by_op)
		return true;
	cJSON_ArrayForEach (c, report_cases(root)) {
		if (c == bench_case)
			break;
		if (same_metrics(c, bench_case) && has_first(c) &&
		    !strcmp(json_text(report_member(c, "parameters"), "op"), op))
			return false;
	}
	return true;
}

/* The largest cost that was shown; NULL if there is none. */
static const cJSON *worst_case(const cJSON *root)
{
	const cJSON *c, *worst = NULL;

	cJSON_ArrayForEach (c, report_cases(root))
		if (judgement_of(first_metric(c), first_result(c)) == JUDGED_WORSE &&
		    (!worst || fabs(log(first_ratio(c))) > fabs(log(first_ratio(worst)))))
			worst = c;
	return worst;
}

static void cards(FILE *f, const cJSON *root, const struct tally *t)
{
	const cJSON *c, *worst = worst_case(root);
	bool by_op = t->cases > CARDS_MAX, worst_shown = false;
	int count = 0;

	fputs("<ul class=\"cards\">\n", f);
	cJSON_ArrayForEach (c, report_cases(root)) {
		if (count == CARDS_MAX || !has_first(c) || !begins_kind(root, c, by_op))
			continue;
		card(f, root, c, NULL);
		worst_shown = worst_shown || c == worst;
		count++;
	}
	if (worst && !worst_shown)
		card(f, root, worst,
		     format_text("The largest difference shown among the %zu cases, chosen "
				 "afterwards.",
				 t->cases));
	fputs("</ul>\n", f);
}

/* ---- figures -------------------------------------------------------------------------------- */

static const struct {
	const char *id, *title, *text;
} sections[SECTIONS] = {
	[SECTION_PROGRESS] = {"progress", "The job's progress over time",
			      "The first run of each side, and the one without a failure. What "
			      "happened is numbered above, and told below."},
	[SECTION_RATIOS] = {"ratios", "With shift compared to without",
			    "A point is the ratio of the medians, a line its interval. Where the "
			    "line crosses 1, no difference can be shown."},
	[SECTION_GROWTH] = {"growth", "How it grows",
			    "Median of the runs; the bars reach from the smallest to the largest "
			    "run."},
	[SECTION_BARS] = {"bars", "Case by case",
			  "Median of the runs; the thin lines reach from the smallest to the "
			  "largest run."},
	[SECTION_DISTRIBUTIONS] = {"distributions", "Every message: how many took at most how long",
				   "The scale upwards gives each nine the same room, so that rare, "
				   "slow messages can be seen. All runs together."},
	[SECTION_PHASES] = {"phases", "Phases of a failover", "Medians of the runs with shift."},
	[SECTION_TIMELINES] = {"timelines", "Over time",
			       "The first run of each side. What happened is numbered above, and "
			       "told below."},
	[SECTION_MACHINE] = {"machine", "What the machine itself was away",
			     "A virtual machine that does not run looks like a slow network."},
};

static void legend(FILE *f, const cJSON *root, enum section section)
{
	fputs("<ul class=\"legend\">", f);
	switch (section) {
	case SECTION_RATIOS:
		page_swatch(
			f,
			"<path d=\"M2 6h26\" stroke=\"var(--muted)\" stroke-width=\"2\"/><circle "
			"cx=\"15\" cy=\"6\" r=\"4\" fill=\"var(--muted)\"/>",
			"no difference can be shown");
		page_swatch(f,
			    "<path d=\"M2 6h26\" stroke=\"var(--worse)\" stroke-width=\"2\"/><path "
			    "d=\"M11 2h8v8h-8z\" fill=\"var(--worse)\"/>",
			    "worse with shift");
		page_swatch(
			f,
			"<path d=\"M2 6h26\" stroke=\"var(--better)\" stroke-width=\"2\"/><path "
			"d=\"M15 11l-5-9h10z\" fill=\"var(--page)\" stroke=\"var(--better)\" "
			"stroke-width=\"1.5\"/>",
			"better with shift");
		page_swatch(f,
			    "<path d=\"M11 2l8 8m0-8l-8 8\" stroke=\"var(--muted)\" "
			    "stroke-width=\"1.5\"/>",
			    "too few runs for an interval");
		break;
	case SECTION_GROWTH:
	case SECTION_DISTRIBUTIONS:
		page_swatch(f,
			    "<path d=\"M0 6h30\" stroke=\"var(--without)\" stroke-width=\"2\" "
			    "stroke-dasharray=\"6 4\"/>",
			    side_title(root, SIDE_BASELINE));
		page_swatch(f, "<path d=\"M0 6h30\" stroke=\"var(--with)\" stroke-width=\"2\"/>",
			    side_title(root, SIDE_SHIFT));
		break;
	case SECTION_BARS:
		page_swatch(f, "<path d=\"M0 1h30v10h-30z\" fill=\"var(--without)\"/>",
			    format_text("%s (above)", side_title(root, SIDE_BASELINE)));
		page_swatch(f, "<path d=\"M0 1h30v10h-30z\" fill=\"var(--with)\"/>",
			    format_text("%s (below)", side_title(root, SIDE_SHIFT)));
		break;
	case SECTION_PROGRESS:
	case SECTION_PHASES:
	case SECTION_TIMELINES:
	case SECTION_MACHINE:
	case SECTIONS: break;
	}
	fputs("</ul>\n", f);
}

static void parts_legend(FILE *f, const char *const *parts, enum section section)
{
	static const char *const dashes[] = {"none", "7 3", "2 2", "9 3 2 3"};

	fputs("<ul class=\"legend\">", f);
	for (int i = 0; parts[i]; i++)
		page_swatch(
			f,
			section == SECTION_PHASES
				? format_text("<path d=\"M0 1h30v10h-30z\" fill=\"var(--p%d)\"/>",
					      i % PARTS)
				: format_text("<path d=\"M0 6h30\" stroke=\"var(--p%d)\" "
					      "stroke-width=\"2\" stroke-dasharray=\"%s\"/>",
					      i % PARTS, dashes[i % 4]),
			parts[i]);
	fputs("</ul>\n", f);
}

/* svg: as plots_draw() made it, "viewBox=...>" and what comes then. */
static void drawing(FILE *f, const struct figure *one, const char *svg, size_t number,
		    const char *class)
{
	size_t head = strcspn(svg, ">");

	fprintf(f,
		"<svg role=\"img\" class=\"%s\" aria-labelledby=\"t%zu d%zu\" %.*s>"
		"<title id=\"t%zu\">",
		class, number, number, (int)head, svg, number);
	html_text(f, one->title);
	fprintf(f, "</title><desc id=\"d%zu\">", number);
	html_text(f, one->description);
	fprintf(f, "</desc>%s", svg + head + (svg[head] == '>'));
}

static void figure(FILE *f, const struct figures *figures, const struct figure *one)
{
	bool wide = one->wide != NO_PLOT;

	fprintf(f, "<figure%s><h3>", wide ? " class=\"whole\"" : "");
	html_text(f, one->title);
	fputs("</h3>\n", f);
	if (one->parts)
		parts_legend(f, one->parts, one->section);
	if (wide)
		drawing(f, one, figures->plots.svg[one->wide], (size_t)one->wide, "wide");
	drawing(f, one, figures->plots.svg[one->narrow], (size_t)one->narrow,
		wide ? "either" : "small");
	if (one->marks && one->marks[0]) {
		fputs("<ol class=\"marks\">", f);
		for (size_t i = 0; one->marks[i]; i++) {
			fputs("<li>", f);
			html_text(f, one->marks[i]);
			fputs("</li>", f);
		}
		fputs("</ol>\n", f);
	}
	if (one->caption) {
		fputs("<figcaption>", f);
		html_text(f, one->caption);
		fputs("</figcaption>", f);
	}
	fputs("</figure>\n", f);
}

static bool has_section(const struct figures *figures, int section)
{
	for (size_t i = 0; i < figures->count; i++)
		if (figures->list[i].section == (enum section)section)
			return true;
	return false;
}

static void all_figures(FILE *f, const struct figures *figures, const cJSON *root)
{
	for (int s = 0; s < SECTIONS; s++) {
		if (!has_section(figures, s))
			continue;
		fprintf(f, "<h2 id=\"%s\">%s</h2>\n<p class=\"note\">%s</p>\n", sections[s].id,
			sections[s].title, sections[s].text);
		legend(f, root, s);
		fputs("<div class=\"figures\">\n", f);
		for (size_t i = 0; i < figures->count; i++)
			if (figures->list[i].section == (enum section)s)
				figure(f, figures, &figures->list[i]);
		fputs("</div>\n", f);
	}
}

static void contents(FILE *f, const struct figures *figures)
{
	fputs("<nav aria-label=\"Contents\">", f);
	for (int s = 0; s < SECTIONS; s++)
		if (has_section(figures, s))
			fprintf(f, "<a href=\"#%s\">%s</a> ", sections[s].id, sections[s].title);
	fputs("<a href=\"#numbers\">All numbers</a> <a href=\"#environment\">Where and how</a>"
	      "</nav>\n",
	      f);
}

/* ---- the page ------------------------------------------------------------------------------- */

/* What gnuplot calls its points: all plots use these. */
static const char points[] =
	"<svg class=\"points\" aria-hidden=\"true\"><defs>"
	"<circle id=\"gpDot\" r=\"0\"/>"
	"<path id=\"gpPt0\" stroke-width=\".222\" stroke=\"currentColor\" d=\"M-1,0h2M0,-1v2\"/>"
	"<path id=\"gpPt1\" stroke-width=\".222\" stroke=\"currentColor\" "
	"d=\"M-1,-1L1,1M1,-1L-1,1\"/>"
	"<rect id=\"gpPt4\" fill=\"currentColor\" x=\"-1\" y=\"-1\" width=\"2\" height=\"2\"/>"
	"<circle id=\"gpPt5\" fill=\"currentColor\" r=\"1\"/>"
	"<path id=\"gpPt8\" fill=\"var(--page)\" stroke=\"currentColor\" stroke-width=\".35\" "
	"d=\"M0,1.33L-1.33,-.67L1.33,-.67z\"/>"
	"</defs></svg>\n";

struct content {
	const struct figures *figures;
	const cJSON *root;
};

static void page(FILE *f, void *arg)
{
	const struct content *c = arg;
	struct tally t = tally_of(c->root);

	page_begin(f, title_of(c->root), points);
	state_line(f, c->root);
	lead(f, c->root, &t);
	cards(f, c->root, &t);
	measured_on(f, c->root, &t);
	contents(f, c->figures);
	all_figures(f, c->figures, c->root);
	report_tables(f, c->root);
	report_environment(f, c->root);
	page_end(f);
}

static int write_page(const struct figures *figures, const cJSON *root, const char *path)
{
	struct content c = {figures, root};
	int status = page_write(path, page, &c);

	if (status)
		say("%s: %s", path, strerror(-status));
	return status ? EXIT_FAILED : EXIT_OK;
}

int report_write(cJSON *root, const char *path)
{
	struct figures figures = {0};
	int status = EXIT_FAILED;

	report_conclude(root);
	if (!plots_begin(&figures.plots))
		return EXIT_FAILED;
	figures_make(&figures, root);
	if (plots_draw(&figures.plots))
		status = write_page(&figures, root, path);
	plots_end(&figures.plots);
	free(figures.list);
	return status;
}
