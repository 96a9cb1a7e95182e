// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <errno.h>

#include "tests/nullverbs/nullverbs.h"

/* As long as a real provider's data path, and no longer. */
#define ALWAYS __attribute__((always_inline))

static const uint8_t completion_of[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[NULL_WR_ATOMIC_WRITE] = IBV_WC_RDMA_WRITE,
};

/* Completions that do not fit are lost, as on a NIC whose CQ is overrun, which says so. */
static void complete(struct null_cq *cq, const struct null_cqe *cqe)
{
	bool wake, full;

	pthread_spin_lock(&cq->lock);
	full = cq->head - cq->tail > cq->mask;
	if (!full)
		cq->ring[cq->head++ & cq->mask] = *cqe;
	wake = cq->armed || (cq->armed_solicited && (cqe->status || cqe->solicited));
	if (wake)
		cq->armed = cq->armed_solicited = false;
	pthread_spin_unlock(&cq->lock);
	if (wake && cq->events)
		null_add_event(cq);
	if (full)
		null_raise(cq->base.context, IBV_EVENT_CQ_ERR, cq, &cq->errs_reported);
}

static void complete_srq(struct null_qp *qp, const struct null_cqe *proto)
{
	struct null_cqe cqe = *proto;

	if (!null_srq_take((struct null_srq *)qp->base.srq, &cqe.wr_id))
		return;
	cqe.qp = qp;
	cqe.is_recv = cqe.from_srq = true;
	complete((struct null_cq *)qp->base.recv_cq, &cqe);
}

void null_complete_recv(struct null_qp *qp, const struct null_cqe *proto)
{
	struct null_cqe cqe = *proto;

	if (qp->base.srq) {
		complete_srq(qp, proto);
		return;
	}
	pthread_spin_lock(&qp->recv_lock);
	if (qp->recv_head != qp->recv_tail) {
		cqe.qp = qp;
		cqe.is_recv = true;
		cqe.index = qp->recv_tail++ & qp->recv_mask;
		complete((struct null_cq *)qp->base.recv_cq, &cqe);
	}
	pthread_spin_unlock(&qp->recv_lock);
}

void null_flush_receives(struct null_qp *qp)
{
	struct null_cqe cqe = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV};

	while (qp->recv_head != qp->recv_tail)
		null_complete_recv(qp, &cqe);
}

