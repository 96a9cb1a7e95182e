/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What kind of trouble a provenance graph shows. */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path.h"
#include "common/cli.h"

const char *anomaly_name(enum anomaly a)
{
	switch (a) {
	case ANOMALY_CONTENTION: return "contention";
	case ANOMALY_OWN_CONTENTION: return "own-contention";
	case ANOMALY_INCAST: return "incast";
	case ANOMALY_BACKPRESSURE: return "backpressure";
	case ANOMALY_STORM: return "storm";
	case ANOMALY_LOAD_IMBALANCE: return "load-imbalance";
	case ANOMALY_LOOP: return "loop";
	case ANOMALY_DEADLOCK: return "deadlock";
	}
	return "";
}

struct search {
	const struct telemetry *t;
	const struct provenance *g;
	const struct signature_limits *limits;
	const uint64_t *seen_ns;
	struct findings *f;
	uint8_t *visited; /* by port */
	int *stack;	  /* of ports */
};

/* ---- what was found ----------------------------------------------------------------------------
 */

/* That of this kind with this root, seen once more in this window. */
static struct finding *add_finding(struct search *s, enum anomaly anomaly, int port, int at)
{
	struct findings *f = s->f;
	struct finding *made;

	for (size_t i = 0; i < f->n; i++)
		if (f->finding[i].anomaly == anomaly && f->finding[i].port == port)
			return f->finding + i;
	f->finding = check_alloc(reallocarray(f->finding, f->n + 1, sizeof(*f->finding)));
	made = f->finding + f->n++;
	*made = (struct finding){
		.anomaly = anomaly, .port = port, .at = at, .first_ns = s->g->from_ns};
	return made;
}

/* Once per window, however often it is found there. */
static void count_window(const struct search *s, struct finding *f, double weight)
{
	uint64_t window = s->limits->window_ns, now = s->g->from_ns;

	if (!f->windows || f->last_ns / window != now / window)
		f->windows++;
	f->last_ns = now;
	f->weight += weight;
}

static void add_flow(struct finding *f, int flow)
{
	size_t at = 0;

	while (at < f->flow_n && f->flow[at] < flow)
		at++;
	if (at < f->flow_n && f->flow[at] == flow)
		return;
	f->flow = check_alloc(reallocarray(f->flow, f->flow_n + 1, sizeof(*f->flow)));
	memmove(f->flow + at + 1, f->flow + at, (f->flow_n - at) * sizeof(*f->flow));
	f->flow[at] = flow;
	f->flow_n++;
}

void findings_free(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->finding[i].flow);
	free(f->finding);
	*f = (struct findings){0};
}

/* ---- flows at a port ---------------------------------------------------------------------------
 */

static size_t first_fp(const struct provenance *g, int port)
{
	size_t low = 0, high = g->fp_n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->fp[middle].port < port)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Flows that wait there for each other. */
static int contenders(const struct search *s, int port, bool others_only)
{
	int n = 0;

	for (size_t i = first_fp(s->g, port); i < s->g->fp_n && s->g->fp[i].port == port; i++)
		n += s->g->fp[i].flow_waits > 0 &&
		     !(others_only && s->t->flow[s->g->fp[i].flow].is_collective);
	return n;
}

static bool is_contended(const struct search *s, int port)
{
	return contenders(s, port, false) >= 2;
}

/* The others that wait there. */
static void blame_port(const struct search *s, struct finding *f, int port)
{
	for (size_t i = first_fp(s->g, port); i < s->g->fp_n && s->g->fp[i].port == port; i++)
		if (s->g->fp[i].flow_waits > 0 && !s->t->flow[s->g->fp[i].flow].is_collective)
			add_flow(f, s->g->fp[i].flow);
}

/* ---- contention, incast, load imbalance ---------------------------------------------------------
 */

static void find_contention(struct search *s)
{
	const struct provenance *g = s->g;

	for (size_t i = 0; i < g->ff_n; i++) {
		const struct prov_flow_flow *w = g->ff + i;
		bool other = !s->t->flow[w->for_flow].is_collective;
		struct finding *f;

		if (!s->t->flow[w->waits].is_collective)
			continue;
		f = add_finding(s, other ? ANOMALY_CONTENTION : ANOMALY_OWN_CONTENTION, w->port,
				w->port);
		count_window(s, f, w->weight);
		if (other)
			add_flow(f, w->for_flow);
	}
}

