/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The lives of a QP, which ends at each RESET (doc/protocol.md, 7.33, 7.34). */
#include <string.h>

#include "lib/core/conn_int.h"

/* Of quarantines. A QP on a backup rail that is not answered any more gives up within 2 s (7 tries,
 * each of 67 ms or, as the IB specification allows, up to four times that), and then sends nothing.
 */
#define STRANGER_QUARANTINES 4

static bool is_dest(const struct shift_conn *c, const struct shift_past_peer *p)
{
	return p->qpn && p->qpn == c->cfg.dest_qpn &&
	       !memcmp(p->gid, c->cfg.dest_gid, sizeof(p->gid));
}

/* Was the life before this one connected to the same QP of the peer? */
static bool same_dest(const struct shift_conn *c)
{
	return is_dest(c, &c->cfg.past.peer[0]);
}

/* Where the QP of the peer stands among those that lives before this one were connected to. */
static unsigned int dest_find(const struct shift_conn *c)
{
	unsigned int i = 0;

	while (i < SHIFT_PAST_PEERS && !is_dest(c, &c->cfg.past.peer[i]))
		i++;
	return i;
}

/* What is remembered of it; all 0: nothing. */
static struct shift_past_peer dest_past(const struct shift_conn *c)
{
	unsigned int i = dest_find(c);

	return i < SHIFT_PAST_PEERS ? c->cfg.past.peer[i] : (struct shift_past_peer){0};
}

static uint32_t life_number(const struct shift_conn *c)
{
	return dest_past(c).lives + 1;
}

static bool past_matched(const struct shift_conn *c)
{
	return dest_past(c).nonce;
}

void life_say(const struct shift_conn *c, struct shift_msg *hello)
{
	hello->life = life_number(c);
	hello->past_matched = past_matched(c);
}

/* Two QPs that live in step are in lives of the same number. Where the life before was matched, a
 * first life of the other end is that of another QP, which was made since. */
bool life_matches(const struct shift_conn *c, const struct shift_msg *hello)
{
	uint32_t mine = life_number(c);

	return mine == hello->life || (past_matched(c) && hello->life == 1) ||
	       (hello->past_matched && mine == 1);
}

bool life_is_past(const struct shift_conn *c, const struct shift_conn_peer *p)
{
	struct shift_past_peer past = dest_past(c);

	return past.nonce && p->nonce == past.nonce && p->id == past.id;
}

void life_init_rails(struct shift_conn *c)
{
	for (unsigned int i = 1; i < SHIFT_RAILS_MAX; i++)
		if (c->cfg.past.armed & 1u << i)
			c->rail[i].dirty_until = NEVER;
}

void life_matched(struct shift_conn *c, uint64_t now)
{
	bool stranger = c->cfg.past.moved || !same_dest(c);
	uint64_t ns = c->cfg.quarantine_ns * (stranger ? STRANGER_QUARANTINES : 1);

	for (unsigned int i = 1; i < SHIFT_RAILS_MAX; i++)
		if (c->cfg.past.armed & 1u << i)
			c->rail[i].dirty_until = now + ns;
}

/*
 * Away from rail 0 the program's work is done while its packets may be held up there, and in its
 * next life it may use their PSNs again. Without us it would have had to wait for them.
 */
static uint64_t rail0_until(const struct shift_conn *c, uint64_t now)
{
	uint64_t most = now + c->cfg.quarantine_ns;

	if (!c->r)
		return c->cfg.past.rail0_until;
	return c->rail[0].dirty_until < most ? c->rail[0].dirty_until : most;
}

/* The backup rails that are still dirty from lives before this one. That is over once a HELLO has
 * begun the quarantine and it has passed. So it is where this life has armed the QP (rule 18). */
static uint8_t still_dirty(const struct shift_conn *c, uint64_t now)
{
	uint8_t dirty = 0;

	for (unsigned int i = 1; i < SHIFT_RAILS_MAX; i++)
		if (c->cfg.past.armed & 1u << i && !c->rail[i].tag && c->rail[i].dirty_until > now)
			dirty |= (uint8_t)(1u << i);
	return dirty;
}

/* What both ends count on from. Where the other end's QP was made since, the numbers of two lives
 * that matched are not equal, and without this would never be equal again. */
static uint32_t lives_in_step(const struct shift_conn *c)
{
	uint32_t mine = life_number(c);

	return c->peer_life > mine ? c->peer_life : mine;
}

/* The one that is longest ago is forgotten. */
static void past_add(const struct shift_conn *c, struct shift_past *past)
{
	unsigned int i = dest_find(c);
	struct shift_past_peer p = {.qpn = c->cfg.dest_qpn, .lives = lives_in_step(c)};

	memcpy(p.gid, c->cfg.dest_gid, sizeof(p.gid));
	if (c->hello_heard) {
		p.nonce = c->cfg.peer_nonce;
		p.id = c->cfg.peer_id;
	}
	if (i == SHIFT_PAST_PEERS)
		i--;
	memmove(past->peer + 1, past->peer, i * sizeof(p));
	past->peer[0] = p;
}

void shift_conn_past(const struct shift_conn *c, uint64_t now_ns, struct shift_past *past)
{
	*past = c->cfg.past;
	past->armed = still_dirty(c, now_ns);
	past->moved = past->armed && past->moved;
	past->rail0_until = rail0_until(c, now_ns);
	if (past->armed && c->cfg.dest_qpn)
		past->moved |= !same_dest(c);
	for (unsigned int i = 1; i < SHIFT_RAILS_MAX; i++)
		if (c->rail[i].tag)
			past->armed |= (uint8_t)(1u << i);
	if (c->cfg.dest_qpn) /* else it never started */
		past_add(c, past);
}

/* --- the connection's number ------------------------------------------------------------------ */

static int end_compare(const struct shift_end *a, const struct shift_end *b)
{
	int gids = memcmp(a->gid, b->gid, sizeof(a->gid));

	return gids ? gids : (a->qpn > b->qpn) - (a->qpn < b->qpn);
}

#define END_BYTES 32

static void end_write(uint8_t *p, const struct shift_end *end)
{
	memcpy(p, end->gid, sizeof(end->gid));
	for (unsigned int i = 0; i < 4; i++) {
		p[16 + i] = (uint8_t)(end->qpn >> (8 * i));
		p[20 + i] = (uint8_t)(end->id >> (8 * i));
	}
	for (unsigned int i = 0; i < 8; i++)
		p[24 + i] = (uint8_t)(end->nonce >> (8 * i));
}

uint64_t shift_conn_number(const uint64_t key[2], const struct shift_end *mine,
			   const struct shift_end *theirs, uint8_t *side)
{
	uint8_t both[2 * END_BYTES];

	*side = end_compare(mine, theirs) > 0;
	end_write(both, *side ? theirs : mine);
	end_write(both + END_BYTES, *side ? mine : theirs);
	return shift_siphash(key, both, sizeof(both));
}
