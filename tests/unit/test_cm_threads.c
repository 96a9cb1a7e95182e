// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Ids and channels of RDMA-CM that go, or move, while other threads use them. */
#include <errno.h>
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
	the_peer_ends();
	assert_int_equal(ids, 1);
	hook_cm_destroys_channel(&channel.channel);
	assert_int_equal(ids, 0);
}

/* Another id has a wake-up on the other channel; the program has read it, or not. */
static void test_channel_of_others_destroyed(void **st)
{
	struct rdma_cm_id more = {.verbs = &ctx2, .channel = &other.channel, .qp = &qp2};
	struct rdma_cm_event *e = NULL;

	(void)st;
	hook_cm_connects(&more, NULL);
	for (int read = 0; read < 2; read++) {
		if (read)
			assert_int_equal(hook_cm_get_event(&other.channel, &e), 0);
		hook_cm_destroys_channel(&channel.channel);
		if (!read)
			cm_ended(v2.cm_number, now);
		time_passes(0);
		hook_cm_destroys_channel(&channel.channel);
		assert_int_equal(ids, 1);
	}
	assert_ptr_equal(e->id, &more);
	assert_int_equal(hook_cm_ack_event(e), 0);
	assert_int_equal(ids, 0);
	destroy(&more);
}

static void test_number_of_a_destroyed_id(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	destroy(&id);
	cm_ended(number, now);
	time_passes(0);
	assert_int_equal(ids, 0);
	assert_false(has_event(&channel));
}

/* It has a QP that is none of ours. */
static void test_address_of_a_destroyed_id(void **st)
{
	(void)st;
	for (int i = 0; i < 2; i++) {
		raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
		expect_event(&channel, CM_EVENT_DISCONNECTED);
		destroy(&id);
	}
}

static void test_not_destroyed(void **st)
{
	(void)st;
	destroy_result = -1;
	assert_int_equal(hook_cm_destroy_id(&id), -1);
	destroy_result = 0;
}

static void test_migrated(void **st)
{
	(void)st;
	the_peer_ends();
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
	the_peer_ends();
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
	assert_int_equal(resolved, 0);
}

static void test_read_wake_up_is_not_repeated(void **st)
{
	(void)st;
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
}

static void test_migrated_alive(void **st)
{
	(void)st;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
	the_peer_ends();
	expect_event(&other, CM_EVENT_DISCONNECTED);
	expect_none(&channel);
}

static void test_migration_fails(void **st)
{
	(void)st;
	the_peer_ends();
	migrate_result = -1;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), -1);
	assert_int_equal(ids, 1);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	expect_none(&other);
}

static void test_migration_that_fails_says_why(void **st)
{
	(void)st;
	the_peer_ends();
	migrate_result = -1;
	resolve_fails_always = true;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(ids, 0);
}

/* The next end does. */
static void test_cannot_be_woken_where_it_has_migrated_to(void **st)
{
	(void)st;
	the_peer_ends();
	create_fails = true;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	create_fails = false;
	assert_false(has_event(&other));
	the_peer_ends();
	expect_event(&other, CM_EVENT_DISCONNECTED);
}

static void test_nothing_wakes_for_what_the_kernel_told(void **st)
{
	(void)st;
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
	assert_false(has_event(&other));
}

