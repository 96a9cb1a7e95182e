/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who waits for whom, ratings and signatures of shift-diag path: networks that were worked out by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/shift-diag/path.h"

enum { WINDOW = 1000 };

static const struct signature_limits limits = {
	.window_ns = WINDOW, .together_ns = 100, .incast_flows = 3, .imbalance_ratio = 1.5};

static int flow(struct telemetry *t, const char *name, bool is_collective)
{
	int i = tele_flow_find(t, name);

	t->flow[i].is_collective = is_collective;
	return i;
}

static void link_ports(struct telemetry *t, int a, int b)
{
	t->port[a].peer = b;
	t->port[b].peer = a;
}

static void sample(struct telemetry *t, uint64_t t_ns, int port, uint64_t depth, uint64_t packets,
		   uint64_t paused)
{
	struct tele_sample *s = tele_sample_add(t, t_ns, port);

	s->depth = depth;
	s->packets = packets;
	s->paused = paused;
}

static void line(struct telemetry *t, int f, uint32_t packets, uint64_t depth, uint32_t paused)
{
	tele_line_add(t, (struct tele_line){
				 .flow = f, .packets = packets, .depth = depth, .paused = paused});
}

static const struct finding *find(const struct findings *f, enum anomaly a)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->finding[i].anomaly == a)
			return f->finding + i;
	return NULL;
}

/* ---- replay
 * ------------------------------------------------------------------------------------------ */

/* Two of a and two of b enter as a b a b, and each finds one in front: b finds a twice, a finds b
 * once, as the first finds nothing. */
static void test_replay_of_two_flows(void **state)
{
	struct tele_line l[] = {{.packets = 2, .depth = 2}, {.packets = 2, .depth = 2}};
	double w[4];

	(void)state;
	prov_replay(l, 2, w);
	assert_float_equal(w[0], 0, 0);
	assert_float_equal(w[1], 1, 0);
	assert_float_equal(w[2], 2, 0);
	assert_float_equal(w[3], 0, 0);
}

/* a b a a b a (in proportion 4 to 2, the first of equals first), each finds two in front.
 * Queue: 0:a 1:b 2:a 3:a 4:b 5:a. a at 2 finds b a; at 3 a b; at 5 b a; b at 1 finds a; at 4 a a.
 */
static void test_replay_is_in_proportion(void **state)
{
	struct tele_line l[] = {{.packets = 4, .depth = 8}, {.packets = 2, .depth = 4}};
	double w[4];

	(void)state;
	prov_replay(l, 2, w);
	assert_float_equal(w[0], 3, 0);
	assert_float_equal(w[1], 3, 0);
	assert_float_equal(w[2], 3, 0);
	assert_float_equal(w[3], 0, 0);
}

/* Packets that were paused have no depth of their own: it is spread over the others only. */
static void test_paused_packets_do_not_thin_the_depth(void **state)
{
	struct tele_line l[] = {{.packets = 2, .depth = 1, .paused = 1}, {.packets = 2}};
	double w[4];

	(void)state;
	prov_replay(l, 2, w); /* a b a b: a at 2 finds b, as its depth is 1 / (2 - 1) */
	assert_float_equal(w[1], 1, 0);
	l[0].paused = 0; /* 1 / 2 is none */
	prov_replay(l, 2, w);
	assert_float_equal(w[1], 0, 0);
	l[0].paused = 2;
	prov_replay(l, 2, w);
	assert_float_equal(w[1], 0, 0);
}

/* Half of 40 million packets are the other's: about 20 of 40 in front. */
static void test_a_long_replay_is_scaled(void **state)
{
	struct tele_line l[] = {{.packets = 20000000, .depth = 20000000ull * 40},
				{.packets = 20000000, .depth = 20000000ull * 40}};
	double w[4];

	(void)state;
	prov_replay(l, 2, w);
	assert_true(w[1] > 20000000.0 * 19.9 && w[1] < 20000000.0 * 20.1);
}

/* ---- weights
 * ----------------------------------------------------------------------------------------- */

