/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* HELLO: protected only when both ends agree on who they are (doc/protocol.md, rule 22). */
#include "lib/core/conn_int.h"

#define HELLO_RTO_MAX_NS 1000000000ull

/* Over each rail in turn: rail 0's control link may be the one that is down. */
static void send_hello(struct shift_conn *c, uint32_t rails)
{
	struct shift_msg m = {
		.type = SHIFT_MSG_HELLO,
		.heard = c->hello_heard,
		.qpn = c->cfg.qpn,
		.dest_qpn = c->cfg.dest_qpn,
		.sq_psn = c->cfg.sq_psn & SHIFT_PSN_MASK,
		.rq_psn = c->cfg.rq_psn & SHIFT_PSN_MASK,
	};

	life_say(c, &m);
	conn_answer(c, &m, rails);
}

void hello_start(struct shift_conn *c, uint64_t now)
{
	if (c->unprotected || c->state != SHIFT_ST_SETUP || c->rto_at != NEVER)
		return;
	c->hello_started = true;
	if (!c->sq_psn_known)
		return; /* the peer will say what it expects of us */
	conn_arm_rto(c, now);
	send_hello(c, 1u << 0);
}

static bool hello_matches(const struct shift_conn *c, const struct shift_msg *m)
{
	return m->qpn == c->cfg.dest_qpn && m->dest_qpn == c->cfg.qpn &&
	       m->sq_psn == (c->cfg.rq_psn & SHIFT_PSN_MASK) && life_matches(c, m) &&
	       (!c->sq_psn_known || m->rq_psn == (c->cfg.sq_psn & SHIFT_PSN_MASK));
}

/* A QP that only receives has no sq_psn of its own. Should it send one day, this must be it (7.29).
 */
static void adopt_psn(struct shift_conn *c, const struct shift_msg *m)
{
	c->sq_psn_known = true;
	c->cfg.sq_psn = c->tx_psn = m->rq_psn;
}

/* In any state: a peer that lost our HELLO must be answered even during a switch. */
void hello_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (!hello_matches(c, m)) {
		c->stats.hello_mismatch++;
		return;
	}
	if (c->unprotected)
		return;
	if (c->state == SHIFT_ST_SETUP && !c->hello_started)
		return; /* our own QP is not in RTS: nothing to vouch for; the peer repeats */
	if (c->state == SHIFT_ST_SETUP) {
		if (!c->sq_psn_known)
			adopt_psn(c, m);
		c->cfg.peer_nonce = m->src_nonce;
		c->hello_heard = true;
		c->peer_life = m->life;
		life_matched(c, now);
		c->rto_at = NEVER;
		conn_watch(c, now);
		conn_set_state(c, SHIFT_ST_ACTIVE, SHIFT_R_HELLO);
	}
	if (!m->heard)
		send_hello(c, c->msg_rails);
}

/*
 * The program has had an error of this QP: to protect it now would complete the same WRs once more.
 * It stays unprotected (7.27). A peer that is protected learns this when it asks.
 */
void hello_void(struct shift_conn *c)
{
	c->unprotected = true;
	c->rto_at = NEVER;
}

bool shift_conn_release(struct shift_conn *c)
{
	if ((c->state == SHIFT_ST_ACTIVE && !c->e) || shift_conn_release_due(c))
		conn_set_state(c, SHIFT_ST_SETUP, SHIFT_R_RELEASED);
	if (c->state == SHIFT_ST_SETUP)
		hello_void(c);
	return c->state == SHIFT_ST_SETUP;
}

void hello_tick(struct shift_conn *c, uint64_t now)
{
	if (now < c->rto_at)
		return;
	c->attempt++;
	c->stats.retransmits++;
	c->rto_ns = 2 * c->rto_ns < HELLO_RTO_MAX_NS ? 2 * c->rto_ns : HELLO_RTO_MAX_NS;
	c->rto_at = now + c->rto_ns;
	send_hello(c, 1u << c->attempt % c->cfg.rails);
}
