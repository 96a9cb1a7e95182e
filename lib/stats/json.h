/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A process's statistics as JSON (shift-report(5)). For any thread, no lock. The caller owns, and
 * deletes, what is returned. If there is no memory, cJSON leaves things out. */
#ifndef SHIFT_STATS_JSON_H
#define SHIFT_STATS_JSON_H

#include <cjson/cJSON.h>

#include "lib/stats/read.h"

enum { STATS_SCHEMA_VERSION = 1 };

/* Everything but the events. */
cJSON *stats_json_process(const struct stats_copy *copy);
cJSON *stats_json_switch(const struct stats_copy *copy, const struct stats_switch *s);
cJSON *stats_json_event(const struct stats_copy *copy, const struct stats_event *e);
cJSON *stats_json_events(const struct stats_copy *copy);

/* Notes, and all that are kept of a process, under names of their own, with how many are not. */
cJSON *stats_json_error(const struct stats_copy *copy, const struct stats_note *n);
cJSON *stats_json_async(const struct stats_copy *copy, const struct stats_note *n);
cJSON *stats_json_life(const struct stats_copy *copy, const struct stats_note *n);
void stats_json_add_notes(cJSON *o, const struct stats_copy *copy);

/* The connection of a note, if it is still there; else NULL. */
const struct stats_conn *stats_conn_of(const struct stats_copy *copy, const struct stats_note *n);

struct stats_totals; /* totals.h */
cJSON *stats_json_totals(const struct stats_totals *t);

const char *stats_life_name(enum stats_life life); /* running, ended, crashed, unknown */

#endif
