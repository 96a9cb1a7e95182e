/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The end: give-up, destroy, and the peer's end (doc/protocol.md, rules 17, 19, 20). */
#include "lib/core/conn_int.h"

bool giveup_due(const struct shift_conn *c, uint64_t now)
{
	return c->plan.trouble && conn_since(now, c->plan.trouble) >= c->cfg.giveup_ns;
}

static void stop_timers(struct shift_conn *c)
{
	c->rto_at = c->timeout_at = c->check_at = NEVER;
}

static void fence_for_good(struct shift_conn *c, enum shift_state to, enum shift_reason why)
{
	/* To a peer that was never told of us nothing has to be proved. The NIC's own RESET or
	 * destruction, which follows, stops the QP as it does without us. */
	if (to == SHIFT_ST_CLOSING && conn_unknown_to_peer(c))
		c->rail[0].armed = false;
	conn_hold(c);
	stop_timers(c);
	conn_set_state(c, to, why);
	fence_all(c);
	giveup_fenced(c);
}

/* Rule 19: not one error completion before no QP of ours can execute another packet. */
void giveup_start(struct shift_conn *c, enum shift_reason reason, uint32_t status, uint32_t vendor)
{
	if (c->state >= SHIFT_ST_GIVEUP)
		return;
	c->end_reason = (uint8_t)reason;
	/* The NIC's own status, if it named a cause: never worse than without us. */
	if (reason != SHIFT_R_GIVEUP_TIME || !c->err_status ||
	    c->err_status == SHIFT_WC_WR_FLUSH_ERR) {
		c->err_status = status;
		c->err_vendor = vendor;
	}
	fence_for_good(c, SHIFT_ST_GIVEUP, reason);
}

/* The error of the NIC that is being left, or was left last, if it named a cause; else 0. */
uint32_t giveup_cause(const struct shift_conn *c)
{
	return c->err_status != SHIFT_WC_WR_FLUSH_ERR ? c->err_status : 0;
}

/*
 * The request could be executed on rail 0 only (doc/protocol.md, 2). So it fails as it would have
 * without us: with the error of the NIC that was left.
 */
void giveup_no_key(struct shift_conn *c, const struct shift_event *ev)
{
	uint32_t status = giveup_cause(c) ? giveup_cause(c) : c->left_status;

	if (ev->rail != c->r || ev->epoch != c->rail[c->r].tag)
		return;
	if (c->state != SHIFT_ST_ACTIVE && c->state != SHIFT_ST_PREPARE &&
	    c->state != SHIFT_ST_DRAIN && c->state != SHIFT_ST_SWITCHING)
		return;
	giveup_start(c, SHIFT_R_NO_KEY, status ? status : SHIFT_WC_RETRY_EXC_ERR,
		     SHIFT_VENDOR_NO_KEY);
}

/* Some action was lost, so what the caller does is not what we believe: end it visibly (7.40). */
void giveup_overflowed(struct shift_conn *c)
{
	if (c->overflowed)
		giveup_start(c, SHIFT_R_OVERFLOW, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_OVERFLOW);
}

/* The peer's process has said that it ends. Stock verbs tell an idle QP nothing of it, so receives
 * that wait do not flush before the program sends again (7.47). */
void giveup_peer_left(struct shift_conn *c)
{
	if (c->state == SHIFT_ST_SETUP || c->state >= SHIFT_ST_GIVEUP)
		return;
	c->quiet = true;
	giveup_start(c, SHIFT_R_PEER_LEFT, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PEER_LEFT);
}

/* From now on it is a QP in ERR. */
void giveup_break_quiet(struct shift_conn *c)
{
	if (!c->quiet)
		return;
	c->quiet = false;
	conn_emit(c, SHIFT_ACT_QP_ERR, c->r);
}

void giveup_close(struct shift_conn *c, uint8_t how)
{
	if (c->state == SHIFT_ST_SETUP && how == SHIFT_CLOSE_ERR) {
		/* The program may have had errors of this QP as they came. It gets the rest in the
		 * same way: made from the log, some would come twice (7.27). */
		hello_void(c);
		conn_emit(c, SHIFT_ACT_CLOSED, c->r);
		return;
	}
	switch ((enum shift_state)c->state) {
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSED: /* already fenced: only what the program may still see changes */
		if (c->quiet && how == SHIFT_CLOSE_ERR)
			conn_offer_completions(c);
		c->quiet = false;
		c->silent = c->silent || how != SHIFT_CLOSE_ERR;
		conn_emit(c, SHIFT_ACT_CLOSED, c->r);
		return;
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_CLOSING:
		c->silent = c->silent || how != SHIFT_CLOSE_ERR;
		c->quiet = false;
		conn_set_state(c, SHIFT_ST_CLOSING, SHIFT_R_CLOSE);
		break;
	case SHIFT_ST_SETUP:
	case SHIFT_ST_ACTIVE:
	case SHIFT_ST_PREPARE:
	case SHIFT_ST_DRAIN:
	case SHIFT_ST_FENCE:
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_QUARANTINE:
	case SHIFT_ST_ARM:
	case SHIFT_ST_SWITCHING:
	case SHIFT_ST_COUNT:
		c->silent = how != SHIFT_CLOSE_ERR;
		c->end_reason = SHIFT_R_CLOSE;
		c->err_status = SHIFT_WC_WR_FLUSH_ERR;
		c->err_vendor = 0;
		fence_for_good(c, SHIFT_ST_CLOSING, SHIFT_R_CLOSE);
		break;
	}
}

