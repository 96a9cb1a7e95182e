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

void stats_add_srq_counters(struct shift_srq_stats *to, const struct shift_srq_stats *from)
{
#define ADD(name) to->name += from->name;
	SHIFT_SRQ_STATS(ADD)
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

/* For the user; the reasons of lib/core are for who knows the protocol. */
static const char *given_up_text(unsigned int reason)
{
	static const char *const text[SHIFT_R_COUNT] = {
#define TEXT(name, what) [SHIFT_R_##name] = what,
		SHIFT_REASONS(TEXT)
#undef TEXT
	};

	if (reason == SHIFT_R_LOST_ATOMIC)
		return "the result of an atomic was lost, see --lost-atomic";
	if (reason == SHIFT_R_GIVEUP_TIME)
		return "no NIC led to the peer in time, see --give-up";
	return text[reason];
}

/* "; 2 connections given up: why" */
static int append_conns(char *line, size_t bytes, int n, uint64_t count, const char *what,
			const char *why)
{
	size_t at;

	n = append_count(line, bytes, n, n ? "; " : "", count, "connection");
	at = (size_t)n < bytes ? (size_t)n : bytes;
	return n + snprintf(line + at, bytes - at, " %s: %s", what, why);
}

static int append_moves(char *line, size_t bytes, const struct stats_now *now, uint64_t doubt)
{
	size_t at;
	int n = 0;

	if (now->committed) {
		n = append_count(line, bytes, n, "", now->conns_moved, "connection");
		n = append_count(line, bytes, n, " moved ", now->committed, "time");
		n = append_kinds(line, bytes, n, now);
		n = append_outage(line, bytes, n, now->outage_max_ns);
	}
	n = append_count(line, bytes, n, n ? ", " : "", doubt, "request");
	at = (size_t)n < bytes ? (size_t)n : bytes;
	return n + snprintf(line + at, bytes - at, " in doubt");
}

int stats_summary(char *line, size_t bytes, const struct stats_now *now,
		  const struct shift_conn_stats *counters)
{
	bool atomics_said = now->given_up_for[SHIFT_R_LOST_ATOMIC];
	int n = 0;

	if (bytes)
		*line = 0;
	if (now->committed || counters->maybe_twice || (counters->lost_atomics && !atomics_said))
		n = append_moves(line, bytes, now, counters->maybe_twice + counters->lost_atomics);
	for (unsigned int i = 0; i < SHIFT_R_COUNT; i++)
		if (now->given_up_for[i])
			n = append_conns(line, bytes, n, now->given_up_for[i], "given up",
					 given_up_text(i));
	for (unsigned int i = 0; i < STATS_UNPROTECTED_COUNT; i++)
		if (now->met_failure[i])
			n = append_conns(line, bytes, n, now->met_failure[i],
					 "met a failure unprotected", stats_unprotected_text(i));
	return n;
}
