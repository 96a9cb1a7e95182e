/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/twin.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/protection.h"
#include "lib/conn/srq_qps.h"

/* How many completions of sends a twin may have outstanding, the marker's included. */
static uint32_t twin_sends(const struct vqp *v)
{
	return v->init.cap.max_send_wr + 1;
}

static uint32_t twin_receives(const struct vqp *v)
{
	return v->init.cap.max_recv_wr + !v->init.cap.max_recv_wr;
}

/* Completions of an SRQ's receives: as many as the program has made room for in its own CQ. */
static uint32_t shared_receives(const struct vqp *v)
{
	return v->hot.srq ? (uint32_t)v->recv_cq->cq->cqe : 0;
}

static void twin_release_cqes(struct vqp *v, const struct nic *nic)
{
	v->send_cq->shadow[nic->index].wanted -= twin_sends(v);
	v->recv_cq->shadow[nic->index].wanted -= twin_receives(v);
}

/* With room for the marker of a fence, if the NIC has it. If not, the marker waits for the flush.
 */
static struct ibv_qp *twin_try_create(struct ibv_pd *pd, const struct ibv_qp_init_attr *wanted)
{
	struct ibv_qp_init_attr attr = *wanted;
	struct ibv_qp *qp;

	attr.cap.max_send_wr++;
	qp = real.create_qp(pd, &attr);
	if (qp)
		return qp;
	attr = *wanted;
	return real.create_qp(pd, &attr);
}

/* A twin has the attributes of the program's QP. */
static struct ibv_qp *twin_make(struct vqp *v, struct nic *nic, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr attr = v->init;
	struct ibv_qp *qp;

	attr.qp_context = NULL;
	attr.cap.max_recv_wr = twin_receives(v);
	if (v->hot.srq) {
		attr.srq = vsrq_shadow(v->hot.srq, (unsigned int)vqp_twin_rail_on(v, nic));
		if (!attr.srq)
			return NULL;
	}
	attr.send_cq = vcq_shadow(v->send_cq, nic, twin_sends(v), 0);
	attr.recv_cq = vcq_shadow(v->recv_cq, nic, twin_receives(v), shared_receives(v));
	if (!attr.send_cq || !attr.recv_cq)
		return NULL;
	qp = twin_try_create(pd, &attr);
	if (qp && vqp_publish_twin(v, nic, qp->qp_num)) {
		real.destroy_qp(qp);
		qp = NULL;
	}
	if (!qp)
		twin_release_cqes(v, nic);
	return qp;
}

/* Only rails that have a twin protect the connection. */
static void twin_report(struct vqp *v, int rail, bool failed)
{
	struct shift_conn_view view;

	if (v->rails.twin[rail].failed == failed)
		return;
	vqp_enter(v);
	v->rails.twin[rail].failed = failed;
	if (failed)
		vdev_rail_lost(v->dev, (uint8_t)rail);
	shift_conn_view(v->conn, &view);
	if (view.protected_ && view.state < SHIFT_ST_GIVEUP)
		vqp_report_protection(v);
	vqp_leave(v);
}

void twin_create(struct object *obj, struct nic *nic)
{
	struct vqp *v = (struct vqp *)obj;
	struct ibv_pd *pd = atomic_load(&v->pd->shadow[nic->index]);
	int rail = vqp_twin_rail_on(v, nic);
	struct ibv_qp *qp;

	if (!pd || rail < 0 || vqp_rail_qp(v, (uint8_t)rail) || v->life.gone)
		return;
	qp = twin_make(v, nic, pd);
	if (!qp) {
		log_warn("QP %#x: no twin on %s (%s): the connection cannot move there", v->qpn,
			 nic->name, strerror(errno));
		twin_report(v, rail, true);
		return;
	}
	atomic_store(&v->rails.twin[rail].qp, qp);
	twin_report(v, rail, false);
}

static bool rail_is_at_work(struct vqp *v, uint8_t rail)
{
	bool at_work;

	pthread_mutex_lock(&v->lock);
	at_work = v->rails.jobs[rail].under_way;
	pthread_mutex_unlock(&v->lock);
	return at_work;
}

void twin_destroy(struct object *obj, struct nic *nic)
{
	struct vqp *v = (struct vqp *)obj;
	const struct timespec ms = {.tv_nsec = 1000000};
	int rail = vqp_twin_rail_on(v, nic);
	struct ibv_qp *qp;

	/* If a fence was taken for hung, it may still be under way, and so may an arming. */
	while (rail >= 0 && rail_is_at_work(v, (uint8_t)rail))
		nanosleep(&ms, NULL);
	qp = rail < 0 ? NULL : atomic_exchange(&v->rails.twin[rail].qp, NULL);
	if (!qp)
		return;
	vqp_unpublish_twin(v, nic, qp->qp_num);
	real.destroy_qp(qp);
	srq_qp_leave_ended(v, (uint8_t)rail); /* the program may have been answered long ago */
	twin_release_cqes(v, nic);
}
