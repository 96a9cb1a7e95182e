/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The processes that there are, by their statistics files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-ctl/ctl.h"
#include "lib/stats/places.h"

struct gathering {
	struct process *first, **end;
};

static bool process_is_known(const struct process *list, const struct stats_header *h)
{
	while (list && !stats_same_process(&list->copy.h, h))
		list = list->next;
	return list;
}

static const char *refusal_text(int err)
{
	switch (err) {
	case -EBADMSG: return "not a statistics file";
	case -EPROTONOSUPPORT: return "of another version of shift";
	case -EPERM: return "not believed: its owner is not that of its directory";
	case -ESRCH: return "not believed: it claims the process of another user";
	default: return strerror(-err);
	}
}

static bool process_gather(void *arg, const struct stats_place *place)
{
	struct gathering *g = arg;
	struct process *p = calloc(1, sizeof(*p));
	int err = p ? stats_read_of(place->owner, place->path, &p->copy) : -ENOMEM;

	if (!err && process_is_known(g->first, &p->copy.h)) {
		stats_free(&p->copy);
		err = -ENOENT;
	}
	if (!err) {
		p->path = strdup(place->path);
		p->is_crash = place->is_crash;
		*g->end = p;
		g->end = &p->next;
		return true;
	}
	free(p);
	/* A file that is just being made or removed is not an error. */
	if (err != -ENOENT && err != -EAGAIN)
		say("%s: %s", place->path, refusal_text(err));
	return false;
}

struct process *processes_read(const struct ctl_options *o)
{
	struct gathering g = {.end = &g.first};

	stats_each(o->job, o->pid, process_gather, &g);
	return g.first;
}

void processes_free(struct process *list)
{
	while (list) {
		struct process *next = list->next;

		stats_free(&list->copy);
		free(list->path);
		free(list);
		list = next;
	}
}

void die_none(const struct ctl_options *o)
{
	char pid[32] = "", job[96] = "";

	if (o->pid)
		snprintf(pid, sizeof(pid), " %d", o->pid);
	if (o->job)
		snprintf(job, sizeof(job), " of job %.64s", o->job);
	die(EXIT_NONE, "no protected process%s%s runs here", pid, job);
}
