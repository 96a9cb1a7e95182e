/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/srq_all.h"

#include <stdlib.h>

#include "lib/base/log.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/drain.h"

struct srq_qps {
	struct vsrq *s;
	struct vqp **qps; /* with a reference each */
	size_t n, room;
};

static void note_qp(struct vqp *v, void *arg)
{
	struct srq_qps *e = arg;

	if (v->hot.srq != e->s || v->life.gone || e->n == e->room)
		return;
	object_get(&v->obj);
	e->qps[e->n++] = v;
}

static void count_qp(struct vqp *v, void *arg)
{
	struct srq_qps *e = arg;

	e->room += v->hot.srq == e->s;
}

/* The QPs of an SRQ, so that each can be worked on without the lock of the table. */
static void find_qps(struct srq_qps *e)
{
	vqp_each(count_qp, e);
	e->qps = calloc(e->room + 1, sizeof(*e->qps));
	if (!e->qps)
		e->room = 0;
	vqp_each(note_qp, e);
}

/* Does its data use NIC k? A planned switch may be under way: it waits for what is outstanding, and
 * that may wait for the receive that is missing. In other states it leaves anyway, or is over. */
static bool qp_is_on(const struct vqp *v, unsigned int k)
{
	struct shift_conn_view view;

	shift_conn_view(v->conn, &view);
	return !v->life.gone && view.r == k &&
	       (view.state == SHIFT_ST_ACTIVE || view.state == SHIFT_ST_PREPARE ||
		view.state == SHIFT_ST_DRAIN);
}

/* It is told that the NIC has refused a request. If no other rail can take over it comes back to
 * this one: what counts is that its QP has been fenced (S5). */
static void qp_leaves_nic(struct vqp *v, unsigned int k)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED, .rail = (uint8_t)k};

	vqp_enter(v);
	if (qp_is_on(v, k)) {
		ev.epoch = v->rails.armed_epoch[k];
		log_info("QP %#x: leaves %s, where receives of its shared receive queue are "
			 "missing",
			 v->qpn, v->dev->nic[k]->name);
		shift_conn_event(v->conn, &ev, now_ns());
	}
	vqp_leave(v);
}

static void with_qps(struct vsrq *s, void (*fn)(struct vqp *v, unsigned int k), unsigned int k)
{
	struct srq_qps e = {.s = s};

	find_qps(&e);
	for (size_t i = 0; i < e.n; i++) {
		fn(e.qps[i], k);
		object_put(&e.qps[i]->obj);
	}
	free(e.qps);
}

void srq_qps_evict(struct vsrq *s, unsigned int k)
{
	with_qps(s, qp_leaves_nic, k);
}

/* Most QPs of an SRQ share their CQs. */
static bool has_its_cqs(const struct vqp *v, const struct vqp *fed)
{
	return fed && !fed->life.gone && v->send_cq == fed->send_cq && v->recv_cq == fed->recv_cq;
}

void srq_qps_feed(struct vsrq *s)
{
	struct srq_qps e = {.s = s};
	struct vqp *fed = NULL;

	find_qps(&e);
	for (size_t i = 0; i < e.n; i++) {
		if (has_its_cqs(e.qps[i], fed))
			continue;
		fed = e.qps[i];
		vqp_drain_unless_gone(fed);
	}
	for (size_t i = 0; i < e.n; i++)
		object_put(&e.qps[i]->obj);
	free(e.qps);
}
