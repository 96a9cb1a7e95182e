/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/conn_timers.h"

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/job_deadlines.h"
#include "lib/conn/peer_keys.h"
#include "lib/conn/self_qp.h"

#define LOOK_NS 1000000000ull /* as shift_conn_cfg.no_progress_ns */

static void connections_look(void *arg);

static struct bg_timer look_timer = {.fn = connections_look};

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
	v->timers.idle = view.state != SHIFT_ST_ACTIVE || shift_conn_idle(v->conn);
	v->timers.activity = shift_conn_activity(v->conn);
	v->timers.send_tail = view.send_tail;
	v->timers.rail = view.state == SHIFT_ST_ACTIVE ? view.r : UINT8_MAX;
	vqp_leave(v);
}

/* --- idle connections ------------------------------------------------------------------------ */

/* Neither gate nor barrier: the log's counters are read while the program goes on. */
static bool has_stirred(struct vqp *v, uint64_t now)
{
	bool stirred;

	if (atomic_load(&v->timers.tick_at) <= now + LOOK_NS)
		return false; /* it is looked at anyway */
	pthread_mutex_lock(&v->lock);
	stirred = v->setup.met && !v->life.gone && !vqp_is_idle(v);
	pthread_mutex_unlock(&v->lock);
	return stirred;
}

static void connection_look(struct vqp *v, void *arg)
{
	if (has_stirred(v, *(uint64_t *)arg))
		conn_tick(v);
}

static void count_connection(struct vqp *v, void *arg)
{
	(void)v;
	++*(unsigned int *)arg;
}

/*
 * A connection that is idle has no timer, and those that do not use it are not slowed down. One
 * look a second goes over all of them, and ticks those on which something was posted or received. A
 * tick shuts the gates, and costs a barrier of all threads.
 */
static void connections_look(void *arg)
{
	uint64_t now = now_ns();
	unsigned int n = 0;

	(void)arg;
	vqp_each(connection_look, &now);
	vqp_each(count_connection, &n);
	vsrq_tell_all();
	if (n)
		bg_timer_set(&look_timer, now + LOOK_NS);
}

void conn_looks_start(void)
{
	if (!look_timer.heap_at)
		bg_timer_set(&look_timer, now_ns() + LOOK_NS);
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
	v->timers.idle = true;
	v->timers.rail = UINT8_MAX;
}

/* The QP may live again after RESET, and tick_at must be true then. A thread that set the timer
 * just before has queued a call, which finds the new value. */
void vqp_timers_stop(struct vqp *v)
{
	atomic_store(&v->timers.tick_at, UINT64_MAX);
	v->timers.idle = true;
	v->timers.rail = UINT8_MAX;
	bg_timer_set(&v->timers.tick, UINT64_MAX);
	bg_timer_set(&v->timers.overdue, UINT64_MAX);
}
