/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Figure 10 of SHIFT: the progress of a training job while its NIC fails. Without shift the job
 * dies and is started again from its last checkpoint. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/training.h"

#define SCENARIOS "none,fatal,busy,flap"
#define FAULTS	  "down:a,down:b,blackhole:b"

static const char help[] =
	"usage: shift-bench training [options]\n"
	"The progress of a job on both hosts while a NIC fails, without and with shift in turn. A "
	"job\n"
	"that has died is started again, from its last checkpoint; the NIC is restored for that.\n"
	"What shift costs a job that nothing happens to: --scenarios none --repetitions 8\n"
	"\n"
	"      --scenarios LIST   of none,fatal,busy,flap (default: all)\n"
	"      --fault FAULT      down:a (default), down:b or blackhole:b\n"
	"      --fault-at-ms N    after the first step (default 4500)\n"
	"      --flaps N          how often the link goes down in flap (default 3)\n"
	"      --flap-ms N        for so long, and up for as long (default 2000)\n"
	"      --restart-ms N     from the end of a job that died to its restart (default 1000)\n"
	"      --stall-ms N       without a step for so long a job counts as dead (default 60000)\n"
	"      --steps N          of the job (default 60; --quick: 40)\n"
	"      --checkpoint-every N\n"
	"                         steps (default 10)\n"
	"      --compute-ms N     what a step of the job computes (default 200)\n"
	"      --messages N       of 4 KB, that a step moves each way (default 64)\n"
	"      --command COMMAND  another job, for sh -c on both hosts; what it has to print and\n"
	"                         is told stands in the manual page\n"
	"      --port N           of that job: host b listens there before host a begins\n" //
	OPTIONS_HELP OPTIONS_HELP_HOSTS;

enum value {
	TOTAL,
	FIRST_STEP,
	TRAINING,
	STEP,
	STEP_AFTER,
	STANDSTILL,
	RESTARTS,
	LOST_STEPS,
	LOST_TIME,
	METRICS
};

static const struct metric metrics[METRICS] = {
	[TOTAL] = {"total", "s", BETTER_LESS},
	[FIRST_STEP] = {"first_step", "s", BETTER_LESS},
	[TRAINING] = {"training", "s", BETTER_LESS},
	[STEP] = {"step", "ms", BETTER_LESS},
	[STEP_AFTER] = {"step_after", "ms", BETTER_LESS},
	[STANDSTILL] = {"standstill", "ms", BETTER_LESS},
	[RESTARTS] = {"restarts", "restarts", BETTER_LESS},
	[LOST_STEPS] = {"lost_steps", "steps", BETTER_LESS},
	[LOST_TIME] = {"lost_time", "s", BETTER_LESS},
};

enum { PORT = 18518, WORDS = 32, SETTLE_MS = 1000, QUICK_STEPS = 40 };

static const char *scenarios = SCENARIOS, *fault_name = "down:a", *command;
static long fault_at_ms = 4500, flaps = 3, flap_ms = 2000, restart_ms = 1000, stall_ms = 60000,
	    steps, every = 10, compute_ms = 200, messages = 64, port;

static void set_scenarios(const char *s)
{
	scenarios = s;
}

static void set_fault(const char *s)
{
	fault_name = s;
}

static void set_fault_at(const char *s)
{
	fault_at_ms = option_number("fault-at-ms", s, 100, 86400000);
}

static void set_flaps(const char *s)
{
	flaps = option_number("flaps", s, 1, 1000);
}

static void set_flap_ms(const char *s)
{
	flap_ms = option_number("flap-ms", s, 100, 60000);
}

static void set_restart(const char *s)
{
	restart_ms = option_number("restart-ms", s, 0, 3600000);
}

static void set_stall(const char *s)
{
	stall_ms = option_number("stall-ms", s, 1000, 86400000);
}

static void set_steps(const char *s)
{
	steps = option_number("steps", s, 2, 1000000);
}

static void set_every(const char *s)
{
	every = option_number("checkpoint-every", s, 1, 1000000);
}

static void set_compute(const char *s)
{
	compute_ms = option_number("compute-ms", s, 0, 60000);
}

