/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A NIC hangs in a verb that the program has called for its QP (lib/verbs/qp.c). That call waits,
 * and nobody else: neither the background thread, nor the switches of other connections. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "lib/conn/conn_lock.h"
#include "lib/verbs/qp.h"
#include "tests/unit/rooms.h"

enum { OTHER_MORE = 0x100, TOO_LONG_S = 60 };

static struct vqp *v, *other;
static struct real_verbs nics; /* that do not hang */

/* --- the program's thread, and the verb in which it stays ------------------------------------ */

static _Thread_local bool is_program;
static pthread_t program;
static bool is_parked;
static sem_t in_verb, let_go;
static int verb_answers, call_returned;
static struct ibv_qp_attr queried;
static int (*call)(void);

static int park(void)
{
	if (!is_program)
		return 0;
	sem_post(&in_verb);
	sem_wait(&let_go);
	return verb_answers;
}

static int modify_hangs(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = park();

	return err ? err : nics.modify_qp(qp, attr, mask);
}

/* What it says was so when it was asked. */
static int query_hangs(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init)
{
	int err = park();

	return err ? err : nics.query_qp(qp, attr, mask, init);
}

static int rate_limit_hangs(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	(void)qp;
	(void)attr;
	return park();
}

static void *program_main(void *arg)
{
	(void)arg;
	is_program = true;
	call_returned = call();
	return NULL;
}

/* The program calls it, and its NIC hangs. */
static void hang_in(int (*fn)(void))
{
	call = fn;
	verb_answers = 0;
	assert_int_equal(pthread_create(&program, NULL, program_main, NULL), 0);
	sem_wait(&in_verb);
	is_parked = true;
}

/* The NIC answers after all. What the program's call returns. */
static int answer(int err)
{
	verb_answers = err;
	sem_post(&let_go);
	pthread_join(program, NULL);
	is_parked = false;
	return call_returned;
}

/* --- what the program calls ------------------------------------------------------------------ */

static int query(void)
{
	struct ibv_qp_init_attr init;

	return hook_query_qp(v->qp, &queried, IBV_QP_STATE, &init);
}

static int to_err(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return hook_modify_qp(v->qp, &attr, IBV_QP_STATE);
}

static int to_rts(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	return hook_modify_qp(v->qp, &attr, IBV_QP_STATE);
}

static int set_timer(void)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 7};

	return hook_modify_qp(v->qp, &attr, IBV_QP_MIN_RNR_TIMER);
}

static int limit_rate(void)
{
	struct ibv_qp_rate_limit_attr attr = {.rate_limit = 5};

	return hook_modify_qp_rate_limit(v->qp, &attr);
}

/* --- begin and end --------------------------------------------------------------------------- */

static void it_is_closed(void)
{
	v->life.closed = true;
}

static void start(struct vqp **q, uint32_t qpn_more)
{
	world.qpn_more = qpn_more;
	*q = rooms_create_qp();
	rooms_start_qp(*q);
	world.qpn_more = 0;
	for (int i = 0; i < RAILS; i++)
		(*q)->rails.twin[i].gid.value.raw[0] = 0xfe,
		(*q)->rails.twin[i].gid.value.raw[15] = (uint8_t)(i + 1);
}

static int begin(void **state)
{
	rooms_begin(state);
	alarm(TOO_LONG_S); /* whoever waits for a lock waits for ever */
	sem_init(&in_verb, 0, 0);
	sem_init(&let_go, 0, 0);
	start(&v, 0);
	start(&other, OTHER_MORE);
	nics = real;
	real.modify_qp = modify_hangs;
	real.query_qp = query_hangs;
	world.dev.modify_qp_rate_limit = rate_limit_hangs;
	world.on_wait = it_is_closed;
	trace_clear();
	return 0;
}

static int end(void **state)
{
	if (!v)
		return 0;
	if (is_parked)
		answer(0);
	core.view.r = 0;
	core.view.holding = false;
	rooms_unlock(other);
	other->life.started = false;
	hook_destroy_qp(other->qp);
	rooms_end_qp(state, v);
	v = NULL;
	alarm(0);
	return 0;
}

/* --- others go on ---------------------------------------------------------------------------- */

static void assert_free(pthread_mutex_t *lock)
{
	assert_int_equal(pthread_mutex_trylock(lock), 0);
	pthread_mutex_unlock(lock);
}

