/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "tests/unit/rooms.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/conn/conn_lock.h"
#include "lib/verbs/qp.h"

struct real_verbs real;
struct world world;

/* --- the trace ----------------------------------------------------------------------------- */

static char text[1 << 16];
static size_t text_len;

void trace_add(const char *format, ...)
{
	va_list args;

	if (world.untraced)
		return;
	va_start(args, format);
	text_len += (size_t)vsnprintf(text + text_len, sizeof(text) - text_len, format, args);
	va_end(args);
	assert_true(text_len < sizeof(text));
}

void trace_clear(void)
{
	text_len = 0;
	text[0] = 0;
}

const char *trace_text(void)
{
	return text;
}

/* --- clock, threads, control links: the linker puts these in the library's place ----------- */

enum { JOBS_MAX = 64, TIMERS_MAX = 64 };

static struct {
	struct worker *worker;
	struct job *job;
} jobs[JOBS_MAX];
static unsigned int jobs_n;
static struct bg_timer *timers[TIMERS_MAX];
static unsigned int timers_n;

uint64_t __wrap_now_ns(void);
uint64_t __wrap_bg_awake_ns(void);
bool __wrap_bg_is_self(void);
void __wrap_bg_call(struct bg_call *call);
void __wrap_bg_timer_set(struct bg_timer *timer, uint64_t at_ns);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
void __wrap_gate_sync(struct gate *const *gates, unsigned int n);
void __real_gate_sync(struct gate *const *gates, unsigned int n);
int __wrap_vcq_take(struct vcq *cq, int n, struct ibv_wc *wc);
int __real_vcq_take(struct vcq *cq, int n, struct ibv_wc *wc);
void __wrap_log_at(enum log_level level, const char *format, ...);
void __wrap_worker_submit(struct worker *w, struct job *job);
void __wrap_worker_submit_first(struct worker *w, struct job *job);
bool __wrap_worker_cancel(struct worker *w, struct job *job);
uint64_t __wrap_worker_busy_since_ns(struct worker *w, const struct job *job);
void __wrap_ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m);
void __wrap_ctrl_link_flush_unless_bg(void);

uint64_t __wrap_now_ns(void)
{
	return world.now;
}

uint64_t __wrap_bg_awake_ns(void)
{
	return world.now;
}

bool __wrap_bg_is_self(void)
{
	return false;
}

void __wrap_bg_call(struct bg_call *call)
{
	call->fn(call->arg);
}

void __wrap_bg_timer_set(struct bg_timer *timer, uint64_t at_ns)
{
	unsigned int i = 0;

	while (i < timers_n && timers[i] != timer)
		i++;
	if (i == timers_n) {
		assert_true(timers_n < TIMERS_MAX);
		timers[timers_n++] = timer;
	}
	timer->at_ns = at_ns;
	timer->heap_at = at_ns != UINT64_MAX;
	if (!timer->heap_at)
		timers[i] = timers[--timers_n];
}

void rooms_pass(uint64_t ns)
{
	world.now += ns;
	for (unsigned int i = 0; i < timers_n; i++) {
		struct bg_timer *t = timers[i];

		if (t->at_ns > world.now)
			continue;
		__wrap_bg_timer_set(t, UINT64_MAX);
		t->fn(t->arg);
		i = (unsigned int)-1;
	}
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	world.now += (uint64_t)t->tv_nsec;
	if (world.on_sleep)
		world.on_sleep();
	return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	(void)cond;
	trace_add("waits\n");
	pthread_mutex_unlock(lock);
	if (world.on_wait)
		world.on_wait();
	else
		assert_true(rooms_run_job()); /* or it would wait for ever */
	pthread_mutex_lock(lock);
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	(void)cond;
	(void)until;
	pthread_mutex_unlock(lock);
	while (!world.workers_stuck && rooms_run_job())
		;
	pthread_mutex_lock(lock);
	return ETIMEDOUT;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	world.woken = cond;
	return 0;
}

void __wrap_gate_sync(struct gate *const *gates, unsigned int n)
{
	if (world.on_sync)
		world.on_sync(gates, n);
	__real_gate_sync(gates, n);
}

int __wrap_vcq_take(struct vcq *cq, int n, struct ibv_wc *wc)
{
	if (world.on_take)
		world.on_take(cq);
	return __real_vcq_take(cq, n, wc);
}

void __wrap_log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

