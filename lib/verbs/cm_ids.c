/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The descriptor of an event channel is the kernel's, and librdmacm writes its commands there. So
 * it cannot be one of ours that becomes readable. An event that the kernel has not made needs one
 * that it makes: an rdma_cm_id of our own on the program's channel resolves the loopback address,
 * which the kernel reports there (a "wake-up"). When the program reads that, it becomes
 * DISCONNECTED of its own id. It is acknowledged as an event of ours, so the program's
 * rdma_destroy_id() does not wait for it.
 */
#include "lib/verbs/cm_ids.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/table.h"
#include "lib/base/uncancelled.h"
#include "lib/base/worker.h"
#include "lib/conn/conn_lock.h"

/* An id that the program has connected or accepted. Under `lock`, but for what is constant. */
struct cm_conn {
	struct rdma_cm_id *id; /* constant */
	uint32_t number;       /* constant; no other id of this process ever has it */
	uint32_t qpn;	       /* constant */
	bool ended;	       /* by the program, while it was protected */
	bool told;	       /* the program has read DISCONNECTED */
	bool waking;	       /* there is a wake-up for it that was not read yet */
};

struct wake {
	struct wake *next;
	struct rdma_cm_id *id; /* ours */
	struct rdma_event_channel *channel;
	uint32_t number;	     /* of the id that it is for */
	struct rdma_cm_event *event; /* the program has it, and has not acknowledged it */
};

/* That id is over, and the program is to hear of it by then. Background thread, then the worker. */
struct ending {
	struct job job; /* first */
	struct ending *next;
	uint32_t number;
	uint64_t at_ns;
};

static void endings_run(void *arg);

static const struct real_rdmacm *cm;
static void (*session_disconnects)(struct vqp *v, uint32_t number);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* a leaf */
static struct table by_id = TABLE_INIT, by_number = TABLE_INIT; /* of cm_conn; under `lock` */
static uint32_t last_number;
static struct wake *wakes;
static struct ending *endings;
static struct bg_timer ending_timer = {.fn = endings_run};

void cm_set_real(const struct real_rdmacm *rdmacm)
{
	cm = rdmacm;
}

void cm_set_session(void (*disconnects)(struct vqp *v, uint32_t number))
{
	session_disconnects = disconnects;
}

static void cm_lock(void)
{
	uncancelled_begin();
	pthread_mutex_lock(&lock);
}

static void cm_unlock(void)
{
	pthread_mutex_unlock(&lock);
	uncancelled_end();
}

static struct cm_conn *conn_of_id(const struct rdma_cm_id *id)
{
	return table_get(&by_id, (uintptr_t)id);
}

/* --- the QP of an id -------------------------------------------------------------------------- */

struct qp_search {
	const char *device;
	uint32_t qpn;
	struct vqp *found;
};

/* A program that makes its QPs itself may do so in a context of its own. */
static void qp_search_device(struct vdev *dev, void *arg)
{
	struct qp_search *s = arg;

	if (!s->found && strcmp(dev->ctx->device->name, s->device) == 0)
		s->found = table_get(&dev->qps, s->qpn);
}

/* The program is using the QP, and so does not destroy it now. NULL: it has no connection. */
static struct vqp *qp_of_id(const struct rdma_cm_id *id, uint32_t qpn)
{
	struct qp_search s = {.qpn = qpn};

	if (!id->verbs || !qpn)
		return NULL;
	s.device = id->verbs->device->name;
	vdev_each(qp_search_device, &s);
	return s.found;
}

static void conn_add(struct rdma_cm_id *id, struct vqp *v)
{
	struct cm_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	*c = (struct cm_conn){.id = id, .qpn = v->qpn, .number = ++last_number};
	if (table_put(&by_id, (uintptr_t)id, c) || table_put(&by_number, c->number, c)) {
		table_remove(&by_id, (uintptr_t)id);
		free(c);
		return;
	}
	atomic_store(&v->cm_number, c->number);
}

