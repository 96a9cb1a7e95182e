/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Writes a file of shift-bench --json, by the writer of shift-bench, of values that were invented:
 *   bench_results latency|bandwidth|verbs|setup|failover|timeline|training FILE [TEXT]
 * TEXT stands wherever a file of somebody else could have one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/histogram.h"
#include "cmd/shift-bench/sample.h"

enum { RUNS = 10, MESSAGES = 3000, BINS = 120 };

static uint64_t chance = 1;
static const char *text = ""; /* put into every name */

static double between(double low, double high)
{
	return low + (high - low) * (double)random_below(&chance, 1 << 20) / (1 << 20);
}

static char *with_text(const char *name)
{
	return *text ? format_text("%s %s", name, text) : format_text("%s", name);
}

static struct away away_now(int run)
{
	return (struct away){.at_ms = run * 1500.0,
			     .span_ms = 1400,
			     .steal_share = {between(0, 0.04), between(0, 0.06), NAN},
			     .pause_max_ms = run % 7 ? between(0, 9) : 42,
			     .pause_ms = 50};
}

static void add_sample(cJSON *c, enum side side, int run, const double *values, cJSON *detail)
{
	struct away away = away_now(run * 2 + (int)side);

	sample_add(c, side, run == 0, values, &away, detail, NULL);
}

/* ---- details -------------------------------------------------------------------------------- */

static cJSON *distribution_about(double us, double values[3])
{
	cJSON *detail = cJSON_CreateObject();
	double v[MESSAGES];

	for (size_t i = 0; i < MESSAGES; i++)
		v[i] = us * (1 + pow(between(0, 1), 12) * 3 + between(0, 0.1));
	values_sort(v, MESSAGES);
	values[0] = sorted_percentile(v, MESSAGES, 0.5);
	values[1] = sorted_percentile(v, MESSAGES, 0.99);
	values[2] = sorted_percentile(v, MESSAGES, 0.999);
	cJSON_AddItemToObject(detail, "distribution",
			      histogram_json(v, MESSAGES, *text ? text : "us"));
	return detail;
}

static void add_mark(cJSON *marks, double at_ms, const char *what)
{
	cJSON *m = cJSON_CreateObject();

	cJSON_AddNumberToObject(m, "at_ms", at_ms);
	cJSON_AddStringToObject(m, "what", with_text(what));
	cJSON_AddStringToObject(m, "host", "a");
	cJSON_AddItemToArray(marks, m);
}

static void add_series(cJSON *series, const char *name, bool before, bool between_faults,
		       bool after)
{
	cJSON *s = cJSON_CreateObject(), *values;

	cJSON_AddStringToObject(s, "name", with_text(name));
	cJSON_AddStringToObject(s, "unit", with_text("MiB/s"));
	cJSON_AddNumberToObject(s, "bin_ms", 100);
	values = cJSON_AddArrayToObject(s, "values");
	for (int i = 0; i < BINS; i++) {
		bool on = i < 40 ? before : i < 80 ? between_faults : after;

		cJSON_AddItemToArray(values, json_round(on ? between(210, 240) : between(0, 1)));
	}
	cJSON_AddItemToArray(series, s);
}

static cJSON *timeline_detail(enum side side)
{
	cJSON *detail = cJSON_CreateObject(), *series = cJSON_AddArrayToObject(detail, "series"),
	      *marks = cJSON_AddArrayToObject(detail, "marks");
	bool with = side == SIDE_SHIFT;

	add_series(series, "a rail 0 out", true, false, with);
	add_series(series, "a rail 1 out", false, with, false);
	add_mark(marks, 4000, "fault");
	if (with)
		add_mark(marks, 4210, "failover");
	add_mark(marks, 7800, "mended");
	if (with)
		add_mark(marks, 8000, "fail-back");
	return detail;
}

static cJSON *phases_detail(void)
{
	static const char *const names[] = {"detect", "prepare",   "drain", "fence",
					    "arm",    "handshake", "repost"};
	static const double us[] = {180000, 900, 4000, 12000, 2000, 30000, 6000};
	cJSON *detail = timeline_detail(SIDE_SHIFT), *phases;

	phases = cJSON_AddObjectToObject(detail, "phases_us");
	for (size_t i = 0; i < sizeof(us) / sizeof(*us); i++)
		cJSON_AddItemToObject(phases, i ? names[i] : with_text(names[i]),
				      json_round(us[i] * between(0.7, 1.4)));
	return detail;
}

