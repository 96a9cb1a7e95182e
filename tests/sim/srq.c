/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shared receive queues (doc/srq.md): the books of lib/core/srq.h, what the library does around
 * them, the NICs' queues, the drainers, and the program that posts. All connections of a host are
 * on its SRQ.
 *
 * A NIC here knows whose buffer each posting really is, so what the books promise is looked at
 * where a NIC takes a receive and where it writes: a buffer that the program has, or that another
 * QP has, is found at that very packet. Of what the books have on a NIC no more may be missing
 * there than they say (S17).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

#define SRQ_CAP	 4096u
#define SRQ_BUFS (2 * SRQ_CAP)
#define SRQ_SGES 2u
#define TOLD	 64u
#define NO_CONN	 UINT8_MAX

struct buffer {
	bool posted;	 /* else the program has it */
	uint32_t turn;	 /* how often it was posted: the wr_id has it */
	uint8_t conn, r; /* of the QP that has it; NO_CONN: none */
};

/* What a NIC has of it. */
struct srq_nic {
	struct posting queue[SRQ_CAP];
	uint32_t head, n;
	uint32_t drain;	     /* to be taken yet */
	bool draining, sent; /* one of its messages is on the wire */
	uint32_t lost;	     /* taken by a drain that failed, and never named */
	uint32_t told_n;
	uint64_t told[TOLD]; /* taken, and not told yet */
	uint64_t stuck;	     /* until then no drain ends */
	bool is_empty;	     /* a drain has seen that, and nothing was posted since */
};

enum after_cut { CUT_FLUSHES, CUT_DROPS, CUT_REPEATS, CUT_KINDS };

static struct srq {
	bool used; /* and its process lives */
	struct shift_srq books;
	struct rng g;
	enum after_cut cut;
	bool bad_keys, steady; /* some NICs have no key for some; drains do not fail */
	bool post_armed;
	uint32_t bufs, batch, late_ppm;
	uint32_t own[SRQ_BUFS], owned; /* buffers that the program has */
	uint32_t evict;		       /* mask of NICs */
	uint64_t tick_at;
	struct buffer buf[SRQ_BUFS];
	struct srq_nic nic[RAILS];
} srqs[HOSTS];

static uint8_t books_mem[HOSTS][SRQ_CAP * 2 * 128] __attribute__((aligned(64)));
static uint8_t buffers[HOSTS][SRQ_BUFS][SLOT_BYTES] __attribute__((aligned(4096)));

static struct srq *srq_of(unsigned int h)
{
	return &srqs[h];
}

/* A fault of a NIC or of a drainer, once in so many, while there are any. */
static bool srq_fault(struct srq *s, uint32_t n)
{
	return !W.calm && !s->steady && !rnd_below(&s->g, n);
}

/* The books belong to no connection, so their events are in the queue of the first. */
static void srq_later(unsigned int h, unsigned int k, enum srq_step step, uint64_t ns)
{
	struct world *back = wp;

	wp = &worlds[0];
	ev_add(W.now + ns, EV_SRQ, h, k, step);
	wp = back;
}

static uint64_t now_if_needed(const struct srq *s)
{
	return shift_srq_alone(&s->books) ? 0 : W.now;
}

static uint64_t wr_id_of(const struct srq *s, uint32_t buf)
{
	return (uint64_t)s->buf[buf].turn << 32 | buf;
}

/* --- the truth -------------------------------------------------------------------------------- */

static struct posting *srq_posting(struct srq_nic *n, uint32_t i)
{
	return &n->queue[(n->head + i) % SRQ_CAP];
}

/* false: the NIC is full. */
static bool nic_gets(struct srq *s, unsigned int k, uint64_t id, const struct shift_recv_wr *wr)
{
	struct srq_nic *n = &s->nic[k];
	struct posting *p = srq_posting(n, n->n);

	if (n->draining)
		violation("posted to NIC %u, which is being drained (S11)", k);
	n->is_empty = false;
	if (n->n == s->books.cfg.cap)
		return false;
	p->buf = (uint32_t)wr->wr_id % SRQ_BUFS;
	p->turn = (uint32_t)(wr->wr_id >> 32);
	p->e = (struct rqe){.wr_id = id, .nsge = wr->num_sge};
	memcpy(p->e.sge, wr->sge, wr->num_sge * sizeof(*wr->sge));
	n->n++;
	return true;
}

