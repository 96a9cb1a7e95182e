/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A state of ours that a peer is told, by datagrams, until it has acknowledged it; and how much of
 * the peer's own state we know. Each state has a serial. One counter of the process gives them, so
 * an older state never replaces a newer one, whatever is late, doubled or sent again by somebody
 * who has no key. A message says the serial of its state, the newest serial heard of the other
 * end, and whether it asks. Only what asks is answered, and an answer asks only if it was due to be
 * told anyway: so two ends cannot answer each other for ever. Background thread.
 */
#ifndef SHIFT_SESSION_TOLD_H
#define SHIFT_SESSION_TOLD_H

#include <stdbool.h>
#include <stdint.h>

struct told {
	uint32_t serial; /* of our state; 0: there is none to be told */
	uint32_t heard;	 /* of the peer's; 0: we know none */
	bool acked;	 /* the peer has heard ours */
	uint64_t next_ns, interval_ns;
};

/* Our state has changed: it gets a serial and is due. */
void told_change(struct told *t);

/* The peer is another process, or one that knows nothing of us: it is told at once. */
void told_begin(struct told *t);

/* Is it time to tell our state (again)? */
bool told_due(const struct told *t, uint64_t now);

/* Of a peer that is known to be there. */
#define TOLD_LONGEST_NS 1000000000ull

/* It was told: again after 10 ms, later at growing intervals, up to longest_ns. */
void told_sent(struct told *t, uint64_t now, uint64_t longest_ns);

/* A message of the peer has said what it has heard of us. */
void told_acked(struct told *t, uint32_t heard);

/* Is that state of the peer newer than what we know of it? */
bool told_newer(const struct told *t, uint32_t serial);

#endif
