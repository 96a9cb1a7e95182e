/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/conn_lock.h"

#include "lib/base/uncancelled.h"
#include "lib/conn/actions.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/peer_keys.h"
#include "lib/conn/repost.h"

/* --- the data path steps aside --------------------------------------------------------------- */

#define GATES_MAX 4

static unsigned int gates_of(struct vqp *v, struct gate **gates)
{
	unsigned int n = 0;

	gates[n++] = &v->hot.send_gate;
	gates[n++] = &v->hot.recv_gate;
	gates[n++] = &v->send_cq->gate;
	if (v->recv_cq != v->send_cq)
		gates[n++] = &v->recv_cq->gate;
	return n;
}

/* Tells lib/core what the NIC has refused on the fast way, before anybody posts again. */
static void report_refused(struct vqp *v)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED,
				 .epoch = v->hot.rail0_epoch,
				 .count = v->hot.refused_sends};

	if (!v->hot.refused && !v->repost.recv_refused)
		return;
	if (v->hot.refused)
		shift_conn_event(v->conn, &ev, now_ns());
	v->hot.refused = false;
	vqp_act(v);
}

static _Atomic unsigned int switching_count;

static void count_switching(struct vqp *v, bool switching)
{
	switching &= !v->life.gone;
	if (atomic_exchange(&v->switching, switching) == switching)
		return;
	if (switching)
		atomic_fetch_add(&switching_count, 1);
	else
		atomic_fetch_sub(&switching_count, 1);
	if (!switching)
		vqp_await_answers(v);
}

bool vqp_any_switching(void)
{
	return atomic_load(&switching_count);
}

static bool is_switching(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.state >= SHIFT_ST_FENCE && view.state <= SHIFT_ST_SWITCHING;
}

/* Sends posts and completions of this QP the slow way, where they take the lock. Waits for threads
 * that are still on the fast way. */
static void close_gates(struct vqp *v)
{
	struct gate *gates[GATES_MAX];
	unsigned int n = gates_of(v, gates);

	atomic_store(&v->hot.slow, 1);
	for (unsigned int i = 0; i < n; i++)
		gate_shut(gates[i]);
	gate_sync(gates, n);
	vcq_wait_counted(v->send_cq, v);
	vcq_wait_counted(v->recv_cq, v);
	shift_fast_fold(v->conn, &v->hot.run);
	report_refused(v);
}

static void open_gates(struct vqp *v)
{
	struct gate *gates[GATES_MAX];
	unsigned int n = gates_of(v, gates);

	atomic_store(&v->hot.slow, 0);
	for (unsigned int i = 0; i < n; i++)
		gate_open(gates[i]);
}

void vqp_release_gates(struct vqp *v)
{
	pthread_mutex_lock(&v->lock);
	count_switching(v, false);
	if (v->hot.slow) {
		gate_open(&v->send_cq->gate);
		if (v->recv_cq != v->send_cq)
			gate_open(&v->recv_cq->gate);
	}
	pthread_mutex_unlock(&v->lock);
}

void vqp_enter(struct vqp *v)
{
	uncancelled_begin();
	pthread_mutex_lock(&v->lock);
	if (!v->hot.slow)
		close_gates(v);
}

/* --- timers ---------------------------------------------------------------------------------- */

/* A timer that fires early does no harm and sets itself again. So only an earlier deadline is set.
 */
static void arm_timer(struct vqp *v, uint64_t at)
{
	if (at >= atomic_load(&v->timers.tick_at) || v->life.gone)
		return;
	atomic_store(&v->timers.tick_at, at);
	if (bg_is_self())
		v->timers.tick_call.fn(v);
	else
		bg_call(&v->timers.tick_call);
}

/* --- leaving ---------------------------------------------------------------------------------- */

void vqp_leave(struct vqp *v)
{
	vqp_act(v);
	if (repost_pump_recvs(v))
		vqp_act(v);
	if (repost_pump(v))
		vqp_act(v);
	vqp_release_if_due(v);
	if (v->repost.committing && v->repost.tx_next == v->repost.tx_end) {
		v->repost.committing = false;
		stats_conn_reposted(v->stats, now_ns());
	}
	arm_timer(v, pause_deadline(v, shift_conn_lazy_deadline(v->conn)));
	arm_timer(v, peer_keys_deadline(v->keys.peer));
	arm_timer(v, exported_keys_deadline(&v->keys.exported));
	count_switching(v, is_switching(v));
	if (v->self.engaged)
		arm_timer(v, v->self.tick_at);
	else if (shift_conn_fast(v->conn) && !v->life.dead && v->repost.tx_next == v->repost.tx_end)
		open_gates(v);
	pthread_mutex_unlock(&v->lock);
	ctrl_link_flush_unless_bg();
	uncancelled_end();
}

void vqp_event(struct vqp *v, const struct shift_event *ev)
{
	vqp_enter(v);
	shift_conn_event(v->conn, ev, now_ns());
	vqp_leave(v);
}
