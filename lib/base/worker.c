/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/background.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"

/* What one thread does now. */
struct at_work {
	const struct job *job; /* only compared: fn may have freed it; NULL: it is idle */
	const void *owner;
	uint64_t number;
	uint64_t since_ns;
};

struct worker {
	char name[16];
	pthread_mutex_t lock;
	pthread_cond_t work; /* a job can be taken */
	pthread_cond_t done; /* a job has run, or was taken back */
	/* Under the lock. */
	struct job *jobs, **tail;
	unsigned int waiting; /* so many jobs */
	uint64_t submitted;
	unsigned int threads, threads_max; /* so many were started; may be */
	unsigned int begun, idle;	   /* threads that run; that wait for a job */
	struct at_work at[WORKER_THREADS_MAX];
};

struct worker *worker_new(const char *name, unsigned int threads)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	if (!w)
		return NULL;
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->tail = &w->jobs;
	w->threads_max = threads < WORKER_THREADS_MAX ? threads : WORKER_THREADS_MAX;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->work, &attr);
	pthread_cond_init(&w->done, &attr);
	pthread_condattr_destroy(&attr);
	return w;
}

/* All of these under the lock. */

static bool owner_is_at_work(const struct worker *w, const void *owner)
{
	for (unsigned int i = 0; owner && i < w->begun; i++)
		if (w->at[i].job && w->at[i].owner == owner)
			return true;
	return false;
}

/* Where the first job stands that may run now. */
static struct job **job_ready(struct worker *w)
{
	struct job **at = &w->jobs;

	while (*at && owner_is_at_work(w, (*at)->owner))
		at = &(*at)->next;
	return at;
}

static struct job *job_unlink(struct worker *w, struct job **at)
{
	struct job *job = *at;

	*at = job->next;
	if (w->tail == &job->next)
		w->tail = at;
	w->waiting--;
	return job;
}

static struct job *job_next(struct worker *w)
{
	struct job **at;

	while (!*(at = job_ready(w))) {
		w->idle++;
		pthread_cond_wait(&w->work, &w->lock);
		w->idle--;
	}
	return job_unlink(w, at);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct at_work *mine;

	thread_init(w->name);
	pthread_mutex_lock(&w->lock);
	mine = &w->at[w->begun++];
	for (;;) {
		struct job *job = job_next(w);

		*mine = (struct at_work){.job = job,
					 .owner = job->owner,
					 .number = job->number,
					 .since_ns = bg_awake_ns()};
		pthread_mutex_unlock(&w->lock);
		job->fn(job);
		pthread_mutex_lock(&w->lock);
		*mine = (struct at_work){0};
		pthread_cond_broadcast(&w->done);
	}
	return NULL;
}

/* A thread for each job that could run now, as far as there may be so many. Under the lock. */
static void thread_add(struct worker *w)
{
	pthread_t thread;

	if (w->threads == w->threads_max || w->waiting <= w->idle + w->threads - w->begun)
		return;
	if (!thread_start(&thread, worker_main, w))
		w->threads++;
	else if (!w->threads)
		log_error("cannot start the thread \"%s\": connections may not be protected by "
			  "this NIC; look at the limit of threads (ulimit -u)",
			  w->name);
}

static void job_submit(struct worker *w, struct job *job, bool first)
{
	struct job **at;

	/* The child of a fork has no workers, and a thread of the parent may have held the lock. */
	if (fork_in_child())
		return;
	pthread_mutex_lock(&w->lock);
	at = first ? &w->jobs : w->tail;
	job->next = *at;
	*at = job;
	if (w->tail == at)
		w->tail = &job->next;
	job->number = ++w->submitted;
	w->waiting++;
	thread_add(w);
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
}

void worker_submit(struct worker *w, struct job *job)
{
	job_submit(w, job, false);
}

void worker_submit_first(struct worker *w, struct job *job)
{
	job_submit(w, job, true);
}

/* Of a job that waits for none of its owner: the newest of those that run. If that one does not
 * end, none does. */
static uint64_t newest_since_ns(const struct worker *w)
{
	uint64_t since = 0;

	for (unsigned int i = 0; i < w->begun; i++)
		if (w->at[i].since_ns > since)
			since = w->at[i].since_ns;
	return since;
}

/* Jobs of one owner run one after the other: it waits for that one, whatever the others do. */
static bool is_in_its_way(const struct at_work *at, const struct job *job)
{
	return at->job && job->owner && at->owner == job->owner;
}

uint64_t worker_busy_since_ns(struct worker *w, const struct job *job)
{
	uint64_t since;

	if (fork_in_child())
		return 0;
	pthread_mutex_lock(&w->lock);
	since = newest_since_ns(w);
	for (unsigned int i = 0; i < w->begun; i++)
		if (job && (w->at[i].job == job || is_in_its_way(&w->at[i], job)))
			since = w->at[i].since_ns;
	pthread_mutex_unlock(&w->lock);
	return since;
}

bool worker_cancel(struct worker *w, struct job *job)
{
	struct job **at;
	bool found;

	if (fork_in_child())
		return false;
	pthread_mutex_lock(&w->lock);
	for (at = &w->jobs; *at && *at != job; at = &(*at)->next)
		;
	found = *at;
	if (found) {
		job_unlink(w, at);
		pthread_cond_broadcast(&w->done);
	}
	pthread_mutex_unlock(&w->lock);
	return found;
}

/* Has one of the first n jobs not ended yet? Under the lock. */
static bool jobs_pending(const struct worker *w, uint64_t n)
{
	for (unsigned int i = 0; i < w->begun; i++)
		if (w->at[i].job && w->at[i].number <= n)
			return true;
	for (const struct job *job = w->jobs; job; job = job->next)
		if (job->number <= n)
			return true;
	return false;
}

bool worker_drain(struct worker *w, int timeout_ms)
{
	uint64_t at = now_ns() + (uint64_t)timeout_ms * 1000000u;
	struct timespec until = {.tv_sec = at / 1000000000u, .tv_nsec = at % 1000000000u};
	uint64_t all;
	bool left;
	int err = 0;

	if (fork_in_child())
		return false;
	pthread_mutex_lock(&w->lock);
	all = w->submitted;
	while (jobs_pending(w, all) && !err)
		err = pthread_cond_timedwait(&w->done, &w->lock, &until);
	left = jobs_pending(w, all);
	pthread_mutex_unlock(&w->lock);
	return !left;
}
