/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Control messages find their connection. */
#ifndef SHIFT_SESSION_DISPATCH_H
#define SHIFT_SESSION_DISPATCH_H

#include "lib/core/msg.h"
#include "lib/nic/nic.h"

/* A record that has come over the control link of a NIC: for ctrl_link_on_message(). Background
 * thread. */
void dispatch_message(struct nic *nic, const struct shift_msg *m);

#endif
