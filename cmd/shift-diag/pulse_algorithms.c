/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-diag/pulse.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

const char *pulse_algorithm_name(enum pulse_algorithm a)
{
	switch (a) {
	case ALGORITHM_UNKNOWN: break;
	case ALGORITHM_RING: return "ring";
	case ALGORITHM_TREE: return "tree";
	case ALGORITHM_DOUBLE_TREE: return "double tree";
	case ALGORITHM_HALVING: return "halving-doubling";
	case ALGORITHM_MESH: return "mesh";
	}
	return "unknown";
}

static int degree(const bool *active, int size, int i)
{
	int n = 0;

	for (int j = 0; j < size; j++)
		n += active[i * size + j];
	return n;
}

/* Follows successors until one is met again, or has none (a member without records). Channels may
 * go around both ways, so a ring's members may have two neighbours: symmetric, if both send. */
static bool is_directed_ring(const bool *active, int size, int *with_records)
{
	int *from = check_alloc(calloc((size_t)size, sizeof(*from)));
	bool ring = true;

	*with_records = 0;
	for (int i = 0; i < size; i++) {
		int n = degree(active, size, i);

		*with_records += n > 0;
		ring = ring && n <= 1;
		for (int j = 0; j < size; j++)
			from[j] += active[i * size + j];
	}
	for (int i = 0; i < size; i++)
		ring = ring && from[i] <= 1;
	free(from);
	return ring;
}

/* How many others a walk over links, either way, reaches from the first that has one. */
static int reached(const bool *active, int size)
{
	bool *seen = check_alloc(calloc((size_t)size, 1));
	int *queue = check_alloc(calloc((size_t)size, sizeof(*queue)));
	int n = 0, first = 0;

	while (first < size && !degree(active, size, first))
		first++;
	if (first < size) {
		queue[n++] = first;
		seen[first] = true;
	}
	for (int k = 0; k < n; k++)
		for (int j = 0; j < size; j++) {
			if (seen[j] ||
			    (!active[queue[k] * size + j] && !active[j * size + queue[k]]))
				continue;
			seen[j] = true;
			queue[n++] = j;
		}
	free(seen);
	free(queue);
	return n;
}

static int links(const bool *active, int size)
{
	int n = 0;

	for (int i = 0; i < size; i++)
		for (int j = i + 1; j < size; j++)
			n += active[i * size + j] || active[j * size + i];
	return n;
}

static bool is_neighbours(const bool *active, int size)
{
	for (int i = 0; i < size; i++)
		for (int j = 0; j < size; j++)
			if (active[i * size + j] && j != (i + 1) % size && i != (j + 1) % size)
				return false;
	return true;
}

/* Member i sends to i ^ 1, i ^ 2, i ^ 4 ... */
static bool is_halving(const bool *active, int size)
{
	for (int i = 0; i < size; i++)
		for (int j = 0; j < size; j++) {
			int x = i ^ j;

			if (active[i * size + j] != (x && !(x & (x - 1))))
				return false;
		}
	return true;
}

enum pulse_algorithm pulse_match(const bool *active, int size)
{
	int senders, n;

	if (size < 2)
		return ALGORITHM_UNKNOWN;
	n = links(active, size);
	if (is_directed_ring(active, size, &senders) && senders >= size - 1)
		return reached(active, size) == size ? ALGORITHM_RING : ALGORITHM_UNKNOWN;
	if (reached(active, size) != size)
		return ALGORITHM_UNKNOWN;
	if (size > 3 && is_halving(active, size))
		return ALGORITHM_HALVING;
	if (size > 2 && n == size && is_neighbours(active, size))
		return ALGORITHM_RING;
	if (n == size - 1)
		return size > 2 ? ALGORITHM_TREE : ALGORITHM_RING;
	if (n == size * (size - 1) / 2 && size > 2)
		return ALGORITHM_MESH;
	return n <= 2 * (size - 1) ? ALGORITHM_DOUBLE_TREE : ALGORITHM_UNKNOWN;
}

/* The paper's appendix B. All algorithms of an allreduce send at least as much as half a tree. */
uint64_t pulse_expected_bytes(const char *op, enum pulse_algorithm a, uint64_t bytes, int size)
{
	uint64_t s = size > 0 ? (uint64_t)size : 1;

	if (!strcmp(op, "allgather") || !strcmp(op, "reducescatter"))
		return bytes * (s - 1);
	if (strcmp(op, "allreduce"))
		return 0;
	switch (a) {
	case ALGORITHM_RING:
	case ALGORITHM_HALVING: return 2 * bytes * (s - 1) / s;
	case ALGORITHM_TREE: return bytes;
	case ALGORITHM_DOUBLE_TREE: return bytes / 2;
	case ALGORITHM_MESH:
	case ALGORITHM_UNKNOWN: break;
	}
	return 0;
}

bool pulse_is_symmetric(const char *op, enum pulse_algorithm a)
{
	static const char *const names[] = {"allreduce", "allgather", "reducescatter", "alltoall"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(op, names[i]))
			return a != ALGORITHM_TREE && a != ALGORITHM_DOUBLE_TREE;
	return false;
}
