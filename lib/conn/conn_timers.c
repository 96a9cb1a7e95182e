/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/conn_timers.h"

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/job_deadlines.h"
#include "lib/conn/peer_keys.h"
#include "lib/conn/self_qp.h"

static void set_tick_timer(void *arg)
{
	struct vqp *v = arg;

	bg_timer_set(&v->timers.tick, atomic_load(&v->timers.tick_at));
}

static void set_overdue_timer(void *arg)
{
	struct vqp *v = arg;

	bg_timer_set(&v->timers.overdue, now_ns() + OVERDUE_TICK_NS);
}

static void conn_tick(void *arg)
{
	struct shift_event ev = {.type = SHIFT_EV_TICK}, link;
	struct shift_conn_view view;
	struct vqp *v = arg;
	uint64_t now;
	bool paused;

	atomic_store(&v->timers.tick_at, UINT64_MAX);
	self_qp_tick(v);
	vqp_enter(v);
	now = now_ns(); /* read here: the thread that had the lock may have begun a switch */
	paused = pause_tick(v);
	vqp_act_held(v);
	while (pause_next_link(v, &link)) {
		shift_conn_event(v->conn, &link, now_ns());
		vqp_act(v);
	}
	if (!paused)
		shift_conn_event(v->conn, &ev, now);
	vqp_act(v);
	peer_keys_tick(v, now);
	exported_keys_tick(v, now);
	shift_conn_view(v->conn, &view);
	stats_conn_update(v->stats, &view, shift_conn_stats(v->conn), now);
	vqp_leave(v);
}

void vqp_timers_init(struct vqp *v)
{
	v->timers.tick.fn = conn_tick;
	v->timers.tick.arg = v;
	v->timers.tick_call.fn = set_tick_timer;
	v->timers.tick_call.arg = v;
	v->timers.overdue.fn = job_deadlines_check;
	v->timers.overdue.arg = v;
	v->timers.overdue_call.fn = set_overdue_timer;
	v->timers.overdue_call.arg = v;
	atomic_store(&v->timers.tick_at, UINT64_MAX);
}

/* The QP may live again after RESET, and tick_at must be true then. A thread that set the timer
 * just before has queued a call, which finds the new value. */
void vqp_timers_stop(struct vqp *v)
{
	atomic_store(&v->timers.tick_at, UINT64_MAX);
	bg_timer_set(&v->timers.tick, UINT64_MAX);
	bg_timer_set(&v->timers.overdue, UINT64_MAX);
}
