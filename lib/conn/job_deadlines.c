/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/job_deadlines.h"

#include "lib/base/log.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"

#define FENCE_MAX_NS 1000000000ull
#define ARM_MAX_NS   5000000000ull /* an arming may wait 3 s for a neighbour */

/*
 * Has the NIC taken too long? However many jobs wait in its queue, it hangs only if a single job
 * does not end. since: when it was asked for; 0: nothing is under way.
 */
static bool job_is_overdue(uint64_t since, struct worker *w, const struct job *job, uint64_t max_ns)
{
	uint64_t busy = since ? worker_busy_since_ns(w, job) : 0;

	return since && (busy > since ? busy : since) + max_ns <= bg_awake_ns();
}

/* One that follows another verb of its QP is not in the queue: that verb has hung meanwhile. */
static bool fence_overdue(const struct vqp *v, const struct rail_jobs *j)
{
	if (j->fence_follows)
		return j->fence_since && j->fence_since + FENCE_MAX_NS <= bg_awake_ns();
	return job_is_overdue(j->fence_since, v->dev->nic[j->rail]->fences, &j->fence,
			      FENCE_MAX_NS);
}

static bool arm_overdue(const struct vqp *v, const struct rail_jobs *j)
{
	return job_is_overdue(j->arm_since, v->dev->nic[j->rail]->arms, &j->arms, ARM_MAX_NS);
}

static void nic_hangs(struct vqp *v, uint8_t rail, const char *what, struct shift_event *ev)
{
	log_warn("QP %#x: %s has not ended %s in time, and counts as hung; dmesg may say why",
		 v->qpn, v->dev->nic[rail]->name, what);
	ev->rail = rail;
	shift_conn_event(v->conn, ev, now_ns());
	vqp_act(v);
}

void job_deadlines_check(void *vqp)
{
	struct vqp *v = vqp;
	bool under_way = false;

	vqp_enter(v);
	for (uint8_t i = 0; i < v->dev->rails; i++) {
		struct rail_jobs *j = &v->rails.jobs[i];

		if (fence_overdue(v, j)) {
			struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE,
						 .epoch = j->fence_epoch,
						 .fence = SHIFT_FENCE_UNSURE,
						 .hung = true};

			j->fence_since = 0;
			nic_hangs(v, i, "its fence", &ev);
		}
		if (arm_overdue(v, j)) {
			struct shift_event ev = {.type = SHIFT_EV_ARM_FAILED,
						 .epoch = j->arm.epoch};

			j->arm_since = 0;
			nic_hangs(v, i, "the arming of its twin", &ev);
		}
	}
	for (uint8_t i = 0; i < v->dev->rails; i++)
		under_way |= v->rails.jobs[i].fence_since || v->rails.jobs[i].arm_since;
	vqp_leave(v);
	bg_timer_set(&v->timers.overdue, under_way ? now_ns() + OVERDUE_TICK_NS : UINT64_MAX);
}
