/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Steps of a collective from records of processes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

/* A step and whose it is. */
struct found {
	const struct rec_step *step;
	const struct rec_file *file;
};

static int found_compare(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int order = strcmp(x->step->comm, y->step->comm);

	if (order)
		return order;
	return x->step->seq < y->step->seq ? -1 : x->step->seq > y->step->seq;
}

static const struct rec_comm *comm_of(const struct found *f)
{
	for (size_t i = 0; i < f->file->comm_n; i++)
		if (!strcmp(f->file->comm[i].comm, f->step->comm))
			return f->file->comm + i;
	return NULL;
}

static struct found *list_steps(const struct records *r, const char *comm, uint64_t seq, size_t *n)
{
	struct found *list;
	size_t all = 0;

	for (size_t i = 0; i < r->files; i++)
		all += r->file[i].step_n;
	list = check_alloc(calloc(all + 1, sizeof(*list)));
	*n = 0;
	for (size_t i = 0; i < r->files; i++)
		for (size_t k = 0; k < r->file[i].step_n; k++) {
			const struct rec_step *s = r->file[i].step + k;

			if ((!comm || !strcmp(comm, s->comm)) && (!seq || seq == s->seq))
				list[(*n)++] = (struct found){s, r->file + i};
		}
	qsort(list, *n, sizeof(*list), found_compare);
	return list;
}

/* Of those in the list, the collective that took longest. */
static size_t find_longest(const struct found *list, size_t n, size_t *end)
{
	uint64_t longest = 0;
	size_t from = 0;

	*end = 0;
	for (size_t i = 0, k; i < n; i = k) {
		uint64_t first = UINT64_MAX, last = 0, took;

		for (k = i; k < n && !found_compare(list + i, list + k); k++) {
			const struct rec_step *s = list[k].step;

			if (!s->end_ns)
				continue;
			first = s->start_ns < first ? s->start_ns : first;
			last = s->end_ns > last ? s->end_ns : last;
		}
		took = last > first ? last - first : 0;
		if (*end && took <= longest)
			continue;
		longest = took;
		from = i;
		*end = k;
	}
	return from;
}

/* Table I: a step waits if its rank has sent as many as it has received. */
static bool had_to_wait(const struct rec_step *s)
{
	if (s->wait_rank == REC_NONE || s->wait_step == REC_NONE)
		return false;
	return s->send_index == REC_NONE || s->recv_index == REC_NONE ||
	       s->send_index == s->recv_index;
}

static void take_step(const struct found *f, struct path_steps *s)
{
	const struct rec_comm *comm = comm_of(f);
	const struct rec_step *from = f->step;
	struct path_step *to;

	if (comm && comm->size > s->ranks_expected)
		s->ranks_expected = comm->size;
	if (!from->end_ns || from->end_ns < from->start_ns) {
		s->unfinished++;
		return;
	}
	to = path_step_add(s);
	to->rank = comm ? comm->rank : f->file->rank;
	to->step = from->step;
	to->peer = from->peer;
	to->bytes = from->bytes;
	to->start_ns = from->start_ns;
	to->end_ns = from->end_ns;
	to->expected_ns = from->expected_ns;
	if (had_to_wait(from)) {
		to->wait_rank = from->wait_rank;
		to->wait_step = from->wait_step;
	}
	snprintf(to->flow, sizeof(to->flow), "%s", from->flow);
}

static int step_compare(const void *a, const void *b)
{
	const struct path_step *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

/* A step may go to several others, as in a tree: it is over when the last of these is. Twice to the
 * same one stays, and is an error of the graph. */
static void join_peers(struct path_steps *s)
{
	size_t kept = 0;

	if (s->n)
		qsort(s->step, s->n, sizeof(*s->step), step_compare);
	for (size_t i = 0; i < s->n; i++) {
		struct path_step *before = kept ? s->step + kept - 1 : NULL;

		if (before && before->rank == s->step[i].rank && before->step == s->step[i].step &&
		    before->peer != s->step[i].peer)
			kept--;
		s->step[kept++] = s->step[i];
	}
	s->n = kept;
}

static void take_coverage(const struct records *r, struct path_steps *s)
{
	s->clock_error_ns = PATH_NONE;
	for (size_t i = 0; i < r->files; i++) {
		s->dropped += r->file[i].dropped;
		if (r->file[i].clock_error_ns > s->clock_error_ns)
			s->clock_error_ns = r->file[i].clock_error_ns;
	}
}

/* All steps', not only those of the collective that is looked at. */
static void mark_flows(const struct records *r, struct telemetry *t)
{
	for (size_t i = 0; i < r->files; i++)
		for (size_t k = 0; k < r->file[i].step_n; k++) {
			const char *name = r->file[i].step[k].flow;
			int flow = *name ? tele_flow_find(t, name) : PATH_NONE;

			if (flow != PATH_NONE)
				t->flow[flow].is_collective = true;
		}
}

int path_take_records(const struct records *r, const char *comm, uint64_t seq, struct path_steps *s,
		      struct telemetry *t)
{
	size_t n, end, from;
	struct found *list = list_steps(r, comm, seq, &n);

	s->ranks_expected = PATH_NONE;
	take_coverage(r, s);
	mark_flows(r, t);
	from = find_longest(list, n, &end);
	for (size_t i = from; i < end; i++)
		take_step(list + i, s);
	join_peers(s);
	if (end)
		snprintf(s->comm, sizeof(s->comm), "%s", list[from].step->comm);
	if (end)
		snprintf(s->what, sizeof(s->what), "%s, collective %" PRIu64, list[from].step->comm,
			 list[from].step->seq);
	free(list);
	return end > 0;
}
