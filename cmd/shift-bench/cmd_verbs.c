/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Figure 9 of SHIFT, and the data verbs as programs use them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/table.h"
#include "cmd/shift-bench/verbs_patterns.h"
#include "cmd/shift-bench/verbs_run.h"
#include "cmd/shift-bench/verbs_table.h"

static const char help_head[] =
	"usage: shift-bench verbs [options]\n"
	"What the verbs take on this machine, without and with shift in turn: control verbs once "
	"each,\n"
	"data verbs per work request, in nanoseconds and in instructions (callgrind counts them, "
	"if\n"
	"valgrind is installed). Without --nic on a null provider, whose NICs are nothing but "
	"memory.\n"
	"\n"
	"      --patterns LIST    of those below, and controls (default: all)\n"
	"      --mix SEEDS        not these, but a program of chance: a number, or 1..200\n"
	"      --only WHAT        ns or instructions\n"
	"      --at-most N        exit status 4 if a pattern has more instructions added\n"
	"      --qps N            QPs of each pattern, not as many as it says\n"
	"      --wrs N            work requests of a run (default 100000; --nic: 5000)\n"
	"      --nic NAME         on this NIC; its QPs are connected with themselves\n"
	"      --gid-index N      of that NIC (default 1)\n"
	"      --library FILE     instead of libshift.so\n";

static const char help_tail[] = OPTIONS_HELP
	"\n"
	"Patterns. A work request is posted and its completion polled; on one QP, if "
	"nothing else is said:\n";

enum metric_at { NS, INSTRUCTIONS, POST, POLL, METRICS };

static const struct metric metrics[METRICS] = {
	[NS] = {"time", "ns", BETTER_LESS},
	[INSTRUCTIONS] = {"instructions", "instructions", BETTER_LESS},
	[POST] = {"post", "instructions", BETTER_LESS},
	[POLL] = {"poll", "instructions", BETTER_LESS},
};

enum {
	CONTROLS_MAX = 16,
	WRS = 100000,
	NIC_WRS = 5000,
	COUNTED_WRS = 4000,
	NIC_COUNTED_WRS = 400,
	CONTROL_ROUNDS = 50,
	SEEDS_MAX = 10000,
};

static const char quick_patterns[] =
	"same-1qp,filled-1qp,filled-8qp,filled-64qp,lengths-8qp,unsignaled-8qp,list8-8qp,"
	"poll16-16qp,send-1qp,imm0-1qp,beside-1qp,two-post,controls";

/* ---- options -------------------------------------------------------------------------------- */

static struct {
	const char *patterns, *nic, *gid_index, *library, *wrs, *qps;
	long first_seed, last_seed; /* last < first: no --mix */
	long at_most;		    /* -1: not asked */
	bool ns, instructions;
} own;

/* The text itself is passed on. */
static const char *number_text(const char *option, const char *s, long min, long max)
{
	option_number(option, s, min, max);
	return s;
}

static void set_patterns(const char *s)
{
	own.patterns = s;
}

static void set_mix(const char *s)
{
	const char *dots = strstr(s, "..");
	char *first = check_alloc(strndup(s, dots ? (size_t)(dots - s) : strlen(s)));

	own.first_seed = parse_number(first, 0, LONG_MAX);
	own.last_seed = dots ? parse_number(dots + 2, 0, LONG_MAX) : own.first_seed;
	if (own.first_seed < 0 || own.last_seed < own.first_seed ||
	    own.last_seed - own.first_seed >= SEEDS_MAX)
		die(EXIT_BAD_USAGE, "--mix %s: a seed, or up to %d of them as 1..200", s,
		    SEEDS_MAX);
	free(first);
}

static void set_only(const char *s)
{
	if (strcmp(s, "ns") && strcmp(s, "instructions"))
		die(EXIT_BAD_USAGE, "--only %s: ns or instructions", s);
	own.ns = !strcmp(s, "ns");
	own.instructions = !own.ns;
}

