/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Planned switches: migration by the operator, fail-back (doc/protocol.md, rule 21, T7, T9). */
#include "lib/core/conn_int.h"

#define MS 1000000ull

enum {
	IN_VAIN_MAX = 3, /* 200 ms become 1.6 s */
	/* A promise has room for four drain bounds: the peer's drain, our own, messages that are
	 * lost, and our fence (7.35). */
	PARTS = 4,
};

/*
 * A rail is good again when its probes have been answered without a miss for its hold-down,
 * which doubles with each failover within the window. Side 1 waits half as long again, so that
 * the two ends seldom start together.
 */
uint64_t failback_good_at(const struct shift_conn *c, uint8_t i)
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
		if (failback_good_at(c, i) <= now)
			return i;
	return NO_RAIL;
}

uint64_t failback_deadline(const struct shift_conn *c)
{
	uint64_t at = NEVER;

	for (uint8_t i = 0; i < c->r && !c->holding; i++)
		if (failback_good_at(c, i) < at)
			at = failback_good_at(c, i);
	return at;
}

/*
 * How long posts are held for what is outstanding. If the path is too slow for that, the next try
 * waits longer, or the connection would never fail back.
 */
static uint64_t drain_ns(const struct shift_conn *c, uint32_t in_vain)
{
	return c->cfg.drain_ns << (in_vain < IN_VAIN_MAX ? in_vain : IN_VAIN_MAX);
}

static uint32_t hold_ms(const struct shift_conn *c, uint32_t in_vain)
{
	return (uint32_t)(PARTS * drain_ns(c, in_vain) / MS);
}

static void send_plan(struct shift_conn *c, enum shift_msg_type type, uint32_t serial, uint32_t ms)
{
	struct shift_msg m = {.type = (uint8_t)type,
			      .rail = c->plan.r,
			      .epoch = c->e,
			      .serial = serial,
			      .hold_ms = ms};

	conn_send(c, &m, c->plan.r);
}

/* So that the peer need not wait for the end of its promise. If this is lost, it does. */
static void withdraw_plan(struct shift_conn *c)
{
	send_plan(c, SHIFT_MSG_PREPARE, c->plan.serial, 0);
}

/*
 * Until when our fence must be asked for, if the peer holds for so long. It cannot have begun to
 * hold before we asked first. The last part is for the fence itself.
 */
static uint64_t fence_by_ns(const struct shift_conn *c, uint32_t ms)
{
	return c->plan.asked_ns + (PARTS - 1) * (ms * MS / PARTS);
}

/* Traffic goes on while the peer is asked. */
void failback_prepare(struct shift_conn *c, uint8_t rail, enum shift_reason reason, uint64_t now)
{
	c->plan.r = rail;
	c->plan.follower = false;
	c->plan.serial++;
	c->plan.asked_ns = now;
	c->plan.hold_ms = hold_ms(c, c->in_vain);
	conn_set_state(c, SHIFT_ST_PREPARE, reason);
	conn_arm_rto(c, now);
	c->timeout_at = fence_by_ns(c, c->plan.hold_ms);
	send_plan(c, SHIFT_MSG_PREPARE, c->plan.serial, c->plan.hold_ms);
}

/* The hold-down of that rail begins again, and is longer, before the next try: each try costs the
 * peer a pause. The other rails wait again, too, or their tries would follow without a gap. */
static void postpone_rail(struct shift_conn *c, uint8_t i, uint64_t now)
{
	struct rail *r = &c->rail[i];

	if (r->hold_down_ns < c->cfg.hold_down_max_ns / 2)
		r->hold_down_ns *= 2;
	for (uint8_t j = 0; j < c->cfg.rails; j++)
		if (c->rail[j].healthy_ns != NEVER)
			c->rail[j].healthy_ns = now;
}

