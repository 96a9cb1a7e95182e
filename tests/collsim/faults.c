/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What goes wrong in hosts: the cases of Pulse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/scenario.h"

void fault_add(struct collsim *s, enum fault_kind kind, double t, int target, double factor,
	       double until)
{
	if (s->faults == SCENARIO_FAULTS)
		abort();
	s->fault[s->faults] = (struct fault){kind, t, until, target, factor};
	job_at(&s->job, t, EVENT_FAULT, s->faults++, 0, 0);
}

static void kill_nic(struct job *j, int nic)
{
	const struct topology *t = &j->topology;

	for (int i = 0; i < t->net.flows; i++) {
		const struct flow *f = t->net.flow + i;

		if (f->path[0] == t->nic[nic].tx || f->path[f->hops - 1] == t->nic[nic].rx)
			net_kill(&j->topology.net, i);
	}
}

static void slow_cpu(struct job *j, int host, double factor)
{
	for (int i = 0; i < j->ranks; i++)
		if (j->rank[i].host == host)
			j->rank[i].proxy_ns *= factor;
}

/* Memory of the other socket: now faster, now slower. */
static void unsteady(struct collsim *s, int which, const struct fault *f)
{
	struct job *j = &s->job;
	double low = f->factor / 2, high = fmin(1, f->factor * 1.5);

	net_degrade(&j->topology.net, f->target, rng_between(&j->rng, low, high));
	job_at(j, j->topology.net.now + rng_between(&j->rng, 50e3, 250e3), EVENT_FAULT, which, 0,
	       0);
}

/* There and back between the first two switches, until the packets are too old. */
static void loop(struct job *j, int conn)
{
	struct net *n = &j->topology.net;
	int flow = j->conn[conn].flow, path[NET_HOPS] = {n->flow[flow].path[0]};

	for (int h = 1; h < 8; h++)
		path[h] = h % 2 ? n->flow[flow].path[1] : n->port[n->flow[flow].path[1]].back;
	net_reroute(n, flow, path, 8, true);
}

void fault_happens(struct job *j, int which, int part, int unused)
{
	struct collsim *s = j->arg;
	const struct fault *f = s->fault + which;

	(void)part;
	(void)unused;
	switch (f->kind) {
	case FAULT_PORT_RATE: net_degrade(&j->topology.net, f->target, f->factor); break;
	case FAULT_UNSTEADY: unsteady(s, which, f); break;
	case FAULT_NIC_DEAD: kill_nic(j, f->target); break;
	case FAULT_SLOW_CPU: slow_cpu(j, f->target, f->factor); break;
	case FAULT_PROCESS_GONE: job_kill_rank(j, f->target); break;
	case FAULT_STORM:
	case FAULT_DEADLOCK: net_storm(&j->topology.net, f->target, f->until); break;
	case FAULT_LOOP: loop(j, f->target); break;
	}
}

void truth_is(struct collsim *s, const char *kind, const char *class, const char *component,
	      const char *level, double onset)
{
	struct collsim_truth *t = &s->truth;

	snprintf(t->kind, sizeof(t->kind), "%s", kind);
	t->class = class;
	t->component = component;
	t->level = level;
	t->onset_ns = t->zero_ns + llround(onset);
}

struct collsim_culprit *truth_blame(struct collsim *s)
{
	struct collsim_culprit *c;

	if (s->truth.culprits == COLLSIM_CULPRITS)
		return NULL;
	c = s->truth.culprit + s->truth.culprits++;
	*c = (struct collsim_culprit){.rank = REC_NONE,
				      .nic = REC_NONE,
				      .node = REC_NONE,
				      .port = REC_NONE,
				      .by_node = REC_NONE,
				      .by_port = REC_NONE};
	return c;
}

void truth_blame_rank(struct collsim *s, int rank)
{
	struct collsim_culprit *c = truth_blame(s);

	if (!c)
		return;
	c->rank = rank;
	c->nic = s->job.rank[rank].nic % s->job.topology.nics_each;
	snprintf(c->host, sizeof(c->host), "node%d", s->job.rank[rank].host);
}

void flow_name(const struct flow *f, char *to, size_t bytes)
{
	snprintf(to, bytes, "11.%d.%d.1:%d>11.%d.%d.1:%d", f->src / 256, f->src % 256, f->sport,
		 f->dst / 256, f->dst % 256, f->dport);
}

void truth_blame_flow(struct collsim *s, int flow)
{
	struct collsim_culprit *c = truth_blame(s);

	if (c)
		flow_name(s->job.topology.net.flow + flow, c->flow, sizeof(c->flow));
}

void truth_blame_port(struct collsim *s, int port)
{
	const struct port *p = s->job.topology.net.port + port;
	struct collsim_culprit *c = truth_blame(s);

	if (!c)
		return;
	c->node = p->node;
	c->port = p->number;
	c->by_node = p->peer;
	c->by_port = s->job.topology.net.port[p->back].number;
}

double scenario_moment(struct collsim *s)
{
	return s->healthy_ns * rng_between(&s->rng, 0.3, 0.6);
}

static int draw_rank(struct collsim *s)
{
	return rng_below(&s->rng, s->job.ranks);
}

void fault_none(struct collsim *s)
{
	(void)s;
}

