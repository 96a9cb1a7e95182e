// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Uses shared receive queues in ways that few programs do: late, lists, busy, churn, threads or
 * child; each must work as it does without shift. The program does not know of shift.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/rc.h"

enum { ROOM = 8, ROUNDS = 20000 };

static struct ibv_srq *create_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ROOM, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	expect(srq != NULL, "create_srq");
	return srq;
}

static struct ibv_qp *create_qp_on(struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.cap = {.max_send_wr = ROOM, .max_send_sge = 1},
					.qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	expect(qp != NULL, "create_qp");
	return qp;
}

static int post_to(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static bool is_receive(const struct ibv_wc *wc)
{
	return wc->opcode & IBV_WC_RECV;
}

/* A message to itself. Returns the wr_id of the receive that it has taken. */
static uint64_t message(struct ibv_qp *qp)
{
	struct ibv_wc a, b;

	post(qp, IBV_WR_SEND, 1);
	a = completion();
	b = completion();
	expect(is_receive(&a) != is_receive(&b), "one of each");
	return is_receive(&a) ? a.wr_id : b.wr_id;
}

/* QP and SRQ go with completions unpolled. Where the NIC keeps these they are as they were. */
static void late(void)
{
	struct ibv_srq *srq = create_srq();
	struct ibv_qp *qp = create_qp_on(srq, IBV_QPT_UC);
	struct ibv_wc wc;

	connect_to(qp, qp->qp_num);
	for (uint64_t id = 100; id < 103; id++) {
		expect(!post_to(srq, id), "post_srq_recv");
		post(qp, IBV_WR_SEND, id);
	}
	destroy(qp);
	expect(!ibv_destroy_srq(srq), "destroy_srq");
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		expect(wc.wr_id >= 100 && wc.wr_id < 103, "a wr_id of the program's");
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"late", late},
	};

	(void)message;
	return rc_main(argc, argv, uses, sizeof(uses) / sizeof(uses[0]));
}
