/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the probes of a path say, and what connections are told of it. Background thread.
 */
#ifndef SHIFT_SESSION_PATH_HEALTH_H
#define SHIFT_SESSION_PATH_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/nic/peer_path.h"

struct path_health {
	bool answered;	    /* ever */
	uint32_t misses;    /* in a row */
	uint64_t done;	    /* WRs of its connections, when a probe was missed last */
	uint32_t excused;   /* misses since the last answer that did not count */
	uint64_t missed_ns; /* the first of them */
};

/* A probe of a struct tracked_path was answered, or missed: for probe_new(). */
void path_health_probed(void *path, bool answered);

/* Are its probes being answered? */
bool path_health_answers(struct peer_path *path);

/* Would the peer miss it? That is so if nobody but the caller holds it, and the peer's end answers:
 * a connection there may be idle, and not know that ours is gone, and takes silence for a fault. */
bool path_health_keep_for_peer(struct peer_path *path);

#endif
