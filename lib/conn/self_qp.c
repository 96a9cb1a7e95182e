/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/self_qp.h"

#include <errno.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/conn/actions.h"
#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/error_notes.h"
#include "lib/conn/fence_qp.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/repost.h"

#define LOOK_NS	   1000000000ull /* it is looked around so often, */
#define TROUBLE_NS 100000000ull	 /* or so often while a rail is missing */
#define HANGS_NS   1000000000ull /* the quarantine: the NIC has written all by then */
#define GIVEUP_NS  30000000000ull

static struct self_rail *rail_of(struct vqp *v, uint8_t rail)
{
	return &v->self.rail[rail];
}

/* The next WR of the log at *at; room for SGES_MAX elements. */
static void log_at_index(const struct vqp *v, uint64_t at, struct shift_wr *wr,
			 struct shift_sge *sge)
{
	shift_conn_repost(v->conn, &at, at + 1, wr, sge);
}

static bool is_visible(const struct vqp *v, const struct shift_wr *wr)
{
	return v->init.sq_sig_all || wr->flags & SHIFT_F_SIGNALED;
}

static bool is_ready(const struct self_rail *r)
{
	return r->wanted && r->state == SELF_READY;
}

static bool any_ready(const struct vqp *v)
{
	bool any = false;

	for (uint8_t i = 0; i < v->dev->rails; i++)
		any |= is_ready(&v->self.rail[i]) && !v->self.rail[i].leaves;
	return any;
}

/* Of the READs that were posted there. */
static bool any_under_way(const struct self_rail *r)
{
	return r->done < r->next;
}

/* What is under way there may still write into the program's memory. */
static void rail_leave(struct self_rail *r)
{
	r->leaves = r->wanted && r->state == SELF_READY && any_under_way(r);
	r->wanted = r->leaves;
}

/* --- the end of our work ---------------------------------------------------------------------- */

/* All that is outstanding ends: the first with that status. */
static void self_flush(struct vqp *v, uint32_t status, uint32_t vendor)
{
	uint64_t head = shift_conn_head(v->conn);
	struct shift_sge sge[SGES_MAX];
	struct shift_wr wr;

	v->self.failed = true;
	for (uint8_t i = 0; i < v->dev->rails; i++)
		rail_of(v, i)->wanted = rail_of(v, i)->leaves = false;
	for (; v->self.tail < head; v->self.tail++) {
		struct ibv_wc wc = {.status = status, .vendor_err = vendor, .qp_num = v->qpn};

		log_at_index(v, v->self.tail, &wr, sge);
		wc.wr_id = wr.wr_id;
		wc.opcode = IBV_WC_RDMA_READ;
		error_note_made(v, false, &wc);
		vcq_deliver(v->send_cq, &wc);
		status = IBV_WC_WR_FLUSH_ERR;
		vendor = 0;
	}
}

static void self_fail(struct vqp *v, uint32_t status, uint32_t vendor)
{
	v->self.on = false;
	log_warn(
		"QP %#x: connected to itself, is over: a READ failed with status %u, and no NIC is "
		"left for it",
		v->qpn, status);
	stats_conn_protect(v->stats, false, STATS_UNPROTECTED_OVER);
	if (status == IBV_WC_RETRY_EXC_ERR)
		stats_conn_met_failure(v->stats);
	self_flush(v, status, vendor);
	v->program.state = v->qp->state = IBV_QPS_ERR;
}

void self_qp_leave_alone(struct vqp *v, enum stats_unprotected why)
{
	if (!v->self.on)
		return;
	v->self.on = false;
	stats_conn_protect(v->stats, false, why);
	log_info("QP %#x is not protected: %s", v->qpn, stats_unprotected_text(why));
	if (!v->self.engaged)
		return;
	for (uint8_t i = 1; i < v->dev->rails; i++)
		rail_leave(rail_of(v, i));
	if (!is_ready(rail_of(v, 0)))
		self_fail(v, IBV_WC_RETRY_EXC_ERR, 0);
}

void self_qp_end(struct vqp *v, enum shift_close how)
{
	if (v->self.engaged && !v->self.failed && how == SHIFT_CLOSE_ERR)
		self_flush(v, IBV_WC_WR_FLUSH_ERR, 0);
	v->self.failed |= v->self.engaged;
	v->self.on = false;
}

