/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Asynchronous events that the program is to get and its NIC does not raise: they are of a queue
 * pair or an SRQ that shift has moved (doc/srq.md, section 7). They wait here, one list for each
 * context of the program's, until it asks. Whoever sleeps on the context's async_fd is woken by an
 * event that is real (event_waker.h). Any thread, any locks held, unless stated.
 */
#ifndef SHIFT_OBJECT_MADE_EVENTS_H
#define SHIFT_OBJECT_MADE_EVENTS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/object/event_waker.h"

struct vdev;

/* The event of one object, of one type. Zeroed, but for `event`. */
struct made_event {
	struct ibv_async_event event;
	/* Under the lock of made_events.c: */
	struct made_event *next;
	uint32_t waiting; /* so many are to be given to the program; it is in the list */
	uint32_t unacked; /* the program has got so many and not acknowledged them */
	bool said;	  /* the program has got the one of this life, or will */
	bool over;	  /* its object is being destroyed: no more are made */
};

/* Of a context. */
struct made_events {
	struct made_event *first;
	_Atomic uint32_t waiting;
	struct event_waker waker;
};

/* The program is to get another one. */
void made_event_raise(struct vdev *dev, struct made_event *e);

/* Only one in the life of an object, whoever raises it. Returns whether this is the first. */
bool made_event_say(struct made_event *e);
void made_event_renew(struct made_event *e); /* another life begins */

/* The oldest that waits; false: none does. */
bool made_event_take(struct vdev *dev, struct ibv_async_event *event);
uint32_t made_events_waiting(const struct vdev *dev);

/* The program has acknowledged an event of that type of the object. Returns whether it was a made
 * one: those are not counted in libibverbs, whose destroy waits until all are acknowledged. */
bool made_event_acked(struct made_event *e);

/* The program destroys the object: what waits is dropped, and what it has got it must acknowledge
 * first, as libibverbs has it. Returns how many were dropped. The program's thread, nothing locked.
 */
uint32_t made_event_end(struct vdev *dev, struct made_event *e);

/* It could not be destroyed: they wait again. */
void made_event_resume(struct vdev *dev, struct made_event *e, uint32_t dropped);

#endif
