/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/stats/report.h"

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

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

void collect_report(struct report *r)
{
	struct stats_run run = {.job = r->job, .command = r->command, .status = r->wait_status};
	struct stats_report *report;
	FILE *f;
	int err;

	clock_gettime(CLOCK_REALTIME, &r->ended);
	run.started_real_ns = ns_of(&r->begun);
	run.ended_real_ns = ns_of(&r->ended);
	report = need(stats_report_read(r->dir, &run));
	f = fopen(r->file, "we");
	err = f ? stats_report_write(report, f) : -errno;
	if (f && fclose(f) && !err)
		err = -errno;
	if (err)
		say("--report %s: %s", r->file, strerror(-err));
	stats_report_free(report);
	stats_report_remove(r->dir);
}
