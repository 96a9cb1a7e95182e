/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/srq_drainer.h"

#include <sys/random.h>
#include <time.h>

#include "lib/base/poll_deadline.h"
#include "lib/base/real_verbs.h"
#include "lib/nic/rc_qp.h"

/* wr_id of its sends. No receive has it (struct vsrq). */
#define SEND_ID 0

#define DRAIN_MAX_NS 1000000000ull
#define FLUSH_MAX_NS 300000000ull
#define LATE_MAX_NS  50000000ull /* a receive's completion behind that of its send */

enum {
	TIMEOUT = 14,	   /* 67 ms */
	RETRIES = 3,	   /* with 7 soft-RoCE retries for ever */
	MIN_RNR_TIMER = 1, /* 10 us; nobody waits for it, as RNR ends a drain */
	POLL_AT_ONCE = 16,
};

/* One drain. */
struct drain {
	struct srq_drainer *d;
	const struct srq_place *at;
	bool (*took)(void *arg, uint64_t id);
	void *arg;
	uint32_t posted, ended, done; /* sends: all, those with a completion, with success */
	uint32_t taken;
	bool unwanted;		   /* took() said so */
	enum ibv_wc_status status; /* the first that was no success */
};

static void drain_pause(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

/* --- making and connecting it ----------------------------------------------------------------- */

static bool drainer_make(struct srq_drainer *d, const struct srq_place *at)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.srq = at->srq,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = SRQ_DRAIN_MAX, .max_send_sge = 1}};

	if (!d->cq)
		d->cq = real.create_cq(at->ctx, 2 * SRQ_DRAIN_MAX, NULL, NULL, 0);
	if (!d->cq)
		return false;
	attr.send_cq = attr.recv_cq = d->cq;
	d->armed = false;
	atomic_store(&d->qp, real.create_qp(at->pd, &attr));
	return atomic_load(&d->qp);
}

static int drainer_to_state(struct srq_drainer *d, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return real.modify_qp(d->qp, &attr, IBV_QP_STATE);
}

static bool drainer_arm(struct srq_drainer *d, const struct srq_place *at)
{
	struct ibv_qp *qp = d->qp;
	struct ibv_qp_attr attr = {
		.port_num = at->nic->port,
		.path_mtu = at->nic->port_attr.active_mtu,
		.dest_qp_num = qp->qp_num,
		.min_rnr_timer = MIN_RNR_TIMER,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = 0,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
	};

	if (getrandom(&attr.sq_psn, 3, 0) != 3)
		attr.sq_psn = 1;
	attr.rq_psn = attr.sq_psn;
	rc_qp_own_path(at->nic, at->ctx, &attr);
	/* If it could not be before: soft-RoCE must not be RESET in RTS. */
	drainer_to_state(d, IBV_QPS_ERR);
	d->armed = !drainer_to_state(d, IBV_QPS_RESET) && rc_qp_to_rts(qp, &attr);
	return d->armed;
}

void srq_drainer_end(struct srq_drainer *d)
{
	struct ibv_qp *qp = atomic_load(&d->qp);

	/* It waits until events of the QP are acknowledged. A thread of the program may have one in
	 * its hand, and is asking whose it is. */
	if (qp)
		real.destroy_qp(qp);
	atomic_store(&d->qp, NULL);
	if (d->cq)
		real.destroy_cq(d->cq);
	d->cq = NULL;
}

/* --- one drain -------------------------------------------------------------------------------- */

static void drain_take(struct drain *r, const struct ibv_wc *wc)
{
	bool ok = wc->status == IBV_WC_SUCCESS;

	if (wc->wr_id == SEND_ID) {
		r->ended++;
		r->done += ok;
		if (!ok && r->status == IBV_WC_SUCCESS)
			r->status = wc->status;
	} else if (ok) { /* what an error names may be of an earlier life (doc/srq.md, S6) */
		r->taken++;
		r->unwanted |= !r->took(r->arg, wc->wr_id);
	}
}

