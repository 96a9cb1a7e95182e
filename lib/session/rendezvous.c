/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/memlock.h"
#include "lib/session/job.h"
#include "lib/session/path_health.h"
#include "lib/session/peer_paths.h"
#include "lib/session/tombstones.h"

#define MS		  1000000ull
#define INTERVAL_FIRST_NS (10 * MS)   /* how often all are checked at first; */
#define INTERVAL_LAST_NS  (1000 * MS) /* the interval grows to this while peers do not come */
#define ALL_MAX_NS	  (300 * MS)  /* after this we publish even if twins are missing */
#define NO_PEER_NS	  (10000 * MS)
#define RECORD_VERSION	  1

/* What is published for a connection, with as many rails as it says. */
struct record {
	uint8_t version;
	uint8_t rails;
	uint8_t pad[2];
	uint32_t id;
	uint64_t nonce;
	struct rail_addr rail[SHIFT_RAILS_MAX];
};

#define RECORD_BYTES(rails) (offsetof(struct record, rail) + (rails) * sizeof(struct rail_addr))

_Static_assert(sizeof(struct record) == RECORD_BYTES(SHIFT_RAILS_MAX),
	       "a record that is not too long has no more rails than there can be");

/* A connection on its way to its peer. */
struct meeting {
	struct vqp *v;
	struct meeting *next;
	uint64_t since;
	char key[KV_KEY_MAX / 4], peer_key[KV_KEY_MAX / 4];
	union ibv_gid gid, dest_gid; /* what the two keys are made of, with the QPNs; constant */
	uint32_t dest_qpn;	     /* once they are known */
	bool named;
	bool settled;  /* there is nothing left to wait for */
	bool reported; /* it was reported that no peer has come, or the wrong one */
	uint16_t published_bytes;
	struct record published;
};

static void rendezvous_run(void *arg);

static struct bg_timer run_timer = {.fn = rendezvous_run};
static uint64_t interval_ns = INTERVAL_FIRST_NS;
static struct meeting *meetings;

void rendezvous_wake(void)
{
	interval_ns = INTERVAL_FIRST_NS;
	bg_timer_set(&run_timer, now_ns());
}

/* --- one connection -------------------------------------------------------------------------- */

static void conn_key(char *key, size_t size, const union ibv_gid *gid, uint32_t qpn)
{
	int n = snprintf(key, size, "conn/");

	for (unsigned int i = 0; i < sizeof(gid->raw); i++)
		n += snprintf(key + n, size - (size_t)n, "%02x", gid->raw[i]);
	snprintf(key + n, size - (size_t)n, "-%06x", qpn);
}

static void conn_unprotected(struct vqp *v, enum stats_unprotected why)
{
	stats_conn_protect(v->stats, false, why);
	log_info("QP %#x is not protected: %s", v->qp->qp_num, stats_unprotected_text(why));
}

/* Of our QP on that rail. The resolver reads it when it arms. */
static void set_gid(struct vqp *v, uint8_t rail, const union ibv_gid *gid, int index)
{
	pthread_mutex_lock(&v->lock);
	v->rails.twin[rail].gid = *gid;
	v->rails.twin[rail].gid_index = index;
	pthread_mutex_unlock(&v->lock);
}

