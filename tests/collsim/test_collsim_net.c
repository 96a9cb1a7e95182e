/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The simulated network, against what can be computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/collsim/rng.h"
#include "tests/collsim/topology.h"

static const double RATE = 10; /* bytes/ns */

struct arrivals {
	double *at; /* of each flow; 0: not yet */
	struct net *net;
};

static void on_arrived(void *arg, int flow)
{
	struct arrivals *a = arg;

	a->net->flow[flow].mark = INFINITY;
	a->at[flow] = a->net->now;
}

static void assert_near(double value, double wanted, double part)
{
	if (fabs(value - wanted) > part * fabs(wanted))
		fail_msg("%.9g is not %.9g, within %g of it", value, wanted, part);
}

static int add_flow(struct topology *t, int from, int to)
{
	int path[NET_HOPS], hops = topology_path(t, from, to, 0, path);

	return net_flow(&t->net, t->nic[from].node, t->nic[to].node, path, hops);
}

static void post(struct topology *t, int flow, double bytes)
{
	net_post(&t->net, flow, bytes);
	t->net.flow[flow].mark = t->net.flow[flow].posted;
}

/* Runs until a time, or until nothing is left. */
static void run(struct topology *t, double *at, double until)
{
	struct arrivals a = {at, &t->net};

	t->net.arg = &a;
	t->net.arrived = on_arrived;
	while (t->net.now < until) {
		double next = net_next(&t->net);

		if (isinf(next) && isinf(until))
			break;
		net_advance(&t->net, fmin(next, until));
	}
}

static void shares_are_max_min_fair(void **state)
{
	struct topology t;
	int f[4];

	(void)state;
	topology_build(&t, TOPOLOGY_STAR, 5, 1, RATE, false);
	f[0] = add_flow(&t, 0, 2);
	f[1] = add_flow(&t, 1, 2);
	f[2] = add_flow(&t, 3, 2);
	f[3] = add_flow(&t, 1, 4);
	for (int i = 0; i < 4; i++)
		post(&t, f[i], 1e6);
	net_next(&t.net);
	net_share(&t.net);
	/* Three share the port to host 2; NIC 1 gives the other what the first leaves. */
	for (int i = 0; i < 3; i++)
		assert_near(t.net.flow[f[i]].share, RATE / 3, 1e-9);
	assert_near(t.net.flow[f[3]].share, RATE * 2 / 3, 1e-9);
	net_degrade(&t.net, t.nic[4].down, 0.1);
	net_share(&t.net);
	assert_near(t.net.flow[f[3]].share, RATE * 0.1, 1e-9);
	topology_free(&t);
}

static void a_flow_alone_has_the_line(void **state)
{
	struct topology t;
	double at[1] = {0};

	(void)state;
	topology_build(&t, TOPOLOGY_FAT_TREE, 0, 1, RATE, false);
	post(&t, add_flow(&t, 0, 15), 1e6);
	run(&t, at, INFINITY);
	assert_near(at[0], 1e6 / RATE, 1e-6);
	assert_near(t.net.flow[0].latency_ns, 6 * t.net.link_ns, 1e-9);
	topology_free(&t);
}

static void a_shared_port_is_never_idle(void **state)
{
	struct topology t;
	double at[3] = {0};

	(void)state;
	topology_build(&t, TOPOLOGY_STAR, 4, 1, RATE, false);
	for (int i = 0; i < 3; i++)
		post(&t, add_flow(&t, i, 3), 5e6);
	run(&t, at, INFINITY);
	assert_near(fmax(at[0], fmax(at[1], at[2])), 15e6 / RATE, 0.01);
	topology_free(&t);
}

static void a_slow_port_sets_the_rate(void **state)
{
	struct topology t;
	double at[1] = {0};

	(void)state;
	topology_build(&t, TOPOLOGY_STAR, 2, 1, RATE, false);
	net_degrade(&t.net, t.nic[1].down, 0.25);
	post(&t, add_flow(&t, 0, 1), 5e6);
	run(&t, at, INFINITY);
	assert_near(at[0], 5e6 / (0.25 * RATE), 1e-3);
	topology_free(&t);
}

static void a_storm_holds_up_for_its_time(void **state)
{
	bool nic_paused = false;
	struct topology t;
	double at[1] = {0};

	(void)state;
	topology_build(&t, TOPOLOGY_STAR, 2, 1, RATE, false);
	post(&t, add_flow(&t, 0, 1), 1e6);
	run(&t, at, 20e3);
	net_storm(&t.net, t.nic[1].down, 50e3);
	run(&t, at, INFINITY);
	assert_near(at[0], 1e6 / RATE + 30e3, 1e-6);
	assert_true(t.net.pfcs >= 2);
	/* The queue before the paused port was more than a switch takes: the NIC was paused too. */
	for (size_t i = 0; i < t.net.pfcs; i++)
		nic_paused |= t.net.pfc[i].port == t.nic[0].tx;
	assert_true(nic_paused);
	topology_free(&t);
}

/* Hosts 0 and 1 at one edge; two flows that no congestion control holds back meet at host 14's port
 * and block a third that only shares the way to that switch. */
