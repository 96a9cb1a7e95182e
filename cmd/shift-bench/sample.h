/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What was measured, as the tree of JSON that becomes the file; the tables, compare and the report
 * in HTML read the same tree. Its form is described in shift-bench(1), "JSON".
 *
 *   results   one call of shift-bench: where, when, versions, seed
 *     case    one thing that is measured: "write 8 B", with its parameters and metrics
 *       sample  one run of one side: a value for each metric, how long the machine was away, and a
 *               detail of the command's own: a distribution, series by time bin, phases, marks
 */
#ifndef SHIFT_BENCH_SAMPLE_H
#define SHIFT_BENCH_SAMPLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/shift-bench/bench.h"
#include "cmd/shift-bench/machine.h"
#include "cmd/shift-bench/stats.h"

enum { SCHEMA = 1 };

enum side { SIDE_BASELINE, SIDE_SHIFT, SIDES };

enum better { BETTER_LESS, BETTER_MORE };

struct metric {
	const char *name, *unit; /* "p50", "us" */
	enum better better;
};

struct results {
	cJSON *root, *cases; /* cases belongs to root */
	const struct bench_options *options;
	const char *part; /* NULL, or of all: the command whose cases are added now */
	bool failed_to_write;
};

/* argv: what the user has called. Hosts and versions are added to root by whoever knows them. */
void results_begin(struct results *r, const struct bench_options *o, const char *command, int argc,
		   char **argv);
void results_free(struct results *r);

/*
 * The case is r's; its id begins with the part, if there is one. id is unique in r and the same in
 * any later run, for compare goes by it. parameters: an object, or NULL; it becomes the case's.
 */
cJSON *case_add(struct results *r, const char *id, cJSON *parameters, const struct metric *metrics,
		size_t metric_count);

/*
 * values: one for each metric, NAN if it was not measured. failure: why there is no value, or NULL.
 * detail: an object or NULL; it becomes the sample's. Its members, where a command has them:
 *   "distribution"  {unit, count, bins: [[value, count], ...]} (histogram.h)
 *   "series"        [{name, unit, bin_ms, values}]: "a rail 0 out", a number or null for each bin,
 *                   the first from 0 ms on
 *   "phases_us"     {detect, prepare, drain, fence, wait, arm, handshake, repost: us or null}, of
 *                   host a's first failover, in the order in which they ran
 *   "marks"         [{at_ms, what, host}]: "fault" and "mended" by shift-inject; "failover" and
 *                   "fail-back", the beginning of a switch
 *   "protection"    with shift {a, b: {connections, protected, setup_ms (from the first NIC that is
 *                   opened until the last is protected), reason if not all were}}
 * All times count from the sample's start, and are of the clock of host a.
 */
cJSON *sample_add(cJSON *bench_case, enum side side, bool warmup, const double *values,
		  const struct away *away, cJSON *detail, const char *failure);

/* The values of one side, without warm-up and failures. The caller frees them. */
double *case_values(const cJSON *bench_case, const char *metric, enum side side, size_t *count);

/* Computes "results" of a case anew: for each metric both summaries and the ratio. */
void case_conclude(struct results *r, cJSON *bench_case);

/* {"ratio", "low", "high", "confidence", "difference": "none", "less", "more", "too few"} */
cJSON *ratio_json(const struct ratio *r);

/* Writes --json's file, whole or not at all; without the option nothing. state: "running",
 * "complete", "interrupted", "failed". */
void results_save(struct results *r, const char *state);

/* Reads such a file, or ends the process with EXIT_BAD_USAGE. The caller frees the tree. */
cJSON *results_load(const char *path);

/* "" or text of a member; members that are no numbers are NAN. */
const char *json_text(const cJSON *o, const char *name);
double json_number(const cJSON *o, const char *name);

/* Numbers of a few significant digits; NAN is null. */
cJSON *json_round(double value);

#endif
