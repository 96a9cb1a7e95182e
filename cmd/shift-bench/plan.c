/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/report.h"
#include "cmd/shift-bench/table.h"

enum { WAIT_MS = 20 };

static volatile sig_atomic_t interrupt;

static void note_interrupt(int number)
{
	interrupt = number;
}

void interrupts_catch(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction a = {.sa_handler = note_interrupt};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaction(numbers[i], &a, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool interrupted(void)
{
	return interrupt != 0;
}

void wait_ms(int64_t ms)
{
	int64_t until = now_ms() + ms, left_ms;

	while ((left_ms = until - now_ms()) > 0 && !interrupted())
		usleep((useconds_t)(left_ms < WAIT_MS ? left_ms : WAIT_MS) * 1000);
}

/* One run of one side, recorded and saved. */
static int one_run(struct plan *p, cJSON *c, enum side side, bool warmup, size_t metric_count,
		   measure_fn *measure, void *what, bool *failed)
{
	const struct bench_options *o = p->results->options;
	double *values = check_alloc(malloc((metric_count + 1) * sizeof(*values)));
	struct measurement m = {.values = values};
	int status;

	for (size_t i = 0; i < metric_count; i++)
		values[i] = NAN;
	status = measure(what, side == SIDE_SHIFT && !o->control, &m);
	if (!status) {
		sample_add(c, side, warmup, values, &m.away, m.detail, m.failure);
		*failed = m.failure != NULL;
		if (m.failure) {
			progress(NULL);
			say("%s, %s: %s", json_text(c, "id"),
			    side == SIDE_SHIFT && !o->control ? "with shift" : "without shift",
			    m.failure);
		}
		results_save(p->results, "running");
	} else {
		cJSON_Delete(m.detail);
	}
	free(values);
	return status;
}

/* Once more if it fails: it is then no failure of the case, but stays in the file. */
static int one_run_or_two(struct plan *p, cJSON *c, enum side side, bool warmup,
			  size_t metric_count, measure_fn *measure, void *what, int *failures)
{
	bool failed = false;
	int status = one_run(p, c, side, warmup, metric_count, measure, what, &failed);

	if (!status && failed)
		status = one_run(p, c, side, warmup, metric_count, measure, what, &failed);
	*failures += failed;
	return status;
}

static int all_runs(struct plan *p, cJSON *c, size_t metric_count, measure_fn *measure, void *what)
{
	const struct bench_options *o = p->results->options;
	int failures = 0, status;

	for (long i = 0; i < o->warmup + o->repetitions; i++)
		for (int side = 0; side < SIDES; side++) {
			progress(format_text(
				"%s (%zu of %zu): run %ld of %ld, %s", json_text(c, "id"),
				p->case_number, p->case_count, i + 1, o->warmup + o->repetitions,
				side == SIDE_SHIFT && !o->control ? "with shift" : "without"));
			status = one_run_or_two(p, c, side, i < o->warmup, metric_count, measure,
						what, &failures);
			if (status)
				return status;
			if (failures == FAILURES_MAX)
				return EXIT_FAILED;
		}
	return failures ? EXIT_FAILED : EXIT_OK;
}

int plan_case(struct plan *p, const char *id, cJSON *parameters, const struct metric *metrics,
	      size_t metric_count, measure_fn *measure, void *what)
{
	cJSON *c = case_add(p->results, id, parameters, metrics, metric_count);
	int status;

	p->case_number++;
	status = all_runs(p, c, metric_count, measure, what);
	case_conclude(p->results, c);
	results_save(p->results, "running");
	(p->row ? p->row : table_case)(c);
	return status;
}

int plan_end(struct results *r, int status)
{
	size_t of;
	const char *state = status == EXIT_INTERRUPTED ? "interrupted"
			    : status		       ? "failed"
						       : "complete";

	results_save(r, state);
	if (cJSON_GetArraySize(r->cases))
		table_foot(r);
	if (r->options->html && cJSON_GetArraySize(r->cases) &&
	    report_write(r->root, r->options->html))
		r->failed_to_write = true;
	if (!status && r->failed_to_write)
		return EXIT_FAILED;
	if (!status && r->options->control && differences(r, &of))
		return EXIT_WORSE;
	return status;
}
