/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The report of a run, for shift-run: what the statistics of all its processes say. A process that
 * ends leaves its file in the directory that it was given ($SHIFT_REPORT_DIR). After a signal or
 * _exit(), or when that directory is full, the file is still with the job's files or crash records;
 * its report_dir tells that it belongs to this run. Schema: shift-report(5).
 *
 * For any thread, no lock; one report for one thread at a time.
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
	const char *on_switch_json; /* of shift-kvd; NULL: there was no such command */
};

struct report;

/*
 * Reads all files; report_free() frees the report. dir and run are not copied: they must live as
 * long as the report. NULL: no memory. A file that cannot be read is named in the report, and is no
 * error of report_write().
 */
struct report *report_read(const char *dir, const struct report_run *run);
void report_free(struct report *r);

/* 0, or the negative errno of a write that failed. */
int report_write(const struct report *r, FILE *out);

/* One line without a newline: what happened, and what crashed. Returns its length as snprintf does;
 * 0: nothing happened. */
int report_summary(const struct report *r, char *line, size_t bytes);

/* Removes the files of the run: all *.stats in dir, and those that found no room there and stayed
 * with the job's files; and dir itself, if nothing else is in it. */
void report_remove(const char *dir, const char *job);

#endif
