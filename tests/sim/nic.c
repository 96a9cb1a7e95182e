/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Model of a NIC, requester side and verbs: send queue, PSNs, go-back-N, retransmission timer,
 * errors and flushes (IB spec 9.7, 10.3.1; rxe_req.c and rxe_comp.c for what soft-RoCE makes of
 * it).
 */
#include <string.h>

#include "lib/core/psn.h"
#include "tests/sim/sim.h"

#define WINDOW 128u /* packets in flight: RXE_MAX_UNACKED_PSNS */

static void kick(struct qp *q)
{
	if (q->tx_armed || q->state != QP_RTS)
		return;
	q->tx_armed = true;
	ev_add(q->tx_free > W.now ? q->tx_free : W.now, EV_TX, q->h, q->r, q->epoch);
}

/* While it waits for the peer's receive nothing is under way. */
static void rto_start(struct qp *q)
{
	q->rto_at = (W.now < q->rnr_until ? q->rnr_until : W.now) + W.rto_ns;
	if (!q->rto_armed) {
		q->rto_armed = true;
		ev_add(q->rto_at, EV_RTO, q->h, q->r, q->epoch);
	}
}

/* --- completion queue ------------------------------------------------------------------------ */

void qp_cqe(struct qp *q, const struct cqe *c)
{
	struct cqe *slot = &q->cq[q->cq_pi % CQ_MAX];

	if (q->cq_pi - q->cq_ci == CQ_MAX) {
		violation("CQ overrun on rail %u of %c", q->r, 'A' + q->h);
		return;
	}
	*slot = *c;
	slot->visible_at = W.now + rnd_below(&W.g_nic, 2000);
	if (rnd_ppm(&W.g_nic, W.cqe_late_ppm)) /* rq_psn has moved, and a fence may have begun */
		slot->visible_at += rnd_below(&W.g_nic, 400000);
	if (slot->visible_at < q->cq_last)
		slot->visible_at = q->cq_last;
	q->cq_last = slot->visible_at;
	q->cq_pi++;
	host_poll_soon(q->h, slot->visible_at);
}

/* The completion that the program would get next. */
bool qp_peek(const struct qp *q, struct cqe *c)
{
	*c = q->cq[q->cq_ci % CQ_MAX];
	return q->cq_ci != q->cq_pi && c->visible_at <= W.now;
}

/* all: behind a barrier every CQE has reached memory. A dead NIC writes no more of them. */
bool qp_poll(struct qp *q, struct cqe *c, bool all)
{
	const struct cqe *slot = &q->cq[q->cq_ci % CQ_MAX];

	if (q->cq_ci == q->cq_pi || (!all && slot->visible_at > W.now))
		return false;
	if (nic_dead(q->h, q->r) && slot->visible_at > W.now)
		return false;
	*c = *slot;
	q->cq_ci++;
	return true;
}

static void send_cqe(struct qp *q, const struct wqe *w, uint32_t status)
{
	struct cqe c = {
		.wr_id = w->wr.wr_id,
		.status = status,
		.epoch = w->epoch,
		.seq = w->seq,
	};

	if (status == SHIFT_WC_SUCCESS) {
		c.opcode = wc_opcode(w->wr.opcode);
		c.byte_len = w->wr.opcode == SHIFT_OP_READ || is_atomic(w->wr.opcode) ? w->len : 0;
	} else {
		c.opcode = (uint32_t)w->seq * 128; /* undefined */
	}
	if (status != SHIFT_WC_SUCCESS || (w->wr.flags & SHIFT_F_SIGNALED) ||
	    W.host[q->h].cfg.sq_sig_all)
		qp_cqe(q, &c);
}

/* --- errors ---------------------------------------------------------------------------------- */

static void flush_sends(struct qp *q)
{
	for (; q->sq_ci != q->sq_pi; q->sq_ci++)
		send_cqe(q, &q->sq[q->sq_ci % SQ_MAX], SHIFT_WC_WR_FLUSH_ERR);
}

