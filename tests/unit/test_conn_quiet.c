/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A rail that was left can be taken again at once, if nothing that was sent there still lives
 * (doc/protocol.md, 7.52); and when a connection is idle, so that nobody need look at it. */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define SECOND 1000000000ull

static struct shift_conn *conn(int h)
{
	return w.h[h].c;
}

static void no_time_passes(void)
{
	bool did = true;

	while (did) {
		did = w_msg(&w, 0);
		for (int h = 0; h < 2; h++) {
			did |= w_op(&w, h) || w_cqe(&w, h);
			for (int r = 0; r < W_RAILS; r++)
				did |= w_packet(&w, h, r) || w_ack(&w, h, r);
		}
	}
}

static void time_passes(unsigned int seconds)
{
	while (seconds--) {
		w.now += SECOND;
		w_tick(&w, 0);
		w_tick(&w, 1);
		no_time_passes();
	}
}

static void goes_to(int rail)
{
	w_event(&w, 0, SHIFT_EV_MIGRATE, rail);
	no_time_passes();
	for (int h = 0; h < 2; h++) {
		assert_int_equal(w_state(&w, h), SHIFT_ST_ACTIVE);
		assert_int_equal(w_view(&w, h).r, rail);
	}
}

static void on_rail_1(void)
{
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	goes_to(1);
	time_passes(1); /* the quarantine of rail 0 */
}

/* Rail 0 fails right after the fail-back, and there is only rail 1 to go to. */
static bool rail_1_takes_over_at_once(void)
{
	goes_to(0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.data_cut[0] = true;
	break_rail_0(0);
	no_time_passes();
	if (w_state(&w, 0) == SHIFT_ST_ACTIVE) {
		assert_int_equal(w_view(&w, 0).r, 1);
		return true;
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	w.now += SECOND - 1;
	w_tick(&w, 0);
	w_tick(&w, 1);
	no_time_passes();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, 1);
	return false;
}

static void an_idle_connection_leaves_no_dirt(void **state)
{
	(void)state;
	on_rail_1();
	assert_true(rail_1_takes_over_at_once());
}

static void what_either_end_has_sent_does(void **state)
{
	(void)state;
	for (int h = 0; h < 2; h++) {
		again(NULL);
		on_rail_1();
		w_post(&w, h, SHIFT_OP_SEND, 10, true);
		no_time_passes();
		assert_false(rail_1_takes_over_at_once());
	}
}

/* Its last request may have a copy, which lives for a second, and so does the answer to that. */
static void until_two_seconds_after_its_completion(void **state)
{
	(void)state;
	for (int h = 0; h < 2; h++) {
		again(NULL);
		on_rail_1();
		w_post(&w, h, SHIFT_OP_SEND, 10, true);
		no_time_passes();
		time_passes(2); /* the first of them has found it complete */
		assert_false(rail_1_takes_over_at_once());
		again(NULL);
		on_rail_1();
		w_post(&w, h, SHIFT_OP_SEND, 10, true);
		no_time_passes();
		time_passes(3);
		assert_true(rail_1_takes_over_at_once());
	}
}

static void a_new_request_begins_it_anew(void **state)
{
	(void)state;
	on_rail_1();
	time_passes(5);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	no_time_passes();
	assert_false(rail_1_takes_over_at_once());
}

/* It may be retransmitted for as long as it likes. */
static void an_unsignaled_request_is_never_known_to_be_over(void **state)
{
	(void)state;
	on_rail_1();
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	no_time_passes();
	time_passes(10);
	assert_false(rail_1_takes_over_at_once());
}

/* On rail 0 completions are only counted. */
static void the_counters_of_rail_0_tell_it_too(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	no_time_passes();
	time_passes(1);
	assert_true(conn(0)->quiet_ns == w.now);
	time_passes(2);
	assert_true(conn(0)->quiet_ns == w.now - 2 * SECOND);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	no_time_passes();
	time_passes(1);
	assert_true(conn(0)->quiet_ns == NEVER);
}

/* An epoch in which nothing was sent does not hide the one before. */
static void older_epochs_are_not_forgotten(void **state)
{
	(void)state;
	on_rail_1();
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	no_time_passes();
	goes_to(0);
	assert_int_equal(rail_live_epoch(conn(0), w.now), 2);
	assert_int_equal(rail_live_epoch(conn(1), w.now), 0);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	no_time_passes();
	assert_int_equal(rail_live_epoch(conn(1), w.now), w_view(&w, 1).lastc);
}

/* --- idle ------------------------------------------------------------------------------------- */

static void is_idle(bool idle)
{
	assert_int_equal(shift_conn_idle(conn(0)), idle);
	assert_true(shift_conn_lazy_deadline(conn(0)) ==
		    (idle ? NEVER : shift_conn_deadline(conn(0))));
}

static void idle_is_who_waits_for_no_completion(void **state)
{
	uint64_t activity = shift_conn_activity(conn(0));

	(void)state;
	is_idle(true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	is_idle(true);
	assert_true(shift_conn_activity(conn(0)) != activity);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	is_idle(false);
	no_time_passes();
	is_idle(true);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	is_idle(false);
	no_time_passes();
	is_idle(true);
}

/* T8 of one who was idle: the clock starts when somebody looks. */
static void a_late_look_asks_nothing(void **state)
{
	(void)state;
	w.data_cut[0] = true;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.now = conn(0)->check_at + SECOND;
	w_tick(&w, 0);
	assert_int_equal(stats(0)->no_progress_asked, 0);
	assert_true(shift_conn_lazy_deadline(conn(0)) == w.now + SECOND);
	w.now += SECOND;
	w_tick(&w, 0);
	assert_int_equal(stats(0)->no_progress_asked, 1);
}

/* What is received counts, as it is shown, but does not wait. */
static void receives_are_activity(void **state)
{
	uint64_t activity = shift_conn_activity(conn(0));

	(void)state;
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	no_time_passes();
	assert_true(shift_conn_activity(conn(0)) != activity);
	activity = shift_conn_activity(conn(0));
	w_recv(&w, 0);
	assert_true(shift_conn_activity(conn(0)) != activity);
	is_idle(true);
}

/* While data has not moved for certain, the give-up clock runs (7.15). */
static void who_is_in_trouble_is_not_idle(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	no_time_passes();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	conn(0)->plan.trouble = w.now;
	is_idle(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(an_idle_connection_leaves_no_dirt),
		WORLD_TEST(what_either_end_has_sent_does),
		WORLD_TEST(until_two_seconds_after_its_completion),
		WORLD_TEST(a_new_request_begins_it_anew),
		WORLD_TEST(an_unsignaled_request_is_never_known_to_be_over),
		WORLD_TEST(the_counters_of_rail_0_tell_it_too),
		WORLD_TEST(older_epochs_are_not_forgotten),
		WORLD_TEST(idle_is_who_waits_for_no_completion),
		WORLD_TEST(a_late_look_asks_nothing),
		WORLD_TEST(receives_are_activity),
		WORLD_TEST(who_is_in_trouble_is_not_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