void self_qp_renew(struct vqp *v)
{
	struct self_rail *r = v->self.rail;

	/* Twins stay as they are, and may have completions under way. */
	for (uint8_t i = 0; i < SHIFT_RAILS_MAX; i++)
		r[i] = (struct self_rail){.used = i && r[i].used, .gen = i ? r[i].gen : 0};
	v->self.on = v->self.engaged = v->self.failed = v->self.ends = false;
}

/* What it had under way ends without a trace: nobody waits for its completions. It may come late,
 * if the NIC's thread was busy for long: a life that has begun meanwhile empties the twin itself.
 */
static void twin_stop(struct object *obj, struct nic *nic)
{
	struct vqp *v = (struct vqp *)obj;
	struct self_rail *r;
	bool under_way;

	pthread_mutex_lock(&v->lock);
	r = rail_of(v, (uint8_t)vqp_twin_rail_on(v, nic));
	under_way = v->self.ends && any_under_way(r);
	pthread_mutex_unlock(&v->lock);
	if (!under_way || vqp_to_reset(v, (uint8_t)(r - v->self.rail)))
		return;
	pthread_mutex_lock(&v->lock);
	if (v->self.ends) {
		r->used = false;
		r->next = r->done;
	}
	pthread_mutex_unlock(&v->lock);
}

void self_qp_stop(struct vqp *v, enum shift_close how)
{
	struct nic *nic[SHIFT_RAILS_MAX];
	unsigned int n = 0;
	bool rail0;

	if (!v->self.engaged)
		return;
	vqp_enter(v);
	v->self.ends = true;
	rail0 = how == SHIFT_CLOSE_ERR && !v->self.failed && rail_of(v, 0)->state == SELF_READY &&
		any_under_way(rail_of(v, 0));
	vqp_leave(v);
	rail_jobs_stop(v);
	if (rail0)
		fence_empty(v, 0);
	pthread_mutex_lock(&v->lock);
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (any_under_way(rail_of(v, i)))
			nic[n++] = v->dev->nic[i];
	pthread_mutex_unlock(&v->lock);
	if (n)
		object_jobs_wait(&v->obj, nic, n, twin_stop);
}

/* --- rails ------------------------------------------------------------------------------------ */

static void self_work(struct vqp *v);

/* What is outstanding goes through that rail from the oldest on: a READ may be done twice. */
static void rail_begin(struct vqp *v, struct self_rail *r)
{
	r->next = r->done = v->self.tail;
	r->moved_ns = now_ns();
}

/* Packets and completions of the time before bear another PSN, and another number. */
static uint32_t psn_of(const struct vqp *v, const struct self_rail *r)
{
	return (v->program.attr.sq_psn + (r->gen + 1) * 0x3a5c71u) & 0xffffff;
}

static void self_armed(struct vqp *v, struct rail_jobs *j, bool armed)
{
	struct self_rail *r = rail_of(v, j->rail);

	atomic_store(&j->arming, false);
	if (j->stale || r->state != SELF_ARMING)
		return;
	r->tried_ns = now_ns();
	r->state = armed ? SELF_READY : SELF_LOST;
	if (!armed || v->self.failed)
		return;
	r->gen++;
	if (!j->rail)
		v->self.plain_end = 0;
	rail_begin(v, r);
	log_info("QP %#x: connected to itself, READs through %s", v->qpn,
		 v->dev->nic[j->rail]->name);
	self_work(v);
}

/* On a thread of the NIC's. */
static void self_arm_run(struct job *job)
{
	struct rail_jobs *j = (struct rail_jobs *)((char *)job - offsetof(struct rail_jobs, arms));
	struct vqp *v = j->v;
	struct self_rail *r = rail_of(v, j->rail);
	uint32_t psn;
	bool used, left = true;
	int err = 0;

	pthread_mutex_lock(&v->lock);
	psn = psn_of(v, r);
	used = r->used;
	pthread_mutex_unlock(&v->lock);
	if (used && !fence_empty(v, j->rail))
		err = -EBUSY;
	if (!err) {
		err = arm_to_itself(v, j->rail, psn);
		if (err && vqp_rail_qp(v, j->rail))
			left = vqp_to_reset(v, j->rail);
	}
	if (err)
		log_info("QP %#x: cannot be connected to itself on %s: %s", v->qpn,
			 v->dev->nic[j->rail]->name, strerror(err < 0 ? -err : err));
	vqp_enter(v);
	r->used = left;
	self_armed(v, j, !err);
	vqp_leave(v);
	rail_job_ends(j);
}

