/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Model of a NIC: reliable connections by PSN, with ACKs, retries, RNR, READs and atomics; ERR,
 * RESET and flushes as soft-RoCE and mlx5 have them (doc/protocol.md, section 8). Nothing here
 * calls the library.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/glue/glue.h"

#define PSN_MASK 0xffffffu
#define LEAK_NS	 800000 /* how long mlx5 may execute one more packet in ERR */
#define WINDOW	 64	/* packets in flight */

struct fake_nic nics[HOSTS][RAILS_MAX];
unsigned int rails;

static struct fake_qp *all_qps, *destroyed_qps;
static uint32_t next_qpn, retry_ns, ack_delay_ppm, cqe_lag_ns;

static void tx_soon(struct fake_qp *q);
static void rto_start(struct fake_qp *q);

static bool is_atomic(enum op op)
{
	return op == OP_CMP_SWAP || op == OP_FETCH_ADD;
}

static bool is_send(enum op op)
{
	return op == OP_SEND || op == OP_SEND_IMM;
}

struct fake_qp *qp_of_number(const struct fake_nic *n, uint32_t qpn)
{
	for (struct fake_qp *q = all_qps; q; q = q->next_qp)
		if (q->nic == n && q->qp.qp_num == qpn)
			return q;
	return NULL;
}

struct fake_qp *nic_some_qp(const struct fake_nic *n)
{
	struct fake_qp *found = NULL;

	for (struct fake_qp *q = all_qps; q; q = q->next_qp)
		if (q->nic == n && q->state == IBV_QPS_RTS && !q->stray && (!found || one_in(2)))
			found = q;
	return found;
}

/* --- completions ------------------------------------------------------------------------------ */

static void event_due(struct fake_cq *c, uint64_t at)
{
	c->armed = false;
	if (c->channel && (!c->event_at || at < c->event_at))
		c->event_at = at;
}

void nic_completes(struct ibv_cq *cq, const struct fake_qp *q, const struct ibv_wc *wc)
{
	struct fake_cq *c = (struct fake_cq *)cq;
	uint64_t at = now + rnd() % (1 + cqe_lag_ns);
	struct cq_entry *e;

	if (c->tail - c->head >= (uint32_t)c->cq.cqe && c->cq.cqe == 1)
		return; /* it is made to overrun: lib/object/event_waker.c */
	if (c->tail - c->head >= (uint32_t)c->cq.cqe)
		violation("a CQ of %d entries overruns (V10)", c->cq.cqe);
	e = &c->entry[c->tail++ % c->size];
	c->newest = at > c->newest ? at : c->newest;
	e->wc = *wc;
	e->wc.qp_num = q->qp.qp_num;
	e->qp = q;
	e->visible_at = c->newest;
	if (c->armed)
		event_due(c, e->visible_at);
}

/* What is on its way to the queue counts as the next one. */
void nic_notify(struct fake_cq *c)
{
	for (uint32_t i = c->head; i != c->tail; i++)
		if (c->entry[i % c->size].visible_at > now) {
			event_due(c, c->entry[i % c->size].visible_at);
			return;
		}
	c->armed = true;
}

int nic_poll(struct fake_cq *c, int n, struct ibv_wc *wc)
{
	int got = 0;

	while (got < n && c->head != c->tail && c->entry[c->head % c->size].visible_at <= now)
		wc[got++] = c->entry[c->head++ % c->size].wc;
	return got;
}

void nic_forget_entries(struct fake_cq *c, const struct fake_qp *q)
{
	uint32_t to = c->head;

	for (uint32_t i = c->head; i != c->tail; i++)
		if (c->entry[i % c->size].qp != q)
			c->entry[to++ % c->size] = c->entry[i % c->size];
	c->tail = to;
}

/* The NIC has stopped: what it had to write is written. */
static void entries_settle(struct fake_cq *c, const struct fake_qp *q)
{
	uint32_t last = c->head;

	for (uint32_t i = c->head; i != c->tail; i++)
		if (c->entry[i % c->size].qp == q)
			last = i + 1;
	for (uint32_t i = c->head; i != last; i++)
		if (c->entry[i % c->size].visible_at > now)
			c->entry[i % c->size].visible_at = now;
}