/* Any of the first: nobody promises an order. */
static struct posting nic_gives(struct srq *s, struct srq_nic *n)
{
	struct posting *at = srq_posting(n, rnd_below(&s->g, n->n < 3 ? n->n : 3)), p = *at;

	*at = *srq_posting(n, 0);
	n->head = (n->head + 1) % SRQ_CAP;
	n->n--;
	return p;
}

static bool has_writer(const struct buffer *b, const struct qp *q)
{
	return b->conn == W.conn && b->r == q->r;
}

/* Is a QP in the middle of a message that goes there? */
static bool is_being_written(unsigned int h, uint32_t buf)
{
	const struct buffer *b = &srqs[h].buf[buf];
	const struct qp *q;

	if (b->conn == NO_CONN)
		return false;
	q = &worlds[b->conn].qp[h][b->r];
	return q->holds && q->held.buf == buf && q->held.turn == b->turn && q->state != QP_RESET &&
	       worlds[b->conn].host[h].joined & 1u << b->r && !nic_dead(h, b->r);
}

bool srq_take(struct qp *q)
{
	struct srq *s = srq_of(q->h);
	struct srq_nic *n = &s->nic[q->r];
	struct buffer *b;

	if (!s->used || !n->n)
		return false;
	q->held = nic_gives(s, n);
	q->holds = true;
	b = &s->buf[q->held.buf];
	if (is_being_written(q->h, q->held.buf))
		violation("two QPs write into buffer %u of %c", q->held.buf, 'A' + q->h);
	b->conn = (uint8_t)W.conn;
	b->r = q->r;
	tr(q->h, "nic: rail %lu takes the receive %lx", q->r, q->held.e.wr_id, 0, 0);
	return true;
}

/* P1, P3: the buffer of a message is the program's no more, and nobody else's. */
bool srq_may_write(const struct qp *q)
{
	const struct buffer *b = &srq_of(q->h)->buf[q->held.buf];

	if (q->holds && b->posted && b->turn == q->held.turn && has_writer(b, q))
		return true;
	if (!both_have_hung_on(q->r))
		violation("%c: rail %u writes into buffer %u, which it must not have", 'A' + q->h,
			  q->r, q->held.buf);
	return false;
}

static void no_writer(struct qp *q)
{
	struct buffer *b = &srq_of(q->h)->buf[q->held.buf];

	if (q->holds && has_writer(b, q) && b->turn == q->held.turn)
		b->conn = NO_CONN;
	q->holds = false;
}

uint64_t srq_executed(struct qp *q)
{
	no_writer(q);
	return q->held.e.wr_id;
}

static void flush_cqe(struct qp *q, uint64_t id)
{
	struct cqe c = {
		.wr_id = id, .status = SHIFT_WC_WR_FLUSH_ERR, .epoch = q->epoch, .is_recv = true};

	if (q->cq_pi - q->cq_ci < CQ_MAX / 2)
		qp_cqe(q, &c);
}

/* The QP has stopped, in the middle of a message perhaps: what becomes of its receive. */
void srq_cut(struct qp *q, bool stopped)
{
	const struct srq *s = srq_of(q->h);

	if (!q->holds)
		return;
	tr(q->h, "nic: rail %lu drops the receive %lx, kind %lu", q->r, q->held.e.wr_id, s->cut, 0);
	no_writer(q);
	q->lost = true;
	if (s->cut == CUT_FLUSHES && stopped && s->used)
		flush_cqe(q, q->held.e.wr_id);
	if (s->cut == CUT_REPEATS)
		q->stale_id = q->held.e.wr_id;
}

/* Soft-RoCE 6.12: the first error of a later life names it. */
void srq_stale(struct qp *q)
{
	if (q->stale_id && srq_of(q->h)->used)
		flush_cqe(q, q->stale_id);
	q->stale_id = 0;
}

/* --- how many are missing (S17) --------------------------------------------------------------- */

static bool books_have(const struct srq *s, unsigned int k, uint64_t id)
{
	const struct shift_srq_entry *e = shift_srq_at(&s->books, id);

	return e->id == id && e->nic == k;
}

static uint32_t known_of_qp(const struct srq *s, const struct qp *q)
{
	uint32_t n = q->holds && books_have(s, q->r, q->held.e.wr_id);

	for (uint32_t i = q->cq_ci; i != q->cq_pi; i++)
		n += q->cq[i % CQ_MAX].is_recv && books_have(s, q->r, q->cq[i % CQ_MAX].wr_id);
	return n;
}