static void pauses_hit_those_beside(void **state)
{
	struct topology t;
	double at[3] = {0};
	int path[NET_HOPS];

	(void)state;
	topology_build(&t, TOPOLOGY_FAT_TREE, 0, 1, RATE, false);
	post(&t, add_flow(&t, 0, 14), 20e6);
	post(&t, add_flow(&t, 4, 14), 20e6);
	t.net.flow[0].controlled = t.net.flow[1].controlled = false;
	for (uint64_t choice = 0;; choice++) { /* one that comes from another switch above */
		topology_path(&t, 2, 15, choice, path);
		if (path[4] == t.net.flow[0].path[4])
			break;
	}
	post(&t, net_flow(&t.net, t.nic[2].node, t.nic[15].node, path, 7), 5e6);
	t.net.flow[2].controlled = false;
	run(&t, at, INFINITY);
	assert_true(t.net.pfcs > 4);
	assert_true(at[2] > 1.3 * 5e6 / RATE);
	for (int i = 0; i < 3; i++)
		assert_near(t.net.flow[i].delivered, t.net.flow[i].posted, 1e-9);
	topology_free(&t);
}

static void pauses_of_a_port_alternate_and_end(void **state)
{
	struct topology t;
	double at[6] = {0};

	(void)state;
	topology_build(&t, TOPOLOGY_STAR, 7, 1, RATE, false);
	for (int i = 0; i < 6; i++) {
		post(&t, add_flow(&t, i, 6), 3e6);
		t.net.flow[i].controlled = false;
	}
	run(&t, at, INFINITY);
	for (int i = 0; i < t.net.ports; i++) {
		bool paused = false;

		for (size_t k = 0; k < t.net.pfcs; k++) {
			if (t.net.pfc[k].port != i)
				continue;
			assert_true(t.net.pfc[k].pause != paused);
			paused = t.net.pfc[k].pause;
		}
		assert_false(paused);
	}
	assert_true(t.net.pfcs > 0);
	topology_free(&t);
}

/* What came to a port, less what left it, waits there; all of it arrives. */
static void check_ports(const struct net *n)
{
	for (int i = 0; i < n->ports; i++) {
		const struct port *p = n->port + i;
		double left = 0, waits = 0;

		for (int k = 0; k < n->flows; k++) {
			const struct flow *f = n->flow + k;
			double gone = f->sent;

			for (int h = 0; h < f->hops; h++) {
				gone -= f->queue[h];
				if (f->path[h] != i)
					continue;
				left += gone;
				waits += f->queue[h];
				assert_true(f->queue[h] >= 0);
			}
		}
		/* Fractions of bytes are rounded when a queue or a message ends. */
		if (fabs(p->sent - left) > 1e-4 * left + 1000)
			fail_msg("port %d sent %.1f, not %.1f", i, p->sent, left);
		if (!n->dirty && fabs(p->queue - waits) > 1 + 1e-6 * waits)
			fail_msg("port %d: %.1f wait, not %.1f", i, p->queue, waits);
		assert_true(p->ahead <= n->xoff + 100);
	}
}

static void bytes_are_conserved(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct rng r = {seed};
		struct topology t;
		double at[40] = {0}, posted = 0, delivered = 0;

		topology_build(&t, TOPOLOGY_FAT_TREE, 0, 1, RATE, false);
		for (int i = 0; i < 40; i++) {
			int a = rng_below(&r, 16), b = rng_below(&r, 16), path[NET_HOPS], f;
			int hops = topology_path(&t, a, (a == b ? b ^ 1 : b), rng_next(&r), path);

			f = net_flow(&t.net, a, b, path, hops);
			t.net.flow[f].controlled = rng_below(&r, 2);
			post(&t, f, rng_between(&r, 1e4, 2e6));
			run(&t, at, t.net.now + rng_between(&r, 0, 5e4));
			check_ports(&t.net);
		}
		run(&t, at, INFINITY);
		check_ports(&t.net);
		for (int i = 0; i < 40; i++) {
			posted += t.net.flow[i].posted;
			delivered += t.net.flow[i].delivered;
			if (!(at[i] > 0))
				fail_msg("seed %d: flow %d never arrived", (int)seed, i);
		}
		assert_near(delivered, posted, 1e-7); /* half a byte, when a message ends */
		topology_free(&t);
	}
}

static void a_dead_flow_frees_its_ports(void **state)
{
	struct topology t;
	double at[2] = {0};

	(void)state;
	topology_build(&t, TOPOLOGY_STAR, 3, 1, RATE, false);
	post(&t, add_flow(&t, 0, 2), 10e6);
	post(&t, add_flow(&t, 1, 2), 10e6);
	run(&t, at, 1e6);
	net_kill(&t.net, 0);
	run(&t, at, INFINITY);
	assert_true(at[0] == 0);
	/* 1 ms at half of the rate, then all of it. */
	assert_near(at[1], 1e6 + (10e6 - 5e6) / RATE, 0.05);
	topology_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_max_min_fair),
		cmocka_unit_test(a_flow_alone_has_the_line),
		cmocka_unit_test(a_shared_port_is_never_idle),
		cmocka_unit_test(a_slow_port_sets_the_rate),
		cmocka_unit_test(a_storm_holds_up_for_its_time),
		cmocka_unit_test(pauses_hit_those_beside),
		cmocka_unit_test(pauses_of_a_port_alternate_and_end),
		cmocka_unit_test(bytes_are_conserved),
		cmocka_unit_test(a_dead_flow_frees_its_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
