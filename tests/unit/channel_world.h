/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A completion channel with two CQs, and a thread of the program that sleeps in its verb. For one
 * test program. */
#ifndef SHIFT_TESTS_UNIT_CHANNEL_WORLD_H
#define SHIFT_TESTS_UNIT_CHANNEL_WORLD_H

#include "tests/unit/rooms.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/object/channel.h"
#include "lib/verbs/completion_events.h"

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

static void (*meanwhile)(void); /* called once, when a NIC is being asked */

static int req_notify(struct ibv_cq *cq, int solicited_only)
{
	unsigned int nic = nic_index(cq->context);
	void (*fn)(void) = meanwhile;

	trace_add("notify on %u%s\n", nic, solicited_only ? ", solicited" : "");
	meanwhile = NULL;
	if (fn)
		fn();
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
	struct ibv_cq *shadow = vcq_shadow(cq, &world.nic[nic], 8, 0);

	assert_non_null(shadow);
	assert_ptr_equal(shadow_context, &cq->events);
	return shadow;
}

/* --- a thread that sleeps in the verb --------------------------------------------------------- */

static pthread_t sleeper_thread;
static struct ibv_cq *sleeper_got; /* NULL: it sleeps, or has failed */
static _Atomic bool sleeper_is_back;
static _Atomic pid_t tid_in_verb; /* of the thread that calls the verb; 0: not yet */

static void *sleeper(void *arg)
{
	struct ibv_cq *cq = NULL;
	void *context;

	tid_in_verb = gettid();
	if (!hook_get_cq_event(channel, &cq, &context))
		sleeper_got = cq;
	sleeper_is_back = true;
	return arg;
}

#ifdef SYS_poll
enum { CALL_OF_POLL = SYS_poll };
#else
enum { CALL_OF_POLL = SYS_ppoll };
#endif

static bool thread_polls(void)
{
	char path[64], text[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid_in_verb);
	f = fopen(path, "r");
	if (!f) { /* a test has left no descriptor */
		usleep(500000);
		return true;
	}
	text[0] = fgets(text, sizeof(text), f) ? text[0] : 'r';
	fclose(f);
	return text[0] != 'r' && atoi(text) == CALL_OF_POLL; /* else it is running */
}

/* A signal that comes before would end nothing. */
static void until_it_sleeps(void)
{
	for (int i = 0; i < 10000 && !sleeper_is_back && !(tid_in_verb && thread_polls()); i++)
		usleep(1000);
}

/* The program has a thread that sleeps in the verb. */
static void sleeper_begins(void)
{
	sleeper_got = NULL;
	sleeper_is_back = false;
	tid_in_verb = 0;
	fcntl(channel->fd, F_SETFL, 0);
	assert_int_equal(pthread_create(&sleeper_thread, NULL, sleeper, NULL), 0);
	until_it_sleeps();
}

static struct ibv_cq *sleeper_ends(void)
{
	pthread_join(sleeper_thread, NULL);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	return sleeper_got;
}

static bool sleeper_sleeps_on(void)
{
	usleep(100000);
	return !sleeper_is_back;
}

static void sleep_once(void)
{
	sleeper_begins();
	kernel_has(&real_recv);
	assert_ptr_equal(sleeper_ends(), &real_recv);
	hook_ack_cq_events(&real_recv, 1);
}

#endif
