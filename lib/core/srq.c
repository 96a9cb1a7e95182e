/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The books of a shared receive queue (doc/srq.md): receives, NICs, lives. What goes where is in
 * srq_share.c. */
#include <errno.h>

#include "lib/core/srq_int.h"

#define CAP_MAX (1u << 22)

/* --- memory ---------------------------------------------------------------------------------- */

/* S1: twice as many as receives, so that the next empty slot is near. */
static uint32_t srq_slots(uint32_t cap)
{
	uint32_t n = 4;

	while (n < 2 * cap)
		n *= 2;
	return n;
}

/* With one SGE it is a cache line. */
static size_t srq_stride(uint32_t sge_max)
{
	return sizeof(struct shift_srq_entry) + (sge_max ? sge_max : 1) * sizeof(struct shift_sge);
}

size_t shift_srq_size(uint32_t cap, uint32_t sge_max)
{
	if (!cap || cap > CAP_MAX || sge_max > UINT16_MAX)
		return 0;
	return srq_slots(cap) * srq_stride(sge_max);
}

static void srq_place(struct shift_srq *s, void *mem, uint32_t cap)
{
	s->cfg.cap = cap;
	s->stride = srq_stride(s->cfg.sge_max);
	s->ring = (struct shift_srq_slots){mem, srq_slots(cap) - 1};
	for (uint64_t i = 0; i <= s->ring.mask; i++) {
		struct shift_srq_entry *e = shift_srq_at(s, i);

		e->id = SHIFT_SRQ_NO_ID;
		e->wr.sge = e->sge;
	}
}

void shift_srq_init(struct shift_srq *s, void *mem, const struct shift_srq_cfg *cfg)
{
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	s->cfg.sge_max = cfg->sge_max ? cfg->sge_max : 1;
	srq_place(s, mem, cfg->cap);
	s->cfg.turn_ns = cfg->turn_ns ? cfg->turn_ns : 20000000;
	s->cfg.retry_ns = cfg->retry_ns ? cfg->retry_ns : 100000000;
	s->cfg.evict_ns = cfg->evict_ns ? cfg->evict_ns : 1000000000;
	s->next = cfg->first_id ? cfg->first_id : s->ring.mask + 1;
	s->nic[0].state = SHIFT_SRQ_OPEN;
	srq_settle(s, 0);
}

/* Appends a receive to the list of free ones. */
static void srq_list(struct shift_srq *s, struct shift_srq_entry *e)
{
	uint32_t slot = (uint32_t)(e->id & s->ring.mask);

	if (s->free++)
		shift_srq_at(s, s->free_last)->next_free = slot;
	else
		s->free_first = slot;
	s->free_last = slot;
}

/* The usual way does not count what may be missing (S17), so it is shut while something may. */
static void srq_open_usual(struct shift_srq *s)
{
	static struct shift_srq_entry shut = {.id = SHIFT_SRQ_NO_ID - 1};

	if (s->alone && !s->nic[0].cut)
		s->usual = s->ring;
	else
		s->usual = (struct shift_srq_slots){(char *)&shut, 0};
}

/* Entries that lie in different slots do so in a larger ring, too. The list of free ones goes by
 * slots, and is made anew in its order. */
void shift_srq_grow(struct shift_srq *s, void *mem, uint32_t cap)
{
	struct shift_srq old = *s;
	uint32_t at = old.free_first;

	srq_place(s, mem, cap);
	for (uint64_t i = 0; i <= old.ring.mask; i++) {
		const struct shift_srq_entry *from = shift_srq_at(&old, i);
		struct shift_srq_entry *to = shift_srq_at(s, from->id);

		if (from->id == SHIFT_SRQ_NO_ID)
			continue;
		memcpy(to, from, s->stride);
		to->wr.sge = to->sge;
	}
	s->free = 0;
	for (uint32_t n = old.free; n; n--, at = shift_srq_at(&old, at)->next_free)
		srq_list(s, shift_srq_at(s, shift_srq_at(&old, at)->id));
	srq_open_usual(s);
}

/* --- the usual case (S24) -------------------------------------------------------------------- */

bool srq_is_alone(const struct shift_srq *s)
{
	const struct shift_srq_nic *home = &s->nic[0];

	if (s->free || home->state != SHIFT_SRQ_OPEN || home->draining)
		return false;
	if (home->watch || (home->cut && home->cut == home->on))
		return false;
	for (unsigned int k = 1; k < s->cfg.nics; k++)
		if (s->nic[k].state == SHIFT_SRQ_OPEN)
			return false;
	return true;
}

/* While it is alone nobody looks at its times, and none are kept. */
void srq_settle(struct shift_srq *s, uint64_t now)
{
	bool alone = srq_is_alone(s);

	if (s->alone && !alone)
		s->nic[0].empty_since = s->nic[0].had_since = now;
	s->alone = alone;
	srq_open_usual(s);
}

