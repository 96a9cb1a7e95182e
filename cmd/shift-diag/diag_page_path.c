/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The waiting graph of a collective with its critical path, and the provenance graph: which flows
 * waited at which ports, for whom. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/diag_page.h"
#include "common/cli.h"
#include "common/html.h"
#include "common/page.h"

/* ---- the waiting graph ---------------------------------------------------------------------- */

enum { STEPS_MAX = 1200, STEP_ROWS_MAX = 64, ROW = 30, TOP = 10 };

struct waiting {
	const struct path_result *r;
	bool *critical; /* by step */
	bool *drawn;
	int *row; /* by step */
	int rows;
	double span;
};

static int step_order(const struct path_step *s, int rank, int step)
{
	if (s->rank != rank)
		return s->rank < rank ? -1 : 1;
	return (s->step > step) - (s->step < step);
}

/* Steps are sorted by rank and number. */
static size_t find_step(const struct path_steps *s, int rank, int step)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (step_order(s->step + mid, rank, step) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->n && !step_order(s->step + low, rank, step) ? low : SIZE_MAX;
}

/* Of many steps only those that somebody waited for; of many ranks those of the critical path. */
static void choose_steps(struct waiting *w)
{
	const struct path_steps *s = &w->r->steps;
	const struct path_graph *g = &w->r->graph;
	bool few = s->n <= STEPS_MAX, kept = !few && g->kept_n <= STEPS_MAX, some = false;
	int ranks = 0;

	for (size_t k = 0; k < g->critical_n; k++)
		w->critical[g->critical[k]] = true;
	for (size_t i = 0; i < s->n; i++)
		ranks += !i || s->step[i].rank != s->step[i - 1].rank;
	for (size_t i = 0; i < s->n; i++) {
		bool is_new = !i || s->step[i].rank != s->step[i - 1].rank;

		some = is_new ? false : some;
		w->drawn[i] = w->critical[i] ||
			      (ranks <= STEP_ROWS_MAX && (few || (kept && g->kept[i])));
		if (w->drawn[i] && w->rows < STEP_ROWS_MAX) {
			w->rows += !some;
			some = true;
		} else if (!some) {
			w->drawn[i] = false; /* there is no row for it */
		}
		w->row[i] = w->rows - 1;
	}
	w->span = (double)g->makespan_ns;
}

static double step_x(const struct waiting *w, uint64_t t_ns)
{
	return drawing_x((double)(int64_t)(t_ns - w->r->began_ns), w->span);
}

/* Two lanes: steps of one rank may overlap. */
static int step_y(const struct waiting *w, size_t i)
{
	return TOP + w->row[i] * ROW + (w->r->steps.step[i].step % 2 ? 3 : 14);
}

static void draw_step_rows(FILE *f, const struct waiting *w)
{
	int last = -1;

	for (size_t i = 0; i < w->r->steps.n; i++) {
		if (!w->drawn[i] || w->row[i] == last)
			continue;
		last = w->row[i];
		fprintf(f,
			"<text x=\"16\" y=\"%d\" fill=\"currentColor\">%s %d</text>"
			"<path d=\"M%d %dH%d\" stroke=\"var(--grid)\"/>\n",
			TOP + last * ROW + 17, w->r->strange_ranks ? "node" : "rank",
			w->r->steps.step[i].rank, DRAWING_LEFT, TOP + (last + 1) * ROW - 2,
			DRAWING_RIGHT);
	}
}

static void draw_steps(FILE *f, const struct waiting *w, bool critical)
{
	for (size_t i = 0; i < w->r->steps.n; i++) {
		const struct path_step *s = w->r->steps.step + i;
		double x = step_x(w, s->start_ns), to = step_x(w, s->end_ns);

		if (!w->drawn[i] || w->critical[i] != critical)
			continue;
		fprintf(f,
			"<path d=\"M%.1f %dH%.1fv9H%.1fz\"><title>%s %d, step %d: %.3f ms, "
			"expected "
			"%.3f ms</title></path>\n",
			x, step_y(w, i), fmax(to, x + 1), x, w->r->strange_ranks ? "node" : "rank",
			s->rank, s->step, (double)(s->end_ns - s->start_ns) / 1e6,
			(double)s->expected_ns / 1e6);
	}
}

