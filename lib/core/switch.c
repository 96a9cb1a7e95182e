/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The handshake (doc/protocol.md, rules 2-9, 14-17). */
#include "lib/core/conn_int.h"

#define RTO_MAX_NS   200000000ull
#define BACKOFF_MAX  3		 /* switch timeout at most eightfold */
#define EPOCH_MAX    0xffff0000u /* honest peers never count so far; above, ours would wrap */
#define REFUSALS_MAX (2 * SHIFT_RAILS_MAX)
#define PATIENCE_MAX 4 /* timeouts waited out on a rail that answers probes but not us */

/* Rule 3: the smallest epoch of my parity above all that I have seen. So the two sides can never
 * name different rails by the same number. */
static uint32_t next_epoch(const struct shift_conn *c)
{
	uint32_t e = c->e;

	if (c->plan.e > e)
		e = c->plan.e;
	if (c->seen_e > e)
		e = c->seen_e;
	e++;
	return (e & 1) == c->cfg.side ? e : e + 1;
}

static uint64_t switch_timeout(const struct shift_conn *c)
{
	uint64_t t = c->cfg.switch_timeout_ns << c->plan.backoff;

	return c->cfg.side ? t + t / 2 : t; /* rule 17: side 1 waits longer */
}

static void restart_timers(struct shift_conn *c, uint64_t now)
{
	conn_arm_rto(c, now);
	c->plan.since = now;
	c->plan.patience = 0;
	c->timeout_at = now + switch_timeout(c);
}

static void send_switch(struct shift_conn *c)
{
	c->mine.heard = c->heard;
	conn_send(c, &c->mine, c->mine.rail);
}

/* Rule 2. Frozen: all later copies say the same, but for heard. */
static void freeze_switch(struct shift_conn *c, uint64_t now)
{
	uint64_t avail = c->rq->posted - c->rq->done;

	c->mine = (struct shift_msg){
		.type = SHIFT_MSG_SWITCH,
		.rail = c->r,
		.epoch = c->e,
		.committed = rail_live_epoch(c, now),
		.rep_epoch = c->rep_epoch,
		.rep_psn = c->rep_psn,
		.recv_cum = c->rq->done,
		.recv_valid = true,
		.recv_avail = c->cfg.srq || avail > UINT32_MAX ? UINT32_MAX : (uint32_t)avail,
		.fence = c->rep_unsure ? SHIFT_FENCE_UNSURE : SHIFT_FENCE_SURE,
	};
}

/* Says where I am going; my proof follows when it can. It commits nothing. fence: PENDING if I am
 * fenced (7.2), LEAVING if not even that (7.32). */
static void send_unproved(struct shift_conn *c, enum shift_fence fence, uint64_t now)
{
	struct shift_msg m = {
		.type = SHIFT_MSG_SWITCH,
		.rail = c->plan.r,
		.epoch = c->plan.e,
		.heard = c->heard,
		.committed = rail_live_epoch(c, now),
		.rep_epoch = c->rep_epoch,
		.rep_psn = c->rep_psn,
		.recv_cum = c->rq->done,
		.recv_valid = true,
		.fence = (uint8_t)fence,
	};

	conn_send(c, &m, c->plan.r);
}

/* --- ENTER: rules 5 to 7 ---------------------------------------------------------------------- */

static void arm_target(struct shift_conn *c, enum shift_reason reason)
{
	struct rail *r = &c->rail[c->plan.r];
	struct shift_action *a;

	r->tag = c->plan.e;
	r->rx_psn = conn_psn(c, c->plan.e, !c->cfg.side);
	r->armed = true;
	r->dirty_until = NEVER;
	c->plan.arm_r = c->plan.r;
	c->plan.arm_e = c->plan.e;
	c->rto_at = c->timeout_at = NEVER;
	conn_set_state(c, SHIFT_ST_ARM, reason);
	a = conn_emit(c, SHIFT_ACT_ARM, c->plan.r);
	a->epoch = c->plan.e;
	a->tx_psn = conn_psn(c, c->plan.e, c->cfg.side);
	a->rx_psn = r->rx_psn;
}

/* A new epoch on whatever rail is best now; NO_RAIL if there is none. */
static void renew_plan(struct shift_conn *c, uint64_t now)
{
	c->plan.r = rail_choose(c, now);
	if (c->plan.r == NO_RAIL)
		return;
	c->plan.e = next_epoch(c);
	c->plan.started = true;
	rail_tried(c, c->plan.r);
	c->chosen_ns = now;
}

/* Must our count of receives still settle, because the NIC that we left did not answer its fence?
 */
static bool own_nic_unsettled(const struct shift_conn *c, uint64_t now)
{
	const struct rail *r = &c->rail[c->r];

	return r->hung && r->dirty_until > now;
}

