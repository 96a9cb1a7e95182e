/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What shift-diag path says of what the engine has found. One thread. */
#ifndef SHIFT_DIAG_PATH_VERDICT_H
#define SHIFT_DIAG_PATH_VERDICT_H

#include "cmd/shift-diag/path.h"
#include "cmd/shift-diag/verdict.h"

struct path_result {
	struct path_steps steps;
	struct telemetry telemetry;
	struct path_graph graph;
	double *rating; /* by flow of the telemetry */
	struct findings findings;
	struct signature_limits limits;
	size_t guessed; /* steps whose expected duration was not recorded */
	uint64_t began_ns;
	bool strange_ranks; /* not the job's, though they were asked for: a simulation's nodes */
};

/*
 * From steps and telemetry that were read, and limits: all the rest. A negative errno of
 * path_graph_build(), with bad_rank and bad_step. The caller frees it with path_result_free().
 */
int path_analyse(struct path_result *r, int *bad_rank, int *bad_step);
void path_result_free(struct path_result *r);

/* At least one. Returns how many; the caller frees each with verdict_free(), and them. */
size_t path_verdicts(const struct path_result *r, struct verdict **verdicts);

/* Flows with a rating above 0, the worst first; the caller frees it. */
int *path_rated(const struct path_result *r, size_t *n);

/* The part of a rating in the sum of all. */
double path_share(const struct path_result *r, int flow);

#endif
