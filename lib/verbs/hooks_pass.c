// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Hooks that do nothing but the real verb, until there are others. */
#include "lib/verbs/env.h"
#include "lib/verbs/hooks.h"
#include "lib/verbs/real.h"

_Thread_local bool hooks_off;

struct ibv_context *hook_opened(struct ibv_context *ctx)
{
	env_read();
	return ctx;
}

int hook_close_device(struct ibv_context *ctx)
{
	return real.close_device(ctx);
}

struct ibv_pd *hook_alloc_pd(struct ibv_context *ctx)
{
	return real.alloc_pd(ctx);
}

int hook_dealloc_pd(struct ibv_pd *pd)
{
	return real.dealloc_pd(pd);
}

struct ibv_mr *hook_registered(struct ibv_mr *mr, uint64_t addr_or_offset, size_t length,
			       uint64_t iova, unsigned int access, int fd)
{
	(void)addr_or_offset;
	(void)length;
	(void)iova;
	(void)access;
	(void)fd;
	return mr;
}

int hook_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	return real.rereg_mr(mr, flags, pd, addr, length, access);
}

int hook_dereg_mr(struct ibv_mr *mr)
{
	return real.dereg_mr(mr);
}

struct ibv_cq *hook_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector)
{
	return real.create_cq(ctx, cqe, cq_context, channel, comp_vector);
}

int hook_resize_cq(struct ibv_cq *cq, int cqe)
{
	return real.resize_cq(cq, cqe);
}

int hook_destroy_cq(struct ibv_cq *cq)
{
	return real.destroy_cq(cq);
}

struct ibv_qp *hook_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return real.create_qp(pd, attr);
}

int hook_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr)
{
	return real.query_qp(qp, attr, attr_mask, init_attr);
}

int hook_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return real.modify_qp(qp, attr, attr_mask);
}

int hook_destroy_qp(struct ibv_qp *qp)
{
	return real.destroy_qp(qp);
}
