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

bool host_silent(unsigned int h, unsigned int r)
{
	return rail_at(r)->dead[h] || rail_at(r)->hung[h];
}

static void report(unsigned int h, const struct shift_action *a)
{
	struct host *me = &W.host[h];

	tr(h, tr_state, a->from, a->to, a->reason, a->rail);
	cause_report(h, a);
	if (a->to == SHIFT_ST_ACTIVE && a->reason == SHIFT_R_COMMIT)
		doubt_commit(h, a->epoch);
	if (a->to == SHIFT_ST_ACTIVE && a->from >= SHIFT_ST_FENCE && a->from <= SHIFT_ST_SWITCHING)
		me->awaits_answers = UINT8_MAX;
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

	/* One that waits for a receive is armed anew. */
	if (q->state == QP_RTS && !m->armed && !host_silent(h, a->rail))
		violation("%c: rail %u is armed for epoch %u without a fence", 'A' + h, a->rail,
			  a->epoch);
	if (W.host[h].veto[a->rail] || W.host[h].unclean[a->rail])
		violation("%c: rail %u is armed for epoch %u although it is barred", 'A' + h,
			  a->rail, a->epoch);
	m->epoch = a->epoch;
	m->tx_psn = a->tx_psn;
	m->rx_psn = a->rx_psn;
	if (m->busy)
		return;
	m->busy = true;
	ev_add(W.now + rnd_range(&W.g_host, 20, 400) * NS_US, EV_ARM, h, a->rail, 0);
}

/* count: the newest sends, which the NIC did not take. */
void host_post_failed(unsigned int h, unsigned int r, uint32_t epoch, uint32_t count)
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
		if (host_silent(h, a->rail) || q->state == QP_RESET) {
			++*refused; /* and so are those after it */
			continue;
		}
		post_on_nic(h, q, &wr, (uint32_t)(i - 1));
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

		if (host_silent(h, a->rail) || q->state == QP_RESET || q->epoch != a->epoch) {
			*refused = NO_SENDS;
			return;
		}
		shift_conn_recv_at(W.host[h].c, i, &wr);
		post_recv_on_nic(h, q, &wr);
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
	if (f->epoch != m->epoch)
		doubt_said(h, m);
	me->frozen = *m;
	if (q->epoch == m->epoch && !me->cfg.srq && q->rq_pi < m->recv_avail &&
	    !host_silent(h, m->rail) && !me->p.closed)
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

void host_send(unsigned int h, unsigned int r, const struct shift_msg *m)
{
	uint8_t buf[SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX];
	struct shift_msg_writer w;
	size_t len;

	tr(h, tr_send, m->type, m->epoch, m->heard, r);
	shift_msg_begin(&w, buf, sizeof(buf), m->src_nonce, m->dst_nonce);
	if (shift_msg_add(&w, m)) {
		violation("%c: the core made a message that the codec refuses, type %u", 'A' + h,
			  m->type);
		return;
	}
	len = shift_msg_end(&w, shift_msg_siphash, W.host[h].cfg.key);
	net_send_msg(h, r, buf, (uint32_t)len);
}

static void act_send_msg(unsigned int h, const struct shift_action *a)
{
	check_switch(h, a);
	check_prepare(h, a);
	host_send(h, a->rail, &a->msg);
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
		if (W.qp[h][r].state == QP_RTS && !host_silent(h, r) && !W.host[h].fence[r].owed)
			violation("%c: closed, and the QP of rail %u is not fenced", 'A' + h, r);
	W.host[h].p.closed = true;
	shift_conn_tombstone(W.host[h].c, W.now, &t);
	if (!t.valid)
		violation("%c: closed without a tombstone", 'A' + h);
	for (r = 0; r < W.rails; r++)
		if (!host_silent(h, r))
			qp_reset(&W.qp[h][r]);
	srq_closed(h);
	lives_closed(h);
}

static void act(unsigned int h, const struct shift_action *a, uint32_t *refused)
{
	W.host[h].acts++;
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

	outage_timer(h, d);
	if (d >= me->tick_at)
		return;
	me->tick_at = d > W.now ? d : W.now + 1000;
	ev_add(me->tick_at, EV_TICK, h, 0, 0);
}

/* Carry out the actions of the core, and let the data path run again if it may. To be called after
 * every call into the core, as vqp_leave() is. */
