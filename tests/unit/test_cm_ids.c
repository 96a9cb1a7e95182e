// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Events of RDMA-CM that the program is not to see, and those that we make. librdmacm and the
 * kernel are faked: a channel is a pipe with a byte for each event. */
#include <errno.h>
#include <fcntl.h>
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

enum { EVENTS_MAX = 16, CM_EVENT_ADDR_RESOLVED = 0 };

struct channel {
	struct rdma_event_channel channel; /* first */
	int write_end;
	struct rdma_cm_event *queue[EVENTS_MAX];
	unsigned int first, end;
};

_Thread_local struct uncancelled uncancelled_mine;

static struct ibv_device device = {.name = "mlx5_0"};
static struct ibv_context ctx = {.device = &device};
static struct vdev dev;
static struct ibv_qp qp;
static struct vqp v;
static enum shift_state state;
static uint64_t now;
static struct bg_timer *timer;
static struct channel channel, other;
static struct rdma_cm_id id;
static int ids, events;	 /* of ours and of the kernel, not destroyed or acknowledged */
static int said, hidden; /* to the session; counted */

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
	fn(&dev, arg);
}

void vqp_each(void (*fn)(struct vqp *, void *), void *arg)
{
	fn(&v, arg);
}

void vqp_enter(struct vqp *q)
{
	(void)q;
}

void vqp_leave(struct vqp *q)
{
	(void)q;
}

bool vqp_is_protected(const struct vqp *q)
{
	(void)q;
	return state != SHIFT_ST_SETUP;
}

void shift_conn_view(const struct shift_conn *c, struct shift_conn_view *to)
{
	(void)c;
	*to = (struct shift_conn_view){.state = state, .protected_ = state != SHIFT_ST_SETUP};
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
	char byte;

	if (read(from->fd, &byte, 1) != 1)
		return -1;
	*event = c->queue[c->first++ % EVENTS_MAX];
	events++;
	return 0;
}

static int ack_event(struct rdma_cm_event *e)
{
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

static int resolve_addr(struct rdma_cm_id *of, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	(void)src;
	(void)ms;
	assert_int_equal(dst->sa_family, AF_INET);
	raise_event((struct channel *)of->channel, of, CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

static int destroy_id(struct rdma_cm_id *of)
{
	ids--;
	free(of);
	return 0;
}

static int migrate_id(struct rdma_cm_id *of, struct rdma_event_channel *to)
{
	of->channel = to;
	return 0;
}

static void disconnects(struct vqp *q, uint32_t number)
{
	assert_ptr_equal(q, &v);
	assert_int_equal(number, v.cm_number);
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

static int begin(void **st)
{
	static const struct real_rdmacm real = {.get_cm_event = get_event,
						.ack_cm_event = ack_event,
						.create_id = create_id,
						.resolve_addr = resolve_addr,
						.destroy_id = destroy_id,
						.migrate_id = migrate_id};

	(void)st;
	cm_set_real(&real);
	cm_set_session(disconnects);
	channel_open(&channel);
	channel_open(&other);
	dev = (struct vdev){.ctx = &ctx, .qps = TABLE_INIT};
	qp = (struct ibv_qp){.qp_num = 7};
	v = (struct vqp){.qp = &qp, .qpn = 7, .dev = &dev, .conn = (void *)&v};
	table_put(&dev.qps, 7, &v);
	id = (struct rdma_cm_id){.verbs = &ctx, .channel = &channel.channel, .qp = &qp};
	state = SHIFT_ST_ACTIVE;
	said = hidden = 0;
	hook_cm_connects(&id, NULL);
	assert_int_not_equal(v.cm_number, 0);
	return 0;
}

static int end(void **st)
{
	(void)st;
	hook_cm_destroys_id(&id);
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
	hook_cm_disconnects(&id);
	hook_cm_disconnects(&id); /* rdma_destroy_qp */
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
	hook_cm_disconnects(&id);
	assert_int_equal(said, 0);
}

static void test_destroyed_before_it_reads(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	cm_ended(number, now);
	time_passes(0);
	hook_cm_destroys_id(&id);
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
	hook_cm_disconnects(&own);
	assert_int_equal(said, 1);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
