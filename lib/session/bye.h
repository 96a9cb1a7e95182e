/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process that ends with connections left says so to its peers, as nobody else would: the
 * rendezvous reports no death of a process that has ended in order (doc/protocol.md, 7.47).
 * Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_BYE_H
#define SHIFT_SESSION_BYE_H

#include "lib/core/msg.h"

/* This process ends: tells the peer of each connection that is left, over every path. It takes some
 * milliseconds, and never more than 20, however many peers there are. */
void bye_say(void);

/* The process that has sent this message ends. */
void bye_heard(const struct shift_msg *m);

#endif
