/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What an event of a NIC leads to (lib/nic/nic.c, nic_watch.c). Its jobs run when they are
 * submitted; the NIC, netlink and the GIDs are the test's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/nic/ctrl_link_int.h"
#include "lib/nic/netlink.h"
#include "lib/nic/nic_int.h"

enum { IFINDEX = 5 };

struct real_verbs real;

static struct ibv_device device = {.name = "mlx5_0"}, *devices[] = {&device, NULL};
static struct ibv_context ctx = {.device = &device, .async_fd = -1};
static struct ibv_pd pd;
static struct nic *nic;
static uint64_t now = 1000000000;
static unsigned int told, refreshed, tables_read;
static bool gids_differ, port_is_mute;
static uint16_t port_lid, lid_told;
static struct bg_timer *timer;
static enum ibv_event_type event; /* that comes next; 0: none */
static uint8_t event_port;
static void (*async_ready)(void *arg, uint32_t events);
static void *async_arg;
static void (*on_link)(unsigned int ifindex, bool up);
static void (*on_address)(unsigned int ifindex);

/* --- lib/base ------------------------------------------------------------------------------ */

uint64_t now_ns(void)
{
	return now;
}

int bg_start(void)
{
	return 0;
}

void bg_call(struct bg_call *call)
{
	call->fn(call->arg);
}

void bg_timer_set(struct bg_timer *t, uint64_t at_ns)
{
	t->at_ns = at_ns;
	timer = t;
}

int bg_watch(int fd, uint32_t events, void (*fn)(void *arg, uint32_t events), void *arg)
{
	(void)fd;
	(void)events;
	async_ready = fn;
	async_arg = arg;
	return 0;
}

