// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Events of RDMA-CM that the program is not to see, and those that we make. librdmacm and the
 * kernel are faked: a channel is a pipe with a byte for each event. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/uncancelled.h"
#include "lib/base/worker.h"
#include "lib/conn/conn_lock.h"
#include "lib/verbs/cm_ids.h"

enum { EVENTS_MAX = 16, CM_EVENT_ADDR_RESOLVED = 0, CM_EVENT_ADDR_ERROR = 1 };

/* A program that gets no event for so long hangs; and a test. */
enum { FOR_EVER_MS = 5000, HANGS_S = 15 };

struct channel {
	struct rdma_event_channel channel; /* first */
	int write_end;
	struct rdma_cm_event *queue[EVENTS_MAX];
	unsigned int first, end;
};

_Thread_local struct uncancelled uncancelled_mine;

static struct ibv_device device = {.name = "mlx5_0"};
static struct ibv_context ctx = {.device = &device};
static struct ibv_qp qp;
static struct vqp v;
static enum shift_state state;
/* Another NIC, with a QP of the same number, and so another connection. */
static struct ibv_device device2 = {.name = "mlx5_1"};
static struct ibv_context ctx2 = {.device = &device2};
static struct ibv_qp qp2;
static struct vqp v2;
static enum shift_state state2;
static struct nic nic = {.name = "mlx5_0"}, nic2 = {.name = "mlx5_1"};
static struct vdev dev = {.ctx = &ctx, .nic = {&nic}, .qps = TABLE_INIT},
		   dev2 = {.ctx = &ctx2, .nic = {&nic2}, .qps = TABLE_INIT};
static uint8_t rail;
static bool alone;
static uint64_t now;
static struct bg_timer *timer;
static struct channel channel, other;
static struct rdma_cm_id id;
static int ids, events;		      /* of ours and of the kernel, not destroyed or acknowledged */
static int said, hidden;	      /* to the session; counted */
static const struct rdma_cm_id *held; /* of the event that the program has */
static bool resolve_fails, resolve_errs; /* with the id's address; with any, later */
static int resolved, migrate_result;
static uint32_t said_number;
static bool resolve_fails_always;

/* --- the rest of the library ------------------------------------------------------------------ */