/* Receives that the books have on NIC k, and that are there or will be named. */
static uint32_t known_on(const struct srq *s, unsigned int h, unsigned int k)
{
	const struct srq_nic *n = &s->nic[k];
	uint32_t known = 0;

	for (uint32_t i = 0; i < n->n; i++)
		known += books_have(s, k, n->queue[(n->head + i) % SRQ_CAP].e.wr_id);
	for (uint32_t i = 0; i < n->told_n; i++)
		known += books_have(s, k, n->told[i]);
	for (uint32_t i = 0; i < conns; i++)
		known += known_of_qp(s, &worlds[i].qp[h][k]);
	return known;
}

/* QPs that have dropped one, and of which the books are not told yet. */
static uint32_t dropped_on(unsigned int h, unsigned int k)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < conns; i++)
		n += worlds[i].qp[h][k].lost;
	return n;
}

static void check_missing(unsigned int h, unsigned int k)
{
	const struct srq *s = srq_of(h);
	const struct shift_srq_nic *n = &s->books.nic[k];
	uint32_t known, suspects = n->cut + n->maybe + dropped_on(h, k) + s->nic[k].lost;

	if (n->state != SHIFT_SRQ_OPEN)
		return;
	known = known_on(s, h, k);
	if (known + suspects < n->on)
		violation("%c: of %u receives on NIC %u %u are there, and %u are suspect (S17)",
			  'A' + h, n->on, k, known, suspects);
}

/* --- actions ---------------------------------------------------------------------------------- */

static bool refuses(struct srq *s, unsigned int k, uint32_t buf)
{
	return srq_fault(s, 100) || (!W.calm && s->bad_keys && k == 1 && buf % 3 == 0);
}

static void act_post(struct srq *s, const struct shift_srq_action *a)
{
	const struct shift_srq_entry *e = shift_srq_at(&s->books, a->id);
	struct shift_recv_wr wr = {.wr_id = e->wr_id, .sge = e->sge, .num_sge = e->wr.num_sge};

	if ((a->nic && refuses(s, a->nic, (uint32_t)wr.wr_id)) || !nic_gets(s, a->nic, a->id, &wr))
		shift_srq_refused(&s->books, a->id, W.now);
}

static void act_drain(struct srq *s, unsigned int h, const struct shift_srq_action *a)
{
	struct srq_nic *n = &s->nic[a->nic];

	tr(h, "SRQ: %lu are to be drained from NIC %lu", a->count, a->nic, 0, 0);
	if (n->draining || !a->count)
		violation("%c: two drains of NIC %u, or none", 'A' + h, a->nic);
	if (n->is_empty && s->books.nic[a->nic].state == SHIFT_SRQ_OPEN)
		violation("%c: NIC %u is known to be empty, and drained once more (S10)", 'A' + h,
			  a->nic);
	n->draining = true;
	n->sent = false;
	n->drain = a->count;
	n->stuck = srq_fault(s, 30) ? W.now + rnd_range(&s->g, 1, 1500) * NS_MS : 0;
	srq_later(h, a->nic, SRQ_DRAINS, rnd_range(&s->g, 20, 200) * NS_US);
}

static void srq_check(struct srq *s, bool rests)
{
	const char *what;

	if (s->books.cfg.cap >= 64 && rnd_below(&s->g, 1 + s->books.cfg.cap / 4))
		return;
	what = shift_srq_check(&s->books);
	if (!what && rests)
		what = shift_srq_rests(&s->books, W.now);
	if (what)
		violation("SRQ: %s", what);
}

static void srq_note_deadline(struct srq *s, unsigned int h)
{
	uint64_t at = shift_srq_deadline(&s->books);

	if (at >= s->tick_at)
		return;
	s->tick_at = at;
	srq_later(h, 0, SRQ_TICK, at > W.now ? at - W.now : 0);
}

