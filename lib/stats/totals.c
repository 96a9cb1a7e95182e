/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/stats/summary.h"
#include "lib/stats/totals.h"

static void add_now(struct stats_now *to, const struct stats_now *n)
{
	to->conns_ever += n->conns_ever;
	to->conns_live += n->conns_live;
	to->conns_refused += n->conns_refused;
	to->conns_moved += n->conns_moved;
	to->committed += n->committed;
	to->failovers += n->failovers;
	to->migrations += n->migrations;
	to->failbacks += n->failbacks;
	to->abandoned += n->abandoned;
	to->given_up += n->given_up;
	for (int i = 0; i < SHIFT_R_COUNT; i++)
		to->given_up_for[i] += n->given_up_for[i];
	for (int i = 0; i < STATS_UNPROTECTED_COUNT; i++)
		to->met_failure[i] += n->met_failure[i];
	to->outage_total_ns += n->outage_total_ns;
	to->events_hidden += n->events_hidden;
	for (int i = 0; i < STATS_FATE_COUNT; i++) {
		to->errors[i] += n->errors[i];
		to->flushes[i] += n->flushes[i];
		to->asyncs[i] += n->asyncs[i];
	}
	to->errors_unprotected += n->errors_unprotected;
	to->srqs_ever += n->srqs_ever;
	to->srqs_live += n->srqs_live;
	to->srqs_refused += n->srqs_refused;
	if (n->outage_max_ns > to->outage_max_ns)
		to->outage_max_ns = n->outage_max_ns;
}

static void add_unprotected(struct stats_totals *t, uint32_t reason, uint64_t count)
{
	if (reason < STATS_UNPROTECTED_COUNT)
		t->unprotected[reason] += count;
}

void stats_totals_add(struct stats_totals *t, const struct stats_copy *copy)
{
	const struct stats_now *n = &copy->h.now;
	struct shift_conn_stats sum = stats_sum(copy);
	struct shift_srq_stats srq_sum = stats_sum_srqs(copy);

	t->processes++;
	add_now(&t->now, n);
	stats_add_counters(&t->counters, &sum);
	stats_add_srq_counters(&t->srq_counters, &srq_sum);
	t->conns_protected += n->gone_protected;
	for (uint32_t i = 0; i < STATS_UNPROTECTED_COUNT; i++)
		add_unprotected(t, i, n->gone_unprotected[i]);
	t->queue_pairs += n->conns_ever;
	for (int i = 0; i < STATS_BYPASS_MAX; i++) {
		add_unprotected(t, n->bypass[i].reason, n->bypass[i].count);
		t->queue_pairs += n->bypass[i].count;
	}
	for (size_t i = 0; i < copy->conn_count; i++) {
		const struct stats_conn *c = copy->conns + i;

		t->conns_protected += c->was_protected != 0;
		if (!c->was_protected)
			add_unprotected(t, c->unprotected, 1);
	}
}
