/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One fault at a time under the integrity client: how long nothing completes, and what it costs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/outage.h"
#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/perftest.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/scene.h"

#define QUICK "down:a,down:b,pull:a,pull:b,blackhole:b,ack-drop:b"
#define ALL   QUICK ",blackhole:a,loss:b"

static const char help[] =
	"usage: shift-bench failover [options]\n"
	"One fault under a stream of checked messages from host a to host b, without and with "
	"shift\n"
	"in turn: the outage, its phases, and messages lost, duplicated or reordered.\n"
	"\n"
	"      --faults LIST      of down:a,down:b,pull:a,pull:b,blackhole:b,ack-drop:b,\n"
	"                         blackhole:a,loss:b (default: all; --quick: the first six)\n"
	"      --fault-ms N       how long a fault lasts (default 3000)\n" OPTIONS_HELP
		OPTIONS_HELP_HOSTS;

enum value {
	OUTAGE,
	OUTAGE_RTT,
	ENDED,
	LOST,
	DUPLICATED,
	REORDERED,
	DETECT,
	REPAIR,
	HEARD,
	PAUSED,
	QUIET,
	METRICS
};

static const struct metric metrics[METRICS] = {
	[OUTAGE] = {"outage", "ms", BETTER_LESS},
	[OUTAGE_RTT] = {"outage_rtt", "RTT", BETTER_LESS},
	[ENDED] = {"ended", "runs", BETTER_LESS},
	[LOST] = {"lost", "messages", BETTER_LESS},
	[DUPLICATED] = {"duplicated", "messages", BETTER_LESS},
	[REORDERED] = {"reordered", "messages", BETTER_LESS},
	[DETECT] = {"detect", "ms", BETTER_LESS},
	[REPAIR] = {"fence..repost", "ms", BETTER_LESS},
	[HEARD] = {"heard", "ms", BETTER_LESS},
	[PAUSED] = {"paused", "ms", BETTER_LESS},
	[QUIET] = {"no_fault_gap", "ms", BETTER_LESS},
};

/* Measured on other machines, by other ways; they stand beside ours and are compared with nothing.
 */
static const struct paper {
	const char *name, *what, *metric, *said;
	double ms;
} papers[] = {
	{"SHIFT", "from the error to the first WR on the backup", "fence..repost", "2.30 ms", 2.3},
	{"LubeRDMA", "until the failure is noticed", "detect", "about 2 s", 2000},
};

static const char *names;
static long fault_ms = 3000;

static void set_faults(const char *s)
{
	names = s;
}

static void set_fault_ms(const char *s)
{
	fault_ms = option_number("fault-ms", s, 500, 20000);
}

static const struct own_option own[] = {
	{"faults", true, set_faults},
	{"fault-ms", true, set_fault_ms},
	{NULL, false, NULL},
};

struct task {
	struct hosts *hosts;
	const struct bench_options *options;
	const struct fault *fault;
	double rtt_us;
};

static void add_phases(cJSON **detail, const cJSON *failover)
{
	const cJSON *phases = cJSON_GetObjectItemCaseSensitive(failover, "phases_us");

	if (!phases)
		return;
	if (!*detail)
		*detail = check_alloc(cJSON_CreateObject());
	cJSON_AddItemToObject(*detail, "phases_us", cJSON_Duplicate(phases, true));
}

static void take_outage(const struct task *t, const struct scene_outcome *out,
			struct measurement *m)
{
	static const char *const detect[] = {"detect", NULL};
	static const char *const repair[] = {"fence", "wait", "arm", "handshake", "repost", NULL};
	const cJSON *report = out->pair.report[HOST_A], *failover = first_failover(report);
	struct outage o = outage_of(out->client, report);
	double *v = m->values;

	v[OUTAGE] = o.ms;
	v[OUTAGE_RTT] = o.ms * 1000 / t->rtt_us;
	v[ENDED] = o.ended;
	v[LOST] = o.lost;
	v[DUPLICATED] = o.duplicated;
	v[REORDERED] = o.reordered;
	v[DETECT] = phases_ms(failover, detect);
	v[REPAIR] = phases_ms(failover, repair);
	v[HEARD] = o.heard_ms;
	v[PAUSED] = o.paused_ms;
	v[QUIET] = o.quiet_ms;
	add_phases(&m->detail, failover);
}

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	struct scene s = {.hosts = t->hosts,
			  .options = t->options,
			  .fault = t->fault,
			  .fault_ms = fault_ms,
			  .after_ms = 500,
			  .with_shift = with_shift};
	struct scene_outcome out;
	int status = scene_run(&s, &out);

	if (!status) {
		pair_protection(&out.pair, with_shift, &m->detail);
		m->away = out.pair.away;
		m->failure = out.pair.failure;
		if (!m->failure)
			take_outage(t, &out, m);
	}
	scene_free(&out);
	return status;
}

