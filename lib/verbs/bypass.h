/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* QPs whose queues the program asks for (direct verbs), and posts to around libibverbs. */
#ifndef SHIFT_VERBS_BYPASS_H
#define SHIFT_VERBS_BYPASS_H

#include "lib/conn/vqp.h"

/* A new connection: the queue of its CQ may have been asked for. Nothing entered. */
void bypass_check(struct vqp *v);

/* The program has moved a bypassed QP to RESET: what it had outstanding is gone. */
void bypass_reset(struct vqp *v);

/* Before the program gets the queues of a QP or CQ themselves; either may be NULL. 0, or EBUSY: it
 * cannot have them any more. On its threads. */
int hook_init_direct_obj(struct ibv_qp *qp, struct ibv_cq *cq);

#endif
