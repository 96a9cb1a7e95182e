/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The paths to peer processes, each over one pair of NICs: a control link, and probes. A path is
 * shared by all connections between the two processes over these NICs. Background thread; a caller
 * may hold vqp.lock.
 */
#ifndef SHIFT_SESSION_PEER_PATHS_H
#define SHIFT_SESSION_PEER_PATHS_H

#include "kv/client.h"
#include "lib/conn/vqp.h"
#include "lib/nic/probe.h"
#include "lib/session/path_health.h"

struct tracked_path {
	struct peer_path path; /* first: the two are cast to each other */
	struct tracked_path *next;
	unsigned int users;
	uint64_t nonce; /* of the peer's process */
	uint8_t peer_nic;
	struct probe *probe;
	struct probe_addr ours, theirs; /* published, and connected to */
	bool published, connected;
	struct path_health health;
};

static inline struct tracked_path *tracked_path(struct peer_path *path)
{
	return (struct tracked_path *)path;
}

/* The path from our NIC to the peer's rail, as the peer has published it. Paths are counted: each
 * peer_path_get() or peer_path_hold() needs a peer_path_put(); the last one frees. NULL: no memory.
 */
struct peer_path *peer_path_get(struct nic *nic, uint64_t peer_nonce, const struct rail_addr *peer);
void peer_path_hold(struct peer_path *path);
void peer_path_put(struct peer_path *path); /* NULL does nothing */

/* Publishes our ends of the probes, and connects those whose other end the peer has published.
 * Returns whether some are missing. */
bool peer_paths_exchange_probes(struct kv_client *kv, uint64_t nonce);

/* Is any path to this process silent? nonce is that of the peer. */
bool peer_paths_any_silent(uint64_t nonce);

#endif
