/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion channels: whose events the program gets, and when there must be one. */
#include "tests/unit/channel_world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fork.h"
#include "lib/base/readable.h"
#include "lib/object/channel.h"
#include "lib/verbs/completion_events.h"
#include "lib/verbs/qp.h"
#include "tests/cancelled.h"

enum { OURS = 512 };

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

static void ask_for_any(void)
{
	hook_req_notify_cq(&real_send, 0);
}

/* A NIC may keep the last of two requests only. */
static void what_the_program_asks_for_meanwhile_is_not_made_less(void **state)
{
	(void)state;
	shadow_of(vsend, 1);
	hook_req_notify_cq(&real_send, 1);
	trace_clear();
	meanwhile = ask_for_any;
	vcq_arm(vsend, &world.nic[1]);
	assert_traced("notify on 1, solicited\n"
		      "notify on 0\n"
		      "notify on 1\n");
}

/* --- events for which nothing is there ---------------------------------------------------------
 */

/* A fence has flushed, and the NIC has reported it. */
static void it_sleeps_on_over_a_fence(void)
{
	gate_shut(&vsend->gate);
	trace_clear();
	sleeper_begins();
	kernel_has(&real_send);
	assert_true(sleeper_sleeps_on());
}

static void who_sleeps_is_not_woken_for_nothing(void **state)
{
	(void)state;
	hook_req_notify_cq(&real_send, 1);
	it_sleeps_on_over_a_fence();
	assert_traced("notify on 0, solicited\n"); /* it is asked again */
	assert_int_equal(unacked(&real_send, 1), 0);
	trace_clear();
	deliver(IBV_WC_SUCCESS, IBV_WC_RECV);
	assert_ptr_equal(sleeper_ends(), &real_send);
	assert_traced("");	/* who is woken asks by himself */
	kernel_has(&real_send); /* the same completion: it was polled by us */
	gate_open(&vsend->gate);
	assert_int_equal(vcq_take(vsend, 1, &(struct ibv_wc){0}), 1);
	sleeper_begins();
	kernel_has(&real_recv);
	assert_ptr_equal(sleeper_ends(), &real_recv); /* the other one was doubtful, although all is
						       * fast again */
	assert_null(event());
	sleeper_begins();
	kernel_has(&real_send);
	assert_ptr_equal(sleeper_ends(), &real_send); /* and now none is */
}

/* A poll must know whether the event that it follows was looked into: lib/verbs/poll.c. */
static void an_event_of_the_fast_way_is_given_unseen(void **state)
{
	(void)state;
	kernel_has(&real_recv);
	assert_ptr_equal(event(), &real_recv);
	assert_false(vrecv->woken); /* this program polls the descriptor */
	sleep_once();
	kernel_has(&real_recv);
	assert_ptr_equal(event(), &real_recv);
	assert_true(vrecv->woken);
	assert_false(vsend->woken);
	gate_shut(&vrecv->gate);
	kernel_has(&real_recv);
	assert_ptr_equal(event(), &real_recv);
	assert_false(vrecv->woken);
	gate_open(&vrecv->gate);
}

/* In a program that sleeps in the verb, too. */
static void who_does_not_sleep_gets_an_event_in_time(void **state)
{
	(void)state;
	sleep_once();
	gate_shut(&vsend->gate);
	kernel_has(&real_send);
	assert_ptr_equal(event(), &real_send); /* O_NONBLOCK: at once */
	hook_ack_cq_events(&real_send, 1);
	kernel_has(&real_send);
	fcntl(channel->fd, F_SETFL, 0);
	alarm(20);
	assert_ptr_equal(event(), &real_send);
	alarm(0);
	gate_open(&vsend->gate);
}

static void no_signal(int s)
{
	(void)s;
}

/* It has found an event for nothing without waiting, and waits for another one. */
static void sleeper_finds_nothing(void)
{
	sleep_once();
	gate_shut(&vsend->gate);
	kernel_has(&real_send);
	sleeper_begins();
}

