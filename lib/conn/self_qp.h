/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP that the program has connected with itself. Its READs make visible what the NIC of the data
 * has written (a flush of GPU memory), so they go through each NIC that carries data of the
 * domain, and the program gets one completion of each (doc/protocol.md, 7.43 to 7.46). It has no
 * peer, and lib/core does not move it: its connection stays in SETUP and keeps the log.
 *
 * While all data of the domain is on rail 0 the QP is like any other. Else it is engaged: its gates
 * are shut, and what is posted to a NIC has a wr_id of ours.
 */
#ifndef SHIFT_CONN_SELF_QP_H
#define SHIFT_CONN_SELF_QP_H

#include "lib/conn/vqp.h"

/* Is it connected with itself by these attributes of a QP in RTR? Nothing locked. */
bool self_qp_is_named(const struct vqp *v, const struct ibv_qp_attr *a);

/* The program's QP has come to RTS. Nothing locked. */
void self_qp_started(struct vqp *v);

/* Data of this connection may soon come to that rail: from now on READs of the domain's
 * self-connected QPs go there, too. Nothing locked. */
void self_qps_follow(const struct vqp *v, uint8_t rail);

/* The rest but for the tick: between vqp_enter() and vqp_leave(). */

/* A completion that a NIC has given. true: the program gets it from here, or not at all. */
bool self_qp_completion(struct vqp *v, uint8_t rail, bool is_recv, const struct ibv_wc *wc);

/* While it is engaged: one send of the program's. 0 or a negative errno. */
int self_qp_post(struct vqp *v, const struct shift_wr *wr);

/* It is used for more than READs, or in a way that we do not know: no more is done for it. */
void self_qp_leave_alone(struct vqp *v, enum stats_unprotected why);

/* Memory that it waits for is registered now. */
void self_qp_go_on(struct vqp *v);

/* The program is about to end this life of the QP: waits until no READ is under way any more on
 * another NIC than rail 0, and before ERR not there either. A NIC that hangs is waited for as long
 * as a fence, or object_jobs_wait(), waits. Nothing locked. */
void self_qp_stop(struct vqp *v, enum shift_close how);

/* And now it does. */
void self_qp_end(struct vqp *v, enum shift_close how);

/* A new life begins, in RESET. */
void self_qp_renew(struct vqp *v);

/* Background thread, nothing locked. */
void self_qp_tick(struct vqp *v);

/* Was, or may be, what is on rail 0 not as the program has set it? */
static inline bool self_qp_has_left(const struct vqp *v)
{
	return v->self.engaged || v->self.rail[0].gen;
}

/* Is rail 0 not as the program has left it, so that its attributes must wait? */
static inline bool self_qp_is_away(const struct vqp *v)
{
	return v->self.engaged && v->self.rail[0].state != SELF_READY;
}

#endif
