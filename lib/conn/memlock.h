/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Not all of the program's memory can be registered once more on every backup NIC: its shadows
 * count against RLIMIT_MEMLOCK as well. Shadows make way for what the program registers itself, and
 * a connection does not move to a NIC that lacks memory of its domain.
 */
#ifndef SHIFT_CONN_MEMLOCK_H
#define SHIFT_CONN_MEMLOCK_H

#include "lib/base/reentry.h"
#include "lib/conn/vqp.h"

/* The three that memory asks (memory_calls in lib/object/memory.h). Any thread. */
bool memlock_is_short(const struct nic *nic);
void memlock_refused(const struct nic *nic, int errnum); /* it will be tried again later */
void memlock_changed(void);

/* Which rails of the connection lack memory of its domain: tells lib/core and the statistics of
 * changes. Under vqp_enter(). */
void memlock_update_rails(struct vqp *v);

/*
 * A real verb of that device has failed with ENOMEM, in errno: our shadows may have taken what the
 * program may lock. true: some are gone, try again. seen: memlock_rooms_made() before the first
 * try.
 */
unsigned int memlock_rooms_made(void);
bool memlock_make_room(struct ibv_context *ctx, unsigned int *seen);

/* A pointer that such a verb returns. */
#define with_room(ctx, call)                                         \
	({                                                           \
		unsigned int seen_ = memlock_rooms_made();           \
		__typeof__(call) got_;                               \
		do {                                                 \
			got_ = quietly(call);                        \
		} while (!got_ && memlock_make_room((ctx), &seen_)); \
		got_;                                                \
	})

#endif
