/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/cm_reading.h"

#include <fcntl.h>

#include "lib/base/background.h"
#include "lib/base/readable.h"

/* A thread that has polled the descriptor waits so long for an event that it can be given, in ms;
 * if DISCONNECTED is due, longer. */
enum { POLLED_MS = 1000, DUE_MS = 3000, LOOK_MS = 50 };

/* It has waited in vain so lately that it does not wait again: the service thread of rsockets has
 * the events of all of them. */
#define WAITED_LATELY_NS 30000000000ull

static bool comes_until(const struct cm_reading *r, uint64_t until_ms, const struct rdma_cm_id *id)
{
	uint64_t now;

	while ((now = readable_clock_ms()) < until_ms && !(id && r->is_going(id)))
		if (readable_until(r->fd, now + LOOK_MS < until_ms ? now + LOOK_MS : until_ms))
			return true;
	return false;
}

bool cm_must_get_something(struct cm_reading *r, const struct rdma_cm_id *id, bool due)
{
	static _Thread_local uint64_t waited; /* in vain, until then; 0: never */
	int flags = fcntl(r->fd, F_GETFL);

	if (r->slept || flags < 0 || flags & O_NONBLOCK || readable_now(r->fd))
		return false;
	if (!due && waited && now_ns() - waited < WAITED_LATELY_NS)
		return true;
	if (!r->since_ms)
		r->since_ms = readable_clock_ms();
	if (comes_until(r, r->since_ms + (due ? DUE_MS : POLLED_MS), id))
		return false;
	waited = now_ns();
	return true;
}
