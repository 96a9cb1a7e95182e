/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A host's process: does for the core what the library does (fence, arm, post, poll, messages,
 * timers, probes), and watches that the core never asks for anything that the rules forbid.
 */
#include <string.h>

#include "tests/sim/sim.h"

#define NO_SENDS UINT32_MAX /* refused: receives alone */
#define PROBE_NS (5 * NS_MS)
#define HANG_NS	 (10 * NS_MS) /* deadline of a fence whose NIC does not answer */

static bool silent(unsigned int h, unsigned int r)
{
	return W.rail[r].dead[h] || W.rail[r].hung[h];
}

/* --- what a state change may mean ------------------------------------------------------------ */

static bool peer_ended(const struct host *peer)
{
	return peer->died || peer->p.close_asked || peer->state == SHIFT_ST_GIVEUP ||
	       peer->state == SHIFT_ST_DEAD;
}

/* An atomic that was executed, or may have been, and did not complete. */
static bool atomic_is_open(unsigned int h)
{
	const struct prog *p = &W.host[h].p;
	uint32_t end = W.host[1 - h].unsure ? p->posted : p->nexec;

	for (uint32_t i = p->next_cqe; i < end; i++)
		if (is_atomic(p->wr[i].op))
			return true;
	return false;
}

static bool end_is_justified(unsigned int h, uint8_t reason)
{
	const struct host *me = &W.host[h], *peer = &W.host[1 - h];

	switch (reason) {
	case SHIFT_R_LOST_ATOMIC: return !me->cfg.lost_atomic_continue && atomic_is_open(h);
	case SHIFT_R_PROOF_FAILED: return peer->unsure;
	case SHIFT_R_GIVEUP_TIME: return W.gave_up_ok || peer_ended(peer);
	case SHIFT_R_PEER_FAILED: return peer_ended(peer);
	case SHIFT_R_PEER_CLOSED: return peer->p.close_asked;
	case SHIFT_R_PEER_DIED:
	case SHIFT_R_PEER_UNKNOWN: return peer->died;
	case SHIFT_R_CLOSE: return me->p.close_asked;
	case SHIFT_R_PROGRAM_ERROR: return me->p.bad || W.rnr_retry != 7;
	default: return me->state == SHIFT_ST_GIVEUP || me->state == SHIFT_ST_CLOSING;
	}
}

static void report(unsigned int h, const struct shift_action *a)
{
	struct host *me = &W.host[h];

	tr(h, tr_state, a->from, a->to, a->reason, a->rail);
	if ((a->to == SHIFT_ST_GIVEUP || a->to == SHIFT_ST_DEAD) && !end_is_justified(h, a->reason))
		violation("%c: the connection ends (%s -> %s) for no good reason: %s", 'A' + h,
			  shift_state_name(a->from), shift_state_name(a->to),
			  shift_reason_name(a->reason));
	/* Committed without a proof: all that has been posted may be executed twice. */
	if (a->to == SHIFT_ST_ACTIVE && a->reason == SHIFT_R_COMMIT && W.host[1 - h].said_unsure)
		W.host[1 - h].doubtful = me->p.posted;
	if (a->to == SHIFT_ST_GIVEUP || a->to == SHIFT_ST_CLOSING)
		me->reason = a->reason;
	me->state = a->to;
	me->change = a->reason;
	fault_on_state(h, a->to, a->rail);
}

/* --- actions --------------------------------------------------------------------------------- */

static void act_fence(unsigned int h, const struct shift_action *a)
{
	struct fence_op *f = &W.host[h].fence[a->rail];

	f->epoch = a->epoch;
	if (f->step != FS_IDLE)
		return; /* the worker is at it; it will answer for the newer epoch */
	f->step = FS_ERR;
	ev_add(W.now + rnd_range(&W.g_host, 1, 30) * NS_US, EV_FENCE, h, a->rail, 0);
}

