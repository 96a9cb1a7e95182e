/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/psn.h"
#include "tests/unit/world.h"

#define BAD(w, ...)                           \
	do {                                  \
		(w)->bad++;                   \
		fprintf(stderr, __VA_ARGS__); \
		fputc('\n', stderr);          \
	} while (0)

/* Rails differ: a WRITE cut on one resumes in other pieces on the next. */
static const uint32_t mtu[W_RAILS] = {1024, 512, 2048};

static void drain(struct world *w, int h);

uint32_t w_random(struct world *w, uint32_t n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return (uint32_t)(w->rng >> 33) % n;
}

static void trace(struct world *w, int h, const char *what, int a, uint64_t b)
{
	char line[256];

	if (!w->trace)
		return;
	shift_conn_dump(w->h[h].c, line, sizeof(line));
	fprintf(stderr, "%9.3f ms host %d %-10s %d %llu | %s\n", (double)w->now / 1e6, h, what, a,
		(unsigned long long)b, line);
}

enum shift_state w_state(const struct world *w, int h)
{
	struct shift_conn_view v;

	shift_conn_view(w->h[h].c, &v);
	return v.state;
}

/* --- the NIC --------------------------------------------------------------------------------- */

static void cq_push(struct world *w, int h, struct shift_cqe cqe)
{
	struct w_host *x = &w->h[h];

	if (x->cq_head - x->cq_tail == W_CQES) {
		BAD(w, "host %d: CQ overrun", h);
		return;
	}
	x->cq[x->cq_head++ % W_CQES] = cqe;
}

static void send_cqe(struct world *w, int h, int rail, const struct w_wqe *q, uint32_t status)
{
	cq_push(w, h,
		(struct shift_cqe){.wr_id = q->id,
				   .epoch = w->h[h].qp[rail].epoch,
				   .rail = (uint8_t)rail,
				   .status = status,
				   .vendor_err = status ? 0x81 : 0});
}

static void qp_fail(struct world *w, int h, int rail, uint32_t first)
{
	struct w_qp *q = &w->h[h].qp[rail];

	if (!q->up || q->err)
		return;
	q->err = true;
	for (; q->tail != q->head; q->tail++) {
		send_cqe(w, h, rail, &q->sq[q->tail % (4 * W_SQ)], first);
		first = SHIFT_WC_WR_FLUSH_ERR;
	}
}

static bool two_sided(uint8_t op)
{
	return op == SHIFT_OP_SEND || op == SHIFT_OP_SEND_IMM || op == SHIFT_OP_WRITE_IMM;
}

static void executed_whole(struct world *w, int h, int rail, const struct w_wqe *q)
{
	struct w_host *from = &w->h[h], *to = &w->h[!h];
	struct w_qp *p = &to->qp[rail];

	if (q->opcode == SHIFT_OP_READ)
		return;
	if (q->opcode == SHIFT_OP_WRITE)
		return;
	if (from->times[q->id]++ && !w->at_least_once_ok)
		BAD(w, "host %d: WR %llu executed twice", h, (unsigned long long)q->id);
	if (!two_sided(q->opcode))
		return;
	if (!w->at_least_once_ok && from->two_order[from->executed_two] != q->id)
		BAD(w, "host %d: two-sided WR %llu out of order", h, (unsigned long long)q->id);
	from->executed_two++;
	cq_push(w, !h,
		(struct shift_cqe){.wr_id = p->recv_id[p->recv_tail++ % (4 * W_RQ)],
				   .epoch = p->epoch,
				   .rail = (uint8_t)rail,
				   .is_recv = true});
}

static void place(struct world *w, int h, int rail, const struct w_wqe *q)
{
	struct w_host *from = &w->h[h];
	uint32_t at = q->offset + q->executed * mtu[rail];
	uint32_t left = from->length[q->id] - at;

	if (from->placed[q->id] != at && !w->at_least_once_ok)
		BAD(w, "host %d: WRITE %llu byte %u placed again (had %u)", h,
		    (unsigned long long)q->id, at, from->placed[q->id]);
	from->placed[q->id] = at + (left < mtu[rail] ? left : mtu[rail]);
}

