/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Several lives: both programs reset or destroy their QPs and begin again with the same QPNs and
 * the same PSNs, while messages and packets of the life before are still about, and its tombstones
 * answer. And several connections: what is meant for another connection of the same two processes,
 * or for an earlier run of one of them, arrives here.
 */
#include <string.h>

#include "tests/sim/sim.h"

#define BAG 32u

/* Control messages that were sent, to come again. */
static struct bagged_msg {
	uint8_t bytes[SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX];
	uint8_t len, src, r;
} bags[CONNS][BAG];
static uint32_t bagged[CONNS];
static uint32_t keep[CONNS][RAILS]; /* of each rail: late_ppm */

/* --- messages that are meant for others ------------------------------------------------------- */

/* The same message, of another connection or of an earlier run of a process. */
static void send_foreign(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len)
{
	const uint64_t *key = W.host[src].cfg.key;
	uint8_t buf[SHIFT_MSG_ENVELOPE + SHIFT_MSG_RECORD_MAX];
	struct shift_msg_reader rd;
	struct shift_msg_writer w;
	struct shift_msg m;

	if (shift_msg_open(&rd, bytes, len, shift_msg_siphash, key) <= 0 ||
	    shift_msg_next(&rd, &m) != 1)
		return;
	switch (rnd_below(&W.g_life, m.type == SHIFT_MSG_HELLO ? 2 : 4)) {
	case 0: m.dst_conn += 1 + rnd_below(&W.g_life, 5); break;
	case 1: m.src_conn += 1 + rnd_below(&W.g_life, 5); break;
	case 2: m.src_nonce += 16; break;
	default: m.dst_nonce += 16; break;
	}
	shift_msg_begin(&w, buf, sizeof(buf), m.src_nonce, m.dst_nonce);
	if (shift_msg_add(&w, &m))
		return;
	len = (uint32_t)shift_msg_end(&w, shift_msg_siphash, key);
	net_msg_at(src, r, buf, len, W.now + rnd(&W.g_life) % (20 * NS_MS));
}

static void send_again(void)
{
	uint32_t n = bagged[W.conn], i = rnd_below(&W.g_life, n < BAG ? n : BAG);
	const struct bagged_msg *m = &bags[W.conn][i];
	uint64_t at = W.now + rnd(&W.g_life) % (50 * NS_MS);

	/* Two ends that commit over a rail which passes nothing else would wait there for ever. */
	if (!net_is_cut(m->src, m->r))
		net_msg_at(m->src, m->r, m->bytes, m->len, at);
}

/* A control message leaves. */
void lives_msg(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len)
{
	struct bagged_msg *m = &bags[W.conn][bagged[W.conn] % BAG];

	if (rnd_ppm(&W.g_life, W.foreign_ppm))
		send_foreign(src, r, bytes, len);
	if (!rnd_ppm(&W.g_life, W.bag_ppm))
		return;
	memcpy(m->bytes, bytes, len);
	m->len = (uint8_t)len;
	m->src = (uint8_t)src;
	m->r = (uint8_t)r;
	bagged[W.conn]++;
	send_again();
}

bool lives_is_foreign(unsigned int h, const struct shift_msg *m)
{
	const struct shift_conn_cfg *cfg = &W.host[h].cfg;

	return m->dst_conn != cfg->id || m->src_conn != cfg->peer_id ||
	       m->src_nonce != W.host[1 - h].cfg.nonce ||
	       (m->dst_nonce != cfg->nonce && m->type != SHIFT_MSG_HELLO);
}

/* A tombstone of an earlier life answers, as the library does. */
bool lives_tombstone(unsigned int h, unsigned int r, const struct shift_msg *m)
{
	const struct host *me = &W.host[h];

	for (uint32_t i = 0; i < me->tombs; i++) {
		if (me->tomb_id[i] != m->dst_conn || m->src_nonce != W.host[1 - h].cfg.nonce)
			continue;
		if (m->type == SHIFT_MSG_SWITCH || m->type == SHIFT_MSG_QUERY_PSN)
			host_send(h, r, &me->tomb[i].answer);
		return true;
	}
	return false;
}