/* A job that is queued already would break the queue. */
void __wrap_worker_submit(struct worker *w, struct job *job)
{
	for (unsigned int i = 0; i < jobs_n; i++)
		assert_ptr_not_equal(jobs[i].job, job);
	assert_true(jobs_n < JOBS_MAX);
	jobs[jobs_n].worker = w;
	jobs[jobs_n++].job = job;
}

void __wrap_worker_submit_first(struct worker *w, struct job *job)
{
	__wrap_worker_submit(w, job);
}

bool __wrap_worker_cancel(struct worker *w, struct job *job)
{
	for (unsigned int i = 0; i < jobs_n; i++)
		if (jobs[i].worker == w && jobs[i].job == job) {
			memmove(jobs + i, jobs + i + 1, (jobs_n - i - 1) * sizeof(*jobs));
			jobs_n--;
			return true;
		}
	return false;
}

uint64_t __wrap_worker_busy_since_ns(struct worker *w, const struct job *job)
{
	(void)w;
	(void)job;
	return world.busy_since;
}

bool rooms_run_job(void)
{
	struct job *job = jobs[0].job;

	if (!jobs_n)
		return false;
	memmove(jobs, jobs + 1, --jobs_n * sizeof(*jobs));
	job->fn(job);
	return true;
}

unsigned int rooms_run_jobs(void)
{
	unsigned int n = 0;

	while (rooms_run_job())
		n++;
	return n;
}

void __wrap_ctrl_link_send(struct ctrl_link_peer *link, const struct shift_msg *m)
{
	if (m->type == SHIFT_MSG_SESSION && world.on_send) {
		world.on_send((const char *)(void *)link, m);
		return;
	}
	trace_add("send %s type %u epoch %u from %u to %u\n", (const char *)(void *)link, m->type,
		  m->epoch, m->src_conn, m->dst_conn);
}

void __wrap_ctrl_link_flush_unless_bg(void)
{
}

/* --- objects and keys ---------------------------------------------------------------------- */

struct vdev *__wrap_vdev_find(const struct ibv_context *ctx);
struct vpd *__wrap_vpd_find(const struct ibv_pd *pd);
struct vpd *__real_vpd_find(const struct ibv_pd *pd);
struct vcq *__wrap_vcq_find(const struct ibv_cq *cq);
int __wrap_vmr_lkey(struct vpd *pd, struct nic *nic, uint32_t lkey, uint32_t *twin);
int __wrap_peer_keys_get(struct vqp *v, uint32_t rkey, uint32_t *twin);
void __wrap_peer_keys_reset(struct peer_keys *k, uint32_t epoch, uint8_t rail);
void __wrap_exported_keys_reset(struct exported_keys *t, uint32_t epoch, uint8_t rail);
uint64_t __wrap_peer_keys_deadline(const struct peer_keys *k);
void __wrap_stats_conn_reposted(int slot, uint64_t now_ns);
enum rq_psn_rest __wrap_rq_psn_look(const struct nic *nic, struct ibv_qp *qp,
				    struct rq_psn_looks *all);
bool __wrap_rq_psn_query(struct ibv_qp *qp, uint32_t *psn, bool *in_err);
void __wrap_stats_conn_protect(int slot, bool is_protected, enum stats_unprotected reason);
void __wrap_stats_bypass(const char *nic, enum stats_unprotected reason);
int __wrap_stats_conn_add(const char *nic, uint32_t qpn, uint64_t now_ns);

struct vdev *__wrap_vdev_find(const struct ibv_context *ctx)
{
	return ctx == &world.ctx[0] ? &world.dev : NULL;
}

struct vpd *__wrap_vpd_find(const struct ibv_pd *pd)
{
	return pd == &world.real_pd ? &world.pd : __real_vpd_find(pd);
}

struct vcq *__wrap_vcq_find(const struct ibv_cq *cq)
{
	return cq == &world.real_send_cq   ? &world.send_cq
	       : cq == &world.real_recv_cq ? &world.recv_cq
					   : NULL;
}

int __wrap_vmr_lkey(struct vpd *pd, struct nic *nic, uint32_t lkey, uint32_t *twin)
{
	assert_ptr_equal(pd, &world.pd);
	if (!world.lkey_result)
		*twin = lkey + 0x1000u * nic->index;
	return world.lkey_result;
}

