/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Many programs end at QP_FATAL or PORT_ERR, which is what shift spares them. The program's own
 * call reads the events. We acknowledge for it those that it must not see, because destroy waits
 * for that. Nothing may be read ahead of the program: an event that it has not asked for must not
 * hold up a destroy, either.
 */
#include "lib/verbs/async_events.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/conn_lock.h"

/* Is it protected, and not over? */
static bool conn_survives(struct vqp *v)
{
	struct shift_conn_view view;

	if (!v->conn)
		return false;
	vqp_enter(v);
	shift_conn_view(v->conn, &view);
	vqp_leave(v);
	return view.protected_ && view.state < SHIFT_ST_GIVEUP;
}

struct census {
	const struct vdev *dev;
	bool port_only; /* the port has failed, not the NIC */
	bool some, all; /* some, or all, of the QPs in use are protected */
};

/* Of a connection what the program has asked for counts, wherever that is now. */
static enum ibv_qp_state state_of(struct vqp *v)
{
	enum ibv_qp_state state;

	if (!v->conn || v->life.bypassed)
		return v->qp->state;
	pthread_mutex_lock(&v->lock);
	state = v->program.state;
	pthread_mutex_unlock(&v->lock);
	return state;
}

/* No acknowledgement that stays away ends it. */
static bool outlives_port(const struct vqp *v)
{
	return v->init.qp_type == IBV_QPT_UD || v->init.qp_type == IBV_QPT_UC ||
	       v->init.qp_type == IBV_QPT_RAW_PACKET;
}

static void census_count(struct vqp *v, void *arg)
{
	struct census *c = arg;
	enum ibv_qp_state state = state_of(v);

	if (v->dev != c->dev || state == IBV_QPS_RESET || state == IBV_QPS_INIT ||
	    (c->port_only && outlives_port(v)))
		return;
	if (v->self.on)
		return; /* it lives on, but is no reason to hide anything */
	if (conn_survives(v) && (c->port_only || !vdev_is_alone(v->dev)))
		c->some = true;
	else
		c->all = false;
}

static bool all_survive(const struct vdev *dev, bool port_only)
{
	struct census c = {.dev = dev, .port_only = port_only, .all = !dev->devx_qps};

	vqp_all(census_count, &c);
	return c.some && c.all;
}

static bool is_of_drainer(const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: return vsrq_is_drainer(e->element.qp);
	default: return false;
	}
}

/* While a connection is protected it is our fences that take its QP to ERR, and the program gets an
 * event that is made. Otherwise the NIC's is the program's, the first of each life: soft-RoCE
 * raises it again and again (doc/soft-roce.md). */
static bool last_wqe_is_hidden(struct vqp *v)
{
	bool is_ours;

	if (!v->conn || v->life.bypassed)
		return false;
	vqp_enter(v);
	is_ours = vqp_is_protected(v);
	vqp_leave(v);
	return is_ours || !made_event_say(&v->last_wqe);
}

/* The NIC counts what lies there, and receives lie elsewhere, or it has answered already. */
static bool limit_is_hidden(const struct ibv_srq *srq)
{
	struct vsrq *s = vsrq_find(srq);

	return s && !srq_limit_is_due(s);
}

static bool event_is_hidden(struct vdev *dev, const struct ibv_async_event *e)
{
	struct vqp *v;

	if (is_of_drainer(e))
		return true;
	switch (e->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_PATH_MIG_ERR:
		v = vqp_find(e->element.qp);
		return v && (v->self.on || conn_survives(v));
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		v = vqp_find(e->element.qp);
		return v && last_wqe_is_hidden(v);
	case IBV_EVENT_SRQ_LIMIT_REACHED: return limit_is_hidden(e->element.srq);
	case IBV_EVENT_PORT_ERR:
		dev->port_err_hidden = all_survive(dev, true);
		return dev->port_err_hidden;
	case IBV_EVENT_PORT_ACTIVE:
		return dev->port_err_hidden; /* the program was not told that the port had failed */
	case IBV_EVENT_DEVICE_FATAL: return all_survive(dev, false);
	/* The other events do not concern a rail. */
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_WQ_FATAL: break;
	}
	return false;
}

