/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A NIC that takes too long over a fence, or over an arming, is said to hang. */
#ifndef SHIFT_CONN_JOB_DEADLINES_H
#define SHIFT_CONN_JOB_DEADLINES_H

#include "lib/conn/vqp.h"

/* An arming may wait 3 s for a neighbour: the timer goes on while a job is under way. */
#define OVERDUE_TICK_NS 100000000ull

/* Looks at all jobs of the QP. The function of vqp.timers.overdue: background thread. */
void job_deadlines_check(void *vqp);

#endif
