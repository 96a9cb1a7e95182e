/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The books of one shared receive queue: which of the program's receives lies on which NIC
 * (doc/srq.md; S1, S2, ... are its rules). "NIC k" is the SRQ on rail k.
 *
 * Pure: no verbs, no threads, no clock, no allocation. The caller serialises all calls, takes the
 * actions (shift_srq_action) after each, and carries them out in order. One exception, the fast
 * way: after shift_srq_let_go one thread may post (shift_srq_post_fast, shift_srq_post,
 * shift_srq_unpost) while others, each with completions of its own, call shift_srq_done_fast. For
 * anything but what is said to be possible then, these are quiesced, and shift_srq_recount comes
 * first.
 */
#ifndef SHIFT_CORE_SRQ_H
#define SHIFT_CORE_SRQ_H

#include <string.h>

#include "lib/core/fast.h"

enum {
	SHIFT_SRQ_NICS = SHIFT_RAILS_MAX,
	SHIFT_SRQ_NOWHERE = 0xff, /* in place of a NIC: free */
};

/* A receive of the program. */
struct shift_srq_entry {
	uint64_t id;	      /* of its posting, or of the last one; 0: the slot is empty (S1) */
	uint64_t wr_id;	      /* the program's */
	struct shift_sge sge; /* the only one; more are in the side storage */
	uint16_t num_sge;
	uint16_t nic; /* or SHIFT_SRQ_NOWHERE; 0 in an empty slot */
	uint32_t next_free;
};

enum shift_srq_state {
	SHIFT_SRQ_EMPTY,  /* nothing lies there */
	SHIFT_SRQ_OPEN,	  /* QPs may be live, receives may be posted */
	SHIFT_SRQ_GHOSTS, /* its life is over, and it may still have postings of it (S6) */
};

struct shift_srq_nic {
	enum shift_srq_state state;
	uint32_t live;	 /* QPs (S4) */
	uint32_t on;	 /* receives that lie there, while they are counted */
	uint32_t cut;	 /* of them, may be missing at most (S17) */
	uint32_t ghosts; /* postings of the past that it may have */
	bool draining;
	bool swept;	      /* a drain has found no more than is on, nothing has come since */
	bool told;	      /* the caller believes that QPs may join */
	uint64_t empty_since; /* it has had none that is not suspect */
	uint64_t had_since;   /* the newest was posted there */
	uint64_t drain_at;    /* not before: the last drain failed */
	uint64_t post_at;     /* not before: it refused a receive */
	uint64_t evict_at;    /* its QPs are asked to leave, if nothing comes before (S18) */
	uint64_t shut_until;  /* after that nobody may join for a while */
};

#define SHIFT_SRQ_STATS(X)                                                            \
	X(drained)   /* receives taken back by drainers */                            \
	X(ghosts)    /* postings of the past, taken out by drainers */                \
	X(stale)     /* completions that named no posting of that NIC */              \
	X(back)	     /* receives that were flushed, or whose message did not count */ \
	X(lives)     /* lives of NICs that ended with receives there */               \
	X(turns)     /* receives moved as there were too few for all NICs */          \
	X(suspects)  /* QPs that left and may have taken one with them */             \
	X(evictions) /* NICs that QPs were asked to leave, as receives were missing */

struct shift_srq_stats {
#define SHIFT_SRQ_STAT_FIELD(name) uint64_t name;
	SHIFT_SRQ_STATS(SHIFT_SRQ_STAT_FIELD)
#undef SHIFT_SRQ_STAT_FIELD
};

struct shift_srq_cfg {
	uint32_t cap;	   /* receives, as the provider of NIC 0 accepted it */
	uint32_t sge_max;  /* likewise */
	uint8_t nics;	   /* 1 .. SHIFT_SRQ_NICS */
	uint64_t turn_ns;  /* 0: 20 ms. Twice the largest min_rnr_timer of its QPs at least (S16) */
	uint64_t retry_ns; /* 0: 100 ms (S19) */
	uint64_t evict_ns; /* 0: 1 s (S18) */
};

