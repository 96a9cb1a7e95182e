/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The books of one shared receive queue: which of the program's receives lies on which NIC
 * (doc/srq.md; S1, S2, ... are its rules). "NIC k" is the SRQ on rail k.
 *
 * Pure: no verbs, no threads, no clock, no allocation. The caller has one lock for all calls. It
 * keeps it until a receive that it was given for a NIC is posted there, and until the actions
 * (shift_srq_action) are carried out in order. These are asked for after each call; after
 * shift_srq_post and shift_srq_done only if it is not shift_srq_alone() then.
 */
#ifndef SHIFT_CORE_SRQ_H
#define SHIFT_CORE_SRQ_H

#include <string.h>

#include "lib/core/fast.h"

enum {
	SHIFT_SRQ_NICS = SHIFT_RAILS_MAX,
	SHIFT_SRQ_NOWHERE = 0xff, /* in place of a NIC: free */
};

#define SHIFT_SRQ_NO_ID UINT64_MAX

/* A receive of the program. */
struct shift_srq_entry {
	union {
		uint64_t id; /* of its posting, or of the last one; NO_ID: the slot is empty (S1) */
		struct shift_raw_recv wr; /* which NIC 0 is given as it is: its wr_id is the id */
	};
	uint64_t wr_id; /* the program's */
	uint32_t next_free;
	uint8_t nic;	 /* or SHIFT_SRQ_NOWHERE; 0 in an empty slot */
	uint8_t refused; /* a bit for each NIC that would not have it (S22) */
	struct shift_sge sge[];
};

enum shift_srq_state {
	SHIFT_SRQ_EMPTY,  /* nothing lies there */
	SHIFT_SRQ_OPEN,	  /* QPs may be live, receives may be posted */
	SHIFT_SRQ_GHOSTS, /* its life is over, and it may still have postings of it (S6) */
};

struct shift_srq_nic {
	enum shift_srq_state state;
	uint32_t live;	/* QPs (S4) */
	uint32_t on;	/* receives that lie there */
	uint32_t cut;	/* of them, may be missing at most (S17) */
	uint32_t held;	/* of them, are not in its queue for certain: ids below horizon (S23) */
	uint32_t doubt; /* of the others, may be missing at most */
	uint32_t maybe; /* QPs and drains besides: they go to cut when none is in its queue (S17) */
	uint32_t watch; /* receives there with ids below watched */
	uint32_t ghosts; /* postings of the past that it may have */
	bool draining;
	bool look;	   /* its peer waits: is anything in its queue (S23)? */
	bool failed;	   /* the last drain did (S19) */
	bool blamed;	   /* one such is in cut already */
	bool refuses;	   /* some receives, until offer_at (S22) */
	uint64_t horizon;  /* the next id, when its queue was last seen empty */
	uint64_t watched;  /* an id: nothing below it has gone for a second at evict_at (S18) */
	uint64_t drain_id; /* the next id, when the drain began */
	uint64_t drain_since;
	uint64_t empty_since; /* it has had no good one */
	uint64_t had_since;   /* the newest was posted there */
	uint64_t drain_at;    /* not before: the last drain failed */
	uint64_t offer_at;
	uint64_t evict_at;   /* its QPs are asked to leave (S18) */
	uint64_t shut_until; /* nobody may join for a while, as they leave, */
	uint64_t shut_end;   /* which is not to become later than this */
};

#define SHIFT_SRQ_STATS(X)                                                            \
	X(drained)   /* receives taken back by drainers */                            \
	X(ghosts)    /* postings of the past, taken out by drainers */                \
	X(stale)     /* completions that named no posting of that NIC */              \
	X(back)	     /* receives that were flushed, or whose message did not count */ \
	X(refused)   /* that a NIC would not have */                                  \
	X(lives)     /* lives of NICs that ended with receives there */               \
	X(turns)     /* receives moved as there were too few for all NICs */          \
	X(looks)     /* for peers that waited */                                      \
	X(suspects)  /* QPs that left and may have taken one with them */             \
	X(evictions) /* NICs that QPs were asked to leave, as receives were missing */

struct shift_srq_stats {
#define SHIFT_SRQ_STAT_FIELD(name) uint64_t name;
	SHIFT_SRQ_STATS(SHIFT_SRQ_STAT_FIELD)
#undef SHIFT_SRQ_STAT_FIELD
};

