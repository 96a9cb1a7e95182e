/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A server on b and its client on a, each bounded; what the guests were away is read before and
 * after, for whatever begins in a guest stops what runs there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/hosts.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/protection.h"

enum { LISTEN_S = 30, ASK_MS = 20000, STATUS_MS = 60000, LAST_MS = 10000 };

static const char *report_file(const struct hosts *h, enum host host)
{
	return format_text("/tmp/shift-%s-%s.json", h->job, host_name(host));
}

const char **words_under(const struct hosts *h, const char *const *environment, bool with_shift,
			 const char *report, const char *const *own)
{
	size_t own_count = 0, env_count = 0, n = 0;
	const char **words;

	while (own[own_count])
		own_count++;
	while (environment && environment[env_count])
		env_count++;
	words = check_alloc(calloc(own_count + env_count + 10, sizeof(*words)));
	if (with_shift) {
		words[n++] = "env";
		for (size_t i = 0; i < env_count; i++)
			words[n++] = environment[i];
		words[n++] = h->shift_run;
		if (report) {
			words[n++] = "--report";
			words[n++] = report;
		}
		words[n++] = "--kv";
		words[n++] = h->kv;
		words[n++] = "--job";
		words[n++] = h->job;
		words[n++] = "--";
	}
	memcpy(words + n, own, own_count * sizeof(*words));
	return words;
}

static const char **words_of(const struct hosts *h, const struct pair_words *w, enum host host)
{
	return words_under(h, w->environment, w->with_shift, report_file(h, host), w->words[host]);
}

/* The port, in hexadecimal, in state LISTEN; and /proc/stat, while nothing is measured yet. */
static const char listening[] =
	"n=0; until grep -qi \":$0 0*:0000 0A\" /proc/net/tcp /proc/net/tcp6; do\n"
	"  n=$((n + 1)); [ $n -le $1 ] || exit 1; sleep 0.1; done; head -n 1 /proc/stat";
/* /proc/stat, and what shift-run has left in a file when it ended: also if the program was killed.
 */
static const char statistics[] =
	"head -n 1 /proc/stat; [ -z \"$0\" ] || ! cat \"$0\" || rm -f \"$0\"";

static void start_listening(const struct hosts *h, enum host host, long port, struct run *run)
{
	const char *words[] = {"sh",
			       "-c",
			       listening,
			       format_text("%04lX", port & 0xffff),
			       format_text("%d", LISTEN_S * 10),
			       NULL};

	run_start(run, h, host, words, ASK_MS + LISTEN_S * 1000);
}

/* report: also that of shift-run. */
static void start_statistics(const struct hosts *h, enum host host, bool report, struct run *run)
{
	const char *words[] = {"sh", "-c", statistics, report ? report_file(h, host) : "", NULL};

	run_start(run, h, host, words, ASK_MS);
}

/* Waits for one of these. Its text, or NULL if it has failed, or did not start. */
static char *end_asking(struct run *run, struct processor_time *t)
{
	char *out;

	run_wait(run);
	out = run_output(run);
	if (run->status || !processor_time_parse(t, out)) {
		free(out);
		out = NULL;
	}
	run_free(run);
	return out;
}

/* When the server listens, if it has a port; then nothing else begins in a host. false: it does not
 * listen. */
static bool ask_before(const struct hosts *h, long port, struct processor_time places[PLACES])
{
	struct run runs[HOSTS] = {0};
	bool listens = port ? host_listens(h, HOST_B, port) : true;

	for (int i = 0; listens && i < HOSTS; i++)
		start_statistics(h, i, false, &runs[i]);
	for (int i = 0; listens && i < HOSTS; i++)
		free(end_asking(&runs[i], &places[i == HOST_A ? PLACE_A : PLACE_B]));
	return listens;
}

static void ask_after(const struct hosts *h, bool report, struct processor_time places[PLACES],
		      struct pair_outcome *out)
{
	static const enum place place[HOSTS] = {PLACE_A, PLACE_B};
	struct run runs[HOSTS] = {0};

	for (int i = 0; i < HOSTS; i++)
		start_statistics(h, i, report, &runs[i]);
	for (int i = 0; i < HOSTS; i++) {
		char *said = end_asking(&runs[i], &places[place[i]]);
		const char *rest = said ? strchr(said, '\n') : NULL;

		out->report[i] = report && rest ? cJSON_Parse(rest) : NULL;
		free(said);
	}
}

bool host_listens(const struct hosts *h, enum host host, long port)
{
	struct processor_time t;
	struct run run;
	bool listens;
	char *said;

	start_listening(h, host, port, &run);
	said = end_asking(&run, &t);
	listens = said;
	free(said);
	return listens;
}

