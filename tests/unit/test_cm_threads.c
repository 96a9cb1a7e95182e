// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Ids and channels of RDMA-CM that go, or move, while other threads use them. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/cm_world.h"

static void test_destroyed_before_it_reads(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	cm_ended(number, now);
	time_passes(0);
	destroy(&id);
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
	assert_false(has_event(&channel)); /* nobody is to be woken there */
	expect_event(&other, CM_EVENT_DISCONNECTED);
	expect_none(&other);
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
	assert_int_equal(ids, 1);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(ids, 0);
	expect_none(&channel);
	expect_none(&other);
}

static void test_channel_with_several_destroyed(void **st)
{
	struct rdma_cm_id more = {.verbs = &ctx, .channel = &channel.channel, .qp = &qp};

	(void)st;
	cm_ended(v.cm_number, now);
	hook_cm_connects(&more, NULL);
	cm_ended(v.cm_number, now);
	time_passes(0);
	assert_int_equal(ids, 2);
	hook_cm_destroys_channel(&channel.channel);
	assert_int_equal(ids, 0);
	destroy(&more);
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
		destroy(&id);
		hook_cm_connects(&id, NULL);
	}
}

static _Atomic bool destroyed;

static void *destroy_it(void *of)
{
	destroy(of);
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

/* librdmacm acknowledges it in its own destroy. */
static void test_destroy_with_the_event_in_the_id(void **st)
{
	(void)st;
	read_the_end(&id.event);
	destroy(&id);
	assert_int_equal(ids, 0);
}

/* --- two threads ------------------------------------------------------------------------------ */

static _Atomic bool begun, done;
static pthread_t thread;

static void wait_until_begun(void)
{
	for (int ms = 0; !begun; ms++) {
		assert_true(ms < FOR_EVER_MS);
		usleep(1000);
	}
}

static void begins(struct rdma_cm_id *of)
{
	(void)of;
	begun = true;
}

/* Those of librdmacm take their time, in which the channel must not go. */
static void takes_long(struct rdma_cm_id *of)
{
	if (of->port_num != OURS)
		return;
	begun = true;
	usleep(300000);
	done = true;
}

static void *acknowledge(void *event)
{
	assert_int_equal(hook_cm_ack_event(event), 0);
	return NULL;
}

/* Another thread acknowledges our event, and our id goes with it. */
static void acknowledge_in_thread(void)
{
	struct rdma_cm_event *e = NULL;

	read_the_end(&e);
	begun = done = false;
	during_destroy = takes_long;
	assert_int_equal(pthread_create(&thread, NULL, acknowledge, e), 0);
	wait_until_begun();
}

static void test_destroy_waits_for_our_id(void **st)
{
	(void)st;
	acknowledge_in_thread();
	destroy(&id);
	assert_true(done);
	pthread_join(thread, NULL);
}

static void test_channel_waits_for_our_id(void **st)
{
	(void)st;
	acknowledge_in_thread();
	hook_cm_destroys_channel(&channel.channel);
	assert_true(done);
	pthread_join(thread, NULL);
	assert_int_equal(ids, 0);
}

/* Runs what destroys our id, while this thread has read an event of that and no more. */
static void *(*meanwhile)(void *of);

static void runs_meanwhile(void)
{
	begun = false;
	during_destroy = begins;
	assert_int_equal(pthread_create(&thread, NULL, meanwhile, &id), 0);
	wait_until_begun();
}

static void read_ours_while(void *(*fn)(void *of))
{
	never_blocks(&channel);
	cm_ended(v.cm_number, now);
	time_passes(0);
	meanwhile = fn;
	after_get = runs_meanwhile;
	expect_none(&channel);
	pthread_join(thread, NULL);
}

static void test_ours_is_read_while_it_is_destroyed(void **st)
{
	(void)st;
	read_ours_while(destroy_it);
	assert_int_equal(ids, 0);
}

static void *migrate_it(void *of)
{
	assert_int_equal(hook_cm_migrate_id(of, &other.channel), migrate_result);
	return NULL;
}

/* It is not lost, wherever the id is then. */
static void test_ours_is_read_while_it_migrates(void **st)
{
	(void)st;
	read_ours_while(migrate_it);
	expect_event(&other, CM_EVENT_DISCONNECTED);
}

static void test_ours_is_read_while_it_does_not_migrate(void **st)
{
	(void)st;
	migrate_result = -1;
	read_ours_while(migrate_it);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

/* The kernel's own comes late, when the program waits in its destroy already. */
static void test_second_end_while_it_is_destroyed(void **st)
{
	struct rdma_cm_event *e = NULL;

	(void)st;
	never_blocks(&channel);
	read_the_end(&e);
	assert_int_equal(pthread_create(&thread, NULL, destroy_it, &id), 0);
	usleep(100000);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_none(&channel);
	assert_int_equal(hook_cm_ack_event(e), 0);
	pthread_join(thread, NULL);
}

/* It was read before that, and is judged when librdmacm waits for it. */
static void test_second_end_read_before_it_is_destroyed(void **st)
{
	(void)st;
	never_blocks(&channel);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	meanwhile = destroy_it;
	after_get = runs_meanwhile;
	expect_none(&channel);
	pthread_join(thread, NULL);
}

static void connect_another(struct rdma_cm_id *of)
{
	during_destroy = NULL;
	hook_cm_connects(of, NULL);
}

/* librdmacm has freed it, and given the memory to another thread. */
static void test_another_id_at_the_address(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	during_destroy = connect_another;
	destroy(&id);
	assert_int_not_equal(v.cm_number, number);
	cm_ended(v.cm_number, now);
	time_passes(0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(test_destroyed_before_it_reads),
		TEST(test_channel_destroyed),
		TEST(test_migrated),
		TEST(test_channel_destroyed_before_the_end),
		TEST(test_end_while_it_migrates),
		TEST(test_destroy_waits_for_the_ack),
		TEST(test_destroy_with_the_event_in_the_id),
		TEST(test_nothing_wakes_for_what_was_told),
		TEST(test_read_wake_up_is_not_repeated),
		TEST(test_migrated_alive),
		TEST(test_migration_fails),
		TEST(test_migrated_there_and_back),
		TEST(test_channel_with_several_destroyed),
		TEST(test_channel_destroyed_before_the_ack),
		TEST(test_destroy_waits_for_our_id),
		TEST(test_channel_waits_for_our_id),
		TEST(test_ours_is_read_while_it_is_destroyed),
		TEST(test_ours_is_read_while_it_migrates),
		TEST(test_ours_is_read_while_it_does_not_migrate),
		TEST(test_second_end_while_it_is_destroyed),
		TEST(test_second_end_read_before_it_is_destroyed),
		TEST(test_another_id_at_the_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
