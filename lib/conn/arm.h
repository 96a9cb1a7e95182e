/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Bringing the QP of a rail to RTS for an epoch, on the resolver of its NIC, where it may hang. */
#ifndef SHIFT_CONN_ARM_H
#define SHIFT_CONN_ARM_H

#include "lib/conn/vqp.h"

/* The action ARM. Under vqp_enter(). */
void arm_start(struct vqp *v, const struct shift_action *a);

/* On a worker or the resolver of the rail's NIC. Errors as ibv_modify_qp. The program sees nothing
 * of it in qp->state. */
int vqp_modify(struct vqp *v, uint8_t rail, struct ibv_qp_attr *attr, int mask);
int vqp_to_state(struct vqp *v, uint8_t rail, enum ibv_qp_state state);

#endif
