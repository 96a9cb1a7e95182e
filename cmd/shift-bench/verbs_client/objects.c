/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/verbs_client/client.h"

#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_context *client_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **found = list;
	struct ibv_context *ctx = NULL;

	while (found && *found && client.device &&
	       strcmp(ibv_get_device_name(*found), client.device))
		found++;
	if (found && *found)
		ctx = ibv_open_device(*found);
	if (list)
		ibv_free_device_list(list);
	if (!ctx)
		client_fail(client.device ? "there is no such NIC: ibv_open_device"
					  : "there is no NIC: ibv_open_device");
	return ctx;
}

struct ibv_qp *client_create_qp(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send,
		.recv_cq = recv,
		.srq = client.srq,
		.cap = {.max_send_wr = client.depth,
			.max_recv_wr = client.depth,
			.max_send_sge = CLIENT_SGES,
			.max_recv_sge = 1,
			.max_inline_data = CLIENT_INLINE_BYTES},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		client_fail("ibv_create_qp");
	return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask, const char *what)
{
	int err = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);

	if (!err)
		return;
	errno = err;
	client_fail(what);
}

void client_modify_init(struct ibv_qp *qp)
{
	modify(qp,
	       (struct ibv_qp_attr){
		       .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "ibv_modify_qp to INIT");
}

void client_modify_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.rq_psn = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .grh = {.sgid_index = (uint8_t)client.gid_index, .hop_limit = 64},
			    .port_num = 1},
	};

	if (ibv_query_gid(qp->context, 1, client.gid_index, &rtr.ah_attr.grh.dgid))
		client_fail("ibv_query_gid");
	/* A QP that is connected with itself is no connection for shift. The null provider looks
	 * only at the QP number. */
	if (client.elsewhere)
		rtr.ah_attr.grh.dgid.raw[15] ^= 0x80;
	modify(qp, rtr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	       "ibv_modify_qp to RTR");
}

void client_modify_rts(struct ibv_qp *qp)
{
	modify(qp,
	       (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = 1,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1},
	       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC,
	       "ibv_modify_qp to RTS");
}

static void make_cqs(uint32_t cqs, uint32_t cqe)
{
	client.cq_count = cqs;
	client.cqs = calloc(cqs, sizeof(struct ibv_cq *));
	for (uint32_t i = 0; client.cqs && i < cqs; i++) {
		client.cqs[i] = ibv_create_cq(client.ctx, (int)cqe, NULL, NULL, 0);
		if (!client.cqs[i])
			client_fail("ibv_create_cq");
	}
	if (!client.cqs)
		client_fail("calloc");
}

static void make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = client.depth, .max_sge = 1}};

	client.srq = ibv_create_srq(client.pd, &attr);
	if (!client.srq)
		client_fail("ibv_create_srq");
}

void client_make_objects(uint32_t qps, uint32_t cqs, uint32_t cqe, uint32_t depth)
{
	client.depth = depth;
	client.ctx = client_open();
	client.pd = ibv_alloc_pd(client.ctx);
	client.buffer = aligned_alloc(4096, CLIENT_BUFFER_BYTES);
	if (!client.pd || !client.buffer)
		client_fail("ibv_alloc_pd");
	memset(client.buffer, 0, CLIENT_BUFFER_BYTES);
	client.mr = ibv_reg_mr(client.pd, client.buffer, CLIENT_BUFFER_BYTES, ACCESS);
	if (!client.mr)
		client_fail("ibv_reg_mr");
	make_cqs(cqs, cqe);
	if (client.shared)
		make_srq();
	client.qp_count = qps;
	client.qps = calloc(qps, sizeof(struct ibv_qp *));
	for (uint32_t i = 0; client.qps && i < qps; i++) {
		client.qps[i] = client_create_qp(client.pd, client.cqs[i % cqs],
						 client.cqs[(i + 1) % cqs]);
		client_modify_init(client.qps[i]);
		client_modify_rtr(client.qps[i]);
		client_modify_rts(client.qps[i]);
	}
	if (!client.qps)
		client_fail("calloc");
}

void client_destroy_objects(void)
{
	for (uint32_t i = 0; i < client.qp_count; i++)
		if (ibv_destroy_qp(client.qps[i]))
			client_fail("ibv_destroy_qp");
	if (client.srq && ibv_destroy_srq(client.srq))
		client_fail("ibv_destroy_srq");
	for (uint32_t i = 0; i < client.cq_count; i++)
		if (ibv_destroy_cq(client.cqs[i]))
			client_fail("ibv_destroy_cq");
	if (ibv_dereg_mr(client.mr) || ibv_dealloc_pd(client.pd) || ibv_close_device(client.ctx))
		client_fail("destroying the objects");
	free(client.qps);
	free(client.cqs);
	free(client.buffer);
}
