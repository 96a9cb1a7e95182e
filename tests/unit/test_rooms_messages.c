/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a connection takes of the peer's messages, and who answers for it when it is over;
 * and what it is told of its NICs (lib/session/dispatch.c, tombstones.c, nic_events.c). */
#include "lib/session/dispatch.h"
#include "lib/session/nic_events.h"
#include "lib/session/rendezvous.h"
#include "lib/session/tombstones.h"
#include "tests/unit/meeting_world.h"

/* --- messages ------------------------------------------------------------------------------ */

static struct shift_msg message(void)
{
	return (struct shift_msg){.type = SHIFT_MSG_SWITCH,
				  .src_nonce = PEER_NONCE,
				  .dst_nonce = NONCE,
				  .dst_conn = v->id,
				  .src_conn = PEER_ID,
				  .epoch = 2};
}

static int begin_met(void **state)
{
	meeting_begin_looking(state);
	peer_comes();
	become_active();
	trace_clear();
	return 0;
}

static void a_message_of_the_peer_is_told_with_its_rail(void **state)
{
	static const char *const told[RAILS] = {
		"event MSG rail 0 msg 2\n", "event MSG rail 1 msg 2\n", "event MSG rail 2 msg 2\n"};
	struct shift_msg m = message();

	(void)state;
	for (int i = 0; i < RAILS; i++) {
		dispatch_message(world.nic + i, &m);
		assert_traced(told[i]);
	}
}

/* 7.49: our rail 2 is a second QP on rail 0's NIC. If the peer has two NICs, it may have come from
 * either, and one of them may be dead. */
static void on_one_nic_it_may_have_come_over_two_rails(void **state)
{
	struct peer_path *path = v->rails.twin[2].path;
	struct nic *other = v->dev->nic[2];
	struct shift_msg m = message();

	(void)state;
	v->dev->nic[2] = v->dev->nic[0];
	dispatch_message(world.nic, &m);
	assert_traced("event MSG rail 0 also 0x4 msg 2\n");
	v->rails.twin[2].path = v->rails.twin[0].path; /* as the peer has one NIC, too */
	dispatch_message(world.nic, &m);
	assert_traced("event MSG rail 0 msg 2\n");
	v->rails.twin[2].path = path;
	v->dev->nic[2] = other;
}

static void the_data_path_steps_aside(void)
{
	fail();
}

/* Nor does the data path step aside for them. */
static void messages_of_others_are_not_told(void **state)
{
	struct nic foreign = world.nic[1];

	(void)state;
	on_enter = the_data_path_steps_aside;
	for (int what = 0; what < 5; what++) {
		struct shift_msg m = message();

		if (what == 0)
			m.src_nonce++;
		if (what == 1)
			m.src_conn++;
		if (what == 2)
			m.dst_conn++;
		v->setup.met = what != 3;
		dispatch_message(what == 4 ? &foreign : world.nic + 1, &m);
		assert_traced("");
		v->setup.met = true;
	}
	on_enter = NULL;
}

static int meanwhile;

static void things_change(void)
{
	on_enter = NULL;
	v->id += meanwhile == 0;
	v->setup.peer_id += meanwhile == 1;
	v->setup.peer_nonce += meanwhile == 2;
	v->setup.met = meanwhile != 3;
}

/* The program may RESET its QP while a message waits for the lock. */
static void a_message_of_the_life_before_is_not_told(void **state)
{
	struct vqp_setup setup = v->setup;
	struct shift_msg m = message();

	(void)state;
	for (meanwhile = 0; meanwhile < 4; meanwhile++) {
		on_enter = things_change;
		dispatch_message(world.nic + 1, &m);
		assert_traced("");
		v->id = m.dst_conn;
		v->setup = setup;
	}
}

static void messages_about_keys_are_not_lib_cores(void **state)
{
	static const uint8_t types[] = {SHIFT_MSG_KEY_ASK, SHIFT_MSG_KEY, SHIFT_MSG_KEY_GONE,
					SHIFT_MSG_KEY_FORGOT};
	struct shift_msg m = message();

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		m.type = types[i];
		dispatch_message(world.nic + 1, &m);
		assert_null(strstr(trace_text(), "event"));
	}
}