static bool is_last_hop(const struct telemetry *t, int port)
{
	return t->port[port].peer != PATH_NONE && t->port[t->port[port].peer].is_host;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* So many others began together, towards the host behind this port? */
static void find_incast(struct search *s, int port, int at)
{
	size_t need = (size_t)s->limits->incast_flows, n = 0;
	int others = contenders(s, port, true);
	uint64_t *began;

	if (others < s->limits->incast_flows || !is_last_hop(s->t, port))
		return;
	began = check_alloc(calloc((size_t)others, sizeof(*began)));
	for (size_t i = first_fp(s->g, port); i < s->g->fp_n && s->g->fp[i].port == port; i++)
		if (s->g->fp[i].flow_waits > 0 && !s->t->flow[s->g->fp[i].flow].is_collective)
			began[n++] = s->seen_ns[s->g->fp[i].flow];
	qsort(began, n, sizeof(*began), by_time);
	for (size_t i = 0; i + need <= n; i++)
		if (began[i + need - 1] - began[i] <= s->limits->together_ns) {
			struct finding *f = add_finding(s, ANOMALY_INCAST, port, at);

			count_window(s, f, 0);
			blame_port(s, f, port);
			break;
		}
	free(began);
}

/* All ports of the group are known, one of them carries most, and there the collective waits. */
static void find_imbalance(struct search *s, int port)
{
	int group = s->t->port[port].group, n = 0;
	double sum = 0, mine = 0;

	if (group == PATH_NONE)
		return;
	for (size_t i = 0; i < s->t->port_n; i++) {
		double packets;

		if (s->t->port[i].group != group)
			continue;
		if (s->g->sample_of[i] == PATH_NONE)
			return;
		packets = (double)s->t->sample[s->g->sample_of[i]].packets;
		sum += packets;
		mine = (int)i == port ? packets : mine;
		n++;
	}
	if (n > 1 && mine > s->limits->imbalance_ratio * sum / n)
		count_window(s, add_finding(s, ANOMALY_LOAD_IMBALANCE, port, port), mine);
}

/* ---- halted ports: backpressure and storm
 * --------------------------------------------------------- */

static size_t first_pp(const struct provenance *g, int from)
{
	size_t i = 0;

	while (i < g->pp_n && g->pp[i].from < from)
		i++;
	return i;
}

/* Was the flow seen at a port of that switch? */
static bool was_at(const struct search *s, int flow, const char *node)
{
	for (size_t i = 0; i < s->g->fp_n; i++)
		if (s->g->fp[i].flow == flow && !strcmp(s->t->port[s->g->fp[i].port].node, node))
			return true;
	return false;
}

/* Is it known where the traffic of a halted port goes, by its meters or as each of its flows was
 * seen behind it; or are all ports of the switch behind it known? Else contention there may have
 * been missed. */
static bool is_traced(const struct search *s, int port)
{
	const char *node = s->t->port[s->t->port[port].peer].node;
	size_t edge = first_pp(s->g, port), flows = 0, seen = 0;

	if (edge < s->g->pp_n && s->g->pp[edge].from == port)
		return true;
	for (size_t i = first_fp(s->g, port); i < s->g->fp_n && s->g->fp[i].port == port; i++) {
		flows++;
		seen += was_at(s, s->g->fp[i].flow, node);
	}
	if (flows && seen == flows)
		return true;
	for (size_t i = 0; i < s->t->port_n; i++)
		if ((int)i != s->t->port[port].peer && s->g->sample_of[i] == PATH_NONE &&
		    !strcmp(s->t->port[i].node, node))
			return false;
	return true;
}

struct roots {
	int contended; /* the first port found with contention; PATH_NONE */
	int source;    /* a port that sends pauses though nothing contends; PATH_NONE */
	bool untraced; /* a chain leaves what was sampled */
};

/* A halted port behind which nothing queues, nor is halted. What halted it may be gone by now. */
static void end_of_chain(const struct search *s, int port, struct roots *r)
{
	int peer = s->t->port[port].peer;

	if (!s->g->paused[port])
		return;
	if (peer == PATH_NONE)
		r->untraced = true;
	else if (s->t->port[peer].is_host || is_traced(s, port))
		r->source = r->source == PATH_NONE ? peer : r->source;
	else
		r->untraced = true;
}

/* Along the spreading of pauses, from a halted port to where it comes from. */
static void trace_pauses(struct search *s, int from, struct roots *r)
{
	size_t depth = 1;

	*r = (struct roots){.contended = PATH_NONE, .source = PATH_NONE};
	memset(s->visited, 0, s->t->port_n);
	s->stack[0] = from;
	s->visited[from] = 1;
	while (depth) {
		int at = s->stack[--depth];
		bool goes_on = false;

		for (size_t e = first_pp(s->g, at); e < s->g->pp_n && s->g->pp[e].from == at; e++) {
			int to = s->g->pp[e].to;

			if (s->g->halted[to]) {
				goes_on = true;
				if (!s->visited[to])
					s->stack[depth++] = to;
				s->visited[to] = 1;
			} else if (is_contended(s, to)) {
				goes_on = true;
				r->contended = r->contended == PATH_NONE ? to : r->contended;
			} else if (s->g->queued[to] && s->t->port[to].peer != PATH_NONE) {
				/* One flow alone queues: its link or its receiver is slow. */
				goes_on = true;
				if (r->source == PATH_NONE)
					r->source = s->t->port[to].peer;
			}
		}
		if (!goes_on)
			end_of_chain(s, at, r);
	}
}

static void find_halts(struct search *s)
{
	int last = PATH_NONE;

	for (size_t i = 0; i < s->g->fp_n; i++) {
		const struct prov_flow_port *w = s->g->fp + i;
		struct finding *f;
		struct roots r;

		if (!s->t->flow[w->flow].is_collective || !w->waits || !s->g->halted[w->port] ||
		    w->port == last)
			continue;
		last = w->port;
		trace_pauses(s, w->port, &r);
		if (r.contended != PATH_NONE) {
			f = add_finding(s, ANOMALY_BACKPRESSURE, r.contended, w->port);
			count_window(s, f, w->flow_waits);
			blame_port(s, f, r.contended);
			find_incast(s, r.contended, w->port);
		} else if (r.source != PATH_NONE && !r.untraced) {
			f = add_finding(s, ANOMALY_STORM, r.source, w->port);
			count_window(s, f, w->flow_waits);
		} else if (r.untraced) {
			f = add_finding(s, ANOMALY_BACKPRESSURE, PATH_NONE, w->port);
			count_window(s, f, w->flow_waits);
		}
	}
}

/* ---- loop, deadlock
 * -------------------------------------------------------------------------------- */

/* The port by which a flow leaves the switch behind this one. */
static int next_hop(const struct search *s, const int *ports, size_t n, int port)
{
	int peer = s->t->port[port].peer;

	for (size_t i = 0; peer != PATH_NONE && i < n; i++)
		if (!strcmp(s->t->port[ports[i]].node, s->t->port[peer].node))
			return ports[i];
	return PATH_NONE;
}

/* From its first port it comes back to one where it has been. */
static int comes_back(const struct search *s, const int *ports, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int at = ports[i];

		for (size_t hops = 0; hops < n && at != PATH_NONE; hops++) {
			at = next_hop(s, ports, n, at);
			if (at == ports[i])
				return at;
		}
	}
	return PATH_NONE;
}