/* Our own address on rail 0, as the peer's program knows it. */
static bool meeting_name(struct meeting *m)
{
	struct vqp *v = m->v;
	struct ibv_qp_attr attr;
	const struct ibv_ah_attr *ah = &attr.ah_attr;
	union ibv_gid gid;

	pthread_mutex_lock(&v->lock);
	attr = v->program.attr;
	pthread_mutex_unlock(&v->lock);
	if (!v->dev->nic[0]->ready || real.query_gid(v->dev->nic[0]->ctx, attr.port_num,
						     ah->is_global ? ah->grh.sgid_index : 0, &gid))
		return false;
	set_gid(v, 0, &gid, 0);
	if (attr.port_num != v->dev->nic[0]->port) {
		conn_unprotected(v, STATS_UNPROTECTED_ATTRIBUTES);
		m->settled = true;
		return false;
	}
	conn_key(m->key, sizeof(m->key), &gid, v->qp->qp_num);
	conn_key(m->peer_key, sizeof(m->peer_key), &ah->grh.dgid, attr.dest_qp_num);
	if (!strcmp(m->key, m->peer_key)) {
		conn_unprotected(v, STATS_UNPROTECTED_LOOPBACK);
		m->settled = true;
		return false;
	}
	m->gid = gid;
	m->dest_gid = ah->grh.dgid;
	m->dest_qpn = attr.dest_qp_num;
	m->named = true;
	return true;
}

static void describe_rail(struct vqp *v, uint8_t i, struct rail_addr *r)
{
	struct nic *nic = v->dev->nic[i];
	struct ibv_qp *qp = vqp_rail_qp(v, i);

	memset(r, 0, sizeof(*r));
	r->nic = nic->index;
	if (!nic->ready)
		return;
	r->psn = (uint8_t)vqp_psn(v, i);
	ctrl_link_address(nic, &r->link);
	r->mtu_bytes = (uint16_t)nic->mtu_bytes;
	r->lid = nic->port_attr.lid;
	r->gid = v->rails.twin[i].gid;
	if (i && qp) {
		int index = nic_gid_like(nic, &v->rails.twin[0].gid, &r->gid);

		if (index < 0)
			return;
		set_gid(v, i, &r->gid, index);
	}
	r->qpn = qp ? qp->qp_num : 0;
}

static bool twins_done(const struct vqp *v)
{
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (!atomic_load(&v->rails.twin[i].qp) && !v->rails.twin[i].failed)
			return false;
	return true;
}

/* Is it known of each of our NICs whether its rq_psn is live, or can it not be known soon? */
static bool psns_known(const struct vqp *v)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (!v->dev->nic[i]->psn_tried && v->dev->nic[i]->psn == STATS_PSN_UNMEASURED)
			return false;
	return true;
}

static void meeting_publish(struct meeting *m, uint64_t now)
{
	struct vqp *v = m->v;
	struct record r = {.version = RECORD_VERSION,
			   .rails = v->dev->rails,
			   .id = v->id,
			   .nonce = job_nonce()};
	uint16_t bytes = (uint16_t)RECORD_BYTES(r.rails);

	if (!m->published_bytes && !(twins_done(v) && psns_known(v)) && now - m->since < ALL_MAX_NS)
		return;
	for (uint8_t i = 0; i < r.rails; i++)
		describe_rail(v, i, &r.rail[i]);
	if (m->published_bytes == bytes && !memcmp(&m->published, &r, bytes))
		return;
	if (kv_client_put(job_client(), m->key, &r, bytes))
		return;
	m->published = r;
	m->published_bytes = bytes;
}

static bool meeting_find_peer(struct meeting *m, struct record *r)
{
	const void *value;
	size_t bytes;

	if (kv_client_get(job_client(), m->peer_key, &value, &bytes) || bytes > sizeof(*r) ||
	    bytes < RECORD_BYTES(1))
		return false;
	memset(r, 0, sizeof(*r));
	memcpy(r, value, bytes);
	return r->version == RECORD_VERSION && r->rails && bytes == RECORD_BYTES(r->rails) &&
	       r->nonce && r->rail[0].link.qpn;
}

/* Computes the connection's number, which is the same on both sides, and which side we are. */
static void meeting_identify(const struct meeting *m, const struct record *r,
			     struct shift_conn_peer *p)
{
	struct shift_end ours = {.qpn = m->v->qp->qp_num, .id = m->v->id, .nonce = job_nonce()};
	struct shift_end theirs = {.qpn = m->dest_qpn, .id = r->id, .nonce = r->nonce};

