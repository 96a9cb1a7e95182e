/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/stats/json.h"
#include "lib/stats/note_names.h"
#include "lib/stats/totals.h"

/* Exact below 2^53, which is 104 days in ns. */
static void add_number(cJSON *o, const char *key, uint64_t n)
{
	cJSON_AddNumberToObject(o, key, (double)n);
}

static void add_us(cJSON *o, const char *key, uint64_t ns)
{
	cJSON_AddNumberToObject(o, key, (double)ns / 1e3);
}

/* Unix time with microseconds. */
static void add_moment(cJSON *o, const struct stats_copy *copy, uint64_t time_ns)
{
	uint64_t real_us = stats_real_ns(copy, time_ns) / 1000;

	cJSON_AddNumberToObject(o, "unix_s", (double)real_us / 1e6);
	add_number(o, "monotonic_ns", time_ns);
}

static void add_hex(cJSON *o, const char *key, uint64_t n)
{
	char text[20];

	snprintf(text, sizeof(text), "%016" PRIx64, n);
	cJSON_AddStringToObject(o, key, text);
}

static void add_gid(cJSON *o, const char *key, const uint8_t *bytes)
{
	static const uint8_t none[16];
	char text[INET6_ADDRSTRLEN];

	if (!memcmp(bytes, none, sizeof(none)))
		cJSON_AddNullToObject(o, key);
	else
		cJSON_AddStringToObject(o, key, inet_ntop(AF_INET6, bytes, text, sizeof(text)));
}

const char *stats_life_name(enum stats_life life)
{
	switch (life) {
	case STATS_RUNNING: return "running";
	case STATS_ENDED: return "ended";
	case STATS_DEAD: return "crashed";
	case STATS_UNKNOWN: break;
	}
	return "unknown";
}

static cJSON *counters_json(const struct shift_conn_stats *stats)
{
	cJSON *o = cJSON_CreateObject();

#define COUNTER(name) add_number(o, #name, stats->name);
	SHIFT_STATS(COUNTER)
#undef COUNTER
	return o;
}

static cJSON *srq_counters_json(const struct shift_srq_stats *stats)
{
	cJSON *o = cJSON_CreateObject();

#define COUNTER(name) add_number(o, #name, stats->name);
	SHIFT_SRQ_STATS(COUNTER)
#undef COUNTER
	return o;
}

static cJSON *phases_json(const struct stats_switch *s)
{
	cJSON *o = cJSON_CreateObject();

	for (unsigned int i = 0; i < STATS_PHASE_COUNT; i++) {
		if (i == STATS_PHASE_DETECT && !s->fault_ns)
			cJSON_AddNullToObject(o, stats_phase_name(i));
		else
			add_us(o, stats_phase_name(i), s->phase_ns[i]);
	}
	return o;
}

static cJSON *end_point(unsigned int rail, const char *nic, uint32_t epoch)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "rail", rail);
	cJSON_AddStringToObject(o, "nic", nic);
	add_number(o, "epoch", epoch);
	return o;
}

static void add_requests(cJSON *o, const struct stats_switch *s)
{
	cJSON *requests = cJSON_AddObjectToObject(o, "requests");

#define COUNTER(name) add_number(requests, #name, s->name);
	STATS_SWITCH_COUNTERS(COUNTER)
#undef COUNTER
}

cJSON *stats_json_switch(const struct stats_copy *copy, const struct stats_switch *s)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "connection", s->conn);
	add_number(o, "qpn", s->qpn);
	add_moment(o, copy, s->begin_ns);
	cJSON_AddStringToObject(o, "cause", shift_reason_name(s->cause));
	cJSON_AddStringToObject(o, "outcome", stats_outcome_name(s->outcome));
	cJSON_AddBoolToObject(o, "planned", s->planned);
	cJSON_AddBoolToObject(o, "joined", s->joined);
	add_number(o, "attempts", s->attempts);
	if (s->outcome != STATS_UNDER_WAY) {
		cJSON_AddStringToObject(o, "kind", stats_kind_name(s->kind));
		cJSON_AddStringToObject(o, "ended_by", shift_reason_name(s->ended));
		cJSON_AddItemToObject(o, "from",
				      end_point(s->from_rail, s->from_nic, s->from_epoch));
		cJSON_AddItemToObject(o, "to", end_point(s->rail, s->nic, s->epoch));
		add_us(o, "outage_us", s->outage_ns);
		add_requests(o, s);
	}
	cJSON_AddItemToObject(o, "phases_us", phases_json(s));
	return o;
}

