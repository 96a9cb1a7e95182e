/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The faults, and their times. A schedule has a list of faults at random times, and "second" faults
 * that wait for a switch and then strike: the double failures are where the errors live.
 */
#include "tests/sim/sim.h"

#define WAITED (1u << 31) /* in the number of a fault: long enough for a message */

const char *fault_name(unsigned int k)
{
	static const char *const names[] = {
#define FAULT_NAME(n, w) #n,
		FAULTS(FAULT_NAME)
#undef FAULT_NAME
	};

	return k < FK_COUNT ? names[k] : "?";
}

const char *fault_text(unsigned int k)
{
	static const char *const texts[] = {
#define FAULT_TEXT(n, w) w,
		FAULTS(FAULT_TEXT)
#undef FAULT_TEXT
	};

	return k < FK_COUNT ? texts[k] : "?";
}

/* Weights of the first faults; those that end a connection are rare, as they hide the others. */
static const uint8_t weight[FK_COUNT] = {
	[FK_CABLE] = 30,   [FK_LOSS] = 25,  [FK_ONEWAY] = 20,  [FK_ACKDROP] = 20, [FK_BIGDROP] = 12,
	[FK_FLAP] = 12,	   [FK_LOSSY] = 10, [FK_SLOW] = 6,     [FK_ADMIN] = 15,	  [FK_BGSTALL] = 6,
	[FK_APPSTALL] = 6, [FK_STOP] = 6,   [FK_NICDEAD] = 5,  [FK_NICHUNG] = 3,  [FK_MIGRATE] = 14,
	[FK_KILL] = 1,	   [FK_CLOSE] = 2,  [FK_ALLRAILS] = 1, [FK_ARMFAIL] = 4,  [FK_PATH] = 10,
	[FK_QPERR] = 8,	   [FK_VETO] = 10,  [FK_RENEW] = 8,
};

static uint8_t pick_kind(struct rng *g, bool second)
{
	uint32_t i, sum = 0, x;

	for (i = 0; i < FK_COUNT; i++)
		sum += weight[i];
	do {
		x = rnd_below(g, sum);
		for (i = 0; x >= weight[i]; i++)
			x -= weight[i];
	} while (second && (i == FK_KILL || i == FK_RENEW || i == FK_ALLRAILS || i == FK_BGSTALL ||
			    i == FK_APPSTALL));
	return (uint8_t)i;
}

static void draw(struct rng *g, struct fault *f, bool second)
{
	f->kind = pick_kind(g, second);
	f->h = (uint8_t)rnd_below(g, HOSTS);
	f->r = (uint8_t)rnd_below(g, W.rails);
	f->reps = f->kind == FK_FLAP ? (uint8_t)(1 + rnd_below(g, 5)) : 0;
	f->ns = rnd_range(g, 100, 1000) * NS_US << rnd_below(g, 8);
	f->arg = (uint32_t)rnd(g);
	f->inside = f->copied = false;
	if (f->kind == FK_ALLRAILS)
		f->ns = W.host[0].cfg.giveup_ns * 3 / 2;
	if (f->kind == FK_SLOW)
		f->arg = 1 + f->arg % 3000;
	if (f->kind == FK_STOP || f->kind == FK_BGSTALL || f->kind == FK_APPSTALL)
		f->ns = f->ns > 60 * NS_MS ? 60 * NS_MS : f->ns;
}

/* One fault that cannot be missed, or the operator: nine schedules of ten are to have a switch. */
static void certain(struct rng *g, struct fault *f)
{
	static const uint8_t kinds[] = {FK_CABLE, FK_LOSS,  FK_ONEWAY,	FK_ACKDROP,
					FK_ADMIN, FK_QPERR, FK_MIGRATE, FK_CABLE};

	f->kind = kinds[rnd_below(g, sizeof(kinds))];
	f->ns = rnd_range(g, 25, 120) * NS_MS;
}

/* Faults that can begin between two packets of a message, and leave it in parts. */
static bool can_cut(uint8_t kind)
{
	return kind == FK_CABLE || kind == FK_LOSS || kind == FK_ONEWAY || kind == FK_FLAP ||
	       kind == FK_ADMIN || kind == FK_QPERR || kind == FK_PATH || kind == FK_NICDEAD;
}

