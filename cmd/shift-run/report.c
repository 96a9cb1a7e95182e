/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --report: a directory where each process of the command leaves its statistics, and what they say.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-run/run.h"
#include "lib/stats/report.h"

enum { REPORT_DIR_MAX = 255 }; /* of lib/base/env.h */

void report_begin(struct run_report *r)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	r->file = absolute_path(r->file);
	fd = open(r->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		die(EXIT_OURS, "--report %s: %s", r->file, strerror(errno));
	close(fd);
	tmp = absolute_path(tmp && *tmp ? tmp : "/tmp");
	r->dir = format_text("%s/shift-report-XXXXXX", tmp);
	if (strlen(r->dir) > REPORT_DIR_MAX)
		die(EXIT_OURS, "%s: too long a path; another TMPDIR is needed", r->dir);
	if (!mkdtemp(r->dir))
		die(EXIT_OURS, "%s: %s", r->dir, strerror(errno));
	clock_gettime(CLOCK_REALTIME, &r->begun);
}

static uint64_t real_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

void collect_report(struct run_report *r)
{
	struct report_run run = {.job = r->job, .command = r->command, .status = r->wait_status};
	struct kvd_state s = {0};
	struct report *report;
	FILE *out;

	clock_gettime(CLOCK_REALTIME, &r->ended);
	run.started_real_ns = real_ns(&r->begun);
	run.ended_real_ns = real_ns(&r->ended);
	if (!kvd_hold(r->job, &s))
		run.on_switch_json = s.on_switch_json;
	report = check_alloc(report_read(r->dir, &run));
	out = fopen(r->file, "we");
	if (!out || report_write(report, out) || fclose(out))
		say("--report %s: %s", r->file, strerror(errno));
	report_free(report);
	kvd_state_free(&s);
	report_remove(r->dir, r->job);
}
