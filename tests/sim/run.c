/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One schedule, from its seed to its verdict. */
#include <string.h>

#include "tests/sim/sim.h"

#define STEPS_MAX	1000000u
#define CORE_EVENTS_MIN 300u /* an idle connection is probed until it has had as many */

struct world worlds[CONNS], *wp = worlds;
uint32_t conns = 1;
struct tally T;
uint8_t mem[CONNS][HOSTS][M_REGIONS][SLOTS * SLOT_BYTES] __attribute__((aligned(4096)));
static struct shift_hot conn_hot[CONNS][HOSTS];
static uint8_t conn_mem[CONNS][HOSTS][1u << 18] __attribute__((aligned(64)));

/* The rest is written before it is read: sources when a WR is made. What an earlier life or
 * schedule left there has another salt. */
void run_memory(void)
{
	uint32_t h;

	W.salt = (uint32_t)rnd(&W.g_life);
	for (h = 0; h < HOSTS; h++)
		*word_at(addr_of(h, M_ATM, 0, 0)) = *word_at(addr_of(h, M_ATM, 1, 0)) = 0;
}

static void times(struct shift_conn_cfg *cfg, const uint64_t *t)
{
	cfg->rto_ns = t[0];
	cfg->switch_timeout_ns = t[1];
	cfg->quarantine_ns = 10 * NS_MS;
	cfg->giveup_ns = 4000 * NS_MS;
	cfg->drain_ns = 10 * NS_MS;
	cfg->hold_down_ns = 20 * NS_MS;
	cfg->hold_down_max_ns = 300 * NS_MS;
	cfg->hold_down_window_ns = 600 * NS_MS;
	cfg->no_progress_ns = 30 * NS_MS;
}

/* Both sides of a connection: what they must share, and what each may choose. */
static void configs(struct rng *g)
{
	uint64_t k0 = rnd(g), k1 = rnd(g), conn = rnd(g), t[2];
	uint32_t psn[2] = {(uint32_t)rnd(g) & 0xffffff, (uint32_t)rnd(g) & 0xffffff}, h, i;
	bool confirmed = rnd_below(g, 4), cont = rnd_below(g, 2);
	uint32_t swap = rnd_below(g, 2);

	if (rnd_below(g, 4) == 0)
		psn[0] = 0xfffff0 + rnd_below(g, 16); /* wraps at once */
	t[0] = rnd_range(g, 1, 6) * NS_MS;
	t[1] = rnd_range(g, 20, 50) * NS_MS;
	for (h = 0; h < HOSTS; h++) {
		struct shift_conn_cfg *c = &W.host[h].cfg;

		memset(c, 0, sizeof(*c));
		c->key[0] = k0;
		c->key[1] = k1;
		c->conn = conn;
		c->nonce = 0x1000 + h;
		c->peer_nonce = confirmed ? 0x1001 - h : 0;
		c->id = 10 + h;
		c->peer_id = 11 - h;
		c->qpn = 100 + h;
		c->dest_qpn = 101 - h;
		c->sq_psn = psn[h];
		c->rq_psn = psn[1 - h];
		c->sq_cap = 4 + rnd_below(g, SQ_MAX - 4 - 3);
		c->sq_cap = W.huge ? 24 : c->sq_cap;
		c->sq_slots = 2u << c->sq_cap % 4; /* few, so that the log takes more */
		c->rq_cap = 4 + rnd_below(g, RQ_MAX - 4 - 3);
		c->sq_sge_max = c->rq_sge_max = SGES;
		c->inline_max = INLINE_CELLS * CELL;
		c->rails = (uint8_t)W.rails;
		c->side = (uint8_t)(h ^ swap);
		c->sq_sig_all = rnd_below(g, 8) == 0;
		c->srq = rnd_below(g, 12) == 0;
		c->exactly_once = true;
		c->lost_atomic_continue = cont;
		c->confirmed = confirmed;
		for (i = 0; i < W.rails; i++)
			c->mtu[i] = rail_at(i)->mtu;
		times(c, t);
		shift_conn_cfg_defaults(c);
	}
}