static void test_lines_of_one_flow_are_added_or_the_last_counts(void **state)
{
	struct telemetry t = {0};
	struct provenance g;
	int port = tele_port_find(&t, "1", "1", false);
	int cf = flow(&t, "cf", true), f = flow(&t, "f", false);

	(void)state;
	sample(&t, 10, port, 8, 8, 0);
	line(&t, cf, 4, 4, 0);
	line(&t, f, 3, 3, 0);
	line(&t, f, 1, 1, 0);
	telemetry_sort(&t);
	provenance_build(&t, 0, WINDOW, &g);
	assert_int_equal(g.fp_n, 2);
	assert_float_equal(g.fp[1].port_waits, 4. / 8 * 8, 1e-9);
	provenance_free(&g);
	t.last_line_counts = true;
	provenance_build(&t, 0, WINDOW, &g);
	assert_int_equal(g.fp_n, 2);
	assert_float_equal(g.fp[1].port_waits, 1. / 8 * 8, 1e-9);
	provenance_free(&g);
	telemetry_free(&t);
}

static void test_the_first_sample_of_a_window_counts(void **state)
{
	struct telemetry t = {0};
	struct provenance g;
	int port = tele_port_find(&t, "1", "1", false), cf = flow(&t, "cf", true);

	(void)state;
	sample(&t, 1500, port, 5, 1, 0);
	line(&t, cf, 1, 5, 0);
	sample(&t, 20, port, 9, 1, 0);
	line(&t, cf, 1, 9, 0);
	sample(&t, 10, port, 7, 1, 0);
	line(&t, cf, 1, 7, 0);
	telemetry_sort(&t);
	assert_int_equal(provenance_next(&t, 0, WINDOW), 0);
	assert_int_equal(provenance_next(&t, 30, WINDOW), 1000);
	assert_true(provenance_next(&t, 1501, WINDOW) == UINT64_MAX);
	provenance_build(&t, 0, WINDOW, &g);
	assert_int_equal(g.fp_n, 1);
	assert_float_equal(g.fp[0].port_waits, 7, 1e-9);
	provenance_free(&g);
	telemetry_free(&t);
}

/* Three quarters of what p_j got came from the one that is halted, a quarter from another. */
static void test_ports_wait_by_their_part_of_the_traffic(void **state)
{
	struct telemetry t = {0};
	struct provenance g;
	int pi = tele_port_find(&t, "1", "1", false), pk = tele_port_find(&t, "2", "1", false);
	int pj = tele_port_find(&t, "3", "1", false);

	(void)state;
	tele_meter_add(&t, (struct tele_meter){10, 300, pi, pj, true});
	tele_meter_add(&t, (struct tele_meter){20, 100, pk, pj, false});
	tele_meter_add(&t, (struct tele_meter){30, 900, pi, pj, true}); /* later: not counted */
	telemetry_sort(&t);
	provenance_build(&t, 0, WINDOW, &g);
	assert_int_equal(g.pp_n, 1);
	assert_int_equal(g.pp[0].from, pi);
	assert_int_equal(g.pp[0].to, pj);
	assert_float_equal(g.pp[0].weight, 0.75, 1e-9);
	provenance_free(&g);
	telemetry_free(&t);
}

/* ---- rating
 * ------------------------------------------------------------------------------------------ */

struct chain {
	struct telemetry t;
	int cf, f, p1, p2;
};

/* cf waits at p1, which is halted by p2 (all its traffic, but half of p2's); f is at p2, and at p1
 * if so wished. */
static void make_chain(struct chain *c, bool contends)
{
	*c = (struct chain){0};
	c->cf = flow(&c->t, "cf", true);
	c->f = flow(&c->t, "f", false);
	c->p1 = tele_port_find(&c->t, "1", "1", false);
	c->p2 = tele_port_find(&c->t, "2", "1", false);
	sample(&c->t, 10, c->p1, 8, 4, 1);
	line(&c->t, c->cf, 2, 2, 1); /* depth 2 */
	if (contends)
		line(&c->t, c->f, 2, 2, 0);
	sample(&c->t, 20, c->p2, 100, 10, 0);
	line(&c->t, c->f, 6, 60, 0);
	tele_meter_add(&c->t, (struct tele_meter){15, 50, c->p1, c->p2, true});
	tele_meter_add(&c->t, (struct tele_meter){15, 50, c->p2, c->p2, false});
	telemetry_sort(&c->t);
}

