/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdlib.h>

#include "cmd/shift-bench/compare.h"

enum { OLD, NEW, FILES };

static struct change judged(const struct compare_options *o, struct ratio r, bool less_is_better)
{
	struct change c = {.ratio = r};

	switch (r.verdict) {
	case VERDICT_TOO_FEW: c.kind = CHANGE_TOO_FEW; break;
	case VERDICT_NONE: c.kind = CHANGE_NONE; break;
	case VERDICT_LESS: c.kind = less_is_better ? CHANGE_BETTER : CHANGE_WORSE; break;
	case VERDICT_MORE: c.kind = less_is_better ? CHANGE_WORSE : CHANGE_BETTER; break;
	}
	if (c.kind >= CHANGE_BETTER && fabs(r.ratio - 1) < o->tolerance)
		c.kind = CHANGE_SMALL;
	return c;
}

struct change change_of(const struct compare_options *o, const cJSON *old_case,
			const cJSON *new_case, const char *metric, bool less_is_better)
{
	const cJSON *cases[FILES] = {old_case, new_case};
	struct samples_of s[FILES];
	struct ratio r;

	for (int i = 0; i < FILES; i++) {
		s[i].base = case_values(cases[i], metric, SIDE_BASELINE, &s[i].base_count);
		s[i].other = case_values(cases[i], metric, SIDE_SHIFT, &s[i].other_count);
	}
	if (o->absolute || !s[OLD].base_count || !s[NEW].base_count)
		r = ratio_of_medians(s[OLD].other, s[OLD].other_count, s[NEW].other,
				     s[NEW].other_count, o->confidence, o->seed);
	else
		r = ratio_of_ratios(&s[OLD], &s[NEW], o->confidence, o->seed);
	for (int i = 0; i < FILES; i++) {
		free(s[i].base);
		free(s[i].other);
	}
	return judged(o, r, less_is_better);
}