/* The error that stops a QP: the oldest WR says why, all others flush, signaled or not. */
void qp_fatal(struct qp *q, uint32_t status)
{
	if (q->state != QP_RTS)
		return;
	tr(q->h, "nic: rail %lu epoch %lu: fatal, status %lu, %lu WRs outstanding", q->r, q->epoch,
	   status, q->sq_pi - q->sq_ci);
	W.host[q->h].access_nak |= status == SHIFT_WC_REM_ACCESS_ERR;
	/* With an SRQ there is always one, but perhaps on another NIC (doc/srq.md, S14). */
	W.host[q->h].rnr_exhausted |= status == SHIFT_WC_RNR_RETRY_EXC_ERR &&
				      !W.host[1 - q->h].cfg.srq;
	rail_at(q->r)->hurt_at = W.now;
	if (q->sq_ci != q->sq_pi)
		send_cqe(q, &q->sq[q->sq_ci++ % SQ_MAX], status);
	qp_modify_err(q);
	q->leak = 0;
}

/*
 * modify(ERR): the send queue flushes; the responder is only told, and may still execute the packet
 * it has in hand (rxe schedules a task, mlx5 answers before the pipeline is empty).
 */
void qp_modify_err(struct qp *q)
{
	if (q->state != QP_RTS)
		return;
	q->state = QP_ERR;
	q->leak = (uint8_t)rnd_below(&W.g_nic, 2);
	q->drained_at = W.now + rnd_range(&W.g_nic, 1, 60) * NS_US;
	flush_sends(q);
	srq_stale(q);
	ev_add(q->drained_at, EV_DRAINED, q->h, q->r, q->epoch);
}

/* RESET waits for the tasks: a barrier. The posted WRs are gone without a CQE; rq_psn stays. */
void qp_reset(struct qp *q)
{
	q->state = QP_RESET;
	q->leak = 0;
	q->sq_ci = q->sq_pi;
	q->rq_ci = q->rq_pi;
	srq_cut(q, false);
}

/* RESET -> INIT -> RTR -> RTS */
void qp_arm(struct qp *q, uint32_t epoch, uint32_t tx_psn, uint32_t rx_psn)
{
	qp_reset(q);
	q->state = QP_RTS;
	q->epoch = epoch;
	q->mtu = rail_at(q->r)->mtu;
	q->sq_pi = q->sq_ci = q->sq_si = q->sq_k = 0;
	q->una = q->snd = q->snd_max = q->posted = 0;
	q->rq_pi = q->rq_ci = 0;
	q->rx = q->msg_off = q->atomics = 0;
	q->tx_psn = tx_psn;
	q->rx_psn = rx_psn;
	q->unsignaled = 0;
	q->retry = W.retry_cnt;
	q->rnr = W.rnr_retry;
	q->rnr_until = 0;
	q->nak_sent = q->tx_armed = q->rto_armed = q->ack_armed = q->retried = false;
	q->rnr_inf = q->after_rnr = false;
}

/* Does rq_psn say what was executed, behind the barrier? */
bool nic_is_trusted(unsigned int h)
{
	return W.host[h].flavour != NIC_IRDMA && W.host[h].flavour != NIC_STALE;
}

/* As a query returns it. */
uint32_t qp_rq_psn(const struct qp *q)
{
	uint8_t flavour = W.host[q->h].flavour;
	bool stopped = q->state != QP_RTS && W.now > q->drained_at;
	uint32_t rx = q->rx;

	if (flavour == NIC_IRDMA)
		rx = 0;
	else if (rx && (flavour == NIC_STALE || (flavour == NIC_LAG && !stopped)))
		rx -= rnd_below(&W.g_nic, 2);
	return shift_psn_add(q->rx_psn, rx);
}

/* --- posting --------------------------------------------------------------------------------- */

