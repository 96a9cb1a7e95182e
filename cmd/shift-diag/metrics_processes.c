/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Metrics of protected processes. Each has labels of its own: what processes that end take with
 * them would make a sum go down, which a counter must not. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cmd/shift-diag/metrics.h"
#include "lib/stats/totals.h"

struct who {
	const char *job;
	char pid[16];
};

static struct who who_is(const struct process *p)
{
	struct who w = {.job = p->copy.h.job};

	snprintf(w.pid, sizeof(w.pid), "%" PRIu32, p->copy.h.pid);
	return w;
}

/* Prometheus has a label "job" of its own. */
#define WHO(w) "shift_job", (w).job, "pid", (w).pid

/* ---- numbers of stats_now ------------------------------------------------------------------- */

static const struct simple {
	const char *name, *help;
	enum metric_type type;
	size_t at; /* in struct stats_now, a uint64_t */
	double scale;
} simple[] = {
	{"shift_queue_pairs_opened", "Queue pairs that the process has made so far.",
	 METRIC_COUNTER, offsetof(struct stats_now, conns_ever), 1},
	{"shift_connections_moved", "Connections that have moved at least once.", METRIC_COUNTER,
	 offsetof(struct stats_now, conns_moved), 1},
	{"shift_switches_abandoned", "Planned switches that were called off.", METRIC_COUNTER,
	 offsetof(struct stats_now, abandoned), 1},
	{"shift_outage_seconds",
	 "Time that connections stood still in switches, summed over connections.", METRIC_COUNTER,
	 offsetof(struct stats_now, outage_total_ns), 1e-9},
	{"shift_outage_max_seconds", "The longest time that a switch took.", METRIC_GAUGE,
	 offsetof(struct stats_now, outage_max_ns), 1e-9},
	{"shift_events_hidden", "Asynchronous events of a NIC that the program was spared.",
	 METRIC_COUNTER, offsetof(struct stats_now, events_hidden), 1},
	{"shift_srqs", "Shared receive queues.", METRIC_GAUGE,
	 offsetof(struct stats_now, srqs_live), 1},
};

static void simple_put(struct metrics *m, const struct processes *found, const struct simple *s)
{
	metric_begin(m, s->name, s->type, s->help);
	for (const struct process *p = found->first; p; p = p->next) {
		struct who w = who_is(p);
		uint64_t value;

		memcpy(&value, (const char *)&p->copy.h.now + s->at, sizeof(value));
		metric_sample(m, (double)value * s->scale, WHO(w), NULL);
	}
}

/* ---- with labels ---------------------------------------------------------------------------- */

static void put_info(struct metrics *m, const struct processes *found)
{
	metric_begin(m, "shift_process", METRIC_INFO, "A protected process, or its crash record.");
	for (const struct process *p = found->first; p; p = p->next) {
		struct who w = who_is(p);

		metric_sample(m, 1, WHO(w), "comm", p->copy.h.comm, "host", p->copy.h.host, "life",
			      stats_life_name(p->copy.life), NULL);
	}
	metric_begin(m, "shift_process_start_time_seconds", METRIC_GAUGE,
		     "When the process opened its first RDMA device, since 1970.");
	for (const struct process *p = found->first; p; p = p->next) {
		struct who w = who_is(p);

		metric_sample(m, (double)p->copy.h.opened_real_ns * 1e-9, WHO(w), NULL);
	}
}

static void put_switches(struct metrics *m, const struct processes *found)
{
	metric_begin(m, "shift_switches", METRIC_COUNTER, "Moves of connections, by their kind.");
	for (const struct process *p = found->first; p; p = p->next) {
		const struct stats_now *n = &p->copy.h.now;
		struct who w = who_is(p);

		metric_sample(m, (double)n->failovers, WHO(w), "kind", "failover", NULL);
		metric_sample(m, (double)n->migrations, WHO(w), "kind", "migration", NULL);
		metric_sample(m, (double)n->failbacks, WHO(w), "kind", "failback", NULL);
	}
}

static void put_given_up(struct metrics *m, const struct processes *found)
{
	metric_begin(m, "shift_connections_given_up", METRIC_COUNTER,
		     "Connections whose program got errors, by the reason.");
	for (const struct process *p = found->first; p; p = p->next) {
		const struct stats_now *n = &p->copy.h.now;
		struct who w = who_is(p);

		for (unsigned int i = 0; i < SHIFT_R_COUNT; i++)
			if (n->given_up_for[i] || i == SHIFT_R_GIVEUP_TIME)
				metric_sample(m, (double)n->given_up_for[i], WHO(w), "reason",
					      shift_reason_name(i), NULL);
	}
}

