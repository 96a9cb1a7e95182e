/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* T9: when a better rail is good again (lib/core/failback.c). What follows is in
 * test_conn_planned.c. */
#include "lib/core/conn_int.h"
#include "tests/unit/planned.h"

#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(int h)
{
	return w.h[h].c;
}

/* Both are on rail 2, and all that was before is long past. Nothing else wakes host h. */
static void on_rail_2(void)
{
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 2);
	w.now += 100 * SECOND;
	for (int h = 0; h < 2; h++) {
		for (int r = 0; r < 2; r++) {
			w_event(&w, h, SHIFT_EV_LINK_UP, r);
			conn(h)->rail[r].hold_down_ns = 10 * SECOND;
			conn(h)->rail[r].dirty_until = 0;
		}
		conn(h)->check_at = NEVER - 1;
	}
}

/* It asks for that rail at that time, and not a nanosecond before. */
static void asks_at(int h, uint64_t at, int rail)
{
	assert_true(shift_conn_deadline(conn(h)) == at);
	tick_at(h, at - 1);
	assert_int_equal(w_state(&w, h), SHIFT_ST_ACTIVE);
	tick_at(h, at);
	assert_int_equal(w_state(&w, h), SHIFT_ST_PREPARE);
	assert_int_equal(conn(h)->plan.r, rail);
	assert_int_equal(w_view(&w, h).reason, SHIFT_R_FAIL_BACK);
}

/* Never, as things stand. */
static void asks_for_nothing(int h)
{
	assert_true(shift_conn_deadline(conn(h)) == NEVER - 1);
	tick_at(h, w.now + 1000 * SECOND);
	assert_int_equal(w_state(&w, h), SHIFT_ST_ACTIVE);
}

static void a_rail_is_good_after_its_hold_down(void **state)
{
	(void)state;
	for (int h = 0; h < 2; h++) {
		teardown(state);
		setup(state);
		on_rail_2();
		w_event(&w, h, SHIFT_EV_PROBE_OK, 1);
		asks_at(h, w.now + (h ? 15 : 10) * SECOND, 1); /* side 1 waits half as long again */
	}
}

static void and_after_its_quarantine(void **state)
{
	static const unsigned int dirty_s[] = {9, 10, 11, 30};

	for (size_t i = 0; i < ROWS(dirty_s); i++) {
		uint64_t now;

		teardown(state);
		setup(state);
		on_rail_2();
		now = w.now;
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 0);
		conn(0)->rail[0].dirty_until = now + dirty_s[i] * SECOND;
		asks_at(0, now + (dirty_s[i] > 10 ? dirty_s[i] : 10) * SECOND, 0);
	}
}

/* Of several the one that is good first; at the same time the better one. */
static void the_first_good_rail_is_asked_for(void **state)
{
	static const struct {
		int at_s[2]; /* when each is answered */
		int asks_s, rail;
	} row[] = {{{0, 1}, 10, 0}, {{1, 0}, 10, 1}, {{0, 0}, 10, 0}, {{5, 2}, 12, 1}};

	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t now;

		teardown(state);
		setup(state);
		on_rail_2();
		now = w.now;
		for (int r = 0; r < 2; r++) {
			w.now = now + (uint64_t)row[i].at_s[r] * SECOND;
			w_event(&w, 0, SHIFT_EV_PROBE_OK, r);
		}
		asks_at(0, now + (uint64_t)row[i].asks_s * SECOND, row[i].rail);
	}
}

static void a_worse_rail_is_never_asked_for(void **state)
{
	(void)state;
	for (int h = 0; h < 2; h++) {
		conn(h)->rail[1].dirty_until = 0;
		conn(h)->check_at = NEVER - 1;
		w_event(&w, h, SHIFT_EV_PROBE_OK, 1);
		w_event(&w, h, SHIFT_EV_PROBE_OK, 0); /* nor the rail in use */
		asks_for_nothing(h);
	}
}

enum shut { DOWN, VETOED, HUNG, UNACCOUNTED, UNPROVEN, UNANSWERED };

static void a_rail_that_is_shut_is_not_asked_for(void **state)
{
	for (int how = DOWN; how <= UNANSWERED; how++) {
		struct rail *r;

		teardown(state);
		setup(state);
		on_rail_2();
		if (how != UNANSWERED)
			w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
		r = &conn(0)->rail[1];
		r->down = how == DOWN;
		r->vetoed = how == VETOED;
		r->hung = how == HUNG;
		r->unaccounted = how == UNACCOUNTED;
		if (how == UNPROVEN)
			r->dirty_until = NEVER;
		asks_for_nothing(0);
	}
}

/* A lost atomic waits for a READ before it: the connection is about to end. */
static void nothing_is_asked_while_posts_are_held(void **state)
{
	(void)state;
	on_rail_2();
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
	conn(0)->sq.lost = conn(0)->sq.head;
	conn_hold(conn(0));
	asks_for_nothing(0);
}

/* One refusal doubles the hold-down, up to the maximum, and it begins anew. */
static void each_refusal_puts_the_rail_off(void **state)
{
	static const struct {
		unsigned int before_s, after_s;
	} row[] = {{10, 20}, {100, 200}, {149, 298}, {150, 150}, {300, 300}};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown(state);
		setup(state);
		on_rail_2();
		conn(0)->rail[1].hold_down_ns = row[i].before_s * SECOND;
		w_event(&w, 0, SHIFT_EV_PROBE_OK, 1);
		asks_at(0, w.now + row[i].before_s * SECOND, 1);
		lose_messages();
		tick_at(0, conn(0)->timeout_at);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		lose_messages();
		conn(0)->check_at = NEVER - 1;
		assert_true(conn(0)->rail[1].healthy_ns == w.now);
		asks_at(0, w.now + row[i].after_s * SECOND, 1);
	}
}

/* The peer may have begun to hold at the first PREPARE, and does not hold longer for the others. */
static void the_promise_counts_from_the_first_question(void **state)
{
	const uint64_t asked = w.now;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	for (int i = 1; i <= 3; i++) {
		lose_messages();
		tick_at(0, asked + (uint64_t)i * 20 * MS);
		assert_int_equal(stats(0)->retransmits, i);
	}
	risk_atomic(0); /* so that it does not leave at once */
	peer_says(0, SHIFT_MSG_READY, 1, conn(0)->plan.serial, conn(0)->plan.hold_ms);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	assert_true(conn(0)->plan.until == asked + 600 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(a_rail_is_good_after_its_hold_down),
		WORLD_TEST(and_after_its_quarantine),
		WORLD_TEST(the_first_good_rail_is_asked_for),
		WORLD_TEST(a_worse_rail_is_never_asked_for),
		WORLD_TEST(a_rail_that_is_shut_is_not_asked_for),
		WORLD_TEST(nothing_is_asked_while_posts_are_held),
		WORLD_TEST(each_refusal_puts_the_rail_off),
		WORLD_TEST(the_promise_counts_from_the_first_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