/* An inline payload lives in the WQE from now on: its buffer may be reused at once. */
static void take_inline(struct wqe *w)
{
	uint32_t i, done = 0;

	for (i = 0; i < w->wr.num_sge; i++) {
		uint32_t k, n = cells_of(w->sge[i].length);

		for (k = 0; k < n && done < INLINE_CELLS; k++)
			w->inl[done++] = *cell_at(w->sge[i].addr + k * CELL);
	}
}

int qp_post_send(struct qp *q, const struct shift_wr *wr, uint32_t seq)
{
	struct wqe *w = &q->sq[q->sq_pi % SQ_MAX];
	struct prog *p = &W.host[q->h].p;
	const struct ref_wr *ref = &p->wr[seq];
	uint32_t i;

	if (q->sq_pi - q->sq_ci >= W.host[q->h].cfg.sq_cap || wr->num_sge > SGES) {
		violation("send queue overrun on rail %u of %c", q->r, 'A' + q->h);
		return -1;
	}
	w->wr = *wr;
	w->wr.sge = w->sge;
	w->len = 0;
	for (i = 0; i < wr->num_sge; i++) {
		w->sge[i] = wr->sge[i];
		w->len += wr->sge[i].length;
	}
	if (is_atomic(wr->opcode))
		w->len = 8;
	w->epoch = q->epoch;
	w->seq = seq;
	w->off = is_atomic(wr->opcode) ? 0 : (ref->len - w->len) / CELL;
	w->first = q->posted;
	w->n = shift_psn_packets(wr->opcode, w->len, q->mtu);
	w->got = 0;
	if (wr->flags & SHIFT_F_INLINE)
		take_inline(w);
	q->posted += w->n;
	q->sq_pi++;
	if (seq >= p->sent)
		p->sent = seq + 1;
	if (q->state == QP_ERR)
		flush_sends(q);
	kick(q);
	return 0;
}

int qp_post_recv(struct qp *q, const struct shift_recv_wr *wr)
{
	struct rqe *e = &q->rq[q->rq_pi % RQ_MAX];

	if (q->rq_pi - q->rq_ci >= W.host[q->h].cfg.rq_cap || wr->num_sge > SGES) {
		violation("receive queue overrun on rail %u of %c", q->r, 'A' + q->h);
		return -1;
	}
	e->wr_id = wr->wr_id;
	e->epoch = q->epoch;
	e->nsge = wr->num_sge;
	memcpy(e->sge, wr->sge, wr->num_sge * sizeof(*wr->sge));
	q->rq_pi++;
	return 0; /* in ERR: rxe may never flush it, so the core may not count on that */
}

/* --- sending --------------------------------------------------------------------------------- */

/* Packets that leave in one piece from packet k on. */
static uint32_t piece(const struct wqe *w, uint32_t k)
{
	uint32_t left = w->n - k;

	if (w->wr.opcode == SHIFT_OP_READ)
		return left;
	return !is_huge(w->len) ? 1 : left < HUGE_PACKETS ? left : HUGE_PACKETS;
}

static void gather(const struct wqe *w, uint32_t cell, uint32_t n, uint32_t *out)
{
	uint32_t i, at = 0, c, k = 0;

	if (w->wr.flags & SHIFT_F_INLINE) {
		for (; k < n; k++)
			out[k] = cell + k < INLINE_CELLS ? w->inl[cell + k] : 0;
		return;
	}
	for (i = 0; i < w->wr.num_sge && k < n; i++, at += c) {
		c = cells_of(w->sge[i].length);
		while (k < n && cell + k < at + c) {
			out[k] = *cell_at(w->sge[i].addr + (cell + k - at) * CELL);
			k++;
		}
	}
}

