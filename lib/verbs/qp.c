/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "lib/base/env.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/pages.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/actions.h"
#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/drain.h"
#include "lib/conn/exported_keys.h"
#include "lib/conn/fence_qp.h"
#include "lib/conn/memlock.h"
#include "lib/conn/peer_keys.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/repost.h"
#include "lib/conn/self_qp.h"
#include "lib/conn/srq_qps.h"
#include "lib/conn/twin.h"
#include "lib/verbs/bypass.h"
#include "lib/verbs/memory_windows.h"
#include "lib/verbs/qp_life.h"
#include "lib/verbs/wr_builder.h"

/* How long the program's modify to RTR waits for its NIC (doc/srq.md, S6). */
#define JOIN_MAX_NS 2000000000ull

static struct qp_session session;

void qp_set_session(const struct qp_session *s)
{
	session = *s;
}

/* --- creation -------------------------------------------------------------------------------- */

static uint64_t random_number(void)
{
	uint64_t n = 0;

	while (!n && getrandom(&n, sizeof(n), 0) != sizeof(n))
		n = 0;
	return n;
}

static void qp_free(struct object *obj)
{
	struct vqp *v = (struct vqp *)obj;

	pages_put(v->conn, v->conn_bytes);
	wr_builder_free(v->wr_builder);
	peer_keys_free(v->keys.peer);
	exported_keys_free(&v->keys.exported);
	if (v->pd)
		object_put(&v->pd->obj);
	if (v->hot.srq)
		object_put(&v->hot.srq->obj);
	if (v->conn) {
		object_put(&v->send_cq->obj);
		object_put(&v->recv_cq->obj);
	}
	pthread_mutex_destroy(&v->lock);
	pthread_mutex_destroy(&v->life.modify_lock);
	pthread_cond_destroy(&v->life.closed_cond);
	pthread_cond_destroy(&v->rails.job_ended);
	free(v);
}

static enum stats_unprotected qp_judge(const struct vqp *v, const struct ibv_pd *pd,
				       const struct ibv_qp_init_attr *attr)
{
	if (attr->qp_type != IBV_QPT_RC)
		return STATS_UNPROTECTED_NOT_RC;
	if (attr->srq && !v->hot.srq)
		return STATS_UNPROTECTED_SRQ;
	if (v->dev->rails < 2)
		return STATS_UNPROTECTED_NO_BACKUP_NIC;
	if (!v->pd)
		return STATS_UNPROTECTED_OTHER;
	if (pd_has_thread(pd))
		return STATS_UNPROTECTED_THREAD_DOMAIN;
	if (!v->send_cq || !v->recv_cq)
		return STATS_UNPROTECTED_CQ_EX;
	if (v->send_cq->bypassed || v->recv_cq->bypassed)
		return STATS_UNPROTECTED_POSTED_AROUND;
	if (v->pd->windows)
		return STATS_UNPROTECTED_MEMORY_WINDOW;
	if (!vcq_wakes(v->send_cq) || !vcq_wakes(v->recv_cq))
		return STATS_UNPROTECTED_CHANNEL;
	if (attr->cap.max_send_sge > SGES_MAX || attr->cap.max_recv_sge > SGES_MAX)
		return STATS_UNPROTECTED_TOO_LARGE;
	return STATS_UNPROTECTED_NONE;
}