cJSON *job_status(const struct hosts *h, enum host host)
{
	const char *words[] = {h->shift_ctl, "status", "--job", h->job, "--json", NULL};
	char *out, *err;
	cJSON *status = NULL;

	if (!host_runs(h, host, words, STATUS_MS, &out, &err))
		status = cJSON_Parse(out);
	free(out);
	free(err);
	return status;
}

/* The last line of a text, for a message: cut there. */
static const char *last_line(char *text)
{
	char *end = text + strlen(text);

	while (end > text && (end[-1] == '\n' || end[-1] == ' '))
		*--end = 0;
	return strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
}

const char *pair_reason(const struct pair_outcome *out, enum host host)
{
	char *err = check_alloc(strdup(out->err[host])),
	     *said = check_alloc(strdup(out->out[host]));
	const char *line = last_line(err), *reason;

	reason = format_text("host %s: status %d: %s", host_name(host), out->status[host],
			     *line ? line : last_line(said));
	free(err);
	free(said);
	return reason;
}

static void note_failure(struct pair_outcome *out, long results_up_to)
{
	for (int i = 0; i < HOSTS && !out->failure; i++)
		if (out->status[i] == 124)
			out->failure = format_text("host %s: not done in time", host_name(i));
		else if (out->status[i] > results_up_to)
			out->failure = pair_reason(out, i);
}

static int run_both(struct hosts *h, const struct pair_words *w, const char **const words[HOSTS],
		    struct run runs[HOSTS], struct watch *watch, struct pair_outcome *out)
{
	struct processor_time places[PLACES] = {0};

	if (!run_start(&runs[HOST_B], h, HOST_B, words[HOST_B], w->limit_ms))
		return EXIT_FAILED;
	if (!ask_before(h, w->port, places)) {
		run_stop(&runs[HOST_B]);
		out->failure = "host b: the server does not listen";
		return hosts_check(h);
	}
	watch_begin(watch, places);
	if (!run_start(&runs[HOST_A], h, HOST_A, words[HOST_A], w->limit_ms))
		return EXIT_FAILED;
	if (w->meanwhile)
		w->meanwhile(w->what, runs);
	run_wait(&runs[HOST_A]);
	/* A server whose client has ended ends. */
	if (runs[HOST_B].deadline_ms > now_ms() + LAST_MS)
		runs[HOST_B].deadline_ms = now_ms() + LAST_MS;
	run_wait(&runs[HOST_B]);
	out->away = watch_end(watch);
	return EXIT_OK;
}

int pair_run(struct hosts *h, const struct pair_words *w, struct pair_outcome *out)
{
	const char **words[HOSTS] = {words_of(h, w, HOST_A), words_of(h, w, HOST_B)};
	struct processor_time places[PLACES] = {0};
	struct run runs[HOSTS] = {0};
	struct watch watch;
	int status;

	memset(out, 0, sizeof(*out));
	out->unknown_job = w->unknown_job;
	status = run_both(h, w, words, runs, &watch, out);
	for (int i = 0; i < HOSTS; i++) {
		run_stop(&runs[i]);
		out->out[i] = run_output(&runs[i]);
		out->err[i] = run_errors(&runs[i]);
		out->status[i] = runs[i].status;
	}
	if (!interrupted())
		ask_after(h, w->with_shift, places, out);
	if (!status && !out->failure)
		watch_guests(&out->away, &watch, places);
	note_failure(out, w->results_up_to);
	for (int i = 0; i < HOSTS; i++) {
		run_free(&runs[i]);
		free(words[i]);
	}
	if (interrupted())
		return EXIT_INTERRUPTED;
	return status || !out->failure ? status : hosts_check(h);
}

void pair_free(struct pair_outcome *out)
{
	for (int i = 0; i < HOSTS; i++) {
		free(out->out[i]);
		free(out->err[i]);
		cJSON_Delete(out->report[i]);
	}
	memset(out, 0, sizeof(*out));
}

void pair_protection(struct pair_outcome *out, bool with_shift, cJSON **detail)
{
	cJSON *both;

	if (!with_shift)
		return;
	if (!*detail)
		*detail = check_alloc(cJSON_CreateObject());
	both = cJSON_AddObjectToObject(*detail, "protection");
	for (int i = 0; i < HOSTS; i++) {
		struct protection p = protection_of(out->report[i], out->unknown_job);

		cJSON_AddItemToObject(both, host_name(i), protection_json(&p));
		if (p.reason && !out->failure)
			out->failure = format_text(
				"host %s: %ld of %ld connections were protected: %s", host_name(i),
				p.protected, p.connections, p.reason);
	}
}
