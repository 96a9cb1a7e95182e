/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A peer that is said to be dead: who believes it, when, and what refutes it
 * (lib/session/deaths.c). */
#include "lib/conn/conn_lock.h"
#include "lib/session/deaths.h"
#include "lib/session/dispatch.h"
#include "lib/session/peer_paths.h"
#include "tests/unit/meeting_world.h"

#define DIED "event PEER_DIED rail 0\n"

static unsigned int asked, refuted;
static unsigned int looks, rounds; /* at a trial's paths; over all connections */
static struct session_alive said;  /* the last one sent, over the last link */
static uint64_t reported;	   /* and not refuted yet */

void __wrap_job_refute_death(uint64_t nonce);
enum peer_silence __wrap_peer_paths_silence(uint64_t nonce, unsigned int *missed);
enum peer_silence __real_peer_paths_silence(uint64_t nonce, unsigned int *missed);
void __wrap_vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg);
void __real_vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg);
bool __wrap_shift_conn_waits(const struct shift_conn *c);

void __wrap_job_refute_death(uint64_t nonce)
{
	assert_true(nonce);
	if (nonce == reported)
		reported = 0;
	refuted++;
}

/* As shift-kvd's client does: once for each, until it is refuted. */
static void report(uint64_t nonce)
{
	if (nonce == reported)
		return;
	reported = nonce;
	death_reported(nonce);
}

enum peer_silence __wrap_peer_paths_silence(uint64_t nonce, unsigned int *missed)
{
	looks++;
	return __real_peer_paths_silence(nonce, missed);
}

void __wrap_vqp_each(void (*fn)(struct vqp *v, void *arg), void *arg)
{
	rounds++;
	__real_vqp_each(fn, arg);
}

/* Nothing is waited for: misses are excused for a while. */
bool __wrap_shift_conn_waits(const struct shift_conn *c)
{
	(void)c;
	return core.waits;
}

static void hear(const char *link, const struct shift_msg *m)
{
	(void)link;
	if (m->blob_bytes != sizeof(said) || m->blob[0] != SESSION_ALIVE)
		return;
	memcpy(&said, m->blob, sizeof(said));
	asked++;
}

static void say_to_us(uint64_t nonce, const void *blob, size_t bytes)
{
	struct shift_msg m = session_msg(blob, bytes);

	m.src_nonce = nonce;
	m.dst_nonce = NONCE;
	dispatch_message(world.nic, &m);
}

static void probed(uint8_t rail, bool is_answered)
{
	path_health_probed(v->rails.twin[rail].path, is_answered);
}

static bool is_believed(void)
{
	bool is = strstr(trace_text(), DIED);

	trace_clear();
	return is;
}

/* Two rails' probes have been answered, the third's never. */
static int begin_met(void **state)
{
	meeting_begin_looking(state);
	peer_comes();
	become_active();
	probed(0, true);
	probed(1, true);
	world.on_send = hear;
	asked = refuted = 0;
	reported = 0;
	trace_clear();
	return 0;
}

static void fall_silent(void)
{
	for (int i = 0; i < 3; i++) {
		probed(0, false);
		probed(1, false);
	}
}

static int end(void **state)
{
	for (int ms = 0; ms < 200; ms += 10)
		rooms_pass(10 * MS); /* what was begun is decided without probes */
	for (int i = 0; i < 3; i++)
		for (uint8_t rail = 0; rail < RAILS; rail++)
			if (v->rails.twin[rail].path)
				probed(rail, false);
	rooms_pass(1000 * MS);
	world.on_send = NULL;
	return meeting_end(state);
}

/* Three probes in a row on every rail, and not sooner. What is missed before the report says
 * nothing of it. */
