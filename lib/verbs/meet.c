/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How the two ends of a connection find each other (DESIGN 5). Each publishes, under the address
 * of its QP on rail 0, who it is and what it has on each rail; the other looks there, since that is
 * the address the program gave to modify_qp. Then HELLO over the control link decides. All on the
 * background thread; the program's threads only leave word.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>

#include "lib/core/siphash.h"
#include "lib/verbs/control.h"
#include "lib/verbs/env.h"
#include "lib/verbs/keys.h"
#include "lib/verbs/log.h"
#include "lib/verbs/path.h"
#include "lib/verbs/real.h"

#define MS	       1000000ull
#define LOOK_FIRST_NS  (10 * MS)   /* a QP about to reach RTS is looked at this often, */
#define LOOK_LAST_NS   (1000 * MS) /* and one whose peer never comes, that often */
#define ALL_MAX_NS     (300 * MS)  /* not to publish twice, wait so long for what is missing */
#define LONELY_NS      (10000 * MS)
#define TOMB_AGAIN_NS  (60000 * MS) /* not longer than a tomb's time */
#define RECORD_VERSION 1

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

struct meeting {
	struct vqp *v;
	struct meeting *next;
	uint64_t since;
	char key[KV_KEY_MAX / 4], peer_key[KV_KEY_MAX / 4];
	bool named;
	bool settled; /* nothing left to wait for */
	bool told;    /* why it is not protected */
	uint16_t published_bytes;
	struct record published;
};

/* What a connection leaves: a peer that lost our last ACKs may ask (rule 19). */
struct tomb {
	struct tomb *next;
	struct shift_tombstone stone;
	uint32_t id;
	uint64_t peer_nonce;
	uint8_t rails;
	struct nic *nic[SHIFT_RAILS_MAX];
	struct peer_path *path[SHIFT_RAILS_MAX];
};

static uint64_t nonce;
static struct kv_client *kv;
static int kv_fd = -1;
static short kv_events;
static struct bg_timer kv_timer, look_timer, tomb_timer;
static uint64_t look_ns = LOOK_FIRST_NS;
static struct meeting *meetings;
static struct tomb *tombs;
static uint64_t job_key[2];
static bool known; /* the job key is here */
static bool full;  /* shift-kvd has refused something of ours, and may have a peer's address */

uint64_t meet_nonce(void)
{
	return nonce;
}

void meet_soon(void)
{
	look_ns = LOOK_FIRST_NS;
	bg_timer_set(&look_timer, now_ns());
}

/* --- one connection -------------------------------------------------------------------------- */

static void conn_key(char *key, size_t size, const union ibv_gid *gid, uint32_t qpn)
{
	int n = snprintf(key, size, "conn/");

	for (unsigned int i = 0; i < sizeof(gid->raw); i++)
		n += snprintf(key + n, size - (size_t)n, "%02x", gid->raw[i]);
	snprintf(key + n, size - (size_t)n, "-%06x", qpn);
}

static void unprotected(struct vqp *v, enum stats_unprotected why)
{
	v->why = why;
	stats_conn_protect(v->stats, false, why);
	log_info("QP %#x is not protected: %s", v->qp->qp_num, stats_unprotected_text(why));
}

/* Our own address on rail 0, as the peer's program knows it. */
static bool name(struct meeting *m)
{
	struct vqp *v = m->v;
	const struct ibv_ah_attr *ah = &v->attr.ah_attr;
	union ibv_gid *gid = &v->twin[0].gid;

	if (!v->dev->nic[0]->ready || real.query_gid(v->dev->nic[0]->ctx, v->attr.port_num,
						     ah->is_global ? ah->grh.sgid_index : 0, gid))
		return false;
	if (v->attr.port_num != v->dev->nic[0]->port) {
		unprotected(v, STATS_UNPROTECTED_ATTRIBUTES);
		m->settled = true;
		return false;
	}
	conn_key(m->key, sizeof(m->key), gid, v->qp->qp_num);
	conn_key(m->peer_key, sizeof(m->peer_key), &ah->grh.dgid, v->attr.dest_qp_num);
	if (!strcmp(m->key, m->peer_key)) {
		unprotected(v, STATS_UNPROTECTED_LOOPBACK);
		m->settled = true;
		return false;
	}
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
	link_address(nic, &r->link);
	r->mtu_bytes = (uint16_t)nic->mtu_bytes;
	r->lid = nic->port_attr.lid;
	r->gid = v->twin[i].gid;
	if (i && qp) {
		int index = nic_gid_like(nic, &v->twin[0].gid, &v->twin[i].gid);

		if (index < 0)
			return;
		v->twin[i].gid_index = index;
		r->gid = v->twin[i].gid;
	}
	r->qpn = qp ? qp->qp_num : 0;
}

