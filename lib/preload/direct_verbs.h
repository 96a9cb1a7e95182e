/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Direct verbs as far as we have to know them: what mlx5dv.h and mlx4dv.h have in common, without
 * either of them. tests/nullverbs/mlx5.c holds this against mlx5dv.h.
 */
#ifndef SHIFT_PRELOAD_DIRECT_VERBS_H
#define SHIFT_PRELOAD_DIRECT_VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* How struct mlx5dv_obj and struct mlx4dv_obj begin. An object counts if its type is asked for. */
struct dv_obj {
	struct {
		struct ibv_qp *in;
		void *out;
	} qp;
	struct {
		struct ibv_cq *in;
		void *out;
	} cq;
};

enum { DV_OBJ_QP = 1 << 0, DV_OBJ_CQ = 1 << 1 };

#endif
