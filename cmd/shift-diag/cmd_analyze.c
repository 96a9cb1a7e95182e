/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* shift-diag analyze: every analyser on one recorded incident, and one answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "cmd/shift-diag/answer.h"
#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/diag_page.h"
#include "cmd/shift-diag/path_run.h"
#include "cmd/shift-diag/pulse.h"

static const char help[] =
	"usage: shift-diag analyze [options] DIR\n"
	"Who was it? Asks hang, fail, slow, pulse and path, as far as the records of an incident\n"
	"allow it, and gives one answer: the culprits in order, with what speaks for and against\n"
	"each. DIR has NAME.records, and may have HOST.log and NAME.telemetry.\n"
	"\n"
	"  -w, --window TIME    hang, fail, slow: how far back from the last event records\n"
	"                       count (10m)\n"
	"      --html FILE      also a page with pictures\n"
	"  -j, --json           short for --format json\n"
	"      --format FORMAT  text or json\n"
	"      --help           this text\n";

enum { SOURCE_HANG, SOURCE_FAIL, SOURCE_SLOW, SOURCE_PULSE, SOURCE_PATH, SOURCES };

enum { OPTION_HTML = 300 };

struct incident {
	const char *dir;
	const char *html; /* NULL: no page */
	bool has_path;
	struct records records;
	struct logs logs;
	struct aegis_options aegis;
	struct pulse pulse;
	struct path_result path;
	char path_why[PATH_WHY_BYTES];
	struct answer_source source[SOURCES];
};

static void take(void *arg, int letter, const char *value)
{
	struct incident *in = arg;
	int64_t ms;

	if (letter == OPTION_HTML) {
		in->html = value;
		return;
	}
	ms = parse_ms(value);
	if (ms <= 0)
		die(EXIT_BAD_USAGE, "analyze: --window %s: not a time; say 10m", value);
	in->aegis.window_ns = (uint64_t)ms * 1000000;
}

static void read_all(struct incident *in)
{
	int records = records_read(in->dir, &in->records);
	int logs = records < 0 ? records : logs_read(in->dir, &in->logs);

	if (logs < 0)
		die(EXIT_BAD_USAGE, "analyze: %s: %s", in->dir, strerror(-logs));
}

static void add_verdicts(struct answer_source *s, struct verdict *v, size_t n)
{
	s->verdict = v;
	s->n = n;
}

static void add_verdict(struct answer_source *s, struct verdict v)
{
	struct verdict *list = check_alloc(malloc(sizeof(*list)));

	*list = v;
	add_verdicts(s, list, 1);
}

/* ---- asking --------------------------------------------------------------------------------- */

static void ask_of_records(struct incident *in)
{
	static const char none[] = "there is no file of records";
	struct pulse_options options = pulse_defaults();
	struct answer_source *s = in->source;

	if (!in->records.files) {
		s[SOURCE_HANG].why_not = s[SOURCE_SLOW].why_not = s[SOURCE_PULSE].why_not = none;
		if (!in->logs.files)
			s[SOURCE_FAIL].why_not = none;
	}
	if (!s[SOURCE_FAIL].why_not)
		add_verdict(s + SOURCE_FAIL, aegis_fail(&in->records, &in->logs, &in->aegis));
	if (!in->records.files)
		return;
	add_verdict(s + SOURCE_HANG, aegis_hang(&in->records, &in->aegis));
	add_verdict(s + SOURCE_SLOW, aegis_slow(&in->records, &in->aegis));
	in->pulse = pulse_read(&in->records, &options);
	add_verdict(s + SOURCE_PULSE, pulse_judge(&in->pulse));
}

/* Nodes of a simulation are no ranks of the job. */
static void make_nodes(struct verdict *v)
{
	for (size_t i = 0; i < v->culprits_n; i++) {
		struct culprit *c = v->culprits + i;
		char what[REC_NAME_BYTES];

		if (c->rank == REC_NONE)
			continue;
		snprintf(what, sizeof(what), "node %d%s%.40s", c->rank,
			 !strncmp(c->what, "to rank ", 8) ? " to node " : " ",
			 c->what + (strncmp(c->what, "to rank ", 8) ? 0 : 8));
		snprintf(c->what, sizeof(c->what), "%s", what);
		c->rank = REC_NONE;
	}
}

static void ask_path(struct incident *in)
{
	struct path_request request = {.window_ns = in->path.limits.window_ns,
				       .records = &in->records};
	struct answer_source *s = in->source + SOURCE_PATH;
	struct verdict *v;
	size_t n;

	if (path_run(in->dir, &request, &in->path, in->path_why) != PATH_RUN_DONE) {
		s->why_not = *in->path_why ? in->path_why : "its files cannot be read";
		return;
	}
	in->has_path = true;
	n = path_verdicts(&in->path, &v);
	for (size_t i = 0; i < n && in->path.strange_ranks; i++)
		make_nodes(v + i);
	add_verdicts(s, v, n);
}

