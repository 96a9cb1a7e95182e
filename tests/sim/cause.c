/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Causes: an end of the connection, and an atomic that is lost, is excused only by what was
 * injected and can explain it. And the end must reach the right WR: one table of both.
 */
#include "tests/sim/sim.h"

#define PROBES_NS (20 * NS_MS)

/* --- what was injected ------------------------------------------------------------------------ */

/* A fault touches a rail: n is 1 at its beginning, -1 at its end, 0 if it is but a moment. */
void cause_rail(unsigned int r, int n)
{
	rail_at(r)->hurt += (uint32_t)n;
	rail_at(r)->hurt_at = W.now;
	W.changed_at = W.now;
}

/* Something keeps data from its way until then. That alone excuses no error. */
void cause_detour(uint64_t until)
{
	if (W.changed_at < until)
		W.changed_at = until;
}

/* A process or one of its threads does not run until then. */
void cause_stall(unsigned int h, uint64_t until)
{
	if (W.host[h].stalled_until < until)
		W.host[h].stalled_until = until;
	cause_detour(until);
}

/* Was anything wrong with the rail, or with a process, since then? */
static bool hurt_since(unsigned int r, uint64_t then)
{
	const struct rail *l = rail_at(r);

	return l->hurt || (l->hurt_at && l->hurt_at >= then) || l->dead[0] || l->dead[1] ||
	       l->hung[0] || l->hung[1] || (W.host[0].stalled_until > then) ||
	       (W.host[1].stalled_until > then);
}

/* Data leaves a rail: was that anybody's fault but the operator's, or of fail-back? */
static void note_leaving(unsigned int h, unsigned int r)
{
	uint64_t since = W.host[0].commit_at;

	if (W.host[1].commit_at < since)
		since = W.host[1].commit_at;
	/* Missed probes count until the next one is answered. */
	W.host[h].excused = hurt_since(r, since > PROBES_NS ? since - PROBES_NS : 0);
}

/* The promise to hold is over, no SWITCH came meanwhile, and now the fence of the peer proves
 * nothing: what was posted since is taken for executed (7.35, 7.18). */
static bool promise_met_doubt(unsigned int h)
{
	const struct said *s = doubt_find(1 - h, W.host[h].e);

	return W.host[h].abandoned && s && s->unsure;
}

/* No planned switch is worth a terminal error (7.13). */
static void check_lost(unsigned int h)
{
	struct host *me = &W.host[h];
	uint64_t lost = shift_conn_stats(me->c)->lost_atomics;

	if (lost > me->lost_atomics && !me->excused && me->reason != SHIFT_R_PEER_CLOSED &&
	    !promise_met_doubt(h))
		violation("%c: an atomic is lost, and nothing was wrong with its rail", 'A' + h);
	me->lost_atomics = lost;
}

static bool carries_data(uint8_t s)
{
	return s == SHIFT_ST_ACTIVE || s == SHIFT_ST_PREPARE || s == SHIFT_ST_DRAIN;
}

/* --- the causes of an end --------------------------------------------------------------------- */

/* The peer's NIC stops at a WR with a wrong key, each time. Where it answered a long READ before it
 * and packets overtake each other, some of the answer is asked for again in vain, so the NAK never
 * counts. */
static bool a_mistake_stands_behind_a_read(unsigned int h)
{
	const struct prog *p = &W.host[h].p;
	bool read = false;

	for (uint32_t seq = p->retired; seq < p->posted; seq++) {
		read |= p->wr[seq].op == SHIFT_OP_READ;
		if (p->wr[seq].bad)
			return read;
	}
	return false;
}

/* The peer was not protected yet in this life when the time began to run: HELLO is repeated once a
 * second at last, each time on another rail, and the give-up time here is but four. */
static bool peer_met_late(unsigned int h)
{
	const struct host *peer = &W.host[1 - h];

	return peer->state == SHIFT_ST_SETUP ||
	       W.now <= peer->setup_until + W.host[h].cfg.giveup_ns;
}