static void streams(uint64_t seed, struct rng *g)
{
	struct rng *all[] = {&W.g_net,	   &W.g_nic,   &W.g_host, &W.g_prog[0],
			     &W.g_prog[1], &W.g_fault, g,	  &W.g_life};
	struct rng root = {seed * 0x9e3779b97f4a7c15ull + 0x5eed};
	uint32_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		all[i]->s = rnd(&root);
}

/* The program's QP reaches RTS, and with it the connection begins. */
void host_live(unsigned int h)
{
	struct host *me = &W.host[h];
	uint32_t r;

	me->rep_psn = me->cfg.rq_psn;
	memset(me->armed_epoch, 0, sizeof(me->armed_epoch));
	for (r = 0; r < RAILS; r++) {
		struct qp *q = &W.qp[h][r];

		q->epoch = 0;
		q->cq_pi = q->cq_ci = q->rq_pi = q->rq_ci = 0;
		q->cq_last = q->tx_free = 0;
		qp_arm(q, r ? UINT32_MAX : 0, me->cfg.sq_psn, me->cfg.rq_psn);
		if (r)
			q->state = QP_RESET;
	}
	W.qp[h][0].retry_inf = me->retry_inf;
	me->cfg.hot = &conn_hot[W.conn][h];
	me->c = shift_conn_init(conn_mem[W.conn][h], sizeof(conn_mem[W.conn][h]), &me->cfg, W.now);
	if (!me->c)
		violation("shift_conn_init refuses the configuration");
	else
		me->state = me->cfg.confirmed ? SHIFT_ST_ACTIVE : SHIFT_ST_SETUP;
	if (me->c)
		post_leave(h);
}

void host_setup(unsigned int h, struct rng *g)
{
	struct host *me = &W.host[h];
	struct shift_conn_cfg cfg = me->cfg;
	uint32_t r, x = rnd_below(g, 20);

	memset(me, 0, sizeof(*me));
	me->cfg = cfg;
	me->flavour = x < 10   ? NIC_RXE
		      : x < 15 ? NIC_MLX
		      : x < 18 ? NIC_LAG
		      : x < 19 ? NIC_IRDMA
			       : NIC_STALE;
	if (W.conn)
		me->flavour = worlds[0].host[h].flavour; /* the same NICs */
	me->recv_mark = rnd_below(g, 2) && !cfg.srq ? rnd(g) | 1ull << 63 : 0;
	me->tick_at = me->poll_at = UINT64_MAX;
	for (r = 0; r < RAILS; r++) {
		W.qp[h][r].h = (uint8_t)h;
		W.qp[h][r].r = (uint8_t)r;
		W.qp[h][r].holds = W.qp[h][r].lost = false;
		W.qp[h][r].stale_id = 0;
		if (r < W.rails && rail_at(r) == &W.rail[r])
			ev_add(W.now + rnd_below(g, 5000000), EV_PROBE, h, r, 0);
	}
	me->retry_inf = rnd_below(g, 3) == 0;
	if (me->cfg.srq)
		srq_join(h, 0);
	host_live(h);
}

/* In one schedule of eight some NICs have a lock for atomics of their own. */
static void apart_setup(uint64_t seed)
{
	struct rng g = {seed ^ 0xa7031c5};
	bool some = rnd_below(&g, 8) == 0;

	for (unsigned int h = 0; h < HOSTS; h++)
		W.apart[h] = some ? rnd_below(&g, 1u << W.rails) & ~1u : 0;
}

/* All connections of a host are on its SRQ. */
static void on_srqs(const struct options *o, uint32_t conn)
{
	if (!conn)
		srq_setup(o);
	for (uint32_t h = 0; h < HOSTS; h++) {
		struct shift_conn_cfg *c = &W.host[h].cfg;

		c->srq = worlds[0].host[h].cfg.srq;
		c->rq_cap = c->srq ? 0 : c->rq_cap;
	}
}