static bool event_is_pending(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/*
 * The event was hidden. A thread that waits for the next event goes on waiting. A program that
 * calls only when an event is pending has polled the descriptor before: it must not block here, and
 * gets EAGAIN.
 */
static bool may_wait_again(struct vdev *dev, int fd)
{
	if (made_events_waiting(dev) || dev->events_waited_for || event_is_pending(fd) ||
	    fcntl(fd, F_GETFL) & O_NONBLOCK)
		return true;
	errno = EAGAIN;
	return false;
}

/* The descriptor is readable as long as a made event waits (lib/object/event_waker.h). So the last
 * one comes behind what the kernel has: else that would be left, for nothing. */
static bool made_is_next(const struct vdev *dev, int fd)
{
	uint32_t n = made_events_waiting(dev);

	return n > 1 || (n && !event_is_pending(fd));
}

static bool is_of_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_COMM_EST ||
	       type == IBV_EVENT_SQ_DRAINED || type == IBV_EVENT_PATH_MIG ||
	       type == IBV_EVENT_PATH_MIG_ERR || type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

static bool is_of_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
	       type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_PKEY_CHANGE ||
	       type == IBV_EVENT_SM_CHANGE || type == IBV_EVENT_CLIENT_REREGISTER ||
	       type == IBV_EVENT_GID_CHANGE;
}

/* For the flight recorder. Before it is acknowledged. */
static void note_event(const struct vdev *dev, const struct ibv_async_event *e,
		       enum stats_fate fate)
{
	struct stats_async a = {
		.nic = dev->ctx->device->name, .event = e->event_type, .fate = fate};

	if (is_of_qp(e->event_type))
		a.qpn = e->element.qp->qp_num;
	if (is_of_port(e->event_type))
		a.port = (uint8_t)e->element.port_num;
	stats_async_event(&a, now_ns());
}

/* Before it is acknowledged its QP can be told: destroy waits for that. */
static void hide_event(struct vdev *dev, struct ibv_async_event *event)
{
	bool is_wakers = event_waker_heard(dev, event);

	if (!is_wakers) {
		log_info("%s: asynchronous event %d is hidden from the program: its connections "
			 "survive it",
			 dev->ctx->device->name, event->event_type);
		stats_event_hidden();
		if (!is_of_drainer(event))
			note_event(dev, event, STATS_FATE_HIDDEN);
	}
	real.ack_async_event(event);
	/* If one waits, this thread takes it next, or gives the program another and looks then.
	 * Rung for now, the descriptor would be readable for nothing. */
	if (is_wakers && !made_events_waiting(dev))
		event_waker_look(dev);
}

static bool event_is_not_for_program(struct vdev *dev, const struct ibv_async_event *e)
{
	return event_waker_owns(dev, e) || event_is_hidden(dev, e);
}

/* The point of cancellation of the verb. */
static int read_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	int err;

	uncancelled_end();
	err = quietly(real.get_async_event(ctx, event));
	uncancelled_begin();
	return err;
}

/* One of ours, if one waits. */
static bool take_made(struct vdev *dev, struct ibv_async_event *event)
{
	if (!made_event_take(dev, event))
		return false;
	note_event(dev, event, STATS_FATE_MADE);
	return true;
}

static int next_for_program(struct vdev *dev, struct ibv_async_event *event)
{
	int err;

	do {
		if (made_is_next(dev, dev->ctx->async_fd) && take_made(dev, event))
			return 0;
		err = read_event(dev->ctx, event);
		if (err) /* such a NIC's descriptor may be readable for ever */
			return take_made(dev, event) ? 0 : err;
		if (!event_is_not_for_program(dev, event)) {
			note_event(dev, event, STATS_FATE_GIVEN);
			event_waker_look(dev); /* it may have been the last in the kernel */
			return 0;
		}
		hide_event(dev, event);
	} while (may_wait_again(dev, dev->ctx->async_fd));
	return -1;
}

/* A thread that is cancelled takes no event with it: the destroy of its object would wait for the
 * acknowledgement for ever. */
int hook_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct vdev *dev = vdev_find(ctx);

	if (!dev || fork_in_child())
		return quietly(real.get_async_event(ctx, event));
	if (!made_events_waiting(dev) && !event_is_pending(ctx->async_fd) &&
	    !(fcntl(ctx->async_fd, F_GETFL) & O_NONBLOCK))
		dev->events_waited_for = true;
	return uncancelled(next_for_program(dev, event));
}

static bool made_was_acked(const struct ibv_async_event *e)
{
	struct vqp *v = NULL;
	struct vsrq *s = NULL;

	if (e->event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
		v = vqp_find(e->element.qp);
	else if (e->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
		s = vsrq_find(e->element.srq);
	return (v && made_event_acked(&v->last_wqe)) || (s && made_event_acked(&s->limit.event));
}

/* libibverbs counts acknowledgements, and made events are not in its count. */
void hook_ack_async_event(struct ibv_async_event *event)
{
	if (fork_in_child() || !made_was_acked(event))
		real.ack_async_event(event);
}
