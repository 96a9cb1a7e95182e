/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which NIC has how many receives (doc/srq.md, sections 4 and 5): what is to be done next. */
#include "lib/core/srq_int.h"

#define STEAL_MAX 64u
#define HANG_NS	  1000000000u /* of a drain: then nobody waits for it any more (S10) */
#define NEVER	  UINT64_MAX
#define NO_NIC	  SHIFT_SRQ_NOWHERE

static bool drain_hangs(const struct shift_srq_nic *n, uint64_t now)
{
	return n->draining && now >= n->drain_since + HANG_NS;
}

static bool may_drain(const struct shift_srq_nic *n, uint64_t now)
{
	return !n->draining && now >= n->drain_at;
}

/* S19: what lies there can be had again. */
static bool gives_back(const struct shift_srq_nic *n, uint64_t now)
{
	return n->state == SHIFT_SRQ_OPEN && !n->failed && !drain_hangs(n, now);
}

static bool any_gives_back(const struct shift_srq *s, uint64_t now)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (gives_back(&s->nic[k], now))
			return true;
	return false;
}

static bool gets_before(const struct shift_srq_nic *a, const struct shift_srq_nic *b)
{
	uint32_t has = srq_good(a);

	return has != srq_good(b) ? has < srq_good(b) : !has && a->empty_since < b->empty_since;
}

/* It may lie there, now or when no drainer is at work any more. */
static bool may_have(const struct shift_srq *s, unsigned int k, const struct shift_srq_entry *e)
{
	return s->nic[k].state == SHIFT_SRQ_OPEN && s->nic[k].on < s->cfg.cap &&
	       !(e->refused & 1u << k);
}

/* S8. A NIC that gives nothing back gets it only if no other may have it; S11. */
unsigned int srq_target(const struct shift_srq *s, const struct shift_srq_entry *e, uint64_t now)
{
	unsigned int to = NO_NIC;
	bool comes_back = false;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		comes_back |= may_have(s, k, e) && gives_back(&s->nic[k], now);
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (!may_have(s, k, e) || n->draining || (comes_back && !gives_back(n, now)))
			continue;
		if (to == NO_NIC || gets_before(n, &s->nic[to]))
			to = k;
	}
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

/* What is taken elsewhere for NIC k would come to it. */
static bool would_get(const struct shift_srq *s, unsigned int k, uint64_t now)
{
	const struct shift_srq_nic *n = &s->nic[k];

	return n->live && !n->draining && !n->refuses && n->on < s->cfg.cap &&
	       (gives_back(n, now) || !any_gives_back(s, now));
}

/* The one that lacks most. */
static unsigned int find_needy(const struct shift_srq *s, uint64_t now)
{
	unsigned int to = NO_NIC;

	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (is_needy(s, k) && would_get(s, k, now) &&
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

/* One that hangs keeps nobody from being helped. */
static bool steal_under_way(const struct shift_srq *s, uint64_t now)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (s->nic[k].state == SHIFT_SRQ_OPEN && s->nic[k].draining &&
		    !drain_hangs(&s->nic[k], now))
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

static bool drain_begin(struct shift_srq *s, uint64_t now, struct shift_srq_action *a,
			unsigned int k, uint32_t count)
{
	struct shift_srq_nic *n = &s->nic[k];

	n->draining = true;
	n->drain_id = s->next;
	n->drain_since = now;
	return action_set(a, SHIFT_SRQ_ACT_DRAIN, k, count);
}

static bool drain_ghosts(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (s->nic[k].state == SHIFT_SRQ_GHOSTS && may_drain(&s->nic[k], now))
			return drain_begin(s, now, a, k, s->nic[k].ghosts);
	return false;
}

static void list_remove(struct shift_srq *s, uint32_t before, uint32_t at)
{
	if (at == s->free_first)
		s->free_first = shift_srq_at(s, at)->next_free;
	else
		shift_srq_at(s, before)->next_free = shift_srq_at(s, at)->next_free;
	if (at == s->free_last)
		s->free_last = before;
	s->free--;
}

/* The oldest that a NIC may have. */
static bool give_free(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	uint32_t at = s->free_first, before = at;

	for (uint32_t i = 0; i < s->free; i++, before = at, at = shift_srq_at(s, at)->next_free) {
		struct shift_srq_entry *e = shift_srq_at(s, at);
		unsigned int k = srq_target(s, e, now);

		if (k == NO_NIC)
			continue;
		list_remove(s, before, at);
		srq_lies_on(s, e, k, now);
		action_set(a, SHIFT_SRQ_ACT_POST, k, 0);
		a->id = e->id;
		return true;
	}
	return false;
}

/* S22 */
static void forget_refusals(struct shift_srq *s, uint64_t now)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (s->nic[k].refuses && now >= s->nic[k].offer_at)
			srq_offer_again(s, k);
}

/* --- missing ones ----------------------------------------------------------------------------- */

/* S23: one message tells whether there is any. */
static bool look_at_queues(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		struct shift_srq_nic *n = &s->nic[k];

		if (!n->look || !may_drain(n, now))
			continue;
		n->look = false;
		s->stats.looks++;
		return drain_begin(s, now, a, k, 1);
	}
	return false;
}

