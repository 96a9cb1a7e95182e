/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Twins: the QPs on the backup NICs that stand ready for a QP of the program. */
#ifndef SHIFT_CONN_TWIN_H
#define SHIFT_CONN_TWIN_H

#include "lib/conn/vqp.h"

/* Create and destroy the twin of a vqp on a NIC: functions for object_job(). On the worker of that
 * NIC, nothing locked. A twin that cannot be created is marked as failed. */
void twin_create(struct object *v, struct nic *nic);
void twin_destroy(struct object *v, struct nic *nic);

#endif
