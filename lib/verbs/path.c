/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/verbs/env.h"
#include "lib/verbs/log.h"
#include "lib/verbs/path.h"

#define PREFIX "probe/"

#define SILENT_NS 10000000000ull /* a peer that has not answered for so long has left */

enum { EXCUSES_MAX = 40 }; /* of a probe period each: 1 s */

struct peer_path {
	struct peer_path *next;
	unsigned int users;
	struct nic *nic;
	uint64_t nonce; /* of the peer's process */
	uint8_t peer_nic;
	struct link_peer *link;
	struct probe *probe;
	struct probe_addr ours, theirs; /* published, and connected to */
	bool published, connected;
	bool answered;	    /* ever */
	uint32_t misses;    /* in a row */
	uint64_t done;	    /* WRs of its connections, when a probe was missed last */
	uint32_t excused;   /* misses since the last answer that did not count */
	uint64_t missed_ns; /* the first of them */
};

static struct peer_path *paths;

/* --- probes ---------------------------------------------------------------------------------- */

/* Is any path to this process silent? Then each answer elsewhere is evidence. */
static bool peer_missing(uint64_t nonce)
{
	for (const struct peer_path *p = paths; p; p = p->next)
		if (p->nonce == nonce && p->misses)
			return true;
	return false;
}

struct result {
	struct peer_path *path;
	struct shift_event ev;
	bool all; /* not only those in the middle of something */
};

static void tell(struct vqp *v, void *arg)
{
	struct result *r = arg;

	if (!v->met || (!r->all && !atomic_load(&v->slow)))
		return;
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (v->twin[i].path == r->path) {
			r->ev.rail = i;
			if (vqp_rail(v) == i)
				stats_conn_fault(v->stats, r->path->misses ? r->path->missed_ns : 0,
						 now_ns());
			vqp_enter(v);
			if (!pause_event(v, &r->ev))
				shift_conn_event(v->conn, &r->ev, now_ns());
			vqp_leave(v);
		}
}

struct traffic {
	const struct peer_path *path;
	bool used, waiting;
	uint64_t done;
};

static bool uses(const struct vqp *v, const struct peer_path *path)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (v->twin[i].path == path)
			return true;
	return false;
}

static void look_at(struct vqp *v, void *arg)
{
	struct traffic *t = arg;
	struct shift_conn_view view;

	if (!v->met || !uses(v, t->path)) /* the others are not disturbed */
		return;
	vqp_enter(v);
	shift_conn_view(v->conn, &view);
	if (view.state == SHIFT_ST_ACTIVE && v->twin[view.r].path == t->path) {
		t->used = true;
		t->waiting |= shift_conn_waits(v->conn);
		t->done += view.send_tail;
	}
	vqp_leave(v);
}

enum verdict { ANSWERED, LATE, MISSED };

/*
 * A probe queues behind the traffic: on a busy rail its answer may be hundreds of milliseconds
 * late. A WR that completes is as good an answer. Where none is waited for the other end waits, and
 * has its own probes; but the data of its READs goes our way, so not for ever.
 */
static enum verdict unanswered(struct peer_path *p)
{
	struct traffic t = {.path = p};
	bool moved;

	if (!p->answered)
		return LATE; /* the peer is not there yet */
	vqp_each(look_at, &t);
	moved = t.done != p->done;
	p->done = t.done;
	if (t.waiting)
		return moved ? ANSWERED : MISSED;
	return t.used && ++p->excused < EXCUSES_MAX ? LATE : MISSED;
}

static enum verdict judge(struct peer_path *p, bool answered)
{
	if (!answered)
		return unanswered(p);
	p->excused = 0;
	return ANSWERED;
}

