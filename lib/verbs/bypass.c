/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Direct verbs: the program asks for the queues themselves (mlx5dv_init_obj) and rings the doorbell
 * itself. What it posts is in no log, so a switch would lose it, and what it polls is not counted:
 * its connections are released before it gets there. More than with memory windows: nothing of
 * such a QP is logged, marked or counted from then on, and ERR, RESET and destroy are the NIC's
 * alone, since a fence would write into queues that are not ours.
 *
 * Only before the first switch. Later the queue that the program would get, that of the NIC it
 * chose, is idle or was begun anew behind its back, and the peer counts on what this end remembers:
 * EBUSY, rather than a queue that leads nowhere.
 */
#include "lib/verbs/bypass.h"

#include <errno.h>

#include "lib/base/log.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/cq_counts.h"

static bool receives_outstanding(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.recv_cum != view.recv_posted;
}

/* No completion is looked at any more. */
static void forget_completions(struct vqp *v)
{
	table_remove(&v->dev->qps, v->qp->qp_num);
	vcq_forget(v->send_cq, v);
	if (v->recv_cq != v->send_cq)
		vcq_forget(v->recv_cq, v);
	v->hot.recv_mark = 0;
}

/* Under enter. One reason more than leave() takes back, so that the gates stay shut: posts come by
 * slow_post_*, which lets them pass, and the fast way need not ask. */
static void step_aside(struct vqp *v)
{
	v->life.bypassed = true;
	gate_shut(&v->hot.send_gate);
	gate_shut(&v->hot.recv_gate);
	gate_forget(&v->hot.send_gate, v->qp);
	gate_forget(&v->hot.recv_gate, v->qp);
	/* Receives that went down with our mark come back with the program's wr_id, from the log;
	 * behind the last of them the log is empty, and all pass. */
	if (!v->hot.recv_mark || !receives_outstanding(v))
		forget_completions(v);
}

/* false: it is too late. */
static bool hand_over(struct vqp *v)
{
	bool ok = true;

	vqp_enter(v);
	if (!v->life.bypassed) {
		ok = v->repost.tx_next == v->repost.tx_end &&
		     vqp_release(v, STATS_UNPROTECTED_POSTED_AROUND);
		if (ok)
			step_aside(v);
		else
			log_warn("QP %#x: its queue is refused to the program (direct verbs): it "
				 "has moved to another NIC, or is over",
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

/* All its QPs, and those to come: whose completions we do not see we cannot move. */
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

/* Its CQ may have been asked for between the judgement and here. */
void bypass_check(struct vqp *v)
{
	if (v->send_cq->bypassed || v->recv_cq->bypassed)
		hand_over(v);
}

void bypass_reset(struct vqp *v)
{
	forget_completions(v);
}