static void ask(struct vqp *q, enum shift_action_type type, uint8_t rail, uint32_t epoch)
{
	assert_free(&q->lock);
	rooms_act(q, &(struct shift_action){.type = (uint8_t)type, .rail = rail, .epoch = epoch});
}

/* The background thread comes by each connection, as for an order, a link event or a look. */
static void look(struct vqp *q, void *arg)
{
	(void)arg;
	vqp_enter(q);
	vqp_leave(q);
}

static void others_go_on(void)
{
	assert_free(&v->lock);
	vqp_each(look, NULL);
	trace_clear();
	ask(other, SHIFT_ACT_FENCE, 0, 1);
	assert_int_equal(rooms_run_jobs(), 1);
	ask(other, SHIFT_ACT_ARM, 1, 2);
	assert_int_equal(rooms_run_jobs(), 1);
	assert_non_null(strstr(trace_text(), "event FENCE_DONE rail 0 epoch 1 "));
	assert_non_null(strstr(trace_text(), "event ARM_DONE rail 1 epoch 2\n"));
}

static void a_verb_that_hangs_holds_up_its_caller_alone(void **state)
{
	static const struct {
		int (*call)(void);
		bool unprotected;
		enum ibv_qp_state before, after;
	} cases[] = {
		{query, false, IBV_QPS_RTS, IBV_QPS_RTS},
		{query, true, IBV_QPS_RTS, IBV_QPS_RTS},
		{to_rts, false, IBV_QPS_RTR, IBV_QPS_RTS},
		{to_rts, true, IBV_QPS_RTR, IBV_QPS_RTS},
		{set_timer, false, IBV_QPS_RTS, IBV_QPS_RTS},
		{set_timer, true, IBV_QPS_RTS, IBV_QPS_RTS},
		{limit_rate, false, IBV_QPS_RTS, IBV_QPS_RTS},
		{limit_rate, true, IBV_QPS_RTS, IBV_QPS_RTS},
		{to_err, true, IBV_QPS_RTS, IBV_QPS_ERR}, /* protected: that is a fence's */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin(state);
		v->program.state = cases[i].before;
		core.view.protected_ = !cases[i].unprotected;
		hang_in(cases[i].call);
		others_go_on();
		assert_int_equal(v->program.state, cases[i].before);
		assert_int_equal(answer(0), 0);
		assert_int_equal(v->program.state, cases[i].after);
		end(state);
	}
}

/* What it asks of the NIC is a fence, on a thread of the NIC's. */
static void err_of_a_protected_qp_is_no_verb_of_its_thread(void **state)
{
	(void)state;
	is_program = true;
	assert_int_equal(to_err(), 0); /* or it would be parked for ever */
	is_program = false;
	assert_int_equal(v->program.state, IBV_QPS_ERR);
}

/* Each of the program's verbs that change a QP waits for the one before. */
static void the_programs_verbs_come_one_after_the_other(void **state)
{
	int (*const calls[])(void) = {to_rts, set_timer, limit_rate};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		hang_in(calls[i]);
		assert_int_equal(pthread_mutex_trylock(&v->life.modify_lock), EBUSY);
		assert_int_equal(answer(0), 0);
		assert_free(&v->life.modify_lock);
	}
	hang_in(query);
	assert_free(&v->life.modify_lock);
}

/* --- its own connection ---------------------------------------------------------------------- */

/* A driver may let two modifies of one QP overtake each other, and what is in ERR lived again. */
static void a_fence_follows_the_programs_verb(void **state)
{
	int (*const calls[])(void) = {to_rts, set_timer, limit_rate};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		begin(state);
		hang_in(calls[i]);
		ask(v, SHIFT_ACT_FENCE, 0, 1);
		assert_int_equal(rooms_run_jobs(), 0);
		ask(v, SHIFT_ACT_FENCE, 1, 1); /* another QP */
		assert_int_equal(rooms_run_jobs(), 1);
		assert_int_equal(answer(0), 0);
		trace_clear();
		assert_int_equal(rooms_run_jobs(), 1);
		assert_non_null(strstr(trace_text(), "modify 0x10 to 6\n"));
		assert_non_null(strstr(trace_text(), "event FENCE_DONE rail 0 epoch 1 "));
		ask(v, SHIFT_ACT_FENCE, 0, 2); /* from now on none is waited for */
		assert_int_equal(rooms_run_jobs(), 1);
		end(state);
	}
}

