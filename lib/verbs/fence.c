/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a connection asks of its QPs and may hang on a dead NIC: the fence (DESIGN 4.3, "the fence
 * must be a barrier"), and reading rq_psn, on the worker of the NIC; and the deadlines of these and
 * of arming (arm.c).
 */
#include <string.h>
#include <time.h>

#include "lib/health/live.h"
#include "lib/verbs/keys.h"
#include "lib/verbs/log.h"
#include "lib/verbs/patience.h"
#include "lib/verbs/vobj.h"

#define FENCE_MAX_NS 1000000000ull
#define ARM_MAX_NS   5000000000ull
#define FLUSH_MAX_NS 300000000ull /* for the marker to come back */

static void nap(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

/* --- fence ----------------------------------------------------------------------------------- */

/* Who destroys the QP may destroy its CQs next: he has passed through digest after v->gone. */
static void feed(struct vqp *v, struct vcq *cq)
{
	pthread_mutex_lock(&cq->digest);
	if (!v->gone)
		vcq_digest(cq);
	pthread_mutex_unlock(&cq->digest);
}

static void feed_all(struct vqp *v)
{
	feed(v, v->send_cq);
	if (v->recv_cq != v->send_cq)
		feed(v, v->recv_cq);
}

static bool post_marker(struct vqp *v, uint8_t rail)
{
	struct ibv_send_wr wr = {.wr_id = v->marker,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad = NULL;
	struct ibv_qp *qp = vqp_rail_qp(v, rail);
	int err = rail ? ibv_post_send(qp, &wr, &bad) : v->post_send(qp, &wr, &bad);

	return !err || !bad; /* err without bad: queued all the same (DESIGN 4.5) */
}

/*
 * All that the QP had outstanding flushes in order, so when a marker posted behind it has come back
 * everything has. Receives have no such marker (soft-RoCE may never flush one): the barrier
 * behind this settles them.
 */
static bool flush(struct vqp *v, uint8_t rail)
{
	struct patience patience = {.left_ns = FLUSH_MAX_NS};
	bool posted = false;

	atomic_store(&v->jobs[rail].marker_seen, false);
	do {
		if (!posted)
			posted = post_marker(v, rail); /* full: there is room when it has flushed */
		feed_all(v);
		if (atomic_load(&v->jobs[rail].marker_seen))
			return true;
		nap(50);
	} while (patience_left(&patience) && !v->gone);
	return false;
}

/* Soft-RoCE: RESET waits for the responder's task, and rq_psn survives it (6.1, 6.12). */
static bool barrier(struct vqp *v, uint8_t rail, uint32_t *psn)
{
	const struct nic *nic = v->dev->nic[rail];

	if (nic->is_rxe && vqp_to_state(v, rail, IBV_QPS_RESET))
		return false;
	return live_psn_at_rest(nic, vqp_rail_qp(v, rail), psn);
}

static void fence_qp(struct vqp *v, uint8_t rail, struct shift_event *ev)
{
	bool live = vqp_psn(v, rail) == STATS_PSN_LIVE; /* not measured is not trusted */
	bool flushed, stopped;

	if (!vqp_rail_qp(v, rail)) {
		ev->fence = SHIFT_FENCE_UNSURE;
		ev->clean = true;
		return;
	}
	flushed = !vqp_to_state(v, rail, IBV_QPS_ERR) && flush(v, rail);
	stopped = barrier(v, rail, &ev->psn);
	feed_all(v);
	if (!flushed || !stopped)
		log_warn("QP %#x: the fence of %s is not complete (%s)", v->qpn,
			 v->dev->nic[rail]->name, flushed ? "no barrier" : "no flush");
	ev->clean = flushed && stopped;
	v->unclean = ev->clean ? v->unclean & ~(1u << rail) : v->unclean | 1u << rail;
	ev->hung = !ev->clean;
	ev->fence = ev->clean && live ? SHIFT_FENCE_SURE : SHIFT_FENCE_UNSURE;
}

static void fence_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, fence));
	struct shift_event ev = {
		.type = SHIFT_EV_FENCE_DONE, .rail = j->rail, .epoch = j->fence_epoch};
	struct vqp *v = j->v;

	pause_hang(v, STATS_PHASE_FENCE);
	fence_qp(v, j->rail, &ev);
	vqp_enter(v);
	if (!j->stale) {
		j->fence_since = 0;
		post_unsent(v, j->rail, j->fence_epoch);
		shift_conn_event(v->conn, &ev, now_ns());
	}
	vqp_leave(v);
	rail_job_ends(j);
}

