/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* COMMIT: which WRs were executed, and what becomes of the rest (doc/protocol.md, rules 10-13). */
#include <errno.h>

#include "lib/core/conn_int.h"

/* What the peer's report says about our log. */
struct verdict {
	uint64_t first;	  /* oldest WR not acknowledged */
	uint64_t end;	  /* index after the newest executed WR */
	uint64_t partial; /* packets of the WR in part that were placed */
	uint64_t in_part; /* ... and that WR, or NEVER */
	bool by_count;	  /* decided by the receive count alone */
};

/* WRs that need a receive and are not known to have had it. */
static uint64_t two_sided(const struct shift_conn *c, uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t i = from; i < to; i++) {
		const struct shift_wr_entry *e = shift_sendlog_at(&c->sq, i);

		n += e->state != SHIFT_WR_DONE && shift_wr_two_sided(e->opcode);
	}
	return n;
}

/* Two-sided WRs since connect that were executed, if all before index end were. */
static uint64_t two_sided_before(const struct shift_conn *c, uint64_t end)
{
	return c->sq.two_posted - two_sided(c, end, c->sq.head);
}

/* Rules 10 and 11: the PSN, and the WR that it names. 0, -EPROTO, -ERANGE. */
static int by_psn(const struct shift_conn *c, const struct shift_msg *m, struct verdict *v)
{
	const struct shift_sendlog *l = &c->sq;
	uint64_t posted = shift_sendlog_cum_sent(l);
	uint64_t acked = shift_sendlog_cum_before(l, v->first);
	uint32_t psn = c->tx_psn;
	uint64_t k;

	if (m->rep_epoch > c->lastc)
		return -EPROTO;
	if (m->rep_epoch == c->lastc)
		psn = m->rep_psn;
	if (shift_psn_unwrap(psn, c->tx_psn, acked, posted, &k))
		return -ERANGE;
	v->end = v->first;
	for (uint64_t i = v->first; i < l->sent; i++) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, i);
		uint32_t n = shift_wr_packets(e, l->mtu);

		if (e->state != SHIFT_WR_PENDING)
			continue;
		if (e->cum > k) {
			v->partial = k > e->cum - n ? k - (e->cum - n) : 0;
			v->in_part = v->partial ? i : NEVER;
			v->end = v->partial ? i : v->end;
			return 0;
		}
		if (n) /* a local operation leaves no trace: only a later packet proves it */
			v->end = i + 1;
	}
	return 0;
}

/* Rule 12: both counts of receives must agree; below ours, an acknowledged message was lost. */
static int cross_check(const struct shift_conn *c, const struct shift_msg *m,
		       const struct verdict *v)
{
	if (!m->recv_valid)
		return 0;
	return two_sided_before(c, v->end) == m->recv_cum ? 0 : -ERANGE;
}

/* Where rq_psn is not live (rule 11): two-sided WRs by the receive count, the rest at least once.
 */
static int by_count(struct shift_conn *c, const struct shift_msg *m, struct verdict *v)
{
	uint64_t have = two_sided_before(c, v->first);
	uint64_t i;

	v->by_count = true;
	v->end = v->first;
	if (!m->recv_valid) /* no number at all: fine only if no receive is at stake (7.19) */
		return two_sided(c, v->first, c->sq.sent) ? -ERANGE : 0;
	if (m->recv_cum < have)
		return -ERANGE;
	for (i = v->first; i < c->sq.sent && have < m->recv_cum; i++) {
		have += two_sided(c, i, i + 1);
		v->end = i + 1;
	}
	return have == m->recv_cum ? 0 : -ERANGE;
}

/* 0; -EPROTO or -ERANGE: the proof fails and nothing may be completed or replayed. */
static int judge_log(struct shift_conn *c, const struct shift_msg *m, struct verdict *v)
{
	int err;

	*v = (struct verdict){.first = c->sq.scan, .end = c->sq.scan, .in_part = NEVER};
	if (!c->cfg.exactly_once)
		return 0;
	if (m->fence != SHIFT_FENCE_SURE)
		return by_count(c, m, v);
	err = by_psn(c, m, v);
	return err ? err : cross_check(c, m, v);
}

