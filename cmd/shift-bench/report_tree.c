/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/report_tree.h"

const cJSON *report_member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

const cJSON *report_cases(const cJSON *root)
{
	return report_member(root, "cases");
}

void report_conclude(cJSON *root)
{
	struct bench_options o = {.confidence = json_number(root, "confidence"),
				  .seed = strtoull(json_text(root, "seed"), NULL, 10)};
	struct results r = {.root = root, .options = &o};
	cJSON *c;

	if (!(o.confidence >= 0.5 && o.confidence <= 0.9999))
		o.confidence = 0.99;
	cJSON_ArrayForEach (c, cJSON_GetObjectItemCaseSensitive(root, "cases"))
		if (cJSON_IsObject(c) && !cJSON_IsArray(report_member(c, "results")))
			case_conclude(&r, c);
}

const char *side_title(const cJSON *root, enum side side)
{
	if (side == SIDE_BASELINE)
		return "without shift";
	return cJSON_IsTrue(report_member(root, "control")) ? "without shift, again" : "with shift";
}

const cJSON *result_of(const cJSON *bench_case, const char *metric)
{
	const cJSON *r;

	cJSON_ArrayForEach (r, report_member(bench_case, "results"))
		if (!strcmp(json_text(r, "metric"), metric))
			return r;
	return NULL;
}

const cJSON *side_of(const cJSON *result, enum side side)
{
	return report_member(result, side == SIDE_BASELINE ? "baseline" : "shift");
}

const char *metric_title(const char *name)
{
	static const char *const titles[][2] = {
		{"p50", "median latency"},
		{"p99", "latency, 99th percentile"},
		{"p99.9", "latency, 99.9th percentile"},
		{"mean", "mean latency"},
		{"min", "smallest latency"},
		{"rate", "throughput"},
		{"messages", "messages per second"},
		{"time", "time per work request"},
		{"instructions", "instructions per work request"},
		{"post", "instructions of the post"},
		{"poll", "instructions of the poll"},
		{"outage", "outage"},
		{"lost", "messages lost"},
		{"total", "total time"},
		{"first_step", "from the start to the first step"},
		{"training", "from the first step to the last"},
		{"step", "time of a step until the fault"},
		{"step_after", "time of a step from the fault on"},
		{"standstill", "longest time without a step"},
		{"restarts", "restarts from a checkpoint"},
		{"lost_steps", "steps done once more"},
		{"lost_time", "time lost"},
		{"init", "from the opening of the NIC to RTS of all QPs"},
		{"memory", "peak memory of the program"},
		{"protected", "from RTR until protected, median"},
		{"protected_max", "from RTR until protected, longest"},
		{"move", "longest outage when all move"},
		{"etcd_puts", "puts into etcd"},
		{"etcd_ranges", "ranges read from etcd"},
		{"etcd_bytes", "bytes to and from etcd"},
	};

	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		if (!strcmp(name, titles[i][0]))
			return titles[i][1];
	return name;
}

enum judgement judgement_of(const cJSON *metric, const cJSON *result)
{
	const char *d = json_text(report_member(result, "ratio"), "difference");
	bool less_is_better = strcmp(json_text(metric, "better"), "more") != 0;

	if (!isfinite(json_number(report_member(result, "ratio"), "ratio")))
		return JUDGED_UNKNOWN; /* one side has no values at all */
	if (!strcmp(d, "none"))
		return JUDGED_NONE;
	if (!strcmp(d, "too few"))
		return JUDGED_TOO_FEW;
	if (!strcmp(d, "less"))
		return less_is_better ? JUDGED_BETTER : JUDGED_WORSE;
	if (!strcmp(d, "more"))
		return less_is_better ? JUDGED_WORSE : JUDGED_BETTER;
	return JUDGED_UNKNOWN;
}

const cJSON *next_sample(const cJSON *bench_case, enum side side, const cJSON *after)
{
	const char *name = side == SIDE_BASELINE ? "baseline" : "shift";
	const cJSON *samples = report_member(bench_case, "samples"), *s = after	    ? after->next
									  : samples ? samples->child
										    : NULL;

	for (; s; s = s->next)
		if (!strcmp(json_text(s, "side"), name) && !cJSON_HasObjectItem(s, "failure") &&
		    !cJSON_IsTrue(report_member(s, "warmup")))
			return s;
	return NULL;
}

/* ---- the machine ---------------------------------------------------------------------------- */

