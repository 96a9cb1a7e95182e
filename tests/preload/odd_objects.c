// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Uses, of what verbs offer, one of the things that few programs use: windows, loopback, pair,
 * domain or many; each must work as it does without shift, of which this knows nothing. STAY in the
 * environment: a connection stays until a line or the end comes on standard input.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char buffer[64];

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	printf("failed: %s (%m)\n", what);
	exit(1);
}

static struct ibv_qp *create_qp(struct ibv_pd *on)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(on, &attr);

	expect(qp != NULL, "create_qp");
	expect(qp->pd == on, "qp->pd");
	return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	expect(!ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), "modify_qp");
}

static void to_init(struct ibv_qp *qp)
{
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void to_rts(struct ibv_qp *qp, uint32_t peer)
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

static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	to_init(qp);
	to_rts(qp, peer);
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (!n);
	expect(n == 1 && wc.status == IBV_WC_SUCCESS, "poll_cq");
	return wc;
}

static void write_one(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)buffer + 8;
	wr.wr.rdma.rkey = mr->rkey;
	expect(!ibv_post_send(qp, &wr, &bad), "post_send");
	expect(completion().wr_id == id, "whose completion");
}

static void send_one(struct ibv_qp *from, struct ibv_qp *to, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = id + 1, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	expect(!ibv_post_recv(to, &recv, &bad_recv), "post_recv");
	expect(!ibv_post_send(from, &wr, &bad), "post_send");
	expect(completion().wr_id + completion().wr_id == 2 * id + 1, "whose completions");
}

static void destroy(struct ibv_qp *qp)
{
	expect(!ibv_destroy_qp(qp), "destroy_qp");
}

static void bind(struct ibv_qp *qp, struct ibv_mw *mw, uint64_t id)
{
	struct ibv_send_wr *bad,
		wr = {.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw_bind one = {.wr_id = id + 1, .send_flags = IBV_SEND_SIGNALED};

	wr.bind_mw.mw = mw;
	expect(!ibv_post_send(qp, &wr, &bad), "BIND_MW");
	expect(completion().wr_id == id, "whose completion");
	expect(!ibv_bind_mw(qp, mw, &one), "bind_mw");
	expect(completion().wr_id == id + 1, "whose completion");
}

/* On a QP that was there before the first window, and on one that came later. */
static void windows(void)
{
	struct ibv_qp *before = create_qp(pd), *after;
	struct ibv_mw *mw;

	connect_to(before, before->qp_num ^ 0x800000); /* somebody elsewhere */
	write_one(before, 1);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	expect(mw != NULL, "alloc_mw");
	after = create_qp(pd);
	connect_to(after, after->qp_num ^ 0x800000);
	for (uint64_t i = 0; i < 40; i += 8) {
		bind(before, mw, 10 + i);
		write_one(before, 12 + i);
		bind(after, mw, 14 + i);
		write_one(after, 16 + i);
	}
	expect(!ibv_dealloc_mw(mw), "dealloc_mw");
	destroy(before);
	destroy(after);
}

static void loopback(void)
{
	struct ibv_qp *qp = create_qp(pd);

	connect_to(qp, qp->qp_num);
	for (uint64_t i = 0; i < 100; i += 2) {
		write_one(qp, i);
		send_one(qp, qp, i);
	}
	if (getenv("STAY"))
		getchar();
	destroy(qp);
}

/* Two of one process, on one NIC. */
static void pair(void)
{
	struct ibv_qp *a = create_qp(pd), *b = create_qp(pd);

	connect_to(a, b->qp_num);
	connect_to(b, a->qp_num);
	for (uint64_t i = 0; i < 100; i += 2) {
		send_one(a, b, i);
		send_one(b, a, i);
		write_one(a, i);
	}
	if (getenv("STAY"))
		getchar();
	destroy(a);
	destroy(b);
}

static void domain(void)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(ctx, &td_attr);
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &attr);
	struct ibv_mr *of_pd = mr;
	struct ibv_qp *qp;

	expect(td && parent, "alloc_parent_domain");
	mr = ibv_reg_mr(parent, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	expect(mr && mr->pd == parent, "reg_mr on a parent domain");
	qp = create_qp(parent);
	connect_to(qp, qp->qp_num ^ 0x800000);
	write_one(qp, 1);
	destroy(qp);
	expect(!ibv_dereg_mr(mr), "dereg_mr");
	mr = of_pd;
	expect(!ibv_dealloc_pd(parent) && !ibv_dealloc_td(td), "dealloc of a parent domain");
}

/* Strace shows what stands between the two getppid: RTR and RTS of many. */
static void many(void)
{
	struct ibv_qp *qp[64];

	for (int i = 0; i < 64; i++) {
		qp[i] = create_qp(pd);
		to_init(qp[i]);
	}
	getppid();
	for (int i = 0; i < 64; i++)
		to_rts(qp[i], qp[i]->qp_num ^ 0x800000);
	getppid();
	for (int i = 0; i < 64; i++)
		destroy(qp[i]);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} what[] = {{"windows", windows},
		    {"loopback", loopback},
		    {"pair", pair},
		    {"domain", domain},
		    {"many", many}};
	struct ibv_device **list = ibv_get_device_list(NULL);

	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	cq = pd ? ibv_create_cq(ctx, 64, NULL, NULL, 0) : NULL;
	mr = cq ? ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE) : NULL;
	expect(mr != NULL, "the beginning");
	ibv_free_device_list(list);
	for (size_t i = 0; i < sizeof(what) / sizeof(*what); i++)
		if (argc > 1 && !strcmp(argv[1], what[i].name))
			what[i].fn();
	expect(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
		       !ibv_close_device(ctx),
	       "the end");
	puts("done");
	return 0;
}
