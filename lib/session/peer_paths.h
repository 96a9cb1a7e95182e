/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The paths to peer processes, each over one pair of NICs: a control link, and probes. A path is
 * shared by all connections between the two processes over these NICs. Background thread; a caller
 * may hold vqp.lock.
 */
#ifndef SHIFT_SESSION_PEER_PATHS_H
#define SHIFT_SESSION_PEER_PATHS_H

#include "lib/conn/vqp.h"
#include "lib/nic/probe.h"
#include "lib/session/path_health.h"
#include "lib/session/session_msg.h"
#include "lib/session/told.h"

struct tracked_path {
	struct peer_path path; /* first: the two are cast to each other */
	struct tracked_path *next;
	unsigned int users;
	uint64_t nonce; /* of the peer's process */
	uint8_t peer_nic;
	struct ctrl_link_addr addr; /* where it listens, */
	uint32_t serial; /* of the peer's state that has said its address; 0: any is newer */
	struct probe *probe;
	struct told told; /* of our end of the probes, */
	struct probe_addr ours;
	struct path_health health;
	bool bye;	  /* we end, and a connection has it: the peer is told */
	uint64_t left_ns; /* when the peer's process has said that it ends; 0: it has not */
};

static inline struct tracked_path *tracked_path(struct peer_path *path)
{
	return (struct tracked_path *)path;
}

/* The path from our NIC to the peer's rail, as the peer has told it. Paths are counted: each
 * peer_path_get() or peer_path_hold() needs a peer_path_put(); the last one frees. NULL: no memory.
 */
struct peer_path *peer_path_get(struct nic *nic, uint64_t peer_nonce, const struct rail_addr *peer);

/* The peer's process has said that it listens there, in a state of this serial (told.h). An older
 * state than that which was heard last, of whatever connection, changes nothing. */
void peer_path_follow(struct peer_path *path, const struct rail_addr *peer, uint32_t serial);

void peer_path_hold(struct peer_path *path);
void peer_path_put(struct peer_path *path); /* NULL does nothing */

/* Tells our ends of the probes to the peers that do not know them yet. Returns whether there are
 * such peers. */
bool peer_paths_exchange_probes(void);

/* A process has told its end of the probes over a path: connects ours to it. */
void peer_paths_probe_heard(uint64_t nonce, const struct session_probe *m);

/* Sends a message to a process over every path to it. */
void peer_paths_send(uint64_t nonce, const struct shift_msg *m);

/* Sends a message over every path with `bye`, and does not wait for the background thread to flush
 * it. false: there is none, or the time was over before all were told. */
bool peer_paths_say_bye(const struct shift_msg *m, uint64_t end_ns);

/* A process ends. true: there is a path to it that did not know that. */
bool peer_paths_leave(uint64_t nonce, uint64_t now);

/* What can be heard of a process: nothing, as there is no path to it; nothing, as no probe was
 * answered yet on any; or whether its NICs answer. */
enum peer_silence { SILENCE_NO_PATH, SILENCE_NOT_PROBED, SILENCE_PROBED };

/* Listens to a process: from now on the probes are counted that it does not answer. */
void peer_paths_listen(uint64_t nonce);

/* PROBED: *missed is how many in a row it has not answered, on the path that answered last. Misses
 * that are excused count: this is not about the path. */
enum peer_silence peer_paths_silence(uint64_t nonce, unsigned int *missed);

/* Calls fn for each path to that process. */
void peer_paths_each(uint64_t nonce, void (*fn)(struct tracked_path *p, void *arg), void *arg);

#endif