void fault_setup(struct rng *g)
{
	uint32_t i, n = 1 + rnd_below(g, 6);
	uint64_t span = rnd_range(g, 20, 200) * NS_MS;

	W.second_left = rnd_below(g, 3) && W.planned != PLANNED_ONLY ? 1 + rnd_below(g, 3) : 0;
	for (i = 0; i < n; i++) {
		draw(g, &W.fault[i], false);
		if (i == 0 && rnd_below(g, 16))
			certain(g, &W.fault[i]);
		if (W.planned == PLANNED_ONLY || (W.planned && rnd_below(g, 2)))
			W.fault[i].kind = FK_MIGRATE;
		if (W.opt.lives && i < 2)
			W.fault[i].kind = FK_RENEW;
		W.fault[i].arg |= 1u << 31; /* on the rail in use */
		if (rnd_below(g, 4) == 0)
			W.fault[i].arg &= ~(1u << 31);
		W.fault[i].inside = can_cut(W.fault[i].kind) && rnd_below(g, 8);
		ev_add(W.now + 100 * NS_US + rnd(g) % span, EV_FAULT, 0, 0, i);
	}
	W.faults = n;
	W.calm_at = W.now + span + rnd_range(g, 1, 50) * NS_MS;
	for (i = 0; i < n; i++)
		if (W.fault[i].kind == FK_ALLRAILS)
			W.calm_at += W.fault[i].ns;
	ev_add(W.calm_at, EV_CALM, 0, 0, 0);
}

/* One fault more, on that rail. */
void fault_soon(enum fault_kind kind, unsigned int r)
{
	struct fault *f = &W.fault[W.faults];

	if (W.calm || W.faults == FAULT_MAX)
		return;
	draw(&W.g_fault, f, true);
	f->kind = (uint8_t)kind;
	f->reps = 0;
	f->r = (uint8_t)r;
	ev_add(W.now + rnd_below(&W.g_fault, 500 * NS_US), EV_FAULT, 0, 0, W.faults++);
}

static bool in_switch(unsigned int h)
{
	uint8_t s = W.host[h].state;

	return s == SHIFT_ST_FENCE || s == SHIFT_ST_NO_RAIL || s == SHIFT_ST_QUARANTINE ||
	       s == SHIFT_ST_ARM || s == SHIFT_ST_SWITCHING;
}

void fault_on_state(unsigned int h, uint8_t to, uint8_t rail)
{
	struct fault *f = &W.fault[W.faults];

	(void)to;
	if (!W.second_left || W.calm || !W.started || W.faults == FAULT_MAX || !in_switch(h) ||
	    rnd_below(&W.g_fault, 3))
		return;
	W.second_left--;
	draw(&W.g_fault, f, true);
	f->arg &= ~(1u << 31);
	if (rnd_below(&W.g_fault, 3))
		f->r = rail;
	f->inside = can_cut(f->kind) && rnd_below(&W.g_fault, 4); /* of what is posted again */
	ev_add(W.now + rnd_below(&W.g_fault, 2 * NS_MS), EV_FAULT, 0, 0, W.faults++);
}

/* --- begin and end
 * ---------------------------------------------------------------------------------- */

static void carrier(const struct fault *f, unsigned int h, int n)
{
	struct rail *l = rail_at(f->r);

	l->no_carrier[h] += (uint32_t)n;
	ev_add(W.now + (f->arg >> (8 * h) & 0xff) * 40 * NS_US, EV_LINK, h, f->r, 0);
}

static void cut(unsigned int r, int n)
{
	rail_at(r)->dir[0].cut += (uint32_t)n;
	rail_at(r)->dir[1].cut += (uint32_t)n;
}

/* Is there another rail with two living NICs? A NIC may not die otherwise. */
static bool spare(unsigned int r)
{
	unsigned int i;

	for (i = 0; i < W.rails; i++)
		if (rail_at(i) != rail_at(r) && !rail_at(i)->dies[0] && !rail_at(i)->dies[1] &&
		    !rail_at(i)->dead[0] && !rail_at(i)->dead[1] && !rail_at(i)->hung[0] &&
		    !rail_at(i)->hung[1])
			return true;
	return false;
}

/* A NIC is that of all connections. */
void fault_nic_dies(unsigned int h, unsigned int r)
{
	struct world *back = wp;

	tr(h, "nic: rail %lu: the NIC is gone", r, 0, 0, 0);
	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		rail_at(r)->dies[h] = false;
		rail_at(r)->dead[h] = true;
		cause_rail(r, 0);
	}
	wp = back;
}

/* Its control path hangs, or it is about to die. */
static void nic_ails(const struct fault *f)
{
	struct world *back = wp;

	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		rail_at(f->r)->hung[f->h] |= f->kind == FK_NICHUNG;
		rail_at(f->r)->dies[f->h] |= f->kind == FK_NICDEAD;
		if (wp != back)
			cause_rail(f->r, 0);
	}
	wp = back;
}

