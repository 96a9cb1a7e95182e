/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Addresses of twins, P_Keys and MTUs. GIDs may change while the connection lives
 * (doc/protocol.md, 7.50): ours is replaced, if there is another of its kind, and cannot be used
 * before the peer has heard of it. Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_TWIN_ADDRESS_H
#define SHIFT_SESSION_TWIN_ADDRESS_H

#include "lib/conn/vqp.h"

/* Sets the GID of our QP on that rail, which stood at that index of its NIC. */
void twin_set_gid(struct vqp *v, uint8_t rail, const struct nic_gid *gid, int index);

/* Does the peer have a GID of our twin that its NIC has lost, though its link is up? */
bool twin_has_moved(const struct vqp *v, uint8_t rail);

/* Our twin that has moved gets another GID, if there is one. */
void twin_take_new_gid(struct vqp *v, uint8_t rail);

/* That rail opens: lib/core learns whether its link is up, and whether our address is there. On the
 * background thread, unlocked. */
void twin_look(struct vqp *v, uint8_t rail);

/* The peer has heard of the GIDs of our twins. */
void twins_heard(struct vqp *v);

/* What the peer says of its rails, which are as many as the connection has. */
void twins_follow_peer(struct vqp *v, const struct rail_addr *rail);

/* Notes the program's P_Key by its value: twins have it elsewhere in their NICs' tables. */
void twins_find_pkey(struct vqp *v, const struct ibv_qp_attr *attr);

/* The path MTU of our end on that rail, in bytes: of a twin never larger than the program's. */
uint16_t twin_own_mtu(const struct vqp *v, uint8_t rail);

/* The path MTU of the two twins of a rail: of what the two ends have told each other, and of
 * nothing else, so that both come to the same. What an end says there it never changes. 0: one of
 * them does not know its own yet. */
uint32_t twin_mtu(const struct rail_addr *ours, const struct rail_addr *theirs);

#endif
