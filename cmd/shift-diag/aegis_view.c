/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Records by communicator and member. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/aegis.h"
#include "common/cli.h"

static bool is_same_process(const struct rec_file *a, const struct rec_file *b)
{
	if (a->rank != b->rank && a->rank != REC_NONE && b->rank != REC_NONE)
		return false; /* of two containers */
	return a->pid == b->pid && !strcmp(a->host, b->host) && !strcmp(a->boot_id, b->boot_id);
}

/* Of several files of one process, polls of it, the last. */
static void add_process(struct aegis_view *v, const struct rec_file *f)
{
	for (size_t i = 0; i < v->processes; i++)
		if (is_same_process(v->process[i], f)) {
			if (f->read_ns >= v->process[i]->read_ns)
				v->process[i] = f;
			return;
		}
	v->process = check_alloc(reallocarray(v->process, v->processes + 1, sizeof(*v->process)));
	v->process[v->processes++] = f;
}

static struct aegis_comm *comm_of(struct aegis_view *v, const struct rec_comm *c)
{
	struct aegis_comm *found;

	for (size_t i = 0; i < v->comms; i++)
		if (!strcmp(v->comm[i].name, c->comm)) {
			found = v->comm + i;
			if (c->size > found->size) {
				found->size = c->size;
				found->hosts = NULL; /* of fewer */
			}
			return found;
		}
	v->comm = check_alloc(reallocarray(v->comm, v->comms + 1, sizeof(*v->comm)));
	found = v->comm + v->comms++;
	*found = (struct aegis_comm){.name = c->comm, .size = c->size};
	return found;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Pauses of long ago do not matter: a rank that was stopped once would make each later hang be seen
 * later. */
static void find_longest_pause(struct aegis_member *m, const char *comm, uint64_t window_ns)
{
	uint64_t before = 0;

	for (size_t i = 0; i < m->file->coll_n; i++) {
		const struct rec_coll *c = m->file->coll + i;

		if (strcmp(c->comm, comm))
			continue;
		if (before && c->launch_ns > before && c->launch_ns + window_ns >= m->active_ns)
			m->longest_ns = later(m->longest_ns, c->launch_ns - before);
		before = c->launch_ns;
	}
}

static void look_at_collectives(struct aegis_member *m, const char *comm)
{
	/* Who does something elsewhere does not stand still. */
	for (size_t i = 0; i < m->file->p2p_n; i++)
		m->active_ns = later(m->active_ns,
				     later(m->file->p2p[i].launch_ns, m->file->p2p[i].end_ns));
	for (size_t i = 0; i < m->file->coll_n; i++) {
		const struct rec_coll *c = m->file->coll + i;

		m->active_ns = later(m->active_ns, later(c->launch_ns, c->end_ns));
		if (strcmp(c->comm, comm))
			continue;
		if (c->seq >= m->launched)
			m->unended = c->launch_only;
		m->launched = later(m->launched, c->seq);
		if (!c->end_ns && (!m->open || c->seq < m->open->seq))
			m->open = c;
	}
}

static void add_member(struct aegis_comm *c, const struct rec_file *f, const struct rec_comm *r,
		       uint64_t window_ns)
{
	struct aegis_member *m;

	if (r->hosts && r->size == c->size)
		c->hosts = r->hosts;
	for (size_t i = 0; i < c->members; i++)
		if (c->member[i].rank == r->rank) { /* its process was started again */
			if (f->began_ns < c->member[i].file->began_ns)
				return;
			m = c->member + i;
			goto fill;
		}
	c->member = check_alloc(reallocarray(c->member, c->members + 1, sizeof(*c->member)));
	m = c->member + c->members++;
fill:
	*m = (struct aegis_member){.file = f, .rank = r->rank};
	look_at_collectives(m, r->comm);
	find_longest_pause(m, r->comm, window_ns);
}

static int by_rank(const void *a, const void *b)
{
	const struct aegis_member *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct coverage coverage_of(const struct aegis_view *v, const struct records *r)
{
	struct coverage c = {
		.ranks_expected = REC_NONE, .ranks_seen = (int)v->processes, .clock_error_ns = 0};

	for (size_t i = 0; i < v->comms; i++)
		if (v->comm[i].size > c.ranks_expected)
			c.ranks_expected = v->comm[i].size;
	for (size_t i = 0; i < v->processes; i++) {
		const struct rec_file *f = v->process[i];

		if (f->rank >= c.ranks_expected && f->rank != REC_NONE)
			c.ranks_expected = f->rank + 1;
		c.dropped += f->dropped + f->bad_lines + f->strangers;
		if (f->clock_error_ns == REC_NONE)
			c.clock_error_ns = REC_NONE;
		else if (c.clock_error_ns != REC_NONE && f->clock_error_ns > c.clock_error_ns)
			c.clock_error_ns = f->clock_error_ns;
	}
	if (!v->processes || !r->files)
		c.clock_error_ns = REC_NONE;
	return c;
}

struct aegis_view aegis_view_make(const struct records *r, uint64_t window_ns)
{
	struct aegis_view v = {0};

	for (size_t i = 0; i < r->files; i++)
		if (r->file[i].pid)
			add_process(&v, r->file + i);
	for (size_t i = 0; i < v.processes; i++)
		for (size_t j = 0; j < v.process[i]->comm_n; j++)
			add_member(comm_of(&v, v.process[i]->comm + j), v.process[i],
				   v.process[i]->comm + j, window_ns);
	for (size_t i = 0; i < v.comms; i++)
		qsort(v.comm[i].member, v.comm[i].members, sizeof(*v.comm[i].member), by_rank);
	v.coverage = coverage_of(&v, r);
	return v;
}

void aegis_view_free(struct aegis_view *v)
{
	for (size_t i = 0; i < v->comms; i++)
		free(v->comm[i].member);
	free(v->comm);
	free(v->process);
}

bool aegis_is_complete(const struct aegis_view *v)
{
	for (size_t i = 0; i < v->comms; i++)
		if (v->comm[i].members < (size_t)v->comm[i].size)
			return false;
	return v->coverage.ranks_expected != REC_NONE &&
	       v->coverage.ranks_seen >= v->coverage.ranks_expected;
}

double aegis_coverage(const struct aegis_view *v)
{
	const struct coverage *c = &v->coverage;
	double share = c->ranks_expected > 0 ? (double)c->ranks_seen / c->ranks_expected : 0.5;

	for (size_t i = 0; i < v->processes; i++)
		if (v->process[i]->unobserved)
			share *= 1 - 0.5 / (double)v->processes;
	return fmin(share, 1) * (c->dropped ? 0.9 : 1);
}

void aegis_tell_missing(struct verdict *v, const struct aegis_comm *c)
{
	size_t m = 0, told = 0, missing = (size_t)c->size - c->members;

	for (int rank = 0; rank < c->size && told < 8; rank++) {
		if (m < c->members && c->member[m].rank == rank) {
			m++;
			continue;
		}
		verdict_says(v, "%s: rank %d%s%s has no records", c->name, rank,
			     c->hosts ? " on " : "", c->hosts ? c->hosts[rank] : "");
		told++;
	}
	if (missing > told)
		verdict_says(v, "%s: nor have %zu other ranks", c->name, missing - told);
}

struct culprit *aegis_blame(struct verdict *v, const struct rec_file *f)
{
	struct culprit *c = verdict_blame(v);

	c->rank = f->rank;
	c->pid = f->pid;
	snprintf(c->host, sizeof(c->host), "%s", f->host);
	return c;
}
