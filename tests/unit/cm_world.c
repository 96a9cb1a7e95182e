// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "tests/unit/cm_world.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/uncancelled.h"

enum { OUTSTANDING_MAX = 32 };

_Thread_local struct uncancelled uncancelled_mine;

static struct ibv_device device = {.name = "mlx5_0"};
struct ibv_context ctx = {.device = &device};
struct ibv_qp qp;
struct vqp v;
enum shift_state state;
static struct ibv_device device2 = {.name = "mlx5_1"};
struct ibv_context ctx2 = {.device = &device2};
struct ibv_qp qp2;
struct vqp v2;
enum shift_state state2;
static struct nic nic = {.name = "mlx5_0"}, nic2 = {.name = "mlx5_1"};
struct vdev dev = {.ctx = &ctx, .nic = {&nic}, .qps = TABLE_INIT};
static struct vdev dev2 = {.ctx = &ctx2, .nic = {&nic2}, .qps = TABLE_INIT};
uint8_t rail;
bool alone;
uint64_t now;
struct bg_timer *timer;
struct channel channel, other;
struct rdma_cm_id id;
int said, hidden;
uint32_t said_number;
bool resolve_fails, resolve_fails_always, resolve_errs;
bool create_fails;
int resolved, migrate_result, disconnect_result, destroy_result, said_before_the_kernel;
void (*during_migration)(void), (*during_create)(void);
void (*during_destroy)(struct rdma_cm_id *of), (*after_get)(void);
bool jobs_wait;

/* --- races ------------------------------------------------------------------------------------ */

enum { BLOCKED_MS = 10 }; /* who has not ended by then waits for the other */

static struct race {
	unsigned int at[2], steps[2];
	void (*another)(void);
	pthread_t thread;
	bool begun;
	_Atomic bool one_done, another_stands; /* it is done, or lets the first go on */
} race;
static _Thread_local enum { NONE, ONE, ANOTHER } racer;

static void race_wait(const _Atomic bool *until)
{
	for (int ms = 0; !*until && ms < BLOCKED_MS; ms++)
		usleep(1000);
}

static void *race_another(void *arg)
{
	(void)arg;
	racer = ANOTHER;
	race.another();
	race.another_stands = true;
	return NULL;
}

/* Between two things that cannot be divided. */
static void step(void)
{
	if (racer == NONE || race.steps[racer - 1]++ != race.at[racer - 1])
		return;
	if (racer == ANOTHER) {
		race.another_stands = true;
		race_wait(&race.one_done);
		return;
	}
	assert_int_equal(pthread_create(&race.thread, NULL, race_another, NULL), 0);
	race.begun = true;
	race_wait(&race.another_stands);
}

bool race_at(unsigned int n, unsigned int m, void (*one)(void), void (*another)(void))
{
	race = (struct race){.at = {n, m}, .another = another};
	racer = ONE;
	one();
	racer = NONE;
	race.one_done = true;
	if (race.begun)
		pthread_join(race.thread, NULL);
	else
		another();
	return race.begun;
}

bool race_another_stood(void)
{
	return race.steps[1] > race.at[1];
}

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static _Thread_local unsigned int held;

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	held++;
	return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int err = __real_pthread_mutex_unlock(mutex);

	if (!--held)
		step();
	return err;
}

/* Of the kernel: the queues of the channels, and what was read and not acknowledged. */
static pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct rdma_cm_event *event;
	const struct rdma_cm_id *of; /* as the kernel has said: ours is given as another's */
} outstanding[OUTSTANDING_MAX];
_Atomic int ids;

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

static bool can_be_cancelled(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	pthread_setcancelstate(was, NULL);
	return was == PTHREAD_CANCEL_ENABLE;
}

/* The argument is on the stack of who waits. */
void bg_call_wait(void (*fn)(void *arg), void *arg)
{
	assert_false(can_be_cancelled());
	fn(arg);
}

struct worker *worker_new(const char *name, unsigned int threads)
{
	(void)name;
	(void)threads;
	return (void *)&v;
}

struct job *job_waits;

