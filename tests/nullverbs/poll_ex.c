// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* CQs that are polled by ibv_start_poll(), as drivers have them: the queue is locked from there to
 * ibv_end_poll(), unless one thread alone is to poll it. */
#include <errno.h>
#include <time.h>

#include "tests/nullverbs/nullverbs.h"

static struct null_cq *to_null(struct ibv_cq_ex *ex)
{
	return (struct null_cq *)ex;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct null_cq *cq = to_null(ex);

	if (!null_take(cq, 1, &cq->wc))
		return ENOENT;
	ex->wr_id = cq->wc.wr_id;
	ex->status = cq->wc.status;
	return 0;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	if (to_null(ex)->has_poll_lock)
		pthread_mutex_unlock(&to_null(ex)->poll_lock);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	int err;

	if (attr && attr->comp_mask)
		return EINVAL;
	if (to_null(ex)->has_poll_lock)
		pthread_mutex_lock(&to_null(ex)->poll_lock);
	err = next_poll(ex);
	if (err)
		end_poll(ex);
	return err;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return to_null(ex)->wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	struct timespec now;

	(void)ex;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void offer(struct ibv_cq_ex *ex, uint64_t flags)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
}

/* Through the PLT, as providers call verbs, too. */
struct ibv_cq_ex *null_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq *base = ibv_create_cq(ctx, (int)attr->cqe, attr->cq_context, attr->channel,
					    (int)attr->comp_vector);
	struct null_cq *cq = (struct null_cq *)base;

	if (!cq)
		return NULL;
	cq->has_poll_lock = !(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
			      attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	pthread_mutex_init(&cq->poll_lock, NULL);
	offer(&cq->ex, attr->wc_flags);
	return &cq->ex;
}
