/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who is a member of what, and the whole of what was read. */
#include "cmd/shift-diag/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

struct pulse_options pulse_defaults(void)
{
	return (struct pulse_options){.kappa = 1.15,
				      .delta_ns = 1000000,
				      .hang_ns = 1000000000,
				      .slice_bytes = 1 << 20,
				      .repeat = 3};
}

size_t pulse_comm_find(struct pulse *p, const char *name, int size)
{
	struct pulse_comm *c;

	for (size_t i = 0; i < p->comms; i++)
		if (!strcmp(p->comm[i].name, name) && p->comm[i].size >= size)
			return i;
	p->comm = check_alloc(realloc(p->comm, (p->comms + 1) * sizeof(*p->comm)));
	c = p->comm + p->comms;
	*c = (struct pulse_comm){.size = size};
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->file = check_alloc(calloc((size_t)size + 1, sizeof(*c->file)));
	c->rank = check_alloc(calloc((size_t)size + 1, sizeof(*c->rank)));
	c->host = check_alloc(calloc((size_t)size + 1, sizeof(*c->host)));
	c->has_rank = check_alloc(calloc((size_t)p->ranks + 1, 1));
	for (int m = 0; m < size; m++)
		c->file[m] = c->rank[m] = REC_NONE;
	return p->comms++;
}

struct pulse_op *pulse_op_add(struct pulse *p, size_t comm, enum pulse_kind kind)
{
	struct pulse_op *o;

	if (!(p->ops & (p->ops + 1))) /* room for twice as many */
		p->op = check_alloc(realloc(p->op, (2 * p->ops + 2) * sizeof(*p->op)));
	o = p->op + p->ops++;
	*o = (struct pulse_op){.comm = comm, .kind = kind};
	o->part = check_alloc(calloc((size_t)p->comm[comm].size, sizeof(*o->part)));
	for (int m = 0; m < p->comm[comm].size; m++)
		o->part[m].gap_ns = -1;
	return o;
}

static int ranks_of(const struct records *r)
{
	int n = 0;

	for (size_t i = 0; i < r->files; i++) {
		const struct rec_file *f = r->file + i;

		n = f->rank >= n ? f->rank + 1 : n;
		for (size_t j = 0; j < f->qp_n; j++)
			n = f->qp[j].peer_rank >= n ? f->qp[j].peer_rank + 1 : n;
		for (size_t j = 0; j < f->comm_n; j++)
			n = f->comm[j].size > n ? f->comm[j].size : n;
		for (size_t j = 0; j < f->p2p_n; j++)
			n = f->p2p[j].peer >= n ? f->p2p[j].peer + 1 : n;
	}
	return n;
}

/* A process of the job, with something that says what it did. */
static bool is_seen(const struct rec_file *f)
{
	if (!f->pid && f->rank < 0)
		return false;
	return f->coll_n || f->p2p_n || f->epochs_n;
}

static bool is_process(const struct rec_file *f)
{
	return f->pid || f->rank >= 0;
}

static struct coverage coverage_of(struct pulse *p)
{
	const struct records *r = p->records;
	struct coverage c = {.ranks_expected = p->ranks ? p->ranks : REC_NONE};

	for (size_t i = 0; i < r->files; i++) {
		const struct rec_file *f = r->file + i;

		c.dropped += f->dropped;
		if (!is_process(f))
			continue;
		c.ranks_seen += is_seen(f);
		p->silent_ranks += !is_seen(f);
		if (f->clock_error_ns < 0 && r->files > 1)
			c.clock_error_ns = REC_NONE;
		else if (c.clock_error_ns != REC_NONE && f->clock_error_ns > c.clock_error_ns)
			c.clock_error_ns = f->clock_error_ns;
	}
	return c;
}

/* A rank that no file is of may be any member that no file is of. */
static void find_members(struct pulse *p, struct pulse_comm *c)
{
	bool *with_file = check_alloc(calloc((size_t)p->ranks + 1, 1));
	bool some_unknown = false;

	for (size_t i = 0; i < p->records->files; i++)
		if (p->records->file[i].rank >= 0)
			with_file[p->records->file[i].rank] = true;
	for (int m = 0; m < c->size; m++) {
		if (c->rank[m] < 0 && c->size == p->ranks)
			c->rank[m] = m;
		if (c->rank[m] >= 0)
			c->has_rank[c->rank[m]] = true;
		else
			some_unknown = true;
	}
	for (int i = 0; some_unknown && i < p->ranks; i++)
		c->has_rank[i] = c->has_rank[i] || !with_file[i];
	free(with_file);
}

