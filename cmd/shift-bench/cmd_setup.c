/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Figure 4a of SHIFT: what many connections cost until they are protected, and how long they take
 * to move, by the number of backup rails. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/parts.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/protection.h"
#include "cmd/shift-bench/scene.h"

static const char help[] =
	"usage: shift-bench setup [options]\n"
	"What connections cost until they are protected: time, memory and operations of etcd; "
	"and\n"
	"how long they take to move when the link of rail 0 goes down. Without and with shift in "
	"turn.\n"
	"\n"
	"      --qps LIST         connections, 1 to 1000 (default 1,10,100,1000; --quick: "
	"1,10,100)\n"
	"      --backups LIST     backup rails, of 0,1,2 (default: all that both hosts "
	"have)\n" OPTIONS_HELP OPTIONS_HELP_HOSTS;

enum value { INIT, MEMORY, PROTECTED, SLOWEST, MOVE, PUTS, RANGES, BYTES, METRICS };

static const struct metric metrics[METRICS] = {
	[INIT] = {"init", "ms", BETTER_LESS},
	[MEMORY] = {"memory", "MiB", BETTER_LESS},
	[PROTECTED] = {"protected", "ms", BETTER_LESS},
	[SLOWEST] = {"protected_max", "ms", BETTER_LESS},
	[MOVE] = {"move", "ms", BETTER_LESS},
	[PUTS] = {"etcd_puts", "ops", BETTER_LESS},
	[RANGES] = {"etcd_ranges", "ops", BETTER_LESS},
	[BYTES] = {"etcd_bytes", "KiB", BETTER_LESS},
};

enum { ASK_MS = 20000, FAULT_MS = 2000, FAULT_EACH_MS = 10, AFTER_MS = 1000, AFTER_EACH_MS = 10 };

static const char *qps_list, *backups_list;

static void set_qps(const char *s)
{
	qps_list = s;
}

static void set_backups(const char *s)
{
	backups_list = s;
}

static const struct own_option own[] = {
	{"qps", true, set_qps},
	{"backups", true, set_backups},
	{NULL, false, NULL},
};

struct task {
	struct hosts *hosts;
	const struct bench_options *options;
	long qps, backups;
	const char **environment; /* of the options, SHIFT_RAILS, SHIFT_FAILBACK */
};

/* ---- etcd ----------------------------------------------------------------------------------- */

struct etcd_counts {
	double puts, ranges, bytes; /* NAN: it did not answer */
};

/* As Prometheus reads them. Nothing that a host need have is used but bash. */
static const char etcd_metrics[] =
	"exec 3<>\"/dev/tcp/$0/29379\" && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && "
	"grep -E '^etcd_(debugging_mvcc_(put|range)|mvcc_(put|range)|network_client_grpc_(received|"
	"sent)_bytes)_total ' <&3";

/* Newer versions of etcd count under other names. */
static void add_count(double *sum, const char *line, const char *name)
{
	const char *at = strstr(line, name);

	if (at)
		*sum = (isnan(*sum) ? 0 : *sum) + strtod(at + strlen(name), NULL);
}

static struct etcd_counts ask_etcd(const struct hosts *h)
{
	const char *words[] = {"bash", "-c", etcd_metrics, h->peer, NULL};
	struct etcd_counts c = {NAN, NAN, NAN};
	char *out, *err, *rest = NULL;

