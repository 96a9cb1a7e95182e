/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA-CM. The QPs of its connections are ours anyway, as librdmacm uses verbs. But the kernel's
 * connection manager speaks over rail 0 only. So we tell the other end over the control links that
 * the program disconnects, and tell the program of its peer's end and of its own; and of what the
 * kernel says of rail 0 meanwhile, the program hears nothing.
 */
#ifndef SHIFT_VERBS_CM_IDS_H
#define SHIFT_VERBS_CM_IDS_H

#include "lib/base/real_rdmacm.h"
#include "lib/conn/vqp.h"

/* To be called before the first hook; the functions stay the caller's. */
void cm_set_real(const struct real_rdmacm *rdmacm);

/* What the room above does: tells the peer of a connection that the program has disconnected it.
 * When the peer has heard, or nobody answers, it calls cm_ended(number). Background thread, with
 * the tables of QPs locked. */
void cm_set_session(void (*disconnects)(struct vqp *v, uint32_t number));

/* The id with this number (vqp.cm_number, or what `disconnects` was given) has no connection any
 * more. If the program has not read DISCONNECTED at that time (now_ns()), it gets one: the kernel's
 * own is lost, or late. A number that has no id any more does nothing. Background thread. */
void cm_ended(uint32_t number, uint64_t at_ns);

/* --- hooks: the program's threads, nothing locked --- */

/* It is about to connect or accept. */
void hook_cm_connects(struct rdma_cm_id *id, const struct rdma_conn_param *param);

/* It is about to disconnect, or to destroy the QP or the id. expects: it will wait for
 * DISCONNECTED. */
void hook_cm_disconnects(struct rdma_cm_id *id, bool expects);
void hook_cm_destroys_channel(struct rdma_event_channel *channel);

/* The verbs themselves. To destroy an id waits until a DISCONNECTED of ours is acknowledged, as
 * librdmacm does for the kernel's events. */
int hook_cm_disconnect(struct rdma_cm_id *id);
int hook_cm_destroy_id(struct rdma_cm_id *id);
void hook_cm_destroy_ep(struct rdma_cm_id *id); /* and its QP, of which the peer was told */
int hook_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int hook_cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int hook_cm_ack_event(struct rdma_cm_event *event);

#endif