/* --- the next life ---------------------------------------------------------------------------- */

static bool can_renew(void)
{
	if (W.renewing || W.life + 1 == LIVES || W.calm)
		return false;
	for (unsigned int h = 0; h < HOSTS; h++) {
		if (W.host[h].died || W.host[h].p.close_asked)
			return false;
		for (unsigned int r = 0; r < W.rails; r++)
			if (rail_at(r)->dead[h] || rail_at(r)->hung[h] || rail_at(r)->dies[h] ||
			    W.host[h].was_hung[r])
				return false;
	}
	return true;
}

/* Many packets of this life are to arrive in the next. ppm: 0: as it was. */
static void stragglers(uint32_t ppm)
{
	for (unsigned int r = 0; r < W.rails; r++)
		rail_at(r)->late_ppm = ppm ? ppm : keep[W.conn][r];
}

/* Both programs end their QPs, one a little later than the other. */
void lives_renew(unsigned int first)
{
	if (!can_renew())
		return;
	W.renewing = true;
	for (unsigned int r = 0; r < W.rails; r++)
		keep[W.conn][r] = rail_at(r)->late_ppm;
	stragglers(200000);
	ev_add(W.now + rnd(&W.g_life) % NS_MS, EV_CLOSE, first, 0, 0);
	ev_add(W.now + rnd(&W.g_life) % (5 * NS_MS), EV_CLOSE, 1 - first, 0, 0);
}

/* A program's call returned: its QP is over. They agree, and go on when both are. */
void lives_closed(unsigned int h)
{
	struct host *me = &W.host[h];
	struct shift_conn_view v;

	if (!W.renewing)
		return;
	me->tomb_id[me->tombs] = me->cfg.id;
	shift_conn_tombstone(me->c, W.now, &me->tomb[me->tombs++]);
	shift_conn_past(me->c, W.now, &me->cfg.past);
	shift_conn_view(me->c, &v);
	me->ended_away = v.r != 0;
	if (W.host[0].p.closed && W.host[1].p.closed)
		ev_add(W.now + 1, EV_LIFE, 0, 0, LIFE_OVER);
}

/* Nothing of the host's process is forgotten but the connection. */
static void forget_connection(unsigned int h)
{
	struct host *me = &W.host[h];
	struct host old = *me;

	memset(me, 0, sizeof(*me));
	me->cfg = old.cfg;
	me->flavour = old.flavour;
	me->stop_until = old.stop_until;
	me->bg_until = old.bg_until;
	me->app_until = old.app_until;
	me->stalled_until = old.stalled_until;
	memcpy(me->missed_at, old.missed_at, sizeof(me->missed_at));
	memcpy(me->probed, old.probed, sizeof(me->probed));
	me->recv_mark = old.recv_mark;
	me->joined = old.joined;
	memcpy(me->veto, old.veto, sizeof(me->veto));
	me->tombs = old.tombs;
	memcpy(me->tomb_id, old.tomb_id, sizeof(me->tomb_id));
	memcpy(me->tomb, old.tomb, sizeof(me->tomb));
	me->tick_at = me->poll_at = UINT64_MAX;
	me->ended_away = old.ended_away;
	me->cfg.id += 100;
	me->cfg.peer_id += 100;
}

/* As both ends must compute it alike, and never twice. */
static uint64_t number(unsigned int h)
{
	const struct shift_conn_cfg *cfg = &W.host[h].cfg, *peer = &W.host[1 - h].cfg;
	struct shift_end mine = {.qpn = cfg->qpn, .id = cfg->id, .nonce = cfg->nonce};
	struct shift_end theirs = {.qpn = peer->qpn, .id = peer->id, .nonce = peer->nonce};
	uint8_t side;

	return shift_conn_number(cfg->key, &mine, &theirs, &side);
}

