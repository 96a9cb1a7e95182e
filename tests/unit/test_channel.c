/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion channels: whose events the program gets, and when there must be one. */
#include "tests/unit/rooms.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/object/channel.h"
#include "lib/verbs/completion_events.h"
#include "lib/verbs/qp.h"

enum { OURS = 512 };

/* --- NICs whose channels are sockets -----------------------------------------------------------
 */

static int kernel_end[RAILS]; /* of the channel on each NIC: a CQ that is sent there has an event */
static bool removed[RAILS];
static unsigned int notify_fails; /* mask of NICs */
static void *shadow_context;

static unsigned int nic_index(const struct ibv_context *ctx)
{
	return (unsigned int)(ctx - world.ctx);
}

static struct ibv_comp_channel *create_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	*channel = (struct ibv_comp_channel){.context = ctx, .fd = fds[0]};
	kernel_end[nic_index(ctx)] = fcntl(fds[1], F_DUPFD_CLOEXEC, 900);
	close(fds[1]);
	return channel;
}

static int destroy_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	trace_add("destroy channel on %u\n", nic_index(channel->context));
	close(channel->fd);
	close(kernel_end[nic_index(channel->context)]);
	free(channel);
	return 0;
}

static int get_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	if (removed[nic_index(channel->context)]) {
		errno = EIO;
		return -1;
	}
	if (read(channel->fd, cq, sizeof(*cq)) != sizeof(*cq))
		return -1;
	*context = (*cq)->cq_context;
	return 0;
}

static void ack_events(struct ibv_cq *cq, unsigned int n)
{
	cq->comp_events_completed += n;
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe, void *context,
				struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)vector;
	assert_ptr_equal(channel->context, ctx);
	*cq = (struct ibv_cq){
		.context = ctx, .cqe = cqe, .cq_context = context, .channel = channel};
	channel->refcnt++;
	shadow_context = context;
	return cq;
}

static int destroy_fails;

static int destroy_cq(struct ibv_cq *cq)
{
	bool shadow = cq->context != &world.ctx[0];

	trace_add("destroy CQ on %u\n", nic_index(cq->context));
	if (!shadow && destroy_fails)
		return destroy_fails;
	cq->channel->refcnt--;
	if (shadow)
		free(cq);
	return 0;
}

static int req_notify(struct ibv_cq *cq, int solicited_only)
{
	unsigned int nic = nic_index(cq->context);

	trace_add("notify on %u%s\n", nic, solicited_only ? ", solicited" : "");
	return notify_fails >> nic & 1 ? EIO : 0;
}

/* The kernel has an event of that CQ for a channel. */
static void kernel_has(struct ibv_cq *cq)
{
	assert_int_equal(write(kernel_end[nic_index(cq->context)], &cq, sizeof(cq)), sizeof(cq));
}

/* --- the program -------------------------------------------------------------------------------
 */

static struct ibv_comp_channel *channel;