static void act_arm(unsigned int h, const struct shift_action *a)
{
	struct arm_op *m = &W.host[h].arm[a->rail];
	const struct qp *q = &W.qp[h][a->rail];

	if (q->state == QP_RTS && !silent(h, a->rail))
		violation("%c: rail %u is armed for epoch %u without a fence", 'A' + h, a->rail,
			  a->epoch);
	m->epoch = a->epoch;
	m->tx_psn = a->tx_psn;
	m->rx_psn = a->rx_psn;
	if (m->busy)
		return;
	m->busy = true;
	ev_add(W.now + rnd_range(&W.g_host, 20, 400) * NS_US, EV_ARM, h, a->rail, 0);
}

/* count: the newest sends, which the NIC did not take. */
static void post_failed(unsigned int h, unsigned int r, uint32_t epoch, uint32_t count)
{
	struct shift_event ev = {
		.type = SHIFT_EV_POST_FAILED,
		.rail = (uint8_t)r,
		.epoch = epoch,
		.count = count,
	};

	host_give(h, &ev);
}

static void act_post_send(unsigned int h, const struct shift_action *a, uint32_t *refused)
{
	struct qp *q = &W.qp[h][a->rail];
	uint64_t i = a->first, end = a->first + a->count, prev = 0;
	struct shift_sge sge[SGES];
	struct shift_wr wr;
	bool any = false;

	if (q->epoch != a->epoch)
		violation("%c: repost to rail %u for epoch %u, its QP is of %u", 'A' + h, a->rail,
			  a->epoch, q->epoch);
	while (!W.failed && shift_conn_repost(W.host[h].c, &i, end, &wr, sge)) {
		if (any && i <= prev)
			violation("%c: reposts out of order", 'A' + h);
		any = true;
		prev = i;
		if (wr.wr_id != i - 1 || i > end) {
			violation("%c: repost of log index %lu has wr_id %lu", 'A' + h,
				  (unsigned long)(i - 1), (unsigned long)wr.wr_id);
			return;
		}
		tr(h, "repost WR %lu opcode %lu on rail %lu", i - 1, wr.opcode, a->rail, 0);
		if (silent(h, a->rail) || q->state == QP_RESET) {
			++*refused; /* and so are those after it */
			continue;
		}
		qp_post_send(q, &wr, (uint32_t)(i - 1));
	}
}

static void act_post_recv(unsigned int h, const struct shift_action *a, uint32_t *refused)
{
	struct qp *q = &W.qp[h][a->rail];
	uint64_t i;

	tr(h, "post receives %lu + %lu on rail %lu epoch %lu", a->first, a->count, a->rail,
	   a->epoch);
	for (i = a->first; i < a->first + a->count && !W.failed; i++) {
		struct shift_recv_wr wr;

		if (silent(h, a->rail) || q->state == QP_RESET || q->epoch != a->epoch) {
			*refused = NO_SENDS;
			return;
		}
		shift_conn_recv_at(W.host[h].c, i, &wr);
		qp_post_recv(q, &wr);
	}
}

/* Rule 2: the content of SWITCH(e) never changes; rule 7: receives are posted before it is sent. */
static void check_switch(unsigned int h, const struct shift_action *a)
{
	struct host *me = &W.host[h];
	const struct shift_msg *m = &a->msg, *f = &me->frozen;
	const struct qp *q = &W.qp[h][m->rail];

	if (m->type != SHIFT_MSG_SWITCH || !shift_switch_proves(m))
		return;
	if (f->epoch == m->epoch &&
	    (f->rail != m->rail || f->rep_epoch != m->rep_epoch || f->rep_psn != m->rep_psn ||
	     f->recv_cum != m->recv_cum || f->fence != m->fence))
		violation("%c: SWITCH of epoch %u changes its mind", 'A' + h, m->epoch);
	me->frozen = *m;
	if (q->epoch == m->epoch && !me->cfg.srq && q->rq_pi < m->recv_avail &&
	    !silent(h, m->rail) && !me->p.closed)
		violation("%c: SWITCH of epoch %u leaves before its receives are posted", 'A' + h,
			  m->epoch);
}