static void silence_is_believed(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		probed(0, false);
		probed(1, false);
	}
	trace_clear();
	death_reported(PEER_NONCE);
	rooms_pass(10 * MS);
	assert_false(is_believed());
	for (int i = 0; i < 3; i++) {
		probed(0, false);
		rooms_pass(25 * MS);
		assert_false(is_believed());
	}
	probed(1, false);
	probed(1, false);
	rooms_pass(25 * MS);
	assert_false(is_believed());
	probed(1, false);
	rooms_pass(10 * MS); /* no longer */
	assert_true(is_believed());
	rooms_pass(1000 * MS);
	assert_false(is_believed()); /* once */
}

/* A process that has died may leave QPs behind which answer for a while. */
static void a_nic_that_answers_puts_it_off(void **state)
{
	(void)state;
	death_reported(PEER_NONCE);
	for (int i = 0; i < 400; i++) {
		probed(0, false);
		probed(1, i % 3 == 1);
		rooms_pass(25 * MS);
		assert_false(is_believed());
	}
	for (int i = 0; i < 3; i++) {
		probed(0, false);
		probed(1, false);
	}
	rooms_pass(100 * MS);
	assert_true(is_believed());
}

static void a_process_that_answers_refutes_it(void **state)
{
	(void)state;
	death_reported(PEER_NONCE);
	assert_int_equal(asked, RAILS); /* at once, over every path */
	assert_int_equal(said.answer, 0);
	said.answer = 1;
	say_to_us(PEER_NONCE, &said, sizeof(said));
	assert_int_equal(refuted, 1);
	for (int i = 0; i < 10; i++) {
		probed(0, false);
		probed(1, false);
		rooms_pass(25 * MS);
	}
	assert_false(is_believed());
	death_reported(PEER_NONCE); /* that it dies later is believed */
	for (int i = 0; i < 3; i++) {
		probed(0, false);
		probed(1, false);
	}
	rooms_pass(10 * MS);
	assert_true(is_believed());
}

/* The question again, the answer to an older one, another process, half of an answer. */
static void nothing_else_refutes_it(void **state)
{
	struct session_alive answer;

	(void)state;
	death_reported(PEER_NONCE);
	said.answer = 1;
	for (int what = 0; what < 4; what++) {
		answer = said;
		answer.challenge += what == 0;
		answer.kind += what == 2;
		say_to_us(what == 1 ? PEER_NONCE + 1 : PEER_NONCE, &answer,
			  sizeof(answer) - (what == 3));
		assert_int_equal(refuted, 0);
	}
	for (int i = 0; i < 3; i++) {
		probed(0, false);
		probed(1, false);
	}
	rooms_pass(10 * MS);
	assert_true(is_believed());
}

static void the_question_is_repeated(void **state)
{
	struct session_alive first;

	(void)state;
	death_reported(PEER_NONCE);
	first = said;
	for (int i = 0; i < 20; i++) {
		probed(0, true);
		rooms_pass(25 * MS);
	}
	assert_in_range(asked, 10 * RAILS, 21 * RAILS);
	assert_memory_equal(&said, &first, sizeof(said));
	death_reported(PEER_NONCE); /* the same again begins nothing anew */
	for (int i = 0; i < 3; i++) {
		probed(0, false);
		probed(1, false);
	}
	death_reported(PEER_NONCE);
	rooms_pass(25 * MS);
	assert_true(is_believed());
}

/* Without probes the process itself must answer. */
static void without_probes_the_answer_decides(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < 2; i++)
		tracked_path(v->rails.twin[i].path)->health.answered = false;
	death_reported(PEER_NONCE);
	for (int i = 0; i < 14; i++) {
		rooms_pass(10 * MS);
		assert_false(is_believed());
	}
	rooms_pass(10 * MS);
	assert_true(is_believed());
}

/* Nobody can be asked: at the first look, which is one for all reports. */
static void without_a_path_it_is_believed_at_once(void **state)
{
	(void)state;
	death_reported(PEER_NONCE + 1);
	rooms_pass(10 * MS);
	assert_false(is_believed());
	v->setup.peer_nonce++;
	death_reported(PEER_NONCE + 1);
	rooms_pass(10 * MS);
	assert_true(is_believed());
	v->setup.peer_nonce--;
}

