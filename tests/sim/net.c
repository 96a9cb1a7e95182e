/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The rails: loss, duplication, reordering, delay, cuts; the same for control datagrams. */
#include <string.h>

#include "tests/sim/sim.h"

struct pkt *pkt_get(void)
{
	uint32_t i = W.pkt_free;

	if (i == UINT32_MAX)
		return NULL; /* as a full switch buffer: dropped */
	W.pkt_free = W.pkt[i].next;
	return &W.pkt[i];
}

void pkt_put(struct pkt *p)
{
	p->next = W.pkt_free;
	W.pkt_free = (uint32_t)(p - W.pkt);
}

bool nic_dead(unsigned int h, unsigned int r)
{
	return rail_at(r)->dead[h];
}

/* Is everything from src on this rail lost? */
bool net_is_cut(unsigned int src, unsigned int r)
{
	const struct rail *l = rail_at(r);

	return l->dir[src].cut || l->dead[0] || l->dead[1] || l->admin_down[0] || l->admin_down[1];
}

static bool dropped(const struct pkt *p)
{
	const struct dirfault *f = &rail_at(p->r)->dir[p->src];

	if (net_is_cut(p->src, p->r) || rnd_ppm(&W.g_net, f->loss_ppm))
		return true;
	if ((f->ackdrop || f->qp_acks) && p->type != PK_REQ)
		return true;
	if (f->qp_data && p->type == PK_REQ)
		return true;
	return f->bigdrop && (p->cells > f->bigger || p->span > f->bigger);
}

/* Well within the quarantine. */
static uint64_t overtaken_ns(const struct rail *l)
{
	uint64_t ns = l->latency_ns * (1 + rnd_below(&W.g_net, 8));

	return ns < 2 * NS_MS ? ns : 2 * NS_MS;
}

/* When a packet that leaves now arrives: behind those before it, unless it is reordered. */
static uint64_t arrival(unsigned int src, unsigned int r)
{
	struct rail *l = rail_at(r);
	uint64_t at = W.now + l->latency_ns + l->dir[src].slow_ns + rnd(&W.g_net) % l->jitter_ns;

	if (rnd_ppm(&W.g_net, l->reorder_ppm))
		return at + overtaken_ns(l);
	if (at <= l->last_at[src])
		at = l->last_at[src] + 1;
	l->last_at[src] = at;
	return at;
}

/* A copy that wanders: shorter than the quarantine, or rule 18 could not hold. */
static uint64_t late(void)
{
	return W.now + rnd_range(&W.g_net, 10 * NS_US, W.host[0].cfg.quarantine_ns * 3 / 4);
}

void net_send(struct pkt *p)
{
	struct rail *l = rail_at(p->r);
	struct pkt *copy;

	W.packets++;
	if (W.inside != FAULT_MAX)
		fault_inside(p);
	if (dropped(p)) {
		pkt_put(p);
		return;
	}
	if (rnd_ppm(&W.g_net, l->dup_ppm) && (copy = pkt_get())) {
		uint32_t next = copy->next;

		*copy = *p;
		copy->next = next;
		ev_add(rnd_ppm(&W.g_net, 300000) ? late() : arrival(p->src, p->r), EV_PKT,
		       1 - p->src, p->r, (uint32_t)(copy - W.pkt));
	}
	ev_add(rnd_ppm(&W.g_net, l->late_ppm) ? late() : arrival(p->src, p->r), EV_PKT, 1 - p->src,
	       p->r, (uint32_t)(p - W.pkt));
}

void net_msg_at(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len, uint64_t at)
{
	uint32_t i = W.msg_free;
	struct msgbuf *m = &W.msg[i];

	if (i == UINT32_MAX)
		return;
	W.msg_free = m->next;
	memcpy(m->bytes, bytes, len);
	m->len = (uint8_t)len;
	m->r = (uint8_t)r;
	m->dst = (uint8_t)(1 - src);
	if (rnd_ppm(&W.g_net, W.corrupt_ppm))
		m->bytes[rnd_below(&W.g_net, len)] ^= (uint8_t)(1u << rnd_below(&W.g_net, 8));
	ev_add(at, EV_MSG, 1 - src, r, i);
}

void msg_put(uint32_t i)
{
	W.msg[i].next = W.msg_free;
	W.msg_free = i;
}

/* The type is the first byte of a record. */
static bool is_plan(const uint8_t *bytes, uint32_t len)
{
	const uint8_t *type = bytes + SHIFT_MSG_ENVELOPE - 8;

	return len > SHIFT_MSG_ENVELOPE && (*type == SHIFT_MSG_PREPARE || *type == SHIFT_MSG_READY);
}

