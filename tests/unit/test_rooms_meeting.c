/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a connection finds its peer (lib/session/rendezvous.c). */
#include <stdio.h>

#include "lib/session/job.h"
#include "lib/session/nic_events.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "tests/unit/meeting_world.h"

/* --- what is told -------------------------------------------------------------------------- */

static void the_record_says_all_of_each_rail(void **state)
{
	(void)state;
	assert_int_equal(told_n, 1);
	assert_int_equal(asked_n, 1);
	assert_string_equal(told_over, "mlx5_0");
	assert_int_equal(ours.rails, RAILS);
	assert_int_equal(ours.id, v->id);
	assert_int_equal(ours.nonce, NONCE);
	for (uint8_t i = 0; i < RAILS; i++) {
		const struct rail_addr *r = &ours.rail[i];

		assert_int_equal(r->link.qpn, 0x500 + i);
		assert_int_equal(r->gid.raw[15], i ? 0x80 + i : 1);
		assert_int_equal(r->qpn, i ? TWIN_QPN + i : QPN);
		assert_int_equal(r->lid, 0x40 + i);
		assert_int_equal(r->mtu_bytes, i ? 2048 : 4096); /* not more than the program's */
		assert_int_equal(r->nic, i);
		assert_int_equal(r->psn, STATS_PSN_LIVE);
		assert_int_equal(v->rails.twin[i].gid_index, i ? 5 + i : 2);
		assert_memory_equal(&v->rails.twin[i].gid.value, &r->gid, sizeof(r->gid));
	}
}

/* By its value, which the NIC of rail 2 lacks. */
static void a_nic_without_the_pkey_has_no_twin(void **state)
{
	meeting_begin(state);
	world.nic[2].port_attr.pkey_tbl_len = 7;
	start_and_look();
	assert_int_equal(v->rails.pkey, 0x109);
	rooms_pass(400 * MS);
	assert_int_equal(ours.rail[1].qpn, TWIN_QPN + 1);
	assert_int_equal(ours.rail[2].qpn, 0);
	world.nic[2].port_attr.pkey_tbl_len = 8;
	world.nic[2].looks++; /* as at the event of that change */
	rooms_pass(1000 * MS);
	assert_int_equal(ours.rail[2].qpn, TWIN_QPN + 2);
}

/* As long as its NIC has it, whatever else that may have got. */
static void the_gid_of_a_twin_that_the_peer_has_stays(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_true(v->rails.twin[1].clean);
	v->rails.twin[1].gid.value.raw[14] = 0x55;
	rendezvous_nic_changed(world.nic + 1);
	rooms_pass(0);
	assert_int_equal(v->rails.twin[1].gid.value.raw[14], 0x55);
	assert_int_equal(ours.rail[1].gid.raw[14], 0x55);
}

static void hear_lids(const char *link, const struct shift_msg *m)
{
	struct session_conn c;

	(void)link;
	memcpy(&c, m->blob, sizeof(c));
	if (c.kind == SESSION_CONN)
		ours.rail[0].gid = c.mine.gid, ours.rail[1].gid = c.yours.gid;
}

/* InfiniBand without a GRH: the subnet's prefix, and the LIDs that the two QPs use. */
static void without_a_grh_ends_are_named_by_their_lids(void **state)
{
	static const union ibv_gid mine = {.raw = {[0] = 0xfe, [15] = 0x43}},
				   yours = {.raw = {[0] = 0xfe, [14] = 1, [15] = 0x42}};
	struct rail_record r = {.version = SHIFT_MSG_VERSION, .nonce = PEER_NONCE};
	static const char key[] = "rail/fe000000000000000000000000000142/000000000000000b";

	meeting_begin(state);
	world.on_send = hear_lids;
	world.gid_at = 0;
	rooms_start_qp(v);
	v->program.attr.ah_attr.is_global = 0;
	v->program.attr.ah_attr.dlid = 0x142;
	rendezvous_begin(v);
	rooms_pass(0);
	assert_string_equal(put_key, "rail/fe000000000000000000000000000043/000000000000000a");
	r.link = theirs.rail[0].link;
	r.tag = record_tag(key, &r);
	rendezvous_published(key, &r, sizeof(r));
	rooms_pass(0);
	assert_memory_equal(&ours.rail[0].gid, &mine, sizeof(mine));
	assert_memory_equal(&ours.rail[1].gid, &yours, sizeof(yours));
	rendezvous_published(key, NULL, 0);
}

