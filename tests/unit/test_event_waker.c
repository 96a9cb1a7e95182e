// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Who sleeps on the device's descriptor is woken for events that are made; its device is a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/readable.h"
#include "lib/base/real_verbs.h"
#include "lib/base/uncancelled.h"
#include "lib/object/device.h"
#include "tests/cancelled.h"

enum { CQE = 3, NS_PER_US = 1000 };

struct real_verbs real;
_Thread_local struct uncancelled uncancelled_mine;

static struct ibv_device device = {.name = "mlx5_0"};
static struct ibv_context ctx = {.device = &device};
static char fences[1];
static struct nic nic = {.port = 2, .fences = (struct worker *)fences};
static struct vdev dev;
static struct made_event a, b;
static struct ibv_qp program_qp;
static int write_end;
static uint64_t clock_ns;

/* --- the NIC ---------------------------------------------------------------------------------- */

static struct {
	bool raises_last_wqe, raises_cq_err, link_is_down;
	enum ibv_qp_state reached; /* before ERR */
	int refuses;		   /* the n-th verb that makes something, from 1; 0: none */
	int made, posts, warned, errs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct job *job;
	void (*meanwhile)(void); /* once, when the job pauses */
} world;

uint64_t now_ns(void)
{
	return clock_ns;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)format;
	world.warned += level == LOG_WARN;
}

void worker_submit(struct worker *w, struct job *job)
{
	assert_ptr_equal(w, nic.fences); /* a drainer may be at work on the other one for seconds */
	assert_null(world.job);
	world.job = job;
}

static bool run_job(void)
{
	struct job *job = world.job;

	world.job = NULL;
	if (job)
		job->fn(job);
	return job;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	void (*fn)(void) = world.meanwhile;

	(void)left;
	clock_ns += (uint64_t)t->tv_nsec;
	world.meanwhile = NULL;
	if (fn)
		fn();
	return 0;
}

static void raise_event(enum ibv_event_type type, void *element)
{
	struct ibv_async_event e = {.event_type = type, .element.qp = element};

	assert_int_equal(write(write_end, &e, sizeof(e)), sizeof(e));
}

static bool refused(void)
{
	errno = ENOMEM;
	return ++world.made == world.refuses;
}

static struct ibv_pd *alloc_pd(struct ibv_context *c)
{
	assert_ptr_equal(c, &ctx);
	world.pd = refused() ? NULL : calloc(1, sizeof(*world.pd));
	return world.pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	assert_ptr_equal(pd, world.pd);
	assert_null(world.srq);
	assert_null(world.qp);
	free(pd);
	world.pd = NULL;
	return 0;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	assert_ptr_equal(pd, world.pd);
	assert_int_equal(attr->attr.max_wr, 1);
	world.srq = refused() ? NULL : calloc(1, sizeof(*world.srq));
	return world.srq;
}

static int destroy_srq(struct ibv_srq *srq)
{
	assert_ptr_equal(srq, world.srq);
	assert_null(world.qp);
	free(srq);
	world.srq = NULL;
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *c, int cqe, void *context,
				struct ibv_comp_channel *channel, int vector)
{
	assert_ptr_equal(c, &ctx);
	assert_int_equal(cqe, 1);
	assert_null(context);
	assert_null(channel);
	assert_int_equal(vector, 0);
	world.cq = refused() ? NULL : calloc(1, sizeof(*world.cq));
	if (world.cq)
		world.cq->cqe = CQE;
	return world.cq;
}

/* The kernel drops what nobody has read of it. */
static void drop_events(const void *element)
{
	struct ibv_async_event e, kept[8];
	int n = 0;

	while (readable_now(ctx.async_fd) && read(ctx.async_fd, &e, sizeof(e)) == sizeof(e))
		if (e.element.qp != element)
			kept[n++] = e;
	for (int i = 0; i < n; i++)
		raise_event(kept[i].event_type, kept[i].element.qp);
}

static int destroy_cq(struct ibv_cq *cq)
{
	assert_ptr_equal(cq, world.cq);
	assert_null(world.qp);
	drop_events(cq);
	free(cq);
	world.cq = NULL;
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	assert_ptr_equal(pd, world.pd);
	assert_ptr_equal(attr->srq, world.srq);
	assert_ptr_equal(attr->send_cq, world.cq);
	assert_ptr_equal(attr->recv_cq, world.cq);
	assert_true(attr->cap.max_send_wr > CQE);
	assert_true(attr->sq_sig_all);
	world.posts = 0;
	world.reached = IBV_QPS_RESET;
	world.qp = refused() ? NULL : calloc(1, sizeof(*world.qp));
	return world.qp;
}

