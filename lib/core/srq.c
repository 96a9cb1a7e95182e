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

size_t shift_srq_size(uint32_t cap, uint32_t sge_max)
{
	size_t side = sge_max > 1 ? sge_max * sizeof(struct shift_sge) : 0;

	if (!cap || cap > CAP_MAX || sge_max > UINT16_MAX)
		return 0;
	return srq_slots(cap) * (sizeof(struct shift_srq_entry) + side);
}

static void srq_place(struct shift_srq *s, void *mem, uint32_t cap)
{
	s->cfg.cap = cap;
	s->mask = srq_slots(cap) - 1;
	s->ring = mem;
	s->side = (void *)(s->ring + s->mask + 1);
}

void shift_srq_init(struct shift_srq *s, void *mem, const struct shift_srq_cfg *cfg)
{
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	srq_place(s, mem, cfg->cap);
	s->cfg.turn_ns = cfg->turn_ns ? cfg->turn_ns : 20000000;
	s->cfg.retry_ns = cfg->retry_ns ? cfg->retry_ns : 100000000;
	s->cfg.evict_ns = cfg->evict_ns ? cfg->evict_ns : 1000000000;
	s->next = (uint64_t)s->mask + 1; /* 0 is no id */
	s->counted = true;
	s->nic[0].state = SHIFT_SRQ_OPEN;
	for (unsigned int k = 0; k < SHIFT_SRQ_NICS; k++)
		s->nic[k].told = true;
}

static struct shift_sge *srq_side(const struct shift_srq *s, const struct shift_srq_entry *e)
{
	return s->side + (size_t)(e - s->ring) * s->cfg.sge_max;
}

/* Entries that lie in different slots do so in a larger ring, too. The list of free ones goes by
 * slots, and is made anew in its order. */
void shift_srq_grow(struct shift_srq *s, void *mem, uint32_t cap)
{
	struct shift_srq old = *s;
	uint32_t at = old.free_first;

	srq_place(s, mem, cap);
	for (uint32_t i = 0; i <= old.mask; i++) {
		const struct shift_srq_entry *from = &old.ring[i];
		struct shift_srq_entry *to = srq_at(s, from->id);

		if (!from->id)
			continue;
		*to = *from;
		if (from->num_sge > 1)
			memcpy(srq_side(s, to), srq_side(&old, from),
			       from->num_sge * sizeof(struct shift_sge));
	}
	s->free = 0;
	for (uint32_t n = old.free; n; n--, at = old.ring[at].next_free)
		srq_list(s, srq_at(s, old.ring[at].id));
}

/* --- receives -------------------------------------------------------------------------------- */

void srq_list(struct shift_srq *s, struct shift_srq_entry *e)
{
	uint32_t slot = (uint32_t)(e - s->ring);

	if (s->free++)
		s->ring[s->free_last].next_free = slot;
	else
		s->free_first = slot;
	s->free_last = slot;
}

/* It lies nowhere now, and waits for a NIC. */
static void srq_free(struct shift_srq *s, struct shift_srq_entry *e)
{
	e->nic = SHIFT_SRQ_NOWHERE;
	srq_list(s, e);
}

/* The oldest free one goes to NIC k, under an id that no posting ever had (S1). */
uint64_t srq_give(struct shift_srq *s, unsigned int k, uint64_t now)
{
	struct shift_srq_entry *e = &s->ring[s->free_first];
	struct shift_srq_nic *n = &s->nic[k];

	s->free_first = e->next_free;
	s->free--;
	e->id = s->next + ((e->id - s->next) & s->mask);
	s->next = e->id + 1;
	e->nic = (uint16_t)k;
	n->on++;
	n->swept = false;
	n->had_since = now;
	return e->id;
}

static struct shift_srq_entry *srq_empty_slot(struct shift_srq *s)
{
	for (uint32_t i = 0; i <= s->mask; i++, s->next++) {
		struct shift_srq_entry *e = srq_at(s, s->next);

		if (!__atomic_load_n(&e->id, __ATOMIC_ACQUIRE))
			return e;
	}
	return NULL;
}

