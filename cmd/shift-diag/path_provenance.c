/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The provenance graph of the network: flows wait on ports, ports for flows and for other ports. */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

/* Steps of a replay, which has as many as there are packets times lines. */
enum { REPLAY_STEPS_MAX = 1 << 24 };

/* Of one window: more say nothing new. */
enum { METERS_MAX = 4096 };

/* Reports of one round follow one another within this part of a window. */
enum { GAP_PART = 10 };

/* ---- replay -----------------------------------------------------------------------------------
 */

struct replay {
	size_t n, packets;
	uint64_t *put, *of; /* packets of a line: in the queue already, and in all */
	size_t *depth;
	uint32_t *order;  /* whose each packet is */
	double *in_front; /* [i * n + j]: packets of j among the depth[i] last ones */
};

/* Whose turn it is, so that all lines have the same part of their packets in. */
static size_t next_line(const struct replay *r)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < r->n; i++)
		if (r->put[i] < r->of[i] &&
		    (best == SIZE_MAX || r->put[i] * r->of[best] < r->put[best] * r->of[i]))
			best = i;
	return best;
}

static void put_packets(struct replay *r, double factor, double *weight)
{
	for (size_t k = 0; k < r->packets; k++) {
		size_t i = next_line(r);

		for (size_t j = 0; j < r->n; j++)
			weight[i * r->n + j] += factor * r->in_front[i * r->n + j];
		r->put[i]++;
		r->order[k] = (uint32_t)i;
		for (size_t j = 0; j < r->n; j++) {
			if (!r->depth[j])
				continue;
			r->in_front[j * r->n + i]++;
			if (k >= r->depth[j])
				r->in_front[j * r->n + r->order[k - r->depth[j]]]--;
		}
	}
}

static size_t mean_depth(const struct tele_line *line)
{
	uint32_t unpaused = line->packets > line->paused ? line->packets - line->paused : 0;

	return unpaused ? line->depth / unpaused : 0;
}

void prov_replay(const struct tele_line *line, size_t n, double *weight)
{
	struct replay r = {.n = n};
	uint64_t packets = 0, scale = 1;

	memset(weight, 0, n * n * sizeof(*weight));
	for (size_t i = 0; i < n; i++)
		packets += line[i].packets;
	if (!packets)
		return;
	if (packets > REPLAY_STEPS_MAX / n)
		scale = packets / (REPLAY_STEPS_MAX / n) + 1;
	r.put = check_alloc(calloc(n, sizeof(*r.put)));
	r.of = check_alloc(calloc(n, sizeof(*r.of)));
	r.depth = check_alloc(calloc(n, sizeof(*r.depth)));
	r.in_front = check_alloc(calloc(n * n, sizeof(*r.in_front)));
	for (size_t i = 0; i < n; i++) {
		r.of[i] = (line[i].packets + scale - 1) / scale;
		r.packets += r.of[i];
		r.depth[i] = mean_depth(line + i);
	}
	r.order = check_alloc(calloc(r.packets, sizeof(*r.order)));
	put_packets(&r, (double)scale, weight);
	free(r.put);
	free(r.of);
	free(r.depth);
	free(r.in_front);
	free(r.order);
}

/* ---- flows and ports --------------------------------------------------------------------------
 */

#define GROW(array, n)                                                                       \
	do {                                                                                 \
		if (!((n) & ((n)-1)))                                                        \
			(array) = check_alloc(                                               \
				reallocarray((array), (n) ? 2 * (n) : 1, sizeof(*(array)))); \
	} while (0)

/* One line per flow: the sum. Returns how many. */
static size_t merge_lines(struct tele_line *line, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		size_t j = 0;

		while (j < kept && line[j].flow != line[i].flow)
			j++;
		if (j == kept) {
			line[kept++] = line[i];
			continue;
		}
		line[j].packets = line[j].packets > UINT32_MAX - line[i].packets
					  ? UINT32_MAX
					  : line[j].packets + line[i].packets;
		line[j].paused = line[j].paused > UINT32_MAX - line[i].paused
					 ? UINT32_MAX
					 : line[j].paused + line[i].paused;
		line[j].depth += line[i].depth;
	}
	return kept;
}

