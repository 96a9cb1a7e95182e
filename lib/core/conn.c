/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Setup, the dispatch of events, the deadline. */
#include <string.h>

#include "lib/core/conn_int.h"

#define MS 1000000ull
#define S  1000000000ull

static void default_ns(uint64_t *v, uint64_t ns)
{
	if (!*v)
		*v = ns;
}

void shift_conn_cfg_defaults(struct shift_conn_cfg *cfg)
{
	default_ns(&cfg->rto_ns, 20 * MS);
	default_ns(&cfg->switch_timeout_ns, 500 * MS);
	default_ns(&cfg->quarantine_ns, S);
	default_ns(&cfg->giveup_ns, 30 * S);
	default_ns(&cfg->drain_ns, 200 * MS);
	default_ns(&cfg->hold_down_ns, S);
	default_ns(&cfg->hold_down_max_ns, 300 * S);
	default_ns(&cfg->hold_down_window_ns, 600 * S);
	default_ns(&cfg->no_progress_ns, S);
	default_ns(&cfg->tombstone_ns, 60 * S);
	if (!cfg->probe_misses)
		cfg->probe_misses = 3;
	if (!cfg->no_progress_answers)
		cfg->no_progress_answers = 4;
	if (!cfg->rails)
		cfg->rails = 1;
	if (!cfg->sq_slots)
		cfg->sq_slots = 128;
}

static bool cfg_possible(const struct shift_conn_cfg *cfg)
{
	if (!cfg->rails || cfg->rails > SHIFT_RAILS_MAX || cfg->side > 1)
		return false;
	if (!cfg->nonce || !cfg->sq_cap || cfg->sq_cap > 1u << 20 || cfg->rq_cap > 1u << 20)
		return false;
	if (cfg->sq_sge_max > UINT8_MAX || cfg->rq_sge_max > UINT8_MAX ||
	    cfg->inline_max > 1u << 16 || cfg->sq_slots == 1 ||
	    (cfg->sq_slots & (cfg->sq_slots - 1)))
		return false;
	for (unsigned int i = 0; i < cfg->rails; i++)
		if (cfg->mtu[i] < 256 || cfg->mtu[i] > 4096)
			return false;
	return true;
}

/* The parts of a connection's memory. First what is always in use. What lies behind that may never
 * be touched, and memory that is not takes no room (lib/base/pages.h): the end of the log of sends,
 * and actions beyond the usual. */
struct parts {
	size_t recvs, sends, actions, end;
};

static size_t behind(size_t at, size_t bytes)
{
	return (at + bytes + 63) & ~(size_t)63;
}

static struct parts conn_parts(const struct shift_conn_cfg *cfg)
{
	struct parts p = {.recvs = behind(0, sizeof(struct shift_conn))};

	p.sends = behind(p.recvs, shift_recvlog_size(cfg->rq_cap, cfg->rq_sge_max));
	p.actions = behind(p.sends,
			   shift_sendlog_size(cfg->sq_cap, cfg->sq_sge_max, cfg->inline_max));
	p.end = behind(p.actions, (SHIFT_ACTIONS_MAX - ACTIONS_NEAR) * sizeof(struct shift_action));
	return p;
}

size_t shift_conn_size(const struct shift_conn_cfg *cfg)
{
	return cfg_possible(cfg) ? conn_parts(cfg).end : 0;
}

static void init_rails(struct shift_conn *c)
{
	for (unsigned int i = 0; i < SHIFT_RAILS_MAX; i++) {
		c->rail[i].healthy_ns = NEVER;
		c->rail[i].hold_down_ns = c->cfg.hold_down_ns;
	}
	c->rail[0].armed = true;
	c->rail[0].rx_psn = c->cfg.rq_psn & SHIFT_PSN_MASK;
	c->rail[0].dirty_until = NEVER;
	life_init_rails(c);
}

