/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Carrying out what lib/core decides: its actions. All functions are called between vqp_enter() and
 * vqp_leave(). */
#ifndef SHIFT_CONN_ACTIONS_H
#define SHIFT_CONN_ACTIONS_H

#include "lib/conn/vqp.h"

/* Carries out the actions that have come up. To be called after each call of lib/core; vqp_leave()
 * does so after the last one. */
void vqp_act(struct vqp *v);

/* Carries out the action that a pause has held back until now, if there is one. */
void vqp_act_held(struct vqp *v);

/* Releases the connection: from here on the QP is as without shift, for good
 * (doc/protocol.md, 8.7). false: it is too late, as the connection has moved or is over. */
bool vqp_release(struct vqp *v, enum stats_unprotected why);

/* lib/core may want it released: for atomics, or as the peer has released its end. Between
 * vqp_enter() and vqp_leave(). */
void vqp_release_if_due(struct vqp *v);

/* Tells lib/core an event of a rail. */
void vqp_rail_event(struct vqp *v, enum shift_event_type type, uint8_t rail);

/* Tells lib/core that the rail is not to be used before vqp_rail_open(): its twins are still to
 * come, or we have another reason to keep it out of use. */
void vqp_rail_await(struct vqp *v, uint8_t rail);

/* Tells lib/core RAIL_OPEN, unless we have another reason to keep the rail out of use. */
void vqp_rail_open(struct vqp *v, uint8_t rail);

/* Gives the program the flush completion of a request that it has posted to a QP that is over, as
 * with stock verbs. */
void vqp_deliver_flush(struct vqp *v, uint64_t wr_id, bool is_recv);

#endif
