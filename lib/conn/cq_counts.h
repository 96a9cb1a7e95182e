/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The sends that polls of a CQ have counted by the fast way (lib/verbs/poll.c), and have not added
 * to their connection yet.
 */
#ifndef SHIFT_CONN_CQ_COUNTS_H
#define SHIFT_CONN_CQ_COUNTS_H

#include "lib/conn/vqp.h"

/* No poll looks at the QP any more. Nothing locked. */
void vcq_forget(struct vcq *cq, const struct vqp *v);

/* The sends of v that polls of cq have counted are added to its connection. No poll is inside. */
void vcq_add_done(struct vcq *cq, const struct vqp *v);

#endif
