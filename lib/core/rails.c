/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is known of each rail: links, probes, dirt (doc/protocol.md, rule 18, T3, T4, T6). */
#include "lib/core/conn_int.h"

/* Silent probes count as two tries, so it must be more than that. */
enum { TRIES_BEHIND = 3 };

/* Could the rail ever be a target as things stand, if only after its quarantine? */
bool rail_possible(const struct shift_conn *c, uint8_t i)
{
	const struct rail *r;

	if (i >= c->cfg.rails)
		return false;
	r = &c->rail[i];
	return !r->down && !r->vetoed && !r->hung && !r->unaccounted && !r->back_at &&
	       !atomics_bar(c, i);
}

/* When it can be armed, as things stand: its QP must be fenced and its old packets dead. */
uint64_t rail_usable_at(const struct shift_conn *c, uint8_t i)
{
	if (!rail_possible(c, i) || c->rail[i].armed || c->rail[i].fencing)
		return NEVER;
	return c->rail[i].dirty_until;
}

bool rail_usable(const struct shift_conn *c, uint8_t i, uint64_t now)
{
	return rail_usable_at(c, i) <= now;
}

/* Its probes were answered, and not missed since. */
bool rail_answers(const struct shift_conn *c, uint8_t i)
{
	return c->rail[i].probe_ok_ns && c->rail[i].misses < c->cfg.probe_misses;
}

/*
 * Silence counts only if another rail was answered after it began; otherwise the peer is stopped,
 * or we were (T6). When that ends, one rail is answered first. So a miss counts only if another
 * rail was answered since the miss before.
 */
bool rail_silent(const struct shift_conn *c, uint8_t i)
{
	const struct rail *r = &c->rail[i];

	if (r->witnessed < c->cfg.probe_misses)
		return false;
	for (uint8_t j = 0; j < c->cfg.rails; j++)
		if (j != i && c->rail[j].probe_ok_ns > r->miss_ns && rail_answers(c, j))
			return true;
	return false;
}

/*
 * Target for a switch that we start (rule 3): tried least, where silent probes count as two tries;
 * then clean now; then not the rail we come from; then the lowest number. In this order even a
 * single healthy rail gets its turn.
 */
uint8_t rail_choose(const struct shift_conn *c, uint64_t now)
{
	uint64_t best_key = NEVER;
	uint8_t best = NO_RAIL;

	for (uint8_t i = 0; i < c->cfg.rails; i++) {
		const struct rail *r = &c->rail[i];
		bool bad = r->misses >= c->cfg.probe_misses;
		bool dirty = !rail_usable(c, i, now);
		uint64_t key;

		if (!rail_possible(c, i))
			continue;
		key = ((uint64_t)r->tries + 2 * bad) << 8 | (uint64_t)dirty << 5 |
		      (uint64_t)(i == c->r) << 4 | i;
		if (key < best_key) {
			best_key = key;
			best = i;
		}
	}
	return best;
}

/*
 * It is the target once more. A rail that is not possible for a while is not tried meanwhile. Once
 * it is, it must not be tried alone until it has caught up: the others may be healthy by then, and
 * the peer, which counts for itself, may wait on one of them.
 */
void rail_tried(struct shift_conn *c, uint8_t i)
{
	uint32_t tries = ++c->rail[i].tries;

	for (uint8_t j = 0; j < c->cfg.rails; j++)
		if (c->rail[j].tries + TRIES_BEHIND < tries)
			c->rail[j].tries = tries - TRIES_BEHIND;
}

/* An unplanned switch leaves it: fail-back must wait, longer each time within the window (T9). */
void rail_failed(struct shift_conn *c, uint8_t i, uint64_t now)
{
	struct rail *r = &c->rail[i];
	bool again = r->failed_ns && conn_since(now, r->failed_ns) < c->cfg.hold_down_window_ns;

	r->hold_down_ns = again ? 2 * r->hold_down_ns : c->cfg.hold_down_ns;
	if (r->hold_down_ns > c->cfg.hold_down_max_ns)
		r->hold_down_ns = c->cfg.hold_down_max_ns;
	r->failed_ns = now ? now : 1;
	r->healthy_ns = NEVER;
}

/*
 * Has what we sent in epoch lastc, and all that could answer it, died of age? Requests end with the
 * last completion. A copy of one may arrive a quarantine later, and is answered then.
 */
static bool sends_are_dead(const struct shift_conn *c, uint64_t now)
{
	return c->quiet_ns != NEVER && c->quiet_sent == c->sq.sent &&
	       conn_since(now, c->quiet_ns) >= 2 * c->cfg.quarantine_ns;
}

