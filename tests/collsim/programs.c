/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What ranks do: training as Pulse has it (a model like GPT with tensor, pipeline and data
 * parallelism, a mixture of experts, bare exchanges of messages), and the single collectives of
 * Vedrfolnir. Volumes and times are a hundredth of the real ones, so that an iteration is some
 * 20 ms; rates and slices are the real ones.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/collsim/scenario.h"

static const double MB = 1e6, MS = 1e6;

static int iterations(const struct collsim *s, int usual)
{
	return s->options.iterations ? s->options.iterations : usual;
}

/* One of the forms of gradient synchronization. */
static enum op_algorithm draw_algorithm(struct collsim *s)
{
	return rng_below(&s->rng, 4) ? ALGO_RING : ALGO_DOUBLE_TREE;
}

static int *world(const struct job *j)
{
	int *ranks = malloc(j->ranks * sizeof(*ranks));

	if (!ranks)
		abort();
	for (int i = 0; i < j->ranks; i++)
		ranks[i] = i;
	return ranks;
}

/* Communicators of a model: stage p of replica d is the host d * 2 + p; its GPUs share a layer. */
struct model {
	int tensor[JOB_RANKS], pipe[JOB_RANKS], data[JOB_RANKS]; /* of each rank */
	int replicas, stages, batches;
	double forward_ns, backward_ns, activation_bytes, gradient_bytes;
	enum op_algorithm algorithm;
	bool sharded; /* gradients are scattered and gathered, not reduced to all */
};

static int rank_at(const struct job *j, const struct model *m, int replica, int stage, int gpu)
{
	return (replica * m->stages + stage) * j->gpus + gpu;
}

static void model_comms(struct job *j, struct model *m)
{
	int ranks[JOB_RANKS];
	char name[32];

	for (int d = 0; d < m->replicas; d++)
		for (int g = 0; g < j->gpus; g++) {
			for (int p = 0; p < m->stages; p++)
				ranks[p] = rank_at(j, m, d, p, g);
			snprintf(name, sizeof(name), "pp-%d-%d", d, g);
			m->pipe[d * j->gpus + g] = job_comm(j, name, ranks, m->stages);
		}
	for (int p = 0; p < m->stages; p++)
		for (int g = 0; g < j->gpus; g++) {
			for (int d = 0; d < m->replicas; d++)
				ranks[d] = rank_at(j, m, d, p, g);
			snprintf(name, sizeof(name), "dp-%d-%d", p, g);
			m->data[p * j->gpus + g] = job_comm(j, name, ranks, m->replicas);
		}
	for (int h = 0; h < j->ranks / j->gpus; h++) {
		for (int g = 0; g < j->gpus; g++)
			ranks[g] = h * j->gpus + g;
		snprintf(name, sizeof(name), "tp-%d", h);
		m->tensor[h] = job_comm(j, name, ranks, j->gpus);
	}
}

/* A stage's part of one batch; then its GPUs put together what they have. */
static void model_pass(struct job *j, const struct model *m, int replica, int stage, double ns)
{
	int host = replica * m->stages + stage;

	for (int layer = 0; layer < 2; layer++) {
		for (int g = 0; g < j->gpus; g++)
			job_compute(j, host * j->gpus + g, ns / 2);
		if (j->gpus > 1)
			job_all_take_part(j, job_op(j, m->tensor[host], OP_ALLREDUCE, ALGO_RING,
						    m->activation_bytes, 0));
	}
}

/* Both ends of a message between stages; each is at its place in that stage's program. */
struct passing {
	int op[64][8][8]; /* batch, stage that sends, GPU */
};

static void pass_on(struct job *j, const struct model *m, struct passing *p, int replica, int batch,
		    int from, int to, int who)
{
	for (int g = 0; g < j->gpus; g++) {
		int *op = &p->op[batch][from][g];

		if (*op == NET_NONE) {
			*op = job_group(j, m->pipe[replica * j->gpus + g]);
			job_send(j, *op, from, to, m->activation_bytes);
		}
		job_takes_part(j, rank_at(j, m, replica, who, g), *op);
	}
}

static void forget_passing(struct passing *p)
{
	for (int b = 0; b < 64; b++)
		for (int s = 0; s < 8; s++)
			for (int g = 0; g < 8; g++)
				p->op[b][s][g] = NET_NONE;
}

/* Forward of batch b at a stage: takes from the stage before, gives to the next. */
static void forward(struct job *j, const struct model *m, struct passing *p, int d, int stage,
		    int b)
{
	if (stage)
		pass_on(j, m, p, d, b, stage - 1, stage, stage);
	model_pass(j, m, d, stage, m->forward_ns);
	if (stage + 1 < m->stages)
		pass_on(j, m, p, d, b, stage, stage + 1, stage);
}