/* What was read is not to be read again, on whatever channel. */
static void test_migrated_there_and_back(void **st)
{
	(void)st;
	the_peer_ends();
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
	the_peer_ends();
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

/* Its event holds up nothing: our id has gone with the channel. */
static void test_destroyed_after_its_channel(void **st)
{
	struct rdma_cm_event *e = NULL;
	struct rdma_cm_id *ours = read_the_end(&e);

	(void)st;
	hook_cm_destroys_channel(&channel.channel);
	destroy(&id);
	assert_int_equal(hook_cm_ack_event(e), 0);
	ids = 0;
	free(ours);
}

/* The program has ids without a channel now. */
static void test_channel_destroyed_before_the_end(void **st)
{
	(void)st;
	hook_cm_destroys_channel(&channel.channel);
	the_peer_ends();
	assert_int_equal(ids, 0);
}

static void the_peer_ends_meanwhile(void)
{
	the_peer_ends();
	assert_int_equal(ids, 0); /* on which channel would it be? */
}

static void test_end_while_it_migrates(void **st)
{
	(void)st;
	for (int fails = 0; fails < 2; fails++) {
		during_migration = the_peer_ends_meanwhile;
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

static void *migrate_and_tell(void *of)
{
	assert_int_equal(hook_cm_migrate_id(of, &other.channel), 0);
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

/* As librdmacm's does for the kernel's events: no other thread is to have one of the old channel
 * when it returns. */
static void test_migration_waits_for_the_ack(void **st)
{
	struct rdma_cm_event *e = NULL;
	pthread_t thread;

	(void)st;
	read_the_end(&e);
	destroyed = false;
	assert_int_equal(pthread_create(&thread, NULL, migrate_and_tell, &id), 0);
	usleep(200000);
	assert_false(destroyed);
	assert_int_equal(hook_cm_ack_event(e), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ids, 0);
}

/* If it fails, librdmacm does not wait, either. */
static void test_failed_migration_waits_for_no_ack(void **st)
{
	struct rdma_cm_event *e = NULL;

	(void)st;
	read_the_end(&e);
	migrate_result = -1;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), -1);
	assert_int_equal(hook_cm_ack_event(e), 0);
}

/* librdmacm would acknowledge it in its own migrate. */
static void test_migration_with_the_event_in_the_id(void **st)
{
	(void)st;
	read_the_end(&id.event);
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
}

/* Two threads wait, each for another event. */
static void test_two_destroys_wait_for_the_ack(void **st)
{
	struct rdma_cm_id more = {.verbs = &ctx2, .channel = &other.channel, .qp = &qp2};
	struct rdma_cm_event *e = NULL, *e2 = NULL;
	pthread_t thread, thread2;

	(void)st;
	read_the_end(&e);
	hook_cm_connects(&more, NULL);
	cm_ended(v2.cm_number, now);
	time_passes(0);
	assert_int_equal(hook_cm_get_event(&other.channel, &e2), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_it, &id), 0);
	usleep(50000);
	assert_int_equal(pthread_create(&thread2, NULL, destroy_it, &more), 0);
	usleep(50000);
	assert_int_equal(hook_cm_ack_event(e2), 0);
	pthread_join(thread2, NULL);
	assert_int_equal(hook_cm_ack_event(e), 0);
	pthread_join(thread, NULL);
}

/* Another id is destroyed. */
static void test_destroy_waits_for_no_other_ack(void **st)
{
	struct rdma_cm_id more = {.verbs = &ctx2, .channel = &channel.channel, .qp = &qp2};
	struct rdma_cm_event *e = NULL;

	(void)st;
	hook_cm_connects(&more, NULL);
	read_the_end(&e);
	destroy(&more);
	assert_int_equal(hook_cm_ack_event(e), 0);
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

static _Atomic bool may_end;

static void takes_until_it_may_end(struct rdma_cm_id *of)
{
	(void)of;
	begun = true;
	for (int ms = 0; !may_end; ms++) {
		assert_true(ms < FOR_EVER_MS);
		usleep(1000);
	}
}

/* Another thread acknowledges our event, and our id goes with it. */
static void acknowledge_in_thread(void (*during)(struct rdma_cm_id *of))
{
	struct rdma_cm_event *e = NULL;

	read_the_end(&e);
	begun = done = may_end = false;
	during_destroy = during;
	assert_int_equal(pthread_create(&thread, NULL, acknowledge, e), 0);
	wait_until_begun();
}

static void test_destroy_waits_for_our_id(void **st)
{
	(void)st;
	acknowledge_in_thread(takes_long);
	destroy(&id);
	assert_true(done);
	pthread_join(thread, NULL);
}

static void test_channel_waits_for_our_id(void **st)
{
	(void)st;
	acknowledge_in_thread(takes_long);
	hook_cm_destroys_channel(&channel.channel);
	assert_true(done);
	pthread_join(thread, NULL);
	assert_int_equal(ids, 0);
}

static void test_another_channel_waits_for_nothing(void **st)
{
	(void)st;
	acknowledge_in_thread(takes_until_it_may_end);
	hook_cm_destroys_channel(&other.channel);
	may_end = true;
	pthread_join(thread, NULL);
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
	the_peer_ends();
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

/* librdmacm has freed the id, and given the memory to another thread. */
static void (*at_the_address)(struct rdma_cm_id *of);

static void runs_at_the_address(struct rdma_cm_id *of)
{
	if (of->port_num == OURS)
		return;
	during_destroy = NULL;
	at_the_address(of);
}

static void destroy_while(void (*fn)(struct rdma_cm_id *of))
{
	at_the_address = fn;
	during_destroy = runs_at_the_address;
	destroy(&id);
	assert_null(during_destroy);
}

static void connect_another(struct rdma_cm_id *of)
{
	hook_cm_connects(of, NULL);
}

static void test_another_id_at_the_address(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	destroy_while(connect_another);
	assert_int_not_equal(v.cm_number, number);
	the_peer_ends();
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	hook_cm_disconnects(&id, true);
	assert_int_equal(said_number, v.cm_number);
}

static void test_another_id_at_the_address_is_destroyed(void **st)
{
	(void)st;
	destroy_while(destroy);
}

/* As librdmacm does when it accepts for rdma_get_request(). */
static void migrate_another(struct rdma_cm_id *of)
{
	assert_int_equal(hook_cm_migrate_id(of, &other.channel), 0);
	assert_int_equal(ids, 0);
	assert_false(has_event(&other));
}

static void test_another_id_at_the_address_migrates(void **st)
{
	(void)st;
	the_peer_ends();
	destroy_while(migrate_another);
}

static void disconnect_another(struct rdma_cm_id *of)
{
	hook_cm_disconnects(of, true);
}

static void test_another_id_at_the_address_disconnects(void **st)
{
	(void)st;
	said = 0;
	destroy_while(disconnect_another);
	assert_int_equal(said, 0);
}

/* The memory of our id, too, may be the program's before we know that it is free. */
static void *event_of_another(void *of)
{
	struct rdma_cm_event *e = NULL;

	raise_event(&other, of, CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(hook_cm_get_event(&other.channel, &e), 0);
	assert_ptr_equal(e->id, of);
	assert_int_equal(e->event, CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(hook_cm_ack_event(e), 0);
	return NULL;
}

static void event_at_our_address(struct rdma_cm_id *of)
{
	if (of->port_num != OURS)
		return;
	during_destroy = NULL;
	of->context = NULL;
	assert_int_equal(pthread_create(&thread, NULL, event_of_another, of), 0);
	pthread_join(thread, NULL);
}

static void test_another_id_at_the_address_of_ours(void **st)
{
	(void)st;
	never_blocks(&other);
	the_peer_ends();
	during_destroy = event_at_our_address;
	destroy(&id);
	assert_null(during_destroy);
}

/* The program has freed what its `context` points to, and we have got that memory. */
static void test_context_of_ours(void **st)
{
	struct rdma_cm_event *e = NULL, *e2 = NULL;
	struct rdma_cm_id more = {.channel = &channel.channel};
	struct rdma_cm_id *ours = read_the_end(&e);

	(void)st;
	more.context = ours->context;
	raise_event(&channel, &more, CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(hook_cm_get_event(&channel.channel, &e2), 0);
	assert_ptr_equal(e2->id, &more);
	assert_int_equal(hook_cm_ack_event(e2), 0);
	assert_int_equal(hook_cm_ack_event(e), 0);
}

/* --- a librdmacm that does not call itself through its PLT ------------------------------------ */

/* As in its rdma_disconnect() of an id that has no channel of the program's. */
static void librdmacm_reads_the_end(void)
{
	the_peer_ends();
	get_unhooked(&channel, &id.event);
}

static void test_read_around_us_and_destroyed(void **st)
{
	(void)st;
	librdmacm_reads_the_end();
	destroy(&id);
	assert_int_equal(ids, 0);
}

static void test_read_around_us_and_migrated(void **st)
{
	(void)st;
	librdmacm_reads_the_end();
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_int_equal(ids, 0);
	assert_false(has_event(&other)); /* it has heard */
	the_peer_ends();
	assert_int_equal(ids, 0); /* and is not told again */
	raise_event(&other, &id, CM_EVENT_DISCONNECTED, 0);
	never_blocks(&other);
	expect_none(&other);
}

/* The id has its own channel, which the program may read, too. Stock librdmacm waits for nothing
 * there. */
static void test_kernel_tells_behind_what_is_read_around_us(void **st)
{
	(void)st;
	never_blocks(&channel);
	librdmacm_reads_the_end();
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	destroy(&id);
	assert_int_equal(ids, 0);
}

/* The NIC of our id goes. */
static void test_second_event_behind_what_is_read_around_us(void **st)
{
	(void)st;
	never_blocks(&channel);
	librdmacm_reads_the_end();
	raise_event(&channel, id.event->id, CM_EVENT_DEVICE_REMOVAL, 0);
	expect_none(&channel);
	destroy(&id);
	assert_int_equal(ids, 0);
}

/* The program itself has read it there, as with any other event. */
static void test_in_the_id_and_acknowledged_around_us(void **st)
{
	(void)st;
	read_the_end(&id.event);
	hook_cm_destroy_ep(&id);
	assert_int_equal(ids, 0);
}

/* Where it was, the next is. */
static void test_acknowledged_event_in_the_id(void **st)
{
	(void)st;
	the_peer_ends();
	id.event = channel.queue[channel.first % EVENTS_MAX];
	expect_event(&channel, CM_EVENT_DISCONNECTED);
	id.event = NULL;
}

/* And another thread has that, and acknowledges it. */
static void test_event_where_one_was_left_in_the_id(void **st)
{
	struct rdma_cm_event *e = NULL;

	(void)st;
	read_the_end(&e);
	id.event = e;
	destroyed = false;
	assert_int_equal(pthread_create(&thread, NULL, migrate_and_tell, &id), 0);
	usleep(200000);
	assert_false(destroyed);
	assert_int_equal(hook_cm_ack_event(e), 0);
	pthread_join(thread, NULL);
	id.event = NULL;
}

/* Another id's event there is librdmacm's own matter. */
static void test_read_of_another_and_destroyed(void **st)
{
	struct rdma_cm_event *e;

	(void)st;
	raise_event(&channel, &id, CM_EVENT_DISCONNECTED, 0);
	cm_ended(v.cm_number, now);
	time_passes(0);
	get_unhooked(&channel, &id.event);
	e = id.event;
	assert_int_equal(hook_cm_migrate_id(&id, &other.channel), 0);
	assert_ptr_equal(id.event, e);
	assert_int_equal(ids, 1);
}

/* Its rdma_destroy_ep() calls no function of ours. */
static void test_endpoint_destroyed(void **st)
{
	uint32_t number = v.cm_number;

	(void)st;
	cm_ended(number, now);
	time_passes(0);
	hook_cm_destroy_ep(&id);
	assert_int_equal(ids, 0);
	cm_ended(number, now);
	time_passes(0);
	assert_int_equal(ids, 0);
	hook_cm_connects(&id, NULL); /* another id at the same address */
	assert_int_not_equal(v.cm_number, number);
}

/* With no connection of ours. */
static void test_another_endpoint_destroyed(void **st)
{
	struct rdma_cm_id more = {.channel = &other.channel};

	(void)st;
	hook_cm_destroy_ep(&more);
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
		TEST(test_migration_waits_for_the_ack),
		TEST(test_failed_migration_waits_for_no_ack),
		TEST(test_migration_with_the_event_in_the_id),
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
		TEST(test_channel_of_others_destroyed),
		TEST(test_number_of_a_destroyed_id),
		TEST(test_address_of_a_destroyed_id),
		TEST(test_not_destroyed),
		TEST(test_migration_that_fails_says_why),
		TEST(test_cannot_be_woken_where_it_has_migrated_to),
		TEST(test_nothing_wakes_for_what_the_kernel_told),
		TEST(test_destroyed_after_its_channel),
		TEST(test_two_destroys_wait_for_the_ack),
		TEST(test_destroy_waits_for_no_other_ack),
		TEST(test_another_channel_waits_for_nothing),
		TEST(test_another_id_at_the_address_is_destroyed),
		TEST(test_another_id_at_the_address_migrates),
		TEST(test_another_id_at_the_address_disconnects),
		TEST(test_another_id_at_the_address_of_ours),
		TEST(test_context_of_ours),
		TEST(test_read_around_us_and_destroyed),
		TEST(test_read_around_us_and_migrated),
		TEST(test_kernel_tells_behind_what_is_read_around_us),
		TEST(test_second_event_behind_what_is_read_around_us),
		TEST(test_in_the_id_and_acknowledged_around_us),
		TEST(test_acknowledged_event_in_the_id),
		TEST(test_event_where_one_was_left_in_the_id),
		TEST(test_read_of_another_and_destroyed),
		TEST(test_endpoint_destroyed),
		TEST(test_another_endpoint_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
