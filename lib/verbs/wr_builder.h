/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Posting by ibv_wr_*: between ibv_wr_start() and ibv_wr_complete() a program builds WRs, one call
 * after the other. They are gathered here, and posted at the end, all or none. In between the
 * program may do anything, poll included, so nothing of the data path is held meanwhile, and the
 * connection may move. Where it has moved to they are posted as others are.
 */
#ifndef SHIFT_VERBS_WR_BUILDER_H
#define SHIFT_VERBS_WR_BUILDER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct vqp;
struct wr_builder;

/* Can QPs that were asked for these operations (IBV_QP_EX_WITH_...) be served? Not those of
 * memory windows, nor any that is newer than the log. */
bool wr_builder_knows(uint64_t send_ops);

/* For a QP of these accepted capacities. NULL: no memory. The caller frees it with the QP. */
struct wr_builder *wr_builder_new(const struct ibv_qp_cap *cap);
void wr_builder_free(struct wr_builder *b);

/* From now on the program's ibv_wr_* on that QP come here. v->wr_builder is set, and v can be
 * found; before the program knows the QP. */
void wr_builder_take_over(struct vqp *v, struct ibv_qp_ex *qp);

/* After the program's own modify of such a QP: libmlx5 sets wr_complete anew at each RESET and RTS
 * (set_qp_operational_state() of its verbs.c). The new one is noted as the provider's, and ours put
 * back. */
void wr_builder_keep(struct vqp *v);

#endif
