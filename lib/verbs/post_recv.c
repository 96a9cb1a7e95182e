/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Receives on their way to a NIC. On the fast way they are logged, then posted to rail 0. */
#include "lib/verbs/post_recv.h"

#include <errno.h>

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/repost.h"
#include "lib/conn/self_qp.h"

static int slow_recv(struct vqp *v, const struct ibv_recv_wr *wr)
{
	struct shift_recv_wr log = {
		.wr_id = wr->wr_id,
		.sge = (const struct shift_sge *)wr->sg_list,
		.num_sge = (uint32_t)wr->num_sge,
	};
	int rail, err;

	if (v->self.engaged)
		self_qp_leave_alone(v, STATS_UNPROTECTED_LOOPBACK);
	err = shift_conn_post_recv(v->conn, &log, &rail);
	if (err == -EIO) {
		vqp_deliver_flush(v, wr->wr_id, true);
		return 0;
	}
	if (err)
		return err;
	vqp_act(v);
	if (rail == SHIFT_HELD)
		return 0;
	err = repost_new_recv(v, rail, &log);
	if (!err)
		return 0;
	if (!rail && repost_is_for_program(v, -err)) {
		shift_conn_unpost_recv(v->conn, 1);
		return err;
	}
	repost_recv_refused(v, (uint8_t)rail, err);
	vqp_act(v); /* before the next one is posted, which must not take its place */
	return 0;
}

static __attribute__((noinline)) int slow_post_recv(struct vqp *v, struct ibv_recv_wr *wr,
						    struct ibv_recv_wr **bad)
{
	int err = 0;

	if (v->life.bypassed)
		return v->post_recv(v->qp, wr, bad);
	vqp_enter(v);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = slow_recv(v, wr);
	vqp_leave(v);
	if (err)
		*bad = wr;
	return -err;
}

/* Posts it with our mark, if there is one, in place of the program's wr_id, which is in the log.
 * *broken: the NIC is, and the receive stays in the log, to be posted on another rail. */
static int fast_recv(struct vqp *v, const struct ibv_recv_wr *wr, bool *broken)
{
	struct ibv_recv_wr one = *wr, *bad;
	struct shift_recv_wr log = {
		.wr_id = wr->wr_id,
		.sge = (const struct shift_sge *)wr->sg_list,
		.num_sge = (uint32_t)wr->num_sge,
	};
	int rail, err = shift_conn_post_recv(v->conn, &log, &rail);

	if (err)
		return err;
	one.next = NULL;
	if (v->hot.recv_mark)
		one.wr_id = v->hot.recv_mark;
	err = v->post_recv(v->qp, &one, &bad);
	*broken = err && !repost_is_for_program(v, err);
	if (err && !*broken)
		shift_conn_unpost_recv(v->conn, 1);
	return -err;
}

/* Inside the gate, which it leaves. The gate is shut until the core knows: no other thread must
 * post a receive in the place of this one. */
static void recv_refused(struct vqp *v, enum gate_how how, int err)
{
	repost_recv_refused(v, 0, err);
	gate_shut(&v->hot.recv_gate);
	gate_leave(&v->hot.recv_gate, how);
	vqp_enter(v);
	gate_open(&v->hot.recv_gate);
	vqp_leave(v);
}

/* Inside the gate, which it leaves. */
static int recv_entered(struct vqp *v, enum gate_how how, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad)
{
	bool broken = false;
	int err = 0;

	for (; wr && !err; wr = err ? wr : wr->next)
		err = fast_recv(v, wr, &broken);
	if (broken) {
		recv_refused(v, how, err);
		return wr->next ? slow_post_recv(v, wr->next, bad) : 0;
	}
	gate_leave(&v->hot.recv_gate, how);
	if (err)
		*bad = wr;
	return -err;
}

static __attribute__((noinline)) int any_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
						   struct ibv_recv_wr **bad)
{
	struct vqp *v = vqp_find(qp);
	enum gate_how how;

	if (!v || !v->conn)
		return v ? v->post_recv(qp, wr, bad)
			 : vdev_find(qp->context)->ops.post_recv(qp, wr, bad);
	how = gate_enter(&v->hot.recv_gate, NULL);
	if (how == GATE_IS_SHUT)
		return slow_post_recv(v, wr, bad);
	if (how == GATE_OWNED)
		gate_remember(&gate_mine.recv, qp, v);
	return recv_entered(v, how, wr, bad);
}

int hot_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vqp *v;

	if (!gate_owns(&gate_mine.recv, qp))
		return any_post_recv(qp, wr, bad);
	v = gate_mine.recv.object;
	if (!gate_enter_owned(&v->hot.recv_gate, NULL))
		return any_post_recv(qp, wr, bad);
	return recv_entered(v, GATE_OWNED, wr, bad);
}