static void backward(struct job *j, const struct model *m, struct passing *p, int d, int stage,
		     int b)
{
	if (stage + 1 < m->stages)
		pass_on(j, m, p, d, b, stage + 1, stage, stage);
	model_pass(j, m, d, stage, m->backward_ns);
	if (stage)
		pass_on(j, m, p, d, b, stage, stage - 1, stage);
}

/* All batches forward, then all backward, the last first: no two stages wait for each other. */
static void model_batches(struct job *j, const struct model *m, int replica)
{
	struct passing *there = malloc(2 * sizeof(*there)), *back = there + 1;

	if (!there)
		abort();
	forget_passing(there);
	forget_passing(back);
	for (int stage = 0; stage < m->stages; stage++) {
		for (int b = 0; b < m->batches; b++)
			forward(j, m, there, replica, stage, b);
		for (int b = m->batches - 1; b >= 0; b--)
			backward(j, m, back, replica, stage, b);
	}
	free(there);
}

static void model_gradients(struct job *j, const struct model *m)
{
	for (int i = 0; i < m->stages * j->gpus; i++) {
		double each = m->gradient_bytes / m->replicas;

		if (m->sharded) {
			job_all_take_part(
				j, job_op(j, m->data[i], OP_REDUCESCATTER, ALGO_RING, each, 0));
			job_all_take_part(j,
					  job_op(j, m->data[i], OP_ALLGATHER, ALGO_RING, each, 0));
		} else {
			job_all_take_part(j, job_op(j, m->data[i], OP_ALLREDUCE, m->algorithm,
						    m->gradient_bytes, 0));
		}
	}
}

void program_gpt(struct collsim *s)
{
	struct job *j = &s->job;
	struct model *m = calloc(1, sizeof(*m));
	int rounds = iterations(s, 5);

	if (!m)
		abort();
	*m = (struct model){.stages = 2,
			    .replicas = j->ranks / j->gpus / 2,
			    .batches = 2 + rng_below(&s->rng, 3),
			    .forward_ns = rng_between(&s->rng, 0.8, 1.5) * MS,
			    .activation_bytes = rng_between(&s->rng, 2, 4) * MB,
			    .gradient_bytes = rng_between(&s->rng, 24, 48) * MB,
			    .algorithm = draw_algorithm(s),
			    .sharded = rng_below(&s->rng, 2)};
	m->backward_ns = 2 * m->forward_ns;
	model_comms(j, m);
	for (int i = 0; i < rounds; i++) {
		for (int d = 0; d < m->replicas; d++)
			model_batches(j, m, d);
		model_gradients(j, m);
	}
	free(m);
}

/*
 * A mixture of experts: each layer sends tokens to the ranks of their experts, computes there, and
 * sends back. uneven: how much more or less each expert gets; hot: one that gets more times.
 */
static void moe_layer(struct job *j, int comm, const double *part, double bytes, double ns)
{
	int size = j->comm[comm].size, out = job_group(j, comm), back;

	for (int a = 0; a < size; a++)
		for (int b = 0; b < size; b++)
			if (a != b)
				job_send(j, out, a, b, bytes * part[b]);
	for (int r = 0; r < size; r++)
		job_compute(j, j->comm[comm].rank[r], ns / 2);
	job_all_take_part(j, out);
	for (int r = 0; r < size; r++)
		job_compute(j, j->comm[comm].rank[r], ns * part[r]);
	back = job_group(j, comm);
	for (int a = 0; a < size; a++)
		for (int b = 0; b < size; b++)
			if (a != b)
				job_send(j, back, b, a, bytes * part[b]);
	job_all_take_part(j, back);
}

static void moe(struct collsim *s, double uneven, double hot)
{
	struct job *j = &s->job;
	int *ranks = world(j), ep = job_comm(j, "ep", ranks, j->ranks);
	int dp = job_comm(j, "dp", ranks, j->ranks), rounds = iterations(s, 4), layers = 4;
	double bytes = rng_between(&s->rng, 3, 6) * MB, ns = rng_between(&s->rng, 0.8, 1.2) * MS;
	int expert = rng_below(&s->rng, j->ranks);

	for (int i = 0; i < rounds * layers; i++) {
		double part[JOB_RANKS];

		for (int r = 0; r < j->ranks; r++)
			part[r] = 1 + uneven * rng_between(&s->rng, -1, 1);
		if (hot > 1)
			part[expert] *= hot;
		moe_layer(j, ep, part, bytes, ns);
		if (i % layers == layers - 1)
			job_all_take_part(j, job_op(j, dp, OP_ALLREDUCE, ALGO_RING, 16 * MB, 0));
	}
	if (hot > 1) {
		s->truth.severity = hot;
		s->hot_rank = expert;
	}
	free(ranks);
}