/* Rule 19: after an error or a close a host executes nothing any more, nor are its WRs executed. */
static void after_the_end(struct world *w, int h, const struct w_wqe *q)
{
	const struct w_host *from = &w->h[h], *to = &w->h[!h];

	if (from->errors || from->closed || to->errors || to->closed)
		BAD(w, "host %d: WR %llu executed after the end", h, (unsigned long long)q->id);
}

bool w_packet(struct world *w, int h, int rail)
{
	struct w_qp *q = &w->h[h].qp[rail], *p = &w->h[!h].qp[rail];
	struct w_wqe *e = NULL;

	if (!q->up || q->err || !p->up || p->err || w->data_cut[rail])
		return false;
	for (uint32_t i = q->tail; i != q->head; i++) {
		e = &q->sq[i % (4 * W_SQ)];
		if (e->executed < e->packets)
			break;
		e = NULL;
	}
	if (!e || p->rx_psn != shift_psn_add(e->first_psn, e->executed))
		return false;
	if (two_sided(e->opcode) && e->executed + 1 == e->packets && p->recv_head == p->recv_tail)
		return false; /* RNR */
	if (w->h[0].errors || w->h[1].closed || w->h[0].closed || w->h[1].errors)
		after_the_end(w, h, e);
	if (e->opcode == SHIFT_OP_WRITE)
		place(w, h, rail, e);
	e->executed += e->opcode == SHIFT_OP_READ ? e->packets : 1;
	p->rx_psn = shift_psn_add(e->first_psn, e->executed);
	if (e->executed == e->packets)
		executed_whole(w, h, rail, e);
	return true;
}

bool w_ack(struct world *w, int h, int rail)
{
	struct w_qp *q = &w->h[h].qp[rail];
	struct w_wqe *e = &q->sq[q->tail % (4 * W_SQ)];

	if (!q->up || q->err || q->tail == q->head || e->executed < e->packets ||
	    w->ack_cut[rail] || w->ack_cut_from[!h])
		return false;
	q->tail++;
	if (e->opcode == SHIFT_OP_READ)
		w->h[h].placed[e->id] = e->length;
	if (e->signaled)
		send_cqe(w, h, rail, e, SHIFT_WC_SUCCESS);
	return true;
}

bool w_break(struct world *w, int h, int rail)
{
	struct w_qp *q = &w->h[h].qp[rail];

	if (!q->up || q->err || q->tail == q->head)
		return false;
	qp_fail(w, h, rail, SHIFT_WC_RETRY_EXC_ERR);
	drain(w, h);
	return true;
}

static void nic_post(struct world *w, int h, int rail, const struct shift_wr *wr, bool signaled)
{
	struct w_host *x = &w->h[h];
	struct w_qp *q = &x->qp[rail];
	struct w_wqe *e = &q->sq[q->head % (4 * W_SQ)];
	uint32_t len = 0;

	if (q->head - q->freed >= W_SQ)
		BAD(w, "host %d rail %d: SQ overrun", h, rail);
	for (uint32_t i = 0; i < wr->num_sge; i++)
		len += wr->sge[i].length;
	*e = (struct w_wqe){.id = wr->wr_id, .length = len, .opcode = wr->opcode};
	e->offset = (uint32_t)(wr->remote_addr - (wr->wr_id << 24));
	e->packets = shift_psn_packets(wr->opcode, len, mtu[rail]);
	e->first_psn = q->tx_psn;
	e->signaled = signaled;
	q->tx_psn = shift_psn_add(q->tx_psn, e->packets);
	q->head++;
	if (q->err) {
		send_cqe(w, h, rail, e, SHIFT_WC_WR_FLUSH_ERR);
		q->tail++;
	}
}

static void nic_recv(struct world *w, int h, int rail, uint64_t id)
{
	struct w_qp *q = &w->h[h].qp[rail];

	if (q->recv_head - q->recv_tail >= W_RQ)
		BAD(w, "host %d rail %d: RQ overrun", h, rail);
	q->recv_id[q->recv_head++ % (4 * W_RQ)] = id;
}

/* --- the program ----------------------------------------------------------------------------- */