static bool twins_done(const struct vqp *v)
{
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (!atomic_load(&v->twin[i].qp) && !v->twin[i].failed)
			return false;
	return true;
}

/* ... or will not be soon. */
static bool psns_known(const struct vqp *v)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (!v->dev->nic[i]->psn_tried && v->dev->nic[i]->psn == STATS_PSN_UNMEASURED)
			return false;
	return true;
}

static void publish(struct meeting *m, uint64_t now)
{
	struct vqp *v = m->v;
	struct record r = {
		.version = RECORD_VERSION, .rails = v->dev->rails, .id = v->id, .nonce = nonce};
	uint16_t bytes = (uint16_t)RECORD_BYTES(r.rails);

	if (!m->published_bytes && !(twins_done(v) && psns_known(v)) && now - m->since < ALL_MAX_NS)
		return;
	for (uint8_t i = 0; i < r.rails; i++)
		describe_rail(v, i, &r.rail[i]);
	if (m->published_bytes == bytes && !memcmp(&m->published, &r, bytes))
		return;
	if (kv_client_put(kv, m->key, &r, bytes))
		return;
	m->published = r;
	m->published_bytes = bytes;
}

static bool find_peer(struct meeting *m, struct record *r)
{
	const void *value;
	size_t bytes;

	if (kv_client_get(kv, m->peer_key, &value, &bytes) || bytes > sizeof(*r) ||
	    bytes < RECORD_BYTES(1))
		return false;
	memset(r, 0, sizeof(*r));
	memcpy(r, value, bytes);
	return r->version == RECORD_VERSION && r->rails && r->rails <= SHIFT_RAILS_MAX &&
	       bytes == RECORD_BYTES(r->rails) && r->nonce && r->rail[0].link.qpn;
}

/* The same number on both sides, and who of the two is which. */
static void identify(const struct meeting *m, struct shift_conn_peer *p)
{
	bool first = strcmp(m->key, m->peer_key) < 0;
	char both[2 * sizeof(m->key)];
	int n = snprintf(both, sizeof(both), "%s %s", first ? m->key : m->peer_key,
			 first ? m->peer_key : m->key);

	p->side = !first;
	p->conn = shift_siphash(job_key, both, (size_t)n);
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
		path_put(v->twin[i].path);
		v->twin[i].path = NULL;
	}
}

static void say_hello(struct vqp *v, uint8_t rails)
{
	for (uint8_t i = 0; i < rails; i++) {
		if (i)
			vqp_rail_say(v, SHIFT_EV_RAIL_DIRTY, i); /* until both twins are there */
		if (env.link_events && v->dev->nic[i]->ready && !v->dev->nic[i]->link_up)
			vqp_rail_say(v, SHIFT_EV_LINK_DOWN, i);
		if (v->twin[i].path && path_answers(v->twin[i].path))
			vqp_rail_say(v, SHIFT_EV_PROBE_OK, i);
	}
	vqp_rail_say(v, SHIFT_EV_RTS, 0);
}

static void tell_psns(struct vqp *v, const struct record *r)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		stats_conn_psn(v->stats, i,
			       r->rail[i].psn <= STATS_PSN_STALE ? (enum stats_psn)r->rail[i].psn
								 : STATS_PSN_UNMEASURED);
}

static void tell_stats(struct vqp *v, const struct record *r)
{
	const char *names[SHIFT_RAILS_MAX];
	struct stats_peer peer = {.gid = v->twin[0].gid.raw,
				  .peer_gid = v->attr.ah_attr.grh.dgid.raw,
				  .peer_qpn = v->attr.dest_qp_num,
				  .peer_nonce = r->nonce};

	for (uint8_t i = 0; i < v->dev->rails; i++)
		names[i] = v->dev->nic[i]->name;
	tell_psns(v, r);
	stats_conn_rails(v->stats, v->dev->rails, names);
	stats_conn_peer(v->stats, &peer);
}

