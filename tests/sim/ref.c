/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The oracle: it sees every packet that a NIC executes and knows which WR it belongs to, so that a
 * second execution, a gap or a wrong place is found at the very packet.
 *
 * After a fence that proves nothing (a dead NIC, an rq_psn that is not live) the design claims less
 * for what that host executes: two-sided WRs once and in order, one-sided WRs at least once.
 */
#include "tests/sim/sim.h"

/*
 * Where the fence proved nothing an atomic in doubt is given up rather than risked: with
 * lost_atomic_continue it completes and was perhaps never executed.
 */
void ref_skip_doubtful(unsigned int src, uint32_t upto)
{
	struct host *s = &W.host[src];

	while (s->cfg.lost_atomic_continue && s->p.nexec < upto &&
	       is_atomic(s->p.wr[s->p.nexec].op) && s->p.wr[s->p.nexec].doubtful) {
		s->p.nexec++;
		ref_skip_local(src, upto);
	}
}

/* A message that waits for a receive of an SRQ does, and a NIC that retries for ever, and so does
 * what is behind them. */
static bool outlives_quarantine(unsigned int dst)
{
	return W.host[dst].cfg.srq || W.host[1 - dst].retry_inf;
}

/* A packet of a WR that was executed to its end already. */
static void check_again(unsigned int dst, const struct pkt *p)
{
	const struct prog *s = &W.host[1 - dst].p;
	const struct ref_wr *w = &s->wr[p->seq];

	if (outlives_quarantine(dst) && (both_have_hung_on(p->r) || both_have_hung_on(w->by))) {
		known_limit(LIMIT_TWICE);
		return;
	}
	if (w->op == SHIFT_OP_READ) {
		if (p->seq < s->next_cqe && s->err_from == UINT32_MAX)
			violation("duplicate: READ %u of %c is executed again after its completion",
				  p->seq, 'B' - dst);
		return;
	}
	if (w->execs > w->allowed || is_atomic(w->op) || w->two_sided)
		violation("duplicate: %c executes WR %u of the peer again, next is %u", 'A' + dst,
			  p->seq, s->nexec);
}

/* A local operation leaves no trace at the peer: what is executed behind it proves it. */
void ref_skip_local(unsigned int src, uint32_t upto)
{
	struct prog *s = &W.host[src].p;

	while (s->nexec < upto && is_local(s->wr[s->nexec].op) && s->wr[s->nexec].execs)
		s->nexec++;
}

/* The NIC of src carries a local operation out. It may do so twice (7.20), but not after something
 * behind it was executed, or after it completed. What is executed once more without a proof begins
 * anew in this. */
void ref_local(unsigned int src, uint32_t seq)
{
	struct prog *s = &W.host[src].p;
	struct ref_wr *w = &s->wr[seq];
	bool may = seq >= s->next_cqe && seq >= (w->doubtful ? s->again : s->nexec);

	if (w->execs > w->allowed && !may)
		violation("%c: the local operation %u is carried out again", 'A' + src, seq);
	w->allowed += may && w->execs; /* what doubt allows comes on top of that */
	w->execs++;
}

/* The result of a READ or atomic of src is in its memory. */
void ref_back(unsigned int src, uint32_t seq)
{
	W.host[src].p.wr[seq].back = true;
}

/* A fenced WR may not begin before the results of all READs and atomics in front of it are here.
 * One that was given up (lost_atomic_continue) has none. */
static void check_fence(unsigned int src, uint32_t seq)
{
	const struct prog *s = &W.host[src].p;

	for (uint32_t i = s->fence_exec; i < seq; i++)
		if (!s->wr[i].back &&
		    (s->wr[i].op == SHIFT_OP_READ ||
		     (is_atomic(s->wr[i].op) && !W.host[src].cfg.lost_atomic_continue)))
			violation("%c: the fenced WR %u is executed before WR %u is complete",
				  'A' + src, seq, i);
}

/* The NIC begins to execute packet p of the other side at host dst. */
void ref_begin(unsigned int dst, const struct pkt *p)
{
	const struct host *me = &W.host[dst];
	const struct prog *s = &W.host[1 - dst].p;
	const struct qp *q = &W.qp[dst][p->r];

	ref_skip_local(1 - dst, p->seq);
	ref_skip_doubtful(1 - dst, p->seq);
	if (p->epoch != q->epoch)
		violation("packet of epoch %u executed by a QP armed for %u on rail %u of %c",
			  p->epoch, q->epoch, p->r, 'A' + dst);
	/* A NIC whose control path hangs cannot be fenced: for it the design claims less. */
	if ((me->p.closed || me->died || me->p.err_from != UINT32_MAX) &&
	    !rail_at(p->r)->hung[dst] && !me->fence[p->r].owed)
		violation("%c executes a packet after its program got the connection's end",
			  'A' + dst);
	if (s->wr[p->seq].fenced && p->seq == s->nexec)
		check_fence(1 - dst, p->seq);
	if (p->seq > s->nexec)
		violation("gap: %c executes WR %u of the peer, next is %u", 'A' + dst, p->seq,
			  s->nexec);
	if (p->seq < s->nexec)
		check_again(dst, p);
}

