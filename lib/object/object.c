/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/object.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/background.h"
#include "lib/base/worker.h"

#define WAIT_MAX_NS 2000000000ull

void object_get(struct object *obj)
{
	atomic_fetch_add(&obj->refs, 1);
}

void object_put(struct object *obj)
{
	if (atomic_fetch_sub(&obj->refs, 1) == 1)
		obj->free(obj);
}

/* Several jobs that a thread waits for. The last of the jobs and the waiter frees it. */
struct job_group {
	pthread_mutex_t lock;
	pthread_cond_t done;
	unsigned int left;
	unsigned int users;
};

struct obj_job {
	struct job job;
	struct object *obj;
	struct nic *nic;
	object_fn *fn;
	struct job_group *group;
};

static void job_group_put(struct job_group *b, bool is_job)
{
	unsigned int users;

	pthread_mutex_lock(&b->lock);
	b->left -= is_job;
	users = --b->users;
	if (!b->left)
		pthread_cond_broadcast(&b->done);
	pthread_mutex_unlock(&b->lock);
	if (users)
		return;
	pthread_cond_destroy(&b->done);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static void obj_job_run(struct job *job)
{
	struct obj_job *j = (struct obj_job *)job;

	j->fn(j->obj, j->nic);
	object_put(j->obj);
	if (j->group)
		job_group_put(j->group, true);
	free(j);
}

static struct obj_job *obj_job_new(struct object *obj, struct nic *nic, object_fn *fn,
				   struct job_group *b)
{
	struct obj_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	*j = (struct obj_job){.job.fn = obj_job_run, .obj = obj, .nic = nic, .fn = fn, .group = b};
	object_get(obj);
	return j;
}

bool object_job(struct object *obj, struct nic *nic, object_fn *fn)
{
	struct obj_job *j = obj_job_new(obj, nic, fn, NULL);

	if (j)
		worker_submit(nic->worker, &j->job);
	return j;
}

bool object_memory_job(struct object *obj, struct nic *nic, object_fn *fn, bool first)
{
	struct obj_job *j = obj_job_new(obj, nic, fn, NULL);

	if (j && first)
		worker_submit_first(nic->memory, &j->job);
	else if (j)
		worker_submit(nic->memory, &j->job);
	return j;
}

static struct job_group *job_group_new(unsigned int jobs)
{
	struct job_group *b = calloc(1, sizeof(*b));
	pthread_condattr_t attr;

	if (!b)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->done, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&b->lock, NULL);
	b->left = jobs;
	b->users = jobs + 1;
	return b;
}

static void jobs_wait(struct object *obj, struct nic *const *nics, unsigned int n, object_fn *fn,
		      bool memory)
{
	struct job_group *b = job_group_new(n);
	uint64_t end = now_ns() + WAIT_MAX_NS;
	struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
				 .tv_nsec = (long)(end % 1000000000)};

	for (unsigned int i = 0; i < n; i++) {
		struct obj_job *j = obj_job_new(obj, nics[i], fn, b);

		if (j && memory)
			worker_submit_first(nics[i]->memory, &j->job);
		else if (j)
			worker_submit(nics[i]->worker, &j->job);
		else if (b)
			job_group_put(b, true);
	}
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	while (b->left && pthread_cond_timedwait(&b->done, &b->lock, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&b->lock);
	job_group_put(b, false);
}

void object_jobs_wait(struct object *obj, struct nic *const *nics, unsigned int n, object_fn *fn)
{
	jobs_wait(obj, nics, n, fn, false);
}

void object_memory_jobs_wait(struct object *obj, struct nic *const *nics, unsigned int n,
			     object_fn *fn)
{
	jobs_wait(obj, nics, n, fn, true);
}
