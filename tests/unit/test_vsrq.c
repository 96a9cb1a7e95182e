// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The program's shared receive queues (lib/object/vsrq.c): their end, their growth, their timers.
 * NICs' threads and the clock are the test's. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/pages.h"
#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/base/uncancelled.h"
#include "lib/object/vsrq.h"

enum { ROOM = 8, JOBS_MAX = 16, PAGE = 4096, MS = 1000000 };

struct real_verbs real;
_Thread_local bool hooks_off;
_Thread_local struct uncancelled uncancelled_mine;

static uint64_t clock_ns;
static struct vdev dev;
static struct vpd vpd;
static struct ibv_pd pd, shadow_pd;
static struct ibv_context ctx, backup_ctx;
static struct nic nics[2];
static struct ibv_srq *srq, shadow = {.context = &backup_ctx};
static struct vsrq *s;

/* --- the world -------------------------------------------------------------------------------- */

uint64_t now_ns(void)
{
	return clock_ns;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

bool fork_in_child(void)
{
	return false;
}

bool fork_in_child_warn(void)
{
	return false;
}

bool pd_has_thread(const struct ibv_pd *p)
{
	(void)p;
	return false;
}

struct vpd *vpd_find(const struct ibv_pd *p)
{
	return p == &pd ? &vpd : NULL;
}

struct vdev *vdev_find(const struct ibv_context *c)
{
	return c == &ctx ? &dev : NULL;
}

int vmr_lkey(struct vpd *p, struct nic *nic, uint32_t lkey, uint32_t *twin)
{
	(void)p;
	(void)nic;
	*twin = lkey;
	return 0;
}

int stats_srq_add(unsigned int rails, const char *const *names, uint32_t room)
{
	(void)rails;
	(void)names;
	(void)room;
	return -1;
}

void stats_srq_update(int slot, const struct stats_srq_state *state)
{
	(void)slot;
	(void)state;
}

void stats_srq_remove(int slot)
{
	(void)slot;
}

/* Another thread does something meanwhile. */
static void (*meanwhile)(void);
static int pages_had;

static void others_act(void)
{
	void (*fn)(void) = meanwhile;

	meanwhile = NULL;
	if (fn)
		fn();
}

void *pages_get(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	assert_non_null(memory);
	memset(memory, 0, bytes);
	pages_had++;
	others_act();
	return memory;
}

void pages_put(void *memory, size_t bytes)
{
	(void)bytes;
	pages_had -= memory != NULL;
	free(memory);
}

void object_get(struct object *obj)
{
	obj->refs++;
}

void object_put(struct object *obj)
{
	if (!--obj->refs)
		obj->free(obj);
}

static struct waiting_job {
	struct object *obj;
	struct nic *nic;
	object_fn *fn;
} waiting[JOBS_MAX];
static unsigned int jobs;
static bool no_memory;

bool object_job(struct object *obj, struct nic *nic, object_fn *fn)
{
	if (no_memory)
		return false;
	assert_true(jobs < JOBS_MAX);
	object_get(obj);
	waiting[jobs++] = (struct waiting_job){obj, nic, fn};
	return true;
}

void object_jobs_wait(struct object *obj, struct nic *const *nic, unsigned int n, object_fn *fn)
{
	for (unsigned int i = 0; i < n; i++)
		fn(obj, nic[i]);
}

static void run_jobs(void)
{
	for (unsigned int i = 0; i < jobs; i++) {
		struct waiting_job j = waiting[i];

		j.fn(j.obj, j.nic);
		object_put(j.obj);
	}
	jobs = 0;
}

static struct bg_call *called;
static struct bg_timer *timer;
static uint64_t timer_at;

/* It may write(2), which is a point of cancellation. A post and a poll have none. */
void bg_call(struct bg_call *call)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
	assert_null(called);
	called = call;
}

void bg_timer_set(struct bg_timer *t, uint64_t at)
{
	timer = t;
	timer_at = at;
}