int __wrap_peer_keys_get(struct vqp *v, uint32_t rkey, uint32_t *twin)
{
	(void)v;
	if (!world.rkey_result)
		*twin = rkey + 0x5000;
	return world.rkey_result;
}

void __wrap_peer_keys_reset(struct peer_keys *k, uint32_t epoch, uint8_t rail)
{
	(void)k;
	trace_add("peer's keys: epoch %u rail %u\n", epoch, rail);
}

void __wrap_exported_keys_reset(struct exported_keys *t, uint32_t epoch, uint8_t rail)
{
	(void)t;
	trace_add("our keys: epoch %u rail %u\n", epoch, rail);
}

enum rq_psn_rest __wrap_rq_psn_look(const struct nic *nic, struct ibv_qp *qp,
				    struct rq_psn_looks *all)
{
	trace_add("rq_psn of %#x at rest on %s\n", qp->qp_num, nic->name);
	all->psn = world.psn;
	world.now += world.look_ns;
	all->looks++;
	if (world.looks_moving) {
		world.looks_moving--;
		return RQ_PSN_MOVING;
	}
	if (world.on_rest)
		world.on_rest();
	world.on_rest = NULL;
	return world.at_rest ? RQ_PSN_AT_REST : RQ_PSN_UNKNOWN;
}

bool __wrap_rq_psn_query(struct ibv_qp *qp, uint32_t *psn, bool *in_err)
{
	trace_add("rq_psn of %#x\n", qp->qp_num);
	*psn = world.psn;
	*in_err = world.in_err;
	return world.at_rest;
}

void __wrap_stats_conn_protect(int slot, bool is_protected, enum stats_unprotected reason)
{
	(void)slot;
	trace_add("protected %d: %s\n", is_protected,
		  is_protected ? "" : stats_unprotected_text(reason));
}

uint64_t __wrap_peer_keys_deadline(const struct peer_keys *k)
{
	(void)k;
	return world.keys_deadline;
}

void __wrap_stats_conn_reposted(int slot, uint64_t now_ns)
{
	(void)slot;
	(void)now_ns;
	trace_add("reposted\n");
}

void __wrap_stats_bypass(const char *nic, enum stats_unprotected reason)
{
	(void)nic;
	trace_add("bypassed: %s\n", stats_unprotected_text(reason));
}

int __wrap_stats_conn_add(const char *nic, uint32_t qpn, uint64_t now_ns)
{
	(void)nic;
	(void)qpn;
	(void)now_ns;
	return -1;
}

/* --- GIDs ---------------------------------------------------------------------------------- */

int __wrap_nic_gid_at(const struct nic *nic, int index, struct nic_gid *gid);
int __wrap_nic_gid_find(const struct nic *nic, const struct nic_gid *gid, int hint);
bool __wrap_nic_gid_is_lost(const struct nic *nic, const struct nic_gid *gid);

int __wrap_nic_gid_at(const struct nic *nic, int index, struct nic_gid *gid)
{
	*gid = (struct nic_gid){.type = IBV_GID_TYPE_ROCE_V2, .vlan = 7};
	return real.query_gid(nic->ctx, nic->port, index, &gid->value) ? -ENODATA : 0;
}

int __wrap_nic_gid_find(const struct nic *nic, const struct nic_gid *gid, int hint)
{
	union ibv_gid have;

	(void)hint;
	if (world.gid_at >= nic->port_attr.gid_tbl_len ||
	    real.query_gid(nic->ctx, nic->port, world.gid_at, &have) ||
	    memcmp(&have, &gid->value, sizeof(have)) != 0)
		return -EADDRNOTAVAIL;
	return world.gid_at;
}

bool __wrap_nic_gid_is_lost(const struct nic *nic, const struct nic_gid *gid)
{
	assert_true(gid->value.raw[15]);
	return world.lost & 1 << nic->index;
}

/* --- the NICs' verbs ----------------------------------------------------------------------- */

static unsigned int nic_of(const struct ibv_context *ctx)
{
	return (unsigned int)(ctx - world.ctx);
}

