/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Direct verbs as far as we need them: what mlx5dv.h and mlx4dv.h have in common, so that neither
 * is needed for the build. tests/nullverbs/mlx5.c compares this with mlx5dv.h. The objects are the
 * program's.
 */
#ifndef SHIFT_PRELOAD_DIRECT_VERBS_H
#define SHIFT_PRELOAD_DIRECT_VERBS_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* The beginning of struct mlx5dv_obj and struct mlx4dv_obj. An object is valid if its type is asked
 * for. */
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