bool fork_in_child(void)
{
	return false;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

uint64_t now_ns(void)
{
	return now;
}

void bg_timer_set(struct bg_timer *t, uint64_t at_ns)
{
	timer = t;
	t->at_ns = at_ns;
	t->heap_at = at_ns != UINT64_MAX;
}

void bg_call_wait(void (*fn)(void *arg), void *arg)
{
	fn(arg);
}

struct worker *worker_new(const char *name, unsigned int threads)
{
	(void)name;
	(void)threads;
	return (void *)&v;
}

void worker_submit(struct worker *w, struct job *job)
{
	assert_ptr_equal(w, &v);
	job->fn(job);
}

void vdev_each(void (*fn)(struct vdev *, void *), void *arg)
{
	fn(&dev2, arg);
	fn(&dev, arg);
	fn(&dev2, arg);
}

void vqp_each(void (*fn)(struct vqp *, void *), void *arg)
{
	fn(&v2, arg);
	fn(&v, arg);
	fn(&v2, arg);
}

void vqp_enter(struct vqp *q)
{
	(void)q;
}

void vqp_leave(struct vqp *q)
{
	(void)q;
}

static enum shift_state state_of(const void *q)
{
	return q == &v ? state : state2;
}

bool vqp_is_protected(const struct vqp *q)
{
	return state_of(q) != SHIFT_ST_SETUP;
}

void shift_conn_view(const struct shift_conn *c, struct shift_conn_view *to)
{
	*to = (struct shift_conn_view){
		.state = state_of(c), .protected_ = state_of(c) != SHIFT_ST_SETUP, .r = rail};
}

bool vdev_is_alone(const struct vdev *d)
{
	return d == &dev && alone;
}

void stats_event_hidden(void)
{
	hidden++;
}

/* --- librdmacm and the kernel ----------------------------------------------------------------- */

static void raise_event(struct channel *on, struct rdma_cm_id *of, int type, int status)
{
	struct rdma_cm_event *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	*e = (struct rdma_cm_event){.id = of, .event = type, .status = status};
	on->queue[on->end++ % EVENTS_MAX] = e;
	assert_int_equal(write(on->write_end, "", 1), 1);
}

static int get_event(struct rdma_event_channel *from, struct rdma_cm_event **event)
{
	struct channel *c = (struct channel *)from;
	struct pollfd p = {.fd = from->fd, .events = POLLIN};
	char byte;

	if (!(fcntl(from->fd, F_GETFL) & O_NONBLOCK))
		assert_int_equal(poll(&p, 1, FOR_EVER_MS), 1);
	if (read(from->fd, &byte, 1) != 1)
		return -1;
	*event = c->queue[c->first++ % EVENTS_MAX];
	held = (*event)->id;
	events++;
	return 0;
}

static int ack_event(struct rdma_cm_event *e)
{
	held = NULL;
	events--;
	free(e);
	return 0;
}

static int create_id(struct rdma_event_channel *on, struct rdma_cm_id **to, void *context, int ps)
{
	(void)ps;
	*to = calloc(1, sizeof(**to));
	assert_non_null(*to);
	**to = (struct rdma_cm_id){.channel = on, .context = context};
	ids++;
	return 0;
}

/* As a bind does: with the port of the program's id it would be in use. */
static int resolve_addr(struct rdma_cm_id *of, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	const struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)dst;
	const struct sockaddr_in *in = (struct sockaddr_in *)dst, *from = (struct sockaddr_in *)src;

	resolved++;
	assert_true(ms > 0);
	if (resolve_fails_always || (src && (resolve_fails || from->sin_port))) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	assert_int_equal(dst->sa_family, id.route.src.ss_family == AF_INET6 ? AF_INET6 : AF_INET);
	if (dst->sa_family == AF_INET6)
		assert_memory_equal(&in6->sin6_addr, &in6addr_loopback, 16);
	else
		assert_int_equal(in->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	if (src && dst->sa_family == AF_INET)
		assert_int_equal(from->sin_addr.s_addr,
				 ((struct sockaddr_in *)&id.route.src)->sin_addr.s_addr);
	raise_event((struct channel *)of->channel, of,
		    resolve_errs ? CM_EVENT_ADDR_ERROR : CM_EVENT_ADDR_RESOLVED,
		    resolve_errs ? -ENODEV : 0);
	return 0;
}

/* What the kernel has not delivered of it goes. */
static void forget_events(struct channel *c, const struct rdma_cm_id *of)
{
	unsigned int end = c->end;
	char byte;

	for (unsigned int i = c->end = c->first; i < end; i++) {
		struct rdma_cm_event *e = c->queue[i % EVENTS_MAX];

		if (e->id != of) {
			c->queue[c->end++ % EVENTS_MAX] = e;
			continue;
		}
		free(e);
		assert_int_equal(read(c->channel.fd, &byte, 1), 1);
	}
}

/* It waits until the id's events are acknowledged. */
static int destroy_id(struct rdma_cm_id *of)
{
	assert_ptr_not_equal(of, held);
	forget_events((struct channel *)of->channel, of);
	ids--;
	free(of);
	return 0;
}

static void (*during_migration)(void);

static int migrate_id(struct rdma_cm_id *of, struct rdma_event_channel *to)
{
	if (during_migration)
		during_migration();
	if (!migrate_result)
		of->channel = to;
	return migrate_result;
}

static void disconnects(struct vqp *q, uint32_t number)
{
	assert_ptr_equal(q, &v);
	assert_true(!number || number == v.cm_number);
	said_number = number;
	said++;
}

/* --- the tests -------------------------------------------------------------------------------- */

static void channel_open(struct channel *c)
{
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	*c = (struct channel){.channel.fd = fd[0], .write_end = fd[1]};
}

static void channel_close(struct channel *c)
{
	hook_cm_destroys_channel(&c->channel);
	while (c->first < c->end)
		free(c->queue[c->first++ % EVENTS_MAX]);
	close(c->channel.fd);
	close(c->write_end);
}

static void establish(struct rdma_cm_id *of)
{
	struct channel *on = (struct channel *)of->channel;
	struct rdma_cm_event *e = NULL;

	raise_event(on, of, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(hook_cm_get_event(&on->channel, &e), 0);
	assert_int_equal(e->event, CM_EVENT_ESTABLISHED);
	assert_int_equal(hook_cm_ack_event(e), 0);
}

static int begin(void **st)
{
	static const struct real_rdmacm real = {.get_cm_event = get_event,
						.ack_cm_event = ack_event,
						.create_id = create_id,
						.resolve_addr = resolve_addr,
						.destroy_id = destroy_id,
						.migrate_id = migrate_id};

	(void)st;
	alarm(HANGS_S); /* what fails under the lock leaves it locked */
	cm_set_real(&real);
	cm_set_session(disconnects);
	channel_open(&channel);
	channel_open(&other);
	qp = (struct ibv_qp){.qp_num = 7};
	v = (struct vqp){.qp = &qp, .qpn = 7, .dev = &dev, .conn = (void *)&v};
	table_put(&dev.qps, 7, &v);
	id = (struct rdma_cm_id){.verbs = &ctx, .channel = &channel.channel, .qp = &qp};
	qp2 = (struct ibv_qp){.qp_num = 7};
	v2 = (struct vqp){.qp = &qp2, .qpn = 7, .dev = &dev2, .conn = (void *)&v2};
	table_put(&dev2.qps, 7, &v2);
	state = state2 = SHIFT_ST_ACTIVE;
	said = hidden = resolved = migrate_result = 0;
	resolve_fails = resolve_errs = false;
	held = NULL;
	rail = 1;
	alone = false;
	during_migration = NULL;
	hook_cm_connects(&id, NULL);
	assert_int_not_equal(v.cm_number, 0);
	establish(&id);
	return 0;
}

static int end(void **st)
{
	(void)st;
	hook_cm_destroys_id(&id);
	table_remove(&dev.qps, 7);
	table_remove(&dev2.qps, 7);
	channel_close(&channel);
	channel_close(&other);
	assert_int_equal(ids, 0);
	assert_int_equal(events, 0);
	return 0;
}

static void time_passes(uint64_t ns)
{
	now += ns;
	if (timer && timer->heap_at && timer->at_ns <= now)
		timer->fn(timer->arg);
}

static void never_blocks(struct channel *c)
{
	fcntl(c->channel.fd, F_SETFL, O_NONBLOCK);
}

static void expect_event(struct channel *c, int type)
{
	struct rdma_cm_event *e = NULL;

	assert_int_equal(hook_cm_get_event(&c->channel, &e), 0);
	assert_ptr_equal(e->id, &id);
	assert_int_equal(e->event, type);
	assert_int_equal(e->status, 0);
	assert_int_equal(hook_cm_ack_event(e), 0);
}

static void expect_none(struct channel *c)
{
	struct rdma_cm_event *e = (void *)&id;

	never_blocks(c);
	assert_int_equal(hook_cm_get_event(&c->channel, &e), -1);
	assert_int_equal(errno, EAGAIN);
	assert_ptr_equal(e, &id); /* librdmacm acknowledges what stands there */
}

static void test_end_is_told_once(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now + 10);
	cm_ended(v.cm_number, now + 10); /* a datagram that came twice */
	time_passes(9);
	assert_int_equal(ids, 0);
	time_passes(1);
	assert_int_equal(ids, 1);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(ids, 0);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED,
		    -ETIMEDOUT); /* the kernel's, a minute later */
	expect_none(&channel);
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_none(&channel);
}

