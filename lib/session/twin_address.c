/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/twin_address.h"

#include <string.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/conn/rail_links.h"
#include "lib/session/own_address.h"

/* The threads that arm read it. */
void twin_set_gid(struct vqp *v, uint8_t rail, const struct nic_gid *gid, int index)
{
	pthread_mutex_lock(&v->lock);
	v->rails.twin[rail].gid = *gid;
	v->rails.twin[rail].gid_index = index;
	pthread_mutex_unlock(&v->lock);
}

/* While the link is down some addresses are only away. */
bool twin_has_moved(const struct vqp *v, uint8_t rail)
{
	const struct nic *nic = v->dev->nic[rail];
	const struct twin *t = &v->rails.twin[rail];

	return t->clean && nic->link_up && v->program.attr.ah_attr.is_global &&
	       nic_gid_is_lost(nic, &t->gid);
}

void twin_take_new_gid(struct vqp *v, uint8_t rail)
{
	const union ibv_gid *old = &v->rails.twin[rail].gid.value;
	const struct nic *nic = v->dev->nic[rail];
	struct nic_gid gid;
	int index = own_gid_for_twin(nic, &v->rails.twin[0].gid, &gid);

	if (index < 0 || !nic_gid_same_kind(&gid.value, old) ||
	    !memcmp(&gid.value, old, sizeof(*old)))
		return;
	twin_set_gid(v, rail, &gid, index);
	v->rails.unheard |= 1u << rail;
	log_info("QP %#x: its twin on %s has another address", v->qpn, nic->name);
}

/* While a rail is not open, nobody takes what its NIC says of an address of ours. */
void twin_look(struct vqp *v, uint8_t rail)
{
	if (env.link_events)
		rail_links_look(v, v->dev->nic[rail]);
}

void twins_heard(struct vqp *v)
{
	uint32_t heard = v->rails.unheard;

	v->rails.unheard = 0;
	for (uint8_t i = 1; env.link_events && i < v->dev->rails; i++)
		if (heard >> i & 1)
			rail_links_look(v, v->dev->nic[i]);
}

void twins_follow_peer(struct vqp *v, const struct rail_addr *rail)
{
	pthread_mutex_lock(&v->lock);
	for (uint8_t i = 1; i < v->setup.peer_rails; i++)
		if (v->rails.twin[i].clean && rail[i].qpn == v->rails.twin[i].peer.qpn)
			v->rails.twin[i].peer = rail[i];
	pthread_mutex_unlock(&v->lock);
}

void twins_find_pkey(struct vqp *v, const struct ibv_qp_attr *attr)
{
	__be16 pkey = own_pkey_at(v->dev->nic[0], attr->port_num, attr->pkey_index);

	pthread_mutex_lock(&v->lock);
	v->rails.pkey = pkey;
	pthread_mutex_unlock(&v->lock);
}

/* More may not get through between the hosts. */
uint16_t twin_own_mtu(const struct vqp *v, uint8_t i)
{
	uint32_t port = v->dev->nic[i]->mtu_bytes, asked = 128u << v->program.attr.path_mtu;

	return (uint16_t)(i && asked < port ? asked : port);
}

uint32_t twin_mtu(const struct rail_addr *ours, const struct rail_addr *theirs)
{
	return ours->mtu_bytes < theirs->mtu_bytes ? ours->mtu_bytes : theirs->mtu_bytes;
}
