/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/told.h"

#include "lib/core/msg.h"

#define INTERVAL_FIRST_NS 10000000ull

void told_begin(struct told *t)
{
	t->acked = false;
	t->next_ns = 0;
	t->interval_ns = INTERVAL_FIRST_NS;
}

void told_change(struct told *t)
{
	static uint32_t serials;

	t->serial = ++serials ? serials : ++serials;
	told_begin(t);
}

bool told_due(const struct told *t, uint64_t now)
{
	return t->serial && !t->acked && now >= t->next_ns;
}

void told_sent(struct told *t, uint64_t now, uint64_t longest_ns)
{
	t->next_ns = now + t->interval_ns;
	t->interval_ns = t->interval_ns * 5 / 4;
	if (t->interval_ns > longest_ns)
		t->interval_ns = longest_ns;
}

void told_acked(struct told *t, uint32_t heard)
{
	t->acked |= t->serial && heard == t->serial;
}

bool told_newer(const struct told *t, uint32_t serial)
{
	return serial && (!t->heard || shift_serial_newer(serial, t->heard));
}
