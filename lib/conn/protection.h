/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Whether a connection is protected, as the statistics show it. */
#ifndef SHIFT_CONN_PROTECTION_H
#define SHIFT_CONN_PROTECTION_H

#include "lib/conn/vqp.h"

/* Tells the statistics whether there is a backup rail that the connection could move to. Any
 * thread, between vqp_enter() and vqp_leave(). */
void vqp_report_protection(struct vqp *v);

#endif