/*
 * For a while all of them are late, or none: if only some were, their repetitions would hide it.
 * Some come when the promise is over, some in the next attempt.
 */
static uint64_t plan_late_ns(unsigned int src)
{
	uint64_t slot = W.now / (60 * NS_MS);

	if (slot != W.plan_slot[src]) {
		W.plan_slot[src] = slot;
		W.plan_late_ns[src] = rnd_ppm(&W.g_net, W.plan_late_ppm)
					      ? (NS_MS + rnd(&W.g_net) % NS_MS)
							<< rnd_below(&W.g_net, 11)
					      : 0;
	}
	return W.plan_late_ns[src] + rnd_below(&W.g_net, 100000);
}

void net_send_msg(unsigned int src, unsigned int r, const uint8_t *bytes, uint32_t len)
{
	struct rail *l = rail_at(r);

	lives_msg(src, r, bytes, len);
	if (net_is_cut(src, r) || rnd_ppm(&W.g_net, l->dir[src].loss_ppm + W.ctl_loss_ppm))
		return;
	if (rnd_ppm(&W.g_net, l->dup_ppm))
		net_msg_at(src, r, bytes, len, late() + (rnd(&W.g_net) & 0xffffff));
	if (W.plan_late_ppm && is_plan(bytes, len)) {
		net_msg_at(src, r, bytes, len, W.now + l->latency_ns + plan_late_ns(src));
		return;
	}
	net_msg_at(src, r, bytes, len,
		   rnd_ppm(&W.g_net, l->late_ppm) ? late() : arrival(src, r) + l->latency_ns);
}

/* Would probes of 0 bytes up to the MTU, and their ACKs, pass now? */
bool net_probe(unsigned int src, unsigned int r)
{
	const struct dirfault *there = &rail_at(r)->dir[src], *back = &rail_at(r)->dir[1 - src];

	if (net_is_cut(src, r) || net_is_cut(1 - src, r) || back->ackdrop)
		return false;
	if (there->bigdrop && there->bigger < rail_at(r)->mtu / CELL)
		return false;
	return !rnd_ppm(&W.g_net, there->loss_ppm / 4 + back->loss_ppm / 4);
}

/* Long enough for a switch to begin while an atomic is under way. */
static void slow_down(struct rng *g)
{
	for (uint32_t i = 0; i < W.rails; i++)
		rail_at(i)->latency_ns = rnd_range(g, 50, 1500) * NS_US;
}

void net_setup(struct rng *g)
{
	/* A packet that wanders while 2^24 others pass would be of the past for a real NIC. */
	bool noisy = rnd_below(g, 3) == 0 && !W.huge;
	uint32_t i;

	W.rails = 2 + rnd_below(g, 3);
	W.second_qp = 0;
	if (W.opt.one_nic || W.opt.seed % 8 == 5) {
		W.rails -= W.opt.seed / 8 % 2 ? W.rails - 2 : 0; /* hosts with one NIC */
		W.second_qp = W.rails - 1;
	}
	if (W.conn) { /* on the same NICs */
		W.rails = worlds[0].rails;
		W.second_qp = worlds[0].second_qp;
	}
	for (i = 0; i < W.rails; i++) {
		struct rail *l = rail_at(i);

		l->mtu = 256u << rnd_below(g, 3);
		l->latency_ns = rnd_range(g, 1, 30) * NS_US;
		l->jitter_ns = 1 + rnd_below(g, 10000);
		l->gap_ns = 100 + rnd_below(g, 1000);
		l->dup_ppm = noisy ? rnd_below(g, 20000) : 0;
		l->late_ppm = noisy ? rnd_below(g, 3000) : 0;
		l->reorder_ppm = noisy ? rnd_below(g, 200000) : 0;
	}
	if (W.planned)
		slow_down(g);
	W.ctl_loss_ppm = rnd_below(g, 3) ? 0 : rnd_below(g, 300000);
	W.corrupt_ppm = rnd_below(g, 8) ? 0 : 20000;
	W.pkt_free = W.msg_free = 0;
	for (i = 0; i < PKTS; i++)
		W.pkt[i].next = i + 1 < PKTS ? i + 1 : UINT32_MAX;
	for (i = 0; i < MSGS; i++)
		W.msg[i].next = i + 1 < MSGS ? i + 1 : UINT32_MAX;
}
