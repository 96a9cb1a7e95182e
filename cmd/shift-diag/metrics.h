/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Metrics in the text formats of Prometheus and OpenMetrics: families, one after the other, each
 * with all of its samples. One thread.
 */
#ifndef SHIFT_DIAG_METRICS_H
#define SHIFT_DIAG_METRICS_H

#include <stdio.h>

#include "cmd/live/live.h"
#include "cmd/shift-diag/diag.h"
#include "cmd/shift-diag/nics.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_INFO };

struct metrics {
	FILE *out;
	enum diag_format format;
	const char *name; /* of the family that was begun, without _total or _info */
	enum metric_type type;
};

/* name: without _total and _info. It must stay valid until the next family begins. */
void metric_begin(struct metrics *m, const char *name, enum metric_type type, const char *help);

/* A sample of it. Labels: NAME, VALUE, ..., NULL; values may be anything. */
void metric_sample(struct metrics *m, double value, ...) __attribute__((sentinel));

void metrics_end(struct metrics *m);

/* Everything of the processes, and of the NICs' counters in sysfs. */
void metrics_of_processes(struct metrics *m, const struct processes *found);
void metrics_of_nics(struct metrics *m, const struct diag_nics *nics);

#endif