static void program_wc(struct world *w, int h, uint64_t id, uint32_t status, uint32_t vendor,
		       bool is_recv)
{
	struct w_host *x = &w->h[h];

	if (status != SHIFT_WC_SUCCESS && !x->errors++) {
		x->first_error = status;
		x->first_vendor = vendor;
	}
	if (is_recv) {
		if (id != x->recv_completed)
			BAD(w, "host %d: receive %llu completed, expected %llu", h,
			    (unsigned long long)id, (unsigned long long)x->recv_completed);
		x->recv_completed = id + 1;
		return;
	}
	if (status == SHIFT_WC_SUCCESS && x->send_failed)
		BAD(w, "host %d: success after an error", h);
	/* Unsignaled WRs leave silently, up to the first error; from there on all are reported. */
	while (!x->send_failed && x->completed < id && !x->signaled[x->completed])
		x->completed++;
	x->send_failed = x->send_failed || status != SHIFT_WC_SUCCESS;
	if (id != x->completed || (status == SHIFT_WC_SUCCESS && !x->signaled[id]))
		BAD(w, "host %d: completion of %llu (status %u), expected %llu", h,
		    (unsigned long long)id, status, (unsigned long long)x->completed);
	x->completed = id + 1;
	if (status == SHIFT_WC_SUCCESS && x->placed[id] != x->length[id] &&
	    (x->opcode[id] == SHIFT_OP_WRITE || x->opcode[id] == SHIFT_OP_READ))
		BAD(w, "host %d: %llu completed without its data", h, (unsigned long long)id);
}

bool w_post_flags(struct world *w, int h, enum shift_opcode op, uint32_t len, unsigned int flags)
{
	bool signaled = flags & SHIFT_F_SIGNALED;
	struct w_host *x = &w->h[h];
	struct shift_sge sge = {.addr = 1, .length = len};
	struct shift_wr wr = {.wr_id = x->posted, .opcode = (uint8_t)op, .sge = &sge, .num_sge = 1};
	struct shift_conn_view v;
	int rail, err;

	if (x->posted >= W_WRS - 1)
		return false;
	shift_conn_view(x->c, &v);
	if (v.target_r < W_RAILS && !v.holding && v.state <= SHIFT_ST_PREPARE &&
	    x->qp[v.r].head - x->qp[v.r].freed >= W_SQ)
		return false; /* as the provider would */
	wr.flags = (uint8_t)flags;
	wr.remote_addr = wr.wr_id << 24;
	x->opcode[wr.wr_id] = (uint8_t)op;
	x->signaled[wr.wr_id] = signaled;
	x->length[wr.wr_id] = len;
	err = shift_conn_post_send(x->c, &wr, &rail);
	if (err < 0)
		return false;
	if (two_sided((uint8_t)op))
		x->two_order[x->twos++] = wr.wr_id;
	x->posted++;
	if (rail != SHIFT_HELD)
		nic_post(w, h, rail, &wr, signaled || err == 1);
	drain(w, h);
	return true;
}

bool w_post(struct world *w, int h, enum shift_opcode op, uint32_t len, bool signaled)
{
	return w_post_flags(w, h, op, len, signaled ? SHIFT_F_SIGNALED : 0);
}

bool w_recv(struct world *w, int h)
{
	struct w_host *x = &w->h[h];
	struct shift_recv_wr wr = {.wr_id = x->recv_posted};
	int rail;

	if (shift_conn_post_recv(x->c, &wr, &rail))
		return false;
	x->recv_posted++;
	if (rail != SHIFT_HELD)
		nic_recv(w, h, rail, wr.wr_id);
	drain(w, h);
	return true;
}

/* --- actions --------------------------------------------------------------------------------- */

static void repost(struct world *w, int h, const struct shift_action *a)
{
	struct shift_sge sge[4];
	struct shift_wr wr;
	uint64_t i = a->first;

	if (w->h[h].qp[a->rail].epoch != a->epoch)
		BAD(w, "host %d: repost to the wrong epoch", h);
	while (shift_conn_repost(w->h[h].c, &i, a->first + a->count, &wr, sge))
		nic_post(w, h, a->rail, &wr, wr.flags & SHIFT_F_SIGNALED);
}

static void push_msg(struct world *w, int h, const struct shift_action *a)
{
	if (w->ctl_cut[a->rail] || w->msgs == W_MSGS)
		return;
	w->msg[w->msgs++] = (struct w_msg){.m = a->msg, .rail = a->rail, .to = (uint8_t)!h};
}