static void nic_fault(const struct fault *f)
{
	if (!spare(f->r))
		return;
	if (f->kind == FK_NICHUNG) {
		nic_ails(f);
		return;
	}
	if (f->arg & 3)
		carrier(f, f->h, 1);
	if (f->arg & 4)
		nic_ails(f);
	else
		fault_nic_dies(f->h, f->r);
}

static void hurt(const struct fault *f, int n)
{
	unsigned int r;

	for (r = 0; r < W.rails; r++)
		if (f->kind == FK_ALLRAILS ||
		    (r == f->r && f->kind != FK_MIGRATE && f->kind != FK_RENEW))
			cause_rail(r, n);
}

static uint8_t migrate_from(unsigned int h)
{
	struct shift_conn_view v;

	shift_conn_view(W.host[h].c, &v);
	return v.r;
}

/* As shift-ctl migrate: away from the rail, and it stays empty until it is allowed again. */
static void veto(const struct fault *f, int n)
{
	struct shift_event ev = {.type = SHIFT_EV_MIGRATE, .rail = (uint8_t)((f->r + 1) % W.rails)};

	if (n > 0 && f->arg & 1 && migrate_from(f->h) == f->r)
		host_give(f->h, &ev);
	host_veto(f->h, f->r, n);
}

/* Faults that last: n is 1 at the beginning and -1 at the end. */
static bool lasting(const struct fault *f, int n)
{
	struct rail *l = rail_at(f->r);
	struct dirfault *d = &l->dir[f->h];

	switch ((enum fault_kind)f->kind) {
	case FK_CABLE:
		cut(f->r, n);
		if (f->arg & 1u << 16 || f->arg & 1u << 17)
			carrier(f, 0, n);
		if (f->arg & 1u << 18 || f->arg & 1u << 19)
			carrier(f, 1, n);
		return true;
	case FK_LOSS:
	case FK_FLAP: cut(f->r, n); return true;
	case FK_PATH:
		if (f->arg & 1)
			d->qp_acks += (uint32_t)n;
		else
			d->qp_data += (uint32_t)n;
		return true;
	case FK_ONEWAY: d->cut += (uint32_t)n; return true;
	case FK_ACKDROP: d->ackdrop += (uint32_t)n; return true;
	case FK_BIGDROP:
		d->bigdrop += (uint32_t)n;
		d->bigger = f->arg & 7;
		return true;
	case FK_LOSSY: d->loss_ppm += (uint32_t)(n * (int)(10000 + f->arg % 300000)); return true;
	case FK_SLOW: d->slow_ns += (uint64_t)(n * (int64_t)(f->arg * NS_US)); return true;
	case FK_ADMIN:
		l->admin_down[f->h] += (uint32_t)n;
		carrier(f, f->h, n);
		return true;
	case FK_VETO: veto(f, n); return true;
	case FK_ALLRAILS:
		for (unsigned int i = 0; i < W.rails; i++)
			cut(i, n);
		W.all_cut_from = n > 0 ? W.now : W.all_cut_from;
		W.all_cut_until = n > 0 ? W.now + f->ns : W.now;
		return true;
	default: return false;
	}
}

/* It has all connections. Before the first life and between two it could concern none. */
static void kill_process(unsigned int h)
{
	struct world *back = wp;

	for (uint32_t i = 0; i < conns; i++)
		if (worlds[i].renewing || !worlds[i].started || worlds[i].host[1 - h].died)
			return;
	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		if (!W.host[h].died)
			host_kill(h);
	}
	wp = back;
}

