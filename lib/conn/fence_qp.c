/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/fence_qp.h"

#include <string.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/base/poll_deadline.h"
#include "lib/conn/actions.h"
#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/drain.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/repost.h"
#include "lib/conn/srq_qps.h"
#include "lib/nic/rq_psn.h"

#define FLUSH_MAX_NS 300000000ull /* until the marker must have come back */
#define QUICK_NS     2000000ull	  /* a look, with the millisecond before it */

enum { ROTATIONS_MAX = 2 };

static void fence_sleep_us(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

/* --- fence ----------------------------------------------------------------------------------- */

static bool post_marker(struct vqp *v, uint8_t rail)
{
	struct ibv_send_wr wr = {.wr_id = v->marker,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad = NULL;
	struct ibv_qp *qp = vqp_rail_qp(v, rail);
	int err = rail ? ibv_post_send(qp, &wr, &bad) : v->post_send(qp, &wr, &bad);

	return !err || !bad; /* an error without bad: it was queued nevertheless (V9) */
}

/*
 * All that the QP had outstanding flushes in order. So when a marker that was posted behind it has
 * come back, everything has. Receives have no such marker (soft-RoCE may never flush one); the
 * barrier that follows settles them.
 */
static bool fence_flush(struct vqp *v, uint8_t rail)
{
	struct poll_deadline deadline = {.left_ns = FLUSH_MAX_NS};
	bool posted = false;

	atomic_store(&v->rails.jobs[rail].marker_seen, false);
	do {
		if (!posted)
			posted = post_marker(v, rail); /* a full queue has room once it flushes */
		vqp_drain_unless_gone(v);
		if (atomic_load(&v->rails.jobs[rail].marker_seen))
			return true;
		fence_sleep_us(50);
	} while (poll_deadline_left(&deadline) && !v->life.gone);
	return false;
}

bool fence_empty(struct vqp *v, uint8_t rail)
{
	return !vqp_to_state(v, rail, IBV_QPS_ERR) && fence_flush(v, rail);
}

/* Under vqp.lock, because fences of several rails end on several workers. Also for a job of the
 * life before RESET: it speaks of the QP, which is the same, and nobody arms that until the job has
 * ended (rails_ready()). So a twin that is unclean stays so, and one that has come clean can be
 * used. */
static void rail_fenced(struct vqp *v, uint8_t rail, bool clean)
{
	if (clean)
		v->rails.unclean &= ~(1u << rail);
	else
		v->rails.unclean |= 1u << rail;
}

/* What the core hears. No QP: there is nothing that could be in doubt. */
static struct shift_event fence_result(struct rail_jobs *j, bool stopped)
{
	struct vqp *v = j->v;
	bool live = vqp_psn(v, j->rail) == STATS_PSN_LIVE; /* unmeasured counts as stale */
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE,
				 .rail = j->rail,
				 .epoch = j->fence_now.epoch,
				 .fence = SHIFT_FENCE_UNSURE,
				 .clean = true};

	if (!vqp_rail_qp(v, j->rail))
		return ev;
	vqp_drain_unless_gone(v);
	if (!j->fence_now.flushed || !stopped)
		log_warn("QP %#x: the fence of %s is not complete (%s): requests may be in doubt, "
			 "and this connection avoids the NIC",
			 v->qpn, v->dev->nic[j->rail]->name,
			 j->fence_now.flushed ? "it may not have stopped"
					      : "its queues did not flush");
	ev.psn = j->fence_now.looks.psn;
	ev.clean = j->fence_now.flushed && stopped;
	ev.hung = !ev.clean;
	ev.fence = ev.clean && live ? SHIFT_FENCE_SURE : SHIFT_FENCE_UNSURE;
	return ev;
}

static void fence_ends(struct rail_jobs *j, bool stopped)
{
	struct shift_event ev = fence_result(j, stopped);
	struct vqp *v = j->v;

	if (ev.clean)
		srq_qp_leave(v, j->rail);
	vqp_enter(v);
	if (vqp_rail_qp(v, j->rail))
		rail_fenced(v, j->rail, ev.clean);
	if (!j->stale) {
		if (j->fence_epoch ==
		    ev.epoch) /* else another was asked for: this one was taken for hung */
			j->fence_since = 0;
		repost_withdraw(v, j->rail, ev.epoch);
		vqp_act(v);
		shift_conn_event(v->conn, &ev, now_ns());
	}
	vqp_leave(v);
	rail_job_ends(j);
}

/* Others may have their turn before the next look, if that costs less than waiting for it: the NIC
 * is quick, and rq_psn comes to rest as usual. Else the deadline of a job would not see how long
 * all of the fence takes, and the first QPs would wait for the last. */
static bool may_rotate(const struct rail_jobs *j, uint64_t look_ns)
{
	return j->fence_now.looks.looks <= ROTATIONS_MAX && look_ns < QUICK_NS && !j->stale;
}

/*
 * Waits until the responder has stopped, and reads rq_psn. On soft-RoCE RESET waits for the
 * responder's task, and rq_psn survives it (kernels 6.1 and 6.12). Elsewhere rq_psn must rest: the
 * job goes behind all others that wait, which are fences of other QPs if a NIC is lost, and has
 * little or nothing to wait for when it comes again.
 */
static void fence_look(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, fence));
	const struct nic *nic = j->v->dev->nic[j->rail];
	uint64_t began = now_ns();
	enum rq_psn_rest rest;

	do {
		rest = rq_psn_look(nic, vqp_rail_qp(j->v, j->rail), &j->fence_now.looks);
		if (rest == RQ_PSN_MOVING && may_rotate(j, now_ns() - began))
			return worker_submit(nic->fences, job);
	} while (rest == RQ_PSN_MOVING);
	fence_ends(j, rest == RQ_PSN_AT_REST);
}

