/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A switch makes events for which the program finds nothing: the flushes of a fence are not for it,
 * and a completion may be reported by its NIC and, as we have polled it, by us. Most programs do
 * not mind, as stock verbs have such events, too. But where one event of a NIC is one completion,
 * some rely on it: ib_send_lat -e polls once, and takes it that its send queue is empty. So, while
 * there may be such events, and as far as the program sleeps in the verb, it is not woken for
 * nothing.
 *
 * While nothing fails, events are not looked into, as that would cost something. So the one that
 * tells of the first error comes to the program, which polls, and is not to see the error. That
 * poll waits (poll.c).
 */
#include "lib/verbs/completion_events.h"

#include <fcntl.h>
#include <stddef.h>

#include "lib/base/readable.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/drain.h"

static bool nothing_is_there(struct vcq *cq)
{
	bool nothing;

	pthread_mutex_lock(&cq->drain_lock);
	nothing = vcq_drain(cq) >= 0 && !vcq_has_delivered(cq);
	pthread_mutex_unlock(&cq->drain_lock);
	return nothing;
}

/* NICs that have reported it do not report again until they are asked. What comes meanwhile the
 * second look finds. */
static bool is_for_nothing(struct vcq *cq)
{
	vcq_disarm(cq);
	if (!nothing_is_there(cq))
		return false;
	vcq_ask_again(cq);
	return nothing_is_there(cq);
}

/* A thread that has found an event without waiting may have polled the descriptor before (rpoll()
 * of rsocket does, in a program that also sleeps in the verb), and waits for other things there. So
 * it does not wait long: an event for nothing is better than none. */
enum { POLLED_MS = 1000 };

/* A call of the verb. */
struct asking {
	const struct ibv_comp_channel *channel;
	bool slept;
	uint64_t until_ms; /* it waits for another event; 0: it does not */
};

/* If none does, the next event need not be doubted: or each would hold up such a thread. */
static bool another_comes(struct cq_events *e, struct asking *a)
{
	int flags = fcntl(a->channel->fd, F_GETFL);

	if (flags < 0 || flags & O_NONBLOCK)
		return false;
	if (!a->until_ms)
		a->until_ms = readable_clock_ms() + POLLED_MS;
	if (readable_until(a->channel->fd, a->until_ms))
		return true;
	cq_events_settle(e);
	return false;
}

/* true: the program is not to be told of this event. */
static bool take_back(struct cq_events *e, struct asking *a)
{
	struct vcq *cq = (struct vcq *)((char *)e - offsetof(struct vcq, events));
	bool doubtful, nothing;

	if (cq->bypassed || !cq_events_slept_for(e))
		return false;
	uncancelled_begin();
	doubtful = cq_events_may_be_empty(e, gate_is_shut(&cq->gate));
	atomic_store_explicit(&cq->woken, !doubtful, memory_order_relaxed);
	nothing = doubtful && is_for_nothing(cq) && (a->slept || another_comes(e, a));
	if (nothing)
		cq_events_take_back(e);
	uncancelled_end();
	return nothing;
}

int hook_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct asking a = {.channel = channel};
	struct cq_events *e;

	pthread_testcancel(); /* as read(2), also where there is something to read */
	do {
		if (channel_get_event(channel, cq, cq_context, &e, &a.slept))
			return -1;
	} while (e && take_back(e, &a));
	return 0;
}
