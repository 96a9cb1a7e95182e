// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * What the library notes of the queue pairs of this program, which knows of shift: it reads its own
 * file of statistics. connection, or other (a queue pair that shift leaves alone). At the end it
 * runs what the variable THEN says, for others to read the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/stats/read.h"
#include "tests/preload/rc.h"

#define BAD_RKEY 0xbad /* nullverbs refuses it */

static struct stats_copy copy_now(void)
{
	struct stats_copy copy;
	char path[256];

	snprintf(path, sizeof(path), "%s/j/%d.stats", getenv("SHIFT_RUN_DIR"), getpid());
	expect(!stats_read(path, &copy), "reading the statistics");
	return copy;
}

static void post_recvs(struct ibv_qp *qp, uint64_t n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey};

	for (uint64_t i = 0; i < n; i++) {
		struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

		expect(!ibv_post_recv(qp, &wr, &bad), "post_recv");
	}
}

/* So many completions, in one poll where they are there already. All are errors. */
static void poll_errors(int n)
{
	struct ibv_wc wc[8];

	while (n > 0) {
		int got = ibv_poll_cq(cq, 8, wc);

		expect(got >= 0, "poll_cq");
		for (int i = 0; i < got; i++)
			expect(wc[i].status != IBV_WC_SUCCESS, "an error");
		n -= got;
	}
}

static void expect_lives(const struct stats_copy *copy, const uint32_t *what, size_t n,
			 uint32_t qpn)
{
	size_t at = 0;

	for (size_t i = 0; i < copy->lives.count; i++) {
		const struct stats_note *life = copy->lives.note + i;

		if (life->qpn != qpn)
			continue;
		expect(at < n && life->what == what[at], "a state of its life");
		expect(life->qp == copy->lives.note[copy->lives.count - 1].qp, "its number");
		at++;
	}
	expect(at == n, "all states of its life");
}

static const struct stats_note *only_error(const struct stats_copy *copy)
{
	expect(copy->errors.count == 1, "one note of errors");
	expect(copy->errors.note->qp == copy->lives.note[copy->lives.count - 1].qp,
	       "the number of the QP");
	return copy->errors.note;
}

/* It has a connection, whose peer nobody has found. */
static void connection(void)
{
	static const uint32_t lives[] = {STATS_QP_CREATED, IBV_QPS_INIT, IBV_QPS_RTR,
					 IBV_QPS_RTS,	   IBV_QPS_ERR,	 STATS_QP_DESTROYED};
	struct ibv_qp *qp = create_qp(pd, 8);
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};
	uint32_t qpn = qp->qp_num;
	const struct stats_note *e;
	struct stats_copy copy;

	connect_to(qp, qpn);
	wr.wr.rdma.remote_addr = (uintptr_t)buffer;
	wr.wr.rdma.rkey = BAD_RKEY;
	expect(!ibv_post_send(qp, &wr, &bad), "post_send");
	expect(!ibv_post_send(qp, &wr, &bad), "post_send");
	poll_errors(2);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	destroy(qp);
	copy = copy_now();
	expect_lives(&copy, lives, 6, qpn);
	e = only_error(&copy);
	expect(e->what == IBV_WC_REM_ACCESS_ERR && e->flushed == 1 && !e->more, "the error");
	expect(e->fate == STATS_FATE_GIVEN && !e->is_protected, "its fate");
	expect(e->queue == STATS_QUEUE_SEND && e->peer_qpn == qpn, "its queue and peer");
	expect(copy.h.now.errors[STATS_FATE_GIVEN] == 2, "how many there were");
	expect(copy.h.now.errors_unprotected == 2, "how many were not protected");
	stats_free(&copy);
	expect(!getenv("THEN") || !system(getenv("THEN")), "what comes then");
}

static struct ibv_qp *create_ud(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	expect(qp, "create_qp");
	return qp;
}

static void other(void)
{
	static const uint32_t lives[] = {STATS_QP_CREATED, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_ERR,
					 STATS_QP_DESTROYED};
	struct ibv_qp *qp = create_ud();
	uint32_t qpn = qp->qp_num;
	const struct stats_note *e;
	struct stats_copy copy;

	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, 0);
	post_recvs(qp, 5);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	poll_errors(5);
	destroy(qp);
	copy = copy_now();
	expect_lives(&copy, lives, 5, qpn);
	e = only_error(&copy);
	expect(e->what == IBV_WC_WR_FLUSH_ERR && e->flushed == 4, "the flushes");
	expect(e->fate == STATS_FATE_GIVEN && !e->is_protected &&
		       e->unprotected == STATS_UNPROTECTED_NOT_RC,
	       "their fate");
	expect(copy.h.now.errors[STATS_FATE_GIVEN] == 5, "how many there were");
	expect(copy.h.now.flushes[STATS_FATE_GIVEN] == 5, "how many of them flushes");
	stats_free(&copy);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {{"connection", connection}, {"other", other}};

	return rc_main(argc, argv, uses, 2);
}
