/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What there is in the network, and how time goes by in it. Rates are in net_rates.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/net.h"
#include "tests/collsim/net_rates.h"

void *net_grow(void *array, size_t n, size_t size)
{
	if (n & (n - 1))
		return array;
	array = realloc(array, (n ? 2 * n : 1) * size);
	if (!array)
		abort();
	return array;
}

void net_init(struct net *n, int switches, int hosts)
{
	*n = (struct net){.nodes = switches + hosts, .switches = switches, .link_ns = 2000};
	n->node = calloc(n->nodes + 1, sizeof(*n->node));
	if (!n->node)
		abort();
	for (int i = 0; i < switches; i++)
		n->node[i].is_switch = true;
}

void net_free(struct net *n)
{
	for (int i = 0; i < n->flows; i++) {
		free(n->flow[i].now);
		free(n->flow[i].last);
	}
	free(n->node);
	free(n->port);
	free(n->order);
	free(n->flow);
	free(n->live);
	free(n->pfc);
}

static int add_port(struct net *n, int node, int peer, double rate, enum port_kind kind, int number)
{
	n->port = net_grow(n->port, n->ports, sizeof(*n->port));
	n->port[n->ports] = (struct port){.kind = kind,
					  .node = node,
					  .number = number,
					  .peer = peer,
					  .line = rate,
					  .factor = 1,
					  .back = NET_NONE,
					  .paused_at = -INFINITY,
					  .first = NET_NONE};
	free(n->order);
	n->order = NULL;
	return n->ports++;
}

int net_link(struct net *n, int a, int b, double rate, enum port_kind up, enum port_kind down)
{
	int port = add_port(n, a, b, rate, up, ++n->node[a].ports);

	add_port(n, b, a, rate, down, ++n->node[b].ports);
	n->port[port].back = port + 1;
	n->port[port + 1].back = port;
	/* Thresholds of a switch grow with its rate: 24 us of it. */
	n->xoff = fmax(n->xoff, rate * 24000);
	n->xon = n->xoff / 2;
	n->kmin = n->xoff / 4;
	n->cc_ns = 50000;
	return port;
}

int net_bus(struct net *n, int node, double rate, enum port_kind kind)
{
	return add_port(n, node, node, rate, kind, 0);
}

int net_port_to(const struct net *n, int a, int b)
{
	for (int i = 0; i < n->ports; i++)
		if (n->port[i].node == a && n->port[i].peer == b && n->port[i].number)
			return i;
	return NET_NONE;
}

static void take_path(struct net *n, struct flow *f, const int *path, int hops)
{
	f->hops = hops;
	memcpy(f->path, path, hops * sizeof(*path));
	f->latency_ns = 0;
	for (int h = 0; h < hops; h++) {
		if (n->port[path[h]].number)
			f->latency_ns += n->link_ns;
		if (h && n->port[path[h]].kind <= n->port[path[h - 1]].kind)
			n->cyclic = true;
	}
}

int net_flow(struct net *n, int src, int dst, const int *path, int hops)
{
	struct flow *f;

	if (hops > NET_HOPS)
		abort();
	n->flow = net_grow(n->flow, n->flows, sizeof(*n->flow));
	n->live = net_grow(n->live, n->flows, sizeof(*n->live));
	f = n->flow + n->flows;
	*f = (struct flow){.src = src,
			   .dst = dst,
			   .controlled = true,
			   .collective = true,
			   .mark = INFINITY,
			   .limit = n->port[path[0]].line};
	take_path(n, f, path, hops);
	if (n->telemetry) {
		f->now = calloc(2 * NET_HOPS, sizeof(*f->now));
		f->last = calloc(2 * NET_HOPS, sizeof(*f->last));
		if (!f->now || !f->last)
			abort();
	}
	return n->flows++;
}

static void settle_later(struct net *n)
{
	n->dirty = true;
	if (!n->cc_at || n->cc_at > n->now + n->cc_ns)
		n->cc_at = n->now + n->cc_ns;
}