/* Hysteresis: a rail whose probes were missed a moment ago is no rail to go back to. */
static void check_prepare(unsigned int h, const struct shift_action *a)
{
	struct host *me = &W.host[h];

	if (a->msg.type != SHIFT_MSG_PREPARE || me->change != SHIFT_R_FAIL_BACK)
		return;
	me->change = SHIFT_R_COUNT; /* retransmissions decide nothing */
	if (me->missed_at[a->msg.rail] && W.now < me->missed_at[a->msg.rail] + me->cfg.hold_down_ns)
		violation("%c: fail-back to rail %u within its hold-down", 'A' + h, a->msg.rail);
}

static void act_send_msg(unsigned int h, const struct shift_action *a)
{
	uint8_t buf[SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX];
	struct shift_msg_writer w;
	size_t len;

	tr(h, tr_send, a->msg.type, a->msg.epoch, a->msg.heard, a->rail);
	check_switch(h, a);
	if (a->msg.type == SHIFT_MSG_SWITCH && shift_switch_proves(&a->msg))
		W.host[h].said_unsure = a->msg.fence == SHIFT_FENCE_UNSURE;
	check_prepare(h, a);
	shift_msg_begin(&w, buf, sizeof(buf), a->msg.src_nonce, a->msg.dst_nonce);
	if (shift_msg_add(&w, &a->msg)) {
		violation("%c: the core made a message that the codec refuses, type %u", 'A' + h,
			  a->msg.type);
		return;
	}
	len = shift_msg_end(&w, shift_msg_siphash, W.host[h].cfg.key);
	net_send_msg(h, a->rail, buf, (uint32_t)len);
}

static void act_complete(unsigned int h)
{
	struct shift_wc wc;

	while (!W.failed && shift_conn_completion(W.host[h].c, &wc))
		prog_wc(h, &wc, NULL);
}

static void act_closed(unsigned int h)
{
	struct shift_tombstone t;
	unsigned int r;

	for (r = 0; r < W.rails; r++)
		if (W.qp[h][r].state == QP_RTS && !silent(h, r) && !W.host[h].fence[r].owed)
			violation("%c: closed, and the QP of rail %u is not fenced", 'A' + h, r);
	W.host[h].p.closed = true;
	shift_conn_tombstone(W.host[h].c, W.now, &t);
	if (!t.valid)
		violation("%c: closed without a tombstone", 'A' + h);
	for (r = 0; r < W.rails; r++)
		if (!silent(h, r))
			qp_reset(&W.qp[h][r]);
}

static void act(unsigned int h, const struct shift_action *a, uint32_t *refused)
{
	if (a->rail >= W.rails) {
		violation("%c: action %u for rail %u", 'A' + h, a->type, a->rail);
		return;
	}
	switch ((enum shift_action_type)a->type) {
	case SHIFT_ACT_FENCE: act_fence(h, a); break;
	case SHIFT_ACT_ARM: act_arm(h, a); break;
	case SHIFT_ACT_POST_RECV: act_post_recv(h, a, refused); break;
	case SHIFT_ACT_POST_SEND: act_post_send(h, a, refused); break;
	case SHIFT_ACT_SEND_MSG: act_send_msg(h, a); break;
	case SHIFT_ACT_COMPLETE: act_complete(h); break;
	case SHIFT_ACT_HOLD:
	case SHIFT_ACT_RELEASE: break; /* single-threaded: every post asks */
	case SHIFT_ACT_QP_ERR: W.host[h].p.qp_err = true; break;
	case SHIFT_ACT_QUERY_PSN:
		ev_add(W.now + rnd_range(&W.g_host, 20, 200) * NS_US, EV_PSNQ, h, a->rail,
		       a->serial);
		break;
	case SHIFT_ACT_CLOSED: act_closed(h); break;
	case SHIFT_ACT_REPORT: report(h, a); break;
	case SHIFT_ACT_COUNT: break;
	}
}

static void rearm_tick(unsigned int h)
{
	struct host *me = &W.host[h];
	uint64_t d = shift_conn_deadline(me->c);

	if (d >= me->tick_at)
		return;
	me->tick_at = d > W.now ? d : W.now + 1000;
	ev_add(me->tick_at, EV_TICK, h, 0, 0);
}