static void a_nic_that_is_not_ready_is_named_only(void **state)
{
	static const struct rail_addr none = {.nic = 2};

	meeting_begin(state);
	world.nic[2].ready = false;
	start_and_look();
	assert_memory_equal(&ours.rail[2], &none, sizeof(none));
	assert_int_equal(ours.rail[1].qpn, TWIN_QPN + 1);
}

/* The kernel is asked once, and again after an event of that NIC. */
static void a_gid_that_is_missing_is_not_looked_for_again_and_again(void **state)
{
	unsigned int n;

	meeting_begin(state);
	gid_missing = 2;
	start_and_look();
	assert_int_equal(ours.rail[2].qpn, 0);
	n = gid_looks;
	for (int i = 0; i < 100; i++)
		rooms_pass(50 * MS);
	assert_int_equal(gid_looks, n);
	gid_missing = -1;
	world.nic[2].looks++;
	rooms_pass(1000 * MS);
	assert_int_equal(ours.rail[2].qpn, TWIN_QPN + 2);
}

/* Twins that are not made yet, and NICs that are not measured yet, are waited for: 300 ms. */
static void what_is_missing_is_waited_for(void **state)
{
	for (int what = 0; what < 4; what++) {
		struct ibv_qp *twin;

		meeting_begin(state);
		twin = v->rails.twin[2].qp;
		if (what < 2)
			v->rails.twin[2].qp = NULL;
		else
			world.nic[2].psn = STATS_PSN_UNMEASURED;
		v->rails.twin[2].failed = what == 1;
		world.nic[2].psn_tried = what != 2;
		start_and_look();
		assert_int_equal(told_n, what == 1 || what == 3); /* these will not come */
		for (int ms = 0; ms < 299 && what != 1 && what != 3; ms++)
			rooms_pass(MS);
		assert_int_equal(told_n, what == 1 || what == 3);
		rooms_pass(MS * 100);
		assert_in_range(told_n, 1, 2);
		v->rails.twin[2].qp = twin;
		meeting_end(state);
	}
}

static void an_end_is_told_again_when_it_changes(void **state)
{
	uint32_t serial;

	(void)state;
	peer_comes();
	rooms_pass(1000 * MS);
	told_n = 0;
	serial = our_serial;
	rooms_pass(1000 * MS);
	rooms_pass(1000 * MS);
	assert_int_equal(told_n, 0); /* the peer has said that it knows it */
	world.nic[1].psn = STATS_PSN_STALE;
	rooms_pass(1000 * MS);
	assert_int_equal(told_n, 1);
	assert_int_equal(ours.rail[1].psn, STATS_PSN_STALE);
	assert_true((int32_t)(our_serial - serial) > 0);
	they_say(0, false);
	world.nic[2].mtu_bytes = 1024;
	rendezvous_nic_changed(world.nic + 2);
	rooms_pass(0);
	assert_int_equal(told_n, 2);
	assert_int_equal(ours.rail[2].mtu_bytes, 1024);
	they_say(0, false);
	rendezvous_nic_changed(world.nic + 2);
	rooms_pass(1000 * MS);
	assert_int_equal(told_n, 2);
}

/* Also when all is settled: then over each path, as rail 0 may be down. */
static void a_late_change_is_told_over_all_paths(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	told_n = 0;
	world.nic[1].psn = STATS_PSN_STALE;
	rendezvous_nic_changed(world.nic + 1);
	rooms_pass(0);
	assert_int_equal(told_n, RAILS);
	they_say(1, false); /* and may be acknowledged over any */
	rooms_pass(1000 * MS);
	rooms_pass(1000 * MS);
	assert_int_equal(told_n, RAILS);
}

