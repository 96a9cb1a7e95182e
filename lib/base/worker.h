/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Threads for verbs that may hang when a NIC is dead (modify, query, create, register, destroy):
 * doc/protocol.md, rule 25. Each NIC has some (lib/nic/nic.h). Jobs begin in the order in which
 * they were submitted, where nothing else is said. All signals are blocked.
 */
#ifndef SHIFT_BASE_WORKER_H
#define SHIFT_BASE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#define WORKER_THREADS_MAX 2

struct worker;

struct job {
	void (*fn)(struct job *job); /* runs on the worker without locks; may free the job */
	const void *owner;	     /* jobs of one owner run one after the other; NULL: of none */
	struct job *next;	     /* these two are the worker's */
	uint64_t number;
};

/* So many threads at most, from 1. The first starts with the first job, another when a job would
 * have to wait; they never end. NULL: no memory. Of name 15 bytes are shown. */
struct worker *worker_new(const char *name, unsigned int threads);

/* Any thread, any locks held (leaf lock). The job belongs to the worker until fn is called, and may
 * not be submitted again before. Does nothing in the child of a fork(), which has no workers. */
void worker_submit(struct worker *w, struct job *job);

/* The same, before all jobs that wait: somebody waits for this one. */
void worker_submit_first(struct worker *w, struct job *job);

/* Takes back a job that has not begun. false: it has begun, or was not submitted here. Any thread,
 * any locks held; nobody may submit or free the job meanwhile. */
bool worker_cancel(struct worker *w, struct job *job);

/* When the job, which nobody has freed, began, by bg_awake_ns(). If it does not run: when the job
 * of its owner that runs did, which it waits for; without one, when the newest of the jobs that run
 * did, as one that does not end holds it up only where all do not; 0: none runs. Any thread, any
 * locks held. NULL: of a job of no owner that does not run. */
uint64_t worker_busy_since_ns(struct worker *w, const struct job *job);

/* Waits until all jobs that were submitted before have run, at most for timeout_ms. false: some
 * have not. Any thread but the worker's; no lock held that a job takes. */
bool worker_drain(struct worker *w, int timeout_ms);

#endif
