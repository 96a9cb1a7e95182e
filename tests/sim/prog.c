/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program on each side: a random workload, and what it may expect of its completions. */
#include <string.h>

#include "tests/sim/sim.h"

static const uint8_t ops[] = {
	SHIFT_OP_WRITE, SHIFT_OP_WRITE_IMM, SHIFT_OP_SEND,	SHIFT_OP_SEND_IMM,
	SHIFT_OP_READ,	SHIFT_OP_CMP_SWAP,  SHIFT_OP_FETCH_ADD, SHIFT_OP_LOCAL_INV,
};

/* --- making WRs ------------------------------------------------------------------------------ */

static uint8_t pick_op(struct prog *p, struct rng *g)
{
	uint32_t i, sum = 0, x;

	for (i = 0; i < sizeof(ops); i++)
		sum += p->mix[ops[i]];
	x = rnd_below(g, sum);
	for (i = 0; x >= p->mix[ops[i]]; i++)
		x -= p->mix[ops[i]];
	return ops[i];
}

static uint32_t pick_len(const struct prog *p, struct rng *g, uint8_t op)
{
	uint32_t cells;

	if (W.huge && op == SHIFT_OP_WRITE && rnd_below(g, 4))
		return 1u << (28 + rnd_below(g, 2)); /* at most what 7.38 allows */

	if (is_atomic(op))
		return 8;
	if (is_local(op) || rnd_below(g, 20) == 0)
		return 0;
	cells = 1 + rnd_below(g, rnd_ppm(g, p->big_ppm) ? SLOT_CELLS : 4);
	/* A stamp has four bytes, and so has the shortest last cell. */
	return cells * CELL - (rnd_below(g, 3) ? 0 : rnd_below(g, CELL - 3));
}

/* Cut a buffer into up to max elements at cell boundaries. */
static uint32_t split(struct rng *g, uint64_t addr, uint32_t len, uint32_t max,
		      struct shift_sge *sge)
{
	uint32_t n = 0;

	if (!len)
		return rnd_below(g, 2) ? 0 : (sge[0] = (struct shift_sge){addr, 0, 1}, 1);
	while (len) {
		uint32_t part = len;

		if (n + 1 < max && len > CELL && rnd_below(g, 3) == 0)
			part = CELL * (1 + rnd_below(g, (len - 1) / CELL));
		sge[n].addr = addr;
		sge[n].length = part;
		sge[n++].lkey = 1;
		addr += part;
		len -= part;
	}
	return n;
}

static void fill_source(unsigned int h, uint32_t seq, const struct ref_wr *w)
{
	bool in = w->op == SHIFT_OP_READ;
	uint32_t i;

	if (is_atomic(w->op))
		*word_at(addr_of(h, M_SRC, seq, 0)) = UINT64_MAX;
	else
		for (i = 0; i < cells_of(w->len) && !is_huge(w->len); i++)
			*cell_at(addr_of(h, M_SRC, seq, i)) = in ? 0 : stamp(h, seq, i);
}

/* The peer's program prepares what this READ is to find. */
static void fill_read(unsigned int h, uint32_t seq, const struct ref_wr *w)
{
	for (uint32_t i = 0; i < cells_of(w->len); i++)
		*cell_at(addr_of(1 - h, M_RDS, seq, i)) = read_stamp(h, seq, i);
}

static void set_remote(unsigned int h, struct shift_wr *wr, uint32_t seq)
{
	struct prog *p = &W.host[h].p;

	if (wr->opcode == SHIFT_OP_READ) {
		wr->remote_addr = addr_of(1 - h, M_RDS, seq, 0);
		fill_read(h, seq, &p->wr[seq]);
	} else if (wr->opcode == SHIFT_OP_FETCH_ADD) {
		wr->remote_addr = addr_of(1 - h, M_ATM, 1, 0);
		wr->compare_add = seq + 1;
	} else if (wr->opcode == SHIFT_OP_CMP_SWAP) {
		wr->remote_addr = addr_of(1 - h, M_ATM, 0, 0);
		wr->compare_add = p->counter_cas;
		wr->swap = p->counter_cas = p->counter_cas + seq + 1;
	} else {
		wr->remote_addr = addr_of(1 - h, M_DST, seq, 0);
	}
}

