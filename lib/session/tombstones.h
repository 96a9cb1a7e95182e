/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a connection that has ended leaves for 60 s: the answer to a peer that lost its last ACKs
 * (doc/protocol.md, rule 19). Background thread.
 */
#ifndef SHIFT_SESSION_TOMBSTONES_H
#define SHIFT_SESSION_TOMBSTONES_H

#include "lib/conn/vqp.h"

/* The connection has closed: keeps its answer, and the paths over which a peer may ask. */
void tombstone_leave(struct vqp *v);

/* A message for a connection that is no more. */
void tombstone_answer(const struct nic *nic, const struct shift_msg *m);

#endif