static enum ibv_wc_opcode wc_opcode(enum op op)
{
	static const enum ibv_wc_opcode opcode[] = {
		[OP_WRITE] = IBV_WC_RDMA_WRITE,	  [OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
		[OP_SEND] = IBV_WC_SEND,	  [OP_SEND_IMM] = IBV_WC_SEND,
		[OP_READ] = IBV_WC_RDMA_READ,	  [OP_CMP_SWAP] = IBV_WC_COMP_SWAP,
		[OP_FETCH_ADD] = IBV_WC_FETCH_ADD};

	return opcode[op];
}

static void send_completes(struct fake_qp *q, const struct wqe *w, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.wr_id = w->wr_id, .status = status, .opcode = wc_opcode(w->op)};

	if (w->op == OP_READ || is_atomic(w->op))
		wc.byte_len = w->length;
	if (status != IBV_WC_SUCCESS) /* the opcode of an error is undefined */
		wc.opcode = one_in(2) ? IBV_WC_RECV : IBV_WC_SEND;
	if (status != IBV_WC_SUCCESS || q->init.sq_sig_all || (w->flags & IBV_SEND_SIGNALED))
		nic_completes(q->qp.send_cq, q, &wc);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void flush_sends(struct fake_qp *q)
{
	while (q->sq_done != q->sq_posted)
		send_completes(q, &q->sq[q->sq_done++ % q->init.cap.max_send_wr],
			       IBV_WC_WR_FLUSH_ERR);
	q->sq_sending = q->sq_posted;
}

static void flush_receives(struct fake_qp *q)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_SEND};

	if (q->srq) {
		srq_flush(q);
		return;
	}
	while (q->rq_done != q->rq_posted) {
		wc.wr_id = q->rq[q->rq_done++ % q->init.cap.max_recv_wr].wr_id;
		nic_completes(q->qp.recv_cq, q, &wc);
	}
}

static void flush_later(void *qp, uint64_t life)
{
	struct fake_qp *q = qp;

	if (q->life == life && q->state == IBV_QPS_ERR)
		flush_sends(q);
}

static void flush_receives_later(void *qp, uint64_t life)
{
	struct fake_qp *q = qp;

	if (q->life == life && q->state == IBV_QPS_ERR) {
		q->leaks = false;
		flush_receives(q);
	}
}

/* ERR stops nothing at once: one more packet may be executed (V4). Soft-RoCE may never flush the
 * receives (V6). */
static void enter_err(struct fake_qp *q)
{
	if (q->state == IBV_QPS_ERR)
		return;
	q->leaks = q->state == IBV_QPS_RTR || q->state == IBV_QPS_RTS;
	q->state = IBV_QPS_ERR;
	q->leak_until = q->nic->is_rxe ? UINT64_MAX : now + LEAK_NS;
	event_at(now + rnd_below(30 * NS_US), flush_later, q, q->life);
	if (!q->nic->is_rxe)
		event_at(now + rnd_range(LEAK_NS / 2, LEAK_NS), flush_receives_later, q, q->life);
	else if (one_in(2))
		event_at(now + rnd_below(300 * NS_US), flush_receives_later, q, q->life);
}

static void qp_fails(struct fake_qp *q, enum ibv_wc_status status)
{
	trace("%s: QP %#x: error %d", q->nic->nic->name, q->qp.qp_num, status);
	if (q->sq_done != q->sq_posted) {
		send_completes(q, &q->sq[q->sq_done % q->init.cap.max_send_wr], status);
		q->sq_done++;
	}
	enter_err(q);
}

void nic_fail_qp(struct fake_qp *q)
{
	enter_err(q);
}

/* --- requester: sending ----------------------------------------------------------------------- */