/* S18 */
static bool is_to_sweep(const struct shift_srq_nic *n)
{
	return n->cut && !srq_good(n) && !srq_swept(n);
}

static bool sweep_suspects(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (is_to_sweep(n) && may_drain(n, now))
			return drain_begin(s, now, a, k, n->on - n->held);
	}
	return false;
}

static bool is_to_evict(const struct shift_srq_nic *n)
{
	return srq_all_missing(n) && (srq_swept(n) || n->failed);
}

/* Where would they go, if another is shut, or is just being emptied? (Itself it is not shut at that
 * time.) */
static bool any_is_closed(const struct shift_srq *s, uint64_t now)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];
		bool empties = n->state == SHIFT_SRQ_GHOSTS && !n->failed && !drain_hangs(n, now);

		if (empties || srq_is_shut(n, now))
			return true;
	}
	return false;
}

static bool evict_qps(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		struct shift_srq_nic *n = &s->nic[k];

		if (!is_to_evict(n) || now < n->evict_at || any_is_closed(s, now))
			continue;
		n->evict_at = now + 2 * s->cfg.evict_ns;
		n->shut_until = now + s->cfg.evict_ns / 2;
		n->shut_end = now + s->cfg.evict_ns;
		s->stats.evictions++;
		return action_set(a, SHIFT_SRQ_ACT_EVICT, k, 0);
	}
	return false;
}

/* --- sharing (S9) ----------------------------------------------------------------------------- */

static bool steal_from(struct shift_srq *s, uint64_t now, struct shift_srq_action *a,
		       unsigned int to, unsigned int from, uint32_t share)
{
	uint32_t lacks = share - srq_good(&s->nic[to]);
	uint32_t has = srq_good(&s->nic[from]) - share;

	return drain_begin(s, now, a, from, least_of(least_of(lacks, has), STEAL_MAX));
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
		return steal_from(s, now, a, to, from, share);
	from = srq_good(&s->nic[to]) ? NO_NIC : find_donor(s, now, 1);
	return from != NO_NIC && drain_begin(s, now, a, from, 1);
}

/* S19: it needs some, and gets none before its drainer has worked. */
static bool is_to_probe(const struct shift_srq *s, unsigned int k, uint64_t now)
{
	const struct shift_srq_nic *n = &s->nic[k];

	return n->failed && may_drain(n, now) && is_needy(s, k) && any_gives_back(s, now);
}

static bool probe_needy(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	for (unsigned int k = 0; k < s->cfg.nics; k++)
		if (is_to_probe(s, k, now))
			return drain_begin(s, now, a, k, 1);
	return false;
}

/* --- turns (S16) ------------------------------------------------------------------------------ */

/* Some NIC in use has none, and none has two. */
static bool too_few(const struct shift_srq *s, uint64_t now)
{
	bool lacks = false;

	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		if (s->nic[k].live && srq_good(&s->nic[k]) > 1)
			return false;
		lacks |= !srq_good(&s->nic[k]) && would_get(s, k, now);
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

		if (n->live && !n->draining && srq_good(n) &&
		    (from == NO_NIC || turn_end(s, n) < turn_end(s, &s->nic[from])))
			from = k;
	}
	return from;
}

