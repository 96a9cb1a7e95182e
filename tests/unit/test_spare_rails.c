/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Of the backups that `auto` finds one is made, and another when one is lost
 * (lib/session/spare_rails.h; doc/protocol.md, 7.53). Three rails, the last one spare. */
#include <stdio.h>

#include "lib/conn/conn_lock.h"
#include "lib/session/nic_events.h"
#include "lib/session/peer_paths.h"
#include "lib/session/spare_rails.h"
#include "tests/unit/meeting_world.h"

void __wrap_vdev_each(void (*fn)(struct vdev *dev, void *arg), void *arg);
bool __wrap_shift_conn_waits(const struct shift_conn *c);
struct vqp *__wrap_rooms_create_qp(void);
struct vqp *__real_rooms_create_qp(void);

void __wrap_vdev_each(void (*fn)(struct vdev *dev, void *arg), void *arg)
{
	fn(&world.dev, arg);
}

bool __wrap_shift_conn_waits(const struct shift_conn *c)
{
	(void)c;
	return core.waits;
}

struct vqp *__wrap_rooms_create_qp(void)
{
	world.dev.spare = world.dev.was_spare = 1u << 2;
	world.dev.lost = 0;
	world.dev.opened_ns = world.now;
	for (int i = 0; i < RAILS; i++)
		world.nic[i].link_up = true;
	return __real_rooms_create_qp();
}

static int begin(void **state)
{
	vdev_on_rails_changed(spare_rails_changed);
	meeting_begin_looking(state);
	theirs.rail[2].qpn = 0; /* they have spared it, too */
	peer_comes();
	become_active();
	peer_comes();
	rooms_pass(1000 * MS);
	return 0;
}

static bool has_happened(const char *what)
{
	return strstr(trace_text(), what);
}

static bool is_made(void)
{
	rooms_pass(0);
	rooms_run_jobs();
	rooms_pass(10 * MS);
	return v->rails.twin[2].qp;
}

/* The peer does as we do. */
static void they_follow(void)
{
	assert_int_equal(ours.rail[2].qpn, TWIN_QPN + 2);
	theirs.rail[2].qpn = 0x402;
	peer_comes();
	rooms_pass(10 * MS);
}

static void link_goes(int nic, bool up)
{
	world.nic[nic].link_up = up;
	nic_events_changed(&world.nic[nic]);
}

/* But it can be spoken over, so that it can be made when all others are dead. */
static void a_spare_rail_has_no_twin(void **state)
{
	unsigned int n;

	(void)state;
	assert_non_null(v->rails.twin[1].qp);
	assert_null(v->rails.twin[2].qp);
	assert_int_equal(ours.rail[2].qpn, 0);
	assert_int_not_equal(ours.rail[2].link.qpn, 0);
	assert_true(has_happened("event RAIL_OPEN rail 1 mtu 2048\n"));
	assert_false(has_happened("event RAIL_OPEN rail 2 mtu 2048\n"));
	assert_non_null(v->rails.twin[2].path);
	n = told_n;
	for (int i = 0; i < 20; i++)
		rooms_pass(1000 * MS);
	assert_int_equal(told_n, n); /* all is settled */
	assert_null(v->rails.twin[2].qp);
}

static void it_is_made_when_a_link_is_lost(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		if (lost) {
			meeting_end(state);
			begin(state);
		}
		link_goes(lost, false);
		assert_true(is_made());
		assert_false(has_happened("event RAIL_OPEN rail 2 mtu 2048\n"));
		they_follow();
		assert_true(has_happened("event RAIL_OPEN rail 2 mtu 2048\n"));
	}
}

/* The peer is told over each path. */
static void it_is_made_when_both_others_are_lost_at_once(void **state)
{
	(void)state;
	link_goes(0, false);
	link_goes(1, false);
	told_over = NULL;
	assert_true(is_made());
	assert_string_equal(told_over, "mlx5_2");
	they_follow();
	assert_true(has_happened("event RAIL_OPEN rail 2 mtu 2048\n"));
}

static void it_is_made_when_a_connection_leaves_its_rail(void **state)
{
	struct shift_action a = {.type = SHIFT_ACT_REPORT,
				 .from = SHIFT_ST_ACTIVE,
				 .to = SHIFT_ST_FENCE,
				 .reason = SHIFT_R_PEER_SWITCH};

	(void)state;
	core.view.planned = true;
	rooms_act(v, &a);
	assert_false(is_made());
	core.view.planned = false;
	rooms_act(v, &a);
	assert_true(is_made());
}

/* Probes say it, too, of a backup that nobody uses; unless the whole peer is silent. */
static void it_is_made_when_a_backup_is_silent(void **state)
{
	(void)state;
	core.view.state = SHIFT_ST_ACTIVE;
	core.waits = true;
	path_health_probed(v->rails.twin[0].path, true);
	path_health_probed(v->rails.twin[1].path, true);
	for (int i = 0; i < 8; i++) {
		world.now += 10 * MS;
		path_health_probed(v->rails.twin[0].path, false);
		path_health_probed(v->rails.twin[1].path, false);
	}
	assert_false(is_made());
	for (int i = 0; i < 8; i++) {
		world.now += 10 * MS;
		path_health_probed(v->rails.twin[0].path, true);
		path_health_probed(v->rails.twin[1].path, false);
	}
	assert_true(is_made());
}

