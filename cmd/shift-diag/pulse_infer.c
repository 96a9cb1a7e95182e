/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs without hooks: operations are found in the traffic alone. The bursts of ranks that send
 * to each other at the same time are one operation; the ranks that do so again and again are a
 * communicator. What an operation has to send is what the earlier ones have sent.
 */
#include "cmd/shift-diag/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

struct burst {
	int file, rank;
	uint64_t start_ns, until_ns; /* its last epoch has ended */
	size_t belongs_to;	     /* an earlier burst of the same operation, or itself */
	struct pulse_traffic sent;
	bool *to; /* ranks */
};

struct bursts {
	struct burst *burst;
	size_t n;
};

static int by_start(const void *a, const void *b)
{
	const struct burst *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->rank - y->rank;
}

static bool *peers_in(const struct pulse *p, const struct pulse_curve *c, const struct burst *b)
{
	bool *to = check_alloc(calloc((size_t)p->ranks + 1, 1));

	for (size_t i = 0; i < c->n; i++)
		if (c->sample[i].rank >= 0 && c->sample[i].t_ns >= b->start_ns &&
		    c->sample[i].t_ns < b->until_ns)
			to[c->sample[i].rank] = true;
	return to;
}

static void add_bursts(const struct pulse *p, int file, struct bursts *l)
{
	const struct pulse_curve *c = p->curve + file;
	struct pulse_segment *segment;
	size_t samples, n;
	struct pulse_sample *s = pulse_curve_to(c, NULL, 0, &samples);

	n = pulse_segment(s, samples, NULL, 0, p->options.delta_ns, &segment);
	l->burst = check_alloc(realloc(l->burst, (l->n + n + 1) * sizeof(*l->burst)));
	for (size_t i = 0; i < n; i++) {
		struct burst b = {.file = file, .rank = p->records->file[file].rank};

		b.start_ns = segment[i].start_ns;
		b.until_ns = segment[i].end_ns + c->epoch_ns;
		b.sent = pulse_traffic(c, NULL, 0, segment[i].start_ns, segment[i].end_ns);
		b.to = peers_in(p, c, &b);
		l->burst[l->n++] = b;
	}
	free(segment);
	free(s);
}

/* ---- bursts that belong together ------------------------------------------------------------ */

static size_t first_of(struct bursts *l, size_t i)
{
	while (l->burst[i].belongs_to != i)
		i = l->burst[i].belongs_to;
	return i;
}

static void unite(struct bursts *l, size_t a, size_t b)
{
	a = first_of(l, a);
	b = first_of(l, b);
	if (a < b)
		l->burst[b].belongs_to = a;
	else
		l->burst[a].belongs_to = b;
}

static void find_together(const struct pulse *p, struct bursts *l)
{
	uint64_t slack = p->coverage.clock_error_ns > 0 ? 2 * (uint64_t)p->coverage.clock_error_ns
							: 0;

	for (size_t i = 0; i < l->n; i++)
		l->burst[i].belongs_to = i;
	for (size_t i = 0; i < l->n; i++)
		for (size_t j = i + 1;
		     j < l->n && l->burst[j].start_ns <= l->burst[i].until_ns + slack; j++)
			if (l->burst[i].to[l->burst[j].rank] || l->burst[j].to[l->burst[i].rank])
				unite(l, i, j);
}

/* ---- communicators -------------------------------------------------------------------------- */

/* The ranks of an operation: those that send, and those to whom. */
struct set {
	bool *rank;
	size_t times;
	size_t comm; /* SIZE_MAX: not made yet */
};

struct sets {
	struct set *set;
	size_t n;
};

static size_t find_set(struct sets *l, const bool *rank, int ranks)
{
	for (size_t i = 0; i < l->n; i++)
		if (!memcmp(l->set[i].rank, rank, (size_t)ranks))
			return i;
	l->set = check_alloc(realloc(l->set, (l->n + 1) * sizeof(*l->set)));
	l->set[l->n] = (struct set){.comm = SIZE_MAX};
	l->set[l->n].rank = check_alloc(calloc((size_t)ranks + 1, 1));
	memcpy(l->set[l->n].rank, rank, (size_t)ranks);
	return l->n++;
}

static bool is_within(const bool *a, const bool *b, int ranks)
{
	for (int i = 0; i < ranks; i++)
		if (a[i] && !b[i])
			return false;
	return true;
}

/* An operation that has not got far may show some of its ranks only. */
static size_t whole_set(const struct sets *l, size_t i, int ranks)
{
	for (size_t j = 0; l->set[i].times == 1 && j < l->n; j++)
		if (l->set[j].times > 1 && is_within(l->set[i].rank, l->set[j].rank, ranks))
			return j;
	return i;
}

static void add_member(struct pulse *p, struct pulse_comm *c, int m, int rank)
{
	c->rank[m] = rank;
	c->has_rank[rank] = true;
	for (size_t i = 0; i < p->records->files; i++) {
		const struct rec_file *f = p->records->file + i;

		if (f->rank == rank) {
			c->file[m] = (int)i;
			snprintf(c->host[m], sizeof(c->host[m]), "%s", f->host);
		}
		for (size_t j = 0; c->file[m] < 0 && j < f->qp_n; j++)
			if (f->qp[j].peer_rank == rank)
				snprintf(c->host[m], sizeof(c->host[m]), "%s", f->qp[j].peer_host);
	}
}

