/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/drain.h"

#include "lib/conn/conn_lock.h"
#include "lib/conn/error_notes.h"
#include "lib/conn/repost.h"
#include "lib/conn/self_qp.h"
#include "lib/conn/srq_qps.h"
#include "lib/object/passed_errors.h"

#define BATCH 32

/* --- one completion -------------------------------------------------------------------------- */

/* The opcode of an error completion is undefined, so it does not tell a send from a receive. */
static bool is_recv(const struct vqp *v, const struct vcq *cq, uint8_t rail,
		    const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return wc->opcode & IBV_WC_RECV;
	if (v->hot.srq)
		return vsrq_owns(v->hot.srq, wc->wr_id);
	if (rail)
		return wc->wr_id & TWIN_RECV;
	if (v->send_cq != v->recv_cq)
		return cq == v->recv_cq;
	return wc->wr_id == v->hot.recv_marked.wr_id;
}

/* A receive of an SRQ bears no epoch. A QP is RESET only when all its completions were fed. */
static uint32_t epoch_of(const struct vqp *v, uint8_t rail, const struct shift_cqe *cqe)
{
	if (!rail)
		return v->hot.rail0_epoch;
	if (v->hot.srq && cqe->is_recv)
		return v->rails.armed_epoch[rail];
	return (uint32_t)(cqe->wr_id >> TWIN_EPOCH_SHIFT);
}

static void vqp_completion(struct vqp *v, struct vcq *cq, uint8_t rail, struct ibv_wc *wc)
{
	struct shift_cqe cqe = {
		.wr_id = wc->wr_id,
		.status = wc->status,
		.vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len,
		.rail = rail,
	};
	struct shift_wc out = {.wr_id = wc->wr_id};
	bool deliver;

	vqp_enter(v);
	cqe.is_recv = is_recv(v, cq, rail, wc);
	if (self_qp_completion(v, rail, cqe.is_recv, wc)) {
		error_note(v, rail, cqe.is_recv, wc, false);
		vqp_leave(v);
		return;
	}
	cqe.epoch = epoch_of(v, rail, &cqe);
	deliver = shift_conn_cqe(v->conn, &cqe, &out, now_ns());
	error_note(v, rail, cqe.is_recv, wc, deliver);
	wc->wr_id = out.wr_id;
	if (cqe.is_recv)
		deliver = srq_qp_completed(v, rail, wc, deliver);
	if (deliver) {
		wc->qp_num = v->qp->qp_num;
		if (wc->status == IBV_WC_RETRY_EXC_ERR)
			stats_conn_met_failure(v->stats);
		vcq_deliver(cqe.is_recv ? v->recv_cq : v->send_cq, wc);
	}
	vqp_leave(v);
}

/* A QP that is on the fast way itself: another one of this CQ is not. Its completion is counted as
 * if the thread were inside the gate, and delivered before a switch can deliver any behind it.
 * false: it must be fed to its connection, under its lock. */
static bool count_fast(struct vcq *cq, struct vqp *v, struct ibv_wc *wc)
{
	bool counted = false;

	if (wc->status != IBV_WC_SUCCESS)
		return false;
	vcq_count_begin(cq, v);
	if (!atomic_load(&v->hot.slow)) {
		counted = !(wc->opcode & IBV_WC_RECV);
		if (counted)
			PLAIN_INCREMENT(&v->hot.log.sends_done);
		else if (v->hot.srq)
			counted = srq_qp_count(v, &wc->wr_id);
		else
			counted = shift_fast_recv_done(&v->hot.log.recvs, &wc->wr_id);
	}
	if (counted)
		vcq_deliver(cq, wc);
	vcq_count_end(cq);
	return counted;
}

/* --- all completions of a CQ ----------------------------------------------------------------- */

/* The next completions of the program's CQ, those of the stash first. Under cq->drain_lock, with
 * the gate shut. */
static int cq_poll_batch(struct vcq *cq, struct ibv_wc *wc)
{
	int n = 0;

	while (n < BATCH && cq->stash_at < cq->stash_n)
		wc[n++] = cq->stash[cq->stash_at++];
	if (!n)
		return cq->poll_cq(cq->cq, BATCH, wc);
	if (cq->stash_at == cq->stash_n) {
		cq->stash_at = cq->stash_n = 0;
		gate_open(&cq->gate);
	}
	return n;
}

static void feed_rail0(struct vcq *cq, struct ibv_wc *wc)
{
	struct vqp *v = table_get(&cq->dev->qps, wc->qp_num);

	if (!v || !v->conn) {
		vsrq_translate(wc);
		passed_errors_note(cq->dev, wc, 1);
		vcq_deliver(cq, wc);
	} else if (wc->wr_id == v->marker)
		atomic_store(&v->rails.jobs[0].marker_seen, true);
	else if (!count_fast(cq, v, wc))
		vqp_completion(v, cq, 0, wc);
}

static void feed_twin(struct vcq *cq, const struct nic *nic, struct ibv_wc *wc)
{
	uint8_t rail;
	struct vqp *v = vqp_by_twin(nic, wc->qp_num, &rail);

	if (!v) { /* the twin is gone, and so is its connection */
		vsrq_came_late(nic, wc->wr_id);
		return;
	}
	if (wc->wr_id == v->marker)
		atomic_store(&v->rails.jobs[rail].marker_seen, true);
	else
		vqp_completion(v, cq, rail, wc);
}

static void drain_shadow(struct vcq *cq, const struct nic *nic)
{
	struct ibv_cq *shadow = atomic_load(&cq->shadow[nic->index].cq);
	struct ibv_wc wc[BATCH];
	int n;

	if (!shadow)
		return;
	do {
		n = ibv_poll_cq(shadow, BATCH, wc);
		for (int i = 0; i < n; i++)
			feed_twin(cq, nic, &wc[i]);
	} while (n == BATCH);
}

/*
 * The gate stays shut until all that was polled is fed. A receive's completion gets the wr_id that
 * is next in the log, so no other thread may poll a later one and have it counted first.
 */
int vcq_drain(struct vcq *cq)
{
	struct gate *gate = &cq->gate;
	struct ibv_wc wc[BATCH];
	int n;

	gate_shut(gate);
	gate_sync(&gate, 1);
	do {
		n = cq_poll_batch(cq, wc);
		for (int i = 0; i < n; i++)
			feed_rail0(cq, &wc[i]);
	} while (n > 0);
	for (unsigned int i = 1; i < cq->dev->rails; i++)
		drain_shadow(cq, cq->dev->nic[i]);
	gate_open(gate);
	return n;
}

void vcq_feed(struct vcq *cq)
{
	if (cq->bypassed)
		return;
	pthread_mutex_lock(&cq->drain_lock);
	vcq_drain(cq);
	pthread_mutex_unlock(&cq->drain_lock);
}

void vqp_drain(struct vqp *v)
{
	vcq_feed(v->send_cq);
	if (v->recv_cq != v->send_cq)
		vcq_feed(v->recv_cq);
}

static void cq_drain_for(struct vqp *v, struct vcq *cq)
{
	pthread_mutex_lock(&cq->drain_lock);
	if (!v->life.gone && !cq->bypassed)
		vcq_drain(cq);
	pthread_mutex_unlock(&cq->drain_lock);
}

void vqp_drain_unless_gone(struct vqp *v)
{
	cq_drain_for(v, v->send_cq);
	if (v->recv_cq != v->send_cq)
		cq_drain_for(v, v->recv_cq);
}
