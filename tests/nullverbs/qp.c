// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/nullverbs/nullverbs.h"

#define FIRST_QPN    0x100
#define QPNS_OF_HOST 0x10000 /* a multiple of NULL_QPS_MAX */

static struct null_qp *qps[NULL_QPS_MAX];
static uint32_t qps_made;
static pthread_mutex_t destroying = PTHREAD_MUTEX_INITIALIZER; /* it looks at all others */

void null_lock_qps(void)
{
	pthread_mutex_lock(&destroying);
}

void null_unlock_qps(void)
{
	pthread_mutex_unlock(&destroying);
}

/* A child of fork() must not find the lock held by a thread of its parent's, as the preloaded
 * library's workers destroy QPs, too. */
__attribute__((constructor)) static void keep_lock_over_fork(void)
{
	pthread_atfork(null_lock_qps, null_unlock_qps, null_unlock_qps);
}

struct null_qp *null_find_qp(uint32_t qpn)
{
	return qps[qpn % NULL_QPS_MAX] && qps[qpn % NULL_QPS_MAX]->base.qp_num == qpn
		       ? qps[qpn % NULL_QPS_MAX]
		       : NULL;
}

/* At least as many as asked for, as providers do; none, if none is asked for. */
static uint32_t round_up(uint32_t asked)
{
	uint32_t size = asked ? 1 : 0;

	while (size < asked)
		size *= 2;
	return size;
}

static void free_qp(struct null_qp *qp)
{
	null_builder_free(qp->builder);
	free(qp->send_ring);
	free(qp->send_ids);
	free(qp->recv_ids);
	free(qp->recv_sges);
	free(qp);
}

/* All of it is there, as that of a NIC is, where it is measured what a QP takes. */
static void *make_ring(uint32_t n, size_t size)
{
	void *ring = calloc(n, size);

	if (ring && getenv("NULLVERBS_NET"))
		memset(ring, 0xff, n * size);
	return ring;
}

static int make_rings(struct null_qp *qp, struct ibv_qp_cap *cap)
{
	cap->max_send_wr = round_up(cap->max_send_wr);
	cap->max_recv_wr = round_up(cap->max_recv_wr);
	qp->send_mask = cap->max_send_wr - 1;
	qp->recv_mask = cap->max_recv_wr - 1;
	qp->cap = *cap;
	qp->send_ring = make_ring(cap->max_send_wr, sizeof(*qp->send_ring));
	qp->send_ids = make_ring(cap->max_send_wr, sizeof(*qp->send_ids));
	qp->recv_ids = make_ring(cap->max_recv_wr, sizeof(*qp->recv_ids));
	if (qp->base.qp_type == IBV_QPT_UD)
		qp->recv_sges = calloc(cap->max_recv_wr, sizeof(*qp->recv_sges));
	return qp->send_ring && qp->send_ids && qp->recv_ids &&
			       (qp->recv_sges || qp->base.qp_type != IBV_QPT_UD)
		       ? 0
		       : ENOMEM;
}

static int refuse_attr(const struct ibv_qp_init_attr *attr)
{
	if (!attr->send_cq || !attr->recv_cq || attr->cap.max_send_wr > 32768 ||
	    attr->cap.max_recv_wr > 32768 || attr->cap.max_send_sge > NULL_SGE_MAX)
		return EINVAL;
	return attr->qp_type == IBV_QPT_DRIVER ? EOPNOTSUPP : 0;
}

