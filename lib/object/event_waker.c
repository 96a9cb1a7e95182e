/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/event_waker.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/base/poll_deadline.h"
#include "lib/base/readable.h"
#include "lib/base/real_verbs.h"
#include "lib/base/uncancelled.h"
#include "lib/nic/nic.h"
#include "lib/nic/rc_qp.h"
#include "lib/object/device.h"
#include "lib/object/made_events.h"

#define COMES_NS 10000000ull /* an event of a QP that is in ERR, or of a CQ that is full */
#define END_NS	 2000000000ull

enum { MORE_SENDS = 4 }; /* some NICs have room for a few more than they say */

static void waker_pause(long us)
{
	const struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

/* --- the QP ----------------------------------------------------------------------------------- */

static bool waker_make(struct event_waker *w, struct vdev *dev)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1};

	w->pd = real.alloc_pd(dev->ctx);
	if (!w->pd)
		return false;
	w->srq = real.create_srq(w->pd, &srq);
	if (!w->srq)
		return false;
	atomic_store(&w->cq, real.create_cq(dev->ctx, 1, NULL, NULL, 0));
	if (!w->cq)
		return false;
	qp.srq = w->srq;
	qp.send_cq = qp.recv_cq = w->cq;
	qp.cap.max_send_wr = (uint32_t)w->cq->cqe + MORE_SENDS;
	qp.cap.max_send_sge = 1;
	atomic_store(&w->qp, real.create_qp(w->pd, &qp));
	return w->qp;
}

/* What of its events nobody has read goes, too. */
static void waker_unmake(struct event_waker *w)
{
	if (w->qp)
		real.destroy_qp(w->qp);
	atomic_store(&w->qp, NULL);
	if (w->cq)
		real.destroy_cq(w->cq);
	atomic_store(&w->cq, NULL);
	if (w->srq)
		real.destroy_srq(w->srq);
	w->srq = NULL;
	if (w->pd)
		real.dealloc_pd(w->pd);
	w->pd = NULL;
}

static bool waker_is_rung(struct event_waker *w)
{
	bool rung;

	short_lock_take(&w->lock);
	rung = w->rung;
	short_lock_give(&w->lock);
	return rung;
}

static void set_rung(struct event_waker *w, bool rung)
{
	short_lock_take(&w->lock);
	w->rung = rung;
	short_lock_give(&w->lock);
}

/* It may be another event that the descriptor is readable for. Then the program is awake, and when
 * it has read that we are asked again (event_waker_look()). */
static bool event_comes(struct event_waker *w, const struct vdev *dev)
{
	struct poll_deadline deadline = {.left_ns = COMES_NS};

	do {
		if (!waker_is_rung(w) || readable_now(dev->ctx->async_fd) ||
		    !made_events_waiting(dev))
			return true;
		waker_pause(200);
	} while (poll_deadline_left(&deadline));
	return false;
}

/* Where soft-RoCE has the event at all INIT is enough, and what is behind that needs the link. Of
 * others nobody knows, so it is in RTS if it can be, as a program's is. */
static void leave_reset(struct event_waker *w, const struct vdev *dev)
{
	const struct nic *nic = dev->nic[0];
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = nic->port,
		.path_mtu = nic->port_attr.active_mtu,
		.dest_qp_num = w->qp->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
	};

	if (nic->is_rxe || !nic->ready) {
		real.modify_qp(w->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
		return;
	}
	rc_qp_own_path(nic, dev->ctx, &attr);
	rc_qp_to_rts(w->qp, &attr);
}

static bool to_err(struct event_waker *w)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	return !real.modify_qp(w->qp, &err, IBV_QP_STATE);
}

/* What is posted to a QP in ERR flushes. */
static bool overflow(struct event_waker *w, const struct vdev *dev)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	for (int i = 0; i < w->cq->cqe + MORE_SENDS; i++)
		if (dev->ops.post_send(w->qp, &wr, &bad) ||
		    (i >= w->cq->cqe && event_comes(w, dev)))
			break;
	return event_comes(w, dev);
}

