/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/rendezvous.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/memlock.h"
#include "lib/session/contacts.h"
#include "lib/session/directory.h"
#include "lib/session/job.h"
#include "lib/session/meeting_rails.h"
#include "lib/session/own_address.h"
#include "lib/session/path_health.h"
#include "lib/session/peer_paths.h"
#include "lib/session/tombstones.h"
#include "lib/session/twin_address.h"

#define MS		  1000000ull
#define INTERVAL_FIRST_NS (10 * MS)   /* how often all are checked at first; */
#define INTERVAL_LAST_NS  (1000 * MS) /* the interval grows to this while peers do not come */
#define ALL_MAX_NS	  (300 * MS)  /* after this we are told even if twins are missing */
#define NO_PEER_NS	  (10000 * MS)
#define LONELY_NS	  (600000 * MS) /* who does not answer is told at intervals up to this */
#define TELLINGS_NS	  (10 * MS)

/* TELLINGS_MAX: so often in TELLINGS_NS a connection of ours is told to a process that may be the
 * peer. With N processes behind a GID, and M connections to it, all of them are N times M. */
enum { BUCKETS = 1024, TELLINGS_MAX = 512 };

static void rendezvous_run(void *arg);

static struct bg_timer run_timer = {.fn = rendezvous_run};
static uint64_t interval_ns = INTERVAL_FIRST_NS;
static struct meeting *meetings;
static struct meeting *buckets[BUCKETS]; /* by our QPN */
static struct meeting *unserved;	 /* the first in this run that could not tell all */

void rendezvous_wake(void)
{
	interval_ns = INTERVAL_FIRST_NS;
	bg_timer_set(&run_timer, now_ns());
}

/* What is under way now ends soon. All are looked at then, not once for each message. */
static void rendezvous_soon(void)
{
	uint64_t at = now_ns() + INTERVAL_FIRST_NS;

	interval_ns = INTERVAL_FIRST_NS;
	if (!run_timer.heap_at || run_timer.at_ns > at)
		bg_timer_set(&run_timer, at);
}

/* --- one connection -------------------------------------------------------------------------- */

static void conn_unprotected(struct vqp *v, enum stats_unprotected why)
{
	stats_conn_protect(v->stats, false, why);
	log_info("QP %#x is not protected: %s", v->qp->qp_num, stats_unprotected_text(why));
}

static struct meeting **bucket_of(const struct session_qp *qp)
{
	return &buckets[qp->qpn % BUCKETS];
}

/* nonce: the peer's process; 0: it is not known, and perhaps it runs without us. */
static void report_ends(const struct meeting *m, uint64_t nonce)
{
	struct stats_peer peer = {.gid = m->mine.gid.raw,
				  .peer_gid = m->yours.gid.raw,
				  .peer_qpn = m->yours.qpn,
				  .peer_nonce = nonce};

	stats_conn_peer(m->v->stats, &peer);
}

/* The addresses of both ends on rail 0, as the programs know them. */
static bool meeting_name(struct meeting *m)
{
	struct vqp *v = m->v;
	struct ibv_qp_attr attr;
	const struct ibv_ah_attr *ah = &attr.ah_attr;
	const struct nic *nic = v->dev->nic[0];
	struct nic_gid gid;
	int index;

	pthread_mutex_lock(&v->lock);
	attr = v->program.attr;
	pthread_mutex_unlock(&v->lock);
	index = ah->is_global ? ah->grh.sgid_index : 0;
	if (attr.port_num != v->dev->nic[0]->port) {
		conn_unprotected(v, STATS_UNPROTECTED_ATTRIBUTES);
		m->settled = true;
		return false;
	}
	if (!nic->ready || own_gid_at(nic, index, &gid))
		return false;
	twin_set_gid(v, 0, &gid, index);
	twins_find_pkey(v, &attr);
	m->mine = (struct session_qp){.gid = gid.value, .qpn = v->qp->qp_num};
	m->yours = (struct session_qp){.gid = ah->grh.dgid, .qpn = attr.dest_qp_num};
	if (!ah->is_global) {
		m->mine.gid = session_lid_name(&gid.value, nic->port_attr.lid | ah->src_path_bits);
		m->yours.gid = session_lid_name(&gid.value, ah->dlid);
	}
	m->next_in_bucket = *bucket_of(&m->mine);
	*bucket_of(&m->mine) = m;
	m->named = true;
	report_ends(m, 0);
	return true;
}