static void rail_arm(struct vqp *v, uint8_t rail)
{
	struct rail_jobs *j = &v->rails.jobs[rail];
	struct self_rail *r = rail_of(v, rail);

	r->tried_ns = now_ns();
	r->state = SELF_LOST;
	if (j->under_way || j->modifying || v->life.gone || v->self.ends || !vqp_rail_qp(v, rail))
		return; /* the next tick tries again */
	r->state = SELF_ARMING;
	atomic_store(&j->arming, true);
	j->arms.fn = self_arm_run;
	rail_job_begins(j);
	worker_submit(v->dev->nic[rail]->arms, &j->arms);
}

/* READs go through that rail, too, from the oldest that is outstanding. */
static void rail_want(struct vqp *v, uint8_t rail)
{
	struct self_rail *r = rail_of(v, rail);

	r->left_ns = 0;
	r->leaves = false;
	if (r->wanted)
		return;
	r->wanted = true;
	if (r->state == SELF_READY)
		rail_begin(v, r);
	else if (r->state != SELF_ARMING)
		rail_arm(v, rail);
}

static bool is_better(const struct vqp *v, uint8_t a, uint8_t b)
{
	bool a_up = v->dev->nic[a]->link_up, b_up = v->dev->nic[b]->link_up;

	return a_up == b_up ? v->self.rail[a].tried_ns < v->self.rail[b].tried_ns : a_up;
}

/* No rail takes READs: the best is tried next. That is one whose link is up; of these the one that
 * was tried least lately. */
static void any_want(struct vqp *v)
{
	int best = -1;

	for (uint8_t i = 0; i < v->dev->rails; i++) {
		if (rail_of(v, i)->state == SELF_ARMING &&
		    now_ns() - rail_of(v, i)->tried_ns < 5 * HANGS_NS)
			return;
		if (rail_of(v, i)->state != SELF_ARMING && vqp_rail_qp(v, i) &&
		    (best < 0 || is_better(v, i, (uint8_t)best)))
			best = i;
	}
	if (best < 0)
		return;
	if (!is_ready(rail_of(v, (uint8_t)best)))
		rail_of(v, (uint8_t)best)->wanted = false;
	rail_want(v, (uint8_t)best);
}

static void rail_lose(struct vqp *v, uint8_t rail, const char *why)
{
	struct self_rail *r = rail_of(v, rail);

	log_info("QP %#x: connected to itself, leaves %s: %s", v->qpn, v->dev->nic[rail]->name,
		 why);
	r->state = SELF_LOST;
	r->wanted = r->leaves = false;
	r->tried_ns = now_ns();
	if (!any_ready(v))
		any_want(v);
	v->self.tick_at = now_ns() + TROUBLE_NS;
}

/* --- posting ---------------------------------------------------------------------------------- */

static int rail_keys(struct vqp *v, uint8_t rail, struct shift_wr *wr, struct shift_sge *sge)
{
	struct nic *nic = v->dev->nic[rail];
	uint32_t length;
	int err;

	err = twin_lkeys(v, rail, sge, wr->num_sge, &length);
	if (err || !length) {
		wr->rkey = 0;
		return err;
	}
	err = vmr_rkey(v->pd, nic, wr->rkey, &wr->rkey);
	if (err == -EAGAIN) { /* the second look, as with lkeys */
		atomic_store(&v->repost.wants_lkey, true);
		err = vmr_rkey(v->pd, nic, wr->rkey, &wr->rkey);
	}
	return err;
}

/* 0 or a negative errno. */
static int rail_post(struct vqp *v, uint8_t rail)
{
	struct self_rail *r = rail_of(v, rail);
	struct shift_sge sge[SGES_MAX];
	struct ibv_send_wr out, *bad = NULL;
	struct shift_wr wr;
	int err = 0;

	log_at_index(v, r->next, &wr, sge);
	if (rail)
		err = rail_keys(v, rail, &wr, sge);
	if (err)
		return err == -EAGAIN ? err : -ENOKEY;
	wr_from_log(&out, &wr);
	out.wr_id = (uint64_t)r->gen << 32 | (uint32_t)r->next;
	out.send_flags |= IBV_SEND_SIGNALED;
	err = rail ? ibv_post_send(vqp_rail_qp(v, rail), &out, &bad)
		   : v->post_send(v->qp, &out, &bad);
	if (err && bad)
		return -err;
	if (r->next++ == r->done)
		r->moved_ns = now_ns();
	return err ? -EIO : 0;
}

