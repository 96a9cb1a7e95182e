/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shadows of memory count against RLIMIT_MEMLOCK, too, so not all of the program's memory may fit
 * on every backup NIC (doc/protocol.md, V18). Shadows make way for what the program registers
 * itself. A connection does not move to a NIC that lacks memory of its domain.
 */
#ifndef SHIFT_CONN_MEMLOCK_H
#define SHIFT_CONN_MEMLOCK_H

#include "lib/base/reentry.h"
#include "lib/conn/vqp.h"

/* Four functions of memory_calls (lib/object/memory.h). Any thread; any locks held, but for
 * memlock_registered(): none. */
bool memlock_is_short(const struct nic *nic); /* must no shadows be made there for now? */
void memlock_refused(const struct nic *nic, int errnum); /* tries again later */
void memlock_registered(void); /* the connections that wait for it go on */
void memlock_changed(void);

/* Finds which rails of the connection lack memory of its domain, and tells lib/core and the
 * statistics of changes. Any thread, between vqp_enter() and vqp_leave(). */
void memlock_update_rails(struct vqp *v);

/*
 * A real verb of that device has failed with ENOMEM, in errno: our shadows may have taken what the
 * program may lock. Deregisters those on one NIC. true: try the verb again. `seen` is
 * memlock_rooms_made() from before the first try, so that a thread notices that another one has
 * made room meanwhile. On the program's threads, nothing locked; may wait two seconds; errno is
 * kept.
 */
unsigned int memlock_rooms_made(void);
bool memlock_make_room(struct ibv_context *ctx, unsigned int *seen);

/* Calls such a verb, which returns a pointer, until it succeeds or no shadow is left to give up. */
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
