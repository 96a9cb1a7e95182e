/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A command to every process, by its control socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-ctl/ctl.h"
#include "lib/stats/ask_process.h"

enum { ANSWER_MS = 5000 };

/* PID.sock beside PID.stats. */
static int ask_by_socket(const struct process *p, const char *line, char *answer, size_t bytes)
{
	size_t n = strlen(p->path) - strlen(".stats");
	char path[128];
	int err;

	if (snprintf(path, sizeof(path), "%.*s.sock", (int)n, p->path) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	err = ask_process(path, line, answer, bytes, ANSWER_MS);
	if (err < 0)
		snprintf(answer, bytes, "%s: %s", path,
			 err == -ETIMEDOUT ? "no answer; is the process stopped?" : strerror(-err));
	return err;
}

static cJSON *answer_json(const struct process *p, bool ok, const char *answer)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "job", p->copy.h.job);
	cJSON_AddNumberToObject(o, "pid", p->copy.h.pid);
	cJSON_AddBoolToObject(o, "ok", ok);
	cJSON_AddStringToObject(o, "text", answer);
	return o;
}

/* False: there is nobody to ask. (A process of a container may answer.) */
static bool ask_one(const struct ctl_options *o, const struct process *p, const char *line,
		    cJSON *answers, int *status)
{
	char answer[1024];
	int err;

	if (p->copy.life != STATS_RUNNING && p->copy.life != STATS_UNKNOWN)
		return false;
	err = ask_by_socket(p, line, answer, sizeof(answer));
	if (p->copy.life == STATS_UNKNOWN && (err == -ENOENT || err == -ECONNREFUSED))
		return false;
	if (err <= 0)
		*status = EXIT_FAILED;
	if (o->json)
		cJSON_AddItemToArray(answers, answer_json(p, err > 0, answer));
	else if (err > 0)
		printf("%u: %s\n", p->copy.h.pid, answer);
	else
		say("%u: %s", p->copy.h.pid, answer);
	return true;
}

int ask_all(const struct ctl_options *o, const char *line)
{
	struct process *list = processes_read(o);
	cJSON *all = cJSON_CreateObject(), *answers = cJSON_AddArrayToObject(all, "answers");
	int asked = 0, status = EXIT_OK;

	for (const struct process *p = list; p; p = p->next)
		asked += ask_one(o, p, line, answers, &status);
	processes_free(list);
	if (!asked)
		die_none(o);
	if (o->json)
		ctl_print_json(all, false);
	else
		cJSON_Delete(all);
	return fflush(stdout) ? EXIT_FAILED : status;
}
