/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's queue pairs: which can be protected, and what it does to them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/verbs/env.h"
#include "lib/verbs/hooks.h"
#include "lib/verbs/keys.h"
#include "lib/verbs/log.h"
#include "lib/verbs/real.h"
#include "lib/verbs/vobj.h"

#define SGES_MAX 64

static struct table qps = TABLE_INIT;
static struct table by_id = TABLE_INIT;
static _Atomic uint32_t next_id = 1;

struct vqp *vqp_find(const struct ibv_qp *qp)
{
	return table_get(&qps, (uintptr_t)qp);
}

struct vqp *vqp_by_id(uint32_t id)
{
	return table_get(&by_id, id);
}

void vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg)
{
	table_each(&by_id, (void (*)(void *, void *))fn, arg);
}

void vqp_all(void (*fn)(struct vqp *v, void *arg), void *arg)
{
	table_each(&qps, (void (*)(void *, void *))fn, arg);
}

/* --- creation -------------------------------------------------------------------------------- */

static uint64_t unlikely_number(void)
{
	uint64_t n = 0;

	while (!n && getrandom(&n, sizeof(n), 0) != sizeof(n))
		n = 0;
	return n;
}

static void qp_free(struct vobj *obj)
{
	struct vqp *v = (struct vqp *)obj;

	free(v->conn);
	keys_free(v->keys);
	told_free(&v->told);
	if (v->pd)
		vobj_put(&v->pd->obj);
	if (v->conn) {
		vobj_put(&v->send_cq->obj);
		vobj_put(&v->recv_cq->obj);
	}
	pthread_mutex_destroy(&v->lock);
	pthread_cond_destroy(&v->closed_cond);
	pthread_cond_destroy(&v->job_ended);
	free(v);
}

static enum stats_unprotected judge(const struct vqp *v, const struct ibv_qp_init_attr *attr)
{
	if (attr->qp_type != IBV_QPT_RC)
		return STATS_UNPROTECTED_NOT_RC;
	if (attr->srq)
		return STATS_UNPROTECTED_SRQ;
	if (v->dev->rails < 2)
		return STATS_UNPROTECTED_NO_BACKUP_NIC;
	if (!v->pd)
		return STATS_UNPROTECTED_OTHER;
	if (!v->send_cq || !v->recv_cq)
		return STATS_UNPROTECTED_CQ_EX;
	if (v->send_cq->around || v->recv_cq->around)
		return STATS_UNPROTECTED_POSTED_AROUND;
	if (v->pd->windows)
		return STATS_UNPROTECTED_MEMORY_WINDOW;
	if (v->send_cq->has_channel || v->recv_cq->has_channel)
		return STATS_UNPROTECTED_CHANNEL;
	if (attr->cap.max_send_sge > SGES_MAX || attr->cap.max_recv_sge > SGES_MAX)
		return STATS_UNPROTECTED_TOO_LARGE;
	return STATS_UNPROTECTED_NONE;
}

/* The connection's memory comes now, so that bringing the QP up costs no system call. */
static bool conn_new(struct vqp *v)
{
	struct shift_conn_cfg cfg = {
		.nonce = meet_nonce(),
		.id = v->id,
		.sq_cap = v->init.cap.max_send_wr ? v->init.cap.max_send_wr : 1,
		.rq_cap = v->init.cap.max_recv_wr,
		.sq_sge_max = v->init.cap.max_send_sge,
		.rq_sge_max = v->init.cap.max_recv_sge,
		.inline_max = v->init.cap.max_inline_data,
		.rails = v->dev->rails,
		.sq_sig_all = v->init.sq_sig_all,
		.exactly_once = env.exactly_once,
		.lost_atomic_continue = env.lost_atomic_continue,
		/* Not by itself: never is long enough not to come, and short enough to be added. */
		.hold_down_ns = env.failback == FAILBACK_AUTO ? 0 : 1ull << 61,
		.hold_down_max_ns = env.failback == FAILBACK_AUTO ? 0 : 1ull << 61,
	};
	size_t size;

	for (unsigned int i = 0; i < cfg.rails; i++)
		cfg.mtu[i] = 1024;
	size = shift_conn_size(&cfg);
	if (!size)
		return false;
	if (!v->conn) {
		v->conn = aligned_alloc(64, (size + 63) & ~(size_t)63);
		log_info("connection %u: %zu bytes for %u sends and %u receives", v->id,
			 sizeof(*v) + size, cfg.sq_cap, cfg.rq_cap);
	}
	return v->conn && shift_conn_init(v->conn, size, &cfg, now_ns());
}