static int destroy_qp(struct ibv_qp *qp)
{
	assert_ptr_equal(qp, world.qp);
	drop_events(qp);
	free(qp);
	world.qp = NULL;
	return 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_ptr_equal(qp, world.qp);
	assert_true(mask & IBV_QP_STATE);
	if (attr->qp_state == IBV_QPS_INIT)
		assert_int_equal(attr->port_num, nic.port);
	if (refused())
		return ENOMEM;
	if (attr->qp_state == IBV_QPS_RTR) {
		assert_int_equal(attr->dest_qp_num, qp->qp_num);
		assert_int_equal(attr->ah_attr.dlid, nic.port_attr.lid);
		if (world.link_is_down)
			return ENETUNREACH;
	}
	if (attr->qp_state == IBV_QPS_ERR)
		world.errs++;
	else
		world.reached = attr->qp_state;
	if (attr->qp_state == IBV_QPS_ERR && world.reached && world.raises_last_wqe)
		raise_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_ptr_equal(qp, world.qp);
	assert_null(wr->next);
	*bad = NULL;
	if (++world.posts > CQE && world.raises_cq_err)
		raise_event(IBV_EVENT_CQ_ERR, world.cq);
	return 0;
}

static int begin(void **st)
{
	int fd[2];

	(void)st;
	if (pipe(fd))
		return -1;
	ctx.async_fd = fd[0];
	write_end = fd[1];
	memset(&world, 0, sizeof(world));
	nic.is_rxe = nic.ready = true;
	nic.port_attr = (struct ibv_port_attr){.lid = 7, .link_layer = IBV_LINK_LAYER_INFINIBAND};
	dev = (struct vdev){.ctx = &ctx, .rails = 2, .nic = {&nic}, .ops.post_send = post_send};
	a = b = (struct made_event){.event = {.element.qp = &program_qp}};
	real = (struct real_verbs){.alloc_pd = alloc_pd,
				   .dealloc_pd = dealloc_pd,
				   .create_srq = create_srq,
				   .destroy_srq = destroy_srq,
				   .create_cq = create_cq,
				   .destroy_cq = destroy_cq,
				   .create_qp = create_qp,
				   .destroy_qp = destroy_qp,
				   .modify_qp = modify_qp};
	clock_ns = 1000000000;
	return 0;
}

static int end(void **st)
{
	(void)st;
	world.meanwhile = NULL;
	while (run_job())
		;
	event_waker_end(&dev);
	close(ctx.async_fd);
	close(write_end);
	return world.pd || world.srq || world.cq || world.qp ? -1 : 0;
}

/* --- the program ------------------------------------------------------------------------------ */

/* Reads what the kernel has, and says whether it was the waker's. */
static bool read_wakers(void)
{
	struct ibv_async_event e;

	assert_true(readable_now(ctx.async_fd));
	assert_int_equal(read(ctx.async_fd, &e, sizeof(e)), sizeof(e));
	return event_waker_heard(&dev, &e);
}

static bool take(void)
{
	struct ibv_async_event e;
	bool any = made_event_take(&dev, &e);

	if (any)
		assert_ptr_equal(e.element.qp, &program_qp);
	return any;
}

/* --- the tests -------------------------------------------------------------------------------- */

static void a_nic_that_says_last_wqe_reached(void **st)
{
	(void)st;
	world.raises_last_wqe = world.raises_cq_err = true;
	made_event_raise(&dev, &a);
	assert_false(readable_now(ctx.async_fd)); /* no verb but on the NIC's worker */
	assert_true(run_job());
	assert_int_equal(world.posts, 0);
	assert_true(read_wakers());
	assert_true(take());
	assert_true(run_job());
	assert_null(world.qp);
	assert_false(run_job());
}

/* It may say so only of a QP that was in use; and it may be asked while its link is down. */
static void of_a_qp_in_rts_where_that_can_be(void **st)
{
	static const struct {
		bool rxe, ready, down;
		enum ibv_qp_state reached;
	} cases[] = {{true, true, false, IBV_QPS_INIT},
		     {false, true, false, IBV_QPS_RTS},
		     {false, true, true, IBV_QPS_INIT},
		     {false, false, false, IBV_QPS_INIT}};

	(void)st;
	world.raises_last_wqe = true;
	for (int i = 0; i < 4; i++) {
		nic.is_rxe = cases[i].rxe;
		nic.ready = cases[i].ready;
		world.link_is_down = cases[i].down;
		made_event_raise(&dev, &a);
		run_job();
		assert_int_equal(world.reached, cases[i].reached);
		assert_true(read_wakers());
		assert_true(take());
		run_job();
	}
}

