/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Planned switches: migration by the operator, fail-back (doc/protocol.md, rule 21, T7, T9). */
#include "lib/core/conn_int.h"

enum { IN_VAIN_MAX = 3 }; /* 200 ms become 1.6 s */

/*
 * A rail is good again when its probes have been answered without a miss for its hold-down,
 * which doubles with each failover within the window. Side 1 waits half as long again, so that
 * the two ends seldom start together.
 */
static uint64_t good_at(const struct shift_conn *c, uint8_t i)
{
	const struct rail *r = &c->rail[i];
	uint64_t hold = r->hold_down_ns;

	if (r->healthy_ns == NEVER || !rail_possible(c, i) || r->armed || r->fencing ||
	    r->dirty_until == NEVER)
		return NEVER;
	if (c->cfg.side)
		hold += hold / 2;
	return r->healthy_ns + hold > r->dirty_until ? r->healthy_ns + hold : r->dirty_until;
}

static uint8_t better_rail(const struct shift_conn *c, uint64_t now)
{
	for (uint8_t i = 0; i < c->r; i++)
		if (good_at(c, i) <= now)
			return i;
	return NO_RAIL;
}

uint64_t failback_deadline(const struct shift_conn *c)
{
	uint64_t at = NEVER;

	for (uint8_t i = 0; i < c->r && !c->holding; i++)
		if (good_at(c, i) < at)
			at = good_at(c, i);
	return at;
}

/*
 * How long posts are held for what is outstanding. If the path is too slow for that, the next try
 * waits longer, or the connection would never fail back. The peer counts the same tries.
 */
static uint64_t drain_ns(const struct shift_conn *c)
{
	return c->cfg.drain_ns << (c->in_vain < IN_VAIN_MAX ? c->in_vain : IN_VAIN_MAX);
}

static void send_plan(struct shift_conn *c, enum shift_msg_type type)
{
	struct shift_msg m = {.type = (uint8_t)type, .rail = c->plan.r, .epoch = c->e};

	conn_send(c, &m, c->plan.r);
}

/* Traffic goes on while the peer is asked. */
void failback_prepare(struct shift_conn *c, uint8_t rail, enum shift_reason reason, uint64_t now)
{
	c->plan.r = rail;
	c->plan.follower = false;
	c->plan.since = now;
	conn_set_state(c, SHIFT_ST_PREPARE, reason);
	conn_arm_rto(c, now);
	c->timeout_at = now + 3 * drain_ns(c); /* covers the peer's drain */
	send_plan(c, SHIFT_MSG_PREPARE);
}

/* The hold-down begins again, and is longer, before the next try: each try costs the peer a pause.
 */
static void postpone_rail(struct shift_conn *c, uint8_t i, uint64_t now)
{
	struct rail *r = &c->rail[i];

	if (r->healthy_ns != NEVER)
		r->healthy_ns = now;
	if (r->hold_down_ns < c->cfg.hold_down_max_ns / 2)
		r->hold_down_ns *= 2;
}

/* Traffic goes on where it was. What was held meanwhile goes first. */
static void resume_posts(struct shift_conn *c)
{
	struct shift_sendlog *l = &c->sq;
	struct shift_action *a;

	if (!c->holding)
		return;
	if (l->sent < l->head) {
		a = conn_emit(c, SHIFT_ACT_POST_SEND, c->r);
		a->epoch = c->e;
		a->first = l->sent;
		a->count = (uint32_t)(l->head - l->sent);
		l->sent = l->head;
	}
	conn_release(c);
}

static void abandon_plan(struct shift_conn *c, uint64_t now)
{
	c->stats.abandoned++;
	c->in_vain++;
	c->rto_at = c->timeout_at = NEVER;
	if (!c->plan.follower)
		postpone_rail(c, c->plan.r, now);
	c->plan.r = NO_RAIL;
	conn_set_state(c, SHIFT_ST_ACTIVE, SHIFT_R_ABANDONED);
	resume_posts(c);
	c->check_at = now + c->cfg.no_progress_ns;
}

static void start_drain(struct shift_conn *c, bool follower, uint64_t now)
{
	c->plan.follower = follower;
	c->plan.ready_sent = false;
	c->plan.since = now;
	conn_hold(c);
	c->check_at = NEVER;
	c->timeout_at = now + drain_ns(c);
	c->rto_at = NEVER;
	conn_set_state(c, SHIFT_ST_DRAIN, SHIFT_R_PREPARED);
	failback_drained(c, now);
}