struct shift_srq_cfg {
	uint32_t cap;	   /* receives, as the provider of NIC 0 accepted it */
	uint32_t sge_max;  /* likewise; there is always room for one */
	uint8_t nics;	   /* 1 .. SHIFT_SRQ_NICS */
	uint64_t turn_ns;  /* 0: 20 ms. Twice the largest min_rnr_timer of its QPs at least (S16) */
	uint64_t retry_ns; /* 0: 100 ms (S19, S22) */
	uint64_t evict_ns; /* 0: 1 s (S18) */
	uint64_t first_id; /* 0: any. So that ids can be told from other wr_ids */
};

/* Where the slots of receives are. */
struct shift_srq_slots {
	char *first;
	uint64_t mask; /* of their numbers */
};

struct shift_srq {
	struct shift_srq_slots ring;
	/* The ring, while the usual way is open (S24). Else one slot that is not empty, and has no
	 * receive that a NIC could name: so who goes that way finds that it is shut. */
	struct shift_srq_slots usual;
	uint64_t stride; /* bytes from slot to slot */
	uint64_t next;	 /* the next id, if its slot is empty */
	bool alone;	 /* shift_srq_alone() */
	uint32_t free;	 /* receives on no NIC: a list, the oldest first */
	uint32_t free_first, free_last;
	uint64_t seen_ns; /* when actions were last asked for */
	struct shift_srq_nic nic[SHIFT_SRQ_NICS];
	struct shift_srq_cfg cfg;
	struct shift_srq_stats stats;
};

/* Bytes for the slots; 0: impossible. */
size_t shift_srq_size(uint32_t cap, uint32_t sge_max);

/* mem: shift_srq_size() bytes, 64-byte aligned, zeroed, borrowed. NIC 0 is open. */
void shift_srq_init(struct shift_srq *s, void *mem, const struct shift_srq_cfg *cfg);

/* The provider of NIC 0 has more room now: mem as for shift_srq_init with the new cap. The old
 * memory is the caller's again. Not smaller than before. */
void shift_srq_grow(struct shift_srq *s, void *mem, uint32_t cap);

/* Alone (S24): all receives lie on NIC 0, none of them is looked for, and no action is due but for
 * ghosts. While it is so, 0 will do for now_ns in shift_srq_post, _unpost and _done. It is the
 * usual case if none of them may be missing, either. */
static inline bool shift_srq_alone(const struct shift_srq *s)
{
	return s->alone;
}

static inline struct shift_srq_entry *shift_srq_in(const struct shift_srq *s,
						   const struct shift_srq_slots *slots, uint64_t id)
{
	return (struct shift_srq_entry *)(void *)(slots->first + (id & slots->mask) * s->stride);
}

/* The slot of an id: of a POST, its receive, which is lent. */
static inline struct shift_srq_entry *shift_srq_at(const struct shift_srq *s, uint64_t id)
{
	return shift_srq_in(s, &s->ring, id);
}

/* Receives in the books. */
uint32_t shift_srq_total(const struct shift_srq *s);

/* --- posting --------------------------------------------------------------------------------- */

/* The way of shift_srq_post for all that is not usual. */
int shift_srq_post_any(struct shift_srq *s, const struct shift_raw_recv *wr, uint64_t now_ns,
		       uint64_t *id);

/* One WR with one SGE, in the usual case: entry.wr is to be posted to NIC 0 at once. NULL: nothing
 * was done, and shift_srq_post is for it. */
static inline struct shift_srq_entry *shift_srq_post_usual(struct shift_srq *s,
							   const struct shift_raw_recv *wr)
{
	uint64_t next = s->next;
	struct shift_srq_entry *e = shift_srq_in(s, &s->usual, next);

	if (__builtin_expect(wr->num_sge != 1 || e->id != SHIFT_SRQ_NO_ID, 0))
		return NULL;
	e->wr_id = wr->wr_id;
	e->wr.num_sge = 1;
	memcpy(e->sge, wr->sge, sizeof(*e->sge));
	e->id = next;
	s->next++;
	s->nic[0].on++;
	return e;
}

/* One WR. A NIC: it is to be posted there at once, under *id; SHIFT_SRQ_NOWHERE: an action does
 * that later. -EINVAL: too many SGEs; -ENOMEM: full. */
static inline int shift_srq_post(struct shift_srq *s, const struct shift_raw_recv *wr,
				 uint64_t now_ns, uint64_t *id)
{
	const struct shift_srq_entry *e = shift_srq_post_usual(s, wr);

	if (!e)
		return shift_srq_post_any(s, wr, now_ns, id);
	*id = e->id;
	return 0;
}

/* The NIC has refused it, which is the program's mistake, or there is no room: forget it. */
void shift_srq_unpost(struct shift_srq *s, uint64_t id, uint64_t now_ns);

/* The NIC has refused it, and others might not: free again, and not for that NIC for a while (S22).
 */
