/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The path to a peer process over one pair of NICs, as a connection sees it: control messages go
 * over it. lib/session/peer_paths.h makes paths, shares and frees them, and keeps probes on them. A
 * path is constant as long as it exists.
 */
#ifndef SHIFT_NIC_PEER_PATH_H
#define SHIFT_NIC_PEER_PATH_H

#include "lib/nic/ctrl_link.h"

struct peer_path {
	struct nic *nic; /* ours */
	struct ctrl_link_peer *link;
};

/* Sends a message over its control link. It leaves when the link is flushed (ctrl_link.h). Any
 * thread, any locks held. */
static inline void peer_path_send(struct peer_path *path, const struct shift_msg *m)
{
	ctrl_link_send(path->link, m);
}

#endif
