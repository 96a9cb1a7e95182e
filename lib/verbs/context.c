/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/context.h"

#include "lib/base/fork.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/conn/memlock.h"
#include "lib/object/cq.h"
#include "lib/object/device.h"
#include "lib/object/memory.h"
#include "lib/object/vsrq.h"
#include "lib/verbs/memory_windows.h"
#include "lib/verbs/poll.h"
#include "lib/verbs/post_recv.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/cq_ex.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/qp_ex.h"
#include "lib/verbs/traced.h"

static struct ibv_qp *make_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr, void *more)
{
	(void)more;
	return vdev_find(ctx)->create_qp_ex(ctx, attr);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	if (hooks_off)
		return make_qp(ctx, attr, NULL);
	return hook_create_qp_ex(ctx, attr, make_qp, NULL, STATS_UNPROTECTED_NONE);
}

/* An XRC QP of another process. */
static struct ibv_qp *open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr)
{
	struct ibv_qp *qp = quietly(vdev_find(ctx)->open_qp(ctx, attr));

	if (qp && !hooks_off)
		hook_created_foreign_qp(qp, STATS_UNPROTECTED_NOT_RC);
	return qp;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct vdev *dev = vdev_find(ctx);

	return hooks_off ? dev->create_cq_ex(ctx, attr) : hook_create_cq_ex(dev, attr);
}

/* Those for XRC and for tag matching stay the NIC's alone. */
static struct ibv_srq *create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	struct vdev *dev = vdev_find(ctx);
	struct ibv_srq *srq;
	bool basic = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD &&
		     (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) ||
		      attr->srq_type == IBV_SRQT_BASIC);

	if (hooks_off)
		return dev->create_srq_ex(ctx, attr);
	srq = with_room(ctx, dev->create_srq_ex(ctx, attr));
	if (!basic)
		return srq;
	/* The extended attributes begin with the plain ones. */
	return hook_created_srq(srq, attr->pd, (struct ibv_srq_init_attr *)attr);
}

#ifdef SHIFT_TEST_HOOKS
static int (*post_send_unslowed)(struct ibv_qp *qp, struct ibv_send_wr *wr,
				 struct ibv_send_wr **bad);

static int slowed_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	uint64_t until = now_ns() + pause_post_ns();

	while (now_ns() < until)
		;
	return post_send_unslowed(qp, wr, bad);
}

static void slow_down(struct ibv_context *ctx)
{
	if (!pause_post_ns())
		return;
	post_send_unslowed = ctx->ops.post_send;
	ctx->ops.post_send = slowed_post_send;
}
#endif

static void context_take_over(struct vdev *dev)
{
	struct verbs_context *vctx = verbs_get_ctx(dev->ctx);

	dev->ops = dev->ctx->ops;
	if (dev->ops.alloc_mw)
		dev->ctx->ops.alloc_mw = hook_alloc_mw;
	if (dev->ops.bind_mw)
		dev->ctx->ops.bind_mw = hook_bind_mw;
	dev->ctx->ops.post_send = hot_post_send;
	dev->ctx->ops.post_recv = hot_post_recv;
	if (dev->ops.post_srq_recv)
		dev->ctx->ops.post_srq_recv = hot_post_srq_recv;
	dev->ctx->ops.poll_cq = hot_poll_cq;
	dev->ctx->ops.req_notify_cq = hook_req_notify_cq;
	traced_take_over(dev->ctx);
#ifdef SHIFT_TEST_HOOKS
	slow_down(dev->ctx);
#endif
	if (!vctx)
		return;
	dev->create_qp_ex = vctx->create_qp_ex;
	dev->open_qp = vctx->open_qp;
	dev->create_cq_ex = vctx->create_cq_ex;
	dev->alloc_parent_domain = vctx->alloc_parent_domain;
	dev->modify_qp_rate_limit = vctx->modify_qp_rate_limit;
	if (dev->modify_qp_rate_limit)
		vctx->modify_qp_rate_limit = hook_modify_qp_rate_limit;
	if (dev->create_qp_ex)
		vctx->create_qp_ex = create_qp_ex;
	if (dev->open_qp)
		vctx->open_qp = open_qp;
	if (dev->create_cq_ex)
		vctx->create_cq_ex = create_cq_ex;
	dev->create_srq_ex = vctx->create_srq_ex;
	if (dev->create_srq_ex)
		vctx->create_srq_ex = create_srq_ex;
	if (dev->alloc_parent_domain)
		vctx->alloc_parent_domain = hook_alloc_parent_domain;
}

void context_opened(struct ibv_context *ctx)
{
	struct vdev *dev = vdev_find(ctx) ? NULL : vdev_new(ctx);

	if (dev)
		context_take_over(dev);
}

int hook_close_device(struct ibv_context *ctx)
{
	struct vdev *dev = vdev_find(ctx);

	if (dev && !fork_in_child())
		event_waker_end(dev);
	vdev_retire(ctx);
	return quietly(real.close_device(ctx));
}
