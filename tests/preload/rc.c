// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/preload/rc.h"

struct ibv_context *ctx;
struct ibv_pd *pd;
struct ibv_cq *cq;
struct ibv_mr *mr;
char buffer[64];

void expect(bool holds, const char *what)
{
	if (holds)
		return;
	printf("failed: %s (%m)\n", what);
	exit(1);
}

struct ibv_qp *create_qp(struct ibv_pd *on, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = depth,
						.max_recv_wr = depth,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(on, &attr);

	expect(qp != NULL, "create_qp");
	expect(qp->pd == on, "qp->pd");
	return qp;
}

void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	expect(!ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), "modify_qp");
}

void to_init(struct ibv_qp *qp)
{
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void to_rts(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1,
			    .grh = {.sgid_index = 1, .hop_limit = 64},
			    .port_num = 1},
	};

	expect(!ibv_query_gid(ctx, 1, 1, &rtr.ah_attr.grh.dgid), "query_gid");
	modify(qp, rtr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7},
	       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	to_init(qp);
	to_rts(qp, peer);
}

void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)buffer + 8;
	wr.wr.rdma.rkey = mr->rkey;
	expect(!ibv_post_send(qp, &wr, &bad), "post_send");
}

struct ibv_wc any_completion(void)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (!n);
	expect(n == 1, "poll_cq");
	return wc;
}

struct ibv_wc completion(void)
{
	struct ibv_wc wc = any_completion();

	expect(wc.status == IBV_WC_SUCCESS, "a completion");
	return wc;
}

void destroy(struct ibv_qp *qp)
{
	expect(!ibv_destroy_qp(qp), "destroy_qp");
}

static void begin(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	expect(list && list[0], "a device");
	ctx = getenv("IMPORTED") ? ibv_import_device(open("/dev/null", O_RDONLY))
				 : ibv_open_device(list[0]);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	cq = pd ? ibv_create_cq(ctx, 1024, NULL, NULL, 0) : NULL;
	mr = cq ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	expect(mr != NULL, "the beginning");
	ibv_free_device_list(list);
}

int rc_main(int argc, char **argv, const struct use *uses, unsigned int n)
{
	begin();
	for (unsigned int i = 0; i < n; i++)
		if (argc > 1 && !strcmp(argv[1], uses[i].name))
			uses[i].fn();
	expect(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
		       !ibv_close_device(ctx),
	       "the end");
	puts("done");
	return 0;
}
