// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Measures the cost of a work request: posts one and polls its completion, again and again, on a QP
 * that is connected to itself. It does not know of shift; tests/bench/datapath runs it with and
 * without the preload. Prints nanoseconds per pair; pairs() is what callgrind counts.
 */
#include <getopt.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH	  128
#define BYTES	  64
#define STRETCHES 50

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char buffer[4096];
} s;

static void fail(const char *what)
{
	fprintf(stderr, "datapath: %s failed\n", what);
	exit(1);
}

static void create(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	if (!list || !list[0])
		fail("ibv_get_device_list");
	s.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!s.ctx)
		fail("ibv_open_device");
	s.pd = ibv_alloc_pd(s.ctx);
	if (!s.pd)
		fail("ibv_alloc_pd");
	s.mr = ibv_reg_mr(s.pd, s.buffer, sizeof(s.buffer),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	s.cq = ibv_create_cq(s.ctx, 2 * DEPTH, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = s.cq;
	s.qp = s.cq ? ibv_create_qp(s.pd, &attr) : NULL;
	if (!s.mr || !s.qp)
		fail("creating the objects");
}

static void modify(struct ibv_qp_attr attr, int mask)
{
	if (ibv_modify_qp(s.qp, &attr, mask | IBV_QP_STATE))
		fail("ibv_modify_qp");
}

static void connect_to_itself(void)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = s.qp->qp_num,
		.rq_psn = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .grh = {.sgid_index = 1, .hop_limit = 64},
			    .port_num = 1},
	};

	if (ibv_query_gid(s.ctx, 1, 1, &rtr.ah_attr.grh.dgid))
		fail("ibv_query_gid");
	modify((struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify((struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = 1,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1},
	       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void poll_one(void)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(s.cq, 1, &wc);
	} while (n == 0);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		fail("a work request");
}

/* two_sided: a receive is posted before, and its completion polled after. */
__attribute__((noinline)) static void pairs(uint64_t n, bool two_sided)
{
	struct ibv_sge sge = {(uintptr_t)s.buffer, BYTES, s.mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = two_sided ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
				 };

	wr.wr.rdma.remote_addr = (uintptr_t)s.buffer + BYTES;
	wr.wr.rdma.rkey = s.mr->rkey;
	while (n--) {
		if (two_sided && ibv_post_recv(s.qp, &recv, &bad_recv))
			fail("ibv_post_recv");
		wr.wr_id = n;
		if (ibv_post_send(s.qp, &wr, &bad))
			fail("ibv_post_send");
		poll_one();
		if (two_sided)
			poll_one();
	}
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of many short stretches: other work of the machine disturbs only some of them. */
static double measure(uint64_t n, bool two_sided)
{
	double stretch[STRETCHES];

	pairs(n / STRETCHES, two_sided); /* warm */
	for (int i = 0; i < STRETCHES; i++) {
		double start = now_ns();

		pairs(n / STRETCHES, two_sided);
		stretch[i] = (now_ns() - start) / (double)(n / STRETCHES);
	}
	qsort(stretch, STRETCHES, sizeof(stretch[0]), compare);
	return stretch[STRETCHES / 2];
}

int main(int argc, char **argv)
{
	uint64_t n = 1000000;
	bool two_sided = false;
	int c;

	while ((c = getopt(argc, argv, "n:r")) != -1) {
		if (c == 'n')
			n = strtoull(optarg, NULL, 10);
		else if (c == 'r')
			two_sided = true;
		else
			return 2;
	}
	if (n < STRETCHES)
		n = STRETCHES;
	create();
	connect_to_itself();
	printf("%.3f\n", measure(n, two_sided));
	if (ibv_destroy_qp(s.qp) || ibv_destroy_cq(s.cq) || ibv_dereg_mr(s.mr) ||
	    ibv_dealloc_pd(s.pd) || ibv_close_device(s.ctx))
		fail("destroying the objects");
	return 0;
}