/* A profiler's timer. */
static void signals_do_not_end_that_time(void **state)
{
	struct sigaction act = {.sa_handler = no_signal, .sa_flags = SA_RESTART};
	uint64_t end_ms;

	(void)state;
	sigaction(SIGUSR1, &act, NULL);
	end_ms = readable_clock_ms() + 250;
	sleeper_finds_nothing();
	while (readable_clock_ms() < end_ms) {
		pthread_kill(sleeper_thread, SIGUSR1);
		usleep(3000);
	}
	assert_false(sleeper_is_back);
	hook_req_notify_cq(&real_send, 0);
	deliver(IBV_WC_SUCCESS, IBV_WC_RECV);
	assert_ptr_equal(sleeper_ends(), &real_send);
	signal(SIGUSR1, SIG_DFL);
	assert_int_equal(vcq_take(vsend, 1, &(struct ibv_wc){0}), 1);
	gate_open(&vsend->gate);
}

/* One more for nothing every now and then does not make it longer. */
static void others_for_nothing_do_not_make_that_time_longer(void **state)
{
	(void)state;
	sleeper_finds_nothing();
	for (int i = 0; i < 6 && !sleeper_is_back; i++) {
		usleep(400000);
		kernel_has(&real_send);
	}
	assert_true(sleeper_is_back);
	assert_ptr_equal(sleeper_ends(), &real_send);
	while (event())
		;
	gate_open(&vsend->gate);
}

/* After a switch, or when a QP was destroyed. */
static void one_event_for_nothing_holds_it_up(void **state)
{
	uint64_t before;

	(void)state;
	sleep_once();
	cq_events_doubt(&vsend->events);
	fcntl(channel->fd, F_SETFL, 0);
	kernel_has(&real_send);
	assert_ptr_equal(event(), &real_send);
	before = readable_clock_ms();
	kernel_has(&real_send);
	assert_ptr_equal(event(), &real_send);
	assert_true(readable_clock_ms() - before < 700);
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

/* --- threads, signals, attributes --------------------------------------------------------------
 */

/* The program asks for any, then (nothing has come) for a solicited one. The first request stands:
 * an event that is taken back must not weaken it. */
static void what_was_asked_stands_when_an_event_is_taken_back(void **state)
{
	(void)state;
	hook_req_notify_cq(&real_send, 0);
	hook_req_notify_cq(&real_send, 1);
	it_sleeps_on_over_a_fence();
	assert_traced("notify on 0\n");
	deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_ptr_equal(sleeper_ends(), &real_send);
	gate_open(&vsend->gate);
}

static _Atomic int go;

static void *cancelled_before(void *arg)
{
	struct ibv_cq *cq;
	void *context;
	int was;

	(void)arg;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	while (!go)
		usleep(1000);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	pthread_cleanup_push(cancelled_frames_are_gone, NULL);
	hook_get_cq_event(channel, &cq, &context);
	pthread_cleanup_pop(0);
	return NULL;
}

/* read(2) is a cancellation point also if there is something to read. */
static void a_cancelled_thread_takes_no_event(void **state)
{
	pthread_t thread;
	void *result;

	(void)state;
	go = 0;
	pthread_create(&thread, NULL, cancelled_before, NULL);
	kernel_has(&real_recv);
	pthread_cancel(thread);
	go = 1;
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_ptr_equal(event(), &real_recv);
}

static _Atomic int handled;

static void handler(int s)
{
	handled += s > 0;
}

static int waiter_errno, waiter_result;

static void *waiter(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	tid_in_verb = gettid();
	waiter_result = hook_get_cq_event(channel, &cq, &context);
	waiter_errno = errno;
	go = 2;
	return arg;
}

/* As a read(2) that is restarted. */
static void a_channel_goes_while_a_thread_sleeps_in_it(void **state)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	int keep = dup(kernel_end[0]); /* the kernel's file does not hang up */
	pthread_t thread;

	(void)state;
	sigaction(SIGUSR1, &act, NULL);
	fcntl(channel->fd, F_SETFL, 0);
	sleeper_is_back = false;
	tid_in_verb = 0;
	pthread_create(&thread, NULL, waiter, NULL);
	until_it_sleeps();
	hook_destroy_cq(&real_send);
	hook_destroy_cq(&real_recv);
	hook_destroy_channel(channel);
	rooms_run_jobs();
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	close(keep);
	assert_int_equal(waiter_result, -1);
	assert_int_equal(waiter_errno, EBADF);
	channel = hook_created_channel(create_channel(&world.ctx[0]));
	vsend = cq_on_channel(&real_send);
	vrecv = cq_on_channel(&real_recv);
}