/* A life that ended away from rail 0 puts the program's next RTR off (7.34). */
static uint64_t rtr_at(unsigned int h)
{
	uint64_t at = W.now + rnd(&W.g_life) % (3 * NS_MS), until = W.host[h].cfg.past.rail0_until;

	return until > at ? until : at;
}

static void life_over(void)
{
	uint64_t at, last = 0;

	if (W.host[0].died || W.host[1].died) {
		W.renewing = false;
		return;
	}
	ref_life();
	stragglers(0);
	W.life++;
	W.changed_at = W.now;
	run_memory();
	for (unsigned int h = 0; h < HOSTS; h++) {
		forget_connection(h);
		prog_setup(h, &W.g_life);
		at = rtr_at(h);
		last = at > last ? at : last;
		ev_add(at, EV_LIFE, h, 0, LIFE_QP);
	}
	for (unsigned int h = 0; h < HOSTS; h++)
		W.host[h].cfg.conn = number(h);
	ev_add(last + 1, EV_LIFE, 0, 0, LIFE_WORK);
	for (uint32_t i = 0; i < 8 && bagged[W.conn]; i++)
		send_again();
}

/* What lay in the SRQ before is never out of a NIC that is gone (S6): the program's modify fails,
 * and both give up. */
static void no_life(void)
{
	W.over = true;
	for (unsigned int h = 0; h < HOSTS; h++) {
		W.host[h].p.close_asked = W.host[h].p.closed = true;
		W.host[h].c = NULL;
		for (unsigned int r = 0; r < W.rails; r++)
			qp_reset(&W.qp[h][r]);
		srq_closed(h);
	}
}

/* The program's QP is in RTS again. */
static void life_qp(unsigned int h)
{
	if (W.host[h].cfg.srq && !srq_join(h, 0)) {
		if (nic_dead(h, 0))
			no_life();
		else
			ev_add(W.now + NS_MS, EV_LIFE, h, 0, LIFE_QP);
		return;
	}
	host_live(h);
	host_probes_known(h);
	host_rts(h);
	host_apart(h);
	host_vetoes(h);
}

static void life_work(void)
{
	if (W.over)
		return;
	if (W.host[0].died || W.host[1].died) {
		W.renewing = false;
		return;
	}
	if (!run_protected()) {
		if (W.now > W.changed_at + 60000 * NS_MS)
			violation("HELLO of life %u does not get through", W.life);
		ev_add(W.now + NS_MS, EV_LIFE, 0, 0, LIFE_WORK);
		return;
	}
	W.renewing = false;
	prog_start(0);
	prog_start(1);
	if (rnd_below(&W.g_life, 3))
		fault_soon(FK_QPERR, 0);
}

void lives_event(const struct ev *e)
{
	if (e->x != LIFE_WORK)
		tr(e->h, "life %lu: step %lu", W.life, e->x, 0, 0);
	switch ((enum life_step)e->x) {
	case LIFE_OVER: life_over(); return;
	case LIFE_QP:
		if (!W.host[e->h].died && !W.over)
			life_qp(e->h);
		return;
	case LIFE_WORK: life_work(); return;
	}
}

void lives_setup(struct rng *g)
{
	bagged[W.conn] = 0;
	W.life = 0;
	W.renewing = W.over = false;
	W.foreign_ppm = rnd_below(g, 3) ? 0 : 200000;
	W.bag_ppm = rnd_below(g, 2) ? 0 : 100000;
	W.planned = rnd_below(g, 6) && !W.opt.planned ? PLANNED_NO
		    : rnd_below(g, 2)		      ? PLANNED_MIXED
						      : PLANNED_ONLY;
	W.plan_late_ppm = W.planned && rnd_below(g, 2) ? 500000 : 0;
	W.plan_slot[0] = W.plan_slot[1] = UINT64_MAX;
	W.plan_met_atomics = false;
}
