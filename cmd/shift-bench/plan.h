/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How one case is measured: warm-up, then baseline and shift in turn, saved after each run. */
#ifndef SHIFT_BENCH_PLAN_H
#define SHIFT_BENCH_PLAN_H

#include "cmd/shift-bench/sample.h"

struct measurement {
	double *values;	     /* in: room for each metric, NAN; out */
	cJSON *detail;	     /* out: an object or NULL; taken over */
	const char *failure; /* out: NULL, or a text that lives as long as the process */
	struct away away;    /* out; the measurer calls watch_begin() and watch_end() */
};

/*
 * One run. under: with shift or without it (with --control SIDE_SHIFT is without it, too, and the
 * plan says so by with_shift). Returns EXIT_OK, or the exit status if nothing further can be done.
 */
typedef int measure_fn(void *what, bool with_shift, struct measurement *m);

struct plan {
	struct results *results;
	size_t case_count, case_number;	      /* for the progress; case_number is counted here */
	void (*row)(const cJSON *bench_case); /* prints a case; NULL: table_case() */
};

/*
 * Measures one case, and prints its row if there is a table (table.h). Returns EXIT_OK; EXIT_FAILED
 * if a run failed twice (a failed one is repeated once); after FAILURES_MAX of them the case is
 * given up, the next may be measured; anything else ends the whole. EXIT_INTERRUPTED after SIGINT,
 * SIGTERM or SIGHUP.
 */
int plan_case(struct plan *p, const char *id, cJSON *parameters, const struct metric *metrics,
	      size_t metric_count, measure_fn *measure, void *what);

/* The last save and the end of the table. Returns the exit status of the program. */
int plan_end(struct results *r, int status);

enum { FAILURES_MAX = 3 };

/* SIGINT, SIGTERM, SIGHUP set a flag from now on. */
void interrupts_catch(void);
bool interrupted(void);

/* Returns earlier after an interrupt. */
void wait_ms(int64_t ms);

#endif
