/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A scenario, carried out: a process for each fault, here or on its host. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-inject/command.h"
#include "faultinject/scenario.h"

enum { STEP_MS = 20, HOME_STEP_MS = 200 };

struct part {
	const struct scenario_event *event;
	struct host host;
	bool here;
	pid_t pid; /* 0: not begun, or over */
	int hold, status;
	bool begun;
};

struct player {
	struct scenario *s;
	const struct play_options *o;
	struct part *part;
	struct host hosts[SCENARIO_HOSTS_MAX];
	int64_t start_ms;
	const char *doing;
	int failed;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

static void find_event_host(const struct player *p, const char *name, struct host *h)
{
	char words[192];

	*h = (struct host){.is_here = !*name};
	if (h->is_here)
		return;
	snprintf(words, sizeof(words), "%s%s%s", p->o->testbed ? p->o->testbed : "",
		 p->o->testbed ? "/" : "", name);
	host_find(words, h);
}

static void show_progress(const struct player *p)
{
	const struct scenario *s = p->s;
	double end = (double)s->event[s->events - 1].at_ms / 1000;

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%s: %5.1f s of %.0f: %-50.50s", shown(s->name),
		(double)(now_ms() - p->start_ms) / 1000, end, shown(p->doing));
}

/* --- one event ------------------------------------------------------------------------------- */

static void give_order(struct player *p, struct part *part)
{
	const struct scenario_event *e = part->event;
	char nic[80], *words[] = {ctl_path(&part->host), (char *)(uintptr_t)e->order, NULL, NULL},
		      *text;

	snprintf(nic, sizeof(nic), "--nic=%s", e->nic);
	if (*e->nic)
		words[2] = nic;
	text = host_output(&part->host, words);
	part->status = text ? INJECT_OK : INJECT_FAILED;
	if (!text)
		say("%s: shift-ctl %s on host %s: failed", p->s->name, e->order, e->host);
	p->failed += !text;
	free(text);
}

/* --pid of the newest process of that name there; false: there is none. */
static bool find_newest_process(struct part *part, char option[32])
{
	char *words[] = {"pgrep", "-n", "-x", (char *)(uintptr_t)part->event->process, NULL};
	char *text = host_output(&part->host, words);

	snprintf(option, 32, "--pid=%d", text ? atoi(text) : 0);
	free(text);
	return text != NULL;
}

static void begin_part(struct player *p, struct part *part)
{
	const struct scenario_event *e = part->event;
	char *words[SCENARIO_WORDS_MAX + 2] = {0}, pid[32];
	int n = e->count;

	part->begun = true;
	p->doing = e->fault ? e->fault->name : e->order;
	if (!e->fault) {
		give_order(p, part);
		return;
	}
	memcpy(words, e->words, (size_t)n * sizeof(*words));
	if (*e->process && find_newest_process(part, pid)) {
		words[n++] = pid;
	} else if (*e->process) {
		say("%s: no process %s on host %s", p->s->name, e->process, e->host);
		part->status = INJECT_NOT_FOUND;
		p->failed++;
		return;
	}
	part->pid = host_start(&part->host, words, STDERR_FILENO, &part->hold);
	if (part->pid <= 0)
		die(INJECT_FAILED, "fork: %s", strerror(errno));
}

static void end_part(struct player *p, struct part *part, int status)
{
	part->pid = 0;
	close(part->hold);
	part->status = host_status(&part->host, status);
	if (part->status)
		p->failed++;
}

/* Is an earlier event still active that should be over by now? */
static bool is_held_up(const struct player *p, const struct part *part)
{
	for (const struct part *q = p->part; q < part; q++)
		if (q->pid && q->event->for_ms &&
		    q->event->at_ms + q->event->for_ms <= part->event->at_ms)
			return true;
	return false;
}

/* Returns how many are not over. */
static int look_after(struct player *p)
{
	int64_t at = now_ms() - p->start_ms;
	int left = 0, status;

	for (int i = 0; i < p->s->events; i++) {
		struct part *part = p->part + i;
		bool due = !part->begun && !interrupted && !p->failed && part->event->at_ms <= at;

		if (due && is_held_up(p, part)) {
			/* The whole timeline waits, so that events which it separates do not
			 * overlap. */
			p->start_ms += at - part->event->at_ms;
			at = part->event->at_ms;
		} else if (due) {
			begin_part(p, part);
		}
		if (part->pid && waitpid(part->pid, &status, WNOHANG) == part->pid)
			end_part(p, part, status);
		left += part->pid || (!part->begun && !interrupted && !p->failed);
	}
	return left;
}

/* After a failure or a signal nothing more begins, and all active faults end. */
static void end_all(struct player *p)
{
	for (int i = 0; i < p->s->events; i++)
		if (p->part[i].pid && p->part[i].hold >= 0) {
			close(p->part[i].hold);
			p->part[i].hold = -1;
		}
}

