// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Gates: nobody inside but one, whoever owns it; and what gate_sync() promises. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/gate.h"

#define THREADS	   4
#define ENTRIES	   200000
#define LONG_READS 20

static struct gate gate;
/* Written only inside, or when shut and synced. */
static volatile uint64_t before, after;
static _Atomic uint64_t entered, wrong, ways[3];
static _Atomic int running;

/* As the data path does it. */
static enum gate_how enter(struct gate *g)
{
	enum gate_how how;

	if (gate_find(&gate_mine.send, g) && gate_enter_owned(g, NULL))
		return GATE_OWNED;
	how = gate_enter(g, NULL);
	if (how != GATE_IS_SHUT)
		gate_remember(&gate_mine.send, g, g);
	return how;
}

static void work_inside(void)
{
	uint64_t n = before;

	if (n != after)
		atomic_fetch_add(&wrong, 1);
	before = n + 1;
	for (int i = 0; i < LONG_READS; i++)
		if (before != n + 1 || after != n)
			atomic_fetch_add(&wrong, 1);
	after = n + 1;
}

static void *user(void *arg)
{
	uint64_t mine = 0;

	(void)arg;
	for (int i = 0; i < ENTRIES; i++) {
		enum gate_how how;

		if (i % 1000 == 0) /* else each might be done before the next one begins */
			sched_yield();
		how = enter(&gate);

		ways[how]++;
		if (how == GATE_IS_SHUT)
			continue;
		work_inside();
		gate_leave(&gate, how);
		mine++;
	}
	atomic_fetch_add(&entered, mine);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void pause_ns(long ns)
{
	const struct timespec t = {.tv_nsec = ns};

	nanosleep(&t, NULL);
}

/* Shut and synced, nothing moves, however long one looks; the second sync is for nothing. */
static void shut_and_look(void)
{
	struct gate *g = &gate;
	uint64_t n;

	gate_shut(g);
	gate_sync(&g, 1);
	gate_shut(g);
	gate_sync(&g, 1);
	n = before;
	for (int i = 0; i < 1000; i++)
		if (before != n || after != n)
			atomic_fetch_add(&wrong, 1);
	gate_open(g);
	/* The other reason still turns it away; and it sees inside what is written now. */
	before = after = n + 1;
	atomic_fetch_add(&entered, 1);
	gate_open(g);
}

static void *shutter(void *arg)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

	(void)arg;
	while (running) {
		pthread_mutex_lock(&one); /* one writer at a time */
		shut_and_look();
		pthread_mutex_unlock(&one);
		pause_ns(20000);
	}
	return NULL;
}

/* Without the barrier the owner may be inside unseen: rarely, so it is tried very often. */
static void *hasty_shutter(void *arg)
{
	struct gate *g = &gate;

	(void)arg;
	while (running) {
		uint64_t n;

		gate_shut(g);
		gate_sync(&g, 1);
		n = before;
		for (int i = 0; i < LONG_READS; i++)
			if (before != n || after != n)
				atomic_fetch_add(&wrong, 1);
		gate_open(g);
		for (volatile int i = 0; i < LONG_READS; i++)
			;
	}
	return NULL;
}

static void reset(void)
{
	gate_init(&gate);
	assoc_clear(&gate_mine.send); /* it is another gate now */
	before = after = 0;
	entered = wrong = 0;
	for (int i = 0; i < 3; i++)
		ways[i] = 0;
}

static void run_with(int users, int shutters, void *(*shut)(void *))
{
	pthread_t thread[2 * THREADS];

	reset();
	running = users;
	for (int i = 0; i < users + shutters; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, i < users ? user : shut, NULL),
				 0);
	for (int i = 0; i < users + shutters; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(before, after);
	assert_int_equal(before, entered);
}

static void run(int users, int shutters)
{
	run_with(users, shutters, shutter);
}

static void one_thread_owns_it(void **state)
{
	(void)state;
	run(1, 0);
	assert_int_equal(ways[GATE_LOCKED], 0);
	assert_int_equal(ways[GATE_IS_SHUT], 0);
	assert_int_equal(ways[GATE_OWNED], ENTRIES);
}

