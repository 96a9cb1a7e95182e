/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/path_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* A path up to so much longer than expected is not slow; idle for less is no matter. */
static const double slow_ratio = 1.05, idle_part = 0.05;

int path_analyse(struct path_result *r, int *bad_rank, int *bad_step)
{
	uint64_t first = UINT64_MAX, last = 0;
	int status;

	telemetry_sort(&r->telemetry);
	r->guessed = path_steps_expect(&r->steps);
	status = path_graph_build(&r->steps, &r->graph, bad_rank, bad_step);
	if (status)
		return status;
	for (size_t i = 0; i < r->steps.n; i++) {
		const struct path_step *s = r->steps.step + i;

		first = s->start_ns < first ? s->start_ns : first;
		last = s->end_ns > last ? s->end_ns : last;
	}
	r->began_ns = first;
	r->rating = rate_flows(&r->telemetry, &r->steps, &r->graph, r->limits.window_ns);
	signatures_find_all(&r->telemetry, &r->limits, first, last, &r->findings);
	return 0;
}

void path_result_free(struct path_result *r)
{
	path_steps_free(&r->steps);
	path_graph_free(&r->graph);
	findings_free(&r->findings);
	telemetry_free(&r->telemetry);
	free(r->rating);
	r->rating = NULL;
}

struct verdicts {
	const struct path_result *r;
	struct verdict *verdict;
	size_t n;
};

static struct verdict *add_verdict(struct verdicts *v, const char *rule, enum verdict_class class,
				   enum verdict_component component, double confidence)
{
	const struct path_steps *s = &v->r->steps;
	struct verdict *made;
	int ranks = 0;

	v->verdict = check_alloc(reallocarray(v->verdict, v->n + 1, sizeof(*v->verdict)));
	made = v->verdict + v->n++;
	*made = verdict_make("vedrfolnir", rule);
	made->class = class;
	made->component = component;
	made->confidence = confidence;
	for (size_t i = 0; i < s->n; i++)
		ranks += !i || s->step[i].rank != s->step[i - 1].rank;
	made->coverage.ranks_seen = ranks;
	made->coverage.ranks_expected = s->ranks_expected == PATH_NONE ? REC_NONE
								       : s->ranks_expected;
	made->coverage.dropped = s->dropped;
	made->coverage.clock_error_ns = s->clock_error_ns == PATH_NONE ? REC_NONE
								       : s->clock_error_ns;
	verdict_threshold(made, "slow_ratio", slow_ratio);
	return made;
}

/* ---- ratings
 * ----------------------------------------------------------------------------------------- */

static const double *sort_rating; /* of by_rating() */

static int by_rating(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	if (sort_rating[x] != sort_rating[y])
		return sort_rating[x] > sort_rating[y] ? -1 : 1;
	return x - y;
}

static void sort_flows(const struct path_result *r, int *flow, size_t n)
{
	sort_rating = r->rating;
	qsort(flow, n, sizeof(*flow), by_rating);
}

int *path_rated(const struct path_result *r, size_t *n)
{
	int *flow = check_alloc(calloc(r->telemetry.flow_n + 1, sizeof(*flow)));

	*n = 0;
	for (size_t i = 0; i < r->telemetry.flow_n; i++)
		if (r->rating[i] > 0)
			flow[(*n)++] = (int)i;
	sort_flows(r, flow, *n);
	return flow;
}

double path_share(const struct path_result *r, int flow)
{
	double all = 0;

	for (size_t i = 0; i < r->telemetry.flow_n; i++)
		all += r->rating[i];
	return all > 0 ? r->rating[flow] / all : 0;
}

/* ---- others' flows
 * ------------------------------------------------------------------------------------- */

static void blame_flow(struct verdict *v, const struct path_result *r, int flow)
{
	struct culprit *c = verdict_blame(v);

	snprintf(c->what, sizeof(c->what), "%.63s", r->telemetry.flow[flow].name);
	c->score = path_share(r, flow);
	c->rank = REC_NONE;
}

static const char *port_text(const struct path_result *r, int port)
{
	return port == PATH_NONE ? "a port that was not measured" : r->telemetry.port[port].name;
}

static void say_seen(struct verdict *v, const struct path_result *r, const struct finding *f)
{
	uint64_t at = f->first_ns > r->began_ns ? f->first_ns - r->began_ns : 0;

	verdict_says(v, "%s at %s: in %d windows of %.3g ms, first %.3f ms after the beginning",
		     anomaly_name(f->anomaly), port_text(r, f->port), f->windows,
		     (double)r->limits.window_ns / 1e6, (double)at / 1e6);
}

static bool is_of_flows(const struct finding *f)
{
	return f->anomaly == ANOMALY_CONTENTION || f->anomaly == ANOMALY_INCAST ||
	       f->anomaly == ANOMALY_BACKPRESSURE;
}