void hook_cm_connects(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	struct vqp *v = qp_of_id(id, id->qp ? id->qp->qp_num : param ? param->qp_num : 0);

	if (!v || fork_in_child())
		return;
	cm_lock();
	if (!conn_of_id(id))
		conn_add(id, v);
	cm_unlock();
}

/* --- wake-ups --------------------------------------------------------------------------------- */

static void loopback_of(int family, struct sockaddr_storage *to)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *in = (struct sockaddr_in *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = family == AF_INET6 ? AF_INET6 : AF_INET;
	if (family == AF_INET6)
		in6->sin6_addr = in6addr_loopback;
	else
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* The kernel needs no route to a loopback address, and no link. With the address of the program's
 * id the wake-up is on its NIC; librdmacm would open another one. */
static int wake_resolve(struct rdma_cm_id *id, struct sockaddr_storage src)
{
	struct sockaddr_storage dst;
	bool is_ip = src.ss_family == AF_INET || src.ss_family == AF_INET6;

	loopback_of(src.ss_family, &dst);
	((struct sockaddr_in *)&src)->sin_port = 0; /* in the same place in IPv6 */
	if (is_ip && !cm->resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 1000))
		return 0;
	return cm->resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000);
}

static void conn_wake(struct cm_conn *c)
{
	struct wake *w = calloc(1, sizeof(*w));

	if (!w || cm->create_id(c->id->channel, &w->id, NULL, CM_PORT_SPACE_TCP)) {
		log_warn("QP %#x: the program cannot be told that it is disconnected (%s)", c->qpn,
			 strerror(errno));
		free(w);
		return;
	}
	w->channel = c->id->channel;
	w->number = c->number;
	w->next = wakes;
	wakes = w;
	c->waking = true;
	if (wake_resolve(w->id, c->id->src))
		log_warn("QP %#x: the program cannot be woken (%s) to be told that it is "
			 "disconnected",
			 c->qpn, strerror(errno));
}

/* Removes the first that fits from the list. NULL: there is none. */
static struct wake *wake_take(bool (*fits)(const struct wake *w, const void *arg), const void *arg)
{
	struct wake **at = &wakes, *w;

	while (*at && !fits(*at, arg))
		at = &(*at)->next;
	w = *at;
	if (w)
		*at = w->next;
	return w;
}

static void wake_put(struct wake *w)
{
	w->next = wakes;
	wakes = w;
}

/* Nothing locked: librdmacm may close a device. */
static void wake_free(struct wake *w)
{
	cm->destroy_id(w->id);
	free(w);
}

static bool wake_is_id(const struct wake *w, const void *id)
{
	return w->id == id;
}

static bool wake_is_event(const struct wake *w, const void *event)
{
	return w->event == event;
}

static bool wake_is_unread_on(const struct wake *w, const void *channel)
{
	return w->channel == channel && !w->event;
}

/* The program's own destroy, which follows, drops what the kernel has not delivered. */
void hook_cm_destroys_channel(struct rdma_event_channel *channel)
{
	struct wake *w;

	if (fork_in_child())
		return;
	do {
		cm_lock();
		w = wake_take(wake_is_unread_on, channel);
		cm_unlock();
		if (w)
			wake_free(w);
	} while (w);
}

void hook_cm_destroys_id(struct rdma_cm_id *id)
{
	struct cm_conn *c;

	if (fork_in_child())
		return;
	cm_lock();
	c = table_remove(&by_id, (uintptr_t)id);
	if (c)
		table_remove(&by_number, c->number);
	cm_unlock();
	free(c);
}

/* A wake-up that was not read yet stays on the old channel, and is another one on the new. */
int hook_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct cm_conn *c;
	int err = cm->migrate_id(id, channel);

	if (err || fork_in_child())
		return err;
	cm_lock();
	c = conn_of_id(id);
	if (c && c->waking)
		conn_wake(c);
	cm_unlock();
	return 0;
}

/* --- the end of a connection ------------------------------------------------------------------ */