/* --- reports that come again --------------------------------------------------------------- */

/* It was believed by mistake: the process lives, and dies later. */
static void what_was_believed_is_believed_again(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		report(PEER_NONCE);
		fall_silent();
		rooms_pass(10 * MS);
		assert_true(is_believed());
		probed(0, true);
		probed(1, true);
		trace_clear();
	}
}

/* The report came before any connection: those that come then end with the next one. */
static void what_was_told_too_early_is_believed_later(void **state)
{
	(void)state;
	v->setup.met = false;
	report(PEER_NONCE);
	fall_silent();
	rooms_pass(10 * MS);
	v->setup.met = true;
	assert_false(is_believed());
	report(PEER_NONCE);
	fall_silent();
	rooms_pass(10 * MS);
	assert_true(is_believed());
}

/* --- a process that says nothing, while its NIC answers ------------------------------------- */

static void its_nic_answers_for(unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i += 25) {
		probed(1, true);
		rooms_pass(25 * MS);
		assert_false(is_believed());
	}
}

/* An exit that hangs in the kernel with the QPs still there. */
static void a_nic_does_not_put_it_off_for_ever(void **state)
{
	bool believed = false;

	(void)state;
	report(PEER_NONCE);
	its_nic_answers_for(60000);
	for (unsigned int ms = 0; ms < 3000 && !believed; ms += 25) {
		probed(1, true);
		rooms_pass(25 * MS);
		believed = is_believed();
	}
	assert_true(believed);
}

static void it_answers(void)
{
	said.answer = 1;
	say_to_us(PEER_NONCE, &said, sizeof(said));
}

/* Attack: a process that lives is said to be dead as often as the rendezvous can say it. It is
 * stopped for most of the time, or its answers get lost. */
static void a_forged_death_of_a_living_process_is_never_believed(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		report(PEER_NONCE);
		its_nic_answers_for(55000);
		it_answers();
		assert_int_equal(refuted, i + 1);
		assert_false(is_believed());
	}
}

/* The time in which we do not run is not the process's: its answer waits for us. */
static void our_own_sleep_kills_nobody(void **state)
{
	for (int probes = 0; probes < 2; probes++) {
		begin_met(state);
		for (uint8_t i = 0; i < 2; i++)
			tracked_path(v->rails.twin[i].path)->health.answered = probes;
		report(PEER_NONCE);
		for (int i = 0; i < 3; i++) {
			rooms_pass(3600ull * 1000 * MS);
			assert_false(is_believed());
		}
		it_answers();
		assert_int_equal(refuted, 1);
		rooms_pass(1000 * MS);
		assert_false(is_believed());
		end(state);
	}
}

/* --- what it costs ------------------------------------------------------------------------- */

enum { MANY = 300, FIRST_NONCE = 0x1000 };

/* A host goes down: all its processes are reported, to a process that has a path to each. */
static void many_deaths_cost_each_its_own(void **state)
{
	struct peer_path *path[MANY];

	(void)state;
	world.untraced = true;
	for (unsigned int i = 0; i < MANY; i++)
		path[i] = peer_path_get(world.nic, FIRST_NONCE + i, &theirs.rail[0]);
	looks = rounds = 0;
	for (unsigned int i = 0; i < MANY; i++) {
		death_reported(FIRST_NONCE + i);
		rooms_pass(0);
	}
	rooms_pass(10 * MS);
	assert_in_range(looks, MANY, 2 * MANY);
	assert_int_equal(refuted, 0);
	assert_int_equal(asked, MANY);
	for (int ms = 0; ms < 200; ms += 10)
		rooms_pass(10 * MS);
	assert_int_equal(refuted, MANY); /* the trials have ended */
	assert_in_range(looks, MANY, 20 * MANY);
	assert_in_range(rounds, 1, 2); /* and the connections were told of all at once */
	for (unsigned int i = 0; i < MANY; i++)
		peer_path_put(path[i]);
	world.untraced = false;
}

