/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The QPs whose completions a CQ has seen: polls on the fast way (lib/verbs/poll.c) find them there
 * and count for their connections.
 */
#ifndef SHIFT_CONN_CQ_COUNTS_H
#define SHIFT_CONN_CQ_COUNTS_H

#include "lib/conn/vqp.h"

/* After this no poll of cq uses v any more. Any locks held, no gate; waits until no thread
 * is inside the gate. */
void vcq_forget(struct vcq *cq, const struct vqp *v);

/* v has completions in cq, and is not among those that it remembers. Inside the gate of cq. */
void vcq_remember(struct vcq *cq, struct vqp *v, uint32_t qpn);

#endif