struct shift_srq {
	/* Written when posting. */
	struct shift_srq_entry *ring;
	struct shift_sge *side;
	uint64_t next; /* the next id, if its slot is empty */
	uint32_t mask;

	/* Written on the slow way. */
	_Alignas(64) struct shift_srq_cfg cfg;
	bool counted;	/* the counts are right, and kept so; else NIC 0 has them all */
	uint32_t total; /* receives in the books */
	uint32_t free;	/* of them, on no NIC: a list, the oldest first */
	uint32_t free_first, free_last;
	uint64_t seen_ns; /* when actions were last asked for */
	struct shift_srq_nic nic[SHIFT_SRQ_NICS];
	struct shift_srq_stats stats;
};

/* Bytes for the slots and their side storage; 0: impossible. */
size_t shift_srq_size(uint32_t cap, uint32_t sge_max);

/* mem: shift_srq_size() bytes, 64-byte aligned, zeroed, borrowed. NIC 0 is open, and the receives
 * are counted. */
void shift_srq_init(struct shift_srq *s, void *mem, const struct shift_srq_cfg *cfg);

/* The provider of NIC 0 has more room now: mem as for shift_srq_init with the new cap. The old
 * memory is the caller's again. Not smaller than before. Not on the fast way. */
void shift_srq_grow(struct shift_srq *s, void *mem, uint32_t cap);

/* --- posting --------------------------------------------------------------------------------- */

/* The fast way, one SGE: its id, with which it is to be posted to NIC 0; 0: try shift_srq_post. */
static inline uint64_t shift_srq_post_fast(struct shift_srq *s, const struct shift_raw_recv *wr)
{
	uint64_t id = s->next;
	struct shift_srq_entry *e = &s->ring[id & s->mask];

	if (__builtin_expect(wr->num_sge != 1 || __atomic_load_n(&e->id, __ATOMIC_ACQUIRE), 0))
		return 0;
	e->wr_id = wr->wr_id;
	memcpy(&e->sge, wr->sge, sizeof(e->sge));
	e->num_sge = 1;
	s->next = id + 1;
	__atomic_store_n(&e->id, id, __ATOMIC_RELEASE);
	return id;
}

/* Both ways. 0; -ENOMEM: full; -EINVAL: too many SGEs. *id: as above; 0: it is free, and an action
 * posts it. */
int shift_srq_post(struct shift_srq *s, const struct shift_recv_wr *wr, uint64_t *id);

/* Both ways: NIC 0 has refused it, which is the program's mistake, or there is no room: forget it.
 */
void shift_srq_unpost(struct shift_srq *s, uint64_t id);

/* A POST that the NIC refused: free again, and that NIC gets none for a while. */
void shift_srq_refused(struct shift_srq *s, uint64_t id, uint64_t now_ns);

/* The receive of a POST; the SGEs are borrowed from the books. */
void shift_srq_recv_at(const struct shift_srq *s, uint64_t id, struct shift_recv_wr *wr);

/* --- completions ----------------------------------------------------------------------------- */

/* The fast way, a success: *wr_id is an id, and becomes the program's wr_id. false: no posting has
 * that id. */
static inline bool shift_srq_done_fast(struct shift_srq *s, uint64_t *wr_id)
{
	uint64_t id = *wr_id;
	struct shift_srq_entry *e = &s->ring[id & s->mask];

	if (__builtin_expect(e->id != id, 0))
		return false;
	*wr_id = e->wr_id;
	__atomic_store_n(&e->id, 0, __ATOMIC_RELEASE);
	return true;
}

/* The slow way: a completion of NIC k is delivered to the program. false: stale (S2), nothing of it
 * counts. */
bool shift_srq_done(struct shift_srq *s, unsigned int k, uint64_t *wr_id, uint64_t now_ns);

/* The slow way: a completion of NIC k is not delivered, and its receive is the program's still
 * (S13). false: stale. */
bool shift_srq_back(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns);

/* --- QPs ------------------------------------------------------------------------------------- */