/* The connection's memory is allocated now, so that modify to RTS costs no system call. */
static bool conn_new(struct vqp *v)
{
	struct shift_conn_cfg cfg = {
		.nonce = session.nonce,
		.id = v->id,
		.past = v->life.past,
		.sq_cap = v->init.cap.max_send_wr ? v->init.cap.max_send_wr : 1,
		.rq_cap = v->init.cap.max_recv_wr,
		.sq_sge_max = v->init.cap.max_send_sge,
		.rq_sge_max = v->init.cap.max_recv_sge,
		.inline_max = v->init.cap.max_inline_data,
		.rails = v->dev->rails,
		.sq_sig_all = v->init.sq_sig_all,
		.srq = v->hot.srq,
		.exactly_once = env.exactly_once,
		.lost_atomic_continue = env.lost_atomic_continue,
		.hot = &v->hot.log,
		/* Without automatic fail-back the hold-down never ends: 2^61 ns do not pass, and
		 * can be added to a time without overflow. */
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
		v->conn = pages_get(size);
		v->conn_bytes = size;
		log_info("connection %u: up to %zu bytes for %u sends and %u receives", v->id,
			 sizeof(*v) + size, cfg.sq_cap, cfg.rq_cap);
	}
	atomic_store(&v->rails.down, 0); /* of the life before */
	return v->conn && shift_conn_init(v->conn, size, &cfg, now_ns());
}

static uint32_t cqe_room(const struct vqp *v)
{
	return v->init.cap.max_send_wr + v->init.cap.max_recv_wr + 2;
}

static bool cqs_attach(struct vqp *v)
{
	if (!vcq_attach(v->send_cq, cqe_room(v)))
		return false;
	if (v->recv_cq != v->send_cq && !vcq_attach(v->recv_cq, cqe_room(v))) {
		vcq_detach(v->send_cq, cqe_room(v));
		return false;
	}
	object_get(&v->send_cq->obj);
	object_get(&v->recv_cq->obj);
	return true;
}

static void cqs_detach(struct vqp *v)
{
	vcq_detach(v->send_cq, cqe_room(v));
	if (v->recv_cq != v->send_cq)
		vcq_detach(v->recv_cq, cqe_room(v));
}

/* Gets what a QP needs to be protected. If it cannot be, v->program.why says why. */
static void qp_protect(struct vqp *v)
{
	v->keys.peer = peer_keys_new();
	if (!v->keys.peer) {
		v->program.why = STATS_UNPROTECTED_NO_MEMORY;
		return;
	}
	if (!cqs_attach(v)) {
		v->program.why = STATS_UNPROTECTED_OTHER;
		return;
	}
	v->id = vqp_draw_id();
	if (!conn_new(v)) {
		pages_put(v->conn, v->conn_bytes);
		v->conn = NULL;
		cqs_detach(v);
		object_put(&v->send_cq->obj);
		object_put(&v->recv_cq->obj);
		v->program.why = STATS_UNPROTECTED_NO_MEMORY;
		return;
	}
	v->marker = random_number();
	if (v->send_cq == v->recv_cq)
		v->hot.recv_marked.wr_id = random_number();
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++) {
		v->rails.jobs[i].v = v;
		v->rails.jobs[i].rail = i;
	}
	vqp_timers_init(v);
	v->stats = stats_conn_add(v->dev->nic[0]->name, v->qp->qp_num, now_ns());
	v->program.why = STATS_UNPROTECTED_SETUP;
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
		object_get(&v->pd->obj);
	v->hot.srq = attr->srq ? vsrq_find(attr->srq) : NULL;
	if (v->hot.srq)
		object_get(&v->hot.srq->obj);
	v->send_cq = vcq_find(attr->send_cq);
	v->recv_cq = vcq_find(attr->recv_cq);
	v->stats = -1;
	gate_init(&v->hot.send_gate);
	gate_init(&v->hot.recv_gate);
	pthread_mutex_init(&v->lock, NULL);
	pthread_mutex_init(&v->life.modify_lock, NULL);
	pthread_cond_init(&v->life.closed_cond, NULL);
	pthread_cond_init(&v->rails.job_ended, NULL);
	return v;
}

static void qp_publish(struct vqp *v)
{
	int err = vqp_publish(v);

	if (err)
		log_error("QP %#x is not protected: out of memory", v->qp->qp_num);
	if (err || !v->conn)
		return;
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (!vdev_rail_is_spare(v->dev, i))
			object_job(&v->obj, v->dev->nic[i], twin_create);
	session.begin(v);
	memory_windows_check(v);
	bypass_check(v);
}