void host_drain(unsigned int h)
{
	struct shift_action a;
	uint32_t refused = 0;
	uint8_t rail = 0;
	uint32_t epoch = 0;

	W.core_events++;
	outage_check();
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
	post_leave(h);
	if (refused && !W.failed)
		host_post_failed(h, rail, epoch, refused == NO_SENDS ? 0 : refused);
}

void host_give(unsigned int h, const struct shift_event *ev)
{
	if (W.host[h].died || W.failed || !W.host[h].c)
		return;
	post_enter(h);
	shift_conn_event(W.host[h].c, ev, W.now);
	host_drain(h);
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
bool host_feed(unsigned int h, struct qp *q, bool all, uint32_t budget)
{
	struct cqe c;
	uint8_t state;

	while (budget-- && !W.failed && qp_poll(q, &c, all)) {
		struct shift_cqe sc;
		struct shift_wc wc = {
			.wr_id = c.wr_id,
			.status = c.status,
			.opcode = c.opcode,
			.byte_len = c.byte_len,
			.is_recv = c.is_recv,
		};
		bool deliver;

		post_tag(h, q, &c, &sc);
		post_enter(h);
		if (!c.is_recv && c.status < 32)
			W.host[h].nic_said |= 1u << c.status;
		state = W.host[h].state;
		deliver = shift_conn_cqe(W.host[h].c, &sc, &wc, W.now);

		if (W.host[h].cfg.srq && c.is_recv)
			deliver = srq_completed(h, q, &wc, deliver);
		if (deliver)
			prog_wc(h, &wc, &c);
		host_drain(h);
		/* Rule 26: completions of an earlier arming of the twin change nothing. */
		if (c.epoch < q->epoch && q->state == QP_RTS &&
		    (deliver || W.host[h].state != state))
			violation("%c: a completion of epoch %u is acted upon, rail %u is of %u",
				  'A' + h, c.epoch, q->r, q->epoch);
	}
	return q->cq_ci != q->cq_pi;
}

/* On the fast way the library looks at the program's own CQ alone. */
static bool poll_fast(unsigned int h)
{
	struct qp *q = &W.qp[h][0];
	struct cqe c;
	uint32_t budget = 16;

	while (budget && W.host[h].fast && qp_peek(q, &c) && c.status == SHIFT_WC_SUCCESS) {
		qp_poll(q, &c, false);
		post_count(h, &c);
		budget--;
	}
	if (!W.host[h].fast || qp_peek(q, &c))
		return false; /* an error: the slow way, from here on */
	return true;
}

static void poll(unsigned int h)
{
	struct host *me = &W.host[h];
	unsigned int i, first = rnd_below(&W.g_host, W.rails);
	uint64_t next = UINT64_MAX;

	me->poll_at = UINT64_MAX;
	if (me->fast && poll_fast(h)) {
		const struct qp *q = &W.qp[h][0];

		if (q->cq_ci != q->cq_pi && !nic_dead(h, 0))
			host_poll_soon(h, q->cq[q->cq_ci % CQ_MAX].visible_at);
		return;
	}
	for (i = 0; i < W.rails; i++) {
		struct qp *q = &W.qp[h][(first + i) % W.rails];

		if (host_feed(h, q, false, 16) && !nic_dead(h, q->r)) {
			uint64_t at = q->cq[q->cq_ci % CQ_MAX].visible_at;

			next = at < next ? at : next;
		}
	}
	if (next != UINT64_MAX)
		host_poll_soon(h, next);
}

/* The program's QP is in RTS: from here on HELLO is repeated. */
void host_rts(unsigned int h)
{
	struct shift_event ev = {.type = SHIFT_EV_RTS};

	if (W.host[h].cfg.confirmed)
		return;
	W.host[h].rts = true;
	host_give(h, &ev);
}

/* --- rails that may not be used --------------------------------------------------------------- */

/* A new connection learns which NICs of the peer are not atomic with that of rail 0. The host never
 * releases it, so it goes on with the rails that are left. */
void host_apart(unsigned int h)
{
	for (unsigned int r = 1; r < W.rails; r++) {
		struct shift_event ev = {.type = SHIFT_EV_ATOMICS_APART, .rail = (uint8_t)r};

		if (W.apart[1 - h] & 1u << r)
			host_give(h, &ev);
	}
}

/* A new connection learns what bars its rails. */
void host_vetoes(unsigned int h)
{
	for (unsigned int r = 0; r < W.rails; r++) {
		struct shift_event ev = {.type = SHIFT_EV_RAIL_VETO, .rail = (uint8_t)r};

		if (W.host[h].veto[r])
			host_give(h, &ev);
	}
}

/* n: 1 bars the rail once more, -1 once less. */
void host_veto(unsigned int h, unsigned int r, int n)
{
	struct host *me = &W.host[h];
	struct shift_event ev = {.type = SHIFT_EV_RAIL_VETO, .rail = (uint8_t)r};

	me->veto[r] += (uint32_t)n;
	if (n < 0)
		ev.type = SHIFT_EV_RAIL_OPEN;
	if (n > 0 || !me->veto[r])
		host_give(h, &ev);
}

/* --- fence and arm
 * ----------------------------------------------------------------------------------- */

/* Until then it is no target: whoever is asked over to it goes elsewhere (7.39). */
static void rail_is_unclean(unsigned int h, unsigned int r, uint32_t epoch)
{
	uint64_t until = W.now + rnd_range(&W.g_host, 1, 30) * NS_MS;

	ev_add(until, EV_CLEAN, h, r, epoch);
	cause_detour(until);
}

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
	me->answering = true;
	bool again = me->fence[r].owed; /* it answers at last, and nobody waits for it */

	if (hung || !nic_is_trusted(h))
		ev.fence = SHIFT_FENCE_UNSURE;
	me->was_hung[r] |= hung;
	me->fence[r].owed = hung;
	if (hung) /* only its control path hangs: its CQ can be read */
		host_feed(h, q, false, CQ_MAX);
	if (!hung) {
		ev.psn = qp_rq_psn(q);
		host_feed(h, q, true, CQ_MAX); /* rq_psn moves before the CQE */
		ev.clean = r || rnd_below(&W.g_host, 4);
		me->unclean[r] = !ev.clean;
		if (!ev.clean)
			rail_is_unclean(h, r, ev.epoch);
	}
	tr(h, "fence of rail %lu epoch %lu done: %lu (0 sure), rq_psn %lx", r, ev.epoch, ev.fence,
	   ev.psn);
	if (!hung && me->cfg.srq)
		srq_leave(h, r, false);
	if (!again)
		doubt_fenced(h, &ev, q->rx_psn);
	me->answering = false;
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
	if (host_silent(h, r)) {
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
		host_feed(h, q, false, CQ_MAX);
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
	rail_at(r)->hung[h] = false;
	for (unsigned int i = 0; i < W.rails; i++) {
		struct fence_op *f = &W.host[h].fence[i];

		if (rail_at(i) != rail_at(r) || !f->owed || f->step != FS_IDLE || W.host[h].died ||
		    nic_dead(h, r))
			continue;
		f->step = FS_ERR;
		ev_add(W.now + NS_MS, EV_FENCE, h, i, 0);
	}
}

/* --- what its SRQ asks of it ------------------------------------------------------------------ */

/* The CQs of NIC r are read (S23). */
void host_feed_nic(unsigned int h, unsigned int r)
{
	if (!W.host[h].died && W.host[h].c)
		host_feed(h, &W.qp[h][r], false, CQ_MAX);
}

/* As lib/conn/srq_all.c has it. */
static bool is_on(unsigned int h, unsigned int r)
{
	struct shift_conn_view v;

	shift_conn_view(W.host[h].c, &v);
	return v.r == r && (v.state == SHIFT_ST_ACTIVE || v.state == SHIFT_ST_PREPARE ||
			    v.state == SHIFT_ST_DRAIN);
}

/* S18 */
void host_evict(unsigned int h, unsigned int r)
{
	struct host *me = &W.host[h];

	if (me->died || !me->c || !is_on(h, r))
		return;
	tr(h, "is asked to leave rail %lu", r, 0, 0, 0);
	cause_rail(r, 0);
	host_post_failed(h, r, me->armed_epoch[r], 0);
}

/* --- everything else that reaches the process
 * ------------------------------------------------------- */

#define SILENCE_TOLD 4u /* misses that have had a witness */

static bool is_path(unsigned int r)
{
	return rail_at(r) == &W.rail[r];
}

static bool silence_is_told(const struct probed *p)
{
	return p->misses && p->counted >= SILENCE_TOLD;
}

/* Has each other rail that answers done so since the last miss that counted? */
static bool has_witnesses(const struct host *me, unsigned int r)
{
	for (unsigned int i = 0; i < W.rails; i++) {
		const struct probed *p = &me->probed[i];

		if (i != r && is_path(i) && p->known && !p->misses &&
		    p->ok_at <= me->probed[r].counted_at)
			return false;
	}
	return true;
}

static bool silence_is_news(const struct host *me)
{
	for (unsigned int i = 0; i < W.rails; i++)
		if (is_path(i) && me->probed[i].misses && !silence_is_told(&me->probed[i]))
			return true;
	return false;
}

static void tell_again(struct host *me)
{
	for (unsigned int i = 0; i < W.rails; i++)
		me->probed[i].counted = 0;
}

/* Is that news? A connection is told nothing else, unless it is in a switch (7.48). */
static bool probe_is_news(struct host *me, unsigned int r, bool ok)
{
	struct probed *p = &me->probed[r];
	bool change = !p->known || ok == (p->misses != 0), news;

	p->known = true;
	p->misses = ok ? 0 : p->misses + 1;
	if (ok)
		p->ok_at = W.now;
	if (change)
		tell_again(me);
	news = change || (ok ? silence_is_news(me) : !silence_is_told(p));
	if (!ok && has_witnesses(me, r)) {
		p->counted++;
		p->counted_at = W.now;
	}
	return news;
}

static bool in_switch(const struct host *me)
{
	return me->c && me->state != SHIFT_ST_SETUP && me->state != SHIFT_ST_ACTIVE;
}

/* After a switch, and after a link came back, the next answer of each rail is told. A miss is told
 * as a change. */
static bool is_awaited(struct host *me, unsigned int r)
{
	uint8_t bit = (uint8_t)(1u << r);
	bool is = me->awaits_answers & bit;

	me->awaits_answers &= (uint8_t)~bit;
	return is;
}

void host_probes_known(unsigned int h)
{
	struct host *me = &W.host[h];

	tell_again(me);
	for (unsigned int r = 0; r < W.rails; r++)
		if (is_path(r) && me->probed[r].known && !me->probed[r].misses)
			host_give(h, &(struct shift_event){.type = SHIFT_EV_PROBE_OK,
							   .rail = (uint8_t)r,
							   .also = rails_beside(r)});
}

static void probe(unsigned int h, unsigned int r)
{
	struct shift_event ev = {.rail = (uint8_t)r, .also = rails_beside(r)};
	struct host *me = &W.host[h];
	bool ok, awaited;

	/* The last ones are true, and enough to know a rail that is silent beside one that came
	 * back just before. */
	if (W.silence && W.now > W.calm_at + 8 * PROBE_NS)
		return;
	ok = !host_silent(h, r) && net_probe(h, r);
	ev.type = ok ? SHIFT_EV_PROBE_OK : SHIFT_EV_PROBE_MISSED;
	for (unsigned int i = 0; i < W.rails && !ok; i++)
		if (rail_at(i) == rail_at(r))
			me->missed_at[i] = W.now;
	ev_add(W.now + PROBE_NS + rnd_below(&W.g_host, 100000), EV_PROBE, h, r, 0);
	awaited = is_awaited(me, r);
	if (probe_is_news(me, r, ok) || in_switch(me) || awaited)
		host_give(h, &ev);
}

/* One that is not for this connection, in this life, must leave no trace. */
static void give_msg(unsigned int h, unsigned int r, const struct shift_msg *m)
{
	struct host *me = &W.host[h];
	struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = (uint8_t)r, .msg = m};
	bool foreign = lives_is_foreign(h, m);
	uint64_t deadline = me->c ? shift_conn_deadline(me->c) : 0;
	uint32_t acts = me->acts;

	if (lives_tombstone(h, r, m) || !me->c)
		return;
	host_give(h, &ev);
	if (foreign && (me->acts != acts || shift_conn_deadline(me->c) != deadline))
		violation("%c: acts upon a message that is not for it, type %u", 'A' + h, m->type);
}

