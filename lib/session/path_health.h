/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The health of a path to a peer: what its probes say, and what connections are told of it
 * (doc/protocol.md, T6). Background thread; nothing locked.
 */
#ifndef SHIFT_SESSION_PATH_HEALTH_H
#define SHIFT_SESSION_PATH_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/nic/peer_path.h"

struct path_health {
	bool answered;	    /* at least once */
	uint32_t misses;    /* in a row */
	uint32_t unheard;   /* in a row, excused ones too, since peer_paths_listen() */
	uint64_t done;	    /* WRs that its connections had completed at the last miss */
	uint32_t excused;   /* misses since the last answer that were not counted */
	uint64_t missed_ns; /* when the silence began */
	uint64_t ok_ns;	    /* the last answer */
	/* Misses since a path of the peer has changed. One counts if all other paths that answer
	 * have answered since the one that counted before, which was at counted_ns. */
	uint32_t counted;
	uint64_t counted_ns;
	uint32_t unjudged; /* misses since its connections were looked at */
	uint32_t awaited;  /* vqp_times_answers_awaited() at the last answer */
};

/* A new connection uses a path to that process, or one of its paths has changed: misses of those
 * that are silent are told again. */
void path_health_tell_again(uint64_t nonce);

/* A probe of the path was answered or missed. The function for probe_new(); path is a struct
 * tracked_path. */
void path_health_probed(void *path, bool answered);

/* Are its probes being answered? */
bool path_health_answers(struct peer_path *path);

/* Must the path be kept for the peer's sake? So it is if only the caller holds it and the peer's
 * end still answers: an idle connection of the peer may not know that ours is gone, and would take
 * silence for a fault. */
bool path_health_keep_for_peer(struct peer_path *path);

#endif
