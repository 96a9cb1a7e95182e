/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/nic/rc_qp.h"

#include "lib/base/real_verbs.h"

static bool qp_steps_to(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state,
			int mask)
{
	attr->qp_state = state;
	return !real.modify_qp(qp, attr, IBV_QP_STATE | mask);
}

/* Any address of the NIC does: the first one outlives those that an operator sets
 * (doc/soft-roce.md). */
void rc_qp_own_path(const struct nic *nic, struct ibv_context *ctx, struct ibv_qp_attr *attr)
{
	bool ib = nic->port_attr.link_layer == IBV_LINK_LAYER_INFINIBAND;

	attr->ah_attr = (struct ibv_ah_attr){
		.is_global = !ib, .dlid = nic->port_attr.lid, .port_num = nic->port};
	attr->ah_attr.grh.hop_limit = 64;
	if (!ib)
		ibv_query_gid(ctx, nic->port, 0, &attr->ah_attr.grh.dgid);
}

bool rc_qp_to_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	return qp_steps_to(qp, attr, IBV_QPS_INIT,
			   IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) &&
	       qp_steps_to(qp, attr, IBV_QPS_RTR,
			   IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) &&
	       qp_steps_to(qp, attr, IBV_QPS_RTS,
			   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC);
}
