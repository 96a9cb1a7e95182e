/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * SRQ_LIMIT_REACHED (doc/srq.md, section 7). While all receives lie on the program's own NIC, that
 * counts them, and its event is the program's. When not, the books count them: the program gets an
 * event that is made, and the NIC's own, which a drainer may trip, is hidden. Either comes once for
 * each arming. vsrq.lock guards all of it; any thread.
 */
#ifndef SHIFT_OBJECT_SRQ_LIMIT_H
#define SHIFT_OBJECT_SRQ_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/object/made_events.h"

struct vsrq;

struct srq_limit {
	uint32_t armed;	  /* by the program, and not answered yet; 0: not */
	bool made;	  /* a made event has answered the last arming: the NIC's is not to, too */
	bool again;	  /* we have armed the NIC, too: only its first event is the program's */
	bool away;	  /* receives were elsewhere since the NIC was armed: it may miss some */
	bool feeding;	  /* srq_limit_feed() is submitted */
	uint64_t feed_at; /* when the CQs are to be fed, as the program may poll after it only */
	struct made_event event;
};

void srq_limit_init(struct vsrq *s, uint32_t armed);

/* Under the lock, when the books have changed. */
enum srq_limit_todo {
	SRQ_LIMIT_RAISE = 1, /* srq_limit.event is to be raised */
	SRQ_LIMIT_REARM = 2, /* srq_limit_rearm() is to run on the worker of the program's NIC, */
	SRQ_LIMIT_FEED = 4,  /* and srq_limit_feed() on that of another */
};
unsigned int srq_limit_look(struct vsrq *s, uint64_t now); /* a mask */

/* Without the lock. Returns whether the deadline is nearer than it was. */
bool srq_limit_do(struct vsrq *s, unsigned int todo);

/* Under the lock: when to look again; UINT64_MAX: when something happens. */
uint64_t srq_limit_deadline(const struct vsrq *s);

/* The program arms it, before its NIC does. Returns what it was. Takes the lock. */
uint32_t srq_limit_arm(struct vsrq *s, uint32_t armed);

/* The NIC's event was read. Is it for the program? Takes the lock. */
bool srq_limit_is_due(struct vsrq *s);

#endif