	host_runs(h, HOST_A, words, ASK_MS, &out, &err);
	for (char *l = strtok_r(out, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
		if (strstr(l, "etcd_mvcc_") && !isnan(c.puts) && !isnan(c.ranges))
			continue; /* counted under the old name */
		add_count(&c.puts, l, "mvcc_put_total ");
		add_count(&c.ranges, l, "mvcc_range_total ");
		add_count(&c.bytes, l, "_bytes_total ");
	}
	free(out);
	free(err);
	return c;
}

/* ---- one run -------------------------------------------------------------------------------- */

/* Of both hosts, ascending. The caller frees it. */
static double *times_of(const struct scene_outcome *out, size_t *count)
{
	size_t counts[HOSTS];
	double *a = protected_after_ms(out->status[HOST_A], &counts[HOST_A]);
	double *b = protected_after_ms(out->status[HOST_B], &counts[HOST_B]);
	double *both;

	*count = counts[HOST_A] + counts[HOST_B];
	both = check_alloc(realloc(a, (*count + 1) * sizeof(*both)));
	memcpy(both + counts[HOST_A], b, counts[HOST_B] * sizeof(*both));
	free(b);
	values_sort(both, *count);
	return both;
}

static const cJSON *totals_of_a(const struct scene_outcome *out)
{
	return cJSON_GetObjectItemCaseSensitive(out->pair.report[HOST_A], "totals");
}

/* NULL: nothing is wrong. */
static const char *is_wrong(const struct scene *s, const struct scene_outcome *out, size_t timed)
{
	const cJSON *totals = totals_of_a(out);

	if (json_number(out->client, "exit") != 0)
		return format_text("the client ended with status %g",
				   json_number(out->client, "exit"));
	if (!s->with_shift || s->no_backup)
		return NULL;
	if (timed < (size_t)s->connections * HOSTS)
		return "not all connections were protected in time";
	if (json_number(totals, "moved") < (double)s->connections)
		return format_text("only %g connections moved", json_number(totals, "moved"));
	return NULL;
}

static const char *take(const struct scene *s, const struct scene_outcome *out,
			const struct etcd_counts *before, const struct etcd_counts *after,
			double *v)
{
	size_t count;
	double *ms = times_of(out, &count);
	const char *wrong = is_wrong(s, out, count);

	v[INIT] = json_number(out->client, "set_up_ms");
	v[MEMORY] = json_number(out->client, "max_rss_kb") / 1024;
	if (count) {
		v[PROTECTED] = sorted_percentile(ms, count, 0.5);
		v[SLOWEST] = ms[count - 1];
	}
	if (s->fault) /* of the last of them; they all begin with the same event */
		v[MOVE] = json_number(totals_of_a(out), "outage_max_us") / 1000;
	v[PUTS] = after->puts - before->puts;
	v[RANGES] = after->ranges - before->ranges;
	v[BYTES] = (after->bytes - before->bytes) / 1024;
	free(ms);
	return wrong;
}

static int measure(void *what, bool with_shift, struct measurement *m)
{
	struct task *t = what;
	bool moves = with_shift && t->backups;
	const char *client[] = {"--qps",      format_text("%ld", t->qps),
				"--size",     "1024",
				"--depth",    "4",
				"--receives", "4",
				"--inflight", "1",
				NULL};
	struct scene s = {.hosts = t->hosts,
			  .options = t->options,
			  .fault = moves ? fault_named("down:a") : NULL,
			  .client = client,
			  .environment = t->environment,
			  .connections = t->qps,
			  .fault_ms = FAULT_MS + t->qps * FAULT_EACH_MS,
			  .after_ms = AFTER_MS + (moves ? t->qps * AFTER_EACH_MS : 0),
			  .with_shift = with_shift,
			  .no_backup = !t->backups};
	struct etcd_counts before = {NAN, NAN, NAN}, after = before;
	struct scene_outcome out;
	int status;

	if (with_shift)
		before = ask_etcd(t->hosts);
	status = scene_run(&s, &out);
	if (with_shift && !status)
		after = ask_etcd(t->hosts);
	if (!status) {
		if (t->backups)
			pair_protection(&out.pair, with_shift, &m->detail);
		m->away = out.pair.away;
		m->failure = out.pair.failure;
		if (!m->failure)
			m->failure = take(&s, &out, &before, &after, m->values);
	}
	scene_free(&out);
	return status;
}

/* ---- cases ---------------------------------------------------------------------------------- */

/* Of NICs that both hosts have under the same name. Without backups: those of another NIC. */
static const char *rails_of(const struct hosts *h, long backups)
{
	const char *nic = h->nic[HOST_A], *one = h->backup[HOST_A][0], *two = h->backup[HOST_A][1];

	if (!backups)
		return format_text("SHIFT_RAILS=%s=%s", one, nic);
	if (backups == 1)
		return format_text("SHIFT_RAILS=%s=%s", nic, one);
	return format_text("SHIFT_RAILS=%s=%s+%s", nic, one, two);
}

/* The caller frees the array. */
static const char **environment_of(const struct bench_options *o, const char *rails)
{
	size_t n = 0;
	const char **all;

	while (o->environment && o->environment[n])
		n++;
	all = check_alloc(calloc(n + 3, sizeof(*all)));
	for (size_t i = 0; i < n; i++)
		all[i] = o->environment[i];
	all[n++] = rails;
	all[n] = "SHIFT_FAILBACK=never"; /* the move that is measured is the only one */
	return all;
}

static bool have_both(const char *const nic[HOSTS])
{
	return nic[HOST_A] && nic[HOST_B] && !strcmp(nic[HOST_A], nic[HOST_B]);
}

static bool has_backups(const struct hosts *h, long backups)
{
	const char *nic[HOSTS] = {h->nic[HOST_A], h->nic[HOST_B]};
	long named = backups ? backups : 1; /* for none, another NIC is named in its place */
	bool have = have_both(nic);

	for (long k = 0; k < named; k++) {
		const char *backup[HOSTS] = {h->backup[HOST_A][k], h->backup[HOST_B][k]};

		have &= have_both(backup);
	}
	return have;
}

static int measure_case(struct plan *plan, struct task *t)
{
	cJSON *parameters = check_alloc(cJSON_CreateObject());
	int status;

	cJSON_AddNumberToObject(parameters, "qps", (double)t->qps);
	cJSON_AddNumberToObject(parameters, "backup_rails", (double)t->backups);
	t->environment = environment_of(plan->results->options, rails_of(t->hosts, t->backups));
	status = plan_case(plan,
			   format_text("%ld QP%s, %ld backup%s", t->qps, t->qps == 1 ? "" : "s",
				       t->backups, t->backups == 1 ? "" : "s"),
			   parameters, metrics, METRICS, measure, t);
	free(t->environment);
	return status;
}

int setup_cases(struct results *r, struct hosts *h)
{
	struct task t = {.hosts = h, .options = r->options};
	struct plan plan = {.results = r};
	size_t qp_count, backup_count, left = 0;
	long *qps = parse_sizes("qps", qps_list, 1, 1000, &qp_count);
	long *backups = parse_sizes("backups", backups_list, 0, BACKUPS_MAX, &backup_count);
	int status = EXIT_OK, worst = EXIT_OK;

	for (size_t k = 0; k < backup_count; k++)
		if (has_backups(h, backups[k]))
			left++;
		else
			say("the hosts have no NICs of the same names for %ld backup rails: not "
			    "measured",
			    backups[k]);
	plan.case_count = qp_count * left;
	for (size_t i = 0; i < qp_count * backup_count && status <= EXIT_FAILED; i++) {
		t.qps = qps[i / backup_count];
		t.backups = backups[i % backup_count];
		if (!has_backups(h, t.backups))
			continue;
		status = measure_case(&plan, &t);
		worst = status > worst ? status : worst;
	}
	free(qps);
	free(backups);
	return left ? worst : EXIT_FAILED;
}

void setup_defaults(struct scope scope)
{
	static const char most[] = "1,10,100,1000", every[] = "0,1,2";

	qps_list = by_scope(scope, qps_list, most, "1,10,100", most, "100");
	backups_list = by_scope(scope, backups_list, every, every, every, "0,1");
}

int cmd_setup(int argc, char **argv)
{
	struct bench_options o = {
		.repetitions = 3, .warmup = 1, .quick_repetitions = 1, .rails = BACKUPS_MAX + 1};
	struct results r;
	size_t count;
	int status;

	options_parse(&o, help, true, own, argc, argv);
	setup_defaults((struct scope){.quick = o.quick});
	free(parse_sizes("qps", qps_list, 1, 1000, &count));
	free(parse_sizes("backups", backups_list, 0, BACKUPS_MAX, &count));
	interrupts_catch();
	results_begin(&r, &o, "setup", argc, argv);
	status = measure_between_hosts(&r, true, setup_cases);
	results_free(&r);
	return status;
}
