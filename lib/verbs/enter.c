/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Owning a connection, and carrying out what it decides. */
#include <string.h>

#include "lib/verbs/keys.h"
#include "lib/verbs/log.h"
#include "lib/verbs/vobj.h"

uint8_t vqp_rail(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.r;
}

bool vqp_is_protected(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.protected_;
}

int vqp_rail_on(const struct vqp *v, const struct nic *nic)
{
	for (int i = 0; i < v->dev->rails; i++)
		if (v->dev->nic[i] == nic)
			return i;
	return -1;
}

/* --- the data path steps aside --------------------------------------------------------------- */

#define GATES_MAX 4

static unsigned int gates_of(struct vqp *v, struct gate **gates)
{
	unsigned int n = 0;

	gates[n++] = &v->send_gate;
	gates[n++] = &v->recv_gate;
	gates[n++] = &v->send_cq->gate;
	if (v->recv_cq != v->send_cq)
		gates[n++] = &v->recv_cq->gate;
	return n;
}

/* From here on posts and completions of this QP take the lock; who is still on the fast way is
 * waited for. */
static void close_gates(struct vqp *v)
{
	struct gate *gates[GATES_MAX];
	unsigned int n = gates_of(v, gates);

	atomic_store(&v->slow, 1);
	for (unsigned int i = 0; i < n; i++)
		gate_shut(gates[i]);
	gate_sync(gates, n);
	/* What the data path has left to be added up. */
	shift_fast_fold(v->conn, &v->run);
	vcq_add_done(v->send_cq, v);
}

static void open_gates(struct vqp *v)
{
	struct gate *gates[GATES_MAX];
	unsigned int n = gates_of(v, gates);

	atomic_store(&v->slow, 0);
	for (unsigned int i = 0; i < n; i++)
		gate_open(gates[i]);
}

void vqp_enter(struct vqp *v)
{
	pthread_mutex_lock(&v->lock);
	if (!v->slow)
		close_gates(v);
}

/* --- timers ---------------------------------------------------------------------------------- */

static void set_timer(void *arg)
{
	struct vqp *v = arg;

	bg_timer_set(&v->timer, atomic_load(&v->timer_at));
}

/* An early timer is harmless and sets itself anew: only an earlier deadline has to be told. */
static void arm_timer(struct vqp *v, uint64_t at)
{
	if (at >= atomic_load(&v->timer_at) || v->gone)
		return;
	atomic_store(&v->timer_at, at);
	if (bg_is_self())
		set_timer(v);
	else
		bg_call(&v->timer_call);
}

static void set_overdue_timer(void *arg)
{
	struct vqp *v = arg;

	bg_timer_set(&v->overdue_timer, now_ns() + OVERDUE_TICK_NS);
}

static void tick(void *arg)
{
	struct shift_event ev = {.type = SHIFT_EV_TICK};
	struct shift_conn_view view;
	struct vqp *v = arg;
	uint64_t now;

	atomic_store(&v->timer_at, UINT64_MAX);
	vqp_enter(v);
	now = now_ns(); /* not before: who had the lock may have begun a switch meanwhile */
	if (!pause_tick(v))
		shift_conn_event(v->conn, &ev, now);
	vqp_act(v);
	keys_tick(v, now);
	told_tick(v, now);
	shift_conn_view(v->conn, &view);
	stats_conn_update(v->stats, &view, shift_conn_stats(v->conn), now);
	vqp_leave(v);
}

void vqp_timers_init(struct vqp *v)
{
	v->timer.fn = tick;
	v->timer.arg = v;
	v->timer_call.fn = set_timer;
	v->timer_call.arg = v;
	v->overdue_timer.fn = jobs_overdue;
	v->overdue_timer.arg = v;
	v->overdue_call.fn = set_overdue_timer;
	v->overdue_call.arg = v;
	atomic_store(&v->timer_at, UINT64_MAX);
}

/* The QP may have a second life, after RESET: what timer_at says must be true then. Who armed the
 * timer just before has left a call that finds the new value. */
void vqp_timers_stop(struct vqp *v)
{
	atomic_store(&v->timer_at, UINT64_MAX);
	bg_timer_set(&v->timer, UINT64_MAX);
	bg_timer_set(&v->overdue_timer, UINT64_MAX);
}

/* --- actions --------------------------------------------------------------------------------- */

static void complete(struct vqp *v)
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

		vcq_out(c.is_recv ? v->recv_cq : v->send_cq, &wc);
	}
}

static void report(struct vqp *v, const struct shift_action *a)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	if (a->from == SHIFT_ST_SETUP && a->to == SHIFT_ST_ACTIVE)
		scarce_report(v);
	if (a->to == SHIFT_ST_DEAD)
		stats_conn_protect(v->stats, false, STATS_UNPROTECTED_OVER);
	stats_conn_change(v->stats, a, &view, shift_conn_stats(v->conn), now_ns());
	v->reposting |= a->reason == SHIFT_R_COMMIT;
	log_debug("QP %#x: %s -> %s (%s), rail %u, epoch %u", v->qp->qp_num,
		  shift_state_name(a->from), shift_state_name(a->to), shift_reason_name(a->reason),
		  a->rail, a->epoch);
	pause_change(v, a);
	if (a->to == SHIFT_ST_FENCE || a->to == SHIFT_ST_GIVEUP || a->reason == SHIFT_R_COMMIT) {
		char line[512];

		shift_conn_dump(v->conn, line, sizeof(line));
		log_debug("QP %#x: %s; to be posted %llu..%llu on rail %u%s", v->qp->qp_num, line,
			  (unsigned long long)v->tx_next, (unsigned long long)v->tx_end, v->tx_rail,
			  v->tx_stopped ? ", stopped" : "");
	}
}

