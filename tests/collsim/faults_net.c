/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What goes wrong in the network: the cases of Vedrfolnir, with its parameters. */
#include <math.h>
#include <stdlib.h>

#include "tests/collsim/scenario.h"

static const double MB = 1e6, MS = 1e6;

static struct flow *flow_of(struct collsim *s, int conn)
{
	return s->job.topology.net.flow + s->job.conn[conn].flow;
}

static bool is_switch_port(const struct net *n, int port)
{
	return n->port[port].node < n->switches;
}

/* Do they come from two sides to a port of a switch? Of those from one side the sender, or a switch
 * before, has made room already. */
static bool collide(const struct net *n, const struct flow *a, const struct flow *b)
{
	for (int h = 1; h < a->hops; h++)
		for (int i = 1; i < b->hops; i++)
			if (a->path[h] == b->path[i] && a->path[h - 1] != b->path[i - 1] &&
			    is_switch_port(n, a->path[h]))
				return true;
	return false;
}

/* A port of a switch on the way of a connection; kind: of no other kind than this, unless
 * PORT_KINDS. NET_NONE: it has none. */
static int draw_port(struct collsim *s, int conn, enum port_kind kind)
{
	const struct flow *f = flow_of(s, conn);
	const struct net *n = &s->job.topology.net;
	int found[NET_HOPS], n_found = 0;

	for (int h = 0; h < f->hops; h++) {
		const struct port *p = n->port + f->path[h];

		if (is_switch_port(n, f->path[h]) && (kind == PORT_KINDS || p->kind == kind))
			found[n_found++] = f->path[h];
	}
	return n_found ? found[rng_below(&s->rng, n_found)] : NET_NONE;
}

void fault_slow_link(struct collsim *s)
{
	double t = scenario_moment(s), factor = rng_between(&s->rng, 0.2, 0.5);
	int port = NET_NONE;

	while (port == NET_NONE)
		port = draw_port(s, rng_below(&s->rng, s->job.conns), PORT_UP);
	s->truth.severity = factor;
	truth_is(s, "slow-link", "slow", "communication", "link", t);
	truth_blame_port(s, port);
	fault_add(s, FAULT_PORT_RATE, t, port, factor, 0);
}

/* A flow between any two NICs that meets one of the collective's. */
static int colliding_flow(struct collsim *s, double t, double bytes)
{
	struct job *j = &s->job;
	int nics = j->topology.nics, path[NET_HOPS];

	for (;;) {
		const struct flow *with = flow_of(s, rng_below(&s->rng, j->conns));
		int a = rng_below(&s->rng, nics), b = rng_below(&s->rng, nics);
		uint64_t choice = rng_next(&s->rng);
		struct flow f = {0};

		if (j->topology.nic[a].node == j->topology.nic[b].node)
			continue;
		f.hops = topology_path(&j->topology, a, b, choice, path);
		for (int h = 0; h < f.hops; h++)
			f.path[h] = path[h];
		if (collide(&j->topology.net, &f, with))
			return job_background(j, a, b, t, bytes, choice);
	}
}

void fault_contention(struct collsim *s)
{
	int flows = 1 + rng_below(&s->rng, 6);
	double first = INFINITY;

	for (int i = 0; i < flows; i++) {
		double t = rng_between(&s->rng, 0, 0.95 * s->healthy_ns);
		int b = colliding_flow(s, t, rng_between(&s->rng, 20, 1000) * MB);

		first = fmin(first, t);
		truth_blame_flow(s, s->job.background[b].flow);
	}
	truth_is(s, "contention", "slow", "communication", "flow", first);
}

/* flows from other NICs to one, at the same time. allowed: NICs that may send; NULL: all. */
static void many_to_one(struct collsim *s, int to, int flows, double t, bool controlled, int parity)
{
	struct job *j = &s->job;

	for (int i = 0; i < flows; i++) {
		int from, b;

		do {
			from = rng_below(&s->rng, j->topology.nics);
		} while (from == to || (parity >= 0 && from % 2 != parity));
		b = job_background(j, from, to, t, rng_between(&s->rng, 20, 200) * MB,
				   rng_next(&s->rng));
		j->topology.net.flow[j->background[b].flow].controlled = controlled;
		truth_blame_flow(s, j->background[b].flow);
	}
}

void fault_incast(struct collsim *s)
{
	int rank = rng_below(&s->rng, s->job.ranks);
	double t = rng_between(&s->rng, 0, 0.8 * s->healthy_ns);

	truth_is(s, "incast", "slow", "communication", "flow", t);
	many_to_one(s, s->job.rank[rank].nic, 3 + rng_below(&s->rng, 6), t, true, -1);
}

void fault_storm(struct collsim *s)
{
	double t = rng_between(&s->rng, 0, fmin(150 * MS, 0.75 * s->healthy_ns));
	double ns = rng_between(&s->rng, 10, 100) * MS;
	int port = draw_port(s, rng_below(&s->rng, s->job.conns), PORT_KINDS);

	s->truth.severity = ns;
	truth_is(s, "storm", "slow", "communication", "port", t);
	truth_blame_port(s, port);
	fault_add(s, FAULT_STORM, t, port, 0, t + ns);
}

