/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/cq_counts.h"

void vcq_add_done(struct vcq *cq, const struct vqp *v)
{
	if (!v || cq->last != v)
		return;
	*shift_fast_done(v->conn) += cq->done;
	cq->done = 0;
}

void vcq_forget(struct vcq *cq, const struct vqp *v)
{
	struct gate *gate = &cq->gate;

	gate_shut(gate);
	gate_sync(&gate, 1);
	if (cq->last == v) {
		vcq_add_done(cq, v);
		cq->last = NULL;
		cq->alike.qpn = 0;
	}
	gate_open(gate);
}