/* Carry out the actions of the core; to be called after every call into it. */
static void drain(unsigned int h)
{
	struct shift_action a;
	uint32_t refused = 0;
	uint8_t rail = 0;
	uint32_t epoch = 0;

	W.core_events++;
	while (!W.failed && shift_conn_action(W.host[h].c, &a)) {
		uint32_t no = 0;

		act(h, &a, &no);
		if (no) {
			refused = refused && refused != NO_SENDS ? refused : no;
			rail = a.rail;
			epoch = a.epoch;
		}
	}
	rearm_tick(h);
	if (refused && !W.failed)
		post_failed(h, rail, epoch, refused == NO_SENDS ? 0 : refused);
}

void host_give(unsigned int h, const struct shift_event *ev)
{
	if (W.host[h].died || W.failed)
		return;
	shift_conn_event(W.host[h].c, ev, W.now);
	drain(h);
}

/* --- completions
 * ---------------------------------------------------------------------------------- */

void host_poll_soon(unsigned int h, uint64_t at)
{
	struct host *me = &W.host[h];

	at += rnd_below(&W.g_host, 3000);
	if (at >= me->poll_at || me->died)
		return;
	me->poll_at = at;
	ev_add(at, EV_POLL, h, 0, 0);
}

/* Feed the completions in the CQ of one rail to the core; returns whether some are left. */
static bool feed(unsigned int h, struct qp *q, bool all, uint32_t budget)
{
	struct cqe c;
	uint8_t state;

	while (budget-- && !W.failed && qp_poll(q, &c, all)) {
		struct shift_cqe sc = {
			.wr_id = c.wr_id,
			.epoch = c.epoch,
			.status = c.status,
			.byte_len = c.byte_len,
			.rail = q->r,
			.is_recv = c.is_recv,
		};
		struct shift_wc wc = {
			.status = c.status,
			.byte_len = c.byte_len,
			.is_recv = c.is_recv,
		};
		bool deliver;

		state = W.host[h].state;
		deliver = shift_conn_cqe(W.host[h].c, &sc, &wc, W.now);

		if (deliver)
			prog_wc(h, &wc, &c);
		drain(h);
		/* Rule 26: completions of an earlier arming of the twin change nothing. */
		if (c.epoch < q->epoch && q->state == QP_RTS && !W.host[h].unsure &&
		    (deliver || W.host[h].state != state))
			violation("%c: a completion of epoch %u is acted upon, rail %u is of %u",
				  'A' + h, c.epoch, q->r, q->epoch);
	}
	return q->cq_ci != q->cq_pi;
}

static void poll(unsigned int h)
{
	struct host *me = &W.host[h];
	unsigned int i, first = rnd_below(&W.g_host, W.rails);
	uint64_t next = UINT64_MAX;

	me->poll_at = UINT64_MAX;
	for (i = 0; i < W.rails; i++) {
		struct qp *q = &W.qp[h][(first + i) % W.rails];

		if (feed(h, q, false, 16) && !nic_dead(h, q->r)) {
			uint64_t at = q->cq[q->cq_ci % CQ_MAX].visible_at;

			next = at < next ? at : next;
		}
	}
	if (next != UINT64_MAX)
		host_poll_soon(h, next);
}

/* --- fence and arm
 * ----------------------------------------------------------------------------------- */

static void fence_done(unsigned int h, unsigned int r, bool hung)
{
	struct host *me = &W.host[h];
	struct qp *q = &W.qp[h][r];
	struct shift_event ev = {
		.type = SHIFT_EV_FENCE_DONE,
		.rail = (uint8_t)r,
		.epoch = me->fence[r].epoch,
		.fence = SHIFT_FENCE_SURE,
		.hung = hung,
	};

	me->fence[r].step = FS_IDLE;
	if (hung || me->flavour == NIC_IRDMA) {
		ev.fence = SHIFT_FENCE_UNSURE;
		me->unsure = true;
	}
	me->fence[r].owed = hung;
	if (hung) /* only its control path hangs: its CQ can be read */
		feed(h, q, false, CQ_MAX);
	if (!hung) {
		ev.psn = qp_rq_psn(q);
		feed(h, q, true, CQ_MAX); /* rq_psn moves before the CQE */
		ev.clean = r || rnd_below(&W.g_host, 4);
		if (!ev.clean)
			ev_add(W.now + rnd_range(&W.g_host, 1, 30) * NS_MS, EV_CLEAN, h, r,
			       ev.epoch);
	}
	tr(h, "fence of rail %lu epoch %lu done: %lu (0 sure), rq_psn %lx", r, ev.epoch, ev.fence,
	   ev.psn);
	host_give(h, &ev);
}

