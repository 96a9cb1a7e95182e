/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What each process would have recorded, by the clock of its host. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/scenario.h"

static const double BEFORE_NS = 10e6; /* a process begins so long before its first operation */

struct emitter {
	struct collsim *s;
	struct rec_file *f;
	int rank;
	int64_t wrong_ns; /* the clock of its host */
	double end;	  /* of its recording */
};

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

static uint64_t clock_time(const struct emitter *e, double t)
{
	return e->s->truth.zero_ns + (uint64_t)(llround(t) + e->wrong_ns);
}

/* A time that has not come is 0. */
static uint64_t clock_past(const struct emitter *e, double t)
{
	return t < 0 || t > e->end ? 0 : clock_time(e, t);
}

static void host_name(const struct job *j, int rank, char *to)
{
	snprintf(to, REC_NAME_BYTES, "node%d", j->rank[rank].host);
}

static void nic_name(const struct job *j, int rank, char *to)
{
	snprintf(to, REC_NAME_BYTES, "mlx5_%d", j->rank[rank].nic % j->topology.nics_each);
}

static int64_t clock_error(const struct collsim *s, int host)
{
	struct rng r = {rng_mix(s->options.seed, 1000 + host)};

	return llround(rng_between(&r, -1, 1) * (double)s->options.clock_ns);
}

static void emit_header(struct emitter *e)
{
	struct collsim *s = e->s;
	struct job *j = &s->job;
	const struct rank *r = j->rank + e->rank;
	struct rec_file *f = e->f;

	snprintf(f->job, sizeof(f->job), "%.40s-%llu", s->truth.name,
		 (unsigned long long)s->options.seed);
	host_name(j, e->rank, f->host);
	snprintf(f->boot_id, sizeof(f->boot_id), "00000000-0000-4000-8000-%012x", r->host + 1);
	snprintf(f->command, sizeof(f->command), "train");
	f->pid = 4000 + e->rank % j->gpus;
	f->rank = e->rank;
	f->began_ns = clock_time(e, -BEFORE_NS);
	f->read_ns = clock_time(e, e->end);
	if (r->finished)
		f->ended_ns = clock_time(e, e->end);
	f->died = r->died < INFINITY;
	f->epoch_ns = j->epoch_ns > 0 ? llround(j->epoch_ns) : 32000;
	f->clock_error_ns = s->options.clock_ns;
}

/* The queue pair that sends is 2 * connection + 1, the one that receives the next number. */
static void emit_qp(struct emitter *e, int conn, bool receives, double t, const char *state)
{
	struct job *j = &e->s->job;
	const struct conn *c = j->conn + conn;
	struct rec_qp *q = need(rec_add_qp(e->f));

	q->t_ns = clock_time(e, t);
	q->id = 2 * conn + 1 + receives;
	q->qpn = 0x100 + q->id;
	q->peer_qpn = 0x100 + 2 * conn + 1 + !receives;
	q->peer_rank = receives ? c->src : c->dst;
	nic_name(j, e->rank, q->nic);
	snprintf(q->state, sizeof(q->state), "%s", state);
	host_name(j, q->peer_rank, q->peer_host);
}

static void emit_qps(struct emitter *e)
{
	static const char *const states[] = {"RESET", "INIT", "RTR", "RTS"};
	struct job *j = &e->s->job;

	for (int i = 0; i < j->conns; i++) {
		const struct conn *c = j->conn + i;
		bool receives = c->dst == e->rank;

		if (c->inside || (!receives && c->src != e->rank))
			continue;
		for (int k = 0; k < 4; k++)
			emit_qp(e, i, receives, -5e6 + 1000.0 * (4 * i + k), states[k]);
		if (j->rank[e->rank].finished)
			emit_qp(e, i, receives, e->end, "destroyed");
	}
}

static void emit_comms(struct emitter *e)
{
	struct job *j = &e->s->job;

	for (int i = 0; i < j->comms; i++) {
		int member = job_member(j->comm + i, e->rank);
		struct rec_comm *c;

		if (member == NET_NONE)
			continue;
		c = need(rec_add_comm(e->f));
		snprintf(c->comm, sizeof(c->comm), "%s", j->comm[i].name);
		c->size = j->comm[i].size;
		c->rank = member;
		c->hosts = need(calloc(c->size, sizeof(*c->hosts)));
		for (int m = 0; m < c->size; m++) {
			c->hosts[m] = need(calloc(1, REC_NAME_BYTES));
			host_name(j, j->comm[i].rank[m], c->hosts[m]);
		}
	}
}

static const char *op_name(enum op_kind kind)
{
	static const char *const names[] = {
		[OP_ALLREDUCE] = "allreduce",	      [OP_ALLGATHER] = "allgather",
		[OP_REDUCESCATTER] = "reducescatter", [OP_ALLTOALL] = "alltoall",
		[OP_BROADCAST] = "broadcast",	      [OP_P2P] = "p2p"};

	return names[kind];
}

