/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "run.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void report_begin(struct report *r)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	r->file = absolute(r->file);
	fd = open(r->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		die(EXIT_OURS, "--report %s: %s", r->file, strerror(errno));
	close(fd);
	tmp = absolute(tmp && *tmp ? tmp : "/tmp");
	r->dir = format("%s/shift-report-XXXXXX", tmp);
	if (!mkdtemp(r->dir))
		die(EXIT_OURS, "%s: %s", r->dir, strerror(errno));
	clock_gettime(CLOCK_REALTIME, &r->begun);
}

static void add_time(cJSON *o, const char *name, const struct timespec *t)
{
	char text[64];
	struct tm tm;
	size_t n;

	gmtime_r(&t->tv_sec, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03ldZ", t->tv_nsec / 1000000);
	cJSON_AddStringToObject(o, name, text);
}

static void add_end(cJSON *o, int wait_status)
{
	char name[32];

	if (WIFEXITED(wait_status)) {
		cJSON_AddNumberToObject(o, "exit_status", WEXITSTATUS(wait_status));
		cJSON_AddNullToObject(o, "signal");
		return;
	}
	snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(WTERMSIG(wait_status)));
	cJSON_AddNullToObject(o, "exit_status");
	cJSON_AddStringToObject(o, "signal", name);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

static void write_file(const char *path, const cJSON *o)
{
	char *text = need(cJSON_Print(o));
	FILE *f = fopen(path, "we");

	if (!f || fprintf(f, "%s\n", text) < 0 || fclose(f))
		say("--report %s: %s", path, strerror(errno));
	free(text);
}

/*
 * Each process of the command has left a file in r->dir. What is in them is not read yet:
 * "processes" stays empty.
 */
void collect_report(struct report *r)
{
	cJSON *o = cJSON_CreateObject(), *command;

	clock_gettime(CLOCK_REALTIME, &r->ended);
	cJSON_AddNumberToObject(o, "version", 1);
	cJSON_AddStringToObject(o, "job", r->job);
	command = cJSON_AddArrayToObject(o, "command");
	for (char **word = r->command; *word; word++)
		cJSON_AddItemToArray(command, cJSON_CreateString(*word));
	add_time(o, "started_at", &r->begun);
	add_time(o, "ended_at", &r->ended);
	add_end(o, r->wait_status);
	cJSON_AddArrayToObject(o, "processes");
	write_file(r->file, o);
	cJSON_Delete(o);
	nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
