/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's posts, and its completions while they are only counted: the data path as
 * lib/verbs/post_send.c, lib/verbs/poll.c and lib/conn/conn_lock.c have it. On the fast way sends
 * are collected in a run (lib/core/fast.h), and nothing else looks at the log before post_enter()
 * has added it. `fast` stands for the open gates.
 */
#include <errno.h>
#include <string.h>

#include "lib/core/psn.h"
#include "tests/sim/sim.h"

/* Another thread of the program posts: it may not touch the run but to add it to the log. */
#define OTHER_THREAD_PPM 20000

/* --- between the two ways -------------------------------------------------------------------- */

/* As vqp_enter(): shuts the gates, and adds up what the data path has logged. */
void post_enter(unsigned int h)
{
	struct host *me = &W.host[h];

	if (!me->fast)
		return;
	me->fast = false;
	shift_fast_fold(me->c, &me->run);
}

/* As vqp_leave() ends: opens the gates if the fast way is possible. */
void post_leave(unsigned int h)
{
	struct host *me = &W.host[h];

	me->fast = !me->p.closed && shift_conn_fast(me->c);
}

/* Nobody would carry an action out before the next event. */
static void check_no_action(unsigned int h)
{
	struct shift_action a;

	if (shift_conn_action(W.host[h].c, &a))
		violation("%c: the fast way makes action %u", 'A' + h, a.type);
}

/* --- what the wr_id says ---------------------------------------------------------------------- */

/* As lib/conn/repost.h: on a twin the epoch, and whether it is a receive. On rail 0 it is the
 * program's own; so there all completions count for the epoch for which the QP is armed now. */
#define TWIN_EPOCH_SHIFT 32
#define TWIN_RECV	 1ull

static uint64_t twin_id(const struct host *me, const struct qp *q, bool is_recv)
{
	return (uint64_t)me->armed_epoch[q->r] << TWIN_EPOCH_SHIFT | (is_recv ? TWIN_RECV : 0);
}

/* The opcode of an error completion is undefined, so it does not tell a send from a receive. */
static bool is_recv(const struct host *me, const struct qp *q, const struct cqe *c)
{
	if (c->status == SHIFT_WC_SUCCESS)
		return c->is_recv;
	if (q->r)
		return c->wr_id & TWIN_RECV;
	return me->recv_mark ? c->wr_id == me->recv_mark : c->is_recv; /* or by the CQ */
}

void post_tag(unsigned int h, const struct qp *q, const struct cqe *c, struct shift_cqe *sc)
{
	const struct host *me = &W.host[h];

	*sc = (struct shift_cqe){
		.wr_id = c->wr_id,
		.epoch = q->r ? (uint32_t)(c->wr_id >> TWIN_EPOCH_SHIFT) : me->armed_epoch[0],
		.status = c->status,
		.byte_len = c->byte_len,
		.rail = q->r,
		.is_recv = is_recv(me, q, c),
	};
	if (me->cfg.srq && c->is_recv) { /* its id tells that (doc/srq.md, S13) */
		sc->epoch = me->armed_epoch[q->r];
		sc->is_recv = true;
	}
	if (sc->is_recv != c->is_recv)
		violation("%c: a completion on rail %u is taken for one of the other queue",
			  'A' + h, q->r);
}

/* --- completions ------------------------------------------------------------------------------ */

/* A completion on the fast way. Most do not even reach the core. */
void post_count(unsigned int h, const struct cqe *c)
{
	struct host *me = &W.host[h];
	struct shift_cqe sc;
	struct shift_wc wc = {
		.wr_id = c->wr_id,
		.opcode = c->opcode,
		.byte_len = c->byte_len,
		.is_recv = c->is_recv,
	};

	W.core_events++;
	if (!c->is_recv && me->counts) {
		me->cfg.hot->sends_done++;
	} else {
		post_tag(h, &W.qp[h][0], c, &sc);
		shift_conn_cqe(me->c, &sc, &wc, 0);
		check_no_action(h);
		me->counts = true;
	}
	if (!me->cfg.srq || !c->is_recv || srq_completed(h, &W.qp[h][0], &wc, true))
		prog_wc(h, &wc, c);
}