static void emit_coll(struct emitter *e, const struct op *op, int member)
{
	const struct op_end *at = op->at + member;
	struct rec_coll *c = need(rec_add_coll(e->f));

	snprintf(c->comm, sizeof(c->comm), "%s", e->s->job.comm[op->comm].name);
	snprintf(c->op, sizeof(c->op), "%s", op_name(op->kind));
	snprintf(c->dtype, sizeof(c->dtype), "float");
	c->seq = op->seq;
	c->count = (uint64_t)llround(op->bytes / 4);
	c->bytes = 4 * c->count;
	c->root = op->kind == OP_BROADCAST ? op->root : REC_NONE;
	c->launch_ns = clock_time(e, at->launch);
	c->first_wr_ns = clock_past(e, at->first_wr);
	c->end_ns = clock_past(e, at->end);
	c->wr = at->wr;
	c->wc = at->wc;
	c->sent_bytes = (uint64_t)llround(at->sent);
}

static void emit_p2p(struct emitter *e, const struct op *op, const struct xfer *x, int member)
{
	struct rec_p2p *p = need(rec_add_p2p(e->f));
	bool is_send = x->src == member;
	double done = x->bytes * (is_send ? x->acked : x->arrived) / x->slices;

	snprintf(p->comm, sizeof(p->comm), "%s", e->s->job.comm[op->comm].name);
	p->group = op->group;
	p->expected_bytes = (uint64_t)llround(x->bytes);
	p->actual_bytes = (uint64_t)llround(done);
	p->launch_ns = clock_time(e, op->at[member].launch);
	p->end_ns = is_send ? (x->end > 0 ? clock_past(e, x->end) : 0)
			    : (x->took > 0 ? clock_past(e, x->took) : 0);
	p->peer = is_send ? x->dst : x->src;
	p->is_send = is_send;
}

/* What a member has sent in one step, over all channels, to one other. */
struct sent_step {
	int step, peer, xfer;
	double bytes, start, end, alone;
};

static int by_step(const void *a, const void *b)
{
	const struct sent_step *x = a, *y = b;

	return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
				  : (x->peer > y->peer) - (x->peer < y->peer);
}

static void join_step(struct sent_step *s, const struct xfer *x, double alone)
{
	s->bytes += x->bytes;
	s->alone += alone;
	if (x->start > 0 && (!(s->start > 0) || x->start < s->start))
		s->start = x->start;
	if (!(x->end > 0))
		s->end = INFINITY;
	s->end = fmax(s->end, x->end);
}

/* The steps of a member in the order of their numbers; how many. */
static int list_steps(struct job *j, const struct op *op, int member, struct sent_step *list)
{
	int n = 0;

	for (int i = 0; i < op->xfers; i++) {
		const struct xfer *x = op->xfer + i;
		int rank = j->comm[op->comm].rank[member], k = 0;
		const struct conn *c;

		if (x->src != member || !(x->start > 0))
			continue;
		while (k < n && (list[k].step != x->step || list[k].peer != x->dst))
			k++;
		if (k == n)
			list[n++] = (struct sent_step){.step = x->step, .peer = x->dst, .xfer = i};
		c = job_conn(j, rank, j->comm[op->comm].rank[x->dst], x->channel);
		join_step(list + k, x, job_alone_ns(j, c, x->bytes));
	}
	qsort(list, n, sizeof(*list), by_step);
	return n;
}

/* How many transfers to a member were complete at a time. */
static int received(const struct op *op, int member, double t)
{
	int n = 0;

	for (int i = 0; i < op->xfers; i++) {
		const struct xfer *x = op->xfer + i;

		if (x->dst == member && x->channel == 0 && x->took > 0 && x->took <= t)
			n++;
	}
	return n;
}

/* The transfer that came last of those that it was made of. */
static const struct xfer *last_needed(const struct op *op, const struct xfer *x)
{
	const struct xfer *last = NULL;

	for (int i = 0; i < x->deps; i++)
		if (!last || op->xfer[x->dep[i]].took > last->took)
			last = op->xfer + x->dep[i];
	return last;
}

static void emit_steps(struct emitter *e, const struct op *op, int member)
{
	struct job *j = &e->s->job;
	const struct comm *comm = j->comm + op->comm;
	struct sent_step *list = need(calloc(op->xfers + 1, sizeof(*list)));
	int n = list_steps(j, op, member, list);

	for (int i = 0; i < n; i++) {
		const struct xfer *x = op->xfer + list[i].xfer, *on = last_needed(op, x);
		struct rec_step *r = need(rec_add_step(e->f));
		double before = i ? list[i - 1].end : 0;

		snprintf(r->comm, sizeof(r->comm), "%s", comm->name);
		flow_name(j->topology.net.flow +
				  job_conn(j, e->rank, comm->rank[x->dst], x->channel)->flow,
			  r->flow, sizeof(r->flow));
		r->seq = op->seq;
		r->step = list[i].step;
		r->peer = list[i].peer;
		r->bytes = (uint64_t)llround(list[i].bytes);
		r->start_ns = clock_time(e, list[i].start);
		r->end_ns = isfinite(list[i].end) ? clock_past(e, list[i].end) : 0;
		r->expected_ns = (uint64_t)llround(list[i].alone);
		r->wait_rank = on ? on->src : REC_NONE;
		r->wait_step = on ? on->step : REC_NONE;
		/* When the step before was over: had the data that this one needs come? */
		r->send_index = i;
		r->recv_index = i ? 1 + received(op, member, before) : 1;
	}
	free(list);
}

