/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of the books of an SRQ share. */
#ifndef SHIFT_CORE_SRQ_INT_H
#define SHIFT_CORE_SRQ_INT_H

#include "lib/core/srq.h"

/* Receives there that a message may meet, or has met and will complete (S17, S23). */
static inline uint32_t srq_good(const struct shift_srq_nic *n)
{
	return n->on - n->held - n->doubt;
}

/* S23: nothing is in its queue: that was seen, and all that came later has gone. */
static inline bool srq_swept(const struct shift_srq_nic *n)
{
	return n->on == n->held;
}

/* S18: as many may be missing as there are (and so there are live QPs, S5). */
static inline bool srq_all_missing(const struct shift_srq_nic *n)
{
	return n->cut && n->cut == n->on;
}

/* S18: its QPs leave, and must not meet others that come. */
static inline bool srq_is_shut(const struct shift_srq_nic *n, uint64_t now)
{
	return srq_all_missing(n) && now < n->shut_until;
}

/* NICs with live QPs. */
static inline uint32_t srq_in_use(const struct shift_srq *s)
{
	uint32_t used = 0;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		used += s->nic[k].live > 0;
	return used;
}

/* To be called when anything has changed: is the usual way open (S24)? */
void srq_settle(struct shift_srq *s, uint64_t now);

bool srq_is_alone(const struct shift_srq *s);

/* The entry lies on NIC k from now on, under an id of its slot that no posting ever had. */
void srq_lies_on(struct shift_srq *s, struct shift_srq_entry *e, unsigned int k, uint64_t now);

/* The NIC that a free receive goes to now, or SHIFT_SRQ_NOWHERE (S8). */
unsigned int srq_target(const struct shift_srq *s, const struct shift_srq_entry *e, uint64_t now);

/* S22: what NIC k has refused may be offered again. */
void srq_offer_again(struct shift_srq *s, unsigned int k);

#endif
