/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A command to every process, by its control socket. */
#include "ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/stats/ask.h"

enum { ANSWER_MS = 5000 };

/* PID.sock beside PID.stats. */
static int ask(const struct process *p, const char *line, char *answer, size_t bytes)
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

int ask_all(const struct ctl_options *o, const char *line)
{
	struct process *list = processes_read(o);
	cJSON *answers = cJSON_CreateArray(), *all;
	int asked = 0, status = EXIT_OK;

	for (const struct process *p = list; p; p = p->next) {
		char answer[1024];
		bool ok;

		if (p->copy.life != STATS_RUNNING)
			continue;
		asked++;
		ok = ask(p, line, answer, sizeof(answer)) > 0;
		status = ok ? status : EXIT_FAILED;
		if (o->json)
			cJSON_AddItemToArray(answers, answer_json(p, ok, answer));
		else if (ok)
			printf("%u: %s\n", p->copy.h.pid, answer);
		else
			complain("%u: %s", p->copy.h.pid, answer);
	}
	processes_free(list);
	if (!asked)
		die_none(o);
	all = cJSON_CreateObject();
	cJSON_AddItemToObject(all, "answers", answers);
	if (o->json)
		print_json(all, false);
	else
		cJSON_Delete(all);
	return fflush(stdout) ? EXIT_FAILED : status;
}