/* Nor are the connections asked for each of those that we do not know. */
static void many_deaths_of_strangers_cost_one_round(void **state)
{
	(void)state;
	looks = rounds = 0;
	for (unsigned int i = 0; i < MANY; i++) {
		death_reported(FIRST_NONCE + i);
		rooms_pass(0);
	}
	rooms_pass(10 * MS);
	assert_in_range(looks, MANY, 2 * MANY);
	assert_in_range(rounds, 1, 2);
	assert_int_equal(refuted, MANY);
}

static void we_answer(void **state)
{
	struct session_alive question = {.kind = SESSION_ALIVE, .challenge = 0x1234};

	(void)state;
	say_to_us(PEER_NONCE + 1, &question, sizeof(question));
	assert_int_equal(asked, 0); /* we have no path to it */
	say_to_us(PEER_NONCE, &question, sizeof(question));
	assert_int_equal(asked, RAILS);
	assert_int_equal(said.answer, 1);
	assert_int_equal(said.challenge, 0x1234);
}

static void is_in(enum shift_state state)
{
	core.view.state = state;
	vqp_enter(v);
	vqp_leave(v);
}

static unsigned int rounds_of_an_answer(enum shift_state state)
{
	is_in(state);
	rounds = 0;
	probed(0, true);
	return rounds;
}

/* Each path to each peer has 40 answers a second, and there may be thousands of connections. Those
 * on a twin need no more than others. */
static void an_answer_costs_nothing_while_all_is_well(void **state)
{
	(void)state;
	core.fast = true;
	assert_int_equal(rounds_of_an_answer(SHIFT_ST_ACTIVE), 0);
	core.fast = false;
	assert_int_equal(rounds_of_an_answer(SHIFT_ST_ACTIVE), 0);
	assert_int_equal(rounds_of_an_answer(SHIFT_ST_SWITCHING), 1); /* it may wait for that */
	assert_int_equal(rounds_of_an_answer(SHIFT_ST_ACTIVE), 1);    /* T9 waits for one more */
	assert_int_equal(rounds_of_an_answer(SHIFT_ST_ACTIVE), 0);
}

/* Rail 1 stays silent, rail 0 is answered. */
static void silent_for(unsigned int probes)
{
	while (probes--) {
		world.now += 10 * MS;
		probed(1, false);
		world.now += 10 * MS;
		probed(0, true);
	}
}

static unsigned int times_told(const char *event)
{
	unsigned int n = 0;

	for (const char *at = trace_text(); (at = strstr(at, event)); at++)
		n++;
	trace_clear();
	return n;
}

/* Of a path that stays silent (a cable that is out for a day) its connections are told as much as
 * makes three misses count, whichever rails they have. Then that costs nothing any more. */
static void a_silence_is_told_once(void **state)
{
	(void)state;
	core.view.state = SHIFT_ST_ACTIVE;
	core.waits = true; /* so that none is excused */
	silent_for(3);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 3);
	silent_for(1);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 1);
	rounds = 0;
	silent_for(39);
	assert_int_equal(rounds, 0);
	silent_for(2); /* once a second it is looked at whether data flows there */
	assert_int_equal(rounds, 1);
	assert_string_equal(trace_text(), "");
	probed(1, true);
	assert_int_equal(times_told("event PROBE_OK rail 1"), 1);
	silent_for(3);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 3);
}

/* Misses without an answer of the other rail between them prove nothing, and do not count. */
static void misses_without_a_witness_are_told_again(void **state)
{
	(void)state;
	core.view.state = SHIFT_ST_ACTIVE;
	core.waits = true;
	world.now += 10 * MS;
	for (int i = 0; i < 10; i++)
		probed(1, false);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 10);
	world.now += 10 * MS;
	probed(0, true);
	assert_int_equal(times_told("event PROBE_OK rail 0"), 1); /* it is a witness */
	silent_for(10);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 3);
}