static void meet(struct meeting *m, const struct record *r)
{
	struct vqp *v = m->v;
	struct shift_conn_peer p = {
		.key = {job_key[0], job_key[1]}, .nonce = r->nonce, .id = r->id, .rails = r->rails};

	if (p.rails > v->dev->rails)
		p.rails = v->dev->rails;
	identify(m, &p);
	for (uint8_t i = 1; i < p.rails; i++)
		p.mtu[i] = v->twin[i].mtu = twin_mtu(v->dev->nic[i], &r->rail[i]);
	tell_stats(v, r);
	vqp_enter(v);
	if (shift_conn_meet(v->conn, &p)) {
		release_paths(v);
		for (uint8_t i = 0; i < p.rails; i++)
			if (r->rail[i].link.qpn && v->dev->nic[i]->ready)
				v->twin[i].path = path_get(v->dev->nic[i], r->nonce, &r->rail[i]);
		v->peer_nonce = r->nonce;
		v->peer_id = r->id;
		v->peer_rails = p.rails;
		v->met = true;
		say_hello(v, p.rails);
	}
	vqp_leave(v);
}

/* A backup rail can be used when both twins are there. */
static bool rails_ready(struct meeting *m, const struct record *r)
{
	struct vqp *v = m->v;
	bool all = true;

	for (uint8_t i = 1; i < v->peer_rails; i++) {
		struct twin *t = &v->twin[i];

		if (t->clean)
			continue;
		if (!t->path && r->rail[i].link.qpn && v->dev->nic[i]->ready) {
			vqp_enter(v);
			t->path = path_get(v->dev->nic[i], r->nonce, &r->rail[i]);
			vqp_leave(v);
		}
		if (!t->path || !atomic_load(&t->qp) || v->jobs[i].stale || !r->rail[i].qpn ||
		    r->rail[i].mtu_bytes < t->mtu || v->dev->nic[i]->mtu_bytes < t->mtu) {
			all = false;
			continue;
		}
		vqp_enter(v);
		t->peer = r->rail[i];
		t->clean = true;
		scarce_look(v);
		vqp_rail_clean(v, i);
		vqp_leave(v);
	}
	return all;
}

static bool in_setup(struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.state == SHIFT_ST_SETUP;
}

/* The peer has published anew after all was settled: it has measured a NIC meanwhile. */
static void peer_changed(const char *key)
{
	struct record r;

	for (struct meeting *m = meetings; m; m = m->next)
		if (m->settled && m->v->met && !strcmp(m->peer_key, key) && find_peer(m, &r) &&
		    r.nonce == m->v->peer_nonce)
			tell_psns(m->v, &r);
}

/* It may have reached RTS only now. */
static void say_hello_again(struct vqp *v)
{
	vqp_enter(v);
	vqp_rail_say(v, SHIFT_EV_RTS, 0);
	vqp_leave(v);
}

/* Said once, after a time in which a peer that will come has come. */
static void lonely(struct meeting *m, uint64_t now)
{
	if (m->told || now - m->since < LONELY_NS)
		return;
	m->told = true;
	unprotected(m->v, !known ? STATS_UNPROTECTED_NO_RENDEZVOUS
			  : full ? STATS_UNPROTECTED_RENDEZVOUS_FULL
				 : STATS_UNPROTECTED_NO_PEER_LIBRARY);
}

static bool is_of_peer(const struct vqp *v, const struct record *r)
{
	return v->met && r->nonce == v->peer_nonce && r->id == v->peer_id;
}

static void step(struct meeting *m, uint64_t now)
{
	struct vqp *v = m->v;
	struct record r;

	if (!atomic_load(&v->started)) {
		m->since = now;
		return;
	}
	m->settled = v->released;
	if (m->settled)
		return;
	if (!v->met)
		lonely(m, now);
	if ((!m->named && !name(m)) || !known)
		return;
	publish(m, now);
	if (!m->published_bytes || !find_peer(m, &r))
		return;
	if (r.nonce == nonce && r.rail[0].nic == v->dev->nic[0]->index) {
		unprotected(v, STATS_UNPROTECTED_LOOPBACK);
		m->settled = true;
		return;
	}
	/* Another process under that address, or another QP of it: the record we had met was of one
	 * that is gone. */
	if (in_setup(v) && !is_of_peer(v, &r))
		meet(m, &r);
	else if (in_setup(v))
		say_hello_again(v);
	if (is_of_peer(v, &r) && !in_setup(v)) {
		v->why = STATS_UNPROTECTED_NONE;
		tell_psns(v, &r);
		m->settled = rails_ready(m, &r) && twins_done(v);
	}
}

