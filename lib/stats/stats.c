/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The slots of the connections, the totals, the flight recorder. */
#include <string.h>

#include "lib/stats/stats_file.h"
#include "lib/stats/summary.h"
#include "lib/stats/switch_record.h"

#define F (&stats_file)

/* The connection in a slot, locked and about to be changed; or NULL. */
static struct stats_conn *change_begin(int slot)
{
	struct stats_conn *c;

	if (slot < 0 || !stats_lock())
		return NULL;
	c = F->conns + slot;
	if ((uint64_t)slot < F->h->now.slots_used && c->id) {
		stats_write_begin(&c->sequence);
		return c;
	}
	stats_unlock();
	return NULL;
}

static void change_end(struct stats_conn *c)
{
	stats_write_end(&c->sequence);
	stats_unlock();
}

/* Within a change of header.now. -1: the table is full. */
static int take_conn_slot(struct stats_now *now)
{
	int slot = (int)now->free_slot - 1;

	if (slot >= 0) {
		now->free_slot = F->conns[slot].next_free;
		return slot;
	}
	if (now->slots_used == F->conns_ready && stats_grow()) {
		now->conns_refused++;
		return -1;
	}
	return (int)now->slots_used++;
}

/* Clears all but the sequence number. */
static void clear_slot(struct stats_conn *c)
{
	memset((uint8_t *)c + sizeof(c->sequence), 0, sizeof(*c) - sizeof(c->sequence));
}

int stats_conn_add(const char *nic, uint32_t qpn, uint64_t now_ns)
{
	struct stats_now *now;
	struct stats_conn *c;
	int slot;

	if (!stats_lock())
		return -1;
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	slot = take_conn_slot(now);
	now->conns_ever += slot >= 0;
	now->conns_live += slot >= 0;
	stats_write_end(&now->sequence);
	if (slot >= 0) {
		c = F->conns + slot;
		stats_write_begin(&c->sequence);
		clear_slot(c);
		c->id = ++F->last_id;
		c->created_ns = c->updated_ns = c->changed_ns = now_ns;
		c->qpn = qpn;
		c->rails = 1;
		c->unprotected = STATS_UNPROTECTED_SETUP;
		stats_copy_name(c->nic[0], STATS_NIC_BYTES, nic);
		stats_write_end(&c->sequence);
	}
	stats_unlock();
	return slot;
}

void stats_conn_rails(int slot, unsigned int rails, const char *const *nics)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	c->rails = (uint8_t)(rails < SHIFT_RAILS_MAX ? rails : SHIFT_RAILS_MAX);
	for (unsigned int i = 0; i < c->rails; i++)
		stats_copy_name(c->nic[i], STATS_NIC_BYTES, nics[i]);
	change_end(c);
}

void stats_conn_peer(int slot, const struct stats_peer *peer)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	if (peer->gid)
		memcpy(c->gid, peer->gid, sizeof(c->gid));
	if (peer->peer_gid)
		memcpy(c->peer_gid, peer->peer_gid, sizeof(c->peer_gid));
	c->peer_qpn = peer->peer_qpn;
	c->peer_pid = peer->peer_pid;
	c->peer_nonce = peer->peer_nonce;
	stats_copy_name(c->peer_host, sizeof(c->peer_host), peer->peer_host);
	change_end(c);
}

void stats_conn_psn(int slot, unsigned int rail, enum stats_psn psn)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	if (rail < SHIFT_RAILS_MAX)
		c->psn[rail] = (uint8_t)psn;
	change_end(c);
}

void stats_conn_protect(int slot, bool is_protected, enum stats_unprotected reason)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	c->is_protected = is_protected;
	c->was_protected |= is_protected;
	c->unprotected = (uint8_t)(is_protected ? STATS_UNPROTECTED_NONE : reason);
	change_end(c);
}

void stats_conn_setup(int slot, uint64_t setup_ns)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	c->setup_ns = setup_ns;
	change_end(c);
}

void stats_conn_fault(int slot, uint64_t since_ns, uint64_t now_ns)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	/* A switch that is under way has begun for another reason. */
	if (!c->now.begin_ns) {
		bool is_new = !since_ns || !c->now.fault_ns ||
			      stats_since(now_ns, c->fault_seen_ns) > STATS_FAULT_GAP_NS;

		if (is_new || since_ns < c->now.fault_ns)
			c->now.fault_ns = since_ns;
		c->fault_seen_ns = now_ns;
	}
	change_end(c);
}

/* Within a change of c. */
static void meet_failure(struct stats_conn *c)
{
	struct stats_now *now = &F->h->now;

	if (c->is_protected || c->was_protected || c->met_failure)
		return;
	c->met_failure = true;
	stats_write_begin(&now->sequence);
	now->met_failure[c->unprotected]++;
	stats_write_end(&now->sequence);
}

void stats_conn_met_failure(int slot)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	meet_failure(c);
	change_end(c);
}

/* What is not connected does not fail with its NIC. */
static bool fails_with_nic(unsigned int reason)
{
	return reason != STATS_UNPROTECTED_SETUP && reason != STATS_UNPROTECTED_NOT_RC &&
	       reason != STATS_UNPROTECTED_LOOPBACK;
}

