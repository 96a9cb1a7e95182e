/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which NIC has how many receives (doc/srq.md, sections 4 and 5): what is to be done next. */
#include "lib/core/srq_int.h"

#define STEAL_MAX 64u
#define NEVER	  UINT64_MAX
#define NO_NIC	  SHIFT_SRQ_NOWHERE

static bool may_post(const struct shift_srq_nic *n, uint64_t now)
{
	return n->state == SHIFT_SRQ_OPEN && !n->draining && now >= n->post_at; /* S11 */
}

static bool may_drain(const struct shift_srq_nic *n, uint64_t now)
{
	return !n->draining && now >= n->drain_at;
}

static bool gets_before(const struct shift_srq_nic *a, const struct shift_srq_nic *b)
{
	uint32_t has = srq_good(a);

	return has != srq_good(b) ? has < srq_good(b) : !has && a->empty_since < b->empty_since;
}

/* S8 */
static unsigned int post_target(const struct shift_srq *s, uint64_t now)
{
	unsigned int to = NO_NIC;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (may_post(&s->nic[k], now) &&
		    (to == NO_NIC || gets_before(&s->nic[k], &s->nic[to])))
			to = k;
	return to;
}

/* S9 */
static uint32_t fair_share(const struct shift_srq *s)
{
	uint32_t used = srq_in_use(s), good = s->free;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		good += srq_good(&s->nic[k]);
	good = used ? good / used : good;
	return good ? good : 1;
}

static bool is_needy(const struct shift_srq *s, unsigned int k)
{
	const struct shift_srq_nic *n = &s->nic[k];

	return n->live && 4 * (uint64_t)srq_good(n) < fair_share(s);
}

/* Of those in use which may have receives posted, the one that lacks most. */
static unsigned int find_needy(const struct shift_srq *s, uint64_t now)
{
	unsigned int to = NO_NIC;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (is_needy(s, k) && may_post(&s->nic[k], now) &&
		    (to == NO_NIC || gets_before(&s->nic[k], &s->nic[to])))
			to = k;
	return to;
}

/* Of those that can be drained now the one that has most, and more than so many. */
static unsigned int find_donor(const struct shift_srq *s, uint64_t now, uint32_t most)
{
	unsigned int from = NO_NIC;

	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (n->state != SHIFT_SRQ_OPEN || !may_drain(n, now) || srq_good(n) <= most)
			continue;
		most = srq_good(n);
		from = k;
	}
	return from;
}

static bool steal_under_way(const struct shift_srq *s)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (s->nic[k].draining && s->nic[k].state == SHIFT_SRQ_OPEN)
			return true;
	return false;
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* --- one kind of action each ------------------------------------------------------------------ */

static bool action_set(struct shift_srq_action *a, enum shift_srq_action_type type, unsigned int k,
		       uint32_t count)
{
	*a = (struct shift_srq_action){.type = type, .nic = k, .count = count};
	return true;
}

static bool drain_begin(struct shift_srq *s, struct shift_srq_action *a, unsigned int k,
			uint32_t count)
{
	s->nic[k].draining = true;
	return action_set(a, SHIFT_SRQ_ACT_DRAIN, k, count);
}

/* S6: what the caller believes. */
static bool tell_joinable(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		bool may = srq_may_join(&s->nic[k], now);

		if (s->nic[k].told == may)
			continue;
		s->nic[k].told = may;
		return action_set(a, may ? SHIFT_SRQ_ACT_READY : SHIFT_SRQ_ACT_SHUT, k, 0);
	}
	return false;
}

static bool drain_ghosts(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (s->nic[k].state == SHIFT_SRQ_GHOSTS && may_drain(&s->nic[k], now))
			return drain_begin(s, a, k, s->nic[k].ghosts);
	return false;
}

static bool give_free(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	unsigned int k = s->free ? post_target(s, now) : NO_NIC;

	if (k == NO_NIC)
		return false;
	action_set(a, SHIFT_SRQ_ACT_POST, k, 0);
	a->id = srq_give(s, k, now);
	return true;
}

static bool sweep_suspects(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (srq_all_suspect(n) && !n->swept && may_drain(n, now))
			return drain_begin(s, a, k, n->on);
	}
	return false;
}

