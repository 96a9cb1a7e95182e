/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a job runs: events in the order of their time, and between them the network. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/collsim/job.h"
#include "tests/collsim/net_rates.h"

static bool is_before(const struct event *a, const struct event *b)
{
	return a->t < b->t || (a->t == b->t && a->order < b->order);
}

void job_at(struct job *j, double t, enum event_kind kind, int a, int b, int c)
{
	struct event e = {t, j->event_order++, kind, a, b, c};
	size_t i;

	j->event = net_grow(j->event, j->events, sizeof(*j->event));
	for (i = j->events++; i && is_before(&e, j->event + (i - 1) / 2); i = (i - 1) / 2)
		j->event[i] = j->event[(i - 1) / 2];
	j->event[i] = e;
}

static struct event take_event(struct job *j)
{
	struct event first = j->event[0], e = j->event[--j->events];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < j->events) {
		if (child + 1 < j->events && is_before(j->event + child + 1, j->event + child))
			child++;
		if (!is_before(j->event + child, &e))
			break;
		j->event[i] = j->event[child];
		i = child;
	}
	j->event[i] = e;
	return first;
}

/* An array of counters with an element for this epoch. */
static uint32_t *epoch_slot(uint32_t **array, size_t *room, size_t epoch)
{
	if (epoch >= *room) {
		size_t more = epoch * 2 + 64;

		*array = realloc(*array, more * sizeof(**array));
		if (!*array)
			abort();
		memset(*array + *room, 0, (more - *room) * sizeof(**array));
		*room = more;
	}
	return *array + epoch;
}

static void count_epoch(struct job *j, struct conn *c, double t, int wr, int wc, double bytes)
{
	size_t epoch = (size_t)((t - j->epoch_zero) / j->epoch_ns), room = c->epochs;

	if (epoch >= c->epochs) {
		size_t other = room;

		epoch_slot(&c->epoch_wr, &other, epoch);
		other = room;
		epoch_slot(&c->epoch_wc, &other, epoch);
		epoch_slot(&c->epoch_bytes, &c->epochs, epoch);
	}
	c->epoch_wr[epoch] += wr;
	c->epoch_wc[epoch] += wc;
	c->epoch_bytes[epoch] += (uint32_t)lround(bytes);
}

static void on_sending(void *arg, int flow, double begin, double end, double rate)
{
	struct job *j = arg;
	struct conn *c;

	if (flow >= j->conn_flows || j->conn_of_flow[flow] == NET_NONE || !j->epoch_ns)
		return;
	c = j->conn + j->conn_of_flow[flow];
	while (!c->inside && begin < end) {
		double epoch = floor((begin - j->epoch_zero) / j->epoch_ns) + 1;
		double until = fmin(end, j->epoch_zero + epoch * j->epoch_ns);

		if (until <= begin)
			break;
		count_epoch(j, c, (begin + until) / 2, 0, 0, (until - begin) * rate);
		begin = until;
	}
}

static int slices_needed(const struct xfer *x, const struct xfer *on)
{
	if (x->whole)
		return on->slices;
	return ((x->posted + 1) * on->slices + x->slices - 1) / x->slices;
}

static bool is_ready(const struct job *j, const struct conn *c, const struct op *op,
		     const struct xfer *x)
{
	if (c->credits <= 0 || j->rank[c->src].died < INFINITY)
		return false;
	for (int i = 0; i < x->deps; i++) {
		const struct xfer *on = op->xfer + x->dep[i];

		if (on->taken < slices_needed(x, on))
			return false;
	}
	return true;
}

/* A proxy thread is scheduled when it is: about exponentially. */
static double proxy_delay(struct job *j, int rank)
{
	double mean = j->rank[rank].proxy_ns;

	return mean * fmin(6, -log(1 - rng_unit(&j->rng)));
}

static void try_conn(struct job *j, int conn)
{
	struct conn *c = j->conn + conn;
	struct op *op;

	if (c->posting || c->done == c->todos)
		return;
	op = j->op + c->todo[c->done].op;
	if (!is_ready(j, c, op, op->xfer + c->todo[c->done].xfer))
		return;
	c->posting = true;
	job_at(j, j->topology.net.now + proxy_delay(j, c->src), EVENT_POST, conn, 0, 0);
}

static void try_rank(struct job *j, int rank)
{
	for (int i = 0; i < j->rank[rank].conns; i++)
		try_conn(j, j->rank[rank].conn[i]);
}

static struct op_end *end_of(struct job *j, struct op *op, int rank)
{
	return op->at + job_member(j->comm + op->comm, rank);
}

static void queue_message(struct job *j, struct conn *c, int op, int xfer, double end)
{
	c->message = net_grow(c->message, c->messages, sizeof(*c->message));
	c->message[c->messages++] = (struct message){end, j->topology.net.now, op, xfer};
	if (!isfinite(j->topology.net.flow[c->flow].mark))
		j->topology.net.flow[c->flow].mark = end;
}

