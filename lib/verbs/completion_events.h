/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the program waits for on a completion channel (lib/object/channel.h). Parameters and results
 * are the verb's; on a thread of the program, which may be cancelled while it waits.
 */
#ifndef SHIFT_VERBS_COMPLETION_EVENTS_H
#define SHIFT_VERBS_COMPLETION_EVENTS_H

#include <infiniband/verbs.h>

int hook_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

#endif