/* Equation 1: R(f,p1) = w(p1,f) + R(f,p2) w(p1,p2) = 0 + (6/10 * 100) * 0.5 = 30. */
static void test_a_flow_downstream_is_rated(void **state)
{
	struct chain c;
	struct provenance g;
	double r[2] = {0};

	(void)state;
	make_chain(&c, false);
	provenance_build(&c.t, 0, WINDOW, &g);
	rate_step(&c.t, &g, c.cf, 0, WINDOW, 1, r);
	assert_float_equal(r[c.f], 30, 1e-9);
	assert_float_equal(r[c.cf], 0, 0);
	rate_step(&c.t, &g, c.cf, 0, WINDOW, 0.5, r);
	assert_float_equal(r[c.f], 45, 1e-9);
	/* Its step was over before the sample of p1. */
	rate_step(&c.t, &g, c.cf, 0, 10, 1, r);
	assert_float_equal(r[c.f], 45, 1e-9);
	provenance_free(&g);
	telemetry_free(&c.t);
}

/* Equation 2: f at p1, too. Order cf f cf f; cf at 2 finds f, cf (depth 2): w(cf,f) = 1. w(p1,f) =
 * 2/4 * 8 = 4 stands in R(f,p1) = 4 + 30 and is replaced: 1 - 4 + 34 = 31. */
static void test_direct_contention_replaces_the_ports_weight(void **state)
{
	struct chain c;
	struct provenance g;
	double r[2] = {0};

	(void)state;
	make_chain(&c, true);
	provenance_build(&c.t, 0, WINDOW, &g);
	rate_step(&c.t, &g, c.cf, 0, WINDOW, 1, r);
	assert_float_equal(r[c.f], 31, 1e-9);
	provenance_free(&g);
	telemetry_free(&c.t);
}

static void test_a_cycle_of_ports_ends(void **state)
{
	struct chain c;
	struct provenance g;
	double r[2] = {0};

	(void)state;
	make_chain(&c, false);
	tele_meter_add(&c.t, (struct tele_meter){16, 7, c.p2, c.p1, true});
	provenance_build(&c.t, 0, WINDOW, &g);
	rate_step(&c.t, &g, c.cf, 0, WINDOW, 1, r);
	assert_true(r[c.f] >= 30 && r[c.f] < 200);
	provenance_free(&g);
	telemetry_free(&c.t);
}

/* Equation 3: two steps of the path, 30 and 10 ns over what was expected; a third was faster, which
 * takes nothing away. f cost the first one 1 and the second 1: 1 * 30/40 + 1 * 10/40. */
static void test_steps_weigh_by_their_excess(void **state)
{
	struct telemetry t = {0};
	struct path_steps s = {0};
	struct path_graph g;
	int cf = flow(&t, "cf", true), f = flow(&t, "f", false), rank, step;
	int p = tele_port_find(&t, "1", "1", false);
	static const uint64_t start[] = {0, 2000, 4000}, took[] = {130, 110, 50};
	double *r;

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct path_step *made = path_step_add(&s);

		made->step = k + 1;
		made->start_ns = start[k];
		made->end_ns = start[k] + took[k];
		made->expected_ns = 100;
		strcpy(made->flow, "cf");
		sample(&t, start[k] + 20, p, 4, 4, 0);
		line(&t, cf, 2, 2, 0);
		line(&t, f, 2, 2, 0);
	}
	telemetry_sort(&t);
	assert_int_equal(path_graph_build(&s, &g, &rank, &step), 0);
	r = rate_flows(&t, &s, &g, WINDOW);
	assert_float_equal(r[f], 1, 1e-9);
	free(r);
	/* Without the sample in the second step: 30/40. */
	t.sample[1].t_ns = 1900;
	r = rate_flows(&t, &s, &g, WINDOW);
	assert_float_equal(r[f], 0.75, 1e-9);
	free(r);
	path_graph_free(&g);
	path_steps_free(&s);
	telemetry_free(&t);
}

/* ---- signatures
 * ---------------------------------------------------------------------------------------- */

static void look(struct telemetry *t, struct findings *f)
{
	*f = (struct findings){0};
	telemetry_sort(t);
	signatures_find_all(t, &limits, 0, WINDOW, f);
}

