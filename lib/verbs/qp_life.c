/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/qp_life.h"

#include "lib/base/background.h"
#include "lib/base/env.h"
#include "lib/stats/epochs.h"

void qp_life_created(const struct vqp *v)
{
	const char *nic = v->dev->ctx->device->name;
	uint32_t qpn = v->qp->qp_num;

	stats_qp_created(nic, qpn, v->conn ? v->stats : -1, v->program.why, now_ns());
	/* Of one that shift has not made, it is not known what it sends. */
	if (env.trace_epoch_ns && v->init.cap.max_send_wr)
		epochs_qp_created(nic, qpn, stats_qp_number(nic, qpn), v->init.sq_sig_all);
}

void qp_life_state(const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct stats_peer peer = {.peer_qpn = attr->dest_qp_num};

	if (mask & IBV_QP_AV && attr->ah_attr.is_global)
		peer.peer_gid = attr->ah_attr.grh.dgid.raw;
	stats_qp_state(qp->context->device->name, qp->qp_num, (uint8_t)attr->qp_state,
		       mask & IBV_QP_DEST_QPN ? &peer : NULL, now_ns());
	if (attr->qp_state == IBV_QPS_RESET)
		epochs_qp_reset(qp->context->device->name, qp->qp_num);
}

struct qp_life_name qp_life_name(const struct ibv_qp *qp)
{
	const char *nic = qp->context->device->name;

	return (struct qp_life_name){nic, qp->qp_num, stats_qp_number(nic, qp->qp_num)};
}

void qp_life_destroyed(const struct qp_life_name *name)
{
	stats_qp_destroyed(name->nic, name->qpn, name->number, now_ns());
	epochs_qp_destroyed(name->nic, name->qpn, name->number);
}
