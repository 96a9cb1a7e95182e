/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/traced.h"

#include <errno.h>

#include "lib/base/background.h"
#include "lib/base/env.h"
#include "lib/conn/vqp.h"
#include "lib/stats/epochs.h"
#include "lib/verbs/poll.h"
#include "lib/verbs/post_send.h"

static const char *nic_of(const struct ibv_context *ctx)
{
	return ctx->device->name;
}

/* What the peer gets. What has more SGEs than the queue pair is refused by the NIC; so many are not
 * to be read. */
static uint64_t sent_bytes(const struct ibv_send_wr *wr, uint32_t sges_max)
{
	uint64_t bytes = 0;

	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		for (uint32_t i = 0; wr->num_sge > 0 && i < (uint32_t)wr->num_sge && i < sges_max;
		     i++)
			bytes += wr->sg_list[i].length;
		return bytes;
	default: return 0;
	}
}

uint32_t traced_posting(struct ibv_qp *qp, const struct ibv_send_wr *first)
{
	const struct vqp *v = vqp_find(qp);
	uint32_t sges_max = v ? v->init.cap.max_send_sge : 0, n = 0;
	uint64_t now = now_ns();
	int saved = errno;

	for (const struct ibv_send_wr *wr = first; wr; wr = wr->next, n++)
		epochs_posting(nic_of(qp->context), qp->qp_num, sent_bytes(wr, sges_max),
			       wr->send_flags & IBV_SEND_SIGNALED, now);
	errno = saved;
	return n;
}

void traced_posted(struct ibv_qp *qp, uint32_t n, uint32_t refused)
{
	epochs_posted(nic_of(qp->context), qp->qp_num, n - refused, refused, now_ns());
}

/* The refused ones are the program's still. */
static uint32_t count_refused(const struct ibv_send_wr *bad)
{
	uint32_t n = 0;

	for (; bad; bad = bad->next)
		n++;
	return n;
}

static int traced_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	uint32_t n = traced_posting(qp, wr);
	int err = hot_post_send(qp, wr, bad);

	traced_posted(qp, n, err ? count_refused(*bad) : 0);
	return err;
}

/* The opcode of one with an error is not known. A receive that has failed tells of the queue pair
 * what a send would. */
static int traced_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = hot_poll_cq(cq, n, wc);
	uint64_t now = got > 0 ? now_ns() : 0;

	for (int i = 0; i < got; i++) {
		bool success = wc[i].status == IBV_WC_SUCCESS;

		if (!success || !(wc[i].opcode & IBV_WC_RECV))
			epochs_completed(nic_of(cq->context), wc[i].qp_num, success, now);
	}
	return got;
}

void traced_take_over(struct ibv_context *ctx)
{
	if (!env.trace_epoch_ns)
		return;
	ctx->ops.post_send = traced_post_send;
	ctx->ops.poll_cq = traced_poll_cq;
}