/* Over every rail that may work: the one in use is likely the one that does not. */
static void announce_end(struct shift_conn *c)
{
	struct shift_msg m;

	giveup_answer(c, &m);
	if (m.type != SHIFT_MSG_FAILED || c->end_reason == SHIFT_R_PEER_DIED ||
	    c->end_reason == SHIFT_R_PEER_LEFT || c->end_reason == SHIFT_R_CLOSE)
		return;
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (!c->rail[i].down)
			conn_send(c, &m, i);
}

/* Called after each fence, and at once when there was nothing to fence. */
void giveup_fenced(struct shift_conn *c)
{
	bool closing = c->state == SHIFT_ST_CLOSING;

	if (fence_pending(c))
		return;
	c->recv_final = c->rq->done;
	if (c->closed.type == SHIFT_MSG_CLOSED && !closing)
		replay_closed(c, &c->closed);
	else
		shift_sendlog_track(&c->sq);
	c->quiet &= c->sq.ready == c->sq.head; /* nothing was outstanding */
	conn_set_state(c, closing ? SHIFT_ST_CLOSED : SHIFT_ST_DEAD, SHIFT_R_FENCED);
	if (!closing && !c->quiet)
		conn_emit(c, SHIFT_ACT_QP_ERR, c->r);
	if (!c->silent)
		conn_offer_completions(c);
	if (closing)
		conn_emit(c, SHIFT_ACT_CLOSED, c->r);
	announce_end(c);
}

/*
 * The answer of a connection that is over to any SWITCH or question. One that has not been
 * protected cannot tell how many receives it consumed: those that flushed were passed on and
 * counted (7.27).
 */
void giveup_answer(const struct shift_conn *c, struct shift_msg *m)
{
	bool failed = c->end_reason != SHIFT_R_CLOSE || c->unprotected;

	*m = (struct shift_msg){
		.type = failed ? SHIFT_MSG_FAILED : SHIFT_MSG_CLOSED,
		.src_nonce = c->cfg.nonce,
		.dst_nonce = c->cfg.peer_nonce,
		.src_conn = c->cfg.id,
		.dst_conn = c->cfg.peer_id,
	};
	if (failed)
		return;
	m->fence = c->rep_unsure ? SHIFT_FENCE_UNSURE : SHIFT_FENCE_SURE;
	m->recv_valid = true;
	m->rep_epoch = c->rep_epoch;
	m->rep_psn = c->rep_psn;
	m->recv_cum = c->recv_final;
}

/* FAILED or CLOSED from the peer, or a question to a connection that is over. */
void giveup_msg(struct shift_conn *c, const struct shift_msg *m)
{
	struct shift_msg answer;

	if (m->type != SHIFT_MSG_FAILED && m->type != SHIFT_MSG_CLOSED) {
		if (c->state == SHIFT_ST_GIVEUP || c->state == SHIFT_ST_CLOSING)
			return; /* not fenced yet: the peer will ask again */
		giveup_answer(c, &answer);
		conn_answer(c, &answer, c->msg_rails);
		return;
	}
	if (c->state == SHIFT_ST_SETUP || c->state >= SHIFT_ST_GIVEUP)
		return;
	if (m->type == SHIFT_MSG_CLOSED) {
		c->closed = *m;
		giveup_start(c, SHIFT_R_PEER_CLOSED, SHIFT_WC_RETRY_EXC_ERR,
			     SHIFT_VENDOR_PEER_CLOSED);
	} else {
		giveup_start(c, SHIFT_R_PEER_FAILED, SHIFT_WC_RETRY_EXC_ERR,
			     SHIFT_VENDOR_PEER_FAILED);
	}
}

void shift_conn_tombstone(const struct shift_conn *c, uint64_t now_ns, struct shift_tombstone *t)
{
	*t = (struct shift_tombstone){0};
	if (c->state != SHIFT_ST_DEAD && c->state != SHIFT_ST_CLOSED &&
	    !(c->state == SHIFT_ST_SETUP && c->unprotected))
		return;
	giveup_answer(c, &t->answer);
	t->expires_ns = now_ns + c->cfg.tombstone_ns;
	t->valid = true;
}