void bg_unwatch(int fd)
{
	(void)fd;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

struct worker *worker_new(const char *name, unsigned int threads)
{
	static int any;

	(void)name;
	(void)threads;
	return (struct worker *)(void *)&any;
}

void worker_submit(struct worker *w, struct job *job)
{
	(void)w;
	job->fn(job);
}

/* --- lib/nic ------------------------------------------------------------------------------- */

int netlink_start(void (*fn)(unsigned int ifindex, bool up), void (*address)(unsigned int ifindex))
{
	on_link = fn;
	on_address = address;
	return 0;
}

void netlink_watch(unsigned int ifindex)
{
	assert_int_equal(ifindex, IFINDEX);
}

unsigned int nic_ifindex(const struct nic *of)
{
	(void)of;
	refreshed++;
	return IFINDEX;
}

ssize_t nic_gid_table(const struct nic *of, struct ibv_gid_entry **entries)
{
	(void)of;
	*entries = NULL;
	return 2;
}

bool nic_gids_take(struct nic_own *own)
{
	assert_int_equal(own->gids_found_n, 2);
	tables_read++;
	return gids_differ;
}

void nic_measure_psn_init(struct nic_own *own)
{
	(void)own;
}

void nic_measure_psn(struct nic_own *own)
{
	(void)own;
}

int ctrl_link_open(struct nic *of)
{
	(void)of;
	return 0;
}

bool ctrl_link_refresh(struct nic *of)
{
	(void)of;
	return false;
}

void ctrl_link_take_lid(struct nic *of)
{
	lid_told = of->port_attr.lid;
}

/* --- verbs --------------------------------------------------------------------------------- */

static struct ibv_device **get_device_list(int *n)
{
	*n = 1;
	return devices;
}

static void free_device_list(struct ibv_device **list)
{
	(void)list;
}

static struct ibv_context *open_device(struct ibv_device *of)
{
	(void)of;
	return &ctx;
}

static int query_device(struct ibv_context *of, struct ibv_device_attr *attr)
{
	(void)of;
	memset(attr, 0, sizeof(*attr));
	return 0;
}

static int query_port(struct ibv_context *of, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	(void)of;
	(void)port;
	((struct ibv_port_attr *)(void *)attr)->state = IBV_PORT_ACTIVE;
	((struct ibv_port_attr *)(void *)attr)->lid = port_lid;
	return port_is_mute ? EIO : 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *of)
{
	(void)of;
	return &pd;
}

static int get_async_event(struct ibv_context *of, struct ibv_async_event *e)
{
	(void)of;
	if (!event)
		return -1;
	*e = (struct ibv_async_event){.event_type = event, .element.port_num = event_port};
	event = 0;
	return 0;
}

static void ack_async_event(struct ibv_async_event *e)
{
	(void)e;
}

/* ------------------------------------------------------------------------------------------- */

static void count(struct nic *changed)
{
	assert_ptr_equal(changed, nic);
	told++;
}

static int begin(void **state)
{
	(void)state;
	if (!nic) {
		real = (struct real_verbs){.get_device_list = get_device_list,
					   .free_device_list = free_device_list,
					   .open_device = open_device,
					   .query_device = query_device,
					   .query_port = query_port,
					   .alloc_pd = alloc_pd,
					   .get_async_event = get_async_event,
					   .ack_async_event = ack_async_event};
		nic = nic_get("mlx5_0", 1);
		assert_true(nic->ready && nic->link_up);
		nic_on_change(count);
	}
	told = refreshed = tables_read = 0;
	gids_differ = port_is_mute = false;
	timer = NULL;
	return 0;
}

static void comes(enum ibv_event_type type, uint8_t port)
{
	event = type;
	event_port = port;
	async_ready(async_arg, EPOLLIN);
}

static void a_gid_change_is_told_if_the_gids_have_changed(void **state)
{
	(void)state;
	comes(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(tables_read, 1);
	assert_int_equal(told, 0);
	gids_differ = true;
	comes(IBV_EVENT_GID_CHANGE, 2); /* of another port */
	assert_int_equal(told, 0);
	comes(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(tables_read, 2);
	assert_int_equal(told, 1);
	comes(IBV_EVENT_QP_FATAL, 1);
	assert_int_equal(told, 1);
}

/* The kernel changes the GIDs a little later than the address. */
static void after_an_address_the_gids_are_read_twice(void **state)
{
	(void)state;
	on_address(IFINDEX + 1);
	assert_int_equal(tables_read, 0);
	on_address(IFINDEX);
	assert_int_equal(tables_read, 1);
	assert_int_equal(told, 0);
	assert_non_null(timer);
	assert_in_range(timer->at_ns, now + 50000000, now + 500000000);
	gids_differ = true;
	timer->fn(timer->arg);
	assert_int_equal(tables_read, 2);
	assert_int_equal(told, 1);
}

static void a_link_that_comes_up_has_its_gids_read(void **state)
{
	(void)state;
	on_link(IFINDEX, false);
	assert_false(nic->link_up);
	assert_int_equal(told, 1);
	assert_int_equal(tables_read, 0);
	on_link(IFINDEX, true);
	assert_true(nic->link_up);
	assert_int_equal(told, 2);
	assert_int_equal(tables_read, 1);
}

/* Who lacked a P_Key there looks for it again, at the next look. */
static void a_change_of_the_ports_tables_is_a_look(void **state)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
						    IBV_EVENT_PKEY_CHANGE,
						    IBV_EVENT_CLIENT_REREGISTER};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		uint32_t looks = nic->looks;

		comes(types[i], 1);
		assert_int_equal(nic->looks, looks + 1);
	}
}

/* The peers send their control messages there. */
static void another_lid_is_told(void **state)
{
	(void)state;
	for (uint16_t lid = 7; lid < 9; lid++) {
		port_lid = lid;
		comes(IBV_EVENT_LID_CHANGE, 1);
		assert_int_equal(told, lid - 6);
		assert_int_equal(lid_told, lid);
		assert_int_equal(nic->port_attr.lid, lid);
		comes(IBV_EVENT_LID_CHANGE, 1);
		assert_int_equal(told, lid - 6);
	}
}

/* What the event was about is found later. */
static void a_look_that_fails_is_repeated(void **state)
{
	(void)state;
	gids_differ = port_is_mute = true;
	comes(IBV_EVENT_GID_CHANGE, 1);
	assert_int_equal(told, 0);
	for (int i = 0; i < 3; i++) {
		assert_non_null(timer);
		assert_in_range(timer->at_ns, now + 10000000, now + 10000000000);
		now = timer->at_ns;
		port_is_mute = i < 2;
		timer->fn(timer->arg);
	}
	assert_int_equal(told, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		TEST(a_gid_change_is_told_if_the_gids_have_changed),
		TEST(after_an_address_the_gids_are_read_twice),
		TEST(a_link_that_comes_up_has_its_gids_read),
		TEST(a_change_of_the_ports_tables_is_a_look),
		TEST(another_lid_is_told),
		TEST(a_look_that_fails_is_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
