/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The event queue: a binary heap over a fixed array, ordered by (time, age). */
#include "tests/sim/sim.h"

static inline bool before(const struct ev *a, const struct ev *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void ev_add(uint64_t at, enum ev_type type, unsigned int h, unsigned int r, uint32_t x)
{
	struct ev e = {
		.at = at < W.now ? W.now : at,
		.seq = W.seq++,
		.x = x,
		.type = (uint8_t)type,
		.h = (uint8_t)h,
		.r = (uint8_t)r,
		.life = (uint8_t)W.life,
	};
	uint32_t i = W.heap_n;

	if (i == HEAP_MAX) {
		violation("simulator: event queue full");
		return;
	}
	W.heap_n++;
	while (i && before(&e, &W.heap[(i - 1) / 2])) {
		W.heap[i] = W.heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	W.heap[i] = e;
}

bool ev_pop(struct ev *out)
{
	struct ev last;
	uint32_t i = 0, k;

	if (!W.heap_n)
		return false;
	*out = W.heap[0];
	last = W.heap[--W.heap_n];
	while ((k = 2 * i + 1) < W.heap_n) {
		if (k + 1 < W.heap_n && before(&W.heap[k + 1], &W.heap[k]))
			k++;
		if (!before(&W.heap[k], &last))
			break;
		W.heap[i] = W.heap[k];
		i = k;
	}
	W.heap[i] = last;
	return true;
}