void net_post(struct net *n, int flow, double bytes)
{
	struct flow *f = n->flow + flow;

	if (f->posted - f->sent <= 0) {
		/* After a while without traffic a flow begins at line rate again. */
		if (!f->live && n->now - f->idle_since > 4 * n->cc_ns)
			f->limit = n->port[f->path[0]].line;
		f->message = f->posted;
		settle_later(n);
	}
	f->posted += bytes;
	if (!f->live && !f->dead) {
		f->live = true;
		n->live[n->lives++] = flow;
	}
}

void net_abandon(struct net *n, int flow)
{
	n->flow[flow].posted = n->flow[flow].sent;
	settle_later(n);
}

static void lose_queues(struct flow *f)
{
	for (int h = 0; h < f->hops; h++) {
		f->lost += f->queue[h];
		f->queue[h] = 0;
	}
}

void net_kill(struct net *n, int flow)
{
	struct flow *f = n->flow + flow;

	lose_queues(f);
	f->dead = true;
	settle_later(n);
}

void net_reroute(struct net *n, int flow, const int *path, int hops, bool sunk)
{
	struct flow *f = n->flow + flow;

	rates_tell(n);
	lose_queues(f);
	take_path(n, f, path, hops);
	f->sunk = sunk;
	settle_later(n);
}

void net_degrade(struct net *n, int port, double factor)
{
	n->port[port].factor = factor;
	settle_later(n);
}

static void pfc_note(struct net *n, int port, bool pause)
{
	n->port[port].paused = pause;
	n->port[port].paused_at = n->now;
	n->pfc = net_grow(n->pfc, n->pfcs, sizeof(*n->pfc));
	n->pfc[n->pfcs++] = (struct pfc){n->now, port, pause};
	n->dirty = true;
}

void net_storm(struct net *n, int port, double until)
{
	n->port[port].storm_until = until;
	if (!n->port[port].paused)
		pfc_note(n, port, true);
}

double port_rate(const struct port *p)
{
	return p->line * p->factor;
}

static double next_of_port(const struct net *n, const struct port *p)
{
	double dt = INFINITY;

	if (p->first != NET_NONE && p->fill < 0 && p->queue > 0)
		dt = p->queue / -p->fill;
	if (!p->paused && p->ahead_fill > 0)
		dt = fmin(dt, (n->xoff - p->ahead) / p->ahead_fill);
	if (p->paused && p->ahead_fill < 0)
		dt = fmin(dt, (p->ahead - n->xon) / -p->ahead_fill);
	if (p->storm_until > n->now)
		dt = fmin(dt, p->storm_until - n->now);
	return dt;
}

static double next_of_flow(const struct flow *f)
{
	double dt = INFINITY, out = f->out[f->hops - 1];

	if (f->out[0] > 0 && f->posted > f->sent)
		dt = (f->posted - f->sent) / f->out[0];
	for (int h = 1; h < f->hops; h++)
		if (f->queue[h] > 0 && f->in[h] <= 0 && f->out[h] > 0)
			dt = fmin(dt, f->queue[h] / f->out[h]);
	if (out > 0 && isfinite(f->mark) && !f->sunk)
		dt = fmin(dt, (f->mark - f->delivered) / out);
	return dt;
}

double net_next(struct net *n)
{
	double dt = INFINITY, boundary;

	if (n->dirty)
		rates_compute(n);
	for (int i = 0; i < n->lives; i++)
		dt = fmin(dt, next_of_flow(n->flow + n->live[i]));
	for (int i = 0; i < n->ports; i++)
		dt = fmin(dt, next_of_port(n, n->port + i));
	if (n->cc_at)
		dt = fmin(dt, n->cc_at - n->now);
	if (n->telemetry && n->lives) {
		boundary = (floor(n->now / NET_TELEMETRY_NS) + 1) * NET_TELEMETRY_NS;
		dt = fmin(dt, boundary - n->now);
	}
	/* Never none at all: rounding must not hold up the time. */
	return n->now + fmax(dt, 0.01);
}