static struct ibv_qp *nic_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	unsigned int nic = nic_of(pd->context);
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	trace_add("create on %u: cap %u %u %u %u %u sig_all %d type %d%s%s%s\n", nic,
		  attr->cap.max_send_wr, attr->cap.max_recv_wr, attr->cap.max_send_sge,
		  attr->cap.max_recv_sge, attr->cap.max_inline_data, attr->sq_sig_all,
		  attr->qp_type, attr->srq ? " srq" : "", attr->qp_context ? " context" : "",
		  attr->send_cq == attr->recv_cq ? " one CQ" : "");
	if (world.create_fails) {
		world.create_fails--;
		free(qp);
		errno = ENOMEM;
		return NULL;
	}
	*qp = (struct ibv_qp){.context = pd->context,
			      .qp_num = (nic ? TWIN_QPN + nic : QPN) + world.qpn_more,
			      .pd = pd,
			      .send_cq = attr->send_cq,
			      .recv_cq = attr->recv_cq,
			      .qp_type = attr->qp_type};
	return qp;
}

static int nic_destroy_qp(struct ibv_qp *qp)
{
	trace_add("destroy %#x\n", qp->qp_num);
	if (world.destroy_err)
		return world.destroy_err;
	free(qp);
	return 0;
}

static void trace_attr(const struct ibv_qp_attr *a, int mask)
{
	const struct ibv_ah_attr *ah = &a->ah_attr;

	if (mask & IBV_QP_PKEY_INDEX)
		trace_add(" pkey %u", a->pkey_index);
	if (mask & IBV_QP_PORT)
		trace_add(" port %u", a->port_num);
	if (mask & IBV_QP_ACCESS_FLAGS)
		trace_add(" access %#x", a->qp_access_flags);
	if (mask & IBV_QP_AV)
		trace_add(" av %d %02x.%02x index %u hops %u class %u flow %u lid %u sl %u port %u "
			  "path %u rate %u",
			  ah->is_global, ah->grh.dgid.raw[0], ah->grh.dgid.raw[15],
			  ah->grh.sgid_index, ah->grh.hop_limit, ah->grh.traffic_class,
			  ah->grh.flow_label, ah->dlid, ah->sl, ah->port_num, ah->src_path_bits,
			  ah->static_rate);
	if (mask & IBV_QP_PATH_MTU)
		trace_add(" mtu %u", a->path_mtu);
	if (mask & IBV_QP_DEST_QPN)
		trace_add(" dest %#x", a->dest_qp_num);
	if (mask & IBV_QP_RQ_PSN)
		trace_add(" rq_psn %u", a->rq_psn);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		trace_add(" max_dest_rd %u", a->max_dest_rd_atomic);
	if (mask & IBV_QP_MIN_RNR_TIMER)
		trace_add(" rnr_timer %u", a->min_rnr_timer);
	if (mask & IBV_QP_TIMEOUT)
		trace_add(" timeout %u", a->timeout);
	if (mask & IBV_QP_RETRY_CNT)
		trace_add(" retry %u", a->retry_cnt);
	if (mask & IBV_QP_RNR_RETRY)
		trace_add(" rnr_retry %u", a->rnr_retry);
	if (mask & IBV_QP_SQ_PSN)
		trace_add(" sq_psn %u", a->sq_psn);
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		trace_add(" max_rd %u", a->max_rd_atomic);
}

static int nic_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	trace_add("modify %#x", qp->qp_num);
	if (mask & IBV_QP_STATE)
		trace_add(" to %d", attr->qp_state);
	trace_attr(attr, mask);
	trace_add("\n");
	if (world.on_modify) {
		void (*fn)(void) = world.on_modify;

		world.on_modify = NULL;
		fn();
	}
	if (world.modify_fails_at && !--world.modify_fails_at) {
		world.modify_fails_at = world.next_fails_at;
		world.next_fails_at = 0;
		return EINVAL;
	}
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

/* What the QP on rail 0 says, which is not what the program has set. */
static int nic_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init)
{
	(void)init;
	world.query_mask = mask;
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = attr->cur_qp_state = IBV_QPS_INIT;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	attr->dest_qp_num = 0xeee;
	return 0;
}

static int nic_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (port != world.nic[nic_of(ctx)].port)
		return -1;
	if (index == world.gid_at)
		gid->raw[0] = 0xfe,
		gid->raw[15] = world.own_gid ? world.own_gid : (uint8_t)(nic_of(ctx) + 1);
	return 0;
}

/* The same P_Keys on each NIC, at other indexes. */
static int nic_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	*pkey = (__be16)(0x100 + index + (int)nic_of(ctx));
	return port == world.nic[nic_of(ctx)].port ? 0 : -1;
}