static void emit_op(struct emitter *e, const struct op *op)
{
	const struct comm *comm = e->s->job.comm + op->comm;
	int member = job_member(comm, e->rank);

	if (member == NET_NONE || op->at[member].launch < 0)
		return;
	for (int i = 0; op->kind == OP_P2P && i < op->xfers; i++)
		if (op->xfer[i].src == member || op->xfer[i].dst == member)
			emit_p2p(e, op, op->xfer + i, member);
	if (op->kind == OP_P2P)
		return;
	emit_coll(e, op, member);
	if (!comm->quiet)
		emit_steps(e, op, member);
}

static uint32_t *part(const uint32_t *from, size_t n)
{
	uint32_t *to = need(malloc(n * sizeof(*to)));

	return memcpy(to, from, n * sizeof(*to));
}

static void emit_run(struct emitter *e, int conn, size_t first, size_t n)
{
	const struct job *j = &e->s->job;
	const struct conn *c = j->conn + conn;
	struct rec_epochs *r = need(rec_add_epochs(e->f));

	r->qp = 2 * conn + 1;
	r->t_ns = clock_time(e, j->epoch_zero + (double)first * j->epoch_ns);
	r->n = n;
	r->bytes = part(c->epoch_bytes + first, n);
	r->wr = part(c->epoch_wr + first, n);
	r->wc = part(c->epoch_wc + first, n);
}

static bool is_quiet(const struct conn *c, size_t i)
{
	return !c->epoch_bytes[i] && !c->epoch_wr[i] && !c->epoch_wc[i];
}

/* Runs of epochs; one ends where four are empty. */
static void emit_epochs(struct emitter *e, int conn)
{
	const struct conn *c = e->s->job.conn + conn;

	for (size_t i = 0; i < c->epochs;) {
		size_t last = i;

		if (is_quiet(c, i)) {
			i++;
			continue;
		}
		for (size_t k = i; k < c->epochs && k < last + 4; k++)
			if (!is_quiet(c, k))
				last = k;
		emit_run(e, conn, i, last - i + 1);
		i = last + 1;
	}
}

/* The retries of a work request that nobody acknowledges come to an end. */
static void emit_errors(struct emitter *e, int conn)
{
	struct collsim *s = e->s;
	const struct conn *c = s->job.conn + conn;
	struct rng r = {rng_mix(s->options.seed, 5000 + conn)};
	double t;
	struct rec_wcerr *w;

	if (c->acked == c->messages)
		return;
	t = fmax(c->message[c->acked].posted, 0) + s->retry_ns * rng_between(&r, 1, 1.05);
	if (t > e->end)
		return;
	w = need(rec_add_wcerr(e->f));
	w->t_ns = clock_time(e, t);
	w->qp = 2 * conn + 1;
	w->vendor_err = 0x81;
	w->peer_rank = c->dst;
	nic_name(&s->job, e->rank, w->nic);
	snprintf(w->status, sizeof(w->status), "RETRY_EXC_ERR");
	snprintf(w->opcode, sizeof(w->opcode), "RDMA_WRITE");
	host_name(&s->job, c->dst, w->peer_host);
	emit_qp(e, conn, false, t, "ERR");
}

static void emit_async(struct emitter *e)
{
	struct rec_async *a = need(rec_add_async(e->f));

	a->t_ns = clock_time(e, (double)(e->s->truth.onset_ns - e->s->truth.zero_ns));
	nic_name(&e->s->job, e->rank, a->nic);
	snprintf(a->event, sizeof(a->event), "PORT_ERR");
}

static void emit_file(struct emitter *e)
{
	struct job *j = &e->s->job;
	const struct rank *r = j->rank + e->rank;

	e->end = r->finished || j->all_finished ? j->ended + 1e6 : j->ended + e->s->hold_ns;
	e->end = fmin(e->end, r->died);
	emit_header(e);
	emit_qps(e);
	emit_comms(e);
	for (int i = 0; i < j->ops; i++)
		emit_op(e, j->op + i);
	for (int i = 0; i < r->conns; i++) {
		int conn = r->conn[i];

		if (j->conn[conn].inside)
			continue;
		emit_epochs(e, conn);
		if (!j->all_finished)
			emit_errors(e, conn);
	}
	if (e->s->dead_nic[e->rank])
		emit_async(e);
}

void collsim_records(struct collsim *s, struct records *r)
{
	for (int i = 0; i < s->job.ranks; i++) {
		struct emitter e = {.s = s, .rank = i};

		e.wrong_ns = clock_error(s, s->job.rank[i].host);
		e.f = need(records_add(r));
		emit_file(&e);
	}
}
