/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared by the clients: a device by its name, and an RC QP up to RTS. */
#ifndef TESTS_CLIENTS_RC_DEVICE_H
#define TESTS_CLIENTS_RC_DEVICE_H

#include <infiniband/verbs.h>

/* NULL with errno if there is none of that name. */
struct ibv_context *rc_device_open(const char *name);

/* With the attributes that RC needs for each state; return what ibv_modify_qp() does. */
int rc_device_rtr(struct ibv_qp *qp, struct ibv_qp_attr *rtr);
int rc_device_rts(struct ibv_qp *qp, struct ibv_qp_attr *rts);

#endif