cJSON *stats_json_event(const struct stats_copy *copy, const struct stats_event *e)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "number", e->seq - 1);
	add_moment(o, copy, e->time_ns);
	add_number(o, "connection", e->conn);
	add_number(o, "qpn", e->qpn);
	cJSON_AddStringToObject(o, "from", shift_state_name(e->from));
	cJSON_AddStringToObject(o, "to", shift_state_name(e->to));
	cJSON_AddStringToObject(o, "reason", shift_reason_name(e->reason));
	add_number(o, "rail", e->rail);
	cJSON_AddStringToObject(o, "nic", e->nic);
	add_number(o, "epoch", e->epoch);
	return o;
}

cJSON *stats_json_events(const struct stats_copy *copy)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < copy->event_count; i++)
		cJSON_AddItemToArray(list, stats_json_event(copy, copy->events + i));
	return list;
}

/* --- notes ------------------------------------------------------------------------------------ */

const struct stats_conn *stats_conn_of(const struct stats_copy *copy, const struct stats_note *n)
{
	for (size_t i = 0; i < copy->conn_count; i++)
		if (n->qp && copy->conns[i].id == n->qp)
			return copy->conns + i;
	return NULL;
}

static void add_note_peer(cJSON *o, const struct stats_copy *copy, const struct stats_note *n)
{
	const struct stats_conn *c = stats_conn_of(copy, n);
	cJSON *peer;

	if (!n->peer_qpn) {
		cJSON_AddNullToObject(o, "peer");
		return;
	}
	peer = cJSON_AddObjectToObject(o, "peer");
	cJSON_AddStringToObject(peer, "host", c ? c->peer_host : "");
	add_gid(peer, "gid", n->peer_gid);
	add_number(peer, "qpn", n->peer_qpn);
}

static cJSON *note_json(const struct stats_copy *copy, const struct stats_note *n)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "number", n->seq - 1);
	add_moment(o, copy, n->time_ns);
	if (n->qp)
		add_number(o, "qp", n->qp);
	else
		cJSON_AddNullToObject(o, "qp");
	if (n->qpn)
		add_number(o, "qpn", n->qpn);
	else
		cJSON_AddNullToObject(o, "qpn");
	cJSON_AddStringToObject(o, "nic", n->nic);
	return o;
}

/* Of a QP. */
static void add_note_protection(cJSON *o, const struct stats_note *n)
{
	cJSON_AddBoolToObject(o, "protected", n->is_protected);
	if (n->is_protected || !n->qp)
		cJSON_AddNullToObject(o, "unprotected");
	else
		cJSON_AddStringToObject(o, "unprotected", stats_unprotected_name(n->unprotected));
}

static void add_name_or_null(cJSON *o, const char *key, const char *name)
{
	if (*name == '?')
		cJSON_AddNullToObject(o, key);
	else
		cJSON_AddStringToObject(o, key, name);
}

cJSON *stats_json_error(const struct stats_copy *copy, const struct stats_note *n)
{
	cJSON *o = note_json(copy, n);

	add_name_or_null(o, "status", stats_status_name(n->what));
	add_number(o, "status_number", n->what);
	add_number(o, "vendor_err", n->vendor_err);
	add_name_or_null(o, "queue", stats_queue_name(n->queue));
	add_name_or_null(o, "opcode", stats_opcode_name(n->opcode));
	cJSON_AddStringToObject(o, "fate", stats_fate_name(n->fate));
	add_note_protection(o, n);
	add_number(o, "rail", n->rail);
	add_number(o, "epoch", n->epoch);
	add_note_peer(o, copy, n);
	add_number(o, "more", n->more);
	add_number(o, "flushed", n->flushed);
	add_us(o, "lasted_us", n->last_ns > n->time_ns ? n->last_ns - n->time_ns : 0);
	return o;
}

