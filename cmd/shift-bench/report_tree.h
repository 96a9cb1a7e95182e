/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the page asks the tree of sample.h, which may be somebody else's file: any member may be
 * missing or of another kind. */
#ifndef SHIFT_BENCH_REPORT_TREE_H
#define SHIFT_BENCH_REPORT_TREE_H

#include "cmd/shift-bench/sample.h"

/* "results" of the cases that have none, computed with the file's confidence and seed. */
void report_conclude(cJSON *root);

const cJSON *report_member(const cJSON *o, const char *name);
const cJSON *report_cases(const cJSON *root);

/* "without shift", "with shift"; of a control "without shift, again". */
const char *side_title(const cJSON *root, enum side side);

/* Of a metric of a case; NULL if it has none. */
const cJSON *result_of(const cJSON *bench_case, const char *metric);
const cJSON *side_of(const cJSON *result, enum side side);

/* "p50" is the median latency; else the name itself. */
const char *metric_title(const char *name);

enum judgement { JUDGED_UNKNOWN, JUDGED_TOO_FEW, JUDGED_NONE, JUDGED_WORSE, JUDGED_BETTER };
enum judgement judgement_of(const cJSON *metric, const cJSON *result);

/* Samples without warm-up and failures, one after another; NULL to begin. */
const cJSON *next_sample(const cJSON *bench_case, enum side side, const cJSON *after);

struct worst_away {
	double steal, pause_ms; /* steal: 0..1 */
	int failed;
};
void away_add(struct worst_away *w, const cJSON *bench_case);
const char *worst_away_text(const struct worst_away *w);

/* Whether both have the same metrics, so that they stand in one table. */
bool same_metrics(const cJSON *one, const cJSON *other);

/* The parameter along which these cases grow ("qps", "size", ...), or NULL. */
const char *growth_parameter(const cJSON *const *cases, size_t count);

/* Whether all parameters but that one are the same. */
bool same_but(const cJSON *one, const cJSON *other, const char *parameter);

/* "write, 4096 B": all parameters but that one. As format_text(). */
char *parameters_text(const cJSON *bench_case, const char *but);

/* "64K" of 65536. As format_text(). */
char *size_text(double bytes);

/* Cases with the same metrics, in the file's order. The array is the caller's. first: a case that
 * is in no family before. */
const cJSON **family_of(const cJSON *root, const cJSON *first, size_t *count);
bool begins_family(const cJSON *root, const cJSON *bench_case);

#endif