static void test_contention(void **state)
{
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false), cf = flow(&t, "cf", true);
	int other = flow(&t, "f", false);

	(void)state;
	sample(&t, 10, p, 8, 4, 0);
	line(&t, cf, 2, 4, 0);
	line(&t, other, 2, 4, 0);
	look(&t, &f);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.finding[0].anomaly, ANOMALY_CONTENTION);
	assert_int_equal(f.finding[0].port, p);
	assert_int_equal(f.finding[0].flow_n, 1);
	assert_int_equal(f.finding[0].flow[0], other);
	assert_int_equal(f.finding[0].windows, 1);
	findings_free(&f);
	t.flow[other].is_collective = true;
	look(&t, &f);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.finding[0].anomaly, ANOMALY_OWN_CONTENTION);
	findings_free(&f);
	t.flow[cf].is_collective = t.flow[other].is_collective = false; /* nobody of ours */
	look(&t, &f);
	assert_int_equal(f.n, 0);
	findings_free(&f);
	telemetry_free(&t);
}

static void test_no_queue_is_no_contention(void **state)
{
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false);

	(void)state;
	sample(&t, 10, p, 0, 4, 0);
	line(&t, flow(&t, "cf", true), 2, 0, 0);
	line(&t, flow(&t, "f", false), 2, 0, 0);
	look(&t, &f);
	assert_int_equal(f.n, 0);
	findings_free(&f);
	telemetry_free(&t);
}

/* Three others, that began within 100 ns, towards the host behind the port. */
static void test_incast(void **state)
{
	static const char *const names[] = {"a", "b", "c"};
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false), host = tele_port_find(&t, "9", "1", true);
	int other[3];

	(void)state;
	link_ports(&t, p, host);
	sample(&t, 500, p, 80, 8, 0);
	line(&t, flow(&t, "cf", true), 2, 20, 0);
	for (int i = 0; i < 3; i++) {
		other[i] = flow(&t, names[i], false);
		t.flow[other[i]].start_ns = 100 + 50 * (uint64_t)i;
		line(&t, other[i], 2, 20, 0);
	}
	look(&t, &f);
	assert_non_null(find(&f, ANOMALY_INCAST));
	assert_int_equal(find(&f, ANOMALY_INCAST)->flow_n, 3);
	findings_free(&f);
	t.flow[other[2]].start_ns = 201; /* not together */
	look(&t, &f);
	assert_null(find(&f, ANOMALY_INCAST));
	findings_free(&f);
	t.flow[other[2]].start_ns = 200;
	t.port[host].is_host = false; /* not the last hop */
	look(&t, &f);
	assert_null(find(&f, ANOMALY_INCAST));
	findings_free(&f);
	t.port[host].is_host = true;
	t.flow[other[2]].is_collective = true; /* two only */
	look(&t, &f);
	assert_null(find(&f, ANOMALY_INCAST));
	findings_free(&f);
	telemetry_free(&t);
}

/* cf is halted at p; p's link leads to switch 2, whose port q is where others contend. */
struct halt {
	struct telemetry t;
	int cf, p, in, q, host;
};

static void make_halt(struct halt *h)
{
	*h = (struct halt){0};
	h->cf = flow(&h->t, "cf", true);
	h->p = tele_port_find(&h->t, "1", "1", false);
	h->in = tele_port_find(&h->t, "2", "1", false);
	h->q = tele_port_find(&h->t, "2", "2", false);
	h->host = tele_port_find(&h->t, "8", "1", true);
	link_ports(&h->t, h->p, h->in);
	link_ports(&h->t, h->q, h->host);
	sample(&h->t, 10, h->p, 0, 5, 5);
	line(&h->t, h->cf, 5, 0, 5);
}

static void test_backpressure_is_traced_to_contention(void **state)
{
	struct halt h;
	struct findings f;
	const struct finding *found;
	int a;

	(void)state;
	make_halt(&h);
	a = flow(&h.t, "a", false);
	sample(&h.t, 20, h.q, 40, 4, 0);
	line(&h.t, a, 2, 20, 0);
	line(&h.t, flow(&h.t, "b", false), 2, 20, 0);
	tele_meter_add(&h.t, (struct tele_meter){20, 50, h.p, h.q, true});
	look(&h.t, &f);
	found = find(&f, ANOMALY_BACKPRESSURE);
	assert_non_null(found);
	assert_int_equal(found->port, h.q);
	assert_int_equal(found->at, h.p);
	assert_int_equal(found->flow_n, 2);
	assert_int_equal(found->flow[0], a);
	assert_null(find(&f, ANOMALY_STORM));
	findings_free(&f);
	telemetry_free(&h.t);
}