static struct wqe *wqe_at(struct fake_qp *q, uint32_t i)
{
	return &q->sq[i % q->init.cap.max_send_wr];
}

static void gather(const struct wqe *w, uint32_t from, uint8_t *to, uint32_t bytes)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < w->num_sge && bytes; i++) {
		uint32_t len = w->sge[i].length;

		if (from < at + len) {
			uint32_t n = at + len - from;

			n = n < bytes ? n : bytes;
			memcpy(to, (const char *)(uintptr_t)w->sge[i].addr + (from - at), n);
			to += n;
			from += n;
			bytes -= n;
		}
		at += len;
	}
}

static void send_packet(struct fake_qp *q, const struct wqe *w, uint32_t k)
{
	bool reads = w->op == OP_READ || is_atomic(w->op);
	uint32_t from = k * q->mtu, bytes = reads ? 0 : w->length - from;
	struct packet *p;

	if (w->marker)
		violation("the marker of a fence leaves the NIC");
	bytes = bytes > q->mtu ? q->mtu : bytes;
	p = packet_new(q, REQUEST, (q->tx_psn + w->first + k) & PSN_MASK, bytes);
	p->op = w->op;
	p->stray = q->stray;
	p->first = k == 0;
	p->last = reads || k + 1 == w->packets;
	p->rkey = w->rkey;
	p->imm = w->imm;
	p->packets = reads ? w->packets - k : 1;
	p->length = w->length;
	p->offset = from;
	p->remote = w->remote + from;
	p->a = w->compare_add;
	p->b = w->swap;
	p->source = w->num_sge ? w->sge[0].addr : 0;
	gather(w, from, p->data, bytes);
	if (w->op == OP_READ)
		p->length = w->length - from;
	wire_send(q->nic, p);
}

/* FENCE waits for the READs and atomics before it. */
static bool must_wait(struct fake_qp *q, const struct wqe *w)
{
	if (!(w->flags & IBV_SEND_FENCE))
		return false;
	for (uint32_t i = q->sq_done; i != q->sq_sending; i++)
		if (wqe_at(q, i)->op == OP_READ || is_atomic(wqe_at(q, i)->op))
			return true;
	return false;
}

static bool may_send(struct fake_qp *q)
{
	return q->state == IBV_QPS_RTS && q->sq_sending != q->sq_posted && now >= q->rnr_until &&
	       q->next - q->una < WINDOW && !must_wait(q, wqe_at(q, q->sq_sending));
}

static void tx(void *qp, uint64_t life)
{
	struct fake_qp *q = qp;
	struct wqe *w;
	bool reads;

	if (q->life != life)
		return;
	q->tx_set = false;
	if (q->state == IBV_QPS_RTS && now < q->rnr_until) {
		q->tx_set = true;
		event_at(q->rnr_until, tx, q, q->life);
		return;
	}
	if (!may_send(q))
		return;
	w = wqe_at(q, q->sq_sending);
	reads = w->op == OP_READ || is_atomic(w->op);
	send_packet(q, w, q->sq_packet);
	q->next = reads ? w->first + w->packets : q->next + 1;
	q->sq_packet = q->next - w->first;
	if (q->sq_packet == w->packets) {
		q->sq_sending++;
		q->sq_packet = 0;
	}
	if ((int32_t)(q->next - q->next_max) > 0)
		q->next_max = q->next;
	if (!q->rto_set)
		rto_start(q);
	tx_soon(q);
}

static void tx_soon(struct fake_qp *q)
{
	if (q->tx_set || q->state != IBV_QPS_RTS || q->sq_sending == q->sq_posted)
		return;
	q->tx_set = true;
	event_at(now + 50 + rnd_below(1000), tx, q, q->life);
}

static void rewind_sends(struct fake_qp *q)
{
	q->sq_sending = q->sq_done;
	q->sq_packet = q->sq_done != q->sq_posted ? q->una - wqe_at(q, q->sq_done)->first : 0;
	q->next = q->una;
	tx_soon(q);
}

