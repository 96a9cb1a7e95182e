/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/stats/files_in.h"
#include "common/printable.h"
#include "lib/stats/json.h"
#include "lib/stats/places.h"
#include "lib/stats/report.h"
#include "lib/stats/summary.h"
#include "lib/stats/totals.h"

struct report {
	const char *dir;
	const struct report_run *run;
	struct stats_totals totals;
	size_t crashed;
	cJSON *processes, *unreadable;
	struct known {
		struct known *next;
		struct stats_header h;
	} * known;
};

/* A file is found twice if shift-kvd makes a crash record of it at this moment. */
static bool is_known(struct report *r, const struct stats_header *h)
{
	struct known *k;

	for (k = r->known; k; k = k->next)
		if (stats_same_process(&k->h, h))
			return true;
	k = calloc(1, sizeof(*k));
	if (!k)
		return false;
	k->h = *h;
	k->next = r->known;
	r->known = k;
	return false;
}

static bool add_file(struct report *r, const char *path, bool is_ours)
{
	struct stats_copy copy;
	cJSON *o;
	int err = stats_read(path, &copy);

	if (err && is_ours) {
		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "file", path);
		cJSON_AddStringToObject(o, "error", strerror(-err));
		cJSON_AddItemToArray(r->unreadable, o);
	}
	if (err)
		return false;
	if ((is_ours || !strcmp(copy.h.report_dir, r->dir)) && !is_known(r, &copy.h)) {
		o = stats_json_process(&copy);
		cJSON_AddItemToObject(o, "events", stats_json_events(&copy));
		cJSON_AddNumberToObject(o, "events_lost",
					(double)(copy.events_written - copy.event_count));
		stats_json_add_notes(o, &copy);
		cJSON_AddItemToArray(r->processes, o);
		stats_totals_add(&r->totals, &copy);
		r->crashed += copy.life == STATS_DEAD;
	}
	stats_free(&copy);
	return true;
}

static bool add_other(void *arg, const struct stats_place *place)
{
	return add_file(arg, place->path, false);
}

struct report *report_read(const char *dir, const struct report_run *run)
{
	struct report *r = calloc(1, sizeof(*r));
	glob_t g;

	if (!r)
		return NULL;
	r->dir = dir;
	r->run = run;
	r->processes = cJSON_CreateArray();
	r->unreadable = cJSON_CreateArray();
	if (!glob_files_in(dir, "*.stats", 0, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			add_file(r, g.gl_pathv[i], true);
	globfree(&g);
	stats_each(run->job, 0, add_other, r, NULL);
	return r;
}

void report_free(struct report *r)
{
	struct known *k;

	if (!r)
		return;
	while ((k = r->known)) {
		r->known = k->next;
		free(k);
	}
	cJSON_Delete(r->processes);
	cJSON_Delete(r->unreadable);
	free(r);
}

static void add_run(cJSON *o, const struct report_run *run)
{
	cJSON *command = cJSON_AddArrayToObject(o, "command");
	char name[32];

	for (char *const *word = run->command; word && *word; word++)
		cJSON_AddItemToArray(command, cJSON_CreateString(*word));
	cJSON_AddNumberToObject(o, "started_unix_s", (double)(run->started_real_ns / 1000) / 1e6);
	cJSON_AddNumberToObject(o, "ended_unix_s", (double)(run->ended_real_ns / 1000) / 1e6);
	if (WIFSIGNALED(run->status)) {
		snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(WTERMSIG(run->status)));
		cJSON_AddNullToObject(o, "exit_status");
		cJSON_AddStringToObject(o, "signal", name);
	} else {
		cJSON_AddNumberToObject(o, "exit_status", WEXITSTATUS(run->status));
		cJSON_AddNullToObject(o, "signal");
	}
}

int report_write(const struct report *r, FILE *out)
{
	cJSON *o = cJSON_CreateObject();
	char line[512], *json, *text;
	int err = 0;

	report_summary(r, line, sizeof(line));
	cJSON_AddNumberToObject(o, "schema_version", STATS_SCHEMA_VERSION);
	cJSON_AddStringToObject(o, "job", r->run->job);
	add_run(o, r->run);
	cJSON_AddStringToObject(o, "summary", line);
	cJSON_AddNumberToObject(o, "crashed", (double)r->crashed);
	if (r->run->on_switch_json)
		cJSON_AddItemToObject(o, "on_switch", cJSON_Parse(r->run->on_switch_json));
	cJSON_AddItemToObject(o, "totals", stats_json_totals(&r->totals));
	cJSON_AddItemReferenceToObject(o, "processes", r->processes);
	cJSON_AddItemReferenceToObject(o, "unreadable", r->unreadable);
	json = cJSON_Print(o);
	text = printable_json(json);
	free(json);
	if (!text)
		err = -ENOMEM;
	else if (fprintf(out, "%s\n", text) < 0 || fflush(out))
		err = -errno;
	free(text);
	cJSON_Delete(o);
	return err;
}

int report_summary(const struct report *r, char *line, size_t bytes)
{
	int n = stats_summary(line, bytes, &r->totals.now, &r->totals.counters);
	size_t at = (size_t)n < bytes ? (size_t)n : bytes;

	if (r->crashed)
		n += snprintf(line + at, bytes - at, "%s%zu process%s ended without a goodbye",
			      n ? ", " : "", r->crashed, r->crashed == 1 ? "" : "es");
	return n;
}

/* Removes the file of a process that found no room in `dir`. Crash records stay. */
static bool remove_ended(void *arg, const struct stats_place *place)
{
	struct stats_copy copy;

	return !stats_read_header(place->path, &copy) && copy.life == STATS_ENDED &&
	       !strcmp(copy.h.report_dir, arg) && !unlink(place->path);
}

void report_remove(const char *dir, const char *job)
{
	glob_t g;

	if (!glob_files_in(dir, "*.stats", 0, &g))
		for (size_t i = 0; i < g.gl_pathc; i++)
			unlink(g.gl_pathv[i]);
	globfree(&g);
	stats_each(job, 0, remove_ended, (void *)(uintptr_t)dir, NULL);
	rmdir(dir);
}