/* The same, where the traffic goes to q, but nothing waits there: switch 2 itself sends pauses. */
static void test_a_storm_is_a_chain_that_ends_without_contention(void **state)
{
	struct halt h;
	struct findings f;

	(void)state;
	make_halt(&h);
	sample(&h.t, 20, h.q, 0, 4, 0);
	line(&h.t, h.cf, 4, 0, 0);
	tele_meter_add(&h.t, (struct tele_meter){20, 50, h.p, h.q, true});
	look(&h.t, &f);
	assert_non_null(find(&f, ANOMALY_STORM));
	assert_int_equal(find(&f, ANOMALY_STORM)->port, h.in);
	assert_int_equal(find(&f, ANOMALY_STORM)->at, h.p);
	findings_free(&f);
	/* q is halted in its turn, by the host: that one does it. */
	tele_pause_add(&h.t, (struct tele_pause){15, 500, h.q});
	look(&h.t, &f);
	assert_int_equal(find(&f, ANOMALY_STORM)->port, h.host);
	findings_free(&f);
	telemetry_free(&h.t);
}

/* Nothing is known of switch 2: contention there cannot be excluded. */
static void test_what_was_not_traced_is_no_storm(void **state)
{
	struct halt h;
	struct findings f;

	(void)state;
	make_halt(&h);
	look(&h.t, &f);
	assert_null(find(&f, ANOMALY_STORM));
	assert_non_null(find(&f, ANOMALY_BACKPRESSURE));
	assert_int_equal(find(&f, ANOMALY_BACKPRESSURE)->port, PATH_NONE);
	findings_free(&f);
	telemetry_free(&h.t);
}

/* No meter, and of the flow only what it did in the epoch before: it was seen behind the port. */
static void test_a_storm_is_traced_by_where_its_flows_were(void **state)
{
	struct halt h;
	struct findings f;

	(void)state;
	make_halt(&h);
	tele_port_find(&h.t, "2", "9", false); /* of which nothing is known */
	sample(&h.t, 20, h.q, 0, 0, 0);
	look(&h.t, &f);
	assert_null(find(&f, ANOMALY_STORM));
	findings_free(&f);
	sample(&h.t, 20, h.q, 0, 4, 0);
	h.t.sample[h.t.sample_n - 1].before = true;
	line(&h.t, h.cf, 4, 0, 0);
	look(&h.t, &f);
	assert_non_null(find(&f, ANOMALY_STORM));
	assert_int_equal(find(&f, ANOMALY_STORM)->port, h.in);
	findings_free(&f);
	telemetry_free(&h.t);
}

/* A window of 1000 has two rounds: a port that is asked again begins another. */
static void test_all_reports_of_a_window_count(void **state)
{
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false), cf = flow(&t, "cf", true);
	int other = flow(&t, "x", false);

	(void)state;
	sample(&t, 10, p, 0, 4, 0);
	line(&t, cf, 4, 0, 0);
	look(&t, &f);
	assert_null(find(&f, ANOMALY_CONTENTION));
	findings_free(&f);
	sample(&t, 20, p, 8, 8, 0);
	line(&t, cf, 4, 4, 0);
	line(&t, other, 4, 4, 0);
	look(&t, &f);
	assert_non_null(find(&f, ANOMALY_CONTENTION));
	assert_int_equal(find(&f, ANOMALY_CONTENTION)->flow[0], other);
	findings_free(&f);
	/* Of the epoch before it is as good. */
	t.sample[1].before = true;
	t.sample[1].t_ns = 10;
	look(&t, &f);
	assert_non_null(find(&f, ANOMALY_CONTENTION));
	findings_free(&f);
	telemetry_free(&t);
}