/* The handler that runs restarts; another one of the program's would not. */
static void another_handler_does_not_matter(void **state)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	pthread_t thread;

	(void)state;
	sigaction(SIGUSR1, &act, NULL);
	act.sa_flags = 0;
	sigaction(SIGUSR2, &act, NULL);
	fcntl(channel->fd, F_SETFL, 0);
	go = 0;
	sleeper_is_back = false;
	tid_in_verb = 0;
	pthread_create(&thread, NULL, waiter, NULL);
	until_it_sleeps();
	pthread_kill(thread, SIGUSR1);
	usleep(50000);
	kernel_has(&real_recv);
	pthread_join(thread, NULL);
	signal(SIGUSR2, SIG_DFL);
	assert_int_equal(waiter_result, 0);
}

/* One that is installed while a thread sleeps, and whose signal ends a read(2). */
static void a_handler_that_comes_later(void **state)
{
	struct sigaction act = {.sa_handler = handler};

	(void)state;
	handled = 0;
	sleeper_begins();
	sigaction(SIGUSR2, &act, NULL);
	pthread_kill(sleeper_thread, SIGUSR2);
	assert_null(sleeper_ends());
	sleeper_begins(); /* a thread that finds it, and blocks it while it sleeps */
	pthread_kill(sleeper_thread, SIGUSR2);
	assert_null(sleeper_ends());
	assert_int_equal(handled, 2);
	signal(SIGUSR2, SIG_DFL);
}

/* The next sleep of a thread knows a handler that the program has replaced since. */
static void a_handler_that_is_taken_away(void **state)
{
	struct sigaction act = {.sa_handler = handler};

	(void)state;
	for (int ignored = 0; ignored < 2; ignored++) {
		act.sa_handler = handler;
		act.sa_flags = 0;
		sigaction(SIGUSR2, &act, NULL);
		sleeper_begins();
		act.sa_handler = ignored ? SIG_IGN : handler;
		act.sa_flags = SA_RESTART;
		sigaction(SIGUSR2, &act, NULL);
		handled = 0;
		pthread_kill(sleeper_thread, SIGUSR2);
		assert_true(sleeper_sleeps_on());
		assert_int_equal(handled, !ignored);
		kernel_has(&real_recv);
		assert_ptr_equal(sleeper_ends(), &real_recv);
		hook_ack_cq_events(&real_recv, 1);
	}
	signal(SIGUSR2, SIG_DFL);
}

/* It is another one that has come, and ends the wait. */
static void one_of_two_handlers_is_taken_away(void **state)
{
	struct sigaction act = {.sa_handler = handler};

	(void)state;
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR2, &act, NULL);
	sleeper_begins();
	handled = 0;
	signal(SIGUSR2, SIG_IGN);
	pthread_kill(sleeper_thread, SIGUSR1);
	assert_null(sleeper_ends());
	assert_int_equal(handled, 1);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
}

/* Nothing tells which handler has run: any signal ends the wait, as one that must end it may not be
 * lost. */
static void without_a_descriptor_for_signals(void **state)
{
	struct sigaction act = {.sa_handler = handler};
	struct rlimit limit, none;

	(void)state;
	sigaction(SIGUSR2, &act, NULL);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = limit;
	none.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &none);
	sleeper_begins();
	pthread_kill(sleeper_thread, SIGUSR2);
	assert_null(sleeper_ends());
	setrlimit(RLIMIT_NOFILE, &limit);
	signal(SIGUSR2, SIG_DFL);
}