/* Connections are told what changes, not each answer: with all well nobody is disturbed. */
static void result(void *arg, bool answered)
{
	struct peer_path *p = arg;
	bool missed = p->misses, first = !p->answered, ok;
	struct result r = {.path = p};
	enum verdict verdict = judge(p, answered);

	if (verdict == LATE) {
		p->missed_ns = now_ns(); /* what was missed before was no fault */
		return;
	}
	ok = verdict == ANSWERED;
	p->answered = true;
	p->misses = ok ? 0 : p->misses + 1;
	if (p->misses == 1)
		p->missed_ns = now_ns();
	r.ev.type = ok ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED;
	r.all = first || !ok || missed || peer_missing(p->nonce);
	if (p->misses == 3 || (ok && missed))
		log_debug("%s: probes are %s", p->nic->name,
			  ok ? "answered again" : "not answered");
	vqp_each(tell, &r);
}

bool path_answers(const struct peer_path *p)
{
	return p->answered && !p->misses;
}

bool path_is_kept(const struct peer_path *p)
{
	bool silent = p->misses && now_ns() - p->missed_ns > SILENT_NS;

	return p->users == 1 && p->answered && !silent;
}

static void probe_key(char *key, size_t size, uint64_t from, uint64_t to, uint8_t from_nic,
		      uint8_t to_nic)
{
	snprintf(key, size, PREFIX "%016" PRIx64 "/%016" PRIx64 "/%u-%u", from, to, from_nic,
		 to_nic);
}

static void publish(struct peer_path *p, struct kv_client *kv, uint64_t nonce)
{
	struct probe_addr addr;
	char key[KV_KEY_MAX];

	memset(&addr, 0, sizeof(addr));
	if (probe_address(p->probe, &addr) ||
	    (p->published && !memcmp(&addr, &p->ours, sizeof(addr))))
		return;
	probe_key(key, sizeof(key), nonce, p->nonce, p->nic->index, p->peer_nic);
	p->published = !kv_client_put(kv, key, &addr, sizeof(addr));
	p->ours = addr;
}

static void look(struct peer_path *p, struct kv_client *kv, uint64_t nonce)
{
	char key[KV_KEY_MAX];
	const void *value;
	size_t bytes;

	probe_key(key, sizeof(key), p->nonce, nonce, p->peer_nic, p->nic->index);
	if (!p->published || kv_client_get(kv, key, &value, &bytes) || bytes != sizeof(p->theirs) ||
	    (p->connected && !memcmp(value, &p->theirs, sizeof(p->theirs))))
		return;
	memcpy(&p->theirs, value, sizeof(p->theirs));
	p->connected = true;
	probe_connect(p->probe, &p->theirs);
}

bool paths_meet(struct kv_client *kv, uint64_t nonce)
{
	bool missing = false;

	for (struct peer_path *p = paths; p; p = p->next) {
		if (!p->probe)
			continue;
		publish(p, kv, nonce);
		look(p, kv, nonce);
		missing |= !p->connected;
	}
	return missing;
}

static void address_changed(void *arg)
{
	(void)arg;
	meet_soon();
}

/* --- life ------------------------------------------------------------------------------------ */

struct peer_path *path_get(struct nic *nic, uint64_t peer_nonce, const struct rail_addr *peer)
{
	struct peer_path *p;

	for (p = paths; p; p = p->next)
		if (p->nic == nic && p->nonce == peer_nonce && p->peer_nic == peer->nic) {
			p->users++;
			return p;
		}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->nic = nic;
	p->nonce = peer_nonce;
	p->peer_nic = peer->nic;
	p->users = 1;
	p->link = link_peer_new(nic, &peer->link, peer_nonce);
	if (!p->link) {
		free(p);
		return NULL;
	}
	if (env.probes)
		p->probe = probe_new(nic, result, p);
	if (p->probe)
		probe_on_address_change(p->probe, address_changed, p);
	p->next = paths;
	paths = p;
	return p;
}

void path_hold(struct peer_path *p)
{
	p->users++;
}

void path_put(struct peer_path *path)
{
	struct peer_path **p = &paths;

	if (!path || --path->users)
		return;
	while (*p != path)
		p = &(*p)->next;
	*p = path->next;
	if (path->probe)
		probe_free(path->probe);
	link_peer_free(path->link);
	free(path);
}

void path_send(struct peer_path *path, const struct shift_msg *m)
{
	link_send(path->link, m);
}

void link_flush_if_not_bg(void)
{
	if (!bg_is_self())
		link_flush_all();
}
