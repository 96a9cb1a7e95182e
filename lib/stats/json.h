/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a process's statistics are in JSON: shift-report(5). */
#ifndef SHIFT_STATS_JSON_H
#define SHIFT_STATS_JSON_H

#include <cjson/cJSON.h>

#include "lib/stats/read.h"

enum { STATS_SCHEMA_VERSION = 1 };

/* Everything but the events. The caller's; the program ends if there is no memory. */
cJSON *stats_json_process(const struct stats_copy *copy);
cJSON *stats_json_switch(const struct stats_copy *copy, const struct stats_switch *s);
cJSON *stats_json_event(const struct stats_copy *copy, const struct stats_event *e);
cJSON *stats_json_events(const struct stats_copy *copy);

/* Totals of any number of processes: stats_totals_add() for each. */
struct stats_totals {
	struct stats_now now;
	struct shift_conn_stats counters;
	uint64_t processes, conns_protected;
	uint64_t unprotected[STATS_UNPROTECTED_COUNT];
};
void stats_totals_add(struct stats_totals *t, const struct stats_copy *copy);
cJSON *stats_json_totals(const struct stats_totals *t);

const char *stats_life_name(enum stats_life life); /* running, ended, crashed, unknown */

#endif