static void the_owner_is_turned_away(void **state)
{
	(void)state;
	run(1, 1);
	assert_int_equal(ways[GATE_LOCKED], 0); /* being shut does not cost the owner its gate */
	run(1, 3);
	assert_int_equal(ways[GATE_LOCKED], 0);
}

static void and_nothing_of_his_is_seen_late(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		run_with(1, 1, hasty_shutter);
	assert_int_equal(ways[GATE_LOCKED], 0);
}

static void threads_exclude_each_other(void **state)
{
	(void)state;
	run(THREADS, 0);
	assert_int_not_equal(ways[GATE_LOCKED], 0);
	run(THREADS, 2);
}

/* The moment in which a gate changes hands, many times. */
static void it_is_taken_from_its_owner(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		pthread_t thread[2];

		reset();
		running = 2;
		for (int t = 0; t < 2; t++)
			pthread_create(&thread[t], NULL, user, NULL);
		for (int t = 0; t < 2; t++)
			pthread_join(thread[t], NULL);
		assert_int_equal(wrong, 0);
		assert_int_equal(before, entered);
		if (i > 20 && atomic_load(&ways[GATE_LOCKED]))
			break;
	}
}

static void *enter_once(void *arg)
{
	enum gate_how how = enter(&gate);

	gate_leave(&gate, how);
	*(enum gate_how *)arg = how;
	return NULL;
}

static void what_a_dead_thread_owned_is_free(void **state)
{
	enum gate_how how = GATE_LOCKED;

	(void)state;
	reset();
	for (int i = 0; i < 3; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, enter_once, &how);
		pthread_join(thread, NULL);
		assert_int_equal(how, GATE_OWNED);
	}
	assert_int_equal(enter(&gate), GATE_OWNED);
	gate_leave(&gate, GATE_OWNED);
}

static void *forget(void *arg)
{
	gate_shut(&gate);
	gate_forget(&gate, arg);
	return NULL;
}

static void another_thread_makes_forget(void **state)
{
	pthread_t thread;
	int other;

	(void)state;
	reset();
	assert_int_equal(enter(&gate), GATE_OWNED);
	gate_leave(&gate, GATE_OWNED);
	assert_ptr_equal(gate_find(&gate_mine.send, &gate), &gate);
	pthread_create(&thread, NULL, forget, &other);
	pthread_join(thread, NULL);
	assert_ptr_equal(gate_find(&gate_mine.send, &gate), &gate);
	pthread_create(&thread, NULL, forget, &gate);
	pthread_join(thread, NULL);
	assert_null(gate_find(&gate_mine.send, &gate));
	assert_int_equal(enter(&gate), GATE_IS_SHUT);
}

static pthread_key_t late_key;
static _Atomic int late_rounds;
static _Atomic bool late_remembers;

/* A destructor of the program's own that comes back as often as it may, and uses a gate. */
static void use_late(void *arg)
{
	late_rounds++;
	pthread_setspecific(late_key, arg);
	gate_leave(&gate, enter(&gate));
	late_remembers = gate_find(&gate_mine.send, &gate) != NULL;
}

static void *end_late(void *arg)
{
	gate_leave(&gate, enter(&gate));
	pthread_setspecific(late_key, arg);
	return NULL;
}

/* Nobody would hear of its end any more, and its keys would be looked for where it was. */
static void a_thread_whose_end_was_heard_of_remembers_nothing(void **state)
{
	pthread_t thread;

	(void)state;
	reset();
	late_rounds = 0;
	assert_int_equal(pthread_key_create(&late_key, use_late), 0);
	pthread_create(&thread, NULL, end_late, &gate);
	pthread_join(thread, NULL);
	pthread_key_delete(late_key);
	assert_true(late_rounds > 1);
	assert_false(late_remembers);
	assert_int_equal(enter(&gate), GATE_LOCKED);
	gate_leave(&gate, GATE_LOCKED);
	gate_forget(&gate, &gate);
}

enum { SHARERS = 3 };

static _Atomic int inside_once, forgets;
static _Atomic bool all_forgot;