static int nic_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	trace_add("ECE of %#x: %#x %#x\n", qp->qp_num, ece->vendor_id, ece->options);
	return world.ece_result;
}

/* It does not know the lowest option. */
static int nic_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	ece->options &= ~1u;
	return 0;
}

static struct ibv_cq *nic_create_cq(struct ibv_context *ctx, int cqe, void *context,
				    struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)context;
	(void)channel;
	(void)vector;
	trace_add("create CQ on %u: %d\n", nic_of(ctx), cqe);
	cq->context = ctx;
	cq->cqe = cqe;
	return cq;
}

static int nic_resize_cq(struct ibv_cq *cq, int cqe)
{
	trace_add("resize CQ on %u: %d\n", nic_of(cq->context), cqe);
	if (world.resize_fails_at && !--world.resize_fails_at)
		return ENOMEM;
	cq->cqe = cqe;
	return 0;
}

static bool post_fails(void)
{
	return world.post_result && (!world.post_fails_at || !--world.post_fails_at);
}

static int nic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (!wr) { /* as soft-RoCE's provider does it */
		*bad = NULL;
		return EINVAL;
	}
	for (; wr; wr = wr->next) {
		trace_add("post %#x id %#llx op %u flags %#x imm %#x", qp->qp_num,
			  (unsigned long long)wr->wr_id, wr->opcode, wr->send_flags, wr->imm_data);
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			trace_add(" to %#llx %#x compare %llu swap %llu",
				  (unsigned long long)wr->wr.atomic.remote_addr, wr->wr.atomic.rkey,
				  (unsigned long long)wr->wr.atomic.compare_add,
				  (unsigned long long)wr->wr.atomic.swap);
		else
			trace_add(" to %#llx %#x", (unsigned long long)wr->wr.rdma.remote_addr,
				  wr->wr.rdma.rkey);
		for (int i = 0; i < wr->num_sge; i++)
			trace_add(" [%#llx %u %#x]", (unsigned long long)wr->sg_list[i].addr,
				  wr->sg_list[i].length, wr->sg_list[i].lkey);
		trace_add("\n");
		if (post_fails()) {
			if (!world.post_without_bad)
				*bad = wr;
			return world.post_result;
		}
	}
	return 0;
}

static int nic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	world.recv_posts++;
	for (; wr; wr = wr->next) {
		trace_add("receive %#x id %#llx", qp->qp_num, (unsigned long long)wr->wr_id);
		for (int i = 0; i < wr->num_sge; i++)
			trace_add(" [%#llx %u %#x]", (unsigned long long)wr->sg_list[i].addr,
				  wr->sg_list[i].length, wr->sg_list[i].lkey);
		trace_add("\n");
		if (post_fails()) {
			if (!world.post_without_bad)
				*bad = wr;
			return world.post_result;
		}
	}
	return 0;
}

static int nic_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	unsigned int nic = nic_of(cq->context);
	int got = 0;

	if (!nic && cq == &world.real_send_cq)
		while (got < n && world.wcs_polled < world.wcs)
			wc[got++] = world.wc[world.wcs_polled++];
	if (cq == &world.real_recv_cq && world.recv_has) {
		wc[got++] = world.recv_wc;
		world.recv_has = false;
	}
	if (nic && nic == world.twin_wc_nic)
		while (got < n && world.twin_wcs_polled < world.twin_wcs)
			wc[got++] = world.twin_wc[world.twin_wcs_polled++];
	return got || nic ? got : world.poll_fails;
}

/* --- begin and end ------------------------------------------------------------------------- */

static void session_begin(struct vqp *v)
{
	(void)v;
	trace_add("a life begins\n");
}

static void session_end(struct vqp *v)
{
	(void)v;
	trace_add("a life ends\n");
}

static void cq_begin(struct vcq *cq, struct ibv_cq *real_cq)
{
	*real_cq = (struct ibv_cq){.context = &world.ctx[0], .cqe = 1};
	cq->obj.refs = 1000;
	cq->cq = real_cq;
	cq->poll_cq = nic_poll_cq;
	cq->dev = &world.dev;
	cq->qps = (struct assoc)ASSOC_INIT;
	gate_init(&cq->gate);
	pthread_mutex_init(&cq->drain_lock, NULL);
	pthread_mutex_init(&cq->delivered_lock, NULL);
	pthread_mutex_init(&cq->grow, NULL);
}

