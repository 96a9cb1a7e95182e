/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The change of one metric from one file to another. Pure. */
#ifndef SHIFT_BENCH_COMPARE_H
#define SHIFT_BENCH_COMPARE_H

#include <cjson/cJSON.h>

#include "cmd/shift-bench/sample.h"

struct compare_options {
	double tolerance, confidence;
	uint64_t seed;
	bool seeded, absolute;
};

enum change_kind { CHANGE_TOO_FEW, CHANGE_NONE, CHANGE_SMALL, CHANGE_BETTER, CHANGE_WORSE };

struct change {
	struct ratio ratio; /* new / old; of the ratios to the baselines, unless absolute */
	enum change_kind kind;
};

struct change change_of(const struct compare_options *o, const cJSON *old_case,
			const cJSON *new_case, const char *metric, bool less_is_better);

#endif
