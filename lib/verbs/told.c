/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "lib/verbs/log.h"
#include "lib/verbs/vobj.h"

#define SAY_AGAIN_NS 20000000ull
#define WAIT_MAX_NS  1000000000ull

struct told_key {
	uint32_t rkey;
	uint32_t gone; /* serial of its KEY_GONE; 0: it is valid */
};

static _Atomic uint32_t unforgotten; /* gone, in all connections */

static struct told_key *find(const struct told *t, uint32_t rkey)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->key[i].rkey == rkey)
			return &t->key[i];
	return NULL;
}

/* Not there yet, or gone: now it is valid. */
static struct told_key *add(struct told *t, uint32_t rkey)
{
	struct told_key *key = find(t, rkey);

	if (!key && t->n == t->room) {
		uint32_t room = t->room ? 2 * t->room : 8;
		struct told_key *more = realloc(t->key, room * sizeof(*more));

		if (!more)
			return NULL;
		t->key = more;
		t->room = room;
	}
	if (!key) {
		key = &t->key[t->n];
		*key = (struct told_key){.rkey = rkey};
		t->n++;
	}
	atomic_fetch_sub(&unforgotten, key->gone != 0);
	key->gone = 0;
	return key;
}

static void drop(struct told *t, struct told_key *key)
{
	atomic_fetch_sub(&unforgotten, key->gone != 0);
	*key = t->key[t->n - 1];
	t->n--;
}

void told_reset(struct told *t, uint32_t epoch, uint8_t rail)
{
	while (t->n)
		drop(t, &t->key[t->n - 1]);
	t->epoch = epoch;
	t->rail = rail;
	t->said_ns = 0;
}

void told_free(struct told *t)
{
	told_reset(t, 0, 0);
	free(t->key);
}

/* --- the peer asks --------------------------------------------------------------------------- */

/* Keys only of the connection's own protection domain. On record before it is looked up: who
 * deregisters it meanwhile finds it there. */
void told_ask(struct vqp *v, const struct shift_msg *m)
{
	struct told *t = &v->told;
	struct shift_msg reply = *m;
	struct told_key *key;
	int err;

	if (!m->rail || m->rail != t->rail || m->epoch != t->epoch || !v->twin[m->rail].path)
		return;
	key = add(t, m->rkey);
	if (!key)
		return; /* the peer asks again */
	err = vmr_rkey(v->pd, v->dev->nic[m->rail], m->rkey, &reply.twin_rkey);
	if (err)
		drop(t, key);
	if (err == -EAGAIN)
		return; /* likewise */
	reply.type = SHIFT_MSG_KEY;
	reply.key_status = err ? SHIFT_KEY_NONE : SHIFT_KEY_OK;
	reply.src_conn = v->id;
	reply.dst_conn = v->peer_id;
	path_send(v->twin[m->rail].path, &reply);
}

/* --- gone ------------------------------------------------------------------------------------ */

static void say_gone(struct vqp *v, const struct told_key *key)
{
	struct shift_msg m = {
		.type = SHIFT_MSG_KEY_GONE,
		.rail = v->told.rail,
		.epoch = v->told.epoch,
		.serial = key->gone,
		.rkey = key->rkey,
		.src_conn = v->id,
		.dst_conn = v->peer_id,
	};

	v->told.said_ns = now_ns();
	if (v->twin[m.rail].path)
		path_send(v->twin[m.rail].path, &m);
}

struct search {
	const struct nic *nic;
	uint32_t rkey;
	bool found;
};

static void gone(struct vqp *v, void *arg)
{
	const struct search *s = arg;
	struct told_key *key;

	if (!v->told.n || v->dev->nic[0] != s->nic)
		return;
	vqp_enter(v);
	key = find(&v->told, s->rkey);
	if (key && !key->gone) {
		key->gone = ++v->told.serial;
		atomic_fetch_add(&unforgotten, 1);
		say_gone(v, key);
	}
	vqp_leave(v);
}

void told_gone(const struct nic *nic, uint32_t rkey)
{
	struct search s = {.nic = nic, .rkey = rkey};

	vqp_each(gone, &s);
}

void told_forgot(struct vqp *v, const struct shift_msg *m)
{
	struct told_key *key = find(&v->told, m->rkey);

	if (key && key->gone && m->epoch == v->told.epoch && m->rail == v->told.rail &&
	    m->serial == key->gone)
		drop(&v->told, key);
}

uint64_t told_deadline(const struct told *t)
{
	return t->said_ns ? t->said_ns + SAY_AGAIN_NS : UINT64_MAX;
}

void told_tick(struct vqp *v, uint64_t now)
{
	if (now < told_deadline(&v->told))
		return;
	v->told.said_ns = 0;
	for (uint32_t i = 0; i < v->told.n && !v->dead; i++)
		if (v->told.key[i].gone)
			say_gone(v, &v->told.key[i]);
}

/* --- used again ------------------------------------------------------------------------------ */

/* Of a connection that is over nothing comes any more. */
static void look(struct vqp *v, void *arg)
{
	struct search *s = arg;
	struct told_key *key;

	if (!v->told.n || v->dev->nic[0] != s->nic)
		return;
	vqp_enter(v);
	key = v->dead ? NULL : find(&v->told, s->rkey);
	s->found |= key && key->gone;
	vqp_leave(v);
}

static bool remembered(const struct nic *nic, uint32_t rkey)
{
	struct search s = {.nic = nic, .rkey = rkey};

	if (atomic_load(&unforgotten))
		vqp_each(look, &s);
	return s.found;
}

void told_wait(const struct nic *nic, uint32_t rkey)
{
	uint64_t end = now_ns() + WAIT_MAX_NS;
	struct timespec t = {.tv_nsec = 200000};

	while (remembered(nic, rkey)) {
		if (now_ns() >= end) {
			log_warn("key %#x of %s is used again, and a peer has not said that it "
				 "forgot the old one",
				 rkey, nic->name);
			return;
		}
		nanosleep(&t, NULL);
	}
}
