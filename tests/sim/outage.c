/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Outages are bounded. Two ways to see that one is not: the core waits for an answer or for time
 * and has set no timer; or data has not moved for longer than the configured times can explain,
 * counted from the last time that a fault began or ended.
 */
#include "tests/sim/sim.h"

enum { PATIENCE = 4 };

/* --- every wait has a timer ------------------------------------------------------------------- */

static bool fencing(const struct host *me)
{
	if (me->answering)
		return true;
	for (unsigned int r = 0; r < W.rails; r++)
		if (me->fence[r].step != FS_IDLE)
			return true;
	return false;
}

static bool arming(const struct host *me)
{
	if (me->answering)
		return true;
	for (unsigned int r = 0; r < W.rails; r++)
		if (me->arm[r].busy)
			return true;
	return false;
}

/* How far off the next timer may be in a state; 0: none is owed. */
static uint64_t timer_within(const struct host *me)
{
	const struct shift_conn_cfg *cfg = &me->cfg;

	switch ((enum shift_state)me->state) {
	case SHIFT_ST_SETUP: return me->rts ? 1000 * NS_MS : 0; /* HELLO is repeated */
	case SHIFT_ST_ACTIVE: return cfg->no_progress_ns;
	case SHIFT_ST_PREPARE: return 200 * NS_MS; /* a question is repeated */
	case SHIFT_ST_QUARANTINE:
	case SHIFT_ST_SWITCHING: return 200 * NS_MS;
	case SHIFT_ST_DRAIN: return 8 * 4 * cfg->drain_ns;
	case SHIFT_ST_NO_RAIL: return cfg->giveup_ns;
	case SHIFT_ST_FENCE:
	case SHIFT_ST_ARM:
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return 0;
	}
	return 0;
}

/* After every call into the core: what does it wait for? */
void outage_timer(unsigned int h, uint64_t deadline)
{
	const struct host *me = &W.host[h];
	uint64_t within = timer_within(me);

	if (within && deadline > W.now + within)
		violation("%c: in %s no timer is set", 'A' + h, shift_state_name(me->state));
	if ((me->state == SHIFT_ST_FENCE || me->state == SHIFT_ST_GIVEUP ||
	     me->state == SHIFT_ST_CLOSING) &&
	    !fencing(me))
		violation("%c: in %s no fence is under way", 'A' + h, shift_state_name(me->state));
	if (me->state == SHIFT_ST_ARM && !arming(me))
		violation("%c: in ARM nothing is being armed", 'A' + h);
}

/* --- data moves again ------------------------------------------------------------------------- */

static uint64_t max_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* From a dead path to the decision to leave it: retries run out, or T8 has its answers. A question
 * that is lost is asked over each rail in turn until one answers. */
static uint64_t detection_ns(const struct host *me)
{
	uint64_t retries = (W.retry_cnt + 2) * (W.rto_ns + NS_MS);
	uint64_t questions = me->cfg.no_progress_answers + 3 + W.rails;
	uint64_t answers = questions * me->cfg.no_progress_ns;

	return max_ns(retries, answers);
}

/*
 * The longest switch timeout, eightfold and that of side 1, on each rail in turn (rule 17). Four of
 * them more are waited out where probes were answered once and say nothing now (7.14).
 */
static uint64_t switch_ns(const struct host *me)
{
	uint32_t tries = W.rails + (W.silence ? PATIENCE : 0);

	return tries * (8 * me->cfg.switch_timeout_ns * 3 / 2 + 2 * me->cfg.quarantine_ns);
}

/* The peer never sees it: it is carried out here, or was given up (ref_skip_doubtful). */
static bool is_passed_over(const struct host *me, const struct ref_wr *w)
{
	return is_local(w->op) || (me->cfg.lost_atomic_continue && is_atomic(w->op) && w->doubtful);
}

/* The next WR that the peer is to execute is two-sided. */
static bool message_is_next(const struct host *me)
{
	const struct prog *p = &me->p;
	uint32_t seq = p->nexec;

	while (seq < p->posted && is_passed_over(me, &p->wr[seq]))
		seq++;
	return seq < p->posted && p->wr[seq].two_sided;
}

