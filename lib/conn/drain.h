/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completions on the slow way. They are fed to their connections, in order, and these deliver them
 * to the program's CQ (vcq_deliver()).
 */
#ifndef SHIFT_CONN_DRAIN_H
#define SHIFT_CONN_DRAIN_H

#include "lib/conn/vqp.h"

/* Feeds all completions of the CQ and its shadows to the connections. Under cq->drain_lock; shuts
 * the gate of cq meanwhile, and takes the lock of each connection in turn. Any thread. 0, or what
 * the NIC's poll_cq has failed with. */
int vcq_drain(struct vcq *cq);

/* The same, unless the program has its queue itself; also for the CQs of a QP. Any thread, nothing
 * locked. */
void vcq_feed(struct vcq *cq);
void vqp_drain(struct vqp *v);

/* The same for a thread that has a reference only. A program that destroys the QP may destroy its
 * CQs next. It waits for drain_lock after it has set v->life.gone, so a drain after that must not
 * touch the CQ. */
void vqp_drain_unless_gone(struct vqp *v);

#endif
