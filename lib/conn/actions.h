/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What lib/core decides is carried out. All under vqp_enter(). */
#ifndef SHIFT_CONN_ACTIONS_H
#define SHIFT_CONN_ACTIONS_H

#include "lib/conn/vqp.h"

/* Carry out the actions: to be called after each call of lib/core but the last before
 * vqp_leave(). */
void vqp_act(struct vqp *v);

/* Carry one out that pause points have held back. */
void vqp_act_now(struct vqp *v, const struct shift_action *a);

/* From here on as without us, for good. false: it is too late, it has moved. */
bool vqp_release(struct vqp *v, enum stats_unprotected why);

/* Tell lib/core of a rail. Clean: unless something else still speaks against it. */
void vqp_rail_event(struct vqp *v, enum shift_event_type type, uint8_t rail);
void vqp_rail_clean(struct vqp *v, uint8_t rail);

/* A request that is posted to a QP that is over flushes, as it would with stock verbs. */
void vqp_deliver_flush(struct vqp *v, uint64_t wr_id, bool is_recv);

#endif