static void perform(struct world *w, int h, const struct shift_action *a)
{
	struct w_host *x = &w->h[h];
	struct shift_recv_wr r;
	struct shift_wc wc;

	trace(w, h, shift_action_name(a->type), a->rail, a->epoch);
	switch ((enum shift_action_type)a->type) {
	case SHIFT_ACT_FENCE:
	case SHIFT_ACT_ARM:
	case SHIFT_ACT_QUERY_PSN: x->op[x->ops++ % W_OPS] = *a; return;
	case SHIFT_ACT_POST_RECV:
		for (uint64_t i = a->first; i < a->first + a->count; i++) {
			shift_conn_recv_at(x->c, i, &r);
			nic_recv(w, h, a->rail, r.wr_id);
		}
		return;
	case SHIFT_ACT_POST_SEND: repost(w, h, a); return;
	case SHIFT_ACT_SEND_MSG: push_msg(w, h, a); return;
	case SHIFT_ACT_COMPLETE:
		while (shift_conn_completion(x->c, &wc))
			program_wc(w, h, wc.wr_id, wc.status, wc.vendor_err, wc.is_recv);
		return;
	case SHIFT_ACT_QP_ERR: x->qp_err = true; return;
	case SHIFT_ACT_CLOSED: x->closed = true; return;
	case SHIFT_ACT_HOLD:
	case SHIFT_ACT_RELEASE:
	case SHIFT_ACT_REPORT:
	case SHIFT_ACT_COUNT: return;
	}
}

static void drain(struct world *w, int h)
{
	struct shift_action a;

	while (shift_conn_action(w->h[h].c, &a))
		perform(w, h, &a);
	if (shift_conn_stats(w->h[h].c)->overflow && !w->overflow_ok)
		BAD(w, "host %d: action queue overflow", h);
}

/* A provider takes a slot back when a completion of that or a later WR is polled. */
static void free_slots(struct w_qp *q, const struct shift_cqe *cqe)
{
	bool signaled = false;

	if (cqe->is_recv || cqe->status || cqe->epoch != q->epoch)
		return;
	while (q->freed != q->head && !signaled)
		signaled = q->sq[q->freed++ % (4 * W_SQ)].signaled;
}

bool w_cqe(struct world *w, int h)
{
	struct w_host *x = &w->h[h];
	struct shift_cqe cqe;
	struct shift_wc wc;

	if (x->cq_head == x->cq_tail)
		return false;
	cqe = x->cq[x->cq_tail++ % W_CQES];
	free_slots(&x->qp[cqe.rail], &cqe);
	if (shift_conn_cqe(x->c, &cqe, &wc, w->now)) {
		if (wc.wr_id != cqe.wr_id)
			BAD(w, "host %d: %llu arrived in the buffer of %llu", h,
			    (unsigned long long)wc.wr_id, (unsigned long long)cqe.wr_id);
		program_wc(w, h, wc.wr_id, cqe.status, cqe.vendor_err, cqe.is_recv);
	}
	trace(w, h, "CQE", cqe.rail, cqe.wr_id);
	drain(w, h);
	return true;
}

static void fence_op(struct world *w, int h, const struct shift_action *a)
{
	struct w_qp *q = &w->h[h].qp[a->rail];
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE,
				 .rail = a->rail,
				 .epoch = a->epoch,
				 .clean = !w->fence_hung[h],
				 .hung = w->fence_hung[h],
				 .fence = w->fence_unsure[h] || w->fence_hung[h]};

	qp_fail(w, h, a->rail, SHIFT_WC_WR_FLUSH_ERR);
	q->err = true;
	if (!w->fence_hung[h])
		while (w_cqe(w, h))
			;
	ev.psn = w->fence_unsure[h] ? 0x123456 : shift_psn_add(q->rx_psn, (uint64_t)w->fence_bias);
	shift_conn_event(w->h[h].c, &ev, w->now);
}

static void arm_op(struct world *w, int h, const struct shift_action *a)
{
	struct w_qp *q = &w->h[h].qp[a->rail];
	struct shift_event ev = {.type = SHIFT_EV_ARM_DONE, .rail = a->rail, .epoch = a->epoch};

	if (q->up && !q->err && !w->at_least_once_ok)
		BAD(w, "host %d: rail %d armed without a fence", h, a->rail);
	if (w->arm_fails[a->rail])
		ev.type = SHIFT_EV_ARM_FAILED;
	memset(q, 0, sizeof(*q));
	q->up = !w->arm_fails[a->rail];
	q->epoch = a->epoch;
	q->tx_psn = a->tx_psn;
	q->rx_psn = a->rx_psn;
	shift_conn_event(w->h[h].c, &ev, w->now);
}

