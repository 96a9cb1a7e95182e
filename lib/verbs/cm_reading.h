/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How long a thread that reads events of RDMA-CM waits where what it has found is not for the
 * program. On that thread; no locks. */
#ifndef SHIFT_VERBS_CM_READING_H
#define SHIFT_VERBS_CM_READING_H

#include <stdbool.h>
#include <stdint.h>

struct rdma_cm_id;

/* One call of rdma_get_cm_event(). */
struct cm_reading {
	int fd; /* of the channel */
	/* The program destroys or migrates it, which waits until its events are acknowledged. */
	bool (*is_going)(const struct rdma_cm_id *id);
	bool slept;	   /* for some event: the thread waits for nothing else */
	uint64_t since_ms; /* it waits for an event that it can be given; 0: it does not */
};

/*
 * Who has slept in the verb goes on sleeping. But a thread that has found the event without waiting
 * may have polled the descriptor, and waits for other things there. It must get something: another
 * event, if one comes soon; else a hint that programs ignore, as nothing has happened to the
 * connection. (Not at once: qperf polls nothing, reads what was there for long only when it expects
 * DISCONNECTED, and ends with an error if it gets the hint.)
 *
 * false: it reads on. It holds an event of id meanwhile, which may be NULL. due: DISCONNECTED is to
 * come.
 */
bool cm_must_get_something(struct cm_reading *r, const struct rdma_cm_id *id, bool due);

#endif