/* Contention and incast: all flows of others that were in the way, the worst first. */
static void judge_flows(struct verdicts *all)
{
	const struct path_result *r = all->r;
	bool *named = check_alloc(calloc(r->telemetry.flow_n + 1, 1));
	int *flow = check_alloc(calloc(r->telemetry.flow_n + 1, sizeof(*flow)));
	bool is_incast = false;
	struct verdict *v;
	size_t n = 0;

	for (size_t i = 0; i < r->findings.n; i++) {
		const struct finding *f = r->findings.finding + i;

		is_incast |= f->anomaly == ANOMALY_INCAST;
		for (size_t k = 0; is_of_flows(f) && k < f->flow_n; k++)
			named[f->flow[k]] = true;
	}
	for (size_t i = 0; i < r->telemetry.flow_n; i++)
		if (named[i] || r->rating[i] > 0)
			flow[n++] = (int)i;
	sort_flows(r, flow, n);
	if (n) {
		v = add_verdict(all, is_incast ? "incast" : "contention", CLASS_SLOW,
				COMPONENT_COMMUNICATION, 0.9);
		v->level = LEVEL_FLOW;
		for (size_t i = 0; i < n; i++)
			blame_flow(v, r, flow[i]);
		for (size_t i = 0; i < r->findings.n; i++)
			if (is_of_flows(r->findings.finding + i) &&
			    r->findings.finding[i].anomaly != ANOMALY_BACKPRESSURE)
				say_seen(v, r, r->findings.finding + i);
		verdict_threshold(v, "incast_flows", r->limits.incast_flows);
		verdict_advises(v, "keep that traffic off the collective's links, the first one "
				   "first: by its time, its path or its priority");
	}
	free(named);
	free(flow);
}

/* ---- ports
 * -----------------------------------------------------------------------------------------------
 */

/* Pauses that contention explains at least as often are not a storm. */
static bool is_explained(const struct path_result *r, const struct finding *storm)
{
	for (size_t i = 0; i < r->findings.n; i++) {
		const struct finding *f = r->findings.finding + i;

		if (f->anomaly == ANOMALY_BACKPRESSURE && f->port != PATH_NONE &&
		    f->at == storm->at && f->windows >= storm->windows)
			return true;
	}
	return false;
}

static const char *advice(enum anomaly a)
{
	switch (a) {
	case ANOMALY_STORM:
		return "look at that port and what is behind it: it sends pause frames that no "
		       "queue explains";
	case ANOMALY_BACKPRESSURE:
		return "relieve that port: pauses spread from it to the collective's paths";
	case ANOMALY_LOAD_IMBALANCE:
		return "look at how flows are spread over the equal ports of that switch";
	case ANOMALY_LOOP: return "look at the routes of the switches on that loop";
	case ANOMALY_DEADLOCK:
		return "break the cycle: reset one of its ports, then look at routes and buffers";
	case ANOMALY_CONTENTION:
	case ANOMALY_OWN_CONTENTION:
	case ANOMALY_INCAST: break;
	}
	return NULL;
}

static void judge_ports(struct verdicts *all, enum anomaly anomaly)
{
	const struct path_result *r = all->r;
	size_t mine = SIZE_MAX;

	for (size_t i = 0; i < r->findings.n; i++) {
		const struct finding *f = r->findings.finding + i;
		struct verdict *v;
		struct culprit *c;

		if (f->anomaly != anomaly || (anomaly == ANOMALY_STORM && is_explained(r, f)))
			continue;
		if (mine == SIZE_MAX) {
			v = add_verdict(all, anomaly_name(anomaly),
					anomaly == ANOMALY_DEADLOCK ? CLASS_STOPPED : CLASS_SLOW,
					COMPONENT_COMMUNICATION, 0.8);
			v->level = LEVEL_PORT;
			if (anomaly == ANOMALY_LOAD_IMBALANCE)
				verdict_threshold(v, "imbalance_ratio", r->limits.imbalance_ratio);
			verdict_advises(v, "%s", advice(anomaly));
			mine = all->n - 1;
		}
		v = all->verdict + mine;
		say_seen(v, r, f);
		if (f->at != f->port)
			verdict_says(v, "it halts %s, where the collective waits",
				     port_text(r, f->at));
		if (f->port == PATH_NONE)
			continue;
		c = verdict_blame(v);
		snprintf(c->what, sizeof(c->what), "%.63s", port_text(r, f->port));
	}
}

static void judge_own(struct verdicts *all)
{
	const struct path_result *r = all->r;
	struct verdict *v = NULL;

	for (size_t i = 0; i < r->findings.n; i++) {
		if (r->findings.finding[i].anomaly != ANOMALY_OWN_CONTENTION)
			continue;
		if (!v) {
			v = add_verdict(all, "own-contention", CLASS_SLOW, COMPONENT_COMMUNICATION,
					0.8);
			verdict_advises(v, "the collective's own flows share links: choose another "
					   "algorithm, another order of ranks, or other paths");
		}
		say_seen(v, r, r->findings.finding + i);
	}
}

