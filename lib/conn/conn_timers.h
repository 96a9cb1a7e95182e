/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A connection's two timers: `tick` for what is due next (deadlines of lib/core, questions about
 * keys), `overdue` for the deadlines of its jobs (job_deadlines.h). */
#ifndef SHIFT_CONN_CONN_TIMERS_H
#define SHIFT_CONN_CONN_TIMERS_H

#include "lib/conn/vqp.h"

/* Before the vqp can be found. */
void vqp_timers_init(struct vqp *v);

/* From now on all connections are looked at once a second: T8 needs that of those that are idle,
 * and so have no timer. Background thread. */
void conn_looks_start(void);

/* No timer fires after this, unless it is set again. Background thread. */
void vqp_timers_stop(struct vqp *v);

#endif
