/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* --break: misbehaves once, on lane 0, so that a test can see that the checks notice it. */

#include "tests/clients/integrity/integrity.h"

static bool strikes(const struct lane *l, enum stream s)
{
	return opt.break_kind != BREAK_NOTHING && l->index == 0 && s == opt.break_stream &&
	       l->next[s] >= BREAK_AT;
}

/* May the next one of a stream of slots go, if those below `free` are cleared? */
bool breaker_ready(const struct lane *l, enum stream s, uint32_t free)
{
	uint32_t seq = l->next[s];

	if (strikes(l, s) && opt.break_kind == BREAK_DUPLICATE && l->break_phase == 1)
		return free > seq;
	return seq < free + SLOTS;
}

/* Between the two halves of a repetition or an exchange? */
bool breaker_midway(const struct lane *l)
{
	return l->break_phase == 1 &&
	       (opt.break_kind == BREAK_DUPLICATE || opt.break_kind == BREAK_REORDER);
}

/* The number of the next one to post. */
uint32_t breaker_next(struct lane *l, enum stream s)
{
	uint32_t seq = l->next[s];
	int phase = l->break_phase;

	if (!strikes(l, s) || opt.break_kind == BREAK_CORRUPT || phase == 2)
		return l->next[s]++;
	l->break_phase++;
	if (opt.break_kind == BREAK_DUPLICATE) {
		l->next[s] += phase;
		return seq;
	}
	if (opt.break_kind == BREAK_REORDER) {
		l->next[s] += phase ? 2 : 0;
		return phase ? seq : seq + 1;
	}
	l->break_phase = 2;
	l->next[s] += 2;
	return seq + 1;
}

/* How many writes are posted: one more than counted between the two copies of one. */
uint32_t breaker_writes(const struct lane *l)
{
	return l->next[WRITES] + (opt.break_stream == WRITES && breaker_midway(l));
}

void breaker_corrupt(struct lane *l, enum stream s, uint8_t *message, uint32_t length)
{
	if (strikes(l, s) && opt.break_kind == BREAK_CORRUPT && !l->break_phase && length > 16) {
		message[length - 9] ^= 0x10;
		l->break_phase = 2;
	}
}