/*
 * Where the payload may go on. A WRITE: each cell once. What replays whole (messages, and in doubt
 * WRITEs) begins again: a message at its start, a WRITE where it was trimmed before. In doubt the
 * QP that had begun it may go on, too, if both NICs hang (7.26).
 */
static bool cell_is_next(const struct ref_wr *w, const struct qp *q, const struct pkt *p)
{
	if (p->off == w->cells)
		return true;
	if (p->first && p->off < w->cells)
		return w->two_sided ? p->off == 0 : w->allowed > 0;
	return !p->first && !w->two_sided && w->allowed > 0 && q->placed_seq == p->seq &&
	       q->placed_cells == p->off && both_have_hung();
}

/* Payload was placed. */
void ref_place(unsigned int dst, const struct pkt *p, uint64_t addr)
{
	struct ref_wr *w = &W.host[1 - dst].p.wr[p->seq];
	struct qp *q = &W.qp[dst][p->r];
	uint32_t i;

	for (i = 0; i < p->cells; i++)
		if (p->data[i] != stamp(1 - dst, p->seq, p->off + i))
			violation("WR %u of %c: wrong payload in cell %u", p->seq, 'B' - dst,
				  p->off + i);
	if (p->op != SHIFT_OP_SEND && p->op != SHIFT_OP_SEND_IMM && p->span &&
	    addr != addr_of(dst, M_DST, p->seq, p->off))
		violation("WR %u of %c: written to the wrong place", p->seq, 'B' - dst);
	if (!cell_is_next(w, q, p))
		violation("WR %u of %c: cell %u placed, next is %u", p->seq, 'B' - dst, p->off,
			  w->cells);
	w->cells = q->placed_cells = p->off + p->span;
	q->placed_seq = p->seq;
	/* The program sees the flag and clears it: a second WRITE would be seen again. */
	for (i = 0; i < p->cells && !w->two_sided; i++)
		*cell_at(addr + (uint64_t)i * CELL) = 0;
}

/* In order and at most once: the result is the same on every rail. */
static void execute_atomic(unsigned int dst, struct ref_wr *w)
{
	struct prog *s = &W.host[1 - dst].p;
	bool add = w->op == SHIFT_OP_FETCH_ADD;
	uint64_t *mem_word = &s->counter_mem[add];

	if (*word_at(addr_of(dst, M_ATM, add, 0)) != *mem_word)
		violation("%c: the word for atomics is %lx, should be %lx", 'A' + dst,
			  (unsigned long)*word_at(addr_of(dst, M_ATM, add, 0)),
			  (unsigned long)*mem_word);
	w->expect = *mem_word;
	if (add)
		*mem_word += w->compare_add;
	else if (*mem_word == w->compare_add)
		*mem_word = w->swap;
}

/* The last packet of a WR was executed. */
void ref_executed(unsigned int dst, const struct pkt *p)
{
	struct prog *s = &W.host[1 - dst].p;
	struct ref_wr *w = &s->wr[p->seq];

	if (p->op == SHIFT_OP_READ && !p->last)
		return;
	if (p->op != w->op ||
	    (p->imm != w->imm && (w->op == SHIFT_OP_SEND_IMM || w->op == SHIFT_OP_WRITE_IMM)))
		violation("WR %u of %c arrives with another opcode or immediate", p->seq,
			  'B' - dst);
	if (!is_atomic(p->op) && p->op != SHIFT_OP_READ && w->cells != cells_of(w->len))
		violation("WR %u of %c ends with %u of %u cells", p->seq, 'B' - dst, w->cells,
			  cells_of(w->len));
	if (is_atomic(p->op) && W.apart[dst] & 1u << p->r)
		violation("%c: an atomic is executed by rail %u, which is not atomic with rail 0",
			  'A' + dst, (unsigned int)p->r);
	if (is_atomic(p->op))
		execute_atomic(dst, w);
	w->by = p->r;
	if (p->seq == s->nexec && w->fenced)
		s->fence_exec = p->seq;
	if (p->seq == s->nexec)
		s->nexec++;
	if (p->seq >= s->again)
		s->again = p->seq + 1;
	s->two_exec += w->two_sided;
	outage_moved(1 - dst);
	w->late |= !w->execs && W.host[dst].p.closed;
	w->execs++;
	tr(dst, "nic: rail %lu executed WR %lu of the peer (opcode %lu, rq_psn now %lx)", p->r,
	   p->seq, p->op, W.qp[dst][p->r].rx_psn + W.qp[dst][p->r].rx);
}