/* Enters, and says in *arg what it remembers before and after the gate is forgotten. */
static void *share_it(void *arg)
{
	bool *remembers = arg;
	enum gate_how how = enter(&gate);

	gate_leave(&gate, how);
	remembers[0] = how == GATE_LOCKED && gate_find(&gate_mine.send, &gate) == &gate;
	inside_once++;
	while (!all_forgot)
		pause_ns(100000);
	remembers[1] = gate_find(&gate_mine.send, &gate) != NULL;
	forgets++;
	while (forgets <
	       SHARERS) /* no thread's end makes it forget before the others have looked */
		sched_yield();
	return NULL;
}

/* Its memory may be another gate's afterwards. */
static void all_that_share_it_forget_it(void **state)
{
	bool remembers[SHARERS][2];
	pthread_t thread[SHARERS];

	(void)state;
	reset();
	inside_once = forgets = 0;
	all_forgot = false;
	assert_int_equal(enter(&gate), GATE_OWNED);
	gate_leave(&gate, GATE_OWNED);
	for (int i = 0; i < SHARERS; i++)
		pthread_create(&thread[i], NULL, share_it, remembers[i]);
	while (inside_once < SHARERS)
		pause_ns(100000);
	assert_ptr_equal(gate_find(&gate_mine.send, &gate), &gate);
	gate_forget(&gate, &gate);
	assert_null(gate_find(&gate_mine.send, &gate));
	all_forgot = true;
	for (int i = 0; i < SHARERS; i++) {
		pthread_join(thread[i], NULL);
		assert_true(remembers[i][0]);
		assert_false(remembers[i][1]);
	}
	gate_forget(&gate, &gate); /* threads that have ended have nothing to forget */
}

/* Of each kind: posts, receives and polls. */
static void it_forgets_whatever_the_kind(void **state)
{
	struct assoc *kinds[] = {&gate_mine.send, &gate_mine.recv, &gate_mine.poll};
	pthread_t thread;

	(void)state;
	reset();
	assert_int_equal(enter(&gate), GATE_OWNED);
	gate_leave(&gate, GATE_OWNED);
	for (int i = 0; i < 3; i++)
		gate_remember(kinds[i], kinds + i, kinds + i);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(gate_find(kinds[i], kinds + i), kinds + i);
		pthread_create(&thread, NULL, forget, kinds + i);
		pthread_join(thread, NULL);
		assert_null(gate_find(kinds[i], kinds + i));
	}
	assoc_clear(&gate_mine.recv);
	assoc_clear(&gate_mine.poll);
}

/* As after each time that a gate was shut. Only the newest object counts. */
static void what_is_remembered_again_is_there_once(void **state)
{
	struct assoc *a = &gate_mine.send;
	size_t found = 0;

	(void)state;
	reset();
	for (int i = 0; i < 3; i++) {
		gate_remember(a, &gate, &found + i);
		assert_ptr_equal(gate_find(a, &gate), &found + i);
	}
	for (size_t i = 0; i <= a->mask / sizeof(struct assoc_set); i++)
		for (int w = 0; w < ASSOC_WAYS; w++)
			found += a->sets[i].way[w].key == (uintptr_t)&gate;
	assert_int_equal(found, 1);
}

static _Thread_local void (*on_growing)(void); /* the table of this thread grows; once */

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	void (*fn)(void) = on_growing;

	on_growing = NULL;
	if (fn)
		fn();
	return __real_aligned_alloc(align, bytes);
}

static pthread_t other;
static _Atomic bool forgotten, early;

static void *forget_meanwhile(void *arg)
{
	gate_forget(&gate, arg);
	forgotten = true;
	return NULL;
}

static void another_forgets(void)
{
	pthread_create(&other, NULL, forget_meanwhile, &gate);
	for (int i = 0; i < 200 && !forgotten; i++)
		pause_ns(1000000);
	early = forgotten;
}

