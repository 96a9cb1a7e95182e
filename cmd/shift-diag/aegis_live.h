/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The records of jobs that run, on this host or on others by ssh. Nothing is written to a disk. One
 * thread; memory that runs out ends the process.
 */
#ifndef SHIFT_DIAG_AEGIS_LIVE_H
#define SHIFT_DIAG_AEGIS_LIVE_H

#include "cmd/shift-diag/records.h"
#include "cmd/shift-diag/remote.h"
#include "cmd/shift-diag/verdict.h"

struct live_request {
	const char *job; /* NULL: all */
	char **host;	 /* in copies; none: this one */
	size_t hosts;
	int64_t timeout_ms; /* for each host */
};

/* A host of which not everything is known. */
struct live_gap {
	const char *host;
	char why[REMOTE_SAID_BYTES + 64];
};

struct live_answer {
	struct records records; /* of all jobs */
	struct live_gap *gap;
	size_t gaps;
	size_t hosts, seen;
};

/* "H1,H2,...": each name once. False: why in a static text. */
bool live_parse_hosts(struct live_request *q, const char *list, const char **why);

void live_read(const struct live_request *q, struct live_answer *a);
void live_answer_free(struct live_answer *a);

/* A job of an answer: points to what is there. */
struct live_job {
	const char *name;
	struct records records; /* its file[] is to be freed, no more */
	bool is_running;	/* at least one process is */
};

/*
 * The jobs of an answer, by their names. What processes left that had died before the first of
 * those that run now began is of an earlier life of the job, and left out. The caller frees them.
 */
struct live_job *live_jobs(const struct live_answer *a, size_t *n);
void live_jobs_free(struct live_job *jobs, size_t n);

/* Says which hosts have not told everything: it lowers the confidence, and nothing is fine then. */
void live_tell_gaps(const struct live_answer *a, struct verdict *v);

#endif
