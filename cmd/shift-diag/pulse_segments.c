/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/pulse.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

static uint64_t size_of(const uint64_t *size, size_t sizes, size_t i)
{
	if (!sizes)
		return 0;
	return size[i < sizes ? i : sizes - 1];
}

size_t pulse_segment(const struct pulse_sample *s, size_t n, const uint64_t *size, size_t sizes,
		     uint64_t delta_ns, struct pulse_segment **segments)
{
	struct pulse_segment *list = check_alloc(calloc(n ? n : 1, sizeof(*list))), *last = list;
	bool open = false;

	for (size_t i = 0; i < n; i++) {
		if (open && s[i].t_ns - last->end_ns >= delta_ns && last->complete) {
			last++;
			open = false;
		}
		if (!open)
			last->start_ns = s[i].t_ns;
		open = true;
		last->end_ns = s[i].t_ns;
		last->bytes += s[i].bytes;
		last->epochs++;
		last->complete = last->bytes >= size_of(size, sizes, (size_t)(last - list));
	}
	*segments = list;
	return (size_t)(last - list) + open;
}

/* ---- cross-check with the hooks ------------------------------------------------------------- */

/* Bytes of an epoch are rounded, so that an operation may seem to lack such a part of them. */
enum { ROUNDED = 1000 };

/* What a member has to send, in operations that have delta of silence between them. */
struct parts {
	struct pulse_part *part;
	uint64_t *size;
	size_t n;
};

static void add_part(struct parts *l, const struct pulse_part *part, uint64_t delta_ns)
{
	struct pulse_part *last = l->n ? l->part + l->n - 1 : NULL;

	if (last && last->ended && part->start_ns < last->end_ns + delta_ns) {
		last->ended = part->ended;
		last->end_ns = part->end_ns > last->end_ns ? part->end_ns : last->end_ns;
		l->size[l->n - 1] += part->expected - part->expected / ROUNDED;
		return;
	}
	l->part = check_alloc(realloc(l->part, (l->n + 1) * sizeof(*l->part)));
	l->size = check_alloc(realloc(l->size, (l->n + 1) * sizeof(*l->size)));
	l->part[l->n] = *part;
	l->size[l->n++] = part->expected - part->expected / ROUNDED;
}

static struct parts parts_of(const struct pulse *p, size_t comm, int member, uint64_t delta_ns)
{
	struct parts l = {0};

	for (size_t i = 0; i < p->ops; i++) {
		const struct pulse_part *part = p->op[i].part + member;

		if (p->op[i].comm == comm && p->op[i].kind == KIND_COLLECTIVE && part->expected &&
		    part->started)
			add_part(&l, part, delta_ns);
	}
	return l;
}

/* A hook's end may come after the last byte: the program waits for others. */
static bool agrees(const struct pulse_segment *s, const struct pulse_part *part, uint64_t slack)
{
	uint64_t until = part->ended ? part->end_ns : UINT64_MAX - slack;

	return s->start_ns + slack >= part->start_ns && s->start_ns <= until &&
	       s->end_ns <= until + slack;
}

static void check_member(struct pulse *p, size_t comm, int member)
{
	const struct pulse_comm *c = p->comm + comm;
	const struct pulse_curve *curve = p->curve + c->file[member];
	uint64_t slack = 2 * curve->epoch_ns;
	struct parts l = parts_of(p, comm, member, p->options.delta_ns + slack);
	struct pulse_segment *segment = NULL;
	struct pulse_sample *s;
	size_t n, found;

	s = pulse_curve_to(curve, c->has_rank, p->ranks, &n);
	found = n && l.n ? pulse_segment(s, n, l.size, l.n, p->options.delta_ns, &segment) : 0;
	for (size_t i = 0; n && i < l.n; i++) {
		p->compared++;
		p->disagreements += i >= found || !agrees(segment + i, l.part + i, slack);
	}
	free(segment);
	free(s);
	free(l.part);
	free(l.size);
}

/* Where a rank is in two communicators with the same others, whose traffic it is cannot be told. */
static bool is_alone(const struct pulse *p, size_t comm, int member)
{
	for (size_t i = 0; i < p->comms; i++) {
		const struct pulse_comm *c = p->comm + i;
		int shared = 0;

		for (int m = 0; i != comm && m < c->size; m++)
			shared += c->rank[m] >= 0 && p->comm[comm].has_rank[c->rank[m]];
		for (int m = 0; shared > 1 && m < c->size; m++)
			if (c->file[m] == p->comm[comm].file[member])
				return false;
	}
	return true;
}

void pulse_cross_check(struct pulse *p)
{
	for (size_t i = 0; i < p->comms; i++)
		for (int m = 0; m < p->comm[i].size; m++)
			if (p->comm[i].file[m] >= 0 && is_alone(p, i, m))
				check_member(p, i, m);
}
