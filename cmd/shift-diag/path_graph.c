/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The waiting graph. Its vertices are steps; an edge leads to what a step had to wait for. */
#include <errno.h>
#include <stdlib.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

struct path_step *path_step_add(struct path_steps *s)
{
	if (!(s->n & (s->n - 1)))
		s->step = check_alloc(reallocarray(s->step, s->n ? 2 * s->n : 1, sizeof(*s->step)));
	s->step[s->n] = (struct path_step){.wait_rank = PATH_NONE, .wait_step = PATH_NONE};
	return s->step + s->n++;
}

void path_steps_free(struct path_steps *s)
{
	free(s->step);
	s->step = NULL;
	s->n = 0;
}

void path_graph_free(struct path_graph *g)
{
	free(g->critical);
	free(g->kept);
	g->critical = NULL;
	g->kept = NULL;
}

static int step_compare(const void *a, const void *b)
{
	const struct path_step *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

static uint64_t duration(const struct path_step *s)
{
	return s->end_ns > s->start_ns ? s->end_ns - s->start_ns : 0;
}

uint64_t path_step_excess_ns(const struct path_step *s)
{
	return s->expected_ns && duration(s) > s->expected_ns ? duration(s) - s->expected_ns : 0;
}

size_t path_steps_expect(struct path_steps *s)
{
	double best = 0; /* ns per byte */
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		double rate = s->step[i].bytes
				      ? (double)duration(s->step + i) / (double)s->step[i].bytes
				      : 0;

		if (rate > 0 && (best == 0 || rate < best))
			best = rate;
	}
	for (size_t i = 0; i < s->n; i++) {
		if (s->step[i].expected_ns)
			continue;
		s->step[i].expected_ns = (uint64_t)(best * (double)s->step[i].bytes);
		n++;
	}
	return n;
}

/* Two edges of a step: [0] to its rank's step before, [1] to the data that it needed. SIZE_MAX:
 * none. */
struct waits {
	size_t to[2];
};

struct build {
	struct path_step *step;
	size_t n;
	struct waits *waits;
	uint64_t *longest; /* up to and with the step; 0: not known yet */
	size_t *by;	   /* the edge's end that it is longest by */
	size_t visits;
};

static size_t step_find(const struct build *b, int rank, int step)
{
	struct path_step key = {.rank = rank, .step = step};
	struct path_step *found = bsearch(&key, b->step, b->n, sizeof(key), step_compare);

	return found ? (size_t)(found - b->step) : SIZE_MAX;
}

static void find_waits(struct build *b, struct path_graph *g)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct path_step *s = b->step + i;
		struct waits *w = b->waits + i;

		w->to[0] = i && s[-1].rank == s->rank ? i - 1 : SIZE_MAX;
		w->to[1] = SIZE_MAX;
		if (s->wait_rank == PATH_NONE)
			continue;
		w->to[1] = step_find(b, s->wait_rank, s->wait_step);
		g->missing += w->to[1] == SIZE_MAX;
	}
}

/* The edge by which i is longest; the data's if both are as long. */
static void choose_edge(struct build *b, size_t i)
{
	uint64_t before = 0;

	b->by[i] = SIZE_MAX;
	for (int e = 1; e >= 0; e--) {
		size_t to = b->waits[i].to[e];

		if (to != SIZE_MAX && (b->by[i] == SIZE_MAX || b->longest[to] > before)) {
			before = b->longest[to];
			b->by[i] = to;
		}
	}
	b->longest[i] = before + duration(b->step + i);
}

/* All steps behind what they wait for. Returns the first that waits for itself, or SIZE_MAX. */
static size_t visit_all(struct build *b)
{
	uint8_t *waiting = check_alloc(calloc(b->n, 1));
	size_t *first = check_alloc(calloc(b->n + 1, sizeof(*first)));
	size_t *who = check_alloc(calloc(2 * b->n, sizeof(*who)));
	size_t *queue = check_alloc(calloc(b->n, sizeof(*queue)));
	size_t head = 0, tail = 0, stuck = SIZE_MAX;

	for (size_t i = 0; i < b->n; i++)
		for (int e = 0; e < 2; e++)
			if (b->waits[i].to[e] != SIZE_MAX) {
				waiting[i]++;
				first[b->waits[i].to[e] + 1]++;
			}
	for (size_t i = 0; i < b->n; i++)
		first[i + 1] += first[i];
	/* Who waits for i: from first[i]; it is counted up while it is filled, and back after. */
	for (size_t i = 0; i < b->n; i++)
		for (int e = 0; e < 2; e++)
			if (b->waits[i].to[e] != SIZE_MAX)
				who[first[b->waits[i].to[e]]++] = i;
	for (size_t i = b->n; i; i--)
		first[i] = first[i - 1];
	first[0] = 0;
	for (size_t i = 0; i < b->n; i++)
		if (!waiting[i])
			queue[tail++] = i;
	while (head < tail) {
		size_t i = queue[head++];

		b->visits++;
		choose_edge(b, i);
		for (size_t k = first[i]; k < first[i + 1]; k++) {
			b->visits++;
			if (!--waiting[who[k]])
				queue[tail++] = who[k];
		}
	}
	for (size_t i = 0; tail < b->n && i < b->n && stuck == SIZE_MAX; i++)
		if (waiting[i])
			stuck = i;
	free(waiting);
	free(first);
	free(who);
	free(queue);
	return stuck;
}