static void play_timeline(struct player *p)
{
	p->start_ms = now_ms();
	while (look_after(p)) {
		show_progress(p);
		if (interrupted || p->failed)
			end_all(p);
		poll(NULL, 0, STEP_MS);
	}
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr);
}

/* --- what came of it ------------------------------------------------------------------------- */

static int64_t wait_home(const struct player *p, struct watch *w)
{
	int64_t limit = 0, start = now_ms();

	for (int i = 0; i < p->s->expects; i++)
		if (p->s->expect[i].kind == EXPECT_FAILBACK &&
		    p->s->expect[i].within_us / 1000 > limit)
			limit = p->s->expect[i].within_us / 1000;
	for (;;) {
		bool home = watch_is_home(w);

		if (home)
			return (now_ms() - start) * 1000;
		if (now_ms() - start > limit || interrupted)
			return -1;
		poll(NULL, 0, HOME_STEP_MS);
	}
}

static bool check_all(const struct player *p, struct watch *w, cJSON *results)
{
	int64_t home_us = wait_home(p, w);
	bool all = true;

	for (int i = 0; i < p->s->expects; i++) {
		const struct expectation *e = p->s->expect + i;
		char found[160];
		bool ok = watch_check(w, e, home_us, found);
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "expected", e->text);
		cJSON_AddBoolToObject(o, "ok", ok);
		cJSON_AddStringToObject(o, "found", found);
		cJSON_AddItemToArray(results, o);
		if (!p->o->json)
			printf("%s: %s: %s: %s\n", shown(p->s->name), ok ? "ok" : "FAILED",
			       shown(e->text), shown(found));
		all &= ok;
	}
	return all;
}

static cJSON *faults_json(const struct player *p)
{
	cJSON *list = cJSON_CreateArray();

	for (int i = 0; i < p->s->events; i++) {
		const struct scenario_event *e = p->part[i].event;
		cJSON *o = cJSON_CreateObject();

		cJSON_AddNumberToObject(o, "at_s", (double)e->at_ms / 1000);
		cJSON_AddStringToObject(o, "host", e->host);
		cJSON_AddStringToObject(o, "nic", e->nic);
		cJSON_AddStringToObject(o, "what", e->fault ? e->fault->name : e->order);
		cJSON_AddBoolToObject(o, "begun", p->part[i].begun);
		cJSON_AddNumberToObject(o, "status", p->part[i].status);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}

static void show_result(const struct player *p, bool ok, cJSON *results)
{
	cJSON *o;

	if (!p->o->json) {
		printf("%s: %s after %.1f s\n", shown(p->s->name), ok ? "ok" : "FAILED",
		       (double)(now_ms() - p->start_ms) / 1000);
		cJSON_Delete(results);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "name", p->s->name);
	cJSON_AddBoolToObject(o, "ok", ok);
	cJSON_AddNumberToObject(o, "seconds", (double)(now_ms() - p->start_ms) / 1000);
	cJSON_AddItemToObject(o, "timeline", faults_json(p));
	cJSON_AddItemToObject(o, "expect", results);
	print_json_text(cJSON_Print(o));
	cJSON_Delete(o);
}

static void show_timeline(const struct scenario *s)
{
	for (int i = 0; i < s->events; i++) {
		const struct scenario_event *e = s->event + i;

		printf("%8.3f s  %s%s", (double)e->at_ms / 1000, *e->host ? shown(e->host) : "here",
		       e->fault ? ": shift-inject" : ": shift-ctl");
		for (int w = 0; w < e->count; w++)
			printf(" %s", shown(e->words[w]));
		if (!e->fault)
			printf(" %s%s%s", shown(e->order), *e->nic ? " --nic=" : "", shown(e->nic));
		if (*e->process)
			printf(" --pid=(%s)", shown(e->process));
		putchar('\n');
	}
	for (int i = 0; i < s->expects; i++)
		printf("expected: %s\n", shown(s->expect[i].text));
}

static void open_parts(struct player *p)
{
	p->part = check_alloc(calloc((size_t)p->s->events, sizeof(*p->part)));
	for (int i = 0; i < p->s->events; i++) {
		p->part[i].event = p->s->event + i;
		p->part[i].hold = -1;
		find_event_host(p, p->s->event[i].host, &p->part[i].host);
	}
	for (int i = 0; i < p->s->host_count; i++)
		find_event_host(p, p->s->hosts[i], p->hosts + i);
}

int scenario_play(struct scenario *s, const struct play_options *o)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	struct player p = {.s = s, .o = o};
	cJSON *results = cJSON_CreateArray();
	struct watch *w;
	bool ok;

	if (o->dry_run) {
		cJSON_Delete(results);
		show_timeline(s);
		return fflush(stdout) ? INJECT_FAILED : INJECT_OK;
	}
	open_parts(&p);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	w = watch_begin(p.hosts, s->host_count);
	play_timeline(&p);
	ok = check_all(&p, w, results) && !p.failed && !interrupted;
	show_result(&p, ok, results);
	watch_free(w);
	free(p.part);
	return ok ? INJECT_OK : INJECT_FAILED;
}
