/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues of the program, their sizes and shadows, and what waits in them for the
 * program. Completions come from lib/conn/drain.c, or by the fast way in lib/verbs/poll.c. */
#ifndef SHIFT_OBJECT_CQ_H
#define SHIFT_OBJECT_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/gate.h"
#include "lib/object/device.h"
#include "lib/object/object.h"

struct vqp;

struct wc_ring {
	struct ibv_wc *wc;
	uint32_t mask, head, tail; /* free running */
};

#define STASH_MIN 256 /* completions; it grows for a program that polls more at once */

/* What the completions of one QP's sends have in common. */
struct cqe_alike {
	uint32_t status, opcode;
	uint32_t qpn; /* 0: of none */
	uint32_t zero;
} __attribute__((aligned(16)));

struct vcq {
	struct object obj;
	/* Read by every poll. */
	struct ibv_cq *cq;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	struct vdev *dev;
	struct cqe_alike alike; /* of the QP counted last */
	struct gate gate; /* who polls the program's CQ; shut, to go by the slow way, for each QP
			   * of it that is slow, and a stash or deliveries that are not empty */
	uint64_t done;	  /* sends of last that are not added to its connection yet */
	struct vqp *last;

	/* Slow. */
	pthread_mutex_t drain_lock; /* one thread at a time feeds completions, in their order */
	struct ibv_wc *stash;	    /* under gate: polled by the fast way, to be fed first */
	uint32_t stash_at, stash_n, stash_size;
	pthread_mutex_t delivered_lock;
	struct wc_ring delivered; /* for the program, in order */

	pthread_mutex_t grow; /* sizes, under it: */
	uint32_t wanted;      /* completions that its QPs may have outstanding */
	struct {
		_Atomic(struct ibv_cq *) cq;
		uint32_t wanted;
	} shadow[NICS_MAX];
	bool has_channel;      /* events: not supported yet, its QPs are not protected */
	_Atomic bool bypassed; /* the program has the queue itself: lib/verbs/bypass.h */
};

struct vcq *vcq_find(const struct ibv_cq *cq);

/* One more completion for the program, behind all others: the one narrow door through which
 * connections hand them over. Leaf: any locks held. */
void vcq_deliver(struct vcq *cq, const struct ibv_wc *wc);

/* At most n of what was delivered, in order. How many. */
int vcq_take(struct vcq *cq, int n, struct ibv_wc *wc);

bool vcq_attach(struct vcq *cq, uint32_t n); /* a QP needs room for n more */
void vcq_detach(struct vcq *cq, uint32_t n);

/* Shadow CQ on a NIC with room for n more completions, made if need be (its worker only). */
struct ibv_cq *vcq_shadow(struct vcq *cq, struct nic *nic, uint32_t n);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

/* After a real creation that returned cq, which may be NULL. Returns cq. */
struct ibv_cq *hook_created_cq(struct ibv_cq *cq, const struct ibv_comp_channel *channel);
int hook_resize_cq(struct ibv_cq *cq, int cqe);
int hook_destroy_cq(struct ibv_cq *cq);

#endif
