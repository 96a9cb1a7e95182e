/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The verbs that the program calls by name. lib/preload/libshift.map gives them the versions of
 * libibverbs. For any other version (IBVERBS_1.0 has other structures) the loader goes on to
 * libibverbs.
 *
 * Calls of libibverbs, librdmacm and the providers arrive here, too, through their PLT. What they
 * call while they do something for the program is no call of the program. So hooks_off is set
 * around the real call (lib/base/reentry.h).
 */
#include <errno.h>
#include <stdbool.h>

#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/memlock.h"
#include "lib/object/channel.h"
#include "lib/object/cq.h"
#include "lib/object/memory.h"
#include "lib/object/vsrq.h"
#include "lib/session/start.h"
#include "lib/verbs/async_events.h"
#include "lib/verbs/completion_events.h"
#include "lib/verbs/context.h"
#include "lib/verbs/qp.h"

/* These are macros, which choose between functions that are defined here. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

/* A verb that this libibverbs lacks fails as it does on a kernel or NIC that lacks it. */
#define REAL(missing, verb, ...) \
	(real.verb ? real.verb(__VA_ARGS__) : (errno = EOPNOTSUPP, (missing)))

struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data);

static bool must_pass(void)
{
	return real_init() != 0 || hooks_off;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *ctx;

	if (must_pass())
		return REAL(NULL, open_device, device);
	hooks_off = true;
	ctx = real.open_device(device);
	hooks_off = false;
	return uncancelled(hook_opened(ctx));
}

/* mlx5dv_open_device() and similar functions call this. */
EXPORT struct ibv_context *verbs_open_device(struct ibv_device *device, void *private_data)
{
	struct ibv_context *ctx;

	if (must_pass())
		return REAL(NULL, verbs_open_device, device, private_data);
	hooks_off = true;
	ctx = REAL(NULL, verbs_open_device, device, private_data);
	hooks_off = false;
	return uncancelled(hook_opened(ctx));
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *ctx;

	if (must_pass())
		return REAL(NULL, import_device, cmd_fd);
	hooks_off = true;
	ctx = REAL(NULL, import_device, cmd_fd);
	hooks_off = false;
	return uncancelled(hook_opened(ctx));
}

EXPORT int ibv_close_device(struct ibv_context *ctx)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, close_device, ctx);
	return uncancelled(hook_close_device(ctx));
}

EXPORT int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	if (must_pass())
		return REAL(-1, get_async_event, ctx, event);
	return hook_get_async_event(ctx, event);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (!must_pass())
		hook_ack_async_event(event);
	else if (real.ack_async_event)
		real.ack_async_event(event);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	if (must_pass())
		return REAL(NULL, alloc_pd, ctx);
	return uncancelled(hook_alloc_pd(ctx));
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, dealloc_pd, pd);
	return uncancelled(hook_dealloc_pd(pd));
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	uint64_t at = (uintptr_t)addr;
	struct ibv_mr *mr;

	if (must_pass())
		return REAL(NULL, reg_mr, pd, addr, length, access);
	mr = with_room(pd->context, real.reg_mr(pd, addr, length, access));
	return uncancelled(hook_registered(mr, at, length, at, (unsigned int)access, -1));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	struct ibv_mr *mr;

	if (must_pass())
		return REAL(NULL, reg_mr_iova, pd, addr, length, iova, access);
	mr = with_room(pd->context, REAL(NULL, reg_mr_iova, pd, addr, length, iova, access));
	return uncancelled(
		hook_registered(mr, (uintptr_t)addr, length, iova, (unsigned int)access, -1));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	struct ibv_mr *mr;

	if (must_pass())
		return REAL(NULL, reg_mr_iova2, pd, addr, length, iova, access);
	mr = with_room(pd->context, REAL(NULL, reg_mr_iova2, pd, addr, length, iova, access));
	return uncancelled(hook_registered(mr, (uintptr_t)addr, length, iova, access, -1));
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	struct ibv_mr *mr;

	if (must_pass())
		return REAL(NULL, reg_dmabuf_mr, pd, offset, length, iova, fd, access);
	mr = with_room(pd->context,
		       REAL(NULL, reg_dmabuf_mr, pd, offset, length, iova, fd, access));
	return uncancelled(hook_registered(mr, offset, length, iova, (unsigned int)access, fd));
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, rereg_mr, mr, flags, pd, addr, length, access);
	return uncancelled(hook_rereg_mr(mr, flags, pd, addr, length, access));
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, dereg_mr, mr);
	return uncancelled(hook_dereg_mr(mr));
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	if (must_pass())
		return REAL(NULL, create_comp_channel, ctx);
	return uncancelled(hook_created_channel(quietly(real.create_comp_channel(ctx))));
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, destroy_comp_channel, channel);
	return uncancelled(hook_destroy_channel(channel));
}

/* It waits, and may be cancelled then. */
EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	if (must_pass())
		return REAL(-1, get_cq_event, channel, cq, cq_context);
	return hook_get_cq_event(channel, cq, cq_context);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (!must_pass())
		hook_ack_cq_events(cq, n);
	else if (real.ack_cq_events)
		real.ack_cq_events(cq, n);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *cq;

	if (must_pass())
		return REAL(NULL, create_cq, ctx, cqe, cq_context, channel, comp_vector);
	cq = with_room(ctx, real.create_cq(ctx, cqe, cq_context, channel_for_kernel(channel),
					   comp_vector));
	return uncancelled(hook_created_cq(cq, channel));
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, resize_cq, cq, cqe);
	return uncancelled(hook_resize_cq(cq, cqe));
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, destroy_cq, cq);
	return uncancelled(hook_destroy_cq(cq));
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq;

	if (must_pass())
		return REAL(NULL, create_srq, pd, attr);
	srq = with_room(pd->context, real.create_srq(pd, attr));
	return uncancelled(hook_created_srq(srq, pd, attr));
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, modify_srq, srq, attr, mask);
	return uncancelled(hook_modify_srq(srq, attr, mask));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, destroy_srq, srq);
	return uncancelled(hook_destroy_srq(srq));
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (must_pass())
		return REAL(NULL, create_qp, pd, attr);
	return uncancelled(hook_create_qp(pd, attr));
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, query_qp, qp, attr, attr_mask, init_attr);
	return uncancelled(hook_query_qp(qp, attr, attr_mask, init_attr));
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, modify_qp, qp, attr, attr_mask);
	return uncancelled(hook_modify_qp(qp, attr, attr_mask));
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (must_pass() || !real.set_ece)
		return REAL(EOPNOTSUPP, set_ece, qp, ece);
	return uncancelled(hook_set_ece(qp, ece));
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	if (must_pass())
		return REAL(EOPNOTSUPP, destroy_qp, qp);
	return uncancelled(hook_destroy_qp(qp));
}
