/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process that begins or ends in a guest stops the others there for tens of milliseconds, and so
 * does a line of the log (doc/measurements.md). So the library says no more than warnings, what
 * makes the fault starts two seconds before it and ends seconds after it, and what happened is
 * asked for when the program is over.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/protection.h"
#include "cmd/shift-bench/scene.h"

enum {
	PORT = 18516,
	WORDS = 48,
	PROTECTED_MS = 20000,
	PROTECTED_EACH_MS = 100,
	LOOK_MS = 300,
	LOOK_EACH_MS = 2, /* the answer is long, and is made while they are set up */
	TOOL_MS = 60000,
	STOP_MS = 20000,
	LIMIT_S = 90, /* of the client and one connection, if nobody ends it */
	BASELINE_MS = 1000,
	WORST_RESULT = 5, /* of the client's exit statuses: an error, a stall, a violation */
};

/* ---- the programs --------------------------------------------------------------------------- */

static long limit_s(const struct scene *s)
{
	return LIMIT_S + s->connections / 2;
}

static void words_of(const char *words[WORDS], const struct scene *s, enum host host)
{
	const struct hosts *h = s->hosts;
	size_t n = 0;

	/* The same addresses in each run: QEMU need not translate the same code again. */
	words[n++] = "setarch";
	words[n++] = "-R";
	words[n++] = h->integrity;
	words[n++] = "--device";
	words[n++] = h->nic[host];
	words[n++] = "--gid-index";
	words[n++] = format_text("%ld", h->gid_index[host]);
	words[n++] = "--json";
	words[n++] = "--stall";
	words[n++] = format_text("%ld", s->fault_ms / 1000 + 10 + s->connections / 4);
	words[n++] = "--outage";
	words[n++] = "--one-way";
	if (host == HOST_A) {
		for (size_t i = 0; s->client && s->client[i]; i++)
			words[n++] = s->client[i];
		words[n++] = "--seconds";
		words[n++] = format_text("%ld", limit_s(s));
		words[n++] = h->peer;
	}
	words[n] = NULL;
}

static bool is_protected(const struct scene *s, enum host host, struct scene_outcome *outcome)
{
	size_t count;

	cJSON_Delete(outcome->status[host]);
	outcome->status[host] = job_status(s->hosts, host);
	free(protected_after_ms(outcome->status[host], &count));
	return count >= (size_t)(s->connections ? s->connections : 1);
}

static double unix_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A fault that comes before meets an unprotected connection; the sample's "protection" says so. */
static void wait_for_protection(const struct scene *s, struct run *client,
				struct scene_outcome *out)
{
	int64_t until = now_ms() + PROTECTED_MS + s->connections * PROTECTED_EACH_MS;

	wait_ms(BASELINE_MS);
	if (!s->with_shift || s->no_backup)
		return;
	for (int i = 0; i < HOSTS; i++)
		while (now_ms() < until && run_alive(client) && !interrupted() &&
		       !is_protected(s, i, out))
			wait_ms(LOOK_MS + s->connections * LOOK_EACH_MS);
}

