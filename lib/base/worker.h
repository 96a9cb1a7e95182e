/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A thread for verbs that may hang when a NIC is dead (modify, query, create, register, destroy):
 * doc/protocol.md, rule 25. Each NIC has two, nic->worker and nic->resolver. Jobs run in the order
 * in which they were submitted. All signals are blocked.
 */
#ifndef SHIFT_BASE_WORKER_H
#define SHIFT_BASE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

struct job {
	void (*fn)(struct job *job); /* runs on the worker without locks; may free the job */
	struct job *next;	     /* these two are the worker's */
	uint64_t number;
};

/* The thread starts with the first job; it never ends. NULL: no memory. Of name 15 bytes are shown.
 */
struct worker *worker_new(const char *name);

/* Any thread, any locks held (leaf lock). The job belongs to the worker until fn is called. Does
 * nothing in the child of a fork(), which has no workers. */
void worker_submit(struct worker *w, struct job *job);

/* Takes back a job that has not begun. false: it has begun, or was not submitted here. Any thread,
 * any locks held; nobody may submit or free the job meanwhile. */
bool worker_cancel(struct worker *w, struct job *job);

/* When the job that runs now began, by bg_awake_ns(); 0 if none runs. Any thread. */
uint64_t worker_busy_since_ns(const struct worker *w);

/* Waits until all jobs that were submitted before have run, at most for timeout_ms. false: some
 * have not. Any thread but the worker's; no lock held that a job takes. */
bool worker_drain(struct worker *w, int timeout_ms);

#endif