static bool is_shadowed(const struct tele_line *line, size_t n, size_t i)
{
	for (size_t j = i + 1; j < n; j++)
		if (line[j].flow == line[i].flow)
			return true;
	return false;
}

static void add_line(struct provenance *g, const struct tele_sample *s,
		     const struct tele_line *line, size_t n, size_t i, const double *weight)
{
	struct prov_flow_port fp = {.flow = line[i].flow, .port = s->port, .t_ns = s->t_ns};
	uint64_t packets = s->packets;

	for (size_t j = 0; j < n; j++) {
		double w = weight[i * n + j];

		if (line[j].flow == line[i].flow)
			continue;
		fp.flow_waits += w;
		if (line[j].flow == PATH_NONE || w <= 0 || is_shadowed(line, n, j))
			continue;
		GROW(g->ff, g->ff_n);
		g->ff[g->ff_n++] = (struct prov_flow_flow){.waits = line[i].flow,
							   .for_flow = line[j].flow,
							   .port = s->port,
							   .weight = w};
	}
	for (size_t j = 0; !packets && j < n; j++)
		packets += line[j].packets;
	if (packets)
		fp.port_waits = (double)line[i].packets / (double)packets * (double)s->depth;
	fp.waits = fp.flow_waits > 0 || line[i].paused || (g->halted[s->port] && line[i].packets);
	GROW(g->fp, g->fp_n);
	g->fp[g->fp_n++] = fp;
}

static void add_sample(const struct telemetry *t, const struct tele_sample *s, struct provenance *g)
{
	size_t n = s->lines;
	struct tele_line *line;
	double *weight;

	if (!n)
		return;
	line = check_alloc(calloc(n, sizeof(*line)));
	memcpy(line, t->line + s->first_line, n * sizeof(*line));
	if (!t->last_line_counts)
		n = merge_lines(line, n);
	weight = check_alloc(calloc(n * n, sizeof(*weight)));
	prov_replay(line, n, weight);
	for (size_t i = 0; i < n; i++)
		if (line[i].flow != PATH_NONE && !is_shadowed(line, n, i))
			add_line(g, s, line, n, i, weight);
	free(weight);
	free(line);
}

/* ---- ports ------------------------------------------------------------------------------------
 */

static bool pp_exists(const struct provenance *g, int from, int to)
{
	for (size_t i = 0; i < g->pp_n; i++)
		if (g->pp[i].from == from && (to == PATH_NONE || g->pp[i].to == to))
			return true;
	return false;
}

static void add_pp(struct provenance *g, int from, int to, double weight)
{
	GROW(g->pp, g->pp_n);
	g->pp[g->pp_n++] = (struct prov_port_port){.from = from, .to = to, .weight = weight};
}

/* What came from halted ports; of each pair its first meter. */
static void add_metered(const struct telemetry *t, size_t first, size_t end, struct provenance *g)
{
	for (size_t i = first; i < end; i++) {
		const struct tele_meter *m = t->meter + i;

		if (g->halted[m->from] && m->bytes && !pp_exists(g, m->from, m->to))
			add_pp(g, m->from, m->to, (double)m->bytes);
	}
}

/* The part that each halted port has in what its target got; others' traffic counts too. */
static void share_metered(const struct telemetry *t, size_t first, size_t end, struct provenance *g)
{
	double *all = check_alloc(calloc(t->port_n, sizeof(*all)));

	for (size_t i = first; i < end; i++) {
		const struct tele_meter *m = t->meter + i;
		bool is_first = true;

		for (size_t k = first; k < i && is_first; k++)
			is_first = t->meter[k].from != m->from || t->meter[k].to != m->to;
		if (is_first)
			all[m->to] += (double)m->bytes;
	}
	for (size_t i = 0; i < g->pp_n; i++)
		g->pp[i].weight /= all[g->pp[i].to];
	free(all);
}

/* One line of each pair: w(f,p) and w(p,f) of two epochs are added up. */
static void merge_epochs(struct provenance *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->fp_n; i++) {
		struct prov_flow_port *last = kept ? g->fp + kept - 1 : NULL;

		if (last && last->port == g->fp[i].port && last->flow == g->fp[i].flow) {
			last->waits |= g->fp[i].waits;
			last->flow_waits += g->fp[i].flow_waits;
			last->port_waits += g->fp[i].port_waits;
		} else {
			g->fp[kept++] = g->fp[i];
		}
	}
	g->fp_n = kept;
	kept = 0;
	for (size_t i = 0; i < g->ff_n; i++) {
		struct prov_flow_flow *last = kept ? g->ff + kept - 1 : NULL;

		if (last && last->port == g->ff[i].port && last->waits == g->ff[i].waits &&
		    last->for_flow == g->ff[i].for_flow)
			last->weight += g->ff[i].weight;
		else
			g->ff[kept++] = g->ff[i];
	}
	g->ff_n = kept;
}