bool w_op(struct world *w, int h)
{
	struct w_host *x = &w->h[h];
	struct shift_action a = x->op[0];
	struct shift_event ev = {.type = SHIFT_EV_PSN, .rail = a.rail, .epoch = a.epoch};

	if (!x->ops || (a.type == SHIFT_ACT_FENCE && w->frozen_fence) ||
	    (a.type == SHIFT_ACT_ARM && w->frozen_arm))
		return false;
	memmove(&x->op[0], &x->op[1], --x->ops * sizeof(a));
	if (a.type == SHIFT_ACT_FENCE) {
		fence_op(w, h, &a);
	} else if (a.type == SHIFT_ACT_ARM) {
		arm_op(w, h, &a);
	} else {
		ev.psn = x->qp[a.rail].rx_psn;
		ev.serial = a.serial;
		shift_conn_event(x->c, &ev, w->now);
	}
	trace(w, h, "op done", a.rail, a.epoch);
	drain(w, h);
	return true;
}

bool w_msg(struct world *w, uint32_t i)
{
	struct w_msg m;
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m.m};
	uint8_t buf[256];
	struct shift_msg_writer wr;
	struct shift_msg_reader rd;

	if (i >= w->msgs)
		return false;
	m = w->msg[i];
	w->msg[i] = w->msg[--w->msgs];
	ev.rail = m.rail;
	/* Through the codec: it must admit all messages of the core. */
	shift_msg_begin(&wr, buf, sizeof(buf), m.m.src_nonce, m.m.dst_nonce);
	if (shift_msg_add(&wr, &m.m) ||
	    shift_msg_open(&rd, buf, shift_msg_end(&wr, NULL, NULL), NULL, NULL) != 1 ||
	    shift_msg_next(&rd, &m.m) != 1)
		BAD(w, "host %d: the codec refuses %s", !m.to, shift_msg_type_name(m.m.type));
	shift_conn_event(w->h[m.to].c, &ev, w->now);
	trace(w, m.to, shift_msg_type_name(m.m.type), m.rail, m.m.epoch);
	drain(w, m.to);
	return true;
}

void w_event(struct world *w, int h, enum shift_event_type type, int rail)
{
	struct shift_event ev = {.type = (uint8_t)type, .rail = (uint8_t)rail};

	shift_conn_event(w->h[h].c, &ev, w->now);
	trace(w, h, shift_event_name(type), rail, 0);
	drain(w, h);
}

void w_close(struct world *w, int h, enum shift_close how)
{
	struct shift_event ev = {.type = SHIFT_EV_CLOSE, .how = (uint8_t)how};

	shift_conn_event(w->h[h].c, &ev, w->now);
	drain(w, h);
}

void w_tick(struct world *w, int h)
{
	w_event(w, h, SHIFT_EV_TICK, 0);
}

static bool anything(struct world *w)
{
	bool did = false;

	for (int h = 0; h < 2; h++) {
		while (w_cqe(w, h) || w_op(w, h))
			did = true;
		for (int r = 0; r < W_RAILS; r++)
			while (w_packet(w, h, r) || w_ack(w, h, r))
				did = true;
	}
	while (w_msg(w, 0))
		did = true;
	return did;
}

void w_run(struct world *w, unsigned int n)
{
	uint64_t at[2];

	while (n--) {
		while (anything(w))
			;
		at[0] = shift_conn_deadline(w->h[0].c);
		at[1] = shift_conn_deadline(w->h[1].c);
		if (at[0] == UINT64_MAX && at[1] == UINT64_MAX)
			return;
		if (w->now < (at[0] < at[1] ? at[0] : at[1]))
			w->now = at[0] < at[1] ? at[0] : at[1];
		for (int h = 0; h < 2; h++)
			if (at[h] <= w->now)
				w_tick(w, h);
	}
	while (anything(w))
		;
}

static bool done(const struct world *w)
{
	struct shift_conn_view v;

	for (int h = 0; h < 2; h++) {
		shift_conn_view(w->h[h].c, &v);
		if (v.state != SHIFT_ST_ACTIVE || w->h[h].qp[v.r].head != w->h[h].qp[v.r].tail ||
		    w->h[h].cq_head != w->h[h].cq_tail || v.send_sent != v.send_head)
			return false;
	}
	return true;
}

