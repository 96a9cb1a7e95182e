/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which transfers a collective operation consists of, and what each of them waits for. */
#include <math.h>
#include <stdlib.h>

#include "tests/collsim/job.h"
#include "tests/collsim/net_rates.h"

static int add_xfer(struct op *op, int src, int dst, double bytes, int step, int channel)
{
	op->xfer = net_grow(op->xfer, op->xfers, sizeof(*op->xfer));
	op->xfer[op->xfers] = (struct xfer){
		.src = src, .dst = dst, .bytes = bytes, .step = step, .channel = channel};
	return op->xfers++;
}

static void depend(struct op *op, int xfer, int on)
{
	struct xfer *x = op->xfer + xfer;

	x->dep[x->deps++] = on;
}

/* steps times round, each time what the member before has sent one step earlier. */
static void plan_ring(struct op *op, int size, int steps, double bytes, int channels)
{
	for (int c = 0; c < channels; c++) {
		int first = op->xfers;

		for (int step = 1; step <= steps; step++)
			for (int r = 0; r < size; r++) {
				int x = add_xfer(op, r, (r + 1) % size, bytes / channels, step, c);

				if (step > 1)
					depend(op, x,
					       first + (step - 2) * size + (r + size - 1) % size);
			}
	}
}

/* From the root along the ring. */
static void plan_chain(struct op *op, int size, double bytes, int channels)
{
	for (int c = 0; c < channels; c++)
		for (int i = 0; i + 1 < size; i++) {
			int src = (op->root + i) % size;
			int x = add_xfer(op, src, (src + 1) % size, bytes / channels, 1, c);

			if (i)
				depend(op, x, x - 1);
		}
}

/* The member at place i of a tree: the second tree is shifted, so that its leaves are others. */
static int placed(int i, int size, int tree)
{
	return (i + tree * (size / 2)) % size;
}

/*
 * A binary tree with places as in a heap. Up: to the parent, made of what the children sent. Down:
 * to the children, made of what the parent sent; that of the root of what its children did.
 */
static void plan_tree(struct op *op, int size, int tree, double bytes)
{
	int *up = calloc(size, sizeof(*up)), *down = calloc(size, sizeof(*down));

	if (!up || !down)
		abort();
	for (int i = size - 1; i > 0; i--) {
		up[i] = add_xfer(op, placed(i, size, tree), placed((i - 1) / 2, size, tree), bytes,
				 1, tree);
		for (int child = 2 * i + 1; child <= 2 * i + 2 && child < size; child++)
			depend(op, up[i], up[child]);
	}
	for (int i = 1; i < size; i++) {
		int parent = (i - 1) / 2;

		down[i] = add_xfer(op, placed(parent, size, tree), placed(i, size, tree), bytes,
				   (parent ? 2 : 1) + (i % 2 == 0), tree);
		if (parent)
			depend(op, down[i], down[parent]);
		for (int child = 1; !parent && child <= 2 && child < size; child++)
			depend(op, down[i], up[child]);
	}
	free(up);
	free(down);
}

/* Member r and r ^ distance exchange, with half of the bytes each time, and back again. */
static void plan_halving(struct op *op, int size, double bytes, bool back)
{
	int step = 1, before = NET_NONE, rounds = 0;

	while (1 << rounds < size)
		rounds++;
	for (int i = 0; i < (back ? 2 : 1) * rounds; i++, step++) {
		int bit = i < rounds ? i : 2 * rounds - 1 - i, first = op->xfers;

		for (int r = 0; r < size; r++) {
			int x = add_xfer(op, r, r ^ 1 << bit, bytes / (2 << bit), step, 0);

			op->xfer[x].whole = true;
			if (before != NET_NONE) {
				int last = i <= rounds ? i - 1 : 2 * rounds - i;

				depend(op, x, before + (r ^ 1 << last));
			}
		}
		before = first;
	}
}

static void plan_mesh(struct op *op, int size, double bytes)
{
	for (int r = 0; r < size; r++)
		for (int i = 1; i < size; i++)
			add_xfer(op, r, (r + i) % size, bytes, i, 0);
}

static void plan(struct op *op, int size, int channels)
{
	bool is_power = !(size & (size - 1));

	switch (op->kind) {
	case OP_ALLREDUCE:
		if (op->algorithm == ALGO_HALVING && is_power) {
			plan_halving(op, size, op->bytes, true);
		} else if (op->algorithm == ALGO_TREE) {
			plan_tree(op, size, 0, op->bytes);
		} else if (op->algorithm == ALGO_DOUBLE_TREE) {
			plan_tree(op, size, 0, op->bytes / 2);
			plan_tree(op, size, 1, op->bytes / 2);
		} else {
			plan_ring(op, size, 2 * (size - 1), op->bytes / size, channels);
		}
		break;
	case OP_ALLGATHER:
	case OP_REDUCESCATTER: plan_ring(op, size, size - 1, op->bytes, channels); break;
	case OP_ALLTOALL: plan_mesh(op, size, op->bytes / size); break;
	case OP_BROADCAST: plan_chain(op, size, op->bytes, channels); break;
	case OP_P2P: break;
	}
}

void job_plan(struct job *j, struct op *op)
{
	plan(op, j->comm[op->comm].size, j->channels);
}
