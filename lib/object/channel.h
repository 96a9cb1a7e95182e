/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program's completion channels, and the events of the CQs on them.
 *
 * An event comes from three places: from the kernel, for the program's CQ; from the kernel, for a
 * shadow of it; and from us, when a connection hands over a completion that no NIC will report. The
 * program sleeps in poll, select or epoll on channel->fd, or in ibv_get_cq_event. So that each of
 * these wakes it, and no thread has to forward anything, channel->fd becomes an epoll descriptor
 * over all three. The kernel's own file stays open under another number. libibverbs needs it to
 * create a CQ, and gets it in `struct ibv_comp_channel` of ours (channel_for_kernel()).
 *
 * What the kernel has reported must have been acknowledged before libibverbs destroys a CQ, and
 * that is how a program waits until no thread of its own uses the CQ any more. Events of ours and
 * of shadows count likewise: libibverbs is told of as many acknowledgements less as the program
 * still owes us.
 *
 * Locks: the channel's lock is a leaf. Any thread, unless stated.
 */
#ifndef SHIFT_OBJECT_CHANNEL_H
#define SHIFT_OBJECT_CHANNEL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/object/device.h"

struct channel;

/* The events of one of the program's CQs. Under the channel's lock, but for what is constant. */
struct cq_events {
	/* Constant. channel NULL: the CQ has none, or one that is the kernel's alone. */
	struct channel *channel;
	struct ibv_cq *cq;

	struct cq_events *next; /* in the channel's list of those that have an event of ours */
	bool listed;
	bool closing, dropped; /* it is being destroyed; it had an event then */
	uint64_t given, acked; /* by us to the program, and by the program */
};

/* The program creates a CQ on its channel: what libibverbs must be given for it. It is the
 * program's own if nothing was done to that, or if it is NULL. */
struct ibv_comp_channel *channel_for_kernel(struct ibv_comp_channel *program);

/* The CQ was created on channel_for_kernel(program): to the program, and to libibverbs from now on,
 * it is on `program`. */
void channel_adopt_cq(struct ibv_cq *cq, struct ibv_comp_channel *program);

/* The same for a verb that takes attributes, which are the program's, and may be constant: what
 * libibverbs must be given. Returns copy. */
struct ibv_cq_init_attr_ex *channel_attr_for_kernel(const struct ibv_cq_init_attr_ex *attr,
						    struct ibv_cq_init_attr_ex *copy);

/* cq: of that verb, or NULL. Returns cq. */
struct ibv_cq_ex *channel_adopt_cq_ex(struct ibv_cq_ex *cq, struct ibv_comp_channel *program);

/* From now on e has the events of a CQ that was adopted; takes a reference to the channel. If there
 * is nothing to be done for the CQ, e->channel stays NULL. false: no memory. */
bool cq_events_begin(struct cq_events *e, struct ibv_cq *cq, struct ibv_comp_channel *program);

/* The program destroys the CQ: it gets no more events of ours. If the CQ was not destroyed:
 * cq_events_reopen(), if it was: cq_events_over(). Not for an e without a channel. */
void cq_events_close(struct cq_events *e);
void cq_events_reopen(struct cq_events *e);
void cq_events_over(struct cq_events *e);

/* Is the program destroying the CQ? false without a channel. */
bool cq_events_closing(struct cq_events *e);

/* Puts the reference to the channel. No event of a shadow of the CQ can come any more. */
void cq_events_end(struct cq_events *e);

/* Gives the program an event for the CQ, unless one of ours waits already. Any locks held. Not for
 * an e without a channel. */
void cq_events_add(struct cq_events *e);

/* As ibv_get_cq_event(). *e: whose event it is; NULL: of a CQ that has none of ours. *slept: set if
 * the thread has waited for one. */
int channel_get_event(struct ibv_comp_channel *program, struct ibv_cq **cq, void **cq_context,
		      struct cq_events **e, bool *slept);

/* The completion of an event of the CQ may come to the program without it. Any locks held. */
void cq_events_doubt(struct cq_events *e);

/* No event is left on its channel: what comes later has a completion. Any locks held. */
void cq_events_settle(struct cq_events *e);

/* Has a thread of the program ever slept in ibv_get_cq_event for events of the CQ's channel? If
 * not, it polls the descriptor before, and must not block. */
bool cq_events_slept_for(const struct cq_events *e);

/* May an event that the program was given be one for which nothing is there? slow: a QP of the CQ
 * is not on the fast way. */
bool cq_events_may_be_empty(struct cq_events *e, bool slow);

/* The program is not told of an event that it would have been given. After that the CQ may be gone.
 */
void cq_events_take_back(struct cq_events *e);

/* The channel on a NIC for shadows of CQs of this channel, whose cq_context must be the CQ's struct
 * cq_events. It is created if it is not there. NULL: the NIC refuses; errno says why. On that NIC's
 * worker. */
struct ibv_comp_channel *channel_shadow(struct channel *c, struct nic *nic);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

/* To be called after the real verb, which returned channel or NULL. Returns channel. */
struct ibv_comp_channel *hook_created_channel(struct ibv_comp_channel *channel);
int hook_destroy_channel(struct ibv_comp_channel *channel);
void hook_ack_cq_events(struct ibv_cq *cq, unsigned int n);

#endif