/* The newest epoch of which packets that we sent, or answers to them, may still be in the network
 * (7.52). SWITCH says it as `committed`. */
uint32_t rail_live_epoch(const struct shift_conn *c, uint64_t now)
{
	if (!shift_sendlog_cum_sent(&c->sq) || sends_are_dead(c, now))
		return c->sent_e;
	return c->lastc;
}

/*
 * Until when old packets of a fenced QP armed for tag may still arrive (rule 18). The peer is
 * proven fenced by any message of a newer epoch; what it sent dies within the quarantine. If
 * neither end has sent a request in tag that may still live, there are no answers, either, and
 * nothing to wait for (7.52). That is so if neither committed tag, which is common: both ends start
 * at once, with different epochs, on the same backup rail (7.5).
 */
uint64_t rail_dirty_until(const struct shift_conn *c, uint32_t tag, uint64_t now)
{
	if (c->proved_e <= tag)
		return NEVER;
	if (c->proved_committed < tag && rail_live_epoch(c, now) < tag)
		return 0;
	return c->proved_ns + c->cfg.quarantine_ns;
}

/* The peer entered an epoch: it has fenced its QPs of all older ones. */
void rail_proof(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (m->epoch <= c->proved_e)
		return;
	c->proved_e = m->epoch;
	c->proved_committed = m->committed;
	c->proved_ns = now;
	for (uint8_t i = 0; i < c->cfg.rails; i++) {
		struct rail *r = &c->rail[i];

		if (!r->armed && r->dirty_until == NEVER)
			r->dirty_until = rail_dirty_until(c, r->tag, now);
	}
}

static void probe_missed(struct rail *r, uint64_t now)
{
	if (!r->misses)
		r->miss_ns = now;
	if (!r->misses || r->witness)
		r->witnessed++;
	r->misses++;
	r->witness = false;
	r->healthy_ns = NEVER;
}

static void rail_probe_answered(struct rail *r, uint64_t now)
{
	r->misses = 0;
	r->witnessed = 0;
	r->silent_ns = 0;
	r->probe_ok_ns = now ? now : 1;
	if (r->healthy_ns == NEVER)
		r->healthy_ns = now;
}

/* Rails of one path have the same probes: they are no witnesses to each other. */
static void rails_probed(struct shift_conn *c, uint32_t rails, bool ok, uint64_t now)
{
	for (uint8_t i = 0; i < c->cfg.rails; i++) {
		if (!(rails >> i & 1))
			c->rail[i].witness |= ok;
		else if (ok)
			rail_probe_answered(&c->rail[i], now);
		else
			probe_missed(&c->rail[i], now);
	}
	/* What is silent may be so by the answer of another rail. */
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (!c->rail[i].silent_ns && rail_silent(c, i))
			c->rail[i].silent_ns = now ? now : 1;
}

/* From when on an idle rail that is not silent could take over. */
static uint64_t alternative_at(const struct shift_conn *c)
{
	uint64_t at = NEVER;

	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (i != c->r && c->rail[i].misses < c->cfg.probe_misses &&
		    rail_usable_at(c, i) < at)
			at = rail_usable_at(c, i);
	return at;
}

static bool alternative_usable(const struct shift_conn *c, uint64_t now)
{
	return alternative_at(c) <= now;
}

/* From when on the rail in use can be left because its link is down (T4), or its probes are lost
 * since it was chosen (T6). That is told only once. There may have been nowhere to go then: the
 * other rail is in its quarantine for a second after each fail-back, and in a life that is not the
 * first. A rail that was silent already when it was chosen was chosen all the same. */
uint64_t rail_escape_at(const struct shift_conn *c)
{
	const struct rail *r = &c->rail[c->r];
	bool silent = r->silent_ns > c->chosen_ns && rail_silent(c, c->r);

	return r->down || silent ? alternative_at(c) : NEVER;
}

/* The rail in use, or aimed at, looks dead: leave it if there is anywhere to go. */
static void rail_suspect(struct shift_conn *c, uint8_t i, enum shift_reason why, uint64_t now)
{
	switch ((enum shift_state)c->state) {
	case SHIFT_ST_ACTIVE:
	case SHIFT_ST_PREPARE:
	case SHIFT_ST_DRAIN:
		if (i == c->r && alternative_usable(c, now))
			switch_start(c, why, NO_RAIL, now);
		return;
	case SHIFT_ST_FENCE:
	case SHIFT_ST_QUARANTINE:
		if (i == c->plan.r)
			switch_retarget(c, why, now);
		return;
	case SHIFT_ST_SWITCHING:
		if (i == c->r && alternative_usable(c, now))
			switch_start(c, why, NO_RAIL, now);
		return;
	case SHIFT_ST_SETUP:
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_ARM: /* the answer to ARM decides */
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return;
	}
}