static uint32_t room(const struct vqp *v)
{
	return v->init.cap.max_send_wr + v->init.cap.max_recv_wr + 2;
}

static bool attach(struct vqp *v)
{
	if (!vcq_attach(v->send_cq, room(v)))
		return false;
	if (v->recv_cq != v->send_cq && !vcq_attach(v->recv_cq, room(v))) {
		vcq_detach(v->send_cq, room(v));
		return false;
	}
	vobj_get(&v->send_cq->obj);
	vobj_get(&v->recv_cq->obj);
	return true;
}

static void detach(struct vqp *v)
{
	vcq_detach(v->send_cq, room(v));
	if (v->recv_cq != v->send_cq)
		vcq_detach(v->recv_cq, room(v));
}

/* What a QP needs to be protected one day; v->why says if it cannot be. */
static void protect(struct vqp *v)
{
	v->keys = keys_new();
	if (!v->keys) {
		v->why = STATS_UNPROTECTED_NO_MEMORY;
		return;
	}
	if (!attach(v)) {
		v->why = STATS_UNPROTECTED_OTHER;
		return;
	}
	v->id = atomic_fetch_add(&next_id, 1);
	if (!conn_new(v)) {
		free(v->conn);
		v->conn = NULL;
		detach(v);
		vobj_put(&v->send_cq->obj);
		vobj_put(&v->recv_cq->obj);
		v->why = STATS_UNPROTECTED_NO_MEMORY;
		return;
	}
	v->marker = unlikely_number();
	if (v->send_cq == v->recv_cq)
		v->recv_mark = unlikely_number();
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++) {
		v->jobs[i].v = v;
		v->jobs[i].rail = i;
	}
	vqp_timers_init(v);
	v->stats = stats_conn_add(v->dev->nic[0]->name, v->qp->qp_num, now_ns());
	v->why = STATS_UNPROTECTED_SETUP;
}

static struct vqp *qp_new(struct vdev *dev, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct vqp *v = aligned_alloc(64, (sizeof(*v) + 63) & ~(size_t)63);

	if (!v)
		return NULL;
	memset(v, 0, sizeof(*v));
	v->obj.refs = 1;
	v->obj.free = qp_free;
	v->dev = dev;
	v->post_send = dev->ops.post_send;
	v->post_recv = dev->ops.post_recv;
	v->pd = vpd_find(pd);
	if (v->pd)
		vobj_get(&v->pd->obj);
	v->send_cq = vcq_find(attr->send_cq);
	v->recv_cq = vcq_find(attr->recv_cq);
	v->stats = -1;
	gate_init(&v->send_gate);
	gate_init(&v->recv_gate);
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->closed_cond, NULL);
	pthread_cond_init(&v->job_ended, NULL);
	return v;
}

static void publish(struct vqp *v)
{
	int err = 0;

	if (v->conn)
		err = table_put(&v->dev->qps, v->qp->qp_num, v);
	if (!err && v->conn)
		err = table_put(&by_id, v->id, v);
	if (!err)
		err = table_put(&qps, (uintptr_t)v->qp, v);
	if (err)
		log_error("out of memory: QP %#x is not protected", v->qp->qp_num);
	if (err || !v->conn)
		return;
	for (unsigned int i = 1; i < v->dev->rails; i++)
		vobj_job(&v->obj, v->dev->nic[i], twin_create);
	meet_new(v);
	windows_look(v);
	around_look(v);
}

struct ibv_qp *hook_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = with_room(pd->context, real.create_qp(pd, attr));
	struct vdev *dev = vdev_find(pd->context);
	struct vqp *v;

	if (!qp || !dev || hook_forked())
		return qp;
	v = qp_new(dev, pd, attr);
	if (!v)
		return qp;
	v->qp = qp;
	v->qpn = qp->qp_num;
	v->init = *attr; /* with the capacities as accepted */
	v->why = judge(v, attr);
	if (v->why == STATS_UNPROTECTED_NONE)
		protect(v);
	if (!v->conn)
		stats_bypass(dev->ctx->device->name, v->why);
	publish(v);
	return qp;
}