struct shift_conn *shift_conn_init(void *mem, size_t len, const struct shift_conn_cfg *cfg,
				   uint64_t now_ns)
{
	struct shift_conn *c = mem;
	uint8_t *bytes = mem;
	struct shift_hot *hot;
	struct parts at;

	if (!cfg_possible(cfg) || (uintptr_t)mem % 64)
		return NULL;
	at = conn_parts(cfg);
	if (len < at.end)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->cfg = *cfg;
	shift_conn_cfg_defaults(&c->cfg);
	c->rails_max = c->cfg.rails;
	c->act_far = (struct shift_action *)(void *)(bytes + at.actions);
	hot = cfg->hot ? cfg->hot : &c->own_hot;
	shift_sendlog_init(&c->sq, bytes + at.sends, &hot->sends_done, cfg->sq_cap, cfg->sq_sge_max,
			   cfg->inline_max, cfg->mtu[0], cfg->sq_sig_all);
	shift_sendlog_begin_with(&c->sq, c->cfg.sq_slots);
	c->rq = &hot->recvs;
	shift_recvlog_init(c->rq, bytes + at.recvs, cfg->rq_cap, cfg->rq_sge_max);
	init_rails(c);
	c->tx_psn = cfg->sq_psn & SHIFT_PSN_MASK;
	c->rep_psn = c->rail[0].rx_psn;
	c->rto_at = c->timeout_at = c->check_at = c->quiet_ns = NEVER;
	c->plan.r = c->plan.arm_r = NO_RAIL;
	c->waits_at = NEVER;
	c->sq_psn_known = true;
	c->state = SHIFT_ST_SETUP;
	c->reason = SHIFT_R_INIT;
	if (cfg->confirmed) {
		c->state = SHIFT_ST_ACTIVE;
		c->hello_heard = true;
		life_matched(c, now_ns);
		conn_watch(c, now_ns);
	}
	return c;
}

void shift_conn_start(struct shift_conn *c, const struct shift_conn_start *s)
{
	if (c->state != SHIFT_ST_SETUP || (c->hello_started && c->sq_psn_known))
		return;
	c->sq_psn_known = s->sq_psn_known;
	c->cfg.qpn = s->qpn;
	c->cfg.dest_qpn = s->dest_qpn;
	memcpy(c->cfg.dest_gid, s->dest_gid, sizeof(c->cfg.dest_gid));
	c->cfg.sq_psn = s->sq_psn & SHIFT_PSN_MASK;
	c->cfg.rq_psn = s->rq_psn & SHIFT_PSN_MASK;
	c->cfg.mtu[0] = s->mtu;
	c->cfg.giveup_ns = s->giveup_ns;
	c->cfg.retries_ns = s->retries_ns;
	c->sq.mtu = s->mtu;
	c->tx_psn = c->cfg.sq_psn;
	c->rail[0].rx_psn = c->cfg.rq_psn;
	c->rep_psn = c->cfg.rq_psn;
}

bool shift_conn_meet(struct shift_conn *c, const struct shift_conn_peer *p)
{
	if (c->state != SHIFT_ST_SETUP || !p->rails || p->rails > c->rails_max || p->side > 1)
		return false;
	if (life_is_past(c, p))
		return false;
	if (p->nonce != c->cfg.peer_nonce || p->id != c->cfg.peer_id)
		c->rto_at = NEVER; /* what was said to another is no HELLO to this one */
	c->cfg.conn = p->conn;
	c->cfg.side = p->side;
	c->cfg.key[0] = p->key[0];
	c->cfg.key[1] = p->key[1];
	c->cfg.peer_nonce = p->nonce;
	c->cfg.peer_id = p->id;
	c->cfg.rails = p->rails;
	return true;
}

/* --- dispatch -------------------------------------------------------------------------------- */

static bool conn_over(const struct shift_conn *c)
{
	return c->state >= SHIFT_ST_GIVEUP;
}

/* Is it from the process and connection that we are connected to? */
static bool for_us(struct shift_conn *c, const struct shift_msg *m)
{
	bool peer = m->src_nonce == c->cfg.peer_nonce ||
		    (!c->cfg.peer_nonce && m->type == SHIFT_MSG_HELLO);

	if (peer && m->dst_conn == c->cfg.id && m->src_conn == c->cfg.peer_id &&
	    (m->dst_nonce == c->cfg.nonce || m->type == SHIFT_MSG_HELLO))
		return true;
	c->stats.stale_msgs++;
	return false;
}

/* The peer has no such connection. Only the process that allocated the id can say so. */
static void unknown_msg(struct shift_conn *c)
{
	if (c->state != SHIFT_ST_SETUP && !conn_over(c))
		giveup_start(c, SHIFT_R_PEER_UNKNOWN, SHIFT_WC_RETRY_EXC_ERR,
			     SHIFT_VENDOR_PEER_FAILED);
}