static void set_messages(const char *s)
{
	messages = option_number("messages", s, 1, 65536);
}

static void set_command(const char *s)
{
	command = s;
}

static void set_port(const char *s)
{
	port = option_number("port", s, 1, 65535);
}

static const struct own_option own[] = {
	{"scenarios", true, set_scenarios},
	{"fault", true, set_fault},
	{"fault-at-ms", true, set_fault_at},
	{"flaps", true, set_flaps},
	{"flap-ms", true, set_flap_ms},
	{"restart-ms", true, set_restart},
	{"stall-ms", true, set_stall},
	{"steps", true, set_steps},
	{"checkpoint-every", true, set_every},
	{"compute-ms", true, set_compute},
	{"messages", true, set_messages},
	{"command", true, set_command},
	{"port", true, set_port},
	{NULL, false, NULL},
};

/* ---- the job -------------------------------------------------------------------------------- */

static void words_of_own(const char *words[WORDS], const struct hosts *h, enum host host)
{
	const struct {
		const char *option, *value;
	} options[] = {
		{"--device", h->nic[host]},
		{"--gid-index", format_text("%ld", h->gid_index[host])},
		{"--port", format_text("%d", PORT)},
		{"--steps", format_text("%ld", steps)},
		{"--checkpoint", training_checkpoint(host)},
		{"--checkpoint-every", format_text("%ld", every)},
		{"--compute-ms", format_text("%ld", compute_ms)},
		{"--messages", format_text("%ld", messages)},
		{"--stall", format_text("%ld", stall_ms / 1000)},
	};
	size_t n = 0;

	words[n++] = h->train_steps;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		words[n++] = options[i].option;
		words[n++] = options[i].value;
	}
	words[n++] = host == HOST_A ? h->peer : NULL;
	words[n] = NULL;
}

/* Not by env: shift-run takes no command whose env sets variables SHIFT_*. */
static const char with_variables[] = "command=$1; shift; export \"$@\"; exec sh -c \"$command\"";

/* Host b, which is started first, is rank 0, and its address is the one that both reach. */
static void words_of_command(const char *words[WORDS], const struct hosts *h, enum host host)
{
	size_t n = 0;

	words[n++] = "sh";
	words[n++] = "-c";
	words[n++] = with_variables;
	words[n++] = "sh";
	words[n++] = command;
	words[n++] = format_text("SHIFT_BENCH_RANK=%d", host == HOST_A);
	words[n++] = format_text("SHIFT_BENCH_MASTER=%s", h->peer);
	words[n++] = format_text("SHIFT_BENCH_NIC=%s", h->nic[host]);
	words[n++] = format_text("SHIFT_BENCH_CHECKPOINT=%s", training_checkpoint(host));
	words[n++] = format_text("SHIFT_BENCH_STEPS=%ld", steps);
	words[n++] = format_text("SHIFT_BENCH_CHECKPOINT_EVERY=%ld", every);
	words[n] = NULL;
}

/* ---- scenarios ------------------------------------------------------------------------------ */

struct task {
	struct training training;
	const char *words[HOSTS][WORDS];
};

static bool needs_backup(const char *scenario)
{
	return !strcmp(scenario, "busy");
}

static const struct fault *flap_on(enum host host)
{
	static const char *words[8];
	static struct fault flap = {.name = "flap", .words = words};

	words[0] = "flap";
	words[1] = "--period";
	words[2] = format_text("%ldms", 2 * flap_ms);
	words[3] = "--count";
	words[4] = format_text("%ld", flaps);
	flap.host = host;
	return &flap;
}

static void set_scenario(struct training *t, const char *scenario)
{
	t->busy = needs_backup(scenario);
	t->fault = fault_named(fault_name);
	if (!strcmp(scenario, "none"))
		t->fault = NULL;
	else if (!strcmp(scenario, "flap"))
		t->fault = flap_on(t->fault->host);
}