static bool rails_were_cut(unsigned int h)
{
	if (peer_met_late(h) || a_mistake_stands_behind_a_read(0) ||
	    a_mistake_stands_behind_a_read(1) || outage_was_barred(h) || outage_was_barred(1 - h))
		return true;
	return W.all_cut_until && W.now >= W.all_cut_from &&
	       W.now <= W.all_cut_until + W.host[0].cfg.giveup_ns;
}

/* Atomics have one rail, or some: the others do not count. */
static bool rails_for_atomics_were_cut(unsigned int h)
{
	return rails_were_cut(h) || W.apart[0] || W.apart[1];
}

static bool atomics_are_apart(unsigned int h)
{
	return W.apart[1 - h];
}

static bool program_erred(unsigned int h)
{
	const struct host *me = &W.host[h];

	return me->access_nak || me->rnr_exhausted;
}

/* check_lost has judged whether it was to be. */
static bool atomic_is_open(unsigned int h)
{
	const struct host *me = &W.host[h];

	return !me->cfg.lost_atomic_continue && me->lost_atomics;
}

static bool was_unseen(const struct prog *p)
{
	for (uint32_t i = 0; i < p->sent; i++)
		if (p->wr[i].unseen)
			return true;
	return false;
}

/*
 * A NIC of the peer died after it had acknowledged a message, before it wrote the receive's CQE:
 * the counts disagree (A4).
 */
static bool proof_is_lost(unsigned int h)
{
	const struct prog *p = &W.host[h].p;
	const struct said *s = doubt_find(1 - h, W.host[h].e);

	if (!s)
		return false;
	/* Messages that wait for an SRQ take long: one may be executed after its receiver has said
	 * how many came, if nothing stops the old QPs (7.26). */
	return was_unseen(p) || (W.host[1 - h].cfg.srq && both_have_hung());
}

static bool peer_failed(unsigned int h)
{
	return W.host[1 - h].failed;
}

static bool peer_closed(unsigned int h)
{
	return W.host[1 - h].p.closed;
}

static bool peer_died(unsigned int h)
{
	return W.host[1 - h].died;
}

static bool peer_left(unsigned int h)
{
	return W.host[1 - h].left;
}

static bool peer_forgot(unsigned int h)
{
	return W.host[1 - h].died && W.host[1 - h].forgets;
}

static bool asked_to_close(unsigned int h)
{
	return W.host[h].p.close_asked;
}

/* --- which WR bears the error ----------------------------------------------------------------- */

static bool any_wr(unsigned int h, uint32_t seq)
{
	(void)h;
	(void)seq;
	return true;
}

static bool a_fence_hung(unsigned int h)
{
	for (unsigned int r = 0; r < W.rails; r++)
		if (W.host[h].was_hung[r])
			return true;
	return false;
}

static bool has_a_mistake(const struct prog *p, uint32_t seq)
{
	return p->wr[seq].bad || (p->wr[seq].two_sided && seq >= p->nexec);
}

/*
 * A WR with a wrong key, or a message that waited for a receive in vain. An error completion does
 * not name its WR, as some before it need no completion: the flushes behind it tell which it was. A
 * NIC whose control path hangs in the fence gives none (rule 11), and then the oldest WR that is
 * open bears the error of a later one.
 */
static bool is_the_mistake(unsigned int h, uint32_t seq)
{
	const struct prog *p = &W.host[h].p;

	if (a_fence_hung(h))
		while (seq + 1 < p->posted && !has_a_mistake(p, seq))
			seq++;
	return has_a_mistake(p, seq);
}

static bool is_lost_atomic(unsigned int h, uint32_t seq)
{
	const struct prog *p = &W.host[h].p;

	if (!is_atomic(p->wr[seq].op))
		return false;
	/* A fenced WR that was executed proves that those in front of it have their results. */
	return p->wr[seq].doubtful || (seq >= p->fence_exec && seq < p->nexec);
}

