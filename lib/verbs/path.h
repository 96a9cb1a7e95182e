/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A peer process over one pair of NICs: the control link to it, and its probes. Shared by all
 * connections between the two processes over these NICs. Background thread only, but for
 * path_send().
 */
#ifndef SHIFT_VERBS_PATH_H
#define SHIFT_VERBS_PATH_H

#include "kv/client.h"
#include "lib/health/probe.h"
#include "lib/verbs/vobj.h"

/* How the peer's rail is reached from our NIC: as published by the peer. Counted: one path_put()
 * for each path_get(). NULL: no memory. */
struct peer_path *path_get(struct nic *nic, uint64_t peer_nonce, const struct rail_addr *peer);
void path_hold(struct peer_path *path);
void path_put(struct peer_path *path);

/* Are its probes being answered? */
bool path_answers(const struct peer_path *path);

/* Would the peer miss it? That is so if nobody but the caller holds it, and the peer's end answers:
 * a connection there may be idle, and not know that ours is gone, and takes silence for a fault. */
bool path_is_kept(const struct peer_path *path);

/* Publish our ends of the probes, and look for those of the peers. Returns whether some are
 * missing. */
bool paths_meet(struct kv_client *kv, uint64_t nonce);

#endif
