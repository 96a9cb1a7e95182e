/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* This host's shift-kvd: asked, and started. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"
#include "kv/ask.h"
#include "kv/client.h"
#include "lib/base/run_dir.h"

enum { ANSWER_MS = 5000, WORDS_MAX = 28 };

static char *join_urls(const cJSON *list)
{
	char text[4096] = "";
	const cJSON *item;
	size_t n = 0;

	cJSON_ArrayForEach (item, list) {
		const char *url = cJSON_GetStringValue(item);

		if (url && n < sizeof(text))
			n += snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "", url);
	}
	return check_alloc(strdup(text));
}

static const char *answer_text(const cJSON *o, const char *name)
{
	const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(o, name));

	return s ? s : "";
}

static int answer_number(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(o, name);

	return cJSON_IsNumber(item) ? item->valueint : 0;
}

int kvd_hold(const char *job, struct kvd_state *s)
{
	char path[PATH_MAX], *text;
	int err = kv_socket_path(path, sizeof(path), job);
	cJSON *o, *on_switch;

	if (err)
		die(EXIT_OURS, "%s", run_dir_problem(err));
	err = kv_ask(path, KV_HOLD, ANSWER_MS, &text, &s->pid);
	if (err)
		return err;
	o = cJSON_Parse(text);
	free(text);
	if (!o)
		return -EPROTO;
	s->endpoints = join_urls(cJSON_GetObjectItem(o, "endpoints"));
	s->error = check_alloc(strdup(answer_text(o, "error")));
	s->up = !strcmp(answer_text(o, "etcd"), "up");
	on_switch = cJSON_GetObjectItem(o, "on_switch");
	s->on_switch = check_alloc(strdup(answer_text(on_switch, "command")));
	s->on_switch_json = on_switch ? check_alloc(cJSON_PrintUnformatted(on_switch)) : NULL;
	s->key_id = check_alloc(strdup(answer_text(o, "key_id")));
	s->users = cJSON_GetArraySize(cJSON_GetObjectItem(o, "clients")) +
		   answer_number(o, "holders") - 1; /* one is this process */
	cJSON_Delete(o);
	return 0;
}

void kvd_state_free(struct kvd_state *s)
{
	free(s->endpoints);
	free(s->error);
	free(s->key_id);
	free(s->on_switch);
	free(s->on_switch_json);
}

static const char *kvd_path(void)
{
	static char path[PATH_MAX];

	if (!*path && !find_own(path, "shift-kvd", "../../kv", BINDIR, EXIT_OURS))
		die(EXIT_OURS, "shift-kvd is neither in %s nor in %s: is shift installed?",
		    own_directory(EXIT_OURS), BINDIR);
	return path;
}

static void become_kvd(const char *const *arguments, int out, int err)
{
	char *argv[WORDS_MAX + 1] = {"shift-kvd"};

	for (int i = 0; arguments[i] && i + 1 < WORDS_MAX; i++)
		argv[i + 1] = (char *)arguments[i];
	if (library_is_active()) /* of a shift-run on another host */
		unsetenv("LD_PRELOAD");
	dup2(out, 1);
	dup2(err, 2);
	execv(kvd_path(), argv);
	fprintf(stderr, "shift-kvd: cannot be executed: %s", strerror(errno));
	_exit(EXIT_NOT_EXECUTABLE);
}

/* Reads until the daemon closes its end, which it does when it detaches. */
static char *read_to_end(int fd)
{
	char text[4096];
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0 || (got < 0 && errno == EINTR))
		n += got > 0 ? got : 0;
	close(fd);
	while (n && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	return check_alloc(strdup(text));
}

char *kvd_run(const char *const *arguments)
{
	char *said, *printed;
	int out[2], err[2], status = 0;
	pid_t pid;

	kvd_path();
	if (pipe(out) || pipe(err) || (pid = fork()) < 0)
		die(EXIT_OURS, "cannot start shift-kvd: %s", strerror(errno));
	if (!pid) {
		close(out[0]);
		close(err[0]);
		become_kvd(arguments, out[1], err[1]);
	}
	close(out[1]);
	close(err[1]);
	printed = read_to_end(out[0]);
	said = read_to_end(err[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			break;
	if (status && *said)
		die(EXIT_OURS, "%s", strncmp(said, "shift-kvd: ", 11) ? said : said + 11);
	if (status)
		die(EXIT_OURS, "shift-kvd failed (%s %d)",
		    WIFSIGNALED(status) ? "signal" : "status",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	free(said);
	return printed;
}