bool hook_creates_qp(const struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	const struct vdev *dev = vdev_find(pd->context);
	bool grow = dev && dev->rails > 1 && attr->qp_type == IBV_QPT_RC &&
		    (!attr->srq || vsrq_find(attr->srq)) && !attr->cap.max_send_wr;

	attr->cap.max_send_wr += grow;
	return grow;
}

/* Comes first, because without memory for it the QP is the provider's alone. */
static void wr_builder_prepare(struct vqp *v)
{
	v->wr_builder = wr_builder_new(&v->init.cap);
	if (!v->wr_builder)
		v->program.why = STATS_UNPROTECTED_NO_MEMORY;
}

struct ibv_qp *hook_created_qp(struct ibv_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			       bool grown, struct ibv_qp_ex *ex)
{
	struct vdev *dev = vdev_find(pd->context);
	struct vqp *v;

	if (!qp)
		attr->cap.max_send_wr -= grown;
	if (!qp || !dev || fork_in_child_warn())
		return qp;
	v = qp_new(dev, pd, attr);
	if (!v)
		return qp;
	v->qp = qp;
	v->qpn = qp->qp_num;
	v->last_wqe.event = (struct ibv_async_event){.element.qp = qp,
						     .event_type = IBV_EVENT_QP_LAST_WQE_REACHED};
	v->init = *attr; /* with the capacities as accepted */
	if (v->hot.srq)
		v->init.cap.max_recv_wr = v->init.cap.max_recv_sge = 0;
	v->program.why = qp_judge(v, pd, attr);
	if (v->program.why == STATS_UNPROTECTED_NONE && ex)
		wr_builder_prepare(v);
	if (v->program.why == STATS_UNPROTECTED_NONE)
		qp_protect(v);
	if (!v->conn)
		stats_bypass(dev->ctx->device->name, v->program.why);
	qp_life_created(v);
	qp_publish(v);
	if (v->conn && ex && vqp_find(qp) == v)
		wr_builder_take_over(v, ex);
	return qp;
}

struct ibv_qp *hook_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	bool grown = hook_creates_qp(pd, attr);
	struct ibv_qp *qp = with_room(pd->context, real.create_qp(pd, attr));

	return hook_created_qp(qp, pd, attr, grown, NULL);
}

void hook_created_foreign_qp(struct ibv_qp *qp, enum stats_unprotected why)
{
	struct ibv_qp_init_attr attr = {.send_cq = qp->send_cq,
					.recv_cq = qp->recv_cq,
					.srq = qp->srq,
					.qp_type = qp->qp_type};
	struct vdev *dev = vdev_find(qp->context);
	struct vqp *v = dev && !fork_in_child_warn() ? qp_new(dev, qp->pd, &attr) : NULL;

	if (!v)
		return;
	v->qp = qp;
	v->init = attr;
	v->program.why = why;
	stats_bypass(dev->ctx->device->name, why);
	qp_life_created(v);
	qp_publish(v);
}

/* --- completions of a life that is over ------------------------------------------------------- */

/*
 * RESET and destroy end a life of a QP, and what waits of it for the program ends with it, as the
 * NIC's driver has it: libmlx5 takes its completions out of the CQ. Soft-RoCE leaves them there.
 * So the CQ is emptied first. Rail 0 is in RESET: no more can come.
 */
static void life_purge(struct vqp *v)
{
	vqp_drain(v);
	vcq_purge(v->send_cq, v->qpn);
	if (v->recv_cq != v->send_cq)
		vcq_purge(v->recv_cq, v->qpn);
}

/* The CQs of a QP that we leave to the NIC, which another thread may destroy once the QP is gone.
 */
struct passed_cqs {
	struct vcq *send, *recv; /* either may be NULL */
	uint32_t qpn;
};

