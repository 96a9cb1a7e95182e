/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's ibv_post_recv(), put into its contexts. On the program's threads; parameters,
 * results and errors are the verb's. The fast way takes no lock, the slow way vqp.lock. */
#ifndef SHIFT_VERBS_POST_RECV_H
#define SHIFT_VERBS_POST_RECV_H

#include <infiniband/verbs.h>

int hot_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
