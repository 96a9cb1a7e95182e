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
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/readable.h"
#include "lib/base/table.h"
#include "lib/base/uncancelled.h"
#include "lib/base/worker.h"
#include "lib/conn/conn_lock.h"
#include "lib/verbs/cm_reading.h"

/* An id that the program has connected or accepted. Under `lock`, but for what is constant. */
struct cm_conn {
	struct rdma_cm_id *id; /* constant */
	uint32_t number;       /* constant; no other id of this process ever has it */
	uint32_t qpn;
	struct rdma_event_channel *channel; /* NULL: it migrates now, or its channel is gone */
	bool established;		    /* the program has read so, or is about to */
	bool ended;			    /* by the program, while it was protected */
	bool expects;			    /* so that it will get DISCONNECTED of us */
	bool told;			    /* the program has read DISCONNECTED */
	bool waking;			    /* there is a wake-up for it that was not read yet */
	bool wanted;			    /* a wake-up, when it has a channel again */
	bool lost_nic;			    /* that of rail 0, of which the program has not heard */
	bool gone;			    /* the program destroys it */
};

struct wake {
	struct wake *next;
	struct rdma_cm_id *id;		    /* ours; its `context` is this wake */
	struct rdma_event_channel *channel; /* NULL: it is gone, and with it our id in the kernel */
	uint32_t number;		    /* of the id that it is for */
	struct rdma_cm_event *event;	    /* the program has it, and has not acknowledged it */
	bool in_id; /* it was read to the program's id, and librdmacm acknowledges what is there */
	bool dropped; /* a thread is in wake_end() for it */
};

/* That id is over, and the program is to hear of it by then. Background thread, then the worker. */
struct ending {
	struct job job; /* first */
	struct ending *next;
	uint32_t number;
	uint64_t at_ns;
	bool watch;   /* only if it has not survived */
	bool no_home; /* the kernel will not tell, though it is on rail 0: its NIC was removed */
	bool qp_gone; /* only if its NIC, too, was removed: else the kernel will tell */
};

static void endings_run(void *arg);

static const struct real_rdmacm *cm;
static void (*session_disconnects)(struct vqp *v, uint32_t number);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* also over calls of librdmacm */
static pthread_cond_t wake_ended = PTHREAD_COND_INITIALIZER;
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

/* Also one that goes, whose memory librdmacm may have given to another id already. */
static struct cm_conn *conn_at(const struct rdma_cm_id *id)
{
	return table_get(&by_id, (uintptr_t)id);
}

static struct cm_conn *conn_of_id(const struct rdma_cm_id *id)
{
	struct cm_conn *c = conn_at(id);

	return c && !c->gone ? c : NULL;
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

/* After an attempt that failed it may have another QP, or another life of the same. */
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
	if (c)
		conn_has_qp(c, v);
	else
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

static struct wake *wake_find(bool (*fits)(const struct wake *w, const void *arg), const void *arg)
{
	struct wake *w = wakes;

	while (w && !fits(w, arg))
		w = w->next;
	return w;
}

/* Returns what has failed, for wake_end(); or NULL. */
static struct wake *conn_wake(struct cm_conn *c)
{
	struct wake *w = calloc(1, sizeof(*w));