static bool evict_qps(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		struct shift_srq_nic *n = &s->nic[k];

		if (!srq_all_suspect(n) || now < n->evict_at)
			continue;
		n->evict_at = now + s->cfg.evict_ns;
		n->shut_until = now + s->cfg.evict_ns / 2;
		s->stats.evictions++;
		return action_set(a, SHIFT_SRQ_ACT_EVICT, k, 0);
	}
	return false;
}

static bool steal_from(struct shift_srq *s, struct shift_srq_action *a, unsigned int to,
		       unsigned int from, uint32_t share)
{
	uint32_t lacks = share - srq_good(&s->nic[to]);
	uint32_t has = srq_good(&s->nic[from]) - share;

	return drain_begin(s, a, from, least_of(least_of(lacks, has), STEAL_MAX));
}

/* Who has more than its share may be out of reach: then who has two gives one. */
static bool steal_receives(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	unsigned int to = find_needy(s, now), from;
	uint32_t share = fair_share(s);

	if (to == NO_NIC)
		return false;
	from = find_donor(s, now, share);
	if (from != NO_NIC)
		return steal_from(s, a, to, from, share);
	from = srq_good(&s->nic[to]) ? NO_NIC : find_donor(s, now, 1);
	return from != NO_NIC && drain_begin(s, a, from, 1);
}

/* --- turns (S16) ------------------------------------------------------------------------------ */

/* Some NIC in use has none, and none has two. */
static bool too_few(const struct shift_srq *s)
{
	bool lacks = false;

	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		if (s->nic[k].live && srq_good(&s->nic[k]) > 1)
			return false;
		lacks |= s->nic[k].live && !srq_good(&s->nic[k]);
	}
	return lacks && !s->free;
}

/* When its turn is over. */
static uint64_t turn_end(const struct shift_srq *s, const struct shift_srq_nic *n)
{
	uint64_t end = n->had_since + s->cfg.turn_ns;

	return n->drain_at > end ? n->drain_at : end;
}

/* The one whose turn began first. */
static unsigned int turn_of(const struct shift_srq *s)
{
	unsigned int from = NO_NIC;

	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (n->live && srq_good(n) &&
		    (from == NO_NIC || turn_end(s, n) < turn_end(s, &s->nic[from])))
			from = k;
	}
	return from;
}

static uint64_t turn_due(const struct shift_srq *s)
{
	unsigned int from = too_few(s) && !steal_under_way(s) ? turn_of(s) : NO_NIC;

	return from == NO_NIC ? NEVER : turn_end(s, &s->nic[from]);
}

static bool turn_next(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	if (now < turn_due(s))
		return false;
	s->stats.turns++;
	return drain_begin(s, a, turn_of(s), 1);
}

/* --- all of them ------------------------------------------------------------------------------ */

bool shift_srq_action(struct shift_srq *s, uint64_t now_ns, struct shift_srq_action *a)
{
	s->seen_ns = now_ns;
	if (tell_joinable(s, now_ns, a) || drain_ghosts(s, now_ns, a))
		return true;
	if (!s->counted)
		return false;
	if (give_free(s, now_ns, a))
		return true;
	if (evict_qps(s, now_ns, a))
		return true;
	if (steal_under_way(s)) /* one at a time */
		return false;
	return sweep_suspects(s, now_ns, a) || steal_receives(s, now_ns, a) ||
	       turn_next(s, now_ns, a);
}

/* What was due already has been looked at. */
static void time_earlier(const struct shift_srq *s, uint64_t *at, uint64_t other)
{
	if (other > s->seen_ns && other < *at)
		*at = other;
}

/* Some of these change nothing when they come: that does no harm. */
uint64_t shift_srq_deadline(const struct shift_srq *s)
{
	uint64_t at = NEVER;

	if (s->counted)
		time_earlier(s, &at, turn_due(s));
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (n->state == SHIFT_SRQ_EMPTY)
			continue;
		time_earlier(s, &at, n->drain_at);
		time_earlier(s, &at, n->post_at);
		time_earlier(s, &at, n->shut_until);
		if (srq_all_suspect(n))
			time_earlier(s, &at, n->evict_at);
	}
	return at;
}

bool shift_srq_supplied(const struct shift_srq *s, unsigned int k)
{
	return !s->counted || !s->total || srq_good(&s->nic[k]);
}