/* --- tombstones ---------------------------------------------------------------------------- */

enum { EXPIRES_MS = 60000, TOMB_ID = 5000 };

static void leave_a_tombstone(void)
{
	core.tombstone = (struct shift_tombstone){.answer = {.type = SHIFT_MSG_CLOSED,
							     .epoch = 3,
							     .src_conn = v->id,
							     .dst_conn = PEER_ID},
						  .expires_ns = world.now + EXPIRES_MS * 1000000ull,
						  .valid = true};
	v->id = TOMB_ID;
	core.tombstone.answer.src_conn = v->id;
	tombstone_leave(v);
	core.tombstone.valid = false;
	trace_clear();
}

static const char answer_1[] = "send mlx5_1 type 4 epoch 3 from 5000 to 70\n";

static struct shift_msg question(void)
{
	struct shift_msg m = message();

	m.dst_conn = TOMB_ID;
	return m;
}

static int begin_tomb(void **state)
{
	uint32_t id;

	begin_met(state);
	id = v->id;
	leave_a_tombstone();
	v->id = id;
	return 0;
}

static void a_tombstone_answers_what_waits_for_an_answer(void **state)
{
	struct shift_msg m = question();

	(void)state;
	for (uint8_t type = 0; type < SHIFT_MSG_TYPE_END; type++) {
		m.type = type;
		tombstone_answer(world.nic + 1, &m);
		assert_traced(type == SHIFT_MSG_SWITCH || type == SHIFT_MSG_QUERY_PSN ? answer_1
										      : "");
	}
	m.type = SHIFT_MSG_SWITCH;
	dispatch_message(world.nic + 1, &m); /* there is no such connection */
	assert_traced(answer_1);
	m = question();
	tombstone_answer(world.nic, &m);
	assert_traced("send mlx5_0 type 4 epoch 3 from 5000 to 70\n");
}

static void a_tombstone_answers_nobody_else(void **state)
{
	struct nic foreign = world.nic[1];

	(void)state;
	for (int what = 0; what < 4; what++) {
		struct shift_msg m = question();

		m.dst_conn += what == 0 ? 1 << 16 : 0; /* it is looked for in the same bucket */
		m.src_nonce += what == 1;
		m.src_conn += what == 2;
		tombstone_answer(what == 3 ? &foreign : world.nic + 1, &m);
		assert_traced("");
	}
}

static void a_tombstone_answers_for_its_time_and_goes(void **state)
{
	struct shift_msg m = question();

	(void)state;
	rendezvous_end(v); /* the tombstone alone holds the paths now */
	assert_null(strstr(trace_text(), "no path"));
	trace_clear();
	rooms_pass(EXPIRES_MS * 1000000ull - 1);
	tombstone_answer(world.nic + 1, &m);
	assert_traced(answer_1);
	rooms_pass(1);
	assert_traced("no path over mlx5_0\nno path over mlx5_1\nno path over mlx5_2\n");
	tombstone_answer(world.nic + 1, &m);
	assert_traced("");
}

/* Each has a time of its own. The second is the connection's own, left at its end. */
static void a_tombstone_that_goes_leaves_the_others(void **state)
{
	struct shift_msg m = question();

	(void)state;
	rooms_pass(1000 * MS);
	core.tombstone.valid = true;
	core.tombstone.expires_ns += 1000 * MS;
	rendezvous_end(v);
	core.tombstone.valid = false;
	trace_clear();
	rooms_pass((EXPIRES_MS - 1000) * 1000000ull);
	assert_traced(""); /* the paths are those of both */
	m.dst_conn = v->id;
	tombstone_answer(world.nic + 1, &m);
	assert_traced(answer_1);
	rooms_pass(1000 * MS);
	assert_traced("no path over mlx5_0\nno path over mlx5_1\nno path over mlx5_2\n");
}