/* What the next WR is, and how it is posted. Another one like the last is what most programs post,
 * and what lib/core/fast.c is for. */
static void pick(struct prog *p, struct rng *g, struct ref_wr *w, struct shift_wr *wr)
{
	bool again = p->run_len && p->posted && rnd_ppm(g, p->run_ppm);

	w->on_nic = w->back = false;
	w->execs = 0;
	w->op = again ? p->run_op : pick_op(p, g);
	w->len = again ? p->run_len : pick_len(p, g, w->op);
	wr->flags = again ? p->run_flags : rnd_ppm(g, p->fence_ppm) ? SHIFT_F_FENCE : 0;
	if (!again && w->op != SHIFT_OP_READ && !is_atomic(w->op) && !is_local(w->op) &&
	    w->len <= INLINE_CELLS * CELL && rnd_ppm(g, p->inline_ppm))
		wr->flags |= SHIFT_F_INLINE;
	p->run_op = w->op;
	p->run_len = wr->flags & SHIFT_F_INLINE || is_atomic(w->op) ? 0 : w->len;
	p->run_flags = wr->flags;
	wr->opcode = w->op;
}

/* All READs before that WR are done when the peer gets WR seq. */
static uint32_t reads_done(const struct prog *p, uint32_t seq)
{
	uint32_t upto = p->wr[seq].fenced ? seq : p->next_cqe;

	return seq && p->wr[seq - 1].reads > upto ? p->wr[seq - 1].reads : upto;
}

static bool pick_signal(unsigned int h, uint32_t seq)
{
	const struct prog *p = &W.host[h].p;
	uint32_t since = p->since_signal + 1;

	if (since >= W.host[h].cfg.sq_cap / 2 || seq + 1 == p->total || W.host[h].cfg.sq_sig_all)
		return true;
	return p->run_ppm ? since >= p->sig_each : rnd_ppm(&W.g_prog[h], p->sig_ppm);
}

static bool post_one(unsigned int h)
{
	struct prog *p = &W.host[h].p;
	struct rng *g = &W.g_prog[h];
	uint32_t seq = p->posted, i;
	struct ref_wr *w = &p->wr[seq];
	struct shift_sge sge[SGES];
	struct shift_wr wr = {.wr_id = seq, .rkey = 1, .sge = sge};
	uint64_t cas = p->counter_cas;
	uint32_t since = p->since_signal;

	pick(p, g, w, &wr);
	w->two_sided = two_sided(wr.opcode);
	w->fenced = wr.flags & SHIFT_F_FENCE;
	w->reads = reads_done(p, seq);
	w->bad = w->unseen = false;
	w->imm = wr.imm = (uint32_t)rnd(g);
	w->signaled = pick_signal(h, seq);
	p->since_signal = w->signaled ? 0 : since + 1;
	if (w->signaled && !(W.host[h].cfg.sq_sig_all && rnd_below(g, 2)))
		wr.flags |= SHIFT_F_SIGNALED;
	wr.num_sge = split(g, addr_of(h, M_SRC, seq, 0), w->len,
			   p->run_ppm || is_huge(w->len) ? 1 : SGES, sge);
	fill_source(h, seq, w);
	set_remote(h, &wr, seq);
	w->compare_add = wr.compare_add;
	w->swap = wr.swap;
	if (w->op == SHIFT_OP_READ && rnd_ppm(g, p->bad_ppm)) {
		wr.rkey = RKEY_BAD;
		w->bad = true;
	}
	p->posted++;
	p->two_sided += w->two_sided;
	if (!host_post(h, &wr, seq)) {
		p->posted--;
		p->two_sided -= w->two_sided;
		p->counter_cas = cas;
		p->since_signal = since;
		return false;
	}
	if (wr.flags & SHIFT_F_INLINE) /* the buffer is the program's again at once */
		for (i = 0; i < cells_of(w->len); i++)
			*cell_at(addr_of(h, M_SRC, seq, i)) = 0xdeadbeef;
	return true;
}