static void nic_begin(uint8_t i)
{
	static uint32_t looks; /* what was asked of the NICs of another world is not good here */
	struct nic *nic = world.nic + i;

	*nic = (struct nic){
		.port = (uint8_t)(i + 1),
		.index = i,
		.worker = (struct worker *)(void *)&nic->worker,
		.resolver = (struct worker *)(void *)&nic->resolver,
		.memory = (struct worker *)(void *)&nic->memory,
		.fences = (struct worker *)(void *)&nic->fences,
		.arms = (struct worker *)(void *)&nic->arms,
		.ctx = &world.ctx[i],
		.port_attr = {.gid_tbl_len = 8, .pkey_tbl_len = 16, .lid = (uint16_t)(0x40 + i)},
		.mtu_bytes = 4096,
		.psn = STATS_PSN_LIVE,
		.psn_tried = true,
		.looks = looks++,
		.ready = true,
		.link_up = true};
	snprintf(nic->name, sizeof(nic->name), "mlx5_%u", i);
	world.ctx[i].device = &world.device;
	world.ctx[i].ops = (struct ibv_context_ops){
		.post_send = nic_post_send, .post_recv = nic_post_recv, .poll_cq = nic_poll_cq};
	world.dev.nic[i] = nic;
	world.shadow_pd[i].context = &world.ctx[i];
	world.pd.shadow[i] = &world.shadow_pd[i];
}

int rooms_begin(void **state)
{
	static const struct qp_session session = {
		.nonce = 0xa, .begin = session_begin, .end = session_end};

	(void)state;
	memset(&world, 0, sizeof(world));
	memset(&core, 0, sizeof(core));
	core.deadline = UINT64_MAX;
	core.post_ends_after = -1;
	core.view.protected_ = true;
	core.view.state = SHIFT_ST_ACTIVE;
	world.now = START_NS;
	world.keys_deadline = UINT64_MAX;
	world.gid_at = 3;
	world.at_rest = true;
	world.psn = 0x77;
	jobs_n = timers_n = 0;
	env = (struct env){.exactly_once = true, .link_events = true};
	real = (struct real_verbs){.create_qp = nic_create_qp,
				   .destroy_qp = nic_destroy_qp,
				   .modify_qp = nic_modify_qp,
				   .query_qp = nic_query_qp,
				   .query_gid = nic_query_gid,
				   .query_pkey = nic_query_pkey,
				   .set_ece = nic_set_ece,
				   .query_ece = nic_query_ece,
				   .create_cq = nic_create_cq,
				   .resize_cq = nic_resize_cq};
	world.dev.rails = RAILS;
	world.dev.ctx = &world.ctx[0];
	for (uint8_t i = 0; i < RAILS; i++)
		nic_begin(i);
	world.dev.ops = world.ctx[0].ops;
	world.real_pd.context = &world.ctx[0];
	world.pd.obj.refs = 1000;
	world.pd.dev = &world.dev;
	world.pd.pd = &world.real_pd;
	cq_begin(&world.send_cq, &world.real_send_cq);
	cq_begin(&world.recv_cq, &world.real_recv_cq);
	qp_set_session(&session);
	trace_clear();
	return 0;
}

/* The library's tables last as long as their NIC, which is for ever. */
static void table_free(struct table *t)
{
	struct table_array *a = t->array;

	while (a) {
		struct table_array *older = a->older;

		free(a);
		a = older;
	}
	t->array = NULL;
}

int rooms_end(void **state)
{
	(void)state;
	table_free(&world.dev.qps);
	for (unsigned int i = 0; i < RAILS; i++) {
		free(world.send_cq.shadow[i].cq);
		free(world.recv_cq.shadow[i].cq);
	}
	gate_forget(&world.send_cq.gate, &world.real_send_cq);
	gate_forget(&world.recv_cq.gate, &world.real_recv_cq);
	assoc_clear(&world.send_cq.qps);
	assoc_clear(&world.recv_cq.qps);
	free(world.send_cq.delivered.wc);
	free(world.recv_cq.delivered.wc);
	free(world.send_cq.stash);
	return 0;
}

static struct vqp *ending;

static void it_is_closed(void)
{
	ending->life.closed = true;
}

int rooms_end_qp(void **state, struct vqp *v)
{
	rooms_unlock(v);
	world.on_sync = NULL;
	world.on_take = NULL;
	world.on_modify = NULL;
	world.post_result = 0;
	world.on_wait = it_is_closed;
	ending = v;
	hook_destroy_qp(v->qp);
	return rooms_end(state);
}

