/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's ibv_poll_cq(), put into its contexts. On the program's threads; parameters and
 * results are the verb's. It takes no lock on the fast way; on the slow way cq->drain_lock and what
 * follows. */
#ifndef SHIFT_VERBS_POLL_H
#define SHIFT_VERBS_POLL_H

#include <infiniband/verbs.h>

int hot_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

#endif
