/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What can be seen of a connection from outside: names, view, what the hot path asks. */
#include <string.h>

#include "lib/core/wrlog.h"
#include "tests/unit/planned.h"

/* --- names ---------------------------------------------------------------------------------------
 */

#define NAME(n, what) #n,
static const char *const states[] = {SHIFT_STATES(NAME)};
static const char *const reasons[] = {SHIFT_REASONS(NAME)};
static const char *const events[] = {SHIFT_EVENTS(NAME)};
static const char *const actions[] = {SHIFT_ACTIONS(NAME)};
#undef NAME

#define NAMES(name_of, list, count)                                        \
	do {                                                               \
		assert_int_equal(sizeof(list) / sizeof((list)[0]), count); \
		for (unsigned int i = 0; i < (count); i++)                 \
			assert_string_equal(name_of(i), (list)[i]);        \
		assert_string_equal(name_of(count), "?");                  \
		assert_string_equal(name_of(UINT32_MAX), "?");             \
	} while (0)

static void each_has_its_name(void **state)
{
	(void)state;
	NAMES(shift_state_name, states, SHIFT_ST_COUNT);
	NAMES(shift_reason_name, reasons, SHIFT_R_COUNT);
	NAMES(shift_event_name, events, SHIFT_EV_COUNT);
	NAMES(shift_action_name, actions, SHIFT_ACT_COUNT);
}

/* --- the view ------------------------------------------------------------------------------------
 */

static void sees_epochs(uint32_t e, uint32_t target_e, uint32_t lastc, int r, int target_r)
{
	struct shift_conn_view v = w_view(&w, 0);

	assert_int_equal(v.e, e);
	assert_int_equal(v.target_e, target_e);
	assert_int_equal(v.lastc, lastc);
	assert_int_equal(v.r, r);
	assert_int_equal(v.target_r, target_r);
}

/* From the start of a failover to its end: where it is, where it goes, what is committed. */
static void epochs_and_rails_of_a_failover(void **state)
{
	(void)state;
	sees_epochs(0, 0, 0, 0, 0);
	assert_false(w_view(&w, 0).holding);
	w.frozen_arm = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_view(&w, 0).state, SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_LINK_DOWN);
	sees_epochs(0, 2, 0, 0, 1);
	assert_true(w_view(&w, 0).holding);
	finish_ops(0);
	assert_int_equal(w_view(&w, 0).state, SHIFT_ST_ARM);
	sees_epochs(0, 2, 0, 0, 1);
	assert_int_equal(w_view(&w, 0).tag[1], 2);
	w.frozen_arm = false;
	finish_ops(0);
	assert_int_equal(w_view(&w, 0).state, SHIFT_ST_SWITCHING);
	sees_epochs(2, 2, 0, 1, 1);
	assert_int_equal(w_view(&w, 0).heard, 0);
	assert_true(w_settle(&w, 50));
	sees_epochs(2, 2, 2, 1, 1);
	assert_int_equal(w_view(&w, 0).heard, 2);
	assert_int_equal(w_view(&w, 0).tag[0], 0);
	assert_int_equal(w_view(&w, 0).tag[1], 2);
	assert_int_equal(w_view(&w, 0).tag[2], 0);
	assert_false(w_view(&w, 0).holding);
	assert_false(w_view(&w, 0).planned);
}

/* What a planned switch aims at is no target before it leaves its rail. */
static void epochs_and_rails_of_a_planned_switch(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_PREPARE);
	sees_epochs(0, 0, 0, 0, 0);
	assert_false(w_view(&w, 0).planned);
	deliver_all();
	assert_true(w_view(&w, 0).planned);
	sees_epochs(0, 2, 0, 0, 2);
	assert_true(w_settle(&w, 50));
	sees_epochs(2, 2, 2, 2, 2);
	assert_true(w_view(&w, 0).planned);
	/* The next one is not. */
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	assert_false(w_view(&w, 0).planned);
}

static void what_is_reported_shows(void **state)
{
	(void)state;
	assert_int_equal(w_view(&w, 0).rep_epoch, 0);
	assert_int_equal(w_view(&w, 0).rep_psn, 0xfffffe);
	w_post(&w, 1, SHIFT_OP_WRITE, 3000, true);
	pass_packets(1, 0, 3);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(w_view(&w, 0).rep_epoch, 0);
	assert_int_equal(w_view(&w, 0).rep_psn, 1);
}

/* At the end there is nothing that it goes to any more. */
static void what_is_over_has_no_target(void **state)
{
	(void)state;
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	sees_epochs(0, 2, 0, 0, 1);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	sees_epochs(0, 0, 0, 0, 0);
}

