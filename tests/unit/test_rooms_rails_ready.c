/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How the rails of a connection that has met its peer come into use (lib/session/rendezvous.c). */
#include <stdio.h>

#include "lib/session/job.h"
#include "lib/session/nic_events.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "tests/unit/meeting_world.h"

/* Of what both ends have said of the twins, whatever was known when they met. */
static void the_smaller_mtu_counts(void **state)
{
	static const struct {
		uint32_t ours, theirs, mtu; /* 0: it does not open */
		bool late_ours, late_theirs;
	} cases[] = {
		{4096, 2048, 2048, false, false}, {2048, 4096, 2048, false, false},
		{1024, 1024, 1024, false, false}, {512, 4096, 512, false, false},
		{4096, 4096, 2048, true, false},  {512, 4096, 512, true, false},
		{4096, 512, 512, true, true},	  {4096, 2048, 2048, false, true},
		{256, 4096, 256, false, false},	  {4096, 256, 256, true, true},
		{4096, 255, 0, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct rail_addr their_rail = {.mtu_bytes = (uint16_t)cases[i].theirs,
						     .link = {.qpn = 0x301},
						     .qpn = 0x401};
		char opens[64];

		meeting_begin(state);
		world.nic[1].mtu_bytes = cases[i].ours;
		world.nic[1].ready = !cases[i].late_ours;
		start_and_look();
		rooms_pass(400 * MS);
		if (cases[i].late_theirs)
			memset(&theirs.rail[1], 0, sizeof(theirs.rail[1]));
		else
			theirs.rail[1] = their_rail;
		peer_comes();
		become_active();
		peer_comes();
		world.nic[1].ready = true;
		theirs.rail[1] = their_rail;
		peer_comes();
		rooms_pass(1000 * MS);
		peer_comes();
		sprintf(opens, "event RAIL_OPEN rail 1 mtu %u\n", cases[i].mtu);
		assert_int_equal(!!strstr(trace_text(), opens), !!cases[i].mtu);
		assert_int_equal(v->rails.twin[1].clean, !!cases[i].mtu);
		assert_int_equal(v->rails.twin[1].mtu, cases[i].mtu);
		meeting_end(state);
	}
}

static void a_rail_opens_when_both_twins_are_there(void **state)
{
	for (int what = 0; what < 12; what++) {
		struct ibv_qp *twin;
		bool opens = !what || what == 8 || what == 11;

		meeting_begin_looking(state);
		twin = v->rails.twin[1].qp;
		if (what == 7)
			world.nic[1].ready = false;
		if (what == 8 || what == 9) {
			theirs.rail[1].link.qpn = 0;
		}
		peer_comes();
		trace_clear();
		become_active();
		world.nic[1].ready = true;
		switch (what) {
		case 1: theirs.rail[1].qpn = 0; break;
		case 2: v->rails.twin[1].qp = NULL; break;
		case 3: v->rails.jobs[1].stale = true; break;
		case 4: theirs.rail[1].mtu_bytes = 255; break;
		case 5: theirs.rail[1].mtu_bytes = 0; break;
		case 6: v->rails.vetoed = 2; break;
		case 7: world.nic[1].ready = false; break;
		case 8: theirs.rail[1].link.qpn = 0x301; break; /* its NIC has come */
		case 10: v->rails.unclean = 2; break;
		case 11: v->rails.unclean = v->rails.vetoed = 5; break;
		}
		peer_comes();
		rooms_pass(1000 * MS);
		assert_int_equal(!!strstr(trace_text(), "event RAIL_OPEN rail 1 mtu 2048\n"),
				 opens);
		assert_int_equal(!!strstr(trace_text(), "event RAIL_OPEN rail 2 mtu 2048\n"),
				 what != 11);
		assert_int_equal(v->rails.twin[1].clean, opens || what == 6 || what == 10);
		if (opens)
			assert_memory_equal(&v->rails.twin[1].peer, &theirs.rail[1],
					    sizeof(theirs.rail[1]));
		assert_int_equal(!!strstr(trace_text(), "path over mlx5_1"), what == 8);
		trace_clear();
		v->rails.vetoed = v->rails.unclean = 0;
		rooms_pass(1000 * MS);
		assert_null(strstr(trace_text(), "RAIL_OPEN rail 2")); /* told once */
		v->rails.twin[1].qp = twin;
		v->rails.jobs[1].stale = false;
		meeting_end(state);
	}
}

/* Nor is all settled before: the peer is told of it when it has come. */
static void a_rail_without_an_address_of_ours_does_not_open(void **state)
{
	meeting_begin(state);
	gid_missing = 1;
	start_and_look();
	peer_comes();
	become_active();
	peer_comes();
	rooms_pass(1000 * MS);
	assert_null(strstr(trace_text(), "RAIL_OPEN rail 1"));
	gid_missing = -1;
	world.nic[1].looks++;
	rooms_pass(1000 * MS);
	assert_int_equal(ours.rail[1].qpn, TWIN_QPN + 1);
	assert_int_equal(ours.rail[1].gid.raw[15], 0x81);
	peer_comes();
	assert_non_null(strstr(trace_text(), "RAIL_OPEN rail 1"));
}

static void while_hello_is_under_way_no_rail_opens(void **state)
{
	(void)state;
	peer_comes();
	rooms_pass(1000 * MS);
	assert_null(strstr(trace_text(), "RAIL_OPEN"));
}

static void of_a_connection_that_is_settled_nothing_is_told(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	told_n = 0;
	rooms_pass(10000ull * MS);
	assert_int_equal(told_n, 0);
	theirs.rail[1].psn = STATS_PSN_STALE; /* but this is heard */
	they_tell();
	assert_int_equal(peer_psn[1], STATS_PSN_STALE);
	theirs.rail[1].psn = STATS_PSN_LIVE;
	theirs.nonce++;
	told_n = 0;
	they_tell(); /* another process is neither believed nor answered */
	assert_int_equal(peer_psn[1], STATS_PSN_STALE);
	assert_int_equal(told_n, 0);
	theirs.nonce--;
	theirs.id++;
	they_tell();
	assert_int_equal(peer_psn[1], STATS_PSN_STALE);
}

/* Attack: deletions, of whatever, make nobody speak. */
static void a_deletion_makes_nobody_speak(void **state)
{
	unsigned int n;

	(void)state;
	for (int i = 0; i < 2000; i++)
		rooms_pass(MS);
	n = told_n;
	for (int i = 0; i < 50; i++) {
		rendezvous_published("rail/aa0000000000000000000000000000bb/00000000000000cc", NULL,
				     0);
		rooms_pass(0);
	}
	rendezvous_published(PEER_KEY, NULL, 0);
	rooms_pass(0);
	assert_int_equal(told_n, n);
}

/* Its NIC has another GID, and so its control link another address. What is older, sent again or
 * said by another process, moves nothing. */
static void a_path_follows_the_peer(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	trace_clear();
	theirs.rail[1].link.qkey = 8;
	their_serial++;
	they_say(2, true);
	assert_non_null(strstr(trace_text(), "path over mlx5_1 is to 0x301/8\n"));
	trace_clear();
	theirs.rail[1].link.qkey = 9;
	they_say(0, true);
	their_serial--;
	they_say(0, true);
	their_serial += 2;
	theirs.nonce++;
	they_say(0, true);
	theirs.nonce--;
	theirs.id++;
	they_say(0, true);
	/* Nor does what another connection of theirs was told before. */
	peer_path_follow(v->rails.twin[1].path, &theirs.rail[1], 1);
	assert_null(strstr(trace_text(), "is to 0x301/9"));
	peer_path_follow(v->rails.twin[1].path, &theirs.rail[1], their_serial + 1);
	assert_non_null(strstr(trace_text(), "is to 0x301/9"));
}

static void a_connection_that_is_released_is_settled(void **state)
{
	(void)state;
	v->life.released = true;
	peer_comes();
	assert_false(v->setup.met);
}

/* A process that comes late is told at once; one that does not answer, ever more seldom. */
static void processes_are_told_at_growing_intervals(void **state)
{
	unsigned int n = told_n;

	(void)state;
	rooms_pass(10 * MS - 1);
	assert_int_equal(told_n, n);
	rooms_pass(1);
	assert_int_equal(told_n, n + 1);
	rooms_pass(12 * MS);
	assert_int_equal(told_n, n + 1);
	rooms_pass(MS);
	assert_int_equal(told_n, n + 2);
	for (int i = 0; i < 60000; i++)
		rooms_pass(MS);
	n = told_n;
	for (int i = 0; i < 20000; i++)
		rooms_pass(MS);
	assert_in_range(told_n, n + 1, n + 2);
	n = told_n;
	rendezvous_published(PEER_KEY, NULL, 0);
	they_publish();
	rooms_pass(0);
	assert_int_equal(told_n, n + 1);
	rooms_pass(10 * MS);
	assert_int_equal(told_n, n + 1);
}

/* What may have kept us from being heard is over: it begins anew. */
static void a_link_that_comes_up_is_used(void **state)
{
	unsigned int n;

	(void)state;
	for (int i = 0; i < 60000; i++)
		rooms_pass(MS);
	n = told_n;
	rendezvous_link_up(world.nic + 1);
	rooms_pass(0);
	assert_int_equal(told_n, n);
	rendezvous_link_up(world.nic);
	rooms_pass(0);
	assert_int_equal(told_n, n + 1);
	rooms_pass(10 * MS);
	assert_int_equal(told_n, n + 2);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define LATE(name)  cmocka_unit_test_setup_teardown(name, NULL, meeting_end)
#define TEST(name)  cmocka_unit_test_setup_teardown(name, meeting_begin_looking, meeting_end)
	const struct CMUnitTest tests[] = {
		ALONE(the_smaller_mtu_counts),
		ALONE(a_rail_opens_when_both_twins_are_there),
		LATE(a_rail_without_an_address_of_ours_does_not_open),
		TEST(while_hello_is_under_way_no_rail_opens),
		TEST(of_a_connection_that_is_settled_nothing_is_told),
		TEST(a_deletion_makes_nobody_speak),
		TEST(a_path_follows_the_peer),
		TEST(a_connection_that_is_released_is_settled),
		TEST(processes_are_told_at_growing_intervals),
		TEST(a_link_that_comes_up_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
