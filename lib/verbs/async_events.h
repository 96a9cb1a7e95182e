/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's ibv_get_async_event(): it does not see the events of failures that its connections
 * survive, and gets those that their NICs do not raise (lib/object/made_events.h). */
#ifndef SHIFT_VERBS_ASYNC_EVENTS_H
#define SHIFT_VERBS_ASYNC_EVENTS_H

#include <infiniband/verbs.h>

/* The verbs of these names: parameters, results and errors. On the program's threads; may wait. */
int hook_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event);
void hook_ack_async_event(struct ibv_async_event *event);

#endif