static void set_at_most(const char *s)
{
	own.at_most = option_number("at-most", s, 0, 1000000);
}

static void set_qps(const char *s)
{
	own.qps = number_text("qps", s, 1, VERBS_QPS_MAX);
}

static void set_wrs(const char *s)
{
	own.wrs = number_text("wrs", s, 1000, 100000000);
}

static void set_nic(const char *s)
{
	own.nic = s;
}

static void set_gid_index(const char *s)
{
	own.gid_index = number_text("gid-index", s, 0, 255);
}

static void set_library(const char *s)
{
	own.library = s;
}

static const struct own_option own_options[] = {
	{"patterns", true, set_patterns}, {"mix", true, set_mix},
	{"only", true, set_only},	  {"at-most", true, set_at_most},
	{"qps", true, set_qps},		  {"wrs", true, set_wrs},
	{"nic", true, set_nic},		  {"gid-index", true, set_gid_index},
	{"library", true, set_library},	  {NULL, false, NULL},
};

/* The patterns are listed from their table. */
static const char *help_text(void)
{
	char *text = format_text("%s%s", help_head, help_tail);

	for (const struct verbs_pattern *p = verbs_patterns; p->name; p++)
		text = format_text("%s  %-16s %s\n", text, p->name, p->what);
	return format_text("%s  %-16s %s\n", text, "controls", "the control verbs");
}

/* One line that says which, rather than all that there are. */
static void check_patterns(void)
{
	char *list = check_alloc(strdup(own.patterns)), *rest = list, *name;

	while ((name = strsep(&rest, ",")))
		if (strcmp(name, "controls") && !verbs_pattern_find(name))
			die(EXIT_BAD_USAGE,
			    "--patterns: there is no pattern %s; see shift-bench verbs --help",
			    *name ? name : "without a name");
	free(list);
}

static char *all_names(void)
{
	char *text = format_text("controls");

	for (const struct verbs_pattern *p = verbs_patterns; p->name; p++)
		text = format_text("%s,%s", text, p->name);
	return text;
}

/* ---- data verbs ----------------------------------------------------------------------------- */

struct task {
	struct verbs_place place;
	const struct bench_options *options;
	const char *what, *name; /* "--pattern" "same-1qp" */
	long calls;		 /* of measure_data() for this case */
};

static const char *wrs_of(const struct task *t, bool counting)
{
	if (counting)
		return t->place.nic ? format_text("%d", NIC_COUNTED_WRS)
				    : format_text("%d", COUNTED_WRS);
	if (own.wrs)
		return own.wrs;
	return t->place.nic ? format_text("%d", NIC_WRS) : format_text("%d", WRS);
}

static int run_client(struct task *t, bool with_shift, bool counting, struct verbs_outcome *out)
{
	const char *words[] = {
		t->what, t->name, "--wrs", wrs_of(t, counting), own.qps ? "--qps" : NULL,
		own.qps, NULL};

	return verbs_run(&t->place, with_shift, counting, words, out);
}

/* The first run of either side that is no warm-up: they are the same each time. */
static bool counts_now(const struct task *t)
{
	return own.instructions && t->place.valgrind && t->calls / SIDES == t->options->warmup;
}

static bool is_of_chance(const struct task *t)
{
	return !strcmp(t->what, "--mix");
}

/* In a program of chance a receive is a work request like any other. In a pattern it belongs to the
 * send that needs it. */
static double requests_of(const struct task *t, const struct verbs_outcome *out)
{
	double wrs = verbs_number(out, "wrs");

	return is_of_chance(t) ? wrs + verbs_number(out, "receives") : wrs;
}

