// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The program's shared receive queues (lib/object/vsrq.c): their end, their growth, their timers.
 * NICs' threads and the clock are the test's. */
#include <errno.h>
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
#include "lib/object/vsrq.h"

enum { ROOM = 8, JOBS_MAX = 16, PAGE = 4096, MS = 1000000 };

struct real_verbs real;
_Thread_local bool hooks_off;

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

bool object_job(struct object *obj, struct nic *nic, object_fn *fn)
{
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

void bg_call(struct bg_call *call)
{
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
	return SHIFT_SRQ_TOOK_ALL;
}

void srq_drainer_end(struct srq_drainer *d)
{
	(void)d;
}

static int fake_post(struct ibv_srq *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)q;
	(void)wr;
	(void)bad;
	return 0;
}

static struct ibv_srq *fake_create(struct ibv_pd *in, struct ibv_srq_init_attr *attr)
{
	(void)attr;
	assert_ptr_equal(in, &shadow_pd);
	return &shadow;
}

static int fake_modify(struct ibv_srq *q, struct ibv_srq_attr *attr, int mask)
{
	(void)q;
	(void)attr;
	(void)mask;
	return 0;
}

/* What still looks at it then dies of it. */
static int fake_destroy(struct ibv_srq *q)
{
	return q == &shadow ? 0 : munmap(q, PAGE);
}

static void feed_none(struct vsrq *of)
{
	(void)of;
}

static void evict_none(struct vsrq *of, unsigned int k)
{
	(void)of;
	(void)k;
}

static struct vsrq *create(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ROOM, .max_sge = 1}};

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
	jobs = drains = 0;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_end_with_a_drain_under_way_is_an_end, set_up),
		cmocka_unit_test_setup(two_threads_may_grow_it, set_up),
		cmocka_unit_test_setup(a_drain_that_comes_too_late_touches_nothing, set_up),
		cmocka_unit_test_setup(a_completion_after_the_end_has_the_programs_wr_id, set_up),
		cmocka_unit_test_setup(an_id_that_was_never_given_is_none, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
