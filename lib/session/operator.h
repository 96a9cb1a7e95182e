/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The operator's orders to this process, which come through its control socket (shift-ctl;
 * doc/protocol.md, T7). */
#ifndef SHIFT_SESSION_OPERATOR_H
#define SHIFT_SESSION_OPERATOR_H

/* Opens the control socket. Orders are carried out on the background thread. Background thread,
 * once. */
void operator_start(void);

#endif
