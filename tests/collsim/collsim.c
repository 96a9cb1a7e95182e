/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A case from its seed: built, run without the fault to know how long that takes, and with it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/scenario.h"

/* 400 Gb/s for Pulse's hosts, 100 for Vedrfolnir's: bytes/ns. */
static const double STAR_RATE = 50, NET_RATE = 12.5;

/* When the simulated jobs begin: 2026-11-28. */
static const uint64_t ZERO_NS = 1795855608000000000u;

const char *collsim_case_name(int i)
{
	return scenarios[i].name;
}

const char *collsim_case_text(int i)
{
	return scenarios[i].text;
}

static const struct scenario *find(const struct collsim_options *o)
{
	int n = 0, i = 0;

	while (scenarios[n].name)
		n++;
	if (!o->name)
		return scenarios + rng_mix(o->seed, 77) % n;
	while (i < n && strcmp(scenarios[i].name, o->name) != 0)
		i++;
	return i < n ? scenarios + i : NULL;
}

static bool can_have(const struct scenario *what, int ranks)
{
	return ranks >= what->least && ranks % what->multiple == 0 && ranks <= 64 &&
	       (what->topology != TOPOLOGY_FAT_TREE || ranks == 8);
}

/*
 * Where ranks are. At a fat tree one a switch, the other host is idle; at leaves those that follow
 * one another are at different ones, so that a ring crosses the spines.
 */
static void place(struct collsim *s)
{
	struct job *j = &s->job;
	int hosts = j->ranks / j->gpus;

	for (int i = 0; i < j->ranks; i++) {
		int host = i / j->gpus;

		if (s->scenario->topology == TOPOLOGY_FAT_TREE)
			host *= 2;
		else if (s->scenario->topology == TOPOLOGY_LEAVES)
			host = host % (hosts / 4) * 4 + host / (hosts / 4);
		j->rank[i].host = host;
		j->rank[i].nic = host * j->gpus + i % j->gpus;
	}
}

/* Connections of others that go through ports of this path between switches. */
static int meets(const struct job *j, const int *path, int hops, int src)
{
	int met = 0;

	for (int i = 0; i < j->conns; i++) {
		const struct flow *f = j->topology.net.flow + j->conn[i].flow;

		if (j->conn[i].src == src)
			continue;
		for (int h = 1; h + 2 < f->hops; h++)
			for (int k = 1; k + 2 < hops; k++)
				met += f->path[h] == path[k];
	}
	return met;
}

/* What a good operator does: flows of a job go over paths of their own. Where that is the fault,
 * over the same. */
static uint64_t choose_path(struct job *j, int src, int dst)
{
	const struct collsim *s = j->arg;
	bool same = s->scenario->fault == fault_imbalance && !s->options.healthy;
	int path[NET_HOPS], most = -1, tries = s->scenario->topology == TOPOLOGY_STAR ? 1 : 32;
	uint64_t best = 0;

	for (int i = 0; i < tries; i++) {
		uint64_t choice = rng_next(&j->rng);
		int hops = topology_path(&j->topology, j->rank[src].nic, j->rank[dst].nic, choice,
					 path);
		int met = meets(j, path, hops, src), good = same ? met : 1000000 - met;

		if (good > most) {
			most = good;
			best = choice;
		}
	}
	return best;
}

static void build(struct collsim *s, bool telemetry)
{
	const struct scenario *what = s->scenario;
	const struct collsim_options *o = &s->options;
	int ranks = o->ranks ? o->ranks : what->ranks, hosts = ranks / what->gpus;
	bool star = what->topology == TOPOLOGY_STAR;
	struct job *j = &s->job;

	job_init(j, o->seed, ranks, what->gpus);
	j->arg = s;
	j->fault = fault_happens;
	j->epoch_ns = o->no_epochs ? 0 : o->epoch_ns ? (double)o->epoch_ns : 32000;
	j->epoch_zero = -10e6;
	/* One host more, which is idle, for others' flows. */
	topology_build(&j->topology, what->topology, hosts + star, what->gpus,
		       star ? STAR_RATE : NET_RATE, telemetry);
	if (telemetry) {
		j->poll = telemetry_poll;
		j->step_over = telemetry_step_over;
	}
	place(s);
	what->program(s);
	job_connect(j, choose_path);
}

static struct collsim *make(const struct collsim_options *o, const struct scenario *what)
{
	struct collsim *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->options = *o;
	if (s->options.clock_ns == REC_NONE)
		s->options.clock_ns = 50000;
	s->scenario = what;
	s->rng.state = rng_mix(o->seed, 2);
	s->hold_ns = o->hold_ns ? (double)o->hold_ns : 30e9;
	s->truth = (struct collsim_truth){
		.class = "fine", .component = "none", .level = "none", .zero_ns = ZERO_NS};
	snprintf(s->truth.name, sizeof(s->truth.name), "%s", what->name);
	snprintf(s->truth.kind, sizeof(s->truth.kind), "none");
	return s;
}

static double healthy_ns(const struct collsim_options *o, const struct scenario *what)
{
	struct collsim_options healthy = *o;
	struct collsim *s;
	double ns;

	healthy.healthy = healthy.no_epochs = true;
	s = make(&healthy, what);
	build(s, false);
	job_run(&s->job);
	ns = s->job.ended;
	collsim_free(s);
	return ns;
}

/* A flow that was to collide, and came when none of the collective's was there, did no harm. */
static void forget_harmless(struct collsim *s)
{
	const struct job *j = &s->job;
	struct collsim_truth *t = &s->truth;
	int kept = 0;

	for (int i = 0; i < t->culprits; i++) {
		const struct flow *f = NULL;

		for (int k = 0; k < j->backgrounds && !f; k++) {
			char name[COLLSIM_TEXT_BYTES];

			f = j->topology.net.flow + j->background[k].flow;
			flow_name(f, name, sizeof(name));
			if (strcmp(name, t->culprit[i].flow) != 0)
				f = NULL;
		}
		if (!f || f->met)
			t->culprit[kept++] = t->culprit[i];
	}
	t->culprits = kept;
}

struct collsim *collsim_run(const struct collsim_options *o)
{
	const struct scenario *what = find(o);
	struct collsim *s;

	if (!what || (o->ranks && !can_have(what, o->ranks)))
		return NULL;
	s = make(o, what);
	if (!o->healthy)
		s->healthy_ns = healthy_ns(o, what);
	build(s, what->telemetry && !o->no_telemetry);
	s->retry_ns = rng_between(&s->rng, 2, 12) * 1e9;
	if (!o->healthy)
		what->fault(s);
	job_run(&s->job);
	if (s->scenario->fault == fault_contention)
		forget_harmless(s);
	s->truth.took_ns = s->job.all_finished ? llround(s->job.ended) : 0;
	s->truth.healthy_ns = o->healthy ? s->truth.took_ns : (uint64_t)llround(s->healthy_ns);
	return s;
}

void collsim_free(struct collsim *s)
{
	if (!s)
		return;
	for (int i = 0; s->telemetry && i < s->job.topology.net.switches; i++)
		free(s->telemetry[i]);
	free(s->telemetry);
	free(s->telemetry_bytes);
	job_free(&s->job);
	free(s);
}

const struct collsim_truth *collsim_truth(const struct collsim *s)
{
	return &s->truth;
}