/* Fenced: go as far towards the target as the rails allow. */
static void advance_plan(struct shift_conn *c, enum shift_reason reason, uint64_t now)
{
	if (c->plan.r == NO_RAIL || !rail_possible(c, c->plan.r))
		renew_plan(c, now);
	if (c->plan.r == NO_RAIL) {
		if (c->state != SHIFT_ST_NO_RAIL)
			conn_set_state(c, SHIFT_ST_NO_RAIL, SHIFT_R_NO_RAIL);
		c->rto_at = c->timeout_at = NEVER;
		return;
	}
	if (rail_usable(c, c->plan.r, now) && !own_nic_unsettled(c, now)) {
		arm_target(c, reason);
		return;
	}
	if (c->state != SHIFT_ST_QUARANTINE)
		conn_set_state(c, SHIFT_ST_QUARANTINE, reason);
	restart_timers(c, now);
	c->timeout_at += c->cfg.quarantine_ns;
	send_unproved(c, SHIFT_FENCE_PENDING, now);
}

void switch_fenced(struct shift_conn *c, uint64_t now)
{
	advance_plan(c, SHIFT_R_FENCED, now);
}

static void leave_rail(struct shift_conn *c, enum shift_reason reason, uint64_t now)
{
	c->rto_at = c->timeout_at = c->check_at = NEVER;
	conn_set_state(c, SHIFT_ST_FENCE, reason);
	if (!c->rail[c->r].armed) {
		switch_fenced(c, now);
		return;
	}
	/* Then both ends fence at the same time. Said once, because what follows says more. */
	if (c->plan.started && c->plan.r != NO_RAIL)
		send_unproved(c, SHIFT_FENCE_LEAVING, now);
	fence_rail(c, c->r);
}

static void enter_epoch(struct shift_conn *c, uint32_t e, uint8_t r, enum shift_reason reason,
			uint64_t now)
{
	if (!c->plan.trouble)
		c->plan.trouble = now ? now : 1;
	c->plan.e = e;
	c->plan.r = r;
	c->chosen_ns = now;
	if (r != NO_RAIL)
		rail_tried(c, r);
	switch ((enum shift_state)c->state) {
	case SHIFT_ST_ACTIVE:
	case SHIFT_ST_PREPARE:
	case SHIFT_ST_DRAIN:
		conn_hold(c);
		leave_rail(c, reason, now);
		return;
	case SHIFT_ST_SWITCHING: leave_rail(c, reason, now); return;
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_QUARANTINE: advance_plan(c, reason, now); return;
	case SHIFT_ST_FENCE: /* its end will see the new plan */
	case SHIFT_ST_ARM:   /* likewise */
	case SHIFT_ST_SETUP:
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return;
	}
}

/* Rule 3. rail: where to, or NO_RAIL for the best. */
void switch_start(struct shift_conn *c, enum shift_reason reason, uint8_t rail, uint64_t now)
{
	bool planned = reason == SHIFT_R_PREPARED;

	if (giveup_due(c, now)) {
		giveup_start(c, SHIFT_R_GIVEUP_TIME, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_GIVEUP);
		return;
	}
	if (!planned && reason != SHIFT_R_TIMEOUT && !conn_switching(c))
		rail_failed(c, c->r, now);
	if (!conn_switching(c)) {
		c->plan.planned = planned;
		c->plan.rnr = false;
	}
	c->plan.started = true;
	if (rail == NO_RAIL)
		rail = rail_choose(c, now);
	enter_epoch(c, next_epoch(c), rail, reason, now);
}

/* The plan under way has failed before SWITCH was sent: take another (T10-T13). */
void switch_retarget(struct shift_conn *c, enum shift_reason reason, uint64_t now)
{
	uint8_t r = rail_choose(c, now);

	if (r == NO_RAIL && c->state == SHIFT_ST_NO_RAIL)
		return;
	c->plan.started = true;
	enter_epoch(c, r == NO_RAIL ? c->plan.e : next_epoch(c), r, reason, now);
}

/*
 * Answer at once that the peer's rail is not possible here? If there is no rail that is possible at
 * both ends, each would refuse the other's for ever, as fast as messages travel. So after some
 * refusals time has to pass before the next one.
 */
static bool may_refuse(struct shift_conn *c, uint64_t now)
{
	if (c->plan.refusals >= REFUSALS_MAX && now < c->plan.refused_ns + RTO_MAX_NS)
		return false;
	c->plan.refusals++;
	c->plan.refused_ns = now;
	return true;
}

