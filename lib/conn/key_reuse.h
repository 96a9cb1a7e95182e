/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A registration may return the value of an rkey again after a deregistration, with other memory
 * behind it. Peers that were told the keys of its shadows must have forgotten them by then
 * (doc/protocol.md, rule 23; exported_keys.h).
 */
#ifndef SHIFT_CONN_KEY_REUSE_H
#define SHIFT_CONN_KEY_REUSE_H

#include "lib/nic/nic.h"

/* A key of this device, which peers may know, is gone: tells them. Any thread, nothing locked. */
void key_reuse_announce(const struct nic *nic, uint32_t rkey);

/* Waits until no peer remembers such a key any more, a second at most. A peer that has not answered
 * by then has lost the key, or is lost itself. Nothing locked; not the background thread. */
void key_reuse_wait(const struct nic *nic, uint32_t rkey);

#endif