static void moment(const struct fault *f)
{
	static const uint32_t qp_errors[] = {SHIFT_WC_WR_FLUSH_ERR, SHIFT_WC_LOC_QP_OP_ERR,
					     SHIFT_WC_FATAL_ERR, SHIFT_WC_GENERAL_ERR};
	struct host *me = &W.host[f->h];
	struct shift_event ev = {.type = SHIFT_EV_MIGRATE, .rail = f->r};

	switch ((enum fault_kind)f->kind) {
	case FK_BGSTALL:
		me->bg_until = W.now + f->ns;
		cause_stall(f->h, me->bg_until);
		break;
	case FK_APPSTALL:
		me->app_until = W.now + f->ns;
		cause_stall(f->h, me->app_until);
		break;
	case FK_STOP:
		me->stop_until = W.now + f->ns;
		cause_stall(f->h, me->stop_until);
		break;
	case FK_NICDEAD:
	case FK_NICHUNG: nic_fault(f); break;
	case FK_MIGRATE:
		if (f->r == migrate_from(f->h))
			ev.rail = (uint8_t)((f->r + 1) % W.rails);
		host_give(f->h, &ev);
		break;
	case FK_KILL: kill_process(f->h); break;
	case FK_CLOSE: ev_add(W.now, EV_CLOSE, f->h, 0, 0); break;
	case FK_ARMFAIL: me->arm_fails = true; break;
	case FK_RENEW: lives_renew(f->h); break;
	case FK_QPERR:
		if (!nic_dead(f->h, f->r))
			qp_fatal(&W.qp[f->h][f->r], qp_errors[f->arg & 3]);
		/* The async event may be late; at times nothing else would ever tell. */
		ev_add(W.now + (f->arg >> 8 & 0xff) * 20 * NS_US, EV_QPFATAL, f->h, f->r,
		       W.qp[f->h][f->r].epoch);
		break;
	default: break;
	}
}

/* Wait for the middle of a message, but not for ever. */
static bool wait_for_message(uint32_t i)
{
	struct fault *f = &W.fault[i];

	if (!f->inside || W.inside != FAULT_MAX)
		return false;
	f->inside = false;
	W.inside = i;
	ev_add(W.now + 20 * NS_MS, EV_FAULT, 0, 0, i | WAITED);
	return true;
}

static bool lasts(uint8_t kind)
{
	return kind <= FK_ADMIN || kind == FK_ALLRAILS || kind == FK_PATH;
}

/* What hits a NIC or a process hits all connections, a path may be that of some peers alone. */
static bool hits_all(const struct fault *f)
{
	switch ((enum fault_kind)f->kind) {
	case FK_ADMIN:
	case FK_STOP:
	case FK_BGSTALL: return true;
	case FK_CABLE:
	case FK_LOSS:
	case FK_ONEWAY:
	case FK_ACKDROP:
	case FK_BIGDROP:
	case FK_FLAP:
	case FK_LOSSY:
	case FK_SLOW:
	case FK_MIGRATE:
	case FK_VETO:
	case FK_ALLRAILS: return f->arg >> 20 & 1;
	default: return false;
	}
}

/* A fault begins in one connection, and in the others now, too. */
static void spread(const struct fault *f)
{
	struct world *back = wp;

	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		if (wp == back || W.faults == FAULT_MAX || !W.started)
			continue;
		W.fault[W.faults] = *f;
		W.fault[W.faults].copied = true;
		ev_add(W.now, EV_FAULT, 0, 0, W.faults++);
	}
	wp = back;
}

static void begin(uint32_t i)
{
	struct fault *f = &W.fault[i];
	struct shift_conn_view v;

	if (W.calm || W.opt.no_faults & 1u << f->kind || W.host[f->h].died || wait_for_message(i))
		return;
	if (W.renewing && !lasts(f->kind))
		return; /* there is no connection that it could concern */
	if (f->arg & 1u << 31 && W.host[f->h].c) {
		shift_conn_view(W.host[f->h].c, &v);
		f->r = v.r;
	}
	f->arg &= ~(1u << 31);
	if ((in_switch(0) || in_switch(1)) && f->kind != FK_BGSTALL && f->kind != FK_APPSTALL &&
	    f->kind != FK_KILL && f->kind != FK_CLOSE)
		W.second = true;
	if (conns > 1 && !f->copied && hits_all(f)) {
		f->copied = true; /* also when it comes again: the others have it themselves */
		spread(f);
	}
	T.fault[f->kind]++;
	tr(HOSTS, tr_fault, i, f->kind, f->h, f->r);
	if (f->kind == FK_NICHUNG && f->arg & 1)
		ev_add(W.now + f->ns, EV_HEAL, 0, 0, i);
	if (lasting(f, 1)) {
		hurt(f, 1);
		ev_add(W.now + f->ns, EV_HEAL, 0, 0, i);
	} else {
		hurt(f, 0);
		moment(f);
	}
}

static void begin_waiting(void)
{
	uint32_t i = W.inside;

	W.inside = FAULT_MAX;
	begin(i);
}

static void nic_answers(unsigned int h, unsigned int r)
{
	struct world *back = wp;

	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		host_unhang(h, r);
	}
	wp = back;
}

