/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What an engineer looks for below the figures: every number, and where it was measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/report.h"
#include "cmd/shift-bench/report_tree.h"
#include "common/html.h"

/* ---- results -------------------------------------------------------------------------------- */

static void side_cells(FILE *f, const cJSON *side)
{
	fprintf(f, "<td>%s</td><td>%s&hellip;%s</td><td>%s</td>",
		html_number(json_number(side, "median")), html_number(json_number(side, "min")),
		html_number(json_number(side, "max")), html_number(json_number(side, "count")));
}

static void judgement_cell(FILE *f, enum judgement j)
{
	static const char *const words[] = {
		[JUDGED_UNKNOWN] = "&ndash;",
		[JUDGED_TOO_FEW] = "too few runs",
		[JUDGED_NONE] = "no difference can be shown",
		[JUDGED_WORSE] = "<span class=\"worse\">worse with shift</span>",
		[JUDGED_BETTER] = "<span class=\"better\">better with shift</span>",
	};

	fprintf(f, "<td class=\"t\">%s</td>", words[j]);
}

static void result_row(FILE *f, const cJSON *bench_case, const cJSON *metric, bool first)
{
	const cJSON *result = result_of(bench_case, json_text(metric, "name"));
	const cJSON *ratio = report_member(result, "ratio");

	fputs("<tr><th scope=\"row\" class=\"t\">", f);
	if (first)
		html_text(f, json_text(bench_case, "id"));
	fputs("</th><td class=\"t\">", f);
	html_text(f, json_text(metric, "name"));
	fputs(", ", f);
	html_unit(f, json_text(metric, "unit"));
	fputs("</td>", f);
	for (int side = 0; side < SIDES; side++)
		side_cells(f, side_of(result, side));
	fprintf(f, "<td>%s</td><td>%s&hellip;%s</td>", html_number(json_number(ratio, "ratio")),
		html_number(json_number(ratio, "low")), html_number(json_number(ratio, "high")));
	judgement_cell(f, judgement_of(metric, result));
	fputs("</tr>\n", f);
}