static void dispatch_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	if (!for_us(c, m))
		return;
	switch ((enum shift_msg_type)m->type) {
	case SHIFT_MSG_HELLO: hello_msg(c, m, now); return;
	case SHIFT_MSG_SWITCH:
		if (conn_over(c))
			giveup_msg(c, m);
		else
			switch_msg(c, m, now);
		return;
	case SHIFT_MSG_FAILED:
	case SHIFT_MSG_CLOSED: giveup_msg(c, m); return;
	case SHIFT_MSG_UNKNOWN: unknown_msg(c); return;
	case SHIFT_MSG_NOT_YET: return; /* retransmission will find it */
	case SHIFT_MSG_PREPARE:
		/* CLOSED keeps silent: stock verbs tell an idle peer nothing */
		if (c->state == SHIFT_ST_DEAD)
			giveup_msg(c, m);
		else
			failback_msg(c, m, now);
		return;
	case SHIFT_MSG_READY: failback_msg(c, m, now); return;
	case SHIFT_MSG_QUERY_PSN:
		if (conn_over(c))
			giveup_msg(c, m);
		else
			progress_msg(c, m, now);
		return;
	case SHIFT_MSG_PSN: progress_msg(c, m, now); return;
	case SHIFT_MSG_KEY_ASK: /* lib/session has taken them out */
	case SHIFT_MSG_KEY:
	case SHIFT_MSG_KEY_GONE:
	case SHIFT_MSG_KEY_FORGOT:
	case SHIFT_MSG_SESSION:
	case SHIFT_MSG_TYPE_END: return;
	}
}

static void dispatch_tick(struct shift_conn *c, uint64_t now)
{
	rails_come_back(c, now);
	switch ((enum shift_state)c->state) {
	case SHIFT_ST_SETUP: hello_tick(c, now); return;
	case SHIFT_ST_ACTIVE:
		rail_tick(c, now);
		if (c->state == SHIFT_ST_ACTIVE)
			progress_tick(c, now);
		if (c->state == SHIFT_ST_ACTIVE)
			failback_tick(c, now);
		return;
	case SHIFT_ST_PREPARE:
	case SHIFT_ST_DRAIN: failback_tick(c, now); return;
	case SHIFT_ST_FENCE:
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_QUARANTINE:
	case SHIFT_ST_ARM:
	case SHIFT_ST_SWITCHING: switch_tick(c, now); return;
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return;
	}
}

static void posts_refused(struct shift_conn *c, const struct shift_event *ev, uint64_t now)
{
	if (ev->rail != c->r || ev->epoch != c->rail[c->r].tag)
		return;
	/* The fence that began meanwhile will count flushes: these WRs are not among them. */
	if (c->rail[c->r].fencing && ev->epoch == c->lastc)
		shift_sendlog_unsend(&c->sq, ev->count);
	if (c->state != SHIFT_ST_ACTIVE && c->state != SHIFT_ST_PREPARE &&
	    c->state != SHIFT_ST_DRAIN && c->state != SHIFT_ST_SWITCHING)
		return;
	/* Refused WRs will not flush, so the flush count must not include them (7.23). */
	conn_hold(c);
	if (ev->epoch == c->lastc)
		shift_sendlog_unsend(&c->sq, ev->count);
	switch_start(c, SHIFT_R_POST_FAILED, NO_RAIL, now);
}

static void peer_died(struct shift_conn *c)
{
	if (c->state != SHIFT_ST_SETUP && !conn_over(c))
		giveup_start(c, SHIFT_R_PEER_DIED, SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_PEER_DIED);
}

static void start_migration(struct shift_conn *c, uint8_t rail, uint64_t now)
{
	/* The rail in use is armed, and so not usable. */
	if (c->state == SHIFT_ST_ACTIVE && (!c->holding || atomics_wait(c)) &&
	    rail_usable(c, rail, now))
		failback_prepare(c, rail, SHIFT_R_OPERATOR, now);
}