static void fence_step(unsigned int h, unsigned int r)
{
	struct fence_op *f = &W.host[h].fence[r];
	struct qp *q = &W.qp[h][r];
	bool first = f->step == FS_ERR;

	if (f->step == FS_IDLE)
		return;
	if (W.host[h].arm[r].busy) { /* one worker per rail, one thing after the other */
		ev_add(W.now + 10 * NS_US, EV_FENCE, h, r, 0);
		return;
	}
	if (silent(h, r)) {
		if (f->step == FS_BARRIER && q->drained_at == UINT64_MAX) {
			fence_done(h, r, true);
			return;
		}
		f->step = FS_BARRIER;
		q->drained_at = UINT64_MAX; /* marks the deadline as running */
		ev_add(W.now + HANG_NS, EV_FENCE, h, r, 0);
		return;
	}
	if (first || q->drained_at == UINT64_MAX) {
		f->step = FS_BARRIER;
		q->drained_at = W.now;
		qp_modify_err(q);
		feed(h, q, false, CQ_MAX);
		ev_add(W.now + rnd_range(&W.g_host, 30, 300) * NS_US, EV_FENCE, h, r, 0);
		return;
	}
	if (W.host[h].flavour == NIC_RXE) {
		qp_reset(q);
	} else if (W.now <= q->drained_at) {
		ev_add(q->drained_at + 1, EV_FENCE, h, r, 0);
		return;
	}
	fence_done(h, r, false);
}

/* The control path of a NIC answers again: the worker that hung in a fence comes back. */
void host_unhang(unsigned int h, unsigned int r)
{
	struct fence_op *f = &W.host[h].fence[r];

	W.rail[r].hung[h] = false;
	if (!f->owed || f->step != FS_IDLE || W.host[h].died || nic_dead(h, r))
		return;
	f->step = FS_ERR;
	ev_add(W.now + NS_MS, EV_FENCE, h, r, 0);
}

/* CQEs of a NIC that answered no fence, while they still count. */
static void feed_hung(unsigned int h)
{
	unsigned int r;

	for (r = 0; r < W.rails; r++)
		if (W.host[h].fence[r].owed)
			feed(h, &W.qp[h][r], false, CQ_MAX);
}

static void arm_done(unsigned int h, unsigned int r)
{
	struct host *me = &W.host[h];
	struct arm_op *m = &me->arm[r];
	struct qp *q = &W.qp[h][r];
	struct shift_event ev = {
		.type = SHIFT_EV_ARM_DONE,
		.rail = (uint8_t)r,
		.epoch = m->epoch,
	};

	m->busy = false;
	if (silent(h, r) || me->arm_fails) {
		ev.type = SHIFT_EV_ARM_FAILED;
		me->arm_fails = false;
	} else if (me->p.closed) {
		return;
	} else {
		feed_hung(h); /* the SWITCH that follows freezes the receive count */
		feed(h, q, true, CQ_MAX);
		qp_arm(q, m->epoch, m->tx_psn, m->rx_psn);
		q->retry_inf = false;
	}
	tr(h, "rail %lu: arm for epoch %lu: event %lu, psn %lx", r, m->epoch, ev.type, m->rx_psn);
	host_give(h, &ev);
}

/* --- everything else that reaches the process
 * ------------------------------------------------------- */

static void probe(unsigned int h, unsigned int r)
{
	struct shift_event ev = {.rail = (uint8_t)r};

	ev.type = !silent(h, r) && net_probe(h, r) ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED;
	if (ev.type == SHIFT_EV_PROBE_MISSED)
		W.host[h].missed_at[r] = W.now;
	ev_add(W.now + PROBE_NS + rnd_below(&W.g_host, 100000), EV_PROBE, h, r, 0);
	host_give(h, &ev);
}

