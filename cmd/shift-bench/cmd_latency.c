/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Table 1 of SHIFT, Figure 4 (b) of LubeRDMA: the distribution of ib_*_lat. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/histogram.h"
#include "cmd/shift-bench/idle.h"
#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/perftest.h"
#include "cmd/shift-bench/plan.h"

static const char help[] =
	"usage: shift-bench latency [options]\n"
	"The latency of ib_write_lat, ib_send_lat and ib_read_lat from host a to host b, without "
	"and\n"
	"with shift in turn; every single message behind the first quarter counts. As perftest, "
	"half a round trip for "
	"write\n"
	"and send, the whole of it for read.\n"
	"\n"
	"      --ops LIST         of write,send,read (default: all)\n"
	"      --sizes LIST       bytes, 1 to 64K (default 1,2,4,8,16,64,1K,4K,64K)\n"
	"      --iterations N     messages of a run (default: what takes about two "
	"seconds)\n"
	"      --idle-qps LIST    beside so many QPs that do nothing, 0 to 1000 (default "
	"0)\n"
	"      --events           asleep on completion channels, for send and read (default: "
	"read)\n" OPTIONS_HELP OPTIONS_HELP_HOSTS;

static const struct metric metrics[] = {
	{"p50", "us", BETTER_LESS},  {"p99", "us", BETTER_LESS}, {"p99.9", "us", BETTER_LESS},
	{"mean", "us", BETTER_LESS}, {"min", "us", BETTER_LESS},
};

enum {
	METRICS = sizeof(metrics) / sizeof(*metrics),
	FIRST_ITERATIONS = 200,
	TRIES = 4, /* of a run */
	MAX_ITERATIONS = 100000,
	RUN_US = 2000000,
	IDLE_QPS_MAX = 1000,
};

static const char *ops, *sizes, *idle_list = "0";
static long iterations;
static bool events;

/* perftest sleeps for no WRITE. */
static const char *every_op(void)
{
	return events ? "send,read" : "write,send,read";
}

static void set_ops(const char *s)
{
	ops = s;
}

static void set_sizes(const char *s)
{
	sizes = s;
}

static void set_iterations(const char *s)
{
	iterations = option_number("iterations", s, 100, 10000000);
}

static void set_idle_qps(const char *s)
{
	idle_list = s;
}

static void set_events(const char *s)
{
	(void)s;
	events = true;
}

static const struct own_option own[] = {
	{"ops", true, set_ops},
	{"sizes", true, set_sizes},
	{"iterations", true, set_iterations},
	{"idle-qps", true, set_idle_qps},
	{"events", false, set_events},
	{NULL, false, NULL},
};

struct task {
	struct hosts *hosts;
	const struct bench_options *options;
	struct perftest perftest;
	long idle_qps;
};

static void take_latencies(struct measurement *m, double *us, size_t count)
{
	double sum = 0;

	values_sort(us, count);
	for (size_t i = 0; i < count; i++)
		sum += us[i];
	m->values[0] = sorted_percentile(us, count, 0.5);
	m->values[1] = sorted_percentile(us, count, 0.99);
	m->values[2] = sorted_percentile(us, count, 0.999);
	m->values[3] = sum / (double)count;
	m->values[4] = us[0];
	if (!m->detail)
		m->detail = check_alloc(cJSON_CreateObject());
	cJSON_AddItemToObject(m->detail, "distribution", histogram_json(us, count, "us"));
}

/* A connection is protected only a moment after it carries data; the side without shift leaves out
 * as many. */
static size_t head_of(size_t count)
{
	return count / 4;
}

static const char no_latencies[] =
	"perftest printed no latencies (it may have failed to find the rate of the clock)";

static int measure_try(struct task *t, bool with_shift, struct measurement *m)
{
	struct pair_outcome out;
	int status = perftest_run(t->hosts, &t->perftest, t->options, with_shift, &out);
	size_t count = 0;
	double *us = status ? NULL : perftest_latencies(out.out[HOST_A], &count);

	m->away = out.away;
	if (!status && !out.failure)
		pair_protection(&out, with_shift, &m->detail);
	m->failure = out.failure;
	if (count && !out.failure) {
		size_t head = head_of(count);

		take_latencies(m, us + head, count - head);
	} else if (!status && !m->failure) {
		m->failure = no_latencies;
	}
	free(us);
	pair_free(&out);
	return status;
}

/* Where the processor is much in use, perftest often does not find the rate of its clock; what it
 * measures has nothing to do with that. */