static uint64_t look_of(const struct nic *nic)
{
	return (uint64_t)nic->looks + 1;
}

/* Finds our GID for a twin. false: its NIC has none, or not the program's P_Key. */
static bool twin_address(struct meeting *m, uint8_t i, const struct nic *nic)
{
	uint64_t look = look_of(nic);
	struct vqp *v = m->v;
	struct nic_gid gid;
	int index;

	m->no_address[i] = look;
	if (v->rails.pkey && own_pkey_index(nic, v->rails.pkey) < 0)
		return false;
	if (!v->rails.twin[i].clean) {
		index = own_gid_for_twin(nic, &v->rails.twin[0].gid, &gid);
		if (index < 0)
			return false;
		twin_set_gid(v, i, &gid, index);
	} else if (twin_has_moved(v, i)) {
		twin_take_new_gid(v, i);
	}
	m->no_address[i] = 0;
	return true;
}

static void describe_rail(struct meeting *m, uint8_t i, struct rail_addr *r)
{
	struct vqp *v = m->v;
	struct nic *nic = v->dev->nic[i];
	struct ibv_qp *qp = vqp_rail_qp(v, i);

	memset(r, 0, sizeof(*r));
	r->nic = nic->index;
	r->flags = (uint8_t)((!i && v->life.released ? RAIL_RELEASED : 0) |
			     (v->hot.srq ? RAIL_SRQ : 0));
	if (!nic->ready)
		return;
	r->psn = (uint8_t)vqp_psn(v, i);
	r->atomic_cap = nic->atomic_cap;
	ctrl_link_address(nic, &r->link);
	r->mtu_bytes = twin_own_mtu(v, i);
	r->lid = nic->port_attr.lid;
	if (i && qp && !twin_address(m, i, nic))
		return;
	r->gid = v->rails.twin[i].gid.value;
	r->qpn = qp ? qp->qp_num : 0;
}

