/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/thread.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "lib/base/reentry.h"

enum { STACK_BYTES = 512 * 1024 }; /* the program's static TLS is part of it */

/* The thread that starts ours may be pinned to the core on which it polls. So ours take the CPUs of
 * the main thread. */
void thread_init(const char *name)
{
	cpu_set_t cpus;

	hooks_off = true;
	pthread_setname_np(pthread_self(), name);
	if (!sched_getaffinity(getpid(), sizeof(cpus), &cpus))
		sched_setaffinity(0, sizeof(cpus), &cpus);
}

int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, &attr, fn, arg);
	if (err) {
		/* The stack may be too small for a program with very much TLS. */
		pthread_attr_setstacksize(&attr, 16 * STACK_BYTES);
		err = pthread_create(thread, &attr, fn, arg);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}