static void heal(uint32_t i)
{
	struct fault *f = &W.fault[i];

	if (W.calm)
		return;
	tr(HOSTS, tr_heal, i, f->kind, f->h, f->r);
	hurt(f, lasting(f, -1) ? -1 : 0);
	if (f->kind == FK_NICHUNG)
		nic_answers(f->h, f->r);
	if (f->reps && f->reps--)
		ev_add(W.now + f->ns / 2, EV_FAULT, 0, 0, i);
}

/* From now on nothing more breaks, and at least one rail is healthy: every run must finish. */
static void calm(void)
{
	uint32_t keep = rnd_below(&W.g_fault, 2), r, h, good = rnd_below(&W.g_fault, W.rails);

	W.calm = true;
	for (r = 0; r < W.rails; r++)
		rail_at(r)->dies[0] = rail_at(r)->dies[1] = false;
	while (rail_at(good)->dead[0] || rail_at(good)->dead[1] || rail_at(good)->hung[0] ||
	       rail_at(good)->hung[1])
		good = (good + 1) % W.rails;
	tr(HOSTS, "--- calm: rail %lu is healthy, the others %lu (1: too)", good, !keep, 0, 0);
	for (r = 0; r < W.rails; r++) {
		struct rail *l = rail_at(r);

		l->dir[0] = l->dir[1] = (struct dirfault){.cut = keep &&
								 rail_at(r) != rail_at(good)};
		cause_rail(r, 0);
		l->hurt = l->dir[0].cut;
		for (h = 0; h < HOSTS; h++) {
			while (W.host[h].veto[r])
				host_veto(h, r, -1);
			/* A QP that its program has ended there takes receives as long as it hangs.
			 */
			if (l->hung[h] && (rnd_below(&W.g_fault, 2) || W.host[h].cfg.srq))
				host_unhang(h, r);
			l->admin_down[h] = 0;
			l->no_carrier[h] = l->dead[h];
			ev_add(W.now + rnd_below(&W.g_fault, NS_MS), EV_LINK, h, r, 0);
		}
	}
	W.ctl_loss_ppm = W.ctl_loss_ppm > 50000 ? 50000 : W.ctl_loss_ppm;
	/* A NIC that retries for ever on a rail that stays cut: only probes tell (T6, T8). */
	W.silence = rnd_below(&W.g_fault, 4) == 0 &&
		    !(keep && (W.host[0].retry_inf || W.host[1].retry_inf));
}

/* When it is time for all connections. */
static void calm_for_all(void)
{
	struct world *back = wp;

	W.calm_due = true;
	for (uint32_t i = 0; i < conns; i++)
		if (!worlds[i].calm_due)
			return;
	for (uint32_t i = 0; i < conns; i++) {
		wp = &worlds[i];
		W.calm_at = W.now;
		calm();
	}
	wp = back;
}

/* The NIC dies when a fenced WR is on its way. If the peer executes it, that proves what the dead
 * NIC's completions would have said: the READs in front of it are done. */
static void nic_dies_behind(const struct pkt *p)
{
	struct fault *f = &W.fault[W.inside];

	if (p->type != PK_REQ || !W.host[p->src].p.wr[p->seq].fenced)
		return;
	f->r = p->r;
	f->h = p->src;
	f->arg &= ~(1u << 31);
	ev_add(W.now + 1, EV_FAULT, 0, 0, W.inside | WAITED);
}

/* A SEND holds a receive from its first packet on. */
static bool takes_of_srq(const struct pkt *p)
{
	return W.host[1 - p->src].cfg.srq && (p->op == SHIFT_OP_SEND || p->op == SHIFT_OP_SEND_IMM);
}

/* A packet leaves while a fault waits for one that is not the first of its WRITE, or SEND to an
 * SRQ. */
void fault_inside(const struct pkt *p)
{
	struct fault *f = &W.fault[W.inside];

	if (f->kind == FK_NICDEAD) {
		nic_dies_behind(p);
		return;
	}
	if (p->type != PK_REQ || p->first || !(p->op == SHIFT_OP_WRITE || takes_of_srq(p)))
		return;
	f->r = p->r;
	f->h = f->kind == FK_ONEWAY || f->kind == FK_PATH ? p->src : f->h;
	f->arg &= ~(1u << 31);
	if (f->kind == FK_PATH)
		f->arg &= ~1u; /* of the requests */
	begin_waiting();
}

void fault_event(const struct ev *e)
{
	if (e->type == EV_FAULT && e->x & WAITED) {
		if (W.inside == (e->x & ~WAITED))
			begin_waiting();
	} else if (e->type == EV_FAULT)
		begin(e->x);
	else if (e->type == EV_HEAL)
		heal(e->x);
	else
		calm_for_all();
}
