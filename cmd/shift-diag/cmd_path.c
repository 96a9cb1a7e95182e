/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-diag path: the critical path of a collective, and what the network did to it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/diag_page.h"
#include "cmd/shift-diag/path_run.h"

static const char help_text[] =
	"usage: shift-diag path [options] DIR\n"
	"Finds the steps that a collective had to wait for, and what made them slow.\n"
	"DIR has *.records of its ranks and *.telemetry of switches, or the files of a\n"
	"simulation: fct.txt, topology.txt, pfc.txt, telemetry_N.txt.\n"
	"\n"
	"  --comm NAME      of this communicator only\n"
	"  --seq N          this collective of it; default: the one that took longest\n"
	"  --window TIME    length of one graph of the network (10ms)\n"
	"  --all-lines      simulation: of a flow with several lines in a block, the sum,\n"
	"                   not the last one\n"
	"  --html FILE      also a page with pictures\n"
	"  --format FORMAT  text or json\n"
	"  -j, --json       short for --format json\n";

enum { OPTION_COMM = 1000, OPTION_SEQ, OPTION_WINDOW, OPTION_ALL_LINES, OPTION_HTML };

struct path_command {
	struct path_request request;
	const char *html; /* NULL: no page */
};

static void take_option(void *arg, int letter, const char *value)
{
	struct path_command *c = arg;
	struct path_request *o = &c->request;
	int64_t ms;
	long seq;

	switch (letter) {
	case OPTION_HTML: c->html = value; break;
	case OPTION_COMM: o->comm = value; break;
	case OPTION_SEQ:
		seq = parse_number(value, 1, INT32_MAX);
		if (seq < 0)
			die(EXIT_BAD_USAGE, "path: --seq %s: not a number from 1", value);
		o->seq = (uint64_t)seq;
		break;
	case OPTION_WINDOW:
		ms = parse_ms(value);
		if (ms < 1)
			die(EXIT_BAD_USAGE, "path: --window %s: not a time of 1ms or more", value);
		o->window_ns = (uint64_t)ms * 1000000;
		break;
	case OPTION_ALL_LINES: o->all_lines = true; break;
	}
}

/* ---- showing
 * ------------------------------------------------------------------------------------------- */

static void print_text(const struct path_result *r)
{
	const struct path_graph *g = &r->graph;
	size_t n;
	int *flow = path_rated(r, &n);

	printf("%s: %zu steps, %zu were waited for\n", shown(r->steps.what), r->steps.n, g->kept_n);
	printf("critical path: %" PRIu64 " ns of %" PRIu64 " ns\n", g->total_ns, g->makespan_ns);
	printf("  %6s %6s %6s %15s %15s %15s\n", "rank", "step", "to", "begins/ns", "took/ns",
	       "expected/ns");
	for (size_t k = 0; k < g->critical_n; k++) {
		const struct path_step *s = r->steps.step + g->critical[k];

		printf("  %6d %6d %6d %15" PRIu64 " %15" PRIu64 " %15" PRIu64 "\n", s->rank,
		       s->step, s->peer, s->start_ns - r->began_ns, s->end_ns - s->start_ns,
		       s->expected_ns);
	}
	if (n)
		printf("others' flows, by what they cost it:\n");
	for (size_t i = 0; i < n; i++)
		printf("  %-40s %15.2f %3.0f %%\n", shown(r->telemetry.flow[flow[i]].name),
		       r->rating[flow[i]], path_share(r, flow[i]) * 100);
	putchar('\n');
	free(flow);
}

static void add_path(cJSON *parent, const struct path_result *r)
{
	const struct path_graph *g = &r->graph;
	cJSON *o = check_alloc(cJSON_AddObjectToObject(parent, "path")), *steps;
	char began[24];

	snprintf(began, sizeof(began), "%" PRIu64, r->began_ns);
	cJSON_AddStringToObject(o, "collective", r->steps.what);
	cJSON_AddStringToObject(o, "began", began);
	cJSON_AddNumberToObject(o, "total_ns", (double)g->total_ns);
	cJSON_AddNumberToObject(o, "makespan_ns", (double)g->makespan_ns);
	cJSON_AddNumberToObject(o, "idle_ns", (double)g->gap_ns);
	cJSON_AddNumberToObject(o, "steps_all", (double)r->steps.n);
	cJSON_AddNumberToObject(o, "steps_waited_for", (double)g->kept_n);
	steps = check_alloc(cJSON_AddArrayToObject(o, "steps"));
	for (size_t k = 0; k < g->critical_n; k++) {
		const struct path_step *s = r->steps.step + g->critical[k];
		cJSON *one = check_alloc(cJSON_CreateObject());

		cJSON_AddNumberToObject(one, "rank", s->rank);
		cJSON_AddNumberToObject(one, "step", s->step);
		cJSON_AddNumberToObject(one, "peer", s->peer);
		cJSON_AddNumberToObject(one, "start_ns", (double)(s->start_ns - r->began_ns));
		cJSON_AddNumberToObject(one, "duration_ns", (double)(s->end_ns - s->start_ns));
		cJSON_AddNumberToObject(one, "expected_ns", (double)s->expected_ns);
		cJSON_AddStringToObject(one, "flow", s->flow);
		cJSON_AddItemToArray(steps, one);
	}
}

