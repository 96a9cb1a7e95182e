/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Cases on a terminal. Results go to standard output, progress to standard error if that is a
 * terminal. */
#ifndef SHIFT_BENCH_TABLE_H
#define SHIFT_BENCH_TABLE_H

#include "cmd/shift-bench/sample.h"

/* Where it was measured, and the names of the columns. */
void table_head(const struct results *r);

/* The names of the columns alone. */
void table_columns(const struct results *r);

/* One row for each metric of a case that was concluded. */
void table_case(const cJSON *bench_case);

/* What the intervals mean, how many differences were shown; with --control whether that is right.
 */
void table_foot(const struct results *r);

/* How many metrics have shown a difference, of all that have an interval. */
size_t differences(const struct results *r, size_t *of);

/* A line that the next one replaces; NULL or "" clears it. */
void progress(const char *text);

#endif