static bool readable(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* NULL: there is none. */
static struct ibv_cq *event(void)
{
	struct ibv_cq *cq;
	void *context;

	if (hook_get_cq_event(channel, &cq, &context)) {
		assert_int_equal(errno, EAGAIN);
		return NULL;
	}
	assert_ptr_equal(context, cq->cq_context);
	return cq;
}

static uint32_t unacked(const struct ibv_cq *cq, uint32_t reported)
{
	return reported - cq->comp_events_completed;
}

struct vcq *__real_vcq_find(const struct ibv_cq *cq);

static struct ibv_cq real_send, real_recv;
static struct vcq *vsend, *vrecv;

static struct vcq *cq_on_channel(struct ibv_cq *real_cq)
{
	*real_cq = (struct ibv_cq){.context = &world.ctx[0],
				   .cq_context = real_cq,
				   .channel = channel_for_kernel(channel)};
	real_cq->channel->refcnt++;
	return __real_vcq_find(hook_created_cq(real_cq, channel));
}

static int begin(void **state)
{
	rooms_begin(state);
	real.create_comp_channel = create_channel;
	real.destroy_comp_channel = destroy_channel;
	real.get_cq_event = get_event;
	real.ack_cq_events = ack_events;
	real.create_cq = create_cq;
	real.destroy_cq = destroy_cq;
	for (int i = 0; i < RAILS; i++)
		world.ctx[i].ops.req_notify_cq = req_notify;
	world.dev.ops = world.ctx[0].ops;
	memset(removed, 0, sizeof(removed));
	notify_fails = 0;
	destroy_fails = 0;
	pthread_mutex_init(&world.ctx[0].mutex, NULL);
	channel = hook_created_channel(create_channel(&world.ctx[0]));
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	vsend = cq_on_channel(&real_send);
	vrecv = cq_on_channel(&real_recv);
	trace_clear();
	return 0;
}

static int end(void **state)
{
	destroy_fails = 0;
	assert_int_equal(hook_destroy_cq(&real_send), 0);
	assert_int_equal(hook_destroy_cq(&real_recv), 0);
	assert_int_equal(hook_destroy_channel(channel), 0);
	rooms_run_jobs();
	return rooms_end(state);
}

static struct ibv_cq *shadow_of(struct vcq *cq, unsigned int nic)
{
	struct ibv_cq *shadow = vcq_shadow(cq, &world.nic[nic], 8);

	assert_non_null(shadow);
	assert_ptr_equal(shadow_context, &cq->events);
	return shadow;
}

/* --- whose events ------------------------------------------------------------------------------
 */

static void the_number_stays_and_ours_are_out_of_the_way(void **state)
{
	int lowest = dup(0);

	(void)state;
	close(lowest);
	assert_int_equal(lowest, channel->fd + 1);
	assert_true(channel_for_kernel(channel)->fd >= OURS);
	assert_int_equal(channel->refcnt, 2);
	assert_int_equal(channel_for_kernel(channel)->refcnt, 0);
	assert_ptr_equal(real_send.channel, channel);
	assert_int_equal(hook_destroy_channel(channel), EBUSY);
	shadow_of(vsend, 1);
	assert_true(vsend->shadow[1].cq->channel->fd >= OURS);
	assert_ptr_equal(shadow_of(vrecv, 1)->channel,
			 vsend->shadow[1].cq->channel); /* one of all CQs */
}

static void each_place_of_events_is_heard(void **state)
{
	struct ibv_cq *shadow = shadow_of(vsend, 1);

	(void)state;
	assert_false(readable());
	kernel_has(&real_send);
	assert_true(readable());
	assert_ptr_equal(event(), &real_send);
	assert_false(readable());
	kernel_has(shadow);
	assert_true(readable());
	assert_ptr_equal(event(), &real_send);
	assert_int_equal(shadow->comp_events_completed, 1); /* its NIC is told at once */
	assert_false(readable());
	cq_events_add(&vrecv->events);
	cq_events_add(&vsend->events);
	cq_events_add(&vrecv->events); /* it has one already */
	assert_true(readable());
	assert_ptr_equal(event(), &real_recv);
	assert_true(readable());
	assert_ptr_equal(event(), &real_send);
	assert_null(event());
	assert_false(readable());
}

static void neither_starves_the_other(void **state)
{
	struct ibv_cq *shadow = shadow_of(vrecv, 2);
	int n = 0;

	(void)state;
	for (int i = 0; i < 64; i++)
		kernel_has(&real_send);
	kernel_has(shadow);
	while (event() != &real_recv)
		n++;
	assert_in_range(n, 0, 16);
}

/* libibverbs waits in destroy_cq until it was told of as many as it has reported. */
static void the_program_owes_what_it_was_given(void **state)
{
	struct ibv_cq *cq = &real_send, *shadow = shadow_of(vsend, 1);

	(void)state;
	kernel_has(cq);
	kernel_has(cq);
	kernel_has(shadow);
	cq_events_add(&vsend->events);
	for (int i = 0; i < 4; i++)
		assert_ptr_equal(event(), cq);
	assert_int_equal(unacked(cq, 2), 4);
	hook_ack_cq_events(cq, 3);
	assert_int_equal(unacked(cq, 2), 1);
	hook_ack_cq_events(cq, 3); /* two too many */
	assert_int_equal(unacked(cq, 2), 0);
	kernel_has(cq);
	assert_ptr_equal(event(), cq);
	assert_int_equal(unacked(cq, 3), 0);
	cq_events_add(&vsend->events);
	assert_ptr_equal(event(), cq);
	assert_int_equal(unacked(cq, 3), 0); /* now it is even */
	cq_events_add(&vsend->events);
	assert_ptr_equal(event(), cq);
	assert_int_equal(unacked(cq, 3), 1);
	hook_ack_cq_events(&real_recv, 0);
	assert_int_equal(unacked(&real_recv, 0), 0);
}

/* Of a CQ that shift does not know, as of create_cq_ex, the kernel's events are all there are. */
static void a_foreign_cq_is_as_without_shift(void **state)
{
	struct ibv_cq foreign = {.context = &world.ctx[0]};

	(void)state;
	kernel_has(&foreign);
	assert_ptr_equal(event(), &foreign);
	assert_int_equal(unacked(&foreign, 1), 1);
	hook_ack_cq_events(&foreign, 1);
	assert_int_equal(unacked(&foreign, 1), 0);
}

/* --- when a CQ is destroyed --------------------------------------------------------------------
 */

static void events_of_a_cq_that_goes_are_dropped(void **state)
{
	struct ibv_cq *of_send = shadow_of(vsend, 1);
	struct ibv_cq *of_recv = shadow_of(vrecv, 1);

	(void)state;
	cq_events_add(&vsend->events);
	kernel_has(of_send);
	kernel_has(of_recv);
	kernel_has(of_send);
	cq_events_close(&vsend->events);
	assert_int_equal(of_send->comp_events_completed, 2);
	assert_int_equal(of_recv->comp_events_completed, 1);
	cq_events_add(&vsend->events);
	assert_ptr_equal(event(), &real_recv);
	assert_null(event());
	assert_false(readable());
}

static void a_cq_that_stays_has_its_event_again(void **state)
{
	(void)state;
	cq_events_add(&vsend->events);
	real_send.comp_events_completed = 0;
	destroy_fails = EBUSY;
	assert_int_equal(hook_destroy_cq(&real_send), EBUSY);
	assert_traced("destroy CQ on 0\n");
	assert_ptr_equal(event(), &real_send);
	assert_int_equal(hook_destroy_cq(&real_recv), EBUSY);
	assert_null(event()); /* it had none */
}

/* --- when there must be one --------------------------------------------------------------------
 */

static void deliver(enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = {.status = status, .opcode = opcode, .qp_num = QPN};

	vcq_deliver(vsend, &wc);
}

static void a_delivery_wakes_who_has_asked(void **state)
{
	(void)state;
	deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_null(event()); /* nobody has asked */
	hook_req_notify_cq(&real_send, 0);
	assert_ptr_equal(event(), &real_send); /* something is there already */
	deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_ptr_equal(event(), &real_send);
	deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_null(event()); /* nobody has asked since */
}

static void what_is_not_solicited_wakes_nobody(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	for (int i = 0; i < 2; i++) {
		hook_req_notify_cq(&real_send, 1);
		deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
		assert_null(event());
		deliver(i ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS, i ? IBV_WC_SEND : IBV_WC_RECV);
		assert_ptr_equal(event(), &real_send);
		assert_int_equal(vcq_take(vsend, 8, wc), 2);
	}
	hook_req_notify_cq(&real_send, 1);
	hook_req_notify_cq(&real_send, 0); /* the other one stays asked for, too */
	hook_req_notify_cq(&real_send, 1);
	deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_ptr_equal(event(), &real_send);
}

static void each_rail_in_use_is_asked(void **state)
{
	(void)state;
	shadow_of(vsend, 1);
	shadow_of(vsend, 2);
	trace_clear();
	assert_int_equal(hook_req_notify_cq(&real_send, 0), 0);
	assert_traced("notify on 0\n");
	gate_shut(&vsend->gate);
	assert_int_equal(hook_req_notify_cq(&real_send, 1), 0);
	assert_traced("notify on 0, solicited\n"
		      "notify on 1, solicited\n"
		      "notify on 2, solicited\n");
	notify_fails = 1;
	assert_int_equal(hook_req_notify_cq(&real_send, 0), 0);
	notify_fails = 7;
	assert_int_equal(hook_req_notify_cq(&real_send, 0), EIO);
	gate_open(&vsend->gate);
	notify_fails = 1;
	assert_int_equal(hook_req_notify_cq(&real_send, 0), EIO);
	assert_null(event());
}

/* Before the first packet can come there. */
static void a_rail_that_is_armed_is_asked_for_events(void **state)
{
	(void)state;
	shadow_of(vsend, 1);
	trace_clear();
	vcq_arm(vsend, &world.nic[1]);
	assert_traced(""); /* the program has not asked */
	hook_req_notify_cq(&real_send, 1);
	trace_clear();
	vcq_arm(vsend, &world.nic[1]);
	vcq_arm(vsend, &world.nic[2]); /* it has no shadow there */
	vcq_arm(vsend, NULL);
	assert_traced("notify on 1, solicited\n"
		      "notify on 0, solicited\n");
	hook_req_notify_cq(&real_send, 0);
	trace_clear();
	vcq_arm(vsend, &world.nic[1]);
	assert_traced("notify on 1\n");
}

/* --- events for which nothing is there ---------------------------------------------------------
 */

static void *sleeper(void *arg)
{
	struct ibv_cq **cq = arg;
	void *context;

	return hook_get_cq_event(channel, cq, &context) ? arg : NULL;
}

/* The program has a thread that sleeps in the verb. */
static void sleep_once(void)
{
	struct ibv_cq *cq = NULL;
	pthread_t thread;
	void *failed;

	fcntl(channel->fd, F_SETFL, 0);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &cq), 0);
	usleep(50000);
	kernel_has(&real_recv);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_ptr_equal(cq, &real_recv);
	hook_ack_cq_events(&real_recv, 1);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