static size_t comm_of_set(struct pulse *p, struct sets *l, size_t i)
{
	char name[REC_NAME_BYTES];
	int size = 0;

	if (l->set[i].comm != SIZE_MAX)
		return l->set[i].comm;
	for (int r = 0; r < p->ranks; r++)
		size += l->set[i].rank[r];
	snprintf(name, sizeof(name), "traffic %zu", p->comms + 1);
	l->set[i].comm = pulse_comm_find(p, name, size);
	size = 0;
	for (int r = 0; r < p->ranks; r++)
		if (l->set[i].rank[r])
			add_member(p, p->comm + l->set[i].comm, size++, r);
	return l->set[i].comm;
}

static int member_of(const struct pulse_comm *c, int rank)
{
	int m = 0;

	while (c->rank[m] != rank)
		m++;
	return m;
}

/* ---- operations ----------------------------------------------------------------------------- */

static void add_to_part(struct pulse_part *part, const struct burst *b)
{
	if (!part->started || b->start_ns < part->start_ns)
		part->start_ns = part->sent.first_ns = b->start_ns;
	if (b->until_ns > part->end_ns)
		part->end_ns = b->until_ns;
	part->started = part->ended = part->takes_part = true;
	part->sent.act_ns += b->sent.act_ns;
	part->sent.cv += b->sent.cv;
	part->sent.last_ns = b->sent.last_ns > part->sent.last_ns ? b->sent.last_ns
								  : part->sent.last_ns;
}

static void make_op(struct pulse *p, const struct bursts *l, size_t first, size_t comm)
{
	struct pulse_op *o = pulse_op_add(p, comm, KIND_TRAFFIC);

	snprintf(o->op, sizeof(o->op), "burst");
	o->symmetric = true;
	o->start_ns = l->burst[first].start_ns;
	for (size_t i = first; i < l->n; i++)
		if (first_of((struct bursts *)l, i) == first)
			add_to_part(o->part + member_of(p->comm + comm, l->burst[i].rank),
				    l->burst + i);
	for (size_t i = 0; i < p->ops - 1; i++)
		o->seq += p->op[i].comm == comm;
	o->seq++;
}

static void add_ranks(bool *rank, const struct burst *b, int ranks)
{
	rank[b->rank] = true;
	for (int r = 0; r < ranks; r++)
		rank[r] = rank[r] || b->to[r];
}

static void make_ops(struct pulse *p, struct bursts *l)
{
	size_t *set_of = check_alloc(calloc(l->n + 1, sizeof(*set_of)));
	bool *rank = check_alloc(calloc((size_t)p->ranks + 1, 1));
	struct sets sets = {0};

	for (size_t i = 0; i < l->n; i++) {
		if (first_of(l, i) != i)
			continue;
		memset(rank, 0, (size_t)p->ranks);
		for (size_t j = i; j < l->n; j++)
			if (first_of(l, j) == i)
				add_ranks(rank, l->burst + j, p->ranks);
		set_of[i] = find_set(&sets, rank, p->ranks);
		sets.set[set_of[i]].times++;
	}
	for (size_t i = 0; i < l->n; i++)
		if (first_of(l, i) == i)
			make_op(p, l, i,
				comm_of_set(p, &sets, whole_set(&sets, set_of[i], p->ranks)));
	for (size_t i = 0; i < sets.n; i++)
		free(sets.set[i].rank);
	free(sets.set);
	free(set_of);
	free(rank);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* What a member has sent in the operations before this one, usually. 0: nothing, in most. */
static uint64_t usual_volume(const struct pulse *p, const struct pulse_op *last, int member)
{
	uint64_t *cv = check_alloc(calloc(p->ops + 1, sizeof(*cv))), median;
	size_t n = 0;

	for (size_t i = 0; i < p->ops; i++)
		if (p->op[i].comm == last->comm && p->op + i != last)
			cv[n++] = p->op[i].part[member].sent.cv;
	qsort(cv, n, sizeof(*cv), by_value);
	median = n ? cv[n / 2] : 0;
	free(cv);
	return median;
}

/* Only the last operation of a communicator may be unfinished: the next one begins behind it. */
static void judge_last(struct pulse *p, struct pulse_op *o)
{
	const struct pulse_comm *c = p->comm + o->comm;
	bool unfinished = false;

	for (int m = 0; m < c->size; m++) {
		struct pulse_part *part = o->part + m;

		part->expected = usual_volume(p, o, m);
		part->takes_part = part->takes_part || part->expected;
		unfinished = unfinished || part->sent.cv < part->expected / 10 * 9;
	}
	for (int m = 0; unfinished && m < c->size; m++) {
		struct pulse_part *part = o->part + m;

		part->ended = part->expected && part->sent.cv >= part->expected;
	}
}

static void judge_lasts(struct pulse *p)
{
	for (size_t i = 0; i < p->comms; i++) {
		struct pulse_op *last = NULL;

		for (size_t j = 0; j < p->ops; j++)
			if (p->op[j].comm == i)
				last = p->op + j;
		if (last)
			judge_last(p, last);
	}
}

void pulse_ops_infer(struct pulse *p)
{
	struct bursts l = {0};

	p->inferred = true;
	for (size_t i = 0; i < p->records->files; i++)
		if (p->records->file[i].rank >= 0 && p->curve[i].n)
			add_bursts(p, (int)i, &l);
	if (!l.n)
		return;
	qsort(l.burst, l.n, sizeof(*l.burst), by_start);
	find_together(p, &l);
	make_ops(p, &l);
	judge_lasts(p);
	for (size_t i = 0; i < l.n; i++)
		free(l.burst[i].to);
	free(l.burst);
}