static bool share_a_flow(const struct telemetry *t, const struct tele_sample *a,
			 const struct tele_sample *b)
{
	if (!a->lines || !b->lines)
		return true;
	for (size_t i = 0; i < a->lines; i++)
		for (size_t j = 0; j < b->lines; j++)
			if (t->line[a->first_line + i].flow == t->line[b->first_line + j].flow)
				return true;
	return false;
}

/* Where nothing was metered: a halted port waits for those behind it that queue, or are halted.
 * What part of it, nobody knows: no weight. */
static void add_unmetered(const struct telemetry *t, int from, struct provenance *g)
{
	const char *node;

	if (t->port[from].peer == PATH_NONE || pp_exists(g, from, PATH_NONE))
		return;
	node = t->port[t->port[from].peer].node;
	for (size_t i = 0; i < t->port_n; i++) {
		int mine = g->sample_of[from], its = g->sample_of[i];

		if ((!g->queued[i] && !g->halted[i]) || strcmp(t->port[i].node, node) ||
		    (int)i == t->port[from].peer)
			continue;
		if (mine == PATH_NONE || its == PATH_NONE ||
		    share_a_flow(t, t->sample + mine, t->sample + its))
			add_pp(g, from, (int)i, 0);
	}
}

/* ---- the graph --------------------------------------------------------------------------------
 */

static int fp_compare(const void *a, const void *b)
{
	const struct prov_flow_port *x = a, *y = b;

	return x->port != y->port ? x->port - y->port : x->flow - y->flow;
}

static int ff_compare(const void *a, const void *b)
{
	const struct prov_flow_flow *x = a, *y = b;

	if (x->port != y->port)
		return x->port - y->port;
	return x->waits != y->waits ? x->waits - y->waits : x->for_flow - y->for_flow;
}

static int pp_compare(const void *a, const void *b)
{
	const struct prov_port_port *x = a, *y = b;

	return x->from != y->from ? x->from - y->from : x->to - y->to;
}

