/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Timelines of trainings in pipelines: events of a trace for Chrome, in which a process is a
 * data-parallel rank, and threads "PP rank P, TP rank T, compute" have forward-compute and
 * backward-compute. As ByteDance-Seed/StragglerAnalysis publishes them. One thread.
 */
#ifndef SHIFT_DIAG_TIMELINE_H
#define SHIFT_DIAG_TIMELINE_H

#include <stdio.h>

#include "cmd/shift-diag/verdict.h"

enum { TIMELINE_FORWARD, TIMELINE_BACKWARD, TIMELINE_OPS };

struct timeline_worker {
	double pid, tid; /* in the file */
	int dp, pp, tp;
	double sum_us[TIMELINE_OPS];
	size_t n[TIMELINE_OPS];
};

struct timeline {
	struct timeline_worker *worker;
	size_t workers;
};

/* 0; -EINVAL: it is no such trace, -EFBIG: it is too large to be read, or another negative errno.
 * The caller frees t with timeline_free(), in any case. */
int timeline_read(FILE *in, struct timeline *t);
void timeline_free(struct timeline *t);

/*
 * Who computes longer than the others that do the same? Rules: slow-worker: one than those of the
 * same stage; long-stage: all of one stage than other stages, so that nobody is to blame.
 */
struct verdict timeline_judge(const struct timeline *t);

#endif