/* false: nothing was there. */
static bool drain_poll(struct drain *r)
{
	struct ibv_wc wc[POLL_AT_ONCE];
	int n = r->at->ops->poll_cq(r->d->cq, POLL_AT_ONCE, wc);

	for (int i = 0; i < n; i++)
		drain_take(r, &wc[i]);
	return n > 0;
}

static bool drain_has_all(const struct drain *r)
{
	return r->ended == r->posted && r->taken >= r->done;
}

static void drain_wait(struct drain *r, uint64_t max_ns)
{
	struct poll_deadline deadline = {.left_ns = max_ns};

	while (!drain_has_all(r) && poll_deadline_left(&deadline))
		if (!drain_poll(r))
			drain_pause(20);
}

static void drain_post(struct drain *r, uint32_t count)
{
	struct ibv_send_wr wr = {.wr_id = SEND_ID, .opcode = IBV_WR_SEND}, *bad = NULL;
	int err = 0;

	while (r->posted < count && !err) {
		err = r->at->ops->post_send(r->d->qp, &wr, &bad);
		if (err && bad)
			return;
		r->posted++; /* an error without bad: it was queued nevertheless (V9) */
	}
}

/* As rule 24 fences a QP: after this nothing of it is outstanding, and all that it has taken was
 * named. */
static void drain_settle(struct drain *r)
{
	r->d->armed = false;
	if (drainer_to_state(r->d, IBV_QPS_ERR))
		return;
	drain_wait(r, FLUSH_MAX_NS);
	drainer_to_state(r->d, IBV_QPS_RESET);
	while (drain_poll(r))
		;
}

static enum shift_srq_drain drain_result(const struct drain *r, uint32_t count)
{
	if (r->status == IBV_WC_RNR_RETRY_EXC_ERR)
		return SHIFT_SRQ_RNR;
	if (r->taken >= count)
		return SHIFT_SRQ_TOOK_ALL;
	return r->posted ? SHIFT_SRQ_FAILED_SENT : SHIFT_SRQ_FAILED;
}

static enum shift_srq_drain drain_once(struct srq_drainer *d, const struct srq_place *at,
				       uint32_t count, bool (*took)(void *arg, uint64_t id),
				       void *arg, bool *unwanted)
{
	struct drain r = {.d = d, .at = at, .took = took, .arg = arg};

	if (!d->qp && !drainer_make(d, at))
		return SHIFT_SRQ_FAILED;
	if (!d->armed && !drainer_arm(d, at))
		return SHIFT_SRQ_FAILED;
	drain_post(&r, count);
	drain_wait(&r, DRAIN_MAX_NS);
	if (r.ended == r.posted && r.done == r.posted)
		drain_wait(&r, LATE_MAX_NS);
	if (r.posted < count || r.done < r.posted || !drain_has_all(&r))
		drain_settle(&r);
	*unwanted = r.unwanted;
	return drain_result(&r, count);
}

/* Where nobody has measured it, one RNR is no proof that nothing is there: a NIC may have answered
 * so while a receive was on its way to it. */
enum shift_srq_drain srq_drainer_run(struct srq_drainer *d, const struct srq_place *at,
				     uint32_t count, bool (*took)(void *arg, uint64_t id),
				     void *arg)
{
	enum shift_srq_drain how;
	bool unwanted = false;

	do {
		uint32_t n = count < SRQ_DRAIN_MAX ? count : SRQ_DRAIN_MAX;

		how = drain_once(d, at, n, took, arg, &unwanted);
		count -= n;
	} while (how == SHIFT_SRQ_TOOK_ALL && count && !unwanted);
	if (how != SHIFT_SRQ_RNR || at->nic->is_rxe)
		return how;
	drain_pause(1000);
	return drain_once(d, at, 1, took, arg, &unwanted);
}