	c->wanted = !c->channel;
	if (c->wanted || !w || cm->create_id(c->channel, &w->id, w, CM_PORT_SPACE_TCP)) {
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
	w->dropped = true;
	return w;
}

/*
 * The only way out for a wake, whose `dropped` the caller has set; or NULL. It stays in the list
 * until librdmacm has destroyed its id. Another thread may have read an event of it just now, and
 * finds it there; and who is to free the channel can wait. Nothing locked: librdmacm waits until
 * all events of the id are acknowledged, and may close a device.
 */
static void wake_end(struct wake *w)
{
	struct wake **at = &wakes;

	if (!w)
		return;
	if (w->channel) /* without one librdmacm's part stays: it would write to it */
		cm->destroy_id(w->id);
	cm_lock();
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	pthread_cond_broadcast(&wake_ended);
	cm_unlock();
	free(w);
}

/* librdmacm may have freed ours, and given its memory to the program: its address is not enough. */
static bool wake_is_id(const struct wake *w, const void *id)
{
	return w->id == id && w->id->context == w;
}

static bool wake_is_event(const struct wake *w, const void *event)
{
	return w->event == event && !w->dropped;
}

/* An event of it is in the program's id: librdmacm has read it around us, or its caller to there.
 * It cannot end until that is acknowledged, when it leaves that. The program may have left there
 * what it has acknowledged, at whose address the next event, `read`, is now. */
static bool wake_is_in_id(const struct wake *w, const struct rdma_cm_event *read)
{
	const struct cm_conn *c = table_get(&by_number, w->number);
	const struct rdma_cm_event *e = c ? c->id->event : NULL;

	return e && e != read && (w->event ? w->in_id && w->event == e : e->id == w->id);
}

static bool wake_is_unread_on(const struct wake *w, const void *channel)
{
	return w->channel == channel && !w->event && !w->dropped;
}

static bool wake_is_unread_of(const struct wake *w, const void *number)
{
	return w->number == *(const uint32_t *)number && !w->event && !w->dropped &&
	       !wake_is_in_id(w, NULL);
}

static bool wake_ends_on(const struct wake *w, const void *channel)
{
	return w->channel == channel && w->dropped;
}

/* The program cannot destroy or migrate its id meanwhile. An event of a channel that is gone holds
 * nothing. */
static bool wake_holds_up(const struct wake *w, const void *number)
{
	return w->number == *(const uint32_t *)number && w->channel;
}

/* Those that fit. Nothing locked. */
static void wakes_drop(bool (*fits)(const struct wake *w, const void *arg), const void *arg)
{
	struct wake *w;

	do {
		cm_lock();
		w = wake_find(fits, arg);
		if (w)
			w->dropped = true;
		cm_unlock();
		wake_end(w);
	} while (w);
}

/* Locked. */
static void wait_while(bool (*fits)(const struct wake *w, const void *arg), const void *arg)
{
	while (wake_find(fits, arg))
		pthread_cond_wait(&wake_ended, &lock);
}

/* Of that id's events that are ours. What was not read is no more. */
static void wait_for_acks(uint32_t number)
{
	cm_lock();
	wait_while(wake_holds_up, &number);
	cm_unlock();
}

static void conn_loses_channel(void *conn, void *channel)
{
	struct cm_conn *c = conn;

	if (c->channel == channel)
		c->channel = NULL;
}

/* The program's own destroy, which follows, drops what the kernel has not delivered. */
void hook_cm_destroys_channel(struct rdma_event_channel *channel)
{
	if (fork_in_child())
		return;
	uncancelled_begin();
	cm_lock();
	table_each(&by_number, conn_loses_channel, channel);
	cm_unlock();
	wakes_drop(wake_is_unread_on, channel);
	cm_lock();
	wait_while(wake_ends_on, channel);
	for (struct wake *w = wakes; w; w = w->next)
		if (w->channel == channel)
			w->channel = NULL;
	cm_unlock();
	uncancelled_end();
}

/* It has no number any more. NULL: it is none of ours. */
static struct cm_conn *conn_goes(const struct rdma_cm_id *id)
{
	struct cm_conn *c;

	cm_lock();
	c = conn_of_id(id);
	if (c) {
		c->gone = true;
		table_remove(&by_number, c->number);
	}
	cm_unlock();
	return c;
}

/* The program may have another id at that address already. */
static void conn_remove(struct cm_conn *c)
{
	cm_lock();
	if (conn_at(c->id) == c)
		table_remove(&by_id, (uintptr_t)c->id);
	cm_unlock();
	free(c);
}

static bool wake_leaves(const struct wake *w, const void *number)
{
	return w->number == *(const uint32_t *)number && !w->dropped && wake_is_in_id(w, NULL);
}

/*
 * Ubuntu links its librdmacm with -Bsymbolic-functions: that does not call itself through its PLT,
 * and reads the channel of an id that has no other around us. If it has read a wake-up there, its
 * rdma_disconnect() has returned as with DISCONNECTED. It would acknowledge that around us, too,
 * and later than we need it. So it would what the program has read to there itself.
 */
static void event_leaves_id(struct rdma_cm_id *id)
{
	struct rdma_cm_event *e = NULL;
	struct wake *w = NULL;
	struct cm_conn *c;

	uncancelled_begin();
	cm_lock();
	c = conn_of_id(id);
	if (c)
		w = wake_find(wake_leaves, &c->number);
	if (w) {
		w->dropped = true;
		c->waking = false;
		c->told = true;
		e = id->event;
		id->event = NULL;
	}
	cm_unlock();
	if (w)
		cm->ack_cm_event(e);
	wake_end(w);
	uncancelled_end();
}

/* Until librdmacm has done it, other threads may read events of this id. */
static int destroy(struct rdma_cm_id *id, int (*real)(struct rdma_cm_id *id))
{
	struct cm_conn *c;
	int err;

	event_leaves_id(id);
	c = conn_goes(id);
	if (!c)
		return real(id);
	uncancelled_begin();
	wakes_drop(wake_is_unread_of, &c->number);
	wait_for_acks(c->number);
	err = real(id);
	conn_remove(c);
	uncancelled_end();
	return err;
}

int hook_cm_destroy_id(struct rdma_cm_id *id)
{
	return fork_in_child() ? cm->destroy_id(id) : destroy(id, cm->destroy_id);
}

static int real_destroy_ep(struct rdma_cm_id *id)
{
	cm->destroy_ep(id);
	return 0;
}

void hook_cm_destroy_ep(struct rdma_cm_id *id)
{
	if (fork_in_child())
		cm->destroy_ep(id);
	else
		destroy(id, real_destroy_ep);
}

/* The number of the id, or 0. What wakes it now waits until it has arrived. */
static uint32_t conn_leaves(const struct rdma_cm_id *id)
{
	struct cm_conn *c;
	uint32_t number = 0;

	cm_lock();
	c = conn_of_id(id);
	if (c) {
		number = c->number;
		c->channel = NULL;
		c->wanted |= c->waking;
		c->waking = false;
	}
	cm_unlock();
	return number;
}

static void conn_arrives(const struct rdma_cm_id *id)
{
	struct wake *failed = NULL;
	struct cm_conn *c;

	cm_lock();
	c = conn_of_id(id);
	if (c)
		c->channel = id->channel;
	if (c && c->wanted && !c->told)
		failed = conn_wake(c);
	cm_unlock();
	wake_end(failed);
}

/* A wake-up that was not read yet would stay on the old channel, and wake the program there. One
 * that was read is waited for, as librdmacm does for the kernel's events. */
int hook_cm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	uint32_t number;
	int err, why;