void hook_created_around(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = qp->send_cq, .recv_cq = qp->recv_cq, .qp_type = qp->qp_type};
	struct vdev *dev = vdev_find(qp->context);
	struct vqp *v = dev ? qp_new(dev, qp->pd, &attr) : NULL;

	if (!v)
		return;
	v->qp = qp;
	v->init = attr;
	v->why = STATS_UNPROTECTED_POSTED_AROUND;
	stats_bypass(dev->ctx->device->name, v->why);
	publish(v);
}

/* --- modify ---------------------------------------------------------------------------------- */

static void save(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
}

/* As long as the program itself would have waited, twice, and at least 30 s (rule 17). */
static uint64_t giveup_ns(const struct ibv_qp_attr *attr)
{
	uint64_t once = attr->timeout ? 4096ull << attr->timeout : 4096ull << 14;
	uint64_t own = 2 * once * (attr->retry_cnt + 1u);

	if (env.giveup_ns)
		return env.giveup_ns;
	return own > 30000000000ull ? own : 30000000000ull;
}

/* A QP that only receives may stay in RTR for good (perftest's servers): it is as much in use. */
static void started(struct vqp *v)
{
	struct shift_conn_start s = {
		.sq_psn_known = v->state == IBV_QPS_RTS,
		.qpn = v->qp->qp_num,
		.dest_qpn = v->attr.dest_qp_num,
		.sq_psn = v->attr.sq_psn,
		.rq_psn = v->attr.rq_psn,
		.mtu = 128u << v->attr.path_mtu,
		.giveup_ns = giveup_ns(&v->attr),
	};

	vqp_enter(v);
	shift_conn_start(v->conn, &s);
	vqp_leave(v);
	atomic_store(&v->started, true); /* the background sees it: no system call here */
}

/* The program ends the connection: what it was told before is true afterwards too (rule 19). Under
 * enter. */
static void close_entered(struct vqp *v, enum shift_close how)
{
	struct shift_event ev = {.type = SHIFT_EV_CLOSE, .how = (uint8_t)how};

	v->closed = false;
	v->dead = true;
	shift_conn_event(v->conn, &ev, now_ns());
	vqp_act(v);
	while (!v->closed)
		pthread_cond_wait(&v->closed_cond, &v->lock);
}

static void close_conn(struct vqp *v, enum shift_close how)
{
	vqp_enter(v);
	close_entered(v, how);
	vqp_leave(v);
}

static int to_err(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err = 0;

	vqp_enter(v);
	close_entered(v, SHIFT_CLOSE_ERR);
	if (!vqp_is_protected(v)) { /* what flushes comes from the NIC, as without us */
		v->dead = false;
		err = quietly(real.modify_qp(v->qp, attr, mask));
	}
	if (!err)
		v->state = v->qp->state = IBV_QPS_ERR;
	vqp_leave(v);
	return err;
}

static int to_reset(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if (v->started)
		close_conn(v, SHIFT_CLOSE_RESET);
	meet_gone(v);
	rail_jobs_stop(v);
	err = quietly(real.modify_qp(v->qp, attr, mask));
	if (err)
		return err;
	vqp_enter(v);
	conn_new(v); /* in the same memory: cannot fail */
	v->released = false;
	keys_reset(v->keys, 0, 0);
	told_reset(&v->told, 0, 0);
	v->started = v->met = v->dead = false;
	v->tx_next = v->tx_end = 0;
	v->tx_stopped = false;
	v->rail0_epoch = 0;
	memset(v->rail_epoch, 0, sizeof(v->rail_epoch));
	v->state = IBV_QPS_RESET;
	vqp_leave(v);
	meet_new(v);
	windows_look(v);
	return 0;
}

static bool moved(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.r || view.holding;
}

/* RTS, or other attributes of a QP in use. Away from rail 0 they wait for its return. */
static int modify_running(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	bool to_rts = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS;
	int err = 0;

	vqp_enter(v);
	/* Armed by us once, it is in RTS, whatever the program has asked for so far. */
	if (!moved(v) && !(to_rts && v->rail0_epoch))
		err = quietly(real.modify_qp(v->qp, attr, mask));
	if (!err) {
		save(&v->attr, attr, mask);
		if (mask & IBV_QP_STATE)
			v->state = v->qp->state = attr->qp_state;
	}
	vqp_leave(v);
	if (!err && to_rts)
		started(v);
	return err;
}