static void who_sleeps_is_not_woken_for_nothing(void **state)
{
	(void)state;
	sleep_once();
	hook_req_notify_cq(&real_send, 1);
	gate_shut(&vsend->gate);
	trace_clear();
	kernel_has(&real_send); /* a fence has flushed */
	assert_null(event());
	assert_traced("notify on 0, solicited\n"); /* it is asked again */
	assert_int_equal(unacked(&real_send, 1), 0);
	deliver(IBV_WC_SUCCESS, IBV_WC_RECV);
	kernel_has(&real_send); /* the same completion: it was polled by us */
	assert_ptr_equal(event(), &real_send);
	gate_open(&vsend->gate);
	assert_int_equal(vcq_take(vsend, 1, &(struct ibv_wc){0}), 1);
	assert_null(event()); /* the other one is doubtful, although all is fast again */
	kernel_has(&real_send);
	assert_ptr_equal(event(), &real_send); /* and now nothing is */
}

static void who_has_polled_gets_an_event(void **state)
{
	(void)state;
	gate_shut(&vsend->gate);
	kernel_has(&real_send);
	assert_ptr_equal(event(), &real_send);
	gate_open(&vsend->gate);
}

/* --- NICs that are removed ---------------------------------------------------------------------
 */

static void the_programs_nic_is_removed(void **state)
{
	struct ibv_cq *cq;
	void *context;

	(void)state;
	removed[0] = true;
	assert_int_equal(hook_get_cq_event(channel, &cq, &context), -1);
	assert_int_equal(errno, EIO);
	kernel_has(shadow_of(vsend, 1)); /* but this one survives it */
	assert_ptr_equal(event(), &real_send);
	assert_null(event());
	kernel_has(&real_send); /* its file is readable for ever */
	assert_false(readable());
}

