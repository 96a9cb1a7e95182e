/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The end of a connection of RDMA-CM: how the peer is told, and when our program is
 * (lib/session/disconnects.c; doc/protocol.md, 7.58). */
#include <errno.h>
#include <unistd.h>

#include "lib/session/deaths.h"
#include "lib/session/disconnects.h"
#include "lib/session/dispatch.h"
#include "lib/session/peer_paths.h"
#include "lib/session/rendezvous.h"
#include "lib/verbs/cm_ids.h"
#include "tests/unit/meeting_world.h"

enum { NUMBER = 17, HEARD_MAX = 512, HANGS_S = 30 };

#define SOON  (300ull * MS)  /* the kernel cannot say it */
#define LATER (3000ull * MS) /* it can */
#define LAST  (5000ull * MS) /* nobody answers */

/* What our session says of ends. */
static struct {
	struct session_end end;
	unsigned int rail;
	uint64_t at_ns;
} heard[HEARD_MAX];
static unsigned int heard_n;

/* What the room below is told: these ids are over. */
static struct {
	uint32_t number;
	uint64_t called_ns, at_ns;
} ended[HEARD_MAX];
static unsigned int ended_n;

void __wrap_cm_ended(uint32_t number, uint64_t at_ns);
uint8_t __wrap_vqp_rail(const struct vqp *of);
uint8_t __real_vqp_rail(const struct vqp *of);

void __wrap_cm_ended(uint32_t number, uint64_t at_ns)
{
	assert_true(ended_n < HEARD_MAX);
	ended[ended_n].number = number;
	ended[ended_n].called_ns = world.now;
	ended[ended_n++].at_ns = at_ns;
}

/* Another thread may be in lib/core. */
uint8_t __wrap_vqp_rail(const struct vqp *of)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&of->lock;
	int err = pthread_mutex_trylock(lock);

	if (!err)
		pthread_mutex_unlock(lock);
	assert_int_equal(err, EBUSY);
	return __real_vqp_rail(of);
}

static void hear(const char *link, const struct shift_msg *m)
{
	if (m->blob[0] != SESSION_END)
		return;
	assert_int_equal(m->type, SHIFT_MSG_SESSION);
	assert_int_equal(m->blob_bytes, 12);
	assert_true(heard_n < HEARD_MAX);
	memcpy(&heard[heard_n].end, m->blob, 12);
	heard[heard_n].rail = meeting_rail_of(link);
	heard[heard_n++].at_ns = world.now;
}

static void forget(void)
{
	heard_n = ended_n = 0;
}

static void hears(uint64_t nonce, uint64_t to, struct session_end end)
{
	struct shift_msg m = session_msg(&end, sizeof(end));

	m.src_nonce = nonce;
	m.dst_nonce = to;
	dispatch_message(world.nic, &m);
}

static struct session_end end_of(uint32_t mine, uint32_t yours)
{
	return (struct session_end){.kind = SESSION_END, .mine = mine, .yours = yours};
}

static struct session_end answer_of(uint32_t mine, uint32_t yours)
{
	return (struct session_end){.kind = SESSION_END, .answer = 1, .mine = mine, .yours = yours};
}

static void peer_ends(void)
{
	hears(PEER_NONCE, NONCE, end_of(PEER_ID, v->id));
}

static void peer_answers(void)
{
	hears(PEER_NONCE, NONCE, answer_of(PEER_ID, v->id));
}

static void pass(uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += MS)
		rooms_pass(MS);
}

static unsigned int paths(void)
{
	unsigned int n = 0;

	for (int i = 0; i < RAILS; i++)
		n += v->rails.twin[i].path != NULL;
	assert_true(n > 1);
	return n;
}

/* Once over each path, as `end` says, and nothing else; forgets it. */
static void expect_said(bool answer, uint32_t mine, uint32_t yours)
{
	const struct session_end end = answer ? answer_of(mine, yours) : end_of(mine, yours);
	unsigned int rails = 0;

	assert_int_equal(heard_n, paths());
	for (unsigned int i = 0; i < heard_n; i++) {
		assert_memory_equal(&heard[i].end, &end, sizeof(end));
		assert_false(rails >> heard[i].rail & 1);
		rails |= 1u << heard[i].rail;
	}
	heard_n = 0;
}

