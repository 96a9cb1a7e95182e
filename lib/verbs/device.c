/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Contexts that the program opens: their data path pointers become ours. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/verbs/env.h"
#include "lib/verbs/hooks.h"
#include "lib/verbs/log.h"
#include "lib/verbs/real.h"
#include "lib/verbs/vobj.h"

_Thread_local bool hooks_off;

static struct table devices = TABLE_INIT;
static _Atomic(struct vdev *) closed; /* so that they are no leak to who looks for one */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool off; /* not under shift-run, or no thread to be had */

struct vdev *vdev_find(const struct ibv_context *ctx)
{
	return table_get(&devices, (uintptr_t)ctx);
}

bool vdev_backed_by(const struct vdev *dev, const struct nic *nic)
{
	for (unsigned int i = 1; i < dev->rails; i++)
		if (dev->nic[i] == nic)
			return true;
	return false;
}

bool hook_forked(void)
{
	static _Atomic bool told;

	if (!bg_forked())
		return false;
	if (!atomic_exchange(&told, true))
		log_warn("a child of fork(): nothing is protected in it");
	return true;
}

static void init(void)
{
	env_read();
	off = !env.job[0];
	if (off)
		return;
	pause_read();
	gate_start();
	if (bg_start())
		off = true;
	else
		meet_init();
}

static void find_rails(struct vdev *dev, const char *name)
{
	char backups[SHIFT_RAILS_MAX - 1][64];
	unsigned int n = env_backups(name, backups, SHIFT_RAILS_MAX - 1);

	dev->nic[0] = nic_get(name, 1);
	dev->rails = dev->nic[0] != NULL;
	for (unsigned int i = 0; dev->rails && i < n; i++) {
		struct nic *nic = nic_get(backups[i], 1);

		if (nic && nic != dev->nic[0])
			dev->nic[dev->rails++] = nic;
	}
}

/* --- verbs that go through the context ------------------------------------------------------- */

/* A QP with features that we do not know is the provider's alone. */
static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct vdev *dev = vdev_find(ctx);
	uint32_t plain = IBV_QP_INIT_ATTR_PD;

	if (hooks_off || !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || (attr->comp_mask & ~plain))
		return quietly(dev->create_qp_ex(ctx, attr));
	return hook_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	/* Unknown to us: QPs on it are not protected. */
	return quietly(vdev_find(ctx)->create_cq_ex(ctx, attr));
}

static void hook_context(struct vdev *dev)
{
	struct verbs_context *vctx = verbs_get_ctx(dev->ctx);

	dev->ops = dev->ctx->ops;
	if (dev->ops.alloc_mw)
		dev->ctx->ops.alloc_mw = windows_alloc;
	if (dev->ops.bind_mw)
		dev->ctx->ops.bind_mw = windows_bind;
	dev->ctx->ops.post_send = hot_post_send;
	dev->ctx->ops.post_recv = hot_post_recv;
	dev->ctx->ops.poll_cq = hot_poll_cq;
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.1")) {
		dev->ctx->ops.post_send = hot_post_send_sse41;
		dev->ctx->ops.poll_cq = hot_poll_cq_sse41;
	}
#endif
	if (!vctx)
		return;
	dev->create_qp_ex = vctx->create_qp_ex;
	dev->create_cq_ex = vctx->create_cq_ex;
	dev->alloc_parent_domain = vctx->alloc_parent_domain;
	if (dev->create_qp_ex)
		vctx->create_qp_ex = create_qp_ex;
	if (dev->create_cq_ex)
		vctx->create_cq_ex = create_cq_ex;
	if (dev->alloc_parent_domain)
		vctx->alloc_parent_domain = hook_alloc_parent_domain;
}

struct ibv_context *hook_opened(struct ibv_context *ctx)
{
	int saved = errno;
	struct vdev *dev;

	if (!ctx || bg_forked())
		return ctx;
	pthread_once(&once, init);
	if (off || vdev_find(ctx))
		return ctx;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return ctx;
	dev->ctx = ctx;
	pthread_mutex_init(&dev->qps.lock, NULL);
	find_rails(dev, ctx->device->name);
	if (!dev->rails || table_put(&devices, (uintptr_t)ctx, dev)) {
		free(dev);
		return ctx;
	}
	hook_context(dev);
	errno = saved;
	return ctx;
}

int hook_close_device(struct ibv_context *ctx)
{
	/* Its PDs may still have jobs under way that look at it: it stays, which costs some hundred
	 * bytes per open. A later context at the same address takes its place. */
	struct vdev *dev = table_remove(&devices, (uintptr_t)ctx);

	if (dev) {
		dev->closed = atomic_load(&closed);
		while (!atomic_compare_exchange_weak(&closed, &dev->closed, dev))
			;
	}
	return quietly(real.close_device(ctx));
}
