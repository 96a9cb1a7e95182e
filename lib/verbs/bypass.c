/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * With direct verbs the program asks for the queues themselves (mlx5dv_init_obj) and rings the
 * doorbell itself. What it posts is in no log, so a switch would lose it, and what it polls is not
 * counted. So its connections are released before it gets the queues (doc/protocol.md, 8.7). From
 * then on nothing of such a QP is logged, marked or counted. ERR, RESET and destroy go straight to
 * the NIC, because a fence would write into queues that are not ours.
 *
 * This is possible only before the first switch. After that the queue of the NIC that the program
 * chose is idle, or was armed again without the program's knowledge, and the peer relies on what
 * this end remembers. The program then gets EBUSY rather than a queue that leads nowhere.
 */
#include "lib/verbs/bypass.h"

#include <errno.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/reentry.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/cq_counts.h"
#include "lib/conn/srq_qps.h"

static bool receives_outstanding(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.recv_cum != view.recv_posted;
}

/* From now on completions of the QP pass through unseen. */
static void forget_completions(struct vqp *v)
{
	table_remove(&v->dev->qps, v->qp->qp_num);
	vcq_forget(v->send_cq, v);
	if (v->recv_cq != v->send_cq)
		vcq_forget(v->recv_cq, v);
	v->hot.recv_marked.wr_id = 0;
}

/* Between vqp_enter() and vqp_leave(). Adds one more reason than vqp_leave() removes, so that the
 * gates stay shut: posts then come to slow_post_send() and slow_post_recv(), which let them pass,
 * and the fast way need not ask. */
static void step_aside(struct vqp *v)
{
	v->life.bypassed = true;
	gate_shut(&v->hot.send_gate);
	gate_shut(&v->hot.recv_gate);
	gate_forget(&v->hot.send_gate, v->qp);
	gate_forget(&v->hot.recv_gate, v->qp);
	/* Receives that were posted with our mark get the program's wr_id back from the log. Behind
	 * the last of them the log is empty, and all completions pass. */
	if (!v->hot.recv_marked.wr_id || !receives_outstanding(v))
		forget_completions(v);
}

/* false: it is too late. */
static bool hand_over(struct vqp *v)
{
	bool ok = true;

	vqp_enter(v);
	if (!v->life.bypassed) {
		ok = v->repost.tx_next == v->repost.tx_end && srq_qp_join_at_once(v) &&
		     vqp_release(v, STATS_UNPROTECTED_POSTED_AROUND);
		if (ok)
			step_aside(v);
		else
			log_warn("QP %#x: the program asks for its queue (direct verbs) and "
				 "gets EBUSY, because the connection has moved to another "
				 "NIC or is over; run such a program without shift",
				 v->qp->qp_num);
	}
	vqp_leave(v);
	return ok;
}

struct cq_handover {
	const struct vcq *cq;
	bool refused;
};

static void hand_over_on(struct vqp *v, void *arg)
{
	struct cq_handover *s = arg;

	if (v->send_cq == s->cq || v->recv_cq == s->cq)
		s->refused |= !hand_over(v);
}

/* Releases all QPs of the CQ, and those that are made later. A connection whose completions we do
 * not see cannot be moved. */
static bool hand_over_all(struct vcq *cq)
{
	struct cq_handover s = {.cq = cq};

	if (atomic_exchange(&cq->bypassed, true))
		return true;
	vqp_each(hand_over_on, &s);
	if (s.refused)
		cq->bypassed = false;
	return !s.refused;
}

int hook_init_direct_obj(struct ibv_qp *qp, struct ibv_cq *real_cq)
{
	struct vqp *v = qp ? vqp_find(qp) : NULL;
	struct vcq *cq = real_cq ? vcq_find(real_cq) : NULL;

	if (v && v->conn && !hand_over(v))
		return EBUSY;
	return cq && !hand_over_all(cq) ? EBUSY : 0;
}

/* The program may have got the queue of its CQ after qp_judge(). */
void bypass_check(struct vqp *v)
{
	if (v->send_cq->bypassed || v->recv_cq->bypassed)
		hand_over(v);
}

void bypass_reset(struct vqp *v)
{
	forget_completions(v);
}

/* --- objects of the firmware ------------------------------------------------------------------ */

static struct table devx_qps = TABLE_INIT; /* the device, by the object's address */

void hook_created_devx_qp(struct ibv_context *ctx, const void *obj)
{
	struct vdev *dev = vdev_find(ctx);

	if (!dev || fork_in_child_warn())
		return;
	stats_bypass(dev->ctx->device->name, STATS_UNPROTECTED_POSTED_AROUND);
	if (!table_put(&devx_qps, (uintptr_t)obj, dev))
		atomic_fetch_add(&dev->devx_qps, 1);
}

int hook_destroy_devx(void *obj, int (*destroy)(void *obj))
{
	bool forked = fork_in_child_warn();
	struct vdev *dev = forked ? NULL : table_remove(&devx_qps, (uintptr_t)obj);
	int err = quietly(destroy(obj));

	if (!dev)
		return err;
	if (err)
		table_put(&devx_qps, (uintptr_t)obj, dev);
	else
		atomic_fetch_sub(&dev->devx_qps, 1);
	return err;
}
