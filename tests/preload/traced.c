// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Posts for SHIFT_TRACE=epochs to record. At the end the program runs what the variable THEN says,
 * for others to read what is recorded.
 */
#include <stdlib.h>

#include "tests/preload/ex.h"

static struct ibv_send_wr write_of(struct ibv_sge *sge, uint32_t bytes, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags};

	*sge = (struct ibv_sge){(uintptr_t)buffer, bytes, mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)buffer;
	wr.wr.rdma.rkey = mr->rkey;
	return wr;
}

static int post_all(struct ibv_qp *qp, struct ibv_send_wr *wr, int n)
{
	struct ibv_send_wr *bad;

	for (int i = 0; i < n - 1; i++)
		wr[i].next = wr + i + 1;
	return ibv_post_send(qp, wr, &bad);
}

static void then(void)
{
	const char *what = getenv("THEN");

	expect(!what || !system(what), "what comes then");
}

static struct ibv_qp *connected_to_itself(void)
{
	struct ibv_qp *qp = create_qp(pd, 8);

	connect_to(qp, qp->qp_num);
	return qp;
}

/* 65 bytes in 4 requests, and a READ; a request that is refused is none. */
static void lists(void)
{
	struct ibv_qp *qp = connected_to_itself();
	struct ibv_sge sge[3];
	struct ibv_send_wr wr[3] = {write_of(sge, 10, 0), write_of(sge + 1, 20, 0),
				    write_of(sge + 2, 30, IBV_SEND_SIGNALED)};

	expect(!post_all(qp, wr, 3), "a list");
	completion();
	wr[0] = write_of(sge, 5, IBV_SEND_SIGNALED);
	wr[1] = write_of(sge + 1, 40, IBV_SEND_SIGNALED);
	wr[1].num_sge = 1000;
	expect(post_all(qp, wr, 2), "a list whose second is refused");
	completion();
	post(qp, IBV_WR_RDMA_READ, 1);
	completion();
	then();
	destroy(qp);
}

/* 7 bytes: what was outstanding at RESET has no completion. */
static void reset(void)
{
	struct ibv_qp *qp = connected_to_itself();
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_of(&sge, 50, 0);

	expect(!post_all(qp, &wr, 1), "an unsignaled one");
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	connect_to(qp, qp->qp_num);
	wr = write_of(&sge, 7, IBV_SEND_SIGNALED);
	expect(!post_all(qp, &wr, 1), "a signaled one");
	completion();
	then();
	destroy(qp);
}

/* No bytes: both have an error. */
static void errors(void)
{
	struct ibv_qp *qp = connected_to_itself();
	struct ibv_sge sge[2];
	struct ibv_send_wr wr[2] = {write_of(sge, 11, 0), write_of(sge + 1, 12, IBV_SEND_SIGNALED)};

	wr[0].wr.rdma.rkey = 0xbad; /* nullverbs refuses it */
	expect(!post_all(qp, wr, 2), "a list");
	expect(any_completion().status && any_completion().status, "errors");
	then();
	destroy(qp);
}

/* 24 bytes: three of 8. */
static void by_wr_api(void)
{
	struct ibv_qp_ex *ex = connected();

	expect(!try_batch(ex, 1, 3), "a batch");
	writes_complete(1, 3);
	then();
	end(ex);
}

/* 9 bytes. */
static void by_start_poll(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8};
	struct ibv_cq_ex *polled = ibv_create_cq_ex(ctx, &attr);
	struct ibv_cq *before = cq;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_qp *qp;
	int err;

	expect(polled, "create_cq_ex");
	cq = ibv_cq_ex_to_cq(polled);
	qp = connected_to_itself();
	wr = write_of(&sge, 9, IBV_SEND_SIGNALED);
	expect(!post_all(qp, &wr, 1), "a request");
	do {
		struct ibv_poll_cq_attr none = {0};

		err = ibv_start_poll(polled, &none);
	} while (err == ENOENT);
	expect(!err && !polled->status, "start_poll");
	ibv_end_poll(polled);
	then();
	destroy(qp);
	expect(!ibv_destroy_cq(cq), "destroy_cq");
	cq = before;
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"lists", lists},
					  {"reset", reset},
					  {"errors", errors},
					  {"wr_api", by_wr_api},
					  {"start_poll", by_start_poll}};

	return ex_main(argc, argv, uses, 5);
}
