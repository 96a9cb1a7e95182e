/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sends of the program. On its threads. The fast way takes no lock, the slow way vqp.lock. */
#ifndef SHIFT_VERBS_POST_SEND_H
#define SHIFT_VERBS_POST_SEND_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct vqp;

/* ibv_post_send(), put into the program's contexts: its parameters, result and errors. */
int hot_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* Posts a list to the program's QP: all of it, or nothing. 0 or a positive errno. Inside the gate:
 * waits for nothing but the provider's locks. */
typedef int post_all_fn(struct vqp *v, const struct ibv_send_wr *wr);

/* A list of n, 1 to what the send queue holds, of a QP that has a connection: all of it is posted,
 * wherever the connection is, or nothing. 0 or a positive errno. */
int post_send_batch(struct vqp *v, struct ibv_send_wr *wr, uint32_t n, post_all_fn *post_all);

#endif
