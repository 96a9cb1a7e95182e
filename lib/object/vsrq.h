/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's shared receive queues: the books of which receive lies on which NIC
 * (lib/core/srq.h), their shadows on the backup NICs, and the drainers (doc/srq.md). "NIC k" is the
 * SRQ on rail k; the program's own is on rail 0.
 *
 * vsrq.lock is a leaf in the order of locks, and may be taken inside a gate. Under it nothing is
 * called but lib/core, a provider's post_srq_recv, and the tables of memory. Any thread, unless
 * stated.
 */
#ifndef SHIFT_OBJECT_VSRQ_H
#define SHIFT_OBJECT_VSRQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/background.h"
#include "lib/base/short_lock.h"
#include "lib/core/srq.h"
#include "lib/object/device.h"
#include "lib/object/memory.h"
#include "lib/object/object.h"
#include "lib/object/srq_drainer.h"
#include "lib/object/srq_limit.h"
#include "lib/stats/stats.h"

struct vsrq_rail {
	_Atomic(struct ibv_srq *) srq; /* rails 1 and up: the shadow; made on the NIC's worker */
	struct srq_drainer drainer;    /* of the NIC's worker */
	uint32_t to_drain;	       /* under lock: so many are asked of the drainer */
	bool asked;		       /* under lock: its job is to be submitted */
	bool has_drainer;	       /* under lock: it was asked for one, ever (rail 0: or for any
					* job that uses the program's SRQ) */
};

/*
 * The NIC has ids of ours as wr_id, and no other wr_id of the process looks like one: the upper 16
 * bits are the SRQ's own tag, the lower 48 begin at random. So a completion can be told to be of a
 * receive even where its opcode is undefined, and to be of this SRQ even where its QP is not known.
 */
struct vsrq {
	struct short_lock lock; /* first, so that its address is there when it is taken */
	struct object obj;
	struct ibv_srq *srq; /* the program's */
	int (*post)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	/* Under lock: */
	struct ibv_recv_wr *now, **bad, *refused; /* what the program posts, and where it hears */
	struct shift_srq books;

	/* Constant. */
	struct vdev *dev;
	struct vpd *pd;
	struct ibv_srq_attr attr; /* as accepted; max_wr: under lock */
	void *memory;		  /* of the books; under lock */
	size_t bytes;
	uint64_t first_id;
	int stats; /* slot in the statistics, or -1 */

	struct vsrq_rail rail[SHIFT_RAILS_MAX];
	struct srq_limit limit;
	uint32_t evict;	     /* under lock: mask of NICs that QPs are to be asked to leave */
	uint64_t timer_at;   /* under lock: when the background thread will look at it */
	bool ending;	     /* under lock: the program destroys it: nothing is done with it */
	_Atomic bool called; /* `call` is queued, with a reference */
	struct bg_call call;
	struct bg_timer timer; /* background thread; while it is set it has a reference */
	bool timer_set;
};

/* What an SRQ asks of the rooms above. Set once, before the first is made. */
struct srq_calls {
	/* QPs are to be asked to leave NIC k. Background thread, nothing locked. */
	void (*evict)(struct vsrq *s, unsigned int k);
	/* All completions of its QPs are to be fed. On a NIC's worker, nothing locked. */
	void (*feed)(struct vsrq *s);
};
void vsrq_set_calls(const struct srq_calls *calls);

/* Whose part that is: for its jobs. */
static inline struct vsrq *vsrq_of(struct object *obj)
{
	return (struct vsrq *)(void *)((char *)obj - offsetof(struct vsrq, obj));
}

/* NULL: the SRQ is not one of the program's, or passes through. */
struct vsrq *vsrq_find(const struct ibv_srq *srq);

/* Is it an id that this SRQ has given? */
bool vsrq_owns(struct vsrq *s, uint64_t wr_id);

/* A completion that NIC k reports. Delivered: *wr_id becomes the program's; false: that receive is
 * not there any more, and *wr_id stays. Back: it is not delivered, and the receive is the program's
 * still. */
static inline bool vsrq_done(struct vsrq *s, unsigned int k, uint64_t *wr_id);
bool vsrq_back(struct vsrq *s, unsigned int k, uint64_t wr_id); /* false likewise */

/* The books say what is to be done, and it is; gives the lock. */
void vsrq_act(struct vsrq *s);

/* The time is asked for only where the books need it. */
static inline uint64_t vsrq_now(const struct vsrq *s)
{
	return shift_srq_alone(&s->books) ? 0 : now_ns();
}

/* Gives the lock. While all is on the program's own NIC there is nothing to do, but when it has
 * just come there. */
static inline void vsrq_give(struct vsrq *s)
{
	if (__builtin_expect(!shift_srq_alone(&s->books) || s->limit.away, 0))
		vsrq_act(s);
	else
		short_lock_give(&s->lock);
}

/* A completion of the program's NIC with success, in the usual case (S24). false: nothing was done,
 * and vsrq_done() is for it. */
static inline bool vsrq_done_usual(struct vsrq *s, uint64_t *wr_id)
{
	bool ok;

	if (__builtin_expect(!short_lock_try(&s->lock), 0))
		return false;
	ok = shift_srq_done_usual(&s->books, wr_id);
	short_lock_give(&s->lock);
	return ok;
}

static inline bool vsrq_done(struct vsrq *s, unsigned int k, uint64_t *wr_id)
{
	bool ok;

	short_lock_take(&s->lock);
	ok = shift_srq_done(&s->books, k, wr_id, vsrq_now(s));
	vsrq_give(s);
	return ok;
}

/* A completion of a twin on that NIC that is gone: likewise. */
void vsrq_came_late(const struct nic *nic, uint64_t wr_id);

/* A completion of a QP that we do not know, or do not count: if it is of a receive of ours, it gets
 * the program's wr_id. */
void vsrq_translate(struct ibv_wc *wc);

/* A QP may accept packets on NIC k from now on, and cannot any more (lib/core/srq.h). */
bool vsrq_join(struct vsrq *s, unsigned int k);
void vsrq_leave(struct vsrq *s, unsigned int k, bool cut);

/* Postings of the past that keep it from joining (S6). */
uint32_t vsrq_ghosts(struct vsrq *s, unsigned int k);

/* All completions of its QPs are fed. On a NIC's worker, nothing locked. */
void vsrq_feed(struct vsrq *s);

/* The peer of a QP on NIC k makes no progress: starts a look whether NIC k is out of receives
 * (S23). Returns how many it has, as far as is known so far (S14). */
uint32_t vsrq_look(struct vsrq *s, unsigned int k);

/* Has NIC k a receive, or is none to be had? Or has it been without for 200 ms: who waits for it
 * keeps the armings of others waiting, so this is once for all QPs. */
bool vsrq_supplied(struct vsrq *s, unsigned int k);

/* The SRQ on a backup, made if it is not there; NULL: it cannot be. On that NIC's worker. */
struct ibv_srq *vsrq_shadow(struct vsrq *s, unsigned int k);

/* Is it a drainer in the program's context? The program is not to hear of that. */
bool vsrq_is_drainer(const struct ibv_qp *qp);

/* Writes all SRQs into the statistics. Background thread, now and then. */
void vsrq_tell_all(void);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

/* To be called after the real verb, which returned srq or NULL. Returns srq. */
struct ibv_srq *hook_created_srq(struct ibv_srq *srq, struct ibv_pd *pd,
				 const struct ibv_srq_init_attr *attr);
int hook_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int hook_destroy_srq(struct ibv_srq *srq);
int hot_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
