/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a connection asks of the QP of a rail, and may hang on a dead NIC: the fence (it moves the
 * QP to ERR, waits until all has flushed, and until the responder has stopped), and reading rq_psn.
 * Both run on the worker of the NIC.
 */
#ifndef SHIFT_CONN_FENCE_QP_H
#define SHIFT_CONN_FENCE_QP_H

#include "lib/conn/vqp.h"

/* The actions FENCE and QUERY_PSN. Under vqp_enter(). */
void fence_start(struct vqp *v, const struct shift_action *a);
void query_start(struct vqp *v, const struct shift_action *a);

#endif