/* --- answers that are awaited ---------------------------------------------------------------- */

static bool is_told(uint8_t rail)
{
	char what[32];
	bool is;

	snprintf(what, sizeof(what), "event PROBE_OK rail %u", rail);
	trace_clear();
	path_health_probed(v->rails.twin[rail].path, true);
	is = has_happened(what);
	trace_clear();
	return is;
}

static void pass_through(enum shift_state state)
{
	core.view.state = state;
	vqp_enter(v);
	vqp_leave(v);
}

/* The first of each rail is told though nothing has changed: a switch may be over before it comes,
 * and without one the connection would never go back. */
static void after_a_switch_one_answer_is_told(void **state)
{
	struct vqp other = {0};

	(void)state;
	pass_through(SHIFT_ST_ACTIVE);
	for (uint8_t i = 0; i < 2; i++)
		is_told(i);
	for (int n = 0; n < 2; n++) {
		assert_false(is_told(0) || is_told(1));
		pass_through(SHIFT_ST_FENCE);
		pass_through(SHIFT_ST_ACTIVE);
		assert_true(is_told(0));
		assert_false(is_told(0));
		assert_true(is_told(1));
		vqp_await_answers(&other);
		assert_false(is_told(0) || is_told(1));
	}
}

static void after_a_link_came_back_too(void **state)
{
	(void)state;
	pass_through(SHIFT_ST_ACTIVE);
	for (uint8_t i = 0; i < 2; i++)
		is_told(i);
	link_goes(0, false);
	assert_false(is_told(0));
	link_goes(0, true);
	assert_true(is_told(0));
	assert_false(is_told(0));
}

/* Another connection had it before, so its next answer is no change. */
static void after_it_got_a_path_too(void **state)
{
	struct rail_addr theirs_1;
	struct peer_path *p;

	meeting_begin_looking(state);
	theirs_1 = theirs.rail[1];
	theirs.rail[1].link.qpn = 0; /* it is not ready yet */
	peer_comes();
	become_active();
	peer_comes();
	rooms_pass(1000 * MS);
	assert_null(v->rails.twin[1].path);
	p = peer_path_get(&world.nic[1], PEER_NONCE, &theirs_1);
	pass_through(SHIFT_ST_FENCE);
	pass_through(SHIFT_ST_ACTIVE);
	path_health_probed(p, true);
	path_health_probed(p, true);
	theirs.rail[1] = theirs_1;
	peer_comes();
	rooms_pass(1000 * MS);
	assert_ptr_equal(v->rails.twin[1].path, p);
	peer_path_put(p);
	assert_true(is_told(1));
	assert_false(is_told(1));
}

static void it_is_made_when_the_peer_has_made_it(void **state)
{
	(void)state;
	theirs.rail[2].qpn = 0x402;
	peer_comes();
	assert_true(is_made());
	peer_comes();
	rooms_pass(10 * MS);
	assert_true(has_happened("event RAIL_OPEN rail 2 mtu 2048\n"));
}

static void a_nic_that_does_not_open_is_not_waited_for(void **state)
{
	(void)state;
	world.nic[1].ready = false;
	world.dev.opened_ns = world.now;
	spare_rails_changed(NULL);
	assert_false(is_made());
	rooms_pass(1000 * MS);
	assert_true(is_made());
	world.nic[1].ready = true;
}

static void one_whose_link_is_down_helps_nobody(void **state)
{
	(void)state;
	link_goes(2, false);
	link_goes(0, false);
	assert_false(is_made());
	link_goes(2, true);
	assert_true(is_made());
}

/* What is good again is no reason any more. */
static void what_has_come_back_is_not_lost(void **state)
{
	struct shift_action a = {.type = SHIFT_ACT_REPORT,
				 .rail = 1,
				 .from = SHIFT_ST_SWITCHING,
				 .to = SHIFT_ST_ACTIVE,
				 .reason = SHIFT_R_COMMIT};

	(void)state;
	world.nic[2].link_up = false;
	vdev_rail_lost(&world.dev, 1);
	assert_false(is_made());
	rooms_act(v, &a);
	link_goes(2, true);
	assert_false(is_made());
}

int main(void)
{
#define SPARE(name) cmocka_unit_test_setup_teardown(name, begin, meeting_end)
	const struct CMUnitTest tests[] = {
		SPARE(a_spare_rail_has_no_twin),
		SPARE(it_is_made_when_a_link_is_lost),
		SPARE(it_is_made_when_both_others_are_lost_at_once),
		SPARE(it_is_made_when_a_connection_leaves_its_rail),
		SPARE(it_is_made_when_a_backup_is_silent),
		SPARE(after_a_switch_one_answer_is_told),
		SPARE(after_a_link_came_back_too),
		cmocka_unit_test_teardown(after_it_got_a_path_too, meeting_end),
		SPARE(it_is_made_when_the_peer_has_made_it),
		SPARE(a_nic_that_does_not_open_is_not_waited_for),
		SPARE(one_whose_link_is_down_helps_nobody),
		SPARE(what_has_come_back_is_not_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