/* A NIC whose control path hangs goes on executing after its program has ended the QP: nobody hears
 * of it any more, as without us. */
static bool came_after_the_end(unsigned int h, uint32_t seq)
{
	return W.host[h].p.wr[seq].late && a_fence_hung(1 - h);
}

/* What the peer executed is complete, but for results that are lost with it, and for what its last
 * fence did not prove. */
static bool is_unproved(unsigned int h, uint32_t seq)
{
	const struct prog *p = &W.host[h].p;
	const struct ref_wr *w = &p->wr[seq];

	if (W.host[1 - h].in_doubt && !w->two_sided)
		return true;
	if (w->doubtful && !w->two_sided) /* posted again: executed once, and again in part */
		return true;
	if (came_after_the_end(h, seq))
		return true;
	return seq >= p->nexec || w->op == SHIFT_OP_READ || is_atomic(w->op);
}

enum { NIC_OWN = 1 << 30 }; /* the status that the NIC gave, as it may when the program closes */

static const struct end {
	bool (*cause)(unsigned int h);
	bool (*bears)(unsigned int h, uint32_t seq);
	uint32_t status, vendor;
} ends[SHIFT_R_COUNT] = {
	[SHIFT_R_GIVEUP_TIME] = {rails_for_atomics_were_cut, any_wr, NIC_OWN, SHIFT_VENDOR_GIVEUP},
	[SHIFT_R_PROGRAM_ERROR] = {program_erred, is_the_mistake, NIC_OWN, 0},
	[SHIFT_R_LOST_ATOMIC] = {atomic_is_open, is_lost_atomic, SHIFT_WC_RETRY_EXC_ERR,
				 SHIFT_VENDOR_ATOMIC},
	[SHIFT_R_PROOF_FAILED] = {proof_is_lost, any_wr, SHIFT_WC_RETRY_EXC_ERR,
				  SHIFT_VENDOR_PROOF},
	[SHIFT_R_PEER_FAILED] = {peer_failed, any_wr, SHIFT_WC_RETRY_EXC_ERR,
				 SHIFT_VENDOR_PEER_FAILED},
	[SHIFT_R_PEER_CLOSED] = {peer_closed, is_unproved, SHIFT_WC_RETRY_EXC_ERR,
				 SHIFT_VENDOR_PEER_CLOSED},
	[SHIFT_R_PEER_DIED] = {peer_died, any_wr, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PEER_DIED},
	[SHIFT_R_PEER_LEFT] = {peer_left, any_wr, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PEER_LEFT},
	[SHIFT_R_PEER_UNKNOWN] = {peer_forgot, any_wr, SHIFT_WC_RETRY_EXC_ERR,
				  SHIFT_VENDOR_PEER_FAILED},
	[SHIFT_R_ATOMICS] = {atomics_are_apart, any_wr, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_APART},
	[SHIFT_R_CLOSE] = {asked_to_close, any_wr, SHIFT_WC_WR_FLUSH_ERR, 0},
};

/* The connection begins to end. */
static void check_end(unsigned int h, uint8_t reason)
{
	if (!ends[reason].cause || !ends[reason].cause(h))
		violation("%c: the connection ends, and nothing explains it: %s", 'A' + h,
			  shift_reason_name(reason));
}

static bool status_fits(unsigned int h, const struct end *e, const struct shift_wc *wc)
{
	const struct host *me = &W.host[h];

	if (wc->status == e->status && wc->vendor_err == e->vendor)
		return true;
	if (e->status != NIC_OWN && e->status != SHIFT_WC_WR_FLUSH_ERR)
		return false;
	if (wc->status == SHIFT_WC_WR_FLUSH_ERR)
		return false;
	if (e->vendor && wc->vendor_err == e->vendor)
		return wc->status == SHIFT_WC_RETRY_EXC_ERR;
	return !wc->vendor_err && wc->status < 32 && me->nic_said & 1u << wc->status;
}