static void a_twin_that_comes_late_is_told(void **state)
{
	struct ibv_qp *twin;

	meeting_begin(state);
	twin = v->rails.twin[2].qp;
	v->rails.twin[2].qp = NULL;
	start_and_look();
	rooms_pass(400 * MS);
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_int_equal(ours.rail[2].qpn, 0);
	v->rails.twin[2].qp = twin;
	rooms_pass(1000 * MS);
	assert_int_equal(ours.rail[2].qpn, TWIN_QPN + 2);
}

/* --- messages get lost, come twice, late, and in any order ---------------------------------- */

static void what_is_not_acknowledged_is_told_again(void **state)
{
	(void)state;
	assert_int_equal(told_n, 1);
	for (int i = 0; i < 10; i++)
		rooms_pass(100 * MS);
	assert_in_range(told_n, 5, 12);
	our_serial--; /* they have heard an older one */
	peer_comes();
	told_n = 0;
	rooms_pass(1000 * MS);
	assert_int_equal(told_n, 1);
	rooms_pass(0);
	they_say(0, false);
	told_n = 0;
	for (int i = 0; i < 10; i++)
		rooms_pass(1000 * MS);
	assert_int_equal(told_n, 0);
}

static unsigned int told_to_peer, told_to_other;

static void hear_what_is_heard(const char *link, const struct shift_msg *m)
{
	struct session_conn c;

	(void)link;
	if (m->blob[0] != SESSION_CONN)
		return;
	memcpy(&c, m->blob, sizeof(c));
	our_serial = c.serial;
	if (contact_nonce == OTHER_NONCE) {
		assert_int_equal(c.heard, 0);
		told_to_other++;
	} else {
		assert_int_equal(c.heard, their_serial);
		told_to_peer++;
	}
}

/* A serial is of its process. Another that is at the same number would take it for its own, and
 * tell its end no more. */
static void what_was_heard_is_said_to_whom_it_is_about(void **state)
{
	(void)state;
	other_publishes();
	our_serial--; /* they have heard an older one, so they are told again */
	they_tell();
	world.on_send = hear_what_is_heard;
	told_to_peer = told_to_other = 0;
	rooms_pass(1000 * MS);
	assert_int_equal(told_to_other, RAILS);
	assert_int_equal(told_to_peer, RAILS);
	become_active();
	they_tell();
	told_to_peer = told_to_other = 0;
	world.nic[1].psn = STATS_PSN_STALE;
	rendezvous_nic_changed(world.nic + 1);
	rooms_pass(0);
	assert_int_equal(told_to_other, 0);
	assert_int_equal(told_to_peer, RAILS * RAILS); /* each rail over each path */
}

/* One rail of it got lost: the end is not known until it is told again. */
static void an_end_counts_when_all_its_rails_have_come(void **state)
{
	(void)state;
	their_serial++;
	they_lose = 1;
	they_say(0, true);
	assert_false(v->setup.met);
	their_serial++; /* the lost rail of another state does not complete it */
	they_lose = 0;
	they_say(0, true);
	assert_false(v->setup.met);
	they_lose = -1;
	they_say(0, true);
	assert_true(v->setup.met);
}

static void an_older_state_never_replaces_a_newer_one(void **state)
{
	(void)state;
	peer_comes();
	assert_int_equal(v->setup.peer_id, PEER_ID);
	theirs.id--;
	their_serial--; /* sent before, or again by somebody who listens */
	they_say(0, true);
	rooms_pass(1000 * MS);
	assert_int_equal(v->setup.peer_id, PEER_ID);
	theirs.id += 5; /* the same serial says nothing new */
	their_serial++;
	they_say(0, true);
	rooms_pass(1000 * MS);
	assert_int_equal(v->setup.peer_id, PEER_ID);
	their_serial = 5 - 0x80000000u + 100; /* serials wrap */
	their_serial = 99 + 0x7fffffffu;
	they_say(0, true);
	rooms_pass(1000 * MS);
	assert_int_equal(v->setup.peer_id, PEER_ID + 4);
}