void run_job(struct job *job)
{
	uncancelled_begin(); /* the program does not know that thread */
	job->fn(job);
	uncancelled_end();
}

void worker_submit(struct worker *w, struct job *job)
{
	assert_ptr_equal(w, &v);
	if (jobs_wait)
		job_waits = job;
	else
		run_job(job);
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

/* What was acknowledged last: its memory is used again by the next. */
static struct rdma_cm_event *spare;

void raise_event(struct channel *on, struct rdma_cm_id *of, int type, int status)
{
	struct rdma_cm_event *e;

	pthread_mutex_lock(&kernel);
	e = spare ? spare : malloc(sizeof(*e));
	spare = NULL;
	assert_non_null(e);
	*e = (struct rdma_cm_event){.id = of, .event = type, .status = status};
	on->queue[on->end++ % EVENTS_MAX] = e;
	assert_int_equal(write(on->write_end, "", 1), 1);
	pthread_mutex_unlock(&kernel);
}

bool has_event(const struct channel *c)
{
	struct pollfd p = {.fd = c->channel.fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* NULL: of any. */
static bool is_acknowledged(const struct rdma_cm_id *of)
{
	bool is = true;

	pthread_mutex_lock(&kernel);
	for (int i = 0; i < OUTSTANDING_MAX; i++)
		if (outstanding[i].event && (!of || outstanding[i].of == of))
			is = false;
	pthread_mutex_unlock(&kernel);
	return is;
}

static struct rdma_cm_event *deliver(struct channel *c)
{
	struct rdma_cm_event *e = NULL;
	int i = 0;
	char byte;

	pthread_mutex_lock(&kernel);
	if (has_event(c) && read(c->channel.fd, &byte, 1) == 1) {
		e = c->queue[c->first++ % EVENTS_MAX];
		while (outstanding[i].event)
			i++;
		outstanding[i].event = e;
		outstanding[i].of = e->id;
	}
	pthread_mutex_unlock(&kernel);
	return e;
}

static int get_event(struct rdma_event_channel *from, struct rdma_cm_event **event)
{
	struct channel *c = (struct channel *)from;
	struct pollfd p = {.fd = from->fd, .events = POLLIN};
	void (*after)(void) = after_get;

	assert_true(can_be_cancelled());
	if (!(fcntl(from->fd, F_GETFL) & O_NONBLOCK))
		assert_int_equal(poll(&p, 1, FOR_EVER_MS), 1);
	*event = deliver(c);
	if (!*event) {
		errno = EAGAIN;
		return -1;
	}
	if (after) {
		after_get = NULL;
		after();
	}
	return 0;
}

void get_unhooked(struct channel *c, struct rdma_cm_event **event)
{
	assert_int_equal(get_event(&c->channel, event), 0);
}

static int ack_event(struct rdma_cm_event *e)
{
	int i = 0;

	pthread_mutex_lock(&kernel);
	while (outstanding[i].event != e)
		assert_true(++i < OUTSTANDING_MAX);
	outstanding[i].event = NULL;
	free(spare);
	spare = e;
	pthread_mutex_unlock(&kernel);
	return 0;
}

static int create_id(struct rdma_event_channel *on, struct rdma_cm_id **to, void *context, int ps)
{
	(void)ps;
	assert_false(can_be_cancelled());
	if (create_fails) {
		errno = ENOMEM;
		return -1;
	}
	*to = calloc(1, sizeof(**to));
	assert_non_null(*to);
	**to = (struct rdma_cm_id){.channel = on, .context = context, .port_num = OURS};
	ids++;
	if (during_create)
		during_create();
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

static bool calls_itself; /* not through its PLT */

/* It waits until the id's events are acknowledged. */
static int destroy_id(struct rdma_cm_id *of)
{
	bool ours = of->port_num == OURS;

	assert_true(!ours || !can_be_cancelled());
	if (!ours && destroy_result)
		return destroy_result;
	pthread_mutex_lock(&kernel);
	forget_events((struct channel *)of->channel, of);
	pthread_mutex_unlock(&kernel);
	if (during_destroy)
		during_destroy(of);
	if (!ours && of->event && calls_itself)
		ack_event(of->event);
	else if (!ours && of->event)
		hook_cm_ack_event(of->event);
	of->event = NULL;
	for (int ms = 0; !is_acknowledged(of); ms++) {
		assert_true(ms < FOR_EVER_MS);
		usleep(1000);
	}
	if (ours) {
		ids--;
		free(of);
	}
	step();
	return 0;
}

static void destroy_ep(struct rdma_cm_id *of)
{
	calls_itself = true;
	assert_int_equal(destroy_id(of), 0);
	calls_itself = false;
}

static int migrate_id(struct rdma_cm_id *of, struct rdma_event_channel *to)
{
	if (during_migration)
		during_migration();
	if (!migrate_result)
		of->channel = to;
	else
		errno = EBADF;
	step();
	return migrate_result;
}

static int disconnect(struct rdma_cm_id *of)
{
	assert_ptr_equal(of, &id);
	said_before_the_kernel = said;
	return disconnect_result;
}

static void disconnects(struct vqp *q, uint32_t number)
{
	assert_ptr_equal(q, &v);
	assert_true(!number || number == v.cm_number);
	said_number = number;
	said++;
}

/* --- what tests do ---------------------------------------------------------------------------- */

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

void destroy(struct rdma_cm_id *of)
{
	assert_int_equal(hook_cm_destroy_id(of), 0);
}

int begin(void **st)
{
	static const struct real_rdmacm real = {.get_cm_event = get_event,
						.ack_cm_event = ack_event,
						.create_id = create_id,
						.resolve_addr = resolve_addr,
						.destroy_id = destroy_id,
						.destroy_ep = destroy_ep,
						.disconnect = disconnect,
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
	said = hidden = resolved = migrate_result = destroy_result = 0;
	resolve_fails = resolve_errs = resolve_fails_always = create_fails = false;
	rail = 1;
	alone = false;
	during_migration = during_create = after_get = NULL;
	during_destroy = NULL;
	disconnect_result = 0;
	jobs_wait = false;
	hook_cm_connects(&id, NULL);
	assert_int_not_equal(v.cm_number, 0);
	establish(&id);
	return 0;
}

int end(void **st)
{
	(void)st;
	destroy(&id);
	table_remove(&dev.qps, 7);
	table_remove(&dev2.qps, 7);
	v.cm_number = v2.cm_number = 0;
	jobs_wait = false;
	time_passes(10000000000ull); /* what is looked after is no more */
	assert_true(!timer || !timer->heap_at);
	channel_close(&channel);
	channel_close(&other);
	assert_int_equal(ids, 0);
	assert_true(is_acknowledged(NULL));
	free(spare);
	spare = NULL;
	return 0;
}

void time_passes(uint64_t ns)
{
	now += ns;
	if (timer && timer->heap_at && timer->at_ns <= now)
		timer->fn(timer->arg);
}

void never_blocks(struct channel *c)
{
	fcntl(c->channel.fd, F_SETFL, O_NONBLOCK);
}

void expect_event(struct channel *c, int type)
{
	struct rdma_cm_event *e = NULL;

	assert_int_equal(hook_cm_get_event(&c->channel, &e), 0);
	assert_ptr_equal(e->id, &id);
	assert_int_equal(e->event, type);
	assert_int_equal(e->status, 0);
	assert_int_equal(hook_cm_ack_event(e), 0);
}

void expect_none(struct channel *c)
{
	struct rdma_cm_event *e = (void *)&id;

	never_blocks(c);
	assert_int_equal(hook_cm_get_event(&c->channel, &e), -1);
	assert_int_equal(errno, EAGAIN);
	assert_ptr_equal(e, &id); /* librdmacm acknowledges what stands there */
}

void the_peer_ends(void)
{
	cm_ended(v.cm_number, now);
	time_passes(0);
}

struct rdma_cm_id *read_the_end(struct rdma_cm_event **e)
{
	struct rdma_cm_id *ours;

	the_peer_ends();
	ours = channel.queue[channel.first % EVENTS_MAX]->id;
	assert_int_equal(hook_cm_get_event(&channel.channel, e), 0);
	return ours;
}
