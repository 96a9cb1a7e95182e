/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The slots of the shared receive queues. */
#include <string.h>

#include "lib/stats/stats_file.h"
#include "lib/stats/summary.h"

#define F (&stats_file)

/* The SRQ in a slot, locked and about to be changed; or NULL. */
static struct stats_srq *srq_change_begin(int slot)
{
	struct stats_srq *q;

	if (slot < 0 || !stats_lock())
		return NULL;
	q = F->srqs + slot;
	if ((uint64_t)slot < F->h->now.srq_slots_used && q->id) {
		stats_write_begin(&q->sequence);
		return q;
	}
	stats_unlock();
	return NULL;
}

static void srq_change_end(struct stats_srq *q)
{
	stats_write_end(&q->sequence);
	stats_unlock();
}

/* Within a change of header.now. They are few, and made rarely: no list of free ones. -1: the table
 * is full. */
static int take_srq_slot(struct stats_now *now)
{
	for (uint64_t i = 0; i < now->srq_slots_used; i++)
		if (!F->srqs[i].id)
			return (int)i;
	if (now->srq_slots_used == STATS_SRQS_MAX)
		return -1;
	return (int)now->srq_slots_used++;
}

static void fill_srq_slot(struct stats_srq *q, unsigned int rails, const char *const *nics,
			  uint32_t room)
{
	stats_write_begin(&q->sequence);
	q->id = ++F->last_srq_id;
	q->rails = (uint8_t)(rails < SHIFT_RAILS_MAX ? rails : SHIFT_RAILS_MAX);
	for (unsigned int i = 0; i < q->rails; i++)
		stats_copy_name(q->nic[i], STATS_NIC_BYTES, nics[i]);
	q->now.room = room;
	stats_write_end(&q->sequence);
}

int stats_srq_add(unsigned int rails, const char *const *nics, uint32_t room)
{
	struct stats_now *now;
	int slot;

	if (!stats_lock())
		return -1;
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	slot = take_srq_slot(now);
	now->srqs_ever += slot >= 0;
	now->srqs_live += slot >= 0;
	now->srqs_refused += slot < 0;
	stats_write_end(&now->sequence);
	if (slot >= 0)
		fill_srq_slot(F->srqs + slot, rails, nics, room);
	stats_unlock();
	return slot;
}

void stats_srq_update(int slot, const struct stats_srq_state *state)
{
	struct stats_srq *q = srq_change_begin(slot);

	if (!q)
		return;
	q->now = *state;
	srq_change_end(q);
}

void stats_srq_remove(int slot)
{
	struct stats_srq *q = srq_change_begin(slot);
	struct stats_now *now;

	if (!q)
		return;
	now = &F->h->now;
	stats_write_begin(&now->sequence);
	now->srqs_live--;
	stats_add_srq_counters(&now->gone_srq_counters, &q->now.counters);
	memset((uint8_t *)q + sizeof(q->sequence), 0, sizeof(*q) - sizeof(q->sequence));
	stats_write_end(&now->sequence);
	srq_change_end(q);
}