/*
 * A message was executed and acknowledged, and its NIC died before it wrote the receive's CQE (A4):
 * for the receiver it never came. Its sender may count it, or send it again.
 */
void ref_unseen(unsigned int dst, const struct pkt *p)
{
	W.host[1 - dst].p.wr[p->seq].unseen = true;
	tr(dst, "nic: rail %lu executed WR %lu of the peer, and dies without a CQE", p->r, p->seq,
	   0, 0);
}

/* The cheap checks, after every event. */
void ref_step(void)
{
	unsigned int h;

	for (h = 0; h < HOSTS; h++) {
		const struct prog *p = &W.host[h].p;

		if (W.host[h].c && p->nexec > p->posted)
			violation("%c: more executed than posted", 'A' + h);
	}
}

/* The counts of a WR at the end of a schedule in which nothing ended early. */
static void check_count(unsigned int h, uint32_t i)
{
	const struct ref_wr *w = &W.host[h].p.wr[i];
	bool given_up = is_atomic(w->op) && w->doubtful && W.host[h].cfg.lost_atomic_continue;

	if (w->op == SHIFT_OP_READ || is_local(w->op))
		return;
	if (w->execs > 1 + w->allowed || (!w->execs && !given_up))
		violation("%c: WR %u executed %u times", 'A' + h, i, w->execs);
}

static void check_words(unsigned int h)
{
	const struct prog *p = &W.host[h].p;

	if (*word_at(addr_of(1 - h, M_ATM, 1, 0)) != p->counter_mem[1])
		violation("%c: the FETCH_ADD counter is wrong", 'A' + h);
	if (*word_at(addr_of(1 - h, M_ATM, 0, 0)) != p->counter_mem[0])
		violation("%c: the CMP_SWAP chain is broken", 'A' + h);
}

/* An atomic whose result is lost is not repeated, although nobody knows whether it was executed:
 * for who wants to go on it is over (7.18; seed 142024435: nothing was posted behind it). */
static bool was_given_up(const struct host *me, uint32_t i)
{
	const struct ref_wr *w = &me->p.wr[i];

	return is_atomic(w->op) && w->doubtful && me->cfg.lost_atomic_continue;
}

/* A QP that is over has given back all that was posted, unless it was reset or destroyed. */
static void check_flushed(unsigned int h)
{
	const struct host *me = &W.host[h];
	const struct prog *p = &me->p;

	if (!p->qp_err || (p->close_asked && p->how != SHIFT_CLOSE_ERR))
		return;
	for (uint32_t i = p->next_cqe; i < p->posted; i++)
		if (p->err_from != UINT32_MAX || p->wr[i].signaled ||
		    !(was_executed(p, i) || was_given_up(me, i)))
			violation("%c: WR %u never flushed, %u were posted", 'A' + h, i, p->posted);
	if (p->recv_done != p->recv_posted && !me->cfg.srq)
		violation("%c: %u of %u receives flushed", 'A' + h, p->recv_done, p->recv_posted);
}

static void end_of(unsigned int h)
{
	const struct host *me = &W.host[h], *peer = &W.host[1 - h];
	const struct prog *p = &me->p;
	uint32_t i;

	check_words(h);
	if (!me->c || me->died)
		return;
	if (shift_conn_stats(me->c)->overflow)
		violation("%c: the core lost actions", 'A' + h);
	ref_skip_local(h, p->posted);
	check_flushed(h);
	if (p->qp_err || p->close_asked || peer->died || peer->p.close_asked || peer->p.qp_err)
		return; /* it ended early, and the reason was judged when it did */
	if (p->next_cqe < p->total && p->posted == p->total) {
		for (i = p->next_cqe; i < p->total; i++)
			if (p->wr[i].signaled)
				violation("%c: WR %u never completed", 'A' + h, i);
	}
	if (p->nexec != p->total)
		violation("%c: %u of %u WRs executed at the end", 'A' + h, p->nexec, p->total);
	if (peer->p.recv_done != p->two_sided)
		violation("%c sent %u messages, %u receives completed", 'A' + h, p->two_sided,
			  peer->p.recv_done);
	for (i = 0; i < p->total; i++)
		check_count(h, i);
}

/* A life ends: what was executed in it is in memory, whatever the programs were told. */
void ref_life(void)
{
	check_words(0);
	check_words(1);
}

void ref_end(void)
{
	end_of(0);
	end_of(1);
}
