/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The deadlines of fences (1 s) and armings (5 s). A NIC that misses one is taken for hung
 * (doc/protocol.md, rule 25). */
#ifndef SHIFT_CONN_JOB_DEADLINES_H
#define SHIFT_CONN_JOB_DEADLINES_H

#include "lib/conn/vqp.h"

/* While a job is under way, its deadline is checked this often. */
#define OVERDUE_TICK_NS 100000000ull

/* Checks all jobs of the QP. The function of the timer vqp.timers.overdue: background thread,
 * nothing locked. */
void job_deadlines_check(void *vqp);

#endif
