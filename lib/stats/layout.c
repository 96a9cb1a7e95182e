/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/stats/layout.h"

#define ONE(...) +1

struct stats_shape stats_shape(void)
{
	return (struct stats_shape){
		.states = SHIFT_ST_COUNT,
		.reasons = SHIFT_R_COUNT,
		.counters = 0 SHIFT_STATS(ONE),
		.unprotected = STATS_UNPROTECTED_COUNT,
		.phases = STATS_PHASE_COUNT,
		.switch_counters = 0 STATS_SWITCH_COUNTERS(ONE),
		.srq_counters = 0 SHIFT_SRQ_STATS(ONE),
		.fates = STATS_FATE_COUNT,
	};
}

const char *stats_unprotected_name(unsigned int reason)
{
	static const char *const name[] = {
#define NAME(n, what) [STATS_UNPROTECTED_##n] = #n,
		STATS_UNPROTECTED(NAME)
#undef NAME
	};

	return reason < STATS_UNPROTECTED_COUNT ? name[reason] : "?";
}

const char *stats_unprotected_text(unsigned int reason)
{
	static const char *const text[] = {
#define TEXT(n, what) [STATS_UNPROTECTED_##n] = what,
		STATS_UNPROTECTED(TEXT)
#undef TEXT
	};

	return reason < STATS_UNPROTECTED_COUNT ? text[reason] : "?";
}

const char *stats_phase_name(unsigned int phase)
{
	static const char *const name[] = {
#define NAME(n, word, what) [STATS_PHASE_##n] = #word,
		STATS_PHASES(NAME)
#undef NAME
	};

	return phase < STATS_PHASE_COUNT ? name[phase] : "?";
}

const char *stats_psn_name(unsigned int psn)
{
	static const char *const name[] = {"unmeasured", "live", "stale"};

	return psn < sizeof(name) / sizeof(*name) ? name[psn] : "?";
}

const char *stats_outcome_name(unsigned int outcome)
{
	static const char *const name[] = {"under way", "committed", "abandoned", "given up",
					   "closed"};

	return outcome < sizeof(name) / sizeof(*name) ? name[outcome] : "?";
}

const char *stats_kind_name(unsigned int kind)
{
	static const char *const name[] = {"failover", "migration", "fail-back"};

	return kind < sizeof(name) / sizeof(*name) ? name[kind] : "?";
}

const char *stats_fate_name(unsigned int fate)
{
	static const char *const name[] = {
#define NAME(n, word, what) [STATS_FATE_##n] = #word,
		STATS_FATES(NAME)
#undef NAME
	};

	return fate < STATS_FATE_COUNT ? name[fate] : "?";
}

const char *stats_fate_text(unsigned int fate)
{
	static const char *const text[] = {
#define TEXT(n, word, what) [STATS_FATE_##n] = what,
		STATS_FATES(TEXT)
#undef TEXT
	};

	return fate < STATS_FATE_COUNT ? text[fate] : "?";
}