void null_hand_over(struct null_cq *cq, const struct null_qp *from, struct null_qp *to)
{
	pthread_spin_lock(&cq->lock);
	for (uint32_t i = cq->tail; i != cq->head; i++) {
		if (cq->ring[i & cq->mask].qp == from)
			cq->ring[i & cq->mask].qp = to;
	}
	pthread_spin_unlock(&cq->lock);
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

void null_newest_send(const struct ibv_qp *base, struct null_sent *sent)
{
	const struct null_qp *qp = (const struct null_qp *)base;
	const struct null_wqe *wqe = &qp->send_ring[(qp->send_head - 1) & qp->send_mask];

	*sent = (struct null_sent){
		.opcode = wqe->control[0] & 0xff,
		.flags = wqe->control[2],
		.imm = wqe->control[3],
		.rkey = wqe->rkey,
		.remote_addr = wqe->remote_addr,
		.compare_add = wqe->compare_add,
		.swap = wqe->swap,
		.last = {.addr = wqe->addr, .length = wqe->length, .lkey = wqe->lkey},
	};
}

static inline ALWAYS uint32_t write_wqe(struct null_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t index = qp->send_head++ & qp->send_mask;
	struct null_wqe *wqe = &qp->send_ring[index];
	uint32_t length = 0;

	qp->send_ids[index] = wr->wr_id;
	wqe->control[0] = wr->opcode | index << 8;
	wqe->control[1] = qp->base.qp_num << 8;
	wqe->control[2] = wr->send_flags;
	wqe->control[3] = wr->imm_data;
	wqe->remote_addr = wr->wr.rdma.remote_addr;
	wqe->rkey = wr->wr.rdma.rkey;
	if (is_atomic(wr->opcode)) {
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		wqe->addr = wr->sg_list[i].addr;
		wqe->length = wr->sg_list[i].length;
		wqe->lkey = wr->sg_list[i].lkey;
		length += wr->sg_list[i].length;
	}
	return length;
}

static bool is_two_sided(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* false: it failed. */
static inline ALWAYS bool execute(struct null_qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	struct null_cqe cqe = {
		.qp = qp,
		.index = (qp->send_head - 1) & qp->send_mask,
		.byte_len = length,
		.opcode = completion_of[wr->opcode],
	};

	if (qp->attr.qp_state == IBV_QPS_ERR)
		cqe.status = IBV_WC_WR_FLUSH_ERR;
	else if (wr->opcode == IBV_WR_RDMA_WRITE && wr->wr.rdma.rkey == NULL_BAD_RKEY)
		cqe.status = IBV_WC_REM_ACCESS_ERR;
	else if (qp->exact && wr->opcode == IBV_WR_RDMA_WRITE && !null_write(qp, wr, length))
		cqe.status = IBV_WC_RETRY_EXC_ERR;
	else if (is_two_sided(wr->opcode) && qp->peer)
		null_complete_recv(qp->peer,
				   &(struct null_cqe){
					   .byte_len = length,
					   .imm = wr->imm_data,
					   .has_imm = wr->opcode == IBV_WR_SEND_WITH_IMM ||
						      wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
					   .has_inv = wr->opcode == IBV_WR_SEND_WITH_INV,
					   .solicited = wr->send_flags & IBV_SEND_SOLICITED,
					   .opcode = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM
							     ? IBV_WC_RECV_RDMA_WITH_IMM
							     : IBV_WC_RECV,
				   });
	else if (qp->base.qp_type == IBV_QPT_UD)
		null_ud_send(wr);
	if (qp->all_signaled || (wr->send_flags & IBV_SEND_SIGNALED) || cqe.status)
		complete((struct null_cq *)qp->base.send_cq, &cqe);
	else
		qp->send_freed++; /* no CQE frees its place; nothing waits in the ring */
	return !cqe.status;
}

/* The program is not told; its ibv_qp has the state that it set itself. */
static void fail(struct null_qp *qp)
{
	qp->attr.qp_state = IBV_QPS_ERR;
	null_flush_receives(qp);
}

void null_break_qp(struct ibv_qp *base)
{
	struct null_qp *qp = (struct null_qp *)base;

	pthread_spin_lock(&qp->send_lock);
	fail(qp);
	pthread_spin_unlock(&qp->send_lock);
}

static inline ALWAYS uint32_t sends_outstanding(const struct null_qp *qp)
{
	return qp->send_head - qp->send_freed - __atomic_load_n(&qp->send_tail, __ATOMIC_RELAXED);
}

uint32_t null_sends_outstanding(const struct null_qp *qp)
{
	return sends_outstanding(qp);
}

static bool is_too_long(const struct null_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	if (wr->num_sge > (int)qp->cap.max_send_sge && !(wr->send_flags & IBV_SEND_INLINE))
		return true;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return wr->send_flags & IBV_SEND_INLINE && length > qp->cap.max_inline_data;
}

static bool is_invalidation(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_SEND_WITH_INV;
}

/* What most are: as quick as a real provider that is asked for them. */
static bool is_plain(const struct ibv_send_wr *wr)
{
	return wr->opcode <= IBV_WR_RDMA_READ && wr->num_sge <= 1 &&
	       !(wr->send_flags & IBV_SEND_INLINE);
}

static inline ALWAYS int refuse_send(const struct null_qp *qp, const struct ibv_send_wr *wr)
{
	if (qp->attr.qp_state != IBV_QPS_RTS && qp->attr.qp_state != IBV_QPS_ERR)
		return EINVAL;
	if (sends_outstanding(qp) >= qp->cap.max_send_wr)
		return ENOMEM;
	if (is_plain(wr))
		return 0;
	if (wr->opcode == IBV_WR_BIND_MW && !wr->bind_mw.mw)
		return EINVAL;
	if (is_invalidation(wr->opcode) && !wr->invalidate_rkey)
		return EINVAL;
	if ((wr->opcode > IBV_WR_SEND_WITH_INV && (int)wr->opcode != NULL_WR_ATOMIC_WRITE) ||
	    wr->num_sge > NULL_SGE_MAX || is_too_long(qp, wr))
		return EINVAL;
	return 0;
}

int null_refuse_send(const struct null_qp *qp, const struct ibv_send_wr *wr)
{
	return refuse_send(qp, wr);
}

void null_execute_sends(struct null_qp *qp, const struct ibv_send_wr *wr, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!execute(qp, &wr[i], write_wqe(qp, &wr[i])))
			fail(qp);
	__atomic_store_n(&qp->doorbell[0], qp->send_head, __ATOMIC_RELEASE);
}

int null_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)base;
	int err = 0;

	if (!wr) { /* as soft-RoCE */
		*bad = NULL;
		return EINVAL;
	}
	pthread_spin_lock(&qp->send_lock);
	for (; wr; wr = wr->next) {
		err = refuse_send(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
		if (!execute(qp, wr, write_wqe(qp, wr)))
			fail(qp);
	}
	__atomic_store_n(&qp->doorbell[0], qp->send_head, __ATOMIC_RELEASE);
	pthread_spin_unlock(&qp->send_lock);
	return err;
}

