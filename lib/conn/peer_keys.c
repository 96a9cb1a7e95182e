/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/peer_keys.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/log.h"

#define ASK_AGAIN_NS 20000000ull

enum key_state { KEY_ASKED, KEY_KNOWN, KEY_NONE };

struct key {
	uint32_t rkey, twin, serial;
	enum key_state state;
};

struct peer_keys {
	uint32_t epoch;
	uint8_t rail;
	uint32_t serial;
	uint64_t asked_ns; /* when the newest question without an answer was sent; 0: none */
	uint32_t n, room;
	struct key *key;
};

struct peer_keys *peer_keys_new(void)
{
	return calloc(1, sizeof(struct peer_keys));
}

void peer_keys_free(struct peer_keys *k)
{
	if (k)
		free(k->key);
	free(k);
}

void peer_keys_reset(struct peer_keys *k, uint32_t epoch, uint8_t rail)
{
	k->epoch = epoch;
	k->rail = rail;
	k->n = 0;
	k->asked_ns = 0;
}

static struct key *peer_key_find(struct peer_keys *k, uint32_t rkey)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (k->key[i].rkey == rkey)
			return &k->key[i];
	return NULL;
}

static struct key *peer_key_add(struct peer_keys *k, uint32_t rkey)
{
	if (k->n == k->room) {
		uint32_t room = k->room ? 2 * k->room : 8;
		struct key *more = realloc(k->key, room * sizeof(*more));

		if (!more)
			return NULL;
		k->key = more;
		k->room = room;
	}
	k->key[k->n] = (struct key){.rkey = rkey, .serial = ++k->serial};
	return &k->key[k->n++];
}

static void peer_key_ask(struct vqp *v, const struct key *key)
{
	struct shift_msg m = {
		.type = SHIFT_MSG_KEY_ASK,
		.rail = v->keys.peer->rail,
		.epoch = v->keys.peer->epoch,
		.serial = key->serial,
		.rkey = key->rkey,
		.src_conn = v->id,
		.dst_conn = v->setup.peer_id,
	};

	v->keys.peer->asked_ns = now_ns();
	if (v->rails.twin[m.rail].path)
		peer_path_send(v->rails.twin[m.rail].path, &m);
}

int peer_keys_get(struct vqp *v, uint32_t rkey, uint32_t *twin)
{
	struct key *key = peer_key_find(v->keys.peer, rkey);

	if (!key) {
		key = peer_key_add(v->keys.peer, rkey);
		if (!key)
			return -ENOMEM;
		peer_key_ask(v, key);
	}
	if (key->state == KEY_KNOWN)
		*twin = key->twin;
	return key->state == KEY_KNOWN ? 0 : key->state == KEY_NONE ? -ENOENT : -EAGAIN;
}

/* The peer deregistered the memory: what it said of that key before, or still has under way, is
 * void. */
static void peer_key_forget(struct vqp *v, const struct shift_msg *m)
{
	struct key *key = peer_key_find(v->keys.peer, m->rkey);
	struct shift_msg reply = *m;

	if (key && m->epoch == v->keys.peer->epoch && m->rail == v->keys.peer->rail)
		*key = v->keys.peer->key[--v->keys.peer->n];
	reply.type = SHIFT_MSG_KEY_FORGOT;
	reply.src_conn = v->id;
	reply.dst_conn = v->setup.peer_id;
	if (v->rails.twin[m->rail].path)
		peer_path_send(v->rails.twin[m->rail].path, &reply);
}

void peer_keys_message(struct vqp *v, const struct shift_msg *m)
{
	struct key *key = peer_key_find(v->keys.peer, m->rkey);

	if (m->type == SHIFT_MSG_KEY_GONE) {
		peer_key_forget(v, m);
		return;
	}
	if (!key || m->epoch != v->keys.peer->epoch || m->rail != v->keys.peer->rail ||
	    m->serial != key->serial || key->state != KEY_ASKED)
		return;
	key->twin = m->twin_rkey;
	key->state = m->key_status == SHIFT_KEY_OK ? KEY_KNOWN : KEY_NONE;
	if (key->state == KEY_NONE)
		log_warn("QP %#x: the peer has no memory region with rkey %#x: a request of the "
			 "program that names it fails",
			 v->qp->qp_num, m->rkey);
}

uint64_t peer_keys_deadline(const struct peer_keys *k)
{
	return k->asked_ns ? k->asked_ns + ASK_AGAIN_NS : UINT64_MAX;
}

void peer_keys_tick(struct vqp *v, uint64_t now)
{
	struct peer_keys *k = v->keys.peer;
	bool open = false;

	if (now < peer_keys_deadline(k))
		return;
	for (uint32_t i = 0; i < k->n; i++)
		if (k->key[i].state == KEY_ASKED) {
			peer_key_ask(v, &k->key[i]);
			open = true;
		}
	if (!open)
		k->asked_ns = 0;
}