static struct passed_cqs passed_get(const struct ibv_qp *qp)
{
	struct passed_cqs p = {vcq_find(qp->send_cq), vcq_find(qp->recv_cq), qp->qp_num};

	if (p.recv == p.send)
		p.recv = NULL;
	if (p.send)
		object_get(&p.send->obj);
	if (p.recv)
		object_get(&p.recv->obj);
	return p;
}

/* A NIC that drops completions does not put them back: of an SRQ of ours each names a receive that
 * is not there any more (doc/srq.md, S13). */
static void passed_feed(const struct passed_cqs *p, const struct ibv_qp *qp)
{
	if (!qp->srq || !vsrq_find(qp->srq))
		return;
	if (p->send)
		vcq_feed(p->send);
	if (p->recv)
		vcq_feed(p->recv);
}

static void passed_put(const struct passed_cqs *p, bool purge)
{
	struct vcq *cqs[] = {p->send, p->recv};

	for (int i = 0; i < 2; i++) {
		if (cqs[i] && purge)
			vcq_purge(cqs[i], p->qpn);
		if (cqs[i])
			object_put(&cqs[i]->obj);
	}
}

/* Its completions may have come to us with those of another QP of its CQ. */
static int modify_passed(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool reset = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
	struct passed_cqs cqs;
	int err;

	if (!reset || fork_in_child())
		return quietly(real.modify_qp(qp, attr, mask));
	cqs = passed_get(qp);
	passed_feed(&cqs, qp);
	err = quietly(real.modify_qp(qp, attr, mask));
	passed_put(&cqs, !err);
	return err;
}

/* Its receives may come from an SRQ whose other QPs move. */
static int modify_unprotected(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	bool state = mask & IBV_QP_STATE;
	int err;

	if (state && attr->qp_state == IBV_QPS_RTR && !srq_qp_join(v, 0, JOIN_MAX_NS))
		return ETIMEDOUT;
	err = modify_passed(v->qp, attr, mask);
	if (!err && state && attr->qp_state == IBV_QPS_RESET)
		srq_qp_reset(v);
	return err;
}

static int destroy_passed(struct ibv_qp *qp)
{
	struct passed_cqs cqs;
	int err;

	if (fork_in_child())
		return quietly(real.destroy_qp(qp));
	cqs = passed_get(qp);
	passed_feed(&cqs, qp);
	err = quietly(real.destroy_qp(qp));
	passed_put(&cqs, !err);
	return err;
}

/* --- modify ---------------------------------------------------------------------------------- */

