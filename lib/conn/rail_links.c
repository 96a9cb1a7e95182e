/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/rail_links.h"

#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"

/* The rails on the NIC whose link is another than lib/core knows: those that are up now, or those
 * that are down. */
static uint32_t rails_changed(const struct vqp *v, const struct nic *nic, bool up)
{
	uint32_t rails = 0;

	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (v->dev->nic[i] == nic && vqp_rail_is_up(v, i) == up &&
		    vqp_rail_was_up(v, i) != up)
			rails |= 1u << i;
	return rails;
}

/* All of them at once: they go down and come up together (7.49). */
static void rails_tell(struct vqp *v, const struct nic *nic, uint32_t rails, bool up)
{
	struct shift_event ev = {.type = up ? SHIFT_EV_LINK_UP : SHIFT_EV_LINK_DOWN};

	if (!rails)
		return;
	shift_event_of(&ev, rails);
	vqp_enter(v);
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (rails >> i & 1)
			vqp_rail_note_up(v, i, up);
	if (nic->link_up && !up)
		log_info("QP %#x: its address on %s is gone", v->qpn, nic->name);
	if (rails >> vqp_rail(v) & 1)
		stats_conn_fault(v->stats, up ? 0 : now_ns(), now_ns());
	if (!pause_event(v, &ev))
		shift_conn_event(v->conn, &ev, now_ns());
	vqp_leave(v);
	if (up)
		vqp_await_answers(v);
}

/*
 * Connections are told of changes only: to tell one costs a barrier of all threads, and an event of
 * a NIC may concern few of its connections or none. Who has not met a peer is told when it does
 * (say_hello() in lib/session/rendezvous.c).
 */
void rail_links_look(struct vqp *v, const struct nic *nic)
{
	if (!v->setup.met)
		return;
	rails_tell(v, nic, rails_changed(v, nic, false), false);
	rails_tell(v, nic, rails_changed(v, nic, true), true);
}