static void a_nic_that_says_cq_err_only(void **st)
{
	(void)st;
	world.raises_cq_err = true;
	made_event_raise(&dev, &a);
	run_job();
	assert_int_equal(world.posts, CQE + 1);
	assert_true(read_wakers());
	assert_false(readable_now(ctx.async_fd));
	assert_true(take());
	run_job();
	assert_null(world.cq);
	assert_int_equal(world.warned, 0);
}

static void a_nic_that_says_neither(void **st)
{
	(void)st;
	for (int i = 0; i < 2; i++) {
		made_event_raise(&dev, &a);
		run_job();
		assert_null(world.qp);
		assert_int_equal(world.warned, 1);
		assert_true(take());
	}
}

static void a_nic_that_refuses(void **st)
{
	(void)st;
	world.raises_last_wqe = true;
	for (int i = 1; i <= 6; i++) {
		world.made = 0;
		world.refuses = i;
		made_event_raise(&dev, &a);
		run_job();
		assert_false(readable_now(ctx.async_fd));
		assert_null(world.pd);
		assert_true(take());
	}
	assert_int_equal(world.warned, 1);
	world.refuses = 0;
	made_event_raise(&dev, &a);
	run_job();
	assert_true(read_wakers());
}

/* As long as one waits; and not one for each. */
static void the_descriptor_stays_readable(void **st)
{
	(void)st;
	world.raises_last_wqe = true;
	made_event_raise(&dev, &a);
	made_event_raise(&dev, &b);
	run_job();
	made_event_raise(&dev, &b);
	assert_false(run_job());
	assert_true(take());
	assert_false(run_job());
	assert_true(readable_now(ctx.async_fd));
	assert_true(read_wakers()); /* by one who reads all that the kernel has */
	event_waker_look(&dev);
	assert_true(run_job());
	assert_true(readable_now(ctx.async_fd));
	take();
	take();
	assert_false(take());
	assert_true(run_job()); /* taken back */
	assert_false(readable_now(ctx.async_fd));
}

/* The descriptor was readable for that. Whoever has read it asks. */
static void an_event_that_passes_for_ours(void **st)
{
	struct ibv_async_event e;

	(void)st;
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	made_event_raise(&dev, &a);
	run_job(); /* nothing of ours comes */
	assert_non_null(world.qp);
	event_waker_look(&dev);
	assert_false(run_job());
	assert_int_equal(read(ctx.async_fd, &e, sizeof(e)), sizeof(e));
	assert_false(event_waker_heard(&dev, &e));
	world.raises_last_wqe = true;
	event_waker_look(&dev);
	assert_true(run_job());
	assert_true(read_wakers());
}

/* It was read, but not for what is still to come; what is readable now is another one. */
static void one_that_was_heard_rings_again(void **st)
{
	(void)st;
	world.raises_last_wqe = true;
	made_event_raise(&dev, &a);
	run_job();
	raise_event(IBV_EVENT_LID_CHANGE, NULL);
	assert_true(read_wakers());
	event_waker_look(&dev);
	assert_true(run_job());
	assert_false(read_wakers());
	assert_true(read_wakers());
}

static void take_now(void)
{
	assert_true(take());
	assert_null(world.job); /* it runs */
}

static void taken_while_it_rings(void **st)
{
	(void)st;
	world.meanwhile = take_now;
	world.raises_cq_err = true;
	made_event_raise(&dev, &a);
	run_job();
	assert_null(world.meanwhile);
	assert_null(world.qp);
	assert_false(readable_now(ctx.async_fd));
	assert_false(run_job());
}

static struct ibv_qp *qp_taken_meanwhile(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = create_qp(pd, attr);

	assert_true(take());
	return qp;
}

/* Then it does not. */
static void taken_just_before_it_rings(void **st)
{
	(void)st;
	world.raises_last_wqe = true;
	real.create_qp = qp_taken_meanwhile;
	made_event_raise(&dev, &a);
	run_job();
	assert_int_equal(world.errs, 0);
	assert_false(readable_now(ctx.async_fd));
	assert_null(world.pd);
	assert_int_equal(world.warned, 0);
}