static void arm_post(unsigned int h, uint64_t ns)
{
	if (W.host[h].post_armed)
		return;
	W.host[h].post_armed = true;
	ev_add(W.now + ns, EV_POST, h, 0, 0);
}

static bool over(unsigned int h)
{
	const struct prog *p = &W.host[h].p;

	return p->qp_err || p->close_asked || W.host[h].died || p->err_from != UINT32_MAX;
}

static void post(unsigned int h)
{
	struct prog *p = &W.host[h].p;
	uint32_t n = 1 + rnd_below(&W.g_prog[h], p->burst);

	while (n-- && !over(h) && !W.failed && p->posted < p->total &&
	       p->posted - p->retired < W.host[h].cfg.sq_cap)
		if (!post_one(h))
			break;
	if (!over(h) && p->posted < p->total && p->posted - p->retired < W.host[h].cfg.sq_cap)
		arm_post(h, 1 + rnd(&W.g_prog[h]) % p->gap_ns);
}

static void arm_recv(unsigned int h)
{
	struct host *me = &W.host[h];
	struct rng *g = &W.g_prog[h];

	if (me->recv_armed || over(h) || me->cfg.srq) /* srq.c posts to an SRQ */
		return;
	me->recv_armed = true;
	ev_add(W.now + (rnd_ppm(g, me->p.late_ppm) ? rnd(g) % (2 * NS_MS) : rnd_below(g, 20000)),
	       EV_RECV, h, 0, 0);
}

static void recv(unsigned int h)
{
	struct prog *p = &W.host[h].p;
	struct rng *g = &W.g_prog[h];
	uint32_t n = 1 + rnd_below(g, W.host[h].cfg.rq_cap);

	while (n-- && !over(h) && !W.failed &&
	       p->recv_posted - p->recv_done < W.host[h].cfg.rq_cap) {
		struct shift_sge sge[2];
		struct shift_recv_wr wr = {.wr_id = p->recv_posted, .sge = sge, .num_sge = 1};
		uint32_t cut = rnd_below(g, 3) ? SLOT_BYTES
					       : CELL * (1 + rnd_below(g, SLOT_CELLS - 2));

		sge[0] = (struct shift_sge){addr_of(h, M_RCV, p->recv_posted, 0), cut, 1};
		if (cut < SLOT_BYTES) {
			sge[1] = (struct shift_sge){addr_of(h, M_RCV, p->recv_posted, cut / CELL),
						    SLOT_BYTES - cut, 1};
			wr.num_sge = 2;
		}
		p->recv_posted++;
		if (!host_recv(h, &wr)) {
			p->recv_posted--;
			arm_recv(h);
			return;
		}
	}
}

void prog_event(const struct ev *e)
{
	struct host *me = &W.host[e->h];

	if (me->died || host_frozen(e->h, e, me->app_until))
		return;
	if (e->type == EV_POST) {
		me->post_armed = false;
		post(e->h);
	} else if (e->type == EV_RECV) {
		me->recv_armed = false;
		recv(e->h);
		if (me->p.recv_posted - me->p.recv_done < me->cfg.rq_cap / 2)
			arm_recv(e->h);
	} else if (!me->p.close_asked) {
		uint32_t how = rnd_below(&W.g_prog[e->h], 3);

		host_close(e->h, W.renewing && !how ? SHIFT_CLOSE_RESET : (enum shift_close)how);
	}
}

/* --- completions
 * ---------------------------------------------------------------------------------- */

/* The peer's message says that its READs are done: their memory is used for something else. A READ
 * that is asked again now would bring what the program must not see. */
static void reuse_memory(unsigned int h, const struct ref_wr *w)
{
	struct prog *peer = &W.host[1 - h].p;

	for (; peer->reused < w->reads; peer->reused++) {
		uint32_t seq = peer->reused;

		if (peer->wr[seq].op != SHIFT_OP_READ || seq + SLOTS < peer->posted)
			continue;
		for (uint32_t i = 0; i < cells_of(peer->wr[seq].len); i++)
			*cell_at(addr_of(h, M_RDS, seq, i)) = ~read_stamp(1 - h, seq, i);
	}
}