/* Held completions wait for this WR: it must have a completion, at least for us (7.8). */
static void watch_wr(struct shift_conn *c, struct shift_wr_entry *e)
{
	if (shift_sendlog_signaled(&c->sq, e))
		return;
	e->flags |= SHIFT_F_SECRET;
	c->sq.sig_posted++;
	c->stats.secret_signals++;
}

/*
 * Others may wait for the WRs that are posted now: the errors that follow a lost atomic, and WRs
 * that are finished already (an atomic given up in doubt). So the last WR must have a completion.
 */
static void watch_last(struct shift_conn *c, uint64_t end)
{
	struct shift_wr_entry *last = NULL;
	bool waited_for = c->sq.lost != NEVER;

	while (end-- > c->sq.tail) {
		struct shift_wr_entry *e = shift_sendlog_at(&c->sq, end);

		if (e->state != SHIFT_WR_PENDING)
			waited_for = true;
		else if (!last)
			last = e;
	}
	if (last && waited_for)
		watch_wr(c, last);
}

/* Has our NIC begun a WR with the fence flag here? i: in the prefix, or the WR in part. */
static bool fence_begun(const struct shift_conn *c, uint64_t i)
{
	const struct shift_wr_entry *e = shift_sendlog_at(&c->sq, i);

	return e->state == SHIFT_WR_PENDING && e->flags & SHIFT_F_FENCE;
}

/*
 * Index of the newest WR with the fence flag that our NIC has begun: the peer has executed a packet
 * of it, or of one behind it if it is a local operation. Our NIC did not begin it before the READs
 * and atomics before it were complete: their results are here, whether their completions came or
 * not (7.37). Without one: first.
 */
static uint64_t newest_fence(const struct shift_conn *c, const struct verdict *v)
{
	if (v->in_part != NEVER && fence_begun(c, v->in_part))
		return v->in_part;
	for (uint64_t i = v->end; i > v->first; i--)
		if (fence_begun(c, i - 1))
			return i - 1;
	return v->first;
}

/* An executed WR whose completion never came. has_result: but a READ or atomic has its result.
 * Returns false at an atomic whose result is lost. */
static bool settle_executed(struct shift_conn *c, uint64_t i, bool has_result)
{
	struct shift_wr_entry *e = shift_sendlog_at(&c->sq, i);

	if (e->state != SHIFT_WR_PENDING)
		return true;
	if (e->opcode == SHIFT_OP_READ && !has_result) {
		c->stats.reissued_reads++; /* stays PENDING: it holds what comes after it */
		watch_wr(c, e);
		return true;
	}
	if (shift_wr_atomic(e->opcode) && !has_result) {
		c->stats.lost_atomics++;
		if (!c->cfg.lost_atomic_continue) {
			e->state = SHIFT_WR_LOST;
			c->sq.lost = i;
			return false;
		}
	}
	e->state = SHIFT_WR_DONE;
	c->stats.proved++;
	return true;
}

static void settle_partial(struct shift_conn *c, const struct verdict *v)
{
	struct shift_wr_entry *e = shift_sendlog_at(&c->sq, v->in_part);

	if (e->opcode == SHIFT_OP_WRITE) {
		c->stats.trimmed++;
		e->trim += (uint32_t)(v->partial * c->sq.mtu);
	} else if (e->opcode != SHIFT_OP_READ) {
		c->stats.replayed_partial++;
	}
}

/*
 * At-least-once: one-sided WRs up to the next unexecuted two-sided one may have been executed.
 * An atomic among them must not be repeated: it is treated as lost (7.18).
 */
static uint64_t settle_doubt(struct shift_conn *c, const struct verdict *v)
{
	for (uint64_t i = v->end; i < c->sq.sent; i++) {
		struct shift_wr_entry *e = shift_sendlog_at(&c->sq, i);

		if (e->state != SHIFT_WR_PENDING)
			continue;
		if (shift_wr_two_sided(e->opcode))
			break;
		if (shift_wr_atomic(e->opcode) && !settle_executed(c, i, false))
			return i;
		c->stats.maybe_twice += e->opcode == SHIFT_OP_WRITE;
	}
	return c->sq.head;
}

/*
 * Behind a lost atomic all WRs flush, executed or not. But those executed had their receive, and
 * the next cross-check must know that (7.9).
 */
static void settle_behind(struct shift_conn *c, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		shift_sendlog_at(&c->sq, i)->state = SHIFT_WR_DONE;
}