/* --- all of them ----------------------------------------------------------------------------- */

static void look(void *arg)
{
	uint64_t now = now_ns();
	bool waiting = false;

	(void)arg;
	if (!kv)
		return;
	for (struct meeting *m = meetings; m; m = m->next)
		if (!m->settled) {
			step(m, now);
			waiting |= !m->settled;
		}
	waiting |= paths_meet(kv, nonce);
	if (!waiting)
		return;
	bg_timer_set(&look_timer, now + look_ns);
	look_ns = look_ns * 5 / 4 < LOOK_LAST_NS ? look_ns * 5 / 4 : LOOK_LAST_NS;
}

struct visit {
	struct bg_call call;
	struct vqp *v;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
};

static void add(void *arg)
{
	struct vqp *v = arg;
	struct meeting *m = calloc(1, sizeof(*m));

	if (!m) {
		unprotected(v, STATS_UNPROTECTED_NO_MEMORY);
		return;
	}
	m->v = v;
	m->since = now_ns();
	m->next = meetings;
	meetings = m;
	v->meeting = m;
	meet_soon();
}

void meet_new(struct vqp *v)
{
	v->meet_call.fn = add;
	v->meet_call.arg = v;
	bg_call(&v->meet_call);
}

/* --- the end of a connection ----------------------------------------------------------------- */

/* false: some paths are kept. */
static bool release_tomb(struct tomb *t)
{
	bool all = true;

	for (uint8_t i = 0; i < t->rails; i++) {
		if (t->path[i] && path_is_kept(t->path[i])) {
			all = false;
			continue;
		}
		path_put(t->path[i]);
		t->path[i] = NULL;
	}
	return all;
}

/* Else the probes to each process that ever was a peer would go on for ever. */
static void clear_tombs(void *arg)
{
	uint64_t now = now_ns(), next = UINT64_MAX;
	struct tomb **p = &tombs;

	(void)arg;
	while (*p) {
		struct tomb *t = *p;
		uint64_t at = t->stone.expires_ns;

		if (at <= now && release_tomb(t)) {
			*p = t->next;
			free(t);
			continue;
		}
		if (at <= now)
			at = now + TOMB_AGAIN_NS;
		next = at < next ? at : next;
		p = &t->next;
	}
	bg_timer_set(&tomb_timer, next);
}

static void bury(struct vqp *v)
{
	struct tomb *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	shift_conn_tombstone(v->conn, now_ns(), &t->stone);
	if (!t->stone.valid || !v->met) {
		free(t);
		return;
	}
	t->id = v->id;
	t->peer_nonce = v->peer_nonce;
	t->rails = v->dev->rails;
	for (uint8_t i = 0; i < t->rails; i++) {
		t->nic[i] = v->dev->nic[i];
		t->path[i] = v->twin[i].path;
		if (t->path[i])
			path_hold(t->path[i]);
	}
	t->next = tombs;
	tombs = t;
	if (!tomb_timer.heap_at) /* one that is set is earlier */
		bg_timer_set(&tomb_timer, t->stone.expires_ns);
}

static void forget(struct vqp *v)
{
	struct meeting **p = &meetings, *m = v->meeting;

	vqp_timers_stop(v);
	if (!m)
		return;
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	if (m->published_bytes && kv)
		kv_client_delete(kv, m->key);
	if (m->named && kv)
		kv_client_forget(kv, m->peer_key);
	free(m);
	v->meeting = NULL;
	bury(v);
	pthread_mutex_lock(&v->lock);
	release_paths(v);
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		v->twin[i].clean = false;
	pthread_mutex_unlock(&v->lock);
}

static void forget_call(void *arg)
{
	struct visit *visit = arg;

	forget(visit->v);
	pthread_mutex_lock(&visit->lock);
	visit->is_done = true;
	pthread_cond_signal(&visit->done);
	pthread_mutex_unlock(&visit->lock);
}

