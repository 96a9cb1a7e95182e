/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>

#include "lib/base/background.h"

struct waited_call {
	struct bg_call call;
	void (*fn)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
};

static void run_waited(void *arg)
{
	struct waited_call *w = arg;

	w->fn(w->arg);
	pthread_mutex_lock(&w->lock);
	w->is_done = true;
	pthread_cond_signal(&w->done);
	pthread_mutex_unlock(&w->lock);
}

void bg_call_wait(void (*fn)(void *arg), void *arg)
{
	struct waited_call w = {.call = {.fn = run_waited},
				.fn = fn,
				.arg = arg,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.done = PTHREAD_COND_INITIALIZER};

	w.call.arg = &w;
	bg_call(&w.call);
	pthread_mutex_lock(&w.lock);
	while (!w.is_done)
		pthread_cond_wait(&w.done, &w.lock);
	pthread_mutex_unlock(&w.lock);
}
