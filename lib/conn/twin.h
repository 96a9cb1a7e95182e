/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The QPs on the backup NICs. */
#ifndef SHIFT_CONN_TWIN_H
#define SHIFT_CONN_TWIN_H

#include "lib/conn/vqp.h"

/* Jobs of an object that is a vqp, on the worker of the NIC. */
void twin_create(struct object *v, struct nic *nic);
void twin_destroy(struct object *v, struct nic *nic);

#endif
