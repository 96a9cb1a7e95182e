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
	uint32_t qpn;
	struct rdma_event_channel *channel; /* NULL: it migrates now, or its channel is gone */
	bool established;		    /* the program has read so, or is about to */
	bool ended;			    /* by the program, while it was protected */
	bool told;			    /* the program has read DISCONNECTED */
	bool waking;			    /* there is a wake-up for it that was not read yet */
	bool wanted;			    /* a wake-up, when it has a channel again */
	bool watched;			    /* what was hidden may have been its end after all */
};

struct wake {
	struct wake *next;
	struct rdma_cm_id *id;		    /* ours */
	struct rdma_event_channel *channel; /* NULL: it is gone, and with it our id in the kernel */
	uint32_t number;		    /* of the id that it is for */
	struct rdma_cm_event *event;	    /* the program has it, and has not acknowledged it */
	bool in_id;   /* librdmacm has it for the program, and acknowledges it */
	bool dropped; /* its id is being destroyed */
};

/* That id is over, and the program is to hear of it by then. Background thread, then the worker. */
struct ending {
	struct job job; /* first */
	struct ending *next;
	uint32_t number;
	uint64_t at_ns;
	bool watch; /* only if it has not survived */
};

static void endings_run(void *arg);

static const struct real_rdmacm *cm;
static void (*session_disconnects)(struct vqp *v, uint32_t number);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* also over calls of librdmacm */
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;	/* a wake's event */
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

	if (!s->found && strcmp(dev->nic[0]->name, s->device) == 0)
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

/* After an attempt that failed it may have another QP. */
static void conn_has_qp(struct cm_conn *c, struct vqp *v)
{
	c->qpn = v->qpn;
	atomic_store(&v->cm_number, c->number);
}

static void conn_add(struct rdma_cm_id *id, struct vqp *v)
{
	struct cm_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	*c = (struct cm_conn){.id = id, .channel = id->channel, .number = ++last_number};
	if (table_put(&by_id, (uintptr_t)id, c) || table_put(&by_number, c->number, c)) {
		table_remove(&by_id, (uintptr_t)id);
		free(c);
		return;
	}
	conn_has_qp(c, v);
}

