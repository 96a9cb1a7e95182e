/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Atomics on NICs that are not atomic with each other (doc/protocol.md, 7.54). The peer's NIC of
 * some rails does not execute atomics in one with its NIC of rail 0: these rails are apart. Once
 * the program has posted an atomic, they are no target. If no other is left, the connection is
 * released. The first atomic that is posted while traffic is on such a rail waits for another one.
 */
#include "lib/core/conn_int.h"

bool atomics_bar(const struct shift_conn *c, uint8_t i)
{
	return c->atomic && c->rail[i].apart;
}

/* Is there no rail that could take over? */
static bool atomics_bind(const struct shift_conn *c)
{
	bool apart = false;

	for (uint8_t i = 1; c->atomic && i < c->cfg.rails; i++) {
		if (!c->rail[i].apart && !c->rail[i].vetoed)
			return false;
		apart |= c->rail[i].apart;
	}
	return apart;
}

/* Is it where the program has put it, with nothing that we would still have to do? */
static bool is_at_home(const struct shift_conn *c)
{
	return c->state == SHIFT_ST_ACTIVE && !c->r && !c->holding && !c->sq.tracked;
}

bool shift_conn_release_due(const struct shift_conn *c)
{
	return is_at_home(c) && (c->let_go || atomics_bind(c));
}

bool shift_conn_atomic_releases(const struct shift_conn *c)
{
	for (uint8_t i = 1; i < c->cfg.rails && !c->atomic; i++)
		if (c->rail[i].apart)
			return true;
	return false;
}

/* An atomic is about to be logged. */
void atomics_post(struct shift_conn *c)
{
	if (!c->holding && !c->rail[c->r].apart) {
		c->atomic = true;
		return;
	}
	conn_hold(c);
	if (c->waits_at == NEVER) {
		c->waits_at = c->sq.head;
		c->waits_since = 0;
	}
}

/* It could not be logged. */
void atomics_unpost(struct shift_conn *c)
{
	if (c->waits_at != c->sq.head)
		return;
	c->waits_at = NEVER;
	if ((c->state == SHIFT_ST_ACTIVE || c->state == SHIFT_ST_PREPARE) && c->sq.lost == NEVER)
		conn_release(c);
}

/* Where posting to the rail in use must stop. */
uint64_t atomics_end(struct shift_conn *c)
{
	if (c->waits_at == NEVER)
		return c->sq.head;
	if (c->rail[c->r].apart)
		return c->waits_at;
	c->waits_at = NEVER;
	c->atomic = true;
	return c->sq.head;
}

/* When it could be moved to that rail for the atomic that waits. After an attempt in vain the rail
 * must have been good for its hold-down. */
static uint64_t may_move_at(const struct shift_conn *c, uint8_t i)
{
	const struct rail *r = &c->rail[i];

	if (i == c->r || r->apart || r->misses >= c->cfg.probe_misses)
		return NEVER;
	return c->in_vain ? failback_good_at(c, i) : rail_usable_at(c, i);
}

static bool atomics_wait(const struct shift_conn *c)
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