void meet_gone(struct vqp *v)
{
	struct visit visit = {.call = {.fn = forget_call},
			      .v = v,
			      .lock = PTHREAD_MUTEX_INITIALIZER,
			      .done = PTHREAD_COND_INITIALIZER};

	visit.call.arg = &visit;
	bg_call(&visit.call);
	pthread_mutex_lock(&visit.lock);
	while (!visit.is_done)
		pthread_cond_wait(&visit.done, &visit.lock);
	pthread_mutex_unlock(&visit.lock);
}

/* --- messages -------------------------------------------------------------------------------- */

static void ask_tomb(const struct nic *nic, const struct shift_msg *m)
{
	uint64_t now = now_ns();

	if (m->type != SHIFT_MSG_SWITCH && m->type != SHIFT_MSG_QUERY_PSN)
		return;
	for (struct tomb *t = tombs; t; t = t->next)
		if (t->id == m->dst_conn && t->peer_nonce == m->src_nonce &&
		    t->stone.expires_ns >= now)
			for (uint8_t i = 0; i < t->rails; i++)
				if (t->nic[i] == nic && t->path[i])
					path_send(t->path[i], &t->stone.answer);
}

static void message(struct nic *nic, const struct shift_msg *m)
{
	struct vqp *v = vqp_by_id(m->dst_conn);
	int rail = v ? vqp_rail_on(v, nic) : -1;

	if (!v) {
		ask_tomb(nic, m);
		return;
	}
	if (!v->met || rail < 0 || m->src_nonce != v->peer_nonce)
		return;
	vqp_enter(v);
	if (m->type == SHIFT_MSG_KEY_ASK) {
		told_ask(v, m);
	} else if (m->type == SHIFT_MSG_KEY_FORGOT) {
		told_forgot(v, m);
	} else if (m->type == SHIFT_MSG_KEY || m->type == SHIFT_MSG_KEY_GONE) {
		keys_message(v, m);
	} else {
		struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = (uint8_t)rail, .msg = m};

		if (!pause_event(v, &ev))
			shift_conn_event(v->conn, &ev, now_ns());
	}
	vqp_leave(v);
}

/* --- NICs ------------------------------------------------------------------------------------ */

static void twin_again(struct vqp *v, void *arg)
{
	if (vdev_backed_by(v->dev, arg))
		vobj_job(&v->obj, arg, twin_create);
}

static void link_changed(struct vqp *v, void *arg)
{
	struct nic *nic = arg;
	int rail = v->met ? vqp_rail_on(v, nic) : -1;
	struct shift_event ev = {.type = nic->link_up ? SHIFT_EV_LINK_UP : SHIFT_EV_LINK_DOWN,
				 .rail = (uint8_t)rail};

	if (rail < 0)
		return;
	vqp_enter(v);
	if (vqp_rail(v) == rail)
		stats_conn_fault(v->stats, nic->link_up ? 0 : now_ns(), now_ns());
	if (!pause_event(v, &ev))
		shift_conn_event(v->conn, &ev, now_ns());
	vqp_leave(v);
}

/* What was published without knowing is published again. */
static void psn_changed(const struct nic *nic)
{
	log_debug("%s: trust in rq_psn has changed", nic->name);
	for (struct meeting *m = meetings; m; m = m->next)
		if (m->published_bytes && kv)
			publish(m, now_ns());
	meet_soon();
}

static void nic_changed(struct nic *nic)
{
	static bool seen[NICS_MAX];
	static uint8_t psn[NICS_MAX];

	if (nic->ready && !seen[nic->index]) {
		seen[nic->index] = true;
		psn[nic->index] = nic->psn;
		memory_nic_ready(nic);
		vqp_each(twin_again, nic);
		meet_soon();
	} else if (psn[nic->index] != nic->psn) {
		psn[nic->index] = nic->psn;
		psn_changed(nic);
	} else if (env.link_events) {
		log_debug("%s: link %s", nic->name, nic->link_up ? "up" : "down");
		if (nic->link_up)
			memory_nic_ready(nic); /* what it refused meanwhile, it may take now */
		vqp_each(link_changed, nic);
	}
}

/* --- the rendezvous -------------------------------------------------------------------------- */