static void a_child_has_only_the_kernels_events(void **state)
{
	int status = 1;
	pid_t child;

	(void)state;
	assert_int_equal(fork_watch(), 0);
	hook_req_notify_cq(&real_send, 0);
	deliver(IBV_WC_SUCCESS, IBV_WC_SEND);
	child = fork();
	if (!child)
		_exit(event() != NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ptr_equal(event(), &real_send);
	assert_int_equal(vcq_take(vsend, 1, &(struct ibv_wc){0}), 1);
}

/* A hung NIC makes the shadow only after the program has destroyed everything. */
static void a_late_shadow_does_not_leak(void **state)
{
	(void)state;
	object_get(&vsend->obj); /* a job that makes a twin is under way */
	assert_int_equal(hook_destroy_cq(&real_send), 0);
	assert_int_equal(hook_destroy_cq(&real_recv), 0);
	assert_int_equal(hook_destroy_channel(channel), 0);
	shadow_of(vsend, 1);
	trace_clear();
	rooms_run_jobs();
	object_put(&vsend->obj);
	assert_traced("destroy CQ on 1\n"
		      "destroy channel on 1\n");
	channel = hook_created_channel(create_channel(&world.ctx[0]));
	vsend = cq_on_channel(&real_send);
	vrecv = cq_on_channel(&real_recv);
}

/* A program may share constant attributes among threads. */
static void attributes_are_only_read(void **state)
{
	static const struct ibv_cq_init_attr_ex model = {
		.cqe = 1, .comp_vector = 2, .wc_flags = 3, .comp_mask = 3, .flags = 4};
	struct ibv_cq_init_attr_ex attr = model, copy, *given;

	(void)state;
	attr.channel = channel;
	attr.parent_domain = (void *)&attr;
	given = channel_attr_for_kernel(&attr, &copy);
	assert_ptr_equal(given, &copy);
	assert_ptr_equal(attr.channel, channel);
	assert_ptr_not_equal(copy.channel, channel);
	copy.channel = channel;
	assert_memory_equal(&copy, &attr, sizeof(copy));
	attr.comp_mask = 0; /* an older program's ends here */
	channel_attr_for_kernel(&attr, &copy);
	assert_int_equal(copy.flags, 0);
	assert_null(copy.parent_domain);
	attr.channel = NULL;
	assert_null(channel_attr_for_kernel(&attr, &copy)->channel);
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
		TEST(what_the_program_asks_for_meanwhile_is_not_made_less),
		TEST(who_sleeps_is_not_woken_for_nothing),
		TEST(an_event_of_the_fast_way_is_given_unseen),
		TEST(who_does_not_sleep_gets_an_event_in_time),
		TEST(signals_do_not_end_that_time),
		TEST(others_for_nothing_do_not_make_that_time_longer),
		TEST(one_event_for_nothing_holds_it_up),
		TEST(who_has_polled_gets_an_event),
		TEST(the_programs_nic_is_removed),
		TEST(a_backup_nic_is_removed),
		TEST(without_descriptors_it_is_as_without_shift),
		TEST(a_device_without_backup_is_left_alone),
		TEST(what_was_asked_stands_when_an_event_is_taken_back),
		TEST(a_cancelled_thread_takes_no_event),
		TEST(another_handler_does_not_matter),
		TEST(a_handler_that_comes_later),
		TEST(a_handler_that_is_taken_away),
		TEST(one_of_two_handlers_is_taken_away),
		TEST(without_a_descriptor_for_signals),
		TEST(a_child_has_only_the_kernels_events),
		TEST(a_late_shadow_does_not_leak),
		TEST(attributes_are_only_read),
		TEST(a_channel_goes_while_a_thread_sleeps_in_it),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(tests[0]));
}