/* What is to be done after each call of the books. */
static void srq_act(unsigned int h)
{
	struct srq *s = srq_of(h);
	struct shift_srq_action a;

	srq_check(s, false);
	while (!W.failed && shift_srq_action(&s->books, W.now, &a)) {
		if (a.type == SHIFT_SRQ_ACT_POST)
			act_post(s, &a);
		if (a.type == SHIFT_SRQ_ACT_DRAIN)
			act_drain(s, h, &a);
		if (a.type != SHIFT_SRQ_ACT_EVICT)
			continue;
		tr(h, "SRQ: NIC %lu is to be left", a.nic, 0, 0, 0);
		s->evict |= 1u << a.nic;
		srq_later(h, a.nic, SRQ_EVICTS, rnd_range(&s->g, 10, 1000) * NS_US);
	}
	srq_check(s, true);
	srq_note_deadline(s, h);
}

static void srq_act_unless_alone(unsigned int h)
{
	if (shift_srq_alone(&srq_of(h)->books))
		srq_check(srq_of(h), false);
	else
		srq_act(h);
}

/* --- the program ------------------------------------------------------------------------------ */

/* false: there is no room. */
static bool post_buffer(struct srq *s, unsigned int h, uint32_t buf)
{
	uint64_t addr = (uint64_t)(uintptr_t)buffers[h][buf], id;
	uint32_t cut = rnd_below(&s->g, 3) ? SLOT_BYTES
					   : CELL * (1 + rnd_below(&s->g, SLOT_CELLS - 2));
	struct shift_sge sge[SRQ_SGES] = {{addr, cut, 1}, {addr + cut, SLOT_BYTES - cut, 1}};
	struct shift_raw_recv wr = {
		.wr_id = wr_id_of(s, buf), .sge = sge, .num_sge = cut < SLOT_BYTES ? 2 : 1};
	struct shift_recv_wr to = {.wr_id = wr.wr_id, .sge = sge, .num_sge = (uint32_t)wr.num_sge};
	bool alone = shift_srq_alone(&s->books);
	int k = shift_srq_post(&s->books, &wr, now_if_needed(s), &id);

	if (k == SHIFT_SRQ_NOWHERE)
		return true;
	if (k == -ENOMEM && !alone && shift_srq_total(&s->books) >= s->books.cfg.cap)
		return false;
	if (k < 0 || k >= (int)W.rails) {
		violation("%c: a receive is refused: %d", 'A' + h, k);
		return false;
	}
	if (k && refuses(s, (unsigned int)k, buf)) {
		shift_srq_refused(&s->books, id, W.now);
	} else if (srq_fault(s, 300) || !nic_gets(s, (unsigned int)k, id, &to)) {
		shift_srq_unpost(&s->books, id, now_if_needed(s));
		return false;
	}
	return true;
}

static void arm_posts(struct srq *s, unsigned int h)
{
	if (s->post_armed || s->owned < s->batch)
		return;
	s->post_armed = true;
	srq_later(h, 0, SRQ_POSTS,
		  rnd_ppm(&s->g, s->late_ppm) ? rnd(&s->g) % (2 * NS_MS) : rnd_below(&s->g, 20000));
}

static void program_posts(struct srq *s, unsigned int h)
{
	bool room = true;

	s->post_armed = false;
	while (s->owned && room && !W.failed) {
		uint32_t buf = s->own[--s->owned];

		s->buf[buf].turn++;
		s->buf[buf].posted = true;
		room = post_buffer(s, h, buf);
		if (!room) {
			s->buf[buf].posted = false;
			s->own[s->owned++] = buf;
		}
		if (!rnd_below(&s->g, 10) && shift_srq_total(&s->books) > s->batch)
			break;
	}
	srq_act_unless_alone(h);
	if (room) {
		arm_posts(s, h);
	} else if (!W.calm || shift_srq_total(&s->books) < s->books.cfg.cap) {
		s->post_armed = true;
		srq_later(h, 0, SRQ_POSTS, NS_MS);
	}
}

/* The program gets a receive: each once, and as it has posted it (P1). */
static bool program_gets(struct srq *s, unsigned int h, uint64_t wr_id)
{
	uint32_t buf = (uint32_t)wr_id;

	if (buf >= s->bufs || !s->buf[buf].posted || wr_id != wr_id_of(s, buf)) {
		violation("%c: a receive is handed out that the program has not posted: %lx",
			  'A' + h, (unsigned long)wr_id);
		return false;
	}
	if (is_being_written(h, buf))
		violation("%c: buffer %u is handed out while it is written", 'A' + h, buf);
	s->buf[buf].posted = false;
	s->own[s->owned++] = buf;
	arm_posts(s, h);
	return true;
}