static void draw_edge(FILE *f, const struct waiting *w, size_t from, size_t to)
{
	const struct path_step *a = w->r->steps.step + from, *b = w->r->steps.step + to;

	fprintf(f, "<path d=\"M%.1f %dL%.1f %d\"/>\n", step_x(w, a->end_ns), step_y(w, from) + 4,
		step_x(w, b->start_ns), step_y(w, to) + 4);
}

static void draw_waits(FILE *f, const struct waiting *w)
{
	const struct path_steps *s = &w->r->steps;

	for (size_t i = 0; i < s->n; i++) {
		size_t from = s->step[i].wait_rank < 0
				      ? SIZE_MAX
				      : find_step(s, s->step[i].wait_rank, s->step[i].wait_step);

		if (from != SIZE_MAX && w->drawn[i] && w->drawn[from])
			draw_edge(f, w, from, i);
	}
}

static void draw_waiting(FILE *f, const struct waiting *w)
{
	const struct path_graph *g = &w->r->graph;
	int bottom = TOP + w->rows * ROW;

	drawing_begin(
		f, "waiting", "The waiting graph",
		"A row for each rank: boxes are steps, thin lines lead from a step to the one "
		"that waited for its data, the thick line is the critical path.",
		bottom + 24);
	drawing_axis(f, w->span, TOP, bottom);
	draw_step_rows(f, w);
	fputs("<g stroke=\"var(--muted)\" stroke-width=\".7\" opacity=\".7\">", f);
	draw_waits(f, w);
	fputs("</g>\n<g fill=\"var(--without)\" opacity=\".8\">", f);
	draw_steps(f, w, false);
	fputs("</g>\n<g fill=\"var(--worse)\">", f);
	draw_steps(f, w, true);
	fputs("</g>\n<g stroke=\"var(--worse)\" stroke-width=\"2\" fill=\"none\" "
	      "marker-end=\"none\">",
	      f);
	for (size_t k = 1; k < g->critical_n; k++)
		if (w->drawn[g->critical[k - 1]] && w->drawn[g->critical[k]])
			draw_edge(f, w, g->critical[k - 1], g->critical[k]);
	fputs("</g>\n", f);
	drawing_end(f, w->r->steps.n > STEPS_MAX
			       ? "Of many steps only those that somebody waited for are drawn."
			       : NULL);
}

void page_waiting(FILE *f, const struct diag_page *p)
{
	const struct path_result *r = p->path;
	struct waiting w = {.r = r};

	if (!r->graph.critical_n)
		return;
	w.critical = check_alloc(calloc(r->steps.n, sizeof(*w.critical)));
	w.drawn = check_alloc(calloc(r->steps.n, sizeof(*w.drawn)));
	w.row = check_alloc(calloc(r->steps.n, sizeof(*w.row)));
	choose_steps(&w);
	fputs("<h2 id=\"path\">Who waited for whom</h2>\n<p class=\"note\">", f);
	html_text(f, r->steps.what);
	fprintf(f,
		": %zu steps, %zu were waited for. The critical path takes %.3f&nbsp;ms of "
		"%.3f&nbsp;ms%s.</p>\n<ul class=\"legend\">",
		r->steps.n, r->graph.kept_n, (double)r->graph.total_ns / 1e6,
		(double)r->graph.makespan_ns / 1e6,
		r->graph.total_ns > r->graph.makespan_ns ? ", as steps overlap" : "");
	page_swatch(f, "<path d=\"M0 2h30v8h-30z\" fill=\"var(--worse)\"/>",
		    "a step of the critical path");
	page_swatch(f, "<path d=\"M0 2h30v8h-30z\" fill=\"var(--without)\"/>", "another step");
	page_swatch(f, "<path d=\"M0 6h30\" stroke=\"var(--muted)\"/>",
		    "the step on its right waited for this data");
	fputs("</ul>\n", f);
	draw_waiting(f, &w);
	free(w.critical);
	free(w.drawn);
	free(w.row);
}

/* ---- the provenance graph ------------------------------------------------------------------- */

