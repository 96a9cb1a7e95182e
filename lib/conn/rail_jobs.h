/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The jobs for a rail's QP on its NIC's threads (fence_qp.c, arm.c, lib/session/operator.c). Each
 * holds a reference to the vqp. All end in an orderly way when the program takes its QP back.
 */
#ifndef SHIFT_CONN_RAIL_JOBS_H
#define SHIFT_CONN_RAIL_JOBS_H

#include "lib/conn/vqp.h"

/* A job is asked for: takes a reference. Under vqp.lock. */
void rail_job_begins(struct rail_jobs *j);

/* The job has ended: releases the reference, which may free the vqp. On the job's thread, nothing
 * locked. */
void rail_job_ends(struct rail_jobs *j);

/* The connection is closed. Waits until no job of rail 0 is under way, as its QP is the program's
 * again. Jobs of other rails end when their NICs let them, and change nothing any more. Nothing
 * locked; not on a thread of a NIC. true: the fence of rail 0 has not ended, and its QP may be
 * alive.
 */
bool rail_jobs_stop(struct vqp *v);

#endif