static void add_ratings(cJSON *parent, const struct path_result *r)
{
	cJSON *array = check_alloc(cJSON_AddArrayToObject(parent, "ratings"));
	size_t n;
	int *flow = path_rated(r, &n);

	for (size_t i = 0; i < n; i++) {
		cJSON *o = check_alloc(cJSON_CreateObject());

		cJSON_AddStringToObject(o, "flow", r->telemetry.flow[flow[i]].name);
		cJSON_AddNumberToObject(o, "rating", r->rating[flow[i]]);
		cJSON_AddNumberToObject(o, "share", path_share(r, flow[i]));
		cJSON_AddItemToArray(array, o);
	}
	free(flow);
}

static void add_port(cJSON *o, const char *name, const struct path_result *r, int port)
{
	if (port == PATH_NONE)
		cJSON_AddNullToObject(o, name);
	else
		cJSON_AddStringToObject(o, name, r->telemetry.port[port].name);
}

static void add_findings(cJSON *parent, const struct path_result *r)
{
	cJSON *array = check_alloc(cJSON_AddArrayToObject(parent, "findings"));

	for (size_t i = 0; i < r->findings.n; i++) {
		const struct finding *f = r->findings.finding + i;
		cJSON *o = check_alloc(cJSON_CreateObject()), *flows;

		cJSON_AddStringToObject(o, "anomaly", anomaly_name(f->anomaly));
		add_port(o, "port", r, f->port);
		add_port(o, "at", r, f->at);
		cJSON_AddNumberToObject(o, "windows", f->windows);
		cJSON_AddNumberToObject(o, "weight", f->weight);
		flows = check_alloc(cJSON_AddArrayToObject(o, "flows"));
		for (size_t k = 0; k < f->flow_n; k++)
			cJSON_AddItemToArray(flows, check_alloc(cJSON_CreateString(
							    r->telemetry.flow[f->flow[k]].name)));
		cJSON_AddItemToArray(array, o);
	}
}

static int show(const struct path_result *r, enum diag_format format, const char *html)
{
	cJSON *o = diag_json(), *array = check_alloc(cJSON_CreateArray());
	struct verdict *v;
	size_t n = path_verdicts(r, &v);
	int status = EXIT_FINE;

	if (html)
		diag_page_write(
			&(struct diag_page){
				.command = "path", .verdict = v, .verdicts = n, .path = r},
			html);
	if (format == FORMAT_TEXT)
		print_text(r);
	add_path(o, r);
	add_ratings(o, r);
	add_findings(o, r);
	cJSON_AddItemToObject(o, "verdicts", array);
	for (size_t i = 0; i < n; i++) {
		status = diag_worse(status, verdict_status(v + i));
		if (format == FORMAT_TEXT)
			verdict_print(v + i);
		cJSON_AddItemToArray(array, verdict_json(v + i));
		verdict_free(v + i);
	}
	free(v);
	if (format == FORMAT_JSON)
		diag_print_json(o);
	else
		cJSON_Delete(o);
	return status;
}

int cmd_path(int argc, char **argv)
{
	struct path_result r = {.limits = SIGNATURE_LIMITS};
	struct path_command c = {.request.window_ns = r.limits.window_ns};
	const struct diag_syntax syntax = {
		.help = help_text,
		.formats = FORMAT_BIT(FORMAT_JSON),
		.own = {{"comm", OPTION_COMM, true},
			{"seq", OPTION_SEQ, true},
			{"window", OPTION_WINDOW, true},
			{"all-lines", OPTION_ALL_LINES, false},
			{"html", OPTION_HTML, true}},
		.take = take_option,
		.arg = &c,
	};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	char why[PATH_WHY_BYTES];
	enum path_run run;
	const char *dir;
	int status;

	if (optind == argc)
		die(EXIT_BAD_USAGE, "path: a directory is needed; see shift-diag path --help");
	dir = argv[optind++];
	diag_no_arguments(argc, argv);
	run = path_run(dir, &c.request, &r, why);
	if (run != PATH_RUN_DONE && *why)
		say("path: %s: %s", dir, why);
	if (run == PATH_RUN_DONE)
		status = show(&r, format, c.html);
	else
		status = run == PATH_RUN_OPEN ? EXIT_UNDECIDED : EXIT_BAD_USAGE;
	path_result_free(&r);
	return status;
}