static void post(struct job *j, int conn)
{
	struct conn *c = j->conn + conn;
	struct message m = c->todo[c->done];
	struct op *op = j->op + m.op;
	struct xfer *x = op->xfer + m.xfer;
	struct op_end *at = op->at + x->src;
	struct net *n = &j->topology.net;

	c->posting = false;
	if (j->rank[c->src].died < INFINITY)
		return;
	if (at->first_wr < 0 && !c->inside)
		at->first_wr = n->now;
	if (!x->posted)
		x->start = n->now;
	if (!c->inside) {
		at->wr++;
		at->sent += x->bytes / x->slices;
		if (j->epoch_ns)
			count_epoch(j, c, n->now, 1, 0, 0);
	}
	net_post(n, c->flow, x->bytes / x->slices);
	queue_message(j, c, m.op, m.xfer, n->flow[c->flow].posted);
	c->credits--;
	c->last_post = n->now;
	if (++x->posted == x->slices)
		c->done++;
	if (j->poll && !c->inside && !isfinite(j->slice_bytes))
		j->poll(j, conn, c->messages - 1, true);
	try_conn(j, conn);
}

static void finish_op(struct job *j, int rank, struct op *op)
{
	struct op_end *at = end_of(j, op, rank);
	double pause = j->launch_ns * rng_between(&j->rng, 0.7, 1.3);

	at->end = j->topology.net.now;
	j->rank[rank].done++;
	job_at(j, at->end + pause, EVENT_RANK, rank, 0, 0);
}

static void one_less(struct job *j, int rank, struct op *op)
{
	struct op_end *at = end_of(j, op, rank);

	if (!--at->left && at->launch >= 0)
		finish_op(j, rank, op);
}

static void take_later(struct job *j, int conn, int message, int rank)
{
	double delay = j->take_ns + proxy_delay(j, rank) - j->proxy_ns;

	/* One behind the other: a connection's data are taken in their order. */
	job_at(j, j->topology.net.now + fmax(0, delay), EVENT_TAKEN, conn, message, 0);
}

/* Data that came before the receiver had launched the operation. */
static void take_waiting(struct job *j, int rank, int which)
{
	struct op *op = j->op + which;
	const struct comm *comm = j->comm + op->comm;
	int member = job_member(comm, rank);

	for (int i = 0; i < op->xfers; i++) {
		struct xfer *x = op->xfer + i;
		struct conn *c;

		if (x->dst != member || x->arrived == x->taken)
			continue;
		c = job_conn(j, comm->rank[x->src], rank, x->channel);
		for (int m = 0; m < c->messages; m++)
			if (c->message[m].op == which && c->message[m].xfer == i &&
			    m < c->delivered)
				take_later(j, c - j->conn, m, rank);
	}
}

static void launch(struct job *j, int rank, int which)
{
	struct op *op = j->op + which;
	const struct comm *comm = j->comm + op->comm;
	int member = job_member(comm, rank);
	struct op_end *at = op->at + member;

	at->launch = j->topology.net.now;
	for (int i = 0; i < op->xfers; i++) {
		struct xfer *x = op->xfer + i;
		struct conn *c;

		if (x->src != member)
			continue;
		c = job_conn(j, rank, comm->rank[x->dst], x->channel);
		c->todo = net_grow(c->todo, c->todos, sizeof(*c->todo));
		c->todo[c->todos++] = (struct message){.op = which, .xfer = i};
	}
	take_waiting(j, rank, which);
	try_rank(j, rank);
	if (!at->left)
		finish_op(j, rank, op);
}

static double compute_ns(struct job *j, const struct rank *r, double ns)
{
	double now = j->topology.net.now, early;

	ns *= 1 + j->jitter * rng_normal(&j->rng);
	early = fmin(ns, fmax(0, r->slow_at - now));
	return early + (ns - early) * r->slow;
}

static void go_on(struct job *j, int rank)
{
	struct rank *r = j->rank + rank;
	double ns;

	j->progress = j->topology.net.now;
	if (r->stopped)
		return;
	if (r->done == r->todos) {
		r->finished = true;
		return;
	}
	if (r->todo[r->done].op != NET_NONE) {
		launch(j, rank, r->todo[r->done].op);
		return;
	}
	ns = compute_ns(j, r, r->todo[r->done++].ns);
	if (j->topology.net.now + ns > r->stop_at)
		r->stopped = true;
	else
		job_at(j, j->topology.net.now + ns, EVENT_RANK, rank, 0, 0);
}