static void recv_wc(unsigned int h, const struct shift_wc *wc, const struct cqe *c)
{
	struct prog *p = &W.host[h].p, *peer = &W.host[1 - h].p;
	const struct ref_wr *w;
	uint64_t buf = W.host[h].cfg.srq ? srq_buffer(h, wc->wr_id)
					 : addr_of(h, M_RCV, p->recv_done, 0);
	uint32_t i, seq;

	if (!W.host[h].cfg.srq && wc->wr_id != p->recv_done)
		violation("%c: receive %lu completes, %u is next", 'A' + h,
			  (unsigned long)wc->wr_id, p->recv_done);
	p->recv_done++;
	if (wc->status != SHIFT_WC_SUCCESS) {
		p->recv_err = true;
		cause_recv_error(h, wc);
		return;
	}
	if (p->recv_err)
		violation("%c: a receive succeeds after a flushed one", 'A' + h);
	while (p->next_two < peer->posted && !peer->wr[p->next_two].two_sided)
		p->next_two++;
	seq = p->next_two++;
	w = &peer->wr[seq];
	if (seq >= peer->nexec)
		violation("%c: receive completes for WR %u that was not executed", 'A' + h, seq);
	if (c && (c->seq != seq || c->byte_len != w->len))
		violation("%c: receive %u got WR %u of %u bytes, should be WR %u of %u", 'A' + h,
			  p->recv_done - 1, c->seq, c->byte_len, seq, w->len);
	if (wc->byte_len != w->len ||
	    wc->opcode != (w->op == SHIFT_OP_WRITE_IMM ? WC_RECV_IMM : SHIFT_WC_RECV))
		violation("%c: receive %u says %u bytes, opcode %u", 'A' + h, p->recv_done - 1,
			  wc->byte_len, wc->opcode);
	if (c && w->op != SHIFT_OP_SEND && c->imm != w->imm)
		violation("%c: receive %u has a wrong immediate", 'A' + h, p->recv_done - 1);
	for (i = 0; w->op != SHIFT_OP_WRITE_IMM && i < cells_of(w->len); i++)
		if (*cell_at(buf + (uint64_t)i * CELL) != stamp(1 - h, seq, i)) {
			violation("%c: message %u has a wrong payload in cell %u", 'A' + h, seq, i);
			break;
		}
	reuse_memory(h, w);
	arm_recv(h);
}

/* What a completion says besides its wr_id. The opcode of an error is undefined. */
static void check_wc(unsigned int h, const struct ref_wr *w, const struct shift_wc *wc)
{
	if (wc->opcode != wc_opcode(w->op))
		violation("%c: WR %lu completes with opcode %u instead of %u", 'A' + h,
			  (unsigned long)wc->wr_id, wc->opcode, wc_opcode(w->op));
	if ((w->op == SHIFT_OP_READ || is_atomic(w->op)) && wc->byte_len != w->len)
		violation("%c: WR %lu completes with %u bytes instead of %u", 'A' + h,
			  (unsigned long)wc->wr_id, wc->byte_len, w->len);
}

/* An atomic given up in doubt, or lost, completes without a result; the core has counted it. */
static void check_atomic(unsigned int h, uint32_t seq)
{
	struct host *me = &W.host[h];
	const struct ref_wr *w = &me->p.wr[seq];
	uint64_t got = *word_at(addr_of(h, M_SRC, seq, 0));

	if (got == UINT64_MAX && me->cfg.lost_atomic_continue &&
	    ++me->p.lost <= shift_conn_stats(me->c)->lost_atomics)
		return;
	if (!w->execs)
		violation("%c: atomic %u completes with a result, and was not executed", 'A' + h,
			  seq);
	if (got != w->expect)
		violation("%c: atomic %u returned %lx, should be %lx", 'A' + h, seq,
			  (unsigned long)got, (unsigned long)w->expect);
}