size_t provenance_sample_at(const struct telemetry *t, uint64_t t_ns)
{
	size_t low = 0, high = t->sample_n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->sample[middle].t_ns < t_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t meter_at(const struct telemetry *t, uint64_t t_ns)
{
	size_t low = 0, high = t->meter_n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->meter[middle].t_ns < t_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t provenance_next(const struct telemetry *t, uint64_t from_ns, uint64_t window_ns)
{
	size_t i = provenance_sample_at(t, from_ns);

	return i < t->sample_n ? t->sample[i].t_ns / window_ns * window_ns : UINT64_MAX;
}

static void find_halted(const struct telemetry *t, size_t first_meter, size_t end_meter,
			struct provenance *g)
{
	for (size_t i = 0; i < t->pause_n && t->pause[i].t_ns < g->to_ns; i++)
		if (t->pause[i].end_ns > g->from_ns)
			g->paused[t->pause[i].port] = true;
	for (size_t i = 0; i < t->port_n; i++) {
		if (g->sample_of[i] != PATH_NONE && t->sample[g->sample_of[i]].paused)
			g->paused[i] = true;
		g->halted[i] |= g->paused[i];
	}
	for (size_t i = first_meter; i < end_meter; i++)
		g->halted[t->meter[i].from] |= t->meter[i].halted;
}

static void graph_begin(const struct telemetry *t, uint64_t from_ns, uint64_t to_ns,
			struct provenance *g)
{
	*g = (struct provenance){
		.from_ns = from_ns,
		.to_ns = to_ns,
		.halted = check_alloc(calloc(t->port_n + 1, 1)),
		.paused = check_alloc(calloc(t->port_n + 1, 1)),
		.queued = check_alloc(calloc(t->port_n + 1, 1)),
		.sample_of = check_alloc(calloc(t->port_n + 1, sizeof(*g->sample_of)))};
	for (size_t i = 0; i < t->port_n; i++)
		g->sample_of[i] = PATH_NONE;
}

static void graph_sort(struct provenance *g)
{
	if (g->fp_n)
		qsort(g->fp, g->fp_n, sizeof(*g->fp), fp_compare);
	if (g->ff_n)
		qsort(g->ff, g->ff_n, sizeof(*g->ff), ff_compare);
	if (g->pp_n)
		qsort(g->pp, g->pp_n, sizeof(*g->pp), pp_compare);
}

/* With sample_of. meters_ns: until then, meters count. also, n: samples of the epoch before. */
static void graph_fill(const struct telemetry *t, uint64_t meters_ns, const size_t *also, size_t n,
		       struct provenance *g)
{
	size_t first_meter = meter_at(t, g->from_ns), end_meter = meter_at(t, meters_ns);

	if (end_meter - first_meter > METERS_MAX)
		end_meter = first_meter + METERS_MAX;
	find_halted(t, first_meter, end_meter, g);
	for (size_t i = 0; i < n; i++)
		if (t->sample[also[i]].paused)
			g->halted[t->sample[also[i]].port] = true;
	for (size_t i = 0; i < t->port_n; i++) {
		if (g->sample_of[i] == PATH_NONE)
			continue;
		g->queued[i] = t->sample[g->sample_of[i]].depth;
		add_sample(t, t->sample + g->sample_of[i], g);
	}
	for (size_t i = 0; i < n; i++) {
		g->queued[t->sample[also[i]].port] |= t->sample[also[i]].depth > 0;
		add_sample(t, t->sample + also[i], g);
	}
	add_metered(t, first_meter, end_meter, g);
	share_metered(t, first_meter, end_meter, g);
	for (size_t i = 0; i < t->port_n; i++)
		if (g->halted[i])
			add_unmetered(t, (int)i, g);
	graph_sort(g);
}

void provenance_build(const struct telemetry *t, uint64_t from_ns, uint64_t to_ns,
		      struct provenance *g)
{
	size_t first = provenance_sample_at(t, from_ns), end = provenance_sample_at(t, to_ns);

	graph_begin(t, from_ns, to_ns, g);
	for (size_t i = first; i < end; i++)
		if (g->sample_of[t->sample[i].port] == PATH_NONE && !t->sample[i].before)
			g->sample_of[t->sample[i].port] = (int)i;
	graph_fill(t, to_ns, NULL, 0, g);
}

static uint64_t min_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

size_t provenance_round(const struct telemetry *t, size_t from, uint64_t window_ns,
			struct provenance *g)
{
	uint64_t end_ns = t->sample[from].t_ns + window_ns, last_ns = t->sample[from].t_ns;
	size_t *also = NULL, n = 0, i;
	int *before = check_alloc(calloc(t->port_n + 1, sizeof(*before)));

	graph_begin(t, t->sample[from].t_ns, 0, g);
	for (i = 0; i < t->port_n; i++)
		before[i] = PATH_NONE;
	for (i = from; i < t->sample_n && t->sample[i].t_ns < end_ns; i++) {
		const struct tele_sample *s = t->sample + i;
		int *mine = s->before ? before + s->port : g->sample_of + s->port;

		/* What was asked at another time may have been otherwise. */
		if (s->t_ns - last_ns > window_ns / GAP_PART)
			break;
		last_ns = s->t_ns;
		/* A port that two asked at the same moment said the same. */
		if (*mine != PATH_NONE && t->sample[*mine].t_ns != s->t_ns)
			break;
		if (*mine != PATH_NONE)
			continue;
		*mine = (int)i;
		if (s->before) {
			GROW(also, n);
			also[n++] = i;
		}
	}
	g->to_ns = t->sample[i - 1].t_ns + 1;
	graph_fill(t, i < t->sample_n ? min_ns(t->sample[i].t_ns, end_ns) : end_ns, also, n, g);
	merge_epochs(g);
	free(also);
	free(before);
	return i;
}

void provenance_free(struct provenance *g)
{
	free(g->fp);
	free(g->ff);
	free(g->pp);
	free(g->halted);
	free(g->paused);
	free(g->queued);
	free(g->sample_of);
	*g = (struct provenance){0};
}
