/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands that need two hosts, one after the other, into one file. */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/plan.h"

static const char help[] = "usage: shift-bench all [options]\n"
			   "The commands that need two hosts, with fewer cases and runs than they "
			   "have alone, into one\n"
			   "file: in about 50 minutes, with --quick in less than ten minutes.\n"
			   "\n"
			   "      --parts LIST       of latency,bandwidth,failover,timeline,setup "
			   "(default: all)\n" OPTIONS_HELP OPTIONS_HELP_HOSTS;

static const struct part {
	const char *name;
	part_defaults_fn *defaults;
	part_cases_fn *cases;
	long repetitions, quick_repetitions;
} parts[] = {
	{"latency", latency_defaults, latency_cases, 8, 6},
	{"bandwidth", bandwidth_defaults, bandwidth_cases, 8, 6},
	{"failover", failover_defaults, failover_cases, 5, 3},
	{"timeline", timeline_defaults, timeline_cases, 1, 1},
	{"setup", setup_defaults, setup_cases, 1, 1},
};

static const char all_names[] = "latency,bandwidth,failover,timeline,setup";
static const char *names = all_names;

static void set_parts(const char *s)
{
	size_t count;

	free(parse_words("parts", s, all_names, &count));
	names = s;
}

static const struct own_option own[] = {
	{"parts", true, set_parts},
	{NULL, false, NULL},
};

/* In the order of the table, whatever the order of the list. */
static bool is_wanted(const struct part *p)
{
	size_t length = strlen(p->name);

	for (const char *s = names; s; s = (s = strchr(s, ',')) ? s + 1 : NULL)
		if (!strncmp(s, p->name, length) && (!s[length] || s[length] == ','))
			return true;
	return false;
}

/* What the user has given is for all parts. */
static struct bench_options options_of(const struct bench_options *given, const struct part *p)
{
	struct bench_options o = *given;

	if (!given->repetitions_given)
		o.repetitions = o.quick ? p->quick_repetitions : p->repetitions;
	if (!given->warmup_given)
		o.warmup = 0;
	return o;
}

static int run_part(struct results *r, struct hosts *h, const struct part *p)
{
	const struct bench_options *given = r->options;
	struct bench_options o = options_of(given, p);
	int status;

	r->part = p->name;
	r->options = &o;
	p->defaults((struct scope){.quick = o.quick, .of_all = true});
	status = p->cases(r, h);
	r->options = given;
	r->part = NULL;
	return status;
}

static int run_parts(struct results *r, struct hosts *h)
{
	int status = EXIT_OK, worst = EXIT_OK;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && status <= EXIT_FAILED; i++) {
		if (!is_wanted(&parts[i]))
			continue;
		status = run_part(r, h, &parts[i]);
		worst = status > worst ? status : worst;
	}
	return worst;
}

int cmd_all(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 10, .warmup = 1, .rails = BACKUPS_MAX + 1};
	struct results r;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	interrupts_catch();
	results_begin(&r, &o, "all", argc, argv);
	failover_papers(&r);
	status = measure_between_hosts(&r, true, run_parts);
	failover_print_papers(&r);
	results_free(&r);
	return status;
}
