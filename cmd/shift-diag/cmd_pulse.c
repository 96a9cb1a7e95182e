/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who stops or slows down a job, from records of its traffic. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/diag_page.h"
#include "cmd/shift-diag/pulse.h"

static const char help[] =
	"usage: shift-diag pulse [options] DIR|FILE...\n"
	"Who stops or slows down a job: from its records, see shift-records(5).\n"
	"\n"
	"  -k, --kappa NUMBER   slow is what takes so many times what is usual (1.15)\n"
	"  -r, --repeat COUNT   ... in so many of 10 operations (3)\n"
	"      --delta TIME     silence between two operations (1ms; soft-RoCE: 5ms)\n"
	"      --hang TIME      what is silent for so long stands still (1s)\n"
	"      --slice BYTES    a collective sends and waits by so many (1048576)\n"
	"      --html FILE      also a page with pictures\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { OPTION_DELTA = 300, OPTION_HANG, OPTION_SLICE, OPTION_HTML };

struct pulse_command {
	struct pulse_options options;
	const char *html; /* NULL: no page */
};

static uint64_t parse_time(const char *option, const char *value)
{
	int64_t ms = parse_ms(value);

	if (ms <= 0)
		die(EXIT_BAD_USAGE, "pulse: --%s %s: not a time of 1 ms or more", option, value);
	return (uint64_t)ms * 1000000;
}

static long parse_count(const char *option, const char *value, long max)
{
	long n = parse_number(value, 1, max);

	if (n < 0)
		die(EXIT_BAD_USAGE, "pulse: --%s %s: not a number from 1 to %ld", option, value,
		    max);
	return n;
}

static double parse_kappa(const char *value)
{
	char *end;
	double k = strtod(value, &end);

	if (*end || end == value || !isfinite(k) || k <= 1)
		die(EXIT_BAD_USAGE, "pulse: --kappa %s: not a number above 1", value);
	return k;
}

static void take(void *arg, int letter, const char *value)
{
	struct pulse_command *c = arg;
	struct pulse_options *o = &c->options;

	switch (letter) {
	case 'k': o->kappa = parse_kappa(value); break;
	case 'r': o->repeat = (unsigned int)parse_count("repeat", value, 1000000); break;
	case OPTION_HTML: c->html = value; break;
	case OPTION_DELTA: o->delta_ns = parse_time("delta", value); break;
	case OPTION_HANG: o->hang_ns = parse_time("hang", value); break;
	case OPTION_SLICE: o->slice_bytes = (uint64_t)parse_count("slice", value, 1 << 30); break;
	}
}

/* ---- communicators -------------------------------------------------------------------------- */

static size_t ops_of(const struct pulse *p, size_t comm, enum pulse_algorithm *a)
{
	size_t n = 0;

	*a = ALGORITHM_UNKNOWN;
	for (size_t i = 0; i < p->ops; i++) {
		if (p->op[i].comm != comm)
			continue;
		n++;
		if (p->op[i].algorithm != ALGORITHM_UNKNOWN)
			*a = p->op[i].algorithm;
	}
	return n;
}

static void print_comms(const struct pulse *p, const enum pulse_parallelism *parallel)
{
	enum pulse_algorithm a;

	if (p->comms)
		printf("\n%-24s %7s %10s  %-16s %s\n", "communicator", "members", "operations",
		       "algorithm", "parallelism");
	for (size_t i = 0; i < p->comms; i++) {
		size_t n = ops_of(p, i, &a);

		printf("%-24s %7d %10zu  %-16s %s\n", shown(p->comm[i].name), p->comm[i].size, n,
		       a == ALGORITHM_UNKNOWN ? "-" : pulse_algorithm_name(a),
		       parallel[i] == PARALLEL_UNKNOWN ? "-" : pulse_parallelism_name(parallel[i]));
	}
}

static void add_name(cJSON *o, const char *key, const char *name, bool is_known)
{
	if (is_known)
		cJSON_AddStringToObject(o, key, name);
	else
		cJSON_AddNullToObject(o, key);
}

static void add_comms(const struct pulse *p, const enum pulse_parallelism *parallel, cJSON *o)
{
	cJSON *array = cJSON_AddArrayToObject(o, "communicators");
	enum pulse_algorithm a;

	for (size_t i = 0; i < p->comms; i++) {
		cJSON *c = check_alloc(cJSON_CreateObject());
		size_t n = ops_of(p, i, &a);

		cJSON_AddItemToArray(array, c);
		cJSON_AddStringToObject(c, "name", p->comm[i].name);
		cJSON_AddNumberToObject(c, "size", p->comm[i].size);
		cJSON_AddNumberToObject(c, "operations", (double)n);
		add_name(c, "algorithm", pulse_algorithm_name(a), a != ALGORITHM_UNKNOWN);
		add_name(c, "parallelism", pulse_parallelism_name(parallel[i]),
			 parallel[i] != PARALLEL_UNKNOWN);
	}
}

static void show(const struct pulse *p, const struct verdict *v, enum diag_format format)
{
	enum pulse_parallelism *parallel = check_alloc(calloc(p->comms + 1, sizeof(*parallel)));
	cJSON *o;

	pulse_parallelism(p, parallel);
	if (format == FORMAT_JSON) {
		o = diag_json();
		cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "verdicts"), verdict_json(v));
		cJSON_AddBoolToObject(o, "inferred", p->inferred);
		add_comms(p, parallel, o);
		diag_print_json(o);
	} else {
		verdict_print(v);
		print_comms(p, parallel);
	}
	free(parallel);
}

static void read_all(int argc, char **argv, struct records *r)
{
	if (optind == argc)
		die(EXIT_BAD_USAGE, "pulse: whose records? Name a directory or files; see "
				    "shift-records(5)");
	for (int i = optind; i < argc; i++) {
		int n = records_read(argv[i], r);

		if (n < 0)
			die(EXIT_BAD_USAGE, "pulse: %s: %s", argv[i], strerror(-n));
	}
	if (!r->files)
		die(EXIT_BAD_USAGE, "pulse: no file of records could be used; see "
				    "shift-records(5)");
}

int cmd_pulse(int argc, char **argv)
{
	struct pulse_command command = {.options = pulse_defaults()};
	const struct diag_syntax syntax = {.help = help,
					   .formats = FORMAT_BIT(FORMAT_JSON),
					   .own = {{"kappa", 'k', true},
						   {"repeat", 'r', true},
						   {"delta", OPTION_DELTA, true},
						   {"hang", OPTION_HANG, true},
						   {"slice", OPTION_SLICE, true},
						   {"html", OPTION_HTML, true}},
					   .take = take,
					   .arg = &command};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct records r = {0};
	struct verdict v;
	struct pulse p;
	int status;

	read_all(argc, argv, &r);
	p = pulse_read(&r, &command.options);
	v = pulse_judge(&p);
	if (command.html)
		diag_page_write(
			&(struct diag_page){
				.command = "pulse", .verdict = &v, .verdicts = 1, .records = &r},
			command.html);
	show(&p, &v, format);
	status = verdict_status(&v);
	verdict_free(&v);
	pulse_free(&p);
	records_free(&r);
	return fflush(stdout) ? EXIT_FAILED : status;
}