static void table_begin(FILE *f, const char *label)
{
	fputs("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"", f);
	html_text(f, label);
	fputs("\"><table>", f);
}

static void results_table(FILE *f, const cJSON *root)
{
	const cJSON *c, *m;

	table_begin(f, "All results");
	fprintf(f,
		"<caption>Medians, smallest and largest value, number of runs; ratio of the "
		"medians "
		"with its interval. Less is better, unless it is a rate.</caption><thead><tr>"
		"<th scope=\"col\" class=\"t\">case</th><th scope=\"col\" class=\"t\">metric</th>");
	for (int side = 0; side < SIDES; side++)
		fprintf(f,
			"<th scope=\"col\">%s</th><th scope=\"col\">min&hellip;max</th>"
			"<th scope=\"col\">runs</th>",
			side_title(root, side));
	fputs("<th scope=\"col\">ratio</th><th scope=\"col\">interval</th>"
	      "<th scope=\"col\" class=\"t\">verdict</th></tr></thead><tbody>\n",
	      f);
	cJSON_ArrayForEach (c, report_cases(root)) {
		struct worst_away away = {0};
		bool first = true;

		cJSON_ArrayForEach (m, report_member(c, "metrics")) {
			result_row(f, c, m, first);
			first = false;
		}
		away_add(&away, c);
		fprintf(f,
			"<tr><td></td><td class=\"t note\" colspan=\"10\">machine: %s</td></tr>\n",
			worst_away_text(&away));
	}
	fputs("</tbody></table></div>\n", f);
}

/* ---- every run ------------------------------------------------------------------------------ */

static void run_row(FILE *f, const cJSON *root, const cJSON *bench_case, const cJSON *s, int number)
{
	const cJSON *m, *away = report_member(s, "away"),
			*steal = report_member(away, "steal_share");
	static const char *const places[] = {"here", "a", "b"};

	fprintf(f, "<tr><th scope=\"row\">%d</th><td class=\"t\">%s%s</td>", number,
		side_title(root,
			   strcmp(json_text(s, "side"), "shift") ? SIDE_BASELINE : SIDE_SHIFT),
		cJSON_IsTrue(report_member(s, "warmup")) ? ", warm-up" : "");
	cJSON_ArrayForEach (m, report_member(bench_case, "metrics"))
		fprintf(f, "<td>%s</td>",
			html_number(json_number(report_member(s, "values"), json_text(m, "name"))));
	fprintf(f, "<td>%s</td><td>%s</td>", html_number(json_number(away, "at_ms") / 1000),
		html_number(json_number(away, "span_ms") / 1000));
	for (int i = 0; i < PLACES; i++)
		fprintf(f, "<td>%s</td>", html_number(json_number(steal, places[i]) * 100));
	fprintf(f, "<td>%s</td><td class=\"w\">", html_number(json_number(away, "pause_max_ms")));
	html_text(f, json_text(s, "failure"));
	fputs("</td></tr>\n", f);
}

static void runs_of(FILE *f, const cJSON *root, const cJSON *bench_case)
{
	const cJSON *m, *s, *samples = report_member(bench_case, "samples");
	int number = 0;

	fputs("<details><summary>", f);
	html_text(f, json_text(bench_case, "id"));
	fprintf(f, ": %d runs</summary>", cJSON_GetArraySize(samples));
	table_begin(f, json_text(bench_case, "id"));
	fputs("<thead><tr><th scope=\"col\">#</th><th scope=\"col\" class=\"t\">side</th>", f);
	cJSON_ArrayForEach (m, report_member(bench_case, "metrics")) {
		fputs("<th scope=\"col\">", f);
		html_text(f, json_text(m, "name"));
		fputs(", ", f);
		html_unit(f, json_text(m, "unit"));
		fputs("</th>", f);
	}
	fputs("<th scope=\"col\">at, s</th><th scope=\"col\">took, s</th>"
	      "<th scope=\"col\">stolen here, %</th><th scope=\"col\">on a, %</th>"
	      "<th scope=\"col\">on b, %</th><th scope=\"col\">longest pause, ms</th>"
	      "<th scope=\"col\" class=\"t\">failure</th></tr></thead><tbody>\n",
	      f);
	cJSON_ArrayForEach (s, samples)
		run_row(f, root, bench_case, s, ++number);
	fputs("</tbody></table></div></details>\n", f);
}

void report_tables(FILE *f, const cJSON *root)
{
	const cJSON *c;

	fputs("<h2 id=\"numbers\">All numbers</h2>\n", f);
	results_table(f, root);
	fputs("<h3>Every run, in the order in which they ran</h3>\n", f);
	cJSON_ArrayForEach (c, report_cases(root))
		runs_of(f, root, c);
}

/* ---- where ---------------------------------------------------------------------------------- */

enum { DEPTH_MAX = 6 };

static void entry(FILE *f, const char *name, const cJSON *o, int depth);

static void entries(FILE *f, const char *name, const cJSON *o, int depth)
{
	const cJSON *m;
	int i = 0;

	cJSON_ArrayForEach (m, o) {
		char *below = m->string ? format_text("%s%s%s", name, *name ? " " : "", m->string)
					: format_text("%s %d", name, ++i);

		entry(f, below, m, depth + 1);
	}
}

static void entry(FILE *f, const char *name, const cJSON *o, int depth)
{
	if (cJSON_IsNull(o))
		return;
	if ((cJSON_IsObject(o) || cJSON_IsArray(o)) && depth < DEPTH_MAX) {
		entries(f, name, o, depth);
		return;
	}
	fputs("<dt>", f);
	html_text(f, name);
	fputs("</dt><dd>", f);
	if (cJSON_IsNumber(o))
		fputs(html_number(cJSON_GetNumberValue(o)), f);
	else if (cJSON_IsBool(o))
		fputs(cJSON_IsTrue(o) ? "yes" : "no", f);
	else
		html_text(f, cJSON_GetStringValue(o));
	fputs("</dd>\n", f);
}

static void command_line(FILE *f, const cJSON *root)
{
	const cJSON *word;

	fputs("<p>Called as <code>shift-bench ", f);
	html_text(f, json_text(root, "command"));
	cJSON_ArrayForEach (word, report_member(root, "arguments")) {
		fputc(' ', f);
		html_text(f, cJSON_GetStringValue(word));
	}
	fputs("</code></p>\n", f);
}

void report_environment(FILE *f, const cJSON *root)
{
	const cJSON *m;

	fputs("<h2 id=\"environment\">Where and how it was measured</h2>\n", f);
	command_line(f, root);
	fputs("<dl>\n", f);
	cJSON_ArrayForEach (m, root)
		if (m->string && strcmp(m->string, "cases") != 0 &&
		    strcmp(m->string, "arguments") != 0 && strcmp(m->string, "command") != 0)
			entry(f, m->string, m, 0);
	fputs("</dl>\n", f);
}