/* The program is told that soon, by one call; forgets it. */
static void expect_ended(uint32_t number, uint64_t ns)
{
	assert_int_equal(ended_n, 1);
	assert_int_equal(ended[0].number, number);
	assert_int_equal(ended[0].at_ns - world.now, ns);
	ended_n = 0;
}

static int begin_met(void **state)
{
	alarm(HANGS_S); /* what fails under a lock leaves it locked */
	meeting_begin_looking(state);
	peer_comes();
	become_active();
	atomic_store(&v->cm_number, NUMBER);
	forget();
	world.on_send = hear;
	trace_clear();
	return 0;
}

static int begin_looking(void **state)
{
	meeting_begin_looking(state);
	forget();
	world.on_send = hear;
	return 0;
}

static int end(void **state)
{
	pass(2 * LAST); /* what was begun */
	world.on_send = NULL;
	world.lost = 0;
	return meeting_end(state);
}

/* --- saying it ------------------------------------------------------------------------------- */

static void the_peer_is_told_at_once_over_every_path(void **state)
{
	(void)state;
	disconnect_say(v, NUMBER);
	expect_said(false, v->id, PEER_ID);
	assert_int_equal(ended_n, 0);
}

/* A path may be another process's. */
static void nobody_else_is_told(void **state)
{
	struct peer_path *other = peer_path_get(v->dev->nic[0], OTHER_NONCE, &theirs.rail[0]);

	(void)state;
	disconnect_say(v, NUMBER);
	expect_said(false, v->id, PEER_ID);
	peer_path_put(other);
}

/* After 10 ms, and then at intervals that grow: a peer that is not reached costs little. */
static void it_is_said_again_until_it_is_answered(void **state)
{
	uint64_t at = world.now, before = 0;
	unsigned int n = paths(), rounds;

	(void)state;
	disconnect_say(v, NUMBER);
	pass(4000ull * MS);
	rounds = heard_n / n;
	assert_int_equal(heard_n % n, 0);
	assert_in_range(rounds, 8, 40);
	for (unsigned int i = n; i < heard_n; i += n) {
		uint64_t interval = heard[i].at_ns - at;

		assert_memory_equal(&heard[i].end, &heard[0].end, sizeof(heard[0].end));
		assert_true(i > n ? interval >= before : interval == 10 * MS);
		assert_true(interval <= 1001ull * MS);
		before = interval;
		at = heard[i].at_ns;
	}
	assert_int_equal(ended_n, 0);
	peer_answers();
	heard_n = 0;
	pass(2 * LAST);
	assert_int_equal(heard_n, 0);
	assert_int_equal(ended_n, 1);
}

/* The kernel's own comes first, where it can. */
static void the_answer_ends_it(void **state)
{
	(void)state;
	disconnect_say(v, NUMBER);
	pass(5 * MS);
	peer_answers();
	expect_ended(NUMBER, LATER);
	peer_answers(); /* over another rail, */
	pass(100 * MS);
	peer_answers(); /* and late */
	heard_n = 0;
	pass(2 * LAST);
	assert_int_equal(heard_n, 0); /* an answer is not answered */
	assert_int_equal(ended_n, 0);
}

static void say_and_be_answered(void)
{
	disconnect_say(v, NUMBER);
	peer_answers();
}

static void be_told(void)
{
	peer_ends();
}

static void expect_soon_without_rail_0(void (*act)(void))
{
	world.nic[0].link_up = false;
	act();
	expect_ended(NUMBER, SOON);
	world.nic[0].link_up = true;
	world.lost = 1; /* its address */
	act();
	expect_ended(NUMBER, SOON);
	world.lost = 0;
	core.view.r = 1; /* it is up, and was found to be of no use */
	act();
	expect_ended(NUMBER, SOON);
	core.view.r = 0;
	world.nic[1].link_up = world.nic[2].link_up = false; /* the kernel does not need them */
	act();
	expect_ended(NUMBER, LATER);
}

static void the_kernel_has_less_time_without_rail_0(void **state)
{
	(void)state;
	expect_soon_without_rail_0(say_and_be_answered);
}

