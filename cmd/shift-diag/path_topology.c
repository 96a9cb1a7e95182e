/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* topology.txt of the authors' simulator: which port leads where, and which are equally good. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-diag/path_sim.h"
#include "common/cli.h"

/* Distances are computed for that much work only; without them there are no groups. */
enum { DISTANCE_WORK_MAX = 1 << 26 };

void sim_topology_free(struct sim_topology *topology)
{
	if (!topology)
		return;
	for (size_t i = 0; i < topology->nodes; i++)
		free(topology->node[i].port);
	free(topology->node);
	free(topology);
}

int sim_port(struct telemetry *t, const struct sim_topology *topology, uint64_t node, bool is_host,
	     uint64_t number)
{
	char name[24], port[24];

	if (topology) {
		if (node >= topology->nodes || !number || number > topology->node[node].ports)
			return PATH_NONE;
		return topology->node[node].port[number - 1];
	}
	snprintf(name, sizeof(name), "%llu", (unsigned long long)node);
	snprintf(port, sizeof(port), "%llu", (unsigned long long)number);
	return tele_port_find(t, name, port, is_host);
}

/* The next port of a node; PATH_NONE: too many. */
static int add_port(struct telemetry *t, struct sim_topology *topology, size_t node)
{
	struct sim_node *n = topology->node + node;
	char name[24], number[24];
	int port;

	snprintf(name, sizeof(name), "%zu", node);
	snprintf(number, sizeof(number), "%zu", n->ports + 1);
	port = tele_port_find(t, name, number, !n->is_switch);
	if (port == PATH_NONE)
		return port;
	n->port = check_alloc(reallocarray(n->port, n->ports + 1, sizeof(*n->port)));
	n->port[n->ports++] = port;
	return port;
}

static int add_link(struct telemetry *t, struct sim_topology *topology, const uint64_t *v)
{
	int a, b;

	if (v[0] >= topology->nodes || v[1] >= topology->nodes || v[0] == v[1])
		return -EINVAL;
	a = add_port(t, topology, v[0]);
	b = add_port(t, topology, v[1]);
	if (a == PATH_NONE || b == PATH_NONE)
		return -EINVAL;
	t->port[a].peer = b;
	t->port[b].peer = a;
	return 0;
}

static size_t node_of(const struct telemetry *t, int port)
{
	return strtoul(strchr(t->port[port].node, ' ') + 1, NULL, 10);
}

/* Hops from each node to one. */
static void measure_distances(const struct telemetry *t, const struct sim_topology *topology,
			      size_t to, uint32_t *distance, size_t *queue)
{
	size_t head = 0, tail = 0;

	for (size_t i = 0; i < topology->nodes; i++)
		distance[i] = UINT32_MAX;
	distance[to] = 0;
	queue[tail++] = to;
	while (head < tail) {
		const struct sim_node *n = topology->node + queue[head];
		uint32_t next = distance[queue[head++]] + 1;

		for (size_t i = 0; i < n->ports; i++) {
			size_t peer = node_of(t, t->port[n->port[i]].peer);

			/* Hosts forward nothing. */
			if (distance[peer] != UINT32_MAX)
				continue;
			distance[peer] = next;
			if (topology->node[peer].is_switch)
				queue[tail++] = peer;
		}
	}
}

/* The ports of a switch on shortest ways to one host, if there are several and none is in a group.
 */
static void group_ports(struct telemetry *t, const struct sim_node *n, const uint32_t *distance,
			uint32_t mine)
{
	size_t found = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n->ports; i++) {
			struct tele_port *p = t->port + n->port[i];

			if (mine == UINT32_MAX || distance[node_of(t, p->peer)] + 1 != mine)
				continue;
			if (pass)
				p->group = t->groups;
			else if (p->group != PATH_NONE)
				return;
			else
				found++;
		}
		if (found < 2)
			return;
	}
	t->groups++;
}

static void find_groups(struct telemetry *t, const struct sim_topology *topology)
{
	uint32_t *distance = check_alloc(calloc(topology->nodes + 1, sizeof(*distance)));
	size_t *queue = check_alloc(calloc(topology->nodes + 1, sizeof(*queue)));

	for (size_t to = 0; to < topology->nodes; to++) {
		if (topology->node[to].is_switch || !topology->node[to].ports)
			continue;
		measure_distances(t, topology, to, distance, queue);
		for (size_t i = 0; i < topology->nodes; i++)
			if (topology->node[i].is_switch)
				group_ports(t, topology->node + i, distance, distance[i]);
	}
	free(distance);
	free(queue);
}

static int bad(const struct sim_lines *in, const char *what)
{
	say("%s:%zu: %s; is it the topology of a simulation?", in->name, in->line, what);
	return -EINVAL;
}

static int read_switches(struct sim_lines *in, struct sim_topology *topology, uint64_t switches)
{
	uint64_t v;

	for (uint64_t i = 0; i < switches; i++) {
		if (sim_number(in, &v) != 1 || v >= topology->nodes)
			return bad(in, "not all switches are listed");
		topology->node[v].is_switch = true;
	}
	return 0;
}

int sim_topology_parse(const char *name, char *text, struct telemetry *t,
		       struct sim_topology **topology)
{
	struct sim_lines in = {.name = name, .next = text};
	struct sim_topology *made = check_alloc(calloc(1, sizeof(*made)));
	uint64_t v[3];
	int status = 0;

	*topology = made;
	if (!sim_line(&in) || sim_numbers(&in, v, 3) != 3 || v[0] > TELE_PORTS_MAX || v[1] > v[0] ||
	    v[2] > TELE_PORTS_MAX / 2)
		return bad(&in, "not: nodes switches links");
	made->node = check_alloc(calloc(v[0] + 1, sizeof(*made->node)));
	made->nodes = v[0];
	if (!sim_line(&in))
		return bad(&in, "it ends before the switches");
	status = read_switches(&in, made, v[1]);
	for (uint64_t i = 0, n = v[2]; i < n && !status; i++)
		if (!sim_line(&in) || sim_numbers(&in, v, 2) != 2 || add_link(t, made, v))
			status = bad(&in, "not a link between two nodes");
	if (!status && (uint64_t)made->nodes * (t->port_n + 1) < DISTANCE_WORK_MAX)
		find_groups(t, made);
	return status;
}