	if (fork_in_child())
		return cm->migrate_id(id, channel);
	uncancelled_begin();
	event_leaves_id(id);
	number = conn_leaves(id);
	wakes_drop(wake_is_unread_of, &number);
	err = cm->migrate_id(id, channel);
	why = errno;
	if (!err)
		wait_for_acks(number);
	conn_arrives(id);
	errno = why;
	uncancelled_end();
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
	if (c && !c->told && !c->waking && (!e->qp_gone || c->lost_nic)) {
		log_info("QP %#x: its RDMA-CM is told that it is disconnected", c->qpn);
		failed = conn_wake(c);
	}
	cm_unlock();
	wake_end(failed);
	free(e);
}

/* librdmacm and the kernel may wait there for a NIC, with `lock` held, which the background thread
 * must not. */
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

enum fate { GONE, UNPROTECTED, SURVIVES, IS_HOME, IS_OVER };

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
	if (!view.protected_) /* it is on rail 0 */
		s->fate = UNPROTECTED;
	else if (view.state >= SHIFT_ST_GIVEUP || (s->alone_is_over && vdev_is_alone(v->dev)))
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
	if (fate == SURVIVES || (fate == IS_HOME && e->no_home)) {
		e->at_ns = now + WATCH_NS;
		return false;
	}
	*at = e->next;
	e->qp_gone = fate == GONE;
	if (fate == IS_OVER || fate == GONE)
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
	uncancelled_begin();
	bg_call_wait(disconnect_on_bg, &d);
	uncancelled_end();
	cm_lock();
	c = conn_of_id(id);
	if (c) {
		c->ended |= d.said;
		c->expects |= d.said && expects;
	}
	cm_unlock();
}

static bool conn_has_lost_nic(const struct rdma_cm_id *id)
{
	struct cm_conn *c;
	bool lost;

	cm_lock();
	c = conn_of_id(id);
	lost = c && c->lost_nic && (c->expects || c->told);
	cm_unlock();
	return lost;
}

/* For the kernel an id whose NIC was removed has no connection. The program's has one, and gets
 * DISCONNECTED. */
int hook_cm_disconnect(struct rdma_cm_id *id)
{
	int err;

	hook_cm_disconnects(id, true);
	err = cm->disconnect(id);
	return err && !fork_in_child() && conn_has_lost_nic(id) ? 0 : err;
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
	if (!c->ended)
		return HIDE_IF_SURVIVED;
	if (e->event == CM_EVENT_DEVICE_REMOVAL && !c->expects && !c->told)
		return GIVE; /* nothing else will come: the kernel has no connection any more */
	return HIDE;
}

struct watch {
	uint32_t number;
	bool lost_nic;
};

static struct ending *ending_watched(uint32_t number)
{
	struct ending *e = endings;

	while (e && !(e->watch && e->number == number))
		e = e->next;
	return e;
}

