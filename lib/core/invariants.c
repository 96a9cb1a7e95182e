/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What must be true of a connection between any two calls, whatever the network, the NICs and the
 * peer do. Compiled in with -DSHIFT_CHECKED only: the simulator and the unit tests abort where
 * something does not hold, and name it.
 */
#include "lib/core/conn_int.h"

#ifdef SHIFT_CHECKED
#include <stdio.h>
#include <stdlib.h>

static void invariant_broken(const struct shift_conn *c, const char *what)
{
	char line[512];

	shift_conn_dump(c, line, sizeof(line));
	fprintf(stderr, "lib/core: broken invariant: %s\n%s\n", what, line);
	abort();
}

#define HOLDS(c, cond)                              \
	do {                                        \
		if (!(cond))                        \
			invariant_broken(c, #cond); \
	} while (0)

/* --- the logs --------------------------------------------------------------------------------- */

/* The cumulative counts are what maps a PSN to a WR. */
static void check_entries(const struct shift_conn *c)
{
	const struct shift_sendlog *l = &c->sq;
	uint64_t before = 0;

	for (uint64_t i = l->tail; i < l->sent; i++) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, i);
		bool pending = e->state == SHIFT_WR_PENDING;

		HOLDS(c, e->cum >= before + (pending ? shift_wr_packets(e, l->mtu) : 0));
		HOLDS(c, i >= l->ready || !pending);
		before = e->cum;
	}
	HOLDS(c, before <= shift_sendlog_cum_sent(l));
}

static void check_logs(const struct shift_conn *c)
{
	const struct shift_sendlog *l = &c->sq;

	HOLDS(c, l->tail <= l->ready && l->ready <= l->scan);
	HOLDS(c, l->scan <= l->sent && l->sent <= l->head);
	HOLDS(c, *l->sig_done <= l->sig_posted);
	HOLDS(c, l->cum_signal <= l->cum);
	HOLDS(c, l->held || l->sent == l->head);
	HOLDS(c, l->kept <= l->head && l->head <= l->room_end);
	HOLDS(c, !l->tracked || l->kept <= l->tail);
	HOLDS(c, l->held == c->holding);
	HOLDS(c, l->tracked || (c->r == 0 && !c->holding && !conn_recv_held(c)));
	HOLDS(c, c->cfg.srq || c->rq->done <= c->rq->posted);
	HOLDS(c, !c->cfg.srq || !c->rq->posted);
	HOLDS(c, c->cfg.srq || c->rq->posted - c->rq->done <= (uint64_t)c->rq->mask + 1);
	if (!l->tracked)
		return; /* tail is of the past */
	HOLDS(c, l->head - l->tail <= (uint64_t)l->mask + 1);
	check_entries(c);
}

/* --- the rails -------------------------------------------------------------------------------- */

/* Data can be executed on one rail only (rules 5, 14). */
static void check_rails(const struct shift_conn *c)
{
	unsigned int open = 0;

	for (unsigned int i = 0; i < c->cfg.rails; i++) {
		const struct rail *r = &c->rail[i];

		open += r->armed && !r->fencing;
		HOLDS(c, !r->fencing || r->armed);
		HOLDS(c, !r->armed || !(r->hung || r->unaccounted));
		HOLDS(c, !r->armed || r->dirty_until == NEVER);
		HOLDS(c, r->tag <= c->e || (r->tag == c->plan.arm_e && i == c->plan.arm_r) ||
				 !r->armed || r->fencing);
	}
	HOLDS(c, open <= 1);
}

static bool any_rail_possible(const struct shift_conn *c)
{
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (rail_possible(c, i))
			return true;
	return false;
}

static bool any_rail_armed(const struct shift_conn *c)
{
	for (unsigned int i = 0; i < c->cfg.rails; i++)
		if (c->rail[i].armed)
			return true;
	return false;
}

/* --- the protocol ----------------------------------------------------------------------------- */

static void check_epochs(const struct shift_conn *c)
{
	HOLDS(c, c->lastc <= c->e);
	HOLDS(c, c->heard <= c->e && c->heard <= c->seen_e);
	HOLDS(c, c->proved_e <= c->seen_e);
	HOLDS(c, c->theirs.epoch <= c->proved_e);
	HOLDS(c, c->mine.epoch <= c->e);
	HOLDS(c, c->rep_epoch <= c->e);
	HOLDS(c, c->r < c->cfg.rails);
}

static void check_in_use(const struct shift_conn *c)
{
	const struct rail *r = &c->rail[c->r];

	HOLDS(c, r->armed && !r->fencing && r->tag == c->e);
	HOLDS(c, !conn_switching(c) == (c->lastc == c->e));
}