/* The peer is stopped, or cut off. */
static void it_ends_without_an_answer(void **state)
{
	uint64_t begin = world.now;

	(void)state;
	world.nic[0].link_up = false;
	disconnect_say(v, NUMBER);
	pass(2 * LAST);
	assert_true(heard[heard_n - 1].at_ns - begin <= LAST);
	assert_true(heard[heard_n - 1].at_ns - begin >= LAST - 1100ull * MS);
	assert_int_equal(ended_n, 1);
	assert_int_equal(ended[0].number, NUMBER);
	assert_true(ended[0].called_ns - begin >= LAST - MS);
	assert_true(ended[0].called_ns - begin <= LAST + 10ull * MS);
	assert_int_equal(ended[0].at_ns - ended[0].called_ns, SOON);
	peer_answers(); /* it goes on */
	assert_int_equal(ended_n, 1);
}

/* Another process, another connection of the peer's or of ours, another life of either QP, a
 * message for an earlier life of our process, or for nobody by name. */
static void no_other_answer_ends_it(void **state)
{
	const uint32_t ours_before = v->id - 1, theirs_before = PEER_ID - 1;

	(void)state;
	disconnect_say(v, NUMBER);
	hears(OTHER_NONCE, NONCE, answer_of(PEER_ID, v->id));
	hears(PEER_NONCE + 256, NONCE, answer_of(PEER_ID, v->id));
	hears(PEER_NONCE, NONCE, answer_of(theirs_before, v->id));
	hears(PEER_NONCE, NONCE, answer_of(PEER_ID, ours_before));
	hears(PEER_NONCE, NONCE, answer_of(v->id, PEER_ID)); /* our own comes back */
	hears(PEER_NONCE, NONCE + 1, answer_of(PEER_ID, v->id));
	hears(PEER_NONCE, 0, answer_of(PEER_ID, v->id));
	assert_int_equal(ended_n, 0);
	heard_n = 0;
	pass(10 * MS);
	expect_said(false, v->id, PEER_ID);
	peer_answers();
	expect_ended(NUMBER, LATER);
}

/* What is not as long as its kind. */
static void a_half_answer_does_not_end_it(void **state)
{
	struct session_end answer[2] = {answer_of(PEER_ID, v->id)};

	(void)state;
	disconnect_say(v, NUMBER);
	for (size_t bytes = 4; bytes <= sizeof(answer); bytes++) {
		struct shift_msg m = session_msg(answer, bytes);

		m.src_nonce = PEER_NONCE;
		m.dst_nonce = NONCE;
		if (bytes != sizeof(answer[0]))
			dispatch_message(world.nic, &m);
	}
	assert_int_equal(ended_n, 0);
}

/* It was on its way when a QP with our number had another life. */
static void an_answer_that_comes_first_does_nothing(void **state)
{
	(void)state;
	peer_answers();
	assert_int_equal(ended_n, 0);
	disconnect_say(v, NUMBER);
	expect_said(false, v->id, PEER_ID);
	assert_int_equal(ended_n, 0);
}

/* A second connection, which differs in the peer's id. */
static void each_connection_has_its_own_answer(void **state)
{
	(void)state;
	disconnect_say(v, NUMBER);
	v->setup.peer_id = PEER_ID + 1;
	disconnect_say(v, NUMBER + 1);
	v->setup.peer_id = PEER_ID + 2;
	disconnect_say(v, NUMBER + 2);
	heard_n = 0;
	hears(PEER_NONCE, NONCE, answer_of(PEER_ID + 1, v->id)); /* neither first nor last */
	expect_ended(NUMBER + 1, LATER);
	pass(10 * MS);
	assert_int_equal(heard_n, 2 * paths());
	for (unsigned int i = 0; i < heard_n; i++)
		assert_int_not_equal(heard[i].end.yours, PEER_ID + 1);
	hears(PEER_NONCE, NONCE, answer_of(PEER_ID, v->id));
	expect_ended(NUMBER, LATER);
	hears(PEER_NONCE, NONCE, answer_of(PEER_ID + 2, v->id));
	expect_ended(NUMBER + 2, LATER);
	v->setup.peer_id = PEER_ID;
}

/* Each has its own times. */
static void many_end_without_an_answer(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		disconnect_say(v, NUMBER + i);
		heard_n = 0;
		pass(10 * MS);
		assert_true(heard_n >= paths());
		pass(990ull * MS);
	}
	heard_n = 0;
	pass(LAST + 1000ull * MS);
	assert_int_equal(ended_n, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(ended[i].number, NUMBER + i);
	heard_n = 0;
	pass(LAST);
	assert_int_equal(heard_n, 0);
	assert_int_equal(ended_n, 3);
}

