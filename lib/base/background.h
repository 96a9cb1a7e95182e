/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The background thread: one per process, started when the program first opens an RDMA device.
 * It has all signals blocked, and never runs code of the program. Everything of ours that waits
 * (messages, timers, links, the rendezvous) waits here; what may hang (a verb on a dead NIC) runs
 * on a worker (worker.h).
 */
#ifndef SHIFT_BASE_BACKGROUND_H
#define SHIFT_BASE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC, ns. No system call (vDSO). */
uint64_t now_ns(void);

/* The same, but it stands still while the background thread should run and does not: the process is
 * stopped, or the machine overloaded (of each such time 100 ms count). By this clock a NIC is said
 * to hang. A reading may be ahead by a time that the background thread has not noticed yet. Any
 * thread. */
uint64_t bg_awake_ns(void);

/* Start the thread if it is not running. Any thread; returns 0 or a negative errno; -ECHILD in the
 * child of a fork(), which has none (fork.h). */
int bg_start(void);
bool bg_is_self(void);

/* Run fn(arg) on the background thread soon, in the order of the calls. Any thread. Costs a system
 * call (eventfd) if the thread sleeps. `call` belongs to the caller and must live until it has
 * run; queueing one that is queued does nothing. */
struct bg_call {
	void (*fn)(void *arg);
	void *arg;
	struct bg_call *next;
	bool queued;
};
void bg_call(struct bg_call *call);

/* The rest: background thread only. */

/* Level-triggered; events as of epoll. Replaces an earlier watch of this fd. 0 or negative errno.
 */
int bg_watch(int fd, uint32_t events, void (*fn)(void *arg, uint32_t events), void *arg);
void bg_unwatch(int fd);

/* One-shot timer; at_ns absolute, UINT64_MAX takes it back; setting it again replaces. It may be
 * freed after it was taken back. fn may set it again. */
struct bg_timer {
	void (*fn)(void *arg);
	void *arg;
	uint64_t at_ns;	  /* written by bg_timer_set */
	uint32_t heap_at; /* index + 1 in the heap; 0: not in it */
};
void bg_timer_set(struct bg_timer *timer, uint64_t at_ns);

/* Called once per turn of the loop, after all else, before it sleeps (flushing batches). */
void bg_before_sleep(void (*fn)(void));

#endif