cJSON *stats_json_async(const struct stats_copy *copy, const struct stats_note *n)
{
	cJSON *o = note_json(copy, n);

	add_name_or_null(o, "event", stats_async_name(n->what));
	add_number(o, "event_number", n->what);
	if (n->port)
		add_number(o, "port", n->port);
	else
		cJSON_AddNullToObject(o, "port");
	cJSON_AddStringToObject(o, "fate", stats_fate_name(n->fate));
	return o;
}

cJSON *stats_json_life(const struct stats_copy *copy, const struct stats_note *n)
{
	cJSON *o = note_json(copy, n);

	add_name_or_null(o, "state", stats_qp_state_name(n->what));
	add_note_protection(o, n);
	add_note_peer(o, copy, n);
	return o;
}

static void add_note_list(cJSON *o, const char *key, const struct stats_copy *copy,
			  const struct stats_notes *notes,
			  cJSON *(*json)(const struct stats_copy *copy, const struct stats_note *n))
{
	cJSON *list = cJSON_AddArrayToObject(o, key);
	char lost[64];

	for (size_t i = 0; i < notes->count; i++)
		cJSON_AddItemToArray(list, json(copy, notes->note + i));
	snprintf(lost, sizeof(lost), "%s_lost", key);
	add_number(o, lost, notes->written - notes->count);
}

void stats_json_add_notes(cJSON *o, const struct stats_copy *copy)
{
	add_note_list(o, "error_completions", copy, &copy->errors, stats_json_error);
	add_note_list(o, "async_events", copy, &copy->asyncs, stats_json_async);
	add_note_list(o, "queue_pairs", copy, &copy->lives, stats_json_life);
}

/* --- connections ------------------------------------------------------------------------------ */

static void add_peer(cJSON *o, const struct stats_conn *c)
{
	cJSON *peer = cJSON_AddObjectToObject(o, "peer");

	cJSON_AddStringToObject(peer, "host", c->peer_host);
	add_number(peer, "pid", c->peer_pid);
	add_hex(peer, "nonce", c->peer_nonce);
	add_gid(peer, "gid", c->peer_gid);
	add_number(peer, "qpn", c->peer_qpn);
}

static void add_rails(cJSON *o, const struct stats_conn *c)
{
	cJSON *list = cJSON_AddArrayToObject(o, "rails");

	for (unsigned int i = 0; i < c->rails; i++) {
		cJSON *rail = cJSON_CreateObject();

		cJSON_AddStringToObject(rail, "nic", c->nic[i]);
		cJSON_AddStringToObject(rail, "rq_psn", stats_psn_name(c->psn[i]));
		cJSON_AddItemToArray(list, rail);
	}
}

static void add_protection(cJSON *o, const struct stats_conn *c)
{
	cJSON_AddBoolToObject(o, "protected", c->is_protected);
	if (c->is_protected) {
		cJSON_AddNullToObject(o, "unprotected");
		return;
	}
	cJSON_AddStringToObject(o, "unprotected", stats_unprotected_name(c->unprotected));
	cJSON_AddStringToObject(o, "unprotected_text", stats_unprotected_text(c->unprotected));
}

static void add_queue(cJSON *o, const char *key, uint64_t posted, uint64_t done)
{
	cJSON *queue = cJSON_AddObjectToObject(o, key);

	add_number(queue, "posted", posted);
	add_number(queue, "done", done);
}

