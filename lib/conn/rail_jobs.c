/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How jobs end when the program takes its QP back. A job may still be under way although its
 * deadline is over: a fence is taken for hung also if the NIC is alive and its worker was busy for
 * long.
 */
#include "lib/conn/rail_jobs.h"

void rail_job_begins(struct rail_jobs *j)
{
	object_get(&j->v->obj);
	j->under_way++;
}

void rail_job_ends(struct rail_jobs *j)
{
	struct vqp *v = j->v;

	pthread_mutex_lock(&v->lock);
	j->under_way--;
	if (!j->under_way)
		atomic_store(&j->stale, false);
	pthread_cond_broadcast(&v->rails.job_ended);
	pthread_mutex_unlock(&v->lock);
	object_put(&v->obj);
}

static void job_taken_back(struct rail_jobs *j)
{
	j->under_way--;
	object_put(&j->v->obj); /* never the last reference: the QP has its own */
}

/* Takes back the jobs that have not begun. true: a fence is among them. Under vqp.lock. */
static bool jobs_take_back(struct rail_jobs *j, const struct nic *nic)
{
	bool fence = j->fence_follows || worker_cancel(nic->fences, &j->fence);

	if (fence) {
		j->fence_follows = false;
		job_taken_back(j);
	}
	if (worker_cancel(nic->arms, &j->arms)) {
		atomic_store(&j->arming, false);
		job_taken_back(j);
	}
	if (worker_cancel(nic->fences, &j->query)) {
		j->querying = false;
		job_taken_back(j);
	}
	if (worker_cancel(nic->fences, &j->breaks)) {
		j->breaking = false;
		job_taken_back(j);
	}
	return fence;
}

bool rail_jobs_stop(struct vqp *v)
{
	bool fence;

	pthread_mutex_lock(&v->lock);
	fence = jobs_take_back(&v->rails.jobs[0], v->dev->nic[0]);
	for (unsigned int i = 0; i < v->dev->rails; i++) {
		v->rails.jobs[i].fence_since = v->rails.jobs[i].arm_since = 0;
		atomic_store(&v->rails.jobs[i].stale, v->rails.jobs[i].under_way != 0);
	}
	while (v->rails.jobs[0].under_way)
		pthread_cond_wait(&v->rails.job_ended, &v->lock);
	pthread_mutex_unlock(&v->lock);
	return fence;
}