static uint64_t turn_due(const struct shift_srq *s, uint64_t now)
{
	unsigned int from = too_few(s, now) && !steal_under_way(s, now) ? turn_of(s)
									: (unsigned int)NO_NIC;

	return from == NO_NIC ? NEVER : turn_end(s, &s->nic[from]);
}

static bool turn_next(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	if (now < turn_due(s, now))
		return false;
	s->stats.turns++;
	return drain_begin(s, now, a, turn_of(s), 1);
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool next_action(struct shift_srq *s, uint64_t now, struct shift_srq_action *a)
{
	forget_refusals(s, now);
	if (drain_ghosts(s, now, a) || give_free(s, now, a) || evict_qps(s, now, a))
		return true;
	if (steal_under_way(s, now)) /* one at a time */
		return false;
	return look_at_queues(s, now, a) || sweep_suspects(s, now, a) || probe_needy(s, now, a) ||
	       steal_receives(s, now, a) || turn_next(s, now, a);
}

bool shift_srq_action(struct shift_srq *s, uint64_t now_ns, struct shift_srq_action *a)
{
	bool due;

	s->seen_ns = now_ns;
	due = next_action(s, now_ns, a);
	srq_settle(s, now_ns);
	return due;
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

	time_earlier(s, &at, turn_due(s, s->seen_ns));
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const struct shift_srq_nic *n = &s->nic[k];

		if (n->state == SHIFT_SRQ_EMPTY)
			continue;
		time_earlier(s, &at, n->drain_at);
		time_earlier(s, &at, n->shut_until);
		if (n->draining)
			time_earlier(s, &at, n->drain_since + HANG_NS);
		if (n->refuses)
			time_earlier(s, &at, n->offer_at);
		if (is_to_evict(n))
			time_earlier(s, &at, n->evict_at);
	}
	return at;
}

uint32_t shift_srq_good(const struct shift_srq *s, unsigned int k)
{
	return srq_good(&s->nic[k]);
}

uint32_t shift_srq_ghosts(const struct shift_srq *s, unsigned int k)
{
	return s->nic[k].ghosts;
}

bool shift_srq_supplied(const struct shift_srq *s, unsigned int k)
{
	bool any = s->free;

	for (unsigned int j = 0; j < s->cfg.nics; j++)
		any |= s->nic[j].on > s->nic[j].held;
	return !any || srq_good(&s->nic[k]);
}

/* --- what must hold --------------------------------------------------------------------------- */

struct srq_counts {
	uint32_t on[SHIFT_SRQ_NICS], held[SHIFT_SRQ_NICS], watch[SHIFT_SRQ_NICS], free;
	uint64_t marks; /* of those that are free */
};

/* So that the sums of two lists that differ do. */
static uint64_t slot_mark(uint32_t slot)
{
	return (slot + 1) * 0x9e3779b97f4a7c15ull >> 20;
}

static const char *check_entry(const struct shift_srq *s, uint32_t slot, struct srq_counts *c)
{
	const struct shift_srq_entry *e = shift_srq_at(s, slot);
	unsigned int k = e->nic;

	if (e->id == SHIFT_SRQ_NO_ID)
		return e->nic || e->refused ? "an empty slot says something" : NULL;
	if ((e->id & s->ring.mask) != slot || e->id >= s->next)
		return "an id is not in its slot";
	for (unsigned int j = 0; j < SHIFT_SRQ_NICS; j++)
		if (e->refused & 1u << j && (s->alone || !s->nic[j].refuses))
			return "a refusal is never forgotten (S22)";
	if (k == SHIFT_SRQ_NOWHERE) {
		c->free++;
		c->marks += slot_mark(slot);
		return NULL;
	}
	if (k >= s->cfg.nics)
		return "a receive is on a NIC that there is not";
	if (s->nic[k].draining && e->id >= s->nic[k].drain_id)
		return "posted to a NIC that is being drained (S11)";
	c->on[k]++;
	c->held[k] += e->id < s->nic[k].horizon;
	c->watch[k] += e->id < s->nic[k].watched;
	return NULL;
}

