/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The second thread, and turns. Two threads that wait for each other by spinning have no number of
 * instructions of their own, and callgrind runs one at a time. So when it counts they take turns,
 * and wait outside of what is collected.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "cmd/shift-bench/verbs_client/client.h"

enum { TRIES = 200 };

static pthread_t other;
static pthread_barrier_t begin, end;
static void (*work)(unsigned int thread);
static bool started;

static _Atomic unsigned int turn;
static _Atomic bool left[2];

static void *run_other(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_barrier_wait(&begin);
		if (!work)
			return NULL;
		work(1);
		pthread_barrier_wait(&end);
	}
}

void client_run_both(void (*fn)(unsigned int thread))
{
	if (!started) {
		pthread_barrier_init(&begin, NULL, 2);
		pthread_barrier_init(&end, NULL, 2);
		if (pthread_create(&other, NULL, run_other, NULL))
			client_fail("pthread_create");
		started = true;
	}
	atomic_store(&turn, 0);
	atomic_store(&left[0], false);
	atomic_store(&left[1], false);
	work = fn;
	pthread_barrier_wait(&begin);
	fn(0);
	pthread_barrier_wait(&end);
}

void client_end_threads(void)
{
	if (!started)
		return;
	work = NULL;
	pthread_barrier_wait(&begin);
	pthread_join(other, NULL);
	started = false;
}

void client_take_turn(unsigned int thread)
{
	while (client.counting && started && atomic_load(&turn) != thread)
		sched_yield();
}

void client_give_turn(unsigned int thread)
{
	if (client.counting && !atomic_load(&left[!thread]))
		atomic_store(&turn, !thread);
}

void client_leave_turns(unsigned int thread)
{
	atomic_store(&left[thread], true);
	atomic_store(&turn, !thread);
}

void client_wait_a_little(unsigned int *tries)
{
	if (++*tries % TRIES)
		__asm__ volatile("" ::: "memory");
	else
		sched_yield(); /* the other one may have no processor */
}