static void message(unsigned int h, unsigned int r, uint32_t i)
{
	struct msgbuf *b = &W.msg[i];
	struct shift_msg_reader rd;
	struct shift_msg m;
	int n = shift_msg_open(&rd, b->bytes, b->len, shift_msg_siphash, W.host[h].cfg.key);

	while (n > 0 && !W.failed && shift_msg_next(&rd, &m) == 1) {
		struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = (uint8_t)r, .msg = &m};

		tr(h, tr_got, m.type, m.epoch, m.heard, r);
		host_give(h, &ev);
	}
	msg_put(i);
}

/* The process is there and has never heard of the connection. */
static void answer_unknown(unsigned int h, unsigned int r, uint32_t i)
{
	struct msgbuf *b = &W.msg[i];
	struct shift_msg_reader rd;
	struct shift_msg m;
	struct shift_action a = {.type = SHIFT_ACT_SEND_MSG, .rail = (uint8_t)r};
	int n = shift_msg_open(&rd, b->bytes, b->len, shift_msg_siphash, W.host[h].cfg.key);

	if (n <= 0 || shift_msg_next(&rd, &m) != 1)
		return;
	a.msg.type = SHIFT_MSG_UNKNOWN;
	a.msg.src_nonce = m.dst_nonce;
	a.msg.dst_nonce = m.src_nonce;
	a.msg.src_conn = m.dst_conn;
	a.msg.dst_conn = m.src_conn;
	act_send_msg(h, &a);
}

static void tick(unsigned int h, const struct ev *e)
{
	struct host *me = &W.host[h];
	struct shift_event ev = {.type = SHIFT_EV_TICK};

	(void)e;
	me->tick_at = UINT64_MAX;
	if (W.now >= shift_conn_deadline(me->c))
		host_give(h, &ev);
	else
		rearm_tick(h);
}

static void answer_psn(unsigned int h, unsigned int r, uint32_t serial)
{
	const struct qp *q = &W.qp[h][r];
	struct shift_event ev = {
		.type = SHIFT_EV_PSN,
		.rail = (uint8_t)r,
		.epoch = q->epoch,
		.psn = qp_rq_psn(q),
		.fence = W.host[h].flavour == NIC_IRDMA ? SHIFT_FENCE_UNSURE : SHIFT_FENCE_SURE,
		.serial = serial,
	};

	if (!silent(h, r))
		host_give(h, &ev);
}

/* A stopped process or thread takes the event when it runs again. */
bool host_frozen(unsigned int h, const struct ev *e, uint64_t until)
{
	const struct host *me = &W.host[h];

	if (me->stop_until > until)
		until = me->stop_until;
	if (W.now >= until)
		return false;
	ev_add(until, (enum ev_type)e->type, e->h, e->r, e->x);
	return true;
}

void host_event(const struct ev *e)
{
	struct host *me = &W.host[e->h];
	struct shift_event ev = {.rail = e->r};

	if (me->died) {
		if (e->type == EV_MSG && me->forgets)
			answer_unknown(e->h, e->r, e->x);
		if (e->type == EV_MSG)
			msg_put(e->x);
		return;
	}
	if (e->type == EV_TICK && e->at != me->tick_at && W.now >= me->stop_until)
		return; /* an earlier deadline was set meanwhile */
	if (host_frozen(e->h, e, e->type == EV_POLL ? me->app_until : me->bg_until)) {
		if (e->type == EV_TICK)
			me->tick_at = me->bg_until > me->stop_until ? me->bg_until : me->stop_until;
		if (e->type == EV_POLL)
			me->poll_at = me->app_until > me->stop_until ? me->app_until
								     : me->stop_until;
		return;
	}
	switch ((enum ev_type)e->type) {
	case EV_POLL: poll(e->h); return;
	case EV_MSG: message(e->h, e->r, e->x); return;
	case EV_TICK: tick(e->h, e); return;
	case EV_PROBE: probe(e->h, e->r); return;
	case EV_FENCE: fence_step(e->h, e->r); return;
	case EV_ARM: arm_done(e->h, e->r); return;
	case EV_PSNQ: answer_psn(e->h, e->r, e->x); return;
	case EV_LINK:
		ev.type = W.rail[e->r].no_carrier[e->h] ? SHIFT_EV_LINK_DOWN : SHIFT_EV_LINK_UP;
		break;
	case EV_QPFATAL:
		ev.type = SHIFT_EV_POST_FAILED;
		ev.epoch = e->x;
		break;
	case EV_CLEAN:
		ev.type = SHIFT_EV_FENCE_DONE;
		ev.epoch = e->x;
		ev.clean = true;
		break;
	case EV_PEERDEAD: ev.type = SHIFT_EV_PEER_DIED; break;
	default: return;
	}
	host_give(e->h, &ev);
}