static void ending_tell(struct job *job)
{
	struct ending *e = (struct ending *)job;
	struct cm_conn *c;

	cm_lock();
	c = table_get(&by_number, e->number);
	if (c && !c->told && !c->waking) {
		log_info("QP %#x: its RDMA-CM is told that it is disconnected", c->qpn);
		conn_wake(c);
	}
	cm_unlock();
	free(e);
}

/* librdmacm and the kernel may wait there for a NIC, which the background thread must not. */
static void ending_submit(struct ending *e)
{
	static struct worker *worker;

	worker = worker ? worker : worker_new("shift-cm", 1);
	e->job.fn = ending_tell;
	if (worker)
		worker_submit(worker, &e->job);
	else
		free(e);
}

static void endings_run(void *arg)
{
	uint64_t now = now_ns(), next = UINT64_MAX;
	struct ending **at = &endings;

	(void)arg;
	while (*at) {
		struct ending *e = *at;

		if (e->at_ns > now) {
			next = e->at_ns < next ? e->at_ns : next;
			at = &e->next;
			continue;
		}
		*at = e->next;
		ending_submit(e);
	}
	bg_timer_set(&ending_timer, next);
}

void cm_ended(uint32_t number, uint64_t at_ns)
{
	struct ending *e = number ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return;
	*e = (struct ending){.next = endings, .number = number, .at_ns = at_ns};
	endings = e;
	if (!ending_timer.heap_at || at_ns < ending_timer.at_ns)
		bg_timer_set(&ending_timer, at_ns);
}

struct disconnect {
	struct vqp *v;
	uint32_t number;
};

static void disconnect_on_bg(void *arg)
{
	struct disconnect *d = arg;

	session_disconnects(d->v, d->number);
}

static bool is_protected(struct vqp *v)
{
	bool is;

	vqp_enter(v);
	is = vqp_is_protected(v);
	vqp_leave(v);
	return is;
}

/* The peer is told before the kernel is. That may be of no use, but costs nothing. */
void hook_cm_disconnects(struct rdma_cm_id *id)
{
	struct disconnect d = {0};
	struct cm_conn *c;

	if (fork_in_child())
		return;
	cm_lock();
	c = conn_of_id(id);
	if (c && !c->ended) {
		d.v = qp_of_id(id, c->qpn);
		d.number = c->number;
	}
	cm_unlock();
	if (!d.v || atomic_load(&d.v->cm_number) != d.number || !is_protected(d.v))
		return;
	cm_lock();
	c = conn_of_id(id);
	if (c)
		c->ended = true;
	cm_unlock();
	bg_call_wait(disconnect_on_bg, &d);
}

/* --- events ----------------------------------------------------------------------------------- */

struct survival {
	uint32_t number;
	bool survives;
};

static void qp_survives(struct vqp *v, void *arg)
{
	struct survival *s = arg;
	struct shift_conn_view view;

	if (atomic_load(&v->cm_number) != s->number)
		return;
	vqp_enter(v);
	shift_conn_view(v->conn, &view);
	vqp_leave(v);
	s->survives = view.protected_ && view.state < SHIFT_ST_GIVEUP;
}

static bool number_survives(uint32_t number)
{
	struct survival s = {.number = number};

	vqp_each(qp_survives, &s);
	return s.survives;
}

enum verdict {
	GIVE,
	HIDE,
	HIDE_IF_SURVIVED, /* it is about the NIC or the path of rail 0 */
};

/*
 * What the kernel says of rail 0 does not concern a connection that can move. Linux 6.0 and later
 * say UNREACHABLE of an established one when the peer's MAC address is not known any more. Who
 * reads that after having disconnected need not know, either. A second DISCONNECTED, the kernel's
 * or ours, is not for the program.
 */
static enum verdict conn_judge(struct cm_conn *c, const struct rdma_cm_event *e)
{
	bool again = c->told;

	if (e->event == CM_EVENT_DISCONNECTED) {
		c->told = true;
		return again ? HIDE : GIVE;
	}
	if (e->event != CM_EVENT_UNREACHABLE && e->event != CM_EVENT_ADDR_CHANGE &&
	    e->event != CM_EVENT_DEVICE_REMOVAL)
		return GIVE;
	return c->ended ? HIDE : HIDE_IF_SURVIVED;
}