static void attr_save(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
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

/* Of the peer on rail 0, for lives that follow each other. Without a GRH it is its LID. */
static void dest_name(const struct ibv_ah_attr *ah, uint8_t gid[16])
{
	union ibv_gid name = {.raw = {[14] = (uint8_t)(ah->dlid >> 8), [15] = (uint8_t)ah->dlid}};

	memcpy(gid, ah->is_global ? ah->grh.dgid.raw : name.raw, sizeof(name));
}

/* Twice as long as the program's own retries take, and at least 30 s (doc/protocol.md, rule 17). */
static uint64_t giveup_ns(const struct ibv_qp_attr *attr)
{
	uint64_t once = attr->timeout ? 4096ull << attr->timeout : 4096ull << 14;
	uint64_t own = 2 * once * (attr->retry_cnt + 1u);

	if (env.giveup_ns)
		return env.giveup_ns;
	return own > 30000000000ull ? own : 30000000000ull;
}

/* A QP in RTR is in use, too: one that only receives may stay there for good (perftest's servers;
 * doc/protocol.md, 7.29). */
static void qp_started(struct vqp *v)
{
	struct shift_conn_start s = {
		.sq_psn_known = v->program.state == IBV_QPS_RTS,
		.qpn = v->qp->qp_num,
		.dest_qpn = v->program.attr.dest_qp_num,
		.sq_psn = v->program.attr.sq_psn,
		.rq_psn = v->program.attr.rq_psn,
		.mtu = 128u << v->program.attr.path_mtu,
		.giveup_ns = giveup_ns(&v->program.attr),
		.retries_ns = twin_retries_ns(&v->program),
	};

	dest_name(&v->program.attr.ah_attr, s.dest_gid);
	vqp_enter(v);
	shift_conn_start(v->conn, &s);
	v->life.started_ns = now_ns();
	vqp_leave(v);
	if (s.sq_psn_known)
		self_qp_started(v);
	atomic_store(&v->life.started, true); /* the background thread polls it: no system call */
}

/* The program ends the connection. Every rail is fenced before this returns, so that what the
 * program was told stays true (doc/protocol.md, rule 19). Between vqp_enter() and vqp_leave(). */
static void close_entered(struct vqp *v, enum shift_close how)
{
	struct shift_event ev = {.type = SHIFT_EV_CLOSE, .how = (uint8_t)how};

	v->life.closed = false;
	v->life.dead = true;
	self_qp_end(v, how);
	shift_conn_event(v->conn, &ev, now_ns());
	vqp_act(v);
	while (!v->life.closed)
		pthread_cond_wait(&v->life.closed_cond, &v->lock);
}

static void close_conn(struct vqp *v, enum shift_close how)
{
	vqp_enter(v);
	close_entered(v, how);
	vqp_leave(v);
}

static bool qp_has_moved(const struct vqp *v)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return view.r || view.holding;
}

/* Do the program's verbs reach its QP on rail 0? If not, what they set comes into force when that
 * is armed again. */
static bool rail0_is_programs(const struct vqp *v)
{
	return !qp_has_moved(v) && !self_qp_is_away(v);
}

/* A verb that changes the QP of a life that has started. A NIC that hangs in it holds up this
 * thread, and those that modify this QP after it: vqp.lock, which is held here and at the end, is
 * free meanwhile. */
static void verb_begins(struct vqp *v)
{
	rail0_lend(v);
	vqp_leave(v);
}

/* Where the connection has left the NIC meanwhile, the NIC's answer no longer counts. */
static int verb_ended(struct vqp *v, int err)
{
	vqp_enter(v);
	rail0_return(v);
	return rail0_is_programs(v) ? err : 0;
}

/* The program's own. */
static int modify_rail0(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err = quietly(real.modify_qp(v->qp, attr, mask));

	if (v->wr_builder)
		wr_builder_keep(v);
	return err;
}

static int modify_to_err(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err = 0;

	self_qp_stop(v, SHIFT_CLOSE_ERR);
	vqp_enter(v);
	close_entered(v, SHIFT_CLOSE_ERR);
	if (!vqp_is_protected(v)) { /* the NIC flushes, as without shift */
		v->life.dead = false;
		verb_begins(v);
		err = verb_ended(v, modify_rail0(v, attr, mask));
	}
	if (!err)
		v->program.state = v->qp->state = IBV_QPS_ERR;
	if (v->life.dead) /* else its NIC says so */
		srq_qp_in_err(v);
	vqp_leave(v);
	return err;
}

/* What lib/core and the rooms around it knew of the life that has ended is forgotten, but for what
 * the next one must know of it. */