/* A QP may accept packets on NIC k from now on (S4). false: it must not, as ghosts are there (S6),
 * or its QPs are just asked to leave (S18).
 */
bool shift_srq_join(struct shift_srq *s, unsigned int k, uint64_t now_ns);

/* It cannot any more. cut: it was fenced, and no flush has named a receive: it may have taken one
 * with it (S17). */
void shift_srq_leave(struct shift_srq *s, unsigned int k, bool cut, uint64_t now_ns);

/* NIC k has a receive, or none is to be had (S9). */
bool shift_srq_supplied(const struct shift_srq *s, unsigned int k);

/* --- the drainer ----------------------------------------------------------------------------- */

enum shift_srq_drain {
	SHIFT_SRQ_TOOK_ALL, /* as many as it was to take */
	SHIFT_SRQ_RNR,	    /* NIC k has none */
	SHIFT_SRQ_FAILED,   /* anything else: tried again later (S19) */
};

/* A successful completion of the drainer of NIC k. That of a NIC with ghosts, and the end of such a
 * drain, may be told on the fast way, too, under the caller's serialisation. */
void shift_srq_drained(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns);

/* The drainer of NIC k is at rest: all that it took has been told. */
void shift_srq_drain_ends(struct shift_srq *s, unsigned int k, enum shift_srq_drain how,
			  uint64_t now_ns);

/* --- actions --------------------------------------------------------------------------------- */

#define SHIFT_SRQ_ACTIONS(X)                                                         \
	X(POST, "nic, id: post that receive there (shift_srq_recv_at)")              \
	X(DRAIN, "nic, count: let the drainer take so many; answer with drain_ends") \
	X(SHUT, "nic: QPs may not join any more: veto the rail")                     \
	X(READY, "nic: QPs may join again")                                          \
	X(EVICT, "nic: receives are missing there: its QPs are to leave it, if they can")

enum shift_srq_action_type {
#define SHIFT_SRQ_ACTION_ENUM(name, what) SHIFT_SRQ_ACT_##name,
	SHIFT_SRQ_ACTIONS(SHIFT_SRQ_ACTION_ENUM)
#undef SHIFT_SRQ_ACTION_ENUM
		SHIFT_SRQ_ACT_COUNT
};

struct shift_srq_action {
	enum shift_srq_action_type type;
	unsigned int nic;
	uint64_t id;
	uint32_t count;
};

/* The next thing to do, which counts as begun; false: nothing now. Of DRAIN: more than count
 * messages, or RNR, end it. */
bool shift_srq_action(struct shift_srq *s, uint64_t now_ns, struct shift_srq_action *a);

/* When an action may be due although nothing happens; UINT64_MAX: never. */
uint64_t shift_srq_deadline(const struct shift_srq *s);

/* --- fast and slow (S20) --------------------------------------------------------------------- */

/* May the fast way be taken? */
bool shift_srq_fast(const struct shift_srq *s);

/* It is taken from now on. Only if shift_srq_fast(). */
void shift_srq_let_go(struct shift_srq *s);

/* It is left: posters and pollers are quiesced. */
void shift_srq_recount(struct shift_srq *s, uint64_t now_ns);

/* On the fast way, beside posters and pollers: are as many suspect as are left (S18)? To be asked
 * once a second while nic[0].cut is not 0; if so the fast way is to be left. */
bool shift_srq_suspicious(const struct shift_srq *s);

/* --- looking in ------------------------------------------------------------------------------ */

/* The limit for NIC k's own SRQ, if the program has set one (S21) and there are so many; 0: none.
 * Not on the fast way, where it is the program's. */
uint32_t shift_srq_limit(const struct shift_srq *s, unsigned int k, uint32_t limit);

/* What does not hold of the books, in words; NULL: all is well. Not on the fast way. */
const char *shift_srq_check(const struct shift_srq *s);

/* The same when no action is due at that time. */
const char *shift_srq_rests(const struct shift_srq *s, uint64_t now_ns);

#endif
