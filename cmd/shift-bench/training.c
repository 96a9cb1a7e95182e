/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Times are those at which lines arrive here, so that one clock tells steps, faults and restarts of
 * both hosts. A life is one start of the job until its end on both hosts.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/marks.h"
#include "cmd/shift-bench/plan.h"
#include "cmd/shift-bench/training.h"

enum {
	BUSY_PORT = 18519,
	BUSY_SIZE = 65536,
	BUSY_BEGIN_MS = 1000,
	LIFE_MS = 24 * 3600 * 1000,
	LOOK_US = 5000,
	OTHER_MS = 5000, /* so long after the one host's program the other's ends, or is ended */
	TOOL_MS = 20000,
	RESTARTS_MAX = 10,
};

struct watcher {
	const struct training *training;
	struct training_outcome *out;
	struct progress progress[HOSTS];
	int64_t began_ms; /* the job; 0: it has not */
	double now_ms;	  /* since then */
	double first_step_ms, last_step_ms;
	/* this life */
	double life_began_ms, life_ended_ms;
	off_t read[HOSTS];
	enum host reading, first_ended;
	size_t life_steps;
	bool stalled;
	/* the fault */
	struct run fault;
	off_t fault_read;
	bool fault_started, fault_on;
	double fault_unix_ms; /* by the clock of its host */
};

const char *training_checkpoint(enum host host)
{
	return format_text("/tmp/shift-bench-%ld-checkpoint-%s", (long)getpid(), host_name(host));
}

static double since_began_ms(const struct watcher *w)
{
	return w->began_ms ? (double)(now_ms() - w->began_ms) : 0;
}

static cJSON *marks_of(const struct watcher *w)
{
	return cJSON_GetObjectItemCaseSensitive(w->out->detail, "marks");
}

static void mark(const struct watcher *w, const char *what, enum host host)
{
	marks_add(marks_of(w), w->now_ms, what, host);
}

/* ---- the fault ------------------------------------------------------------------------------ */

static void set_fault(struct watcher *w, bool on)
{
	if (w->fault_on != on)
		mark(w, on ? "fault" : "mended", w->training->fault->host);
	w->fault_on = on;
}

static void take_event(void *what, char *line)
{
	struct watcher *w = what;
	cJSON *o = cJSON_Parse(line);
	const char *event = json_text(o, "event");

	if (!strcmp(event, "begin")) {
		w->out->fault_ms = w->now_ms;
		w->fault_unix_ms = json_number(o, "unix_s") * 1000;
		set_fault(w, true);
	} else if (!strcmp(event, "on")) {
		set_fault(w, true);
	} else if (!strcmp(event, "off") || !strcmp(event, "end")) {
		set_fault(w, false);
	}
	cJSON_Delete(o);
}

static void begin_fault(struct watcher *w)
{
	const struct training *t = w->training;
	long ahead_ms = t->fault_at_ms < FAULT_AHEAD_MS ? t->fault_at_ms : FAULT_AHEAD_MS;

	if (!t->fault || w->fault_started || isnan(w->first_step_ms) ||
	    w->now_ms < w->first_step_ms + (double)(t->fault_at_ms - ahead_ms))
		return;
	w->fault_started = true;
	if (!fault_start(&w->fault, t->hosts, t->fault, ahead_ms, t->fault_for_ms))
		w->out->failure = "shift-inject could not be started";
}

/* It was to make a fault, and has ended without one. */
static void check_fault(struct watcher *w)
{
	char *err;

	if (!w->fault.pid || run_alive(&w->fault) || !isnan(w->out->fault_ms))
		return;
	run_lines(&w->fault, &w->fault_read, take_event, w);
	if (!isnan(w->out->fault_ms))
		return;
	err = run_errors(&w->fault);
	err[strcspn(err, "\n")] = 0;
	w->out->failure = format_text("shift-inject on %s: status %d: %s",
				      host_name(w->training->fault->host), w->fault.status, err);
	free(err);
}

/* A job that is started again finds the NIC restored, as in the paper. */
static void end_fault(struct watcher *w)
{
	if (!w->fault_started)
		return;
	run_stop(&w->fault);
	w->now_ms = since_began_ms(w);
	if (w->fault.out > 0)
		run_lines(&w->fault, &w->fault_read, take_event, w);
	set_fault(w, false);
	run_free(&w->fault);
}

/* ---- one life ------------------------------------------------------------------------------- */

static void take_line(void *what, char *line)
{
	struct watcher *w = what;
	struct progress *p = &w->progress[w->reading];
	size_t before = p->steps.count;

	progress_add(p, line, w->now_ms);
	if (p->steps.count == before)
		return;
	w->life_steps++;
	w->last_step_ms = w->now_ms;
	if (isnan(w->first_step_ms))
		w->first_step_ms = w->now_ms;
}

static void look(struct watcher *w, const struct run runs[HOSTS])
{
	w->now_ms = since_began_ms(w);
	for (int i = 0; i < HOSTS; i++) {
		w->reading = i;
		run_lines(&runs[i], &w->read[i], take_line, w);
	}
	if (w->fault.out > 0)
		run_lines(&w->fault, &w->fault_read, take_event, w);
}