static void check_data(unsigned int h, uint32_t seq)
{
	const struct host *me = &W.host[h];
	const struct ref_wr *w = &me->p.wr[seq];
	uint32_t i;

	for (i = 0; w->op == SHIFT_OP_READ && i < cells_of(w->len); i++) {
		uint32_t got = *cell_at(addr_of(h, M_SRC, seq, i)), want = read_stamp(h, seq, i);

		/* Asked again in doubt: what was executed behind it proved nothing (7.37). */
		if (got == want || (got == ~want && w->doubtful))
			continue;
		violation("%c: READ %u completed %s (cell %u)", 'A' + h, seq,
			  got == ~want ? "with what was written after it" : "without its data", i);
		return;
	}
	if (is_atomic(w->op))
		check_atomic(h, seq);
}

/* All up to this one. */
static bool were_executed(const struct prog *p, uint32_t seq)
{
	for (uint32_t i = p->nexec; i <= seq; i++)
		if (!was_executed(p, i))
			return false;
	return true;
}

static void send_error(unsigned int h, uint32_t seq, const struct shift_wc *wc)
{
	struct prog *p = &W.host[h].p;

	cause_send_error(h, seq, wc, p->err_from == UINT32_MAX);
	if (p->err_from == UINT32_MAX)
		p->err_from = seq;
	if (seq != p->next_cqe)
		violation("%c: WR %u flushes, %u is next", 'A' + h, seq, p->next_cqe);
}

void prog_wc(unsigned int h, const struct shift_wc *wc, const struct cqe *c)
{
	struct prog *p = &W.host[h].p;
	uint32_t seq = (uint32_t)wc->wr_id, i;

	tr(h, "program gets completion: wr_id %lu status %lu receive %lu, by the core %lu",
	   wc->wr_id, wc->status, wc->is_recv, !c);
	if (p->closed)
		violation("%c: completion after destroy returned", 'A' + h);
	outage_moved(h);
	if (wc->is_recv) {
		recv_wc(h, wc, c);
		return;
	}
	if (wc->wr_id >= p->posted || wc->wr_id < p->next_cqe) {
		violation("%c: completion of WR %lu, next is %u of %u posted", 'A' + h,
			  (unsigned long)wc->wr_id, p->next_cqe, p->posted);
		return;
	}
	if (wc->status == SHIFT_WC_SUCCESS && p->err_from != UINT32_MAX)
		violation("%c: WR %u succeeds after an error", 'A' + h, seq);
	if (wc->status == SHIFT_WC_SUCCESS && !p->wr[seq].signaled)
		violation("%c: completion of the unsignaled WR %u", 'A' + h, seq);
	for (i = p->next_cqe; i < seq; i++) {
		if (p->wr[i].signaled && p->err_from == UINT32_MAX)
			violation("%c: WR %u completes before the signaled WR %u", 'A' + h, seq, i);
		check_data(h, i);
	}
	if (wc->status != SHIFT_WC_SUCCESS && p->err_from == UINT32_MAX)
		p->next_cqe = seq;
	if (wc->status == SHIFT_WC_SUCCESS) {
		check_wc(h, &p->wr[seq], wc);
		ref_skip_local(h, seq + 1);
		ref_skip_doubtful(h, seq + 1);
	}
	if (wc->status != SHIFT_WC_SUCCESS)
		send_error(h, seq, wc);
	else if (!were_executed(p, seq))
		violation("%c: WR %u completes and was not executed (%u were)", 'A' + h, seq,
			  p->nexec);
	else
		check_data(h, seq);
	p->next_cqe = p->retired = seq + 1;
	if (p->posted < p->total)
		arm_post(h, 1 + rnd(&W.g_prog[h]) % p->gap_ns);
}

/* --- begin and end
 * ---------------------------------------------------------------------------------- */

/* Is a completion still to come? An unsignaled WR that succeeds has none. */
bool prog_owed(const struct prog *p)
{
	uint32_t i;

	for (i = p->next_cqe; i < p->posted; i++)
		if (p->wr[i].signaled)
			return true;
	return false;
}

