/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The jobs of a rail's QP on its NIC's threads (fence_qp.c, arm.c, lib/session/operator.c): they
 * hold a reference, and end in an orderly way when the program takes its QP back.
 */
#ifndef SHIFT_CONN_RAIL_JOBS_H
#define SHIFT_CONN_RAIL_JOBS_H

#include "lib/conn/vqp.h"

/* One is asked for. Under vqp.lock. */
void rail_job_begins(struct rail_jobs *j);

/* It has ended: this may free the vqp. Nothing locked. */
void rail_job_ends(struct rail_jobs *j);

/* The connection is closed. Of rail 0, whose QP is the program's again, no job is under way after
 * this; those of other rails end when their NICs let them, and change nothing any more. Nothing
 * locked; waits. */
void rail_jobs_stop(struct vqp *v);

#endif
