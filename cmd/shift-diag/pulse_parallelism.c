/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The paper's figure 5: what a communicator is for, by what is done in it. */
#include "cmd/shift-diag/pulse.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

/* Less in an operation is for agreement, as on the loss; data of a layer is larger. */
enum { SMALL_BYTES = 64 << 10 };

/* What is done as seldom as once in so many operations of another is of iterations, not of layers;
 * if there is no other to compare with, by the size of gradients. */
enum { LAYERS = 4, GRADIENT_BYTES = 64 << 20 };

struct use {
	size_t collectives, large, groups;
	uint64_t largest, volume; /* of collectives */
	bool mesh, chain;
};

const char *pulse_parallelism_name(enum pulse_parallelism p)
{
	switch (p) {
	case PARALLEL_NONE: return "none";
	case PARALLEL_DP: return "DP";
	case PARALLEL_TP: return "TP";
	case PARALLEL_PP: return "PP";
	case PARALLEL_EP: return "EP";
	case PARALLEL_UNKNOWN: break;
	}
	return "unknown";
}

/* All send to all in one group. */
static bool is_mesh(const struct pulse_comm *c, const struct pulse_op *o)
{
	size_t pairs = 0;

	for (size_t i = 0; i < o->messages; i++)
		pairs += o->message[i].from != o->message[i].to;
	return c->size > 1 && pairs == (size_t)c->size * (size_t)(c->size - 1);
}

/* From neighbour to neighbour, one way at a time. */
static bool is_hop(const struct pulse_op *o)
{
	for (size_t i = 0; i < o->messages; i++) {
		int step = o->message[i].to - o->message[i].from;

		if (step != 1 && step != -1)
			return false;
		for (size_t k = 0; k < i; k++)
			if (o->message[k].from == o->message[i].to &&
			    o->message[k].to == o->message[i].from && o->messages == 2)
				return false;
	}
	return o->messages > 0;
}

static struct use use_of(const struct pulse *p, size_t comm)
{
	struct use u = {.chain = true};

	for (size_t i = 0; i < p->ops; i++) {
		const struct pulse_op *o = p->op + i;

		if (o->comm != comm)
			continue;
		if (o->kind == KIND_COLLECTIVE) {
			u.collectives++;
			u.large += o->bytes > SMALL_BYTES;
			u.volume += o->bytes;
			u.largest = o->bytes > u.largest ? o->bytes : u.largest;
		} else if (o->messages) {
			u.groups++;
			u.mesh = u.mesh || is_mesh(p->comm + comm, o);
			u.chain = u.chain && is_hop(o);
		}
	}
	return u;
}

/* Compared with the communicator in which the largest data is moved, and the one used most. */
static enum pulse_parallelism of_collectives(const struct use *u, const struct use *all, size_t n)
{
	size_t least = SIZE_MAX, most = 0;

	for (size_t i = 0; i < n; i++) {
		size_t often = all[i].mesh ? all[i].groups : all[i].large;

		if (!often || (all[i].groups && !all[i].mesh))
			continue;
		least = often < least ? often : least;
		most = often > most ? often : most;
	}
	if (!u->large)
		return PARALLEL_NONE;
	if (most >= LAYERS * least)
		return u->large >= LAYERS * least ? PARALLEL_TP : PARALLEL_DP;
	return u->volume / u->collectives >= GRADIENT_BYTES ? PARALLEL_DP : PARALLEL_TP;
}

void pulse_parallelism(const struct pulse *p, enum pulse_parallelism *result)
{
	struct use *all = check_alloc(calloc(p->comms + 1, sizeof(*all)));

	for (size_t i = 0; i < p->comms; i++)
		all[i] = use_of(p, i);
	for (size_t i = 0; i < p->comms; i++) {
		const struct use *u = all + i;

		if (u->groups && !u->large)
			result[i] = u->mesh    ? PARALLEL_EP
				    : u->chain ? PARALLEL_PP
					       : PARALLEL_UNKNOWN;
		else if (u->collectives)
			result[i] = of_collectives(u, all, p->comms);
		else
			result[i] = PARALLEL_UNKNOWN;
	}
	free(all);
}