uint32_t shift_srq_total(const struct shift_srq *s)
{
	uint32_t total = s->free;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		total += s->nic[k].on;
	return total;
}

/* --- receives -------------------------------------------------------------------------------- */

/* It lies nowhere now, and waits for a NIC. */
static void srq_free(struct shift_srq *s, struct shift_srq_entry *e)
{
	e->nic = SHIFT_SRQ_NOWHERE;
	srq_list(s, e);
}

static void srq_forget(struct shift_srq_entry *e)
{
	e->id = SHIFT_SRQ_NO_ID;
	e->nic = e->refused = 0;
}

/* S1. The next id that has this slot. */
void srq_lies_on(struct shift_srq *s, struct shift_srq_entry *e, unsigned int k, uint64_t now)
{
	struct shift_srq_nic *n = &s->nic[k];

	e->id = s->next + ((e->id - s->next) & s->ring.mask);
	s->next = e->id + 1;
	e->nic = (uint8_t)k;
	n->on++;
	n->had_since = now;
}

static struct shift_srq_entry *srq_empty_slot(struct shift_srq *s)
{
	for (uint64_t i = 0; i <= s->ring.mask; i++, s->next++)
		if (shift_srq_at(s, s->next)->id == SHIFT_SRQ_NO_ID)
			return shift_srq_at(s, s->next);
	return NULL;
}

static void srq_store(struct shift_srq_entry *e, const struct shift_raw_recv *wr)
{
	e->wr_id = wr->wr_id;
	e->wr.num_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(e->sge, wr->sge, wr->num_sge * sizeof(*wr->sge));
}

/* Where a new receive goes: alone its NIC decides whether there is room, and those that wait are
 * not passed. */
static unsigned int srq_first_target(const struct shift_srq *s, const struct shift_srq_entry *e,
				     uint64_t now)
{
	if (s->alone)
		return 0;
	return s->free ? SHIFT_SRQ_NOWHERE : srq_target(s, e, now);
}

int shift_srq_post_any(struct shift_srq *s, const struct shift_raw_recv *wr, uint64_t now_ns,
		       uint64_t *id)
{
	struct shift_srq_entry *e;
	unsigned int k;

	if (wr->num_sge > s->cfg.sge_max)
		return -EINVAL;
	e = s->alone || shift_srq_total(s) < s->cfg.cap ? srq_empty_slot(s) : NULL;
	if (!e)
		return -ENOMEM;
	srq_store(e, wr);
	k = srq_first_target(s, e, now_ns);
	e->id = s->next;
	if (k == SHIFT_SRQ_NOWHERE) {
		s->next++;
		srq_free(s, e);
	} else {
		srq_lies_on(s, e, k, now_ns);
	}
	*id = e->id;
	srq_settle(s, now_ns);
	return (int)k;
}

/* The posting of that id on NIC k; NULL: there is none (S2). */
static struct shift_srq_entry *srq_find(struct shift_srq *s, unsigned int k, uint64_t id)
{
	struct shift_srq_entry *e = shift_srq_at(s, id);

	return id != SHIFT_SRQ_NO_ID && e->id == id && e->nic == k ? e : NULL;
}

/* The one of that id, wherever it lies. */
static struct shift_srq_entry *srq_posted(struct shift_srq *s, uint64_t id)
{
	unsigned int k = shift_srq_at(s, id)->nic;

	return k == SHIFT_SRQ_NOWHERE ? NULL : srq_find(s, k, id);
}

static void srq_at_most(uint32_t *n, uint32_t most)
{
	if (*n > most)
		*n = most;
}

/* S17: those that are missing are among those that are there. When none of these is in the queue,
 * each may be one of them for which something speaks. */
static void srq_weigh_suspects(struct shift_srq_nic *n)
{
	if (srq_swept(n)) {
		srq_at_most(&n->maybe, n->on);
		n->cut += n->maybe;
		n->maybe = 0;
	}
	srq_at_most(&n->doubt, n->on - n->held);
	srq_at_most(&n->cut, n->held + n->doubt);
}

/* S18: the second begins for those that are watched. */
static void srq_watch(const struct shift_srq *s, struct shift_srq_nic *n, uint64_t below,
		      uint32_t count, uint64_t now)
{
	n->watched = below;
	n->watch = count;
	n->evict_at = now + s->cfg.evict_ns;
}

/* Progress. When the last of them has gone, those are next that were held since. */
static void srq_watched_gone(const struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	if (--n->watch)
		srq_watch(s, n, n->watched, n->watch, now);
	else
		srq_watch(s, n, n->horizon, n->held, now);
}