/* ---- commands ------------------------------------------------------------------------------- */

static void latency(struct results *r)
{
	static const char *const ops[] = {"write", "send", "read"};
	static const struct metric metrics[] = {{"p50", "us", BETTER_LESS},
						{"p99", "us", BETTER_LESS},
						{"p99.9", "us", BETTER_LESS}};

	for (int op = 0; op < 3; op++)
		for (double size = 1; size <= 65536; size *= 16) {
			double factor[] = {1.00, 1.00, 1.12};
			cJSON *c, *p = cJSON_CreateObject();

			cJSON_AddStringToObject(p, "op", with_text(ops[op]));
			cJSON_AddNumberToObject(p, "size", size);
			c = case_add(r, format_text("%s %g B", with_text(ops[op]), size), p,
				     metrics, 3);
			for (int i = 0; i < 2 * (RUNS + 1); i++) {
				double values[3], us = (20 + size / 400) * between(0.97, 1.04);
				cJSON *detail;

				us *= i % 2 ? factor[op] : 1;
				detail = distribution_about(us, values);
				add_sample(c, i % 2, i / 2, values, detail);
			}
			case_conclude(r, c);
		}
}

static void bandwidth(struct results *r)
{
	static const struct metric metrics[] = {{"rate", "MiB/s", BETTER_MORE},
						{"messages", "1/s", BETTER_MORE}};

	for (int size = 4096; size <= 65536; size *= 16)
		for (int qps = 1; qps <= 64; qps *= 8)
			for (int both = 0; both < 2; both++) {
				cJSON *c, *p = cJSON_CreateObject();

				cJSON_AddStringToObject(p, "op", "write");
				cJSON_AddNumberToObject(p, "size", size);
				cJSON_AddNumberToObject(p, "qps", qps);
				cJSON_AddStringToObject(p, "direction", both ? "both" : "one");
				c = case_add(r,
					     format_text("write %d B, %d QP, %s", size, qps,
							 both ? "both ways" : "one way"),
					     p, metrics, 2);
				for (int i = 0; i < 2 * (RUNS + 1); i++) {
					double rate = (200 + qps) * between(0.95, 1.05);
					double values[] = {rate, rate * 1048576 / size};

					add_sample(c, i % 2, i / 2, values, NULL);
				}
				case_conclude(r, c);
			}
}

static void verbs(struct results *r)
{
	static const char *const names[] = {"same-1qp", "filled-8qp", "lengths-8qp", "list8-8qp",
					    "send-1qp"};
	static const struct metric metrics[] = {{"time", "ns", BETTER_LESS},
						{"instructions", "instructions", BETTER_LESS}};

	for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
		cJSON *c = case_add(r, with_text(names[k]), NULL, metrics, 2);

		for (int i = 0; i < 2 * (RUNS + 1); i++) {
			double values[] = {(i % 2 ? 33 : 25) * between(0.95, 1.1),
					   (i % 2 ? 150 : 90) + 10 * (double)k};

			add_sample(c, i % 2, i / 2, values, NULL);
		}
		case_conclude(r, c);
	}
}

static void setup(struct results *r)
{
	static const struct metric metrics[] = {
		{"init", "ms", BETTER_LESS},	     {"memory", "MiB", BETTER_LESS},
		{"protected", "ms", BETTER_LESS},    {"protected_max", "ms", BETTER_LESS},
		{"move", "ms", BETTER_LESS},	     {"etcd_puts", "ops", BETTER_LESS},
		{"etcd_ranges", "ops", BETTER_LESS}, {"etcd_bytes", "KiB", BETTER_LESS},
	};

	for (int rails = 0; rails <= 2; rails++)
		for (int qps = 1; qps <= 1000; qps *= 10) {
			cJSON *c, *p = cJSON_CreateObject();

			cJSON_AddNumberToObject(p, "qps", qps);
			cJSON_AddNumberToObject(p, "backup_rails", rails);
			c = case_add(r, format_text("%d QP, %d backup rails", qps, rails), p,
				     metrics, 8);
			for (int i = 0; i < 8; i++) {
				double f = between(0.9, 1.2);
				double later = i % 2 && rails ? 20 * f + qps * 3 : NAN;
				double values[] = {(i % 2 ? 30 * rails + 27 : 27) * f + qps * .1,
						   (10 + qps * (i % 2 ? .2 : .05)) * f,
						   later,
						   2 * later,
						   later / 3,
						   i % 2 ? 4 : NAN,
						   i % 2 ? 6 : NAN,
						   i % 2 ? 3 + qps * .1 : NAN};

				add_sample(c, i % 2, i / 2, values, NULL);
			}
			case_conclude(r, c);
		}
}

