/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The processes that there are, by their statistics files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/live/live.h"
#include "lib/base/run_dir.h"

pid_t live_parse_pid(const char *s, int status)
{
	long n = parse_number(s, 1, INT32_MAX);

	if (n < 0)
		die(status, "--pid %s: not a process number", s);
	return (pid_t)n;
}

const char *live_parse_job(const char *s, int status)
{
	if (!run_dir_job_is_valid(s, strlen(s)))
		die(status, "%s is no name for a job", s);
	return s;
}

struct gathering {
	struct process *first, **end;
	bool headers_only;
	size_t refused;
};

enum { REFUSALS_SAID = 32 }; /* another user could fill root's terminal with them */

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
	struct process *p = check_alloc(calloc(1, sizeof(*p)));
	int err = (g->headers_only ? stats_read_header_of : stats_read_of)(place->owner,
									   place->path, &p->copy);

	if (!err && process_is_known(g->first, &p->copy.h)) {
		stats_free(&p->copy);
		err = -ENOENT;
	}
	if (!err) {
		p->path = check_alloc(strdup(place->path));
		p->is_crash = place->is_crash;
		*place->kept_bytes += sizeof(*p) + stats_copy_bytes(&p->copy);
		*g->end = p;
		g->end = &p->next;
		return true;
	}
	free(p);
	/* A file that is just being made or removed is not an error. */
	if (err != -ENOENT && err != -EAGAIN && g->refused++ < REFUSALS_SAID)
		say("%s: %s", place->path, refusal_text(err));
	return false;
}

/* Of which users not everything was looked at: one line. */
static void say_cut(const struct stats_cut *cut)
{
	char users[STATS_CUT_USERS * 16] = "";
	size_t n = 0;

	for (size_t i = 0; i < cut->users; i++)
		n += (size_t)snprintf(users + n, sizeof(users) - n, "%s%u", i ? ", " : "",
				      cut->uid[i]);
	if (cut->users)
		say("user %s%s: too many files, or too large ones: not all processes are seen",
		    users, cut->has_more ? " and others" : "");
	if (cut->err)
		say("not all processes are seen: %s", strerror(-cut->err));
}

struct processes processes_read(const struct live_select *which, bool headers_only)
{
	static bool was_said; /* --follow reads again and again */
	struct gathering g = {.end = &g.first, .headers_only = headers_only};
	struct processes found;

	stats_each(which->job, which->pid, process_gather, &g, &found.cut);
	found.first = g.first;
	found.refused = g.refused;
	if (g.refused > REFUSALS_SAID)
		say("%zu more files are passed over", g.refused - REFUSALS_SAID);
	if (!was_said && (found.cut.users || found.cut.err)) {
		say_cut(&found.cut);
		was_said = true;
	}
	return found;
}

void processes_add_cut(cJSON *o, const struct stats_cut *cut)
{
	cJSON *users = cJSON_AddArrayToObject(o, "cut_uids");

	for (size_t i = 0; i < cut->users; i++)
		cJSON_AddItemToArray(users, cJSON_CreateNumber(cut->uid[i]));
	cJSON_AddBoolToObject(o, "complete", !cut->users && !cut->err);
}

void process_free(struct process *p)
{
	stats_free(&p->copy);
	free(p->path);
	free(p);
}

void processes_free(struct processes *found)
{
	struct process *p;

	while ((p = found->first)) {
		found->first = p->next;
		process_free(p);
	}
}

void die_none(const struct live_select *which, int status)
{
	char pid[32] = "", job[96] = "";

	if (which->pid)
		snprintf(pid, sizeof(pid), " %d", which->pid);
	if (which->job)
		snprintf(job, sizeof(job), " of job %.64s", which->job);
	die(status, "no protected process%s%s runs here", pid, job);
}