bool prog_done(unsigned int h)
{
	const struct host *me = &W.host[h], *peer = &W.host[1 - h];
	const struct prog *p = &me->p;

	if (me->died || p->closed)
		return true;
	if (p->qp_err)
		return !prog_owed(p);
	if (p->close_asked || p->next_cqe != p->posted || p->posted != p->total)
		return false;
	if (over(1 - h))
		return true;
	return peer->p.posted == peer->p.total && p->recv_done >= peer->p.two_sided;
}

void prog_setup(unsigned int h, struct rng *g)
{
	struct prog *p = &W.host[h].p;
	bool all = rnd_below(g, 3) == 0;
	uint32_t i, sum = 0;

	p->total = 20 + rnd_below(g, 100);
	if (conns > 1) /* they have as much to do as one alone, and wait for each other */
		p->total = 8 + p->total / conns;
	if (W.opt.wrs_max && p->total > W.opt.wrs_max)
		p->total = W.opt.wrs_max;
	p->err_from = UINT32_MAX;
	for (i = 0; i < sizeof(ops); i++) {
		p->mix[ops[i]] = all || rnd_below(g, 2) ? 1 + rnd_below(g, 10) : 0;
		if ((is_atomic(ops[i]) || is_local(ops[i])) && rnd_below(g, 3))
			p->mix[ops[i]] = 0;
		if (W.opt.no_ops & 1u << ops[i])
			p->mix[ops[i]] = 0;
		sum += p->mix[ops[i]];
	}
	if (W.planned && !(W.opt.no_ops & 1u << SHIFT_OP_FETCH_ADD)) {
		p->mix[SHIFT_OP_FETCH_ADD] = 10;
		sum += 10;
	}
	if (!sum)
		p->mix[W.opt.no_ops & 1 ? SHIFT_OP_SEND : SHIFT_OP_WRITE] = 1;
	p->sig_ppm = rnd_below(g, 3) ? rnd_below(g, 1000000) : 1000000;
	p->inline_ppm = rnd_below(g, 500000);
	if (W.huge) { /* few signals, so that the core must make some in secret */
		p->mix[SHIFT_OP_WRITE] += W.opt.no_ops & 1 ? 0 : 20;
		p->sig_ppm = rnd_below(g, 100000);
	}
	p->fence_ppm = rnd_below(g, 3) ? 50000 : rnd_below(g, 500000);
	p->run_ppm = rnd_below(g, 2) ? 0 : 700000 + rnd_below(g, 300000);
	p->sig_each = 1 + rnd_below(g, rnd_below(g, 3) ? W.host[h].cfg.sq_cap / 2 : 1);
	p->big_ppm = rnd_below(g, 800000);
	if (rnd_below(g, 3) == 0) { /* long WRITEs: what a fault can cut inside */
		p->mix[SHIFT_OP_WRITE] += W.opt.no_ops & 1 ? 0 : 20;
		p->big_ppm = 1000000;
	}
	if (W.host[1 - h].cfg.srq &&
	    rnd_below(g, 4)) { /* the same of SENDs, which hold a receive */
		p->mix[SHIFT_OP_SEND] += W.opt.no_ops & 1u << SHIFT_OP_SEND ? 0 : 30;
		p->big_ppm = 700000;
	}
	p->late_ppm = rnd_below(g, 2) ? 0 : rnd_below(g, 600000);
	p->bad_ppm = rnd_below(g, 50) ? 0 : 30000;
	p->refuse_ppm = rnd_below(g, 8) ? 0 : 20000;
	p->burst = rnd_below(g, 3) ? 1 + rnd_below(g, 8) : W.host[h].cfg.sq_cap;
	if (W.planned) /* so that some atomic is always under way */
		p->burst = 1 + rnd_below(g, 2);
	p->gap_ns = 1 + rnd(g) % ((uint64_t)(p->burst + 1) * 2 * NS_MS);
}

void prog_start(unsigned int h)
{
	if (!W.host[h].cfg.srq)
		recv(h);
	arm_post(h, rnd_below(&W.g_prog[h], 100000));
}
