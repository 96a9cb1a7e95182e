/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Fences and what they prove (doc/protocol.md, rules 5, 6, 18, 19). */
#include "lib/core/conn_int.h"

/* Ask for a fence; the completions that it drains come in before its FENCE_DONE. */
void fence_rail(struct shift_conn *c, uint8_t i)
{
	struct rail *r = &c->rail[i];
	struct shift_action *a;

	if (!r->armed || r->fencing)
		return;
	r->fencing = true;
	a = conn_emit(c, SHIFT_ACT_FENCE, i);
	a->epoch = r->tag;
}

bool fence_pending(const struct shift_conn *c)
{
	for (unsigned int i = 0; i < c->cfg.rails; i++)
		if (c->rail[i].fencing)
			return true;
	return false;
}

/* Every QP that may accept a packet, on every rail (rule 19). */
void fence_all(struct shift_conn *c)
{
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		fence_rail(c, i);
}

/* Rule 6: rep is the newest epoch in which a packet of the peer was executed. */
static void record_rep(struct shift_conn *c, const struct rail *r, const struct shift_event *ev)
{
	/* The peer was never told of this epoch, and cannot have sent in it. If the arming failed,
	 * the QP's PSN is of the past. */
	if (r->tag > c->e)
		return;
	if (ev->fence != SHIFT_FENCE_SURE) {
		/* Whatever was executed in this epoch, only the receives tell. */
		c->rep_unsure = true;
		return;
	}
	if (r->tag < c->rep_epoch)
		return; /* an old rail's late answer */
	if ((ev->psn & SHIFT_PSN_MASK) != r->rx_psn) {
		/* A packet executed in this epoch proves that the peer committed it: no older
		 * epoch, and no doubt about one, matters any more. */
		c->rep_epoch = r->tag;
		c->rep_psn = ev->psn & SHIFT_PSN_MASK;
		c->rep_unsure = false;
	}
}

static void record_rail(struct shift_conn *c, struct rail *r, const struct shift_event *ev,
			uint64_t now)
{
	r->fencing = false;
	r->armed = false;
	r->hung = ev->fence != SHIFT_FENCE_SURE && ev->hung;
	r->counts = r->hung;
	r->unaccounted = !ev->clean;
	/* A message that proves the peer fenced may have come before our own fence was done. */
	r->dirty_until = rail_dirty_until(c, r->tag, now);
	c->stats.hung_fences += r->hung;
}

/*
 * The fence was not complete when it was answered, and is now (7.39). If the NIC hung, it may have
 * sent until now, and the peer's quarantine was over long ago: the peer took our SWITCH for the
 * proof that we are fenced. So we take no part in an epoch on that rail before these packets are
 * dead.
 */
static void clean_at_last(struct shift_conn *c, struct rail *r, uint64_t now)
{
	if (!r->hung && !r->unaccounted)
		return;
	if (r->hung)
		r->back_at = now + c->cfg.quarantine_ns;
	r->hung = false;
	r->unaccounted = false;
	if (c->state == SHIFT_ST_NO_RAIL)
		switch_retarget(c, SHIFT_R_RAIL_FOUND, now);
}

void fence_done(struct shift_conn *c, const struct shift_event *ev, uint64_t now)
{
	struct rail *r = &c->rail[ev->rail];

	if (ev->epoch != r->tag)
		return;
	if (!r->fencing) {
		if (ev->clean)
			clean_at_last(c, r, now);
		return;
	}
	record_rail(c, r, ev, now);
	record_rep(c, r, ev);
	/* After an overflow the log says sent of what nobody has posted. */
	if (r->tag == c->lastc)
		shift_sendlog_settle(&c->sq, c->flushed, !r->hung && !c->overflowed);
	if (c->state == SHIFT_ST_FENCE)
		switch_fenced(c, now);
	else if (c->state == SHIFT_ST_GIVEUP || c->state == SHIFT_ST_CLOSING)
		giveup_fenced(c);
}