static void only_a_question_is_answered(void **state)
{
	(void)state;
	peer_comes();
	told_n = asked_n = 0;
	they_say(0, false);
	they_say(0, false);
	assert_int_equal(told_n, 0);
	for (unsigned int i = 1; i <= 3; i++) {
		they_say(0, true);
		assert_int_equal(told_n, i); /* once, not for each rail */
	}
	assert_int_equal(asked_n, 0); /* an answer is no question */
	assert_int_equal(our_heard, their_serial);
}

/* Before it is met, a peer must come to the QP's own port; and both ends must be meant. */
static void a_stranger_is_not_the_peer(void **state)
{
	(void)state;
	their_serial++;
	they_say(1, true);
	assert_false(v->setup.met);
	for (they_twist = 1; they_twist <= 4; they_twist++) {
		they_say(0, true);
		assert_false(v->setup.met);
	}
	they_twist = 0;
	they_say(0, true);
	assert_true(v->setup.met);
}

/* A process that learns of us by our question need not be in the rendezvous. */
static void who_speaks_first_does_not_matter(void **state)
{
	meeting_begin(state);
	rooms_start_qp(v);
	rendezvous_begin(v);
	rooms_pass(0);
	assert_int_equal(told_n, 0); /* to whom? */
	peer_comes();
	assert_true(v->setup.met);
	assert_int_equal(told_n, 1);
	assert_int_equal(our_heard, their_serial);
	they_publish_as(PEER_NONCE + 1); /* nor who is found while we wait for the answer */
	rooms_pass(0);
	assert_int_equal(told_n, 1);
}

/* --- who is not protected ------------------------------------------------------------------ */

static void another_port(void)
{
	v->program.attr.port_num = 2;
	world.nic[0].port = 1;
}

static void both_ends_are_one(void)
{
	memset(&v->program.attr.ah_attr.grh.dgid, 0, 16);
	v->program.attr.ah_attr.grh.dgid.raw[0] = 0xfe;
	v->program.attr.ah_attr.grh.dgid.raw[15] = 1;
	v->program.attr.dest_qp_num = QPN;
}

/* Any port has a GID. */
static int query_any_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	(void)port;
	(void)index;
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfe, gid->raw[15] = 1;
	return 0;
}