/* --- the program's verbs
 * -------------------------------------------------------------------------------- */

bool host_post(unsigned int h, const struct shift_wr *wr, uint32_t seq)
{
	struct host *me = &W.host[h];
	int rail, rc = shift_conn_post_send(me->c, wr, &rail);
	bool refused = false;

	if (rc >= 0 && rail != SHIFT_HELD) {
		struct shift_wr real = *wr;
		struct qp *q = &W.qp[h][rail];

		if (silent(h, (unsigned int)rail) || q->state == QP_RESET) {
			refused = true;
		} else if (rnd_ppm(&W.g_host, me->p.refuse_ppm)) {
			shift_conn_unpost_send(me->c, 1); /* the provider says ENOMEM */
			drain(h);
			return false;
		} else {
			if (rc == 1)
				real.flags |= SHIFT_F_SIGNALED;
			qp_post_send(q, &real, seq);
		}
	}
	tr(h, "post WR %lu opcode %lu: %ld, rail %ld", seq, wr->opcode, (uint64_t)(int64_t)rc,
	   (uint64_t)(int64_t)(rc < 0 ? -2 : rail));
	drain(h);
	if (refused && !W.failed)
		post_failed(h, (unsigned int)rail, W.qp[h][rail].epoch, 1);
	if (rc < 0 && !me->p.qp_err && !me->p.close_asked)
		violation("%c: post refused with %d, the program has %u of %u outstanding", 'A' + h,
			  rc, me->p.posted - me->p.retired, me->cfg.sq_cap);
	return rc >= 0;
}

bool host_recv(unsigned int h, const struct shift_recv_wr *wr)
{
	struct host *me = &W.host[h];
	int rail, rc;
	bool refused = false;

	if (me->cfg.srq) /* belongs to no QP: the core does not see it */
		return !qp_post_recv(&W.qp[h][0], wr);
	rc = shift_conn_post_recv(me->c, wr, &rail);

	if (!rc && rail != SHIFT_HELD) {
		if (silent(h, (unsigned int)rail) || W.qp[h][rail].state == QP_RESET) {
			refused = true;
		} else if (rnd_ppm(&W.g_host, me->p.refuse_ppm)) {
			shift_conn_unpost_recv(me->c, 1);
			drain(h);
			return false;
		} else {
			qp_post_recv(&W.qp[h][rail], wr);
		}
	}
	drain(h);
	if (refused && !W.failed)
		post_failed(h, (unsigned int)rail, W.qp[h][rail].epoch, 0);
	if (rc && !me->p.qp_err && !me->p.close_asked)
		violation("%c: receive refused with %d", 'A' + h, rc);
	return rc == 0;
}

void host_close(unsigned int h, enum shift_close how)
{
	struct shift_event ev = {.type = SHIFT_EV_CLOSE, .how = (uint8_t)how};

	W.host[h].p.close_asked = true;
	tr(h, "the program closes, how %lu", how, 0, 0, 0);
	host_give(h, &ev);
}

/* The kernel destroys the QPs of a process that died; its shift-kvd notices. */
void host_kill(unsigned int h)
{
	unsigned int r;

	tr(h, "the process dies", 0, 0, 0, 0);
	W.host[h].died = true;
	W.host[h].forgets = rnd_below(&W.g_fault, 2);
	for (r = 0; r < W.rails; r++)
		qp_reset(&W.qp[h][r]);
	ev_add(W.now + rnd_range(&W.g_fault, 1, 20) * NS_MS, EV_PEERDEAD, 1 - h, 0, 0);
}
