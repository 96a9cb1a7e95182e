// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * A libmlx5.so.1 over the devices of nullverbs, with the direct verbs that libshift.so exports too.
 * It hands out the rings, and in comp_mask the version of the called function, times 10.
 */
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/preload/direct_verbs.h"
#include "tests/nullverbs/nullverbs.h"

_Static_assert(offsetof(struct mlx5dv_obj, qp.in) == offsetof(struct dv_obj, qp.in) &&
		       offsetof(struct mlx5dv_obj, cq.in) == offsetof(struct dv_obj, cq.in) &&
		       DV_OBJ_QP == (int)MLX5DV_OBJ_QP && DV_OBJ_CQ == (int)MLX5DV_OBJ_CQ,
	       "libshift.so finds the objects there");

static int init_obj(struct mlx5dv_obj *obj, uint64_t types, uint64_t version)
{
	if (types & MLX5DV_OBJ_QP) {
		obj->qp.out->sq.buf = ((struct null_qp *)obj->qp.in)->send_ring;
		obj->qp.out->comp_mask = version;
	}
	if (types & MLX5DV_OBJ_CQ) {
		obj->cq.out->buf = ((struct null_cq *)obj->cq.in)->ring;
		obj->cq.out->comp_mask = version;
	}
	return 0;
}

int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t types)
{
	return init_obj(obj, types, 12);
}

int init_obj_1_0(struct mlx5dv_obj *obj, uint64_t types);
int init_obj_1_0(struct mlx5dv_obj *obj, uint64_t types)
{
	return init_obj(obj, types, 10);
}
__asm__(".symver init_obj_1_0, mlx5dv_init_obj@MLX5_1.0");

/* The calls that a real one makes inside itself go through the PLT here. */
struct ibv_qp *mlx5dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				struct mlx5dv_qp_init_attr *more)
{
	(void)more;
	return verbs_get_ctx(ctx)->create_qp_ex(ctx, attr);
}

struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				   struct mlx5dv_cq_init_attr *more)
{
	(void)more;
	return (struct ibv_cq_ex *)ibv_create_cq(ctx, (int)attr->cqe, attr->cq_context,
						 attr->channel, (int)attr->comp_vector);
}

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access)
{
	(void)mlx5_access;
	return ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}

struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *ctx, const void *in,
					       size_t in_bytes, void *out, size_t out_bytes)
{
	(void)ctx;
	(void)in;
	(void)in_bytes;
	(void)out;
	(void)out_bytes;
	return calloc(1, 8);
}

int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *obj)
{
	free(obj);
	return 0;
}

int mlx5dv_query_device(struct ibv_context *ctx, struct mlx5dv_context *attr)
{
	(void)ctx;
	(void)attr;
	return 0;
}