static const char *check_slots(const struct shift_srq *s, struct srq_counts *c)
{
	for (uint32_t i = 0; i <= s->ring.mask; i++) {
		const char *what = check_entry(s, i, c);

		if (what)
			return what;
	}
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		if (c->on[k] != s->nic[k].on)
			return "a NIC has another number of receives than is counted";
		if (c->held[k] != s->nic[k].held)
			return "a NIC holds another number of receives than is counted (S23)";
		if (c->watch[k] != s->nic[k].watch)
			return "another number is watched than is counted (S18)";
	}
	return c->free == s->free ? NULL : "another number is free than is counted";
}

static const char *check_nic(const struct shift_srq_nic *n, unsigned int k)
{
	if (n->doubt > n->on - n->held || n->doubt > n->cut || n->cut > n->held + n->doubt)
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

static bool free_list_ends(const struct shift_srq *s, uint64_t marks)
{
	uint32_t at = s->free_first;

	for (uint32_t i = 0; i < s->free; i++) {
		marks -= slot_mark(at);
		if (i + 1 == s->free)
			break;
		at = shift_srq_at(s, at)->next_free;
		if (at > s->ring.mask)
			return false;
	}
	return !s->free || (at == s->free_last && !marks);
}

static bool is_usual(const struct shift_srq *s)
{
	return s->usual.first == s->ring.first && s->usual.mask == s->ring.mask;
}

const char *shift_srq_check(const struct shift_srq *s)
{
	struct srq_counts c = {0};
	const char *what = check_slots(s, &c);

	for (unsigned int k = 0; !what && k < s->cfg.nics; k++) {
		what = check_nic(&s->nic[k], k);
		if (k && srq_in_use(s) && s->nic[0].state == SHIFT_SRQ_OPEN && !s->nic[0].live)
			what = "NIC 0 is open, and only others are in use (S5)";
	}
	if (!what && !free_list_ends(s, c.marks))
		what = "the list of free receives is broken";
	if (!what && (s->alone != srq_is_alone(s) || is_usual(s) != (s->alone && !s->nic[0].cut)))
		what = "the usual way is open or shut, and should not be (S24)";
	return what;
}

static bool any_may_go(const struct shift_srq *s, uint64_t now)
{
	uint32_t at = s->free_first;

	for (uint32_t i = 0; i < s->free; i++, at = shift_srq_at(s, at)->next_free)
		if (srq_target(s, shift_srq_at(s, at), now) != NO_NIC)
			return true;
	return false;
}

static const char *rests_nic(const struct shift_srq *s, unsigned int k, uint64_t now)
{
	const struct shift_srq_nic *n = &s->nic[k];

	if (n->state == SHIFT_SRQ_GHOSTS && may_drain(n, now))
		return "ghosts are left alone (S6)";
	if (n->refuses && now >= n->offer_at)
		return "a refusal is not forgotten (S22)";
	if (steal_under_way(s, now))
		return NULL;
	if (is_to_sweep(n) && may_drain(n, now))
		return "missing ones are not looked for (S18)";
	if (n->look && may_drain(n, now))
		return "a peer waits, and nobody looks (S23)";
	if (is_to_probe(s, k, now))
		return "a NIC needs some, and its drainer is not tried (S19)";
	if (srq_good(n) || !would_get(s, k, now))
		return NULL;
	return find_donor(s, now, 1) == NO_NIC ? NULL
					       : "a NIC in use has none while another has two (S9)";
}

const char *shift_srq_rests(const struct shift_srq *s, uint64_t now_ns)
{
	if (any_may_go(s, now_ns))
		return "a receive is free, and a NIC may have it (S8)";
	if (!srq_in_use(s) && s->nic[0].state == SHIFT_SRQ_EMPTY)
		return "nobody is at home (S7)";
	for (unsigned int k = 0; k < s->cfg.nics; k++) {
		const char *what = rests_nic(s, k, now_ns);

		if (what)
			return what;
	}
	return NULL;
}
