// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Shadows that make way: two connections of one device with two backup NICs, all else faked. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/memlock.h"
#include "lib/conn/self_qp.h"
#include "lib/conn/protection.h"

enum { RAILS = 3, CONNS = 2 };

static struct nic nic[RAILS];
static struct vdev dev;
static struct vpd pd;
static struct vqp v[CONNS];
static struct ibv_qp qp;
static struct shift_conn_view view[CONNS];
static unsigned int shadows[RAILS]; /* on each NIC */
static uint32_t dirty[CONNS];	    /* rails, as lib/core was told */
static enum stats_unprotected why[CONNS];
static struct bg_timer *timer;

/* --- the rest of the library ----------------------------------------------------------------- */

uint64_t now_ns(void)
{
	return 1;
}

bool fork_in_child(void)
{
	return false;
}

void bg_call(struct bg_call *call)
{
	call->fn(call->arg);
}

void bg_timer_set(struct bg_timer *t, uint64_t at_ns)
{
	(void)at_ns;
	timer = t;
}

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

struct nic *nic_at(unsigned int index)
{
	return index < RAILS ? nic + index : NULL;
}

struct vdev *vdev_find(const struct ibv_context *ctx)
{
	return ctx == dev.ctx ? &dev : NULL;
}

void vqp_each(void (*fn)(struct vqp *, void *), void *arg)
{
	for (int i = 0; i < CONNS; i++)
		fn(v + i, arg);
}

void vqp_enter(struct vqp *q)
{
	(void)q;
}

void self_qp_go_on(struct vqp *q)
{
	(void)q;
}

void vqp_leave(struct vqp *q)
{
	(void)q;
}

void vqp_rail_event(struct vqp *q, enum shift_event_type type, uint8_t rail)
{
	assert_int_equal(type, SHIFT_EV_RAIL_VETO);
	dirty[q - v] |= 1u << rail;
}

void vqp_rail_open(struct vqp *q, uint8_t rail)
{
	dirty[q - v] &= ~(1u << rail);
}

void shift_conn_view(const struct shift_conn *c, struct shift_conn_view *to)
{
	*to = view[(const struct vqp *)(const void *)c - v];
}

void stats_conn_protect(int slot, bool is_protected, enum stats_unprotected reason)
{
	assert_int_equal(is_protected, reason == STATS_UNPROTECTED_NONE);
	why[slot] = reason;
}

void stats_conn_setup(int slot, uint64_t setup_ns)
{
	(void)slot;
	(void)setup_ns;
}

/* Nothing is dropped that a connection still believes in. */
unsigned int memory_drop_shadows(struct nic *n, int timeout_ms)
{
	unsigned int dropped = shadows[n->index];

	(void)timeout_ms;
	assert_true(memlock_is_short(n));
	for (int i = 0; dropped && i < CONNS; i++)
		assert_true(dirty[i] & 1u << n->index);
	shadows[n->index] = 0;
	pd.lacking[n->index] += dropped;
	return dropped;
}

void memory_nic_ready(struct nic *n)
{
	assert_false(memlock_is_short(n));
	shadows[n->index] += pd.lacking[n->index];
	pd.lacking[n->index] = 0;
}

/* --- the tests ------------------------------------------------------------------------------- */

static int begin(void **state)
{
	static struct ibv_context ctx;

	(void)state;
	dev.ctx = &ctx;
	dev.rails = RAILS;
	for (uint8_t i = 0; i < RAILS; i++) {
		nic[i].index = i;
		nic[i].ready = true;
		dev.nic[i] = nic + i;
		shadows[i] = i ? 5 : 0;
		pd.lacking[i] = 0;
	}
	for (int i = 0; i < CONNS; i++) {
		v[i] = (struct vqp){.qp = &qp,
				    .conn = (struct shift_conn *)(void *)(v + i),
				    .dev = &dev,
				    .pd = &pd,
				    .setup.peer_rails = RAILS,
				    .stats = i};
		view[i] = (struct shift_conn_view){.state = SHIFT_ST_ACTIVE, .protected_ = true};
		dirty[i] = 0;
		why[i] = STATS_UNPROTECTED_NONE;
	}
	if (timer)
		timer->fn(timer->arg); /* what the test before has left */
	timer = NULL;
	return 0;
}