/* Fill in packet k of a WQE; a READ asks for everything from k on. Returns the PSNs it takes. */
static uint32_t build(struct qp *q, const struct wqe *w, uint32_t k, struct pkt *p)
{
	uint32_t mtu_cells = q->mtu / CELL, cells = cells_of(w->len), from = k * mtu_cells;
	bool read = w->wr.opcode == SHIFT_OP_READ, atomic = is_atomic(w->wr.opcode);

	p->type = PK_REQ;
	p->src = q->h;
	p->r = q->r;
	p->op = w->wr.opcode;
	p->epoch = q->epoch;
	p->psn = shift_psn_add(q->tx_psn, w->first + k);
	p->seq = w->seq;
	p->off = w->off + from;
	p->imm = w->wr.imm;
	p->addr = w->wr.remote_addr + (uint64_t)from * CELL;
	p->a = w->wr.compare_add;
	p->b = w->wr.swap;
	p->first = k == 0;
	p->n = piece(w, k);
	p->last = k + p->n == w->n;
	p->len = w->len;
	p->bad_key = w->wr.rkey == RKEY_BAD;
	p->has_data = !read && !atomic;
	p->cells = 0;
	p->span = 0;
	if (p->has_data && is_huge(w->len)) {
		p->span = cells - from < p->n * mtu_cells ? cells - from : p->n * mtu_cells;
	} else if (p->has_data) {
		p->cells = (uint8_t)(cells - from < mtu_cells ? cells - from : mtu_cells);
		p->span = p->cells;
		gather(w, from, p->cells, p->data);
	} else if (read) {
		p->cells = 0;
		p->len = cells - from; /* still wanted */
	}
	return p->n;
}

static void finish_locals(struct qp *q)
{
	for (; q->sq_ci != q->sq_si && !q->sq[q->sq_ci % SQ_MAX].n; q->sq_ci++)
		send_cqe(q, &q->sq[q->sq_ci % SQ_MAX], SHIFT_WC_SUCCESS);
}

/* A WQE with the fence flag waits for every earlier READ and atomic. */
static bool must_wait(const struct qp *q, const struct wqe *w)
{
	uint32_t i;

	if (!(w->wr.flags & SHIFT_F_FENCE))
		return false;
	for (i = q->sq_ci; i != q->sq_si; i++) {
		uint8_t op = q->sq[i % SQ_MAX].wr.opcode;

		if (op == SHIFT_OP_READ || is_atomic(op))
			return true;
	}
	return false;
}

/* max_rd_atomic: the responder keeps the results of so many atomics for a repeated request. */
static bool too_many_reads(const struct qp *q, const struct wqe *w)
{
	uint32_t i, n = 0;

	if (w->wr.opcode != SHIFT_OP_READ && !is_atomic(w->wr.opcode))
		return false;
	for (i = q->sq_ci; i != q->sq_si; i++) {
		uint8_t op = q->sq[i % SQ_MAX].wr.opcode;

		n += op == SHIFT_OP_READ || is_atomic(op);
	}
	return n >= ATOMIC_CACHE;
}

static bool can_send(const struct qp *q)
{
	if (q->state != QP_RTS || q->sq_si == q->sq_pi || W.now < q->rnr_until)
		return false;
	if (q->snd - q->una >= WINDOW || nic_dead(q->h, q->r))
		return false;
	if (q->after_rnr && q->sq_si != q->sq_ci) /* what comes behind would be in vain */
		return false;
	return !must_wait(q, &q->sq[q->sq_si % SQ_MAX]) &&
	       !too_many_reads(q, &q->sq[q->sq_si % SQ_MAX]);
}

/* A local operation takes no packet. It is done when its turn comes, once, and is complete when all
 * before it are. */
static void do_local(struct qp *q, struct wqe *w)
{
	if (!w->got)
		ref_local(q->h, w->seq);
	w->got = 1;
	q->sq_si++;
	finish_locals(q);
}