static bool is_stalled(const struct watcher *w)
{
	return w->now_ms - fmax(w->life_began_ms, w->last_step_ms) > (double)w->training->stall_ms;
}

/* Which of the two ended first, and when. Of two that have, one may have been ended by the other.
 */
static void note_end(struct watcher *w, const struct run runs[HOSTS])
{
	if (!isnan(w->life_ended_ms))
		return;
	w->life_ended_ms = w->now_ms;
	w->first_ended = runs[HOST_B].pid || (!runs[HOST_A].pid && runs[HOST_A].status) ? HOST_A
											: HOST_B;
}

/* False: both have ended, or are to be ended. */
static bool goes_on(struct watcher *w, struct run runs[HOSTS])
{
	bool alive_a = run_alive(&runs[HOST_A]), alive_b = run_alive(&runs[HOST_B]);

	if (interrupted() || w->out->failure || !(alive_a || alive_b))
		return false;
	w->stalled = is_stalled(w);
	if ((!alive_a && runs[HOST_A].status) || (!alive_b && runs[HOST_B].status)) {
		note_end(w, runs);
		w->stalled = false;
		return w->now_ms - w->life_ended_ms < OTHER_MS;
	}
	return !w->stalled;
}

static void watch_life(void *what, struct run runs[HOSTS])
{
	struct watcher *w = what;

	if (!w->began_ms)
		w->began_ms = now_ms();
	w->now_ms = w->life_began_ms = since_began_ms(w);
	w->life_ended_ms = NAN;
	w->stalled = false;
	w->first_ended = HOST_A;
	memset(w->read, 0, sizeof(w->read));
	if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(w->out->detail, "lives")))
		mark(w, "restarted", HOST_A);
	while (goes_on(w, runs)) {
		look(w, runs);
		begin_fault(w);
		check_fault(w);
		usleep(LOOK_US);
	}
	note_end(w, runs);
	for (int i = 0; i < HOSTS; i++)
		run_stop(&runs[i]);
	look(w, runs);
	end_fault(w);
}

static void away_join(struct away *all, const struct away *one)
{
	if (!all->span_ms) {
		*all = *one;
		return;
	}
	for (int i = 0; i < PLACES; i++)
		all->steal_share[i] = fmax(all->steal_share[i], one->steal_share[i]);
	all->span_ms += one->span_ms;
	all->pause_max_ms = fmax(all->pause_max_ms, one->pause_max_ms);
	all->pause_ms += one->pause_ms;
}

/* NULL: the job was done. */
static const char *why_it_ended(const struct watcher *w, const struct pair_outcome *pair)
{
	if (w->stalled)
		return format_text("no step for %ld s", w->training->stall_ms / 1000);
	if (!pair->failure || !pair->status[w->first_ended])
		return pair->failure;
	/* Its output is its progress, and no reason. */
	return *pair->err[w->first_ended]
		       ? pair_reason(pair, w->first_ended)
		       : format_text("host %s: status %d", host_name(w->first_ended),
				     pair->status[w->first_ended]);
}

static void note_life(struct watcher *w, const char *reason)
{
	cJSON *o = check_alloc(cJSON_CreateObject());

	cJSON_AddItemToObject(o, "began_ms", json_round(w->life_began_ms));
	cJSON_AddItemToObject(o, "ended_ms", json_round(w->life_ended_ms));
	cJSON_AddStringToObject(o, "ended", w->stalled ? "stalled" : reason ? "died" : "done");
	if (reason)
		cJSON_AddStringToObject(o, "reason", reason);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(w->out->detail, "lives"), o);
	w->now_ms = w->life_ended_ms;
	if (reason)
		mark(w, w->stalled ? "stalled" : "died", w->first_ended);
}

/* Switches are told by the clock of the host of the fault. */
static void note_switches(struct watcher *w, const struct pair_outcome *pair)
{
	enum host host = w->training->fault ? w->training->fault->host : HOST_A;

	if (!isnan(w->out->fault_ms))
		marks_add_switches(marks_of(w), pair->report[host],
				   w->fault_unix_ms - w->out->fault_ms, host);
}

static int live(struct watcher *w, bool *died)
{
	const struct training *t = w->training;
	struct training_outcome *out = w->out;
	struct pair_words words = {.words = {t->words[HOST_A], t->words[HOST_B]},
				   .environment = t->options->environment,
				   .with_shift = t->with_shift,
				   .unknown_job = t->unknown_job,
				   .port = t->port,
				   .limit_ms = LIFE_MS,
				   .meanwhile = watch_life,
				   .what = w};
	struct pair_outcome pair;
	int status;

	w->life_ended_ms = NAN;
	w->life_steps = 0;
	status = pair_run(t->hosts, &words, &pair);
	if (isnan(w->life_ended_ms)) /* it has not come so far */
		w->life_began_ms = w->life_ended_ms = since_began_ms(w);
	if (!status) {
		const char *reason = why_it_ended(w, &pair);

		away_join(&out->away, &pair.away);
		note_life(w, reason);
		note_switches(w, &pair);
		*died = reason != NULL;
		if (!out->failure && reason && !w->life_steps &&
		    (!out->restarts || out->restarts == RESTARTS_MAX))
			out->failure = reason;
		pair.failure = NULL;
		if (!out->failure) {
			cJSON_DeleteItemFromObject(out->detail, "protection");
			pair_protection(&pair, t->with_shift, &out->detail);
			out->failure = pair.failure;
		}
	}
	pair_free(&pair);
	return status;
}