static void test_kernel_comes_first(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now + 10);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	time_passes(10);
	expect_none(&channel);
}

static void test_kernel_comes_between(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	expect_none(&channel);
}

static void test_survived_rail(void **st)
{
	static const int types[] = {CM_EVENT_UNREACHABLE, CM_EVENT_ADDR_CHANGE,
				    CM_EVENT_DEVICE_REMOVAL};

	(void)st;
	never_blocks(&channel);
	for (unsigned int i = 0; i < 3; i++) {
		raise_event(&channel, &id, types[i], types[i] == CM_EVENT_UNREACHABLE ? -110 : 0);
		expect_none(&channel);
	}
	assert_int_equal(hidden, 3);
	state = SHIFT_ST_DEAD;
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_event(&channel, CM_EVENT_DEVICE_REMOVAL);
	state = SHIFT_ST_SETUP; /* not protected */
	raise_event(&channel, &id, CM_EVENT_ADDR_CHANGE, 0);
	expect_event(&channel, CM_EVENT_ADDR_CHANGE);
}

/* A thread that has polled a descriptor which blocks. */
static void test_polled(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_event(&channel, CM_EVENT_ADDR_CHANGE);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void *unreachable_then_disconnected(void *arg)
{
	(void)arg;
	usleep(50000);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	usleep(1500000); /* longer than one that has not slept would wait */
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	return NULL;
}

static void test_sleeper_is_not_woken(void **st)
{
	pthread_t thread;

	(void)st;
	assert_int_equal(pthread_create(&thread, NULL, unreachable_then_disconnected, NULL), 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	pthread_join(thread, NULL);
}

static void test_program_has_disconnected(void **st)
{
	(void)st;
	hook_cm_disconnects(&id, true);
	hook_cm_disconnects(&id, true); /* rdma_destroy_qp */
	assert_int_equal(said, 1);
	state = SHIFT_ST_CLOSED;
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110); /* read late */
	expect_none(&channel);
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void test_unprotected(void **st)
{
	(void)st;
	state = SHIFT_ST_SETUP;
	hook_cm_disconnects(&id, true);
	assert_int_equal(said, 0);
}

static void test_destroyed_before_it_reads(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	cm_ended(number, now);
	time_passes(0);
	hook_cm_destroys_id(&id);
	assert_int_equal(ids, 0); /* a poller is not to be woken for it */
	expect_none(&channel);
	assert_int_equal(ids, 0);
	hook_cm_connects(&id, NULL); /* another id at the same address */
	assert_int_not_equal(v.cm_number, number);
	cm_ended(number, now);
	time_passes(0);
	expect_none(&channel);
}

static void test_channel_destroyed(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(ids, 1);
	hook_cm_destroys_channel(&channel.channel);
	assert_int_equal(ids, 0);
}

static void test_migrated(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	expect_none(&channel);
	expect_event(&other, CM_EVENT_DISCONNECTED);
	expect_none(&other);
}

/* Its QP is not librdmacm's. */
static void test_own_qp(void **st)
{
	struct rdma_conn_param param = {.qp_num = 7};
	struct rdma_cm_id own = {.verbs = &ctx, .channel = &other.channel};
	uint32_t number = v.cm_number;

	(void)st;
	hook_cm_connects(&own, &param);
	assert_int_not_equal(v.cm_number, number);
	hook_cm_disconnects(&own, true);
	assert_int_equal(said, 1);
	hook_cm_destroys_id(&own);
}

/* Another connection is in another state. */
static void test_state_is_its_own(void **st)
{
	struct rdma_cm_id other_id = {.verbs = &ctx2, .channel = &other.channel, .qp = &qp2};

	(void)st;
	hook_cm_connects(&other_id, NULL);
	assert_int_not_equal(v2.cm_number, 0);
	assert_int_not_equal(v2.cm_number, v.cm_number);
	state2 = SHIFT_ST_DEAD;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	state2 = SHIFT_ST_ACTIVE;
	state = SHIFT_ST_DEAD;
	raise_event(&channel, &id, CM_EVENT_ADDR_CHANGE, 0);
	expect_event(&channel, CM_EVENT_ADDR_CHANGE);
	hook_cm_destroys_id(&other_id);
}

/* Each is told in its time. */
static void test_ends_in_any_order(void **st)
{
	const uint64_t at[] = {30, 10, 40, 20};
	struct rdma_cm_id more[4];

	(void)st;
	for (int i = 0; i < 4; i++) {
		more[i] = (struct rdma_cm_id){.verbs = &ctx, .channel = &other.channel, .qp = &qp};
		hook_cm_connects(&more[i], NULL);
		cm_ended(v.cm_number, now + at[i]);
	}
	for (int i = 1; i <= 4; i++) {
		time_passes(9);
		assert_int_equal(ids, i - 1);
		time_passes(1);
		assert_int_equal(ids, i);
	}
	for (int i = 0; i < 4; i++)
		hook_cm_destroys_id(&more[i]);
	never_blocks(&other);
	expect_none(&other); /* all of them are gone */
	assert_int_equal(ids, 0);
}

/* The program may poll the descriptor: it is not to be woken for nothing. */
static void test_nothing_wakes_for_what_was_told(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
	assert_int_equal(resolved, 0);
}

static void test_read_wake_up_is_not_repeated(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
}

static void test_migrated_alive(void **st)
{
	(void)st;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&other, CM_EVENT_DISCONNECTED);
	expect_none(&channel);
}

static void test_migration_fails(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now);
	time_passes(0);
	migrate_result = -1;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), -1);
	assert_int_equal(ids, 1);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	expect_none(&other);
}

