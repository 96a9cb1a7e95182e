/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Direct verbs that programs call by name, in the versions of libmlx5 and libmlx4. These libraries
 * are no dependency of ours. A program that calls such a verb has loaded its library, so the real
 * function is looked up there when it is called. lib/base/dlopen.c serves programs that look it up
 * through a handle of libmlx5.
 *
 * QPs that a program makes as DevX objects of the firmware are only counted. Missing here: libefa,
 * because it has no reliable connections.
 */
#include "lib/preload/direct_verbs.h"

#include <errno.h>

#include "lib/base/find_symbol.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/memlock.h"
#include "lib/object/channel.h"
#include "lib/object/memory.h"
#include "lib/verbs/bypass.h"
#include "lib/verbs/qp_ex.h"

#define EXPORT __attribute__((visibility("default")))

int mlx5dv_init_obj(struct dv_obj *obj, uint64_t types);
int mlx5dv_init_obj_1_0(struct dv_obj *obj, uint64_t types);
int mlx4dv_init_obj(struct dv_obj *obj, uint64_t types);
struct ibv_qp *mlx5dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				void *more);
struct ibv_qp *mlx4dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				void *more);
struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				   void *more);
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);
void *mlx5dv_devx_obj_create(struct ibv_context *ctx, const void *in, size_t in_bytes, void *out,
			     size_t out_bytes);
int mlx5dv_devx_obj_destroy(void *obj);

struct verb {
	const char *library, *name, *version;
};

/* NULL: the library is not loaded, or too old. */
static void *direct_verb_find(const struct verb *verb)
{
	return find_symbol(verb->library, verb->name, verb->version);
}

/* --- the queues of an object ------------------------------------------------------------------ */

/* 0 or a positive errno, as of the verb. */
static int direct_init_obj(const struct verb *verb, struct dv_obj *obj, uint64_t types)
{
	int (*real_one)(struct dv_obj *, uint64_t) = direct_verb_find(verb);
	int err = 0;

	if (!real_one)
		return EOPNOTSUPP;
	if (!hooks_off)
		err = hook_init_direct_obj(types & DV_OBJ_QP ? obj->qp.in : NULL,
					   types & DV_OBJ_CQ ? obj->cq.in : NULL);
	return err ? err : quietly(real_one(obj, types));
}

EXPORT int mlx5dv_init_obj(struct dv_obj *obj, uint64_t types)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_init_obj", "MLX5_1.2"};

	return direct_init_obj(&verb, obj, types);
}

/* This version differs in what it writes, not in its parameters. */
EXPORT int mlx5dv_init_obj_1_0(struct dv_obj *obj, uint64_t types)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_init_obj", "MLX5_1.0"};

	return direct_init_obj(&verb, obj, types);
}
__asm__(".symver mlx5dv_init_obj_1_0, mlx5dv_init_obj@MLX5_1.0");

EXPORT int mlx4dv_init_obj(struct dv_obj *obj, uint64_t types)
{
	static const struct verb verb = {"libmlx4.so.1", "mlx4dv_init_obj", "MLX4_1.0"};

	return direct_init_obj(&verb, obj, types);
}

/* --- QPs made by direct verbs ------------------------------------------------------------------
 */

/* `more` are attributes of the driver: what they make of a QP is not known. Without any the QP is
 * like others (SPDK makes its own so), until the program asks for its queue. */
static struct ibv_qp *direct_create_qp(const struct verb *verb, struct ibv_context *ctx,
				       struct ibv_qp_init_attr_ex *attr, void *more)
{
	make_qp_fn *real_one = direct_verb_find(verb);

	if (!real_one) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (hooks_off)
		return real_one(ctx, attr, more);
	return uncancelled(
		hook_create_qp_ex(ctx, attr, real_one, more,
				  more ? STATS_UNPROTECTED_POSTED_AROUND : STATS_UNPROTECTED_NONE));
}

EXPORT struct ibv_qp *mlx5dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				       void *more)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_create_qp", "MLX5_1.3"};

	return direct_create_qp(&verb, ctx, attr, more);
}

EXPORT struct ibv_qp *mlx4dv_create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				       void *more)
{
	static const struct verb verb = {"libmlx4.so.1", "mlx4dv_create_qp", "MLX4_1.0"};

	return direct_create_qp(&verb, ctx, attr, more);
}

/* --- CQs made by direct verbs ------------------------------------------------------------------
 */

/* Only its channel is of interest: QPs on such a CQ are not protected. */
EXPORT struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
					  void *more)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_create_cq", "MLX5_1.1"};
	struct ibv_cq_init_attr_ex copy;
	struct ibv_cq_ex *(*real_one)(struct ibv_context *, struct ibv_cq_init_attr_ex *,
				      void *) = direct_verb_find(&verb);

	if (!real_one) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (hooks_off)
		return real_one(ctx, attr, more);
	return channel_adopt_cq_ex(
		with_room(ctx, real_one(ctx, channel_attr_for_kernel(attr, &copy), more)),
		attr->channel);
}

/* --- memory ----------------------------------------------------------------------------------- */

EXPORT struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access, int mlx5_access)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_reg_dmabuf_mr", "MLX5_1.25"};
	struct direct_reg direct = {.reg = direct_verb_find(&verb), .access = mlx5_access};
	struct ibv_mr *mr;

	if (!direct.reg) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (hooks_off)
		return direct.reg(pd, offset, length, iova, fd, access, mlx5_access);
	mr = with_room(pd->context, direct.reg(pd, offset, length, iova, fd, access, mlx5_access));
	return hook_registered_direct(mr, offset, length, iova, fd, (unsigned int)access, &direct);
}

/* --- objects of the firmware ------------------------------------------------------------------
 */

enum { CMD_CREATE_QP = 0x500, CMD_CREATE_DCT = 0x710 }; /* the first 16 bits of a command */

static bool creates_qp(const uint8_t *in, size_t bytes)
{
	unsigned int opcode = bytes < 2 ? 0 : in[0] << 8 | in[1];

	return opcode == CMD_CREATE_QP || opcode == CMD_CREATE_DCT;
}

EXPORT void *mlx5dv_devx_obj_create(struct ibv_context *ctx, const void *in, size_t in_bytes,
				    void *out, size_t out_bytes)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_devx_obj_create", "MLX5_1.7"};
	void *(*real_one)(struct ibv_context *, const void *, size_t, void *,
			  size_t) = direct_verb_find(&verb);
	void *obj;

	if (!real_one) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (hooks_off)
		return real_one(ctx, in, in_bytes, out, out_bytes);
	obj = with_room(ctx, real_one(ctx, in, in_bytes, out, out_bytes));
	if (obj && creates_qp(in, in_bytes))
		hook_created_devx_qp(ctx, obj);
	return obj;
}

EXPORT int mlx5dv_devx_obj_destroy(void *obj)
{
	static const struct verb verb = {"libmlx5.so.1", "mlx5dv_devx_obj_destroy", "MLX5_1.7"};
	int (*real_one)(void *) = direct_verb_find(&verb);

	if (!real_one)
		return EOPNOTSUPP;
	if (hooks_off)
		return real_one(obj);
	return hook_destroy_devx(obj, real_one);
}
