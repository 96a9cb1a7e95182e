// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Asynchronous events that the program is not to see; its device is a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/conn/conn_lock.h"
#include "lib/verbs/async_events.h"
#include "tests/cancelled.h"

enum { QPS = 2 };

_Thread_local bool hooks_off;
_Thread_local struct uncancelled uncancelled_mine;
struct real_verbs real;

static struct ibv_device device = {.name = "mlx5_0"};
static struct ibv_context ctx = {.device = &device};
static struct vdev dev;
static struct vqp v[QPS];
static struct ibv_qp qp[QPS], unknown, drainer, waker;
static enum shift_state state[QPS];
static bool protected_[QPS];
static int write_end;
static unsigned int acked, hidden, heard, looks, rings;

/* --- the rest of the library ----------------------------------------------------------------- */

bool fork_in_child(void)
{
	return false;
}

/* It writes, which is a point of cancellation. */
void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
	pthread_testcancel();
}

struct vdev *vdev_find(const struct ibv_context *c)
{
	return c == dev.ctx ? &dev : NULL;
}

bool vdev_is_alone(const struct vdev *d)
{
	return d->rails == 1;
}

bool vsrq_is_drainer(const struct ibv_qp *q)
{
	return q == &drainer;
}

struct vqp *vqp_find(const struct ibv_qp *q)
{
	return q == qp ? v : q == qp + 1 ? v + 1 : NULL;
}

void vqp_all(void (*fn)(struct vqp *, void *), void *arg)
{
	for (int i = 0; i < QPS; i++)
		fn(v + i, arg);
}

void vqp_enter(struct vqp *q)
{
	(void)q;
}

void vqp_leave(struct vqp *q)
{
	(void)q;
}

void shift_conn_view(const struct shift_conn *c, struct shift_conn_view *to)
{
	int i = (const void *)c == v + 1;

	*to = (struct shift_conn_view){.state = state[i], .protected_ = state[i] != SHIFT_ST_SETUP};
}

bool vqp_is_protected(const struct vqp *q)
{
	return protected_[q - v];
}

static struct ibv_srq srq, foreign_srq;
static struct vsrq shared;
static bool limit_is_due;

struct vsrq *vsrq_find(const struct ibv_srq *s)
{
	return s == &srq ? &shared : NULL;
}

bool srq_limit_is_due(struct vsrq *s)
{
	assert_ptr_equal(s, &shared);
	return limit_is_due;
}

static void raise_event(enum ibv_event_type type, struct ibv_qp *q)
{
	struct ibv_async_event e = {.event_type = type};

	if (q)
		e.element.qp = q;
	else
		e.element.port_num = 1;
	assert_int_equal(write(write_end, &e, sizeof(e)), sizeof(e));
}

static void raise_wakers(void)
{
	raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, &waker);
}