/* Whoever comes later must hear of it, and so must all if another path changes. */
static void a_silence_is_told_again_when_something_changes(void **state)
{
	struct rail_addr addr = {.nic = tracked_path(v->rails.twin[1].path)->peer_nic};
	struct peer_path *path;

	(void)state;
	core.view.state = SHIFT_ST_ACTIVE;
	core.waits = true;
	silent_for(10);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 4);
	path = peer_path_get(world.nic + 1, PEER_NONCE, &addr);
	assert_ptr_equal(path, v->rails.twin[1].path);
	silent_for(10);
	assert_int_equal(times_told("event PROBE_MISSED rail 1"), 4);
	probed(0, false);
	trace_clear();
	silent_for(10);
	assert_in_range(times_told("event PROBE_MISSED rail 1"), 4, 6);
	peer_path_put(path);
}

static unsigned int enters;

static void count_enter(void)
{
	enters++;
}

/* While nothing is outstanding there, the gates of a connection stay open. */
static void an_idle_connection_is_not_entered_for_a_miss(void **state)
{
	(void)state;
	core.view.state = SHIFT_ST_ACTIVE;
	v->timers.idle = true;
	v->timers.rail = 0;
	enters = 0;
	on_enter = count_enter;
	for (int i = 0; i < 20; i++)
		probed(0, false); /* excused */
	assert_int_equal(enters, 0);
	core.activity++; /* it has posted something */
	probed(0, false);
	on_enter = NULL;
	assert_int_equal(enters, 1);
	assert_null(strstr(trace_text(), "PROBE_MISSED"));
}

/* The look of each second enters only connections on which something was posted or received. */
static void an_idle_connection_is_left_alone(void **state)
{
	(void)state;
	core.view.state = SHIFT_ST_ACTIVE;
	core.deadline = UINT64_MAX;
	core.idle = true;
	rooms_pass(1000 * MS);
	trace_clear();
	enters = 0;
	on_enter = count_enter;
	for (int i = 0; i < 1000; i++)
		rooms_pass(1000 * MS);
	assert_int_equal(enters, 0);
	core.activity++;
	rooms_pass(1000 * MS);
	assert_int_equal(enters, 1);
	assert_int_equal(times_told("event TICK"), 1);
	rooms_pass(1000 * MS);
	assert_int_equal(enters, 1);
	core.idle = false; /* it waits, and its state has changed */
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_REPORT,
					    .from = SHIFT_ST_SWITCHING,
					    .to = SHIFT_ST_ACTIVE,
					    .reason = SHIFT_R_COMMIT});
	enters = 0;
	rooms_pass(1000 * MS);
	rooms_pass(1000 * MS);
	assert_int_equal(enters, 2);
	on_enter = NULL;
}

int main(void)
{
#define MET(name) cmocka_unit_test_setup_teardown(name, begin_met, end)
	const struct CMUnitTest tests[] = {
		MET(silence_is_believed),
		MET(a_nic_that_answers_puts_it_off),
		MET(a_process_that_answers_refutes_it),
		MET(nothing_else_refutes_it),
		MET(the_question_is_repeated),
		MET(without_probes_the_answer_decides),
		MET(without_a_path_it_is_believed_at_once),
		MET(what_was_believed_is_believed_again),
		MET(what_was_told_too_early_is_believed_later),
		MET(a_nic_does_not_put_it_off_for_ever),
		MET(a_forged_death_of_a_living_process_is_never_believed),
		cmocka_unit_test(our_own_sleep_kills_nobody),
		MET(many_deaths_cost_each_its_own),
		MET(many_deaths_of_strangers_cost_one_round),
		MET(we_answer),
		MET(an_answer_costs_nothing_while_all_is_well),
		MET(a_silence_is_told_once),
		MET(misses_without_a_witness_are_told_again),
		MET(a_silence_is_told_again_when_something_changes),
		MET(an_idle_connection_is_not_entered_for_a_miss),
		MET(an_idle_connection_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
