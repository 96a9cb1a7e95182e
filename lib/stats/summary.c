/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <stdio.h>

#include "lib/stats/summary.h"

void stats_add_counters(struct shift_conn_stats *to, const struct shift_conn_stats *from)
{
#define ADD(name) to->name += from->name;
	SHIFT_STATS(ADD)
#undef ADD
}

/* Appends to a line of which n bytes are there already, and perhaps more than fit. */
static int append_count(char *line, size_t bytes, int n, const char *before, uint64_t count,
			const char *what)
{
	size_t at = (size_t)n < bytes ? (size_t)n : bytes;

	return n + snprintf(line + at, bytes - at, "%s%" PRIu64 " %s%s", before, count, what,
			    count == 1 ? "" : "s");
}

static int append_kinds(char *line, size_t bytes, int n, const struct stats_now *now)
{
	const struct {
		uint64_t count;
		const char *what;
	} kind[] = {{now->failovers, "failover"},
		    {now->migrations, "migration"},
		    {now->failbacks, "fail-back"}};
	const char *before = " (";
	size_t at;

	for (int i = 0; i < 3; i++) {
		if (!kind[i].count)
			continue;
		n = append_count(line, bytes, n, before, kind[i].count, kind[i].what);
		before = ", ";
	}
	if (*before == ' ')
		return n;
	at = (size_t)n < bytes ? (size_t)n : bytes;
	return n + snprintf(line + at, bytes - at, ")");
}

static int append_outage(char *line, size_t bytes, int n, uint64_t ns)
{
	size_t at = (size_t)n < bytes ? (size_t)n : bytes;
	double ms = (double)ns / 1e6;

	if (ms >= 10000)
		return n + snprintf(line + at, bytes - at, ", longest outage %.1f s", ms / 1e3);
	return n + snprintf(line + at, bytes - at, ", longest outage %.*f ms", ms < 10, ms);
}

int stats_summary(char *line, size_t bytes, const struct stats_now *now,
		  const struct shift_conn_stats *counters)
{
	uint64_t doubt = counters->maybe_twice + counters->lost_atomics;
	int n = 0;

	if (bytes)
		*line = 0;
	if (!now->committed && !now->given_up && !doubt)
		return 0;
	n = append_count(line, bytes, n, "", now->conns_moved, "connection");
	n = append_count(line, bytes, n, " moved ", now->committed, "time");
	n = append_kinds(line, bytes, n, now);
	n = append_outage(line, bytes, n, now->outage_max_ns);
	n = append_count(line, bytes, n, ", ", doubt, "request");
	n += snprintf(line + ((size_t)n < bytes ? (size_t)n : bytes),
		      (size_t)n < bytes ? bytes - (size_t)n : 0, " in doubt");
	if (now->given_up)
		n = append_count(line, bytes, n, ", given up ", now->given_up, "time");
	return n;
}
