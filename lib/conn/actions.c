/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/actions.h"

#include <stdio.h>

#include "lib/base/log.h"
#include "lib/conn/arm.h"
#include "lib/conn/error_notes.h"
#include "lib/conn/fence_qp.h"
#include "lib/conn/protection.h"
#include "lib/conn/repost.h"
#include "lib/conn/self_qp.h"
#include "lib/conn/srq_qps.h"

/* A completion that no NIC has made. */
static void deliver_made(struct vqp *v, bool is_recv, const struct ibv_wc *wc)
{
	error_note_made(v, is_recv, wc);
	vcq_deliver(is_recv ? v->recv_cq : v->send_cq, wc);
}

static void action_complete(struct vqp *v)
{
	struct shift_wc c;

	while (shift_conn_completion(v->conn, &c)) {
		struct ibv_wc wc = {
			.wr_id = c.wr_id,
			.status = c.status,
			.opcode = c.opcode,
			.vendor_err = c.vendor_err,
			.byte_len = c.byte_len,
			.qp_num = v->qp->qp_num,
		};

		deliver_made(v, c.is_recv, &wc);
	}
}

void vqp_deliver_flush(struct vqp *v, uint64_t wr_id, bool is_recv)
{
	struct ibv_wc wc = {
		.wr_id = wr_id,
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = is_recv ? IBV_WC_RECV : IBV_WC_SEND,
		.qp_num = v->qp->qp_num,
	};

	deliver_made(v, is_recv, &wc);
}

void vqp_act_held(struct vqp *v)
{
	struct shift_action a;

	if (!pause_take_held(v, &a))
		return;
	if (a.type == SHIFT_ACT_FENCE)
		fence_start(v, &a);
	else
		arm_start(v, &a);
}

/* So that another backup is made, if there is a spare one. */
static void report_rail(struct vqp *v, const struct shift_action *a,
			const struct shift_conn_view *view)
{
	if (a->reason == SHIFT_R_COMMIT)
		vdev_rail_found(v->dev, a->rail);
	else if (a->to == SHIFT_ST_NO_RAIL || (a->to == SHIFT_ST_FENCE && !view->planned))
		vdev_rail_lost(v->dev, a->rail);
}

static void action_report(struct vqp *v, const struct shift_action *a)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	report_rail(v, a, &view);
	if (a->from == SHIFT_ST_SETUP && a->to == SHIFT_ST_ACTIVE)
		vqp_report_protection(v);
	v->life.dead |= a->to == SHIFT_ST_DEAD;
	if (a->to == SHIFT_ST_DEAD)
		stats_conn_protect(v->stats, false, STATS_UNPROTECTED_OVER);
	stats_conn_change(v->stats, a, &view, shift_conn_stats(v->conn), now_ns());
	v->repost.committing |= a->reason == SHIFT_R_COMMIT;
	log_debug("QP %#x: %s -> %s (%s), rail %u, epoch %u", v->qp->qp_num,
		  shift_state_name(a->from), shift_state_name(a->to), shift_reason_name(a->reason),
		  a->rail, a->epoch);
	pause_change(v, a);
	vqp_act_held(v);
	if (a->to == SHIFT_ST_FENCE || a->to == SHIFT_ST_GIVEUP || a->reason == SHIFT_R_COMMIT) {
		char line[512];

		shift_conn_dump(v->conn, line, sizeof(line));
		log_debug("QP %#x: %s; to be posted %llu..%llu on rail %u%s", v->qp->qp_num, line,
			  (unsigned long long)v->repost.tx_next,
			  (unsigned long long)v->repost.tx_end, v->repost.tx_rail,
			  v->repost.tx_stopped ? ", stopped" : "");
	}
}

static void action_send_msg(struct vqp *v, const struct shift_action *a)
{
	if (v->rails.twin[a->rail].path)
		peer_path_send(v->rails.twin[a->rail].path, &a->msg);
}

