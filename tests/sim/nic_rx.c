/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Model of a NIC, responder side (IB spec 9.7.4, 9.7.5; rxe_resp.c): expected PSN, duplicates,
 * receive queue, RNR, READ responses, atomics with their replay cache, coalesced ACKs.
 */
#include <string.h>

#include "lib/core/psn.h"
#include "tests/sim/sim.h"

static struct pkt *reply(struct qp *q, enum pkt_type type, uint32_t psn)
{
	struct pkt *p = pkt_get();

	if (!p)
		return NULL;
	p->type = (uint8_t)type;
	p->src = q->h;
	p->r = q->r;
	p->psn = psn;
	p->epoch = q->epoch;
	p->cells = 0;
	p->span = 0;
	p->seq = 0;
	return p;
}

static uint32_t expected(const struct qp *q)
{
	return shift_psn_add(q->rx_psn, q->rx);
}

static void answer(struct qp *q, enum pkt_type type, uint32_t psn)
{
	struct pkt *p = reply(q, type, psn);

	if (p)
		net_send(p);
}

void qp_send_ack(struct qp *q)
{
	q->ack_armed = false;
	if (nic_dead(q->h, q->r) || q->state == QP_RESET || !q->rx)
		return;
	answer(q, PK_ACK, shift_psn_add(q->rx_psn, q->rx - 1));
}

/* Flushes of receives are not counted, so they may come in a later life of the QP. */
void qp_flush_recvs(struct qp *q, uint32_t epoch, uint32_t n)
{
	struct cqe c = {.status = SHIFT_WC_WR_FLUSH_ERR, .epoch = epoch, .is_recv = true};

	/* Those of a life that is over are not in the queue any more; on a twin all look alike. */
	c.wr_id = q->epoch == epoch ? q->rq[(q->rq_pi - 1) % RQ_MAX].wr_id
				    : (uint64_t)epoch << 32 | 1;
	/* On the fast way nobody looks at the twins' CQs. Real ones had time to be polled in the
	 * quarantine, which is a second there. A NIC that never flushes them does no wrong (V6). */
	if (q->cq_pi - q->cq_ci + n > CQ_MAX / 2)
		return;
	while (n--)
		qp_cqe(q, &c);
}

/* The moved-to-ERR responder has stopped; now the receives flush (rxe: unless RESET came first). */
void qp_drained(struct qp *q)
{
	uint32_t n = q->rq_pi - q->rq_ci;

	if (q->state != QP_ERR || nic_dead(q->h, q->r))
		return;
	q->leak = 0;
	if (W.host[q->h].cfg.srq) { /* an SRQ does not flush, but for what was taken */
		srq_cut(q, true);
		return;
	}
	q->rq_ci = q->rq_pi;
	if (q->r && rnd_below(&W.g_nic, 2)) /* on rail 0 they would make it not clean */
		ev_add(W.now + rnd(&W.g_nic) % (40 * NS_MS), EV_FLUSH, q->h, q->r,
		       q->epoch << 8 | n);
	else
		qp_flush_recvs(q, q->epoch, n);
}

/* --- requests --------------------------------------------------------------------------------- */

static void read_respond(struct qp *q, const struct pkt *req)
{
	uint32_t i, k, mtu_cells = q->mtu / CELL;

	for (i = 0; i < req->n; i++) {
		struct pkt *p = reply(q, PK_READ_RESP, shift_psn_add(req->psn, i));

		if (!p)
			return;
		for (k = 0; k < mtu_cells && i * mtu_cells + k < req->len; k++)
			p->data[k] = *cell_at(req->addr + (uint64_t)(i * mtu_cells + k) * CELL);
		p->cells = (uint8_t)k;
		net_send(p);
	}
}

static void atomic_respond(struct qp *q, uint32_t psn, uint64_t val)
{
	struct pkt *p = reply(q, PK_ATOMIC_RESP, psn);

	if (!p)
		return;
	p->a = val;
	net_send(p);
}

static void atomic_execute(struct qp *q, const struct pkt *p)
{
	uint64_t *cell = (uint64_t *)(uintptr_t)p->addr, old = *cell;
	uint32_t i = q->atomics++ % ATOMIC_CACHE;

	if (p->op == SHIFT_OP_FETCH_ADD)
		*cell = old + p->a;
	else if (old == p->a)
		*cell = p->b;
	q->atomic[i].psn = p->psn;
	q->atomic[i].val = old;
	atomic_respond(q, p->psn, old);
}

static void duplicate(struct qp *q, const struct pkt *p)
{
	uint32_t i;

	if (p->op == SHIFT_OP_READ) {
		/* Only READs before the expected PSN have arrived here. */
		if (shift_psn_sub(expected(q), p->psn) <= q->rx && p->epoch == q->epoch)
			read_respond(q, p);
	} else if (is_atomic(p->op)) {
		for (i = 0; i < ATOMIC_CACHE && i < q->atomics; i++)
			if (q->atomic[i].psn == p->psn)
				atomic_respond(q, p->psn, q->atomic[i].val);
	} else if (!q->ack_armed) {
		q->ack_armed = true;
		ev_add(W.now + 1000, EV_ACK, q->h, q->r, q->epoch);
	}
}