static bool is_readable(void)
{
	struct pollfd p = {.fd = ctx.async_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* The waker, which is quick, as often as it is to ring. */
void event_waker_look(struct vdev *d)
{
	assert_ptr_equal(d, &dev);
	looks++;
	if (rings && made_events_waiting(d) && !is_readable()) {
		rings--;
		raise_wakers();
	}
}

bool event_waker_owns(const struct vdev *d, const struct ibv_async_event *e)
{
	return d == &dev && e->event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
	       e->element.qp == &waker;
}

bool event_waker_heard(struct vdev *d, const struct ibv_async_event *e)
{
	bool ours = event_waker_owns(d, e);

	heard += ours;
	return ours;
}

void stats_event_hidden(void)
{
	hidden++;
}

static struct stats_async noted;
static unsigned int notes[STATS_FATE_COUNT];

void stats_async_event(const struct stats_async *e, uint64_t ns)
{
	assert_int_equal(ns, 12345);
	assert_string_equal(e->nic, "mlx5_0");
	noted = *e;
	notes[e->fate]++;
}

uint64_t now_ns(void)
{
	return 12345;
}

static int get_event(struct ibv_context *c, struct ibv_async_event *e)
{
	return read(c->async_fd, e, sizeof(*e)) == sizeof(*e) ? 0 : -1;
}

static void ack_event(struct ibv_async_event *e)
{
	(void)e;
	acked++;
}

/* --- the tests ------------------------------------------------------------------------------- */

static int begin(void **st)
{
	int fd[2];

	(void)st;
	if (pipe(fd))
		return -1;
	ctx.async_fd = fd[0];
	write_end = fd[1];
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	dev = (struct vdev){.ctx = &ctx, .rails = 2};
	for (int i = 0; i < QPS; i++) {
		qp[i].state = IBV_QPS_RTS;
		qp[i].qp_num = 17 + (uint32_t)i;
		v[i] = (struct vqp){.qp = qp + i,
				    .conn = (void *)(v + i),
				    .dev = &dev,
				    .program.state = IBV_QPS_RTS,
				    .init.qp_type = IBV_QPT_RC};
		pthread_mutex_init(&v[i].lock, NULL);
		v[i].last_wqe.event = (struct ibv_async_event){
			.element.qp = qp + i, .event_type = IBV_EVENT_QP_LAST_WQE_REACHED};
		state[i] = SHIFT_ST_ACTIVE;
		protected_[i] = true;
	}
	real.get_async_event = get_event;
	real.ack_async_event = ack_event;
	acked = hidden = heard = looks = rings = 0;
	noted = (struct stats_async){0};
	memset(notes, 0, sizeof(notes));
	return 0;
}

static int end(void **st)
{
	(void)st;
	close(ctx.async_fd);
	close(write_end);
	return 0;
}

/* What the program gets next, or -1. */
static int next(void)
{
	struct ibv_async_event e;

	return hook_get_async_event(&ctx, &e) ? -1 : (int)e.event_type;
}

static void a_queue_pair_that_survives(void **st)
{
	(void)st;
	raise_event(IBV_EVENT_QP_FATAL, qp);
	raise_event(IBV_EVENT_QP_REQ_ERR, qp + 1);
	raise_event(IBV_EVENT_COMM_EST, qp);
	assert_int_equal(next(), IBV_EVENT_COMM_EST);
	assert_int_equal(hidden, 2);
	assert_int_equal(acked, 2); /* what the program sees it acknowledges itself */
	assert_int_equal(next(), -1);
	assert_int_equal(errno, EAGAIN);
}

/* For the flight recorder: but not what is ours. */
static void what_is_noted(void **st)
{
	(void)st;
	raise_event(IBV_EVENT_QP_FATAL, qp + 1);
	assert_int_equal(next(), -1);
	assert_int_equal(notes[STATS_FATE_HIDDEN], 1);
	assert_int_equal(noted.event, IBV_EVENT_QP_FATAL);
	assert_int_equal(noted.qpn, 18);
	assert_int_equal(noted.port, 0);
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	assert_int_equal(next(), IBV_EVENT_LID_CHANGE);
	assert_int_equal(notes[STATS_FATE_GIVEN], 1);
	assert_int_equal(noted.qpn, 0);
	assert_int_equal(noted.port, 1);
	raise_event(IBV_EVENT_QP_FATAL, &drainer);
	raise_wakers();
	assert_int_equal(next(), -1);
	assert_int_equal(notes[STATS_FATE_HIDDEN], 1);
	made_event_raise(&dev, &v[0].last_wqe);
	assert_int_equal(next(), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(notes[STATS_FATE_MADE], 1);
	assert_int_equal(noted.qpn, 17);
}

static void a_queue_pair_that_does_not(void **st)
{
	(void)st;
	state[0] = SHIFT_ST_DEAD;
	raise_event(IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(next(), IBV_EVENT_QP_FATAL);
	state[0] = SHIFT_ST_SETUP;
	raise_event(IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(next(), IBV_EVENT_QP_FATAL);
	v[0].conn = NULL;
	raise_event(IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(next(), IBV_EVENT_QP_FATAL);
	raise_event(IBV_EVENT_QP_FATAL, &unknown);
	assert_int_equal(next(), IBV_EVENT_QP_FATAL);
	assert_int_equal(acked, 0);
}

/* Rail 0's QP goes to ERR at each switch, and when the connection is over: the program gets the one
 * that is made. */
static void the_last_receive_of_a_protected_one(void **st)
{
	(void)st;
	raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	assert_int_equal(next(), -1);
	state[0] = SHIFT_ST_CLOSED;
	raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	assert_int_equal(next(), -1);
	raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, &unknown);
	assert_int_equal(next(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* Its NIC's is the program's, and soft-RoCE says it again and again. */
static void the_last_receive_of_one_that_is_not_protected(void **st)
{
	(void)st;
	protected_[0] = false;
	for (int life = 0; life < 2; life++) {
		raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
		raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
		assert_int_equal(next(), IBV_EVENT_QP_LAST_WQE_REACHED);
		assert_int_equal(next(), -1);
		made_event_renew(&v[0].last_wqe);
	}
	v[0].life.bypassed = true;
	v[1].conn = NULL;
	for (int i = 0; i < 4; i++) {
		raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp + i % 2);
		assert_int_equal(next(), IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

/* --- events that are made -------------------------------------------------------------------- */

static void make(int i)
{
	made_event_raise(&dev, &v[i].last_wqe);
}

/* Which of the QPs the program hears of next, or -1. */
static int next_qp(void)
{
	struct ibv_async_event e;

	if (hook_get_async_event(&ctx, &e))
		return -1;
	assert_int_equal(e.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_true(e.element.qp == qp || e.element.qp == qp + 1);
	return e.element.qp == qp + 1;
}

/* Who reads one event whenever the descriptor is readable gets all, and none for nothing. */
static void one_that_is_made_is_read_with_the_wakers(void **st)
{
	(void)st;
	make(1);
	assert_int_equal(looks, 1);
	raise_wakers();
	make(0);
	make(0);
	assert_int_equal(next_qp(), 1);
	assert_true(is_readable());
	assert_int_equal(next_qp(), 0);
	assert_true(is_readable());
	assert_int_equal(next_qp(), 0);
	assert_false(is_readable());
	assert_int_equal(heard, 1);
	assert_int_equal(acked, 1);
	assert_int_equal(hidden, 0); /* nothing was survived */
	assert_int_equal(made_events_waiting(&dev), 0);
	assert_int_equal(next(), -1);
	assert_int_equal(errno, EAGAIN);
}

/* If it rang when its event was read, who polls would find the descriptor readable, and nothing to
 * read: that is taken back at any moment. */
static void who_reads_the_wakers_event_needs_no_other(void **st)
{
	(void)st;
	rings = 8;
	make(0);
	assert_true(is_readable());
	assert_int_equal(next_qp(), 0);
	assert_false(is_readable());
	assert_int_equal(heard, 1);
	make(0);
	make(1);
	for (int i = 0; i < 2; i++) {
		assert_true(is_readable());
		assert_int_equal(next_qp(), i);
	}
	assert_false(is_readable());
	assert_int_equal(heard, 2);
}

static int read_and_cancel(struct ibv_context *c, struct ibv_async_event *e)
{
	int err = get_event(c, e);

	pthread_cancel(pthread_self());
	return err;
}

static void *read_one(void *arg)
{
	pthread_cleanup_push(cancelled_frames_are_gone, NULL);
	next();
	pthread_cleanup_pop(0);
	return arg;
}

/* Else its object cannot be destroyed: that waits for the acknowledgement. */
static void a_cancelled_thread_takes_no_event(void **st)
{
	pthread_t thread;
	void *result;

	(void)st;
	real.get_async_event = read_and_cancel;
	raise_event(IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(pthread_create(&thread, NULL, read_one, NULL), 0);
	pthread_join(thread, &result);
	assert_int_equal(acked, 1);
	assert_int_equal(hidden, 1);
	pthread_create(&thread, NULL, read_one, NULL);
	pthread_join(thread, &result);
}

static void one_that_is_made_does_not_wait_for_the_wakers(void **st)
{
	(void)st;
	fcntl(ctx.async_fd, F_SETFL, 0);
	make(0);
	assert_int_equal(next_qp(), 0);
	looks = 0;
	raise_wakers(); /* it comes late, to one that has polled */
	assert_int_equal(next(), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(looks, 1); /* its QP can go */
}

/* Then who looks whether that was all must be told again. */
static void the_kernels_own_come_before_the_last(void **st)
{
	(void)st;
	make(0);
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	looks = 0;
	assert_int_equal(next(), IBV_EVENT_LID_CHANGE);
	assert_int_equal(looks, 1);
	assert_int_equal(next_qp(), 0);
}

static int get_none(struct ibv_context *c, struct ibv_async_event *e)
{
	(void)c;
	(void)e;
	errno = EIO;
	return -1;
}

/* The descriptor of a NIC that was removed is readable for ever. */
static void a_nic_that_is_gone(void **st)
{
	(void)st;
	real.get_async_event = get_none;
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	make(0);
	assert_int_equal(next_qp(), 0);
	assert_int_equal(next(), -1);
	assert_int_equal(errno, EIO);
}

static void *make_later(void *arg)
{
	usleep(30000);
	make(0);
	raise_wakers();
	return arg;
}

static void who_sleeps_in_the_verb_is_woken(void **st)
{
	pthread_t thread;

	(void)st;
	fcntl(ctx.async_fd, F_SETFL, 0);
	assert_int_equal(pthread_create(&thread, NULL, make_later, NULL), 0);
	assert_int_equal(next_qp(), 0);
	pthread_join(thread, NULL);
}

/* Those of libibverbs are counted there, and destroy waits until the count is right. */
static void acknowledgements(void **st)
{
	struct ibv_async_event e = v[0].last_wqe.event;
	struct ibv_async_event other = {.event_type = IBV_EVENT_COMM_EST, .element.qp = qp};

	(void)st;
	protected_[0] = false;
	raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	assert_int_equal(next_qp(), 0);
	make(0);
	make(0);
	next_qp();
	next_qp();
	hook_ack_async_event(&e);
	hook_ack_async_event(&other);
	assert_int_equal(acked, 1);
	hook_ack_async_event(&e);
	assert_int_equal(acked, 1);
	hook_ack_async_event(&e);
	assert_int_equal(acked, 2);
}

/* Receives that are elsewhere are not what the NIC counts. */
static void the_limit_of_an_srq(void **st)
{
	struct ibv_async_event e = {.event_type = IBV_EVENT_SRQ_LIMIT_REACHED};

	(void)st;
	shared.limit.event.event = (struct ibv_async_event){.event_type = e.event_type,
							    .element.srq = &srq};
	e.element.srq = &srq;
	assert_int_equal(write(write_end, &e, sizeof(e)), sizeof(e));
	limit_is_due = false;
	assert_int_equal(next(), -1);
	assert_int_equal(acked, 1);
	assert_int_equal(write(write_end, &e, sizeof(e)), sizeof(e));
	limit_is_due = true;
	assert_int_equal(next(), IBV_EVENT_SRQ_LIMIT_REACHED);
	made_event_raise(&dev, &shared.limit.event);
	assert_int_equal(next(), IBV_EVENT_SRQ_LIMIT_REACHED);
	hook_ack_async_event(&e);
	assert_int_equal(acked, 1);
	hook_ack_async_event(&e);
	assert_int_equal(acked, 2);
	e.element.srq = &foreign_srq;
	limit_is_due = false;
	assert_int_equal(write(write_end, &e, sizeof(e)), sizeof(e));
	assert_int_equal(next(), IBV_EVENT_SRQ_LIMIT_REACHED);
	hook_ack_async_event(&e);
	assert_int_equal(acked, 3);
}

static void *ack_later(void *arg)
{
	struct ibv_async_event e = v[0].last_wqe.event;

	usleep(30000);
	*(bool *)arg = true;
	hook_ack_async_event(&e);
	return NULL;
}

static void a_qp_that_is_destroyed(void **st)
{
	bool is_acked = false;
	pthread_t thread;

	(void)st;
	make(0);
	next_qp();
	make(0);
	make(1);
	make(0);
	assert_int_equal(pthread_create(&thread, NULL, ack_later, &is_acked), 0);
	alarm(10);
	made_event_end(&dev, &v[0].last_wqe);
	alarm(0);
	assert_true(is_acked);
	pthread_join(thread, NULL);
	make(0); /* its connection ends */
	assert_int_equal(next_qp(), 1);
	assert_int_equal(next(), -1);
}

/* The program has never made it. */
static void a_drainer(void **st)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
						    IBV_EVENT_QP_ACCESS_ERR,
						    IBV_EVENT_QP_LAST_WQE_REACHED};

	(void)st;
	for (int i = 0; i < 4; i++)
		raise_event(types[i], &drainer);
	assert_int_equal(next(), -1);
	assert_int_equal(hidden, 4);
	assert_int_equal(acked, 4);
}

static void a_port_of_connections_that_all_survive(void **st)
{
	(void)st;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	raise_event(IBV_EVENT_PORT_ACTIVE, NULL);
	raise_event(IBV_EVENT_DEVICE_FATAL, NULL);
	assert_int_equal(next(), -1);
	assert_int_equal(hidden, 3);
}

/* A port that fails ends no datagram QP; a NIC that fails does. */
static void a_port_of_datagrams_too(void **st)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET};

	(void)st;
	v[1].conn = NULL;
	for (int i = 0; i < 3; i++) {
		v[1].init.qp_type = types[i];
		raise_event(IBV_EVENT_PORT_ERR, NULL);
		raise_event(IBV_EVENT_PORT_ACTIVE, NULL);
		assert_int_equal(next(), -1);
		raise_event(IBV_EVENT_DEVICE_FATAL, NULL);
		assert_int_equal(next(), IBV_EVENT_DEVICE_FATAL);
	}
}

/* Whatever is not protected, and in use on that NIC, is to hear of it. */
static void a_port_of_qps_of_any_kind(void **st)
{
	(void)st;
	v[1].conn = NULL;
	v[1].init.qp_type = IBV_QPT_XRC_SEND;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
	v[1].dev = NULL; /* on another NIC */
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), -1);
	dev.devx_qps = 1;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
}

static void a_port_of_others_too(void **st)
{
	(void)st;
	v[1].conn = NULL;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
	raise_event(IBV_EVENT_DEVICE_FATAL, NULL);
	assert_int_equal(next(), IBV_EVENT_DEVICE_FATAL);
	qp[1].state = IBV_QPS_INIT; /* not in use */
	raise_event(IBV_EVENT_PORT_ACTIVE, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ACTIVE); /* as its PORT_ERR was */
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), -1);
	v[0].program.state = IBV_QPS_RESET; /* no connection at all */
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
}

/* Whether a connection is in use is what the program has asked for. What its object says may be of
 * a query on the NIC that it has left. */
static void a_port_of_connections_on_a_backup(void **st)
{
	(void)st;
	qp[0].state = qp[1].state = IBV_QPS_RESET;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	raise_event(IBV_EVENT_PORT_ACTIVE, NULL);
	assert_int_equal(next(), -1);
	assert_int_equal(hidden, 2);
	state[1] = SHIFT_ST_DEAD;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
}

/* We do nothing with it, and do not know what the program has asked for. */
static void a_port_of_one_that_posts_around(void **st)
{
	(void)st;
	state[1] = SHIFT_ST_SETUP;
	v[1].life.bypassed = true;
	v[1].program.state = IBV_QPS_RTS;
	qp[1].state = IBV_QPS_RESET;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), -1);
	v[1].program.state = IBV_QPS_RESET;
	qp[1].state = IBV_QPS_RTS;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
}

/* It goes on over another NIC, but is no reason by itself. */
static void one_that_is_connected_with_itself(void **st)
{
	(void)st;
	state[1] = SHIFT_ST_SETUP;
	v[1].self.on = true;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	raise_event(IBV_EVENT_DEVICE_FATAL, NULL);
	raise_event(IBV_EVENT_QP_FATAL, qp + 1);
	assert_int_equal(next(), -1);
	assert_int_equal(hidden, 3);
	v[0].program.state = IBV_QPS_RESET;
	raise_event(IBV_EVENT_PORT_ERR, NULL);
	assert_int_equal(next(), IBV_EVENT_PORT_ERR);
	v[0].program.state = IBV_QPS_RTS;
	v[1].self.on = false; /* it is over, or left alone */
	raise_event(IBV_EVENT_DEVICE_FATAL, NULL);
	assert_int_equal(next(), IBV_EVENT_DEVICE_FATAL);
}

static void who_has_polled_is_not_left_standing(void **st)
{
	(void)st;
	fcntl(ctx.async_fd, F_SETFL, 0);
	raise_event(IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(next(), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(acked, 1);
	raise_event(IBV_EVENT_QP_FATAL, qp);
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	assert_int_equal(next(), IBV_EVENT_LID_CHANGE);
}

static void *raise_later(void *arg)
{
	usleep(30000);
	raise_event(IBV_EVENT_QP_FATAL, qp);
	usleep(30000);
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	return arg;
}

static void who_waits_goes_on_waiting(void **st)
{
	pthread_t thread;

	(void)st;
	fcntl(ctx.async_fd, F_SETFL, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, raise_later, NULL), 0);
		if (i)
			usleep(45000); /* busy with another one: it still is one that waits */
		assert_int_equal(next(), IBV_EVENT_LID_CHANGE);
		pthread_join(thread, NULL);
	}
	assert_int_equal(hidden, 2);
}

static void a_context_of_others(void **st)
{
	(void)st;
	dev.ctx = NULL;
	raise_event(IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(next(), IBV_EVENT_QP_FATAL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_queue_pair_that_survives),
		TEST(what_is_noted),
		TEST(a_queue_pair_that_does_not),
		TEST(the_last_receive_of_a_protected_one),
		TEST(the_last_receive_of_one_that_is_not_protected),
		TEST(one_that_is_made_is_read_with_the_wakers),
		TEST(who_reads_the_wakers_event_needs_no_other),
		TEST(a_cancelled_thread_takes_no_event),
		TEST(one_that_is_made_does_not_wait_for_the_wakers),
		TEST(the_kernels_own_come_before_the_last),
		TEST(a_nic_that_is_gone),
		TEST(who_sleeps_in_the_verb_is_woken),
		TEST(acknowledgements),
		TEST(the_limit_of_an_srq),
		TEST(a_qp_that_is_destroyed),
		TEST(a_drainer),
		TEST(a_port_of_connections_that_all_survive),
		TEST(a_port_of_datagrams_too),
		TEST(a_port_of_qps_of_any_kind),
		TEST(a_port_of_others_too),
		TEST(a_port_of_connections_on_a_backup),
		TEST(a_port_of_one_that_posts_around),
		TEST(one_that_is_connected_with_itself),
		TEST(who_has_polled_is_not_left_standing),
		TEST(who_waits_goes_on_waiting),
		TEST(a_context_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
