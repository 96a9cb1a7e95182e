/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The report of a run, for shift-run: what the statistics of all its processes say. They are in the
 * directory that was given to them ($SHIFT_REPORT_DIR), except of those that ended by a signal or
 * _exit(), or when that was full: these are looked for where the job has its files and crash
 * records, and known by the directory they would have gone to. Schema: shift-report(5).
 */
#ifndef SHIFT_STATS_REPORT_H
#define SHIFT_STATS_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report_run {
	const char *job;
	char *const *command; /* ends with NULL */
	int status;	      /* as of waitpid() */
	uint64_t started_real_ns, ended_real_ns;
};

struct report;

/*
 * Reads them. run is copied nowhere: it must live as long as the report. NULL: no memory.
 * A file that cannot be read is named in the report, and makes report_write() no error.
 */
struct report *report_read(const char *dir, const struct report_run *run);
void report_free(struct report *r);

/* 0, or a negative errno of writing. */
int report_write(const struct report *r, FILE *out);

/*
 * One line without a newline: what happened, and what crashed. Length as of snprintf; 0: nothing
 * happened.
 */
int report_summary(const struct report *r, char *line, size_t bytes);

/* Removes what was read in dir (*.stats only) and dir itself, if nothing else is in it; and what
 * found no room there and stayed with the job's files. */
void report_remove(const char *dir, const char *job);

#endif
