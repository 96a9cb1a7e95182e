/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How fast flows are: what a NIC sends, what a queue lets through, and what is fair. */
#include <math.h>
#include <stdlib.h>

#include "tests/collsim/net_rates.h"

static struct flow *hop_flow(struct net *n, int entry)
{
	return n->flow + entry / NET_HOPS;
}

static bool sends(const struct flow *f)
{
	return !f->dead && f->posted > f->sent;
}

static void order_ports(struct net *n)
{
	int at = 0;

	n->order = malloc((n->ports + 1) * sizeof(*n->order));
	if (!n->order)
		abort();
	for (int kind = 0; kind < PORT_KINDS; kind++)
		for (int i = 0; i < n->ports; i++)
			if ((int)n->port[i].kind == kind)
				n->order[at++] = i;
}

void rates_tell(struct net *n)
{
	for (int i = 0; i < n->lives; i++) {
		struct flow *f = n->flow + n->live[i];

		if (n->sending && f->rate > 0 && n->now > f->since)
			n->sending(n->arg, n->live[i], f->since, n->now, f->rate);
		f->since = n->now;
	}
}

static bool is_over(const struct flow *f)
{
	double waits = 0;

	for (int h = 1; h < f->hops; h++)
		waits += f->queue[h];
	return f->dead || (f->posted <= f->sent && waits < 0.5);
}

static void drop_idle(struct net *n)
{
	int left = 0;

	for (int i = 0; i < n->lives; i++) {
		struct flow *f = n->flow + n->live[i];

		if (is_over(f)) {
			f->live = false;
			f->rate = 0;
			f->idle_since = n->now;
		} else {
			n->live[left++] = n->live[i];
		}
	}
	n->lives = left;
}

static void list_hops(struct net *n)
{
	for (int i = 0; i < n->ports; i++) {
		struct port *p = n->port + i;

		p->first = NET_NONE;
		p->queue = p->ahead = p->arrive = p->fill = p->ahead_fill = 0;
	}
	for (int i = n->lives - 1; i >= 0; i--) {
		struct flow *f = n->flow + n->live[i];

		for (int h = 0; h < f->hops; h++) {
			struct port *p = n->port + f->path[h];

			f->next[h] = p->first;
			p->first = n->live[i] * NET_HOPS + h;
			p->queue += f->queue[h];
			if (h)
				n->port[f->path[h - 1]].ahead += f->queue[h];
		}
	}
}

/* A NIC shares its port among its flows as far as congestion control lets them. */
static void send_rates(struct net *n, struct port *p)
{
	double left = p->paused ? 0 : port_rate(p);
	int wanting = 0;

	for (int e = p->first; e != NET_NONE; e = hop_flow(n, e)->next[0]) {
		hop_flow(n, e)->out[0] = -1;
		wanting += sends(hop_flow(n, e));
	}
	for (bool again = true; again && wanting;) {
		double each = left / wanting;

		again = false;
		for (int e = p->first; e != NET_NONE; e = hop_flow(n, e)->next[0]) {
			struct flow *f = hop_flow(n, e);

			if (sends(f) && f->out[0] < 0 && f->limit < each) {
				f->out[0] = f->limit;
				left -= f->limit;
				wanting--;
				again = true;
			}
		}
	}
	for (int e = p->first; e != NET_NONE; e = hop_flow(n, e)->next[0]) {
		struct flow *f = hop_flow(n, e);

		if (f->out[0] < 0)
			f->out[0] = sends(f) ? left / wanting : 0;
		p->arrive += f->out[0];
	}
}

/* Flows of others that are in a queue in which a collective's is. */
static void note_meetings(struct net *n, const struct port *p)
{
	bool collective = false;

	for (int pass = 0; pass < 2; pass++)
		for (int e = p->first; e != NET_NONE; e = hop_flow(n, e)->next[e % NET_HOPS]) {
			struct flow *f = hop_flow(n, e);

			if (f->queue[e % NET_HOPS] <= 0)
				continue;
			collective |= f->collective;
			f->met |= pass && collective;
		}
}

/*
 * A queue: what came last leaves last. So a flow that comes no more leaves with its part of the
 * queue; what is left of the port the others share as they come, and, if that is more than they
 * are, as they wait.
 */
static void queue_rates(struct net *n, struct port *p)
{
	double rate = p->paused ? 0 : port_rate(p), come = 0, waits = 0, left = rate, out = 0;

	for (int e = p->first; e != NET_NONE; e = hop_flow(n, e)->next[e % NET_HOPS]) {
		struct flow *f = hop_flow(n, e);
		int h = e % NET_HOPS;

		f->in[h] = f->out[h - 1];
		come += f->in[h];
		if (f->in[h] > 0) {
			waits += f->queue[h];
		} else {
			f->out[h] = f->queue[h] > 0 ? rate * f->queue[h] / p->queue : 0;
			left -= f->out[h];
		}
	}
	left = fmax(0, left);
	for (int e = p->first; e != NET_NONE; e = hop_flow(n, e)->next[e % NET_HOPS]) {
		struct flow *f = hop_flow(n, e);
		int h = e % NET_HOPS;

		if (f->in[h] > 0 && come > left * (1 + 1e-9))
			f->out[h] = left * f->in[h] / come;
		else if (f->in[h] > 0)
			f->out[h] = f->in[h] + (waits > 0.5 && left > come
							? (left - come) * f->queue[h] / waits
							: 0);
		out += f->out[h];
	}
	p->arrive = come;
	p->fill = come - out;
	if (p->node < n->switches && p->queue > 0)
		note_meetings(n, p);
}