/* Sort the log by the verdict. Returns the index where posting must stop: head, or a lost atomic.
 */
static uint64_t settle_log(struct shift_conn *c, const struct verdict *v)
{
	uint64_t fence = newest_fence(c, v);

	for (uint64_t i = v->first; i < v->end; i++) {
		if (!settle_executed(c, i, i < fence)) {
			settle_behind(c, i + 1, v->end);
			return i;
		}
	}
	if (v->in_part != NEVER)
		settle_partial(c, v);
	if (v->by_count) {
		c->stats.at_least_once++;
		return settle_doubt(c, v);
	}
	return c->sq.head;
}

static void repost_log(struct shift_conn *c, uint64_t end)
{
	struct shift_sendlog *l = &c->sq;
	struct shift_action *a;

	shift_sendlog_advance(l);
	for (uint64_t i = l->ready; i < end && i < l->sent; i++)
		c->stats.replayed += shift_sendlog_at(l, i)->state == SHIFT_WR_PENDING;
	c->stats.secret_signals += shift_sendlog_renumber(l, c->cfg.mtu[c->r], end);
	if (l->ready == end) {
		conn_trouble_over(c);
		return;
	}
	a = conn_emit(c, SHIFT_ACT_POST_SEND, c->r);
	a->epoch = c->e;
	a->first = l->ready;
	a->count = (uint32_t)(end - l->ready);
}

/* An RNR is the network's doing only if the peer had receives (T1, 7.11). */
static bool rnr_is_programs(const struct shift_conn *c, const struct shift_msg *m,
			    const struct verdict *v)
{
	return c->plan.rnr && m->recv_avail == 0 && v->end < c->sq.sent &&
	       shift_wr_two_sided(shift_sendlog_at(&c->sq, v->end)->opcode);
}

static void proof_failed(struct shift_conn *c, int err)
{
	if (err == -EPROTO)
		giveup_start(c, SHIFT_R_PROTOCOL, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PROTOCOL);
	else
		giveup_start(c, SHIFT_R_PROOF_FAILED, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PROOF);
}

/* Rules 10-13. m: the peer's SWITCH of the epoch being committed. 0, or < 0: given up. */
int replay_commit(struct shift_conn *c, const struct shift_msg *m)
{
	struct verdict v;
	uint64_t end;
	int err;

	shift_sendlog_track(&c->sq);
	err = judge_log(c, m, &v);
	if (err) {
		proof_failed(c, err);
		return err;
	}
	end = settle_log(c, &v);
	if (end > c->sq.lost)
		end = c->sq.lost; /* lost in an earlier switch, waiting for what is before it */
	if (end > atomics_end(c))
		end = atomics_end(c);
	watch_last(c, end);
	shift_sendlog_advance(&c->sq);
	if (rnr_is_programs(c, m, &v)) {
		giveup_start(c, SHIFT_R_PROGRAM_ERROR, SHIFT_WC_RNR_RETRY_EXC_ERR, c->err_vendor);
		return -EIO;
	}
	c->lastc = c->e;
	c->tx_psn = conn_psn(c, c->e, c->cfg.side);
	c->flushed = 0;
	c->left_status = giveup_cause(c);
	c->err_status = c->err_vendor = 0;
	conn_set_state(c, SHIFT_ST_ACTIVE, SHIFT_R_COMMIT);
	repost_log(c, end);
	if (c->sq.ready > c->sq.tail)
		conn_offer_completions(c);
	if (end == c->sq.head)
		conn_release(c);
	replay_lost_check(c);
	return 0;
}

/* An executed atomic lost its result: terminal, once all before it is complete (rule 13). */
void replay_lost_check(struct shift_conn *c)
{
	if (c->sq.lost == NEVER || c->sq.ready < c->sq.lost)
		return;
	giveup_start(c, SHIFT_R_LOST_ATOMIC, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_ATOMIC);
}

/*
 * Rule 20: the peer closed, with this proof. What it executed completes; the rest is an error. So
 * is what is in doubt: nothing is replayed that could be done twice (7.18).
 */
void replay_closed(struct shift_conn *c, const struct shift_msg *m)
{
	struct verdict v;

	shift_sendlog_track(&c->sq);
	if (!judge_log(c, m, &v)) {
		v.by_count = false;
		settle_log(c, &v);
	}
	shift_sendlog_advance(&c->sq);
}