static cJSON *conn_json(const struct stats_copy *copy, const struct stats_conn *c)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "connection", c->id);
	add_number(o, "qpn", c->qpn);
	add_gid(o, "gid", c->gid);
	add_peer(o, c);
	add_protection(o, c);
	cJSON_AddStringToObject(o, "state", shift_state_name(c->state));
	cJSON_AddStringToObject(o, "reason", shift_reason_name(c->reason));
	add_number(o, "rail", c->rail);
	cJSON_AddStringToObject(o, "nic", c->nic[c->rail]);
	add_number(o, "epoch", c->epoch);
	add_rails(o, c);
	add_us(o, "setup_us", c->setup_ns);
	add_number(o, "moves", c->moves);
	add_us(o, "outage_last_us", c->outage_last_ns);
	add_us(o, "outage_max_us", c->outage_max_ns);
	add_us(o, "outage_total_us", c->outage_total_ns);
	add_queue(o, "sends", c->send_posted, c->send_done);
	add_queue(o, "receives", c->recv_posted, c->recv_done);
	cJSON_AddItemToObject(o, "counters", counters_json(&c->counters));
	cJSON_AddItemToObject(o, "switch_under_way",
			      c->now.begin_ns ? stats_json_switch(copy, &c->now)
					      : cJSON_CreateNull());
	return o;
}

static void add_srq_nics(cJSON *o, const struct stats_srq *q)
{
	cJSON *list = cJSON_AddArrayToObject(o, "nics");

	for (unsigned int i = 0; i < q->rails; i++) {
		const struct stats_srq_nic *n = q->now.nic + i;
		cJSON *nic = cJSON_CreateObject();

		cJSON_AddStringToObject(nic, "nic", q->nic[i]);
		add_number(nic, "receives", n->receives);
		add_number(nic, "held", n->held);
		add_number(nic, "ghosts", n->ghosts);
		add_number(nic, "queue_pairs", n->live);
		cJSON_AddBoolToObject(nic, "gives_back", !n->stuck);
		cJSON_AddItemToArray(list, nic);
	}
}

static cJSON *srq_json(const struct stats_srq *q)
{
	cJSON *o = cJSON_CreateObject();

	add_number(o, "queue", q->id);
	add_number(o, "room", q->now.room);
	add_number(o, "posted", q->now.posted);
	add_number(o, "waiting", q->now.waiting);
	add_srq_nics(o, q);
	cJSON_AddItemToObject(o, "counters", srq_counters_json(&q->now.counters));
	return o;
}

static void add_srq_totals(cJSON *o, const struct stats_totals *t)
{
	cJSON *srqs = cJSON_AddObjectToObject(o, "shared_receive_queues");

	add_number(srqs, "ever", t->now.srqs_ever);
	add_number(srqs, "live", t->now.srqs_live);
	add_number(srqs, "refused", t->now.srqs_refused);
	cJSON_AddItemToObject(srqs, "counters", srq_counters_json(&t->srq_counters));
}

static void add_fates(cJSON *o, const uint64_t *count)
{
	for (unsigned int i = 0; i < STATS_FATE_COUNT; i++)
		add_number(o, stats_fate_name(i), count[i]);
}

static void add_note_totals(cJSON *o, const struct stats_now *now)
{
	cJSON *errors = cJSON_AddObjectToObject(o, "error_completions");
	uint64_t flushes = 0;

	add_fates(errors, now->errors);
	for (unsigned int i = 0; i < STATS_FATE_COUNT; i++)
		flushes += now->flushes[i];
	add_number(errors, "flushes", flushes);
	add_number(errors, "unprotected", now->errors_unprotected);
	add_fates(cJSON_AddObjectToObject(o, "async_events"), now->asyncs);
}