static void ring(struct event_waker *w, struct vdev *dev)
{
	bool ready;

	waker_unmake(w);
	set_rung(w, true); /* its event may be read at once */
	ready = waker_make(w, dev);
	if (ready)
		leave_reset(w, dev);
	if (!made_events_waiting(dev)) { /* all were taken meanwhile: nobody is to be woken */
		waker_unmake(w);
		set_rung(w, false);
		return;
	}
	if (ready && to_err(w) && (event_comes(w, dev) || overflow(w, dev))) {
		log_debug("%s: a program that waits for asynchronous events is woken",
			  dev->ctx->device->name);
		return;
	}
	if (!w->told)
		log_warn("%s: a program that polls for asynchronous events cannot be woken (%s): "
			 "it gets those of queue pairs that were moved when it asks the next time",
			 dev->ctx->device->name, w->qp ? "no event comes" : strerror(errno));
	w->told = true;
	waker_unmake(w);
	set_rung(w, false);
}

/* --- when ------------------------------------------------------------------------------------- */

/* Under the lock, or by the job. An event of ours that is said to be unread, with a descriptor that
 * is not readable, has not come. */
static bool must_ring(const struct event_waker *w, const struct vdev *dev)
{
	return made_events_waiting(dev) && !(w->rung && readable_now(dev->ctx->async_fd));
}

static bool must_unmake(const struct event_waker *w, const struct vdev *dev)
{
	return !made_events_waiting(dev) && w->qp;
}

/* Takes the lock. Returns whether the job goes on. */
static bool job_goes_on(struct event_waker *w)
{
	bool on;

	short_lock_take(&w->lock);
	on = w->again && !w->ended;
	w->again = false;
	w->busy = on;
	short_lock_give(&w->lock);
	return on;
}

static bool rings_now(struct event_waker *w, const struct vdev *dev)
{
	bool now;

	short_lock_take(&w->lock);
	now = !w->ended && must_ring(w, dev);
	short_lock_give(&w->lock);
	return now;
}

static void waker_run(struct job *job)
{
	struct vdev *dev = (struct vdev *)((char *)job - offsetof(struct vdev, made.waker.job));
	struct event_waker *w = &dev->made.waker;

	do {
		if (rings_now(w, dev))
			ring(w, dev);
		if (must_unmake(w, dev)) {
			waker_unmake(w);
			set_rung(w, false);
		}
	} while (job_goes_on(w));
}

/* Returns whether the job is to be submitted. */
static bool job_is_wanted(struct event_waker *w, const struct vdev *dev)
{
	bool submit = false;

	short_lock_take(&w->lock);
	if (!w->ended && (must_ring(w, dev) || must_unmake(w, dev))) {
		submit = !w->busy;
		w->again = w->busy;
		w->busy = true;
	}
	short_lock_give(&w->lock);
	return submit;
}

/* poll(2) is a point of cancellation, and nobody would give the lock. */
void event_waker_look(struct vdev *dev)
{
	struct event_waker *w = &dev->made.waker;

	if (!made_events_waiting(dev) && !w->qp)
		return;
	uncancelled_begin();
	if (job_is_wanted(w, dev)) {
		w->job.fn = waker_run;
		/* The drainer is at work on the other one, for a second at a time while the link is
		 * down. */
		worker_submit(dev->nic[0]->fences, &w->job);
	}
	uncancelled_end();
}

bool event_waker_owns(const struct vdev *dev, const struct ibv_async_event *e)
{
	const struct event_waker *w = &dev->made.waker;

	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR: return e->element.cq == atomic_load(&w->cq);
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_QP_FATAL: return e->element.qp == atomic_load(&w->qp);
	default: return false;
	}
}

bool event_waker_heard(struct vdev *dev, const struct ibv_async_event *e)
{
	bool ours = event_waker_owns(dev, e);

	if (ours)
		set_rung(&dev->made.waker, false);
	return ours;
}

/* A NIC that hangs keeps the job; what it has made goes with the context then. */
void event_waker_end(struct vdev *dev)
{
	struct event_waker *w = &dev->made.waker;
	struct poll_deadline deadline = {.left_ns = END_NS};
	bool busy;

	do {
		short_lock_take(&w->lock);
		w->ended = true;
		busy = w->busy;
		short_lock_give(&w->lock);
		if (busy)
			waker_pause(1000);
	} while (busy && poll_deadline_left(&deadline));
	if (!busy)
		waker_unmake(w);
}