enum { HOPS_MAX = 32 };

struct hop {
	int flow, port;
};

static int by_flow(const void *a, const void *b)
{
	const struct hop *x = a, *y = b;

	return x->flow != y->flow ? (x->flow < y->flow ? -1 : 1)
				  : (x->port < y->port ? -1 : x->port > y->port);
}

static void find_loops(struct search *s)
{
	struct hop *hop = check_alloc(calloc(s->g->fp_n + 1, sizeof(*hop)));

	for (size_t i = 0; i < s->g->fp_n; i++)
		hop[i] = (struct hop){s->g->fp[i].flow, s->g->fp[i].port};
	qsort(hop, s->g->fp_n, sizeof(*hop), by_flow);
	for (size_t i = 0, n; i < s->g->fp_n; i += n) {
		int ports[HOPS_MAX], back;
		size_t kept = 0;

		for (n = 0; i + n < s->g->fp_n && hop[i + n].flow == hop[i].flow; n++)
			if (kept < HOPS_MAX)
				ports[kept++] = hop[i + n].port;
		back = comes_back(s, ports, kept);
		if (back != PATH_NONE) {
			struct finding *f = add_finding(s, ANOMALY_LOOP, back, back);

			count_window(s, f, 0);
			add_flow(f, hop[i].flow);
		}
	}
	free(hop);
}