static void message(unsigned int h, unsigned int r, uint32_t i)
{
	struct msgbuf *b = &W.msg[i];
	struct shift_msg_reader rd;
	struct shift_msg m;
	int n = shift_msg_open(&rd, b->bytes, b->len, shift_msg_siphash, W.host[h].cfg.key);

	while (n > 0 && !W.failed && shift_msg_next(&rd, &m) == 1) {
		tr(h, tr_got, m.type, m.epoch, m.heard, r);
		give_msg(h, r, &m);
	}
	msg_put(i);
}

/* The process is there and has never heard of the connection. */
static void answer_unknown(unsigned int h, unsigned int r, uint32_t i)
{
	struct msgbuf *b = &W.msg[i];
	struct shift_msg_reader rd;
	struct shift_msg m;
	struct shift_msg answer = {.type = SHIFT_MSG_UNKNOWN};
	int n = shift_msg_open(&rd, b->bytes, b->len, shift_msg_siphash, W.host[h].cfg.key);

	if (n <= 0 || shift_msg_next(&rd, &m) != 1)
		return;
	answer.src_nonce = m.dst_nonce;
	answer.dst_nonce = m.src_nonce;
	answer.src_conn = m.dst_conn;
	answer.dst_conn = m.src_conn;
	host_send(h, r, &answer);
}

