/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sends of the program. On its threads. The fast way takes no lock, the slow way vqp.lock. */
#ifndef SHIFT_VERBS_POST_SEND_H
#define SHIFT_VERBS_POST_SEND_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct vqp;

/* ibv_post_send(), put into the program's contexts: its parameters, result and errors. */
int hot_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* A list of n, 1 to what the send queue holds, of a QP that has a connection: all of it is posted,
 * or nothing. 0 or a positive errno. */
int post_send_batch(struct vqp *v, struct ibv_send_wr *wr, uint32_t n);

#endif