/* Rule 4. */
void switch_join(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	bool planned = conn_promised(c, m->rail, now);

	if (!rail_possible(c, m->rail)) {
		if (may_refuse(c, now))
			switch_start(c, SHIFT_R_PEER_SWITCH, NO_RAIL, now);
		return;
	}
	if (!conn_switching(c)) {
		if (!planned)
			rail_failed(c, c->r, now);
		c->plan.planned = planned;
		c->plan.rnr = false;
	}
	c->plan.started = false;
	enter_epoch(c, m->epoch, m->rail, SHIFT_R_PEER_SWITCH, now);
}

/* --- ARM answered ---------------------------------------------------------------------------- */

static void commit_epoch(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (c->plan.started && c->plan.planned)
		c->stats.planned++;
	else if (c->plan.started)
		c->stats.failovers++;
	else
		c->stats.joins++;
	c->rto_at = c->timeout_at = NEVER;
	c->sent_e = rail_live_epoch(c, now);
	c->quiet_ns = NEVER;
	if (replay_commit(c, m))
		return;
	c->stats.switches++;
	c->active_ns = now;
	if (c->plan.planned)
		conn_trouble_over(c);
	conn_watch(c, now);
	c->in_vain = 0;
	c->plan.r = NO_RAIL;
}

static void post_receives(struct shift_conn *c)
{
	struct shift_action *a;
	uint64_t n = c->cfg.srq ? 0 : c->rq->posted - c->rq->done;

	for (unsigned int i = 0; i < c->cfg.rails; i++)
		c->rail[i].counts = false; /* what they may still have had is posted here */
	if (!n)
		return;
	a = conn_emit(c, SHIFT_ACT_POST_RECV, c->r);
	a->epoch = c->e;
	a->first = c->rq->done;
	a->count = (uint32_t)n;
}

void switch_armed(struct shift_conn *c, const struct shift_event *ev, uint64_t now)
{
	if (c->state != SHIFT_ST_ARM || ev->rail != c->plan.arm_r || ev->epoch != c->plan.arm_e)
		return;
	c->e = c->plan.arm_e;
	c->r = c->plan.arm_r;
	c->plan.arm_r = NO_RAIL;
	if (c->plan.e != c->e) { /* a newer epoch came meanwhile; this one was never announced */
		leave_rail(c, SHIFT_R_ARMED, now);
		return;
	}
	freeze_switch(c, now);
	post_receives(c);
	conn_set_state(c, SHIFT_ST_SWITCHING, SHIFT_R_ARMED);
	restart_timers(c, now);
	if (c->theirs.epoch == c->e)
		c->heard = c->e;
	send_switch(c);
	if (c->theirs.epoch == c->e)
		commit_epoch(c, &c->theirs, now);
}

void switch_arm_failed(struct shift_conn *c, const struct shift_event *ev, uint64_t now)
{
	if (c->state != SHIFT_ST_ARM || ev->rail != c->plan.arm_r || ev->epoch != c->plan.arm_e)
		return;
	c->rail[ev->rail].armed = false;
	c->rail[ev->rail].dirty_until = now + c->cfg.rto_ns; /* no busy loop on a broken twin */
	c->plan.arm_r = NO_RAIL;
	conn_set_state(c, SHIFT_ST_QUARANTINE, SHIFT_R_ARM_FAILED);
	if (c->plan.e == ev->epoch)
		switch_retarget(c, SHIFT_R_ARM_FAILED, now);
	else
		advance_plan(c, SHIFT_R_ARM_FAILED, now);
}

/* --- SWITCH received: rules 4, 8, 9, 16 ------------------------------------------------------ */

static void remember_switch(struct shift_conn *c, const struct shift_msg *m)
{
	if (shift_switch_proves(m) && m->epoch > c->theirs.epoch)
		c->theirs = *m;
}

static bool have_mine(const struct shift_conn *c)
{
	return c->e && c->mine.epoch == c->e && !conn_recv_held(c);
}

/* By rule 3 an epoch has one rail only: a peer that names another breaks the protocol. */
static bool same_rail(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	bool entering = conn_switching(c) && c->state != SHIFT_ST_SWITCHING;
	uint8_t mine = entering ? c->plan.r : c->r;

	if (m->rail == mine)
		return true;
	if (entering && mine == NO_RAIL) { /* I had no way to go there; perhaps now */
		if (rail_possible(c, m->rail))
			switch_join(c, m, now);
		return false;
	}
	giveup_start(c, SHIFT_R_PROTOCOL, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PROTOCOL);
	return false;
}

