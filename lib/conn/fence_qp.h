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

/* A fence that was asked for while another verb changed its QP begins once that has ended. Between
 * vqp_enter() and vqp_leave(). */
void fence_follow(struct vqp *v, struct rail_jobs *j);

/*
 * A verb of the program's own is about to change its QP on rail 0, and has. It may hang, so it runs
 * on the program's thread with nothing locked that anybody else waits for. Meanwhile none of ours
 * changes that QP: a fence follows, as NICs' drivers may not keep two modifies of one QP apart
 * (soft-RoCE's does not, and a QP that is in ERR would live again), and it is not armed. Between
 * vqp_enter() and vqp_leave(); one at a time (vqp_life.modify_lock).
 */
void rail0_lend(struct vqp *v);
void rail0_return(struct vqp *v);

/* Moves the QP of a rail to ERR and takes its completions in, until all are there. false: not all
 * came. On a thread of the NIC's, nothing locked. */
bool fence_empty(struct vqp *v, uint8_t rail);

#endif
