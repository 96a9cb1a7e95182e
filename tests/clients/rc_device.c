/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "tests/clients/rc_device.h"

struct ibv_context *rc_device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	errno = ENODEV;
	for (int i = 0; list && list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

int rc_device_rtr(struct ibv_qp *qp, struct ibv_qp_attr *rtr)
{
	rtr->qp_state = IBV_QPS_RTR;
	return ibv_modify_qp(qp, rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

int rc_device_rts(struct ibv_qp *qp, struct ibv_qp_attr *rts)
{
	rts->qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}
