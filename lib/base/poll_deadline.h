/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How long to poll for something that a NIC does at once, unless it hangs. Header only, no locks; a
 * deadline belongs to one thread. */
#ifndef SHIFT_BASE_POLL_DEADLINE_H
#define SHIFT_BASE_POLL_DEADLINE_H

#include "lib/base/background.h"

#define POLL_DEADLINE_STEP_NS UINT64_C(10000000)

struct poll_deadline {
	uint64_t left_ns; /* set by the caller; the rest is 0 */
	uint64_t last_ns; /* 0: not yet */
};

/* To be called after each poll. false: the time is over. Between two calls at most 10 ms count,
 * because a process that is stopped, or a machine that is overloaded, is not the NIC's fault. */
static inline bool poll_deadline_left(struct poll_deadline *p)
{
	uint64_t now = now_ns(), took = p->last_ns ? now - p->last_ns : 0;

	if (took > POLL_DEADLINE_STEP_NS)
		took = POLL_DEADLINE_STEP_NS;
	p->last_ns = now;
	p->left_ns -= took < p->left_ns ? took : p->left_ns;
	return p->left_ns;
}

#endif