/* There is nobody to be told, and the kernel says all that there is to say. */
static void who_has_not_met_says_nothing(void **state)
{
	(void)state;
	disconnect_say(v, NUMBER);
	pass(2 * LAST);
	assert_int_equal(heard_n, 0);
	assert_int_equal(ended_n, 0);
}

static void the_life_ends(void)
{
	rendezvous_end(v);
	v->setup.met = false;
}

static void a_life_that_is_over_says_nothing(void **state)
{
	struct peer_path *path = v->rails.twin[0].path;

	(void)state;
	peer_path_hold(path);
	the_life_ends();
	disconnect_say(v, NUMBER);
	pass(2 * LAST);
	assert_int_equal(heard_n, 0);
	assert_int_equal(ended_n, 0);
	peer_path_put(path);
}

/* The program destroys its QP as soon as it has disconnected. */
static void it_is_said_on_when_the_qp_is_gone(void **state)
{
	uint32_t id = v->id;
	unsigned int n = paths();

	(void)state;
	core.tombstone = (struct shift_tombstone){.valid = true,
						  .expires_ns = world.now + 4 * LAST};
	disconnect_say(v, NUMBER);
	rendezvous_end(v);
	heard_n = 0;
	pass(10 * MS);
	assert_int_equal(heard_n, n);
	assert_int_equal(heard[0].end.mine, id);
	assert_int_equal(heard[0].end.yours, PEER_ID);
	hears(PEER_NONCE, NONCE, answer_of(PEER_ID, id));
	expect_ended(NUMBER, LATER);
}

/* --- hearing it ------------------------------------------------------------------------------ */

static void it_is_answered_and_the_program_told(void **state)
{
	(void)state;
	peer_ends();
	expect_said(true, v->id, PEER_ID);
	expect_ended(NUMBER, LATER);
	pass(2 * LAST);
	assert_int_equal(heard_n, 0); /* nor is anything said but the answer */
	assert_int_equal(ended_n, 0);
}

static void who_hears_has_less_time_without_rail_0(void **state)
{
	(void)state;
	expect_soon_without_rail_0(be_told);
}

/* Our answer was lost, or a datagram came twice. */
static void each_copy_is_answered(void **state)
{
	uint64_t first;

	(void)state;
	peer_ends();
	expect_said(true, v->id, PEER_ID);
	first = ended[0].at_ns;
	for (int i = 0; i < 5; i++) {
		pass(10 * MS);
		peer_ends();
		expect_said(true, v->id, PEER_ID);
	}
	for (unsigned int i = 0; i < ended_n; i++) {
		assert_int_equal(ended[i].number, NUMBER); /* that is told once */
		assert_true(ended[i].at_ns >= first);	   /* and no sooner */
	}
}

/* Else the peer would go on for five seconds, and its program wait. */
static void a_connection_that_is_gone_is_answered(void **state)
{
	const uint32_t gone = v->id + 1000;

	(void)state;
	hears(PEER_NONCE, NONCE, end_of(PEER_ID, gone));
	expect_said(true, gone, PEER_ID);
	hears(PEER_NONCE, NONCE, end_of(PEER_ID - 1, v->id)); /* of the peer's earlier life */
	expect_said(true, v->id, PEER_ID - 1);
	assert_int_equal(ended_n, 0);
}

/* Its QP has another life by then, or none. */
static void a_life_that_is_over_answers(void **state)
{
	struct peer_path *path = v->rails.twin[0].path;

	(void)state;
	peer_path_hold(path);
	the_life_ends();
	peer_ends();
	assert_int_equal(heard_n, 1);
	assert_int_equal(heard[0].end.answer, 1);
	assert_int_equal(heard[0].end.yours, PEER_ID);
	assert_int_equal(ended_n, 0);
	peer_path_put(path);
}

/* It knows the ids, and is of the job. It gets its answer, and ends nothing. */
static void another_process_ends_nothing(void **state)
{
	struct peer_path *other = peer_path_get(v->dev->nic[1], OTHER_NONCE, &theirs.rail[1]);

	(void)state;
	hears(OTHER_NONCE, NONCE, end_of(PEER_ID, v->id));
	assert_int_equal(heard_n, 1);
	assert_int_equal(heard[0].rail, 1);
	assert_int_equal(heard[0].end.answer, 1);
	hears(PEER_NONCE + 256, NONCE, end_of(PEER_ID, v->id)); /* no path leads there */
	assert_int_equal(heard_n, 1);
	assert_int_equal(ended_n, 0);
	peer_path_put(other);
}