/* What a step has really waited for, of the two: the data if its record says so (Table I). */
static size_t actual_wait(const struct build *b, size_t i)
{
	return b->waits[i].to[1] != SIZE_MAX ? b->waits[i].to[1] : b->waits[i].to[0];
}

static bool is_last(const struct build *b, size_t i)
{
	return i + 1 == b->n || b->step[i + 1].rank != b->step[i].rank;
}

/* Recursively drops what nobody waited for, but for the last step of each rank. */
static void prune(struct build *b, struct path_graph *g)
{
	uint32_t *waited = check_alloc(calloc(b->n, sizeof(*waited)));

	g->kept = check_alloc(calloc(b->n, sizeof(*g->kept)));
	for (size_t i = 0; i < b->n; i++) {
		g->kept[i] = true;
		if (actual_wait(b, i) != SIZE_MAX)
			waited[actual_wait(b, i)]++;
	}
	g->kept_n = b->n;
	for (size_t i = 0; i < b->n; i++)
		for (size_t at = i; at != SIZE_MAX && g->kept[at] && !waited[at] && !is_last(b, at);
		     at = actual_wait(b, at)) {
			b->visits++;
			g->kept[at] = false;
			g->kept_n--;
			if (actual_wait(b, at) != SIZE_MAX)
				waited[actual_wait(b, at)]--;
		}
	free(waited);
}

static void take_critical(struct build *b, struct path_graph *g)
{
	size_t end = SIZE_MAX, n = 0;

	for (size_t i = 0; i < b->n; i++)
		if (is_last(b, i) && (end == SIZE_MAX || b->longest[i] > b->longest[end]))
			end = i;
	g->total_ns = b->longest[end];
	for (size_t i = end; i != SIZE_MAX; i = b->by[i])
		n++;
	g->critical = check_alloc(calloc(n, sizeof(*g->critical)));
	g->critical_n = n;
	for (size_t i = end; i != SIZE_MAX; i = b->by[i])
		g->critical[--n] = i;
}

static void measure(const struct build *b, struct path_graph *g)
{
	uint64_t first = UINT64_MAX, last = 0, worst = 0;

	for (size_t i = 0; i < b->n; i++) {
		first = b->step[i].start_ns < first ? b->step[i].start_ns : first;
		last = b->step[i].end_ns > last ? b->step[i].end_ns : last;
	}
	g->makespan_ns = last > first ? last - first : 0;
	for (size_t k = 1; k < g->critical_n; k++) {
		const struct path_step *s = b->step + g->critical[k];
		uint64_t ready = b->step[g->critical[k - 1]].end_ns, gap;

		/* Idle since both of what it waited for were there. */
		for (int e = 0; e < 2; e++) {
			size_t to = b->waits[g->critical[k]].to[e];

			if (to != SIZE_MAX && b->step[to].end_ns > ready)
				ready = b->step[to].end_ns;
		}
		/* What it waited for may be a step that is missing. */
		if (s->wait_rank != PATH_NONE && b->waits[g->critical[k]].to[1] == SIZE_MAX)
			continue;
		gap = s->start_ns > ready ? s->start_ns - ready : 0;
		g->gap_ns += gap;
		if (gap > worst) {
			worst = gap;
			g->gap_rank = s->rank;
		}
	}
}

/* 0, -ENODATA or -EEXIST. */
static int sort_steps(struct path_steps *s, int *bad_rank, int *bad_step)
{
	if (!s->n)
		return -ENODATA;
	qsort(s->step, s->n, sizeof(*s->step), step_compare);
	for (size_t i = 1; i < s->n; i++)
		if (!step_compare(s->step + i - 1, s->step + i)) {
			*bad_rank = s->step[i].rank;
			*bad_step = s->step[i].step;
			return -EEXIST;
		}
	return 0;
}

int path_graph_build(struct path_steps *s, struct path_graph *g, int *bad_rank, int *bad_step)
{
	struct build b = {0};
	int status = sort_steps(s, bad_rank, bad_step);
	size_t stuck;

	*g = (struct path_graph){.gap_rank = PATH_NONE};
	if (status)
		return status;
	b = (struct build){.step = s->step,
			   .n = s->n,
			   .waits = check_alloc(calloc(s->n, sizeof(*b.waits))),
			   .longest = check_alloc(calloc(s->n, sizeof(*b.longest))),
			   .by = check_alloc(calloc(s->n, sizeof(*b.by)))};
	find_waits(&b, g);
	stuck = visit_all(&b);
	if (stuck == SIZE_MAX) {
		prune(&b, g);
		take_critical(&b, g);
		measure(&b, g);
	} else {
		*bad_rank = s->step[stuck].rank;
		*bad_step = s->step[stuck].step;
	}
	g->visits = b.visits;
	free(b.waits);
	free(b.longest);
	free(b.by);
	return stuck == SIZE_MAX ? 0 : -ELOOP;
}
