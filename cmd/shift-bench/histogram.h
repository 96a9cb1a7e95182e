/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A distribution of many positive values, in bins of one percent: small enough for a file. */
#ifndef SHIFT_BENCH_HISTOGRAM_H
#define SHIFT_BENCH_HISTOGRAM_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* sorted: ascending. {"unit", "count", "bins": [[value, count], ...]}: the middle of a bin and how
 * many values are in it. */
cJSON *histogram_json(const double *sorted, size_t count, const char *unit);

#endif