	memcpy(ours.gid, m->gid.raw, sizeof(ours.gid));
	memcpy(theirs.gid, m->dest_gid.raw, sizeof(theirs.gid));
	p->conn = shift_conn_number(job_key_if_known(), &ours, &theirs, &p->side);
}

static uint32_t twin_mtu(const struct nic *nic, const struct rail_addr *peer)
{
	uint32_t ours = nic->ready ? nic->mtu_bytes : 1024;
	uint32_t theirs = peer->mtu_bytes ? peer->mtu_bytes : 1024;

	return ours < theirs ? ours : theirs;
}

static void release_paths(struct vqp *v)
{
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++) {
		peer_path_put(v->rails.twin[i].path);
		v->rails.twin[i].path = NULL;
	}
}

static void say_hello(struct vqp *v, uint8_t rails)
{
	for (uint8_t i = 0; i < rails; i++) {
		if (i)
			vqp_rail_event(v, SHIFT_EV_RAIL_VETO, i); /* until both twins exist */
		if (env.link_events && v->dev->nic[i]->ready && !v->dev->nic[i]->link_up)
			vqp_rail_event(v, SHIFT_EV_LINK_DOWN, i);
		if (v->rails.twin[i].path && path_health_answers(v->rails.twin[i].path))
			vqp_rail_event(v, SHIFT_EV_PROBE_OK, i);
	}
	vqp_rail_event(v, SHIFT_EV_RTS, 0);
}

static void report_peer_psns(struct vqp *v, const struct record *r)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		stats_conn_psn(v->stats, i,
			       r->rail[i].psn <= STATS_PSN_STALE ? (enum stats_psn)r->rail[i].psn
								 : STATS_PSN_UNMEASURED);
}

static void report_peer(struct vqp *v, const struct record *r)
{
	const char *names[SHIFT_RAILS_MAX];
	struct stats_peer peer = {.gid = v->rails.twin[0].gid.raw,
				  .peer_gid = v->program.attr.ah_attr.grh.dgid.raw,
				  .peer_qpn = v->program.attr.dest_qp_num,
				  .peer_nonce = r->nonce};

	for (uint8_t i = 0; i < v->dev->rails; i++)
		names[i] = v->dev->nic[i]->name;
	report_peer_psns(v, r);
	stats_conn_rails(v->stats, v->dev->rails, names);
	stats_conn_peer(v->stats, &peer);
}

static void meeting_match(struct meeting *m, const struct record *r)
{
	struct vqp *v = m->v;
	struct shift_conn_peer p = {.key = {job_key_if_known()[0], job_key_if_known()[1]},
				    .nonce = r->nonce,
				    .id = r->id,
				    .rails = r->rails};

	if (p.rails > v->dev->rails)
		p.rails = v->dev->rails;
	meeting_identify(m, r, &p);
	vqp_enter(v);
	for (uint8_t i = 1; i < p.rails; i++)
		p.mtu[i] = v->rails.twin[i].mtu = twin_mtu(v->dev->nic[i], &r->rail[i]);
	if (shift_conn_meet(v->conn, &p)) {
		report_peer(v, r);
		release_paths(v);
		for (uint8_t i = 0; i < p.rails; i++)
			if (r->rail[i].link.qpn && v->dev->nic[i]->ready)
				v->rails.twin[i].path = peer_path_get(v->dev->nic[i], r->nonce,
								      &r->rail[i]);
		v->setup.peer_nonce = r->nonce;
		v->setup.peer_id = r->id;
		v->setup.peer_rails = p.rails;
		v->setup.met = true;
		say_hello(v, p.rails);
	}
	vqp_leave(v);
}