static bool send_one(struct qp *q)
{
	struct wqe *w = &q->sq[q->sq_si % SQ_MAX];
	struct pkt *p;
	uint32_t n;

	if (!w->n) {
		do_local(q, w);
		return true;
	}
	p = pkt_get();

	if (!p)
		return false;
	n = build(q, w, q->sq_k, p);
	q->sq_k += n;
	q->snd += n;
	if (q->snd > q->snd_max)
		q->snd_max = q->snd;
	if (q->sq_k == w->n) {
		q->sq_si++;
		q->sq_k = 0;
	}
	net_send(p);
	return true;
}

void qp_tx(struct qp *q)
{
	uint32_t burst = 4;

	q->tx_armed = false;
	if (W.now < q->rnr_until && q->state == QP_RTS) {
		q->tx_free = q->rnr_until;
		kick(q);
		return;
	}
	if (can_send(q) && rail_at(q->r)->admin_down[q->h]) {
		qp_fatal(q, W.down_status); /* at once, says rxe */
		return;
	}
	if (can_send(q) && q->una == q->snd_max)
		rto_start(q); /* sending again does not put off the timer that is running */
	while (burst && can_send(q) && send_one(q))
		burst--;
	q->tx_free = W.now + rail_at(q->r)->gap_ns * (4 - burst);
	if (!burst && can_send(q))
		kick(q);
}

static void rewind_to_una(struct qp *q)
{
	q->sq_si = q->sq_ci;
	q->sq_k = 0;
	q->snd = q->una;
	if (q->sq_ci != q->sq_pi)
		q->sq_k = q->una - q->sq[q->sq_ci % SQ_MAX].first;
	kick(q);
}

void qp_rto(struct qp *q)
{
	q->rto_armed = false;
	if (q->state != QP_RTS || q->una == q->snd_max || nic_dead(q->h, q->r))
		return;
	if (W.now < q->rto_at) {
		q->rto_armed = true;
		ev_add(q->rto_at, EV_RTO, q->h, q->r, q->epoch);
		return;
	}
	if (q->retry == 0) {
		qp_fatal(q, SHIFT_WC_RETRY_EXC_ERR);
		return;
	}
	if (!q->retry_inf)
		q->retry--;
	q->retried = false;
	rto_start(q);
	rewind_to_una(q);
}

/*
 * A NAK, or a response that shows that one before it was lost. It counts as a retry (IB spec
 * 9.9.2.4). Only one until something moves or the timer runs out, as in rxe (started_retry in its
 * rxe_comp.c): if large responses are lost and small ones arrive, every small one would send
 * everything again at once.
 */
static void retry_now(struct qp *q)
{
	if (q->retried)
		return;
	if (q->retry == 0 && !q->retry_inf) {
		qp_fatal(q, SHIFT_WC_RETRY_EXC_ERR);
		return;
	}
	if (!q->retry_inf)
		q->retry--;
	q->retried = true;
	rewind_to_una(q);
}

/* Something moved: the retries begin afresh. */
static void note_progress(struct qp *q)
{
	q->retry = W.retry_cnt;
	q->retried = false;
}

/* --- acknowledgements
 * ----------------------------------------------------------------------------- */

static void complete_first(struct qp *q)
{
	struct wqe *w = &q->sq[q->sq_ci % SQ_MAX];

	if (q->sq_si == q->sq_ci) { /* acknowledged after a rewind: do not send it again */
		q->sq_si++;
		q->sq_k = 0;
		q->snd = w->first + w->n;
	}
	send_cqe(q, w, SHIFT_WC_SUCCESS);
	q->sq_ci++;
	finish_locals(q);
}

