/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One outage, from what the integrity client on host a has printed and from the report of its
 * shift-run. Pure. */
#ifndef SHIFT_BENCH_OUTAGE_H
#define SHIFT_BENCH_OUTAGE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct outage {
	double ms;	  /* the longest gap between completions around the fault; NAN: it ended */
	double paused_ms; /* the part of it in which the program itself did not run */
	double heard_ms;  /* the part of it after the library had heard of the fault, or NAN */
	double quiet_ms;  /* the longest gap in the second before the failover, or NAN */
	bool ended;	  /* the program got an error completion, or stalled */
	double lost, duplicated, reordered; /* messages, of both sides */
};

/* The first committed failover in a report, or NULL. */
const cJSON *first_failover(const cJSON *report);

/*
 * client: the object that the client prints. report: NULL without shift. Without a failover the
 * longest gap of the whole run counts, as nobody knows when the fault began by the client's clock.
 */
struct outage outage_of(const cJSON *client, const cJSON *report);

/* The parts of the switch, in ms; "detect", or "fence+arm+...": the sum of those that are known;
 * NAN if none is. */
double phases_ms(const cJSON *failover, const char *const *names);

#endif
