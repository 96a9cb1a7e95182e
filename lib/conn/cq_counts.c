/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/cq_counts.h"

void vcq_remember(struct vcq *cq, struct vqp *v, uint32_t qpn)
{
	if (assoc_is_full(&cq->qps, qpn))
		assoc_grow(&cq->qps, qpn);
	assoc_put(&cq->qps, qpn, v);
}

void vcq_forget(struct vcq *cq, const struct vqp *v)
{
	struct gate *gate = &cq->gate;

	gate_shut(gate);
	gate_sync(&gate, 1);
	assoc_forget(&cq->qps, v->qp->qp_num);
	gate_open(gate);
}