static uint64_t timeout_ns(const struct fake_qp *q)
{
	return q->attr.timeout ? 4096ull << q->attr.timeout : retry_ns;
}

static void rto(void *qp, uint64_t life)
{
	struct fake_qp *q = qp;

	if (q->life != life)
		return;
	q->rto_set = false;
	if (q->state != IBV_QPS_RTS || q->una == q->next_max)
		return;
	if (now < q->rto_at) {
		q->rto_set = true;
		event_at(q->rto_at, rto, q, q->life);
		return;
	}
	if (now >= q->rnr_until && !q->retries--) {
		qp_fails(q, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	rto_start(q);
	rewind_sends(q);
}

static void rto_start(struct fake_qp *q)
{
	q->rto_at = now + timeout_ns(q);
	if (q->rto_set)
		return;
	q->rto_set = true;
	event_at(q->rto_at, rto, q, q->life);
}

/* --- requester: answers ----------------------------------------------------------------------- */

static void first_completes(struct fake_qp *q)
{
	struct wqe *w = wqe_at(q, q->sq_done);

	if (q->sq_sending == q->sq_done) { /* acknowledged after a rewind */
		q->sq_sending++;
		q->sq_packet = 0;
		q->next = w->first + w->packets;
	}
	send_completes(q, w, IBV_WC_SUCCESS);
	q->sq_done++;
}

static void next_follows(struct fake_qp *q)
{
	if ((int32_t)(q->next - q->una) >= 0)
		return;
	q->next = q->una;
	q->sq_sending = q->sq_done;
	q->sq_packet = q->una - wqe_at(q, q->sq_done)->first;
}

/* All before packet `to` is acknowledged; a READ or an atomic wants its response, too. */
static void advance(struct fake_qp *q, uint32_t to)
{
	while (q->una != to && q->sq_done != q->sq_posted) {
		const struct wqe *w = wqe_at(q, q->sq_done);
		bool reads = w->op == OP_READ || is_atomic(w->op);
		uint32_t end = w->first + (reads ? w->got : w->packets);

		if (reads && (int32_t)(end - q->una) <= 0 && w->got < w->packets) {
			rewind_sends(q); /* its response was lost */
			return;
		}
		q->una = (int32_t)(end - to) < 0 ? end : to;
		q->retries = q->attr.retry_cnt;
		next_follows(q);
		if (q->una == w->first + w->packets)
			first_completes(q);
	}
}

static void scatter(const struct ibv_sge *sge, uint32_t n, uint32_t at, const uint8_t *from,
		    uint32_t bytes)
{
	for (uint32_t i = 0; i < n && bytes; at -= sge[i++].length) {
		uint32_t part;

		while (i < n && at >= sge[i].length)
			at -= sge[i++].length;
		if (i == n)
			break;
		part = sge[i].length - at < bytes ? sge[i].length - at : bytes;
		memcpy((char *)(uintptr_t)sge[i].addr + at, from, part);
		from += part;
		bytes -= part;
		at += part;
	}
	if (bytes)
		violation("a message is longer than its receive");
}

static void take_response(struct fake_qp *q, const struct packet *p)
{
	struct wqe *w = wqe_at(q, q->sq_done);

	if (p->type == ATOMIC_DATA)
		memcpy((void *)(uintptr_t)w->sge[0].addr, &p->a, 8);
	else
		scatter(w->sge, w->num_sge, (q->una - w->first) * q->mtu, p->data, p->bytes);
	w->got++;
	q->una++;
	q->retries = q->attr.retry_cnt;
	next_follows(q);
	if (w->got == w->packets)
		first_completes(q);
}

static void take_data(struct fake_qp *q, const struct packet *p, uint32_t at)
{
	const struct wqe *w;

	advance(q, at);
	if (q->una != at || q->sq_done == q->sq_posted)
		return;
	w = wqe_at(q, q->sq_done);
	if (p->type == ATOMIC_DATA ? is_atomic(w->op) : w->op == OP_READ)
		take_response(q, p);
}

/* rnr_retry: so often for one packet; 7: without end. */
static bool rnr_is_borne(struct fake_qp *q)
{
	if (q->attr.rnr_retry == 7)
		return true;
	if (q->rnrs_at != q->una)
		q->rnrs = 0;
	q->rnrs_at = q->una;
	if (q->rnrs++ < q->attr.rnr_retry)
		return true;
	qp_fails(q, IBV_WC_RNR_RETRY_EXC_ERR);
	return false;
}

static void take_answer(struct fake_qp *q, const struct packet *p)
{
	uint32_t una = q->una, d = (p->psn - q->tx_psn - una) & PSN_MASK, at = una + d;

	if (q->state != IBV_QPS_RTS || d >= q->next_max - una)
		return;
	switch (p->type) {
	case ACK: advance(q, at + 1); break;
	case NAK_ACCESS:
		advance(q, at);
		if (q->una == at)
			qp_fails(q, IBV_WC_REM_ACCESS_ERR);
		return;
	case NAK_RNR:
		advance(q, at);
		if (!rnr_is_borne(q))
			return;
		if (pool_is_used()) /* an RNR NAK is an answer; elsewhere recorded seeds would
				       change */
			q->retries = q->attr.retry_cnt;
		q->rnr_until = now + rnd_range(200, 5000) * NS_US;
		rewind_sends(q);
		rto_start(q);
		break;
	case NAK_SEQUENCE:
		advance(q, at);
		rewind_sends(q);
		break;
	case READ_DATA:
	case ATOMIC_DATA: take_data(q, p, at); break;
	case REQUEST: break;
	}
	if (q->una != una)
		rto_start(q);
	tx_soon(q);
}

/* --- responder -------------------------------------------------------------------------------- */

static uint32_t expected(const struct fake_qp *q)
{
	return (q->rx_psn + q->rx) & PSN_MASK;
}

static void answer(struct fake_qp *q, enum packet_type type, uint32_t psn)
{
	wire_send(q->nic, packet_new(q, type, psn, 0));
}

static void ack_later(void *qp, uint64_t life)
{
	struct fake_qp *q = qp;

	if (q->life == life && q->state != IBV_QPS_RESET && q->rx)
		answer(q, ACK, (expected(q) - 1) & PSN_MASK);
}

static void acknowledge(struct fake_qp *q)
{
	if (rnd_ppm(ack_delay_ppm))
		event_at(now + rnd_below(50 * NS_US), ack_later, q, q->life);
	else
		ack_later(q, q->life);
}

static void respond_read(struct fake_qp *q, const struct packet *p)
{
	for (uint32_t i = 0; i < p->packets; i++) {
		uint32_t from = i * q->mtu, left = p->length > from ? p->length - from : 0;
		uint32_t bytes = left < q->mtu ? left : q->mtu;
		struct packet *r = packet_new(q, READ_DATA, (p->psn + i) & PSN_MASK, bytes);

		memcpy(r->data, (char *)(uintptr_t)p->remote + from, bytes);
		wire_send(q->nic, r);
	}
}

static void respond_atomic(struct fake_qp *q, uint32_t psn, uint64_t value)
{
	struct packet *r = packet_new(q, ATOMIC_DATA, psn, 0);

	r->a = value;
	wire_send(q->nic, r);
}

static void execute_atomic(struct fake_qp *q, const struct packet *p)
{
	uint64_t *word = (uint64_t *)(uintptr_t)p->remote, old = *word;
	uint32_t i = q->atomics++ % 16;

	if (p->op == OP_FETCH_ADD)
		*word = old + p->a;
	else if (old == p->a)
		*word = p->b;
	q->atomic[i].psn = p->psn;
	q->atomic[i].value = old;
	respond_atomic(q, p->psn, old);
}

static void repeated(struct fake_qp *q, const struct packet *p)
{
	if (p->op == OP_READ) {
		if (((expected(q) - p->psn) & PSN_MASK) <= q->rx)
			respond_read(q, p);
	} else if (is_atomic(p->op)) {
		for (uint32_t i = 0; i < 16 && i < q->atomics; i++)
			if (q->atomic[i].psn == p->psn)
				respond_atomic(q, p->psn, q->atomic[i].value);
	} else {
		acknowledge(q);
	}
}

static bool needs_receive(const struct packet *p)
{
	return (is_send(p->op) && p->first) || (p->op == OP_WRITE_IMM && p->last);
}

static bool receive_is_there(const struct fake_qp *q, const struct packet *p)
{
	if (!needs_receive(p))
		return true;
	return q->srq ? !srq_is_empty(q->srq) : q->rq_done != q->rq_posted;
}

static const struct rqe *rqe_now(const struct fake_qp *q)
{
	return q->srq ? &q->rqe : &q->rq[q->rq_done % q->init.cap.max_recv_wr];
}

static void receive_completes(struct fake_qp *q, const struct packet *p)
{
	struct ibv_wc wc = {.wr_id = rqe_now(q)->wr_id,
			    .opcode = is_send(p->op) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
			    .byte_len = p->length};

	if (p->op == OP_SEND_IMM || p->op == OP_WRITE_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = p->imm;
	}
	nic_completes(q->qp.recv_cq, q, &wc);
	if (q->srq)
		srq_release(q);
	else
		q->rq_done++;
}

static void place(struct fake_qp *q, const struct packet *p)
{
	const struct rqe *r;

	if (!p->bytes)
		return;
	r = is_send(p->op) ? rqe_now(q) : NULL;
	if (!r)
		memcpy((void *)(uintptr_t)p->remote, p->data, p->bytes);
	else
		scatter(r->sge, r->num_sge, q->offset, p->data, p->bytes);
	q->offset += p->bytes;
}

static void execute(struct fake_qp *q, const struct packet *p)
{
	if (p->first)
		q->offset = 0;
	if (q->srq && needs_receive(p))
		srq_take(q);
	if (!p->to_itself)
		oracle_execute(q->nic->host, q, p);
	else if (q->stray)
		stray_execute(q);
	else
		tally->srq_drained++;
	q->nak_sent = false;
	q->rx += p->packets; /* before the CQE is written (V5) */
	if (p->op == OP_READ) {
		respond_read(q, p);
	} else if (is_atomic(p->op)) {
		execute_atomic(q, p);
	} else {
		place(q, p);
		if (p->last && (is_send(p->op) || p->op == OP_WRITE_IMM))
			receive_completes(q, p);
		if (p->last)
			acknowledge(q);
	}
}

static bool reaches_memory(const struct fake_qp *q, const struct packet *p)
{
	return is_send(p->op) || mr_find(q->nic, p->rkey, p->remote,
					 p->op == OP_READ   ? p->length
					 : is_atomic(p->op) ? 8
							    : p->bytes);
}

static void take_request(struct fake_qp *q, const struct packet *p)
{
	uint32_t d = (p->psn - expected(q)) & PSN_MASK;
	bool alive = q->state == IBV_QPS_RTR || q->state == IBV_QPS_RTS;

	if (!alive && !(q->state == IBV_QPS_ERR && q->leaks && !d && now < q->leak_until))
		return;
	if (d > PSN_MASK / 2) {
		repeated(q, p);
	} else if (d) {
		if (!q->nak_sent)
			answer(q, NAK_SEQUENCE, expected(q));
		q->nak_sent = true;
	} else if (!reaches_memory(q, p)) {
		if (!alive)
			return;
		trace("%s: QP %#x: no memory %#x at %#lx", q->nic->nic->name, q->qp.qp_num, p->rkey,
		      (unsigned long)p->remote);
		answer(q, NAK_ACCESS, p->psn);
		enter_err(q);
		q->leaks = false;
	} else if (!receive_is_there(q, p)) {
		if (alive)
			answer(q, NAK_RNR, p->psn);
	} else {
		if (!alive)
			tally->leaked_packets++;
		q->leaks = q->leaks && alive;
		execute(q, p);
	}
}

void nic_receive(struct packet *p)
{
	struct fake_qp *q = qp_of_number(p->to, p->qpn);

	if (!q)
		return;
	if (p->type == REQUEST)
		take_request(q, p);
	else
		take_answer(q, p);
}

/* --- verbs ------------------------------------------------------------------------------------ */

static enum op op_of(enum ibv_wr_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WR_RDMA_WRITE: return OP_WRITE;
	case IBV_WR_RDMA_WRITE_WITH_IMM: return OP_WRITE_IMM;
	case IBV_WR_SEND: return OP_SEND;
	case IBV_WR_SEND_WITH_IMM: return OP_SEND_IMM;
	case IBV_WR_RDMA_READ: return OP_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return OP_CMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return OP_FETCH_ADD;
	default: violation("opcode %d is posted", opcode);
	}
}

void nic_check_keys(const struct fake_nic *nic, const struct ibv_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!mr_find(nic, sge[i].lkey, sge[i].addr, sge[i].length))
			violation("%s: lkey %#x is not of this NIC, or not of this memory",
				  nic->nic->name, sge[i].lkey);
}

