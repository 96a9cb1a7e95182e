/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's ibv_post_send(), put into its contexts. On the program's threads; parameters,
 * results and errors are the verb's. The fast way takes no lock, the slow way vqp.lock. */
#ifndef SHIFT_VERBS_POST_SEND_H
#define SHIFT_VERBS_POST_SEND_H

#include <infiniband/verbs.h>

int hot_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

#endif