static void fill_ahead(struct net *n)
{
	for (int i = 0; i < n->lives; i++) {
		struct flow *f = n->flow + n->live[i];

		for (int h = 1; h < f->hops; h++)
			n->port[f->path[h - 1]].ahead_fill += f->in[h] - f->out[h];
	}
}

void rates_compute(struct net *n)
{
	if (!n->order)
		order_ports(n);
	rates_tell(n);
	drop_idle(n);
	list_hops(n);
	/* With a circle there is no first port: what leaves one is known after some rounds. */
	for (int round = 0; round < (n->cyclic ? 8 : 1); round++) {
		for (int i = 0; i < n->ports; i++) {
			struct port *p = n->port + n->order[i];

			if (p->first == NET_NONE)
				continue;
			p->arrive = p->fill = 0;
			if (p->first % NET_HOPS)
				queue_rates(n, p);
			else
				send_rates(n, p);
		}
	}
	fill_ahead(n);
	for (int i = 0; i < n->lives; i++)
		n->flow[n->live[i]].rate = n->flow[n->live[i]].out[0];
	n->dirty = false;
}

/* The port that has least for each of the flows without a share; the first of those. */
static int tightest(struct net *n, const double *left, const int *wanting)
{
	int best = NET_NONE;
	double least = INFINITY;

	for (int i = 0; i < n->ports; i++) {
		int port = n->order[i];

		if (wanting[port] && left[port] / wanting[port] < least * (1 - 1e-9)) {
			best = port;
			least = left[port] / wanting[port];
		}
	}
	return best;
}

static void fix_share(struct net *n, struct flow *f, double *left, int *wanting, int port,
		      double share)
{
	f->share = share;
	f->by_switch = n->port[port].kind != PORT_NIC_TX && n->port[port].kind != PORT_INSIDE;
	for (int h = 0; h < f->hops; h++) {
		left[f->path[h]] = fmax(0, left[f->path[h]] - share);
		wanting[f->path[h]]--;
	}
}

void net_share(struct net *n)
{
	double *left = malloc((n->ports + 1) * sizeof(*left));
	int *wanting = calloc(n->ports + 1, sizeof(*wanting)), port;

	if (!left || !wanting)
		abort();
	if (!n->order)
		order_ports(n);
	for (int i = 0; i < n->ports; i++)
		left[i] = port_rate(n->port + i);
	for (int i = 0; i < n->lives; i++) {
		struct flow *f = n->flow + n->live[i];

		f->share = sends(f) ? -1 : 0;
		for (int h = 0; h < f->hops && sends(f); h++)
			wanting[f->path[h]]++;
	}
	while ((port = tightest(n, left, wanting)) != NET_NONE) {
		double share = left[port] / wanting[port];

		for (int i = 0; i < n->lives; i++) {
			struct flow *f = n->flow + n->live[i];

			for (int h = 0; h < f->hops && f->share < 0; h++)
				if (f->path[h] == port)
					fix_share(n, f, left, wanting, port, share);
		}
	}
	free(left);
	free(wanting);
}

static bool is_marked(const struct net *n, const struct flow *f)
{
	for (int h = 1; h < f->hops; h++)
		if (n->port[f->path[h]].queue > n->kmin)
			return true;
	return false;
}

/*
 * Down at once, up by halves of what is missing. Returns after how many cc_ns to look again.
 * As DCQCN, a flow goes on to more than its share until it is marked: at a port that flows share a
 * queue stands for as long as they do, as in the recorded simulations (some 70 packets).
 */
static double control_flow(struct net *n, struct flow *f)
{
	static const double probe = 1.05;
	double line = n->port[f->path[0]].line;
	double to = f->by_switch ? fmin(line, f->share * probe) : line;
	bool marked = is_marked(n, f);

	if (marked)
		to = fmin(to, f->share) * 0.9;
	if (to < f->limit && (marked || f->by_switch))
		f->limit = to;
	else if (to > f->limit)
		f->limit = to - f->limit < 0.02 * line ? to : (f->limit + to) / 2;
	if (f->limit != to || f->by_switch)
		return 1;
	return marked ? 8 : INFINITY;
}

void rates_control(struct net *n)
{
	double again = INFINITY;

	net_share(n);
	for (int i = 0; i < n->lives; i++) {
		struct flow *f = n->flow + n->live[i];

		if (f->controlled && sends(f))
			again = fmin(again, control_flow(n, f));
	}
	n->cc_at = isfinite(again) ? n->now + again * n->cc_ns : 0;
	n->dirty = true;
}
