/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Tombstones: for 60 s after its end a connection's last answer is kept, for a peer that lost the
 * last ACKs (doc/protocol.md, rule 19). Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_TOMBSTONES_H
#define SHIFT_SESSION_TOMBSTONES_H

#include "lib/conn/vqp.h"

/* The connection has closed: keeps its answer, and the paths over which the peer may ask. Without
 * memory it keeps nothing. */
void tombstone_leave(struct vqp *v);

/* Answers a message for a connection that has ended, if there is a tombstone. */
void tombstone_answer(const struct nic *nic, const struct shift_msg *m);

#endif