void shift_srq_refused(struct shift_srq *s, uint64_t id, uint64_t now_ns);

/* --- completions ----------------------------------------------------------------------------- */

/* The way of shift_srq_done for all that is not usual. */
bool shift_srq_done_any(struct shift_srq *s, unsigned int k, uint64_t *wr_id, uint64_t now_ns);

/* The same of NIC 0 with success, in the usual case. false: nothing was done. */
static inline bool shift_srq_done_usual(struct shift_srq *s, uint64_t *wr_id)
{
	uint64_t id = *wr_id;
	struct shift_srq_entry *e = shift_srq_in(s, &s->usual, id);

	if (__builtin_expect(e->id != id, 0))
		return false;
	*wr_id = e->wr_id;
	e->id = SHIFT_SRQ_NO_ID;
	s->nic[0].on--;
	return true;
}

/* A completion of NIC k is delivered to the program: *wr_id is an id, and becomes the program's
 * wr_id. false: stale (S2), nothing of it counts. */
static inline bool shift_srq_done(struct shift_srq *s, unsigned int k, uint64_t *wr_id,
				  uint64_t now_ns)
{
	if (!k && *wr_id != SHIFT_SRQ_NO_ID && shift_srq_done_usual(s, wr_id))
		return true;
	return shift_srq_done_any(s, k, wr_id, now_ns);
}

/* A completion of NIC k is not delivered, and its receive is the program's still (S13). false:
 * stale. */
bool shift_srq_back(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns);

/* --- QPs ------------------------------------------------------------------------------------- */

/* A QP may accept packets on NIC k from now on (S4). false: it must not yet, as ghosts are there
 * (S6), or its QPs are just asked to leave (S18, for 1 s at most). To be asked again. */
bool shift_srq_join(struct shift_srq *s, unsigned int k, uint64_t now_ns);

/* It cannot any more. cut: it was fenced, and no flush has named a receive: it may have taken one
 * with it (S17). Of one whose fence hung: cut, when it is armed elsewhere. */
void shift_srq_leave(struct shift_srq *s, unsigned int k, bool cut, uint64_t now_ns);

/* Receives on NIC k that a message may meet, or has met and will complete, as far as is known
 * (S14, S17, S23). */
uint32_t shift_srq_good(const struct shift_srq *s, unsigned int k);

/* Postings of the past that NIC k may still have: nobody joins before they are out (S6). */
uint32_t shift_srq_ghosts(const struct shift_srq *s, unsigned int k);

/* NIC k has a receive, or none is to be had (S9). */
bool shift_srq_supplied(const struct shift_srq *s, unsigned int k);

/* The peer of a QP on NIC k makes no progress: is NIC k out of receives (S23)? */
void shift_srq_look(struct shift_srq *s, unsigned int k, uint64_t now_ns);

/* --- the drainer ----------------------------------------------------------------------------- */

enum shift_srq_drain {
	SHIFT_SRQ_TOOK_ALL,    /* as many as it was to take */
	SHIFT_SRQ_RNR,	       /* NIC k has none */
	SHIFT_SRQ_FAILED,      /* anything else: tried again later (S19), */
	SHIFT_SRQ_FAILED_SENT, /* and a message was on the wire that may have taken one */
};

/* A successful completion of the drainer of NIC k. */
void shift_srq_drained(struct shift_srq *s, unsigned int k, uint64_t id, uint64_t now_ns);

/* The drainer of NIC k is at rest: all that it took has been told. RNR: the completions of NIC k's
 * QPs have been fed, too, as far as they are there. */
void shift_srq_drain_ends(struct shift_srq *s, unsigned int k, enum shift_srq_drain how,
			  uint64_t now_ns);

/* --- actions --------------------------------------------------------------------------------- */

#define SHIFT_SRQ_ACTIONS(X)                                                         \
	X(POST, "nic, id: post that receive there (shift_srq_at)   ")                \
	X(DRAIN, "nic, count: let the drainer take so many; answer with drain_ends") \
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

/* The next thing to do, which counts as begun; false: nothing now. Of DRAIN: count messages that
 * were taken, or RNR, end it. A drain has one second. */
bool shift_srq_action(struct shift_srq *s, uint64_t now_ns, struct shift_srq_action *a);

/* When an action may be due although nothing happens; UINT64_MAX: never. */
uint64_t shift_srq_deadline(const struct shift_srq *s);

/* --- looking in ------------------------------------------------------------------------------ */

/* What does not hold of the books, in words; NULL: all is well. */
const char *shift_srq_check(const struct shift_srq *s);

/* The same when no action is due at that time. */
const char *shift_srq_rests(const struct shift_srq *s, uint64_t now_ns);

#endif
