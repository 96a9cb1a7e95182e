/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* "marks" of a sample's detail: what happened when. Pure. */
#ifndef SHIFT_BENCH_MARKS_H
#define SHIFT_BENCH_MARKS_H

#include "cmd/shift-bench/hosts.h"

/* In the order of their times. at_ms: NAN adds nothing. */
void marks_add(cJSON *list, double at_ms, const char *what, enum host host);

/* The switches of a report of shift-run: failover, fail-back, migration. began_unix_ms: where at_ms
 * is 0, by the clock of that host. */
void marks_add_switches(cJSON *list, const cJSON *report, double began_unix_ms, enum host host);

#endif