/* As many flows of others as take that part of the NIC's rate from two of ours. */
void fault_congestion(struct collsim *s)
{
	struct job *j = &s->job;
	int rank = draw_rank(s), flows = 2 << rng_below(&s->rng, 3);
	double t = scenario_moment(s);

	if (s->scenario->program == program_one_to_all)
		rank = 0;
	s->truth.severity = 2.0 / (2 + flows);
	truth_is(s, "congestion", "slow", "communication", "machine", t);
	truth_blame_rank(s, rank);
	for (int i = 0; i < flows; i++) {
		int b = job_background(j, j->rank[rank].nic, j->topology.nics - 1 - i % j->gpus, t,
				       1e15, 0);

		truth_blame_flow(s, j->background[b].flow);
	}
}

void fault_cpu(struct collsim *s)
{
	int rank = draw_rank(s);
	double t = scenario_moment(s), factor = rng_between(&s->rng, 80, 250);

	s->truth.severity = factor;
	/* The paper's own result is the group: all of its members have the same gaps. */
	truth_is(s, "cpu", "slow", "computation", "group", t);
	fault_add(s, FAULT_SLOW_CPU, t, s->job.rank[rank].host, factor, 0);
	for (int i = 0; i < s->job.ranks; i++)
		if (s->job.rank[i].host == s->job.rank[rank].host)
			truth_blame_rank(s, i);
}

void fault_nic_down(struct collsim *s)
{
	int rank = draw_rank(s);
	double t = scenario_moment(s);

	truth_is(s, "nic-down", "stopped", "communication", "machine", t);
	truth_blame_rank(s, rank);
	s->dead_nic[rank] = true;
	fault_add(s, FAULT_NIC_DEAD, t, s->job.rank[rank].nic, 0, 0);
}

void fault_hot_expert(struct collsim *s)
{
	truth_is(s, "hot-expert", "slow", "computation", "machine", 0);
	truth_blame_rank(s, s->hot_rank);
}

static double draw_rate(struct collsim *s)
{
	static const double rates[] = {0.6, 0.5, 0.4, 0.3, 0.2};

	return rates[rng_below(&s->rng, 5)];
}

static void slow_nic(struct collsim *s, double factor, bool both)
{
	const struct nic *nic;
	int rank = draw_rank(s);
	double t = scenario_moment(s);

	/* Of all to one the root sends nothing: a sender is slow, below its share of the root. */
	if (s->scenario->program == program_all_to_one) {
		rank = rank ? rank : 1;
		factor /= s->job.ranks - 1;
	}
	nic = s->job.topology.nic + s->job.rank[rank].nic;
	s->truth.severity = factor;
	truth_is(s, "slow-nic", "slow", "communication", "machine", t);
	truth_blame_rank(s, rank);
	fault_add(s, FAULT_PORT_RATE, t, nic->tx, factor, 0);
	if (both)
		fault_add(s, FAULT_PORT_RATE, t, nic->rx, factor, 0);
}

void fault_slow_nic(struct collsim *s)
{
	slow_nic(s, draw_rate(s), false);
}

void fault_slow_nic_both(struct collsim *s)
{
	slow_nic(s, draw_rate(s), true);
}

void fault_slow_gpu(struct collsim *s)
{
	int rank = draw_rank(s);
	double t = scenario_moment(s);

	s->truth.severity = rng_between(&s->rng, 1.4, 3);
	truth_is(s, "slow-gpu", "slow", "computation", "machine", t);
	truth_blame_rank(s, rank);
	s->job.rank[rank].slow = s->truth.severity;
	s->job.rank[rank].slow_at = t;
}

void fault_stopped(struct collsim *s)
{
	int rank = draw_rank(s);
	double t = scenario_moment(s);

	truth_is(s, "stopped", "stopped", "computation", "machine", t);
	truth_blame_rank(s, rank);
	s->job.rank[rank].stop_at = t;
}

void fault_gone(struct collsim *s)
{
	int rank = draw_rank(s);
	double t = scenario_moment(s);

	truth_is(s, "gone", "stopped", "computation", "machine", t);
	truth_blame_rank(s, rank);
	fault_add(s, FAULT_PROCESS_GONE, t, rank, 0, 0);
}

/* From the first moment: it is how the job was set up. */
void fault_numa(struct collsim *s)
{
	int rank = draw_rank(s), host = s->job.rank[rank].host;

	s->truth.severity = rng_between(&s->rng, 0.4, 0.6);
	truth_is(s, "cross-numa", "slow", "communication", "machine", 0);
	for (int i = 0; i < s->job.ranks; i++) {
		if (s->job.rank[i].host != host)
			continue;
		truth_blame_rank(s, i);
		fault_add(s, FAULT_UNSTEADY, 0, s->job.topology.nic[s->job.rank[i].nic].tx,
			  s->truth.severity, 0);
	}
}

void fault_alignment(struct collsim *s)
{
	int rank = draw_rank(s);

	s->truth.severity = rng_between(&s->rng, 0.4, 0.65);
	truth_is(s, "alignment", "slow", "communication", "machine", 0);
	truth_blame_rank(s, rank);
	fault_add(s, FAULT_PORT_RATE, 0, s->job.topology.nic[s->job.rank[rank].nic].tx,
		  s->truth.severity, 0);
}
