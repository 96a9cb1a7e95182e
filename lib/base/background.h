/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The background thread: one per process, started when the program first opens an RDMA device.
 * It has all signals blocked, and never runs code of the program. Everything of ours that waits
 * (messages, timers, links, the rendezvous) waits here. A verb that may hang on a dead NIC runs on
 * a worker (worker.h).
 */
#ifndef SHIFT_BASE_BACKGROUND_H
#define SHIFT_BASE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC, ns. No system call (vDSO). */
uint64_t now_ns(void);

/* The same clock, but it stands still while the background thread should run and cannot, because
 * the process is stopped or the machine overloaded. (100 ms of each such time do count.) Deadlines
 * of NICs go by it, so that a NIC is not taken for hung while we were stopped. A reading may be
 * ahead by a time that the background thread has not noticed yet. Any thread. */
uint64_t bg_awake_ns(void);

/* Starts the thread if it is not running. Any thread. 0 or a negative errno; -ECHILD in the child
 * of a fork(), which has no background thread (fork.h). */
int bg_start(void);

/* Is the caller the background thread? */
bool bg_is_self(void);

/* Runs fn(arg) on the background thread soon, in the order of the calls. Any thread, any locks held
 * (leaf lock). Costs a system call (eventfd) if the thread sleeps. `call` belongs to the caller and
 * must live until it has run. Queueing a call that is queued already does nothing. */
struct bg_call {
	void (*fn)(void *arg);
	void *arg;
	struct bg_call *next;
	bool queued;
};
void bg_call(struct bg_call *call);

/* The same, but waits for no lock: for exit(), which the program may call anywhere. false: some
 * thread has the lock, perhaps this one. */
bool bg_call_try(struct bg_call *call);

/* Runs fn(arg) on the background thread, and returns when it has run. Any thread but that one,
 * nothing locked. */
void bg_call_wait(void (*fn)(void *arg), void *arg);

/* The rest: background thread only. */

/* Calls fn while fd is ready (level-triggered; events as of epoll). Replaces an earlier watch of
 * this fd. The descriptor stays the caller's. 0 or a negative errno. */
int bg_watch(int fd, uint32_t events, void (*fn)(void *arg, uint32_t events), void *arg);

/* Ends the watch, if there is one: fn is not called any more. Before fd is closed, if possible. */
void bg_unwatch(int fd);

/* A one-shot timer. It belongs to the caller. at_ns is absolute, by now_ns(); UINT64_MAX cancels.
 * Setting it again replaces the time, also from fn. It may be freed when it has run or is
 * cancelled. */
struct bg_timer {
	void (*fn)(void *arg);
	void *arg;
	uint64_t at_ns;	  /* written by bg_timer_set */
	uint32_t heap_at; /* index + 1 in the heap; 0: not in it */
};
void bg_timer_set(struct bg_timer *timer, uint64_t at_ns);

/* Registers a function that the loop calls once per turn, after all else and before it sleeps, to
 * flush batches. At most 8, each once; there is no way to remove one. Any thread. */
void bg_before_sleep(void (*fn)(void));

#endif