/* Somebody without the job's key may send again what an earlier life of our process was told. */
static void it_must_be_meant_for_us(void **state)
{
	(void)state;
	hears(PEER_NONCE, NONCE + 1, end_of(PEER_ID, v->id));
	hears(PEER_NONCE, 0, end_of(PEER_ID, v->id));
	assert_int_equal(heard_n, 0);
	assert_int_equal(ended_n, 0);
}

/* The peer takes it for RDMA-CM's, and ours is not. */
static void a_qp_without_an_id_has_nobody_to_tell(void **state)
{
	(void)state;
	atomic_store(&v->cm_number, 0);
	peer_ends();
	expect_said(true, v->id, PEER_ID);
	assert_int_equal(ended_n, 0);
}

static void who_looks_for_its_peer_hears_nothing(void **state)
{
	(void)state;
	atomic_store(&v->cm_number, NUMBER);
	hears(PEER_NONCE, NONCE, end_of(0, v->id));
	hears(0, NONCE, end_of(0, v->id));
	assert_int_equal(ended_n, 0);
}

/* Both programs disconnect. What the peer says is no answer: it may not have heard us. */
static void both_may_end_at_once(void **state)
{
	(void)state;
	disconnect_say(v, NUMBER);
	heard_n = 0;
	peer_ends();
	expect_said(true, v->id, PEER_ID);
	expect_ended(NUMBER, LATER);
	pass(10 * MS);
	expect_said(false, v->id, PEER_ID);
	peer_answers();
	expect_ended(NUMBER, LATER);
	pass(2 * LAST);
	assert_int_equal(ended_n, 0);
	assert_int_equal(heard_n, 0);
}

/* --- a process that ends says the same -------------------------------------------------------- */

static void a_peer_that_leaves_ends_it(void **state)
{
	static const struct session_bye bye = {.kind = SESSION_BYE};
	struct shift_msg m = session_msg(&bye, sizeof(bye));

	(void)state;
	m.src_nonce = PEER_NONCE;
	m.dst_nonce = NONCE;
	dispatch_message(world.nic, &m);
	pass(60 * MS);
	assert_int_equal(ended_n, 1);
	assert_int_equal(ended[0].number, NUMBER);
	assert_int_equal(ended[0].at_ns - ended[0].called_ns, LATER);
	assert_int_equal(heard_n, 0);
}

static void a_peer_that_dies_ends_it(void **state)
{
	(void)state;
	core.view.r = 1;
	death_reported(PEER_NONCE);
	pass(2 * LAST);
	assert_int_equal(ended_n, 1);
	assert_int_equal(ended[0].number, NUMBER);
	assert_int_equal(ended[0].at_ns - ended[0].called_ns, SOON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name)    cmocka_unit_test_setup_teardown(name, begin_met, end)
#define LOOKING(name) cmocka_unit_test_setup_teardown(name, begin_looking, end)
		TEST(the_peer_is_told_at_once_over_every_path),
		TEST(nobody_else_is_told),
		TEST(it_is_said_again_until_it_is_answered),
		TEST(the_answer_ends_it),
		TEST(the_kernel_has_less_time_without_rail_0),
		TEST(it_ends_without_an_answer),
		TEST(no_other_answer_ends_it),
		TEST(a_half_answer_does_not_end_it),
		TEST(an_answer_that_comes_first_does_nothing),
		TEST(each_connection_has_its_own_answer),
		TEST(many_end_without_an_answer),
		LOOKING(who_has_not_met_says_nothing),
		TEST(a_life_that_is_over_says_nothing),
		TEST(it_is_said_on_when_the_qp_is_gone),
		TEST(it_is_answered_and_the_program_told),
		TEST(who_hears_has_less_time_without_rail_0),
		TEST(each_copy_is_answered),
		TEST(a_connection_that_is_gone_is_answered),
		TEST(a_life_that_is_over_answers),
		TEST(another_process_ends_nothing),
		TEST(it_must_be_meant_for_us),
		TEST(a_qp_without_an_id_has_nobody_to_tell),
		LOOKING(who_looks_for_its_peer_hears_nothing),
		TEST(both_may_end_at_once),
		TEST(a_peer_that_leaves_ends_it),
		TEST(a_peer_that_dies_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
