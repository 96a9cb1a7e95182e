/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One line for each pattern of `shift-bench verbs`, on standard output. */
#ifndef SHIFT_BENCH_VERBS_TABLE_H
#define SHIFT_BENCH_VERBS_TABLE_H

#include "cmd/shift-bench/sample.h"

void verbs_head(const struct results *r);
void verbs_row(const cJSON *bench_case);

/* Of --mix with several seeds: the median and the worst. */
void verbs_foot(const struct results *r);

/* How many cases have more instructions added than that; each is said. */
unsigned int verbs_more_than(const struct results *r, double bound);

#endif