enum { SIDE_MAX = 14, PORTS_MAX = 14, NODE_W = 250, NODE_H = 26, NODE_STEP = 40 };
enum { X_OTHERS = 10, X_PORT = 355, X_OWN = 700 };

/* Sums over all windows. */
struct prov_all {
	const struct path_result *r;
	double *flow_port;	     /* [port * flow_n + flow]: w(f,p) of own, w(p,f) of others */
	double *port_port;	     /* [from * port_n + to] */
	double *flow_sum, *port_sum; /* to choose by */
	int others[SIDE_MAX], ports[PORTS_MAX], own[SIDE_MAX];
	int others_n, ports_n, own_n;
	double most;
};

static bool is_own(const struct prov_all *a, int flow)
{
	return a->r->telemetry.flow[flow].is_collective;
}

static void add_window(struct prov_all *a, const struct provenance *g)
{
	size_t flows = a->r->telemetry.flow_n, ports = a->r->telemetry.port_n;

	for (size_t i = 0; i < g->fp_n; i++) {
		const struct prov_flow_port *e = g->fp + i;
		double weight;

		if (e->flow < 0)
			continue;
		weight = is_own(a, e->flow) ? e->flow_waits : e->port_waits;
		if (!e->waits || !(weight > 0))
			continue;
		a->flow_port[(size_t)e->port * flows + (size_t)e->flow] += weight;
		a->flow_sum[e->flow] += weight;
		a->port_sum[e->port] += weight;
	}
	for (size_t i = 0; i < g->pp_n; i++) {
		a->port_port[(size_t)g->pp[i].from * ports + (size_t)g->pp[i].to] +=
			g->pp[i].weight;
		a->port_sum[g->pp[i].from] += 1e-9; /* it is there */
		a->port_sum[g->pp[i].to] += 1e-9;
	}
}

static void add_windows(struct prov_all *a)
{
	const struct telemetry *t = &a->r->telemetry;
	uint64_t window = a->r->limits.window_ns, end = a->r->began_ns + a->r->graph.makespan_ns;

	for (uint64_t at = provenance_next(t, a->r->began_ns, window); at < end;
	     at = provenance_next(t, at + window, window)) {
		struct provenance g = {0};

		provenance_build(t, at, at + window, &g);
		add_window(a, &g);
		provenance_free(&g);
	}
}

/* The largest of sum[] for which wanted is true, into list. */
static int choose(const struct prov_all *a, const double *sum, size_t n, int side, int *list,
		  int max)
{
	bool *taken = check_alloc(calloc(n + 1, sizeof(*taken)));
	int count = 0;

	while (count < max) {
		int best = PATH_NONE;

		for (size_t i = 0; i < n; i++)
			if (!taken[i] && sum[i] > 0 && (side < 0 || is_own(a, (int)i) == side) &&
			    (best == PATH_NONE || sum[i] > sum[best]))
				best = (int)i;
		if (best == PATH_NONE)
			break;
		taken[best] = true;
		list[count++] = best;
	}
	free(taken);
	return count;
}

/* Ports where others and the collective meet are what is looked for, and the roots of findings. */
static void weigh_ports(struct prov_all *a)
{
	const struct telemetry *t = &a->r->telemetry;

	for (size_t p = 0; p < t->port_n; p++) {
		double own = 0, others = 0;

		for (size_t i = 0; i < t->flow_n; i++)
			*(is_own(a, (int)i) ? &own : &others) += a->flow_port[p * t->flow_n + i];
		if (own > 0 && others > 0)
			a->port_sum[p] *= 1000;
	}
	for (size_t i = 0; i < a->r->findings.n; i++)
		if (a->r->findings.finding[i].port != PATH_NONE)
			a->port_sum[a->r->findings.finding[i].port] += 1e15;
	for (size_t i = 0; i < t->flow_n; i++)
		if (a->r->rating[i] > 0)
			a->flow_sum[i] += 1e9 * a->r->rating[i];
}