static void taken_before_it_rings(void **st)
{
	(void)st;
	made_event_raise(&dev, &a);
	assert_true(take());
	run_job();
	assert_int_equal(world.made, 0);
}

static void raise_another(void)
{
	made_event_raise(&dev, &b);
}

static void raised_while_it_rings(void **st)
{
	(void)st;
	world.meanwhile = raise_another;
	world.raises_cq_err = true;
	made_event_raise(&dev, &a);
	run_job();
	assert_true(readable_now(ctx.async_fd));
	take();
	assert_true(read_wakers());
	take();
	while (run_job())
		;
	assert_null(world.qp);
}

static void only_ours(void **st)
{
	struct ibv_async_event e = {.event_type = IBV_EVENT_QP_LAST_WQE_REACHED};

	(void)st;
	assert_false(event_waker_owns(
		&dev, &(struct ibv_async_event){.event_type = IBV_EVENT_CQ_ERR,
						.element.cq = (void *)&program_qp}));
	world.raises_last_wqe = true;
	made_event_raise(&dev, &a);
	run_job();
	e.element.qp = &program_qp;
	assert_false(event_waker_heard(&dev, &e));
	e.element.qp = world.qp;
	assert_true(event_waker_owns(&dev, &e));
	e.event_type = IBV_EVENT_QP_FATAL;
	assert_true(event_waker_owns(&dev, &e));
	e.event_type = IBV_EVENT_PORT_ERR;
	assert_false(event_waker_owns(&dev, &e));
	e = (struct ibv_async_event){.event_type = IBV_EVENT_CQ_ERR, .element.cq = world.cq};
	assert_true(event_waker_owns(&dev, &e));
}

static bool raised;

static void *raise_cancelled(void *arg)
{
	pthread_cleanup_push(cancelled_frames_are_gone, NULL);
	pthread_cancel(pthread_self());
	made_event_raise(&dev, &a);
	raised = true;
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return arg;
}

/* It may be in a poll of the program's, which is no point of cancellation, with locks. */
static void a_thread_that_raises_is_not_cancelled(void **st)
{
	pthread_t thread;
	void *result;

	(void)st;
	raised = false;
	world.raises_last_wqe = true;
	made_event_raise(&dev, &b);
	assert_true(run_job());
	assert_int_equal(pthread_create(&thread, NULL, raise_cancelled, NULL), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(raised);
	assert_true(short_lock_try(&dev.made.waker.lock));
	short_lock_give(&dev.made.waker.lock);
	assert_true(take());
	assert_true(take());
}

static void job_runs(void)
{
	run_job();
}

static void the_device_is_closed(void **st)
{
	(void)st;
	world.raises_last_wqe = true;
	made_event_raise(&dev, &a);
	run_job();
	assert_non_null(world.qp);
	event_waker_end(&dev);
	assert_null(world.pd);
	made_event_raise(&dev, &a);
	assert_false(run_job());
}

/* The job waits for its turn, and what closes the device for it. */
static void the_device_is_closed_while_it_rings(void **st)
{
	(void)st;
	world.raises_last_wqe = true;
	made_event_raise(&dev, &a);
	world.meanwhile = job_runs;
	event_waker_end(&dev);
	assert_null(world.pd);
	assert_null(world.job);
}

static void the_device_is_closed_while_its_nic_hangs(void **st)
{
	uint64_t began = clock_ns;

	(void)st;
	made_event_raise(&dev, &a);
	event_waker_end(&dev);
	assert_true(clock_ns - began < 3000000000ull);
	assert_int_equal(world.made, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_nic_that_says_last_wqe_reached),
		TEST(of_a_qp_in_rts_where_that_can_be),
		TEST(a_nic_that_says_cq_err_only),
		TEST(a_nic_that_says_neither),
		TEST(a_nic_that_refuses),
		TEST(the_descriptor_stays_readable),
		TEST(an_event_that_passes_for_ours),
		TEST(one_that_was_heard_rings_again),
		TEST(taken_while_it_rings),
		TEST(taken_just_before_it_rings),
		TEST(taken_before_it_rings),
		TEST(raised_while_it_rings),
		TEST(only_ours),
		TEST(a_thread_that_raises_is_not_cancelled),
		TEST(the_device_is_closed),
		TEST(the_device_is_closed_while_it_rings),
		TEST(the_device_is_closed_while_its_nic_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