static void rail_pump(struct vqp *v, uint8_t rail)
{
	struct self_rail *r = rail_of(v, rail);
	int err = 0;

	while (!err && is_ready(r) && !r->leaves && r->next < shift_conn_head(v->conn))
		err = rail_post(v, rail);
	if (!err || err == -EAGAIN || err == -ENOMEM)
		return; /* with the key, or with room, it goes on */
	if (err == -ENOKEY)
		self_qp_leave_alone(v, STATS_UNPROTECTED_NO_SHADOW);
	else if (err == -EINVAL || err == -EOPNOTSUPP)
		self_fail(v, IBV_WC_LOC_QP_OP_ERR, 0);
	else
		rail_lose(v, rail, strerror(-err));
}

/* --- completing ------------------------------------------------------------------------------- */

static enum ibv_wc_opcode completed_as(uint8_t opcode)
{
	switch ((enum shift_opcode)opcode) {
	case SHIFT_OP_WRITE:
	case SHIFT_OP_WRITE_IMM: return IBV_WC_RDMA_WRITE;
	case SHIFT_OP_SEND:
	case SHIFT_OP_SEND_IMM:
	case SHIFT_OP_SEND_INV: return IBV_WC_SEND;
	case SHIFT_OP_READ: return IBV_WC_RDMA_READ;
	case SHIFT_OP_CMP_SWAP: return IBV_WC_COMP_SWAP;
	case SHIFT_OP_FETCH_ADD: return IBV_WC_FETCH_ADD;
	case SHIFT_OP_LOCAL_INV: return IBV_WC_LOCAL_INV;
	case SHIFT_OP_BIND_MW: return IBV_WC_BIND_MW;
	}
	return IBV_WC_SEND;
}

static void self_deliver_one(struct vqp *v)
{
	struct shift_cqe cqe = {.epoch = v->hot.rail0_epoch};
	struct ibv_wc wc = {.qp_num = v->qpn};
	struct shift_sge sge[SGES_MAX];
	struct shift_wc out;
	struct shift_wr wr;

	log_at_index(v, v->self.tail++, &wr, sge);
	if (!is_visible(v, &wr))
		return;
	shift_conn_cqe(v->conn, &cqe, &out, now_ns()); /* the log counts it */
	wc.wr_id = wr.wr_id;
	wc.opcode = completed_as(wr.opcode);
	if (wr.opcode != SHIFT_OP_WRITE && wr.opcode != SHIFT_OP_SEND)
		for (uint32_t i = 0; i < wr.num_sge; i++)
			wc.byte_len += sge[i].length;
	vcq_deliver(v->send_cq, &wc);
}

/* In their order, those that have completed on each rail that is wanted. */
static void self_deliver(struct vqp *v)
{
	uint64_t end = UINT64_MAX;

	for (uint8_t i = 0; i < v->dev->rails; i++) {
		struct self_rail *r = rail_of(v, i);

		if (r->leaves && !any_under_way(r))
			r->wanted = r->leaves = false;
		if (r->wanted && (r->state != SELF_READY || r->done < end))
			end = r->state == SELF_READY ? r->done : v->self.tail;
	}
	if (end == UINT64_MAX || v->self.tail >= end)
		return;
	while (v->self.tail < end)
		self_deliver_one(v);
	v->self.waits_ns = now_ns();
}

/* All is on rail 0 again, and nothing under way: the program's posts go to the NIC as they are. */
static void self_settle(struct vqp *v)
{
	uint64_t head = shift_conn_head(v->conn);

	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (rail_of(v, i)->wanted)
			return;
	if (!is_ready(rail_of(v, 0)) || v->self.tail < head || rail_of(v, 0)->done < head)
		return;
	v->self.engaged = false;
	log_info("QP %#x: connected to itself, READs through %s alone", v->qpn,
		 v->dev->nic[0]->name);
}