static void world_setup(const struct options *o, uint32_t conn)
{
	struct rng g;
	uint32_t h;

	wp = &worlds[conn];
	W.opt = *o;
	W.conn = conn;
	W.now = W.seq = W.steps = W.core_events = W.packets = W.fast_posts = W.writes_again =
		W.tr_n = 0;
	W.heap_n = W.faults = W.second_left = 0;
	W.inside = FAULT_MAX;
	W.started = W.calm = W.calm_due = W.failed = W.second = W.silence = false;
	W.limited = false;
	W.all_cut_from = W.all_cut_until = W.changed_at = 0;
	memset(W.rail, 0, sizeof(W.rail));
	memset(W.fault, 0, sizeof(W.fault));
	streams(o->seed + conn * 0x1000000000ull, &g);
	lives_setup(&W.g_life);
	run_memory();
	W.huge = rnd_below(&g, 40) == 0 || o->huge;
	net_setup(&g);
	W.ack_coalesce_ppm = rnd_below(&g, 3) ? rnd_below(&g, 900000) : 0;
	W.ack_delay_ns = rnd_range(&g, 1, 100) * NS_US;
	W.cqe_late_ppm = rnd_below(&g, 4) ? 0 : 1000 + rnd_below(&g, 100000);
	W.retry_cnt = 1 + rnd_below(&g, 6);
	W.rnr_retry = rnd_below(&g, 12) ? 7 : rnd_below(&g, 7);
	/* rxe of Linux 6.1, and of 6.12 */
	W.down_status = rnd_below(&g, 2) ? SHIFT_WC_LOC_QP_OP_ERR : SHIFT_WC_WR_FLUSH_ERR;
	W.rto_ns = rnd_range(&g, 400, 4000) * NS_US;
	if (W.planned)
		W.rto_ns += 8 * NS_MS;
	configs(&g);
	on_srqs(o, conn);
	apart_setup(o->seed);
	for (h = 0; h < HOSTS; h++) {
		host_setup(h, &g);
		prog_setup(h, &g);
	}
	ev_add(0, EV_START, 0, 0, 0);
}

bool run_protected(void)
{
	struct shift_conn_view v[HOSTS];
	uint32_t h;

	for (h = 0; h < HOSTS; h++) {
		if (!W.host[h].c)
			return false;
		shift_conn_view(W.host[h].c, &v[h]);
	}
	return v[0].protected_ && v[1].protected_;
}

/* With HELLO the workload waits until both are protected: before that, errors pass through. */
static void start(void)
{
	uint32_t h;

	for (h = 0; h < HOSTS; h++)
		if (!W.now) {
			host_apart(h);
			host_rts(h);
		}
	if (!run_protected()) {
		if (W.now > 60000 * NS_MS)
			violation("HELLO does not get through");
		ev_add(W.now + NS_MS, EV_START, 0, 0, 0);
		return;
	}
	W.started = true;
	for (h = 0; h < HOSTS; h++)
		prog_start(h);
	fault_setup(&W.g_fault);
}

/*
 * A packet of an earlier life. On the program's own QP it is the program's risk, as without us, if
 * that life ended there (7.34) at either end: a sender that never left rail 0 goes on sending there
 * until it is RESET. Elsewhere the quarantine must have seen to it. false: it dies here.
 */
static bool old_packet(const struct ev *e)
{
	const struct pkt *p = &W.pkt[e->x];
	const struct qp *q = &W.qp[e->h][e->r];

	if (q->state != QP_RTS || (!q->epoch && !(W.host[0].ended_away && W.host[1].ended_away)))
		return false;
	if (p->type == PK_REQ)
		violation("%c: rail %u is armed while packets of an earlier life are alive",
			  'A' + e->h, e->r);
	return true;
}

