/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A connection's timers: the next thing that is due (lib/core's deadlines, questions about keys),
 * and the deadlines of what its NICs were asked. */
#ifndef SHIFT_CONN_CONN_TIMERS_H
#define SHIFT_CONN_CONN_TIMERS_H

#include "lib/conn/vqp.h"

void vqp_timers_init(struct vqp *v);
void vqp_timers_stop(struct vqp *v); /* background thread */

#endif