/* 12 packets against a mean of (12 + 2) / 2 = 7: 1.71. */
static void test_load_imbalance(void **state)
{
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false), q = tele_port_find(&t, "1", "2", false);

	(void)state;
	t.port[p].group = t.port[q].group = 0;
	t.groups = 1;
	sample(&t, 10, p, 24, 12, 0);
	line(&t, flow(&t, "cf", true), 6, 12, 0);
	line(&t, flow(&t, "cf2", true), 6, 12, 0);
	look(&t, &f);
	assert_null(find(&f, ANOMALY_LOAD_IMBALANCE)); /* of q nothing is known */
	findings_free(&f);
	sample(&t, 20, q, 0, 2, 0);
	look(&t, &f);
	assert_non_null(find(&f, ANOMALY_LOAD_IMBALANCE));
	assert_int_equal(find(&f, ANOMALY_LOAD_IMBALANCE)->port, p);
	findings_free(&f);
	for (size_t i = 0; i < t.sample_n; i++)
		if (t.sample[i].port == q)
			t.sample[i].packets = 4; /* 12 of 8: 1.5, not more */
	look(&t, &f);
	assert_null(find(&f, ANOMALY_LOAD_IMBALANCE));
	findings_free(&f);
	telemetry_free(&t);
}

/* Switch 1 sends it to 2, and 2 back to 1. */
static void test_loop(void **state)
{
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false), q = tele_port_find(&t, "2", "1", false);
	int on = tele_port_find(&t, "3", "1", false), cf = flow(&t, "cf", true);

	(void)state;
	link_ports(&t, p, q);
	sample(&t, 10, p, 0, 1, 0);
	line(&t, cf, 1, 0, 0);
	look(&t, &f);
	assert_null(find(&f, ANOMALY_LOOP));
	findings_free(&f);
	sample(&t, 20, q, 0, 1, 0);
	line(&t, cf, 1, 0, 0);
	look(&t, &f);
	assert_non_null(find(&f, ANOMALY_LOOP));
	assert_int_equal(find(&f, ANOMALY_LOOP)->flow[0], cf);
	findings_free(&f);
	t.port[q].peer = on; /* it goes on to switch 3 */
	look(&t, &f);
	assert_null(find(&f, ANOMALY_LOOP));
	findings_free(&f);
	telemetry_free(&t);
}

static void test_deadlock(void **state)
{
	struct telemetry t = {0};
	struct findings f;
	int p = tele_port_find(&t, "1", "1", false), q = tele_port_find(&t, "2", "1", false);
	int cf = flow(&t, "cf", true);

	(void)state;
	sample(&t, 10, p, 0, 3, 3);
	line(&t, cf, 3, 0, 3);
	sample(&t, 10, q, 0, 3, 3);
	line(&t, cf, 3, 0, 3);
	tele_meter_add(&t, (struct tele_meter){20, 1, p, q, true});
	look(&t, &f);
	assert_null(find(&f, ANOMALY_DEADLOCK)); /* no cycle */
	findings_free(&f);
	tele_meter_add(&t, (struct tele_meter){20, 1, q, p, true});
	look(&t, &f);
	assert_non_null(find(&f, ANOMALY_DEADLOCK));
	findings_free(&f);
	t.sample[0].packets = 4; /* one got through: it moves */
	look(&t, &f);
	assert_null(find(&f, ANOMALY_DEADLOCK));
	findings_free(&f);
	telemetry_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay_of_two_flows),
		cmocka_unit_test(test_replay_is_in_proportion),
		cmocka_unit_test(test_paused_packets_do_not_thin_the_depth),
		cmocka_unit_test(test_a_long_replay_is_scaled),
		cmocka_unit_test(test_lines_of_one_flow_are_added_or_the_last_counts),
		cmocka_unit_test(test_the_first_sample_of_a_window_counts),
		cmocka_unit_test(test_ports_wait_by_their_part_of_the_traffic),
		cmocka_unit_test(test_a_flow_downstream_is_rated),
		cmocka_unit_test(test_direct_contention_replaces_the_ports_weight),
		cmocka_unit_test(test_a_cycle_of_ports_ends),
		cmocka_unit_test(test_steps_weigh_by_their_excess),
		cmocka_unit_test(test_contention),
		cmocka_unit_test(test_no_queue_is_no_contention),
		cmocka_unit_test(test_incast),
		cmocka_unit_test(test_backpressure_is_traced_to_contention),
		cmocka_unit_test(test_a_storm_is_a_chain_that_ends_without_contention),
		cmocka_unit_test(test_what_was_not_traced_is_no_storm),
		cmocka_unit_test(test_a_storm_is_traced_by_where_its_flows_were),
		cmocka_unit_test(test_all_reports_of_a_window_count),
		cmocka_unit_test(test_load_imbalance),
		cmocka_unit_test(test_loop),
		cmocka_unit_test(test_deadlock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