/* ---- the path
 * --------------------------------------------------------------------------------------------- */

static uint64_t expected_ns(const struct path_result *r)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < r->graph.critical_n; k++)
		sum += r->steps.step[r->graph.critical[k]].expected_ns;
	return sum;
}

static void say_path(struct verdict *v, const struct path_result *r)
{
	verdict_says(v, "the critical path took %.3f ms, and %.3f ms were expected",
		     (double)r->graph.total_ns / 1e6, (double)expected_ns(r) / 1e6);
	if (r->guessed)
		verdict_says(v,
			     "of %zu steps it was not recorded how long they take alone; by the "
			     "fastest step, per byte",
			     r->guessed);
	if (r->steps.unfinished)
		verdict_says(v, "%zu steps have no end, and are left out", r->steps.unfinished);
	if (r->graph.missing)
		verdict_says(v, "%zu steps that were waited for are missing", r->graph.missing);
}

/* Without switches, or where they explain nothing: between which two, and no more. */
static void judge_path(struct verdicts *all)
{
	const struct path_result *r = all->r;
	const struct path_step *worst = NULL;
	struct verdict *v;
	struct culprit *c;

	for (size_t k = 0; k < r->graph.critical_n; k++) {
		const struct path_step *s = r->steps.step + r->graph.critical[k];

		if (!worst || path_step_excess_ns(s) > path_step_excess_ns(worst))
			worst = s;
	}
	v = add_verdict(all, "critical-path", CLASS_SLOW, COMPONENT_COMMUNICATION, 0.5);
	v->level = LEVEL_LINK;
	c = verdict_blame(v);
	c->rank = worst->rank;
	snprintf(c->what, sizeof(c->what), "to rank %d in step %d", worst->peer, worst->step);
	say_path(v, r);
	verdict_says(v, r->telemetry.sample_n
				? "no port that was measured explains it"
				: "without telemetry of switches no port can be named");
	verdict_advises(v, "look at both ends of that path, and collect telemetry of its switches");
}

static void judge_idle(struct verdicts *all)
{
	const struct path_graph *g = &all->r->graph;
	struct verdict *v = add_verdict(all, "idle", CLASS_SLOW, COMPONENT_COMPUTATION, 0.6);

	v->level = LEVEL_RANK;
	verdict_blame(v)->rank = g->gap_rank;
	verdict_says(v,
		     "on the critical path %.3f ms of %.3f ms passed between steps, most of it "
		     "at rank %d",
		     (double)g->gap_ns / 1e6, (double)g->makespan_ns / 1e6, g->gap_rank);
	verdict_threshold(v, "idle_part", idle_part);
	verdict_advises(v, "see what that rank computes meanwhile, and whether its CPU is busy");
}

static void judge_network(struct verdicts *all)
{
	size_t before = all->n;

	judge_ports(all, ANOMALY_DEADLOCK);
	judge_ports(all, ANOMALY_LOOP);
	judge_ports(all, ANOMALY_STORM);
	judge_flows(all);
	judge_ports(all, ANOMALY_BACKPRESSURE);
	judge_ports(all, ANOMALY_LOAD_IMBALANCE);
	if (all->n == before)
		judge_own(all);
	if (all->n == before)
		judge_path(all);
	else
		say_path(all->verdict + before, all->r);
}

static bool is_incomplete(const struct path_result *r)
{
	int ranks = 0;

	for (size_t i = 0; i < r->steps.n; i++)
		ranks += !i || r->steps.step[i].rank != r->steps.step[i - 1].rank;
	return r->steps.unfinished || r->graph.missing || ranks < r->steps.ranks_expected;
}

size_t path_verdicts(const struct path_result *r, struct verdict **verdicts)
{
	struct verdicts all = {.r = r};
	uint64_t expected = expected_ns(r);

	if ((double)r->graph.gap_ns > idle_part * (double)r->graph.makespan_ns)
		judge_idle(&all);
	if ((double)r->graph.total_ns > slow_ratio * (double)expected)
		judge_network(&all);
	if (is_incomplete(r)) {
		struct verdict *v = add_verdict(&all, "incomplete", CLASS_UNDECIDED, COMPONENT_NONE,
						0);

		say_path(v, r);
		verdict_advises(v, "collect the records of all ranks until the collective is over");
	} else if (!all.n) {
		say_path(add_verdict(&all, "critical-path", CLASS_FINE, COMPONENT_NONE, 0.9), r);
	}
	*verdicts = all.verdict;
	return all.n;
}