static void fence_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, fence));
	struct vqp *v = j->v;
	bool is_rxe = v->dev->nic[j->rail]->is_rxe;

	j->fence_now = (struct fence_under_way){.epoch = j->fence_epoch};
	pause_hang(v, STATS_PHASE_FENCE);
	if (!vqp_rail_qp(v, j->rail))
		return fence_ends(j, true);
	j->fence_now.flushed = fence_empty(v, j->rail);
	if (is_rxe && vqp_to_state(v, j->rail, IBV_QPS_RESET))
		return fence_ends(j, false);
	j->fence.fn = fence_look;
	fence_look(job);
}

/* The job is not under way: a rail whose fence was taken for hung is armed again, and can be fenced
 * again, only once that fence has ended clean (doc/protocol.md, 7.39; of a life before: stale). */
void fence_start(struct vqp *v, const struct shift_action *a)
{
	struct rail_jobs *j = &v->rails.jobs[a->rail];

	j->fence.fn = fence_run;
	j->fence.owner = j;
	j->fence_epoch = a->epoch;
	j->fence_since = bg_awake_ns();
	rail_job_begins(j);
	j->fence_follows = true;
	fence_follow(v, j);
	bg_call(&v->timers.overdue_call);
}

void fence_follow(struct vqp *v, struct rail_jobs *j)
{
	if (!j->fence_follows || j->arming || j->modifying)
		return;
	j->fence_follows = false;
	worker_submit(v->dev->nic[j->rail]->fences, &j->fence);
}

void rail0_lend(struct vqp *v)
{
	v->rails.jobs[0].modifying = true;
}

void rail0_return(struct vqp *v)
{
	v->rails.jobs[0].modifying = false;
	fence_follow(v, &v->rails.jobs[0]);
}

/* --- query ----------------------------------------------------------------------------------- */

/* A QP that only receives may have erred, and no completion says so. */
static void query_finds_err(struct vqp *v, const struct rail_jobs *j)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED,
				 .rail = j->rail,
				 .epoch = v->rails.armed_epoch[j->rail]};

	log_info("QP %#x: it is in ERR on %s", v->qpn, v->dev->nic[j->rail]->name);
	shift_conn_event(v->conn, &ev, now_ns());
}

/* A newer question may change it at any time. */
static uint32_t query_epoch(const struct rail_jobs *j)
{
	uint32_t epoch;

	pthread_mutex_lock(&j->v->lock);
	epoch = j->query_epoch;
	pthread_mutex_unlock(&j->v->lock);
	return epoch;
}

static void query_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, query));
	struct shift_event ev = {
		.type = SHIFT_EV_PSN, .rail = j->rail, .fence = SHIFT_FENCE_UNSURE};
	struct vqp *v = j->v;
	uint32_t epoch = query_epoch(j);
	bool in_err = false;

	if (vqp_rail_qp(v, j->rail) && rq_psn_query(vqp_rail_qp(v, j->rail), &ev.psn, &in_err) &&
	    vqp_psn(v, j->rail) == STATS_PSN_LIVE)
		ev.fence = SHIFT_FENCE_SURE;
	if (v->hot.srq) /* what was taken and not polled counts as there */
		vqp_drain_unless_gone(v);
	ev.count = srq_qp_look(v, j->rail);
	vqp_enter(v);
	j->querying = false;
	ev.epoch = j->query_epoch;
	ev.serial = j->query_serial;
	if (!j->stale)
		shift_conn_event(v->conn, &ev, now_ns());
	/* Our own fence takes it to ERR, too: then the epoch is another one. */
	if (!j->stale && in_err && v->rails.armed_epoch[j->rail] == epoch)
		query_finds_err(v, j);
	vqp_leave(v);
	rail_job_ends(j);
}

void query_start(struct vqp *v, const struct shift_action *a)
{
	struct rail_jobs *j = &v->rails.jobs[a->rail];

	j->query_epoch = a->epoch;
	j->query_serial = a->serial;
	if (j->querying)
		return; /* the answer under way will bear the newest serial */
	j->querying = true;
	j->query.fn = query_run;
	j->query.owner = j;
	rail_job_begins(j);
	worker_submit(v->dev->nic[a->rail]->fences, &j->query);
}
