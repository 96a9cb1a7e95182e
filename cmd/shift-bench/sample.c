/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-bench/sample.h"
#include "common/printable.h"
#include "config.h"

static const char *const side_names[SIDES] = {"baseline", "shift"};
static const char *const verdict_names[] = {[VERDICT_TOO_FEW] = "too few",
					    [VERDICT_NONE] = "none",
					    [VERDICT_LESS] = "less",
					    [VERDICT_MORE] = "more"};

/* ---- the tree ------------------------------------------------------------------------------- */

cJSON *json_round(double value)
{
	char text[32];

	if (!isfinite(value))
		return cJSON_CreateNull();
	snprintf(text, sizeof(text), "%.6g", value);
	return cJSON_CreateNumber(strtod(text, NULL));
}

const char *json_text(const cJSON *o, const char *name)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));

	return s ? s : "";
}

double json_number(const cJSON *o, const char *name)
{
	return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static void add_time(cJSON *o, const char *name)
{
	char text[32];
	time_t now = time(NULL);
	struct tm tm;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	cJSON_DeleteItemFromObject(o, name);
	cJSON_AddStringToObject(o, name, text);
}

static void add_environment(cJSON *root, const struct bench_options *o)
{
	cJSON *list = cJSON_AddArrayToObject(root, "env");

	for (const char **e = o->environment; e && *e; e++)
		cJSON_AddItemToArray(list, cJSON_CreateString(*e));
}

void results_begin(struct results *r, const struct bench_options *o, const char *command, int argc,
		   char **argv)
{
	cJSON *words;

	machine_begin();
	memset(r, 0, sizeof(*r));
	r->options = o;
	r->root = check_alloc(cJSON_CreateObject());
	cJSON_AddStringToObject(r->root, "program", "shift-bench");
	cJSON_AddNumberToObject(r->root, "schema", SCHEMA);
	cJSON_AddStringToObject(r->root, "version", PACKAGE_VERSION);
	cJSON_AddStringToObject(r->root, "command", command);
	words = cJSON_AddArrayToObject(r->root, "arguments");
	for (int i = 1; i < argc; i++)
		cJSON_AddItemToArray(words, cJSON_CreateString(argv[i]));
	add_time(r->root, "began");
	cJSON_AddStringToObject(r->root, "state", "running");
	/* A text: a number of JSON has not as many digits. */
	cJSON_AddStringToObject(r->root, "seed", format_text("%llu", (unsigned long long)o->seed));
	cJSON_AddNumberToObject(r->root, "confidence", o->confidence);
	cJSON_AddNumberToObject(r->root, "bootstrap_rounds", RATIO_ROUNDS);
	cJSON_AddBoolToObject(r->root, "control", o->control);
	add_environment(r->root, o);
	cJSON_AddItemToObject(r->root, "machine", machine_json());
	r->cases = check_alloc(cJSON_AddArrayToObject(r->root, "cases"));
}

void results_free(struct results *r)
{
	cJSON_Delete(r->root);
	memset(r, 0, sizeof(*r));
}

static cJSON *metric_json(const struct metric *m)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddStringToObject(o, "name", m->name);
	cJSON_AddStringToObject(o, "unit", m->unit);
	cJSON_AddStringToObject(o, "better", m->better == BETTER_LESS ? "less" : "more");
	return o;
}

cJSON *case_add(struct results *r, const char *id, cJSON *parameters, const struct metric *metrics,
		size_t metric_count)
{
	cJSON *c = check_alloc(cJSON_CreateObject()), *list;

	if (r->part)
		id = format_text("%s %s", r->part, id);
	cJSON_AddStringToObject(c, "id", id);
	if (r->part)
		cJSON_AddStringToObject(c, "part", r->part);
	cJSON_AddItemToObject(c, "parameters", parameters ? parameters : cJSON_CreateObject());
	list = cJSON_AddArrayToObject(c, "metrics");
	for (size_t i = 0; i < metric_count; i++)
		cJSON_AddItemToArray(list, metric_json(&metrics[i]));
	cJSON_AddArrayToObject(c, "samples");
	cJSON_AddItemToArray(r->cases, c);
	return c;
}

cJSON *sample_add(cJSON *bench_case, enum side side, bool warmup, const double *values,
		  const struct away *away, cJSON *detail, const char *failure)
{
	const cJSON *metrics = cJSON_GetObjectItemCaseSensitive(bench_case, "metrics"), *m;
	cJSON *s = check_alloc(cJSON_CreateObject()), *list;

	cJSON_AddStringToObject(s, "side", side_names[side]);
	cJSON_AddBoolToObject(s, "warmup", warmup);
	if (failure)
		cJSON_AddStringToObject(s, "failure", failure);
	list = cJSON_AddObjectToObject(s, "values");
	cJSON_ArrayForEach (m, metrics)
		cJSON_AddItemToObject(list, json_text(m, "name"), json_round(*values++));
	if (away)
		cJSON_AddItemToObject(s, "away", away_json(away));
	if (detail)
		cJSON_AddItemToObject(s, "detail", detail);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(bench_case, "samples"), s);
	return s;
}

static bool counts(const cJSON *sample, enum side side)
{
	return !strcmp(json_text(sample, "side"), side_names[side]) &&
	       !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(sample, "warmup")) &&
	       !cJSON_HasObjectItem(sample, "failure");
}