/* The receive of this packet. It is taken from an SRQ when the message needs it. false: none is
 * there, RNR. */
static bool has_recv(struct qp *q, const struct pkt *p)
{
	bool send = p->op == SHIFT_OP_SEND || p->op == SHIFT_OP_SEND_IMM;

	if (!(send && p->first) && !(p->op == SHIFT_OP_WRITE_IMM && p->last))
		return true;
	return W.host[q->h].cfg.srq ? srq_take(q) : q->rq_ci != q->rq_pi;
}

static uint64_t scatter_addr(const struct rqe *e, uint32_t cell)
{
	uint32_t i, at = 0;

	for (i = 0; i < e->nsge; i++) {
		uint32_t c = cells_of(e->sge[i].length);

		if (cell < at + c)
			return e->sge[i].addr + (uint64_t)(cell - at) * CELL;
		at += c;
	}
	return 0;
}

static void place(struct qp *q, const struct pkt *p)
{
	const struct rqe *e = q->holds ? &q->held.e : &q->rq[q->rq_ci % RQ_MAX];
	bool send = p->op == SHIFT_OP_SEND || p->op == SHIFT_OP_SEND_IMM;
	uint32_t i;

	if (send && W.host[q->h].cfg.srq && !srq_may_write(q))
		return;
	for (i = 0; i < p->cells; i++) {
		uint64_t a = send ? scatter_addr(e, q->msg_off + i) : p->addr + (uint64_t)i * CELL;

		if (!a) {
			violation("message longer than its receive, rail %u of %c", q->r,
				  'A' + q->h);
			return;
		}
		*cell_at(a) = p->data[i];
	}
	q->msg_off += p->span;
}

static void recv_done(struct qp *q, const struct pkt *p)
{
	struct cqe c = {
		.wr_id = W.host[q->h].cfg.srq ? srq_executed(q) : q->rq[q->rq_ci++ % RQ_MAX].wr_id,
		.byte_len = p->len,
		.epoch = q->epoch,
		.seq = p->seq,
		.imm = p->imm,
		.opcode = p->op == SHIFT_OP_WRITE_IMM ? WC_RECV_IMM : SHIFT_WC_RECV,
		.is_recv = true,
	};

	qp_cqe(q, &c);
}

static void ack_later(struct qp *q)
{
	if (!rnd_ppm(&W.g_nic, W.ack_coalesce_ppm)) {
		qp_send_ack(q);
	} else if (!q->ack_armed) {
		q->ack_armed = true;
		ev_add(W.now + W.ack_delay_ns, EV_ACK, q->h, q->r, q->epoch);
	}
}

static void execute(struct qp *q, const struct pkt *p)
{
	if (p->first)
		q->msg_off = 0;
	ref_begin(q->h, p);
	q->nak_sent = false;
	q->rx += p->n; /* rq_psn moves before the CQE is written */
	if (p->op == SHIFT_OP_READ) {
		ref_executed(q->h, p);
		read_respond(q, p);
		return;
	}
	if (is_atomic(p->op)) {
		ref_executed(q->h, p);
		atomic_execute(q, p);
		return;
	}
	place(q, p);
	ref_place(q->h, p, p->addr);
	if (!p->last)
		return;
	if (two_sided(p->op) && rail_at(q->r)->dies[q->h]) { /* A4 */
		ref_unseen(q->h, p);
		qp_send_ack(q);
		fault_nic_dies(q->h, q->r);
		return;
	}
	ref_executed(q->h, p);
	if (two_sided(p->op))
		recv_done(q, p);
	ack_later(q);
}

void qp_request(struct qp *q, const struct pkt *p)
{
	uint32_t d = shift_psn_sub(p->psn, expected(q));

	if (nic_dead(q->h, q->r) || q->state == QP_RESET)
		return;
	if (q->state == QP_ERR && (!q->leak || d))
		return;
	if (d >= 1u << 23) {
		duplicate(q, p);
	} else if (d) {
		if (!q->nak_sent) {
			q->nak_sent = true;
			answer(q, PK_NAK_SEQ, expected(q));
		}
	} else if (p->bad_key) {
		if (q->state == QP_RTS) { /* both ends die of it (IB spec 9.9.3) */
			answer(q, PK_NAK_ACCESS, p->psn);
			W.host[1 - q->h].refused = true;
			rail_at(q->r)->hurt_at = W.now;
			qp_modify_err(q);
			q->leak = 0;
		}
	} else if (!has_recv(q, p)) {
		if (q->state == QP_RTS)
			answer(q, PK_NAK_RNR, p->psn);
	} else {
		if (q->state == QP_ERR) {
			q->leak = 0;
			tr(q->h, "nic: rail %lu epoch %lu executes one packet more in ERR", q->r,
			   q->epoch, 0, 0);
		}
		execute(q, p);
	}
}