static void dispatch_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now_ns)
{
	switch ((enum shift_event_type)ev->type) {
	case SHIFT_EV_RTS: hello_start(c, now_ns); return;
	case SHIFT_EV_FENCE_DONE: fence_done(c, ev, now_ns); return;
	case SHIFT_EV_ARM_DONE: switch_armed(c, ev, now_ns); return;
	case SHIFT_EV_ARM_FAILED: switch_arm_failed(c, ev, now_ns); return;
	case SHIFT_EV_MSG:
		if (!ev->msg)
			return;
		c->msg_rails = 1u << ev->rail | ev->also;
		dispatch_msg(c, ev->msg, now_ns);
		return;
	case SHIFT_EV_TICK: dispatch_tick(c, now_ns); return;
	case SHIFT_EV_LINK_UP:
	case SHIFT_EV_LINK_DOWN:
	case SHIFT_EV_RAIL_VETO:
	case SHIFT_EV_RAIL_OPEN:
	case SHIFT_EV_ATOMICS_APART:
	case SHIFT_EV_PROBE_OK:
	case SHIFT_EV_PROBE_MISSED: rail_event(c, ev, now_ns); return;
	case SHIFT_EV_MIGRATE: start_migration(c, ev->rail, now_ns); return;
	case SHIFT_EV_PEER_DIED: peer_died(c); return;
	case SHIFT_EV_PEER_LEFT: giveup_peer_left(c); return;
	case SHIFT_EV_PEER_RELEASED: c->let_go = true; return;
	case SHIFT_EV_CLOSE: giveup_close(c, ev->how); return;
	case SHIFT_EV_POST_FAILED: posts_refused(c, ev, now_ns); return;
	case SHIFT_EV_NO_KEY: giveup_no_key(c, ev); return;
	case SHIFT_EV_PSN: progress_psn(c, ev); return;
	case SHIFT_EV_POST_SEND:
	case SHIFT_EV_POST_RECV:
	case SHIFT_EV_CQE:
	case SHIFT_EV_COUNT: return;
	}
}

void shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now_ns)
{
	if (ev->type >= SHIFT_EV_COUNT || ev->rail >= SHIFT_RAILS_MAX)
		return;
	COVER(event[c->state][ev->type]);
	dispatch_event(c, ev, now_ns);
	giveup_overflowed(c);
	conn_check(c);
}

static uint64_t min_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t state_deadline(const struct shift_conn *c, uint64_t check_at)
{
	uint64_t end = c->plan.trouble ? c->plan.trouble + c->cfg.giveup_ns : NEVER;

	switch ((enum shift_state)c->state) {
	case SHIFT_ST_SETUP: return c->rto_at;
	case SHIFT_ST_ACTIVE:
		end = min_ns(check_at, failback_deadline(c));
		end = min_ns(end, atomics_deadline(c));
		return min_ns(end, rail_escape_at(c));
	case SHIFT_ST_PREPARE: return min_ns(c->rto_at, c->timeout_at);
	case SHIFT_ST_DRAIN: return c->timeout_at;
	case SHIFT_ST_FENCE:
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_ARM: return end;
	case SHIFT_ST_QUARANTINE:
	case SHIFT_ST_SWITCHING:
		end = min_ns(end, switch_settles_at(c));
		return min_ns(end, min_ns(c->rto_at, c->timeout_at));
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return NEVER;
	}
	return NEVER;
}

static uint64_t deadline_with(const struct shift_conn *c, uint64_t check_at)
{
	if (conn_over(c))
		return NEVER;
	if (c->overflowed)
		return 0;
	return min_ns(state_deadline(c, check_at), rails_back_at(c));
}

/* A tick at the deadline always does something, so that the deadline moves. */
uint64_t shift_conn_deadline(const struct shift_conn *c)
{
	return deadline_with(c, c->check_at);
}

/* While data has not moved the check stops the give-up clock (7.15). */
bool shift_conn_idle(const struct shift_conn *c)
{
	return c->state == SHIFT_ST_ACTIVE && !c->holding && !c->plan.trouble &&
	       c->sq.sig_posted == *c->sq.sig_done;
}

uint64_t shift_conn_lazy_deadline(const struct shift_conn *c)
{
	return deadline_with(c, shift_conn_idle(c) ? NEVER : c->check_at);
}

uint64_t shift_conn_activity(const struct shift_conn *c)
{
	return __atomic_load_n(&c->sq.head, __ATOMIC_RELAXED) +
	       __atomic_load_n(&c->sq.turns, __ATOMIC_RELAXED) +
	       __atomic_load_n(&c->rq->posted, __ATOMIC_RELAXED) +
	       __atomic_load_n(&c->rq->done, __ATOMIC_RELAXED);
}
