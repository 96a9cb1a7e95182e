/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a connection is told of the links of its rails (doc/protocol.md, T3, T4, 7.49). Background
 * thread. */
#ifndef SHIFT_CONN_RAIL_LINKS_H
#define SHIFT_CONN_RAIL_LINKS_H

#include "lib/conn/vqp.h"

/* Something has changed at the NIC, or the peer has heard of an address there: tells lib/core which
 * of the connection's rails on it have gone down or come up since it was told last. Nothing locked.
 */
void rail_links_look(struct vqp *v, const struct nic *nic);

#endif
