/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a QP that is RESET and connected to the same QP again finds its peer, whatever has become of
 * rail 0 (lib/session/rendezvous.c). */
#include "lib/session/rendezvous.h"
#include "tests/unit/meeting_world.h"

enum { ALL_NICS = (1 << RAILS) - 1 };

static void the_life_ends(void)
{
	rendezvous_end(v);
	v->setup.met = false;
	core.view.state = SHIFT_ST_SETUP;
	core.view.protected_ = core.view.matched = false;
	trace_clear();
}

static void the_next_begins(void)
{
	theirs.id++; /* theirs, too */
	told_nics = told_n = 0;
	rendezvous_begin(v);
	rooms_pass(0);
	they_publish();
	rooms_pass(0);
	rooms_pass(10 * MS);
}

static void hello_matches(void)
{
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
}

static void a_life_has_met(void **state)
{
	meeting_begin_looking(state);
	hello_matches();
}

static void live_again(void)
{
	the_life_ends();
	the_next_begins();
}

static int meeting_begin_again(void **state)
{
	a_life_has_met(state);
	live_again();
	return 0;
}

/* They speak over one NIC of ours. */
static bool met_over(unsigned int nic)
{
	their_serial++;
	they_say(nic, true);
	rooms_pass(0);
	return v->setup.met;
}

static void is_met_over(unsigned int nic)
{
	assert_int_equal(told_nics, ALL_NICS);
	assert_true(met_over(nic));
}

/* Rail 0 may be a black hole. The peer of the last life is told over all rails, and answered over
 * that which it speaks over. */
static void the_peer_is_met_over_any_rail(void **state)
{
	(void)state;
	assert_int_equal(told_nics, ALL_NICS);
	told_n = 0;
	their_serial++;
	they_say(1, true);
	assert_true(v->setup.met);
	assert_string_equal(told_over, "mlx5_1");
	assert_true(told_n);
	assert_int_equal(v->setup.peer_id, PEER_ID + 1);
	assert_int_equal(our_heard, their_serial);
}

static void until_it_comes_it_is_told_over_all_rails(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		told_nics = 0;
		rooms_pass(1000 * MS);
		assert_int_equal(told_nics, ALL_NICS);
	}
	for (unsigned int nic = 0; nic < RAILS; nic++)
		for (they_twist = 1; they_twist <= 4; they_twist++)
			assert_false(met_over(nic));
	they_twist = 0;
	theirs.nonce = OTHER_NONCE; /* another process has its GID and QPN */
	assert_false(met_over(1));
	theirs.nonce = PEER_NONCE;
	assert_true(met_over(2));
}

static void if_it_does_not_come_it_is_told_ever_more_seldom(void **state)
{
	(void)state;
	for (int i = 0; i < 60000; i++)
		rooms_pass(MS);
	told_n = 0;
	for (int i = 0; i < 20000; i++)
		rooms_pass(MS);
	assert_in_range(told_n, RAILS, 2 * RAILS);
}

/* GIDs and QPNs repeat in other networks. What is known of one QP says nothing of another. */
static void another_qp_is_met_on_its_own_port_only(void **state)
{
	for (int what = 0; what < 2; what++) {
		a_life_has_met(state);
		the_life_ends();
		if (what)
			v->program.attr.ah_attr.grh.dgid.raw[9] = 1;
		else
			v->program.attr.dest_qp_num = ++peer_qpn;
		the_next_begins();
		assert_int_equal(told_nics, what ? 0 : 1); /* nobody is behind that GID */
		assert_false(met_over(1));
		meeting_end(state);
	}
}

static void a_life_that_met_nobody_changes_nothing(void **state)
{
	(void)state;
	live_again();
	is_met_over(1);
}

/* The peer has RESET its QP before us. */
static void a_peer_that_is_in_its_next_life_is_the_last_one(void **state)
{
	a_life_has_met(state);
	theirs.id++;
	theirs.rail[1].link.qkey = 9;
	they_tell();
	live_again();
	is_met_over(2);
}

/* Only HELLO says that it was the right one. */
static void a_peer_that_hello_refused_is_not_the_last_one(void **state)
{
	meeting_begin_looking(state);
	peer_comes();
	assert_true(v->setup.met);
	live_again();
	assert_int_equal(told_nics, 1);
	assert_false(met_over(1));
}

static void a_rail_that_nobody_is_on_is_not_used(void **state)
{
	meeting_begin_looking(state);
	theirs.rail[1].link.qpn = 0;
	hello_matches();
	the_life_ends();
	world.nic[2].ready = false;
	the_next_begins();
	assert_int_equal(told_nics, 1);
	world.nic[2].ready = true;
	rooms_pass(1000 * MS);
	assert_int_equal(told_nics, 1 | 4);
	theirs.rail[1].link.qpn = 0;
	told_n = 0;
	assert_true(met_over(1)); /* its NIC has come, and it has not said where it listens */
	assert_int_equal(told_n, 0);
}

/* The peer's twin has moved since: the newest address counts. */
static void the_newest_address_of_the_last_life_counts(void **state)
{
	meeting_begin_looking(state);
	theirs.rail[2].link.qpn = 0;
	hello_matches();
	theirs.rail[2].link.qpn = 0x302;
	they_tell();
	live_again();
	assert_int_equal(told_nics, ALL_NICS);
}

static uint64_t spoken_to;

static void note_whom(const char *link, const struct shift_msg *m)
{
	(void)link;
	(void)m;
	spoken_to = contact_nonce ? contact_nonce : spoken_to;
}

/* The peer's process was started anew, and has the same GID and QPN. */
static void another_process_is_answered_where_it_listens(void **state)
{
	(void)state;
	assert_true(met_over(0));
	theirs.nonce = OTHER_NONCE;
	their_serial++;
	spoken_to = 0;
	world.on_send = note_whom;
	they_say(0, true);
	assert_int_equal(spoken_to, OTHER_NONCE);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, meeting_begin_again, meeting_end)
#define LATE(name)  cmocka_unit_test_setup_teardown(name, NULL, meeting_end)
#define ALONE(name) cmocka_unit_test(name)
	const struct CMUnitTest tests[] = {
		TEST(the_peer_is_met_over_any_rail),
		TEST(until_it_comes_it_is_told_over_all_rails),
		TEST(if_it_does_not_come_it_is_told_ever_more_seldom),
		TEST(another_process_is_answered_where_it_listens),
		ALONE(another_qp_is_met_on_its_own_port_only),
		TEST(a_life_that_met_nobody_changes_nothing),
		LATE(a_peer_that_is_in_its_next_life_is_the_last_one),
		LATE(a_peer_that_hello_refused_is_not_the_last_one),
		LATE(a_rail_that_nobody_is_on_is_not_used),
		LATE(the_newest_address_of_the_last_life_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