static void packet(const struct ev *e)
{
	struct pkt *p = &W.pkt[e->x];
	struct qp *q = &W.qp[e->h][e->r];

	if (e->life != W.life && !old_packet(e)) {
		pkt_put(p);
		return;
	}
	if (p->epoch < q->epoch && q->state == QP_RTS && !W.host[1 - e->h].was_hung[e->r])
		violation("%c: rail %u is armed for epoch %u while packets of epoch %u are alive",
			  'A' + e->h, e->r, q->epoch, p->epoch);
	if (p->type == PK_REQ)
		qp_request(q, p);
	else
		qp_ack(q, p);
	pkt_put(p);
}

/* What an earlier life had set going is over with it. Faults, packets and messages go on. */
static bool of_the_past(const struct ev *e)
{
	switch ((enum ev_type)e->type) {
	case EV_PKT:
	case EV_MSG:
	case EV_PROBE:
	case EV_LINK:
	case EV_FAULT:
	case EV_HEAL:
	case EV_CALM:
	case EV_SRQ:
	case EV_PEERDEAD: return false;
	default: return e->life != W.life;
	}
}

static void dispatch(const struct ev *e)
{
	struct qp *q = &W.qp[e->h][e->r];

	if (of_the_past(e))
		return;

	switch ((enum ev_type)e->type) {
	case EV_PKT: packet(e); break;
	case EV_TX:
		if (e->x == q->epoch)
			qp_tx(q);
		break;
	case EV_RTO:
		if (e->x == q->epoch)
			qp_rto(q);
		break;
	case EV_ACK:
		if (e->x == q->epoch && q->ack_armed)
			qp_send_ack(q);
		break;
	case EV_DRAINED:
		if (e->x == q->epoch)
			qp_drained(q);
		break;
	case EV_FLUSH:
		if (!nic_dead(e->h, e->r) && (e->r || q->epoch == e->x >> 8)) /* RESET purges */
			qp_flush_recvs(q, e->x >> 8, e->x & 0xff);
		break;
	case EV_POST:
	case EV_RECV:
	case EV_CLOSE: prog_event(e); break;
	case EV_FAULT:
	case EV_HEAL:
	case EV_CALM: fault_event(e); break;
	case EV_START: start(); break;
	case EV_LIFE: lives_event(e); break;
	case EV_SRQ: srq_event(e); break;
	default: host_event(e); break;
	}
}

/* What a connection adds. */
static void tally_conn(void)
{
	struct shift_conn_stats *sum = &T.stats;

	T.packets += W.packets;
	T.fast_posts += W.fast_posts;
	T.writes_again += W.writes_again;
	for (uint32_t h = 0; h < HOSTS; h++) {
		const struct shift_conn_stats *s;

		if (!W.host[h].c)
			continue;
		s = shift_conn_stats(W.host[h].c);
		T.wrs += W.host[h].p.posted;
		T.recvs += W.host[h].p.recv_done;
		T.ended[W.host[h].reason]++;
#define ADD(name) sum->name += s->name;
		SHIFT_STATS(ADD)
#undef ADD
	}
}

static bool was_so(bool (*one)(const struct shift_conn_stats *s))
{
	for (uint32_t i = 0; i < conns * HOSTS; i++) {
		const struct host *me = &worlds[i / HOSTS].host[i % HOSTS];

		if (me->c && one(shift_conn_stats(me->c)))
			return true;
	}
	return false;
}

static bool has_switched(const struct shift_conn_stats *s)
{
	return s->switches > 0;
}

static bool has_trimmed(const struct shift_conn_stats *s)
{
	return s->trimmed > 0;
}

static void tally(void)
{
	uint64_t core_events = 0;
	bool second = false, huge = false, lives = false, plan = false;

	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		tally_conn();
		core_events += W.core_events;
		second |= W.second;
		huge |= W.huge;
		lives |= W.life > 0;
		plan |= W.plan_met_atomics;
	}
	wp = worlds;
	T.schedules++;
	T.events += W.steps;
	T.core_events += core_events;
	T.few += core_events < 300;
	if (!T.core_events_min || core_events < T.core_events_min)
		T.core_events_min = core_events;
	T.switched += was_so(has_switched);
	T.second += second;
	T.cut += was_so(has_trimmed);
	T.huge += huge;
	T.lives += lives;
	T.plan_met_atomics += plan;
}

