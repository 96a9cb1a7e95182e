/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/live/live.h"

enum { FOLLOW_MS = 100 };

/* How far a process was followed. */
struct progress {
	struct progress *next;
	struct stats_header h;
	uint64_t events, switches; /* numbers of the next ones */
	uint64_t errors, asyncs, lives;
};

/* How notes of a kind are told. */
struct note_kind {
	const char *type;   /* in JSON, as in shift-records(5) */
	const char *things; /* that are lost */
	void (*show)(const struct stats_copy *copy, const struct stats_note *n);
	cJSON *(*json)(const struct stats_copy *copy, const struct stats_note *n);
};

static const struct note_kind errors_kind = {"wcerr", "error completions", live_show_error,
					     stats_json_error};
static const struct note_kind asyncs_kind = {"async", "asynchronous events", live_show_async,
					     stats_json_async};
static const struct note_kind lives_kind = {"qp", "changes of queue pairs", live_show_life,
					    stats_json_life};

/* One of them, for sorting. */
struct line {
	uint64_t real_ns;
	const struct stats_copy *copy;
	const struct stats_event *event;
	const struct stats_switch *sw;
	const struct stats_note *note;
	const struct note_kind *kind; /* of the note */
	size_t at;		      /* what was gathered first comes first, at the same time */
	uint64_t lost;
};

struct lines {
	struct line *line;
	size_t count, room;
};

static void line_add(struct lines *l, struct line line)
{
	if (l->count == l->room) {
		l->room = l->room ? 2 * l->room : 256;
		l->line = check_alloc(realloc(l->line, l->room * sizeof(*l->line)));
	}
	line.at = l->count;
	l->line[l->count++] = line;
}

static struct progress *progress_of(struct progress **list, const struct stats_header *h)
{
	struct progress *s;

	for (s = *list; s; s = s->next)
		if (stats_same_process(&s->h, h))
			return s;
	s = check_alloc(calloc(1, sizeof(*s)));
	s->h = *h;
	s->next = *list;
	*list = s;
	return s;
}

/* next: the number of the next one. */
static void notes_gather(struct lines *l, uint64_t *next, const struct stats_copy *copy,
			 const struct stats_notes *notes, const struct note_kind *kind)
{
	for (size_t i = 0; i < notes->count; i++) {
		const struct stats_note *n = notes->note + i;

		if (n->seq <= *next)
			continue;
		line_add(l, (struct line){.real_ns = stats_real_ns(copy, n->time_ns),
					  .copy = copy,
					  .note = n,
					  .kind = kind,
					  .lost = n->seq - 1 - *next});
		*next = n->seq;
	}
}

/* What is new since the last time. */
static void lines_gather(struct lines *l, struct progress *s, const struct stats_copy *copy,
			 bool lives)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < copy->event_count; i++) {
		const struct stats_event *e = copy->events + i;

		if (e->seq <= s->events)
			continue;
		lost = e->seq - 1 - s->events;
		s->events = e->seq;
		line_add(l, (struct line){.real_ns = stats_real_ns(copy, e->time_ns),
					  .copy = copy,
					  .event = e,
					  .lost = lost});
	}
	for (size_t i = 0; i < copy->switch_count; i++) {
		const struct stats_switch *w = copy->switches + i;

		if (w->seq <= s->switches)
			continue;
		s->switches = w->seq;
		line_add(l, (struct line){.real_ns = stats_real_ns(copy, w->end_ns),
					  .copy = copy,
					  .sw = w});
	}
	notes_gather(l, &s->errors, copy, &copy->errors, &errors_kind);
	notes_gather(l, &s->asyncs, copy, &copy->asyncs, &asyncs_kind);
	if (lives)
		notes_gather(l, &s->lives, copy, &copy->lives, &lives_kind);
}

static int line_compare(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->real_ns != y->real_ns)
		return x->real_ns < y->real_ns ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void show_time(const struct line *l)
{
	time_t t = (time_t)(l->real_ns / 1000000000);
	struct tm tm;
	char when[32] = "?";

	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	printf("%s.%06u %" PRIu32 " ", when, (unsigned int)(l->real_ns / 1000 % 1000000),
	       l->copy->h.pid);
}

