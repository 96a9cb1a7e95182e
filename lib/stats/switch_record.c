/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "lib/stats/stats_file.h"
#include "lib/stats/switch_record.h"

#define F (&stats_file)

static const uint64_t fault_age_max_ns = 60ull * 1000000000;

int stats_phase_of(enum shift_state state)
{
	switch (state) {
	case SHIFT_ST_PREPARE: return STATS_PHASE_PREPARE;
	case SHIFT_ST_DRAIN: return STATS_PHASE_DRAIN;
	case SHIFT_ST_FENCE: return STATS_PHASE_FENCE;
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_QUARANTINE: return STATS_PHASE_WAIT;
	case SHIFT_ST_ARM: return STATS_PHASE_ARM;
	case SHIFT_ST_SWITCHING: return STATS_PHASE_HANDSHAKE;
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_CLOSING: return STATS_PHASE_FENCE;
	case SHIFT_ST_SETUP:
	case SHIFT_ST_ACTIVE:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: break;
	}
	return -1;
}

/* The network or a NIC is the cause, not the operator or the peer. */
static bool is_fault(uint8_t reason)
{
	return reason == SHIFT_R_CQE_ERROR || reason == SHIFT_R_POST_FAILED ||
	       reason == SHIFT_R_LINK_DOWN || reason == SHIFT_R_PROBES_LOST ||
	       reason == SHIFT_R_NO_PROGRESS;
}

static void begin_record(struct stats_conn *c, const struct shift_action *report, uint64_t now_ns)
{
	uint64_t fault_ns = c->now.fault_ns;

	/* A fault that was over before this switch began is not its cause. */
	if (report->reason != SHIFT_R_LINK_DOWN &&
	    stats_since(now_ns, c->fault_seen_ns) > STATS_FAULT_GAP_NS)
		fault_ns = 0;
	memset(&c->now, 0, sizeof(c->now));
	c->now.begin_ns = now_ns;
	c->now.conn = c->id;
	c->now.qpn = c->qpn;
	c->now.from_epoch = c->epoch;
	c->now.from_rail = c->rail;
	c->now.cause = report->reason;
	c->now.joined = report->reason == SHIFT_R_PEER_SWITCH;
	c->now.planned = report->reason == SHIFT_R_OPERATOR || report->reason == SHIFT_R_FAIL_BACK;
	if (!c->now.planned && fault_ns && fault_ns <= now_ns &&
	    now_ns - fault_ns < fault_age_max_ns) {
		c->now.fault_ns = fault_ns;
		c->now.phase_ns[STATS_PHASE_DETECT] = now_ns - fault_ns;
	}
	/* The counters at the begin; end_record() makes differences of them. */
#define SNAPSHOT(name) c->now.name = c->counters.name;
	STATS_SWITCH_COUNTERS(SNAPSHOT)
#undef SNAPSHOT
}

static void set_outage(struct stats_switch *s, uint64_t now_ns)
{
	if (s->hold_ns)
		s->outage_ns = stats_since(now_ns, s->fault_ns ? s->fault_ns : s->hold_ns);
}

/* Copies the record to the ring; the slot keeps where it is. */
static void keep_record(struct stats_conn *c)
{
	struct stats_table *t = &F->h->table[TABLE_SWITCHES];
	uint64_t n = t->written;
	struct stats_switch *s = F->switches + n % STATS_SWITCHES;

	__atomic_store_n(&s->seq, 0, __ATOMIC_RELEASE);
	c->now.seq = 0;
	*s = c->now;
	__atomic_store_n(&s->seq, n + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&t->written, n + 1, __ATOMIC_RELEASE);
	c->last_switch = n + 1;
}

static void count_outage(struct stats_now *now, struct stats_conn *c, uint64_t longer_ns)
{
	uint64_t ns = c->outage_last_ns;

	c->outage_total_ns += longer_ns;
	now->outage_total_ns += longer_ns;
	if (ns > c->outage_max_ns)
		c->outage_max_ns = ns;
	if (ns > now->outage_max_ns)
		now->outage_max_ns = ns;
}

static void count_given_up(struct stats_now *now, uint8_t reason)
{
	now->given_up++;
	now->given_up_for[reason % SHIFT_R_COUNT]++;
}

static void count_switch(struct stats_conn *c, const struct stats_switch *s)
{
	struct stats_now *now = &F->h->now;
	bool committed = s->outcome == STATS_COMMITTED;

	stats_write_begin(&now->sequence);
	now->conns_moved += committed && !c->moves;
	c->moves += committed;
	now->committed += committed;
	now->abandoned += s->outcome == STATS_ABANDONED;
	if (s->outcome == STATS_GIVEN_UP)
		count_given_up(now, s->ended);
	now->failovers += committed && s->kind == STATS_FAILOVER;
	now->migrations += committed && s->kind == STATS_MIGRATION;
	now->failbacks += committed && s->kind == STATS_FAILBACK;
	if (s->outage_ns) {
		c->outage_last_ns = s->outage_ns;
		count_outage(now, c, s->outage_ns);
	}
	stats_write_end(&now->sequence);
}

static void end_record(struct stats_conn *c, const struct shift_action *report,
		       const struct shift_conn_view *view, const struct shift_conn_stats *stats,
		       enum stats_outcome outcome, uint64_t now_ns)
{
	struct stats_switch *s = &c->now;