/* An error completion of a send: the first says why, all others flush. */
void cause_send_error(unsigned int h, uint32_t seq, const struct shift_wc *wc, bool first)
{
	const struct host *me = &W.host[h];
	const struct end *e = &ends[me->reason];

	if (!first) {
		if (wc->status != SHIFT_WC_WR_FLUSH_ERR || wc->vendor_err)
			violation("%c: WR %u is not the first that fails, and gets status %u",
				  'A' + h, seq, wc->status);
		return;
	}
	if (!e->bears) {
		violation("%c: WR %u fails with %u on a living connection", 'A' + h, seq,
			  wc->status);
		return;
	}
	if (!status_fits(h, e, wc))
		violation("%c: WR %u fails with status %u, vendor %x after %s", 'A' + h, seq,
			  wc->status, wc->vendor_err, shift_reason_name(me->reason));
	if (!e->bears(h, seq))
		violation("%c: WR %u (opcode %u) bears the error of %s", 'A' + h, seq,
			  me->p.wr[seq].op, shift_reason_name(me->reason));
}

/* Receives only flush: no error of theirs is simulated. */
void cause_recv_error(unsigned int h, const struct shift_wc *wc)
{
	if (!W.host[h].reason)
		violation("%c: receive %lu fails with %u on a living connection", 'A' + h,
			  (unsigned long)wc->wr_id, wc->status);
	if (wc->status != SHIFT_WC_WR_FLUSH_ERR || wc->vendor_err)
		violation("%c: receive %lu fails with status %u", 'A' + h, (unsigned long)wc->wr_id,
			  wc->status);
}

static bool atomic_under_way(unsigned int h)
{
	const struct prog *p = &W.host[h].p;

	for (uint32_t i = p->next_cqe; i < p->sent; i++)
		if (is_atomic(p->wr[i].op))
			return true;
	return false;
}

/* --- changes of state ------------------------------------------------------------------------- */

/* The link of a NIC went down: another QP on that NIC is no better (7.49). */
static void check_flight(unsigned int h, const struct shift_action *a)
{
	struct shift_conn_view v;

	shift_conn_view(W.host[h].c, &v);
	if (a->to == SHIFT_ST_FENCE && a->reason == SHIFT_R_LINK_DOWN && v.target_r < W.rails &&
	    rail_at(v.target_r) == rail_at(a->rail))
		violation("%c: from rail %u it flees to rail %u, on the same NIC", 'A' + h, a->rail,
			  v.target_r);
}

void cause_report(unsigned int h, const struct shift_action *a)
{
	struct host *me = &W.host[h];
	bool ends_now = a->to == SHIFT_ST_GIVEUP || a->to == SHIFT_ST_CLOSING;

	me->e = a->epoch;
	check_flight(h, a);
	if (a->to == SHIFT_ST_DRAIN)
		W.plan_met_atomics |= atomic_under_way(0) || atomic_under_way(1);
	me->state_at = W.now;
	if (carries_data(a->from) && !carries_data(a->to))
		note_leaving(h, a->rail);
	if (a->to == SHIFT_ST_ACTIVE && a->reason == SHIFT_R_COMMIT)
		me->commit_at = W.now;
	check_lost(h);
	if (a->from == SHIFT_ST_SETUP)
		me->setup_until = W.now;
	if (a->to == SHIFT_ST_ACTIVE)
		me->abandoned = a->reason == SHIFT_R_ABANDONED;
	if (ends_now && (!me->reason || a->reason == SHIFT_R_CLOSE))
		check_end(h, a->reason);
	if (ends_now && !me->reason)
		me->reason = a->reason;
	me->failed |= (a->to == SHIFT_ST_DEAD || a->to == SHIFT_ST_CLOSED) &&
		      me->reason != SHIFT_R_CLOSE;
}