static int count_instructions(struct task *t, bool with_shift, struct measurement *m)
{
	struct verbs_outcome out;
	int status = run_client(t, with_shift, true, &out);
	double wrs = requests_of(t, &out);

	m->away = out.away;
	m->failure = out.failure;
	if (!out.failure && wrs > 0) {
		m->values[POST] = (out.instructions[CALL_POST_SEND] +
				   out.instructions[CALL_POST_RECV] +
				   out.instructions[CALL_POST_SRQ_RECV]) /
				  wrs;
		m->values[POLL] = out.instructions[CALL_POLL] / wrs;
		m->values[INSTRUCTIONS] = m->values[POST] + m->values[POLL];
	}
	verbs_outcome_free(&out);
	return status;
}

static cJSON *counts_json(const struct verbs_outcome *out)
{
	cJSON *o = check_alloc(cJSON_CreateObject()),
	      *counts = cJSON_AddObjectToObject(o, "counts");
	char name[32];
	double value;
	int n;

	for (const char *s = out->text; sscanf(s, "%31s %lf\n%n", name, &value, &n) == 2; s += n)
		if (strcmp(name, "ns_per_wr"))
			cJSON_AddNumberToObject(counts, name, value);
	return o;
}

static int time_it(struct task *t, bool with_shift, struct measurement *m)
{
	struct verbs_outcome out;
	int status = run_client(t, with_shift, false, &out);

	m->away = out.away;
	m->failure = out.failure;
	if (!out.failure) {
		m->values[NS] = verbs_number(&out, "ns_per_wr") * verbs_number(&out, "wrs") /
				requests_of(t, &out);
		m->detail = counts_json(&out);
	}
	verbs_outcome_free(&out);
	return status;
}

static int measure_data(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	int status = counts_now(t) ? count_instructions(t, with_shift, m) : EXIT_OK;

	if (own.ns && !status && !m->failure)
		status = time_it(t, with_shift, m);
	t->calls++;
	return status;
}

static int data_case(struct plan *p, struct task *t, const char *what, const char *name)
{
	cJSON *parameters = cJSON_CreateObject();

	t->what = what;
	t->name = name;
	t->calls = 0;
	cJSON_AddStringToObject(parameters, what + 2, name);
	cJSON_AddStringToObject(parameters, "nic", own.nic ? own.nic : "null provider");
	if (own.qps)
		cJSON_AddNumberToObject(parameters, "qps", atof(own.qps));
	p->row = verbs_row;
	return plan_case(p, is_of_chance(t) ? format_text("mix %s", name) : name, parameters,
			 metrics, METRICS, measure_data, t);
}

/* ---- control verbs -------------------------------------------------------------------------- */

static int measure_controls(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	const char *words[] = {"--controls", "--wrs", format_text("%d", CONTROL_ROUNDS), NULL};
	struct verbs_outcome out;
	int status = verbs_run(&t->place, with_shift, false, words, &out);

	m->away = out.away;
	m->failure = out.failure;
	for (int i = 0; verbs_controls[i] && !out.failure; i++)
		m->values[i] = verbs_number(&out, verbs_controls[i]) / 1000;
	verbs_outcome_free(&out);
	return status;
}

static int controls_case(struct plan *p, struct task *t)
{
	struct metric of_controls[CONTROLS_MAX];
	size_t n = 0;

	for (; verbs_controls[n]; n++)
		of_controls[n] = (struct metric){verbs_controls[n], "us", BETTER_LESS};
	p->row = NULL;
	return plan_case(p, "controls", NULL, of_controls, n, measure_controls, t);
}

/* ---- all ------------------------------------------------------------------------------------ */

static int all_patterns(struct plan *p, struct task *t)
{
	const char **names;
	int status = EXIT_OK, worst = EXIT_OK;
	bool controls = false;
	size_t n;

	names = parse_words("patterns", own.patterns, all_names(), &n);
	p->case_count = n;
	for (size_t i = 0; i < n && status <= EXIT_FAILED; i++) {
		if (!strcmp(names[i], "controls")) {
			controls = own.ns; /* at the end: they have another table */
			continue;
		}
		status = data_case(p, t, "--pattern", names[i]);
		worst = status > worst ? status : worst;
	}
	free(names);
	if (controls && status <= EXIT_FAILED) {
		puts("");
		table_columns(p->results);
		status = controls_case(p, t);
		worst = status > worst ? status : worst;
	}
	return worst;
}

