/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The value of an rkey may come back after a deregistration, with other memory behind it. Peers
 * that were told of its twins must have forgotten them by then (exported_keys.h).
 */
#ifndef SHIFT_CONN_KEY_REUSE_H
#define SHIFT_CONN_KEY_REUSE_H

#include "lib/nic/nic.h"

/* A key of this device that peers may know is gone. Nothing entered; any thread. */
void key_gone(const struct nic *nic, uint32_t rkey);

/* Waits until no peer remembers such a key any more, a second at most: a peer that has not answered
 * by then has lost it, or is lost. Nothing entered; not the background thread. */
void key_reuse_wait(const struct nic *nic, uint32_t rkey);

#endif
