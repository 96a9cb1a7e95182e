/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/tombstones.h"

#include <stdlib.h>

#include "lib/session/path_health.h"
#include "lib/session/peer_paths.h"

#define TOMB_AGAIN_NS 60000000000ull /* not longer than a tombstone lives */
#define CLEAR_NS      1000000000ull  /* not more often: each time all are looked at */

/* A program that makes and ends thousands of connections leaves as many. */
enum { BUCKETS = 256 };

struct tomb {
	struct tomb *next;
	struct shift_tombstone stone;
	uint32_t id;
	uint64_t peer_nonce;
	uint8_t rails;
	struct nic *nic[SHIFT_RAILS_MAX];
	struct peer_path *path[SHIFT_RAILS_MAX];
};

static void tombs_clear(void *arg);

static struct tomb *tombs[BUCKETS]; /* by id */
static struct bg_timer tomb_timer = {.fn = tombs_clear};

/* Releases the paths that the peer does not need. false: some are kept. */
static bool tomb_release_paths(struct tomb *t)
{
	bool all = true;

	for (uint8_t i = 0; i < t->rails; i++) {
		if (t->path[i] && path_health_keep_for_peer(t->path[i])) {
			all = false;
			continue;
		}
		peer_path_put(t->path[i]);
		t->path[i] = NULL;
	}
	return all;
}

/* Frees those of a bucket whose time is over. The next time to look, or UINT64_MAX. */
static uint64_t bucket_clear(struct tomb **p, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	while (*p) {
		struct tomb *t = *p;
		uint64_t at = t->stone.expires_ns;

		if (at <= now && tomb_release_paths(t)) {
			*p = t->next;
			free(t);
			continue;
		}
		if (at <= now)
			at = now + TOMB_AGAIN_NS;
		next = at < next ? at : next;
		p = &t->next;
	}
	return next;
}

/* Without this the probes to every former peer would go on for ever. */
static void tombs_clear(void *arg)
{
	uint64_t now = now_ns(), next = UINT64_MAX;

	(void)arg;
	for (unsigned int i = 0; i < BUCKETS; i++) {
		uint64_t at = bucket_clear(&tombs[i], now);

		next = at < next ? at : next;
	}
	bg_timer_set(&tomb_timer, next < now + CLEAR_NS ? now + CLEAR_NS : next);
}

void tombstone_leave(struct vqp *v)
{
	struct tomb *t = calloc(1, sizeof(*t));

	if (!t)
		return;
	pthread_mutex_lock(&v->lock);
	shift_conn_tombstone(v->conn, now_ns(), &t->stone);
	pthread_mutex_unlock(&v->lock);
	if (!t->stone.valid || !v->setup.met) {
		free(t);
		return;
	}
	t->id = v->id;
	t->peer_nonce = v->setup.peer_nonce;
	t->rails = v->dev->rails;
	for (uint8_t i = 0; i < t->rails; i++) {
		t->nic[i] = v->dev->nic[i];
		t->path[i] = v->rails.twin[i].path;
		if (t->path[i])
			peer_path_hold(t->path[i]);
	}
	t->next = tombs[t->id % BUCKETS];
	tombs[t->id % BUCKETS] = t;
	if (!tomb_timer.heap_at) /* if it is set, it fires earlier */
		bg_timer_set(&tomb_timer, t->stone.expires_ns);
}

void tombstone_answer(const struct nic *nic, const struct shift_msg *m)
{
	uint64_t now = now_ns();

	if (m->type != SHIFT_MSG_SWITCH && m->type != SHIFT_MSG_QUERY_PSN)
		return;
	for (struct tomb *t = tombs[m->dst_conn % BUCKETS]; t; t = t->next)
		if (t->id == m->dst_conn && t->peer_nonce == m->src_nonce &&
		    t->stone.answer.dst_conn == m->src_conn && t->stone.expires_ns >= now)
			for (uint8_t i = 0; i < t->rails; i++)
				if (t->nic[i] == nic && t->path[i])
					peer_path_send(t->path[i], &t->stone.answer);
}
