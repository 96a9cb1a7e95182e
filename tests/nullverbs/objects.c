// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Protection domains, memory, address handles and completion queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nullverbs/nullverbs.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static uint32_t next_handle(void)
{
	static uint32_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd) {
		pd->context = ctx;
		pd->handle = next_handle();
	}
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* Bytes registered by this process, which RLIMIT_MEMLOCK limits. */
static uint64_t locked;

static bool lock_bytes(size_t length)
{
	const char *limit = getenv("NULLVERBS_MEMLOCK");
	uint64_t now = __atomic_add_fetch(&locked, length, __ATOMIC_RELAXED);

	if (!limit || now <= strtoull(limit, NULL, 10))
		return true;
	__atomic_sub_fetch(&locked, length, __ATOMIC_RELAXED);
	errno = ENOMEM;
	return false;
}

static void unlock_bytes(size_t length)
{
	__atomic_sub_fetch(&locked, length, __ATOMIC_RELAXED);
}

uint64_t null_registered(void)
{
	return __atomic_load_n(&locked, __ATOMIC_RELAXED);
}

static void register_slowly(const struct ibv_context *ctx)
{
	const char *ms = getenv("NULLVERBS_REG_MS");

	if (ms && strcmp(ctx->device->name, "mlx5_0"))
		usleep((useconds_t)atoi(ms) * 1000);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct ibv_mr *mr = lock_bytes(length) ? calloc(1, sizeof(*mr)) : NULL;

	(void)iova;
	(void)access;
	if (!mr)
		return NULL;
	register_slowly(pd->context);
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->handle = next_handle();
	mr->lkey = mr->rkey = mr->handle << 8;
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	(void)offset;
	if (fd < 0) {
		errno = EBADF;
		return NULL;
	}
	return ibv_reg_mr_iova2(pd, NULL, length, iova, (unsigned int)access);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	(void)access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		unlock_bytes(mr->length);
		mr->addr = addr;
		mr->length = length;
		lock_bytes(length);
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	unlock_bytes(mr->length);
	free(mr);
	return 0;
}

static int size_ring(struct null_cq *cq, int cqe)
{
	uint32_t size = 1;

	if (cqe < 1 || cqe > 1 << 22)
		return EINVAL;
	while (size < (uint32_t)cqe)
		size *= 2;
	cq->ring = calloc(size, sizeof(*cq->ring));
	if (!cq->ring)
		return ENOMEM;
	cq->mask = size - 1;
	cq->base.cqe = (int)size;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct null_cq *cq = calloc(1, sizeof(*cq));
	int err = cq ? size_ring(cq, cqe) : ENOMEM;

	(void)comp_vector;
	if (cq)
		cq->base.context = ctx;
	if (!err)
		err = null_attach(cq, channel);
	if (err) {
		if (cq)
			free(cq->ring);
		free(cq);
		errno = err;
		return NULL;
	}
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	cq->base.cq_context = cq_context;
	cq->base.channel = channel;
	cq->base.handle = next_handle();
	return &cq->base;
}

int ibv_resize_cq(struct ibv_cq *base, int cqe)
{
	struct null_cq *cq = (struct null_cq *)base;
	struct null_cqe *old = cq->ring;
	uint32_t old_mask = cq->mask;
	uint32_t held = cq->head - cq->tail;
	int err;

	if (cqe < (int)held)
		return EINVAL;
	pthread_spin_lock(&cq->lock);
	err = size_ring(cq, cqe);
	if (err) {
		cq->ring = old;
	} else {
		for (uint32_t i = 0; i < held; i++)
			cq->ring[i] = old[(cq->tail + i) & old_mask];
		cq->tail = 0;
		cq->head = held;
		free(old);
	}
	pthread_spin_unlock(&cq->lock);
	return err;
}

int ibv_destroy_cq(struct ibv_cq *base)
{
	struct null_cq *cq = (struct null_cq *)base;

	if (__atomic_load_n(&cq->qps, __ATOMIC_ACQUIRE))
		return EBUSY;
	null_drop_events(cq, &cq->errs_reported, &cq->base.async_events_completed);
	null_detach(cq);
	free(cq->ring);
	free(cq);
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_SUCCESS ? "success" : "error";
}

int ibv_fork_init(void)
{
	return 0;
}