static void check_state(const struct shift_conn *c)
{
	switch ((enum shift_state)c->state) {
	case SHIFT_ST_SETUP: return;
	case SHIFT_ST_ACTIVE:
		check_in_use(c);
		HOLDS(c, c->check_at != NEVER);
		return;
	case SHIFT_ST_PREPARE:
		check_in_use(c);
		HOLDS(c, c->plan.r < c->cfg.rails && c->plan.r != c->r);
		HOLDS(c, c->rto_at != NEVER && c->timeout_at != NEVER);
		return;
	case SHIFT_ST_DRAIN:
		check_in_use(c);
		HOLDS(c, c->plan.r < c->cfg.rails && c->plan.r != c->r);
		HOLDS(c, c->timeout_at != NEVER);
		return;
	case SHIFT_ST_FENCE:
		HOLDS(c, c->rail[c->r].fencing);
		HOLDS(c, c->plan.trouble);
		return;
	case SHIFT_ST_NO_RAIL:
		HOLDS(c, c->plan.r == NO_RAIL && !any_rail_possible(c));
		HOLDS(c, c->plan.trouble);
		return;
	case SHIFT_ST_QUARANTINE:
		HOLDS(c, c->plan.r < c->cfg.rails && c->plan.e > c->e);
		HOLDS(c, !any_rail_armed(c));
		HOLDS(c, c->plan.trouble && c->rto_at != NEVER && c->timeout_at != NEVER);
		return;
	case SHIFT_ST_ARM:
		HOLDS(c, c->plan.arm_r < c->cfg.rails && c->plan.arm_e > c->e);
		HOLDS(c,
		      c->rail[c->plan.arm_r].armed && c->rail[c->plan.arm_r].tag == c->plan.arm_e);
		HOLDS(c, c->plan.trouble);
		return;
	case SHIFT_ST_SWITCHING:
		check_in_use(c);
		HOLDS(c, c->mine.epoch == c->e && c->mine.rail == c->r);
		HOLDS(c, c->plan.trouble && c->rto_at != NEVER && c->timeout_at != NEVER);
		return;
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_CLOSING: HOLDS(c, fence_pending(c)); return;
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSED: HOLDS(c, !any_rail_armed(c)); return;
	case SHIFT_ST_COUNT: break;
	}
	HOLDS(c, c->state < SHIFT_ST_COUNT);
}

/* What is kept beside the state, for the data path, says the same as the state. */
static void check_flags(const struct shift_conn *c)
{
	bool over = c->state == SHIFT_ST_DEAD || c->state == SHIFT_ST_CLOSED;

	HOLDS(c, c->holding == (c->state >= SHIFT_ST_DRAIN ||
				(c->state != SHIFT_ST_SETUP &&
				 (c->sq.lost != NEVER || c->waits_at != NEVER))));
	HOLDS(c, !c->silent || over || c->state == SHIFT_ST_CLOSING);
	HOLDS(c, !c->err_given || over);
}

/* What is done while data flows, and all that flushes, is for the program to be taken. */
static void check_offered(const struct shift_conn *c)
{
	bool flows = c->state >= SHIFT_ST_ACTIVE && c->state <= SHIFT_ST_DRAIN;
	bool due = flows && c->sq.tracked && c->sq.ready > c->sq.tail;

	for (uint32_t i = c->act_tail; i < c->act_head && due; i++)
		due = conn_action_at((struct shift_conn *)c, i)->type != SHIFT_ACT_COMPLETE;
	HOLDS(c, !due);
}

void conn_check(const struct shift_conn *c)
{
	check_logs(c);
	check_rails(c);
	check_epochs(c);
	check_state(c);
	check_flags(c);
	check_offered(c);
}

/* The same while sends may be logged in runs (fast.h), of which the counters do not know yet. */
void conn_check_post(const struct shift_conn *c)
{
	check_flags(c);
	check_offered(c);
}

void conn_check_emit(const struct shift_conn *c, enum shift_action_type type, uint8_t rail)
{
	if (type == SHIFT_ACT_POST_SEND)
		HOLDS(c, c->state == SHIFT_ST_ACTIVE); /* rule 14 */
	if (type == SHIFT_ACT_POST_SEND || type == SHIFT_ACT_POST_RECV)
		HOLDS(c, rail == c->r && c->rail[rail].tag == c->e && c->rail[rail].armed &&
				 !c->rail[rail].fencing);
	if (type == SHIFT_ACT_POST_SEND)
		HOLDS(c, c->lastc == c->e);
}
#endif