static int measure_once(struct task *t, bool with_shift, struct measurement *m)
{
	for (int left = TRIES - 1;; left--) {
		int status = measure_try(t, with_shift, m);

		if (status || m->failure != no_latencies || !left)
			return status;
		cJSON_Delete(m->detail);
		m->detail = NULL;
		m->failure = NULL;
	}
}

/* A few messages tell how many take about two seconds. */
static int calibrate(struct task *t)
{
	double values[METRICS];
	struct measurement m = {.values = values};
	int status;

	t->perftest.iterations = FIRST_ITERATIONS;
	status = measure_once(t, false, &m);
	cJSON_Delete(m.detail);
	if (!status && !m.failure && values[3] > 0)
		t->perftest.iterations = lround(
			fmax(FIRST_ITERATIONS, fmin(MAX_ITERATIONS, RUN_US / (2 * values[3]))));
	return status;
}

/* Theirs are under shift like the one that is measured. */
static int measure_beside_idle(struct task *t, bool with_shift, struct measurement *m)
{
	struct idle idle;
	const char *failure;
	int status = EXIT_OK;

	m->failure = idle_begin(&idle, t->hosts, t->options, t->idle_qps, with_shift);
	if (!m->failure && !interrupted())
		status = measure_once(t, with_shift, m);
	failure = idle_end(&idle);
	if (!m->failure)
		m->failure = failure;
	if (interrupted())
		return EXIT_INTERRUPTED;
	return status || !m->failure ? status : hosts_check(t->hosts);
}

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	int status = t->perftest.iterations ? EXIT_OK : calibrate(t);

	if (status)
		return status;
	return t->idle_qps ? measure_beside_idle(t, with_shift, m) : measure_once(t, with_shift, m);
}

static int one_case(struct plan *p, struct task *t, const char *op, long size)
{
	const char *beside = "";
	cJSON *parameters = cJSON_CreateObject();

	t->perftest = (struct perftest){.program = format_text("ib_%s_lat", op),
					.size = size,
					.qps = 1,
					.iterations = iterations,
					.unsorted = true,
					.events = events};
	cJSON_AddStringToObject(parameters, "op", op);
	cJSON_AddNumberToObject(parameters, "size", (double)size);
	if (t->idle_qps) {
		cJSON_AddNumberToObject(parameters, "idle_qps", (double)t->idle_qps);
		beside = format_text(", %ld idle QP%s", t->idle_qps, t->idle_qps == 1 ? "" : "s");
	}
	if (events)
		cJSON_AddTrueToObject(parameters, "events");
	return plan_case(p, format_text("%s %ld B%s%s", op, size, events ? ", events" : "", beside),
			 parameters, metrics, METRICS, measure, t);
}

static bool any_of(const long *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i])
			return true;
	return false;
}

int latency_cases(struct results *r, struct hosts *h)
{
	struct plan plan = {.results = r};
	struct task t = {.hosts = h, .options = r->options};
	size_t size_count, op_count, idle_count;
	const char **op = parse_words("ops", ops, every_op(), &op_count);
	long *list = parse_sizes("sizes", sizes, 1, 65536, &size_count);
	long *idle = parse_sizes("idle-qps", idle_list, 0, IDLE_QPS_MAX, &idle_count);
	int status = any_of(idle, idle_count) ? hosts_need(h->idle_qps, "idle-qps") : EXIT_OK;
	int worst = status;

	plan.case_count = op_count * size_count * idle_count;
	for (size_t i = 0; i < plan.case_count && status <= EXIT_FAILED; i++) {
		t.idle_qps = idle[i % idle_count];
		status = one_case(&plan, &t, op[i / idle_count / size_count],
				  list[i / idle_count % size_count]);
		worst = status > worst ? status : worst;
	}
	free(idle);
	free(list);
	free(op);
	return worst;
}

void latency_defaults(struct scope scope)
{
	const char *every = events ? "read" : every_op();

	ops = by_scope(scope, ops, every, every, every, events ? every : "write");
	sizes = by_scope(scope, sizes, "1,2,4,8,16,64,1K,4K,64K", "8,4K", "1,64,4K,64K", "8");
}

int cmd_latency(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 10, .warmup = 1};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	latency_defaults((struct scope){.quick = o.quick});
	free(parse_sizes("sizes", sizes, 1, 65536, &count));
	free(parse_sizes("idle-qps", idle_list, 0, IDLE_QPS_MAX, &count));
	free(parse_words("ops", ops, every_op(), &count));
	interrupts_catch();
	results_begin(&r, &o, "latency", argc, argv);
	status = measure_between_hosts(&r, false, latency_cases);
	results_free(&r);
	return status;
}