static void tick(unsigned int h, const struct ev *e)
{
	struct host *me = &W.host[h];
	struct shift_event ev = {.type = SHIFT_EV_TICK};

	(void)e;
	me->tick_at = UINT64_MAX;
	if (!me->c)
		return;
	post_enter(h);
	if (W.now >= shift_conn_deadline(me->c))
		host_give(h, &ev);
	else
		host_drain(h);
}

static void answer_psn(unsigned int h, unsigned int r, uint32_t serial)
{
	const struct qp *q = &W.qp[h][r];
	struct shift_event ev;

	if (W.host[h].cfg.srq) { /* S12, S23 */
		host_feed(h, &W.qp[h][r], false, CQ_MAX);
		srq_look(h, r);
	}
	ev = (struct shift_event){
		.type = SHIFT_EV_PSN,
		.rail = (uint8_t)r,
		.epoch = q->epoch,
		.psn = qp_rq_psn(q),
		.fence = nic_is_trusted(h) ? SHIFT_FENCE_SURE : SHIFT_FENCE_UNSURE,
		.serial = serial,
		.count = W.host[h].cfg.srq ? srq_good(h, r) : 0,
	};

	if (host_silent(h, r))
		return;
	host_give(h, &ev);
	if (q->state == QP_ERR && q->epoch == W.host[h].armed_epoch[r]) {
		ev = (struct shift_event){
			.type = SHIFT_EV_POST_FAILED, .rail = (uint8_t)r, .epoch = q->epoch};
		host_give(h, &ev);
	}
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
	case EV_ARM: arm_event(e->h, e->r); return;
	case EV_PSNQ: answer_psn(e->h, e->r, e->x); return;
	case EV_LINK:
		ev.type = rail_at(e->r)->no_carrier[e->h] ? SHIFT_EV_LINK_DOWN : SHIFT_EV_LINK_UP;
		if (ev.type == SHIFT_EV_LINK_UP)
			W.host[e->h].awaits_answers = UINT8_MAX;
		ev.also = rails_beside(e->r);
		break;
	case EV_QPFATAL:
		ev.type = SHIFT_EV_POST_FAILED;
		ev.epoch = e->x;
		break;
	case EV_CLEAN:
		if (!me->unclean[e->r] || e->x != me->armed_epoch[e->r])
			return;
		me->unclean[e->r] = false;
		ev.type = SHIFT_EV_FENCE_DONE;
		ev.epoch = e->x;
		ev.clean = true;
		break;
	case EV_PEERDEAD:
		ev.type = W.host[1 - e->h].left ? SHIFT_EV_PEER_LEFT : SHIFT_EV_PEER_DIED;
		break;
	default: return;
	}
	host_give(e->h, &ev);
}

/* --- the program's end ---------------------------------------------------------------------------
 */

void host_close(unsigned int h, enum shift_close how)
{
	struct shift_event ev = {.type = SHIFT_EV_CLOSE, .how = (uint8_t)how};

	W.host[h].p.close_asked = true;
	W.host[h].p.how = (uint8_t)how;
	tr(h, "the program closes, how %lu", how, 0, 0, 0);
	host_give(h, &ev);
}

/* The kernel destroys the QPs of a process that died; its shift-kvd notices, or it has said so
 * itself. */
void host_kill(unsigned int h)
{
	unsigned int r;

	tr(h, "the process dies", 0, 0, 0, 0);
	W.host[h].died = true;
	W.host[h].left = W.now >> 10 & 1;
	W.host[h].forgets = rnd_below(&W.g_fault, 2);
	for (r = 0; r < W.rails; r++)
		qp_reset(&W.qp[h][r]);
	if (W.host[h].cfg.srq)
		srq_killed(h);
	ev_add(W.now + rnd_range(&W.g_fault, 1, 20) * NS_MS, EV_PEERDEAD, 1 - h, 0, 0);
}
