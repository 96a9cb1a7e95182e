/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Networks: hosts with NICs at one switch, at leaves and spines, or at a fat tree of 4 ports a
 * switch; and shortest paths through them, of which a number chooses one (ECMP). A NIC has a
 * receiving side that can be slower than its link, so each path ends with that.
 */
#ifndef SHIFT_TESTS_COLLSIM_TOPOLOGY_H
#define SHIFT_TESTS_COLLSIM_TOPOLOGY_H

#include <stdio.h>

#include "tests/collsim/net.h"

enum topology_kind { TOPOLOGY_STAR, TOPOLOGY_LEAVES, TOPOLOGY_FAT_TREE };

struct nic {
	int node, leaf;	  /* its host, its switch */
	int tx, rx, down; /* its port, its receiving side, the switch's port to it */
	int inside;	  /* the bus within the host that its GPU uses */
};

struct topology {
	struct net net;
	struct nic *nic; /* nics_each of the first host, and so on */
	int nics, nics_each;
};

/*
 * hosts at leaves of 4, with as many spines; at a fat tree there are always 16, two at a switch.
 * rate of each link: bytes/ns. Ends the process if there is no memory.
 */
void topology_build(struct topology *t, enum topology_kind kind, int hosts, int nics_each,
		    double rate, bool telemetry);
void topology_free(struct topology *t);

/* A shortest path between two NICs into path[NET_HOPS]; the number of its ports. */
int topology_path(const struct topology *t, int from, int to, uint64_t choice, int *path);

/* As the recorded data have it. */
void topology_print(const struct topology *t, FILE *out);

#endif
