/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <string.h>

#include "cmd/shift-bench/outage.h"
#include "cmd/shift-bench/sample.h"

enum { BEFORE_MS = 1000 };

static const cJSON *member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

const cJSON *first_failover(const cJSON *report)
{
	const cJSON *process, *s;

	cJSON_ArrayForEach (process, member(report, "processes"))
		cJSON_ArrayForEach (s, member(process, "switches"))
			if (!strcmp(json_text(s, "kind"), "failover") &&
			    !strcmp(json_text(s, "outcome"), "committed"))
				return s;
	return NULL;
}

double phases_ms(const cJSON *failover, const char *const *names)
{
	double sum = NAN, us;

	for (; *names; names++) {
		us = json_number(member(failover, "phases_us"), *names);
		if (!isnan(us))
			sum = (isnan(sum) ? 0 : sum) + us / 1000;
	}
	return sum;
}

static double switch_took_ms(const cJSON *failover)
{
	const cJSON *phase;
	double sum = 0;

	cJSON_ArrayForEach (phase, member(failover, "phases_us"))
		if (cJSON_IsNumber(phase))
			sum += cJSON_GetNumberValue(phase) / 1000;
	return sum;
}

/* The longest gap that overlaps from..to. */
static const cJSON *longest_gap(const cJSON *client, double from, double to)
{
	const cJSON *gap, *longest = NULL;

	cJSON_ArrayForEach (gap, member(client, "gaps")) {
		double at = json_number(gap, "at_ms"), ms = json_number(gap, "ms");

		if (at + ms >= from && at <= to && (!longest || ms > json_number(longest, "ms")))
			longest = gap;
	}
	return longest;
}

/* The client keeps the longest gaps only; a gap that is not among them is shorter than these. */
static double shortest_kept_ms(const cJSON *client)
{
	const cJSON *gaps = member(client, "gaps");
	const cJSON *last = cJSON_GetArrayItem(gaps, cJSON_GetArraySize(gaps) - 1);

	return last ? json_number(last, "ms") : 0;
}

static double found(const cJSON *client, const char *what)
{
	double here = json_number(member(client, "found"), what),
	       there = json_number(member(client, "peer_found"), what);

	return (isnan(here) ? 0 : here) + (isnan(there) ? 0 : there);
}

static double exit_of(const cJSON *client)
{
	return json_number(client, "exit");
}

/* The longest gap that was over before the switch began. */
static double quiet_ms(const cJSON *client, double from)
{
	const cJSON *gap;
	double longest = 0, at, ms;

	cJSON_ArrayForEach (gap, member(client, "gaps")) {
		at = json_number(gap, "at_ms");
		ms = json_number(gap, "ms");
		if (at >= from - BEFORE_MS && at + ms < from)
			longest = fmax(longest, ms);
	}
	return longest > 0 ? longest : shortest_kept_ms(client);
}

struct outage outage_of(const cJSON *client, const cJSON *report)
{
	const cJSON *failover = first_failover(report), *gap;
	double from = -INFINITY, to = INFINITY;
	struct outage o = {.ms = NAN, .paused_ms = NAN, .heard_ms = NAN, .quiet_ms = NAN};

	if (failover) {
		from = json_number(failover, "unix_s") * 1000 -
		       json_number(client, "started_unix_ms");
		to = from + switch_took_ms(failover);
		o.quiet_ms = quiet_ms(client, from);
	}
	o.lost = found(client, "lost");
	o.duplicated = found(client, "duplicated");
	o.reordered = found(client, "reordered");
	o.ended = cJSON_IsObject(member(client, "error")) || exit_of(client) == 4;
	if (o.ended)
		return o;
	gap = longest_gap(client, from, to);
	o.ms = gap ? json_number(gap, "ms") : shortest_kept_ms(client);
	o.paused_ms = gap ? json_number(gap, "paused_ms") : 0;
	if (failover && gap)
		o.heard_ms = fmax(0, json_number(gap, "at_ms") + o.ms - from);
	return o;
}