/* Of epochs after the first, too, and of rail 0 after a return. */
static void tags_and_reports_of_later_epochs(void **state)
{
	uint32_t e;

	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	assert_true(w_settle(&w, 50));
	w.now += 3 * SECOND;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	assert_true(w_settle(&w, 50));
	e = w_view(&w, 0).e;
	assert_int_equal(w_view(&w, 0).tag[0], e);
	assert_true(w_view(&w, 0).tag[1] < e);
	assert_int_equal(w_view(&w, 0).rep_epoch, 0);
	w_post(&w, 1, SHIFT_OP_WRITE, 10, true);
	pass_packets(1, 0, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(w_view(&w, 0).rep_epoch, e);
}

static void posts_are_counted(void **state)
{
	struct shift_conn_view v;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 1025, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	v = w_view(&w, 0);
	assert_int_equal(v.send_tail, 0);
	assert_int_equal(v.send_sent, 3);
	assert_int_equal(v.send_head, 3);
	assert_int_equal(shift_conn_head(w.h[0].c), 3);
	assert_int_equal(v.packets_posted, 4);
	assert_int_equal(v.recv_posted, W_READY_RECVS);
	assert_int_equal(v.recv_cum, 0);
	pass_packets(0, 0, 2);
	assert_true(w_ack(&w, 0, 0));
	take_cqes(0);
	assert_int_equal(w_view(&w, 0).send_tail, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	w_post(&w, 0, SHIFT_OP_WRITE, 5000, true); /* held */
	v = w_view(&w, 0);
	assert_int_equal(v.send_sent, 3);
	assert_int_equal(v.send_head, 4);
	assert_int_equal(shift_conn_head(w.h[0].c), 4);
	assert_int_equal(v.packets_posted, 4);
}

static void receives_are_counted(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	pass_packets(1, 0, 3);
	take_cqes(0);
	assert_int_equal(w_view(&w, 0).recv_cum, 3);
	assert_int_equal(w_view(&w, 0).recv_posted, W_READY_RECVS);
	/* At the end those that flush are not consumed. */
	w_close(&w, 0, SHIFT_CLOSE_ERR);
	finish_ops(0);
	assert_int_equal(w.h[0].recv_completed, W_READY_RECVS);
	assert_int_equal(w_view(&w, 0).recv_cum, 3);
}

/* --- what the hot path asks ----------------------------------------------------------------------
 */

/* On rail 0, nothing held and nothing matched: only then. */
static void the_hot_path_runs_on_rail_0(void **state)
{
	const struct shift_conn *c = w.h[0].c;

	(void)state;
	assert_true(shift_conn_fast(c));
	assert_false(shift_conn_tracked(c));
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_false(shift_conn_fast(c));
	assert_true(shift_conn_tracked(c));
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_false(shift_conn_fast(c));
	w.now += 3 * SECOND;
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 0);
	/* Until what was posted there is done, completions are matched. */
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 50));
	assert_false(shift_conn_tracked(c));
	assert_true(shift_conn_fast(c));
}

/* A QP that only receives, or is idle, has nothing whose completion would end the matching. */
static void back_on_rail_0_who_is_idle_is_fast_at_once(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 50));
	for (int h = 0; h < 2; h++)
		assert_false(shift_conn_fast(w.h[h].c));
	w.now += 3 * SECOND;
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 0);
	assert_true(w_settle(&w, 50));
	for (int h = 0; h < 2; h++) {
		assert_int_equal(w_view(&w, h).r, 0);
		assert_true(shift_conn_fast(w.h[h].c));
	}
	/* And what comes next is counted as before. */
	for (int h = 0; h < 2; h++)
		w_post(&w, h, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 50));
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* A planned switch away from rail 0 that comes to nothing leaves no trace, unless there is
 * something to match: what was held meanwhile. */
static void after_an_abandoned_plan_who_is_idle_is_fast(void **state)
{
	const struct shift_conn *c = w.h[1].c;

	(void)state;
	for (uint32_t held = 0; held < 2; held++) {
		peer_says(1, SHIFT_MSG_PREPARE, 1, 1 + held, 100);
		lose_messages();
		assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
		if (held)
			w_post(&w, 1, SHIFT_OP_SEND, 10, true);
		assert_false(shift_conn_fast(c));
		tick_at(1, w.now + SECOND);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
		assert_true(shift_conn_fast(c) == !held);
	}
	assert_true(w_settle(&w, 50));
	assert_true(shift_conn_fast(c));
}

/* A drain holds posts: the poster that asks now must be told. */
static void held_is_not_the_hot_path(void **state)
{
	const struct shift_conn *c = w.h[1].c;

	(void)state;
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	deliver_all();
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DRAIN);
	assert_true(shift_conn_tracked(c));
	assert_false(shift_conn_fast(c));
}

static void the_end_is_not_the_hot_path(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	assert_false(shift_conn_fast(w.h[0].c));
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_false(shift_conn_fast(w.h[0].c));
}

