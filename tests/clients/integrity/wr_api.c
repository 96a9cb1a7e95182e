/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --wr-api: work requests by ibv_wr_*, a few between each ibv_wr_start() and ibv_wr_complete(). */
#include <string.h>

#include "tests/clients/integrity/integrity.h"

enum { BATCH_MAX = 6, ABANDONED = 32 /* one in so many batches is begun for nothing */ };

uint64_t wr_api_flags(void)
{
	return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
	       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
	       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
}

static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	uint32_t rkey = wr->wr.rdma.rkey;
	uint64_t addr = wr->wr.rdma.remote_addr;

	switch (wr->opcode) {
	case IBV_WR_SEND: ibv_wr_send(qp); break;
	case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(qp, wr->imm_data); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qp, rkey, addr); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_rdma_write_imm(qp, rkey, addr, wr->imm_data); break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qp, rkey, addr); break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
	}
}

/* Its buffers are ours again at once. */
static void set_inline_bufs(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[PIECES_MAX];

	for (int i = 0; i < wr->num_sge; i++)
		bufs[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
						.length = wr->sg_list[i].length};
	ibv_wr_set_inline_data_list(qp, wr->num_sge, bufs);
	memset(bufs, 0, sizeof(bufs));
}

static void set_inline_bytes(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	uint8_t bytes[INLINE_MAX];
	uint32_t n = 0;

	for (int i = 0; i < wr->num_sge; n += wr->sg_list[i].length, i++)
		memcpy(bytes + n, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
	ibv_wr_set_inline_data(qp, bytes, n);
	memset(bytes, 0xee, sizeof(bytes));
}

static void set_data(struct lane *l, struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (!opt.rxe_44_post && pick(l, 2))
			set_inline_bufs(qp, wr);
		else
			set_inline_bytes(qp, wr);
	} else if (wr->num_sge == 1 && pick(l, 2)) {
		ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	} else {
		ibv_wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
	}
}

/* None of it may ever be seen. */
static void abandon(struct lane *l)
{
	struct ibv_qp_ex *qp = l->qp_ex;

	ibv_wr_start(qp);
	qp->wr_id = UINT64_MAX >> 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, l->mr->lkey, (uintptr_t)l->memory, 8);
	ibv_wr_abort(qp);
}

static void begin(struct lane *l)
{
	if (!pick(l, ABANDONED))
		abandon(l);
	ibv_wr_start(l->qp_ex);
	l->batch_left = 1 + pick(l, BATCH_MAX);
}

int wr_api_post(struct lane *l, const struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *qp = l->qp_ex;

	if (!l->batch_left)
		begin(l);
	qp->wr_id = wr->wr_id;
	/* rxe takes payload for inline only if the flag says so, too; others do not mind. */
	qp->wr_flags = wr->send_flags;
	build(qp, wr);
	set_data(l, qp, wr);
	if (--l->batch_left)
		return 0;
	return ibv_wr_complete(qp);
}

int wr_api_complete(struct lane *l)
{
	if (!l->batch_left)
		return 0;
	l->batch_left = 0;
	return ibv_wr_complete(l->qp_ex);
}