/* A number that is free; a place of the table is taken for good while its QP lives. */
static int number_qp(struct null_qp *qp)
{
	for (int i = 0; i < NULL_QPS_MAX; i++) {
		uint32_t qpn = FIRST_QPN + (null_host() - 1u) * QPNS_OF_HOST +
			       __atomic_fetch_add(&qps_made, 1, __ATOMIC_RELAXED);
		struct null_qp *expected = NULL;

		qp->base.qp_num = qpn & 0xffffff;
		if (__atomic_compare_exchange_n(&qps[qpn % NULL_QPS_MAX], &expected, qp, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return 0;
	}
	return ENOMEM;
}

static void use_queues(struct null_qp *qp, int n)
{
	__atomic_fetch_add(&((struct null_cq *)qp->base.send_cq)->qps, n, __ATOMIC_ACQ_REL);
	__atomic_fetch_add(&((struct null_cq *)qp->base.recv_cq)->qps, n, __ATOMIC_ACQ_REL);
	if (qp->base.srq)
		__atomic_fetch_add(&((struct null_srq *)qp->base.srq)->qps, n, __ATOMIC_ACQ_REL);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int err = refuse_attr(attr);
	struct null_qp *qp = err ? NULL : calloc(1, sizeof(*qp));

	if (!qp) {
		errno = err ? err : ENOMEM;
		return NULL;
	}
	qp->base.context = pd->context;
	qp->base.pd = pd;
	qp->base.qp_context = attr->qp_context;
	qp->base.send_cq = attr->send_cq;
	qp->base.recv_cq = attr->recv_cq;
	qp->base.srq = attr->srq;
	if (attr->srq)
		attr->cap.max_recv_wr = 0;
	qp->base.qp_type = attr->qp_type;
	qp->all_signaled = attr->sq_sig_all;
	pthread_spin_init(&qp->send_lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->recv_lock, PTHREAD_PROCESS_PRIVATE);
	err = make_rings(qp, &attr->cap);
	if (!err)
		err = number_qp(qp);
	if (err) {
		free_qp(qp);
		errno = err;
		return NULL;
	}
	qp->base.handle = qp->base.qp_num;
	use_queues(qp, 1);
	return &qp->base;
}

static uint64_t *copy_ids(const uint64_t *ids, uint32_t mask)
{
	size_t bytes = (size_t)(uint32_t)(mask + 1) * sizeof(*ids); /* none: the mask is all ones */
	uint64_t *copy = malloc(bytes);

	return copy ? memcpy(copy, ids, bytes) : NULL;
}

/* What its completions need when it is gone. NULL: they go with it. */
static struct null_qp *keep(const struct null_qp *qp)
{
	static struct null_qp *kept;
	const char *value = getenv("NULLVERBS_CQ");
	struct null_qp *copy = value && !strcmp(value, "kept") ? malloc(sizeof(*copy)) : NULL;

	if (!copy)
		return NULL;
	*copy = *qp;
	copy->send_ids = copy_ids(qp->send_ids, qp->send_mask);
	copy->recv_ids = copy_ids(qp->recv_ids, qp->recv_mask);
	copy->next = __atomic_exchange_n(&kept, copy, __ATOMIC_RELAXED);
	return copy;
}

/* Through the PLT, as providers call verbs, too. */
struct ibv_qp *null_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
	int err = 0;

	(void)ctx;
	if (qp && attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		err = null_builder_add(qp, attr->send_ops_flags);
	if (!err)
		return qp;
	ibv_destroy_qp(qp);
	errno = err;
	return NULL;
}

static void reset(struct null_qp *qp)
{
	struct null_qp *kept = keep(qp);

	null_hand_over((struct null_cq *)qp->base.send_cq, qp, kept);
	null_hand_over((struct null_cq *)qp->base.recv_cq, qp, kept);
	qp->send_head = qp->send_tail = qp->send_freed = 0;
	qp->recv_head = qp->recv_tail = 0;
	qp->peer = NULL;
	qp->exact = false;
}

int ibv_destroy_qp(struct ibv_qp *base)
{
	struct null_qp *qp = (struct null_qp *)base;

	null_drop_events(qp, &qp->events_reported, &base->events_completed);
	null_lock_qps();
	for (int i = 0; i < NULL_QPS_MAX; i++) {
		if (qps[i] && qps[i]->peer == qp) {
			qps[i]->peer = NULL;
			qps[i]->exact = false;
		}
	}
	reset(qp);
	qps[base->qp_num % NULL_QPS_MAX] = NULL;
	use_queues(qp, -1);
	free_qp(qp);
	null_unlock_qps();
	return 0;
}

void null_hang(struct ibv_qp *base, bool hangs)
{
	((struct null_qp *)base)->hangs = hangs;
}

static void wait_for_nic(const struct null_qp *qp)
{
	while (qp->hangs)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool is_allowed(enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR || to == from)
		return true;
	return (from == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
	       (from == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
	       (from == IBV_QPS_RTR && to == IBV_QPS_RTS);
}

static void copy_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define COPY(bit, field)  \
	if (mask & (bit)) \
	to->field = from->field
	COPY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	COPY(IBV_QP_PKEY_INDEX, pkey_index);
	COPY(IBV_QP_PORT, port_num);
	COPY(IBV_QP_QKEY, qkey);
	COPY(IBV_QP_AV, ah_attr);
	COPY(IBV_QP_PATH_MTU, path_mtu);
	COPY(IBV_QP_TIMEOUT, timeout);
	COPY(IBV_QP_RETRY_CNT, retry_cnt);
	COPY(IBV_QP_RNR_RETRY, rnr_retry);
	COPY(IBV_QP_RQ_PSN, rq_psn);
	COPY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	COPY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	COPY(IBV_QP_SQ_PSN, sq_psn);
	COPY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	COPY(IBV_QP_DEST_QPN, dest_qp_num);
#undef COPY
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct null_qp *qp = (struct null_qp *)base;
	enum ibv_qp_state from, to;

	wait_for_nic(qp);
	from = qp->attr.qp_state;
	to = mask & IBV_QP_STATE ? attr->qp_state : from;
	if (!is_allowed(from, to))
		return EINVAL;
	copy_attr(&qp->attr, attr, mask);
	if (mask & IBV_QP_DEST_QPN)
		qp->peer = null_find_qp(attr->dest_qp_num);
	qp->attr.qp_state = base->state = to;
	if (mask & IBV_QP_STATE)
		null_builder_set_state(qp, to);
	if (to == IBV_QPS_RTS)
		qp->exact = null_is_exact(qp);
	if (to == IBV_QPS_RTR && qp->peer && qp->peer->peer == qp)
		qp->peer->exact = null_is_exact_by_peer(qp->peer);
	if (to == IBV_QPS_RESET)
		reset(qp);
	if (to == IBV_QPS_ERR)
		null_flush_receives(qp);
	if (to == IBV_QPS_ERR && base->srq)
		null_raise(base->context, IBV_EVENT_QP_LAST_WQE_REACHED, qp, &qp->events_reported);
	return 0;
}

int ibv_set_ece(struct ibv_qp *base, struct ibv_ece *ece)
{
	((struct null_qp *)base)->ece = *ece;
	return 0;
}

int ibv_query_ece(struct ibv_qp *base, struct ibv_ece *ece)
{
	*ece = ((struct null_qp *)base)->ece;
	return 0;
}

int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct null_qp *qp = (struct null_qp *)base;

	(void)mask;
	wait_for_nic(qp);
	*attr = qp->attr;
	attr->rq_psn = null_rq_psn(qp);
	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->cap;
	*init = (struct ibv_qp_init_attr){
		.qp_context = base->qp_context,
		.send_cq = base->send_cq,
		.recv_cq = base->recv_cq,
		.srq = base->srq,
		.cap = qp->cap,
		.qp_type = base->qp_type,
		.sq_sig_all = qp->all_signaled,
	};
	return 0;
}

struct ibv_qp *create_qp_1_0(void *pd, void *attr);
struct ibv_qp *create_qp_1_0(void *pd, void *attr)
{
	(void)pd;
	(void)attr;
	errno = NULL_COMPAT_ERRNO;
	return NULL;
}
__asm__(".symver create_qp_1_0, ibv_create_qp@IBVERBS_1.0");
