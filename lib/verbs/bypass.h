/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Bypassed QPs: the program asks for their queues (direct verbs) and posts to them by itself. Shift
 * then releases their connections. */
#ifndef SHIFT_VERBS_BYPASS_H
#define SHIFT_VERBS_BYPASS_H

#include "lib/conn/vqp.h"

/* A new connection: releases it if the program has the queue of its CQ already. On the program's
 * threads, nothing locked. */
void bypass_check(struct vqp *v);

/* The program has moved a bypassed QP to RESET, so nothing of it is outstanding any more. On the
 * program's threads, nothing locked. */
void bypass_reset(struct vqp *v);

/* To be called before the program gets the queues of a QP or of a CQ; either may be NULL. 0; or
 * EBUSY: a connection has moved, and the program cannot have its queues any more. On the program's
 * threads. */
int hook_init_direct_obj(struct ibv_qp *qp, struct ibv_cq *cq);

/* A QP was made as an object of the firmware, on a context of the program: it is counted, and known
 * to be on its NIC until the object is destroyed. */
void hook_created_devx_qp(struct ibv_context *ctx, const void *obj);

/* Destroys an object of the firmware by destroy(); it may be such a QP. Returns what that does. */
int hook_destroy_devx(void *obj, int (*destroy)(void *obj));

#endif
