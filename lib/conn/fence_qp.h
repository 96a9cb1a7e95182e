/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The fence of a rail's QP (doc/protocol.md, rules 24 and 25), and reading its rq_psn. The fence
 * moves the QP to ERR, waits until everything has flushed and the responder has stopped, and reads
 * rq_psn. Both may hang on a dead NIC, so they run on threads of the NIC's; job_deadlines.h has
 * their deadlines.
 */
#ifndef SHIFT_CONN_FENCE_QP_H
#define SHIFT_CONN_FENCE_QP_H

#include "lib/conn/vqp.h"

/* Carry out the actions FENCE and QUERY_PSN: the events FENCE_DONE and PSN follow. Between
 * vqp_enter() and vqp_leave(). */
void fence_start(struct vqp *v, const struct shift_action *a);
void query_start(struct vqp *v, const struct shift_action *a);

/* Moves the QP of a rail to ERR and takes its completions in, until all are there. false: not all
 * came. On a thread of the NIC's, nothing locked. */
bool fence_empty(struct vqp *v, uint8_t rail);

#endif