static void same_epoch(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (!same_rail(c, m, now))
		return;
	if (m->fence == SHIFT_FENCE_LEAVING)
		return;
	/* The peer is on its way: a quarantine, its or mine, is no reason to try elsewhere. */
	if (c->state == SHIFT_ST_SWITCHING || c->state == SHIFT_ST_QUARANTINE)
		c->timeout_at = now + switch_timeout(c) + c->cfg.quarantine_ns;
	if (!shift_switch_proves(m))
		return;
	if (!have_mine(c))
		return; /* ARM_DONE finds it in theirs */
	c->heard = m->epoch;
	if (m->heard < c->e)
		send_switch(c);
	if (c->state == SHIFT_ST_SWITCHING)
		commit_epoch(c, m, now);
}

void switch_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	uint32_t cur = conn_switching(c) && c->plan.e > c->e ? c->plan.e : c->e;

	if (c->state == SHIFT_ST_SETUP) {
		if (c->unprotected && have_mine(c) && m->epoch <= c->e)
			send_switch(c); /* released since; the peer may not have committed yet */
		else if (c->unprotected)
			giveup_msg(c, m); /* FAILED */
		else
			c->stats.stale_msgs++;
		return;
	}
	if (m->epoch > cur && (m->rail >= c->cfg.rails || m->epoch > EPOCH_MAX)) {
		giveup_start(c, SHIFT_R_PROTOCOL, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PROTOCOL);
		return;
	}
	if (m->epoch > c->seen_e)
		c->seen_e = m->epoch;
	if (m->fence != SHIFT_FENCE_LEAVING)
		rail_proof(c, m, now);
	remember_switch(c, m);
	if (m->epoch > cur) {
		switch_join(c, m, now);
	} else if (m->epoch == cur) {
		same_epoch(c, m, now);
	} else {
		c->stats.stale_msgs++;
		if (have_mine(c))
			send_switch(c);
	}
}

/* --- timers: rules 8, 17 --------------------------------------------------------------------- */

static void retransmit_switch(struct shift_conn *c, uint64_t now)
{
	c->rto_ns = 2 * c->rto_ns < RTO_MAX_NS ? 2 * c->rto_ns : RTO_MAX_NS;
	c->rto_at = now + c->rto_ns;
	c->stats.retransmits++;
	if (c->state == SHIFT_ST_SWITCHING)
		send_switch(c);
	else
		send_unproved(c, SHIFT_FENCE_PENDING, now);
}

static bool another_answers(const struct shift_conn *c)
{
	for (uint8_t i = 0; i < c->cfg.rails; i++)
		if (i != c->r && rail_possible(c, i) && rail_answers(c, i))
			return true;
	return false;
}

/* Slow is not dead: while the rail answers probes, stay with the epoch (rule 17). */
static bool worth_waiting(struct shift_conn *c)
{
	if (c->state != SHIFT_ST_SWITCHING || !rail_answers(c, c->r) ||
	    c->rail[c->r].probe_ok_ns < c->plan.since)
		return false;
	return c->plan.patience++ < PATIENCE_MAX || !another_answers(c);
}

/* When the quarantine that we wait for is over; NEVER before the peer is proven fenced. */
uint64_t switch_settles_at(const struct shift_conn *c)
{
	uint64_t at;

	if (c->state != SHIFT_ST_QUARANTINE || c->plan.r == NO_RAIL || !rail_possible(c, c->plan.r))
		return NEVER;
	at = c->rail[c->plan.r].dirty_until;
	if (c->rail[c->r].hung && c->rail[c->r].dirty_until > at)
		at = c->rail[c->r].dirty_until;
	return at;
}

static void plan_timed_out(struct shift_conn *c, uint64_t now)
{
	if (c->plan.backoff < BACKOFF_MAX)
		c->plan.backoff++;
	if (worth_waiting(c))
		c->timeout_at = now + switch_timeout(c);
	else if (c->state == SHIFT_ST_SWITCHING)
		switch_start(c, SHIFT_R_TIMEOUT, NO_RAIL, now);
	else
		switch_retarget(c, SHIFT_R_TIMEOUT, now);
}

/* Is what the quarantine waits for over? */
static bool quarantine_settled(const struct shift_conn *c, uint64_t now)
{
	return c->plan.r != NO_RAIL && rail_usable(c, c->plan.r, now) && !own_nic_unsettled(c, now);
}

void switch_tick(struct shift_conn *c, uint64_t now)
{
	if (giveup_due(c, now)) {
		giveup_start(c, SHIFT_R_GIVEUP_TIME, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_GIVEUP);
		return;
	}
	if (c->state == SHIFT_ST_QUARANTINE && quarantine_settled(c, now)) {
		advance_plan(c, SHIFT_R_SETTLED, now);
		return;
	}
	if (c->state == SHIFT_ST_QUARANTINE || c->state == SHIFT_ST_SWITCHING) {
		if (now >= c->timeout_at)
			plan_timed_out(c, now);
		else if (now >= c->rto_at)
			retransmit_switch(c, now);
	}
}
