// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Events of RDMA-CM that the program is not to see, and those that we make. */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tests/unit/cm_world.h"

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
	the_peer_ends();
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
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(ids, 0);
	assert_false(has_event(&channel)); /* which would wake who polls it */
	expect_none(&channel);
}

static void test_another_event_comes_first(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
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

static uint64_t ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A thread that has never waited in vain. */
static void *reader(void *arg)
{
	struct rdma_cm_event *e = NULL;

	if (!hook_cm_get_event(&channel.channel, &e)) {
		*(int *)arg = e->event;
		hook_cm_ack_event(e);
	}
	return NULL;
}

/* What it reads, if an old UNREACHABLE is there, and DISCONNECTED comes so much later. */
static int reads_with_disconnected_after(unsigned int ms)
{
	pthread_t thread;
	int type = -1;

	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	pthread_create(&thread, NULL, reader, &type);
	usleep(ms * 1000);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	pthread_join(thread, NULL);
	return type;
}

/* One that has not polled, and reads what is there for long: the event that it waits for comes
 * soon. */
static void test_old_event_is_read(void **st)
{
	(void)st;
	assert_int_equal(reads_with_disconnected_after(200), CM_EVENT_DISCONNECTED);
}

static void test_old_event_is_read_late(void **st)
{
	(void)st;
	assert_int_equal(reads_with_disconnected_after(2500), CM_EVENT_ADDR_CHANGE);
}

/* Who has disconnected waits longer. */
static void test_old_event_is_read_behind_a_disconnect(void **st)
{
	(void)st;
	assert_int_equal(hook_cm_disconnect(&id), 0);
	assert_int_equal(reads_with_disconnected_after(1500), CM_EVENT_DISCONNECTED);
}

struct many {
	int types[2];
	uint64_t second_ms; /* that the second one took */
};

static void *reader_of_many(void *arg)
{
	struct many *m = arg;

	reader(&m->types[0]);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	m->second_ms = ms_now();
	reader(&m->types[1]);
	m->second_ms = ms_now() - m->second_ms;
	return NULL;
}

/* A thread that serves many is not held up for a second by each. */
static void test_a_thread_waits_in_vain_once(void **st)
{
	struct many m = {{-1, -1}, 0};
	pthread_t thread;

	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	pthread_create(&thread, NULL, reader_of_many, &m);
	pthread_join(thread, NULL);
	assert_int_equal(m.types[0], CM_EVENT_ADDR_CHANGE);
	assert_int_equal(m.types[1], CM_EVENT_ADDR_CHANGE);
	assert_true(m.second_ms < 900);
}

/* Who has had DISCONNECTED, and polls for events of other ids, is not held up for long. */
static void test_polled_behind_the_end(void **st)
{
	uint64_t before = ms_now();

	(void)st;
	assert_int_equal(hook_cm_disconnect(&id), 0);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_event(&channel, CM_EVENT_ADDR_CHANGE);
	assert_true(ms_now() - before < 2000);
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

static void another_comes_at_once(void)
{
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
}

/* A NIC that dies makes an event for each connection. Who has slept for the first has not polled
 * for the others. */
static void test_sleeper_is_not_woken_by_many(void **st)
{
	pthread_t thread;

	(void)st;
	after_get = another_comes_at_once;
	assert_int_equal(pthread_create(&thread, NULL, unreachable_then_disconnected, NULL), 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	pthread_join(thread, NULL);
}

/* A path that comes and goes makes events for hours. Who has polled gets something all the same. */
static void test_polled_while_events_go_on(void **st)
{
	struct rdma_cm_event *e;
	pthread_t thread;
	int type = -1;

	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	pthread_create(&thread, NULL, reader, &type);
	for (int i = 0; i < 5; i++) {
		usleep(400000);
		raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	}
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	pthread_join(thread, NULL);
	never_blocks(&channel);
	while (!hook_cm_get_event(&channel.channel, &e))
		hook_cm_ack_event(e);
	assert_int_equal(type, CM_EVENT_ADDR_CHANGE);
}

/* Two threads: one has polled, and waits for a better event than that; another destroys or migrates
 * the id, which waits until it is acknowledged. */
static void goes_while_another_has_its_event(void (*go)(void))
{
	uint64_t before;
	pthread_t thread;
	int type = -1;

	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	pthread_create(&thread, NULL, reader, &type);
	usleep(100000);
	before = ms_now();
	go();
	pthread_join(thread, NULL);
	assert_true(ms_now() - before < 700);
	assert_int_equal(type, CM_EVENT_ADDR_CHANGE);
}

static void destroys_it(void)
{
	destroy(&id);
}

static void until_it_is_acknowledged(void)
{
	usleep(200000);
}

static void migrates_it(void)
{
	during_migration = until_it_is_acknowledged;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
}

static void test_destroys_while_another_has_its_event(void **st)
{
	(void)st;
	goes_while_another_has_its_event(destroys_it);
}

static void test_migrates_while_another_has_its_event(void **st)
{
	(void)st;
	goes_while_another_has_its_event(migrates_it);
}

static void nothing(int s)
{
	(void)s;
}

/* A profiler's timer. */
static void test_signals_end_no_wait(void **st)
{
	struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	uint64_t before = ms_now();
	pthread_t thread;
	int type = -1;

	(void)st;
	sigaction(SIGUSR1, &act, NULL);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	pthread_create(&thread, NULL, reader, &type);
	while (ms_now() - before < 300) {
		usleep(3000);
		pthread_kill(thread, SIGUSR1);
	}
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	pthread_join(thread, NULL);
	signal(SIGUSR1, SIG_DFL);
	assert_int_equal(type, CM_EVENT_DISCONNECTED);
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
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void test_unprotected(void **st)
{
	(void)st;
	state = SHIFT_ST_SETUP;
	hook_cm_disconnects(&id, true);
	assert_int_equal(said, 0);
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
	destroy(&own);
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
	destroy(&other_id);
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
		destroy(&more[i]);
	never_blocks(&other);
	expect_none(&other); /* all of them are gone */
	assert_int_equal(ids, 0);
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
	destroy(&more);
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

/* It is hidden between the look that finds it at home and the next move. */
static void test_hidden_again_when_it_is_home(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	rail = 0;
	jobs_wait = true;
	job_waits = NULL;
	time_passes(3 * S);
	rail = 1;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	jobs_wait = false;
	if (job_waits)
		run_job(job_waits);
	state = SHIFT_ST_GIVEUP;
	time_passes(3 * S);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* Each is looked after. */
static void test_two_are_hidden(void **st)
{
	struct rdma_cm_id more = {.verbs = &ctx2, .channel = &other.channel, .qp = &qp2};
	struct rdma_cm_event *e = NULL;

	(void)st;
	never_blocks(&other);
	hook_cm_connects(&more, NULL);
	raise_event(&other, &more, CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(hook_cm_get_event(&other.channel, &e), 0);
	hook_cm_ack_event(e);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	raise_event(&other, &more, CM_EVENT_UNREACHABLE, -110);
	expect_none(&other);
	state2 = SHIFT_ST_GIVEUP;
	time_passes(3 * S);
	expect_none(&channel);
	assert_true(has_event(&other));
	destroy(&more);
}

/* The watch is not the end that was told. */
static void test_hidden_before_an_end(void **st)
{
	(void)st;
	cm_ended(v.cm_number, now + 60 * S);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	state = SHIFT_ST_GIVEUP;
	time_passes(3 * S);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	time_passes(60 * S);
	expect_none(&channel);
}

/* The program has posted what cannot be moved, on rail 0, and goes on as without us. */
static void test_released_after_it_was_hidden(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	state = SHIFT_ST_SETUP;
	rail = 0;
	time_passes(3 * S);
	assert_int_equal(ids, 0);
	assert_int_equal(timer->heap_at, 0);
	expect_none(&channel);
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

static void destroys_qp(void)
{
	hook_cm_disconnects(&id, false);
	v.cm_number = 0; /* it is found no more */
}

/* Without having disconnected. The kernel has no connection any more that could end. */
static void test_the_nic_is_removed_behind_the_qp(void **st)
{
	(void)st;
	never_blocks(&channel);
	destroys_qp();
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_event(&channel, CM_EVENT_DEVICE_REMOVAL);
}

/* It needs it no more. */
static void test_the_nic_is_removed_at_the_end(void **st)
{
	(void)st;
	never_blocks(&channel);
	hook_cm_disconnects(&id, true);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
}

static void test_the_nic_is_removed_behind_the_end(void **st)
{
	(void)st;
	never_blocks(&channel);
	hook_cm_disconnects(&id, false);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
}

/* It has heard nothing of the NIC, and waits for the peer to disconnect, say. */
static void test_the_qp_goes_behind_the_nic(void **st)
{
	(void)st;
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
	destroys_qp();
	time_passes(3 * S);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* It does not notice at once that its NIC was removed. The kernel knows no connection already. */
static void test_home_without_a_connection(void **st)
{
	(void)st;
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
	rail = 0;
	time_passes(3 * S);
	expect_none(&channel);
	state = SHIFT_ST_GIVEUP;
	time_passes(3 * S);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* The kernel still has the connection, and will tell of its end. */
static void test_the_qp_goes_behind_the_path(void **st)
{
	(void)st;
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	destroys_qp();
	time_passes(3 * S);
	assert_int_equal(ids, 0);
	assert_int_equal(timer->heap_at, 0);
	expect_none(&channel);
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
	the_peer_ends();
	assert_int_equal(ids, 0);
	resolve_fails_always = false;
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

static void test_woken_over_its_own_nic(void **st)
{
	struct sockaddr_in *src = (struct sockaddr_in *)&id.route.src;

	(void)st;
	*src = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = 7, .sin_addr.s_addr = 77};
	the_peer_ends();
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
	destroy(&id);
	hook_cm_connects(&id, NULL);
	the_peer_ends();
	assert_int_equal(resolved, 2);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* There is no loopback device that is up. It wakes all the same. */
static void test_woken_by_an_error(void **st)
{
	(void)st;
	resolve_errs = true;
	the_peer_ends();
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
	destroy(&none);
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
	destroy(&own);
}

/* The first attempt has failed, and the program has RESET the QP. */
static void test_another_life_of_the_qp(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	v.cm_number = 0;
	hook_cm_connects(&id, NULL);
	assert_int_equal(v.cm_number, number);
}

static void test_peer_hears_before_the_kernel(void **st)
{
	(void)st;
	said_before_the_kernel = 0;
	assert_int_equal(hook_cm_disconnect(&id), 0);
	assert_int_equal(said_before_the_kernel, 1);
}

static void loses_its_nic(void)
{
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_ESTABLISHED, 0);
	expect_event(&channel, CM_EVENT_ESTABLISHED);
	raise_event(&channel, &id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
}

/* For the kernel its id has no connection any more. */
static void test_disconnects_after_a_removal(void **st)
{
	(void)st;
	disconnect_result = -1;
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_ADDR_CHANGE, 0);
	expect_none(&channel);
	assert_int_equal(hook_cm_disconnect(&id), -1);
	destroy(&id);
	hook_cm_connects(&id, NULL);
	loses_its_nic();
	raise_event(&channel, &id, CM_EVENT_ADDR_CHANGE, 0);
	expect_none(&channel);
	said = 0;
	assert_int_equal(hook_cm_disconnect(&id), 0);
	assert_int_equal(said, 1);
	assert_int_equal(said_number, v.cm_number); /* who is to hear of it */
}

/* So the program is not to wait for DISCONNECTED. */
static void test_disconnects_after_a_removal_and_its_qp(void **st)
{
	(void)st;
	loses_its_nic();
	disconnect_result = -1;
	hook_cm_disconnects(&id, false); /* rdma_destroy_qp() */
	assert_int_equal(hook_cm_disconnect(&id), -1);
}

/* Its peer was first, and the program has read so. */
static void test_disconnects_after_a_removal_and_the_end(void **st)
{
	(void)st;
	loses_its_nic();
	disconnect_result = -1;
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	state = SHIFT_ST_SETUP;
	assert_int_equal(hook_cm_disconnect(&id), 0);
}

static void home_timer_runs(void)
{
	during_create = NULL;
	time_passes(3 * S);
}

/* librdmacm may be slow, with our lock held. The background thread does not wait for that. */
static void test_timer_needs_no_lock(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_UNREACHABLE, -110);
	expect_none(&channel);
	jobs_wait = true;
	the_peer_ends();
	rail = 0;
	during_create = home_timer_runs;
	run_job(job_waits);
	assert_int_equal(timer->heap_at, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(test_end_is_told_once),
		TEST(test_kernel_comes_first),
		TEST(test_kernel_comes_between),
		TEST(test_another_event_comes_first),
		TEST(test_survived_rail),
		TEST(test_polled),
		TEST(test_old_event_is_read),
		TEST(test_old_event_is_read_late),
		TEST(test_a_thread_waits_in_vain_once),
		TEST(test_old_event_is_read_behind_a_disconnect),
		TEST(test_polled_behind_the_end),
		TEST(test_sleeper_is_not_woken),
		TEST(test_sleeper_is_not_woken_by_many),
		TEST(test_polled_while_events_go_on),
		TEST(test_signals_end_no_wait),
		TEST(test_destroys_while_another_has_its_event),
		TEST(test_migrates_while_another_has_its_event),
		TEST(test_program_has_disconnected),
		TEST(test_unprotected),
		TEST(test_own_qp),
		TEST(test_unreachable_before_established),
		TEST(test_hidden_and_over_later),
		TEST(test_hidden_and_home),
		TEST(test_hidden_again_when_it_is_home),
		TEST(test_two_are_hidden),
		TEST(test_the_nic_is_removed_behind_the_qp),
		TEST(test_the_nic_is_removed_at_the_end),
		TEST(test_the_nic_is_removed_behind_the_end),
		TEST(test_the_qp_goes_behind_the_nic),
		TEST(test_the_qp_goes_behind_the_path),
		TEST(test_home_without_a_connection),
		TEST(test_hidden_before_an_end),
		TEST(test_released_after_it_was_hidden),
		TEST(test_the_only_nic_is_removed),
		TEST(test_our_id_has_a_second_event),
		TEST(test_destroys_without_a_disconnect),
		TEST(test_another_qp_after_a_failed_attempt),
		TEST(test_cannot_be_woken),
		TEST(test_state_is_its_own),
		TEST(test_ends_in_any_order),
		TEST(test_woken_over_its_own_nic),
		TEST(test_woken_without_its_address),
		TEST(test_woken_by_an_error),
		TEST(test_connects_again),
		TEST(test_connects_without_a_nic),
		TEST(test_old_id_disconnects),
		TEST(test_another_life_of_the_qp),
		TEST(test_peer_hears_before_the_kernel),
		TEST(test_disconnects_after_a_removal),
		TEST(test_disconnects_after_a_removal_and_its_qp),
		TEST(test_disconnects_after_a_removal_and_the_end),
		TEST(test_timer_needs_no_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
