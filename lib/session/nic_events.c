/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/nic_events.h"

#include <string.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/rail_links.h"
#include "lib/conn/twin.h"
#include "lib/session/rendezvous.h"
#include "lib/session/spare_rails.h"

static void link_changed(struct vqp *v, void *arg)
{
	rail_links_look(v, arg);
}

/* Of its control link. */
static bool link_moved(const struct nic *nic)
{
	static struct ctrl_link_addr known[NICS_MAX];
	struct ctrl_link_addr addr;

	ctrl_link_address(nic, &addr);
	if (!memcmp(&addr, &known[nic->index], sizeof(addr)))
		return false;
	known[nic->index] = addr;
	return true;
}

/* The program may ask for no events at all, or long after they have come. */
void nic_events_happened(struct nic *nic, const struct ibv_async_event *event)
{
	struct stats_async e = {
		.nic = nic->name, .event = event->event_type, .fate = STATS_FATE_WATCHED};

	if (event->event_type == IBV_EVENT_PORT_ERR || event->event_type == IBV_EVENT_PORT_ACTIVE)
		e.port = (uint8_t)event->element.port_num;
	else if (event->event_type != IBV_EVENT_DEVICE_FATAL)
		return; /* our own QPs', or of no link */
	stats_async_event(&e, now_ns());
}

void nic_events_changed(struct nic *nic)
{
	static bool seen[NICS_MAX];
	static bool was_up[NICS_MAX];
	static uint8_t psn[NICS_MAX];
	bool moved = nic->ready && link_moved(nic);
	bool rose = nic->link_up && !was_up[nic->index];

	if (nic->ready && !seen[nic->index]) {
		seen[nic->index] = true;
		was_up[nic->index] = nic->link_up;
		psn[nic->index] = nic->psn;
		spare_rails_make_backups(nic);
		if (env.link_events && !nic->link_up)
			vqp_each(link_changed, nic); /* those that have met their peer without it */
		rendezvous_wake();
	} else if (psn[nic->index] != nic->psn) {
		psn[nic->index] = nic->psn;
		rendezvous_nic_changed(nic);
	} else if (env.link_events) {
		log_debug("%s: link %s", nic->name, nic->link_up ? "up" : "down");
		if (nic->link_up)
			memory_nic_ready(nic); /* it may now take memory that it has refused */
		else
			stats_nic_met_failure(nic->name);
		vqp_each(link_changed, nic);
		was_up[nic->index] = nic->link_up;
		if (rose)
			rendezvous_link_up(nic);
		else
			rendezvous_wake(); /* an address may have come */
	}
	if (moved)
		rendezvous_nic_changed(nic);
	else
		rendezvous_follow_gids(nic);
	spare_rails_look();
}
