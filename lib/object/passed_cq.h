/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * CQs that the program polls by ibv_start_poll() and that stay the NIC's alone, because they hold
 * more of a completion than we could keep (lib/verbs/cq_ex.c). A QP on one may take its receives
 * from an SRQ of ours, and its completions get the program's wr_id back. Any thread.
 */
#ifndef SHIFT_OBJECT_PASSED_CQ_H
#define SHIFT_OBJECT_PASSED_CQ_H

#include <infiniband/verbs.h>

/* cq: a new one, or NULL. Returns cq. */
struct ibv_cq_ex *passed_cq_created(struct ibv_cq_ex *cq);

/* Around the verb that destroys it: what is kept of it, or NULL; and the verb has done so. Until
 * then another thread may poll it, as the verb may fail. After it another thread may make a CQ at
 * this address at once, of which something else is kept. */
void *passed_cq_find(const struct ibv_cq *cq);
void passed_cq_ended(const struct ibv_cq *cq, void *kept);

#endif