/* NIC k does not have it any more. */
static void srq_gone(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now)
{
	struct shift_srq_nic *n = &s->nic[k];
	bool had = srq_good(n);

	n->on--;
	if (id < n->horizon)
		n->held--;
	if (id < n->watched)
		srq_watched_gone(s, n, now);
	srq_weigh_suspects(n);
	if (had && !srq_good(n))
		n->empty_since = now;
}

void shift_srq_unpost(struct shift_srq *s, uint64_t id, uint64_t now_ns)
{
	struct shift_srq_entry *e = srq_posted(s, id);

	if (!e)
		return;
	srq_gone(s, e->nic, id, now_ns);
	srq_forget(e);
	srq_settle(s, now_ns);
}

bool shift_srq_done_any(struct shift_srq *s, unsigned int k, uint64_t *wr_id, uint64_t now_ns)
{
	struct shift_srq_entry *e = srq_find(s, k, *wr_id);

	if (!e) {
		s->stats.stale++;
		return false;
	}
	srq_gone(s, k, *wr_id, now_ns);
	*wr_id = e->wr_id;
	srq_forget(e);
	srq_settle(s, now_ns);
	return true;
}

/* Free again. false: stale. */
static bool srq_take_back(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now)
{
	struct shift_srq_entry *e = srq_find(s, k, id);

	if (!e) {
		s->stats.stale++;
		return false;
	}
	srq_gone(s, k, id, now);
	srq_free(s, e);
	srq_settle(s, now);
	return true;
}

bool shift_srq_back(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns)
{
	if (!srq_take_back(s, k, id, now_ns))
		return false;
	s->stats.back++;
	return true;
}

/* S22 */
void shift_srq_refused(struct shift_srq *s, uint64_t id, uint64_t now_ns)
{
	struct shift_srq_entry *e = srq_posted(s, id);
	struct shift_srq_nic *n;

	if (!e)
		return;
	n = &s->nic[e->nic];
	e->refused |= (uint8_t)(1u << e->nic);
	if (!n->refuses)
		n->offer_at = now_ns + s->cfg.retry_ns;
	n->refuses = true;
	s->stats.refused++;
	srq_take_back(s, e->nic, id, now_ns);
}

void srq_offer_again(struct shift_srq *s, unsigned int k)
{
	s->nic[k].refuses = false;
	for (uint64_t i = 0; i <= s->ring.mask; i++)
		shift_srq_at(s, i)->refused &= (uint8_t) ~(1u << k);
}

/* --- lives ----------------------------------------------------------------------------------- */

/* What is said of the receives of a life, and of the drains in it. */
static void srq_forget_life(struct shift_srq *s, unsigned int k)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->on = n->cut = n->held = n->doubt = n->maybe = n->watch = 0;
	n->horizon = n->watched = n->drain_at = n->shut_until = 0;
	n->failed = n->blamed = n->look = false;
	if (n->refuses)
		srq_offer_again(s, k);
}

/* S5: nobody is left who could take one of what lies there. */
static void srq_life_ends(struct shift_srq *s, unsigned int k)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->state = n->on ? SHIFT_SRQ_GHOSTS : SHIFT_SRQ_EMPTY;
	n->ghosts = n->on;
	s->stats.lives += n->ghosts > 0;
	srq_forget_life(s, k);
	for (uint64_t i = 0; i <= s->ring.mask; i++) {
		struct shift_srq_entry *e = shift_srq_at(s, i);

		if (e->id != SHIFT_SRQ_NO_ID && e->nic == k)
			srq_free(s, e);
	}
}

static void srq_opens(struct shift_srq *s, unsigned int k, uint64_t now)
{
	struct shift_srq_nic *n = &s->nic[k];

	srq_forget_life(s, k);
	n->state = SHIFT_SRQ_OPEN;
	n->empty_since = n->had_since = now;
}

/* S5, S7. */
static void srq_look_at_lives(struct shift_srq *s, uint64_t now)
{
	bool used = srq_in_use(s);

	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (n->state == SHIFT_SRQ_OPEN && !n->live && (k || n->cut || used))
			srq_life_ends(s, k);
	}
	if (!used && s->nic[0].state == SHIFT_SRQ_EMPTY)
		srq_opens(s, 0, now);
	srq_settle(s, now);
}

bool shift_srq_join(struct shift_srq *s, unsigned int k, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	if (n->state == SHIFT_SRQ_GHOSTS || srq_is_shut(n, now_ns))
		return false;
	if (n->state == SHIFT_SRQ_EMPTY)
		srq_opens(s, k, now_ns);
	n->live++;
	srq_look_at_lives(s, now_ns);
	return true;
}

/* S18: if that is all of them now, and was not before, the time begins. */
static void srq_all_suspect_since(const struct shift_srq *s, struct shift_srq_nic *n,
				  uint32_t cut_before, uint64_t now)
{
	if (n->cut > cut_before && n->cut == n->on)
		n->evict_at = now + s->cfg.evict_ns;
}

