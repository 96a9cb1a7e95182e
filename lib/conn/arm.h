/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Arming: bringing the QP of a rail to RTS for an epoch. On a thread of its NIC, as it may hang. */
#ifndef SHIFT_CONN_ARM_H
#define SHIFT_CONN_ARM_H

#include "lib/conn/vqp.h"

/* Carries out the action ARM: ARM_DONE or ARM_FAILED follows. Between vqp_enter() and vqp_leave().
 */
void arm_start(struct vqp *v, const struct shift_action *a);

/* Brings the QP of a rail to RTS, connected with itself, as the program has connected its own. 0 or
 * an error. On a thread of the NIC's, nothing locked. */
int arm_to_itself(struct vqp *v, uint8_t rail, uint32_t psn);

/* Before something is posted on that rail: a program that waits for an event (ibv_req_notify_cq) is
 * woken by what completes there. Any thread, any locks held. */
void arm_events(struct vqp *v, uint8_t rail);

/* How long the retries of a twin take at most that is armed now, ns. */
uint64_t twin_retries_ns(const struct vqp_program *p);

/* ibv_modify_qp() of a rail's QP, with its errors. The program does not see it in qp->state. On a
 * thread of the rail's NIC, as it may hang. */
int vqp_modify(struct vqp *v, uint8_t rail, struct ibv_qp_attr *attr, int mask);
int vqp_to_state(struct vqp *v, uint8_t rail, enum ibv_qp_state state);

/* RESET of a QP that may have traffic and was not fenced: on soft-RoCE by ERR (doc/soft-roce.md,
 * "RESET without ERR may cost the NIC"). What it has outstanding may flush. */
int vqp_to_reset(struct vqp *v, uint8_t rail);

#endif