static void watch_on_bg(void *arg)
{
	const struct watch *w = arg;
	struct ending *e;

	if (!ending_watched(w->number))
		ending_add(w->number, now_ns() + WATCH_NS, true);
	e = ending_watched(w->number);
	if (e)
		e->no_home |= w->lost_nic;
}

/* What was hidden does not come again. So if the connection does not survive after all, the program
 * gets DISCONNECTED. */
static void conn_watch(uint32_t number, bool lost_nic)
{
	struct watch watch = {number, lost_nic};
	struct cm_conn *c;

	cm_lock();
	c = table_get(&by_number, number);
	if (c)
		c->lost_nic |= lost_nic;
	cm_unlock();
	bg_call_wait(watch_on_bg, &watch);
}

static bool is_survived(uint32_t number, const struct rdma_cm_event *e)
{
	bool lost_nic = e->event == CM_EVENT_DEVICE_REMOVAL;
	enum fate fate = fate_of(number, lost_nic);

	if (fate != SURVIVES && fate != IS_HOME)
		return false;
	conn_watch(number, lost_nic);
	return true;
}

static bool cm_event_is_hidden(const struct rdma_cm_event *e)
{
	enum verdict verdict;
	struct cm_conn *c;
	uint32_t number;

	cm_lock();
	c = conn_at(e->id); /* librdmacm destroys it when this event is acknowledged */
	verdict = c ? conn_judge(c, e) : GIVE;
	number = c ? c->number : 0;
	cm_unlock();
	if (number && e->event == CM_EVENT_DISCONNECTED)
		wakes_drop(wake_is_unread_of, &number);
	return verdict == HIDE_IF_SURVIVED ? is_survived(number, e) : verdict == HIDE;
}

/* false: it has come too late, and tells the program nothing. */
static bool wake_becomes_event(struct wake *w, struct rdma_cm_event *e, struct rdma_cm_event **to)
{
	struct cm_conn *c = table_get(&by_number, w->number);

	if (!c || c->told || wake_is_in_id(w, e))
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

	cm_lock();
	w = wake_find(wake_is_id, e->id);
	if (w)
		what = CAME_TOO_LATE;
	if (w && !w->event && !w->dropped && wake_becomes_event(w, e, to))
		what = BECAME_EVENT;
	if (what == CAME_TOO_LATE && !w->event && !w->dropped && !wake_is_in_id(w, e)) {
		late = w;
		w->dropped = true;
	}
	cm_unlock();
	if (what == CAME_TOO_LATE)
		cm->ack_cm_event(e);
	wake_end(late);
	return what;
}

/* The program destroys or migrates it, which waits until its events are acknowledged. */
static bool id_is_going(const struct rdma_cm_id *id)
{
	const struct cm_conn *c;
	bool going;

	cm_lock();
	c = conn_at(id);
	going = c && (c->gone || !c->channel);
	cm_unlock();
	return going;
}

/* The program has said rdma_disconnect(), and has not had the event of that. */
static bool disconnected_is_due(const struct rdma_cm_event *e)
{
	struct cm_conn *c;
	bool due;

	cm_lock();
	c = conn_at(e->id);
	due = c && !c->gone && c->expects && !c->told;
	cm_unlock();
	return due;
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

static int event_filter(struct cm_reading *r, struct rdma_cm_event *e, struct rdma_cm_event **to)
{
	switch (event_wakes(e, to)) {
	case BECAME_EVENT: return 0;
	case CAME_TOO_LATE: return cm_must_get_something(r, NULL, false) ? NOTHING : AGAIN;
	case NO_WAKE_UP: break;
	}
	if (!cm_event_is_hidden(e))
		return 0;
	if (cm_must_get_something(r, e->id, disconnected_is_due(e))) {
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
	struct cm_reading r;

	if (!event || fork_in_child())
		return cm->get_cm_event(channel, event);
	r = (struct cm_reading){.fd = channel->fd, .is_going = id_is_going};
	while (what == AGAIN) {
		r.slept |= !readable_now(r.fd); /* that others have come meanwhile is no matter */
		err = cm->get_cm_event(channel, &e);
		if (err)
			return err;
		what = uncancelled(event_filter(&r, e, event));
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

	if (!event || fork_in_child())
		return cm->ack_cm_event(event);
	uncancelled_begin();
	cm_lock();
	w = wake_find(wake_is_event, event);
	if (w)
		w->dropped = true;
	cm_unlock();
	err = cm->ack_cm_event(event);
	wake_end(w);
	uncancelled_end();
	return err;
}