static void put_unprotected(struct metrics *m, const struct processes *found)
{
	metric_begin(m, "shift_queue_pairs_unprotected", METRIC_GAUGE,
		     "Queue pairs so far that never were protected, by the reason.");
	for (const struct process *p = found->first; p; p = p->next) {
		struct stats_totals t = {0};
		struct who w = who_is(p);

		stats_totals_add(&t, &p->copy);
		for (unsigned int i = 0; i < STATS_UNPROTECTED_COUNT; i++)
			if (t.unprotected[i])
				metric_sample(m, (double)t.unprotected[i], WHO(w), "reason",
					      stats_unprotected_name(i), NULL);
	}
}

/* ---- connections of a NIC ------------------------------------------------------------------- */

enum conn_kind { CONN_PROTECTED, CONN_UNPROTECTED, CONN_SWITCHING, CONN_KINDS };

static enum conn_kind conn_kind(const struct stats_conn *c)
{
	if (!c->is_protected)
		return CONN_UNPROTECTED;
	return c->now.begin_ns ? CONN_SWITCHING : CONN_PROTECTED;
}

/* The connections of a process on one NIC: those of index `first` and of the same NIC behind it.
 * False: one before it is on that NIC, and has counted it. */
static bool conns_count(const struct stats_copy *copy, size_t first, unsigned int count[CONN_KINDS])
{
	const char *nic = copy->conns[first].nic[copy->conns[first].rail];

	memset(count, 0, CONN_KINDS * sizeof(*count));
	for (size_t i = 0; i < copy->conn_count; i++) {
		const struct stats_conn *c = copy->conns + i;

		if (strcmp(c->nic[c->rail], nic))
			continue;
		if (i < first)
			return false;
		count[conn_kind(c)]++;
	}
	return true;
}

static void put_connections(struct metrics *m, const struct processes *found)
{
	static const char *const states[] = {[CONN_PROTECTED] = "protected",
					     [CONN_UNPROTECTED] = "unprotected",
					     [CONN_SWITCHING] = "switching"};
	unsigned int count[CONN_KINDS];

	metric_begin(m, "shift_connections", METRIC_GAUGE,
		     "Connections, by the NIC that carries them now.");
	for (const struct process *p = found->first; p; p = p->next) {
		struct who w = who_is(p);

		for (size_t i = 0; i < p->copy.conn_count; i++) {
			const struct stats_conn *c = p->copy.conns + i;

			if (!conns_count(&p->copy, i, count))
				continue;
			for (unsigned int k = 0; k < CONN_KINDS; k++)
				metric_sample(m, count[k], WHO(w), "device", c->nic[c->rail],
					      "port", "1", "state", states[k], NULL);
		}
	}
}

/* ---- the counters of lib/core --------------------------------------------------------------- */

static const struct core_counter {
	const char *name, *help;
	size_t at; /* in struct shift_conn_stats */
} core[] = {
#define CORE(field, what)                                                       \
	{                                                                       \
		"shift_" #field, what, offsetof(struct shift_conn_stats, field) \
	}
	CORE(joins, "Switches that the peer began."),
	CORE(proved, "Requests that the peer had executed, as it said after a switch."),
	CORE(replayed, "Requests that were posted again after a switch."),
	CORE(trimmed, "WRITEs that were resumed in the middle after a switch."),
	CORE(reissued_reads, "READs whose data was lost, and that were asked again."),
	CORE(lost_atomics, "Atomics that were executed and whose result is lost."),
	CORE(maybe_twice, "Requests that may have been executed twice."),
	CORE(at_least_once, "Switches that only the count of receives could decide."),
	CORE(retransmits, "Control messages that were sent again."),
	CORE(hung_fences, "Fences that did not end in time."),
	CORE(held_posts, "Sends that waited for a switch."),
	CORE(no_progress_asked, "How often the peer was asked as nothing completed."),
#undef CORE
};

static void core_put(struct metrics *m, const struct processes *found, const struct core_counter *c)
{
	metric_begin(m, c->name, METRIC_COUNTER, c->help);
	for (const struct process *p = found->first; p; p = p->next) {
		struct shift_conn_stats sum = stats_sum(&p->copy);
		struct who w = who_is(p);
		uint64_t value;

		memcpy(&value, (const char *)&sum + c->at, sizeof(value));
		metric_sample(m, (double)value, WHO(w), NULL);
	}
}

void metrics_of_processes(struct metrics *m, const struct processes *found)
{
	metric_begin(m, "shift_processes_complete", METRIC_GAUGE,
		     "1 if all processes were read, 0 if some were left out.");
	metric_sample(m, !found->cut.users && !found->cut.err, NULL);
	put_info(m, found);
	put_connections(m, found);
	for (size_t i = 0; i < sizeof(simple) / sizeof(*simple); i++)
		simple_put(m, found, simple + i);
	put_switches(m, found);
	put_given_up(m, found);
	put_unprotected(m, found);
	for (size_t i = 0; i < sizeof(core) / sizeof(*core); i++)
		core_put(m, found, core + i);
}