static void choose_all(struct prov_all *a)
{
	const struct telemetry *t = &a->r->telemetry;

	weigh_ports(a);
	a->others_n = choose(a, a->flow_sum, t->flow_n, false, a->others, SIDE_MAX);
	a->own_n = choose(a, a->flow_sum, t->flow_n, true, a->own, SIDE_MAX);
	a->ports_n = choose(a, a->port_sum, t->port_n, -1, a->ports, PORTS_MAX);
	for (int p = 0; p < a->ports_n; p++)
		for (size_t i = 0; i < t->flow_n; i++)
			a->most = fmax(a->most, a->flow_port[(size_t)a->ports[p] * t->flow_n + i]);
}

/* In the middle of as much room as the longest column needs. */
static int node_y(int i, int n, int rows)
{
	return 34 + (rows - n) * NODE_STEP / 2 + i * NODE_STEP;
}

static void draw_node(FILE *f, int x, int y, const char *text, const char *note, const char *style)
{
	fprintf(f,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" %s/><text x=\"%d\" "
		"y=\"%d\" fill=\"currentColor\">",
		x, y, NODE_W, NODE_H, style, x + 8, y + 17);
	html_clipped(f, text, *note ? 30 : 36);
	fprintf(f, "<tspan fill=\"var(--muted)\">%s</tspan></text>\n", note);
}

static void draw_flow_edges(FILE *f, const struct prov_all *a, const int *flow, int n, bool own,
			    int rows)
{
	size_t flows = a->r->telemetry.flow_n;

	for (int i = 0; i < n; i++)
		for (int p = 0; p < a->ports_n; p++) {
			double weight = a->flow_port[(size_t)a->ports[p] * flows + (size_t)flow[i]];
			int y1 = node_y(i, n, rows) + NODE_H / 2;
			int y2 = node_y(p, a->ports_n, rows) + NODE_H / 2;
			int x1 = own ? X_PORT + NODE_W : X_OTHERS + NODE_W,
			    x2 = own ? X_OWN : X_PORT;

			if (!(weight > 0))
				continue;
			if (own) {
				int swap = y1;

				y1 = y2;
				y2 = swap;
			}
			fprintf(f,
				"<path d=\"M%d %dC%d %d %d %d %d %d\" "
				"stroke-width=\"%.1f\"><title>%.4g "
				"packets</title></path>\n",
				x1, y1, x1 + 50, y1, x2 - 50, y2, x2, y2,
				0.8 + 5 * sqrt(weight / a->most), weight);
		}
}

/* A port was halted by the next one. */
static void draw_pauses(FILE *f, const struct prov_all *a, int rows)
{
	size_t ports = a->r->telemetry.port_n;

	for (int i = 0; i < a->ports_n; i++)
		for (int k = 0; k < a->ports_n; k++) {
			double w = a->port_port[(size_t)a->ports[i] * ports + (size_t)a->ports[k]];
			int y1 = node_y(i, a->ports_n, rows) + NODE_H / 2,
			    y2 = node_y(k, a->ports_n, rows) + NODE_H / 2, x = X_PORT + NODE_W;

			if (w > 0 && i != k)
				fprintf(f, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", x, y1,
					x + 60, y1, x + 60, y2, x, y2);
		}
}

static bool is_root(const struct prov_all *a, int port)
{
	for (size_t i = 0; i < a->r->findings.n; i++)
		if (a->r->findings.finding[i].port == port &&
		    a->r->findings.finding[i].anomaly != ANOMALY_OWN_CONTENTION)
			return true;
	return false;
}

static void draw_nodes(FILE *f, const struct prov_all *a, int rows)
{
	static const char plain[] = "fill=\"var(--card)\" stroke=\"var(--line)\"",
			  bad[] = "fill=\"var(--card)\" stroke=\"var(--worse)\" stroke-width=\"2\"",
			  own[] = "fill=\"var(--card)\" stroke=\"var(--without)\"";
	const struct telemetry *t = &a->r->telemetry;
	char note[32];

	for (int i = 0; i < a->others_n; i++) {
		double share = path_share(a->r, a->others[i]);

		*note = '\0';
		if (share > 0)
			snprintf(note, sizeof(note), " %.0f&#160;%%", share * 100);
		draw_node(f, X_OTHERS, node_y(i, a->others_n, rows), t->flow[a->others[i]].name,
			  note, share > 0 ? bad : plain);
	}
	for (int i = 0; i < a->ports_n; i++)
		draw_node(f, X_PORT, node_y(i, a->ports_n, rows), t->port[a->ports[i]].name, "",
			  is_root(a, a->ports[i]) ? bad : plain);
	for (int i = 0; i < a->own_n; i++)
		draw_node(f, X_OWN, node_y(i, a->own_n, rows), t->flow[a->own[i]].name, "", own);
}

