/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Atomics between NICs that are not atomic with each other: what the two ends tell each other, and
 * how a connection is released (doc/protocol.md, 7.54). */
#include <stdio.h>

#include "lib/base/env.h"
#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/session/rendezvous.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/qp.h"
#include "tests/unit/meeting_world.h"

static struct ibv_sge sge = {.addr = 0x100, .length = 8, .lkey = 0xa};

/* The peer's NICs say that; HELLO has matched, and the rails are ready. */
static void they_have(uint8_t of_rail0, uint8_t of_others)
{
	for (uint8_t i = 0; i < RAILS; i++)
		theirs.rail[i].atomic_cap = i ? of_others : of_rail0;
	peer_comes();
	trace_clear();
	become_active();
	rooms_pass(1000 * MS);
}

static unsigned int lines(const char *line)
{
	unsigned int n = 0;

	for (const char *at = trace_text(); (at = strstr(at, line)); at++)
		n++;
	return n;
}

static bool is_apart(unsigned int rail)
{
	char line[64];

	sprintf(line, "event ATOMICS_APART rail %u\n", rail);
	return strstr(trace_text(), line);
}

static void our_nics_are_told(void **state)
{
	meeting_begin(state);
	world.nic[0].atomic_cap = IBV_ATOMIC_GLOB;
	world.nic[1].atomic_cap = IBV_ATOMIC_HCA;
	start_and_look();
	assert_int_equal(ours.rail[0].atomic_cap, IBV_ATOMIC_GLOB);
	assert_int_equal(ours.rail[1].atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(ours.rail[2].atomic_cap, IBV_ATOMIC_NONE);
	assert_int_equal(ours.rail[0].flags, 0);
}

/* A NIC that is atomic with all is no help if that of rail 0 is not. An older shift says nothing.
 */
static void both_nics_of_the_peer_must_be_atomic_with_all(void **state)
{
	static const uint8_t none = IBV_ATOMIC_NONE, hca = IBV_ATOMIC_HCA, glob = IBV_ATOMIC_GLOB;
	const struct {
		uint8_t rail0, others;
		bool move, apart;
	} row[] = {{glob, glob, false, false}, {hca, hca, false, true},	  {glob, hca, false, true},
		   {hca, glob, false, true},   {none, none, false, true}, {hca, hca, true, false}};

	for (unsigned int i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		meeting_begin_looking(state);
		env.atomics_move = row[i].move;
		they_have(row[i].rail0, row[i].others);
		env.atomics_move = false;
		assert_int_equal(is_apart(1), row[i].apart);
		assert_int_equal(is_apart(2), row[i].apart);
		assert_false(is_apart(0));
		meeting_end(state);
	}
}

/* Before the rail opens, or lib/core might go there. */
static void it_is_said_before_the_rail_opens(void **state)
{
	const char *apart, *open;

	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	apart = strstr(trace_text(), "event ATOMICS_APART rail 1");
	open = strstr(trace_text(), "event RAIL_OPEN rail 1");
	assert_non_null(apart);
	assert_non_null(open);
	assert_true(apart < open);
}

static void two_rails_of_one_nic_are_not_apart(void **state)
{
	(void)state;
	theirs.rail[1].nic = theirs.rail[0].nic;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	assert_false(is_apart(1));
	assert_true(is_apart(2));
}

/* --- release -----------------------------------------------------------------------------------
 */

/* lib/core has been asked, and has let it go. */
static void it_lets_go(void)
{
	core.view.state = SHIFT_ST_SETUP;
	core.view.protected_ = false;
	core.release_due = false;
}

static void release(void)
{
	core.release_due = core.releases = true;
	vqp_enter(v);
	vqp_leave(v);
	it_lets_go();
}

static void when_it_is_due_it_is_released(void **state)
{
	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	trace_clear();
	release();
	assert_true(v->life.released);
	assert_non_null(strstr(trace_text(), "protected 0: atomics, and the peer's NICs are not "
					     "atomic with each other\n"));
}

/* Not before what waits in the log has been posted. */
static void what_waits_is_posted_first(void **state)
{
	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	core.release_due = core.releases = true;
	v->repost.tx_next = 3;
	v->repost.tx_end = 4;
	vqp_release_if_due(v);
	assert_false(v->life.released);
	v->repost.tx_next = 4;
	vqp_release_if_due(v);
	assert_true(v->life.released);
	it_lets_go();
}

static void the_peer_is_told_until_it_has_heard(void **state)
{
	unsigned int n;

	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	assert_int_equal(ours.rail[0].flags, 0);
	n = told_n;
	release();
	rooms_pass(0);
	assert_int_equal(ours.rail[0].flags, 1);
	assert_int_equal(ours.rail[1].flags, 0);
	assert_true(told_n > n);
	n = told_n;
	rooms_pass(1000 * MS);
	rooms_pass(1000 * MS);
	assert_true(told_n > n + 1);
	they_say(0, false); /* heard */
	rooms_pass(0);
	n = told_n;
	rooms_pass(2000ull * 5 * MS);
	assert_int_equal(told_n, n);
}

/* A stranger's word, and one of before the release, is no answer. */
static void a_stranger_has_not_heard_it(void **state)
{
	unsigned int n;

	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	release();
	rooms_pass(0);
	theirs.nonce = OTHER_NONCE;
	they_say(0, false);
	theirs.nonce = PEER_NONCE;
	n = told_n;
	rooms_pass(1000 * MS);
	rooms_pass(1000 * MS);
	assert_true(told_n > n);
}

static void a_released_end_answers(void **state)
{
	unsigned int n;

	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	release();
	rooms_pass(0);
	they_say(0, false);
	rooms_pass(0);
	n = told_n;
	their_serial++;
	they_say(1, true); /* over any of its rails */
	assert_int_equal(told_n, n + 1);
	assert_int_equal(our_heard, their_serial);
}

static void the_peers_release_is_told_to_lib_core(void **state)
{
	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	trace_clear();
	theirs.rail[0].flags = 1;
	core.release_due = core.releases = true;
	they_tell();
	it_lets_go();
	assert_non_null(strstr(trace_text(), "event PEER_RELEASED rail 0\n"));
	assert_true(v->life.released);
	assert_non_null(
		strstr(trace_text(), "protected 0: the peer's end is not protected any more\n"));
}

static void without_a_word_of_it_nothing_is_released(void **state)
{
	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	they_tell();
	assert_null(strstr(trace_text(), "PEER_RELEASED"));
	assert_false(v->setup.peer_released);
}

static void another_life_begins_anew(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	v->setup.peer_released = true;
	release();
	world.on_wait = NULL;
	v->life.started = false; /* nothing is to be fenced here */
	assert_int_equal(hook_modify_qp(v->qp, &reset, IBV_QP_STATE), 0);
	assert_false(v->life.released);
	assert_false(v->setup.peer_released);
}

/* --- what a real lib/core makes of it -------------------------------------------------------- */

struct shift_conn *__real_shift_conn_init(void *mem, size_t len, const struct shift_conn_cfg *cfg,
					  uint64_t now_ns);
int __real_shift_conn_post_send(struct shift_conn *c, const struct shift_wr *wr, int *rail);
void __real_shift_conn_event(struct shift_conn *c, const struct shift_event *ev, uint64_t now_ns);
bool __real_shift_conn_release_due(const struct shift_conn *c);

static struct shift_conn *judge;

static void judge_hears(const struct shift_event *ev)
{
	__real_shift_conn_event(judge, ev, world.now);
	core.release_due = __real_shift_conn_release_due(judge);
}

/* The program has posted an atomic as soon as it was protected. A real lib/core is told all that
 * ours is, and says when it is to be released. */
static void atomics_come_first(void)
{
	struct shift_conn_cfg cfg = {.nonce = NONCE,
				     .rails = RAILS,
				     .sq_cap = SENDS,
				     .sq_sge_max = 1,
				     .confirmed = true,
				     .mtu = {1024, 1024, 1024}};
	struct shift_wr wr = {.opcode = SHIFT_OP_FETCH_ADD};
	int rail;

	judge = __real_shift_conn_init(aligned_alloc(64, shift_conn_size(&cfg)),
				       shift_conn_size(&cfg), &cfg, world.now);
	assert_non_null(judge);
	assert_int_equal(__real_shift_conn_post_send(judge, &wr, &rail), 0);
	core.on_event = judge_hears;
	core.releases = true;
}

static int end_judged(void **state)
{
	core.on_event = NULL;
	core.release_due = false;
	free(judge);
	return meeting_end(state);
}

/* The NICs of the peer's rails 0 and 2 are atomic with all, that of rail 1 is not. */
static void they_have_one_apart(void)
{
	theirs.rail[0].atomic_cap = theirs.rail[2].atomic_cap = IBV_ATOMIC_GLOB;
	theirs.rail[1].atomic_cap = IBV_ATOMIC_HCA;
}

static void a_rail_that_opens_next_is_one_to_go_to(void **state)
{
	(void)state;
	they_have_one_apart();
	atomics_come_first();
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_true(is_apart(1));
	assert_true(v->rails.twin[2].clean);
	assert_false(v->life.released);
}

static void a_rail_whose_twin_comes_late_is_one_to_go_to(void **state)
{
	(void)state;
	they_have_one_apart();
	theirs.rail[2].qpn = 0;
	atomics_come_first();
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_true(v->rails.twin[1].clean);
	assert_false(v->life.released);
	theirs.rail[2].qpn = 0x402;
	peer_comes();
	assert_true(v->rails.twin[2].clean);
	assert_false(v->life.released);
	assert_int_equal(lines("event ATOMICS_APART"), 1); /* for its gates are shut then */
}

static void a_nic_that_is_not_ready_is_waited_for(void **state)
{
	struct rail_addr late = theirs.rail[2];

	(void)state;
	they_have_one_apart();
	late.atomic_cap = IBV_ATOMIC_GLOB;
	theirs.rail[2] = (struct rail_addr){.nic = late.nic};
	atomics_come_first();
	peer_comes();
	become_active();
	rooms_pass(1000 * MS);
	assert_true(v->rails.twin[1].clean);
	theirs.rail[2] = late;
	peer_comes();
	assert_true(v->rails.twin[2].clean);
	assert_false(is_apart(2));
	assert_false(v->life.released);
}

/* What the peer's NIC is, is known before its twin is there. */
static void a_late_twin_that_is_apart_is_not_waited_for(void **state)
{
	(void)state;
	they_have_one_apart();
	theirs.rail[2].atomic_cap = IBV_ATOMIC_HCA;
	theirs.rail[2].qpn = 0;
	atomics_come_first();
	peer_comes();
	become_active();
	peer_comes();
	assert_true(v->life.released);
}

/* A reason that does not go by itself: it is told when the other rails are. */
static void a_rail_that_the_operator_keeps_shut_is_not_waited_for(void **state)
{
	(void)state;
	they_have_one_apart();
	v->rails.vetoed = 1u << 2; /* in a life before */
	atomics_come_first();
	peer_comes();
	become_active();
	peer_comes();
	assert_true(v->life.released);
	v->rails.vetoed = 0;
}

/* --- posts -------------------------------------------------------------------------------------
 */

static int post(enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *bad, wr = {.wr_id = 0x10, .sg_list = &sge, .num_sge = 1};

	wr.opcode = opcode;
	return hot_post_send(v->qp, &wr, &bad);
}

/* The first one takes the slow way, where the connection can be released. */
static void an_atomic_that_releases_goes_the_slow_way(void **state)
{
	(void)state;
	they_have(IBV_ATOMIC_HCA, IBV_ATOMIC_HCA);
	core.fast = true;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(v->hot.slow, 0);
	core.atomic_releases = core.release_due = core.releases = true;
	assert_int_equal(post(IBV_WR_RDMA_WRITE), 0);
	assert_false(v->life.released);
	assert_int_equal(post(IBV_WR_ATOMIC_FETCH_AND_ADD), 0);
	assert_true(v->life.released);
	core.atomic_releases = false;
	it_lets_go();
}

int main(void)
{
#define ALONE(name)  cmocka_unit_test(name)
#define LATE(name)   cmocka_unit_test_setup_teardown(name, NULL, meeting_end)
#define TEST(name)   cmocka_unit_test_setup_teardown(name, meeting_begin_looking, meeting_end)
#define JUDGED(name) cmocka_unit_test_setup_teardown(name, meeting_begin_looking, end_judged)
	const struct CMUnitTest tests[] = {
		LATE(our_nics_are_told),
		ALONE(both_nics_of_the_peer_must_be_atomic_with_all),
		TEST(it_is_said_before_the_rail_opens),
		TEST(two_rails_of_one_nic_are_not_apart),
		TEST(when_it_is_due_it_is_released),
		TEST(what_waits_is_posted_first),
		TEST(the_peer_is_told_until_it_has_heard),
		TEST(a_stranger_has_not_heard_it),
		TEST(a_released_end_answers),
		TEST(the_peers_release_is_told_to_lib_core),
		TEST(without_a_word_of_it_nothing_is_released),
		TEST(another_life_begins_anew),
		JUDGED(a_rail_that_opens_next_is_one_to_go_to),
		JUDGED(a_rail_whose_twin_comes_late_is_one_to_go_to),
		JUDGED(a_nic_that_is_not_ready_is_waited_for),
		JUDGED(a_late_twin_that_is_apart_is_not_waited_for),
		JUDGED(a_rail_that_the_operator_keeps_shut_is_not_waited_for),
		TEST(an_atomic_that_releases_goes_the_slow_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