/* The counters of a flow at a hop, of the epoch of telemetry in which the time t is. */
static struct hop_count *count_of(struct flow *f, int h, double t)
{
	int64_t epoch = (int64_t)(t / NET_TELEMETRY_NS);
	struct hop_count *c = f->now + h;

	if (c->bytes > 0 && c->epoch == epoch)
		return c;
	if (c->bytes > 0)
		f->last[h] = *c;
	*c = (struct hop_count){.epoch = epoch, .first = INFINITY};
	return c;
}

static void count_hop(struct net *n, struct flow *f, int h, double gone, double dt)
{
	const struct port *p = n->port + f->path[h];
	struct hop_count *c;
	double bytes = f->in[h] * dt, end;

	if (bytes <= 0 || p->node >= n->switches)
		return;
	c = count_of(f, h, n->now + dt / 2);
	c->bytes += bytes;
	c->most = fmax(c->most, p->queue + fmax(0, p->fill) * dt);
	if (p->paused)
		c->paused += bytes;
	else
		c->ahead += bytes / NET_PACKET_BYTES * (p->queue + fmax(0, p->fill) * dt / 2) /
			    NET_PACKET_BYTES;
	end = gone + f->in[h] * dt - f->message;
	c->first = fmin(c->first, fmax(0, gone - f->message));
	c->last = fmax(c->last, fmax(0, end));
}

static void advance_flow(struct net *n, struct flow *f, double dt)
{
	double waits = 0, gone = f->sent;

	for (int h = 1; h < f->hops && f->now; h++) {
		count_hop(n, f, h, gone, dt);
		gone -= f->queue[h];
	}
	if (f->posted > f->sent) {
		f->sent += f->out[0] * dt;
		if (f->posted - f->sent < 0.5) {
			f->sent = f->posted;
			settle_later(n);
		}
	}
	for (int h = 1; h < f->hops; h++) {
		bool some = f->queue[h] > 0;

		f->queue[h] += (f->in[h] - f->out[h]) * dt;
		if (f->queue[h] < 0.5 && f->in[h] <= f->out[h])
			f->queue[h] = 0;
		if (some && !f->queue[h])
			n->dirty = true;
		waits += f->queue[h];
	}
	if (f->sunk && f->hops > 1)
		f->lost += f->out[f->hops - 1] * dt;
	f->delivered = f->sent - waits - f->lost;
}

static void advance_port(struct net *n, struct port *p, double dt)
{
	p->sent += (p->arrive - p->fill) * dt;
	p->queue = fmax(0, p->queue + p->fill * dt);
	p->ahead = fmax(0, p->ahead + p->ahead_fill * dt);
	if (p->fill < 0 && p->queue < 0.5)
		n->dirty = true;
}

static void pause_ports(struct net *n)
{
	for (int i = 0; i < n->ports; i++) {
		struct port *p = n->port + i;
		bool storm = p->storm_until > n->now + 0.005;

		if (!p->paused && p->ahead >= n->xoff - 1)
			pfc_note(n, i, true);
		else if (p->paused && !storm && p->ahead <= n->xon + 1)
			pfc_note(n, i, false);
	}
}

static void tell_arrived(struct net *n)
{
	for (int i = 0; i < n->lives; i++) {
		int flow = n->live[i];

		/* The callback may post to flows, and that may move them. */
		while (n->flow[flow].delivered >= n->flow[flow].mark - 0.5)
			n->arrived(n->arg, flow);
	}
}

void net_advance(struct net *n, double t)
{
	double dt = t - n->now;

	if (n->dirty)
		rates_compute(n);
	if (dt > 0) {
		for (int i = 0; i < n->lives; i++)
			advance_flow(n, n->flow + n->live[i], dt);
		for (int i = 0; i < n->ports; i++)
			advance_port(n, n->port + i, dt);
		n->now = t;
	}
	pause_ports(n);
	if (n->cc_at && n->cc_at <= n->now + 0.005)
		rates_control(n);
	if (n->arrived)
		tell_arrived(n);
}