static int all_seeds(struct plan *p, struct task *t)
{
	int status = EXIT_OK, worst = EXIT_OK;

	p->case_count = (size_t)(own.last_seed - own.first_seed + 1);
	for (long s = own.first_seed; s <= own.last_seed && status <= EXIT_FAILED; s++) {
		status = data_case(p, t, "--mix", format_text("%ld", s));
		worst = status > worst ? status : worst;
	}
	return worst;
}

/* One line now rather than one for each run. */
static int try_client(struct task *t)
{
	static const char *const words[] = {"--controls", "--wrs", "1", NULL};
	struct verbs_outcome out;
	int status = verbs_run(&t->place, false, false, words, &out);

	if (!status && out.failure) {
		/* The client has said its name already. */
		const char *colon = strncmp(out.failure, "shift-bench: ", 13) ? NULL : out.failure;

		say("verbs: %s", colon ? colon + 13 : out.failure);
		status = EXIT_BAD_USAGE;
	}
	verbs_outcome_free(&out);
	return status;
}

static int measure_all(struct results *r, struct task *t)
{
	struct plan plan = {.results = r};
	int status = try_client(t);

	if (status)
		return status;
	if (own.instructions && !t->place.valgrind)
		say("verbs: valgrind is missing, so no instructions are counted; install it with: "
		    "apt-get install valgrind");
	cJSON_AddStringToObject(r->root, "nic", own.nic ? own.nic : "null provider");
	cJSON_AddStringToObject(r->root, "instructions",
				!own.instructions   ? "not asked for"
				: t->place.valgrind ? "callgrind"
						    : "valgrind is not installed");
	verbs_head(r);
	status = own.last_seed >= own.first_seed ? all_seeds(&plan, t) : all_patterns(&plan, t);
	verbs_foot(r);
	return status;
}

static void check_options(const struct bench_options *o)
{
	if (own.patterns && own.last_seed >= own.first_seed)
		die(EXIT_BAD_USAGE, "--patterns and --mix: one of them");
	if (own.qps && own.last_seed >= own.first_seed)
		die(EXIT_BAD_USAGE, "--qps is for patterns; a seed says its own");
	if (own.gid_index && !own.nic)
		die(EXIT_BAD_USAGE, "--gid-index is for --nic");
	if (own.at_most >= 0 && !own.instructions)
		die(EXIT_BAD_USAGE, "--at-most is of instructions, not of ns");
	if (!own.patterns)
		own.patterns = o->quick ? quick_patterns : all_names();
	check_patterns();
}

int cmd_verbs(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 10};
	struct task t = {.options = &o};
	struct results r;
	int status;

	own.last_seed = -1;
	own.at_most = -1;
	own.ns = own.instructions = true;
	options_parse(&o, help_text(), false, own_options, argc, argv);
	check_options(&o);
	if (!own.ns)
		o.repetitions = 1;
	t.place = (struct verbs_place){
		.nic = own.nic, .gid_index = own.gid_index, .environment = o.environment};
	verbs_place_find(&t.place, own.library);
	if (!own.ns && !t.place.valgrind) {
		verbs_place_leave(&t.place);
		die(EXIT_MISSING, "verbs: valgrind is missing; apt-get install valgrind");
	}
	interrupts_catch();
	results_begin(&r, &o, "verbs", argc, argv);
	status = measure_all(&r, &t);
	verbs_place_leave(&t.place);
	status = plan_end(&r, status);
	if (!status && own.at_most >= 0 && verbs_more_than(&r, (double)own.at_most))
		status = EXIT_WORSE;
	results_free(&r);
	return status;
}