/* Else it would look into a table that is freed meanwhile, or forget what is copied already. */
static void while_a_table_grows_nobody_else_forgets(void **state)
{
	static char keys[64];

	(void)state;
	reset();
	forgotten = false;
	assert_int_equal(enter(&gate), GATE_OWNED);
	gate_leave(&gate, GATE_OWNED);
	on_growing = another_forgets;
	for (size_t i = 0; i < sizeof(keys); i++)
		gate_remember(&gate_mine.send, keys + i, keys + i);
	assert_null(on_growing);
	pthread_join(other, NULL);
	assert_true(forgotten);
	assert_false(early);
	assert_null(gate_find(&gate_mine.send, &gate));
	for (size_t i = 0; i < sizeof(keys); i++)
		assert_ptr_equal(gate_find(&gate_mine.send, keys + i), keys + i);
}

static _Atomic bool grows, may_go_on;

static void until_forked(void)
{
	grows = true;
	while (!may_go_on)
		pause_ns(1000000);
}

static void *grow_meanwhile(void *arg)
{
	on_growing = until_forked;
	gate_remember(&gate_mine.send, arg, arg);
	assoc_clear(&gate_mine.send); /* it owns no gate, so its end is not heard of */
	return NULL;
}

/* In the child the thread is not there that had the lock when the process was forked. */
static void remember_and_forget_in_child(void)
{
	static char keys[64];

	alarm(10);
	gate_forget(&gate, &gate);
	if (gate_find(&gate_mine.send, &gate))
		_exit(2);
	for (size_t i = 0; i < sizeof(keys); i++)
		gate_remember(&gate_mine.send, keys + i, keys + i);
	_exit(gate_find(&gate_mine.send, keys + sizeof(keys) - 1) != keys + sizeof(keys) - 1);
}

static void the_child_of_a_fork_waits_for_nobody(void **state)
{
	pthread_t thread;
	int status;
	pid_t child;

	(void)state;
	reset();
	assert_int_equal(enter(&gate), GATE_OWNED);
	gate_leave(&gate, GATE_OWNED);
	pthread_create(&thread, NULL, grow_meanwhile, &status);
	while (!grows)
		pause_ns(1000000);
	child = fork();
	if (!child)
		remember_and_forget_in_child();
	may_go_on = true;
	pthread_join(thread, NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Also if another reason is left: who removes the last one may have begun before, and the gate
 * would be open while it counts as settled. */
static void an_opening_ends_what_was_settled(void **state)
{
	struct gate *g = &gate;

	(void)state;
	reset();
	gate_shut(g);
	gate_shut(g);
	gate_sync(&g, 1);
	assert_int_equal(gate.settled, gate.opened + 1);
	gate_open(g);
	assert_int_not_equal(gate.settled, gate.opened + 1);
	gate_open(g);
}

static void without_a_barrier_all_are_shared(void **state)
{
	(void)state;
	/* Before gate_start(). */
	gate_init(&gate);
	assert_int_equal(enter(&gate), GATE_LOCKED);
	gate_leave(&gate, GATE_LOCKED);
	assert_null(
		gate_find(&gate_mine.send, &gate)); /* nobody could make this thread forget it */
	run(THREADS, 2);
	assert_int_equal(ways[GATE_OWNED], 0);
	/* Shut between a thread's two looks: rarely. */
	for (int i = 0; i < 30; i++)
		run_with(1, 1, hasty_shutter);
}

static int start(void **state)
{
	(void)state;
	gate_start();
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_barrier_all_are_shared), /* first: then it starts */
		cmocka_unit_test_setup(one_thread_owns_it, start),
		cmocka_unit_test(the_owner_is_turned_away),
		cmocka_unit_test(and_nothing_of_his_is_seen_late),
		cmocka_unit_test(an_opening_ends_what_was_settled),
		cmocka_unit_test(threads_exclude_each_other),
		cmocka_unit_test(it_is_taken_from_its_owner),
		cmocka_unit_test(what_a_dead_thread_owned_is_free),
		cmocka_unit_test(another_thread_makes_forget),
		cmocka_unit_test(a_thread_whose_end_was_heard_of_remembers_nothing),
		cmocka_unit_test(all_that_share_it_forget_it),
		cmocka_unit_test(it_forgets_whatever_the_kind),
		cmocka_unit_test(what_is_remembered_again_is_there_once),
		cmocka_unit_test(while_a_table_grows_nobody_else_forgets),
		cmocka_unit_test(the_child_of_a_fork_waits_for_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