void rooms_act(struct vqp *v, const struct shift_action *a)
{
	vqp_enter(v);
	core_asks(a);
	vqp_leave(v);
}

struct ibv_qp_init_attr rooms_qp_attr(void)
{
	return (struct ibv_qp_init_attr){.qp_context = &world,
					 .send_cq = &world.real_send_cq,
					 .recv_cq = &world.real_recv_cq,
					 .cap = {.max_send_wr = SENDS,
						 .max_recv_wr = RECEIVES,
						 .max_send_sge = 3,
						 .max_recv_sge = 2,
						 .max_inline_data = 60},
					 .qp_type = IBV_QPT_RC};
}

struct vqp *rooms_create_qp(void)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();
	struct ibv_qp *qp = hook_create_qp(&world.real_pd, &attr);
	struct vqp *v = vqp_find(qp);

	assert_non_null(v);
	assert_non_null(v->conn);
	rooms_run_jobs();
	trace_clear();
	return v;
}

void rooms_unlock(struct vqp *v)
{
	pthread_mutex_t *locks[] = {&v->lock, &world.send_cq.drain_lock, &world.recv_cq.drain_lock};

	for (size_t i = 0; i < sizeof(locks) / sizeof(*locks); i++) {
		pthread_mutex_trylock(locks[i]);
		pthread_mutex_unlock(locks[i]);
	}
}

struct ibv_qp_attr rooms_attr(void)
{
	return (struct ibv_qp_attr){
		.pkey_index = 9,
		.port_num = 1,
		.qp_access_flags = 0xf,
		.ah_attr = {.is_global = 1,
			    .grh = {.dgid.raw = {[0] = 0xaa, [15] = 0xbb},
				    .sgid_index = 2,
				    .hop_limit = 33,
				    .traffic_class = 44,
				    .flow_label = 55},
			    .dlid = 66,
			    .sl = 5,
			    .src_path_bits = 3,
			    .static_rate = 2,
			    .port_num = 1},
		.path_mtu = IBV_MTU_2048,
		.dest_qp_num = 0x99,
		.rq_psn = 1111,
		.sq_psn = 2222,
		.max_dest_rd_atomic = 12,
		.max_rd_atomic = 11,
		.min_rnr_timer = 13,
		.timeout = 15,
		.retry_cnt = 4,
		.rnr_retry = 6,
	};
}

void rooms_start_qp(struct vqp *v)
{
	struct ibv_qp_attr attr = rooms_attr();

	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(hook_modify_qp(v->qp, &attr,
					IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(hook_modify_qp(v->qp, &attr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(hook_modify_qp(v->qp, &attr,
					IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	trace_clear();
}

/* --- gates ------------------------------------------------------------------------------------ */

static void gates_are_owned_from_now_on(void **state)
{
	(void)state;
	gate_start();
}

int run_with_both_gates(const struct CMUnitTest *tests, size_t n)
{
	struct CMUnitTest *all = calloc(2 * n + 1, sizeof(*all));
	int failed;

	memcpy(all, tests, n * sizeof(*all));
	all[n] = (struct CMUnitTest)cmocka_unit_test(gates_are_owned_from_now_on);
	memcpy(all + n + 1, tests, n * sizeof(*all));
	failed = _cmocka_run_group_tests("both gates", all, 2 * n + 1, NULL, NULL);
	free(all);
	return failed;
}

struct beside {
	void (*fn)(void);
	pthread_barrier_t done, end;
};

static void *do_beside(void *arg)
{
	struct beside *b = arg;

	b->fn();
	pthread_barrier_wait(&b->done);
	pthread_barrier_wait(&b->end);
	return NULL;
}

void rooms_beside(void (*other)(void), void (*mine)(void))
{
	struct beside b = {.fn = other};
	pthread_t thread;

	pthread_barrier_init(&b.done, NULL, 2);
	pthread_barrier_init(&b.end, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, do_beside, &b), 0);
	pthread_barrier_wait(&b.done);
	mine();
	pthread_barrier_wait(&b.end);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&b.done);
	pthread_barrier_destroy(&b.end);
}

void rooms_be_fast(struct vqp *v, bool fast)
{
	core.fast = fast;
	vqp_enter(v);
	vqp_leave(v);
	trace_clear();
}