static void read_comms(struct pulse *p)
{
	for (size_t i = 0; i < p->records->files; i++) {
		const struct rec_file *f = p->records->file + i;

		for (size_t j = 0; j < f->comm_n; j++) {
			const struct rec_comm *k = f->comm + j;
			struct pulse_comm *c;
			size_t n;

			if (k->size < 1 || k->rank < 0 || k->rank >= k->size)
				continue;
			n = pulse_comm_find(p, k->comm, k->size); /* p->comm moves */
			c = p->comm + n;
			if (c->file[k->rank] >= 0 &&
			    p->records->file[c->file[k->rank]].read_ns > f->read_ns)
				continue; /* of several polls, the last */
			c->file[k->rank] = (int)i;
			c->rank[k->rank] = f->rank;
			for (int m = 0; k->hosts && m < k->size; m++)
				if (k->hosts[m])
					snprintf(c->host[m], sizeof(c->host[m]), "%s", k->hosts[m]);
			snprintf(c->host[k->rank], sizeof(c->host[k->rank]), "%s", f->host);
		}
	}
	for (size_t i = 0; i < p->comms; i++)
		find_members(p, p->comm + i);
}

static int by_start(const void *a, const void *b)
{
	const struct pulse_op *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->comm != y->comm)
		return x->comm < y->comm ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The ends of a file's parts, sorted. */
static uint64_t *ends_of(const struct pulse *p, int file, size_t *n)
{
	uint64_t *end = check_alloc(calloc(p->ops + 1, sizeof(*end)));

	*n = 0;
	for (size_t i = 0; i < p->ops; i++) {
		const struct pulse_comm *c = p->comm + p->op[i].comm;

		for (int m = 0; m < c->size; m++)
			if (c->file[m] == file && p->op[i].part[m].ended)
				end[(*n)++] = p->op[i].part[m].end_ns;
	}
	qsort(end, *n, sizeof(*end), by_value);
	return end;
}

static int64_t gap_before(uint64_t start, const uint64_t *end, size_t n)
{
	size_t low = 0;

	while (n) {
		size_t half = n / 2;

		if (end[low + half] <= start) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low ? (int64_t)(start - end[low - 1]) : -1;
}

/* What a rank computed between two operations, by its own clock alone. */
static void find_gaps(struct pulse *p)
{
	for (size_t f = 0; f < p->records->files; f++) {
		size_t n;
		uint64_t *end = ends_of(p, (int)f, &n);

		for (size_t i = 0; n && i < p->ops; i++) {
			const struct pulse_comm *c = p->comm + p->op[i].comm;

			for (int m = 0; m < c->size; m++)
				if (c->file[m] == (int)f && p->op[i].part[m].started)
					p->op[i].part[m].gap_ns = gap_before(
						p->op[i].part[m].start_ns, end, n);
		}
		free(end);
	}
}

struct pulse pulse_read(const struct records *r, const struct pulse_options *o)
{
	struct pulse p = {.records = r, .options = *o, .ranks = ranks_of(r)};

	p.curve = check_alloc(calloc(r->files + 1, sizeof(*p.curve)));
	for (size_t i = 0; i < r->files; i++)
		p.curve[i] = pulse_curve(r, r->file + i);
	read_comms(&p);
	p.coverage = coverage_of(&p);
	pulse_ops_hooks(&p);
	if (!p.ops)
		pulse_ops_infer(&p);
	if (p.ops)
		qsort(p.op, p.ops, sizeof(*p.op), by_start);
	find_gaps(&p);
	pulse_cross_check(&p);
	return p;
}

void pulse_free(struct pulse *p)
{
	for (size_t i = 0; i < p->records->files; i++)
		pulse_curve_free(p->curve + i);
	for (size_t i = 0; i < p->comms; i++) {
		free(p->comm[i].file);
		free(p->comm[i].rank);
		free(p->comm[i].host);
		free(p->comm[i].has_rank);
	}
	for (size_t i = 0; i < p->ops; i++) {
		free(p->op[i].part);
		free(p->op[i].message);
	}
	free(p->curve);
	free(p->comm);
	free(p->op);
	*p = (struct pulse){0};
}
