/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* GIDs of twins that are replaced while the connection lives (lib/session/twin_address.c). */
#include "lib/session/nic_events.h"
#include "lib/session/rendezvous.h"
#include "tests/unit/meeting_world.h"

static void told_of(int nic, const char *events) /* NULL: of no link */
{
	trace_clear();
	nic_events_changed(world.nic + nic);
	assert_int_equal(!strstr(trace_text(), events ? events : "LINK"), !events);
}

/* HELLO has matched, and the NICs are ready. The GID of the twin on NIC 1 is one that it loses. */
static void become_active_and_lose(void)
{
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	for (int i = 0; i < RAILS; i++)
		nic_events_changed(world.nic + i);
	v->rails.twin[1].gid.value.raw[14] = 0x55;
	rendezvous_nic_changed(world.nic + 1);
	rooms_pass(0);
	they_tell();
	world.lost = 1 << 1;
}

/* 7.50: and the rail is down until the peer has heard of it. */
static void a_twin_whose_gid_is_lost_gets_another(void **state)
{
	uint32_t before;

	(void)state;
	become_active_and_lose();
	before = our_serial;
	told_of(1, "event LINK_DOWN rail 1\n");
	world.lost = 0; /* the new one is there */
	rooms_pass(0);
	assert_int_equal(v->rails.twin[1].gid.value.raw[14], 0);
	assert_int_equal(ours.rail[1].gid.raw[14], 0);
	assert_true(our_serial != before);
	told_of(1, NULL);
	trace_clear();
	they_tell();
	assert_non_null(strstr(trace_text(), "event LINK_UP rail 1\n"));
	trace_clear();
	they_tell();
	assert_null(strstr(trace_text(), "LINK"));
}

static void a_gid_of_another_kind_does_not_replace_it(void **state)
{
	(void)state;
	become_active_and_lose();
	memset(v->rails.twin[1].gid.value.raw + 10, 0xff, 2); /* IPv4 */
	told_of(1, "event LINK_DOWN rail 1\n");
	rooms_pass(0);
	assert_int_equal(v->rails.twin[1].gid.value.raw[14], 0x55);
	world.lost = 0;
	told_of(1, "event LINK_UP rail 1\n");
}

/* It may be back with the link. */
static void it_is_not_replaced_while_the_link_is_down(void **state)
{
	(void)state;
	become_active_and_lose();
	world.nic[1].link_up = false;
	told_of(1, "event LINK_DOWN rail 1\n");
	rooms_pass(0);
	assert_int_equal(v->rails.twin[1].gid.value.raw[14], 0x55);
}

/* The peer's twin is late. What happens to ours meanwhile is seen when the rail opens. */
static void meet_without_their_twin(void)
{
	theirs.rail[1].qpn = 0;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	for (int i = 0; i < RAILS; i++)
		nic_events_changed(world.nic + i);
	assert_false(v->rails.twin[1].clean);
}

static void their_twin_comes(void)
{
	theirs.rail[1].qpn = 0x401;
	trace_clear();
	they_tell();
	rooms_pass(0);
	assert_true(v->rails.twin[1].clean);
}

static void an_address_that_came_back_before_it_opens_is_up(void **state)
{
	(void)state;
	meet_without_their_twin();
	world.lost = 1 << 1;
	told_of(1, "event LINK_DOWN rail 1\n");
	world.lost = 0;
	their_twin_comes();
	assert_non_null(strstr(trace_text(), "event LINK_UP rail 1\n"));
}

static void an_address_that_is_lost_before_it_opens_is_replaced(void **state)
{
	(void)state;
	meet_without_their_twin();
	v->rails.twin[1].gid.value.raw[14] = 0x55;
	world.lost = 1 << 1;
	their_twin_comes();
	assert_non_null(strstr(trace_text(), "event LINK_DOWN rail 1\n"));
	world.lost = 0;
	rooms_pass(0);
	assert_int_equal(v->rails.twin[1].gid.value.raw[14], 0);
}

static void the_peers_twins_are_followed(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_true(v->rails.twin[1].clean);
	theirs.rail[1].gid.raw[14] = 0x66;
	theirs.rail[2].gid.raw[14] = 0x66;
	theirs.rail[2].qpn++; /* no twin that we have met */
	they_tell();
	assert_int_equal(v->rails.twin[1].peer.gid.raw[14], 0x66);
	assert_int_equal(v->rails.twin[2].peer.gid.raw[14], 0);
}

/* 7.49: rail 2 is a second QP on rail 0's NIC. Its link is one event, which names both. */
static void rails_on_one_nic_are_told_together(void **state)
{
	struct nic *other = v->dev->nic[2];

	(void)state;
	become_active_and_lose();
	world.lost = 0;
	v->dev->nic[2] = v->dev->nic[0];
	world.nic[0].link_up = false;
	told_of(0, "event LINK_DOWN rail 0 also 0x4\n");
	world.nic[0].link_up = true;
	told_of(0, "event LINK_UP rail 0 also 0x4\n");
	v->dev->nic[2] = other;
}

/* It is what gets through at both ends, and no more than the program asks for. */
static void a_twins_mtu_is_the_smallest(void **state)
{
	(void)state;
	theirs.rail[1].mtu_bytes = 1024;
	theirs.rail[2].mtu_bytes = 4096; /* as our NIC; the program asks for 2048 */
	peer_comes();
	become_active();
	peer_comes();
	assert_int_equal(v->rails.twin[1].mtu, 1024);
	assert_int_equal(v->rails.twin[2].mtu, 2048);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, meeting_begin_looking, meeting_end)
	const struct CMUnitTest tests[] = {
		TEST(a_twin_whose_gid_is_lost_gets_another),
		TEST(a_gid_of_another_kind_does_not_replace_it),
		TEST(it_is_not_replaced_while_the_link_is_down),
		TEST(an_address_that_came_back_before_it_opens_is_up),
		TEST(an_address_that_is_lost_before_it_opens_is_replaced),
		TEST(the_peers_twins_are_followed),
		TEST(rails_on_one_nic_are_told_together),
		TEST(a_twins_mtu_is_the_smallest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