static bool waits(unsigned int h)
{
	const struct host *me = &W.host[h], *peer = &W.host[1 - h];
	const struct prog *p = &me->p;
	bool over = me->died || peer->died || me->reason || peer->reason;

	if (over || !prog_owed(p))
		return false;
	if (run_refused(h))
		return false;
	/* An atomic may wait for a rail that is not healthy. */
	if (W.apart[0] || W.apart[1])
		return false;
	/* Its SRQ may have none on that NIC for a while (S9, S16, S18). */
	if (peer->cfg.srq && message_is_next(me))
		return false;
	/* The peer's program has no receive for the next message. */
	return !message_is_next(me) || peer->p.recv_posted > p->two_exec;
}

static bool is_healthy(unsigned int r)
{
	return !rail_at(r)->hurt && !rail_at(r)->dead[0] && !rail_at(r)->dead[1] &&
	       !rail_at(r)->hung[0] && !rail_at(r)->hung[1];
}

static bool some_rail_is_healthy(void)
{
	for (unsigned int r = 0; r < W.rails; r++)
		if (is_healthy(r))
			return true;
	return false;
}

/* --- shared receive queues -------------------------------------------------------------------- */

/* A rail works, and may not be used: its NIC cannot be emptied. */
static bool all_keep_out(void)
{
	bool any = false;

	for (unsigned int r = 0; r < W.rails; r++) {
		bool out = srq_keeps_out(0, r) || srq_keeps_out(1, r);

		if (is_healthy(r) && !out)
			return false;
		any |= out;
	}
	return any;
}

static bool no_receive_is_to_be_had(unsigned int h)
{
	uint8_t r = shift_conn_rail(W.host[h].c);

	return srq_out_of_reach(1 - h) && !(is_healthy(r) && srq_good(1 - h, r));
}

static void look_what_bars(unsigned int h)
{
	struct host *me = &W.host[h];

	if (!me->c || !W.host[1 - h].c || !(all_keep_out() || no_receive_is_to_be_had(h)))
		me->barred_from = 0;
	else if (!me->barred_from)
		me->barred_from = W.now;
	else if (W.now > me->barred_from + me->cfg.giveup_ns / 4)
		me->barred_at = W.now;
}

/* What was injected kept the host's messages from the peer for a good part of the give-up time. */
bool outage_was_barred(unsigned int h)
{
	const struct host *me = &W.host[h];

	return me->barred_at && W.now <= me->barred_at + me->cfg.giveup_ns;
}

static void check_pause(unsigned int h)
{
	struct host *me = &W.host[h], *peer = &W.host[1 - h];
	bool active = me->state == SHIFT_ST_ACTIVE && peer->state == SHIFT_ST_ACTIVE;
	uint64_t since = max_ns(me->moved_at, W.changed_at), bound = detection_ns(me);

	if (active)
		since = max_ns(since, max_ns(me->state_at, peer->state_at));
	else
		bound += switch_ns(me);
	if (!waits(h) || !some_rail_is_healthy()) {
		me->moved_at = W.now;
		return;
	}
	if (W.now <= since)
		return;
	if (T.pause_ppm[active] < (W.now - since) * 1000000 / bound) {
		T.pause_ppm[active] = (W.now - since) * 1000000 / bound;
		T.pause_seed[active] = W.opt.seed;
	}
	if (W.now > since + bound)
		violation("%c: no data has moved for %lu ms, %lu are allowed (%s, %s)", 'A' + h,
			  (unsigned long)((W.now - since) / NS_MS), (unsigned long)(bound / NS_MS),
			  shift_state_name(me->state), shift_state_name(peer->state));
}

/* A WR of the host was executed, or completed. */
void outage_moved(unsigned int h)
{
	W.host[h].moved_at = W.now;
}

/* Each timer and probe asks; packets need not. */
void outage_check(void)
{
	look_what_bars(0);
	look_what_bars(1);
	check_pause(0);
	check_pause(1);
}