static void show_phases(const struct stats_switch *s)
{
	char time[16];

	for (unsigned int i = 0; i < STATS_PHASE_COUNT; i++)
		if (s->phase_ns[i])
			printf(", %s %s", stats_phase_name(i), show_ns(time, s->phase_ns[i]));
}

static void show_switch(const struct stats_switch *s)
{
	char time[16];

	printf("qpn %" PRIu32 " %s %s, %s -> %s (%s%s), outage %s", s->qpn,
	       stats_kind_name(s->kind), stats_outcome_name(s->outcome), shown(s->from_nic),
	       shown(s->nic), shift_reason_name(s->cause), s->joined ? ", started by the peer" : "",
	       show_ns(time, s->outage_ns));
	show_phases(s);
	printf("; %" PRIu64 " proved, %" PRIu64 " replayed", s->proved, s->replayed);
	if (s->maybe_twice || s->lost_atomics)
		printf(", %" PRIu64 " IN DOUBT", s->maybe_twice + s->lost_atomics);
	putchar('\n');
}

static void show_event(const struct stats_event *e)
{
	printf("qpn %" PRIu32 " %s -> %s (%s), rail %u %s, epoch %" PRIu32 "\n", e->qpn,
	       shift_state_name(e->from), shift_state_name(e->to), shift_reason_name(e->reason),
	       e->rail, shown(e->nic), e->epoch);
}

static void line_show(const struct line *l)
{
	if (l->lost) {
		show_time(l);
		printf("%" PRIu64 " earlier %s are not kept\n", l->lost,
		       l->note ? l->kind->things : "events");
	}
	show_time(l);
	if (l->sw)
		show_switch(l->sw);
	else if (l->event)
		show_event(l->event);
	else
		l->kind->show(l->copy, l->note);
}

static void line_show_json(const struct line *l)
{
	cJSON *o = l->sw      ? stats_json_switch(l->copy, l->sw)
		   : l->event ? stats_json_event(l->copy, l->event)
			      : l->kind->json(l->copy, l->note);

	cJSON_AddStringToObject(o, "type", l->sw ? "switch" : l->event ? "event" : l->kind->type);
	cJSON_AddStringToObject(o, "job", l->copy->h.job);
	cJSON_AddNumberToObject(o, "pid", l->copy->h.pid);
	if (!l->sw)
		cJSON_AddNumberToObject(o, "lost_before", (double)l->lost);
	live_print_json(o, true);
}

/* Returns how many of the processes live. */
static size_t events_round(const struct live_select *which, const struct live_how *how,
			   struct progress **followed, size_t *found)
{
	struct processes list = processes_read(which, false);
	struct lines l = {0};
	size_t live = 0;

	*found = 0;
	for (const struct process *p = list.first; p; p = p->next) {
		lines_gather(&l, progress_of(followed, &p->copy.h), &p->copy, how->lives);
		live += p->copy.life == STATS_RUNNING;
		++*found;
	}
	if (l.count)
		qsort(l.line, l.count, sizeof(*l.line), line_compare);
	for (size_t i = 0; i < l.count; i++)
		(how->json ? line_show_json : line_show)(l.line + i);
	free(l.line);
	processes_free(&list);
	return live;
}

static void events_follow(const struct live_select *which, const struct live_how *how,
			  struct progress **followed)
{
	size_t live, found;

	do {
		live = events_round(which, how, followed, &found);
		if (fflush(stdout) || (which->pid && !live))
			return;
		poll(NULL, 0, FOLLOW_MS);
	} while (!live_is_interrupted());
}

bool live_events(const struct live_select *which, const struct live_how *how, int none_status)
{
	struct progress *followed = NULL, *next;
	size_t found;

	live_catch_end();
	events_round(which, how, &followed, &found);
	if (!found && (which->pid || (which->job && !how->follow)))
		die_none(which, none_status);
	if (how->follow)
		events_follow(which, how, &followed);
	for (; followed; followed = next) {
		next = followed->next;
		free(followed);
	}
	return !fflush(stdout);
}
