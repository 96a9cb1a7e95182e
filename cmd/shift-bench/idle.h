/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* QPs that are connected between the hosts and do nothing, beside what is measured. */
#ifndef SHIFT_BENCH_IDLE_H
#define SHIFT_BENCH_IDLE_H

#include "cmd/shift-bench/hosts.h"

struct idle {
	struct run runs[HOSTS]; /* of idle-qps */
};

/*
 * Returns when all are connected, and with shift protected. NULL, or why that is not so, as a text
 * that lives as long as the process. idle_end() in any case.
 */
const char *idle_begin(struct idle *i, const struct hosts *h, const struct bench_options *o,
		       long qps, bool with_shift);

/* NULL, or the reason if one of the programs had ended by itself. */
const char *idle_end(struct idle *i);

#endif