/* Of 8 bytes, without shift; the median. */
static int measure_round_trip(struct task *t)
{
	struct perftest p = {
		.program = "ib_send_lat", .size = 8, .qps = 1, .iterations = 500, .unsorted = true};
	struct pair_outcome out;
	int status = perftest_run(t->hosts, &p, t->options, false, &out);
	size_t count = 0;
	double *us = status ? NULL : perftest_latencies(out.out[HOST_A], &count);

	t->rtt_us = NAN;
	if (count) {
		values_sort(us, count);
		t->rtt_us = 2 * sorted_percentile(us, count, 0.5);
	}
	free(us);
	pair_free(&out);
	return status;
}

int failover_cases(struct results *r, struct hosts *h)
{
	struct task t = {.hosts = h, .options = r->options};
	struct plan plan = {.results = r};
	const char **list = parse_words("faults", names, ALL, &plan.case_count);
	int status = measure_round_trip(&t), worst = status;

	for (size_t i = 0; i < plan.case_count && status <= EXIT_FAILED; i++) {
		cJSON *parameters = cJSON_CreateObject();

		t.fault = fault_named(list[i]);
		cJSON_AddStringToObject(parameters, "fault", list[i]);
		cJSON_AddNumberToObject(parameters, "fault_ms", (double)fault_ms);
		cJSON_AddItemToObject(parameters, "rtt_us", json_round(t.rtt_us));
		status = plan_case(&plan, list[i], parameters, metrics, METRICS, measure, &t);
		worst = status > worst ? status : worst;
	}
	free(list);
	return worst;
}

/* The smallest and the largest median of the cases with shift. */
static void range_of(const struct results *r, const char *metric, double *low, double *high)
{
	const cJSON *c;

	*low = *high = NAN;
	cJSON_ArrayForEach (c, r->cases) {
		size_t count;
		double *values = case_values(c, metric, SIDE_SHIFT, &count);

		if (count) {
			double median = summary_of(values, count).median;

			*low = fmin(*low, median); /* of a number and NAN, the number */
			*high = fmax(*high, median);
		}
		free(values);
	}
}

void failover_papers(struct results *r)
{
	cJSON *list = check_alloc(cJSON_AddArrayToObject(r->root, "papers"));

	for (size_t i = 0; i < sizeof(papers) / sizeof(*papers); i++) {
		cJSON *o = check_alloc(cJSON_CreateObject());

		cJSON_AddStringToObject(o, "paper", papers[i].name);
		cJSON_AddStringToObject(o, "what", papers[i].what);
		cJSON_AddStringToObject(o, "metric", papers[i].metric);
		cJSON_AddStringToObject(o, "unit", "ms");
		cJSON_AddNumberToObject(o, "value", papers[i].ms);
		cJSON_AddItemToArray(list, o);
	}
}

void failover_print_papers(const struct results *r)
{
	double low, high;

	for (size_t i = 0; i < sizeof(papers) / sizeof(*papers); i++) {
		range_of(r, papers[i].metric, &low, &high);
		if (!isnan(low))
			printf("%s: %.3g to %.3g ms, the medians of the faults; %s (%s) tells %s\n",
			       papers[i].metric, low, high, papers[i].name, papers[i].what,
			       papers[i].said);
	}
}

void failover_defaults(struct scope scope)
{
	names = by_scope(scope, names, ALL, QUICK, ALL, QUICK);
	if (scope.quick && scope.of_all)
		fault_ms = 1000;
}

int cmd_failover(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 10, .warmup = 1, .quick_repetitions = 3};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	failover_defaults((struct scope){.quick = o.quick});
	free(parse_words("faults", names, ALL, &count));
	interrupts_catch();
	results_begin(&r, &o, "failover", argc, argv);
	failover_papers(&r);
	status = measure_between_hosts(&r, true, failover_cases);
	failover_print_papers(&r);
	results_free(&r);
	return status;
}