static bool twins_done(const struct vqp *v)
{
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (!atomic_load(&v->rails.twin[i].qp) && !v->rails.twin[i].failed &&
		    !vdev_rail_is_spare(v->dev, i))
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

/* Does what the peer was told lack something that is there now? To describe it anew makes system
 * calls. */
static bool is_outdated(const struct meeting *m)
{
	const struct vqp *v = m->v;

	for (uint8_t i = 0; i < m->ours.rails; i++) {
		const struct rail_addr *r = &m->ours.rail[i];
		const struct nic *nic = v->dev->nic[i];

		if ((!r->link.qpn && nic->ready) ||
		    (!r->qpn && vqp_rail_qp((struct vqp *)v, i) &&
		     m->no_address[i] != look_of(nic)) ||
		    (nic->ready && r->psn != (uint8_t)vqp_psn(v, i)))
			return true;
	}
	return false;
}

/* What the peer is to be told of our end. If that has changed, it is told. */
static void meeting_describe(struct meeting *m, uint64_t now)
{
	struct vqp *v = m->v;
	struct record r;

	if (!m->has_ours && !(twins_done(v) && psns_known(v)) && now - m->since < ALL_MAX_NS)
		return;
	memset(&r, 0, sizeof(r));
	r.rails = v->dev->rails;
	r.id = v->id;
	r.nonce = job_nonce();
	for (uint8_t i = 0; i < r.rails; i++)
		describe_rail(m, i, &r.rail[i]);
	if (m->has_ours && !memcmp(&m->ours, &r, sizeof(r)))
		return;
	m->ours = r;
	m->has_ours = true;
	told_change(&m->told);
}

/* Computes the connection's number, which is the same on both sides, and which side we are. */
static void meeting_identify(const struct meeting *m, const struct record *r,
			     struct shift_conn_peer *p)
{
	struct shift_end ours = {.qpn = m->v->qp->qp_num, .id = m->v->id, .nonce = job_nonce()};
	struct shift_end theirs = {.qpn = m->yours.qpn, .id = r->id, .nonce = r->nonce};

	memcpy(ours.gid, m->mine.gid.raw, sizeof(ours.gid));
	memcpy(theirs.gid, m->yours.gid.raw, sizeof(theirs.gid));
	p->conn = shift_conn_number(job_key_if_known(), &ours, &theirs, &p->side);
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
			vqp_rail_await(v, i); /* until both twins exist */
		if (env.link_events && v->dev->nic[i]->ready)
			vqp_rail_note_up(v, i, vqp_rail_is_up(v, i));
		if (env.link_events && v->dev->nic[i]->ready && !vqp_rail_is_up(v, i))
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

/* The addresses of the peer that we have met may have changed: its control messages come from
 * there, and ours must go there. The record in the rendezvous does not tell us: it bears a tag and
 * no serial, and whoever can write there may bring an old one back. */
static void paths_follow(const struct meeting *m)
{
	for (uint8_t i = 0; i < m->v->setup.peer_rails; i++)
		if (m->v->rails.twin[i].path)
			peer_path_follow(m->v->rails.twin[i].path, &m->theirs.rail[i],
					 m->told.heard);
}

static void report_peer(const struct meeting *m, const struct record *r)
{
	struct vqp *v = m->v;
	const char *names[SHIFT_RAILS_MAX];

	for (uint8_t i = 0; i < v->dev->rails; i++)
		names[i] = v->dev->nic[i]->name;
	report_peer_psns(v, r);
	stats_conn_rails(v->stats, v->dev->rails, names);
	report_ends(m, r->nonce);
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
	if (shift_conn_meet(v->conn, &p)) {
		report_peer(m, r);
		release_paths(v);
		v->setup.peer_rails = p.rails;
		for (uint8_t i = 0; i < p.rails; i++)
			if (r->rail[i].link.qpn && v->dev->nic[i]->ready)
				v->rails.twin[i].path = peer_path_get(v->dev->nic[i], r->nonce,
								      &r->rail[i]);
		paths_follow(m); /* another connection may have made them, before it moved */
		v->setup.peer_nonce = r->nonce;
		v->setup.peer_id = r->id;
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

	meeting_tell_apart(m, r);
	for (uint8_t i = 1; i < v->setup.peer_rails; i++) {
		struct twin *t = &v->rails.twin[i];

		if (t->clean)
			continue;
		if (!t->path && r->rail[i].link.qpn && v->dev->nic[i]->ready) {
			vqp_enter(v);
			t->path = peer_path_get(v->dev->nic[i], r->nonce, &r->rail[i]);
			paths_follow(m);
			vqp_await_answers(v); /* others may have had it before */
			vqp_leave(v);
		}
		if (vdev_rail_is_spare(v->dev, i) && r->rail[i].qpn)
			vdev_rail_take(v->dev, i); /* the peer has made its own */
		if (vdev_rail_is_spare(v->dev, i)) {
			all &= t->path || !r->rail[i].link.qpn || !v->dev->nic[i]->ready;
			continue;
		}
		if (!meeting_twins_exist(m, r, i)) {
			all = false;
			continue;
		}
		vqp_enter(v);
		t->peer = r->rail[i];
		t->mtu = twin_mtu(&m->ours.rail[i], &r->rail[i]);
		t->clean = true;
		memlock_update_rails(v);
		vqp_rail_open(v, i);
		vqp_leave(v);
		twin_look(v, i);
		if (twin_has_moved(v, i))
			meeting_describe(m, now_ns());
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
	enum shift_state state;

	pthread_mutex_lock(&v->lock);
	state = shift_conn_state(v->conn);
	pthread_mutex_unlock(&v->lock);
	return state == SHIFT_ST_SETUP;
}

/* --- telling ---------------------------------------------------------------------------------- */

struct audience {
	struct nic *nic;
	uint64_t nonce;
	const struct ctrl_link_addr *addr;
	struct peer_path *path; /* if there is one; the others do not count then */
};

/* Serials are each process's own: what was heard is said to the one that we heard it from. */
static void meeting_say(const struct meeting *m, bool ask, const struct audience *to)
{
	bool heard = m->has_theirs && to->nonce == m->theirs.nonce;
	struct session_conn conn = {.kind = SESSION_CONN,
				    .ask = ask,
				    .rails = m->ours.rails,
				    .serial = m->told.serial,
				    .heard = heard ? m->told.heard : 0,
				    .id = m->ours.id,
				    .mine = m->mine,
				    .yours = m->yours};
	struct shift_msg msg = session_msg(&conn, sizeof(conn));

	for (conn.rail = 0; conn.rail < conn.rails; conn.rail++) {
		conn.addr = m->ours.rail[conn.rail];
		if (to->path)
			peer_path_send(to->path, &msg);
		else
			contact_send(to->nic, to->nonce, to->addr, &msg);
	}
}

static bool telling_allowed(uint64_t now)
{
	static uint64_t since;
	static unsigned int left;

	if (now - since >= TELLINGS_NS) {
		since = now;
		left = TELLINGS_MAX;
	}
	return left && left--;
}

/* One that is found while nobody has answered is told at once. All are told in each round. */
static bool candidate_is_due(const struct meeting *m, const struct process *p, bool round)
{
	if (p->other_version || (m->has_theirs && p->nonce == m->theirs.nonce))
		return false;
	return (round && p->number > m->round) || (!m->has_theirs && p->number > m->newest);
}

/* To all that might be the peer: only over the QP's own port, as GIDs may repeat elsewhere. false:
 * the rest must wait. */
static bool meeting_tell_candidates(struct meeting *m, bool round, uint64_t now)
{
	struct audience to = {.nic = m->v->dev->nic[0]};

	for (const struct process *p = m->place ? m->place->processes : NULL; p; p = p->next) {
		if (!candidate_is_due(m, p, round))
			continue;
		if (!telling_allowed(now))
			return false;
		to.nonce = p->nonce;
		to.addr = &p->link;
		meeting_say(m, true, &to);
		m->newest = p->number > m->newest ? p->number : m->newest;
		m->round = round ? p->number : m->round;
	}
	return true;
}

/* Was the last life's peer the QP that is looked for now? Then it is known where it listens, also
 * if rail 0 is dead. */
static bool is_last_peer(const struct meeting *m)
{
	const struct last_peer *last = &m->v->setup.last;

	return last->rails && last->qpn == m->yours.qpn &&
	       !memcmp(&last->gid, &m->yours.gid, sizeof(last->gid));
}

/* Over rail 0 it is told as all who may be the peer. */
static void meeting_tell_last_peer(const struct meeting *m)
{
	const struct last_peer *last = &m->v->setup.last;
	struct audience to = {.nonce = last->nonce};

	for (uint8_t i = 1; is_last_peer(m) && i < last->rails; i++) {
		to.nic = m->v->dev->nic[i];
		to.addr = &last->link[i];
		if (to.nic->ready && to.addr->qpn)
			meeting_say(m, true, &to);
	}
}

/* HELLO has not matched yet. */
static void meeting_tell_all(struct meeting *m, uint64_t now)
{
	struct audience known = {.nic = m->v->dev->nic[0],
				 .nonce = m->theirs.nonce,
				 .addr = &m->theirs.rail[0].link};
	bool round = told_due(&m->told, now);

	if (round && m->has_theirs && !m->round)
		meeting_say(m, true, &known);
	if (!meeting_tell_candidates(m, round, now)) {
		unserved = unserved ? unserved : m;
	} else if (round) {
		meeting_tell_last_peer(m);
		m->round = 0;
		told_sent(&m->told, now, LONELY_NS);
	}
}

static void meeting_tell_peer(const struct meeting *m)
{
	for (uint8_t i = 0; i < m->v->setup.peer_rails; i++) {
		struct audience to = {.nonce = m->v->setup.peer_nonce,
				      .path = m->v->rails.twin[i].path};

		if (to.path && (!i || to.path != m->v->rails.twin[0].path))
			meeting_say(m, true, &to);
	}
}

static void meeting_tell(struct meeting *m, uint64_t now)
{
	if (m->told.acked)
		return;
	if (in_setup(m->v)) {
		meeting_tell_all(m, now);
	} else if (told_due(&m->told, now)) {
		meeting_tell_peer(m);
		told_sent(&m->told, now, TOLD_LONGEST_NS);
	}
}

/* The QP may have reached RTS only now. */
static void say_hello_again(struct vqp *v)
{
	vqp_enter(v);
	vqp_rail_event(v, SHIFT_EV_RTS, 0);
	vqp_leave(v);
}

/* Why the peer has not come, or why HELLO does not match; NONE: neither is the case. */
static enum stats_unprotected meeting_judge(const struct meeting *m)
{
	struct vqp *v = m->v;
	bool mismatch;

	if (!v->setup.met)
		return !job_key_if_known()			? STATS_UNPROTECTED_NO_RENDEZVOUS
		       : job_is_full()				? STATS_UNPROTECTED_RENDEZVOUS_FULL
		       : directory_only_other_version(m->place) ? STATS_UNPROTECTED_OTHER_VERSION
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
	why = meeting_judge(m);
	m->reported = why != STATS_UNPROTECTED_NONE;
	if (m->reported)
		conn_unprotected(m->v, why);
}

/* Both ends must be meant: programs use QPNs and GIDs again. */
static struct meeting *meeting_find(const struct session_qp *mine, const struct session_qp *yours)
{
	struct meeting *m = *bucket_of(mine);

	while (m && !(session_qp_is(&m->mine, mine) && session_qp_is(&m->yours, yours)))
		m = m->next_in_bucket;
	return m;
}

/* Is the peer a QP of this process, on the same NIC, or the QP itself? */
static bool is_loopback(const struct meeting *m)
{
	const struct meeting *peer = meeting_find(&m->yours, &m->mine);

	return peer && peer->v->dev->nic[0] == m->v->dev->nic[0];
}

/* Our end is as without shift. The peer's own would switch for a fault that it survives without
 * us, and find nobody: it is told, so that it lets go, too. */
static void meeting_step_released(struct meeting *m, uint64_t now)
{
	m->settled = !m->has_ours || !m->v->setup.met;
	if (m->settled)
		return;
	if (!(m->ours.rail[0].flags & RAIL_RELEASED))
		meeting_describe(m, now);
	if (told_due(&m->told, now)) {
		meeting_tell_peer(m);
		told_sent(&m->told, now, TOLD_LONGEST_NS);
	}
	m->settled = m->told.acked;
}

static void meeting_step(struct meeting *m, uint64_t now)
{
	const struct record *r = &m->theirs;
	struct vqp *v = m->v;

	if (!atomic_load(&v->life.started)) {
		m->since = now;
		return;
	}
	if (v->life.released) {
		meeting_step_released(m, now);
		return;
	}
	meeting_report_unmatched(m, now);
	if (!m->named && !meeting_name(m))
		return;
	if (is_loopback(m)) {
		pthread_mutex_lock(&v->lock);
		if (!v->self.on)
			conn_unprotected(v, STATS_UNPROTECTED_LOOPBACK);
		pthread_mutex_unlock(&v->lock);
		m->settled = true;
		return;
	}
	if (!job_key_if_known())
		return;
	directory_enter(v->dev->nic[0], &m->mine.gid);
	if (!m->place)
		m->place = directory_look(&m->yours.gid);
	if (!m->has_ours || is_outdated(m))
		meeting_describe(m, now);
	if (!m->has_ours)
		return;
	meeting_tell(m, now);
	if (!m->has_theirs)
		return;
	/* If what was told is of another process, QP or life of the QP than the one we met, that
	 * one is gone. It may be of the life that our QP's life before this one had matched, as the
	 * peer RESETs its QP after us: lib/core refuses it, and we wait. */
	if (in_setup(v) && !is_of_peer(v, r))
		meeting_match(m, r);
	else if (in_setup(v))
		say_hello_again(v);
	if (is_of_peer(v, r) && !in_setup(v)) {
		report_peer_psns(v, r);
		m->settled = rails_ready(m, r) && twins_done(v) && m->told.acked;
	}
}

/* --- hearing ---------------------------------------------------------------------------------- */

/* Takes one rail of the peer's end. true: that was the last one of a state that is newer. */
static bool meeting_take_rail(struct meeting *m, uint64_t nonce, const struct session_conn *c)
{
	struct record *r = &m->coming;

	if (nonce != r->nonce || c->serial != m->coming_serial || c->rails != r->rails) {
		if (nonce == r->nonce && m->coming_serial &&
		    !shift_serial_newer(c->serial, m->coming_serial))
			return false;
		memset(r, 0, sizeof(*r));
		r->nonce = nonce;
		r->id = c->id;
		r->rails = c->rails;
		m->coming_serial = c->serial;
		m->coming_rails = 0;
	}
	r->rail[c->rail] = c->addr;
	m->coming_rails |= 1u << c->rail;
	return m->coming_rails == (1u << c->rails) - 1 && r->rail[0].link.qpn;
}

/* The peer has said that its end is released. */
static void take_release(struct vqp *v)
{
	vqp_enter(v);
	v->setup.peer_released = true;
	vqp_rail_event(v, SHIFT_EV_PEER_RELEASED, 0);
	vqp_leave(v);
}

/* true: we know more than before. */
static bool meeting_take(struct meeting *m, uint64_t nonce, const struct session_conn *c)
{
	bool was_acked = m->told.acked;
	bool other = !m->has_theirs || nonce != m->theirs.nonce;

	if (!other)
		told_acked(&m->told, c->heard);
	if ((!other && !told_newer(&m->told, c->serial)) || !meeting_take_rail(m, nonce, c))
		return m->told.acked != was_acked;
	m->theirs = m->coming;
	m->has_theirs = true;
	m->told.heard = c->serial;
	if (other)
		told_begin(&m->told); /* another process may have acknowledged it before */
	told_acked(&m->told, c->heard);
	if (is_of_peer(m->v, &m->theirs)) {
		paths_follow(m);
		twins_follow_peer(m->v, m->theirs.rail);
		if (m->settled)
			report_peer_psns(m->v, &m->theirs);
		if (m->theirs.rail[0].flags & RAIL_RELEASED)
			take_release(m->v);
	}
	return true;
}

/* The last rail of a question is answered, over the NIC that it came over. */
static void meeting_answer(struct meeting *m, const struct nic *nic, const struct session_conn *c)
{
	uint64_t now = now_ns();
	const struct vqp *v = m->v;
	uint32_t rails = vqp_rails_heard(v, nic);
	struct audience to = {.nonce = m->theirs.nonce};
	bool said = false;

	if (!c->ask || c->rail != c->rails - 1 || !m->has_ours || !m->has_theirs)
		return;
	for (uint8_t i = 0; i < v->dev->rails; i++) {
		to.nic = v->dev->nic[i];
		to.addr = &m->theirs.rail[i].link;
		to.path = to.nonce == v->setup.peer_nonce ? v->rails.twin[i].path : NULL;
		if (!(rails >> i & 1) || (!to.path && !to.addr->qpn))
			continue;
		/* If we are about to ask, too, this is the question. */
		meeting_say(m, told_due(&m->told, now), &to);
		said = true;
	}
	if (said && told_due(&m->told, now))
		told_sent(&m->told, now, TOLD_LONGEST_NS);
}

/* May it speak for the peer of this connection? The first time it must come to the QP's own port.
 * Once HELLO has matched, the peer is the peer, and stays so for the lives to come. */
static bool may_speak(const struct meeting *m, const struct nic *nic, uint64_t nonce)
{
	struct vqp *v = m->v;

	if (v->life.released || !in_setup(v))
		return nonce == v->setup.peer_nonce;
	return nic == v->dev->nic[0] || (is_last_peer(m) && nonce == v->setup.last.nonce);
}

/* Has the peer a twin on a rail that is not open yet, or can it be reached there only now? */
static bool has_new_rail(const struct meeting *m)
{
	const struct vqp *v = m->v;

	for (uint8_t i = 1; i < v->setup.peer_rails && is_of_peer(v, &m->theirs); i++) {
		const struct rail_addr *r = &m->theirs.rail[i];

		if (!v->rails.twin[i].clean &&
		    (r->qpn || (r->link.qpn && !v->rails.twin[i].path && v->dev->nic[i]->ready)))
			return true;
	}
	return false;
}

void rendezvous_heard(const struct nic *nic, uint64_t nonce, const struct session_conn *c)
{
	struct meeting *m = meeting_find(&c->yours, &c->mine);
	bool news;

	if (!m || (m->v->life.released && !m->v->setup.met) || !c->serial || !c->rails ||
	    c->rails > SHIFT_RAILS_MAX || c->rail >= c->rails || !may_speak(m, nic, nonce))
		return;
	news = meeting_take(m, nonce, c);
	if (m->told.acked)
		twins_heard(m->v);
	if (m->has_theirs && nonce == m->theirs.nonce)
		meeting_answer(m, nic, c);
	m->settled &= !(news && has_new_rail(m));
	if (news && !m->settled) {
		meeting_step(m, now_ns());
		rendezvous_soon();
	}
}

void rendezvous_published(const char *key, const void *value, size_t bytes)
{
	if (directory_event(key, value, bytes))
		rendezvous_wake();
}

/* --- all connections ------------------------------------------------------------------------- */

/* So that whoever could not tell all comes first in the next run. */
static void meetings_begin_with(struct meeting *first)
{
	struct meeting **at = &meetings, *head = meetings;

	if (first == head)
		return;
	while (*at != first)
		at = &(*at)->next;
	*at = NULL;
	meetings = first;
	for (at = &first->next; *at;)
		at = &(*at)->next;
	*at = head;
}

static void rendezvous_run(void *arg)
{
	uint64_t now = now_ns();
	bool waiting = false;

	(void)arg;
	unserved = NULL;
	if (!job_client())
		return;
	for (struct meeting *m = meetings; m; m = m->next)
		if (!m->settled) {
			meeting_step(m, now);
			waiting |= !m->settled;
		}
	waiting |= peer_paths_exchange_probes();
	if (!waiting)
		return;
	if (unserved) {
		meetings_begin_with(unserved);
		interval_ns = INTERVAL_FIRST_NS;
	}
	bg_timer_set(&run_timer, now + interval_ns);
	interval_ns = interval_ns * 5 / 4 < INTERVAL_LAST_NS ? interval_ns * 5 / 4
							     : INTERVAL_LAST_NS;
}

static void meeting_released(void *arg)
{
	struct vqp *v = arg;
	struct meeting *m = v->setup.meeting;

	if (!m)
		return;
	m->settled = false;
	rendezvous_wake();
}

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
	conn_looks_start();
	rendezvous_wake();
}

void rendezvous_begin(struct vqp *v)
{
	v->setup.released_call.arg = v;
	v->setup.released_call.fn = meeting_released;
	v->setup.begin_call.fn = meeting_add;
	v->setup.begin_call.arg = v;
	bg_call(&v->setup.begin_call);
}

static void meeting_leave_bucket(struct meeting *m)
{
	struct meeting **p = bucket_of(&m->mine);

	if (!m->named)
		return;
	while (*p != m)
		p = &(*p)->next_in_bucket;
	*p = m->next_in_bucket;
}

/* The next life may be connected to the same QP. */
static void meeting_note_peer(const struct meeting *m)
{
	struct last_peer *last = &m->v->setup.last;
	const struct record *r = &m->theirs;
	bool matched;

	pthread_mutex_lock(&m->v->lock);
	matched = shift_conn_matched(m->v->conn);
	pthread_mutex_unlock(&m->v->lock);
	if (!matched) /* else theirs is of that process, if perhaps of its next life */
		return;
	*last = (struct last_peer){.gid = m->yours.gid,
				   .qpn = m->yours.qpn,
				   .rails = m->v->setup.peer_rails,
				   .nonce = r->nonce};
	for (uint8_t i = 0; i < last->rails; i++)
		last->link[i] = r->rail[i].link;
}

static void meeting_forget(void *arg)
{
	struct vqp *v = arg;
	struct meeting **p = &meetings, *m = v->setup.meeting;

	vqp_timers_stop(v);
	if (!m)
		return;
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	meeting_note_peer(m);
	meeting_leave_bucket(m);
	directory_leave(m->place);
	free(m);
	v->setup.meeting = NULL;
	tombstone_leave(v);
	pthread_mutex_lock(&v->lock);
	release_paths(v);
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		v->rails.twin[i].clean = false;
	v->rails.unheard = 0;
	pthread_mutex_unlock(&v->lock);
}

void rendezvous_end(struct vqp *v)
{
	bg_call_wait(meeting_forget, v);
}

void rendezvous_nic_changed(const struct nic *nic)
{
	log_debug("%s: its address, or the trust in its rq_psn, has changed", nic->name);
	directory_refresh();
	for (struct meeting *m = meetings; m; m = m->next) {
		if (!m->has_ours)
			continue;
		meeting_describe(m, now_ns());
		m->settled &= m->told.acked;
	}
	rendezvous_wake();
}

void rendezvous_rails_made(const struct vdev *dev)
{
	for (struct meeting *m = meetings; m; m = m->next)
		if (m->v->dev == dev && m->v->setup.met && !m->v->life.released)
			m->settled = false;
	rendezvous_wake();
}

void rendezvous_follow_gids(const struct nic *nic)
{
	for (struct meeting *m = meetings; m; m = m->next) {
		int i = vqp_twin_rail_on(m->v, nic);

		if (i < 0 || !m->has_ours || !twin_has_moved(m->v, (uint8_t)i))
			continue;
		meeting_describe(m, now_ns());
		m->settled &= m->told.acked;
		rendezvous_wake();
	}
}

void rendezvous_link_up(const struct nic *nic)
{
	for (struct meeting *m = meetings; m; m = m->next)
		if (m->v->dev->nic[0] == nic && !m->settled && !m->told.acked)
			told_begin(&m->told);
	rendezvous_wake();
}
