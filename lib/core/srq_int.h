/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of the books of an SRQ share. */
#ifndef SHIFT_CORE_SRQ_INT_H
#define SHIFT_CORE_SRQ_INT_H

#include "lib/core/srq.h"

static inline struct shift_srq_entry *srq_at(const struct shift_srq *s, uint64_t id)
{
	return &s->ring[id & s->mask];
}

/* Receives there that a message can certainly meet (S17). */
static inline uint32_t srq_good(const struct shift_srq_nic *n)
{
	return n->on - n->cut;
}

/* S18: as many are suspect as there are. */
static inline bool srq_all_suspect(const struct shift_srq_nic *n)
{
	return n->state == SHIFT_SRQ_OPEN && n->live && n->cut && !srq_good(n);
}

/* S6; and S18: those that are asked to leave must not meet others that come. */
static inline bool srq_may_join(const struct shift_srq_nic *n, uint64_t now)
{
	return n->state != SHIFT_SRQ_GHOSTS && !(srq_all_suspect(n) && now < n->shut_until);
}

/* NICs with live QPs. */
static inline uint32_t srq_in_use(const struct shift_srq *s)
{
	uint32_t used = 0;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		used += s->nic[k].live > 0;
	return used;
}

/* Appends a receive to the list of free ones. */
void srq_list(struct shift_srq *s, struct shift_srq_entry *e);

/* Gives the first of them to NIC k. Returns the id of the posting. */
uint64_t srq_give(struct shift_srq *s, unsigned int k, uint64_t now);

#endif