/* --- sends ------------------------------------------------------------------------------------ */

/* A8: a NIC that dies tells nothing of what is unsignaled, so that must be far below 2^24. */
static void check_signal(unsigned int h, struct qp *q, const struct shift_wr *wr)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < wr->num_sge; i++)
		len += wr->sge[i].length;
	if (wr->flags & SHIFT_F_SIGNALED || W.host[h].cfg.sq_sig_all)
		q->unsignaled = 0;
	else
		q->unsignaled += shift_psn_packets(wr->opcode, len, q->mtu);
	if (q->unsignaled > SHIFT_SECRET_MAX)
		violation("%c: %lu packets are posted without a completion", 'A' + h,
			  (unsigned long)q->unsignaled);
}

void post_on_nic(unsigned int h, struct qp *q, const struct shift_wr *wr, uint32_t seq)
{
	struct ref_wr *w = &W.host[h].p.wr[seq];
	struct shift_wr one = *wr;

	if (q->r)
		one.wr_id = twin_id(&W.host[h], q, false);
	check_signal(h, q, wr);
	W.writes_again += w->on_nic && w->op == SHIFT_OP_WRITE;
	w->on_nic = true;
	qp_post_send(q, &one, seq);
}

static void to_raw(const struct shift_wr *wr, struct shift_raw_wr *raw)
{
	*raw = (struct shift_raw_wr){
		.wr_id = wr->wr_id,
		.sge = wr->sge,
		.num_sge = wr->num_sge,
		.opcode = wr->opcode,
		.flags = wr->flags,
		.imm = wr->imm,
		.remote_addr = wr->remote_addr,
		.rkey = wr->rkey,
	};
	if (shift_wr_atomic(wr->opcode)) {
		raw->atomic.compare_add = wr->compare_add;
		raw->atomic.swap = wr->swap;
		raw->atomic.rkey = wr->rkey;
	}
}

/* In a run, or as a list of one: every other time. */
static bool log_short(struct host *me, const struct shift_raw_wr *raw)
{
	if (raw->wr_id & 1)
		return !shift_fast_post_list(me->c, &me->run, raw, 1);
	return shift_fast_post(&me->run, raw) || shift_fast_post_other(me->c, &me->run, raw);
}

/* Logged on the fast way? -1: no, it must go the slow way. 1: it was logged alone. */
static int log_fast(unsigned int h, const struct shift_wr *wr, const struct shift_raw_wr *raw)
{
	struct host *me = &W.host[h];
	bool owner = !rnd_ppm(&W.g_host, OTHER_THREAD_PPM);
	int rail, rc;

	if (owner && log_short(me, raw)) {
		W.fast_posts++;
		return 0;
	}
	shift_fast_fold(me->c, &me->run);
	if (shift_conn_secret_due(me->c, wr))
		return -1;
	rc = shift_conn_post_send(me->c, wr, &rail);
	if (rc < 0)
		return -1;
	if (rc || rail)
		violation("%c: a post on the fast way gives %d for rail %d", 'A' + h, rc, rail);
	check_no_action(h);
	return 1;
}

/* 1: posted, 0: the provider had no room, -1: to be posted the slow way. */
static int post_fast(unsigned int h, const struct shift_wr *wr, uint32_t seq)
{
	struct host *me = &W.host[h];
	struct qp *q = &W.qp[h][0];
	struct shift_raw_wr raw;
	int logged;

	to_raw(wr, &raw);
	logged = log_fast(h, wr, &raw);
	if (logged < 0)
		return -1;
	W.core_events++;
	tr(h, "post WR %lu opcode %lu on the fast way, in a run %lu", seq, wr->opcode, !logged, 0);
	if (host_silent(h, 0) || q->state == QP_RESET) {
		shift_fast_fold(me->c, &me->run);
		host_post_failed(h, 0, q->epoch, 1);
		return 1;
	}
	if (rnd_ppm(&W.g_host, me->p.refuse_ppm)) {
		shift_fast_fold(me->c, &me->run);
		shift_conn_unpost_send(me->c, 1);
		return 0;
	}
	post_on_nic(h, q, wr, seq);
	return 1;
}

