/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the operator may ask of this process through its control socket (shift-ctl). */
#ifndef SHIFT_SESSION_OPERATOR_H
#define SHIFT_SESSION_OPERATOR_H

/* Opens the control socket. Background thread, once. */
void operator_start(void);

#endif