/* Who a rank is, where an analyser tells its number only. */
static void find_hosts(const struct records *r, struct verdict *v)
{
	for (size_t i = 0; i < v->culprits_n; i++) {
		struct culprit *c = v->culprits + i;

		for (size_t k = 0; c->rank != REC_NONE && !*c->host && k < r->files; k++) {
			if (r->file[k].rank != c->rank)
				continue;
			snprintf(c->host, sizeof(c->host), "%s", r->file[k].host);
			c->pid = r->file[k].pid;
		}
	}
}

static void ask_all(struct incident *in)
{
	static const struct answer_source sources[SOURCES] = {
		[SOURCE_HANG] = {.command = "hang", .sees = CLASS_BIT(CLASS_STOPPED)},
		[SOURCE_FAIL] = {.command = "fail", .sees = CLASS_BIT(CLASS_FAILED)},
		[SOURCE_SLOW] = {.command = "slow", .sees = CLASS_BIT(CLASS_SLOW)},
		[SOURCE_PULSE] = {.command = "pulse",
				  .sees = CLASS_BIT(CLASS_STOPPED) | CLASS_BIT(CLASS_SLOW)},
		/* It looks at one collective only. */
		[SOURCE_PATH] = {.command = "path"},
	};

	memcpy(in->source, sources, sizeof(sources));
	ask_of_records(in);
	ask_path(in);
	for (int i = 0; i < SOURCES; i++)
		for (size_t k = 0; k < in->source[i].n; k++)
			find_hosts(&in->records, in->source[i].verdict + k);
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void show_json(const struct answer *a)
{
	cJSON *o = diag_json(), *verdicts, *unasked;

	cJSON_AddItemToObject(o, "answer", answer_json(a));
	verdicts = check_alloc(cJSON_AddArrayToObject(o, "verdicts"));
	unasked = check_alloc(cJSON_AddArrayToObject(o, "not_asked"));
	for (size_t i = 0; i < a->sources; i++) {
		const struct answer_source *s = a->source + i;

		for (size_t k = 0; k < s->n; k++) {
			cJSON *one = verdict_json(s->verdict + k);

			json_add_text(one, "command", s->command);
			cJSON_AddItemToArray(verdicts, one);
		}
		if (s->why_not) {
			cJSON *one = check_alloc(cJSON_CreateObject());

			json_add_text(one, "command", s->command);
			json_add_text(one, "why", s->why_not);
			cJSON_AddItemToArray(unasked, one);
		}
	}
	diag_print_json(o);
}

static void incident_free(struct incident *in)
{
	for (int i = 0; i < SOURCES; i++) {
		for (size_t k = 0; k < in->source[i].n; k++)
			verdict_free(in->source[i].verdict + k);
		free(in->source[i].verdict);
	}
	if (in->pulse.records)
		pulse_free(&in->pulse);
	path_result_free(&in->path);
	records_free(&in->records);
	logs_free(&in->logs);
}

static void need_something(const struct incident *in)
{
	for (int i = 0; i < SOURCES; i++)
		if (in->source[i].n)
			return;
	die(EXIT_BAD_USAGE, "analyze: %s: no records that can be used; see shift-records(5)",
	    in->dir);
}

int cmd_analyze(int argc, char **argv)
{
	struct incident in = {.aegis.window_ns = AEGIS_WINDOW_S * 1000000000ull,
			      .path.limits = SIGNATURE_LIMITS};
	const struct diag_syntax syntax = {
		.help = help,
		.formats = FORMAT_BIT(FORMAT_JSON),
		.own = {{"window", 'w', true}, {"html", OPTION_HTML, true}},
		.take = take,
		.arg = &in};
	enum diag_format format = diag_options_parse(&syntax, argc, argv);
	struct answer a;
	int status;

	if (optind == argc)
		die(EXIT_BAD_USAGE,
		    "analyze: a directory is needed; see shift-diag analyze --help");
	in.dir = argv[optind++];
	diag_no_arguments(argc, argv);
	read_all(&in);
	ask_all(&in);
	need_something(&in);
	a = answer_make(in.source, SOURCES);
	if (in.html)
		diag_page_write(&(struct diag_page){.command = "analyze",
						    .answer = &a,
						    .records = &in.records,
						    .path = in.has_path ? &in.path : NULL},
				in.html);
	if (format == FORMAT_JSON)
		show_json(&a);
	else
		answer_print(&a);
	status = answer_status(&a);
	answer_free(&a);
	incident_free(&in);
	return fflush(stdout) ? EXIT_FAILED : status;
}