int shift_srq_post(struct shift_srq *s, const struct shift_recv_wr *wr, uint64_t *id)
{
	struct shift_srq_entry *e;

	if (wr->num_sge > s->cfg.sge_max)
		return -EINVAL;
	if (s->counted && s->total >= s->cfg.cap)
		return -ENOMEM;
	e = srq_empty_slot(s);
	if (!e)
		return -ENOMEM;
	e->wr_id = wr->wr_id;
	e->num_sge = (uint16_t)wr->num_sge;
	if (wr->num_sge)
		e->sge = wr->sge[0];
	if (wr->num_sge > 1)
		memcpy(srq_side(s, e), wr->sge, wr->num_sge * sizeof(*wr->sge));
	*id = s->counted ? 0 : s->next;
	__atomic_store_n(&e->id, s->next++, __ATOMIC_RELEASE);
	if (s->counted) {
		s->total++;
		srq_free(s, e);
	}
	return 0;
}

/* The posting of that id on NIC k; NULL: there is none (S2). */
static struct shift_srq_entry *srq_find(struct shift_srq *s, unsigned int k, uint64_t id)
{
	struct shift_srq_entry *e = srq_at(s, id);

	return id && e->id == id && e->nic == k ? e : NULL;
}

/* Something came or went: S18 begins anew. */
static void srq_news(const struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	n->swept = false;
	n->evict_at = now + s->cfg.evict_ns;
}

/* NIC k does not have it any more. */
static void srq_gone(struct shift_srq *s, unsigned int k, uint64_t now)
{
	struct shift_srq_nic *n = &s->nic[k];
	bool had = srq_good(n);

	n->on--;
	srq_news(s, n, now);
	if (n->cut > n->on)
		n->cut = n->on; /* S17: those that are missing are among those that are on */
	if (had && !srq_good(n))
		n->empty_since = now;
}

void shift_srq_unpost(struct shift_srq *s, uint64_t id)
{
	struct shift_srq_entry *e = srq_find(s, 0, id);

	if (!e)
		return;
	e->id = 0;
	if (!s->counted)
		return;
	srq_gone(s, 0, 0);
	s->total--;
}

void shift_srq_recv_at(const struct shift_srq *s, uint64_t id, struct shift_recv_wr *wr)
{
	const struct shift_srq_entry *e = &s->ring[id & s->mask];

	wr->wr_id = e->wr_id;
	wr->num_sge = e->num_sge;
	wr->sge = e->num_sge > 1 ? srq_side(s, e) : &e->sge;
}

bool shift_srq_done(struct shift_srq *s, unsigned int k, uint64_t *wr_id, uint64_t now_ns)
{
	struct shift_srq_entry *e = srq_find(s, k, *wr_id);

	if (!e) {
		s->stats.stale++;
		return false;
	}
	*wr_id = e->wr_id;
	e->nic = 0;
	e->id = 0;
	s->total--;
	srq_gone(s, k, now_ns);
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
	srq_gone(s, k, now);
	srq_free(s, e);
	return true;
}

bool shift_srq_back(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns)
{
	if (!srq_take_back(s, k, id, now_ns))
		return false;
	s->stats.back++;
	return true;
}

void shift_srq_refused(struct shift_srq *s, uint64_t id, uint64_t now_ns)
{
	unsigned int k = srq_at(s, id)->nic;

	if (k < s->cfg.nics && srq_take_back(s, k, id, now_ns))
		s->nic[k].post_at = now_ns + s->cfg.retry_ns;
}

/* --- lives ----------------------------------------------------------------------------------- */

/* S5: nobody is left who could take what lies there. */
static void srq_life_ends(struct shift_srq *s, unsigned int k)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->state = n->on ? SHIFT_SRQ_GHOSTS : SHIFT_SRQ_EMPTY;
	n->ghosts = n->on;
	n->on = n->cut = 0;
	n->drain_at = 0;
	s->stats.lives += n->ghosts > 0;
	for (uint32_t i = 0; i <= s->mask; i++)
		if (s->ring[i].id && s->ring[i].nic == k)
			srq_free(s, &s->ring[i]);
}

