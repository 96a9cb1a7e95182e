/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sums over processes. For any thread, no lock: all memory is the caller's. */
#ifndef SHIFT_STATS_TOTALS_H
#define SHIFT_STATS_TOTALS_H

#include "lib/stats/read.h"

/* Totals of any number of processes: zeros, then stats_totals_add() for each. */
struct stats_totals {
	struct stats_now now;
	struct shift_conn_stats counters;
	struct shift_srq_stats srq_counters;
	uint64_t processes, conns_protected;
	uint64_t
		queue_pairs; /* with those that passed through; each is protected or has a reason */
	uint64_t unprotected[STATS_UNPROTECTED_COUNT];
};

void stats_totals_add(struct stats_totals *t, const struct stats_copy *copy);

#endif