static void life_renew(struct vqp *v)
{
	vqp_enter(v);
	shift_conn_past(v->conn, now_ns(), &v->life.past);
	conn_new(v);		  /* cannot fail, as it uses the same memory again */
	if (v->rails.vetoed & 1u) /* of the others the rendezvous tells (say_hello()) */
		vqp_rail_event(v, SHIFT_EV_RAIL_VETO, 0);
	v->life.released = false;
	peer_keys_reset(v->keys.peer, 0, 0);
	exported_keys_reset(&v->keys.exported, 0, 0);
	v->life.started = v->setup.met = v->life.dead = false;
	made_event_renew(&v->last_wqe);
	v->setup.peer_released = false;
	atomic_store(&v->cm_number, 0);
	self_qp_renew(v);
	v->repost.tx_next = v->repost.tx_end = 0;
	v->repost.rx_next = v->repost.rx_end = 0;
	v->repost.tx_stopped = false;
	v->hot.rail0_epoch = 0;
	memset(v->rails.armed_epoch, 0, sizeof(v->rails.armed_epoch));
	/* The program's own RESET has cleared rail 0. A twin that its last fence did not account
	 * for stays out of use, also in this life, until a fence has. */
	v->rails.unclean &= ~1u;
	v->program.state = IBV_QPS_RESET;
	v->program.has_ece = false;
	v->program.rate.rate_limit = 0;
	if (v->life.bypassed) /* by another thread, and told to the life that has ended */
		vqp_release(v, STATS_UNPROTECTED_POSTED_AROUND);
	vqp_leave(v);
}

static int modify_to_reset(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err;

	self_qp_stop(v, SHIFT_CLOSE_RESET);
	if (v->life.started)
		close_conn(v, SHIFT_CLOSE_RESET);
	session.end(v);
	rail_jobs_stop(v);
	err = modify_rail0(v, attr, mask);
	if (err)
		return err;
	life_purge(v);
	srq_qp_reset(v);
	if (vqp_renew_id(v))
		log_error("QP %#x is not protected any more: out of memory", v->qp->qp_num);
	life_renew(v);
	session.begin(v);
	memory_windows_check(v);
	bypass_check(v); /* its CQ may have been handed over while it had no id */
	return 0;
}

/* RTS, or other attributes of a QP in use. */
static int modify_running(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	bool to_rts = (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS;
	int err = 0, nic_mask = mask;

	vqp_enter(v);
	/* A QP that we have armed is in RTS already, whatever the program has asked for so far. */
	if (to_rts && v->hot.rail0_epoch && v->program.state != IBV_QPS_RTS)
		nic_mask &= IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
	if (nic_mask && rail0_is_programs(v)) {
		verb_begins(v);
		err = verb_ended(v, modify_rail0(v, attr, nic_mask));
	}
	if (!err) {
		attr_save(&v->program.attr, attr, mask);
		if (mask & IBV_QP_STATE)
			v->program.state = v->qp->state = attr->qp_state;
	}
	vqp_leave(v);
	if (!err && to_rts)
		qp_started(v);
	return err;
}

/* A bypassed QP is the NIC's alone. */
static int modify_bypassed(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	int err = modify_unprotected(v, attr, mask);

	if (v->wr_builder)
		wr_builder_keep(v);
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		bypass_reset(v);
	return err;
}

/* On the program's thread: at most a second (doc/protocol.md, 7.34). */
static void rail0_wait(const struct vqp *v)
{
	uint64_t now = now_ns(), until = v->life.past.rail0_until;
	struct timespec t = {.tv_nsec = 1000000};

	if (now < until)
		log_info("QP %#x: is used again %u ms after it has left %s: waiting as long as its "
			 "old packets may live",
			 v->qpn, (unsigned int)((until - now) / 1000000), v->dev->nic[0]->name);
	for (; now < until; now = now_ns())
		nanosleep(&t, NULL);
}

/* The NIC has left out what it does not know. So must the twins. Before the life starts. */
static void ece_agreed(struct vqp *v)
{
	struct ibv_ece ece = v->program.ece;

	if (v->program.has_ece && real.query_ece && !quietly(real.query_ece(v->qp, &ece)))
		v->program.ece = ece;
}

/* Before it may accept packets. */
static bool join_srq(struct vqp *v, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr all = v->program.attr;

	attr_save(&all, attr, mask);
	if (!v->hot.srq || !self_qp_is_named(v, &all))
		return srq_qp_join(v, 0, JOIN_MAX_NS);
	vqp_enter(v);
	srq_qp_joins_late(v);
	vqp_leave(v);
	return true;
}

static int modify_locked(struct vqp *v, struct ibv_qp_attr *attr, int mask)
{
	bool state = mask & IBV_QP_STATE;
	int err;

	if (v->life.bypassed)
		return modify_bypassed(v, attr, mask);
	if (state && attr->qp_state == IBV_QPS_ERR)
		return modify_to_err(v, attr, mask);
	if (state && attr->qp_state == IBV_QPS_RESET)
		return modify_to_reset(v, attr, mask);
	if (v->life.started)
		return modify_running(v, attr, mask);
	if (state && attr->qp_state == IBV_QPS_RTR) {
		rail0_wait(v);
		if (!join_srq(v, attr, mask))
			return ETIMEDOUT;
	}
	err = modify_rail0(v, attr, mask);
	if (err)
		return err;
	attr_save(&v->program.attr, attr, mask);
	if (state)
		v->program.state = attr->qp_state;
	if (state && attr->qp_state == IBV_QPS_RTR) {
		ece_agreed(v);
		qp_started(v);
	}
	return 0;
}

/* Two threads may modify a QP at once, and the NIC's driver lets one wait for the other. So do we:
 * else two RESETs would end one life and begin two. */
static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct vqp *v = vqp_find(qp);
	int err;

	if (v && fork_in_child_warn()) {
		if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
			vqp_unpublish_forked(v);
		v = NULL;
	}
	if (!v)
		return modify_passed(qp, attr, mask);
	if (!v->conn)
		return modify_unprotected(v, attr, mask);
	pthread_mutex_lock(&v->life.modify_lock);
	err = modify_locked(v, attr, mask);
	pthread_mutex_unlock(&v->life.modify_lock);
	return err;
}