/* What was read is not to be read again, on whatever channel. */
static void test_migrated_there_and_back(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(hook_cm_migrate_id(&id, &channel.channel), 0);
	assert_int_equal(ids, 3);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(ids, 0);
	expect_none(&channel);
	expect_none(&other);
}

static void test_channel_with_several_destroyed(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now);
	time_passes(0);
	hook_cm_migrate_id(&id, &other.channel);
	hook_cm_migrate_id(&id, &channel.channel);
	hook_cm_destroys_channel(&channel.channel);
	assert_int_equal(ids, 1);
	hook_cm_destroys_channel(&other.channel);
	assert_int_equal(ids, 0);
}

/* The program has our DISCONNECTED, and has not acknowledged it. Returns the id of ours that the
 * kernel has told it of. */
static struct rdma_cm_id *read_the_end(struct rdma_cm_event **e)
{
	struct rdma_cm_id *ours;

	cm_ended(v.cm_number, now);
	time_passes(0);
	ours = channel.queue[channel.first % EVENTS_MAX]->id;
	assert_int_equal(hook_cm_get_event(&channel.channel, e), 0);
	return ours;
}

/* Another thread destroys the channel, while the program has the event. Our id would be destroyed
 * by a message to that channel. */
static void test_channel_destroyed_before_the_ack(void **st)
{
	struct rdma_cm_event *e = NULL;
	struct rdma_cm_id *ours = read_the_end(&e);

	(void)st;
	hook_cm_destroys_channel(&channel.channel);
	assert_int_equal(ids, 1);
	assert_int_equal(hook_cm_ack_event(e), 0);
	assert_int_equal(ids, 1); /* librdmacm's part of it */
	ids = 0;
	free(ours);
}

