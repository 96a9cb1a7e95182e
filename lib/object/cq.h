/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's completion queues: their sizes, their shadows, and the completions that wait for
 * the program. These come from lib/conn/drain.c on the slow way; on the fast way lib/verbs/poll.c
 * polls the NIC's queue itself.
 *
 * Locks: drain_lock is taken before any connection's lock (vqp.h); grow, then delivered_lock, and
 * the lock of a channel are leaves. Any thread, unless stated.
 */
#ifndef SHIFT_OBJECT_CQ_H
#define SHIFT_OBJECT_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/gate.h"
#include "lib/object/channel.h"
#include "lib/object/device.h"
#include "lib/object/object.h"

struct vqp;

/* A queue of completions that grows. */
struct wc_ring {
	struct ibv_wc *wc;
	uint32_t mask, head, tail; /* free running while it is not empty */
};

#define STASH_MIN 256 /* completions; the stash grows if the program polls more at once */

/* What the program has asked to be told of (ibv_req_notify_cq), in vcq.armed. A NIC forgets it with
 * the event; here it stays until an event of ours, as one too many does no harm. */
enum { ARMED_ANY = 1, ARMED_SOLICITED = 2 };

/* Of a program that polls by ibv_start_poll(): lib/verbs/cq_ex.c. */
struct cq_poller {
	pthread_mutex_t lock; /* from there to ibv_end_poll() */
	struct ibv_wc wc;     /* that it reads meanwhile; under the lock */
};

struct vcq {
	struct object obj;
	/* What every poll reads. */
	struct ibv_cq *cq;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	struct vdev *dev;
	struct assoc qps; /* vqps by QPN, of those that have completed something. Inside the gate */
	struct gate gate; /* one thread polls the program's CQ. It is shut, which sends polls the
			   * slow way, once for each QP that is slow, for a stash and for
			   * deliveries that are not empty */

	/* The slow way. */
	pthread_mutex_t drain_lock; /* one thread at a time feeds completions, in their order */
	struct ibv_wc *stash; /* polled on the fast way, to be fed first. Written inside the gate,
			       * emptied under drain_lock while the gate is shut */
	uint32_t stash_at, stash_n, stash_size;
	/* The QP whose completion is being counted without its lock: drain.c */
	_Atomic(const struct vqp *) counting;
	pthread_mutex_t delivered_lock;
	struct wc_ring delivered; /* for the program, in order; under delivered_lock */

	pthread_mutex_t grow;
	uint32_t wanted; /* completions that its QPs may have outstanding; under `grow` */
	struct {
		_Atomic(struct ibv_cq *) cq;
		uint32_t wanted, shared;
	} shadow[NICS_MAX]; /* by nic->index; written on that NIC's worker */
	bool has_channel;   /* QPs on it are protected only if events.channel is there, too */
	struct cq_events events;
	_Atomic unsigned int armed; /* ARMED_... */
	_Atomic unsigned int asked; /* likewise, what the program has asked for last */
	_Atomic bool woken;    /* an event was given to the program unseen: completion_events.c */
	_Atomic bool bypassed; /* the program has the queue itself: lib/verbs/bypass.h */
	struct cq_poller poller;
};

/* NULL: the CQ is not one of the program's, or passes through. */
struct vcq *vcq_find(const struct ibv_cq *cq);

/* Begins to count a completion of v, under drain_lock with the gate shut. What the caller reads of
 * v after this, nobody has changed who has called vcq_wait_counted() since. */
static inline void vcq_count_begin(struct vcq *cq, const struct vqp *v)
{
	atomic_store(&cq->counting, v);
}

static inline void vcq_count_end(struct vcq *cq)
{
	atomic_store(&cq->counting, NULL);
}

/* Returns when no completion of v is being counted that way. */
void vcq_wait_counted(const struct vcq *cq, const struct vqp *v);

/* Would a program that sleeps on its completion channel, if it has one, hear of completions of
 * ours?
 */
static inline bool vcq_wakes(const struct vcq *cq)
{
	return !cq->has_channel || cq->events.channel;
}

/* Adds a completion for the program, behind all others. This is the one narrow door through which
 * connections hand them over. A program that waits for an event gets one. Any locks held (leaf
 * locks). */
void vcq_deliver(struct vcq *cq, const struct ibv_wc *wc);

/* A QP is about to be armed on that NIC, or on rail 0 (NULL), and the program may be waiting for an
 * event of its completions: from now on they make one there. With the gate of cq shut; any locks
 * held. */
void vcq_arm(struct vcq *cq, const struct nic *nic);

/* The program gets an event, so what is delivered needs none until it asks again. */
void vcq_disarm(struct vcq *cq);

/* That event is not given to it after all: asks again for what it has asked for. */
void vcq_ask_again(struct vcq *cq);

/* Does a delivered completion wait for the program? */
bool vcq_has_delivered(struct vcq *cq);

/* Takes at most n of the delivered completions, in order. Returns how many. */
int vcq_take(struct vcq *cq, int n, struct ibv_wc *wc);

/* Drops what waits for the program of the QP of that number: the life that it was of is over. Waits
 * for a thread that feeds completions of this CQ. Nothing locked. */
void vcq_purge(struct vcq *cq, uint32_t qpn);

/* Makes room for n more completions, for a QP; vcq_detach() gives it back. false: there is no
 * memory, or the NIC refuses. */
bool vcq_attach(struct vcq *cq, uint32_t n);
void vcq_detach(struct vcq *cq, uint32_t n);

/* The shadow on a NIC, created or grown so that it has room for n more completions, and for
 * `shared` ones that are not counted by QP. NULL: the NIC refuses; errno says why. On that NIC's
 * worker. */
struct ibv_cq *vcq_shadow(struct vcq *cq, struct nic *nic, uint32_t n, uint32_t shared);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

/* To be called after the real verb, which was given channel_for_kernel(channel) and returned cq or
 * NULL. Returns cq. */
struct ibv_cq *hook_created_cq(struct ibv_cq *cq, struct ibv_comp_channel *channel);
int hook_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int hook_resize_cq(struct ibv_cq *cq, int cqe);
int hook_destroy_cq(struct ibv_cq *cq);

#endif