static void a_query_holds_up_no_fence(void **state)
{
	(void)state;
	hang_in(query);
	ask(v, SHIFT_ACT_FENCE, 0, 1);
	assert_int_equal(rooms_run_jobs(), 1);
}

/* Other fences of the NIC may come and go meanwhile: it is not in their queue. */
static void a_nic_that_hangs_in_the_programs_verb_is_taken_for_hung(void **state)
{
	(void)state;
	hang_in(set_timer);
	ask(v, SHIFT_ACT_FENCE, 0, 1);
	trace_clear();
	for (int i = 0; i < 9; i++) {
		world.busy_since = world.now;
		rooms_pass(100ull * MS);
	}
	assert_traced("");
	rooms_pass(100ull * MS);
	assert_traced("event FENCE_DONE rail 0 epoch 1 fence 1 psn 0 hung\n");
	rooms_pass(1000ull * MS);
	assert_traced("");
	assert_int_equal(answer(0), 0);
	assert_int_equal(rooms_run_jobs(), 1); /* it may come clean at last */
}

/* The NIC has failed, and the connection lives elsewhere: the program has no error. */
static void what_a_nic_that_was_left_answers_does_not_count(void **state)
{
	static const struct {
		uint8_t r;
		bool holding;
		bool counts;
	} cases[] = {{0, false, true}, {1, false, false}, {0, true, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin(state);
		hang_in(set_timer);
		core.view.r = cases[i].r;
		core.view.holding = cases[i].holding;
		assert_int_equal(answer(EIO), cases[i].counts ? EIO : 0);
		assert_int_equal(v->program.attr.min_rnr_timer, cases[i].counts ? 13 : 7);
		core.view.r = 0;
		core.view.holding = false;
		hang_in(limit_rate);
		core.view.r = cases[i].r;
		core.view.holding = cases[i].holding;
		assert_int_equal(answer(EIO), cases[i].counts ? EIO : 0);
		assert_int_equal(v->program.rate.rate_limit, cases[i].counts ? 0 : 5);
		end(state);
	}
}

/* It was asked while the QP was the NIC's alone, and what it answers is of what we did to it. */
static void a_query_that_a_switch_overtakes_shows_the_connection(void **state)
{
	static const struct {
		uint8_t r;
		bool dead;
		uint32_t rail0_epoch;
		bool program;
	} cases[] = {
		{0, false, 0, false}, {1, false, 0, true}, {0, true, 0, true}, {0, false, 4, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		enum ibv_qp_state shown = cases[i].program ? IBV_QPS_RTS : IBV_QPS_INIT;

		begin(state);
		hang_in(query);
		core.view.r = cases[i].r;
		v->life.dead = cases[i].dead;
		v->hot.rail0_epoch = cases[i].rail0_epoch;
		assert_int_equal(answer(0), 0);
		assert_int_equal(queried.qp_state, shown);
		assert_int_equal(queried.cur_qp_state, shown);
		assert_int_equal(queried.dest_qp_num, cases[i].program ? 0x99 : 0xeee);
		assert_int_equal(v->qp->state, shown);
		end(state);
	}
}

/* And one that began on another NIC is not shown what it comes back to. */
static void a_query_that_began_elsewhere_shows_the_connection(void **state)
{
	(void)state;
	core.view.r = 1;
	hang_in(query);
	core.view.r = 0;
	assert_int_equal(answer(0), 0);
	assert_int_equal(queried.qp_state, IBV_QPS_RTS);
	assert_int_equal(v->qp->state, IBV_QPS_RTS);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
	const struct CMUnitTest tests[] = {
		ALONE(a_verb_that_hangs_holds_up_its_caller_alone),
		TEST(err_of_a_protected_qp_is_no_verb_of_its_thread),
		TEST(the_programs_verbs_come_one_after_the_other),
		ALONE(a_fence_follows_the_programs_verb),
		TEST(a_query_holds_up_no_fence),
		TEST(a_nic_that_hangs_in_the_programs_verb_is_taken_for_hung),
		ALONE(what_a_nic_that_was_left_answers_does_not_count),
		ALONE(a_query_that_a_switch_overtakes_shows_the_connection),
		TEST(a_query_that_began_elsewhere_shows_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
