// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Posting by ibv_wr_*, as drivers have it: from ibv_wr_start() on the send queue is locked, each
 * WR takes its place there, and ibv_wr_complete() rings the doorbell for all of them or for none.
 * The WRs are executed then. A QP has the functions of the operations that were asked for, and no
 * others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nullverbs/nullverbs.h"

struct null_builder {
	struct ibv_send_wr *wr; /* as many as the queue has places */
	struct ibv_sge *sge;	/* sges_max for each, */
	char *data;		/* and inline_max bytes */
	uint32_t n, sges_max, inline_max;
	int err; /* of the first call that failed */
};

static struct null_qp *to_null(struct ibv_qp_ex *ex)
{
	return (struct null_qp *)ex;
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void build_start(struct ibv_qp_ex *ex)
{
	struct null_qp *qp = to_null(ex);

	pthread_spin_lock(&qp->send_lock);
	qp->builder->n = 0;
	qp->builder->err = 0;
}

static int build_complete(struct ibv_qp_ex *ex)
{
	struct null_qp *qp = to_null(ex);
	struct null_builder *b = qp->builder;
	int err = b->err;

	for (uint32_t i = 0; i < b->n && !err; i++)
		err = null_refuse_send(qp, &b->wr[i]);
	if (!err)
		null_execute_sends(qp, b->wr, b->n);
	pthread_spin_unlock(&qp->send_lock);
	return err;
}

/* Of a QP that cannot send. */
static int refuse_all(struct ibv_qp_ex *ex)
{
	pthread_spin_unlock(&to_null(ex)->send_lock);
	return EINVAL;
}

static void build_abort(struct ibv_qp_ex *ex)
{
	pthread_spin_unlock(&to_null(ex)->send_lock);
}

/* --- a WR ------------------------------------------------------------------------------------- */

/* After an error it goes where it does no harm. */
static struct ibv_send_wr *build(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	static _Thread_local struct ibv_send_wr nowhere;
	struct null_qp *qp = to_null(ex);
	struct null_builder *b = qp->builder;
	struct ibv_send_wr *wr = &nowhere;

	if (!b->err && null_sends_outstanding(qp) + b->n >= qp->cap.max_send_wr)
		b->err = ENOMEM;
	if (!b->err)
		wr = &b->wr[b->n++];
	*wr = (struct ibv_send_wr){
		.wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags};
	return wr;
}

static void build_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = build(ex, IBV_WR_RDMA_WRITE);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
}

static void build_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct ibv_send_wr *wr = build(ex, IBV_WR_RDMA_WRITE_WITH_IMM);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	wr->imm_data = imm;
}

static void build_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = build(ex, IBV_WR_RDMA_READ);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
}

static void build_send(struct ibv_qp_ex *ex)
{
	build(ex, IBV_WR_SEND);
}

static void build_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	build(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void build_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void build_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void build_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
			  const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = build(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void build_cmp_swap(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			   uint64_t swap)
{
	struct ibv_send_wr *wr = build(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare;
	wr->wr.atomic.swap = swap;
}

static void build_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct ibv_send_wr *wr = build(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = add;
}

static void build_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			       const void *value)
{
	struct ibv_send_wr *wr = build(ex, (enum ibv_wr_opcode)NULL_WR_ATOMIC_WRITE);

	(void)value;
	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
}

/* --- its data --------------------------------------------------------------------------------- */

/* NULL: nothing is to be set. */
static struct ibv_send_wr *last_wr(struct ibv_qp_ex *ex)
{
	const struct null_builder *b = to_null(ex)->builder;

	return b->err || !b->n ? NULL : &b->wr[b->n - 1];
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sges)
{
	struct null_builder *b = to_null(ex)->builder;
	struct ibv_send_wr *wr = last_wr(ex);

	if (!wr)
		return;
	if (n > b->sges_max) {
		b->err = ENOMEM;
		return;
	}
	wr->sg_list = b->sge + (b->n - 1) * (size_t)b->sges_max;
	wr->num_sge = (int)n;
	if (n)
		memcpy(wr->sg_list, sges, n * sizeof(*sges));
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	set_sge_list(ex, 1, &sge);
}

static void set_inline_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *bufs)
{
	struct null_builder *b = to_null(ex)->builder;
	struct ibv_sge sge = {0};
	char *to;

	if (!last_wr(ex))
		return;
	to = b->data + (b->n - 1) * (size_t)b->inline_max;
	sge.addr = (uintptr_t)to;
	for (size_t i = 0; i < n; i++) {
		if (bufs[i].length > b->inline_max - sge.length) {
			b->err = ENOMEM;
			return;
		}
		if (bufs[i].length)
			memcpy(to + sge.length, bufs[i].addr, bufs[i].length);
		sge.length += (uint32_t)bufs[i].length;
	}
	set_sge_list(ex, 1, &sge);
	last_wr(ex)->send_flags |= IBV_SEND_INLINE;
}

static void set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	set_inline_list(ex, 1, &buf);
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = last_wr(ex);

	if (!wr)
		return;
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

/* --- the QP ----------------------------------------------------------------------------------- */

static void offer(struct ibv_qp_ex *ex, enum ibv_qp_type type, uint64_t ops)
{
	ex->wr_start = build_start;
	ex->wr_complete = refuse_all;
	ex->wr_abort = build_abort;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = build_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = build_write_imm;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = build_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = build_send_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = build_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = build_cmp_swap;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = build_fetch_add;
	if (ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = build_local_inv;
	if (ops & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = build_bind_mw;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = build_send_inv;
	if (ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = build_atomic_write;
	if (type == IBV_QPT_UD)
		ex->wr_set_ud_addr = set_ud_addr;
	ex->wr_set_sge = set_sge;
	ex->wr_set_sge_list = set_sge_list;
	ex->wr_set_inline_data = set_inline;
	ex->wr_set_inline_data_list = set_inline_list;
}

int null_builder_add(struct ibv_qp *base, uint64_t ops)
{
	struct null_qp *qp = (struct null_qp *)base;
	struct null_builder *b = calloc(1, sizeof(*b));
	size_t n = qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;

	if (!b)
		return ENOMEM;
	qp->builder = b;
	b->sges_max = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
	b->inline_max = qp->cap.max_inline_data;
	b->wr = calloc(n, sizeof(*b->wr));
	b->sge = calloc(n * b->sges_max, sizeof(*b->sge));
	b->data = calloc(n, b->inline_max ? b->inline_max : 1);
	if (!b->wr || !b->sge || !b->data)
		return ENOMEM;
	offer(&qp->ex, base->qp_type, ops);
	return 0;
}

void null_builder_set_state(struct null_qp *qp, enum ibv_qp_state state)
{
	if (!qp->builder)
		return;
	if (state == IBV_QPS_RESET)
		qp->ex.wr_complete = refuse_all;
	if (state == IBV_QPS_RTS)
		qp->ex.wr_complete = build_complete;
}

void null_builder_free(struct null_builder *b)
{
	if (!b)
		return;
	free(b->wr);
	free(b->sge);
	free(b->data);
	free(b);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *base)
{
	struct null_qp *qp = (struct null_qp *)base;

	return qp->builder ? &qp->ex : NULL;
}
