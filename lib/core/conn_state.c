/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The helpers of all files of the state machine, none of which it calls: the one setter of the
 * state, the queue of actions, held posts. */
#include <string.h>

#include "lib/core/conn_int.h"

#ifdef SHIFT_CHECKED
struct shift_coverage shift_coverage;
#endif

/* The only place where the state changes. */
void conn_set_state(struct shift_conn *c, enum shift_state to, enum shift_reason reason)
{
	struct shift_action *a;

	COVER(change[c->state][to][reason]);
	a = conn_emit(c, SHIFT_ACT_REPORT, c->r);
	a->from = c->state;
	a->to = (uint8_t)to;
	a->reason = (uint8_t)reason;
	a->epoch = c->e;
	c->state = (uint8_t)to;
	c->reason = (uint8_t)reason;
}

/* Without these a connection would not come to its end, or nobody would learn of it. */
static bool ends_connection(enum shift_action_type type)
{
	switch (type) {
	case SHIFT_ACT_FENCE:
	case SHIFT_ACT_COMPLETE:
	case SHIFT_ACT_HOLD:
	case SHIFT_ACT_QP_ERR:
	case SHIFT_ACT_CLOSED:
	case SHIFT_ACT_REPORT: return true;
	case SHIFT_ACT_ARM:
	case SHIFT_ACT_POST_RECV:
	case SHIFT_ACT_POST_SEND:
	case SHIFT_ACT_SEND_MSG:
	case SHIFT_ACT_RELEASE:
	case SHIFT_ACT_QUERY_PSN:
	case SHIFT_ACT_COUNT: return false;
	}
	return false;
}

/* The bound is exceeded. Where an action goes then, if anywhere. In SETUP and at the end there are
 * only messages that are repeated or asked for again. */
static struct shift_action *emit_overflowing(struct shift_conn *c, enum shift_action_type type)
{
	c->stats.overflow++;
	c->overflowed |= c->state > SHIFT_ST_SETUP && c->state < SHIFT_ST_GIVEUP;
	if (ends_connection(type) && c->act_head < SHIFT_ACTIONS_MAX)
		return conn_action_at(c, c->act_head++);
	return &c->act_lost;
}

/* Never fails. */
struct shift_action *conn_emit(struct shift_conn *c, enum shift_action_type type, uint8_t rail)
{
	struct shift_action *a;

	COVER(action[type]);
	conn_check_emit(c, type, rail);
	if (c->act_head < SHIFT_ACTIONS_USUAL)
		a = conn_action_at(c, c->act_head++);
	else
		a = emit_overflowing(c, type);
	memset(a, 0, offsetof(struct shift_action, msg));
	a->type = (uint8_t)type;
	a->rail = rail;
	return a;
}

bool shift_conn_action(struct shift_conn *c, struct shift_action *a)
{
	if (c->act_tail == c->act_head) {
		c->act_tail = c->act_head = 0;
		return false;
	}
	*a = *conn_action_at(c, c->act_tail++);
	return true;
}

void conn_send(struct shift_conn *c, struct shift_msg *m, uint8_t rail)
{
	m->src_nonce = c->cfg.nonce;
	m->dst_nonce = c->cfg.peer_nonce;
	m->src_conn = c->cfg.id;
	m->dst_conn = c->cfg.peer_id;
	conn_emit(c, SHIFT_ACT_SEND_MSG, rail)->msg = *m;
}

void conn_answer(struct shift_conn *c, struct shift_msg *m, uint32_t rails)
{
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (rails >> i & 1)
			conn_send(c, m, i);
}

void conn_watch(struct shift_conn *c, uint64_t now)
{
	c->check_at = now + c->cfg.no_progress_ns;
	c->query_same = 0;
	c->query_open = false;
	c->query_rail = c->r;
}

void conn_hold(struct shift_conn *c)
{
	if (c->holding)
		return;
	c->holding = true;
	shift_sendlog_hold(&c->sq);
	conn_emit(c, SHIFT_ACT_HOLD, c->r);
}

void conn_release(struct shift_conn *c)
{
	c->holding = false;
	shift_sendlog_release(&c->sq);
	conn_emit(c, SHIFT_ACT_RELEASE, c->r);
	/* If nothing is outstanding, no completion will ask. */
	if (c->sq.tail == c->sq.head)
		conn_untrack(c);
}

/* Back on the NIC that the program chose, nothing left to watch: count only. */
void conn_untrack(struct shift_conn *c)
{
	struct shift_sendlog *l = &c->sq;

	if (l->tracked && l->tail >= l->special_end && c->r == 0 && !c->holding &&
	    c->state == SHIFT_ST_ACTIVE)
		l->tracked = false;
}

/* The PSN at which one side's packets of an epoch start. That of epoch 0 is the program's. */
uint32_t conn_psn(const struct shift_conn *c, uint32_t epoch, unsigned int side)
{
	return shift_h24(c->cfg.key, c->cfg.conn, epoch, side);
}

void conn_arm_rto(struct shift_conn *c, uint64_t now)
{
	c->rto_ns = c->cfg.rto_ns;
	c->rto_at = now + c->rto_ns;
	c->attempt = 0;
}

bool conn_switching(const struct shift_conn *c)
{
	return c->state >= SHIFT_ST_FENCE && c->state <= SHIFT_ST_SWITCHING;
}

/*
 * Have we told the peer that we hold, for a switch to that rail, and do we still? Otherwise its
 * switch is none that was planned with us (7.35).
 */
bool conn_promised(const struct shift_conn *c, uint8_t rail, uint64_t now)
{
	return c->state == SHIFT_ST_DRAIN && c->plan.ready_sent && rail == c->plan.r &&
	       now < c->plan.until;
}

void conn_offer_completions(struct shift_conn *c)
{
	conn_emit(c, SHIFT_ACT_COMPLETE, c->r);
}

/* Data moves: the give-up clock and the choice of rails start afresh. */
void conn_trouble_over(struct shift_conn *c)
{
	c->plan.trouble = 0;
	c->plan.backoff = 0;
	c->plan.refusals = 0;
	for (unsigned int i = 0; i < c->cfg.rails; i++)
		c->rail[i].tries = 0;
}
