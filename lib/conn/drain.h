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

#endif