static void conns_meet_failure(const char *nic)
{
	for (uint64_t i = 0; i < F->h->now.slots_used; i++) {
		struct stats_conn *c = F->conns + i;

		if (!c->id || strcmp(c->nic[0], nic) || !fails_with_nic(c->unprotected))
			continue;
		stats_write_begin(&c->sequence);
		meet_failure(c);
		stats_write_end(&c->sequence);
	}
}

void stats_nic_met_failure(const char *nic)
{
	char name[STATS_NIC_BYTES];
	struct stats_now *now;

	stats_copy_name(name, sizeof(name), nic);
	if (!stats_lock())
		return;
	conns_meet_failure(name);
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	for (int i = 0; i < STATS_BYPASS_MAX; i++) {
		struct stats_bypass *b = now->bypass + i;

		if (strcmp(b->nic, name) || !fails_with_nic(b->reason))
			continue;
		now->met_failure[b->reason] += b->count - b->met_failure;
		b->met_failure = b->count;
	}
	stats_write_end(&now->sequence);
	stats_unlock();
}

static void copy_view(struct stats_conn *c, const struct shift_conn_view *view, uint64_t now_ns)
{
	c->updated_ns = now_ns;
	c->state = (uint8_t)view->state;
	c->reason = (uint8_t)view->reason;
	c->rail = view->r;
	c->target_rail = view->target_r;
	c->holding = view->holding;
	c->epoch = view->e;
	c->target_epoch = view->target_e;
	c->committed_epoch = view->lastc;
	c->send_posted = view->send_head;
	c->send_done = view->send_tail;
	c->recv_posted = view->recv_posted;
	c->recv_done = view->recv_cum;
}

static void record_event(const struct stats_conn *c, const struct shift_action *report,
			 uint64_t now_ns)
{
	struct stats_table *t = &F->h->table[TABLE_EVENTS];
	uint64_t n = t->written;
	struct stats_event *e = F->events + n % STATS_EVENTS;

	__atomic_store_n(&e->seq, 0, __ATOMIC_RELEASE);
	e->time_ns = now_ns;
	e->conn = c->id;
	e->qpn = c->qpn;
	e->epoch = report->epoch;
	e->from = report->from;
	e->to = report->to;
	e->reason = report->reason;
	e->rail = report->rail;
	e->kind = 0;
	memcpy(e->nic, c->nic[report->rail % SHIFT_RAILS_MAX], sizeof(e->nic));
	__atomic_store_n(&e->seq, n + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&t->written, n + 1, __ATOMIC_RELEASE);
}

void stats_conn_change(int slot, const struct shift_action *report,
		       const struct shift_conn_view *view, const struct shift_conn_stats *stats,
		       uint64_t now_ns)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	record_event(c, report, now_ns);
	stats_switch_change(c, report, view, stats, now_ns);
	copy_view(c, view, now_ns);
	c->changed_ns = now_ns;
	c->counters = *stats;
	change_end(c);
}

void stats_conn_update(int slot, const struct shift_conn_view *view,
		       const struct shift_conn_stats *stats, uint64_t now_ns)
{
	struct stats_conn *c = change_begin(slot);

	if (!c)
		return;
	copy_view(c, view, now_ns);
	c->counters = *stats;
	change_end(c);
}

void stats_conn_remove(int slot, uint64_t now_ns)
{
	static const struct shift_conn_view closed = {.state = SHIFT_ST_CLOSED};
	struct shift_action report = {.to = SHIFT_ST_CLOSED, .reason = SHIFT_R_CLOSE};
	struct stats_conn *c = change_begin(slot);
	struct stats_now *now;

	if (!c)
		return;
	report.from = c->state;
	if (c->now.begin_ns)
		stats_switch_change(c, &report, &closed, &c->counters, now_ns);
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	now->conns_live--;
	now->gone++;
	now->gone_protected += c->was_protected;
	if (!c->was_protected)
		now->gone_unprotected[c->unprotected]++;
	stats_add_counters(&now->gone_counters, &c->counters);
	clear_slot(c);
	c->next_free = (uint32_t)now->free_slot;
	now->free_slot = (uint64_t)slot + 1;
	stats_write_end(&now->sequence);
	change_end(c);
}

void stats_event_hidden(void)
{
	if (!stats_lock())
		return;
	stats_write_begin(&F->h->now.sequence);
	F->h->now.events_hidden++;
	stats_write_end(&F->h->now.sequence);
	stats_unlock();
}

void stats_bypass(const char *nic, enum stats_unprotected reason)
{
	struct stats_bypass *b, wanted = {.reason = reason};

	if (!stats_lock())
		return;
	stats_copy_name(wanted.nic, sizeof(wanted.nic), nic);
	stats_write_begin(&F->h->now.sequence);
	for (b = F->h->now.bypass; b < F->h->now.bypass + STATS_BYPASS_MAX; b++) {
		if (b->count && (b->reason != reason || strcmp(b->nic, wanted.nic)))
			continue;
		wanted.count = b->count + 1;
		wanted.met_failure = b->met_failure;
		*b = wanted;
		break;
	}
	stats_write_end(&F->h->now.sequence);
	stats_unlock();
}