/* A QP with retry_cnt 7 on rail 0, which its atomics bar from leaving: so it does without us. */
static bool atomics_hang(void)
{
	const struct rail *r = &W.rail[0];

	return (W.apart[0] || W.apart[1]) && (W.host[0].retry_inf || W.host[1].retry_inf) &&
	       (r->hurt || r->dead[0] || r->dead[1] || r->hung[0] || r->hung[1]);
}

/* The program's own mistake has ended the peer's QP, and the answer that says so, or one before it,
 * got lost. With endless retries nobody hears of it. */
bool run_refused(unsigned int h)
{
	return W.host[h].refused && W.host[h].retry_inf;
}

static bool hangs_as_stock(void)
{
	return atomics_hang() || run_refused(0) || run_refused(1);
}

/* The connection whose event is next is W from here on. false: there is none. */
static bool next_event(struct ev *e)
{
	const struct world *first = NULL;

	for (uint32_t i = 0; i < conns; i++)
		if (worlds[i].heap_n && (!first || worlds[i].heap[0].at < first->heap[0].at))
			first = &worlds[i];
	if (!first)
		return false;
	wp = &worlds[first - worlds];
	ev_pop(e);
	for (uint32_t i = 0; i < conns; i++)
		worlds[i].now = e->at;
	worlds[0].steps++;
	return true;
}

/* Nothing is to be awaited of it. */
static bool conn_is_done(const struct world *w)
{
	struct world *back = wp;
	bool done;

	wp = &worlds[w - worlds];
	done = W.over ||
	       (W.started && W.calm && !W.renewing && prog_done(0) && prog_done(1) &&
		(W.core_events >= CORE_EVENTS_MIN / conns || W.now > W.calm_at + NS_MS * 1000));
	wp = back;
	return done;
}

static bool all_are_done(void)
{
	for (uint32_t i = 0; i < conns; i++)
		if (!conn_is_done(&worlds[i]))
			return false;
	return true;
}

/* Long after calm. true: as stock verbs would. */
static bool may_hang(void)
{
	for (uint32_t i = 0; i < conns; i++) {
		if (conn_is_done(&worlds[i]))
			continue;
		wp = &worlds[i];
		if (hangs_as_stock())
			return true;
		if (outage_was_barred(0) || outage_was_barred(1)) {
			known_limit(LIMIT_FETCH);
			return true;
		}
		violation("hang: A %s, B %s, long after calm", prog_done(0) ? "done" : "waits",
			  prog_done(1) ? "done" : "waits");
	}
	return false;
}

static void worlds_setup(const struct options *o)
{
	world_setup(o, 0);
	for (uint32_t i = 1; i < conns; i++)
		world_setup(o, i);
	wp = worlds;
	srq_start();
}

static void end_of_schedule(const struct options *o)
{
	for (uint32_t i = 0; i < conns && !W.failed && !o->steps; i++) {
		wp = &worlds[i];
		ref_end();
	}
	wp = worlds;
	if (!W.failed && !o->steps)
		srq_end();
	if (!W.failed || W.limited)
		tally();
}

bool run_schedule(const struct options *o)
{
	struct ev e;

	worlds_setup(o);
	while (!W.failed && next_event(&e)) {
		dispatch(&e);
		ref_step();
		if (o->steps && worlds[0].steps >= o->steps)
			break;
		if (worlds[0].steps > STEPS_MAX * conns)
			violation("livelock: %u events and no end", STEPS_MAX * conns);
		if (W.calm && all_are_done())
			break;
		if (W.calm && W.now > W.calm_at + 3 * W.host[0].cfg.giveup_ns && may_hang())
			return !W.failed || W.limited;
	}
	end_of_schedule(o);
	return !worlds[0].failed || worlds[0].limited;
}
