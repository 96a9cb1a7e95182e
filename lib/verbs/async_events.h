/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Asynchronous events, without those of what was survived. */
#ifndef SHIFT_VERBS_ASYNC_EVENTS_H
#define SHIFT_VERBS_ASYNC_EVENTS_H

#include <infiniband/verbs.h>

/* The verb of that name. On the program's threads. */
int hook_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event);

#endif