/* The NIC's alone. */
static int modify_around(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err = quietly(real.modify_qp(v->qp, attr, mask));

	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		around_reset(v);
	return err;
}

/* In a child of fork(). */
static void let_be(struct vqp *v)
{
	table_blank(&qps, (uintptr_t)v->qp);
	if (!v->conn)
		return;
	table_blank(&v->dev->qps, v->qp->qp_num);
	gate_forget(&v->send_gate, v->qp);
	gate_forget(&v->recv_gate, v->qp);
}

int hook_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct vqp *v = vqp_find(qp);
	bool state = mask & IBV_QP_STATE;
	int err;

	if (v && hook_forked()) {
		if (state && attr->qp_state == IBV_QPS_RESET)
			let_be(v);
		v = NULL;
	}
	if (!v || !v->conn)
		return quietly(real.modify_qp(qp, attr, mask));
	if (v->around)
		return modify_around(v, attr, mask);
	if (state && attr->qp_state == IBV_QPS_ERR)
		return to_err(v, attr, mask);
	if (state && attr->qp_state == IBV_QPS_RESET)
		return to_reset(v, attr, mask);
	if (v->started)
		return modify_running(v, attr, mask);
	err = quietly(real.modify_qp(qp, attr, mask));
	if (err)
		return err;
	save(&v->attr, attr, mask);
	if (state)
		v->state = attr->qp_state;
	if (state && attr->qp_state == IBV_QPS_RTR)
		started(v);
	return 0;
}

/* --- query ----------------------------------------------------------------------------------- */

int hook_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct vqp *v = vqp_find(qp);
	int err;

	if (!v || !v->conn || !v->started || v->around || hook_forked())
		return quietly(real.query_qp(qp, attr, mask, init));
	vqp_enter(v);
	err = quietly(real.query_qp(qp, attr, mask, init));
	if (!err && (moved(v) || v->dead)) {
		/* The program's QP is the connection, not what lies idle on rail 0. */
		save(attr, &v->attr, ~0);
		attr->qp_state = attr->cur_qp_state = v->state;
	}
	v->qp->state = v->state;
	vqp_leave(v);
	return err;
}

/* --- destruction ----------------------------------------------------------------------------- */

void vqp_unfound(struct vqp *v)
{
	pthread_mutex_lock(&v->send_cq->digest);
	pthread_mutex_unlock(&v->send_cq->digest);
	pthread_mutex_lock(&v->recv_cq->digest);
	pthread_mutex_unlock(&v->recv_cq->digest);
}

static void unpublish(struct vqp *v)
{
	table_remove(&qps, (uintptr_t)v->qp);
	if (!v->conn)
		return;
	table_remove(&by_id, v->id);
	table_remove(&v->dev->qps, v->qp->qp_num);
	gate_forget(&v->send_gate, v->qp);
	gate_forget(&v->recv_gate, v->qp);
	vcq_forget(v->send_cq, v);
	vcq_forget(v->recv_cq, v);
	vqp_unfound(v);
}

/* The gates of its CQs were held closed for it. */
static void let_go(struct vqp *v)
{
	pthread_mutex_lock(&v->lock);
	if (v->slow) {
		gate_open(&v->send_cq->gate);
		if (v->recv_cq != v->send_cq)
			gate_open(&v->recv_cq->gate);
	}
	pthread_mutex_unlock(&v->lock);
}

int hook_destroy_qp(struct ibv_qp *qp)
{
	struct vqp *v = vqp_find(qp);
	int err;

	if (v && hook_forked()) {
		let_be(v);
		v = NULL;
	}
	if (!v)
		return quietly(real.destroy_qp(qp));
	if (v->conn && v->started && !v->around)
		close_conn(v, SHIFT_CLOSE_DESTROY);
	pthread_mutex_lock(&v->lock);
	v->gone = true;
	pthread_mutex_unlock(&v->lock);
	unpublish(v); /* first: then nobody on the background thread finds it any more */
	if (v->conn) {
		meet_gone(v);
		rail_jobs_stop(v);
		vobj_jobs_wait(&v->obj, &v->dev->nic[1], v->dev->rails - 1u, twin_destroy);
		detach(v);
		let_go(v);
		stats_conn_remove(v->stats, now_ns());
	}
	err = quietly(real.destroy_qp(qp));
	vobj_put(&v->obj);
	return err;
}