bool w_settle(struct world *w, unsigned int n)
{
	while (n--) {
		w_run(w, 1);
		/* On a cut path its retries run out. */
		for (int h = 0; h < 2; h++)
			for (int r = 0; r < W_RAILS; r++)
				if (w->data_cut[r] || w->ack_cut[r] || w->ack_cut_from[!h] ||
				    w->h[!h].qp[r].err)
					w_break(w, h, r);
		if (done(w))
			return true;
	}
	return false;
}

/* The program brings its QP on rail 0 to RTS. */
static void program_arms(struct w_host *x)
{
	x->qp[0].up = true;
	x->qp[0].tx_psn = x->cfg.sq_psn;
	x->qp[0].rx_psn = x->cfg.rq_psn;
}

void w_init(struct world *w, const struct shift_conn_cfg *from, uint64_t seed)
{
	struct shift_conn_cfg cfg = {0};

	memset(w, 0, sizeof(*w));
	w->rng = seed * 0x9e3779b97f4a7c15u + 1;
	w->now = 1000000000;
	w->trace = getenv("WORLD_TRACE") != NULL;
	if (from)
		cfg = *from;
	else
		cfg = (struct shift_conn_cfg){.exactly_once = true, .confirmed = true};
	cfg.key[0] = 7;
	cfg.conn = 99;
	cfg.rails = cfg.rails ? cfg.rails : W_RAILS;
	cfg.sq_cap = W_SQ;
	cfg.rq_cap = W_RQ;
	for (int h = 0; h < 2; h++) {
		struct w_host *x = &w->h[h];

		cfg.side = (uint8_t)h;
		cfg.nonce = 100 + (uint64_t)h;
		cfg.peer_nonce = 100 + (uint64_t)!h;
		cfg.id = 10 + (uint32_t)h;
		cfg.peer_id = 10 + (uint32_t)!h;
		cfg.qpn = 20 + (uint32_t)h;
		cfg.dest_qpn = 20 + (uint32_t)!h;
		cfg.sq_psn = h ? 0xfffffe : 0x000010;
		cfg.rq_psn = h ? 0x000010 : 0xfffffe;
		for (int r = 0; r < W_RAILS; r++)
			cfg.mtu[r] = mtu[r];
		x->cfg = cfg;
		x->mem = aligned_alloc(64, shift_conn_size(&cfg));
		x->c = shift_conn_init(x->mem, shift_conn_size(&cfg), &cfg, w->now);
		program_arms(x);
	}
}

void w_next_life(struct world *w, int h, uint32_t id)
{
	struct w_host *x = &w->h[h], old;

	w_close(w, h, SHIFT_CLOSE_RESET);
	while (w_op(w, h))
		;
	old = *x;
	memset(x, 0, sizeof(*x));
	x->mem = old.mem;
	x->cfg = old.cfg;
	x->cfg.id = id;
	shift_conn_tombstone(old.c, w->now, &x->stone);
	shift_conn_past(old.c, w->now, &x->cfg.past);
	x->c = shift_conn_init(x->mem, shift_conn_size(&x->cfg), &x->cfg, w->now);
	program_arms(x);
}

bool w_meet(struct world *w, int h)
{
	const struct shift_conn_cfg *a = &w->h[h].cfg, *b = &w->h[!h].cfg;
	struct shift_end mine = {.qpn = a->qpn, .id = a->id, .nonce = a->nonce};
	struct shift_end theirs = {.qpn = b->qpn, .id = b->id, .nonce = b->nonce};
	struct shift_conn_peer p = {
		.key = {a->key[0], a->key[1]}, .nonce = b->nonce, .id = b->id, .rails = a->rails};

	p.conn = shift_conn_number(p.key, &mine, &theirs, &p.side);
	if (!shift_conn_meet(w->h[h].c, &p))
		return false;
	w_event(w, h, SHIFT_EV_RTS, 0);
	return true;
}

void w_init_ready(struct world *w, const struct shift_conn_cfg *cfg)
{
	w_init(w, cfg, 1);
	for (int i = 0; i < W_READY_RECVS; i++) {
		w_recv(w, 0);
		w_recv(w, 1);
	}
}

void w_free(struct world *w)
{
	free(w->h[0].mem);
	free(w->h[1].mem);
}