/* ---- other traffic on the backup NIC -------------------------------------------------------- */

static bool start_busy(const struct hosts *h, enum host host, struct run *run)
{
	const char *words[] = {"ib_write_bw",
			       "-F",
			       "-d",
			       h->backup[host][0],
			       "-x",
			       format_text("%ld", h->backup_gid_index[host]),
			       "-p",
			       format_text("%d", BUSY_PORT),
			       "-s",
			       format_text("%d", BUSY_SIZE),
			       "--run_infinitely",
			       host == HOST_A ? h->peer : NULL,
			       NULL};

	return run_start(run, h, host, words, RUN_FOR_EVER_MS);
}

static const char *check_busy(struct run busy[HOSTS])
{
	for (int i = 0; i < HOSTS; i++)
		if (!run_alive(&busy[i]))
			return format_text("host %s: the traffic on the backup NIC has ended, "
					   "status %d",
					   host_name(i), busy[i].status);
	return NULL;
}

static const char *begin_busy(const struct hosts *h, struct run busy[HOSTS])
{
	if (!start_busy(h, HOST_B, &busy[HOST_B]) || !host_listens(h, HOST_B, BUSY_PORT) ||
	    !start_busy(h, HOST_A, &busy[HOST_A]))
		return "the traffic on the backup NIC could not be started";
	wait_ms(BUSY_BEGIN_MS);
	return check_busy(busy);
}

/* ---- the job -------------------------------------------------------------------------------- */

static void remove_checkpoints(const struct hosts *h)
{
	for (int i = 0; i < HOSTS; i++) {
		const char *words[] = {"sh", "-c", "rm -rf \"$0\" \"$0\".*", training_checkpoint(i),
				       NULL};
		char *out, *err;

		host_runs(h, i, words, TOOL_MS, &out, &err);
		free(out);
		free(err);
	}
}

static int live_until_done(struct watcher *w)
{
	struct training_outcome *out = w->out;
	bool died;
	int status;

	for (;;) {
		status = live(w, &died);
		if (status || out->failure || !died)
			return status;
		if (out->restarts == RESTARTS_MAX) {
			out->failure = format_text("the job died again after %ld restarts",
						   out->restarts);
			return status;
		}
		out->restarts++;
		wait_ms(w->began_ms + (int64_t)w->life_ended_ms + w->training->restart_ms -
			now_ms());
		if (interrupted())
			return EXIT_INTERRUPTED;
	}
}

static void conclude(struct watcher *w)
{
	struct training_outcome *out = w->out;
	enum host host = w->progress[HOST_A].steps.count ? HOST_A : HOST_B;

	out->progress = w->progress[host];
	progress_free(&w->progress[host == HOST_A ? HOST_B : HOST_A]);
	if (out->failure)
		return;
	if (out->progress.steps.count < 2)
		out->failure = "the job printed less than two lines \"step N\"";
	else if (w->training->fault && !(out->fault_ms < w->last_step_ms)) /* or it is NAN */
		out->failure = "the job was over before the fault: more --steps, or an earlier "
			       "--fault-at-ms";
}

int training_run(const struct training *t, struct training_outcome *out)
{
	struct watcher w = {.training = t, .out = out, .first_step_ms = NAN, .last_step_ms = NAN};
	struct run busy[HOSTS] = {0};
	int status = EXIT_OK;

	memset(out, 0, sizeof(*out));
	out->fault_ms = NAN;
	out->detail = check_alloc(cJSON_CreateObject());
	cJSON_AddArrayToObject(out->detail, "marks");
	cJSON_AddArrayToObject(out->detail, "lives");
	remove_checkpoints(t->hosts);
	if (t->busy)
		out->failure = begin_busy(t->hosts, busy);
	if (!out->failure && !interrupted())
		status = live_until_done(&w);
	if (t->busy && !out->failure && !status)
		out->failure = check_busy(busy);
	for (int i = 0; i < HOSTS; i++)
		run_free(&busy[i]);
	run_free(&w.fault);
	remove_checkpoints(t->hosts);
	conclude(&w);
	if (interrupted())
		return EXIT_INTERRUPTED;
	return status || !out->failure ? status : hosts_check(t->hosts);
}

void training_free(struct training_outcome *out)
{
	progress_free(&out->progress);
	cJSON_Delete(out->detail);
}
