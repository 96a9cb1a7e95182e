/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* ib_*_bw: bytes and messages per second. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/perftest.h"
#include "cmd/shift-bench/plan.h"

static const char help[] =
	"usage: shift-bench bandwidth [options]\n"
	"The throughput of ib_write_bw, ib_send_bw and ib_read_bw between host a and host b, "
	"without\n"
	"and with shift in turn.\n"
	"\n"
	"      --ops LIST         of write,send,read (default: all)\n"
	"      --sizes LIST       bytes, 1 to 1M (default 4K,64K)\n"
	"      --qps LIST         queue pairs, 1 to 64 (default 1,8,64)\n"
	"      --directions LIST  of one,both (default: both of them)\n"
	"      --iterations N     messages of a queue pair in a run, in hundreds (default: what "
	"takes\n"
	"                         about two seconds)\n" OPTIONS_HELP OPTIONS_HELP_HOSTS;

static const struct metric metrics[] = {
	{"rate", "MiB/s", BETTER_MORE},
	{"messages", "1/s", BETTER_MORE},
};

enum {
	METRICS = sizeof(metrics) / sizeof(*metrics),
	HUNDRED = 100, /* perftest 4.5 counts its last completion as a hundred, and may hang else */
	MAX_ITERATIONS = 1000000,
	RUN_S = 2,
};

static const char *ops, *sizes, *qps, *directions;
static long iterations;

static void set_ops(const char *s)
{
	ops = s;
}

static void set_sizes(const char *s)
{
	sizes = s;
}

static void set_qps(const char *s)
{
	qps = s;
}

static void set_directions(const char *s)
{
	directions = s;
}

static void set_iterations(const char *s)
{
	iterations = parse_number(s, HUNDRED, 100000000);
	if (iterations < 0 || iterations % HUNDRED)
		die(EXIT_BAD_USAGE, "--iterations %s: a multiple of 100", s);
}

static const struct own_option own[] = {
	{"ops", true, set_ops},
	{"sizes", true, set_sizes},
	{"qps", true, set_qps},
	{"directions", true, set_directions},
	{"iterations", true, set_iterations},
	{NULL, false, NULL},
};

struct task {
	struct hosts *hosts;
	const struct bench_options *options;
	struct perftest perftest;
};

static int measure_once(struct task *t, bool with_shift, struct measurement *m)
{
	struct pair_outcome out;
	struct bandwidth b;
	int status = perftest_run(t->hosts, &t->perftest, t->options, with_shift, &out);

	m->away = out.away;
	if (!status && !out.failure)
		pair_protection(&out, with_shift, &m->detail);
	m->failure = out.failure;
	if (!status && !out.failure && perftest_bandwidth(out.out[HOST_A], &b)) {
		m->values[0] = b.mib_per_s;
		m->values[1] = b.messages_per_s;
	} else if (!status && !m->failure) {
		m->failure = "no bandwidth in the output of perftest";
	}
	pair_free(&out);
	return status;
}

/* A hundred messages tell how many take about two seconds; both directions share it. */
static int calibrate(struct task *t)
{
	double values[METRICS] = {NAN, NAN}, per_qp;
	struct measurement m = {.values = values};
	int status;

	t->perftest.iterations = HUNDRED;
	status = measure_once(t, false, &m);
	per_qp = values[1] * RUN_S / (double)t->perftest.qps / (t->perftest.both_ways ? 2 : 1);
	if (!status && !m.failure && per_qp > HUNDRED)
		t->perftest.iterations = lround(fmin(per_qp, MAX_ITERATIONS) / HUNDRED) * HUNDRED;
	return status;
}

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	int status = t->perftest.iterations ? EXIT_OK : calibrate(t);

	return status ? status : measure_once(t, with_shift, m);
}

struct kind {
	const char *op, *direction;
	long size, qps;
};

static int one_case(struct plan *p, struct task *t, const struct kind *k)
{
	cJSON *parameters = cJSON_CreateObject();

	t->perftest = (struct perftest){.program = format_text("ib_%s_bw", k->op),
					.size = k->size,
					.qps = k->qps,
					.iterations = iterations,
					.both_ways = !strcmp(k->direction, "both")};
	cJSON_AddStringToObject(parameters, "op", k->op);
	cJSON_AddNumberToObject(parameters, "size", (double)k->size);
	cJSON_AddNumberToObject(parameters, "qps", (double)k->qps);
	cJSON_AddStringToObject(parameters, "direction", k->direction);
	return plan_case(p,
			 format_text("%s %ld B, %ld QP, %s", k->op, k->size, k->qps,
				     t->perftest.both_ways ? "both ways" : "one way"),
			 parameters, metrics, METRICS, measure, t);
}

/* The product of the four lists. */
static struct kind *all_kinds(size_t *count)
{
	size_t n[4], at = 0;
	const char **op = parse_words("ops", ops, "write,send,read", &n[0]);
	const char **way = parse_words("directions", directions, "one,both", &n[1]);
	long *size = parse_sizes("sizes", sizes, 1, 1048576, &n[2]);
	long *qp = parse_sizes("qps", qps, 1, 64, &n[3]);
	struct kind *kinds;

	*count = n[0] * n[1] * n[2] * n[3];
	kinds = check_alloc(calloc(*count, sizeof(*kinds)));
	for (; at < *count; at++)
		kinds[at] = (struct kind){op[at / (n[1] * n[2] * n[3])],
					  way[at / (n[2] * n[3]) % n[1]], size[at / n[3] % n[2]],
					  qp[at % n[3]]};
	free(op);
	free(way);
	free(size);
	free(qp);
	return kinds;
}

int bandwidth_cases(struct results *r, struct hosts *h)
{
	struct plan plan = {.results = r};
	struct task t = {.hosts = h, .options = r->options};
	struct kind *kinds = all_kinds(&plan.case_count);
	int status = EXIT_OK, worst = EXIT_OK;

	for (size_t i = 0; i < plan.case_count && status <= EXIT_FAILED; i++) {
		status = one_case(&plan, &t, &kinds[i]);
		worst = status > worst ? status : worst;
	}
	free(kinds);
	return worst;
}

void bandwidth_defaults(struct scope scope)
{
	static const char every[] = "write,send,read";

	ops = by_scope(scope, ops, every, every, every, "write");
	sizes = by_scope(scope, sizes, "4K,64K", "4K", "4K", "4K");
	qps = by_scope(scope, qps, "1,8,64", "1,8", "1,64", "1");
	directions = by_scope(scope, directions, "one,both", "one", "one", "one");
}

int cmd_bandwidth(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 10, .warmup = 1};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	bandwidth_defaults((struct scope){.quick = o.quick});
	free(all_kinds(&count));
	interrupts_catch();
	results_begin(&r, &o, "bandwidth", argc, argv);
	status = measure_between_hosts(&r, false, bandwidth_cases);
	results_free(&r);
	return status;
}