	s->end_ns = now_ns;
	s->outcome = (uint8_t)outcome;
	if (outcome != STATS_GIVEN_UP || report->from != SHIFT_ST_GIVEUP)
		s->ended = report->reason; /* else GIVEUP's is there already */
	s->epoch = outcome == STATS_COMMITTED ? report->epoch : view->e;
	s->rail = outcome == STATS_COMMITTED ? report->rail : s->from_rail;
	s->kind = s->from_rail && !s->rail ? STATS_FAILBACK
		  : s->planned		   ? STATS_MIGRATION
					   : STATS_FAILOVER;
	memcpy(s->from_nic, c->nic[s->from_rail % SHIFT_RAILS_MAX], STATS_NIC_BYTES);
	memcpy(s->nic, c->nic[s->rail % SHIFT_RAILS_MAX], STATS_NIC_BYTES);
	set_outage(s, now_ns);
#define DIFFERENCE(name) s->name = stats->name - s->name;
	STATS_SWITCH_COUNTERS(DIFFERENCE)
#undef DIFFERENCE
	keep_record(c);
	count_switch(c, s);
	memset(s, 0, sizeof(*s));
}

/* A planned switch that a fault overtakes becomes an unplanned one. */
static void overtake_planned(struct stats_switch *s, const struct shift_action *report)
{
	if (!s->planned || !is_fault(report->reason))
		return;
	s->planned = false;
	s->cause = report->reason;
}

static void continue_record(struct stats_conn *c, const struct shift_action *report,
			    uint64_t now_ns)
{
	bool flows = report->to == SHIFT_ST_PREPARE;

	if (!flows && !c->now.hold_ns)
		c->now.hold_ns = now_ns;
	c->now.attempts += report->to == SHIFT_ST_FENCE;
	if (report->to == SHIFT_ST_GIVEUP)
		c->now.ended = report->reason;
	c->now.joined |= report->reason == SHIFT_R_PEER_SWITCH;
	overtake_planned(&c->now, report);
}

/* A connection ends without a switch: the peer died, or the time was up at the next failure. The
 * program's own mistake, and a peer that closed or ended, are not counted: they end a connection of
 * stock verbs in the same way. */
static void end_without_switch(uint8_t reason)
{
	struct stats_now *now = &F->h->now;

	if (reason == SHIFT_R_PROGRAM_ERROR || reason == SHIFT_R_PEER_CLOSED ||
	    reason == SHIFT_R_PEER_LEFT)
		return;
	stats_write_begin(&now->sequence);
	count_given_up(now, reason);
	stats_write_end(&now->sequence);
}

void stats_switch_change(struct stats_conn *c, const struct shift_action *report,
			 const struct shift_conn_view *view, const struct shift_conn_stats *stats,
			 uint64_t now_ns)
{
	int from = stats_phase_of((enum shift_state)report->from);
	enum shift_state to = (enum shift_state)report->to;
	bool is_end = to == SHIFT_ST_ACTIVE || to == SHIFT_ST_DEAD || to == SHIFT_ST_CLOSED;

	if (!c->now.begin_ns && to == SHIFT_ST_GIVEUP)
		end_without_switch(report->reason);
	if (!c->now.begin_ns &&
	    (stats_phase_of(to) < 0 || to == SHIFT_ST_GIVEUP || to == SHIFT_ST_CLOSING))
		return;
	if (!c->now.begin_ns)
		begin_record(c, report, now_ns);
	else if (from >= 0)
		c->now.phase_ns[from] += stats_since(now_ns, c->changed_ns);
	/* Only the core knows whether the peer's switch is the one that was planned with it. */
	if (report->reason == SHIFT_R_PEER_SWITCH)
		c->now.planned = view->planned;
	if (!is_end)
		continue_record(c, report, now_ns);
	else if (to != SHIFT_ST_ACTIVE)
		end_record(c, report, view, stats,
			   to == SHIFT_ST_DEAD ? STATS_GIVEN_UP : STATS_CLOSED, now_ns);
	else
		end_record(c, report, view, stats,
			   report->reason == SHIFT_R_COMMIT ? STATS_COMMITTED : STATS_ABANDONED,
			   now_ns);
}

/* The record that the last commit wrote to the ring, if it is still there and not complete. */
static struct stats_switch *last_of(const struct stats_conn *c)
{
	struct stats_switch *s = F->switches + (c->last_switch - 1) % STATS_SWITCHES;

	if (!c->last_switch || s->seq != c->last_switch || c->now.begin_ns)
		return NULL;
	return s->outcome == STATS_COMMITTED && !s->phase_ns[STATS_PHASE_REPOST] ? s : NULL;
}

void stats_conn_reposted(int slot, uint64_t now_ns)
{
	struct stats_conn *c;
	struct stats_switch *s;
	uint64_t more_ns;

	if (slot < 0 || !stats_lock())
		return;
	c = F->conns + slot;
	s = (uint64_t)slot < F->h->now.slots_used && c->id ? last_of(c) : NULL;
	if (s && now_ns > s->end_ns) {
		more_ns = now_ns - s->end_ns;
		stats_write_begin(&c->sequence);
		__atomic_store_n(&s->seq, 0, __ATOMIC_RELEASE);
		s->phase_ns[STATS_PHASE_REPOST] = more_ns;
		s->outage_ns += more_ns;
		__atomic_store_n(&s->seq, c->last_switch, __ATOMIC_RELEASE);
		c->outage_last_ns = s->outage_ns;
		stats_write_begin(&F->h->now.sequence);
		count_outage(&F->h->now, c, more_ns);
		stats_write_end(&F->h->now.sequence);
		stats_write_end(&c->sequence);
	}
	stats_unlock();
}