void rail_tick(struct shift_conn *c, uint64_t now)
{
	if (rail_escape_at(c) <= now)
		rail_suspect(c, c->r, c->rail[c->r].down ? SHIFT_R_LINK_DOWN : SHIFT_R_PROBES_LOST,
			     now);
}

/* Is rail r more than the rail that we come from? */
static bool rail_in_use(const struct shift_conn *c)
{
	return !conn_switching(c) || c->state == SHIFT_ST_SWITCHING;
}

/* When the next rail whose NIC hung is possible again. */
uint64_t rails_back_at(const struct shift_conn *c)
{
	uint64_t at = NEVER;

	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (c->rail[i].back_at && c->rail[i].back_at < at)
			at = c->rail[i].back_at;
	return at;
}

void rails_come_back(struct shift_conn *c, uint64_t now)
{
	bool back = false;

	for (uint8_t i = 0; i < c->cfg.rails; i++) {
		if (!c->rail[i].back_at || c->rail[i].back_at > now)
			continue;
		c->rail[i].back_at = 0;
		back = true;
	}
	if (back && c->state == SHIFT_ST_NO_RAIL)
		switch_retarget(c, SHIFT_R_RAIL_FOUND, now);
}

/*
 * All rails on a NIC fail, and come back, at once (7.49): only then is it seen what that means. One
 * after the other, the connection would flee to a rail that is down as well.
 */
static void rails_go_down(struct shift_conn *c, uint32_t rails, uint64_t now)
{
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		if (rails >> i & 1) {
			c->rail[i].down = true;
			c->rail[i].healthy_ns = NEVER;
		}
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		if (rails >> i & 1)
			rail_suspect(c, i, SHIFT_R_LINK_DOWN, now);
}

static void rails_come_up(struct shift_conn *c, uint32_t rails)
{
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		if (rails >> i & 1)
			c->rail[i].down = false;
}

static void rail_open(struct shift_conn *c, const struct shift_event *ev)
{
	c->rail[ev->rail].vetoed = false;
	if (ev->mtu)
		c->cfg.mtu[ev->rail] = ev->mtu;
}

/* Link, veto and probe events. */
void rail_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now)
{
	uint32_t rails = 1u << ev->rail | ev->also;
	struct rail *r = &c->rail[ev->rail];

	switch ((enum shift_event_type)ev->type) {
	case SHIFT_EV_LINK_UP: rails_come_up(c, rails); break;
	case SHIFT_EV_LINK_DOWN: rails_go_down(c, rails, now); break;
	case SHIFT_EV_RAIL_VETO:
		r->vetoed = true;
		r->awaited = ev->awaited;
		/* The rail in use is not left for it. But once left, it may be the target again. */
		if (ev->rail != c->r || !rail_in_use(c))
			rail_suspect(c, ev->rail, SHIFT_R_OPERATOR, now);
		break;
	case SHIFT_EV_RAIL_OPEN: rail_open(c, ev); break;
	case SHIFT_EV_ATOMICS_APART: r->apart = ev->rail; return;
	case SHIFT_EV_PROBE_OK: rails_probed(c, rails, true, now); break;
	case SHIFT_EV_PROBE_MISSED: rails_probed(c, rails, false, now); break;
	case SHIFT_EV_POST_SEND:
	case SHIFT_EV_POST_RECV:
	case SHIFT_EV_CQE:
	case SHIFT_EV_RTS:
	case SHIFT_EV_FENCE_DONE:
	case SHIFT_EV_ARM_DONE:
	case SHIFT_EV_ARM_FAILED:
	case SHIFT_EV_MSG:
	case SHIFT_EV_TICK:
	case SHIFT_EV_MIGRATE:
	case SHIFT_EV_PEER_DIED:
	case SHIFT_EV_PEER_LEFT:
	case SHIFT_EV_PEER_RELEASED:
	case SHIFT_EV_CLOSE:
	case SHIFT_EV_POST_FAILED:
	case SHIFT_EV_NO_KEY:
	case SHIFT_EV_PSN:
	case SHIFT_EV_COUNT: return;
	}
	if (c->state == SHIFT_ST_NO_RAIL)
		switch_retarget(c, SHIFT_R_RAIL_FOUND, now);
	/* Rail r has just fallen silent, or there was nowhere to go when its link went down. */
	rail_tick(c, now);
}