static void failover(struct results *r)
{
	static const char *const names[] = {"nic-down", "link-down", "cable", "switch-port"};
	static const struct metric metrics[] = {{"outage", "ms", BETTER_LESS},
						{"lost", "messages", BETTER_LESS}};

	for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
		cJSON *c = case_add(r, with_text(names[k]), NULL, metrics, 2);

		for (int i = 0; i < 2 * (RUNS + 1); i++) {
			double values[] = {i % 2 ? between(190, 300) : NAN, i % 2 ? 0 : NAN};

			add_sample(c, i % 2, i / 2, values,
				   i % 2 ? phases_detail() : timeline_detail(SIDE_BASELINE));
		}
		case_conclude(r, c);
	}
}

static void timeline(struct results *r)
{
	static const struct metric metrics[] = {{"gap", "ms", BETTER_LESS}};
	cJSON *c = case_add(r, with_text("write, local NIC"), NULL, metrics, 1);

	for (int i = 0; i < 4; i++) {
		double values[] = {i % 2 ? between(190, 300) : NAN};

		add_sample(c, i % 2, i / 2, values, timeline_detail(i % 2));
	}
	case_conclude(r, c);
}

/* A job of 60 steps; without shift it dies after 18, and goes on from the checkpoint at 10. */
static cJSON *training_detail(enum side side, bool fault)
{
	cJSON *detail = cJSON_CreateObject(), *marks = cJSON_AddArrayToObject(detail, "marks"),
	      *steps = cJSON_AddArrayToObject(detail, "steps");
	double at_ms = 300;

	for (int step = 1; step <= 60; step++) {
		double pair[2] = {at_ms += between(210, 260), step};

		cJSON_AddItemToArray(steps, cJSON_CreateDoubleArray(pair, 2));
		if (step != 18 || !fault)
			continue;
		add_mark(marks, at_ms, "fault");
		at_ms += side == SIDE_SHIFT ? 300 : 3000;
		add_mark(marks, at_ms - 100, side == SIDE_SHIFT ? "failover" : "restarted");
		if (side == SIDE_BASELINE)
			step = 10;
		fault = false;
	}
	return detail;
}

static void training(struct results *r)
{
	static const char *const names[] = {"none", "fatal", "busy", "flap"};
	static const struct metric metrics[] = {{"total", "s", BETTER_LESS},
						{"lost_steps", "steps", BETTER_LESS}};

	for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
		cJSON *c, *p = cJSON_CreateObject();

		cJSON_AddStringToObject(p, "scenario", names[k]);
		c = case_add(r, with_text(names[k]), p, metrics, 2);
		for (int i = 0; i < 6; i++) {
			double values[] = {i % 2 || !k ? between(14, 15) : between(19, 20),
					   i % 2 || !k ? 0 : 8};

			add_sample(c, i % 2, i / 2, values, training_detail(i % 2, k > 0));
		}
		case_conclude(r, c);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fill)(struct results *r);
	} kinds[] = {{"latency", latency},  {"bandwidth", bandwidth}, {"verbs", verbs},
		     {"setup", setup},	    {"failover", failover},   {"timeline", timeline},
		     {"training", training}};
	struct bench_options o = {.confidence = 0.99, .seed = 1};
	struct results r;

	cli_begin("bench_results", 1);
	if (argc < 3)
		die(2, "usage: bench_results KIND FILE [TEXT]");
	text = argc > 3 ? argv[3] : "";
	o.json = argv[2];
	results_begin(&r, &o, with_text(argv[1]), argc, argv);
	if (*text)
		cJSON_AddStringToObject(cJSON_GetObjectItem(r.root, "machine"), text, text);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kinds[i].fill(&r);
	results_save(&r, "complete");
	results_free(&r);
	return 0;
}