static bool make_room(unsigned int *seen)
{
	errno = ENOMEM;
	return memlock_make_room(dev.ctx, seen);
}

static void the_last_rail_goes_first(void **state)
{
	unsigned int seen = memlock_rooms_made();

	(void)state;
	assert_true(make_room(&seen));
	assert_int_equal(shadows[1], 5);
	assert_int_equal(shadows[2], 0);
	assert_int_equal(dirty[0], 1u << 2);
	assert_int_equal(why[0], STATS_UNPROTECTED_NONE); /* rail 1 is there */
	assert_true(make_room(&seen));
	assert_int_equal(shadows[1], 0);
	assert_int_equal(why[0], STATS_UNPROTECTED_NO_SHADOW);
	assert_int_equal(why[1], STATS_UNPROTECTED_NO_SHADOW);
	assert_false(make_room(&seen));
	assert_int_equal(errno, ENOMEM);
}

static void it_comes_back(void **state)
{
	unsigned int seen = memlock_rooms_made();

	(void)state;
	while (make_room(&seen))
		;
	assert_non_null(timer);
	timer->fn(timer->arg);
	timer = NULL;
	assert_int_equal(shadows[1], 5);
	assert_int_equal(dirty[0] | dirty[1], 0);
	assert_int_equal(why[0], STATS_UNPROTECTED_NONE);
}

static void a_rail_without_a_twin_protects_nothing(void **state)
{
	(void)state;
	v[0].rails.twin[1].failed = true;
	vqp_report_protection(v);
	assert_int_equal(why[0], STATS_UNPROTECTED_NONE); /* rail 2 does */
	v[0].rails.twin[2].failed = true;
	vqp_report_protection(v);
	assert_int_equal(why[0], STATS_UNPROTECTED_OTHER);
	v[0].rails.lacking = 1u << 1;
	v[0].rails.twin[2].failed = false;
	vqp_report_protection(v);
	assert_int_equal(why[0], STATS_UNPROTECTED_NONE);
}

static void what_a_connection_lives_on_stays(void **state)
{
	unsigned int seen = memlock_rooms_made();

	(void)state;
	view[0].r = 2;			     /* moved there */
	view[1].state = SHIFT_ST_QUARANTINE; /* on its way there */
	view[1].holding = true;
	view[1].target_r = 1;
	assert_false(make_room(&seen));
	assert_int_equal(shadows[1], 5);
	assert_int_equal(shadows[2], 5);
	assert_int_equal(dirty[0] | dirty[1], 0);
	view[0].state = SHIFT_ST_DEAD;
	assert_true(make_room(&seen));
	assert_int_equal(shadows[2], 0);
}

static void room_that_another_thread_made_is_tried(void **state)
{
	unsigned int mine = memlock_rooms_made(), theirs = mine;

	(void)state;
	while (make_room(&theirs))
		;
	assert_true(make_room(&mine));
	assert_false(make_room(&mine));
}

static void other_errors_are_none_of_ours(void **state)
{
	unsigned int seen = memlock_rooms_made();

	(void)state;
	errno = EINVAL;
	assert_false(memlock_make_room(dev.ctx, &seen));
	assert_int_equal(errno, EINVAL);
	errno = ENOMEM;
	assert_false(memlock_make_room(NULL, &seen)); /* not the program's */
	assert_int_equal(shadows[2], 5);
}

static void a_region_that_is_refused_closes_the_rail(void **state)
{
	(void)state;
	pd.lacking[1] = 1;
	memlock_refused(nic + 1, EINVAL);
	memlock_changed();
	assert_int_equal(dirty[0], 1u << 1);
	assert_int_equal(why[0], STATS_UNPROTECTED_NONE);
	assert_non_null(timer); /* tried again later */
	pd.lacking[1] = 0;	/* deregistered */
	memlock_changed();
	assert_int_equal(dirty[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_last_rail_goes_first, begin),
		cmocka_unit_test_setup(it_comes_back, begin),
		cmocka_unit_test_setup(a_rail_without_a_twin_protects_nothing, begin),
		cmocka_unit_test_setup(what_a_connection_lives_on_stays, begin),
		cmocka_unit_test_setup(room_that_another_thread_made_is_tried, begin),
		cmocka_unit_test_setup(other_errors_are_none_of_ours, begin),
		cmocka_unit_test_setup(a_region_that_is_refused_closes_the_rail, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