static void kv_event(void *arg, enum kv_event event, const char *key, const void *value,
		     size_t bytes)
{
	(void)arg;
	(void)value;
	(void)bytes;
	/* A deleted key alone says nothing of a living connection. */
	if (event != KV_EVENT_PUT)
		return;
	peer_changed(key);
	meet_soon();
}

static void died(struct vqp *v, void *arg)
{
	struct shift_event ev = {.type = SHIFT_EV_PEER_DIED};

	if (v->met && v->peer_nonce == *(uint64_t *)arg)
		vqp_event(v, &ev);
}

static void kv_peer_died(void *arg, uint64_t peer)
{
	(void)arg;
	vqp_each(died, &peer);
}

static void kv_failed(void *arg, int code, const char *text)
{
	(void)arg;
	if (code == KV_ERROR_FULL && !full)
		log_warn("some connections will not be protected: shift-kvd: %s", text);
	else
		log_info("rendezvous: %s (%d)", text, code);
	full |= code == KV_ERROR_FULL;
}

static void kv_ready(void *arg, uint32_t events);

static void kv_watch(void)
{
	int fd = kv ? kv_client_fd(kv) : -1;
	short events = kv ? kv_client_poll_events(kv) : 0;
	int ms = kv ? kv_client_poll_timeout_ms(kv) : -1;

	if (kv_fd >= 0 && fd != kv_fd)
		bg_unwatch(kv_fd);
	if (fd >= 0 && (fd != kv_fd || events != kv_events))
		bg_watch(fd, (uint32_t)events, kv_ready, NULL); /* POLLIN and EPOLLIN are one */
	kv_fd = fd;
	kv_events = events;
	bg_timer_set(&kv_timer, ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)ms * MS);
}

static void kv_run(void *arg)
{
	const uint8_t *key;

	(void)arg;
	if (!kv)
		return;
	kv_client_process(kv);
	key = kv_client_job_key(kv);
	if (key && !known) {
		memcpy(job_key, key, sizeof(job_key));
		link_identity(nonce, job_key);
		known = true;
		meet_soon();
	}
}

static void kv_ready(void *arg, uint32_t events)
{
	(void)events;
	kv_run(arg);
}

/* Once per turn of the loop. */
static void before_sleep(void)
{
	kv_watch();
	link_flush_all();
}

static void start(void *arg)
{
	struct kv_callbacks callbacks = {
		.event = kv_event, .peer_died = kv_peer_died, .error = kv_failed};
	char path[256];

	(void)arg;
	operator_start();
	if (kv_socket_path(path, sizeof(path), env.job)) {
		log_error("SHIFT_JOB=%s is no name for a job: nothing is protected", env.job);
		return;
	}
	kv = kv_client_new(path, env.job, nonce, &callbacks);
	bg_before_sleep(before_sleep);
	kv_run(NULL);
}

/* --- the process's own beginning and end ----------------------------------------------------- */

void meet_init(void)
{
	static struct bg_call call = {.fn = start};
	int err;

	while (!nonce)
		if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
			nonce = 0;
	err = stats_open(env.job, nonce, env.report_dir);
	if (err)
		log_info("no statistics: %s", strerror(-err));
	kv_timer.fn = kv_run;
	look_timer.fn = look;
	tomb_timer.fn = clear_tombs;
	nic_on_change(nic_changed);
	link_on_message(message);
	bg_call(&call);
}

static void say_summary(void)
{
	char line[256];

	if (stats_close(line, sizeof(line)) > 0 && env.summary)
		log_always("%s", line);
}

static void leave(void *arg)
{
	kv_client_free(kv);
	kv = NULL;
	kv_watch();
	atomic_store((_Atomic bool *)arg, true);
}

/* At a clean exit the peers are not told of a death. Bounded: exit() must not hang. */
static __attribute__((destructor)) void goodbye(void)
{
	static _Atomic bool done;
	static struct bg_call call = {.fn = leave, .arg = &done};
	uint64_t end = now_ns() + 300 * MS;

	if (!nonce || bg_forked())
		return;
	control_remove();
	say_summary();
	bg_call(&call);
	while (!done && now_ns() < end) {
		struct timespec t = {.tv_nsec = 200000};

		nanosleep(&t, NULL);
	}
}