uint32_t shift_srq_limit(const struct shift_srq *s, unsigned int k, uint32_t limit)
{
	uint32_t used = srq_in_use(s), part;

	if (!limit || s->total < limit || s->nic[k].state != SHIFT_SRQ_OPEN)
		return 0;
	used = used ? used : 1;
	part = (s->total - limit + used) / used; /* rounded up */
	return part <= s->nic[k].on ? s->nic[k].on - part + 1 : 0;
}

/* --- what must hold --------------------------------------------------------------------------- */

static const char *check_slots(const struct shift_srq *s)
{
	uint32_t on[SHIFT_SRQ_NICS] = {0}, free = 0;

	for (uint32_t i = 0; i <= s->mask; i++) {
		const struct shift_srq_entry *e = &s->ring[i];

		if (!e->id && e->nic)
			return "an empty slot names a NIC";
		if (!e->id)
			continue;
		if ((e->id & s->mask) != i || e->id >= s->next)
			return "an id is not in its slot";
		if (e->nic == SHIFT_SRQ_NOWHERE)
			free++;
		else if (e->nic >= s->cfg.nics)
			return "a receive is on a NIC that there is not";
		else
			on[e->nic]++;
	}
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (on[k] != s->nic[k].on)
			return "a NIC has another number of receives than is counted";
	return free == s->free ? NULL : "another number is free than is counted";
}

static const char *check_nic(const struct shift_srq_nic *n, unsigned int k)
{
	if (n->cut > n->on)
		return "more are suspect than are there (S17)";
	switch (n->state) {
	case SHIFT_SRQ_EMPTY:
		return n->on || n->live || n->ghosts ? "an empty NIC has something" : NULL;
	case SHIFT_SRQ_GHOSTS:
		if (n->on || n->live)
			return "a NIC with ghosts is in use (S6)";
		return NULL;
	case SHIFT_SRQ_OPEN:
		if (n->ghosts)
			return "a life began with ghosts (S6)";
		if (!n->live && (k || n->cut))
			return "a life goes on without QPs (S5)";
		return NULL;
	}
	return "no such state";
}

static bool free_list_ends(const struct shift_srq *s)
{
	uint32_t at = s->free_first;

	for (uint32_t i = 0; i < s->free; i++) {
		if (s->ring[at].nic != SHIFT_SRQ_NOWHERE || !s->ring[at].id)
			return false;
		if (i + 1 < s->free)
			at = s->ring[at].next_free;
	}
	return !s->free || at == s->free_last;
}

const char *shift_srq_check(const struct shift_srq *s)
{
	const char *what = check_slots(s);
	uint32_t sum = s->free;

	for (unsigned int k = 0; !what && k < s->cfg.nics; k++) {
		what = check_nic(&s->nic[k], k);
		sum += s->nic[k].on;
		if (k && srq_in_use(s) && s->nic[0].state == SHIFT_SRQ_OPEN && !s->nic[0].live)
			what = "NIC 0 is open, and only others are in use (S5)";
	}
	if (!what && sum != s->total)
		what = "the sum is not the total";
	if (!what && s->total > s->cfg.cap)
		what = "more receives than there is room for";
	if (!what && !free_list_ends(s))
		what = "the list of free receives is broken";
	return what;
}

const char *shift_srq_rests(const struct shift_srq *s, uint64_t now_ns)
{
	if (s->free && post_target(s, now_ns) != NO_NIC)
		return "a receive is free, and a NIC may have it (S8)";
	if (!srq_in_use(s) && s->nic[0].state == SHIFT_SRQ_EMPTY)
		return "nobody is at home (S7)";
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (n->state == SHIFT_SRQ_GHOSTS && may_drain(n, now_ns))
			return "ghosts are left alone (S6)";
		if (n->told != srq_may_join(n, now_ns))
			return "the caller was not told whether QPs may join (S6)";
		if (!n->live || srq_good(n) || !may_post(n, now_ns) || steal_under_way(s))
			continue;
		for (unsigned int j = 0; j < s->cfg.nics; j++)
			if (may_drain(&s->nic[j], now_ns) && srq_good(&s->nic[j]) > 1)
				return "a NIC in use has none while another has two (S9)";
	}
	return NULL;
}