void program_moe(struct collsim *s)
{
	moe(s, 0.05, 1);
}

void program_hot_expert(struct collsim *s)
{
	moe(s, 0.1, s->options.healthy ? 1 : rng_between(&s->rng, 1.8, 3));
}

/* Groups of messages without computation, each like the last. wanted: does a send to b? */
static void exchanges(struct collsim *s, bool (*wanted)(int a, int b, int size))
{
	struct job *j = &s->job;
	int *ranks = world(j), comm = job_comm(j, "p2p", ranks, j->ranks);
	int rounds = iterations(s, 12);
	double bytes = rng_between(&s->rng, 16, 32) * MB;

	for (int i = 0; i < rounds; i++) {
		int op = job_group(j, comm);

		for (int a = 0; a < j->ranks; a++)
			for (int b = 0; b < j->ranks; b++)
				if (a != b && wanted(a, b, j->ranks))
					job_send(j, op, a, b, bytes);
		job_all_take_part(j, op);
	}
	free(ranks);
}

/* Neighbours on a torus of two rows. */
static bool is_neighbor(int a, int b, int size)
{
	int columns = size / 2, d = abs(a % columns - b % columns);

	if (a / columns == b / columns)
		return d == 1 || d == columns - 1;
	return d == 0;
}

static bool is_to_root(int a, int b, int size)
{
	(void)a;
	(void)size;
	return b == 0;
}

static bool is_from_root(int a, int b, int size)
{
	(void)b;
	(void)size;
	return a == 0;
}

void program_neighbors(struct collsim *s)
{
	exchanges(s, is_neighbor);
}

void program_all_to_one(struct collsim *s)
{
	exchanges(s, is_to_root);
}

void program_one_to_all(struct collsim *s)
{
	exchanges(s, is_from_root);
}

/* Computation and a collective of any kind, again and again. */
void program_data_parallel(struct collsim *s)
{
	static const enum op_kind kinds[] = {OP_ALLREDUCE,     OP_ALLREDUCE, OP_ALLGATHER,
					     OP_REDUCESCATTER, OP_ALLTOALL,  OP_BROADCAST};
	static const enum op_algorithm algorithms[] = {ALGO_RING, ALGO_TREE, ALGO_DOUBLE_TREE,
						       ALGO_HALVING};
	struct job *j = &s->job;
	int *ranks = world(j), comm = job_comm(j, "world", ranks, j->ranks);
	int rounds = iterations(s, 8);
	enum op_kind kind = kinds[rng_below(&s->rng, 6)];
	enum op_algorithm algorithm = algorithms[rng_below(&s->rng, 4)];
	double bytes = rng_between(&s->rng, 16, 48) * MB, ns = rng_between(&s->rng, 1, 3) * MS;

	if (kind == OP_ALLGATHER || kind == OP_REDUCESCATTER)
		bytes /= j->ranks;
	for (int i = 0; i < rounds; i++) {
		for (int r = 0; r < j->ranks; r++)
			job_compute(j, r, ns);
		job_all_take_part(j, job_op(j, comm, kind, algorithm, bytes, 0));
	}
	free(ranks);
}

static void step_by_step(struct collsim *s)
{
	s->step_by_step = true;
	s->job.slice_bytes = INFINITY;
	s->job.channels = 1;
}

/* 360 MB a step, as Vedrfolnir's evaluation has it. */
void program_gather_ring(struct collsim *s)
{
	struct job *j = &s->job;
	int *ranks = world(j), comm;

	step_by_step(s);
	comm = job_comm(j, "world", ranks, j->ranks);
	for (int i = 0; i < iterations(s, 1); i++)
		job_all_take_part(j, job_op(j, comm, OP_ALLGATHER, ALGO_RING, 360 * MB, 0));
	free(ranks);
}

void program_halving(struct collsim *s)
{
	struct job *j = &s->job;
	int *ranks = world(j), comm;

	step_by_step(s);
	comm = job_comm(j, "world", ranks, j->ranks);
	for (int i = 0; i < iterations(s, 1); i++)
		job_all_take_part(j, job_op(j, comm, OP_ALLREDUCE, ALGO_HALVING, 720 * MB, 0));
	free(ranks);
}