static bool cm_event_is_hidden(const struct rdma_cm_event *e)
{
	enum verdict verdict;
	struct cm_conn *c;
	uint32_t number;

	cm_lock();
	c = conn_of_id(e->id);
	verdict = c ? conn_judge(c, e) : GIVE;
	number = c ? c->number : 0;
	cm_unlock();
	return verdict == HIDE_IF_SURVIVED ? number_survives(number) : verdict == HIDE;
}

/* false: it has come too late, and tells the program nothing. */
static bool wake_becomes_event(struct wake *w, struct rdma_cm_event *e)
{
	struct cm_conn *c = table_get(&by_number, w->number);

	if (!c || c->told || c->id->channel != w->channel)
		return false;
	c->waking = false;
	c->told = true;
	w->event = e;
	e->id = c->id;
	e->event = CM_EVENT_DISCONNECTED;
	e->status = 0;
	wake_put(w);
	return true;
}

enum wake_up { NO_WAKE_UP, BECAME_EVENT, CAME_TOO_LATE };

static enum wake_up event_wakes(struct rdma_cm_event *e)
{
	enum wake_up what = NO_WAKE_UP;
	struct wake *w;

	cm_lock();
	w = wake_take(wake_is_id, e->id);
	if (w)
		what = wake_becomes_event(w, e) ? BECAME_EVENT : CAME_TOO_LATE;
	cm_unlock();
	if (what == CAME_TOO_LATE) {
		cm->ack_cm_event(e);
		wake_free(w);
	}
	return what;
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

/*
 * Who has slept in the verb goes on sleeping. But a thread that has found the event without waiting
 * may have polled the descriptor, and waits for other things there. It must get something: another
 * event, if one comes soon; else a hint that programs ignore, as nothing has happened to the
 * connection.
 */
enum { POLLED_MS = 1000 };

static bool must_get_something(int fd, bool slept)
{
	int flags = fcntl(fd, F_GETFL);

	return !slept && flags >= 0 && !(flags & O_NONBLOCK) &&
	       !uncancelled(is_readable(fd, POLLED_MS));
}

static void event_hide(struct rdma_cm_event *e)
{
	log_info("RDMA-CM event %d is hidden from the program: its connection survives it",
		 e->event);
	stats_event_hidden();
	cm->ack_cm_event(e);
}

/* 0; else it is to be tried again, or EAGAIN is to be said. */
enum { AGAIN = 1, NOTHING };

static int event_filter(int fd, struct rdma_cm_event *e, bool slept)
{
	switch (event_wakes(e)) {
	case BECAME_EVENT: return 0;
	case CAME_TOO_LATE: return must_get_something(fd, slept) ? NOTHING : AGAIN;
	case NO_WAKE_UP: break;
	}
	if (!cm_event_is_hidden(e))
		return 0;
	if (must_get_something(fd, slept)) {
		e->event = CM_EVENT_ADDR_CHANGE;
		e->status = 0;
		return 0;
	}
	event_hide(e);
	return AGAIN;
}

/* The program's pointer is that of its id (librdmacm itself passes it): it is written only when
 * there is an event to be acknowledged. */
int hook_cm_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct rdma_cm_event *e;
	int what = AGAIN, err;
	bool slept;

	if (!event || fork_in_child())
		return cm->get_cm_event(channel, event);
	while (what == AGAIN) {
		slept = !is_readable(channel->fd, 0);
		err = cm->get_cm_event(channel, &e);
		if (err)
			return err;
		what = event_filter(channel->fd, e, slept);
	}
	if (what == NOTHING) {
		errno = EAGAIN;
		return -1;
	}
	*event = e;
	return 0;
}

int hook_cm_ack_event(struct rdma_cm_event *event)
{
	struct wake *w = NULL;
	int err;

	if (event && !fork_in_child()) {
		cm_lock();
		w = wake_take(wake_is_event, event);
		cm_unlock();
	}
	err = cm->ack_cm_event(event);
	if (w)
		wake_free(w);
	return err;
}
