/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Takes each control message to its connection. */
#ifndef SHIFT_SESSION_DISPATCH_H
#define SHIFT_SESSION_DISPATCH_H

#include "lib/core/msg.h"
#include "lib/nic/nic.h"

/* A record has come over the control link of a NIC. For ctrl_link_on_message(): background thread,
 * nothing locked. */
void dispatch_message(struct nic *nic, const struct shift_msg *m);

#endif