/* Tells the core of each backup rail whose twins exist at both ends. true: that is all of them. */
static bool rails_ready(struct meeting *m, const struct record *r)
{
	struct vqp *v = m->v;
	bool all = true;

	for (uint8_t i = 1; i < v->setup.peer_rails; i++) {
		struct twin *t = &v->rails.twin[i];

		if (t->clean)
			continue;
		if (!t->path && r->rail[i].link.qpn && v->dev->nic[i]->ready) {
			vqp_enter(v);
			t->path = peer_path_get(v->dev->nic[i], r->nonce, &r->rail[i]);
			vqp_leave(v);
		}
		if (!t->path || !atomic_load(&t->qp) || v->rails.jobs[i].stale || !r->rail[i].qpn ||
		    r->rail[i].mtu_bytes < t->mtu || v->dev->nic[i]->mtu_bytes < t->mtu) {
			all = false;
			continue;
		}
		vqp_enter(v);
		t->peer = r->rail[i];
		t->clean = true;
		memlock_update_rails(v);
		vqp_rail_open(v, i);
		vqp_leave(v);
	}
	return all;
}

/* Is the record of the life of the peer's QP that we have met? */
static bool is_of_peer(const struct vqp *v, const struct record *r)
{
	return v->setup.met && r->nonce == v->setup.peer_nonce && r->id == v->setup.peer_id;
}

static bool in_setup(struct vqp *v)
{
	struct shift_conn_view view;

	pthread_mutex_lock(&v->lock);
	shift_conn_view(v->conn, &view);
	pthread_mutex_unlock(&v->lock);
	return view.state == SHIFT_ST_SETUP;
}

void rendezvous_published(const char *key)
{
	struct record r;

	for (struct meeting *m = meetings; m; m = m->next)
		if (m->settled && m->v->setup.met && !strcmp(m->peer_key, key) &&
		    meeting_find_peer(m, &r) && is_of_peer(m->v, &r))
			report_peer_psns(m->v, &r);
	rendezvous_wake();
}

/* The QP may have reached RTS only now. */
static void say_hello_again(struct vqp *v)
{
	vqp_enter(v);
	vqp_rail_event(v, SHIFT_EV_RTS, 0);
	vqp_leave(v);
}

/* Why the peer has not come, or why HELLO does not match; NONE: neither is the case. */
static enum stats_unprotected meeting_judge(struct vqp *v)
{
	bool mismatch;

	if (!v->setup.met)
		return !job_key_if_known() ? STATS_UNPROTECTED_NO_RENDEZVOUS
		       : job_is_full()	   ? STATS_UNPROTECTED_RENDEZVOUS_FULL
					   : STATS_UNPROTECTED_NO_PEER_LIBRARY;
	pthread_mutex_lock(&v->lock);
	mismatch = shift_conn_stats(v->conn)->hello_mismatch;
	pthread_mutex_unlock(&v->lock);
	return mismatch && in_setup(v) ? STATS_UNPROTECTED_MISMATCH : STATS_UNPROTECTED_NONE;
}

/* Reports once that no peer has come, or the wrong one. */
static void meeting_report_unmatched(struct meeting *m, uint64_t now)
{
	enum stats_unprotected why;

	if (m->reported || now - m->since < NO_PEER_NS)
		return;
	why = meeting_judge(m->v);
	m->reported = why != STATS_UNPROTECTED_NONE;
	if (m->reported)
		conn_unprotected(m->v, why);
}

static void meeting_step(struct meeting *m, uint64_t now)
{
	struct vqp *v = m->v;
	struct record r;

	if (!atomic_load(&v->life.started)) {
		m->since = now;
		return;
	}
	m->settled = v->life.released;
	if (m->settled)
		return;
	meeting_report_unmatched(m, now);
	if ((!m->named && !meeting_name(m)) || !job_key_if_known())
		return;
	meeting_publish(m, now);
	if (!m->published_bytes || !meeting_find_peer(m, &r))
		return;
	if (r.nonce == job_nonce() && r.rail[0].nic == v->dev->nic[0]->index) {
		conn_unprotected(v, STATS_UNPROTECTED_LOOPBACK);
		m->settled = true;
		return;
	}
	/* If the record is of another process, QP or life of the QP than the one we met, that one
	 * is gone. The record of the life that our QP's life before this one had matched may still
	 * be there, as the peer RESETs its QP after us: lib/core refuses it, and we wait. */
	if (in_setup(v) && !is_of_peer(v, &r))
		meeting_match(m, &r);
	else if (in_setup(v))
		say_hello_again(v);
	if (is_of_peer(v, &r) && !in_setup(v)) {
		report_peer_psns(v, &r);
		m->settled = rails_ready(m, &r) && twins_done(v);
	}
}

