/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which devices back up which: the part of env.h that depends on nothing but its arguments. No
 * state, no locks, any thread. */
#ifndef SHIFT_BASE_RAIL_LIST_H
#define SHIFT_BASE_RAIL_LIST_H

#include <stdbool.h>

#define RAIL_NAME_MAX 64

enum { RAIL_ETHERNET = 1, RAIL_INFINIBAND = 2 };

struct rail_device {
	char name[RAIL_NAME_MAX];
	int numa_node;		  /* -1: unknown */
	unsigned int link_layers; /* of its ports, or'ed */
};

/* Is this "auto", or a list like mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_1 ? */
bool rails_valid(const char *text);

/* The backups that a valid list names for the device. Returns how many were stored. */
unsigned int rails_listed(const char *text, const char *device, char (*backups)[RAIL_NAME_MAX],
			  unsigned int max);

/* The backups by the rule for auto (env.h). Sorts the devices. Returns how many were stored. */
unsigned int rails_auto(struct rail_device *devices, unsigned int n, const char *device,
			char (*backups)[RAIL_NAME_MAX], unsigned int max);

/* Like strcmp, but runs of digits compare as numbers: mlx5_2 comes before mlx5_10. */
int rails_compare(const char *a, const char *b);

#endif