/* Posts what can be posted, and completes what has completed. */
static void self_work(struct vqp *v)
{
	for (int i = 0; i < 2 * v->dev->rails && !v->self.ends; i++) /* one may take over */
		if (is_ready(rail_of(v, (uint8_t)(i % v->dev->rails))) && !v->self.failed)
			rail_pump(v, (uint8_t)(i % v->dev->rails));
	if (v->self.failed)
		return;
	self_deliver(v);
	self_settle(v);
}

void self_qp_go_on(struct vqp *v)
{
	if (v->self.engaged)
		self_work(v);
}

/* --- engaging --------------------------------------------------------------------------------- */

static bool has_only_reads(const struct vqp *v, const struct shift_conn_view *view)
{
	struct shift_sge sge[SGES_MAX];
	struct shift_wr wr;

	for (uint64_t i = view->send_tail; i < view->send_head; i++) {
		log_at_index(v, i, &wr, sge);
		if (wr.opcode != SHIFT_OP_READ)
			return false;
	}
	return !view->recv_posted;
}

/* false: it is left alone. */
static bool self_engage(struct vqp *v)
{
	struct self_rail *r = rail_of(v, 0);
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	if (v->life.released || v->life.bypassed || shift_conn_tracked(v->conn) ||
	    !has_only_reads(v, &view)) {
		self_qp_leave_alone(v, STATS_UNPROTECTED_LOOPBACK);
		return false;
	}
	v->self.tail = view.send_tail;
	v->self.plain_end = view.send_head;
	rail_begin(v, r);
	r->next = view.send_head;
	r->state = SELF_READY;
	r->wanted = r->used = true;
	r->left_ns = 0;
	v->self.waits_ns = now_ns();
	v->self.tick_at = now_ns() + TROUBLE_NS;
	v->self.engaged = true;
	for (uint8_t i = 1; i < v->dev->rails; i++)
		arm_events(v, i); /* the program may have asked for events after they were armed */
	return true;
}

int self_qp_post(struct vqp *v, const struct shift_wr *wr)
{
	uint64_t outstanding = shift_conn_head(v->conn) - v->self.tail;
	int rail, err;

	if (wr->opcode != SHIFT_OP_READ)
		self_qp_leave_alone(v, STATS_UNPROTECTED_LOOPBACK);
	if (v->self.failed) {
		vqp_deliver_flush(v, wr->wr_id, false);
		return 0;
	}
	if (outstanding >= v->init.cap.max_send_wr || shift_conn_secret_due(v->conn, wr))
		return -ENOMEM;
	err = shift_conn_post_send(v->conn, wr, &rail);
	if (err < 0)
		return err;
	if (!outstanding)
		v->self.waits_ns = now_ns();
	self_work(v);
	return 0;
}

/* --- completions of NICs ---------------------------------------------------------------------- */

/* The program's own mistakes would fail on each NIC. */
static bool is_mistake(enum ibv_wc_status status)
{
	return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_PROT_ERR ||
	       status == IBV_WC_LOC_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
	       status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR ||
	       status == IBV_WC_MW_BIND_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR;
}

static bool is_plain(const struct vqp *v, uint8_t rail)
{
	return !rail && v->self.rail[0].done < v->self.plain_end;
}

/* Is it that of the oldest READ on that rail? Else it is of an earlier arming. */
static bool is_expected(const struct vqp *v, uint8_t rail, const struct ibv_wc *wc)
{
	const struct self_rail *r = &v->self.rail[rail];

	return r->state == SELF_READY && any_under_way(r) &&
	       (is_plain(v, rail) || wc->wr_id == ((uint64_t)r->gen << 32 | (uint32_t)r->done));
}

static void rail_done(struct vqp *v, uint8_t rail)
{
	struct self_rail *r = rail_of(v, rail);
	struct shift_sge sge[SGES_MAX];
	struct shift_wr wr;

	r->moved_ns = now_ns();
	while (is_plain(v, rail)) { /* those without a completion are done with the next that has */
		log_at_index(v, r->done++, &wr, sge);
		if (is_visible(v, &wr))
			return;
	}
	if (r->done < r->next)
		r->done++;
}

/* true: engaged from now on. */
static bool engage_by_error(struct vqp *v, uint8_t rail, const struct ibv_wc *wc)
{
	if (!v->self.on || rail || wc->status == IBV_WC_SUCCESS)
		return false;
	if (!is_mistake(wc->status))
		return self_engage(v);
	self_qp_leave_alone(v, STATS_UNPROTECTED_LOOPBACK);
	return false;
}