/* --- all connections ------------------------------------------------------------------------- */

static void rendezvous_run(void *arg)
{
	uint64_t now = now_ns();
	bool waiting = false;

	(void)arg;
	if (!job_client())
		return;
	for (struct meeting *m = meetings; m; m = m->next)
		if (!m->settled) {
			meeting_step(m, now);
			waiting |= !m->settled;
		}
	waiting |= peer_paths_exchange_probes(job_client(), job_nonce());
	if (!waiting)
		return;
	bg_timer_set(&run_timer, now + interval_ns);
	interval_ns = interval_ns * 5 / 4 < INTERVAL_LAST_NS ? interval_ns * 5 / 4
							     : INTERVAL_LAST_NS;
}

struct forget_call {
	struct bg_call call;
	struct vqp *v;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
};

static void meeting_add(void *arg)
{
	struct vqp *v = arg;
	struct meeting *m = calloc(1, sizeof(*m));

	if (!m) {
		conn_unprotected(v, STATS_UNPROTECTED_NO_MEMORY);
		return;
	}
	m->v = v;
	m->since = now_ns();
	m->next = meetings;
	meetings = m;
	v->setup.meeting = m;
	rendezvous_wake();
}

void rendezvous_begin(struct vqp *v)
{
	v->setup.begin_call.fn = meeting_add;
	v->setup.begin_call.arg = v;
	bg_call(&v->setup.begin_call);
}

static void meeting_forget(struct vqp *v)
{
	struct meeting **p = &meetings, *m = v->setup.meeting;

	vqp_timers_stop(v);
	if (!m)
		return;
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	if (m->published_bytes && job_client())
		kv_client_delete(job_client(), m->key);
	if (m->named && job_client())
		kv_client_forget(job_client(), m->peer_key);
	free(m);
	v->setup.meeting = NULL;
	tombstone_leave(v);
	pthread_mutex_lock(&v->lock);
	release_paths(v);
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		v->rails.twin[i].clean = false;
	pthread_mutex_unlock(&v->lock);
}

static void meeting_forget_call(void *arg)
{
	struct forget_call *forget_call = arg;

	meeting_forget(forget_call->v);
	pthread_mutex_lock(&forget_call->lock);
	forget_call->is_done = true;
	pthread_cond_signal(&forget_call->done);
	pthread_mutex_unlock(&forget_call->lock);
}

void rendezvous_end(struct vqp *v)
{
	struct forget_call forget_call = {.call = {.fn = meeting_forget_call},
					  .v = v,
					  .lock = PTHREAD_MUTEX_INITIALIZER,
					  .done = PTHREAD_COND_INITIALIZER};

	forget_call.call.arg = &forget_call;
	bg_call(&forget_call.call);
	pthread_mutex_lock(&forget_call.lock);
	while (!forget_call.is_done)
		pthread_cond_wait(&forget_call.done, &forget_call.lock);
	pthread_mutex_unlock(&forget_call.lock);
}

/* Publishes again every record that changes by it. */
void rendezvous_psn_changed(const struct nic *nic)
{
	log_debug("%s: trust in rq_psn has changed", nic->name);
	for (struct meeting *m = meetings; m; m = m->next)
		if (m->published_bytes && job_client())
			meeting_publish(m, now_ns());
	rendezvous_wake();
}
