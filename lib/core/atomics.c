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

/* Could that rail take over, perhaps when it has come? A release is for good, and it may open in a
 * moment. One that is kept shut for another reason does not count.
 */
static bool takes_atomics(const struct rail *r)
{
	return !r->apart && (!r->vetoed || r->awaited);
}

/* Is there no rail that could take over? */
static bool atomics_bind(const struct shift_conn *c)
{
	bool apart = false;

	for (uint8_t i = 1; c->atomic && i < c->cfg.rails; i++) {
		if (takes_atomics(&c->rail[i]))
			return false;
		apart |= c->rail[i].apart;
	}
	return apart;
}

/* Is it where the program has put it, with nothing that we would still have to do? Away from rail
 * 0, and while posts are held, completions are tracked.
 */
static bool is_at_home(const struct shift_conn *c)
{
	return c->state == SHIFT_ST_ACTIVE && !c->sq.tracked;
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
