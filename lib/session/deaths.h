/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Deaths of peers. shift-kvd says that a peer's process is gone, and whoever can write to the
 * rendezvous can say so, too. So the word is tried before it is believed: the peer's NICs are
 * listened to, and its process is asked (doc/protocol.md, 7.41). Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_DEATHS_H
#define SHIFT_SESSION_DEATHS_H

#include "lib/session/session_msg.h"

/* The process with this nonce is said to be dead. */
void death_reported(uint64_t nonce);

/* A question whether we are alive, or the answer to ours, of the process with this nonce. */
void alive_heard(uint64_t nonce, const struct session_alive *m);

#endif