cJSON *stats_json_totals(const struct stats_totals *t)
{
	cJSON *o = cJSON_CreateObject(), *reasons;

	add_number(o, "processes", t->processes);
	add_number(o, "connections", t->queue_pairs);
	add_number(o, "connections_live", t->now.conns_live);
	add_number(o, "connections_refused", t->now.conns_refused);
	add_number(o, "protected", t->conns_protected);
	reasons = cJSON_AddObjectToObject(o, "unprotected");
	for (unsigned int i = 1; i < STATS_UNPROTECTED_COUNT; i++)
		if (t->unprotected[i])
			add_number(reasons, stats_unprotected_name(i), t->unprotected[i]);
	add_number(o, "moved", t->now.conns_moved);
	add_number(o, "switches", t->now.committed);
	add_number(o, "failovers", t->now.failovers);
	add_number(o, "migrations", t->now.migrations);
	add_number(o, "failbacks", t->now.failbacks);
	add_number(o, "abandoned", t->now.abandoned);
	add_number(o, "given_up", t->now.given_up);
	reasons = cJSON_AddObjectToObject(o, "given_up_for");
	for (unsigned int i = 0; i < SHIFT_R_COUNT; i++)
		if (t->now.given_up_for[i])
			add_number(reasons, shift_reason_name(i), t->now.given_up_for[i]);
	reasons = cJSON_AddObjectToObject(o, "unprotected_failed");
	for (unsigned int i = 1; i < STATS_UNPROTECTED_COUNT; i++)
		if (t->now.met_failure[i])
			add_number(reasons, stats_unprotected_name(i), t->now.met_failure[i]);
	add_us(o, "outage_max_us", t->now.outage_max_ns);
	add_us(o, "outage_total_us", t->now.outage_total_ns);
	add_number(o, "events_hidden", t->now.events_hidden);
	add_note_totals(o, &t->now);
	add_number(o, "in_doubt", t->counters.maybe_twice + t->counters.lost_atomics);
	cJSON_AddItemToObject(o, "counters", counters_json(&t->counters));
	if (t->now.srqs_ever + t->now.srqs_refused)
		add_srq_totals(o, t);
	return o;
}

static void add_bypass(cJSON *o, const struct stats_copy *copy)
{
	cJSON *list = cJSON_AddArrayToObject(o, "passed_through");

	for (int i = 0; i < STATS_BYPASS_MAX; i++) {
		const struct stats_bypass *b = copy->h.now.bypass + i;
		cJSON *entry;

		if (!b->count)
			continue;
		entry = cJSON_CreateObject();
		cJSON_AddStringToObject(entry, "nic", b->nic);
		cJSON_AddStringToObject(entry, "unprotected", stats_unprotected_name(b->reason));
		cJSON_AddStringToObject(entry, "unprotected_text",
					stats_unprotected_text(b->reason));
		add_number(entry, "count", b->count);
		cJSON_AddItemToArray(list, entry);
	}
}

static void add_lists(cJSON *o, const struct stats_copy *copy)
{
	cJSON *list = cJSON_AddArrayToObject(o, "connections");

	for (size_t i = 0; i < copy->conn_count; i++)
		cJSON_AddItemToArray(list, conn_json(copy, copy->conns + i));
	add_bypass(o, copy);
	list = cJSON_AddArrayToObject(o, "shared_receive_queues");
	for (size_t i = 0; i < copy->srq_count; i++)
		cJSON_AddItemToArray(list, srq_json(copy->srqs + i));
	list = cJSON_AddArrayToObject(o, "switches");
	for (size_t i = 0; i < copy->switch_count; i++)
		cJSON_AddItemToArray(list, stats_json_switch(copy, copy->switches + i));
	add_number(o, "switches_lost", copy->switches_written - copy->switch_count);
}

cJSON *stats_json_process(const struct stats_copy *copy)
{
	struct stats_totals totals = {0};
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "job", copy->h.job);
	cJSON_AddStringToObject(o, "host", copy->h.host);
	add_number(o, "pid", copy->h.pid);
	add_number(o, "uid", copy->owner);
	add_hex(o, "nonce", copy->h.nonce);
	cJSON_AddStringToObject(o, "name", copy->h.comm);
	cJSON_AddStringToObject(o, "command", copy->h.command);
	cJSON_AddStringToObject(o, "life", stats_life_name(copy->life));
	add_moment(o, copy, copy->h.opened_ns);
	cJSON_AddBoolToObject(o, "torn", copy->torn);
	stats_totals_add(&totals, copy);
	cJSON_AddItemToObject(o, "totals", stats_json_totals(&totals));
	add_lists(o, copy);
	return o;
}
