/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/meeting_rails.h"

#include "lib/base/env.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/twin_address.h"

enum { MTU_LEAST = 256 }; /* that verbs know */

/* May atomics go to the peer's NIC of that rail instead of that of rail 0? Only if both have one
 * lock with all others of the host. What is not known counts as no. */
static bool atomics_may_move(const struct record *r, uint8_t i)
{
	return env.atomics_move || r->rail[i].nic == r->rail[0].nic ||
	       (r->rail[i].atomic_cap == IBV_ATOMIC_GLOB &&
		r->rail[0].atomic_cap == IBV_ATOMIC_GLOB);
}

/* Those whose NIC at the peer has become known since the last look, and that are apart. */
static uint32_t rails_found_apart(struct meeting *m, const struct record *r)
{
	uint32_t apart = 0;

	for (uint8_t i = 1; i < m->v->setup.peer_rails; i++) {
		if (m->judged >> i & 1 || !r->rail[i].mtu_bytes)
			continue;
		m->judged |= 1u << i;
		if (!atomics_may_move(r, i))
			apart |= 1u << i;
	}
	return apart;
}

void meeting_tell_apart(struct meeting *m, const struct record *r)
{
	uint32_t apart = rails_found_apart(m, r);

	if (!apart)
		return;
	vqp_enter(m->v);
	for (uint8_t i = 1; i < m->v->setup.peer_rails; i++)
		if (apart >> i & 1)
			vqp_rail_event(m->v, SHIFT_EV_ATOMICS_APART, i);
	vqp_leave(m->v);
}

bool meeting_twins_exist(const struct meeting *m, const struct record *r, uint8_t i)
{
	const struct twin *t = &m->v->rails.twin[i];

	return t->path && atomic_load(&t->qp) && !m->v->rails.jobs[i].stale && r->rail[i].qpn &&
	       m->ours.rail[i].qpn && twin_mtu(&m->ours.rail[i], &r->rail[i]) >= MTU_LEAST;
}