/* The background thread, until nothing is due. Returns how often it was at work. */
static unsigned int turn_background(unsigned int most)
{
	unsigned int n = 0;

	for (; n < most && (called || timer_at <= clock_ns); n++) {
		struct bg_call *call = called;

		called = NULL;
		if (call) {
			call->fn(call->arg);
		} else {
			timer_at = UINT64_MAX;
			timer->fn(timer->arg);
		}
	}
	return n;
}

static unsigned int drains;
static enum shift_srq_drain drain_finds;

/* Nobody sleeps for events here. */
void event_waker_look(struct vdev *d)
{
	assert_ptr_equal(d, &dev);
}

enum shift_srq_drain srq_drainer_run(struct srq_drainer *d, const struct srq_place *at,
				     uint32_t count, bool (*took)(void *arg, uint64_t id),
				     void *arg)
{
	(void)d;
	(void)at;
	(void)count;
	(void)took;
	(void)arg;
	drains++;
	return drain_finds;
}

void srq_drainer_end(struct srq_drainer *d)
{
	(void)d;
}

/* What the program's NIC was posted. It has room for so many, and refuses the next. */
static struct {
	unsigned int calls, taken, room;
	int err;
	bool says_which;
	uint64_t id[ROOM];
} home;

static int fake_post(struct ibv_srq *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	home.calls += q == srq;
	for (; q == srq && wr; wr = wr->next) {
		if (home.taken == home.room) {
			*bad = home.says_which ? wr : NULL;
			return home.err;
		}
		home.id[home.taken++] = wr->wr_id;
	}
	return 0;
}

static struct ibv_srq *fake_create(struct ibv_pd *in, struct ibv_srq_init_attr *attr)
{
	(void)attr;
	assert_ptr_equal(in, &shadow_pd);
	return &shadow;
}

static int modify_err;
static uint32_t nic_limit; /* as the program's NIC has it */

static int fake_modify(struct ibv_srq *q, struct ibv_srq_attr *attr, int mask)
{
	(void)q;
	if (modify_err)
		return modify_err;
	if (mask & IBV_SRQ_LIMIT)
		nic_limit = attr->srq_limit;
	return 0;
}

static int destroy_err;
static unsigned int destroys, busy_destroys; /* the first of them find the drainer there */

/* What still looks at it then dies of it. */
static int fake_destroy(struct ibv_srq *q)
{
	if (q != &shadow && ++destroys <= busy_destroys)
		return EBUSY;
	if (destroy_err && q != &shadow)
		return destroy_err;
	return q == &shadow ? 0 : munmap(q, PAGE);
}

static unsigned int feeds;
static void (*on_feed)(void);

static void feed_none(struct vsrq *of)
{
	(void)of;
	feeds++;
	if (on_feed)
		on_feed();
}

static void evict_none(struct vsrq *of, unsigned int k)
{
	(void)of;
	(void)k;
}

static uint32_t created_limit;

static struct vsrq *create(void)
{
	struct ibv_srq_init_attr attr = {
		.attr = {.max_wr = ROOM, .max_sge = 1, .srq_limit = created_limit}};

	srq = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(srq != MAP_FAILED);
	*srq = (struct ibv_srq){.context = &ctx, .pd = &pd};
	assert_ptr_equal(hook_created_srq(srq, &pd, &attr), srq);
	return vsrq_find(srq);
}

static int set_up(void **state)
{
	static const struct srq_calls none = {.evict = evict_none, .feed = feed_none};

	(void)state;
	clock_ns = 1000000000;
	timer_at = UINT64_MAX;
	called = NULL;
	jobs = drains = feeds = nic_limit = 0;
	no_memory = false;
	modify_err = destroy_err = 0;
	destroys = busy_destroys = 0;
	drain_finds = SHIFT_SRQ_TOOK_ALL;
	on_feed = NULL;
	memset(&home, 0, sizeof(home));
	home.room = ROOM;
	nics[0] = (struct nic){.name = "mlx5_0", .index = 0, .ready = true, .ctx = &ctx};
	nics[1] = (struct nic){.name = "mlx5_1", .index = 1, .ready = true, .ctx = &backup_ctx};
	dev = (struct vdev){.ctx = &ctx, .rails = 2, .nic = {&nics[0], &nics[1]}};
	dev.ops.post_srq_recv = fake_post;
	backup_ctx.ops.post_srq_recv = fake_post;
	vpd = (struct vpd){.obj.refs = 1, .pd = &pd, .dev = &dev, .shadow = {&pd, &shadow_pd}};
	pd.context = &ctx;
	real.create_srq = fake_create;
	real.destroy_srq = fake_destroy;
	real.modify_srq = fake_modify;
	vsrq_set_calls(&none);
	s = create();
	assert_non_null(s);
	return 0;
}