uint64_t srq_buffer(unsigned int h, uint64_t wr_id)
{
	return (uint64_t)(uintptr_t)buffers[h][wr_id % SRQ_BUFS];
}

/* --- completions (S13) ------------------------------------------------------------------------ */

/* As srq_qp_completed(). Does the program get it? */
bool srq_completed(unsigned int h, struct qp *q, struct shift_wc *wc, bool deliver)
{
	struct srq *s = srq_of(h);
	uint64_t id = wc->wr_id;

	if (!s->used)
		return deliver;
	if (!deliver) {
		if (shift_srq_back(&s->books, q->r, id, W.now) && wc->status != SHIFT_WC_SUCCESS) {
			W.host[h].recv_flushed |= (uint8_t)(1u << q->r);
			q->lost = false;
		}
		srq_act(h);
		return false;
	}
	if (!shift_srq_done(&s->books, q->r, &wc->wr_id, now_if_needed(s))) {
		if (wc->status == SHIFT_WC_SUCCESS && !both_have_hung_on(q->r))
			violation(
				"%c: rail %u has put a message into a receive that it has not: %lx",
				'A' + h, q->r, (unsigned long)id);
		return false;
	}
	srq_act_unless_alone(h);
	return program_gets(s, h, wc->wr_id);
}

/* What RESET drops was fed before, and is free again (V24). */
static void feed_back(struct srq *s, struct qp *q)
{
	struct cqe c;

	while (qp_poll(q, &c, true))
		if (c.is_recv && s->used)
			shift_srq_back(&s->books, q->r, c.wr_id, W.now);
}

/* --- QPs (S4) --------------------------------------------------------------------------------- */

bool srq_join(unsigned int h, unsigned int r)
{
	struct srq *s = srq_of(h);
	struct host *me = &W.host[h];

	me->recv_flushed &= (uint8_t) ~(1u << r);
	if (me->joined & 1u << r)
		return true;
	if (!s->used || !shift_srq_join(&s->books, r, W.now)) {
		if (s->used)
			srq_act(h);
		return false;
	}
	me->joined |= (uint8_t)(1u << r);
	srq_act(h);
	return true;
}

/* It cannot accept packets any more. ended: by the program. */
void srq_leave(unsigned int h, unsigned int r, bool ended)
{
	struct srq *s = srq_of(h);
	struct host *me = &W.host[h];

	if (!s->used || !(me->joined & 1u << r))
		return;
	me->joined &= (uint8_t) ~(1u << r);
	/* One whose fence hung is believed not to write any more (7.26). */
	W.qp[h][r].lost = false;
	tr(h, "SRQ: the QP leaves NIC %lu, flushed %lu, ended %lu", r, me->recv_flushed >> r & 1,
	   ended, 0);
	shift_srq_leave(&s->books, r, !ended && !(me->recv_flushed >> r & 1), W.now);
	srq_act(h);
}

void srq_leave_others(unsigned int h, unsigned int r)
{
	for (unsigned int i = 0; i < W.rails; i++)
		if (i != r)
			srq_leave(h, i, false);
}

/* The program has ended its QP. One whose fence hangs leaves when that is done. */
void srq_closed(unsigned int h)
{
	struct host *me = &W.host[h];

	for (unsigned int r = 0; r < W.rails && me->cfg.srq; r++) {
		bool hangs = rail_at(r)->hung[h] && !nic_dead(h, r);

		if (hangs || !(me->joined & 1u << r))
			continue;
		feed_back(srq_of(h), &W.qp[h][r]);
		srq_leave(h, r, true);
	}
}

static bool is_gone(const struct host *peer)
{
	return peer->died || peer->p.closed || peer->state == SHIFT_ST_DEAD;
}

/* A connection that is over is destroyed by its program at last, also where its NIC is gone; and
 * so is one whose peer is gone, which may hold a receive of a message that never ends. */
static void bury(unsigned int h)
{
	const struct host *me = &W.host[h], *peer = &W.host[1 - h];

	if (!me->c || me->died || W.renewing)
		return;
	if (W.calm && is_gone(peer) && !me->p.close_asked && prog_done(h))
		host_close(h, SHIFT_CLOSE_DESTROY);
	if (!me->p.closed && me->state != SHIFT_ST_DEAD)
		return;
	for (unsigned int r = 0; r < W.rails; r++)
		if (nic_dead(h, r))
			srq_leave(h, r, true);
	if (me->p.closed) /* also where a fence has hung until now */
		srq_closed(h);
}