/* Does it go on without that rail? If it is left alone, it is rail 0's alone. */
static bool may_lose(const struct vqp *v, uint8_t rail, const struct ibv_wc *wc)
{
	return (v->self.on || (rail && is_ready(&v->self.rail[0]))) && !is_mistake(wc->status);
}

bool self_qp_completion(struct vqp *v, uint8_t rail, bool is_recv, const struct ibv_wc *wc)
{
	if (!v->self.engaged && !engage_by_error(v, rail, wc))
		return false;
	if (!rail && is_recv)
		return false;
	if (v->self.failed || !is_expected(v, rail, wc))
		return true;
	if (wc->status == IBV_WC_SUCCESS)
		rail_done(v, rail);
	else if (v->self.ends)
		return true;
	else if (may_lose(v, rail, wc))
		rail_lose(v, rail, ibv_wc_status_str(wc->status));
	else
		self_fail(v, wc->status, wc->vendor_err);
	self_work(v);
	return true;
}

/* --- where the data is ------------------------------------------------------------------------ */

struct domain_use {
	const struct vqp *v;
	uint32_t rails; /* mask */
};

static void use_add(struct vqp *v, void *arg)
{
	struct domain_use *u = arg;

	if (v == u->v || v->pd != u->v->pd)
		return;
	pthread_mutex_lock(&v->lock);
	u->rails |= shift_conn_data_rails(v->conn);
	pthread_mutex_unlock(&v->lock);
}

/* The rails that carry data of its domain, or are about to. Nothing locked. */
static uint32_t domain_rails(const struct vqp *v)
{
	struct domain_use u = {.v = v};

	vqp_each(use_add, &u);
	return u.rails;
}

struct data_comes {
	const struct vpd *pd;
	uint8_t rail;
};

/* With many connections most find it so. While it is engaged its gates are shut. */
static bool follows_already(struct vqp *v, uint8_t rail)
{
	const struct self_rail *r = rail_of(v, rail);
	bool already;

	pthread_mutex_lock(&v->lock);
	already = v->self.engaged && r->wanted && !r->left_ns;
	v->self.follows += already;
	pthread_mutex_unlock(&v->lock);
	return already;
}

static void follow_one(struct vqp *v, void *arg)
{
	const struct data_comes *d = arg;

	if (!v->self.on || v->pd != d->pd || follows_already(v, d->rail))
		return;
	vqp_enter(v);
	if (v->self.on && (v->self.engaged || (d->rail && self_engage(v)))) {
		v->self.follows++;
		rail_want(v, d->rail);
		self_work(v);
	}
	vqp_leave(v);
}

void self_qps_follow(const struct vqp *v, uint8_t rail)
{
	struct data_comes d = {.pd = v->pd, .rail = rail};

	vqp_each(follow_one, &d);
}

/* No data comes there any more. A READ that was posted since then and has completed there had all
 * data before it; without one, the NIC has written all after the quarantine. */
static bool rail_may_go(const struct vqp *v, const struct self_rail *r, uint64_t now)
{
	if (r->state != SELF_READY)
		return true;
	if (r->done > r->left_at)
		return true;
	return now - r->left_ns >= HANGS_NS && r->next == r->done &&
	       r->next == shift_conn_head(v->conn);
}

static bool others_ready(struct vqp *v, uint8_t rail)
{
	bool wanted = rail_of(v, rail)->wanted, any;

	rail_of(v, rail)->wanted = false;
	any = any_ready(v);
	rail_of(v, rail)->wanted = wanted;
	return any;
}

/* A rail that is wanted, and has no data. */
static void idle_review(struct vqp *v, uint8_t rail, uint64_t now)
{
	struct self_rail *r = rail_of(v, rail);

	if (!r->left_ns) {
		r->left_ns = now;
		r->left_at = shift_conn_head(v->conn);
	}
	if (!others_ready(v, rail))
		return;
	if (r->state == SELF_READY && r->done < r->next && now - r->moved_ns >= HANGS_NS &&
	    now - r->left_ns >= HANGS_NS)
		rail_lose(v, rail, "it hangs");
	else if (!r->leaves && (rail || r->state != SELF_READY) && rail_may_go(v, r, now))
		rail_leave(r);
}

