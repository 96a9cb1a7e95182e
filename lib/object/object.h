/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The lifetime of our side of the program's verbs objects (PDs, MRs, CQs, QPs), and the jobs that
 * make and destroy their shadows. A shadow is the same object once more on a backup NIC, made in
 * the background on that NIC's threads. Any thread, any locks held, unless stated.
 */
#ifndef SHIFT_OBJECT_OBJECT_H
#define SHIFT_OBJECT_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/nic/nic.h"

/* The owner has a reference, and so has each job under way. The last one that is put frees. */
struct object {
	_Atomic int refs;
	void (*free)(struct object *obj);
};

void object_get(struct object *obj);
void object_put(struct object *obj); /* may call obj->free() here: no lock of obj held then */

typedef void object_fn(struct object *obj, struct nic *nic);

/* Runs fn(obj, nic) on the worker of a NIC, after the jobs that were submitted there before. Holds
 * a reference until it has run. false: no memory, and it will not run. */
bool object_job(struct object *obj, struct nic *nic, object_fn *fn);

/* The same on its thread for registrations; `first`: before all that wait there. */
bool object_memory_job(struct object *obj, struct nic *nic, object_fn *fn, bool first);

/* Like object_job(), or object_memory_job() before all that wait, on each of the NICs, but waits
 * until all have run, at most 2 s. A NIC may be dead: then its job runs later, or never. No lock
 * held that fn takes; not on a worker. */
void object_jobs_wait(struct object *obj, struct nic *const *nics, unsigned int n, object_fn *fn);
void object_memory_jobs_wait(struct object *obj, struct nic *const *nics, unsigned int n,
			     object_fn *fn);

#endif
