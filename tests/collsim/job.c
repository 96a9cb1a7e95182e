/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a job is made of. How it runs is in job_run.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/job.h"
#include "tests/collsim/net_rates.h"

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

void job_init(struct job *j, uint64_t seed, int ranks, int gpus)
{
	*j = (struct job){.rng = {rng_mix(seed, 1)},
			  .ranks = ranks,
			  .gpus = gpus,
			  .slice_bytes = 1 << 20,
			  .channels = 2,
			  .credits = 4,
			  .jitter = 0.01,
			  .launch_ns = 5000,
			  .proxy_ns = 1000,
			  .take_ns = 2000,
			  .epoch_ns = 32000,
			  .stalled_ns = 300e6,
			  .limit_ns = 60e9};
	j->rank = need(calloc(ranks, sizeof(*j->rank)));
	for (int i = 0; i < ranks; i++)
		j->rank[i] = (struct rank){.host = i / gpus,
					   .nic = i,
					   .slow = 1,
					   .slow_at = INFINITY,
					   .stop_at = INFINITY,
					   .died = INFINITY,
					   .proxy_ns = j->proxy_ns};
}

static void free_conn(struct conn *c)
{
	free(c->message);
	free(c->todo);
	free(c->epoch_bytes);
	free(c->epoch_wr);
	free(c->epoch_wc);
}

void job_free(struct job *j)
{
	for (int i = 0; i < j->ranks; i++) {
		free(j->rank[i].todo);
		free(j->rank[i].conn);
	}
	for (int i = 0; i < j->comms; i++)
		free(j->comm[i].rank);
	for (int i = 0; i < j->ops; i++) {
		free(j->op[i].xfer);
		free(j->op[i].at);
	}
	for (int i = 0; i < j->conns; i++)
		free_conn(j->conn + i);
	free(j->rank);
	free(j->comm);
	free(j->op);
	free(j->conn);
	free(j->conn_of_flow);
	free(j->background);
	free(j->event);
	topology_free(&j->topology);
}

int job_comm(struct job *j, const char *name, const int *ranks, int size)
{
	struct comm *c;

	j->comm = net_grow(j->comm, j->comms, sizeof(*j->comm));
	c = j->comm + j->comms;
	*c = (struct comm){
		.size = size, .rank = need(malloc(size * sizeof(*ranks))), .quiet = true};
	snprintf(c->name, sizeof(c->name), "%s", name);
	memcpy(c->rank, ranks, size * sizeof(*ranks));
	for (int i = 1; i < size; i++)
		if (j->rank[ranks[i]].host != j->rank[ranks[0]].host)
			c->quiet = false;
	return j->comms++;
}

int job_member(const struct comm *c, int rank)
{
	for (int i = 0; i < c->size; i++)
		if (c->rank[i] == rank)
			return i;
	return NET_NONE;
}

static struct op *add_op(struct job *j, int comm)
{
	int size = j->comm[comm].size;
	struct op *op;

	j->op = net_grow(j->op, j->ops, sizeof(*j->op));
	op = j->op + j->ops++;
	*op = (struct op){.comm = comm, .at = need(calloc(size, sizeof(*op->at)))};
	for (int i = 0; i < size; i++)
		op->at[i] = (struct op_end){.launch = -1, .first_wr = -1, .end = -1};
	return op;
}

/* In how many work requests it is sent; and who has to see it through. */
static void measure_xfer(struct job *j, struct op *op, struct xfer *x)
{
	x->slices = isfinite(j->slice_bytes) ? (int)ceil(x->bytes / j->slice_bytes) : 1;
	if (x->slices < 1)
		x->slices = 1;
	op->at[x->src].left++;
	op->at[x->dst].left++;
}

int job_op(struct job *j, int comm, enum op_kind kind, enum op_algorithm algorithm, double bytes,
	   int root)
{
	struct op *op = add_op(j, comm);

	op->kind = kind;
	op->algorithm = algorithm;
	op->bytes = bytes;
	op->root = root;
	op->seq = ++j->comm[comm].seqs;
	job_plan(j, op);
	for (int i = 0; i < op->xfers; i++)
		measure_xfer(j, op, op->xfer + i);
	return j->ops - 1;
}

int job_group(struct job *j, int comm)
{
	struct op *op = add_op(j, comm);

	op->kind = OP_P2P;
	op->algorithm = ALGO_MESH;
	op->group = ++j->comm[comm].groups;
	return j->ops - 1;
}

