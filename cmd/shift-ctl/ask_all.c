/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A command to every process, by its control socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-ctl/ctl.h"
#include "lib/stats/ask_process.h"

enum {
	ANSWER_MS = 5000,
	/* Of all processes of another user that do not answer; it may be what the user wants. */
	ANSWERS_OF_USER_MS = 10000,
	PATIENCE_MIN_MS = 1000, /* too little time to hear an answer: not asked */
	USERS_MAX = 64,
};

/* For how long root has waited for the processes of a user. */
static struct waited {
	uid_t user;
	int64_t ms;
} waited[USERS_MAX];
static size_t waited_users;

/* A user too many shares the last place. */
static struct waited *waited_for(uid_t user)
{
	for (size_t i = 0; i < waited_users; i++)
		if (waited[i].user == user)
			return waited + i;
	if (waited_users == USERS_MAX)
		return waited + USERS_MAX - 1;
	waited[waited_users].user = user;
	return waited + waited_users++;
}

/* As long as an answer may take; 0: no more of this user are asked. */
static int patience_ms(uid_t user)
{
	int64_t left = ANSWERS_OF_USER_MS - waited_for(user)->ms;

	if (user == geteuid() || left > ANSWER_MS)
		return ANSWER_MS;
	return left >= PATIENCE_MIN_MS ? (int)left : 0;
}

static const char *failure_text(int err)
{
	switch (err) {
	case -ETIMEDOUT: return "no answer; is the process stopped?";
	case -EBADMSG: return "the answer is not one of shift's library";
	case -EPERM: return "not asked: another user listens there";
	case -ENOTSOCK: return "not asked: it is no socket";
	case -ETIME: return "not asked: too many other processes of this user have not answered";
	default: return strerror(-err);
	}
}

/* PID.sock beside PID.stats. */
static int ask_by_socket(const struct process *p, const char *line, char *answer, size_t bytes)
{
	size_t n = strlen(p->path) - strlen(".stats");
	int patience = patience_ms(p->copy.owner), err = -ETIME;
	int64_t begun = now_ms();
	char path[512]; /* more than the address of a socket has room for */

	snprintf(path, sizeof(path), "%.*s.sock", (int)n, p->path);
	if (patience)
		err = ask_process(p->copy.owner, path, line, answer, bytes, patience);
	waited_for(p->copy.owner)->ms += now_ms() - begun;
	if (err < 0)
		snprintf(answer, bytes, "%s: %s", path, failure_text(err));
	return err;
}

static cJSON *answer_json(const struct process *p, bool ok, const char *answer)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "job", p->copy.h.job);
	cJSON_AddNumberToObject(o, "pid", p->copy.h.pid);
	cJSON_AddNumberToObject(o, "uid", p->copy.owner);
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
		printf("process %u: %s\n", p->copy.h.pid, shown(answer));
	else
		say("process %u: %s", p->copy.h.pid, answer);
	return true;
}

int ask_all(const struct ctl_options *o, const char *line)
{
	struct processes found = processes_read(&o->which, true);
	cJSON *all = cJSON_CreateObject(), *answers = cJSON_AddArrayToObject(all, "answers");
	int asked = 0, status = found.cut.users || found.cut.err ? EXIT_FAILED : EXIT_OK;

	for (const struct process *p = found.first; p; p = p->next)
		asked += ask_one(o, p, line, answers, &status);
	processes_add_cut(all, &found.cut);
	processes_free(&found);
	if (!asked)
		die_none(&o->which, EXIT_NONE);
	if (o->json)
		live_print_json(all, false);
	else
		cJSON_Delete(all);
	return fflush(stdout) ? EXIT_FAILED : status;
}