static void a_backup_nic_is_removed(void **state)
{
	(void)state;
	kernel_has(shadow_of(vsend, 1));
	removed[1] = true;
	assert_true(readable());
	assert_null(event());
	assert_false(readable());
	kernel_has(&real_send);
	assert_ptr_equal(event(), &real_send);
}

/* --- what cannot be ----------------------------------------------------------------------------
 */

static void without_descriptors_it_is_as_without_shift(void **state)
{
	struct ibv_comp_channel *other = create_channel(&world.ctx[0]);
	struct rlimit was, none = {.rlim_cur = (rlim_t)other->fd + 1};
	struct cq_events e = {.channel = NULL};
	struct ibv_cq cq = {.context = &world.ctx[0]};

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_ptr_equal(hook_created_channel(other), other);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_ptr_equal(channel_for_kernel(other), other);
	assert_true(cq_events_begin(&e, &cq, other));
	assert_null(e.channel);
	cq_events_end(&e);
	assert_int_equal(fcntl(other->fd, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(hook_destroy_channel(other), 0);
	assert_traced("destroy channel on 0\n");
	kernel_end[0] = dup(0);
}

static void a_device_without_backup_is_left_alone(void **state)
{
	struct ibv_comp_channel *other;

	(void)state;
	world.dev.rails = 1;
	other = hook_created_channel(create_channel(&world.ctx[0]));
	assert_ptr_equal(channel_for_kernel(other), other);
	world.dev.rails = RAILS;
	assert_null(channel_for_kernel(NULL));
	assert_int_equal(hook_destroy_channel(other), 0);
	kernel_end[0] = dup(0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(the_number_stays_and_ours_are_out_of_the_way),
		TEST(each_place_of_events_is_heard),
		TEST(neither_starves_the_other),
		TEST(the_program_owes_what_it_was_given),
		TEST(a_foreign_cq_is_as_without_shift),
		TEST(events_of_a_cq_that_goes_are_dropped),
		TEST(a_cq_that_stays_has_its_event_again),
		TEST(a_delivery_wakes_who_has_asked),
		TEST(what_is_not_solicited_wakes_nobody),
		TEST(each_rail_in_use_is_asked),
		TEST(a_rail_that_is_armed_is_asked_for_events),
		TEST(who_sleeps_is_not_woken_for_nothing),
		TEST(who_has_polled_gets_an_event),
		TEST(the_programs_nic_is_removed),
		TEST(a_backup_nic_is_removed),
		TEST(without_descriptors_it_is_as_without_shift),
		TEST(a_device_without_backup_is_left_alone),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(tests[0]));
}