void srq_killed(unsigned int h)
{
	srq_of(h)->used = false;
}

/* How long an arming waits for its NIC to be emptied, or not to be shut any more. */
uint64_t srq_join_ns(unsigned int h)
{
	return srq_of(h)->books.cfg.evict_ns / 2;
}

bool srq_supplied(unsigned int h, unsigned int r)
{
	return !srq_of(h)->used || shift_srq_supplied(&srq_of(h)->books, r);
}

uint32_t srq_good(unsigned int h, unsigned int r)
{
	return srq_of(h)->used ? shift_srq_good(&srq_of(h)->books, r) : 0;
}

uint32_t srq_ghosts(unsigned int h, unsigned int r)
{
	return shift_srq_ghosts(&srq_of(h)->books, r);
}

void srq_look(unsigned int h, unsigned int r)
{
	if (!srq_of(h)->used)
		return;
	shift_srq_look(&srq_of(h)->books, r, W.now);
	srq_act(h);
}

/* --- the drainers ----------------------------------------------------------------------------- */

static void feed_nic(unsigned int h, unsigned int k)
{
	struct world *back = wp;

	for (uint32_t i = 0; i < conns && !W.failed; i++) {
		wp = &worlds[i];
		host_feed_nic(h, k);
	}
	wp = back;
}

static void drain_tells(struct srq *s, unsigned int k)
{
	struct srq_nic *n = &s->nic[k];

	shift_srq_drained(&s->books, k, n->told[--n->told_n], W.now);
}

static void drain_ends(struct srq *s, unsigned int h, unsigned int k, enum shift_srq_drain how)
{
	struct srq_nic *n = &s->nic[k];

	while (n->told_n)
		drain_tells(s, k);
	if (how == SHIFT_SRQ_RNR && rnd_below(&s->g, 4))
		feed_nic(h, k);
	n->draining = false;
	n->is_empty = how == SHIFT_SRQ_RNR;
	tr(h, "SRQ: the drain of NIC %lu ends, %lu", k, how, 0, 0);
	n->lost = 0;
	shift_srq_drain_ends(&s->books, k, how, W.now);
	check_missing(h, k);
	srq_act(h);
}

/* Of a message on the wire it may never be named what it took. */
static void drain_fails(struct srq *s, unsigned int h, unsigned int k)
{
	struct srq_nic *n = &s->nic[k];
	bool sent = n->sent || rnd_below(&s->g, 2);

	if (sent && n->n && !nic_dead(h, k) && srq_fault(s, 3)) {
		nic_gives(s, n);
		n->lost++;
	}
	drain_ends(s, h, k, sent ? SHIFT_SRQ_FAILED_SENT : SHIFT_SRQ_FAILED);
}

static void drain_takes(struct srq *s, struct srq_nic *n)
{
	uint32_t most = 1 + rnd_below(&s->g, 16);

	for (; most && n->drain && n->n && n->told_n < TOLD; most--, n->drain--)
		n->told[n->told_n++] = nic_gives(s, n).e.wr_id;
	n->sent = true;
}

/* Its messages go no further than the NIC, so that a cut cable does not matter; a link that is
 * admin down does (S6). */
static bool drainer_works(unsigned int h, unsigned int k)
{
	const struct rail *l = rail_at(k);

	return !l->dead[h] && !l->hung[h] && !l->admin_down[h];
}

static bool drain_may_end(const struct srq *s, unsigned int h, unsigned int k)
{
	return drainer_works(h, k) && s->nic[k].stuck <= W.now;
}

/* A QP there is not protected yet: it cannot be fenced, and nobody is asked to leave in vain (S18).
 */
static bool some_cannot_leave(unsigned int h, unsigned int k)
{
	for (uint32_t i = 0; i < conns; i++)
		if (worlds[i].host[h].joined & 1u << k && worlds[i].host[h].state == SHIFT_ST_SETUP)
			return true;
	return false;
}

static bool gives_back(const struct srq *s, unsigned int h, unsigned int k)
{
	if (!shift_srq_good(&s->books, k) && some_cannot_leave(h, k))
		return false;
	return drain_may_end(s, h, k);
}

