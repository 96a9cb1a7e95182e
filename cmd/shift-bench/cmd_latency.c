/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Table 1 of SHIFT, Figure 4 (b) of LubeRDMA: the distribution of ib_*_lat. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/histogram.h"
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
	"seconds)\n" OPTIONS_HELP OPTIONS_HELP_HOSTS;

static const struct metric metrics[] = {
	{"p50", "us", BETTER_LESS},  {"p99", "us", BETTER_LESS}, {"p99.9", "us", BETTER_LESS},
	{"mean", "us", BETTER_LESS}, {"min", "us", BETTER_LESS},
};

enum {
	METRICS = sizeof(metrics) / sizeof(*metrics),
	FIRST_ITERATIONS = 200,
	MAX_ITERATIONS = 100000,
	RUN_US = 2000000,
};

static const char *ops = "write,send,read", *sizes;
static long iterations;

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

static const struct own_option own[] = {
	{"ops", true, set_ops},
	{"sizes", true, set_sizes},
	{"iterations", true, set_iterations},
	{NULL, false, NULL},
};

struct task {
	struct hosts *hosts;
	const struct bench_options *options;
	struct perftest perftest;
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

static int measure_once(struct task *t, bool with_shift, struct measurement *m)
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
		m->failure = "perftest printed no latencies (it may have failed to find the rate "
			     "of the clock)";
	}
	free(us);
	pair_free(&out);
	return status;
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

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	int status = t->perftest.iterations ? EXIT_OK : calibrate(t);

	return status ? status : measure_once(t, with_shift, m);
}

static int one_case(struct plan *p, struct task *t, const char *op, long size)
{
	cJSON *parameters = cJSON_CreateObject();

	t->perftest = (struct perftest){.program = format_text("ib_%s_lat", op),
					.size = size,
					.qps = 1,
					.iterations = iterations,
					.unsorted = true};
	cJSON_AddStringToObject(parameters, "op", op);
	cJSON_AddNumberToObject(parameters, "size", (double)size);
	return plan_case(p, format_text("%s %ld B", op, size), parameters, metrics, METRICS,
			 measure, t);
}

int latency_cases(struct results *r, struct hosts *h)
{
	struct plan plan = {.results = r};
	struct task t = {.hosts = h, .options = r->options};
	size_t size_count, op_count;
	const char **op = parse_words("ops", ops, "write,send,read", &op_count);
	long *list = parse_sizes("sizes", sizes, 1, 65536, &size_count);
	int status = EXIT_OK, worst = EXIT_OK;

	plan.case_count = op_count * size_count;
	for (size_t i = 0; i < op_count && status <= EXIT_FAILED; i++)
		for (size_t j = 0; j < size_count && status <= EXIT_FAILED; j++) {
			status = one_case(&plan, &t, op[i], list[j]);
			worst = status > worst ? status : worst;
		}
	free(list);
	free(op);
	return worst;
}

void latency_defaults(bool quick, bool of_all)
{
	if (!sizes)
		sizes = !quick ? "1,2,4,8,16,64,1K,4K,64K" : of_all ? "8" : "8,4K";
}

int cmd_latency(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 10, .warmup = 1};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	latency_defaults(o.quick, false);
	free(parse_sizes("sizes", sizes, 1, 65536, &count));
	free(parse_words("ops", ops, "write,send,read", &count));
	interrupts_catch();
	results_begin(&r, &o, "latency", argc, argv);
	status = measure_between_hosts(&r, false, latency_cases);
	results_free(&r);
	return status;
}
