/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The way to a peer process over one pair of NICs, as a connection sees it: something over which
 * control messages go. lib/session/peer_paths.h makes them, shares them, and keeps probes on them.
 */
#ifndef SHIFT_NIC_PEER_PATH_H
#define SHIFT_NIC_PEER_PATH_H

#include "lib/nic/ctrl_link.h"

struct peer_path {
	struct nic *nic; /* ours */
	struct ctrl_link_peer *link;
};

/* Send over its control link; it goes out when the link is flushed. Any thread, any locks held. */
static inline void peer_path_send(struct peer_path *path, const struct shift_msg *m)
{
	ctrl_link_send(path->link, m);
}

#endif