/* The program has ids without a channel now. */
static void test_channel_destroyed_before_the_end(void **st)
{
	(void)st;
	hook_cm_destroys_channel(&channel.channel);
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(ids, 0);
}

static void the_peer_ends(void)
{
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(ids, 0); /* on which channel would it be? */
}

static void test_end_while_it_migrates(void **st)
{
	(void)st;
	for (int fails = 0; fails < 2; fails++) {
		during_migration = the_peer_ends;
		migrate_result = fails ? -1 : 0;
		hook_cm_migrate_id(&id, fails ? &channel.channel : &other.channel);
		expect_event(&other, CM_EVENT_DISCONNECTED);
		hook_cm_destroys_id(&id);
		hook_cm_connects(&id, NULL);
	}
}

static _Atomic bool destroyed;

static void *destroy_it(void *of)
{
	hook_cm_destroys_id(of);
	destroyed = true;
	return NULL;
}

/* It frees what the event's id->context is when that has returned. */
static void test_destroy_waits_for_the_ack(void **st)
{
	struct rdma_cm_event *e = NULL;
	pthread_t thread;

	(void)st;
	read_the_end(&e);
	destroyed = false;
	assert_int_equal(pthread_create(&thread, NULL, destroy_it, &id), 0);
	usleep(200000);
	assert_false(destroyed);
	assert_int_equal(hook_cm_ack_event(e), 0);
	pthread_join(thread, NULL);
}

