/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Figure 8 of SHIFT: the throughput of each rail on both hosts while a link goes down and up. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/bins.h"
#include "cmd/shift-bench/marks.h"
#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/scene.h"

#define FAULTS "down:a,down:b,pull:a,pull:b,blackhole:b"

static const char help[] =
	"usage: shift-bench timeline [options]\n"
	"What each NIC of both hosts carries, in bins of 100 ms, while a link goes down and up, "
	"without\n"
	"and with shift in turn. The series are in the file of --json.\n"
	"\n"
	"      --ops LIST         of write,send,read (default: all)\n"
	"      --faults LIST      of down:a,down:b,pull:a,pull:b,blackhole:b (default:\n"
	"                         down:a,down:b; --quick: down:a)\n"
	"      --fault-ms N       how long it is down (default 4000)\n" OPTIONS_HELP
		OPTIONS_HELP_HOSTS;

enum value { BEFORE, DURING, AFTER, GAP, METRICS };

static const struct metric metrics[METRICS] = {
	[BEFORE] = {"before", "MiB/s", BETTER_MORE},
	[DURING] = {"during", "MiB/s", BETTER_MORE},
	[AFTER] = {"after", "MiB/s", BETTER_MORE},
	[GAP] = {"gap", "ms", BETTER_LESS},
};

enum { AFTER_MS = 6000, SETTLE_MS = 1500, DIRECTIONS = 2 };

static const char *ops, *names;
static long fault_ms = 4000;

static void set_ops(const char *s)
{
	ops = s;
}

static void set_faults(const char *s)
{
	names = s;
}

static void set_fault_ms(const char *s)
{
	fault_ms = option_number("fault-ms", s, 1000, 20000);
}

static const struct own_option own[] = {
	{"ops", true, set_ops},
	{"faults", true, set_faults},
	{"fault-ms", true, set_fault_ms},
	{NULL, false, NULL},
};

struct task {
	struct hosts *hosts;
	const struct bench_options *options;
	const struct fault *fault;
	const char *op;
};

/* ---- series and marks ----------------------------------------------------------------------- */

static void add_series(cJSON *list, const char *name, const double *rates, size_t count)
{
	cJSON *o = check_alloc(cJSON_CreateObject()), *values;

	cJSON_AddStringToObject(o, "name", name);
	cJSON_AddStringToObject(o, "unit", "MiB/s");
	cJSON_AddNumberToObject(o, "bin_ms", BIN_MS);
	values = cJSON_AddArrayToObject(o, "values");
	for (size_t i = 0; i < count; i++)
		cJSON_AddItemToArray(values, json_round(rates[i]));
	cJSON_AddItemToArray(list, o);
}

static void add_host(cJSON *list, enum host host, const struct counts *c)
{
	for (size_t i = 0; i < c->columns; i++) {
		size_t count;
		double *rates = counts_rates(c, i, &count);

		add_series(list,
			   format_text("%s rail %zu %s", host_name(host), i / DIRECTIONS,
				       i % DIRECTIONS ? "out" : "in"),
			   rates, count);
		free(rates);
	}
}

/* ---- one run -------------------------------------------------------------------------------- */

/* Of both rails of one host in one direction; the caller frees it. */
static double *rates_of_both(const struct counts *c, size_t direction, size_t *count)
{
	double *sum = counts_rates(c, direction, count);

	for (size_t i = direction + DIRECTIONS; i < c->columns; i += DIRECTIONS) {
		size_t n;
		double *more = counts_rates(c, i, &n);

		for (size_t k = 0; k < n && k < *count; k++)
			sum[k] += more[k];
		free(more);
	}
	return sum;
}

static void take_rates(const struct task *t, const struct counts *c, double fault_at,
		       double mended_at, double *v)
{
	/* READ brings data to a, the others take it away. */
	size_t count, direction = strcmp(t->op, "read") ? 1 : 0;
	double *rates = rates_of_both(c, direction, &count);
	double end = (double)count * BIN_MS;

	v[BEFORE] = rates_median(rates, count, 0, fault_at);
	v[DURING] = rates_median(rates, count, fault_at + SETTLE_MS, mended_at);
	v[AFTER] = rates_median(rates, count, mended_at + SETTLE_MS, end);
	v[GAP] = rates_gap_ms(rates, count, v[BEFORE], 0.1);
	free(rates);
}