static void of_some_connections_none_is_looked_for(void **state)
{
	static const struct {
		void (*as)(void);
		const char *says;
	} cases[] = {
		{another_port, "attributes"},
		{both_ends_are_one, "itself"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		meeting_begin(state);
		real.query_gid = query_any_gid;
		rooms_start_qp(v);
		cases[i].as();
		rendezvous_begin(v);
		trace_clear();
		rooms_pass(0);
		assert_true(!strncmp(trace_text(), "protected 0: ", 13));
		rooms_pass(1000 * MS);
		rooms_pass(1000 * MS);
		assert_true(!strchr(trace_text(), '\n')[1]); /* said once */
		assert_int_equal(told_n, 0);
		meeting_end(state);
	}
}

static void a_peer_in_our_process_on_another_nic_is_a_peer(void **state)
{
	(void)state;
	theirs.nonce = NONCE;
	peer_comes();
	assert_true(v->setup.met);
}

/* Who runs without us is looked for by this. */
static void the_peer_is_shown_before_it_has_come(void **state)
{
	(void)state;
	assert_int_equal(shown_peer.qpn, PEER_QPN);
	assert_int_equal(shown_peer.gid.raw[15], 0xbb);
	assert_int_equal(shown_peer.nonce, 0);
	peer_comes();
	assert_int_equal(shown_peer.qpn, PEER_QPN);
	assert_int_equal(shown_peer.gid.raw[15], 0xbb);
	assert_true(shown_peer.nonce == PEER_NONCE);
}

static void they_have_another_version(void)
{
	struct rail_record r = {.version = SHIFT_MSG_VERSION + 1};

	rendezvous_published(PEER_KEY, NULL, 0);
	rendezvous_published(PEER_KEY, &r, sizeof(r));
}

/* Ten seconds without the peer are said once, with the reason. */
static void a_peer_that_does_not_come_is_reported(void **state)
{
	static const enum stats_unprotected why[] = {STATS_UNPROTECTED_NO_RENDEZVOUS,
						     STATS_UNPROTECTED_NO_PEER_LIBRARY,
						     STATS_UNPROTECTED_RENDEZVOUS_FULL,
						     STATS_UNPROTECTED_MISMATCH,
						     STATS_UNPROTECTED_NONE,
						     STATS_UNPROTECTED_OTHER_VERSION};
	char line[256];

	for (int i = 0; i < 6; i++) {
		meeting_begin(state);
		key_known = i > 0;
		job_full = i == 2;
		core.stats.hello_mismatch = i == 3;
		start_and_look();
		if (i == 3 || i == 4)
			peer_comes();
		if (i == 5)
			they_have_another_version();
		trace_clear();
		rooms_pass(START_NS + 9999ull * MS - world.now);
		assert_null(strstr(trace_text(), "protected"));
		snprintf(line, sizeof(line), "protected 0: %s\n", stats_unprotected_text(why[i]));
		trace_clear();
		for (int n = 0; n < 4; n++)
			rooms_pass(1000 * MS);
		if (why[i] == STATS_UNPROTECTED_NONE) {
			assert_null(strstr(trace_text(), "protected"));
		} else {
			const char *said = strstr(trace_text(), line);

			assert_non_null(said);
			assert_null(strstr(said, "\nprotected"));
		}
		meeting_end(state);
	}
}

/* --- the peer's record --------------------------------------------------------------------- */

static void an_end_that_cannot_be_right_is_not_taken(void **state)
{
	for (int what = 0; what < 6; what++) {
		bool right = what == 0 || what == 2 || what == 3;

		meeting_begin(state);
		start_and_look();
		reset_theirs();
		their_serial++;
		switch (what) {
		case 1: theirs.rail[0].link.qpn = 0; break;
		case 2: theirs.rails = 1; break;
		case 3: theirs.rails = SHIFT_RAILS_MAX; break;
		case 4: theirs.rails = SHIFT_RAILS_MAX + 1; break;
		case 5: their_serial = 0; break;
		}
		they_say(0, true);
		rooms_pass(1000 * MS);
		assert_int_equal(v->setup.met, right);
		if (right)
			assert_int_equal(v->setup.peer_rails, what == 2 ? 1 : RAILS);
		meeting_end(state);
	}
}

static void the_peer_is_told_to_lib_core(void **state)
{
	uint8_t side;
	struct shift_end mine = {.gid = {[0] = 0xfe, [15] = 1},
				 .qpn = QPN,
				 .id = v->id,
				 .nonce = NONCE},
			 other = {.gid = {[0] = 0xaa, [15] = 0xbb},
				  .qpn = PEER_QPN,
				  .id = PEER_ID,
				  .nonce = PEER_NONCE};

	(void)state;
	peer_comes();
	assert_int_equal(core.peer.key[0], 11);
	assert_int_equal(core.peer.key[1], 12);
	assert_int_equal(core.peer.nonce, PEER_NONCE);
	assert_int_equal(core.peer.id, PEER_ID);
	assert_int_equal(core.peer.rails, RAILS);
	assert_int_equal(core.peer.conn,
			 shift_conn_number((const uint64_t[2]){11, 12}, &mine, &other, &side));
	assert_int_equal(core.peer.side, side);
	assert_true(v->setup.met);
	assert_int_equal(v->setup.peer_nonce, PEER_NONCE);
	assert_int_equal(v->setup.peer_id, PEER_ID);
	assert_int_equal(v->setup.peer_rails, RAILS);
	assert_traced(
		"meet 0xb 70\npath over mlx5_0 to 0x300 of 0xb\npath over mlx5_1 to 0x301 of 0xb\n"
		"path over mlx5_2 to 0x302 of 0xb\nevent RAIL_VETO rail 1 awaited\n"
		"event RAIL_VETO rail 2 awaited\nevent RTS rail 0\n");
	for (int i = 0; i < RAILS; i++)
		assert_int_equal(peer_psn[i], STATS_PSN_LIVE);
}

static void what_is_known_of_the_rails_is_told_at_once(void **state)
{
	(void)state;
	world.nic[0].link_up = world.nic[1].link_up = world.nic[2].link_up = false;
	world.nic[2].ready = false; /* then nothing is known of its link */
	theirs.rail[0].psn = 99;
	answers = true;
	peer_comes();
	assert_non_null(strstr(trace_text(),
			       "event LINK_DOWN rail 0\nevent PROBE_OK rail 0\n"
			       "event RAIL_VETO rail 1 awaited\nevent LINK_DOWN rail 1\n"
			       "event PROBE_OK rail 1\nevent RAIL_VETO rail 2 awaited\n"
			       "event RTS rail 0\n"));
	assert_int_equal(peer_psn[0], STATS_PSN_UNMEASURED);
}

/* T3: an address that is gone is as a link that is down. */
static void a_rail_without_its_address_is_told_at_once(void **state)
{
	(void)state;
	world.lost = 1 << 0 | 1 << 2;
	peer_comes();
	assert_non_null(strstr(trace_text(),
			       "event LINK_DOWN rail 0\nevent RAIL_VETO rail 1 awaited\n"
			       "event RAIL_VETO rail 2 awaited\nevent LINK_DOWN rail 2\n"));
}

static void told_of(int nic, const char *events) /* NULL: of no link */
{
	trace_clear();
	nic_events_changed(world.nic + nic);
	assert_int_equal(!strstr(trace_text(), events ? events : "LINK"), !events);
}

/* T3: the GID by its value, and only where it is used. */
static void the_loss_of_an_address_is_an_event_of_its_rail(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	for (int i = 0; i < RAILS; i++)
		nic_events_changed(world.nic + i); /* these are ready */
	for (int i = 0; i < 2; i++) {
		char down[64], up[64];

		snprintf(down, sizeof(down), "event LINK_DOWN rail %d\n", i);
		snprintf(up, sizeof(up), "event LINK_UP rail %d\n", i);
		told_of(i, NULL);
		world.lost = 1 << i;
		told_of(i, down);
		told_of(i, NULL);
		told_of(1 - i, NULL);
		world.lost = 0;
		told_of(i, up);
		world.nic[i].link_up = false;
		told_of(i, down);
		world.nic[i].link_up = true;
		told_of(i, up);
	}
	world.lost = 1;
	env.link_events = false;
	told_of(0, NULL);
	env.link_events = true;
	v->program.attr.ah_attr.is_global = 0; /* it has no GID in its packets */
	told_of(0, NULL);
}

static void link_events_can_be_off(void **state)
{
	(void)state;
	env.link_events = false;
	world.nic[1].link_up = false;
	peer_comes();
	assert_null(strstr(trace_text(), "LINK_DOWN"));
}

static void a_peer_that_is_impossible_is_not_met(void **state)
{
	(void)state;
	core.impossible = true;
	peer_comes();
	assert_false(v->setup.met);
	assert_int_equal(peer_psn[0], -1); /* nor reported */
	assert_traced("meet 0xb 70\n");
}

/* The QP may have come to RTS since. */
static void hello_is_said_again_until_it_is_answered(void **state)
{
	(void)state;
	peer_comes();
	trace_clear();
	rooms_pass(1000 * MS);
	assert_traced("event RTS rail 0\n");
	become_active();
	rooms_pass(1000 * MS);
	assert_null(strstr(trace_text(), "RTS"));
}

static void another_life_of_the_peer_is_met_in_its_place(void **state)
{
	(void)state;
	peer_comes();
	trace_clear();
	theirs.id++;
	peer_comes();
	assert_int_equal(v->setup.peer_id, PEER_ID + 1);
	assert_non_null(strstr(trace_text(), "meet 0xb 71\n"));
	trace_clear();
	theirs.nonce++;
	peer_comes();
	assert_int_equal(v->setup.peer_nonce, PEER_NONCE + 1);
	assert_non_null(strstr(trace_text(), "meet 0xc 71\n"));
	assert_non_null(strstr(trace_text(), "no path over mlx5_1\n"));
}

/* Once it is protected, what others publish in the peer's place says nothing of it. */
static void after_hello_only_the_peers_own_record_counts(void **state)
{
	for (int what = 0; what < 2; what++) {
		meeting_begin_looking(state);
		peer_comes();
		become_active();
		rooms_pass(1000 * MS);
		trace_clear();
		if (what)
			theirs.nonce++;
		else
			theirs.id++;
		peer_comes();
		rooms_pass(1000 * MS);
		assert_traced("");
		assert_int_equal(v->setup.peer_id, PEER_ID);
		meeting_end(state);
	}
}

/* --- the end ------------------------------------------------------------------------------- */

static void an_end_leaves_nothing(void **state)
{
	(void)state;
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_true(v->rails.twin[1].clean);
	trace_clear();
	rendezvous_end(v);
	assert_traced("no path over mlx5_0\nno path over mlx5_1\nno path over mlx5_2\n");
	for (int i = 0; i < RAILS; i++) {
		assert_false(v->rails.twin[i].clean);
		assert_null(v->rails.twin[i].path);
	}
	assert_null(v->setup.meeting);
	rendezvous_end(v); /* there is nothing left */
	assert_traced("");
	told_n = 0;
	they_tell(); /* nobody is here */
	assert_int_equal(told_n, 0);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define LATE(name)  cmocka_unit_test_setup_teardown(name, NULL, meeting_end)
#define TEST(name)  cmocka_unit_test_setup_teardown(name, meeting_begin_looking, meeting_end)
	const struct CMUnitTest tests[] = {
		TEST(the_record_says_all_of_each_rail),
		LATE(a_nic_that_is_not_ready_is_named_only),
		LATE(a_nic_without_the_pkey_has_no_twin),
		TEST(the_gid_of_a_twin_that_the_peer_has_stays),
		LATE(without_a_grh_ends_are_named_by_their_lids),
		TEST(a_rail_without_its_address_is_told_at_once),
		TEST(the_loss_of_an_address_is_an_event_of_its_rail),
		LATE(a_gid_that_is_missing_is_not_looked_for_again_and_again),
		ALONE(what_is_missing_is_waited_for),
		TEST(an_end_is_told_again_when_it_changes),
		TEST(a_late_change_is_told_over_all_paths),
		LATE(a_twin_that_comes_late_is_told),
		TEST(what_is_not_acknowledged_is_told_again),
		TEST(what_was_heard_is_said_to_whom_it_is_about),
		TEST(an_end_counts_when_all_its_rails_have_come),
		TEST(an_older_state_never_replaces_a_newer_one),
		TEST(only_a_question_is_answered),
		TEST(a_stranger_is_not_the_peer),
		LATE(who_speaks_first_does_not_matter),
		ALONE(of_some_connections_none_is_looked_for),
		TEST(a_peer_in_our_process_on_another_nic_is_a_peer),
		TEST(the_peer_is_shown_before_it_has_come),
		ALONE(a_peer_that_does_not_come_is_reported),
		ALONE(an_end_that_cannot_be_right_is_not_taken),
		TEST(the_peer_is_told_to_lib_core),
		TEST(what_is_known_of_the_rails_is_told_at_once),
		TEST(link_events_can_be_off),
		TEST(a_peer_that_is_impossible_is_not_met),
		TEST(hello_is_said_again_until_it_is_answered),
		TEST(another_life_of_the_peer_is_met_in_its_place),
		ALONE(after_hello_only_the_peers_own_record_counts),
		TEST(an_end_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
