/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The end of a connection of RDMA-CM is told over the control links, because the kernel tells it
 * over rail 0 only (doc/protocol.md, 7.58). Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_DISCONNECTS_H
#define SHIFT_SESSION_DISCONNECTS_H

#include "lib/conn/vqp.h"
#include "lib/session/session_msg.h"

/* The program disconnects the id of that number: tells the peer until it has heard. Then, or when
 * nobody answers, the program hears of it, too. */
void disconnect_say(struct vqp *v, uint32_t cm_number);

void disconnect_heard(const struct shift_msg *m, const struct session_end *end);

/* The peer's process is no more. */
void disconnect_follows(struct vqp *v);

#endif
