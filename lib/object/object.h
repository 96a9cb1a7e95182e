/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Lifetimes of our side of the program's verbs objects (PDs, MRs, CQs, QPs), and the jobs that make
 * and unmake their shadows: the same object once more on a backup NIC, made in the background on
 * that NIC's worker. Any thread, any locks held, unless stated.
 */
#ifndef SHIFT_OBJECT_OBJECT_H
#define SHIFT_OBJECT_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/nic/nic.h"

/* Counts the owner and each job under way; the last one frees. */
struct object {
	_Atomic int refs;
	void (*free)(struct object *obj);
};

void object_get(struct object *obj);
void object_put(struct object *obj);

/* Run fn(obj, nic) on the worker of a NIC, after what was submitted there before. Holds a reference
 * until it has run. false: no memory, it will not run. */
bool object_job(struct object *obj, struct nic *nic,
		void (*fn)(struct object *obj, struct nic *nic));

/* Like object_job() on each of the NICs, then wait until all have run, at most 2 s (a NIC may be
 * dead; then the jobs go on without us). */
void object_jobs_wait(struct object *obj, struct nic *const *nics, unsigned int n,
		      void (*fn)(struct object *obj, struct nic *nic));

#endif
