/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A process that ends with connections left: what it says, and what its peers do then
 * (lib/session/bye.c; doc/protocol.md, 7.47). */
#include "lib/conn/conn_lock.h"
#include "lib/session/bye.h"
#include "lib/session/dispatch.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "tests/unit/meeting_world.h"

#define LEFT  "event PEER_LEFT rail 0\n"
#define GRACE (50 * MS)

static unsigned int said[SHIFT_RAILS_MAX]; /* BYEs that are on the wire, over each NIC */
static unsigned int begun[SHIFT_RAILS_MAX];
static unsigned int flushed, rounds;
static uint64_t cost_ns; /* of a flush */

void __wrap_ctrl_link_flush(struct ctrl_link_peer *peer);
void __wrap_vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg);
void __real_vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg);

void __wrap_ctrl_link_flush(struct ctrl_link_peer *peer)
{
	unsigned int i = meeting_rail_of((const char *)peer);

	said[i] += begun[i];
	begun[i] = 0;
	flushed++;
	world.now += cost_ns;
}

void __wrap_vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg)
{
	rounds++;
	__real_vqp_each(fn, arg);
}

static void hear(const char *link, const struct shift_msg *m)
{
	static const uint8_t bye[8] = {SESSION_BYE};

	if (m->type == SHIFT_MSG_SESSION && m->blob_bytes == sizeof(bye) &&
	    !memcmp(m->blob, bye, sizeof(bye)))
		begun[meeting_rail_of(link)]++;
}

static void bye_from(uint64_t nonce, uint64_t to)
{
	static const struct session_bye bye = {.kind = SESSION_BYE};
	struct shift_msg m = session_msg(&bye, sizeof(bye));

	m.src_nonce = nonce;
	m.dst_nonce = to;
	dispatch_message(world.nic, &m);
}

static bool is_over(void)
{
	bool is = strstr(trace_text(), LEFT);

	trace_clear();
	return is;
}

static int begin_met(void **state)
{
	meeting_begin_looking(state);
	peer_comes();
	become_active();
	memset(said, 0, sizeof(said));
	memset(begun, 0, sizeof(begun));
	flushed = rounds = 0;
	cost_ns = 0;
	world.on_send = hear;
	trace_clear();
	return 0;
}

static int end(void **state)
{
	rooms_pass(1000 * MS); /* the look that was begun */
	world.on_send = NULL;
	return meeting_end(state);
}

/* Over every path, more than once, as nobody answers; and it is on the wire, not only begun. */
static void the_peer_is_told_over_every_path(void **state)
{
	uint64_t begin = world.now;

	(void)state;
	bye_say();
	for (int i = 0; i < RAILS; i++) {
		assert_int_equal(said[i], v->rails.twin[i].path ? 3 : 0);
		assert_int_equal(begun[i], 0);
	}
	assert_int_equal(said[0], 3);
	assert_true(world.now - begin <= 5 * MS);
}

/* A NIC that takes a millisecond for each datagram, as 5,000 peers would. */
static void it_takes_20_ms_at_most(void **state)
{
	uint64_t begin = world.now;

	(void)state;
	cost_ns = 9 * MS;
	bye_say();
	assert_true(flushed >= 2);
	assert_true(world.now - begin <= 30 * MS); /* what was begun is ended */
}

/* A path stays for some time after the connections on it. */
static void nobody_is_told_without_a_connection(void **state)
{
	struct peer_path *path = v->rails.twin[0].path;

	(void)state;
	peer_path_hold(path);
	rendezvous_end(v);
	bye_say();
	assert_int_equal(flushed, 0);
	peer_path_put(path);
}

static void nobody_is_told_before_a_peer_is_met(void **state)
{
	(void)state;
	bye_say();
	assert_int_equal(flushed, 0);
}

/* What the peer's NICs had sent before it ended may come after its BYE. */
static void a_bye_ends_the_connection_soon(void **state)
{
	(void)state;
	bye_from(PEER_NONCE, NONCE);
	rooms_pass(GRACE - 1);
	assert_false(is_over());
	rooms_pass(MS);
	assert_true(is_over());
	rooms_pass(1000 * MS);
	assert_false(is_over());
}

/* Each comes three times over each path, and a whole job may end at once. */
static void one_look_for_all_of_them(void **state)
{
	(void)state;
	rounds = 0;
	for (int i = 0; i < 9; i++) {
		bye_from(PEER_NONCE, NONCE);
		rooms_pass(MS);
	}
	rooms_pass(GRACE);
	assert_true(is_over());
	assert_int_equal(rounds, 1);
	bye_from(PEER_NONCE, NONCE);
	rooms_pass(2 * GRACE);
	assert_int_equal(rounds, 1);
	assert_false(is_over());
}

/* Each has its time, also if the look at another comes before. */
static void who_left_later_ends_later(void **state)
{
	struct peer_path *other = peer_path_get(v->dev->nic[0], OTHER_NONCE, &theirs.rail[0]);

	(void)state;
	bye_from(OTHER_NONCE, NONCE);
	rooms_pass(GRACE - 5 * MS);
	bye_from(PEER_NONCE, NONCE);
	rooms_pass(GRACE - 5 * MS);
	assert_false(is_over());
	rooms_pass(20 * MS);
	assert_true(is_over());
	peer_path_put(other);
}

static void others_may_end(void **state)
{
	(void)state;
	bye_from(OTHER_NONCE, NONCE);
	bye_from(PEER_NONCE + 256, NONCE); /* kept in the same list */
	rooms_pass(2 * GRACE);
	assert_false(is_over());
}

/* It was said to another life of our process, or to nobody by name. */
static void it_must_be_meant_for_us(void **state)
{
	(void)state;
	bye_from(PEER_NONCE, 0);
	bye_from(PEER_NONCE, NONCE + 1);
	rooms_pass(2 * GRACE);
	assert_false(is_over());
}

/* The QP is RESET before the look: what it meets next is no concern of that BYE. */
static void a_life_that_is_over_hears_nothing(void **state)
{
	(void)state;
	bye_from(PEER_NONCE, NONCE);
	rendezvous_end(v);
	trace_clear();
	rooms_pass(2 * GRACE);
	assert_false(is_over());
}

/* A path over which our connection speaks may be one that came after the BYE. */
static void any_path_of_the_process_will_do(void **state)
{
	(void)state;
	bye_from(PEER_NONCE, NONCE);
	tracked_path(v->rails.twin[0].path)->left_ns = 0;
	rooms_pass(2 * GRACE);
	assert_true(is_over());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_met, end)
		TEST(the_peer_is_told_over_every_path),
		TEST(it_takes_20_ms_at_most),
		TEST(nobody_is_told_without_a_connection),
		cmocka_unit_test_setup_teardown(nobody_is_told_before_a_peer_is_met,
						meeting_begin_looking, meeting_end),
		TEST(a_bye_ends_the_connection_soon),
		TEST(one_look_for_all_of_them),
		TEST(who_left_later_ends_later),
		TEST(others_may_end),
		TEST(it_must_be_meant_for_us),
		TEST(a_life_that_is_over_hears_nothing),
		TEST(any_path_of_the_process_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