int hook_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = modify_qp(qp, attr, mask);

	if (!err && mask & IBV_QP_STATE)
		qp_life_state(qp, attr, mask);
	return err;
}

static int rate_limit_locked(struct vqp *v, struct ibv_qp_rate_limit_attr *attr)
{
	int err = 0;

	vqp_enter(v);
	if (rail0_is_programs(v)) {
		verb_begins(v);
		err = verb_ended(v, quietly(v->dev->modify_qp_rate_limit(v->qp, attr)));
	}
	if (!err)
		v->program.rate = *attr;
	vqp_leave(v);
	return err;
}

int hook_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct vqp *v = vqp_find(qp);
	struct vdev *dev = vdev_find(qp->context);
	int err;

	if (!v || !v->conn || v->life.bypassed || fork_in_child_warn())
		return quietly(dev->modify_qp_rate_limit(qp, attr));
	uncancelled_begin(); /* it is not called by name */
	pthread_mutex_lock(&v->life.modify_lock);
	err = rate_limit_locked(v, attr);
	pthread_mutex_unlock(&v->life.modify_lock);
	uncancelled_end();
	return err;
}

/* The NIC takes it at its next change of state. */
int hook_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	struct vqp *v = vqp_find(qp);
	int err = quietly(real.set_ece(qp, ece));

	if (err || !v || !v->conn || fork_in_child_warn())
		return err;
	pthread_mutex_lock(&v->lock);
	v->program.ece = *ece;
	v->program.has_ece = true;
	pthread_mutex_unlock(&v->lock);
	return 0;
}

/* --- query ----------------------------------------------------------------------------------- */

/* To the program its QP is the connection. What is on rail 0 is idle, or was armed by us. */
static bool rail0_is_ours(const struct vqp *v)
{
	if (self_qp_has_left(v))
		return true;
	return qp_has_moved(v) || v->life.dead || v->hot.rail0_epoch;
}

static bool look_at_rail0(struct vqp *v)
{
	bool ours;

	vqp_enter(v);
	ours = rail0_is_ours(v);
	vqp_leave(v);
	return ours;
}

/* The NIC may hang in it, so nothing is locked meanwhile, and a switch may begin: what was ours
 * before or is after the program does not see. */