void fence_start(struct vqp *v, const struct shift_action *a)
{
	struct rail_jobs *j = &v->jobs[a->rail];

	j->fence.fn = fence_run;
	j->fence_epoch = a->epoch;
	j->fence_since = bg_awake_ns();
	rail_job_begins(j);
	j->fence_follows = j->arming;
	if (!j->fence_follows)
		worker_submit(v->dev->nic[a->rail]->worker, &j->fence);
	bg_call(&v->overdue_call);
}

/* --- query ----------------------------------------------------------------------------------- */

static void query_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, query));
	struct shift_event ev = {
		.type = SHIFT_EV_PSN, .rail = j->rail, .fence = SHIFT_FENCE_UNSURE};
	struct vqp *v = j->v;

	if (vqp_rail_qp(v, j->rail) && live_psn(vqp_rail_qp(v, j->rail), &ev.psn) &&
	    vqp_psn(v, j->rail) == STATS_PSN_LIVE)
		ev.fence = SHIFT_FENCE_SURE;
	vqp_enter(v);
	j->querying = false;
	ev.epoch = j->query_epoch;
	ev.serial = j->query_serial;
	if (!j->stale)
		shift_conn_event(v->conn, &ev, now_ns());
	vqp_leave(v);
	rail_job_ends(j);
}

void query_start(struct vqp *v, const struct shift_action *a)
{
	struct rail_jobs *j = &v->jobs[a->rail];

	j->query_epoch = a->epoch;
	j->query_serial = a->serial;
	if (j->querying)
		return; /* its answer will bear the newest serial */
	j->querying = true;
	j->query.fn = query_run;
	rail_job_begins(j);
	worker_submit(v->dev->nic[a->rail]->worker, &j->query);
}

/* --- deadlines ------------------------------------------------------------------------------- */

/*
 * Has the NIC taken too long? However many wait in its queue, only one job that does not end says
 * that it hangs. since: 0 for nothing under way.
 */
static bool overdue(uint64_t since, const struct worker *w, uint64_t max_ns)
{
	uint64_t busy = worker_busy_since_ns(w);

	return since && (busy > since ? busy : since) + max_ns <= bg_awake_ns();
}

static bool fence_overdue(const struct vqp *v, const struct rail_jobs *j)
{
	return overdue(j->fence_since, v->dev->nic[j->rail]->worker, FENCE_MAX_NS);
}

static bool arm_overdue(const struct vqp *v, const struct rail_jobs *j)
{
	return overdue(j->arm_since, v->dev->nic[j->rail]->resolver, ARM_MAX_NS);
}

static void give_out(struct vqp *v, uint8_t rail, const char *what, struct shift_event *ev)
{
	log_warn("QP %#x: %s does not answer %s", v->qpn, v->dev->nic[rail]->name, what);
	ev->rail = rail;
	shift_conn_event(v->conn, ev, now_ns());
	vqp_act(v);
}

void jobs_overdue(void *vqp)
{
	struct vqp *v = vqp;
	bool under_way = false;

	vqp_enter(v);
	for (uint8_t i = 0; i < v->dev->rails; i++) {
		struct rail_jobs *j = &v->jobs[i];

		if (fence_overdue(v, j)) {
			struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE,
						 .epoch = j->fence_epoch,
						 .fence = SHIFT_FENCE_UNSURE,
						 .hung = true};

			j->fence_since = 0;
			give_out(v, i, "its fence", &ev);
		}
		if (arm_overdue(v, j)) {
			struct shift_event ev = {.type = SHIFT_EV_ARM_FAILED,
						 .epoch = j->arm.epoch};

			j->arm_since = 0;
			give_out(v, i, "the arming of its twin", &ev);
		}
	}
	for (uint8_t i = 0; i < v->dev->rails; i++)
		under_way |= v->jobs[i].fence_since || v->jobs[i].arm_since;
	vqp_leave(v);
	bg_timer_set(&v->overdue_timer, under_way ? now_ns() + OVERDUE_TICK_NS : UINT64_MAX);
}