static void take(const struct training_outcome *out, struct measurement *m)
{
	struct progress_figures f = progress_figures_of(&out->progress, out->fault_ms);
	double *v = m->values;

	v[TOTAL] = f.total_s;
	v[FIRST_STEP] = f.first_step_s;
	v[TRAINING] = f.training_s;
	v[STEP] = f.step_ms;
	v[STEP_AFTER] = f.step_after_ms;
	v[STANDSTILL] = f.standstill_ms;
	v[RESTARTS] = (double)out->restarts;
	v[LOST_STEPS] = f.lost_steps;
	v[LOST_TIME] = f.lost_s;
}

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *task = what;
	struct training_outcome out;
	int status;

	task->training.with_shift = with_shift;
	status = training_run(&task->training, &out);
	if (!status) {
		m->away = out.away;
		m->failure = out.failure;
		if (!m->failure)
			take(&out, m);
		cJSON_AddItemToObject(out.detail, "steps",
				      progress_points_json(&out.progress.steps));
		cJSON_AddItemToObject(out.detail, "checkpoints",
				      progress_points_json(&out.progress.checkpoints));
		m->detail = out.detail;
		out.detail = NULL;
	}
	training_free(&out);
	if (!status && task->training.fault)
		wait_ms(SETTLE_MS); /* the next run begins when the link is as it was */
	return status;
}

static cJSON *parameters_of(const char *scenario, const struct training *t)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddStringToObject(o, "scenario", scenario);
	if (t->fault) {
		cJSON_AddStringToObject(o, "fault", t->fault->name);
		cJSON_AddNumberToObject(o, "fault_at_ms", (double)fault_at_ms);
		cJSON_AddNumberToObject(o, "restart_ms", (double)restart_ms);
	}
	if (command) {
		cJSON_AddStringToObject(o, "command", command);
	} else {
		cJSON_AddNumberToObject(o, "compute_ms", (double)compute_ms);
		cJSON_AddNumberToObject(o, "messages", (double)messages);
	}
	cJSON_AddNumberToObject(o, "steps", (double)steps);
	cJSON_AddNumberToObject(o, "checkpoint_every", (double)every);
	return o;
}

static int training_cases(struct results *r, struct hosts *h)
{
	struct task t = {.training = {.hosts = h,
				      .options = r->options,
				      .unknown_job = command != NULL,
				      .port = command ? port : PORT,
				      .fault_at_ms = fault_at_ms,
				      .restart_ms = restart_ms,
				      .stall_ms = stall_ms}};
	struct plan plan = {.results = r};
	const char **list = parse_words("scenarios", scenarios, SCENARIOS, &plan.case_count);
	int status = hosts_need(h->train_steps, "train-steps"), worst = status;

	for (int i = 0; i < HOSTS && !status; i++) {
		if (command)
			words_of_command(t.words[i], h, i);
		else
			words_of_own(t.words[i], h, i);
		t.training.words[i] = t.words[i];
	}
	for (size_t i = 0; i < plan.case_count && status <= EXIT_FAILED; i++) {
		if (needs_backup(list[i]) && !(h->backup[HOST_A][0] && h->backup[HOST_B][0])) {
			say("the hosts have no second NIC: %s is not measured", list[i]);
			worst = worst > EXIT_FAILED ? worst : EXIT_FAILED;
			continue;
		}
		set_scenario(&t.training, list[i]);
		status = plan_case(&plan, list[i], parameters_of(list[i], &t.training), metrics,
				   METRICS, measure, &t);
		worst = status > worst ? status : worst;
	}
	free(list);
	return worst;
}

int cmd_training(int argc, char **argv)
{
	struct bench_options o = {.repetitions = 3, .warmup = 0, .quick_repetitions = 1};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	if (!steps)
		steps = o.quick ? QUICK_STEPS : 60;
	free(parse_words("scenarios", scenarios, SCENARIOS, &count));
	free(parse_words("fault", fault_name, FAULTS, &count));
	if (count != 1)
		die(EXIT_BAD_USAGE, "--fault %s: one of %s", fault_name, FAULTS);
	if (port && !command)
		die(EXIT_BAD_USAGE, "--port is for --command");
	interrupts_catch();
	results_begin(&r, &o, "training", argc, argv);
	status = measure_between_hosts(&r, true, training_cases);
	results_free(&r);
	return status;
}