static void on_arrived(void *arg, int flow)
{
	struct job *j = arg;
	struct net *n = &j->topology.net;
	struct flow *f = n->flow + flow;
	struct conn *c;

	f->mark = INFINITY;
	if (flow >= j->conn_flows || j->conn_of_flow[flow] == NET_NONE) {
		for (int i = 0; i < j->backgrounds; i++)
			if (j->background[i].flow == flow)
				j->background[i].end = n->now + f->latency_ns;
		return;
	}
	c = j->conn + j->conn_of_flow[flow];
	f->message = c->message[c->delivered].end;
	job_at(j, n->now + f->latency_ns, EVENT_COME, c - j->conn, c->delivered, 0);
	job_at(j, n->now + 2 * f->latency_ns, EVENT_ACK, c - j->conn, c->delivered, 0);
	if (++c->delivered < c->messages)
		f->mark = c->message[c->delivered].end;
}

static void come(struct job *j, int conn, int message)
{
	struct conn *c = j->conn + conn;
	struct op *op = j->op + c->message[message].op;
	struct xfer *x = op->xfer + c->message[message].xfer;

	j->progress = j->topology.net.now;
	x->arrived++;
	if (op->at[x->dst].launch >= 0)
		take_later(j, conn, message, c->dst);
}

static void taken(struct job *j, int conn, int message)
{
	struct conn *c = j->conn + conn;
	struct op *op = j->op + c->message[message].op;
	struct xfer *x = op->xfer + c->message[message].xfer;

	j->progress = j->topology.net.now;
	c->credits++;
	if (++x->taken == x->slices) {
		x->took = j->topology.net.now;
		one_less(j, c->dst, op);
	}
	try_conn(j, conn);
	try_rank(j, c->dst);
}

static void acknowledged(struct job *j, int conn, int message)
{
	struct conn *c = j->conn + conn;
	struct op *op = j->op + c->message[message].op;
	struct xfer *x = op->xfer + c->message[message].xfer;

	if (j->rank[c->src].died < INFINITY)
		return;
	c->acked++;
	if (!c->inside) {
		op->at[x->src].wc++;
		if (j->epoch_ns)
			count_epoch(j, c, j->topology.net.now, 0, 1, 0);
	}
	if (++x->acked == x->slices) {
		x->end = j->topology.net.now;
		if (j->step_over && !c->inside && !isfinite(j->slice_bytes))
			j->step_over(j, conn, message);
		one_less(j, c->src, op);
	}
}

static void start_background(struct job *j, int i)
{
	struct background *b = j->background + i;

	net_post(&j->topology.net, b->flow, b->bytes);
	j->topology.net.flow[b->flow].mark = j->topology.net.flow[b->flow].posted;
}

void job_kill_rank(struct job *j, int rank)
{
	j->rank[rank].died = fmin(j->rank[rank].died, j->topology.net.now);
	j->rank[rank].stopped = true;
	for (int i = 0; i < j->conns; i++)
		if (j->conn[i].src == rank || j->conn[i].dst == rank)
			net_kill(&j->topology.net, j->conn[i].flow);
}

static void handle(struct job *j, struct event e)
{
	switch (e.kind) {
	case EVENT_RANK: go_on(j, e.a); break;
	case EVENT_POST: post(j, e.a); break;
	case EVENT_COME: come(j, e.a, e.b); break;
	case EVENT_TAKEN: taken(j, e.a, e.b); break;
	case EVENT_ACK: acknowledged(j, e.a, e.b); break;
	case EVENT_BACKGROUND: start_background(j, e.a); break;
	case EVENT_FAULT: j->fault(j, e.a, e.b, e.c); break;
	case EVENT_POLL: j->poll(j, e.a, e.b, e.c); break;
	}
}

static bool is_finished(const struct job *j)
{
	for (int i = 0; i < j->ranks; i++)
		if (!j->rank[i].finished)
			return false;
	return true;
}

static bool is_over(struct job *j)
{
	double now = j->topology.net.now;

	j->all_finished = is_finished(j);
	return j->all_finished || now > j->limit_ns || now - j->progress > j->stalled_ns;
}

void job_run(struct job *j)
{
	struct net *n = &j->topology.net;
	double next;

	n->arg = j;
	n->arrived = on_arrived;
	n->sending = on_sending;
	for (int i = 0; i < j->ranks; i++)
		job_at(j, j->launch_ns * rng_unit(&j->rng), EVENT_RANK, i, 0, 0);
	while (!is_over(j)) {
		next = net_next(n);
		if (j->events && j->event[0].t <= next)
			next = j->event[0].t;
		if (isinf(next))
			break;
		net_advance(n, fmax(next, n->now));
		while (j->events && j->event[0].t <= n->now)
			handle(j, take_event(j));
	}
	rates_tell(n);
	j->ended = j->all_finished ? n->now : j->progress;
}