static bool post_slow(unsigned int h, const struct shift_wr *wr, uint32_t seq)
{
	struct host *me = &W.host[h];
	bool refused = false;
	int rail, rc;

	post_enter(h);
	rc = shift_conn_post_send(me->c, wr, &rail);
	if (rc >= 0 && rail != SHIFT_HELD) {
		struct shift_wr real = *wr;
		struct qp *q = &W.qp[h][rail];

		if (host_silent(h, (unsigned int)rail) || q->state == QP_RESET) {
			refused = true;
		} else if (rnd_ppm(&W.g_host, me->p.refuse_ppm)) {
			shift_conn_unpost_send(me->c, 1); /* the provider says ENOMEM */
			host_drain(h);
			return false;
		} else {
			if (rc == 1)
				real.flags |= SHIFT_F_SIGNALED;
			post_on_nic(h, q, &real, seq);
		}
	}
	tr(h, "post WR %lu opcode %lu: %ld, rail %ld", seq, wr->opcode, (uint64_t)(int64_t)rc,
	   (uint64_t)(int64_t)(rc < 0 ? -2 : rail));
	host_drain(h);
	if (refused && !W.failed)
		host_post_failed(h, (unsigned int)rail, W.qp[h][rail].epoch, 1);
	if (rc < 0 && !me->p.qp_err && !me->p.close_asked)
		violation("%c: post refused with %d, the program has %u of %u outstanding", 'A' + h,
			  rc, me->p.posted - me->p.retired, me->cfg.sq_cap);
	return rc >= 0;
}

bool host_post(unsigned int h, const struct shift_wr *wr, uint32_t seq)
{
	int done = W.host[h].fast ? post_fast(h, wr, seq) : -1;

	return done < 0 ? post_slow(h, wr, seq) : done;
}

/* --- receives --------------------------------------------------------------------------------- */

bool post_recv_on_nic(unsigned int h, struct qp *q, const struct shift_recv_wr *wr)
{
	const struct host *me = &W.host[h];
	struct shift_recv_wr one = *wr;

	if (q->r)
		one.wr_id = twin_id(me, q, true);
	else if (me->recv_mark)
		one.wr_id = me->recv_mark;
	return !qp_post_recv(q, &one);
}

/* Also on the fast way, as another thread's business: the run of sends is not touched. */
bool host_recv(unsigned int h, const struct shift_recv_wr *wr)
{
	struct host *me = &W.host[h];
	bool refused = false;
	int rail, rc;

	if (me->fast && !me->cfg.srq &&
	    shift_fast_post_recv(&me->cfg.hot->recvs, wr->wr_id, wr->sge, wr->num_sge))
		rc = rail = 0;
	else
		rc = shift_conn_post_recv(me->c, wr, &rail);
	if (!rc && rail != SHIFT_HELD) {
		bool dead = host_silent(h, (unsigned int)rail) || W.qp[h][rail].state == QP_RESET;

		if (dead) { /* the library says so on the fast way, too, and does not tell it */
			refused = true;
		} else if (rnd_ppm(&W.g_host, me->p.refuse_ppm)) {
			shift_conn_unpost_recv(me->c, 1);
			if (!me->fast)
				host_drain(h);
			return false;
		} else {
			post_recv_on_nic(h, &W.qp[h][rail], wr);
		}
	}
	if (me->fast)
		check_no_action(h);
	else
		host_drain(h);
	if (refused && !W.failed)
		host_post_failed(h, (unsigned int)rail, W.qp[h][rail].epoch, 0);
	if (rc && !me->p.qp_err && !me->p.close_asked)
		violation("%c: receive refused with %d", 'A' + h, rc);
	return rc == 0;
}