/* --- what the program does -------------------------------------------------------------------- */

static void post_one(uint64_t id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = id};

	assert_int_equal(hot_post_srq_recv(srq, &wr, &bad), 0);
}

/* A QP was moved, took its receives along, and is destroyed: the backup has ghosts. */
static void leave_ghosts(void)
{
	assert_ptr_equal(vsrq_shadow(s, 1), &shadow);
	assert_true(vsrq_join(s, 1));
	for (unsigned int i = 0; i < 4; i++)
		post_one(i);
	vsrq_leave(s, 1, true);
}

/* The last eight are kept, and nothing else. */
static void forget_ended(void)
{
	for (unsigned int i = 0; i < 8; i++) {
		create();
		assert_int_equal(hook_destroy_srq(srq), 0);
		run_jobs();
	}
	assert_int_equal(pages_had, 8);
}

static void destroy_all(void)
{
	assert_int_equal(hook_destroy_srq(srq), 0);
	run_jobs();
	clock_ns += 10000ull * MS;
	turn_background(100);
	forget_ended();
}

/* --- tests ------------------------------------------------------------------------------------ */

/* The NIC hung, the drainer was there still, and when the verb returns it hangs no more. */
static void an_end_that_meets_the_drainer_waits_for_it_once_more(void **state)
{
	(void)state;
	leave_ghosts();
	s->rail[0].has_drainer = true;
	busy_destroys = 1;
	destroy_all(); /* it, and eight more */
	assert_int_equal(destroys, 2 + 8);
}

/* It is not our drainer that is in the way. */
static void an_end_that_is_refused_twice_is_refused(void **state)
{
	(void)state;
	leave_ghosts();
	s->rail[0].has_drainer = true;
	busy_destroys = 2;
	assert_int_equal(hook_destroy_srq(srq), EBUSY);
	assert_int_equal(destroys, 2);
	destroy_all();
}

static void an_end_with_a_drain_under_way_is_an_end(void **state)
{
	(void)state;
	leave_ghosts();
	assert_true(jobs > 0);
	turn_background(10);
	assert_int_equal(hook_destroy_srq(srq), 0);
	run_jobs();
	for (unsigned int i = 0; i < 100; i++) {
		clock_ns += 50 * MS;
		assert_in_range(turn_background(10), 0, 2);
	}
	assert_int_equal(timer_at, UINT64_MAX);
	forget_ended();
}