void away_add(struct worst_away *w, const cJSON *bench_case)
{
	const cJSON *s, *v;

	cJSON_ArrayForEach (s, report_member(bench_case, "samples")) {
		const cJSON *away = report_member(s, "away");

		w->failed += cJSON_HasObjectItem(s, "failure");
		if (cJSON_IsTrue(report_member(s, "warmup")))
			continue;
		w->pause_ms = fmax(w->pause_ms, json_number(away, "pause_max_ms"));
		cJSON_ArrayForEach (v, report_member(away, "steal_share"))
			w->steal = fmax(w->steal, cJSON_GetNumberValue(v));
	}
}

const char *worst_away_text(const struct worst_away *w)
{
	char *text = format_text("at most %.0f %% of processor time stolen, longest pause %.0f ms",
				 w->steal * 100, w->pause_ms);

	return w->failed ? format_text("%s; runs that failed: %d", text, w->failed) : text;
}

/* ---- cases that belong together ------------------------------------------------------------- */

bool same_metrics(const cJSON *one, const cJSON *other)
{
	return cJSON_Compare(report_member(one, "metrics"), report_member(other, "metrics"), true);
}

bool begins_family(const cJSON *root, const cJSON *bench_case)
{
	const cJSON *c;

	cJSON_ArrayForEach (c, report_cases(root)) {
		if (c == bench_case)
			break;
		if (same_metrics(c, bench_case))
			return false;
	}
	return true;
}

const cJSON **family_of(const cJSON *root, const cJSON *first, size_t *count)
{
	const cJSON *c;
	size_t most = (size_t)cJSON_GetArraySize(report_cases(root));
	const cJSON **family = check_alloc(calloc(most + 1, sizeof(*family)));

	*count = 0;
	cJSON_ArrayForEach (c, report_cases(root))
		if (same_metrics(c, first))
			family[(*count)++] = c;
	return family;
}

static double parameter_of(const cJSON *bench_case, const char *name)
{
	return json_number(report_member(bench_case, "parameters"), name);
}

const char *growth_parameter(const cJSON *const *cases, size_t count)
{
	static const char *const names[] = {"qps", "connections", "size"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (size_t j = 1; j < count; j++)
			if (parameter_of(cases[j], names[i]) > 0 &&
			    parameter_of(cases[0], names[i]) > 0 &&
			    parameter_of(cases[j], names[i]) != parameter_of(cases[0], names[i]))
				return names[i];
	return NULL;
}

bool same_but(const cJSON *one, const cJSON *other, const char *parameter)
{
	const cJSON *a = report_member(one, "parameters"), *b = report_member(other, "parameters");
	const cJSON *m;

	if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b))
		return false;
	cJSON_ArrayForEach (m, a)
		if (m->string && strcmp(m->string, parameter) != 0 &&
		    !cJSON_Compare(m, report_member(b, m->string), true))
			return false;
	return true;
}

char *size_text(double bytes)
{
	if (bytes >= 1048576 && fmod(bytes, 1048576) == 0)
		return format_text("%gM", bytes / 1048576);
	if (bytes >= 1024 && fmod(bytes, 1024) == 0)
		return format_text("%gK", bytes / 1024);
	return format_text("%g", bytes);
}

static char *parameter_text(const cJSON *m)
{
	const char *value = cJSON_GetStringValue(m);

	if (!strcmp(m->string, "op") && value)
		return format_text("%s", value);
	if (!strcmp(m->string, "direction") && value)
		return format_text("%s", strcmp(value, "both") ? "one way" : "both ways");
	if (!strcmp(m->string, "size"))
		return format_text("%s B", size_text(cJSON_GetNumberValue(m)));
	if (!strcmp(m->string, "qps"))
		return format_text("%g QP", cJSON_GetNumberValue(m));
	return value ? format_text("%s %s", m->string, value)
		     : format_text("%s %g", m->string, cJSON_GetNumberValue(m));
}

char *parameters_text(const cJSON *bench_case, const char *but)
{
	const cJSON *m;
	char *text = format_text("%s", "");

	cJSON_ArrayForEach (m, report_member(bench_case, "parameters"))
		if (m->string && strcmp(m->string, but) != 0 &&
		    (cJSON_IsString(m) || cJSON_IsNumber(m)))
			text = format_text("%s%s%s", text, *text ? ", " : "", parameter_text(m));
	return text;
}