/* Everything before packet `to` is acknowledged; a READ or atomic also wants its response. */
static void advance(struct qp *q, uint32_t to)
{
	while (q->una != to && q->sq_ci != q->sq_pi) {
		struct wqe *w = &q->sq[q->sq_ci % SQ_MAX];
		uint32_t end = w->first + w->n;

		if (w->wr.opcode == SHIFT_OP_READ || is_atomic(w->wr.opcode))
			end = w->first + w->got;
		if ((int32_t)(end - q->una) <= 0 && w->got < w->n) {
			retry_now(q); /* implied NAK: its response was lost */
			return;
		}
		q->una = (int32_t)(end - to) < 0 ? end : to;
		note_progress(q);
		if ((int32_t)(q->snd - q->una) < 0) {
			q->snd = q->una;
			q->sq_si = q->sq_ci;
			q->sq_k = q->una - w->first;
		}
		if (q->una == w->first + w->n)
			complete_first(q);
	}
}

static void take_response(struct qp *q, const struct pkt *p)
{
	struct wqe *w = &q->sq[q->sq_ci % SQ_MAX];
	uint32_t k = q->una - w->first, i, from = k * (q->mtu / CELL), at = 0, s;

	if (p->type == PK_ATOMIC_RESP) {
		*(uint64_t *)(uintptr_t)w->sge[0].addr = p->a;
	} else {
		for (s = 0, i = 0; s < w->wr.num_sge && i < p->cells; s++) {
			uint32_t c = cells_of(w->sge[s].length);

			for (; i < p->cells && from + i < at + c; i++)
				*cell_at(w->sge[s].addr + (from + i - at) * CELL) = p->data[i];
			at += c;
		}
	}
	w->got++;
	if (w->got == w->n)
		ref_back(q->h, w->seq);
	q->una++;
	note_progress(q);
	if ((int32_t)(q->snd - q->una) < 0) {
		q->snd = q->una;
		q->sq_si = q->sq_ci;
		q->sq_k = w->got;
	}
	if (w->got == w->n)
		complete_first(q);
}

/* ACK, NAK or response that arrives at the requester. */
void qp_ack(struct qp *q, const struct pkt *p)
{
	uint32_t d = shift_psn_sub(p->psn, shift_psn_add(q->tx_psn, q->una)), una = q->una;
	const struct wqe *w;

	if (q->state != QP_RTS || nic_dead(q->h, q->r))
		return;
	if (d >= q->snd_max - q->una)
		return; /* old, or of another life of this QPN */
	if (p->type == PK_ACK) {
		advance(q, q->una + d + 1);
	} else if (p->type == PK_NAK_ACCESS) {
		advance(q, q->una + d);
		if (q->una == una + d)
			qp_fatal(q, SHIFT_WC_REM_ACCESS_ERR);
		return;
	} else if (p->type == PK_NAK_SEQ) {
		advance(q, q->una + d);
		if (q->una == una + d)
			retry_now(q);
	} else if (p->type == PK_NAK_RNR) {
		advance(q, q->una + d);
		if (q->una != una + d)
			return; /* of a response before it that was lost it is an implied NAK */
		if (W.rnr_retry != 7 && !q->rnr_inf && q->rnr-- == 0) {
			qp_fatal(q, SHIFT_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		/* min_rnr_timer of the peer: half a turn of an SRQ at most (S16) */
		q->after_rnr = W.host[1 - q->h].cfg.srq;
		q->rnr_until = W.now + rnd_range(&W.g_nic, 10, 300) * NS_US *
					       (W.host[1 - q->h].cfg.srq ? 3 : 1);
		rewind_to_una(q);
	} else {
		advance(q, q->una + d);
		w = &q->sq[q->sq_ci % SQ_MAX];
		if (q->una == una + d && q->sq_ci != q->sq_pi &&
		    is_atomic(w->wr.opcode) == (p->type == PK_ATOMIC_RESP) &&
		    (is_atomic(w->wr.opcode) || w->wr.opcode == SHIFT_OP_READ))
			take_response(q, p);
	}
	if (q->una != una) {
		q->rnr = W.rnr_retry;
		q->after_rnr = false;
	}
	if (q->una != una || p->type == PK_NAK_RNR)
		rto_start(q);
	kick(q);
}