static void another_grows_it_further(void)
{
	struct ibv_srq_attr attr = {.max_wr = 64 * ROOM};

	assert_int_equal(hook_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
}

static void two_threads_may_grow_it(void **state)
{
	struct ibv_srq_attr attr = {.max_wr = 2 * ROOM};
	int before = pages_had;

	(void)state;
	for (unsigned int i = 0; i < ROOM; i++)
		post_one(i);
	meanwhile = another_grows_it_further;
	assert_int_equal(hook_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(pages_had, before);
	assert_int_equal(s->books.cfg.cap, 64 * ROOM);
	for (unsigned int i = ROOM; i < 64 * ROOM; i++)
		post_one(i);
	assert_null(shift_srq_check(&s->books));
	destroy_all();
}

/* A thread was about to have the program's own NIC drained. */
static void a_drain_that_comes_too_late_touches_nothing(void **state)
{
	(void)state;
	post_one(1);
	assert_true(vsrq_join(s, 0));
	vsrq_leave(s, 0, true); /* NIC 0 has a ghost */
	assert_int_equal(jobs, 1);
	destroy_all();
	assert_int_equal(drains, 0);
}

/* The NIC has kept the completions of a QP that is gone, as soft-RoCE does. */
static void a_completion_after_the_end_has_the_programs_wr_id(void **state)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	uint64_t id = s->first_id;

	(void)state;
	post_one(77);
	post_one(78);
	wc.wr_id = id;
	assert_int_equal(hook_destroy_srq(srq), 0);
	run_jobs();
	vsrq_translate(&wc);
	assert_int_equal(wc.wr_id, 77);
	forget_ended();
	wc.wr_id = id + 1;
	vsrq_translate(&wc);
	assert_int_equal(wc.wr_id, id + 1);
}

/* The program's sends may bear anything. */
static void an_id_that_was_never_given_is_none(void **state)
{
	(void)state;
	post_one(1);
	assert_true(vsrq_owns(s, s->first_id));
	assert_false(vsrq_owns(s, s->first_id + 1));
	assert_false(vsrq_owns(s, s->first_id - 1));
	assert_false(vsrq_owns(s, s->first_id >> 48 << 48 | 0xffffffffffff));
	post_one(2);
	assert_true(vsrq_owns(s, s->first_id + 1));
	destroy_all();
}

/* --- its limit -------------------------------------------------------------------------------- */

enum { LIMIT = 3 };

static int arm(uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	return hook_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

/* Its only QP moves, and all receives follow. */
static void move(void)
{
	if (!s->books.nic[0].live)
		assert_true(vsrq_join(s, 0));
	assert_ptr_equal(vsrq_shadow(s, 1), &shadow);
	vsrq_leave(s, 0, true);
	assert_true(vsrq_join(s, 1));
	drain_finds = SHIFT_SRQ_RNR;
	run_jobs();
	assert_false(shift_srq_alone(&s->books));
}

static void come_home(void)
{
	vsrq_leave(s, 1, true);
	assert_true(vsrq_join(s, 0));
	assert_true(shift_srq_alone(&s->books));
}

static void post_many(unsigned int n)
{
	while (n--)
		post_one(n);
}

/* A message, wherever there is a receive. */
static void message(void)
{
	for (uint32_t i = 0; i <= s->books.ring.mask; i++) {
		const struct shift_srq_entry *e = shift_srq_at(&s->books, i);
		uint64_t id = e->id;

		if (id == SHIFT_SRQ_NO_ID || e->nic == SHIFT_SRQ_NOWHERE)
			continue;
		assert_true(vsrq_done(s, e->nic, &id));
		return;
	}
	assert_true(false);
}

static void messages(unsigned int n)
{
	while (n--)
		message();
}

/* How many events were made; they are read and acknowledged. */
static int made(void)
{
	struct ibv_async_event e;
	int n = 0;

	for (; made_event_take(&dev, &e); n++) {
		assert_int_equal(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
		assert_ptr_equal(e.element.srq, srq);
		assert_true(made_event_acked(&s->limit.event));
	}
	return n;
}

static void at_home_the_nic_counts(void **state)
{
	(void)state;
	post_many(ROOM);
	assert_int_equal(arm(LIMIT), 0);
	assert_int_equal(nic_limit, LIMIT);
	messages(ROOM);
	assert_int_equal(made(), 0);
	assert_true(srq_limit_is_due(s));
	assert_int_equal(s->limit.armed, 0);
	destroy_all();
}

static void elsewhere_the_books_count(void **state)
{
	(void)state;
	move();
	post_many(ROOM);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(arm(LIMIT), 0);
		assert_false(srq_limit_is_due(s)); /* a drainer has tripped the NIC's */
		messages(ROOM - LIMIT);
		assert_int_equal(made(), 0);
		message();
		assert_int_equal(made(), 1);
		assert_false(srq_limit_is_due(s)); /* once for each arming */
		post_one(1);
		messages(2);
		assert_int_equal(made(), 0);
		post_many(ROOM - LIMIT + 2);
	}
	come_home();
	assert_false(srq_limit_is_due(s)); /* nor at home */
	destroy_all();
}

/* The NIC may have said so first, of what was not polled yet. */
static void elsewhere_the_nics_is_taken_if_it_is_true(void **state)
{
	(void)state;
	move();
	post_many(LIMIT);
	assert_int_equal(arm(LIMIT), 0);
	short_lock_take(&s->lock);
	s->books.nic[1].on--; /* another thread has it, and is about to look */
	short_lock_give(&s->lock);
	assert_true(srq_limit_is_due(s));
	s->books.nic[1].on++;
	message();
	assert_int_equal(made(), 0);
	destroy_all();
}

static void armed_too_late_it_comes_at_once(void **state)
{
	(void)state;
	move();
	post_many(LIMIT - 1);
	assert_int_equal(arm(LIMIT), 0);
	assert_int_equal(made(), 1);
	assert_int_equal(arm(0), 0);
	assert_int_equal(made(), 0);
	destroy_all();
}

static void a_limit_of_creation(void **state)
{
	(void)state;
	destroy_all();
	created_limit = LIMIT;
	s = create();
	created_limit = 0;
	post_many(LIMIT);
	move();
	message();
	assert_int_equal(made(), 1);
	destroy_all();
}

/* The drainer may have tripped it, and the NIC has counted nothing meanwhile. */
static void at_home_again_the_nic_is_armed_again(void **state)
{
	(void)state;
	post_many(ROOM);
	arm(LIMIT);
	move();
	nic_limit = 0;
	come_home();
	run_jobs();
	assert_int_equal(nic_limit, LIMIT);
	assert_int_equal(made(), 0);
	assert_true(srq_limit_is_due(s));
	move();
	messages(ROOM);
	nic_limit = 0;
	come_home();
	run_jobs();
	assert_int_equal(nic_limit, 0); /* it was answered */
	assert_int_equal(made(), 0);
	destroy_all();
}

/* What was taken before the NIC was armed is told by feeding, for some NICs say nothing of it. */
static void at_home_again_none_is_missed(void **state)
{
	(void)state;
	post_many(LIMIT);
	arm(LIMIT);
	move();
	come_home();
	on_feed = message;
	run_jobs();
	assert_int_equal(made(), 1);
	assert_false(srq_limit_is_due(s));
	on_feed = NULL;
	arm(LIMIT); /* it is the NIC's again */
	assert_true(srq_limit_is_due(s));
	destroy_all();
}

/* It may be a completion that brings them home, after which nothing else is to be done. */
static void at_home_by_a_completion_the_nic_is_armed_again(void **state)
{
	(void)state;
	post_many(ROOM);
	arm(LIMIT);
	nic_limit = 0;
	s->limit.away = true;
	message();
	run_jobs();
	assert_int_equal(nic_limit, LIMIT);
	nic_limit = 0;
	s->limit.away = true;
	assert_false(srq_limit_is_due(s));
	run_jobs();
	assert_int_equal(nic_limit, LIMIT);
	assert_true(srq_limit_is_due(s));
	destroy_all();
}

static void a_destroyed_srq_is_not_armed_again(void **state)
{
	(void)state;
	post_many(ROOM);
	arm(LIMIT);
	move();
	nic_limit = 0;
	come_home();
	destroy_all();
	assert_int_equal(nic_limit, 0);
}

/* The NIC has said so before they left, and nobody has read that; and says so again. */
static void at_home_again_it_is_said_once(void **state)
{
	(void)state;
	post_many(ROOM);
	for (int i = 0; i < 2; i++) {
		arm(LIMIT);
		move();
		come_home();
		run_jobs();
		assert_int_equal(nic_limit, LIMIT);
		assert_true(srq_limit_is_due(s));
		assert_false(srq_limit_is_due(s));
	}
	arm(LIMIT);
	arm(LIMIT);
	assert_true(srq_limit_is_due(s) && srq_limit_is_due(s)); /* once for each arming */
	destroy_all();
}

static void without_memory_the_nic_is_armed_later(void **state)
{
	(void)state;
	post_many(ROOM);
	arm(LIMIT);
	move();
	nic_limit = 0;
	no_memory = true;
	come_home();
	turn_background(10);
	no_memory = false;
	clock_ns += 20ull * MS;
	turn_background(10);
	run_jobs();
	assert_int_equal(nic_limit, LIMIT);
	assert_true(srq_limit_is_due(s));
	destroy_all();
}

/* 20 ms pass in small steps. Returns how often all CQs were fed. */
static unsigned int feeds_in_20_ms(void)
{
	unsigned int before = feeds;

	for (int i = 0; i < 20; i++) {
		clock_ns += MS;
		turn_background(10);
		run_jobs();
	}
	return feeds - before;
}

static void a_program_that_does_not_poll_hears_of_it(void **state)
{
	(void)state;
	post_many(LIMIT);
	assert_int_equal(feeds_in_20_ms(), 0);
	move();
	assert_int_equal(feeds_in_20_ms(), 0); /* it is not armed */
	arm(LIMIT);
	assert_in_range(feeds_in_20_ms(), 1, 2);
	on_feed = message;
	feeds_in_20_ms();
	assert_int_equal(made(), 1);
	on_feed = NULL;
	assert_int_equal(feeds_in_20_ms(), 0); /* it was answered */
	arm(1);
	assert_in_range(feeds_in_20_ms(), 1, 2);
	come_home();
	run_jobs();
	assert_int_equal(feeds_in_20_ms(), 0);
	destroy_all();
}

/* One at a time, however long it takes. */
static void a_feed_that_hangs(void **state)
{
	unsigned int before;

	(void)state;
	post_many(LIMIT);
	move();
	run_jobs();
	arm(LIMIT);
	before = jobs;
	for (int i = 0; i < 100; i++) {
		clock_ns += MS;
		turn_background(10);
	}
	assert_int_equal(jobs, before + 1);
	run_jobs();
	assert_in_range(feeds_in_20_ms(), 1, 2);
	destroy_all();
}

static void a_limit_that_the_nic_refuses(void **state)
{
	(void)state;
	move();
	post_many(LIMIT);
	arm(LIMIT);
	modify_err = EINVAL;
	assert_int_equal(arm(1), EINVAL);
	message();
	assert_int_equal(made(), 1);
	destroy_all();
}

static void an_srq_that_cannot_be_destroyed_keeps_its_event(void **state)
{
	struct ibv_async_event e;

	(void)state;
	move();
	arm(LIMIT);
	destroy_err = EBUSY;
	assert_int_equal(hook_destroy_srq(srq), EBUSY);
	assert_int_equal(made(), 1);
	arm(LIMIT);
	assert_int_equal(made(), 1);
	arm(LIMIT);
	destroy_err = 0;
	destroy_all();
	assert_false(made_event_take(&dev, &e));
}

/* --- lists ------------------------------------------------------------------------------------ */

enum { LIST = 4 };

static struct ibv_recv_wr list[LIST], *bad;
static struct ibv_sge sges[LIST][2];

/* Of WRs with so many SGEs. What the program's call returns. */
static int post_list_of(const int *num_sge)
{
	for (unsigned int i = 0; i < LIST; i++)
		list[i] = (struct ibv_recv_wr){.wr_id = 70 + i,
					       .next = i + 1 < LIST ? &list[i + 1] : NULL,
					       .sg_list = sges[i],
					       .num_sge = num_sge[i]};
	bad = NULL;
	return hot_post_srq_recv(srq, list, &bad);
}

static const int ones[LIST] = {1, 1, 1, 1};

/* What NIC 0 has are the first of the list, each alone in its entry. */
static void home_has(unsigned int n)
{
	assert_int_equal(home.taken, n);
	assert_int_equal(s->books.nic[0].on, n);
	assert_null(shift_srq_check(&s->books));
	for (unsigned int i = 0; i < n; i++) {
		struct shift_srq_entry *e = shift_srq_at(&s->books, home.id[i]);

		assert_int_equal(e->id, home.id[i]);
		assert_int_equal(e->wr_id, 70 + i);
		assert_null(e->wr.next);
	}
}

static void a_list_is_posted_at_once(void **state)
{
	(void)state;
	assert_int_equal(post_list_of(ones), 0);
	assert_int_equal(home.calls, 1);
	home_has(LIST);
	assert_int_equal(post_list_of(ones), 0);
	assert_int_equal(home.calls, 2);
	destroy_all();
}

static void a_list_of_many_kinds_is_posted_in_order(void **state)
{
	(void)state;
	assert_int_equal(post_list_of((const int[LIST]){1, 0, 1, 1}), 0);
	assert_int_equal(home.calls, 3);
	home_has(LIST);
	assert_int_equal(post_list_of((const int[LIST]){1, 1, 2, 1}), EINVAL);
	assert_ptr_equal(bad, &list[2]);
	assert_int_equal(home.taken, LIST + 2);
	assert_int_equal(shift_srq_total(&s->books), LIST + 2);
	destroy_all();
}

static void of_a_list_that_is_too_long_the_rest_is_not_posted(void **state)
{
	(void)state;
	home.room = 2;
	home.err = ENOMEM;
	home.says_which = true;
	assert_int_equal(post_list_of(ones), ENOMEM);
	assert_ptr_equal(bad, &list[2]);
	home_has(2);
	assert_int_equal(shift_srq_total(&s->books), 2);
	destroy_all();
}

/* A NIC that is out of order has the first: the others wait for another one. */
static void what_a_broken_nic_refuses_is_free(void **state)
{
	(void)state;
	home.room = 2;
	home.err = EIO;
	home.says_which = true;
	assert_int_equal(post_list_of(ones), 0);
	assert_null(bad);
	home_has(2);
	assert_int_equal(s->books.free, 2);
	destroy_all();
}

/* They may be in its queue. */
static void what_nobody_knows_counts_as_posted(void **state)
{
	(void)state;
	home.room = 2;
	home.err = EIO;
	assert_int_equal(post_list_of(ones), 0);
	assert_null(bad);
	assert_int_equal(s->books.nic[0].on, LIST);
	assert_null(shift_srq_check(&s->books));
	destroy_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_end_that_meets_the_drainer_waits_for_it_once_more,
				       set_up),
		cmocka_unit_test_setup(an_end_that_is_refused_twice_is_refused, set_up),
		cmocka_unit_test_setup(an_end_with_a_drain_under_way_is_an_end, set_up),
		cmocka_unit_test_setup(two_threads_may_grow_it, set_up),
		cmocka_unit_test_setup(a_drain_that_comes_too_late_touches_nothing, set_up),
		cmocka_unit_test_setup(a_completion_after_the_end_has_the_programs_wr_id, set_up),
		cmocka_unit_test_setup(an_id_that_was_never_given_is_none, set_up),
		cmocka_unit_test_setup(at_home_the_nic_counts, set_up),
		cmocka_unit_test_setup(elsewhere_the_books_count, set_up),
		cmocka_unit_test_setup(elsewhere_the_nics_is_taken_if_it_is_true, set_up),
		cmocka_unit_test_setup(armed_too_late_it_comes_at_once, set_up),
		cmocka_unit_test_setup(a_limit_of_creation, set_up),
		cmocka_unit_test_setup(at_home_again_the_nic_is_armed_again, set_up),
		cmocka_unit_test_setup(at_home_again_none_is_missed, set_up),
		cmocka_unit_test_setup(at_home_again_it_is_said_once, set_up),
		cmocka_unit_test_setup(without_memory_the_nic_is_armed_later, set_up),
		cmocka_unit_test_setup(at_home_by_a_completion_the_nic_is_armed_again, set_up),
		cmocka_unit_test_setup(a_destroyed_srq_is_not_armed_again, set_up),
		cmocka_unit_test_setup(a_program_that_does_not_poll_hears_of_it, set_up),
		cmocka_unit_test_setup(a_feed_that_hangs, set_up),
		cmocka_unit_test_setup(a_limit_that_the_nic_refuses, set_up),
		cmocka_unit_test_setup(an_srq_that_cannot_be_destroyed_keeps_its_event, set_up),
		cmocka_unit_test_setup(a_list_is_posted_at_once, set_up),
		cmocka_unit_test_setup(a_list_of_many_kinds_is_posted_in_order, set_up),
		cmocka_unit_test_setup(of_a_list_that_is_too_long_the_rest_is_not_posted, set_up),
		cmocka_unit_test_setup(what_a_broken_nic_refuses_is_free, set_up),
		cmocka_unit_test_setup(what_nobody_knows_counts_as_posted, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
