/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef SHIFT_CONN_PROTECTION_H
#define SHIFT_CONN_PROTECTION_H

#include "lib/conn/vqp.h"

/* Tells the statistics whether any backup rail is left that the connection could move to. Under
 * vqp_enter(). */
void vqp_report_protection(struct vqp *v);

#endif