static void action_carry_out(struct vqp *v, const struct shift_action *a)
{
	switch ((enum shift_action_type)a->type) {
	case SHIFT_ACT_FENCE:
		v->repost.tx_stopped |= v->repost.tx_rail == a->rail;
		repost_withdraw_recvs(v, a->rail);
		if (!pause_action(v, a))
			fence_start(v, a);
		return;
	case SHIFT_ACT_ARM:
		if (!pause_action(v, a))
			arm_start(v, a);
		return;
	case SHIFT_ACT_POST_RECV: repost_recvs(v, a); return;
	case SHIFT_ACT_POST_SEND: repost_sends(v, a); return;
	case SHIFT_ACT_SEND_MSG: action_send_msg(v, a); return;
	case SHIFT_ACT_COMPLETE: action_complete(v); return;
	case SHIFT_ACT_HOLD: return; /* vqp_enter has closed the gates */
	case SHIFT_ACT_RELEASE: v->repost.tx_stopped = false; return;
	case SHIFT_ACT_QP_ERR:
		v->life.dead = true;
		v->program.state = v->qp->state = IBV_QPS_ERR;
		stats_qp_state(v->dev->nic[0]->name, v->qpn, IBV_QPS_ERR, NULL, now_ns());
		srq_qp_in_err(v);
		return;
	case SHIFT_ACT_QUERY_PSN: query_start(v, a); return;
	case SHIFT_ACT_CLOSED:
		v->life.closed = true;
		pthread_cond_broadcast(&v->life.closed_cond);
		return;
	case SHIFT_ACT_REPORT:
		v->timers.idle = false;
		action_report(v, a);
		return;
	case SHIFT_ACT_COUNT: return;
	}
}

static void actions_drain(struct vqp *v)
{
	struct shift_action a;

	while (shift_conn_action(v->conn, &a))
		action_carry_out(v, &a);
}

void vqp_act(struct vqp *v)
{
	actions_drain(v);
	while (v->repost.recv_refused) {
		repost_tell_recv_refused(v);
		actions_drain(v);
	}
}

bool vqp_release(struct vqp *v, enum stats_unprotected why)
{
	if (v->life.released)
		return true;
	if (self_qp_has_left(v) || !shift_conn_release(v->conn))
		return false;
	vqp_act(v);
	v->life.released = true;
	v->self.on = false;
	if (v->setup.released_call.fn)
		bg_call(&v->setup.released_call);
	stats_conn_protect(v->stats, false, why);
	log_info("QP %#x is not protected: %s", v->qp->qp_num, stats_unprotected_text(why));
	return true;
}

void vqp_release_if_due(struct vqp *v)
{
	if (v->repost.tx_next < v->repost.tx_end || !shift_conn_release_due(v->conn))
		return;
	vqp_release(v, v->setup.peer_released ? STATS_UNPROTECTED_PEER_RELEASED
					      : STATS_UNPROTECTED_ATOMICS);
}

/* --- rails ----------------------------------------------------------------------------------- */

static void rail_tell(struct vqp *v, const struct shift_event *ev)
{
	shift_conn_event(v->conn, ev, now_ns());
	vqp_act(v);
}

void vqp_rail_event(struct vqp *v, enum shift_event_type type, uint8_t rail)
{
	struct shift_event ev = {.type = (uint8_t)type, .rail = rail};

	rail_tell(v, &ev);
}

static bool rail_is_shut(const struct vqp *v, uint8_t rail)
{
	return (v->rails.vetoed | v->rails.unclean | v->rails.lacking) >> rail & 1;
}

void vqp_rail_await(struct vqp *v, uint8_t rail)
{
	struct shift_event ev = {.type = SHIFT_EV_RAIL_VETO, .rail = rail};

	ev.awaited = !rail_is_shut(v, rail);
	rail_tell(v, &ev);
}

void vqp_rail_open(struct vqp *v, uint8_t rail)
{
	struct shift_event ev = {.type = SHIFT_EV_RAIL_OPEN, .rail = rail};

	ev.mtu = (uint16_t)v->rails.twin[rail].mtu;
	if ((!rail || v->rails.twin[rail].clean) && !rail_is_shut(v, rail))
		rail_tell(v, &ev);
}