static void send_ready(struct shift_conn *c, uint64_t now)
{
	c->plan.ready_sent = true;
	c->timeout_at = now + 3 * drain_ns(c); /* for the starter's own drain and SWITCH */
	send_plan(c, SHIFT_MSG_READY);
}

/* Has everything that a planned switch should not interrupt come back? */
static bool send_drained(const struct shift_conn *c, bool *atomics)
{
	const struct shift_sendlog *l = &c->sq;
	uint64_t i = l->tracked ? l->scan : shift_sendlog_done_by_signal(l);
	bool drained = true;

	*atomics = false;
	for (; i < l->sent; i++) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, i);

		if (e->state != SHIFT_WR_PENDING)
			continue;
		*atomics |= shift_wr_atomic(e->opcode);
		if (shift_sendlog_signaled(l, e) || e->opcode == SHIFT_OP_READ ||
		    shift_wr_atomic(e->opcode))
			drained = false;
	}
	return drained;
}

/* Called after each completion in DRAIN: go on when nothing is left that must not be interrupted.
 */
void failback_drained(struct shift_conn *c, uint64_t now)
{
	bool atomics;

	if (c->plan.ready_sent || !send_drained(c, &atomics))
		return;
	if (c->plan.follower)
		send_ready(c, now);
	else
		switch_start(c, SHIFT_R_PREPARED, c->plan.r, now);
}

static void prepare_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	bool yield = c->state == SHIFT_ST_PREPARE &&
		     c->cfg.side == 1; /* both asked: side 0 leads */

	if (m->epoch != c->e || m->rail == c->r || !rail_usable(c, m->rail, now) ||
	    c->sq.lost != NEVER)
		return; /* not now; silence is a no */
	/* Only one direction may be dead: with ACKs dropped the peer's probes are answered, ours
	 * not. */
	if (c->rail[m->rail].misses >= c->cfg.probe_misses)
		return;
	if (c->state == SHIFT_ST_ACTIVE || yield) {
		c->plan.r = m->rail;
		start_drain(c, true, now);
	} else if (c->state == SHIFT_ST_DRAIN && c->plan.follower) {
		c->plan.r = m->rail; /* the starter may have changed its mind */
		if (c->plan.ready_sent)
			send_plan(c, SHIFT_MSG_READY);
	}
}

void failback_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (m->type == SHIFT_MSG_PREPARE)
		prepare_msg(c, m, now);
	else if (c->state == SHIFT_ST_PREPARE && m->epoch == c->e && m->rail == c->plan.r)
		start_drain(c, false, now);
}

/*
 * The wait is over. The ordinary switch copes with READs and unsignaled WRs in flight. An atomic
 * might lose its result, and no planned switch is worth that (7.13).
 */
static void drain_over(struct shift_conn *c, uint64_t now)
{
	bool atomics;

	send_drained(c, &atomics);
	if (atomics || c->plan.ready_sent)
		abandon_plan(c, now);
	else if (c->plan.follower)
		send_ready(c, now);
	else
		switch_start(c, SHIFT_R_PREPARED, c->plan.r, now);
}

void failback_tick(struct shift_conn *c, uint64_t now)
{
	uint8_t better;

	switch ((enum shift_state)c->state) {
	case SHIFT_ST_ACTIVE:
		better = better_rail(c, now);
		if (better == NO_RAIL || c->holding)
			return;
		failback_prepare(c, better, SHIFT_R_FAIL_BACK, now);
		return;
	case SHIFT_ST_PREPARE:
		if (now >= c->timeout_at) {
			abandon_plan(c, now);
		} else if (now >= c->rto_at) {
			c->rto_at = now + c->rto_ns;
			c->stats.retransmits++;
			send_plan(c, SHIFT_MSG_PREPARE);
		}
		return;
	case SHIFT_ST_DRAIN:
		if (now >= c->timeout_at)
			drain_over(c, now);
		return;
	case SHIFT_ST_SETUP:
	case SHIFT_ST_FENCE:
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_QUARANTINE:
	case SHIFT_ST_ARM:
	case SHIFT_ST_SWITCHING:
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return;
	}
}