int null_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)base;
	int err = 0;

	pthread_spin_lock(&qp->recv_lock);
	for (; wr; wr = wr->next) {
		if (qp->attr.qp_state == IBV_QPS_RESET || base->srq)
			err = EINVAL;
		else if (qp->recv_head - qp->recv_tail >= qp->cap.max_recv_wr)
			err = ENOMEM;
		if (err) {
			*bad = wr;
			break;
		}
		if (qp->recv_sges && wr->num_sge)
			qp->recv_sges[qp->recv_head & qp->recv_mask] = *wr->sg_list;
		qp->recv_ids[qp->recv_head++ & qp->recv_mask] = wr->wr_id;
	}
	__atomic_store_n(&qp->doorbell[1], qp->recv_head, __ATOMIC_RELEASE);
	pthread_spin_unlock(&qp->recv_lock);
	if (qp->attr.qp_state == IBV_QPS_ERR)
		null_flush_receives(qp);
	return err;
}

static void translate(const struct null_cqe *cqe, struct ibv_wc *wc)
{
	struct null_qp *qp = cqe->qp;

	wc->wr_id = cqe->from_srq  ? cqe->wr_id
		    : cqe->is_recv ? qp->recv_ids[cqe->index]
				   : qp->send_ids[cqe->index];
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = 0;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm;
	wc->qp_num = qp->base.qp_num;
	wc->wc_flags = cqe->has_imm ? IBV_WC_WITH_IMM : cqe->has_inv ? IBV_WC_WITH_INV : 0;
	if (!cqe->is_recv)
		qp->send_tail++;
}

static inline ALWAYS int take(struct null_cq *cq, int entries, struct ibv_wc *wc)
{
	int n = 0;

	pthread_spin_lock(&cq->lock);
	while (n < entries && cq->tail != cq->head) {
		const struct null_cqe *cqe = &cq->ring[cq->tail++ & cq->mask];

		if (cqe->qp)
			translate(cqe, &wc[n++]);
	}
	pthread_spin_unlock(&cq->lock);
	return n;
}

int null_take(struct null_cq *cq, int entries, struct ibv_wc *wc)
{
	return take(cq, entries, wc);
}

int null_poll_cq(struct ibv_cq *base, int entries, struct ibv_wc *wc)
{
	struct null_cq *cq = (struct null_cq *)base;
	int n;

	if (!cq->has_poll_lock)
		return take(cq, entries, wc);
	pthread_mutex_lock(&cq->poll_lock);
	n = null_take(cq, entries, wc);
	pthread_mutex_unlock(&cq->poll_lock);
	return n;
}

int null_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct null_cq *cq = (struct null_cq *)base;

	pthread_spin_lock(&cq->lock);
	if (solicited_only)
		cq->armed_solicited = true;
	else
		cq->armed = true;
	pthread_spin_unlock(&cq->lock);
	return 0;
}

int null_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {.wr_id = bind->wr_id,
				       .opcode = IBV_WR_BIND_MW,
				       .send_flags = bind->send_flags};

	wr.bind_mw.mw = mw;
	return null_post_send(qp, &wr, &bad);
}