void hook_cm_connects(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	struct vqp *v = qp_of_id(id, id->qp ? id->qp->qp_num : param ? param->qp_num : 0);
	struct cm_conn *c;

	if (!v || fork_in_child())
		return;
	cm_lock();
	c = conn_of_id(id);
	if (!c)
		conn_add(id, v);
	else if (c->qpn != v->qpn)
		conn_has_qp(c, v);
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

/* Removes it from the list. */
static void wake_unlink(const struct wake *w)
{
	struct wake **at = &wakes;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
}

static struct wake *wake_find(bool (*fits)(const struct wake *w, const void *arg), const void *arg)
{
	struct wake *w = wakes;

	while (w && !fits(w, arg))
		w = w->next;
	return w;
}

/* The first that fits, which is in the list no more. NULL: there is none. */
static struct wake *wake_take(bool (*fits)(const struct wake *w, const void *arg), const void *arg)
{
	struct wake *w = wake_find(fits, arg);

	if (w)
		wake_unlink(w);
	return w;
}

/* Returns what has failed, to be freed when nothing is locked; or NULL. */
static struct wake *conn_wake(struct cm_conn *c)
{
	struct wake *w = calloc(1, sizeof(*w));

	c->wanted = !c->channel;
	if (c->wanted || !w || cm->create_id(c->channel, &w->id, NULL, CM_PORT_SPACE_TCP)) {
		if (!c->wanted)
			log_warn("QP %#x: the program cannot be told that it is disconnected (%s)",
				 c->qpn, strerror(errno));
		free(w);
		return NULL;
	}
	w->channel = c->channel;
	w->number = c->number;
	w->next = wakes;
	wakes = w;
	c->waking = true;
	if (!wake_resolve(w->id, c->id->route.src))
		return NULL;
	log_warn("QP %#x: the program cannot be woken (%s) to be told that it is disconnected",
		 c->qpn, strerror(errno));
	c->waking = false;
	wake_unlink(w);
	return w;
}

/* Nothing locked: librdmacm may close a device. */
static void wake_free(struct wake *w)
{
	if (w && w->channel) /* without one librdmacm's part stays: it would write to it */
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

static bool wake_is_on(const struct wake *w, const void *channel)
{
	return w->channel == channel && !w->dropped;
}

static bool wake_is_unread_of(const struct wake *w, const void *number)
{
	return w->number == *(const uint32_t *)number && !w->event && !w->dropped;
}

static bool wake_is_held_of(const struct wake *w, const void *number)
{
	return w->number == *(const uint32_t *)number && w->event && !w->in_id;
}

/* It stays in the list until librdmacm has destroyed its id: another thread may have read its event
 * just now, and finds it there. Nothing locked. */
static void wake_drop_unread(uint32_t number)
{
	struct wake *w;

	do {
		cm_lock();
		w = wake_find(wake_is_unread_of, &number);
		if (w)
			w->dropped = true;
		cm_unlock();
		if (!w)
			return;
		cm->destroy_id(w->id);
		cm_lock();
		wake_unlink(w);
		cm_unlock();
		free(w);
	} while (true);
}

static void conn_loses_channel(void *conn, void *channel)
{
	struct cm_conn *c = conn;

	if (c->channel == channel)
		c->channel = NULL;
}

static void wakes_lose_channel(const struct rdma_event_channel *channel)
{
	for (struct wake *w = wakes; w; w = w->next)
		if (w->channel == channel && w->event)
			w->channel = NULL;
}

/* The program's own destroy, which follows, drops what the kernel has not delivered. */
void hook_cm_destroys_channel(struct rdma_event_channel *channel)
{
	struct wake *w;

	if (fork_in_child())
		return;
	do {
		cm_lock();
		table_each(&by_number, conn_loses_channel, channel);
		wakes_lose_channel(channel);
		w = wake_take(wake_is_on, channel);
		cm_unlock();
		wake_free(w);
	} while (w);
}

static void wait_for_acknowledgement(uint32_t number)
{
	cm_lock();
	while (wake_find(wake_is_held_of, &number))
		pthread_cond_wait(&acknowledged, &lock);
	cm_unlock();
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
	if (!c)
		return;
	wake_drop_unread(c->number);
	wait_for_acknowledgement(c->number);
	free(c);
}

/* librdmacm may destroy the old channel. A wake-up that was not read yet stays there, and is
 * another one on the new. */
int hook_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct wake *failed = NULL;
	struct cm_conn *c;
	int err;

	if (fork_in_child())
		return cm->migrate_id(id, channel);
	cm_lock();
	c = conn_of_id(id);
	if (c)
		c->channel = NULL;
	cm_unlock();
	err = cm->migrate_id(id, channel);
	cm_lock();
	c = conn_of_id(id);
	if (c)
		c->channel = id->channel;
	if (c && (c->wanted || (c->waking && !err)))
		failed = conn_wake(c);
	cm_unlock();
	wake_free(failed);
	return err;
}

/* --- the end of a connection ------------------------------------------------------------------ */

static void ending_tell(struct job *job)
{
	struct ending *e = (struct ending *)job;
	struct wake *failed = NULL;
	struct cm_conn *c;

	cm_lock();
	c = table_get(&by_number, e->number);
	if (c && !c->told && !c->waking) {
		log_info("QP %#x: its RDMA-CM is told that it is disconnected", c->qpn);
		failed = conn_wake(c);
	}
	cm_unlock();
	wake_free(failed);
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

enum fate { GONE, SURVIVES, IS_HOME, IS_OVER };

struct fate_search {
	uint32_t number;
	bool alone_is_over; /* the NIC of rail 0 is gone, with all its rails */
	enum fate fate;
};

static void fate_of_qp(struct vqp *v, void *arg)
{
	struct fate_search *s = arg;
	struct shift_conn_view view;

	if (atomic_load(&v->cm_number) != s->number)
		return;
	vqp_enter(v);
	shift_conn_view(v->conn, &view);
	vqp_leave(v);
	if (!view.protected_ || view.state >= SHIFT_ST_GIVEUP ||
	    (s->alone_is_over && vdev_is_alone(v->dev)))
		s->fate = IS_OVER;
	else
		s->fate = !view.r && view.state == SHIFT_ST_ACTIVE ? IS_HOME : SURVIVES;
}

/* Nothing locked. */
static enum fate fate_of(uint32_t number, bool alone_is_over)
{
	struct fate_search s = {.number = number, .alone_is_over = alone_is_over};

	vqp_each(fate_of_qp, &s);
	return s.fate;
}

static void conn_unwatch(uint32_t number)
{
	struct cm_conn *c;

	cm_lock();
	c = table_get(&by_number, number);
	if (c)
		c->watched = false;
	cm_unlock();
}

/* How often one looks whether a connection of which the program has heard nothing goes on. */
#define WATCH_NS 2000000000ull

/* false: not now. */
static bool ending_is_over(struct ending **at, uint64_t now)
{
	struct ending *e = *at;
	enum fate fate = IS_OVER;

	if (e->at_ns > now)
		return false;
	if (e->watch)
		fate = fate_of(e->number, false);
	if (fate == SURVIVES) {
		e->at_ns = now + WATCH_NS;
		return false;
	}
	*at = e->next;
	if (e->watch)
		conn_unwatch(e->number);
	if (fate == IS_OVER)
		ending_submit(e);
	else
		free(e);
	return true;
}

static void endings_run(void *arg)
{
	uint64_t now = now_ns(), next = UINT64_MAX;
	struct ending **at = &endings;

	(void)arg;
	while (*at) {
		if (ending_is_over(at, now))
			continue;
		next = (*at)->at_ns < next ? (*at)->at_ns : next;
		at = &(*at)->next;
	}
	bg_timer_set(&ending_timer, next);
}

static void ending_add(uint32_t number, uint64_t at_ns, bool watch)
{
	struct ending *e = number ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return;
	*e = (struct ending){.next = endings, .number = number, .at_ns = at_ns, .watch = watch};
	endings = e;
	if (!ending_timer.heap_at || at_ns < ending_timer.at_ns)
		bg_timer_set(&ending_timer, at_ns);
}

void cm_ended(uint32_t number, uint64_t at_ns)
{
	ending_add(number, at_ns, false);
}

struct disconnect {
	uint32_t number;
	bool expects, said;
};

static void disconnect_qp(struct vqp *v, void *arg)
{
	struct disconnect *d = arg;

	if (atomic_load(&v->cm_number) != d->number)
		return;
	vqp_enter(v);
	d->said = vqp_is_protected(v);
	vqp_leave(v);
	if (d->said)
		session_disconnects(v, d->expects ? d->number : 0);
}

static void disconnect_on_bg(void *arg)
{
	vqp_each(disconnect_qp, arg);
}

/* The peer is told before the kernel is. That may be of no use, but costs nothing. */
void hook_cm_disconnects(struct rdma_cm_id *id, bool expects)
{
	struct disconnect d = {.expects = expects};
	struct cm_conn *c;

	if (fork_in_child())
		return;
	cm_lock();
	c = conn_of_id(id);
	if (c && !c->ended)
		d.number = c->number;
	cm_unlock();
	if (!d.number)
		return;
	bg_call_wait(disconnect_on_bg, &d);
	cm_lock();
	c = conn_of_id(id);
	if (c)
		c->ended |= d.said;
	cm_unlock();
}

/* --- events ----------------------------------------------------------------------------------- */

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

	switch (e->event) {
	case CM_EVENT_ESTABLISHED:
	case CM_EVENT_CONNECT_RESPONSE: c->established = true; return GIVE;
	case CM_EVENT_DISCONNECTED: c->told = true; return again ? HIDE : GIVE;
	case CM_EVENT_UNREACHABLE:
	case CM_EVENT_ADDR_CHANGE:
	case CM_EVENT_DEVICE_REMOVAL: break;
	default: return GIVE;
	}
	if (!c->established) /* its own attempt has failed */
		return GIVE;
	return c->ended ? HIDE : HIDE_IF_SURVIVED;
}

static void watch_on_bg(void *number)
{
	ending_add(*(uint32_t *)number, now_ns() + WATCH_NS, true);
}

/* What was hidden does not come again. So if the connection does not survive after all, the program
 * gets DISCONNECTED. */
static void conn_watch(uint32_t number)
{
	struct cm_conn *c;
	bool begins;

	cm_lock();
	c = table_get(&by_number, number);
	begins = c && !c->watched;
	if (begins)
		c->watched = true;
	cm_unlock();
	if (begins)
		bg_call_wait(watch_on_bg, &number);
}

static bool is_survived(uint32_t number, const struct rdma_cm_event *e)
{
	enum fate fate = fate_of(number, e->event == CM_EVENT_DEVICE_REMOVAL);

	if (fate != SURVIVES && fate != IS_HOME)
		return false;
	conn_watch(number);
	return true;
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
	if (number && e->event == CM_EVENT_DISCONNECTED)
		wake_drop_unread(number);
	return verdict == HIDE_IF_SURVIVED ? is_survived(number, e) : verdict == HIDE;
}

/* false: it has come too late, and tells the program nothing. */
static bool wake_becomes_event(struct wake *w, struct rdma_cm_event *e, struct rdma_cm_event **to)
{
	struct cm_conn *c = table_get(&by_number, w->number);

	if (!c || c->told || c->channel != w->channel)
		return false;
	c->waking = false;
	c->told = true;
	w->event = e;
	w->in_id = to == &c->id->event;
	e->id = c->id;
	e->event = CM_EVENT_DISCONNECTED;
	e->status = 0;
	return true;
}

enum wake_up { NO_WAKE_UP, BECAME_EVENT, CAME_TOO_LATE };

/* The kernel says more than one thing of our id if its NIC goes. */
static enum wake_up event_wakes(struct rdma_cm_event *e, struct rdma_cm_event **to)
{
	enum wake_up what = NO_WAKE_UP;
	struct wake *w, *late = NULL;
	uint32_t number = 0;

	cm_lock();
	w = wake_find(wake_is_id, e->id);
	if (w && !w->event && !w->dropped && wake_becomes_event(w, e, to)) {
		what = BECAME_EVENT;
		number = w->number;
	} else if (w) {
		what = CAME_TOO_LATE;
	}
	if (what == CAME_TOO_LATE && !w->event && !w->dropped) {
		late = w;
		wake_unlink(w);
	}
	cm_unlock();
	if (what == CAME_TOO_LATE)
		cm->ack_cm_event(e);
	wake_free(late);
	wake_drop_unread(number); /* others, on channels that it has left */
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
 * event, if there is one; else a hint that programs ignore, as nothing has happened to the
 * connection.
 */
static bool must_get_something(int fd, bool slept)
{
	int flags = fcntl(fd, F_GETFL);

	return !slept && flags >= 0 && !(flags & O_NONBLOCK) && !is_readable(fd, 0);
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

static int event_filter(int fd, struct rdma_cm_event *e, struct rdma_cm_event **to, bool slept)
{
	switch (event_wakes(e, to)) {
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
		what = event_filter(channel->fd, e, event, slept);
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
	wake_free(w);
	pthread_cond_broadcast(&acknowledged);
	return err;
}