static void srq_opens(struct shift_srq *s, unsigned int k, uint64_t now)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->state = SHIFT_SRQ_OPEN;
	n->empty_since = n->had_since = now;
	n->drain_at = n->post_at = n->shut_until = 0;
	n->swept = false;
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
}

bool shift_srq_join(struct shift_srq *s, unsigned int k, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	if (!srq_may_join(n, now_ns))
		return false;
	if (n->state == SHIFT_SRQ_EMPTY)
		srq_opens(s, k, now_ns);
	n->live++;
	srq_look_at_lives(s, now_ns);
	return true;
}

static void srq_suspect(struct shift_srq *s, struct shift_srq_nic *n, uint64_t now)
{
	if (n->cut == n->on)
		return;
	n->cut++;
	s->stats.suspects++;
	if (srq_good(n))
		return;
	n->empty_since = now;
	n->evict_at = now + s->cfg.evict_ns;
}

void shift_srq_leave(struct shift_srq *s, unsigned int k, bool cut, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->live--;
	if (cut)
		srq_suspect(s, n, now_ns);
	if (now_ns < n->shut_until) /* S18: as long as they go, nobody comes */
		n->shut_until = now_ns + s->cfg.evict_ns / 2;
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

/* S6. RNR is a proof also if that drain began before the life ended: nothing was posted since. */
static void srq_ghosts_drained(struct shift_srq *s, struct shift_srq_nic *n,
			       enum shift_srq_drain how, uint64_t now)
{
	if (how != SHIFT_SRQ_RNR && n->ghosts) {
		n->drain_at = how == SHIFT_SRQ_FAILED ? now + s->cfg.retry_ns : now;
		return;
	}
	n->ghosts = 0;
	n->state = SHIFT_SRQ_EMPTY;
	srq_look_at_lives(s, now);
}

void shift_srq_drain_ends(struct shift_srq *s, unsigned int k, enum shift_srq_drain how,
			  uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->draining = false;
	if (n->state == SHIFT_SRQ_GHOSTS) {
		srq_ghosts_drained(s, n, how, now_ns);
		return;
	}
	n->had_since = now_ns; /* the next turn is a turn later (S16) */
	if (how == SHIFT_SRQ_FAILED) {
		n->drain_at = now_ns + s->cfg.retry_ns;
		srq_suspect(s, n, now_ns); /* S19 */
	}
	n->swept = how == SHIFT_SRQ_RNR;
	srq_look_at_lives(s, now_ns); /* home may be left with a suspect and without QPs */
}

/* --- fast and slow --------------------------------------------------------------------------- */

bool shift_srq_fast(const struct shift_srq *s)
{
	const struct shift_srq_nic *home = &s->nic[0];

	if (s->free || home->state != SHIFT_SRQ_OPEN || home->draining || srq_all_suspect(home))
		return false;
	for (unsigned int k = 1; k < s->cfg.nics; k++)
		if (s->nic[k].state == SHIFT_SRQ_OPEN)
			return false;
	return true;
}

void shift_srq_let_go(struct shift_srq *s)
{
	s->counted = false;
}

static uint32_t srq_count(const struct shift_srq *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= s->mask; i++)
		n += __atomic_load_n(&s->ring[i].id, __ATOMIC_RELAXED) != 0;
	return n;
}

void shift_srq_recount(struct shift_srq *s, uint64_t now_ns)
{
	struct shift_srq_nic *n = &s->nic[0];

	if (s->counted)
		return;
	s->counted = true;
	s->total = n->on = srq_count(s);
	srq_news(s, n, now_ns);
	n->had_since = n->empty_since = now_ns;
	if (n->cut > n->on)
		n->cut = n->on;
}

bool shift_srq_suspicious(const struct shift_srq *s)
{
	return s->nic[0].cut && srq_count(s) <= s->nic[0].cut;
}
