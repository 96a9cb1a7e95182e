/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completions on the slow way: fed to their connections in order, which deliver them to the
 * program's CQ (vcq_deliver()).
 */
#ifndef SHIFT_CONN_DRAIN_H
#define SHIFT_CONN_DRAIN_H

#include "lib/conn/vqp.h"

/* Feeds all that the CQ and its shadows hold to the connections. Under cq->drain_lock; takes the
 * gate of cq, and each connection's lock. */
void vcq_drain(struct vcq *cq);

/* No poll looks at the QP any more. Nothing locked. */
void vcq_forget(struct vcq *cq, const struct vqp *v);

/* The sends of v that polls of cq have counted are added to its connection. No poll is inside. */
void vcq_add_done(struct vcq *cq, const struct vqp *v);

#endif