/* Halted, and nothing got through. */
static bool is_stuck(const struct search *s, int port)
{
	int sample = s->g->sample_of[port];

	return s->g->halted[port] &&
	       (sample == PATH_NONE || s->t->sample[sample].packets <= s->t->sample[sample].paused);
}

/* Can it be reached from itself, over stuck ports only? */
static bool waits_for_itself(struct search *s, int port)
{
	size_t depth = 1;

	memset(s->visited, 0, s->t->port_n);
	s->stack[0] = port;
	while (depth) {
		int at = s->stack[--depth];

		for (size_t e = first_pp(s->g, at); e < s->g->pp_n && s->g->pp[e].from == at; e++) {
			int to = s->g->pp[e].to;

			if (to == port)
				return true;
			if (s->visited[to] || !is_stuck(s, to))
				continue;
			s->visited[to] = 1;
			s->stack[depth++] = to;
		}
	}
	return false;
}

static void find_deadlock(struct search *s)
{
	int last = PATH_NONE;

	for (size_t i = 0; i < s->g->pp_n; i++) {
		int port = s->g->pp[i].from;

		if (port == last || !is_stuck(s, port))
			continue;
		last = port;
		if (!waits_for_itself(s, port))
			continue;
		count_window(s, add_finding(s, ANOMALY_DEADLOCK, port, port), 0);
		return; /* the others of the cycle are the same one */
	}
}

/* ---- all
 * --------------------------------------------------------------------------------------------- */

void signatures_find(const struct telemetry *t, const struct provenance *g,
		     const struct signature_limits *limits, const uint64_t *seen_ns,
		     struct findings *f)
{
	struct search s = {.t = t,
			   .g = g,
			   .limits = limits,
			   .seen_ns = seen_ns,
			   .f = f,
			   .visited = check_alloc(calloc(t->port_n + 1, 1)),
			   .stack = check_alloc(calloc(t->port_n + 1, sizeof(int)))};
	int last = PATH_NONE;

	find_contention(&s);
	for (size_t i = 0; i < g->fp_n; i++) {
		if (!t->flow[g->fp[i].flow].is_collective || g->fp[i].flow_waits <= 0 ||
		    g->fp[i].port == last)
			continue;
		last = g->fp[i].port;
		find_incast(&s, last, last);
		find_imbalance(&s, last);
	}
	find_halts(&s);
	find_loops(&s);
	find_deadlock(&s);
	free(s.visited);
	free(s.stack);
}

static uint64_t *first_seen(const struct telemetry *t)
{
	uint64_t *seen = check_alloc(calloc(t->flow_n + 1, sizeof(*seen)));

	for (size_t i = 0; i < t->flow_n; i++)
		seen[i] = t->flow[i].start_ns;
	for (size_t i = 0; i < t->sample_n; i++)
		for (size_t k = 0; k < t->sample[i].lines; k++) {
			int flow = t->line[t->sample[i].first_line + k].flow;

			if (flow != PATH_NONE && !seen[flow])
				seen[flow] = t->sample[i].t_ns;
		}
	return seen;
}

void signatures_find_all(const struct telemetry *t, const struct signature_limits *limits,
			 uint64_t from_ns, uint64_t to_ns, struct findings *f)
{
	uint64_t *seen = first_seen(t);
	size_t at = provenance_sample_at(t, from_ns);

	while (at < t->sample_n && t->sample[at].t_ns < to_ns) {
		struct provenance g;

		at = provenance_round(t, at, limits->window_ns, &g);
		signatures_find(t, &g, limits, seen, f);
		provenance_free(&g);
	}
	free(seen);
}