/* No NIC that has receives can give them back (S18, S19), and those that none has are refused
 * (S22). */
bool srq_out_of_reach(unsigned int h)
{
	const struct srq *s = srq_of(h);

	if (!s->used || !shift_srq_total(&s->books))
		return false;
	for (unsigned int k = 0; k < W.rails; k++)
		if (s->books.nic[k].on && gives_back(s, h, k))
			return false;
	return !s->books.free || (s->bad_keys && !W.calm);
}

/* A NIC that cannot be emptied takes no QP (S6). */
bool srq_keeps_out(unsigned int h, unsigned int r)
{
	const struct srq *s = srq_of(h);

	return s->used && s->books.nic[r].state == SHIFT_SRQ_GHOSTS && !drain_may_end(s, h, r);
}

static void drain_step(struct srq *s, unsigned int h, unsigned int k)
{
	struct srq_nic *n = &s->nic[k];

	if (n->stuck > W.now) {
		srq_later(h, k, SRQ_DRAINS, n->stuck - W.now);
		return;
	}
	if (!drainer_works(h, k) || srq_fault(s, 40)) {
		drain_fails(s, h, k);
		return;
	}
	drain_takes(s, n);
	while (n->told_n && rnd_below(&s->g, 4))
		drain_tells(s, k);
	srq_act(h);
	if (!n->drain)
		drain_ends(s, h, k, SHIFT_SRQ_TOOK_ALL);
	else if (!n->n)
		drain_ends(s, h, k, SHIFT_SRQ_RNR);
	else
		srq_later(h, k, SRQ_DRAINS, rnd_range(&s->g, 20, 100) * NS_US);
}

/* --- events ----------------------------------------------------------------------------------- */

static void evict_qps(struct srq *s, unsigned int h, unsigned int k)
{
	struct world *back = wp;

	s->evict &= ~(1u << k);
	for (uint32_t i = 0; i < conns && !W.failed; i++) {
		wp = &worlds[i];
		if (W.host[h].joined & 1u << k)
			host_evict(h, k);
	}
	wp = back;
}

static void bury_all(unsigned int h)
{
	struct world *back = wp;

	for (uint32_t i = 0; i < conns && !W.failed; i++) {
		wp = &worlds[i];
		bury(h);
	}
	wp = back;
	srq_later(h, 0, SRQ_BURIES, 10 * NS_MS);
}

static void srq_tick(struct srq *s, unsigned int h)
{
	if (W.now < s->tick_at)
		return;
	s->tick_at = UINT64_MAX;
	srq_act(h);
}