/* Traffic goes on where it was. What was held meanwhile goes first. */
static void resume_posts(struct shift_conn *c)
{
	struct shift_sendlog *l = &c->sq;
	struct shift_action *a;
	uint64_t end;

	if (!c->holding)
		return;
	end = atomics_end(c);
	if (l->sent < end) {
		a = conn_emit(c, SHIFT_ACT_POST_SEND, c->r);
		a->epoch = c->e;
		a->first = l->sent;
		a->count = (uint32_t)(end - l->sent);
		shift_sendlog_send(l, end);
	}
	if (end == l->head)
		conn_release(c);
}

static void abandon_plan(struct shift_conn *c, uint64_t now)
{
	c->stats.abandoned++;
	c->in_vain++;
	c->abandoned_at = now;
	if (!c->plan.follower) {
		postpone_rail(c, c->plan.r, now);
		withdraw_plan(c);
	}
	conn_set_state(c, SHIFT_ST_ACTIVE, SHIFT_R_ABANDONED);
	resume_posts(c);
	c->check_at = now + c->cfg.no_progress_ns;
}

/* From DRAIN, too: if we follow a newer attempt, what is held stays held. */
static void start_drain(struct shift_conn *c, bool follower, uint64_t end, uint64_t now)
{
	c->plan.follower = follower;
	c->plan.ready_sent = false;
	conn_hold(c);
	c->timeout_at = end;
	conn_set_state(c, SHIFT_ST_DRAIN, SHIFT_R_PREPARED);
	failback_drained(c, now);
}

static void send_ready(struct shift_conn *c)
{
	c->plan.ready_sent = true;
	c->timeout_at = c->plan.until;
	send_plan(c, SHIFT_MSG_READY, c->plan.followed, c->plan.hold_ms);
}

/* Has everything that a planned switch should not interrupt come back? */
static bool send_drained(const struct shift_conn *c, bool *atomics)
{
	const struct shift_sendlog *l = &c->sq;
	bool drained = true;

	*atomics = false;
	/* What is held is tracked. */
	for (uint64_t i = l->scan; i < l->sent; i++) {
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

/* Only one direction may be dead: with ACKs dropped the peer's probes are answered, ours not. */
static bool target_good(const struct shift_conn *c, uint8_t i, uint64_t now)
{
	return rail_usable(c, i, now) && c->rail[i].misses < c->cfg.probe_misses;
}

/*
 * Nothing is left that must not be interrupted, or the time is up. After its promise the peer may
 * post an atomic: it must not meet a QP of ours that is not fenced (7.35).
 */
static void leave_drain(struct shift_conn *c, uint64_t now)
{
	if (now >= c->plan.until || !target_good(c, c->plan.r, now))
		abandon_plan(c, now);
	else if (c->plan.follower)
		send_ready(c);
	else
		switch_start(c, SHIFT_R_PREPARED, c->plan.r, now);
}

/* Called after each completion in DRAIN. */
void failback_drained(struct shift_conn *c, uint64_t now)
{
	bool atomics;

	if (!c->plan.ready_sent && send_drained(c, &atomics))
		leave_drain(c, now);
}

static bool follows_plan(const struct shift_conn *c)
{
	return c->state == SHIFT_ST_DRAIN && c->plan.follower;
}

/* The starter has ended this attempt, and with it all older ones. */
static void plan_withdrawn(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (shift_serial_newer(c->plan.followed, m->serial))
		return;
	c->plan.followed = m->serial;
	if (follows_plan(c))
		abandon_plan(c, now);
}

static bool may_follow(const struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	bool yields = c->state == SHIFT_ST_PREPARE && c->cfg.side; /* both asked: side 0 leads */

	return (c->state == SHIFT_ST_ACTIVE || yields || follows_plan(c)) &&
	       target_good(c, m->rail, now) && c->sq.lost == NEVER;
}

/* The promise is as long as was asked, and counts from the question: whatever is repeated, posts
 * are held no longer. A newer attempt makes the promise for an older one void. */
static void follow_plan(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	uint32_t most = hold_ms(c, IN_VAIN_MAX);

	if (c->state == SHIFT_ST_PREPARE)
		withdraw_plan(c);
	c->plan.r = m->rail;
	c->plan.followed = m->serial;
	c->plan.hold_ms = m->hold_ms < most ? m->hold_ms : most;
	c->plan.until = now + c->plan.hold_ms * MS;
	start_drain(c, true, now + c->plan.hold_ms * MS / PARTS, now);
}

/* If not now, silence is a no. Each attempt is followed once: one that was given up here must not
 * hold the program's posts again. */
static void prepare_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (m->epoch != c->e)
		return;
	if (!m->hold_ms)
		plan_withdrawn(c, m, now);
	else if (follows_plan(c) && m->serial == c->plan.followed && c->plan.ready_sent)
		send_ready(c); /* it was lost */
	else if (shift_serial_newer(m->serial, c->plan.followed) && may_follow(c, m, now))
		follow_plan(c, m, now);
}

/* A READY of another attempt promises nothing now. */
static void ready_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	uint64_t end = now + drain_ns(c, c->in_vain);

	if (c->state != SHIFT_ST_PREPARE || m->epoch != c->e || m->rail != c->plan.r ||
	    m->serial != c->plan.serial)
		return;
	c->plan.until = fence_by_ns(c, m->hold_ms);
	start_drain(c, false, end < c->plan.until ? end : c->plan.until, now);
}