double *case_values(const cJSON *bench_case, const char *metric, enum side side, size_t *count)
{
	const cJSON *samples = cJSON_GetObjectItemCaseSensitive(bench_case, "samples"), *s;
	size_t size = (size_t)cJSON_GetArraySize(samples) + 1;
	double *values = check_alloc(malloc(size * sizeof(*values))), value;

	*count = 0;
	cJSON_ArrayForEach (s, samples) {
		if (!counts(s, side))
			continue;
		value = json_number(cJSON_GetObjectItemCaseSensitive(s, "values"), metric);
		if (!isnan(value))
			values[(*count)++] = value;
	}
	return values;
}

/* ---- conclusions ---------------------------------------------------------------------------- */

static cJSON *summary_json(const struct summary *s)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddNumberToObject(o, "count", (double)s->count);
	cJSON_AddItemToObject(o, "median", json_round(s->median));
	cJSON_AddItemToObject(o, "min", json_round(s->min));
	cJSON_AddItemToObject(o, "max", json_round(s->max));
	cJSON_AddItemToObject(o, "mean", json_round(s->mean));
	cJSON_AddItemToObject(o, "deviation", json_round(s->deviation));
	return o;
}

cJSON *ratio_json(const struct ratio *r)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddItemToObject(o, "ratio", json_round(r->ratio));
	cJSON_AddItemToObject(o, "low", json_round(r->low));
	cJSON_AddItemToObject(o, "high", json_round(r->high));
	cJSON_AddNumberToObject(o, "confidence", r->confidence);
	cJSON_AddStringToObject(o, "difference", verdict_names[r->verdict]);
	return o;
}

static cJSON *conclusion_of(const struct results *r, const cJSON *bench_case, const cJSON *metric)
{
	const char *name = json_text(metric, "name");
	cJSON *o = check_alloc(cJSON_CreateObject());
	double *values[SIDES];
	size_t counts_of[SIDES];
	struct summary s;
	struct ratio ratio;

	cJSON_AddStringToObject(o, "metric", name);
	for (int side = 0; side < SIDES; side++) {
		values[side] = case_values(bench_case, name, side, &counts_of[side]);
		s = summary_of(values[side], counts_of[side]);
		cJSON_AddItemToObject(o, side_names[side], summary_json(&s));
	}
	ratio = ratio_of_medians(values[SIDE_BASELINE], counts_of[SIDE_BASELINE],
				 values[SIDE_SHIFT], counts_of[SIDE_SHIFT], r->options->confidence,
				 r->options->seed);
	cJSON_AddItemToObject(o, "ratio", ratio_json(&ratio));
	for (int side = 0; side < SIDES; side++)
		free(values[side]);
	return o;
}

void case_conclude(struct results *r, cJSON *bench_case)
{
	cJSON *list, *m;

	cJSON_DeleteItemFromObject(bench_case, "results");
	list = check_alloc(cJSON_AddArrayToObject(bench_case, "results"));
	cJSON_ArrayForEach (m, cJSON_GetObjectItemCaseSensitive(bench_case, "metrics"))
		cJSON_AddItemToArray(list, conclusion_of(r, bench_case, m));
}

/* ---- the file ------------------------------------------------------------------------------- */

static int write_whole(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	if (fputs(text, f) < 0 || fputc('\n', f) < 0 || fflush(f) || fsync(fileno(f))) {
		int failed = -errno;

		fclose(f);
		return failed;
	}
	return fclose(f) ? -errno : 0;
}

void results_save(struct results *r, const char *state)
{
	char *text, temporary[4096];
	int failed;

	cJSON_ReplaceItemInObjectCaseSensitive(r->root, "state", cJSON_CreateString(state));
	add_time(r->root, "saved");
	if (!r->options->json || r->failed_to_write)
		return;
	text = check_alloc(cJSON_PrintUnformatted(r->root));
	snprintf(temporary, sizeof(temporary), "%s.%ld", r->options->json, (long)getpid());
	failed = write_whole(temporary, text);
	if (!failed && rename(temporary, r->options->json))
		failed = -errno;
	if (failed) {
		say("%s: %s", r->options->json, strerror(-failed));
		unlink(temporary);
		r->failed_to_write = true; /* said once */
	}
	free(text);
}

static char *read_whole(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	char *text;
	size_t n;

	if (!f || fstat(fileno(f), &st))
		die(EXIT_BAD_USAGE, "%s: %s", path, strerror(errno));
	text = check_alloc(malloc((size_t)st.st_size + 1));
	n = fread(text, 1, (size_t)st.st_size, f);
	text[n] = 0;
	fclose(f);
	return text;
}

cJSON *results_load(const char *path)
{
	char *text = read_whole(path);
	cJSON *root = cJSON_Parse(text);

	free(text);
	if (!root || strcmp(json_text(root, "program"), "shift-bench") ||
	    !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(root, "cases")))
		die(EXIT_BAD_USAGE, "%s: not a file of shift-bench --json", path);
	if (json_number(root, "schema") != SCHEMA)
		die(EXIT_BAD_USAGE, "%s: schema %g, this program knows %d", path,
		    json_number(root, "schema"), SCHEMA);
	return root;
}
