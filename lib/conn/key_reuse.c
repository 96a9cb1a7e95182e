/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/key_reuse.h"

#include <time.h>

#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"

#define WAIT_MAX_NS 1000000000ull

struct key_search {
	const struct nic *nic;
	uint32_t rkey;
	bool found;
};

static void conn_key_gone(struct vqp *v, void *arg)
{
	const struct key_search *s = arg;

	if (!v->keys.exported.n || v->dev->nic[0] != s->nic)
		return;
	vqp_enter(v);
	exported_keys_say_gone(v, s->rkey);
	vqp_leave(v);
}

void key_reuse_announce(const struct nic *nic, uint32_t rkey)
{
	struct key_search s = {.nic = nic, .rkey = rkey};

	vqp_each(conn_key_gone, &s);
}

/* On a connection that is over, no request of the peer arrives any more. */
static void conn_key_remembered(struct vqp *v, void *arg)
{
	struct key_search *s = arg;

	if (!v->keys.exported.n || v->dev->nic[0] != s->nic)
		return;
	vqp_enter(v);
	s->found |= !v->life.dead && exported_keys_remembered(v, s->rkey);
	vqp_leave(v);
}

static bool key_is_remembered(const struct nic *nic, uint32_t rkey)
{
	struct key_search s = {.nic = nic, .rkey = rkey};

	if (exported_keys_any_unforgotten())
		vqp_each(conn_key_remembered, &s);
	return s.found;
}

void key_reuse_wait(const struct nic *nic, uint32_t rkey)
{
	uint64_t end = now_ns() + WAIT_MAX_NS;
	struct timespec t = {.tv_nsec = 200000};

	while (key_is_remembered(nic, rkey)) {
		if (now_ns() >= end) {
			log_warn("%s: rkey %#x is used again, and a peer did not confirm in time "
				 "that it forgot the old one; a late request of that peer may "
				 "reach the new memory",
				 nic->name, rkey);
			return;
		}
		nanosleep(&t, NULL);
	}
}