/* S17: one more of those there may be missing. */
static void srq_suspect(struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	uint32_t cut = n->cut, good = srq_good(n);

	n->cut++;
	n->doubt++;
	srq_weigh_suspects(n);
	s->stats.suspects += n->cut > cut;
	srq_all_suspect_since(s, n, cut, now);
	if (good && !srq_good(n))
		n->empty_since = now;
}

/* The same, but nobody is to look for it. */
static void srq_may_lack(const struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	uint32_t cut = n->cut;

	n->maybe++;
	srq_weigh_suspects(n);
	srq_all_suspect_since(s, n, cut, now);
}

/* S18: as long as they go, nobody comes, within bounds. */
static void srq_stays_shut(const struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	if (now >= n->shut_until)
		return;
	n->shut_until = now + s->cfg.evict_ns / 2;
	if (n->shut_until > n->shut_end)
		n->shut_until = n->shut_end;
}

void shift_srq_leave(struct shift_srq *s, unsigned int k, bool cut, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->live--;
	if (cut)
		srq_suspect(s, n, now_ns);
	else
		srq_may_lack(s, n, now_ns); /* the program has ended it, perhaps in the middle */
	srq_stays_shut(s, n, now_ns);
	srq_look_at_lives(s, now_ns);
}

/* --- the drainer ----------------------------------------------------------------------------- */

void shift_srq_drained(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	if (n->state == SHIFT_SRQ_GHOSTS && n->ghosts) {
		n->ghosts--;
		s->stats.ghosts++;
	} else if (srq_take_back(s, k, id, now_ns)) {
		s->stats.drained++;
	}
}

static bool srq_drain_failed(enum shift_srq_drain how)
{
	return how == SHIFT_SRQ_FAILED || how == SHIFT_SRQ_FAILED_SENT;
}

/* S6. RNR is a proof also if that drain began before the life ended: nothing was posted since. */
static void srq_ghosts_drained(struct shift_srq *s, struct shift_srq_nic *n,
			       enum shift_srq_drain how, uint64_t now)
{
	if (how != SHIFT_SRQ_RNR && n->ghosts) {
		n->drain_at = srq_drain_failed(how) ? now + s->cfg.retry_ns : now;
		return;
	}
	n->ghosts = 0;
	n->state = SHIFT_SRQ_EMPTY;
}

/* S23: none of what is there is in its queue. */
static void srq_queue_is_empty(struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	uint32_t cut = n->cut;

	if (srq_good(n))
		n->empty_since = now;
	if (!n->watch)
		srq_watch(s, n, s->next, n->on, now);
	n->held = n->on;
	n->horizon = s->next;
	srq_weigh_suspects(n);
	srq_all_suspect_since(s, n, cut, now);
}

/* S19 */
static void srq_drain_fails(struct shift_srq *s, struct shift_srq_nic *n, bool sent, uint64_t now)
{
	n->drain_at = now + s->cfg.retry_ns;
	if (sent && n->blamed)
		srq_may_lack(s, n, now);
	if (sent && !n->blamed)
		srq_suspect(s, n, now);
	n->blamed |= sent;
	if (!n->watch && n->cut == n->on) /* S18 */
		srq_watch(s, n, s->next, n->on, now);
}

static void srq_life_drained(struct shift_srq *s, struct shift_srq_nic *n, enum shift_srq_drain how,
			     uint64_t now)
{
	n->had_since = now; /* the next turn is a turn later (S16) */
	if (how == SHIFT_SRQ_RNR)
		srq_queue_is_empty(s, n, now);
	if (srq_drain_failed(how))
		srq_drain_fails(s, n, how == SHIFT_SRQ_FAILED_SENT, now);
	else
		n->blamed = false;
}

void shift_srq_drain_ends(struct shift_srq *s, unsigned int k, enum shift_srq_drain how,
			  uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->draining = false;
	if (n->state == SHIFT_SRQ_GHOSTS)
		srq_ghosts_drained(s, n, how, now_ns);
	else if (n->state == SHIFT_SRQ_OPEN)
		srq_life_drained(s, n, how, now_ns);
	n->failed = srq_drain_failed(how);
	srq_look_at_lives(s, now_ns); /* home may be left with a suspect and without QPs */
}

/* S23. If nothing lies elsewhere, and nothing can be missing, it would not help. */
void shift_srq_look(struct shift_srq *s, unsigned int k, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	if (n->state != SHIFT_SRQ_OPEN || n->draining || !n->on || srq_swept(n))
		return;
	if (shift_srq_total(s) == n->on && !n->cut && !n->maybe)
		return;
	n->look = true;
	srq_settle(s, now_ns);
}