void failback_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (m->type == SHIFT_MSG_PREPARE)
		prepare_msg(c, m, now);
	else
		ready_msg(c, m, now);
}

/*
 * The wait is over. The ordinary switch copes with READs and unsignaled WRs in flight. An atomic
 * might lose its result, and no planned switch is worth that (7.13).
 */
static void drain_over(struct shift_conn *c, uint64_t now)
{
	bool atomics;

	send_drained(c, &atomics);
	if (atomics)
		abandon_plan(c, now);
	else
		leave_drain(c, now);
}

/* --- the first atomic on a rail that is apart (7.54) --- */

/* When it could be moved to that rail for the atomic that waits. After an attempt in vain the peer,
 * which held its posts for it, has as long a time to itself. The hold-down is not waited for: it
 * may be longer than the atomic may wait, and endless if the operator alone fails back. */
static uint64_t may_move_at(const struct shift_conn *c, uint8_t i)
{
	const struct rail *r = &c->rail[i];
	uint64_t at = rail_usable_at(c, i), again;

	if (i == c->r || r->apart || r->misses >= c->cfg.probe_misses)
		return NEVER;
	again = c->in_vain ? c->abandoned_at + PARTS * drain_ns(c, c->in_vain) : 0;
	return at > again ? at : again;
}

bool atomics_wait(const struct shift_conn *c)
{
	return c->waits_at != NEVER && c->sq.lost == NEVER;
}

uint64_t atomics_deadline(const struct shift_conn *c)
{
	uint64_t at = NEVER;

	if (!atomics_wait(c))
		return NEVER;
	if (!c->waits_since)
		return 0;
	at = c->waits_since + c->cfg.giveup_ns;
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (may_move_at(c, i) < at)
			at = may_move_at(c, i);
	return at;
}

/* In ACTIVE. */
void atomics_tick(struct shift_conn *c, uint64_t now)
{
	if (!atomics_wait(c))
		return;
	if (!c->waits_since)
		c->waits_since = now ? now : 1;
	if (conn_since(now, c->waits_since) >= c->cfg.giveup_ns) {
		giveup_start(c, SHIFT_R_ATOMICS, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_APART);
		return;
	}
	for (uint8_t i = 0; i < c->cfg.rails; i++) {
		if (may_move_at(c, i) > now)
			continue;
		failback_prepare(c, i, SHIFT_R_ATOMICS, now);
		return;
	}
}

void failback_tick(struct shift_conn *c, uint64_t now)
{
	uint8_t better;

	switch ((enum shift_state)c->state) {
	case SHIFT_ST_ACTIVE:
		atomics_tick(c, now);
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
			send_plan(c, SHIFT_MSG_PREPARE, c->plan.serial, c->plan.hold_ms);
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
