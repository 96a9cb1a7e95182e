/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How much each other flow has cost a collective: R(f,p), R(f,cf), R(f). */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

/* ---- ports, each behind those that it waits for ---------------------------------------------- */

struct order {
	const struct provenance *g;
	uint8_t *state; /* by port: 0 new, 1 on the stack, 2 done */
	bool *is_cut;	/* by edge: it would close a cycle */
	int *port;	/* in order */
	size_t n;
	size_t *next; /* by depth of the stack: the edge to follow */
	int *stack;
};

static size_t first_edge(const struct provenance *g, int from)
{
	size_t low = 0, high = g->pp_n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->pp[middle].from < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Depth first, without recursion: a chain may be as long as there are ports. */
static void order_from(struct order *o, int port)
{
	size_t depth = 0;

	o->stack[0] = port;
	o->next[0] = first_edge(o->g, port);
	o->state[port] = 1;
	for (;;) {
		size_t e = o->next[depth];
		int at = o->stack[depth], to;

		if (e == o->g->pp_n || o->g->pp[e].from != at) {
			o->state[at] = 2;
			o->port[o->n++] = at;
			if (!depth--)
				return;
			continue;
		}
		o->next[depth]++;
		to = o->g->pp[e].to;
		if (o->state[to] == 1)
			o->is_cut[e] = true;
		if (o->state[to])
			continue;
		o->stack[++depth] = to;
		o->next[depth] = first_edge(o->g, to);
		o->state[to] = 1;
	}
}

static struct order order_ports(const struct telemetry *t, const struct provenance *g)
{
	struct order o = {.g = g,
			  .state = check_alloc(calloc(t->port_n + 1, 1)),
			  .is_cut = check_alloc(calloc(g->pp_n + 1, 1)),
			  .port = check_alloc(calloc(t->port_n + 1, sizeof(int))),
			  .next = check_alloc(calloc(t->port_n + 1, sizeof(size_t))),
			  .stack = check_alloc(calloc(t->port_n + 1, sizeof(int)))};

	for (size_t i = 0; i < g->pp_n; i++)
		if (!o.state[g->pp[i].from])
			order_from(&o, g->pp[i].from);
	return o;
}

static void order_free(struct order *o)
{
	free(o->state);
	free(o->is_cut);
	free(o->port);
	free(o->next);
	free(o->stack);
}

/* ---- R(f, p) and R(f, cf) ----------------------------------------------------------------------
 */

/* Equation 1 of flow f for all ports. */
static void rate_ports(const struct provenance *g, const struct order *o, int f, double *r)
{
	for (size_t i = 0; i < g->fp_n; i++)
		if (g->fp[i].flow == f)
			r[g->fp[i].port] = g->fp[i].port_waits;
	for (size_t i = 0; i < o->n; i++) {
		int p = o->port[i];

		for (size_t e = first_edge(g, p); e < g->pp_n && g->pp[e].from == p; e++)
			if (!o->is_cut[e])
				r[p] += r[g->pp[e].to] * g->pp[e].weight;
	}
}

static const struct prov_flow_port *fp_find(const struct provenance *g, int flow, int port)
{
	size_t low = 0, high = g->fp_n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct prov_flow_port *fp = g->fp + middle;

		if (fp->port == port && fp->flow == flow)
			return fp;
		if (fp->port < port || (fp->port == port && fp->flow < flow))
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static double ff_weight(const struct provenance *g, int waits, int for_flow, int port)
{
	for (size_t i = 0; i < g->ff_n; i++)
		if (g->ff[i].waits == waits && g->ff[i].for_flow == for_flow &&
		    g->ff[i].port == port)
			return g->ff[i].weight;
	return 0;
}

/* Equation 2. */
static double rate_for(const struct provenance *g, int cf, uint64_t from_ns, uint64_t to_ns, int f,
		       const double *r)
{
	double sum = 0;

	for (size_t i = 0; i < g->fp_n; i++) {
		const struct prov_flow_port *at = g->fp + i, *mine;

		if (at->flow != cf || !at->waits || at->t_ns < from_ns || at->t_ns >= to_ns)
			continue;
		mine = fp_find(g, f, at->port);
		if (mine && mine->waits)
			sum += ff_weight(g, cf, f, at->port) - mine->port_waits;
		sum += r[at->port];
	}
	return sum > 0 ? sum : 0;
}

static bool waits_somewhere(const struct provenance *g, int cf, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < g->fp_n; i++)
		if (g->fp[i].flow == cf && g->fp[i].waits && g->fp[i].t_ns >= from_ns &&
		    g->fp[i].t_ns < to_ns)
			return true;
	return false;
}

void rate_step(const struct telemetry *t, const struct provenance *g, int cf, uint64_t from_ns,
	       uint64_t to_ns, double factor, double *r)
{
	struct order o;
	double *by_port;
	bool *done;

	if (factor <= 0 || !waits_somewhere(g, cf, from_ns, to_ns))
		return;
	o = order_ports(t, g);
	by_port = check_alloc(calloc(t->port_n + 1, sizeof(*by_port)));
	done = check_alloc(calloc(t->flow_n + 1, 1));
	for (size_t i = 0; i < g->fp_n; i++) {
		int f = g->fp[i].flow;

		if (done[f] || t->flow[f].is_collective)
			continue;
		done[f] = true;
		memset(by_port, 0, t->port_n * sizeof(*by_port));
		rate_ports(g, &o, f, by_port);
		r[f] += factor * rate_for(g, cf, from_ns, to_ns, f, by_port);
	}
	free(done);
	free(by_port);
	order_free(&o);
}

/* ---- R(f) --------------------------------------------------------------------------------------
 */

static void rate_window(const struct telemetry *t, const struct path_steps *s,
			const struct path_graph *g, const int *cf, double all,
			const struct provenance *p, double *r)
{
	for (size_t k = 0; k < g->critical_n; k++) {
		const struct path_step *step = s->step + g->critical[k];
		double excess = (double)path_step_excess_ns(step);

		if (cf[k] != PATH_NONE && step->start_ns < p->to_ns && step->end_ns > p->from_ns)
			rate_step(t, p, cf[k], step->start_ns, step->end_ns, excess / all, r);
	}
}

/* The flow of that name, without adding it. */
static int flow_of(const struct telemetry *t, const char *name)
{
	for (size_t i = 0; *name && i < t->flow_n; i++)
		if (!strcmp(t->flow[i].name, name))
			return (int)i;
	return PATH_NONE;
}

double *rate_flows(const struct telemetry *t, const struct path_steps *s,
		   const struct path_graph *g, uint64_t window_ns)
{
	double *r = check_alloc(calloc(t->flow_n + 1, sizeof(*r)));
	int *cf = check_alloc(calloc(g->critical_n + 1, sizeof(*cf)));
	uint64_t at = 0, last = 0;
	double all = 0;

	for (size_t k = 0; k < g->critical_n; k++) {
		const struct path_step *step = s->step + g->critical[k];

		cf[k] = flow_of(t, step->flow);
		all += (double)path_step_excess_ns(step);
		last = step->end_ns > last ? step->end_ns : last;
	}
	if (g->critical_n)
		at = provenance_next(t, s->step[g->critical[0]].start_ns, window_ns);
	while (all > 0 && at < last) {
		struct provenance p;

		provenance_build(t, at, at + window_ns, &p);
		rate_window(t, s, g, cf, all, &p, r);
		provenance_free(&p);
		at = provenance_next(t, at + window_ns, window_ns);
	}
	free(cf);
	return r;
}
