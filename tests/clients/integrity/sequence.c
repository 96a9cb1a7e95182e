/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Lost, repeated, out of order; and the longest gaps. */
#include <string.h>

#include "tests/clients/integrity/integrity.h"

/* All up to that one are missing. */
void sequence_skip(struct sequence *s, uint32_t to, struct counters *n)
{
	for (; s->next != to; s->next++) {
		bool *m = &s->missing[s->next % WINDOW];

		n->lost += *m; /* its place in the window is needed: it never came */
		s->missing_count += !*m;
		*m = true;
	}
}

/* Number seq has come. Skipped numbers may still come late, until the end proves them lost. */
void sequence_note(struct sequence *s, uint32_t seq, struct counters *n)
{
	bool *m = &s->missing[seq % WINDOW];

	if (seq >= s->next) {
		sequence_skip(s, seq, n);
		n->lost += *m;
		s->missing_count -= *m;
		*m = false;
		s->next++;
	} else if (s->next - seq <= WINDOW && *m) {
		*m = false;
		s->missing_count--;
		n->reordered++;
	} else {
		n->duplicated++;
	}
}

/* The stream is over; the sender says how many it has sent. */
void sequence_close(struct sequence *s, uint32_t sent, struct counters *n)
{
	if (sent > s->next)
		n->lost += sent - s->next;
	n->lost += s->missing_count;
	memset(s, 0, sizeof(*s));
}

/* Keeps the longest ones, longest first. */
void gap_note(struct gap *gaps, struct gap g)
{
	if (g.ms <= gaps[GAPS_KEPT - 1].ms)
		return;
	for (int i = 0; i < GAPS_KEPT; i++) {
		struct gap shorter = gaps[i];

		if (g.ms <= shorter.ms)
			continue;
		gaps[i] = g;
		g = shorter;
	}
}
