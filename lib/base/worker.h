/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A thread per NIC for verbs that may hang when the NIC is dead (modify, query, create, register,
 * destroy): doc/protocol.md, rule 25. Jobs run in order. All signals are blocked.
 */
#ifndef SHIFT_BASE_WORKER_H
#define SHIFT_BASE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

struct job {
	void (*fn)(struct job *job); /* runs on the worker; may free the job */
	struct job *next;
	uint64_t number; /* the worker's */
};

/* The thread starts with the first job. NULL: no memory. name: at most 15 bytes are shown. */
struct worker *worker_new(const char *name);

/* Any thread, any locks held. The job belongs to the worker until fn is called. */
void worker_submit(struct worker *w, struct job *job);

/* Takes back a job that has not begun. false: it has, or it was not submitted here. Any thread, any
 * locks held; nobody may submit or free it meanwhile. */
bool worker_cancel(struct worker *w, struct job *job);

/* Since when the job that runs now has been running, now_ns() time; 0 if idle. Any thread. */
uint64_t worker_busy_since_ns(const struct worker *w);

/* Waits until every job submitted before has run, at most for timeout_ms. false: it did not. */
bool worker_drain(struct worker *w, int timeout_ms);

#endif