static void rail_review(struct vqp *v, uint8_t rail, bool carries, uint64_t now)
{
	struct self_rail *r = rail_of(v, rail);
	bool back = !rail && v->dev->nic[0]->link_up && now - r->tried_ns >= LOOK_NS;

	if (carries || (back && !r->wanted))
		rail_want(v, rail);
	/* Without data, any_want() says which is tried next. */
	if (carries && (r->state == SELF_OFF || r->state == SELF_LOST) &&
	    now - r->tried_ns >= TROUBLE_NS)
		rail_arm(v, rail);
	if (r->wanted && !carries)
		idle_review(v, rail, now);
}

/* It is left alone, but what it has under way on another NIC is waited for. */
static void alone_review(struct vqp *v, uint64_t now)
{
	for (uint8_t i = 1; i < v->dev->rails; i++)
		if (rail_of(v, i)->leaves && now - rail_of(v, i)->moved_ns >= HANGS_NS)
			rail_lose(v, i, "it hangs");
}

static bool is_in_trouble(const struct vqp *v)
{
	for (uint8_t i = 0; i < v->dev->rails; i++)
		if (v->self.rail[i].wanted && v->self.rail[i].state != SELF_READY)
			return true;
	return !any_ready(v);
}

static void self_review(struct vqp *v, uint32_t carries, uint64_t now)
{
	for (uint8_t i = 0; i < v->dev->rails && !v->self.failed && v->self.on; i++)
		rail_review(v, i, carries & 1u << i, now);
	if (v->self.on && !any_ready(v))
		any_want(v);
	if (!v->self.on)
		alone_review(v, now);
	self_work(v);
	if (!v->self.failed && v->self.tail < shift_conn_head(v->conn) && is_in_trouble(v) &&
	    now - v->self.waits_ns >= (env.giveup_ns ? env.giveup_ns : GIVEUP_NS))
		self_fail(v, IBV_WC_RETRY_EXC_ERR, 0);
	v->self.tick_at = v->self.failed ? UINT64_MAX
					 : now + (is_in_trouble(v) ? TROUBLE_NS : LOOK_NS);
}

void self_qp_tick(struct vqp *v)
{
	uint32_t follows, carries;

	if (!v->self.engaged)
		return;
	pthread_mutex_lock(&v->lock);
	follows = v->self.follows;
	pthread_mutex_unlock(&v->lock);
	carries = domain_rails(v);
	vqp_enter(v);
	if (v->self.engaged && !v->self.failed && !v->self.ends && now_ns() >= v->self.tick_at) {
		if (follows == v->self.follows) /* else data has come to a rail meanwhile */
			self_review(v, carries, now_ns());
		else
			v->self.tick_at = now_ns() + TROUBLE_NS;
	}
	vqp_leave(v);
}

/* --- setting up ------------------------------------------------------------------------------- */

bool self_qp_is_named(const struct vqp *v, const struct ibv_qp_attr *a)
{
	const struct nic *nic = v->dev->nic[0];
	union ibv_gid gid;

	if (a->dest_qp_num != v->qpn || a->port_num != nic->port)
		return false;
	if (!a->ah_attr.is_global)
		return nic->ready &&
		       a->ah_attr.dlid == (nic->port_attr.lid | a->ah_attr.src_path_bits);
	return !quietly(
		       real.query_gid(v->dev->ctx, a->port_num, a->ah_attr.grh.sgid_index, &gid)) &&
	       !memcmp(&gid, &a->ah_attr.grh.dgid, sizeof(gid));
}

/* Data of its domain may be on other rails already. */
static void self_catch_up(struct vqp *v)
{
	uint32_t carries = domain_rails(v);

	for (uint8_t i = 1; i < v->dev->rails; i++) {
		struct data_comes d = {.pd = v->pd, .rail = i};

		if (carries & 1u << i)
			follow_one(v, &d);
	}
}

void self_qp_started(struct vqp *v)
{
	if (v->hot.srq || v->self.on || v->self.engaged || v->life.released || v->life.bypassed ||
	    !self_qp_is_named(v, &v->program.attr))
		return;
	vqp_enter(v);
	v->self.on = true;
	stats_conn_protect(v->stats, true, STATS_UNPROTECTED_NONE);
	log_info("QP %#x: connected to itself: its READs follow the data of its domain", v->qpn);
	vqp_leave(v);
	self_catch_up(v);
}
