/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Wakes a program that sleeps on its context's async_fd, which is the kernel's own file, for an
 * event that is ours (made_events.h). The one way in is an event of some object of the context. So
 * a QP of ours is made there, on an SRQ of ours, and goes to ERR: most NICs raise LAST_WQE_REACHED.
 * Where that does not come its CQ, which has room for one completion, is made to overflow: the NIC
 * raises CQ_ERR. Nothing is sent, so a link that is down does not matter. The event is not for the
 * program: who reads it hides it, and looks for those that were made.
 *
 * The descriptor is to stay readable while a made event waits, so the QP's event is the last to be
 * read; and it is taken back by destroying the QP when nothing waits any more.
 */
#ifndef SHIFT_OBJECT_EVENT_WAKER_H
#define SHIFT_OBJECT_EVENT_WAKER_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/short_lock.h"
#include "lib/base/worker.h"

struct vdev;

/* Of a context of the program's. */
struct event_waker {
	struct job job; /* on the NIC's worker for fences */
	struct short_lock lock;
	/* Under lock: */
	bool busy;  /* the job waits or runs */
	bool again; /* something has changed since it looked */
	bool rung;  /* it has raised an event, which nobody has read */
	bool ended; /* the program closes the device */
	bool told;  /* of the job: the log has that it cannot ring */
	/* What it has made, of the job. Others compare addresses. */
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	_Atomic(struct ibv_cq *) cq;
	_Atomic(struct ibv_qp *) qp;
};

/* The number of events that wait has changed, or an event was read. Any thread, any locks held. */
void event_waker_look(struct vdev *dev);

/* Is the event one of ours? And then it was read, and is about to be acknowledged. */
bool event_waker_owns(const struct vdev *dev, const struct ibv_async_event *e);
bool event_waker_heard(struct vdev *dev, const struct ibv_async_event *e);

/* The program closes the device. Nothing locked. */
void event_waker_end(struct vdev *dev);

#endif
