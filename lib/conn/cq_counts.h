/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The sends that polls of a CQ have counted on the fast way (lib/verbs/poll.c) and that are not
 * added to their connection yet. vcq.done, of the QP vcq.last.
 */
#ifndef SHIFT_CONN_CQ_COUNTS_H
#define SHIFT_CONN_CQ_COUNTS_H

#include "lib/conn/vqp.h"

/* After this no poll of cq uses v any more. Any locks held, no gate; waits until no thread
 * is inside the gate. */
void vcq_forget(struct vcq *cq, const struct vqp *v);

/* Adds the sends of v that polls of cq have counted to its connection. Inside the gate of cq, or
 * while it is shut and nobody is inside. */
void vcq_add_done(struct vcq *cq, const struct vqp *v);

#endif