static void wqe_fill(const struct fake_qp *q, struct wqe *w, const struct ibv_send_wr *wr)
{
	*w = (struct wqe){.wr_id = wr->wr_id,
			  .op = op_of(wr->opcode),
			  .flags = (uint8_t)wr->send_flags,
			  .num_sge = (uint32_t)wr->num_sge,
			  .imm = wr->imm_data,
			  .marker = !wr->num_sge && !is_self_connected(q),
			  .first = q->all};
	for (uint32_t i = 0; i < w->num_sge; i++) {
		w->sge[i] = wr->sg_list[i];
		w->length += w->sge[i].length;
	}
	if (is_atomic(w->op)) {
		w->remote = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
	} else {
		w->remote = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
	w->packets = w->length ? (w->length + q->mtu - 1) / q->mtu : 1;
}

uint32_t nic_send_room(const struct fake_qp *q)
{
	return q->init.cap.max_send_wr - (uint32_t)(q->sq_posted - q->sq_done);
}

int nic_post_send(struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct wqe *w = wqe_at(q, q->sq_posted);

	if (q->state != IBV_QPS_RTS && q->state != IBV_QPS_ERR)
		return EINVAL;
	if (q->sq_posted - q->sq_done == q->init.cap.max_send_wr)
		return ENOMEM;
	wqe_fill(q, w, wr);
	if (q->state == IBV_QPS_RTS)
		nic_check_keys(q->nic, w->sge, w->num_sge);
	q->all += w->packets;
	q->sq_posted++;
	if (q->state == IBV_QPS_ERR)
		event_at(now + rnd_below(5 * NS_US), flush_later, q, q->life);
	else
		tx_soon(q);
	return 0;
}

int nic_post_recv(struct fake_qp *q, const struct ibv_recv_wr *wr)
{
	struct rqe *r = &q->rq[q->rq_posted % q->init.cap.max_recv_wr];

	if (q->state == IBV_QPS_RESET)
		return EINVAL;
	if (q->rq_posted - q->rq_done == q->init.cap.max_recv_wr)
		return ENOMEM;
	r->wr_id = wr->wr_id;
	r->num_sge = (uint32_t)wr->num_sge;
	for (uint32_t i = 0; i < r->num_sge; i++)
		r->sge[i] = wr->sg_list[i];
	nic_check_keys(q->nic, r->sge, r->num_sge);
	q->rq_posted++;
	if (q->state == IBV_QPS_ERR && !q->nic->is_rxe)
		event_at(now + LEAK_NS, flush_receives_later, q, q->life);
	return 0;
}

/* RESET of a soft-RoCE QP that has traffic may cost the NIC (doc/soft-roce.md). It is the program's
 * if the program asks for it, as without us. */
static void check_reset(const struct fake_qp *q)
{
	if (q->nic->is_rxe && (q->state == IBV_QPS_RTR || q->state == IBV_QPS_RTS) &&
	    !prog_resets(&q->qp))
		violation("%s: RESET of QP %#x, which is in use, without ERR", q->nic->nic->name,
			  q->qp.qp_num);
}

/* RESET ends everything. mlx5 removes the QP's completions from its CQs (V8). */
static void enter_reset(struct fake_qp *q)
{
	struct fake_cq *cqs[] = {(struct fake_cq *)q->qp.send_cq, (struct fake_cq *)q->qp.recv_cq};

	srq_reset(q);
	q->life++;
	q->state = IBV_QPS_RESET;
	q->sq_posted = q->sq_done = q->sq_sending = q->sq_packet = 0;
	q->rq_posted = q->rq_done = 0;
	q->leaks = q->tx_set = q->rto_set = false;
	for (int i = 0; i < 2; i++) {
		if (q->nic->is_rxe)
			entries_settle(cqs[i], q);
		else
			nic_forget_entries(cqs[i], q);
	}
}

static void enter_rtr(struct fake_qp *q)
{
	q->state = IBV_QPS_RTR;
	q->rx_psn = q->attr.rq_psn;
	q->rx = q->atomics = 0;
	q->nak_sent = false;
	q->mtu = 128u << q->attr.path_mtu;
}

static void enter_rts(struct fake_qp *q)
{
	q->state = IBV_QPS_RTS;
	q->tx_psn = q->attr.sq_psn;
	q->una = q->next = q->next_max = q->all = 0;
	q->retries = q->attr.retry_cnt;
	q->rnr_until = 0;
	q->rnrs = 0;
}

static void attr_take(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
}

int nic_modify_qp(struct fake_qp *q, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : q->state;

	if (to == IBV_QPS_ERR) {
		if (q->state == IBV_QPS_RESET) /* the kernel knows no such step */
			return EINVAL;
		enter_err(q);
		return 0;
	}
	if (to == IBV_QPS_RESET) {
		check_reset(q);
		enter_reset(q);
		return 0;
	}
	if (to != q->state && to != q->state + 1)
		return EINVAL;
	attr_take(&q->attr, attr, mask);
	if (to == q->state)
		return 0;
	if (to == IBV_QPS_RTR)
		enter_rtr(q);
	else if (to == IBV_QPS_RTS)
		enter_rts(q);
	else
		q->state = to;
	return 0;
}

struct fake_qp *nic_create_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct fake_qp *q = calloc(1, sizeof(*q));

	q->nic = nic_of(pd->context);
	q->init = *attr;
	q->srq = (struct fake_srq *)attr->srq;
	q->sq = calloc(attr->cap.max_send_wr + 1, sizeof(*q->sq));
	q->rq = calloc(attr->cap.max_recv_wr + 1, sizeof(*q->rq));
	q->qp = (struct ibv_qp){.context = pd->context,
				.pd = pd,
				.send_cq = attr->send_cq,
				.recv_cq = attr->recv_cq,
				.srq = attr->srq,
				.qp_num = next_qpn++,
				.qp_type = attr->qp_type};
	q->next_qp = all_qps;
	all_qps = q;
	return q;
}

/* Its memory stays, for events and completions that name it. Soft-RoCE leaves its completions in
 * the CQ; those of the program it must not see. */
void nic_destroy_qp(struct fake_qp *q)
{
	struct fake_qp **p = &all_qps;

	while (*p != q)
		p = &(*p)->next_qp;
	*p = q->next_qp;
	q->next_qp = destroyed_qps;
	destroyed_qps = q;
	enter_reset(q);
}

void nic_setup(void)
{
	next_qpn = 0x11 + rnd_below(1000);
	retry_ns = (uint32_t)rnd_range(200, 2000) * NS_US;
	ack_delay_ppm = one_in(2) ? rnd_below(900000) : 0;
	cqe_lag_ns = one_in(3) ? 0 : rnd_below(one_in(2) ? 2000 : 100 * NS_US);
}