void job_send(struct job *j, int op, int src, int dst, double bytes)
{
	struct op *o = j->op + op;

	o->xfer = net_grow(o->xfer, o->xfers, sizeof(*o->xfer));
	o->xfer[o->xfers] = (struct xfer){.src = src, .dst = dst, .bytes = bytes, .step = 1};
	measure_xfer(j, o, o->xfer + o->xfers++);
}

static void add_instruction(struct job *j, int rank, struct instruction what)
{
	struct rank *r = j->rank + rank;

	r->todo = net_grow(r->todo, r->todos, sizeof(*r->todo));
	r->todo[r->todos++] = what;
}

void job_compute(struct job *j, int rank, double ns)
{
	add_instruction(j, rank, (struct instruction){.op = NET_NONE, .ns = ns});
}

void job_takes_part(struct job *j, int rank, int op)
{
	add_instruction(j, rank, (struct instruction){.op = op});
}

void job_all_take_part(struct job *j, int op)
{
	const struct comm *c = j->comm + j->op[op].comm;

	for (int i = 0; i < c->size; i++)
		job_takes_part(j, c->rank[i], op);
}

int job_background(struct job *j, int src_nic, int dst_nic, double start, double bytes,
		   uint64_t choice)
{
	const struct topology *t = &j->topology;
	int path[NET_HOPS], hops = topology_path(t, src_nic, dst_nic, choice, path), flow;
	struct background *b;

	flow = net_flow(&j->topology.net, t->nic[src_nic].node, t->nic[dst_nic].node, path, hops);
	j->topology.net.flow[flow].collective = false;
	j->topology.net.flow[flow].sport = 10001 + j->backgrounds;
	j->topology.net.flow[flow].dport = 10001 + j->backgrounds;
	j->background = net_grow(j->background, j->backgrounds, sizeof(*j->background));
	b = j->background + j->backgrounds;
	*b = (struct background){.flow = flow,
				 .start = start,
				 .bytes = bytes,
				 .src_nic = src_nic,
				 .dst_nic = dst_nic};
	job_at(j, start, EVENT_BACKGROUND, j->backgrounds, 0, 0);
	return j->backgrounds++;
}

struct conn *job_conn(struct job *j, int src, int dst, int channel)
{
	for (int i = 0; i < j->rank[src].conns; i++) {
		struct conn *c = j->conn + j->rank[src].conn[i];

		if (c->dst == dst && c->channel == channel)
			return c;
	}
	return NULL;
}

static void connect_pair(struct job *j, int src, int dst, int channel, uint64_t choice)
{
	struct rank *r = j->rank + src;
	struct net *n = &j->topology.net;
	int path[NET_HOPS], hops, flow;

	if (job_conn(j, src, dst, channel))
		return;
	hops = topology_path(&j->topology, r->nic, j->rank[dst].nic, choice, path);
	flow = net_flow(n, j->topology.nic[r->nic].node, j->topology.nic[j->rank[dst].nic].node,
			path, hops);
	n->flow[flow].sport = 10000;
	n->flow[flow].dport = 10000 + channel;
	j->conn = net_grow(j->conn, j->conns, sizeof(*j->conn));
	j->conn[j->conns] = (struct conn){.src = src,
					  .dst = dst,
					  .channel = channel,
					  .flow = flow,
					  .credits = j->credits,
					  .inside = r->host == j->rank[dst].host,
					  .last_post = -1};
	while (j->conn_flows <= flow) {
		j->conn_of_flow = net_grow(j->conn_of_flow, j->conn_flows, sizeof(int));
		j->conn_of_flow[j->conn_flows++] = NET_NONE;
	}
	j->conn_of_flow[flow] = j->conns;
	r->conn = net_grow(r->conn, r->conns, sizeof(*r->conn));
	r->conn[r->conns++] = j->conns++;
}

void job_connect(struct job *j, uint64_t (*choose)(struct job *j, int src, int dst))
{
	for (int i = 0; i < j->ops; i++) {
		const struct comm *c = j->comm + j->op[i].comm;

		for (int k = 0; k < j->op[i].xfers; k++) {
			const struct xfer *x = j->op[i].xfer + k;
			int src = c->rank[x->src], dst = c->rank[x->dst];

			if (!job_conn(j, src, dst, x->channel))
				connect_pair(j, src, dst, x->channel,
					     choose ? choose(j, src, dst) : rng_next(&j->rng));
		}
	}
}

double job_alone_ns(const struct job *j, const struct conn *c, double bytes)
{
	const struct net *n = &j->topology.net;
	const struct flow *f = n->flow + c->flow;

	return bytes / n->port[f->path[0]].line + f->latency_ns;
}