/* In both hosts, for the client ends only when both are told. */
static void stop_programs(const struct scene *s)
{
	static const enum host order[] = {HOST_A, HOST_B};

	for (int i = 0; i < HOSTS; i++) {
		const char *words[] = {"pkill", "-TERM", "-x", "integrity", NULL};
		char *out, *err;

		host_runs(s->hosts, order[i], words, STOP_MS, &out, &err);
		free(out);
		free(err);
	}
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/*
 * No process begins while it counts, and nothing is said before the end: it is ended by its input,
 * a signal, or when the time is over. Of RoCE in hardware no network interface counts the bytes.
 */
static const char count_bytes[] =
	"n=$1; shift; exec 3<> <(:); files=(); by=1\n"
	"for nic; do d=/sys/class/infiniband/$nic/ports/1; p=$d/counters\n"
	"  net=$(cat $d/gid_attrs/ndevs/0 2>/dev/null)\n"
	"  if [ -e $p/port_rcv_data ]; then files+=($p/port_rcv_data $p/port_xmit_data); by=4\n"
	"  else files+=(/sys/class/net/$net/statistics/{rx,tx}_bytes); fi; done\n"
	"lines=; for ((i = 0; i < n; i++)); do line=$EPOCHREALTIME\n"
	"  for f in \"${files[@]}\"; do read -r v <$f; line+=\" $((v * by))\"; done\n"
	"  lines+=$line$'\\n'; read -r -t 0.1 -u 3; done; printf %s \"$lines\"";

static bool start_counting(const struct scene *s, enum host host, struct run *run)
{
	long ms = FAULT_AHEAD_MS + s->fault_ms + s->after_ms + 2000;
	const char *words[8] = {"bash", "-c", count_bytes, "count", format_text("%ld", ms / 100)};
	size_t n = 5;

	words[n++] = s->hosts->nic[host];
	if (s->hosts->backup[host][0])
		words[n++] = s->hosts->backup[host][0];
	words[n] = NULL;
	return run_start(run, s->hosts, host, words, ms + TOOL_MS);
}

/* ---- the fault ------------------------------------------------------------------------------ */

/* From outside: by the supervisor of the testbed, whose clock is ours. */
static void pull(const struct scene *s, bool up)
{
	const struct hosts *h = s->hosts;
	char *words[] = {h->tool,
			 (char *)"link",
			 (char *)"--name",
			 h->name,
			 (char *)host_name(s->fault->host),
			 (char *)"0",
			 (char *)(up ? "up" : "down"),
			 NULL};
	struct run run;

	if (process_start(&run, words)) {
		run.deadline_ms = now_ms() + TOOL_MS;
		run_wait(&run);
	}
	run_free(&run);
}

static void take_times(struct scene_outcome *out, char *said)
{
	char *rest = NULL;

	for (char *l = strtok_r(said, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
		cJSON *o = cJSON_Parse(l);

		if (!strcmp(json_text(o, "event"), "begin"))
			out->fault_unix_ms = json_number(o, "unix_s") * 1000;
		else if (!strcmp(json_text(o, "event"), "end"))
			out->mended_unix_ms = json_number(o, "unix_s") * 1000;
		cJSON_Delete(o);
	}
}

static void make_fault(const struct scene *s, struct scene_outcome *out)
{
	struct run run = {0};
	char *said, *err;

	if (!s->fault->words) {
		wait_ms(FAULT_AHEAD_MS);
		out->fault_unix_ms = unix_ms();
		pull(s, false);
		wait_ms(s->fault_ms);
		pull(s, true); /* also when we are to end */
		out->mended_unix_ms = unix_ms();
		return;
	}
	if (fault_start(&run, s->hosts, s->fault, FAULT_AHEAD_MS, s->fault_ms))
		run_wait(&run);
	said = run_output(&run);
	err = run_errors(&run);
	take_times(out, said);
	err[strcspn(err, "\n")] = 0;
	if (run.status && !interrupted())
		out->pair.failure = format_text("shift-inject on %s: status %d: %s",
						host_name(s->fault->host), run.status, err);
	free(said);
	free(err);
	run_free(&run);
}

struct acting {
	const struct scene *scene;
	struct scene_outcome *out;
};

/* A signal that comes before there is traffic ends nothing, and 1000 QPs take their time. */
static bool wait_for_traffic(const struct scene *s, struct run *client)
{
	int64_t until = now_ms() + limit_s(s) * 1000;
	bool runs = false;

	while (!runs && run_alive(client) && now_ms() < until && !interrupted()) {
		char *said = run_errors(client);

		runs = strstr(said, "integrity: running");
		free(said);
		usleep(20000);
	}
	return runs;
}

static void act(void *what, struct run runs[HOSTS])
{
	const struct acting *a = what;
	const struct scene *s = a->scene;
	struct run *client = &runs[HOST_A];
	struct run counting[HOSTS] = {0};

	if (!wait_for_traffic(s, client)) {
		stop_programs(s);
		return;
	}
	wait_for_protection(s, client, a->out);
	for (int i = 0; s->watch_bytes && i < HOSTS && !interrupted(); i++)
		start_counting(s, i, &counting[i]);
	a->out->counting_unix_ms = unix_ms();
	if (!interrupted() && s->fault)
		make_fault(s, a->out);
	wait_ms(s->after_ms);
	for (int i = 0; i < HOSTS; i++) {
		if (s->watch_bytes) {
			run_wait(&counting[i]);
			a->out->bytes[i] = run_output(&counting[i]);
		}
		run_free(&counting[i]);
	}
	stop_programs(s);
}

int scene_run(struct scene *s, struct scene_outcome *out)
{
	const char *words[HOSTS][WORDS];
	struct acting acting = {s, out};
	struct pair_words w = {.environment = s->environment ? s->environment
							     : s->options->environment,
			       .with_shift = s->with_shift,
			       .port = PORT,
			       .limit_ms = (limit_s(s) + 30) * 1000,
			       .meanwhile = act,
			       .what = &acting,
			       .results_up_to = WORST_RESULT};
	int status;

	memset(out, 0, sizeof(*out));
	out->fault_unix_ms = out->mended_unix_ms = NAN;
	for (int i = 0; i < HOSTS; i++) {
		words_of(words[i], s, i);
		w.words[i] = words[i];
	}
	status = pair_run(s->hosts, &w, &out->pair);
	out->client = cJSON_Parse(out->pair.out[HOST_A] ? out->pair.out[HOST_A] : "");
	if (!status && !out->pair.failure && !out->client)
		out->pair.failure = format_text("the client said nothing: status %d, %.80s",
						out->pair.status[HOST_A], out->pair.err[HOST_A]);
	return status;
}

void scene_free(struct scene_outcome *out)
{
	cJSON_Delete(out->client);
	for (int i = 0; i < HOSTS; i++) {
		free(out->bytes[i]);
		cJSON_Delete(out->status[i]);
	}
	pair_free(&out->pair);
}
