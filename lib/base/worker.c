/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/background.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"

struct worker {
	char name[16];
	pthread_mutex_t lock;
	pthread_cond_t work; /* a job was submitted */
	pthread_cond_t done; /* a job has run */
	/* Under the lock. */
	bool running;
	struct job *jobs, **tail;
	uint64_t submitted;
	uint64_t current; /* number of the job that runs; 0: none */

	_Atomic uint64_t busy_since_ns;
};

struct worker *worker_new(const char *name)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	if (!w)
		return NULL;
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->tail = &w->jobs;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->work, &attr);
	pthread_cond_init(&w->done, &attr);
	pthread_condattr_destroy(&attr);
	return w;
}

static struct job *job_next(struct worker *w)
{
	struct job *job;

	while (!w->jobs)
		pthread_cond_wait(&w->work, &w->lock);
	job = w->jobs;
	w->jobs = job->next;
	if (!w->jobs)
		w->tail = &w->jobs;
	return job;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	thread_init(w->name);
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job = job_next(w);

		w->current = job->number;
		atomic_store(&w->busy_since_ns, bg_awake_ns());
		pthread_mutex_unlock(&w->lock);
		job->fn(job);
		pthread_mutex_lock(&w->lock);
		atomic_store(&w->busy_since_ns, 0);
		w->current = 0;
		pthread_cond_broadcast(&w->done);
	}
	return NULL;
}

void worker_submit(struct worker *w, struct job *job)
{
	pthread_t thread;

	/* The child of a fork has no workers, and a thread of the parent may have held the lock. */
	if (fork_in_child())
		return;
	pthread_mutex_lock(&w->lock);
	job->next = NULL;
	*w->tail = job;
	w->tail = &job->next;
	job->number = ++w->submitted;
	if (!w->running) {
		w->running = !thread_start(&thread, worker_main, w);
		if (!w->running)
			log_error("cannot start the thread \"%s\": connections may not be "
				  "protected by this NIC; look at the limit of threads (ulimit -u)",
				  w->name);
	}
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
}

uint64_t worker_busy_since_ns(const struct worker *w)
{
	return atomic_load(&w->busy_since_ns);
}

bool worker_cancel(struct worker *w, struct job *job)
{
	struct job **at;

	if (fork_in_child())
		return false;
	pthread_mutex_lock(&w->lock);
	for (at = &w->jobs; *at && *at != job; at = &(*at)->next)
		;
	if (*at) {
		*at = job->next;
		if (w->tail == &job->next)
			w->tail = at;
		pthread_cond_broadcast(&w->done);
	} else {
		job = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	return job != NULL;
}

/* Has one of the first n jobs not ended yet? Under the lock. */
static bool jobs_pending(const struct worker *w, uint64_t n)
{
	return (w->current && w->current <= n) || (w->jobs && w->jobs->number <= n);
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
