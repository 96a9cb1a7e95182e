/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The sum of many schedules: figures and coverage. */
#include <stdio.h>

#include "tests/sim/sim.h"

void report_tally(double secs)
{
	double n = (double)(T.schedules ? T.schedules : 1);
	uint32_t i;

	printf("%lu schedules, %lu events (%.1f M/min), %lu handed to the core (min %lu, below 300 "
	       "in "
	       "%.2f %%)\n",
	       (unsigned long)T.schedules, (unsigned long)T.events,
	       (double)T.events / secs * 60 / 1e6, (unsigned long)T.core_events,
	       (unsigned long)T.core_events_min, 100 * (double)T.few / n);
	printf("%.1f %% with a switch, %.1f %% with another fault during one, %.1f %% with a WRITE "
	       "resumed inside, %.1f s\n",
	       100 * (double)T.switched / n, 100 * (double)T.second / n, 100 * (double)T.cut / n,
	       secs);
	printf("%.1f %% with a second life, %.1f %% with a planned switch under atomics\n",
	       100 * (double)T.lives / n, 100 * (double)T.plan_met_atomics / n);
	printf("%.1f %% with WRITEs of up to 2^21 packets, ", 100 * (double)T.huge / n);
	printf("%.1f %% of the WRITEs posted again are resumed inside\n",
	       100 * (double)T.stats.trimmed / (double)(T.writes_again ? T.writes_again : 1));
	printf("longest pause, of its bound: %.0f %% while a switch was under way (seed %lu), %.0f "
	       "%% "
	       "in ACTIVE (seed %lu)\n",
	       (double)T.pause_ppm[0] / 1e4, (unsigned long)T.pause_seed[0],
	       (double)T.pause_ppm[1] / 1e4, (unsigned long)T.pause_seed[1]);
	printf("%lu WRs (%.1f %% posted in runs), %lu receives, %lu packets\n",
	       (unsigned long)T.wrs, 100 * (double)T.fast_posts / (double)(T.wrs ? T.wrs : 1),
	       (unsigned long)T.recvs, (unsigned long)T.packets);
	printf("%.1f %% with SRQs", 100 * (double)T.srqs / n);
	if (T.srqs)
		printf(" (%.1f connections each):", (double)T.conns / (double)T.srqs);
#define SHOW_SRQ(name) printf(T.srqs ? " " #name " %lu" : "", (unsigned long)T.srq.name);
	SHIFT_SRQ_STATS(SHOW_SRQ)
#undef SHOW_SRQ
	printf("\nended where nothing is promised any more (doc/srq.md, 9): executed twice %lu, "
	       "a receive cannot be fetched %lu\n",
	       (unsigned long)T.limits[LIMIT_TWICE], (unsigned long)T.limits[LIMIT_FETCH]);
#define SHOW(name) printf("  %-18s %lu\n", #name, (unsigned long)T.stats.name);
	SHIFT_STATS(SHOW)
#undef SHOW
	printf("faults:");
	for (i = 0; i < FK_COUNT; i++)
		printf(" %s %lu", fault_name(i), (unsigned long)T.fault[i]);
	printf("\nconnections that ended early:");
	for (i = 1; i < SHIFT_R_COUNT; i++)
		if (T.ended[i])
			printf(" %s %lu", shift_reason_name(i), (unsigned long)T.ended[i]);
	printf("\n");
}

#ifdef SHIFT_CHECKED
static const char *const event_names[] = {
#define EVENT_NAME(name, what) #name,
	SHIFT_EVENTS(EVENT_NAME)
#undef EVENT_NAME
};

static const char *const action_names[] = {
#define ACTION_NAME(name, what) #name,
	SHIFT_ACTIONS(ACTION_NAME)
#undef ACTION_NAME
};

static void print_changes(void)
{
	uint32_t from, to, why, kinds = 0;

	for (from = 0; from < SHIFT_ST_COUNT; from++)
		for (to = 0; to < SHIFT_ST_COUNT; to++)
			for (why = 0; why < SHIFT_R_COUNT; why++) {
				uint64_t n = shift_coverage.change[from][to][why];

				if (!n)
					continue;
				kinds++;
				printf("  %-10s -> %-10s %-13s %lu\n", shift_state_name(from),
				       shift_state_name(to), shift_reason_name(why),
				       (unsigned long)n);
			}
	printf("%u different (state, state, reason)\n", kinds);
}

void report_coverage(void)
{
	uint32_t s, e, states = 0, pairs = 0;

	printf("state changes:\n");
	print_changes();
	printf("events by state (only what was seen):\n");
	for (s = 0; s < SHIFT_ST_COUNT; s++) {
		uint64_t sum = 0;

		printf("  %-10s", shift_state_name(s));
		for (e = 0; e < SHIFT_EV_COUNT; e++) {
			uint64_t n = shift_coverage.event[s][e];

			sum += n;
			pairs += n > 0;
			if (n)
				printf(" %s:%lu", event_names[e], (unsigned long)n);
		}
		printf("\n");
		states += sum > 0;
	}
	printf("%u of %u states, %u (state, event) pairs; actions:", states, SHIFT_ST_COUNT, pairs);
	for (e = 0; e < SHIFT_ACT_COUNT; e++)
		printf(" %s:%lu", action_names[e], (unsigned long)shift_coverage.action[e]);
	printf("\n");
}

void report_add_coverage(const struct shift_coverage *c)
{
	const uint64_t *from = (const uint64_t *)c;
	uint64_t *to = (uint64_t *)&shift_coverage;
	size_t i;

	for (i = 0; i < sizeof(*c) / sizeof(*from); i++)
		to[i] += from[i];
}
#else
void report_coverage(void)
{
	printf("coverage: built without SHIFT_CHECKED\n");
}
#endif

/* All counters are uint64_t; the minimum and the longest pauses are no sums. */
void report_add_tally(const struct tally *t)
{
	uint64_t min = T.core_events_min, *to = (uint64_t *)&T;
	const uint64_t *from = (const uint64_t *)t;
	uint64_t pause[2][2];
	size_t i;

	for (i = 0; i < 2; i++) {
		bool mine = T.pause_ppm[i] > t->pause_ppm[i];

		pause[i][0] = mine ? T.pause_ppm[i] : t->pause_ppm[i];
		pause[i][1] = mine ? T.pause_seed[i] : t->pause_seed[i];
	}
	for (i = 0; i < sizeof(T) / sizeof(*to); i++)
		to[i] += from[i];
	for (i = 0; i < 2; i++) {
		T.pause_ppm[i] = pause[i][0];
		T.pause_seed[i] = pause[i][1];
	}
	T.core_events_min = min && min < t->core_events_min ? min : t->core_events_min;
}
