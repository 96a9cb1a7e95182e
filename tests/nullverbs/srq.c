// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "tests/nullverbs/nullverbs.h"

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct null_srq *srq = calloc(1, sizeof(*srq));
	uint32_t size = 1;

	while (size < attr->attr.max_wr)
		size *= 2;
	if (srq)
		srq->ids = calloc(size, sizeof(*srq->ids));
	if (!srq || !srq->ids || size > 32768 || attr->attr.max_sge > NULL_SGE_MAX) {
		errno = srq && srq->ids ? EINVAL : ENOMEM;
		if (srq)
			free(srq->ids);
		free(srq);
		return NULL;
	}
	srq->mask = size - 1;
	attr->attr.max_wr = size;
	srq->attr = (struct ibv_srq_attr){.max_wr = size, .max_sge = attr->attr.max_sge};
	pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
	srq->attr.srq_limit = attr->attr.srq_limit;
	srq->base.context = pd->context;
	srq->base.pd = pd;
	srq->base.srq_context = attr->srq_context;
	return &srq->base;
}

int ibv_destroy_srq(struct ibv_srq *base)
{
	struct null_srq *srq = (struct null_srq *)base;

	if (__atomic_load_n(&srq->qps, __ATOMIC_ACQUIRE))
		return EBUSY;
	null_drop_events(srq, &srq->events_reported, &base->events_completed);
	free(srq->ids);
	free(srq);
	return 0;
}

int ibv_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
	struct null_srq *srq = (struct null_srq *)base;

	if (mask & ~IBV_SRQ_LIMIT || attr->srq_limit > srq->attr.max_wr)
		return EINVAL;
	if (mask & IBV_SRQ_LIMIT)
		srq->attr.srq_limit = attr->srq_limit;
	return 0;
}

int ibv_query_srq(struct ibv_srq *base, struct ibv_srq_attr *attr)
{
	*attr = ((struct null_srq *)base)->attr;
	return 0;
}

int null_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct null_srq *srq = (struct null_srq *)base;
	int err = 0;

	pthread_spin_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		if (srq->head - srq->tail > srq->mask)
			err = ENOMEM;
		else if (wr->num_sge > (int)srq->attr.max_sge)
			err = EINVAL;
		if (err) {
			*bad = wr;
			break;
		}
		srq->ids[srq->head++ & srq->mask] = wr->wr_id;
	}
	__atomic_store_n(&srq->doorbell, srq->head, __ATOMIC_RELEASE);
	pthread_spin_unlock(&srq->lock);
	return err;
}

bool null_srq_take(struct null_srq *srq, uint64_t *wr_id)
{
	bool any, low;

	pthread_spin_lock(&srq->lock);
	any = srq->head != srq->tail;
	if (any)
		*wr_id = srq->ids[srq->tail++ & srq->mask];
	low = any && srq->head - srq->tail < srq->attr.srq_limit;
	if (low)
		srq->attr.srq_limit = 0;
	pthread_spin_unlock(&srq->lock);
	if (low)
		null_raise(srq->base.context, IBV_EVENT_SRQ_LIMIT_REACHED, srq,
			   &srq->events_reported);
	return any;
}
