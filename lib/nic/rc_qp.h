/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RC QPs of ours that are connected to each other, or to themselves. On a thread that may hang. */
#ifndef SHIFT_NIC_RC_QP_H
#define SHIFT_NIC_RC_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "lib/nic/nic.h"

/* Brings a QP in RESET to RTS, by attributes that are all set but for the state. false: the NIC
 * refuses. */
bool rc_qp_to_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr);

/* The path of a QP in that context that is connected with itself. The NIC is ready. */
void rc_qp_own_path(const struct nic *nic, struct ibv_context *ctx, struct ibv_qp_attr *attr);

#endif