/* Does one of the flows that were added go through the port? */
static bool some_pass(const struct job *j, int port)
{
	for (int i = 0; i < j->backgrounds; i++) {
		const struct flow *f = j->topology.net.flow + j->background[i].flow;

		for (int h = 0; h < f->hops; h++)
			if (f->path[h] == port)
				return true;
	}
	return false;
}

/* The last port to which the flows of others come from two sides: before it there is too much, and
 * behind it no more than a link carries. */
static int source_port(const struct job *j)
{
	const struct flow *first = j->topology.net.flow + j->background[0].flow;
	int back = 2; /* from the end of a path; the last is the receiving side of the NIC */

	for (bool same = true; same && first->hops - back > 1; back += same) {
		int before = first->path[first->hops - back - 1];

		for (int i = 1; i < j->backgrounds; i++) {
			const struct flow *f = j->topology.net.flow + j->background[i].flow;

			same &= f->hops > back && f->path[f->hops - back - 1] == before;
		}
	}
	return first->path[first->hops - back];
}

/*
 * Too much for a NIC beside one of ours, at the same switch. What its port cannot send waits in
 * that switch, which pauses the switches above it; one of these sends to us too.
 */
void fault_backpressure(struct collsim *s)
{
	struct job *j = &s->job;
	int conn = rng_below(&s->rng, j->conns), dst = j->rank[j->conn[conn].dst].nic;
	int beside = dst ^ 1, flows = 3 + rng_below(&s->rng, 5);
	const struct flow *cf = flow_of(s, conn);
	int above = cf->path[cf->hops - 3];
	double t = rng_between(&s->rng, 0, 0.8 * s->healthy_ns);

	truth_is(s, "backpressure", "slow", "communication", "port", t);
	many_to_one(s, beside, flows, t, false, 1);
	while (!some_pass(j, above) && s->truth.culprits < 40)
		many_to_one(s, beside, 1, t, false, 1);
	truth_blame_port(s, source_port(j));
}

/* Ports of switches above the first that carry more than one of the collective's flows. */
void fault_imbalance(struct collsim *s)
{
	const struct net *n = &s->job.topology.net;
	int most = 0, *flows = calloc(n->ports, sizeof(*flows));

	if (!flows)
		abort();
	for (int i = 0; i < s->job.conns; i++)
		for (int h = 0; h < flow_of(s, i)->hops; h++)
			if (n->port[flow_of(s, i)->path[h]].kind == PORT_UP)
				flows[flow_of(s, i)->path[h]]++;
	for (int i = 0; i < n->ports; i++)
		most = flows[i] > most ? flows[i] : most;
	s->truth.severity = most;
	truth_is(s, "imbalance", "slow", "communication", "port", 0);
	for (int i = 0; i < n->ports; i++)
		if (most > 1 && flows[i] == most)
			truth_blame_port(s, i);
	free(flows);
}

void fault_loop(struct collsim *s)
{
	int conn = rng_below(&s->rng, s->job.conns);
	double t = scenario_moment(s);
	const struct flow *f;

	while (flow_of(s, conn)->hops < 5)
		conn = rng_below(&s->rng, s->job.conns);
	f = flow_of(s, conn);
	truth_is(s, "loop", "stopped", "communication", "link", t);
	truth_blame_port(s, f->path[1]);
	truth_blame_port(s, s->job.topology.net.port[f->path[1]].back);
	truth_blame_flow(s, s->job.conn[conn].flow);
	fault_add(s, FAULT_LOOP, t, conn, 0, 0);
}

/* A flow over four ports of a circle, from one NIC of a switch to the other. */
static void circling_flow(struct collsim *s, const int *port, int first, int nic, double t)
{
	struct job *j = &s->job;
	int b = job_background(j, nic, nic ^ 1, t, 1e12, 0), path[NET_HOPS];
	struct flow *f = j->topology.net.flow + j->background[b].flow;

	path[0] = j->topology.nic[nic].tx;
	for (int i = 0; i < 4; i++)
		path[1 + i] = port[(first + i) % 4];
	path[5] = j->topology.nic[nic ^ 1].down;
	path[6] = j->topology.nic[nic ^ 1].rx;
	net_reroute(&j->topology.net, j->background[b].flow, path, 7, false);
	f->controlled = false;
}

/* Within a pod, after a change of routes: up, down, up, down, and each waits for the next. */
void fault_deadlock(struct collsim *s)
{
	struct job *j = &s->job;
	const struct net *n = &j->topology.net;
	int conn, port[4], other;
	double t = scenario_moment(s);
	const struct flow *f;

	do {
		conn = rng_below(&s->rng, j->conns);
		f = flow_of(s, conn);
	} while (f->hops != 5);
	port[0] = f->path[1];
	port[1] = f->path[2];
	other = n->port[port[0]].peer ^ 1;
	port[2] = net_port_to(n, n->port[port[1]].peer, other);
	port[3] = net_port_to(n, other, n->port[port[0]].node);
	truth_is(s, "deadlock", "stopped", "communication", "port", t);
	for (int i = 0; i < 4; i++) {
		truth_blame_port(s, port[i]);
		fault_add(s, FAULT_DEADLOCK, t, port[i], 0, INFINITY);
	}
	circling_flow(s, port, 0, j->rank[j->conn[conn].src].nic ^ 1, t - 1 * MS);
	circling_flow(s, port, 2, j->rank[j->conn[conn].dst].nic ^ 1, t - 1 * MS);
}