void srq_event(const struct ev *e)
{
	struct srq *s = srq_of(e->h);
	const struct host *me = &W.host[e->h];

	if (!s->used)
		return;
	switch ((enum srq_step)e->x) {
	case SRQ_POSTS:
		if (!host_frozen(e->h, e, me->app_until))
			program_posts(s, e->h);
		return;
	case SRQ_DRAINS: drain_step(s, e->h, e->r); return;
	case SRQ_TICK: srq_tick(s, e->h); return;
	case SRQ_BURIES: bury_all(e->h); return;
	case SRQ_EVICTS:
		if (s->evict & 1u << e->r)
			evict_qps(s, e->h, e->r);
		return;
	}
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void srq_make(struct srq *s, unsigned int h, struct rng *g)
{
	static const uint32_t caps[] = {1, 1, 1, 2, 2, 3, 4, 8, 16, 64, 200, 1024, 4096};
	struct shift_srq_cfg cfg = {.sge_max = SRQ_SGES, .nics = (uint8_t)W.rails};
	size_t size;

	cfg.cap = caps[rnd_below(g, rnd_below(g, 20) ? 11 : 13)];
	cfg.turn_ns = rnd_range(g, 2, 8) * NS_MS;
	cfg.retry_ns = rnd_range(g, 2, 10) * NS_MS;
	cfg.evict_ns = rnd_range(g, 20, 80) * NS_MS;
	s->g.s = rnd(g);
	s->cut = (enum after_cut)rnd_below(g, CUT_KINDS);
	s->bad_keys = !rnd_below(g, 10);
	s->steady = rnd_below(g, 2);
	s->batch = 1 + rnd_below(g, rnd_below(g, 2) ? 1 : cfg.cap);
	s->late_ppm = rnd_below(g, 2) ? 0 : rnd_below(g, 600000);
	s->bufs = rnd_below(g, 8) ? cfg.cap : cfg.cap + rnd_below(g, cfg.cap + 1);
	s->tick_at = UINT64_MAX;
	s->post_armed = false;
	s->owned = s->evict = 0;
	for (uint32_t b = 0; b < s->bufs; b++) {
		s->buf[b] = (struct buffer){.conn = NO_CONN};
		s->own[s->owned++] = b;
	}
	for (unsigned int k = 0; k < RAILS; k++) {
		s->nic[k].head = s->nic[k].n = s->nic[k].drain = s->nic[k].told_n = 0;
		s->nic[k].lost = 0;
		s->nic[k].draining = s->nic[k].is_empty = false;
	}
	size = shift_srq_size(cfg.cap, SRQ_SGES);
	if (size > sizeof(books_mem[h]))
		violation("the books of an SRQ of %u are too large", cfg.cap);
	else
		memset(books_mem[h], 0, size);
	shift_srq_init(&s->books, books_mem[h], &cfg);
}

/* Which hosts have one, and how many connections are on it: few unless that is asked for, as each
 * costs time. The first connection has been configured; what it would be without an SRQ is not
 * changed. */
void srq_setup(const struct options *o)
{
	struct rng g = {o->seed ^ 0x5124a9e};
	uint32_t which = 1 + rnd_below(&g, 3);
	bool none = !o->srq && rnd_below(&g, 2), one = !o->srq && rnd_below(&g, 3);

	conns = 1;
	for (unsigned int h = 0; h < HOSTS; h++) {
		W.host[h].cfg.srq |= o->srq && which & 1u << h;
		W.host[h].cfg.srq &= !none;
		srqs[h].used = W.host[h].cfg.srq;
		if (srqs[h].used)
			srq_make(&srqs[h], h, &g);
	}
	if (one || (!srqs[0].used && !srqs[1].used))
		return;
	conns = rnd_below(&g, 4) ? 2 + rnd_below(&g, 3) : 1 + rnd_below(&g, CONNS);
	if (o->conns_max && conns > o->conns_max)
		conns = o->conns_max;
}

void srq_start(void)
{
	for (unsigned int h = 0; h < HOSTS; h++)
		if (srqs[h].used) {
			program_posts(&srqs[h], h);
			bury_all(h);
		}
}

static void dump_nic(const struct srq *s, unsigned int h, unsigned int k)
{
	const struct shift_srq_nic *n = &s->books.nic[k];

	printf("SRQ of %c, NIC %u: state %u live %u on %u cut %u maybe %u held %u doubt %u ghosts "
	       "%u, "
	       "really %u%s%s\n",
	       'A' + h, k, (unsigned int)n->state, n->live, n->on, n->cut, n->maybe, n->held,
	       n->doubt, n->ghosts, s->nic[k].n, n->draining ? ", draining" : "",
	       n->failed ? ", failed" : "");
}

void srq_dump(void)
{
	for (unsigned int h = 0; h < HOSTS; h++) {
		const struct srq *s = srq_of(h);

		if (!s->used)
			continue;
		printf("SRQ of %c: %u of %u, %u free, the program has %u\n", 'A' + h,
		       shift_srq_total(&s->books), s->books.cfg.cap, s->books.free, s->owned);
		for (unsigned int k = 0; k < W.rails; k++)
			dump_nic(s, h, k);
	}
}

/* Each receive is posted still, or was handed out: the books and the program agree. */
void srq_end(void)
{
	bool any = srqs[0].used || srqs[1].used;

	T.srqs += any;
	T.conns += any ? conns : 0;
	for (unsigned int h = 0; h < HOSTS && !W.failed; h++) {
		struct srq *s = srq_of(h);
		uint32_t posted = 0;

		if (!s->used)
			continue;
		for (uint32_t b = 0; b < s->bufs; b++)
			posted += s->buf[b].posted;
		if (posted != shift_srq_total(&s->books))
			violation("%c: %u receives are posted, the books have %u", 'A' + h, posted,
				  shift_srq_total(&s->books));
		for (unsigned int k = 0; k < W.rails; k++)
			check_missing(h, k);
#define ADD(name) T.srq.name += s->books.stats.name;
		SHIFT_SRQ_STATS(ADD)
#undef ADD
	}
}