static void draw_provenance(FILE *f, const struct prov_all *a)
{
	int rows = a->others_n > a->own_n ? a->others_n : a->own_n;

	rows = a->ports_n > rows ? a->ports_n : rows;
	drawing_begin(f, "provenance", "The provenance graph",
		      "On the left flows of others, in the middle ports, on the right flows of the "
		      "collective; a line is thicker the more packets waited.",
		      44 + rows * NODE_STEP);
	fprintf(f,
		"<g fill=\"var(--muted)\"><text x=\"%d\" y=\"18\">flows of others</text><text "
		"x=\"%d\" "
		"y=\"18\">ports</text><text x=\"%d\" y=\"18\">flows of the collective</text></g>\n",
		X_OTHERS, X_PORT, X_OWN);
	fputs("<g fill=\"none\" stroke=\"var(--worse)\" opacity=\".75\">", f);
	draw_flow_edges(f, a, a->others, a->others_n, false, rows);
	fputs("</g>\n<g fill=\"none\" stroke=\"var(--without)\" opacity=\".75\">", f);
	draw_flow_edges(f, a, a->own, a->own_n, true, rows);
	fputs("</g>\n<g fill=\"none\" stroke=\"var(--mark)\" stroke-width=\"1.5\" "
	      "stroke-dasharray=\"5 3\" marker-end=\"url(#arrow)\">",
	      f);
	draw_pauses(f, a, rows);
	fputs("</g>\n", f);
	draw_nodes(f, a, rows);
	drawing_end(f, "Sums over all windows of the telemetry; of many flows and ports those that "
		       "matter most.");
}

static void provenance_legend(FILE *f)
{
	fputs("<ul class=\"legend\">", f);
	page_swatch(f, "<path d=\"M0 6h30\" stroke=\"var(--worse)\" stroke-width=\"3\"/>",
		    "packets of others in the port's queue");
	page_swatch(f, "<path d=\"M0 6h30\" stroke=\"var(--without)\" stroke-width=\"3\"/>",
		    "for how many packets the collective's flow waited there");
	page_swatch(f,
		    "<path d=\"M0 6h30\" stroke=\"var(--mark)\" stroke-width=\"1.5\" "
		    "stroke-dasharray=\"5 3\"/>",
		    "a port was halted by another");
	page_swatch(f,
		    "<path d=\"M2 1h26v10h-26z\" fill=\"none\" stroke=\"var(--worse)\" "
		    "stroke-width=\"2\"/>",
		    "a culprit, or where an anomaly begins");
	fputs("</ul>\n", f);
}

void page_provenance(FILE *f, const struct diag_page *p)
{
	const struct telemetry *t = &p->path->telemetry;
	struct prov_all a = {.r = p->path};

	/* The sums are a matrix. */
	if (!t->sample_n || !t->port_n || !t->flow_n || t->flow_n * t->port_n > 1 << 26)
		return;
	a.flow_port = check_alloc(calloc(t->flow_n * t->port_n, sizeof(double)));
	a.port_port = check_alloc(calloc(t->port_n * t->port_n, sizeof(double)));
	a.flow_sum = check_alloc(calloc(t->flow_n, sizeof(double)));
	a.port_sum = check_alloc(calloc(t->port_n, sizeof(double)));
	add_windows(&a);
	choose_all(&a);
	if (a.ports_n && a.most > 0) {
		fputs("<h2 id=\"network\">Who waited where in the network</h2>\n<p "
		      "class=\"note\">From "
		      "the telemetry of switches, while the collective ran.</p>\n",
		      f);
		provenance_legend(f);
		draw_provenance(f, &a);
	}
	free(a.flow_port);
	free(a.port_port);
	free(a.flow_sum);
	free(a.port_sum);
}