/* Each host's times count from its own first line, as the clocks of two hosts are apart and both
 * begin to count at once. */
static void take_timeline(const struct task *t, const struct scene_outcome *out,
			  struct measurement *m)
{
	struct counts counts[HOSTS];
	cJSON *series, *marks;
	double fault_at, mended_at, began;

	if (!m->detail)
		m->detail = check_alloc(cJSON_CreateObject());
	series = cJSON_AddArrayToObject(m->detail, "series");
	marks = cJSON_AddArrayToObject(m->detail, "marks");
	for (int i = 0; i < HOSTS; i++) {
		counts_parse(&counts[i], out->bytes[i] ? out->bytes[i] : "");
		add_host(series, i, &counts[i]);
	}
	began = t->fault->words ? counts[t->fault->host].began_unix_ms : out->counting_unix_ms;
	fault_at = out->fault_unix_ms - began;
	mended_at = out->mended_unix_ms - began;
	marks_add(marks, fault_at, "fault", t->fault->host);
	marks_add(marks, mended_at, "mended", t->fault->host);
	marks_add_switches(marks, out->pair.report[HOST_A], counts[HOST_A].began_unix_ms, HOST_A);
	if (counts[HOST_A].lines > 1 && !isnan(fault_at))
		take_rates(t, &counts[HOST_A], fault_at, mended_at, m->values);
	else
		m->failure = "nothing was counted on host a, or no fault came";
	for (int i = 0; i < HOSTS; i++)
		counts_free(&counts[i]);
}

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	const char *client[] = {"--ops", t->op, "--size", "4096", "--fixed-size", NULL};
	struct scene s = {.hosts = t->hosts,
			  .options = t->options,
			  .fault = t->fault,
			  .client = client,
			  .fault_ms = fault_ms,
			  .after_ms = AFTER_MS,
			  .watch_bytes = true,
			  .with_shift = with_shift};
	struct scene_outcome out;
	int status = scene_run(&s, &out);

	if (!status) {
		pair_protection(&out.pair, with_shift, &m->detail);
		m->away = out.pair.away;
		m->failure = out.pair.failure;
		if (!m->failure)
			take_timeline(t, &out, m);
	}
	scene_free(&out);
	return status;
}

int timeline_cases(struct results *r, struct hosts *h)
{
	struct task t = {.hosts = h, .options = r->options};
	struct plan plan = {.results = r};
	size_t op_count, fault_count;
	const char **op = parse_words("ops", ops, "write,send,read", &op_count);
	const char **fault = parse_words("faults", names, FAULTS, &fault_count);
	int status = EXIT_OK, worst = EXIT_OK;

	plan.case_count = op_count * fault_count;
	for (size_t i = 0; i < plan.case_count && status <= EXIT_FAILED; i++) {
		cJSON *parameters = cJSON_CreateObject();
		const char *name = fault[i / op_count];

		t.op = op[i % op_count];
		t.fault = fault_named(name);
		cJSON_AddStringToObject(parameters, "op", t.op);
		cJSON_AddStringToObject(parameters, "fault", name);
		cJSON_AddNumberToObject(parameters, "fault_ms", (double)fault_ms);
		status = plan_case(&plan, format_text("%s %s", t.op, name), parameters, metrics,
				   METRICS, measure, &t);
		worst = status > worst ? status : worst;
	}
	free(op);
	free(fault);
	return worst;
}

void timeline_defaults(struct scope scope)
{
	static const char every[] = "write,send,read", both[] = "down:a,down:b";

	ops = by_scope(scope, ops, every, every, every, "write");
	names = by_scope(scope, names, both, "down:a", both, "down:a");
}

int cmd_timeline(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 3, .warmup = 0, .quick_repetitions = 1};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	timeline_defaults((struct scope){.quick = o.quick});
	free(parse_words("ops", ops, "write,send,read", &count));
	free(parse_words("faults", names, FAULTS, &count));
	interrupts_catch();
	results_begin(&r, &o, "timeline", argc, argv);
	status = measure_between_hosts(&r, true, timeline_cases);
	results_free(&r);
	return status;
}
