/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sums over connections, and the line that the library and the tools make of them. For any thread,
 * no lock: all memory is the caller's. */
#ifndef SHIFT_STATS_SUMMARY_H
#define SHIFT_STATS_SUMMARY_H

#include "lib/stats/layout.h"

/*
 * The line at exit, if anything happened: "2 connections moved 3 times (2 failovers, 1 fail-back),
 * longest outage 38 ms, 0 requests in doubt; 1 connection given up: the result of an atomic was
 * lost, see --lost-atomic; 1 connection met a failure unprotected: receives come from a shared
 * receive queue". Each of these parts is there only if it happened. Returns its length as snprintf
 * does; 0: nothing to say. In doubt are the requests that may have been executed twice and the
 * atomics whose result was lost. `counters` is the sum over all connections.
 */
int stats_summary(char *line, size_t bytes, const struct stats_now *now,
		  const struct shift_conn_stats *counters);

/* *to += *from. */
void stats_add_counters(struct shift_conn_stats *to, const struct shift_conn_stats *from);
void stats_add_srq_counters(struct shift_srq_stats *to, const struct shift_srq_stats *from);

#endif