/* The peer's end still answers probes: the paths stay, and are looked at again. */
static void paths_that_the_peer_needs_stay(void **state)
{
	struct shift_msg m = question();

	(void)state;
	rendezvous_end(v);
	trace_clear();
	keep_for_peer = true;
	rooms_pass(EXPIRES_MS * 1000000ull);
	assert_traced("");
	rooms_pass(1);
	tombstone_answer(world.nic + 1, &m); /* its time is over all the same */
	assert_traced("");
	keep_for_peer = false;
	rooms_pass(60000ull * MS - 2);
	assert_traced("");
	rooms_pass(1);
	assert_traced("no path over mlx5_0\nno path over mlx5_1\nno path over mlx5_2\n");
}

static void a_connection_that_is_not_over_leaves_none(void **state)
{
	struct shift_msg m = question();

	for (int what = 0; what < 2; what++) {
		begin_met(state);
		core.tombstone = (struct shift_tombstone){.answer = {.dst_conn = PEER_ID},
							  .expires_ns = UINT64_MAX - 1,
							  .valid = what};
		v->setup.met = !what;
		m.dst_conn = v->id;
		tombstone_leave(v);
		tombstone_answer(world.nic + 1, &m);
		assert_traced("");
		core.tombstone.valid = false;
		meeting_end(state);
	}
}

/* --- a NIC's events ------------------------------------------------------------------------ */

/* HELLO said that it is down. */
static void a_link_that_was_down_at_first_comes_up(void **state)
{
	meeting_begin_looking(state);
	world.nic[1].link_up = false;
	nic_events_changed(world.nic + 1); /* who has met no peer is not told */
	peer_comes();
	become_active();
	trace_clear();
	world.nic[1].link_up = true;
	nic_events_changed(world.nic + 1);
	assert_non_null(strstr(trace_text(), "event LINK_UP rail 1\n"));
	meeting_end(state);
}

/* T3: it opens with its port down, after HELLO. Then what comes with its link up, and says that it
 * is, does not begin all anew. */
static void a_nic_that_opens_late_says_that_its_link_is_down(void **state)
{
	unsigned int n;

	meeting_begin(state);
	world.nic[2].ready = world.nic[2].link_up = false;
	start_and_look();
	peer_comes();
	become_active();
	trace_clear();
	world.nic[2].ready = true;
	nic_events_changed(world.nic + 2);
	assert_non_null(strstr(trace_text(), "event LINK_DOWN rail 2\n"));
	trace_clear();
	world.nic[2].link_up = true;
	nic_events_changed(world.nic + 2);
	assert_non_null(strstr(trace_text(), "event LINK_UP rail 2\n"));
	meeting_end(state);

	meeting_begin_looking(state);
	nic_events_changed(world.nic); /* it is ready */
	for (int i = 0; i < 60000; i++)
		rooms_pass(MS);
	n = told_n;
	nic_events_changed(world.nic);
	rooms_pass(0);
	assert_int_equal(told_n, n);
	world.nic[0].link_up = false;
	nic_events_changed(world.nic);
	world.nic[0].link_up = true;
	nic_events_changed(world.nic);
	rooms_pass(0);
	assert_int_equal(told_n, n + 1);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define MET(name)   cmocka_unit_test_setup_teardown(name, begin_met, meeting_end)
#define TOMB(name)  cmocka_unit_test_setup_teardown(name, begin_tomb, meeting_end)
	const struct CMUnitTest tests[] = {
		MET(a_message_of_the_peer_is_told_with_its_rail),
		MET(on_one_nic_it_may_have_come_over_two_rails),
		MET(messages_of_others_are_not_told),
		MET(a_message_of_the_life_before_is_not_told),
		MET(messages_about_keys_are_not_lib_cores),
		TOMB(a_tombstone_answers_what_waits_for_an_answer),
		TOMB(a_tombstone_answers_nobody_else),
		TOMB(a_tombstone_answers_for_its_time_and_goes),
		TOMB(a_tombstone_that_goes_leaves_the_others),
		TOMB(paths_that_the_peer_needs_stay),
		ALONE(a_connection_that_is_not_over_leaves_none),
		cmocka_unit_test(a_link_that_was_down_at_first_comes_up),
		cmocka_unit_test_setup_teardown(a_nic_that_opens_late_says_that_its_link_is_down,
						NULL, meeting_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