/* librdmacm acknowledges it in its own destroy, which comes next. */
static void test_destroy_with_the_event_in_the_id(void **st)
{
	(void)st;
	read_the_end(&id.event);
	hook_cm_destroys_id(&id);
	assert_int_equal(hook_cm_ack_event(id.event), 0);
}

/* The attempt has failed, or the server's client has never heard that it is connected. */
static void test_unreachable_before_established(void **st)
{
	struct rdma_cm_id more = {.verbs = &ctx, .channel = &channel.channel, .qp = &qp};
	struct rdma_cm_event *e = NULL;

	(void)st;
	hook_cm_connects(&more, NULL);
	raise_event(&channel, &more, CM_EVENT_UNREACHABLE, -110);
	assert_int_equal(hook_cm_get_event(&channel.channel, &e), 0);
	assert_int_equal(e->event, CM_EVENT_UNREACHABLE);
	assert_int_equal(e->status, -110);
	hook_cm_ack_event(e);
	hook_cm_destroys_id(&more);
}

#define S 1000000000ull

static void test_hidden_and_over_later(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	for (int i = 0; i < 10; i++)
		time_passes(S);
	expect_none(&channel);
	state = SHIFT_ST_GIVEUP;
	for (int i = 0; i < 3; i++)
		time_passes(S);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void test_hidden_and_home(void **st)
{
	(void)st;
	for (int i = 0; i < 2; i++) {
		rail = 1;
		raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
		expect_none(&channel);
		for (int k = 0; k < 6; k++)
			time_passes(S);
		assert_int_not_equal(timer->heap_at, 0);
		rail = 0;
		for (int k = 0; k < 3; k++)
			time_passes(S);
		assert_int_equal(timer->heap_at, 0);
	}
}

static void test_the_only_nic_is_removed(void **st)
{
	(void)st;
	alone = true;
	raise_event(&channel, &id, CM_EVENT_ADDR_CHANGE, 0);
	expect_none(&channel);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_event(&channel, CM_EVENT_DEVICE_REMOVAL);
}

/* Of the NIC to which our id is bound, while the program has its first event. */
static void test_our_id_has_a_second_event(void **st)
{
	struct rdma_cm_event *e = NULL;
	struct rdma_cm_id *ours = read_the_end(&e);

	(void)st;
	raise_event(&channel, ours, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
	assert_int_equal(ids, 1);
	assert_int_equal(hook_cm_ack_event(e), 0);
	assert_int_equal(ids, 0);
}

static void test_destroys_without_a_disconnect(void **st)
{
	(void)st;
	hook_cm_disconnects(&id, false);
	assert_int_equal(said, 1);
	assert_int_equal(said_number, 0); /* this end asks for nothing */
}

static void test_another_qp_after_a_failed_attempt(void **st)
{
	struct ibv_qp another = {.qp_num = 8};
	struct vqp v8 = {.qp = &another, .qpn = 8, .dev = &dev};

	(void)st;
	table_put(&dev.qps, 8, &v8);
	id.qp = &another;
	hook_cm_connects(&id, NULL);
	assert_int_equal(v8.cm_number, v.cm_number);
	table_remove(&dev.qps, 8);
}

static void test_cannot_be_woken(void **st)
{
	(void)st;
	resolve_fails_always = true;
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(ids, 0);
	resolve_fails_always = false;
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void test_woken_over_its_own_nic(void **st)
{
	struct sockaddr_in *src = (struct sockaddr_in *)&id.route.src;

	(void)st;
	*src = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = 7, .sin_addr.s_addr = 77};
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(resolved, 1);
	assert_int_equal(src->sin_port, 7); /* the program's is left as it is */
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* Its address went with rail 0. */
static void test_woken_without_its_address(void **st)
{
	id.route.src.ss_family = AF_INET6;
	resolve_fails = true;
	test_kernel_comes_first(st);
	assert_int_equal(resolved, 0);
	hook_cm_destroys_id(&id);
	hook_cm_connects(&id, NULL);
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(resolved, 2);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* There is no loopback device that is up. It wakes all the same. */
static void test_woken_by_an_error(void **st)
{
	(void)st;
	resolve_errs = true;
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* The kernel has refused the first. */
static void test_connects_again(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	hook_cm_connects(&id, NULL);
	assert_int_equal(v.cm_number, number);
	cm_ended(number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void test_connects_without_a_nic(void **st)
{
	struct rdma_conn_param param = {.qp_num = 7};
	struct rdma_cm_id none = {.channel = &other.channel};
	uint32_t number = v.cm_number;

	(void)st;
	hook_cm_connects(&none, &param); /* librdmacm says EINVAL */
	hook_cm_disconnects(&none, true);
	hook_cm_destroys_id(&none);
	assert_int_equal(v.cm_number, number);
	assert_int_equal(said, 0);
}

/* The QP is another id's by now. */
static void test_old_id_disconnects(void **st)
{
	struct rdma_conn_param param = {.qp_num = 7};
	struct rdma_cm_id own = {.verbs = &ctx, .channel = &other.channel};

	(void)st;
	hook_cm_connects(&own, &param);
	hook_cm_disconnects(&id, true);
	assert_int_equal(said, 0);
	hook_cm_destroys_id(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(test_end_is_told_once),
		TEST(test_kernel_comes_first),
		TEST(test_kernel_comes_between),
		TEST(test_survived_rail),
		TEST(test_polled),
		TEST(test_sleeper_is_not_woken),
		TEST(test_program_has_disconnected),
		TEST(test_unprotected),
		TEST(test_destroyed_before_it_reads),
		TEST(test_channel_destroyed),
		TEST(test_migrated),
		TEST(test_own_qp),
		TEST(test_channel_destroyed_before_the_end),
		TEST(test_end_while_it_migrates),
		TEST(test_destroy_waits_for_the_ack),
		TEST(test_destroy_with_the_event_in_the_id),
		TEST(test_unreachable_before_established),
		TEST(test_hidden_and_over_later),
		TEST(test_hidden_and_home),
		TEST(test_the_only_nic_is_removed),
		TEST(test_our_id_has_a_second_event),
		TEST(test_destroys_without_a_disconnect),
		TEST(test_another_qp_after_a_failed_attempt),
		TEST(test_cannot_be_woken),
		TEST(test_state_is_its_own),
		TEST(test_ends_in_any_order),
		TEST(test_nothing_wakes_for_what_was_told),
		TEST(test_read_wake_up_is_not_repeated),
		TEST(test_migrated_alive),
		TEST(test_migration_fails),
		TEST(test_migrated_there_and_back),
		TEST(test_channel_with_several_destroyed),
		TEST(test_channel_destroyed_before_the_ack),
		TEST(test_woken_over_its_own_nic),
		TEST(test_woken_without_its_address),
		TEST(test_woken_by_an_error),
		TEST(test_connects_again),
		TEST(test_connects_without_a_nic),
		TEST(test_old_id_disconnects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
