/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/exported_keys.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/conn/vqp.h"

struct exported_key {
	uint32_t rkey;
	uint32_t gone;	/* serial of its KEY_GONE; 0: it is valid */
	uint32_t asked; /* serial of the peer's newest question about it */
};

static _Atomic uint32_t unforgotten; /* keys of all connections that wait for a KEY_FORGOT */

static struct exported_key *exported_key_find(const struct exported_keys *t, uint32_t rkey)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->key[i].rkey == rkey)
			return &t->key[i];
	return NULL;
}

/* Adds the key. If it is there and gone, it is valid again. NULL: no memory. */
static struct exported_key *exported_key_add(struct exported_keys *t, uint32_t rkey)
{
	struct exported_key *key = exported_key_find(t, rkey);

	if (!key && t->n == t->room) {
		uint32_t room = t->room ? 2 * t->room : 8;
		struct exported_key *more = realloc(t->key, room * sizeof(*more));

		if (!more)
			return NULL;
		t->key = more;
		t->room = room;
	}
	if (!key) {
		key = &t->key[t->n];
		*key = (struct exported_key){.rkey = rkey};
		t->n++;
	}
	atomic_fetch_sub(&unforgotten, key->gone != 0);
	key->gone = 0;
	return key;
}

static void exported_key_drop(struct exported_keys *t, struct exported_key *key)
{
	atomic_fetch_sub(&unforgotten, key->gone != 0);
	*key = t->key[t->n - 1];
	t->n--;
}

void exported_keys_reset(struct exported_keys *t, uint32_t epoch, uint8_t rail)
{
	while (t->n)
		exported_key_drop(t, &t->key[t->n - 1]);
	t->epoch = epoch;
	t->rail = rail;
	t->said_ns = 0;
}

void exported_keys_free(struct exported_keys *t)
{
	exported_keys_reset(t, 0, 0);
	free(t->key);
}

/* --- the peer asks --------------------------------------------------------------------------- */

/* A late copy of a question that was answered before the key was gone: the peer may still have that
 * answer, so KEY_GONE goes on. Once it has forgotten the key, it asks under a new serial. */
static bool is_late_question(const struct exported_key *key, const struct shift_msg *m)
{
	return key && key->gone && !shift_serial_newer(m->serial, key->asked);
}

/* The peer gets only keys of the connection's own protection domain. The key is recorded before it
 * is looked up, so that a thread that deregisters it meanwhile finds the record. For the same
 * reason a record of what the peer was told stays, also if the memory is not found any more. */
void exported_keys_asked(struct vqp *v, const struct shift_msg *m)
{
	struct exported_keys *t = &v->keys.exported;
	struct shift_msg reply = *m;
	struct exported_key *key = exported_key_find(t, m->rkey);
	bool told = key && !key->gone;
	int err;

	if (is_late_question(key, m))
		return;
	if (!m->rail || m->rail != t->rail || m->epoch != t->epoch || !v->rails.twin[m->rail].path)
		return;
	key = exported_key_add(t, m->rkey);
	if (!key)
		return; /* no memory now; the peer asks again */
	if (!told || shift_serial_newer(m->serial, key->asked))
		key->asked = m->serial;
	err = vmr_rkey(v->pd, v->dev->nic[m->rail], m->rkey, &reply.twin_rkey);
	if (err && !told)
		exported_key_drop(t, key);
	if (err == -EAGAIN || err == -ENOBUFS)
		return; /* not registered there yet, or refused; the peer asks again */
	reply.type = SHIFT_MSG_KEY;
	reply.key_status = err ? SHIFT_KEY_NONE : SHIFT_KEY_OK;
	reply.src_conn = v->id;
	reply.dst_conn = v->setup.peer_id;
	peer_path_send(v->rails.twin[m->rail].path, &reply);
}

/* --- gone ------------------------------------------------------------------------------------ */

static void send_key_gone(struct vqp *v, const struct exported_key *key)
{
	struct shift_msg m = {
		.type = SHIFT_MSG_KEY_GONE,
		.rail = v->keys.exported.rail,
		.epoch = v->keys.exported.epoch,
		.serial = key->gone,
		.rkey = key->rkey,
		.src_conn = v->id,
		.dst_conn = v->setup.peer_id,
	};

	v->keys.exported.said_ns = now_ns();
	if (v->rails.twin[m.rail].path)
		peer_path_send(v->rails.twin[m.rail].path, &m);
}

void exported_keys_forgotten(struct vqp *v, const struct shift_msg *m)
{
	struct exported_key *key = exported_key_find(&v->keys.exported, m->rkey);

	if (key && key->gone && m->epoch == v->keys.exported.epoch &&
	    m->rail == v->keys.exported.rail && m->serial == key->gone)
		exported_key_drop(&v->keys.exported, key);
}

void exported_keys_tick(struct vqp *v, uint64_t now)
{
	if (now < exported_keys_deadline(&v->keys.exported))
		return;
	v->keys.exported.said_ns = 0;
	for (uint32_t i = 0; i < v->keys.exported.n && !v->life.dead; i++)
		if (v->keys.exported.key[i].gone)
			send_key_gone(v, &v->keys.exported.key[i]);
}

void exported_keys_say_gone(struct vqp *v, uint32_t rkey)
{
	struct exported_key *key = exported_key_find(&v->keys.exported, rkey);

	if (!key || key->gone)
		return;
	key->gone = ++v->keys.exported.serial;
	atomic_fetch_add(&unforgotten, 1);
	send_key_gone(v, key);
}

bool exported_keys_remembered(struct vqp *v, uint32_t rkey)
{
	const struct exported_key *key = exported_key_find(&v->keys.exported, rkey);

	return key && key->gone;
}

bool exported_keys_any_unforgotten(void)
{
	return atomic_load(&unforgotten);
}