int hook_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct vqp *v = vqp_find(qp);
	bool ours;
	int err;

	if (!v || !v->conn || !v->life.started || v->life.bypassed || fork_in_child_warn())
		return quietly(real.query_qp(qp, attr, mask, init));
	ours = look_at_rail0(v);
	/* libibverbs stores the state that it was asked for in the program's object. */
	err = quietly(real.query_qp(qp, attr, ours ? mask & ~IBV_QP_STATE : mask, init));
	vqp_enter(v);
	if (!err && (ours || rail0_is_ours(v))) {
		attr_save(attr, &v->program.attr, ~0);
		attr->qp_state = attr->cur_qp_state = qp->state = v->program.state;
	}
	vqp_leave(v);
	return err;
}

/* --- destruction ----------------------------------------------------------------------------- */

/* What flushes is not for the program: a thread that sleeps for an event of its CQs sleeps on. */
static void events_doubt(struct vqp *v)
{
	struct vcq *cqs[] = {v->send_cq, v->recv_cq};

	for (int i = 0; i < 2; i++)
		if (cqs[i]->events.channel)
			cq_events_doubt(&cqs[i]->events);
}

/* The program, which destroys it, does not go to RESET. So we must do it so that the NIC survives
 * (vqp_to_reset()). */
static void reset_rail0(struct vqp *v)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	if (v->dev->nic[0]->is_rxe)
		modify_rail0(v, &err, IBV_QP_STATE);
	modify_rail0(v, &reset, IBV_QP_STATE);
	v->qp->state = v->program.state;
}

/* Ends the life that the QP is in. */
static void life_end(struct vqp *v)
{
	if (v->life.started) {
		events_doubt(v);
		close_conn(v, SHIFT_CLOSE_DESTROY);
		rail_jobs_stop(v);
	}
	/* In these states a QP has no completions. */
	if (v->program.state == IBV_QPS_RESET || v->program.state == IBV_QPS_INIT)
		return;
	/* A fence that was taken for hung may have ended only now. What flushes then is known as
	 * this QP's as long as the QP is in the tables, and its number is no other's. */
	reset_rail0(v);
	life_purge(v);
}

/* The verb has failed, as the QP is in a multicast group, for example: it still takes receives, and
 * is what it was. false: no memory. */
static bool passed_qp_stays(struct vqp *v)
{
	v->life.gone = false;
	return !vqp_publish(v);
}

static int destroy_qp(struct ibv_qp *qp)
{
	struct vqp *v = vqp_find(qp);
	int err;

	if (v && fork_in_child_warn()) {
		vqp_unpublish_forked(v);
		v = NULL;
	}
	if (!v)
		return destroy_passed(qp);
	if (v->conn)
		made_event_end(v->dev, &v->last_wqe);
	if (v->conn && !v->life.bypassed)
		life_end(v);
	pthread_mutex_lock(&v->lock);
	v->life.gone = true;
	pthread_mutex_unlock(&v->lock);
	vqp_unpublish(v); /* first, so that the background thread does not find it any more */
	if (v->conn) {
		session.end(v);
		rail_jobs_stop(v);
		object_jobs_wait(&v->obj, &v->dev->nic[1], v->dev->rails - 1u, twin_destroy);
		cqs_detach(v);
		vqp_release_gates(v);
		stats_conn_remove(v->stats, now_ns());
	}
	if (v->conn && !v->life.bypassed)
		err = quietly(real.destroy_qp(qp));
	else
		err = destroy_passed(qp);
	if (err && !v->conn && passed_qp_stays(v))
		return err;
	srq_qp_leave_ended(v, 0);
	object_put(&v->obj);
	return err;
}

int hook_destroy_qp(struct ibv_qp *qp)
{
	struct qp_life_name name = qp_life_name(qp);
	int err = destroy_qp(qp);

	if (!err)
		qp_life_destroyed(&name);
	return err;
}