static void send_msg(struct vqp *v, const struct shift_action *a)
{
	if (v->twin[a->rail].path)
		path_send(v->twin[a->rail].path, &a->msg);
}

static void act(struct vqp *v, const struct shift_action *a)
{
	switch ((enum shift_action_type)a->type) {
	case SHIFT_ACT_FENCE:
		v->tx_stopped |= v->tx_rail == a->rail;
		if (!pause_action(v, a))
			fence_start(v, a);
		return;
	case SHIFT_ACT_ARM:
		if (!pause_action(v, a))
			arm_start(v, a);
		return;
	case SHIFT_ACT_POST_RECV: post_recvs(v, a); return;
	case SHIFT_ACT_POST_SEND: post_sends(v, a); return;
	case SHIFT_ACT_SEND_MSG: send_msg(v, a); return;
	case SHIFT_ACT_COMPLETE: complete(v); return;
	case SHIFT_ACT_HOLD: return; /* vqp_enter has closed the gates */
	case SHIFT_ACT_RELEASE: v->tx_stopped = false; return;
	case SHIFT_ACT_QP_ERR:
		v->dead = true;
		v->state = v->qp->state = IBV_QPS_ERR;
		return;
	case SHIFT_ACT_QUERY_PSN: query_start(v, a); return;
	case SHIFT_ACT_CLOSED:
		v->closed = true;
		pthread_cond_broadcast(&v->closed_cond);
		return;
	case SHIFT_ACT_REPORT: report(v, a); return;
	case SHIFT_ACT_COUNT: return;
	}
}

static void drain(struct vqp *v)
{
	struct shift_action a;

	while (shift_conn_action(v->conn, &a))
		act(v, &a);
}

void vqp_act(struct vqp *v)
{
	drain(v);
	while (v->recv_refused) {
		struct shift_event ev = {.type = SHIFT_EV_POST_FAILED,
					 .rail = v->rx_rail,
					 .epoch = v->rail_epoch[v->rx_rail]};

		v->recv_refused = false;
		shift_conn_event(v->conn, &ev, now_ns());
		drain(v);
	}
}

void vqp_leave(struct vqp *v)
{
	vqp_act(v);
	vqp_pump(v);
	if (v->reposting && v->tx_next == v->tx_end) {
		v->reposting = false;
		stats_conn_reposted(v->stats, now_ns());
	}
	arm_timer(v, pause_deadline(v, shift_conn_deadline(v->conn)));
	arm_timer(v, keys_deadline(v->keys));
	arm_timer(v, told_deadline(&v->told));
	if (shift_conn_fast(v->conn) && !v->dead && v->tx_next == v->tx_end)
		open_gates(v);
	pthread_mutex_unlock(&v->lock);
	link_flush_if_not_bg();
}

void vqp_event(struct vqp *v, const struct shift_event *ev)
{
	vqp_enter(v);
	shift_conn_event(v->conn, ev, now_ns());
	vqp_leave(v);
}

bool vqp_release(struct vqp *v, enum stats_unprotected why)
{
	if (v->released)
		return true;
	if (!shift_conn_release(v->conn))
		return false;
	vqp_act(v);
	v->released = true;
	v->why = why;
	stats_conn_protect(v->stats, false, why);
	log_info("QP %#x is not protected: %s", v->qp->qp_num, stats_unprotected_text(why));
	return true;
}

/* --- rails ----------------------------------------------------------------------------------- */

void vqp_rail_say(struct vqp *v, enum shift_event_type type, uint8_t rail)
{
	struct shift_event ev = {.type = (uint8_t)type, .rail = rail};

	shift_conn_event(v->conn, &ev, now_ns());
	vqp_act(v);
}

/* Said of a rail, CLEAN means more than what one of these has to say. */
void vqp_rail_clean(struct vqp *v, uint8_t rail)
{
	if ((!rail || v->twin[rail].clean) && !((v->vetoed | v->unclean | v->keyless) & 1u << rail))
		vqp_rail_say(v, SHIFT_EV_RAIL_CLEAN, rail);
}

/* --- completions ----------------------------------------------------------------------------- */

/* An error completion does not say whose it is: its opcode is undefined. */
static bool is_recv(const struct vqp *v, const struct vcq *cq, uint8_t rail,
		    const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return wc->opcode & IBV_WC_RECV;
	if (rail)
		return wc->wr_id & TWIN_RECV;
	if (v->send_cq != v->recv_cq)
		return cq == v->recv_cq;
	return wc->wr_id == v->recv_mark;
}

void vqp_completion(struct vqp *v, struct vcq *cq, uint8_t rail, struct ibv_wc *wc)
{
	struct shift_cqe cqe = {
		.wr_id = wc->wr_id,
		.status = wc->status,
		.vendor_err = wc->vendor_err,
		.byte_len = wc->byte_len,
		.rail = rail,
		.is_recv = is_recv(v, cq, rail, wc),
	};
	struct shift_wc out = {.wr_id = wc->wr_id};

	vqp_enter(v);
	cqe.epoch = rail ? (uint32_t)(wc->wr_id >> TWIN_EPOCH_SHIFT) : v->rail0_epoch;
	if (shift_conn_cqe(v->conn, &cqe, &out, now_ns())) {
		wc->wr_id = out.wr_id;
		wc->qp_num = v->qp->qp_num;
		vcq_out(cqe.is_recv ? v->recv_cq : v->send_cq, wc);
	}
	vqp_leave(v);
}