/* A8: of 2^22 packets in a row one is signaled. The post before the last is not yet it. */
static void the_secret_is_due_after_2_to_the_22_packets(void **state)
{
	struct shift_sge sge[2] = {{.length = 1024u << 20}, {.length = 0}};
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = sge, .num_sge = 2};
	struct shift_conn *c = w.h[0].c;
	int rail;

	(void)state;
	sge[1].length = 1024u << 20;
	assert_false(shift_conn_secret_due(c, &wr)); /* 2^21 packets */
	assert_int_equal(
		shift_conn_post_send(
			c, &(struct shift_wr){.opcode = SHIFT_OP_WRITE, .sge = sge, .num_sge = 1},
			&rail),
		0);
	assert_int_equal(w_view(&w, 0).packets_posted, 1 << 20);
	sge[0].length = sge[1].length = 1024u * (3u << 19);
	assert_int_equal(SHIFT_SECRET_MAX - (1u << 20), 2 * (3u << 19));
	assert_false(shift_conn_secret_due(c, &wr)); /* 2^22 to the packet */
	sge[1].length++;
	assert_true(shift_conn_secret_due(c, &wr));
	wr.num_sge = 1;
	assert_false(shift_conn_secret_due(c, &wr));
	wr.opcode = SHIFT_OP_FETCH_ADD;
	wr.num_sge = 2;
	assert_false(shift_conn_secret_due(c, &wr)); /* one packet */
}

/* A signaled one is as good: the count begins again behind it. */
static void a_signaled_wr_puts_the_secret_off(void **state)
{
	struct shift_sge sge = {.length = 1024u << 21};
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = &sge, .num_sge = 1};
	struct shift_conn *c = w.h[0].c;
	int rail;

	(void)state;
	assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	wr.flags = SHIFT_F_SIGNALED;
	assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	assert_false(shift_conn_secret_due(c, &wr));
	wr.flags = 0;
	assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	assert_false(shift_conn_secret_due(c, &wr));
	assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
	assert_true(shift_conn_secret_due(c, &wr));
}

/* --- one line of text ----------------------------------------------------------------------------
 */

static void shows(const char *what)
{
	char line[512];
	int n = shift_conn_dump(w.h[0].c, line, sizeof(line));

	assert_int_equal(n, strlen(line));
	if (!strstr(line, what))
		fail_msg("\"%s\" does not show in: %s", what, line);
}

static void shows_not(const char *what)
{
	char line[512];

	shift_conn_dump(w.h[0].c, line, sizeof(line));
	assert_null(strstr(line, what));
}

static void a_line_tells_where_it_is(void **state)
{
	(void)state;
	shows("ACTIVE(INIT) side 0 e 0->0 r 0->0 lastc 0 heard 0 rep (0,fffffe) recv 0/8 send "
	      "0/0/0, 0 stale");
	shows("psn 000010 from packet 0 of 0");
	shows_not("held");
	shows_not("tracked");
	w.fence_unsure[0] = true;
	w_post(&w, 0, SHIFT_OP_WRITE, 3000, true);
	w_break(&w, 0, 0);
	take_cqes(0);
	shows("FENCE(CQE_ERROR) side 0 e 0->2 r 0->1");
	shows("send 0/1/1 held");
	shows("of 3;");
	shows("error 12, 0x81");
	finish_ops(0);
	shows("SWITCHING(ARMED) side 0 e 2->2 r 1->1");
	shows("rep (0,fffffe)?");
	shows(" held tracked");
}

static void a_line_fits_its_room(void **state)
{
	char line[16] = "xxxxxxxxxxxxxxx";

	(void)state;
	assert_true(shift_conn_dump(w.h[0].c, line, 8) > 100);
	assert_string_equal(line, "ACTIVE(");
	assert_int_equal(line[8], 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_its_name),
		WORLD_TEST(epochs_and_rails_of_a_failover),
		WORLD_TEST(epochs_and_rails_of_a_planned_switch),
		WORLD_TEST(what_is_reported_shows),
		WORLD_TEST(what_is_over_has_no_target),
		WORLD_TEST(tags_and_reports_of_later_epochs),
		WORLD_TEST(posts_are_counted),
		WORLD_TEST(receives_are_counted),
		WORLD_TEST(the_hot_path_runs_on_rail_0),
		WORLD_TEST(back_on_rail_0_who_is_idle_is_fast_at_once),
		WORLD_TEST(after_an_abandoned_plan_who_is_idle_is_fast),
		WORLD_TEST(held_is_not_the_hot_path),
		WORLD_TEST(the_end_is_not_the_hot_path),
		WORLD_TEST(the_secret_is_due_after_2_to_the_22_packets),
		WORLD_TEST(a_signaled_wr_puts_the_secret_off),
		WORLD_TEST(a_line_tells_where_it_is),
		WORLD_TEST(a_line_fits_its_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
