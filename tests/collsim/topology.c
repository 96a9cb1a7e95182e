/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <math.h>
#include <stdlib.h>

#include "tests/collsim/rng.h"
#include "tests/collsim/topology.h"

static void add_host(struct topology *t, int host, int leaf, double rate)
{
	struct net *n = &t->net;
	int node = n->switches + host;

	for (int i = 0; i < t->nics_each; i++) {
		struct nic *nic = t->nic + host * t->nics_each + i;

		nic->node = node;
		nic->leaf = leaf;
		nic->tx = net_link(n, node, leaf, rate, PORT_NIC_TX, PORT_DOWN);
		nic->down = nic->tx + 1;
		nic->rx = net_bus(n, node, rate, PORT_NIC_RX);
		/* NVLink is some ten times as fast as a NIC. */
		nic->inside = net_bus(n, node, 10 * rate, PORT_INSIDE);
	}
}

static void link_fat_tree(struct net *n, double rate)
{
	/* Switches 0 to 7: edge; 8 to 15: aggregation, two a pod; 16 to 19: core. */
	for (int edge = 0; edge < 8; edge++)
		for (int i = 0; i < 2; i++)
			net_link(n, edge, 8 + edge / 2 * 2 + i, rate, PORT_UP, PORT_CORE_DOWN);
	for (int middle = 8; middle < 16; middle++)
		for (int i = 0; i < 2; i++)
			net_link(n, middle, 16 + middle % 2 * 2 + i, rate, PORT_CORE_UP,
				 PORT_CORE_DOWN);
}

/* From core to aggregation is before from there to the edge. */
static void mark_fat_tree(struct net *n)
{
	for (int i = 0; i < n->ports; i++)
		if (n->port[i].kind == PORT_CORE_DOWN && n->port[i].node >= 16)
			n->port[i].kind = PORT_TOP_DOWN;
}

void topology_build(struct topology *t, enum topology_kind kind, int hosts, int nics_each,
		    double rate, bool telemetry)
{
	static const int fat_tree_hosts = 16;
	int leaves = 1, spines = 0, each = hosts;

	if (kind == TOPOLOGY_FAT_TREE) {
		hosts = fat_tree_hosts;
		leaves = 8;
		spines = 12;
		each = 2;
	} else if (kind == TOPOLOGY_LEAVES) {
		each = 4;
		leaves = (hosts + each - 1) / each;
		spines = each * nics_each;
	}
	net_init(&t->net, leaves + spines, hosts);
	t->net.telemetry = telemetry;
	t->nics_each = nics_each;
	t->nics = hosts * nics_each;
	t->nic = calloc(t->nics, sizeof(*t->nic));
	if (!t->nic)
		abort();
	for (int host = 0; host < hosts; host++)
		add_host(t, host, host / each, rate);
	if (kind == TOPOLOGY_FAT_TREE)
		link_fat_tree(&t->net, rate);
	for (int leaf = 0; kind == TOPOLOGY_LEAVES && leaf < leaves; leaf++)
		for (int i = 0; i < spines; i++)
			net_link(&t->net, leaf, leaves + i, rate, PORT_UP, PORT_CORE_DOWN);
	if (kind == TOPOLOGY_FAT_TREE)
		mark_fat_tree(&t->net);
}

void topology_free(struct topology *t)
{
	net_free(&t->net);
	free(t->nic);
}

/* How many links each switch is from one of them. */
static void measure(const struct net *n, int to, int *far)
{
	bool more = true;

	for (int i = 0; i < n->nodes; i++)
		far[i] = i == to ? 0 : n->nodes;
	while (more) {
		more = false;
		for (int i = 0; i < n->ports; i++) {
			const struct port *p = n->port + i;

			if (p->node < n->switches && p->peer < n->switches && p->number &&
			    far[p->node] > far[p->peer] + 1) {
				far[p->node] = far[p->peer] + 1;
				more = true;
			}
		}
	}
}

static int next_port(const struct net *n, int at, const int *far, uint64_t choice)
{
	int candidate[64], candidates = 0;

	for (int i = 0; i < n->ports && candidates < 64; i++) {
		const struct port *p = n->port + i;

		if (p->node == at && p->peer < n->switches && p->number &&
		    far[p->peer] == far[at] - 1)
			candidate[candidates++] = i;
	}
	return candidate[rng_mix(choice, at) % candidates];
}

int topology_path(const struct topology *t, int from, int to, uint64_t choice, int *path)
{
	const struct net *n = &t->net;
	const struct nic *a = t->nic + from, *b = t->nic + to;
	int hops = 0, *far = malloc(n->nodes * sizeof(*far));

	if (!far)
		abort();
	if (a->node == b->node) {
		path[hops++] = a->inside;
	} else {
		measure(n, b->leaf, far);
		path[hops++] = a->tx;
		for (int at = a->leaf; at != b->leaf; at = n->port[path[hops - 1]].peer) {
			path[hops] = next_port(n, at, far, choice);
			hops++;
		}
		path[hops++] = b->down;
		path[hops++] = b->rx;
	}
	free(far);
	return hops;
}

void topology_print(const struct topology *t, FILE *out)
{
	const struct net *n = &t->net;
	int links = 0;

	for (int i = 0; i < n->ports; i++)
		links += n->port[i].number > 0;
	fprintf(out, "%d %d %d\n", n->nodes, n->switches, links / 2);
	for (int i = 0; i < n->switches; i++)
		fprintf(out, "%d%c", i, i + 1 < n->switches ? ' ' : '\n');
	/* The two ports of a link are one behind the other. */
	for (int i = 0; i < n->ports; i++) {
		if (!n->port[i].number)
			continue;
		fprintf(out, "%d %d %gGbps %gms 0\n", n->port[i].node, n->port[i].peer,
			n->port[i].line * 8, n->link_ns / 1e6);
		i++;
	}
}
