/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The background thread's timers, calls and descriptors, and the workers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/background.h"
#include "lib/base/fork.h"
#include "lib/base/log.h"
#include "lib/base/poll_deadline.h"
#include "lib/base/reentry.h"
#include "lib/base/worker.h"

void log_at(enum log_level level, const char *format, ...)
{
	(void)level;
	(void)format;
}

enum { TIMERS = 300, PATIENCE_MS = 20000 };

static void wait_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}

static void wait_for(atomic_uint *value, unsigned int expected)
{
	for (int i = 0; i < PATIENCE_MS && *value < expected; i++)
		wait_ms(1);
	assert_int_equal(*value, expected);
}

/* Runs fn on the background thread, and waits for it. */
static atomic_uint on_bg_done;
static void (*on_bg_fn)(void);

static void on_bg_call(void *arg)
{
	(void)arg;
	on_bg_fn();
	on_bg_done++;
}

static void on_bg(void (*fn)(void))
{
	struct bg_call call = {.fn = on_bg_call};
	unsigned int before = on_bg_done;

	on_bg_fn = fn;
	bg_call(&call);
	wait_for(&on_bg_done, before + 1);
}

/* ---- calls --------------------------------------------------------------------------------- */

static atomic_uint call_count;
static unsigned int call_order[8];
static bool call_on_bg, call_hooks_off, call_signals_blocked;

static void record_call(void *arg)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	call_signals_blocked = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1);
	call_on_bg = bg_is_self();
	call_hooks_off = hooks_off;
	call_order[call_count] = (unsigned int)(uintptr_t)arg;
	call_count++;
}

static void calls_in_order(void **state)
{
	struct bg_call calls[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++) {
		calls[i] = (struct bg_call){.fn = record_call, .arg = (void *)(i + 1)};
		bg_call(&calls[i]);
		/* The thread has not run yet: a call that is queued is not queued twice. */
		bg_call(&calls[i]);
	}
	assert_int_equal(bg_start(), 0);
	assert_int_equal(bg_start(), 0);
	wait_for(&call_count, 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(call_order[i], i + 1);
	assert_true(call_on_bg);
	assert_true(call_hooks_off);
	assert_true(call_signals_blocked);
	assert_false(bg_is_self());
	assert_false(hooks_off);
}

static void slow_call(void *arg)
{
	usleep(20000);
	*(bool *)arg = bg_is_self();
}

static void a_call_is_waited_for(void **state)
{
	bool ran = false;

	(void)state;
	bg_call_wait(slow_call, &ran);
	assert_true(ran);
}

static struct bg_call chain;
static atomic_uint chain_count;

static void chain_call(void *arg)
{
	(void)arg;
	if (++chain_count < 1000)
		bg_call(&chain);
}

static void a_call_may_queue_itself(void **state)
{
	(void)state;
	chain = (struct bg_call){.fn = chain_call};
	bg_call(&chain);
	wait_for(&chain_count, 1000);
}

static atomic_uint stress_count;

static void stress_call(void *arg)
{
	(void)arg;
	stress_count++;
}

/* The call object is used again as soon as it has run. */
static void *stress_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < 500; i++) {
		struct bg_call calls[3];
		unsigned int before;

		for (int j = 0; j < 3; j++)
			calls[j] = (struct bg_call){.fn = stress_call};
		before = stress_count;
		for (int j = 0; j < 3; j++)
			bg_call(&calls[j]);
		while (stress_count < before + 3)
			sched_yield();
	}
	return NULL;
}

static void calls_from_a_busy_thread_all_run(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, stress_thread, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(stress_count, 1500);
}

/* ---- timers -------------------------------------------------------------------------------- */

static struct bg_timer timers[TIMERS];
static unsigned int fired[TIMERS];
static atomic_uint fired_count;
static uint64_t last_at_ns;
static bool in_order = true, not_early = true;

static void fire(void *arg)
{
	struct bg_timer *timer = arg;

	in_order &= timer->at_ns >= last_at_ns;
	not_early &= now_ns() >= timer->at_ns;
	last_at_ns = timer->at_ns;
	fired[timer - timers]++;
	fired_count++;
}

/* Random times within 50 ms; every third taken back, every fifth set anew. */
static void set_many(void)
{
	uint64_t now = now_ns() + 20000000;

	for (unsigned int i = 0; i < TIMERS; i++) {
		timers[i] = (struct bg_timer){.fn = fire, .arg = &timers[i]};
		bg_timer_set(&timers[i], now + (uint64_t)rand() % 50000000);
	}
	for (unsigned int i = 0; i < TIMERS; i += 5)
		bg_timer_set(&timers[i], now + (uint64_t)rand() % 50000000);
	for (unsigned int i = 0; i < TIMERS; i += 3) {
		bg_timer_set(&timers[i], UINT64_MAX);
		bg_timer_set(&timers[i], UINT64_MAX); /* and again: nothing */
	}
}

static void timers_fire_once_in_order(void **state)
{
	(void)state;
	srand(1);
	on_bg(set_many);
	wait_for(&fired_count, TIMERS - TIMERS / 3);
	wait_ms(20);
	assert_true(in_order);
	assert_true(not_early);
	for (unsigned int i = 0; i < TIMERS; i++)
		assert_int_equal(fired[i], i % 3 != 0);
}

static struct bg_timer periodic;
static atomic_uint periodic_count;

static void again(void *arg)
{
	(void)arg;
	if (++periodic_count < 5)
		bg_timer_set(&periodic, now_ns() + 1000000);
}

static void set_periodic(void)
{
	periodic = (struct bg_timer){.fn = again};
	bg_timer_set(&periodic, 1); /* long ago: at once */
}

static void a_timer_may_set_itself(void **state)
{
	(void)state;
	on_bg(set_periodic);
	wait_for(&periodic_count, 5);
}

/* A stopped process or an overloaded machine: here a call that takes its time, with a timer due. */
static void ignore(void *arg)
{
	(void)arg;
}

static void stall(void)
{
	static struct bg_timer due = {.fn = ignore};

	bg_timer_set(&due, now_ns() + 1000000);
	wait_ms(600);
}

static void awake(void)
{
}

static void the_clock_stands_still_while_the_thread_is_away(void **state)
{
	uint64_t began = now_ns(), awake_began, took, counted;

	(void)state;
	on_bg(awake);
	awake_began = bg_awake_ns();
	on_bg(stall);
	on_bg(awake); /* the timer has run */
	took = now_ns() - began;
	counted = bg_awake_ns() - awake_began;
	assert_true(took >= 600000000);
	assert_true(counted + 400000000 <= took);
	assert_true(bg_awake_ns() <= now_ns());
	awake_began = bg_awake_ns();
	wait_ms(300); /* no timer is due: the thread is not late */
	on_bg(awake);
	assert_true(bg_awake_ns() - awake_began >= 299000000);
}

static void looks_count_a_little_each(void **state)
{
	struct poll_deadline p = {.left_ns = 15000000};

	(void)state;
	assert_true(poll_deadline_left(&p));
	wait_ms(200); /* counts 10 ms */
	assert_true(poll_deadline_left(&p));
	wait_ms(200);
	assert_false(poll_deadline_left(&p));
	assert_false(poll_deadline_left(&p));
}

/* One fires and takes the other, due at the same time, back. */
static struct bg_timer rivals[2];
static atomic_uint rival_count;

static void rival(void *arg)
{
	bg_timer_set(arg, UINT64_MAX);
	rival_count++;
}

static void set_rivals(void)
{
	uint64_t at = now_ns() + 5000000;

	for (int i = 0; i < 2; i++) {
		rivals[i] = (struct bg_timer){.fn = rival, .arg = &rivals[!i]};
		bg_timer_set(&rivals[i], at);
	}
}

static void a_timer_taken_back_by_another_does_not_fire(void **state)
{
	(void)state;
	on_bg(set_rivals);
	wait_for(&rival_count, 1);
	wait_ms(20);
	assert_int_equal(rival_count, 1);
}

/* ---- descriptors --------------------------------------------------------------------------- */

static int pipes[2][2];
static atomic_uint readable_count;
static atomic_uint flush_count;

/* Both are readable in one turn; the first to run ends the other's watch. */
static void readable(void *arg, uint32_t events)
{
	assert_true(events & EPOLLIN);
	(void)arg;
	bg_unwatch(pipes[0][0]);
	bg_unwatch(pipes[1][0]);
	readable_count++;
}

static void flush(void)
{
	flush_count++;
}

static void watch_pipes(void)
{
	assert_int_equal(bg_watch(-1, EPOLLIN, readable, NULL), -EBADF);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(pipes[i]), 0);
		assert_int_equal(write(pipes[i][1], "x", 1), 1);
		assert_int_equal(bg_watch(pipes[i][0], EPOLLIN, readable, NULL), 0);
		/* Replaces. */
		assert_int_equal(bg_watch(pipes[i][0], EPOLLIN, readable, NULL), 0);
	}
}

static void an_unwatched_descriptor_is_not_reported(void **state)
{
	(void)state;
	bg_before_sleep(flush);
	on_bg(watch_pipes);
	wait_for(&readable_count, 1);
	wait_ms(20);
	assert_int_equal(readable_count, 1);
	assert_true(flush_count > 0);
}

/* ---- workers ------------------------------------------------------------------------------- */

struct test_job {
	struct job job;
	unsigned int number;
};

static unsigned int job_order[100];
static atomic_uint job_count;
static atomic_bool may_go;

static void run_job(struct job *job)
{
	struct test_job *t = (struct test_job *)job;

	job_order[job_count] = t->number; /* before it counts: only one such job runs at a time */
	job_count++;
	free(t);
}

static void hang(struct job *job)
{
	(void)job;
	while (!may_go)
		wait_ms(1);
}

static void jobs_run_in_order_and_may_free_themselves(void **state)
{
	struct worker *w = worker_new("shift a-long-name-of-a-nic", 1);

	(void)state;
	assert_non_null(w);
	assert_true(worker_drain(w, 0));
	for (unsigned int i = 0; i < 100; i++) {
		struct test_job *t = malloc(sizeof(*t));

		*t = (struct test_job){.job.fn = run_job, .number = i};
		worker_submit(w, &t->job);
	}
	assert_true(worker_drain(w, PATIENCE_MS));
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(job_order[i], i);
	assert_int_equal(worker_busy_since_ns(w, NULL), 0);
}

static void a_job_that_hangs_is_seen(void **state)
{
	struct worker *w = worker_new("shift", 1);
	struct job job = {.fn = hang};
	uint64_t before = bg_awake_ns(), since = 0;

	(void)state;
	worker_submit(w, &job);
	for (int i = 0; i < PATIENCE_MS && !since; i++) {
		wait_ms(1);
		since = worker_busy_since_ns(w, &job);
	}
	assert_true(since >= before && since <= bg_awake_ns());
	assert_false(worker_drain(w, 20));
	may_go = true;
	assert_true(worker_drain(w, PATIENCE_MS));
}

static struct test_job *waiting_job(struct worker *w, unsigned int number)
{
	struct test_job *t = malloc(sizeof(*t));

	*t = (struct test_job){.job.fn = run_job, .number = number};
	worker_submit(w, &t->job);
	return t;
}

static void a_job_that_waits_can_be_taken_back(void **state)
{
	struct worker *w = worker_new("shift", 1);
	struct job first = {.fn = hang};
	struct test_job *job[4];

	(void)state;
	may_go = false;
	job_count = 0;
	worker_submit(w, &first);
	while (!worker_busy_since_ns(w, NULL))
		wait_ms(1);
	for (unsigned int i = 0; i < 4; i++)
		job[i] = waiting_job(w, i);
	assert_false(worker_cancel(w, &first)); /* it runs */
	assert_true(worker_cancel(w, &job[1]->job));
	assert_true(worker_cancel(w, &job[3]->job)); /* the last job: one that comes now is found */
	assert_false(worker_cancel(w, &job[3]->job));
	worker_submit(w, &job[1]->job);
	may_go = true;
	assert_true(worker_drain(w, PATIENCE_MS));
	assert_int_equal(job_count, 3);
	assert_int_equal(job_order[0], 0);
	assert_int_equal(job_order[1], 2);
	assert_int_equal(job_order[2], 1);
	free(job[3]);
}

/* One command of a dying NIC hangs: the others go on, but for those of the same QP. */
static void jobs_go_on_beside_one_that_hangs(void **state)
{
	struct worker *w = worker_new("shift", 2);
	struct job hangs = {.fn = hang, .owner = w};
	struct test_job *same;
	uint64_t since;

	(void)state;
	may_go = false;
	job_count = 0;
	worker_submit(w, &hangs);
	same = malloc(sizeof(*same));
	*same = (struct test_job){.job = {.fn = run_job, .owner = w}, .number = 1};
	worker_submit(w, &same->job);
	waiting_job(w, 2);
	for (int i = 0; i < PATIENCE_MS && !job_count; i++)
		wait_ms(1);
	assert_int_equal(job_count, 1);
	assert_int_equal(job_order[0], 2);
	since = worker_busy_since_ns(w, &hangs);
	assert_true(since && since <= bg_awake_ns());
	assert_false(worker_drain(w, 20));
	may_go = true;
	assert_true(worker_drain(w, PATIENCE_MS));
	assert_int_equal(job_order[1], 1);
}

/* A job that waits is held up by all that run: the newest of these says for how long. */
static void a_job_waits_for_the_newest_of_those_that_run(void **state)
{
	struct worker *w = worker_new("shift", 2);
	struct job first = {.fn = hang}, second = {.fn = hang};
	struct test_job *third;
	uint64_t newest = 0;

	(void)state;
	may_go = false;
	job_count = 0;
	worker_submit(w, &first);
	while (!worker_busy_since_ns(w, &first))
		wait_ms(1);
	wait_ms(5);
	worker_submit(w, &second);
	for (int i = 0; i < PATIENCE_MS && newest <= worker_busy_since_ns(w, &first); i++) {
		wait_ms(1);
		newest = worker_busy_since_ns(w, &second);
	}
	third = waiting_job(w, 3);
	wait_ms(20);
	assert_int_equal(job_count, 0); /* there are two threads, not more */
	assert_true(newest > worker_busy_since_ns(w, &first));
	assert_true(worker_busy_since_ns(w, &third->job) == newest);
	may_go = true;
	assert_true(worker_drain(w, PATIENCE_MS));
	assert_true(worker_busy_since_ns(w, NULL) == 0);
}

/* The other thread is never busy for long. So the job of the same QP alone says that this one
 * hangs. */
static void a_job_behind_a_hung_one_of_its_owner_waits_for_that_one(void **state)
{
	struct worker *w = worker_new("shift", 2);
	struct job hangs = {.fn = hang, .owner = &hangs}, beside = {.fn = hang, .owner = &beside};
	struct test_job *same = malloc(sizeof(*same)), *other = malloc(sizeof(*other));
	uint64_t since, newer;

	(void)state;
	may_go = false;
	job_count = 0;
	worker_submit(w, &hangs);
	while (!worker_busy_since_ns(w, &hangs))
		wait_ms(1);
	since = worker_busy_since_ns(w, &hangs);
	wait_ms(5);
	worker_submit(w, &beside);
	while (worker_busy_since_ns(w, &beside) == since) /* the newest, while it waits */
		wait_ms(1);
	newer = worker_busy_since_ns(w, &beside);
	*same = (struct test_job){.job = {.fn = run_job, .owner = &hangs}, .number = 1};
	worker_submit(w, &same->job);
	*other = (struct test_job){.job = {.fn = run_job, .owner = &same}, .number = 2};
	worker_submit(w, &other->job);
	assert_true(newer > since);
	assert_true(worker_busy_since_ns(w, &same->job) == since);
	assert_true(worker_busy_since_ns(w, &other->job) == newer);
	may_go = true;
	assert_true(worker_drain(w, PATIENCE_MS));
}

static void a_job_that_somebody_waits_for_goes_first(void **state)
{
	struct worker *w = worker_new("shift", 1);
	struct test_job *urgent = malloc(sizeof(*urgent));
	struct job first = {.fn = hang};

	(void)state;
	may_go = false;
	job_count = 0;
	worker_submit(w, &first);
	while (!worker_busy_since_ns(w, NULL))
		wait_ms(1);
	waiting_job(w, 1);
	*urgent = (struct test_job){.job.fn = run_job, .number = 2};
	worker_submit_first(w, &urgent->job);
	waiting_job(w, 3);
	may_go = true;
	assert_true(worker_drain(w, PATIENCE_MS));
	assert_int_equal(job_order[0], 2);
	assert_int_equal(job_order[1], 1);
	assert_int_equal(job_order[2], 3);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static int in_child(void)
{
	struct worker *w = worker_new("shift", 1);
	struct bg_call call = {.fn = stress_call};
	struct job job = {.fn = hang};

	if (!fork_in_child() || !bg_start())
		return 1;
	bg_call(&call);
	worker_submit(w, &job);
	return worker_drain(w, 10) ? 2 : 0;
}

static void a_child_has_none_of_it(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	assert_false(fork_in_child());
	pid = fork();
	if (!pid)
		_exit(in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(fork_in_child());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_in_order),
		cmocka_unit_test(a_call_is_waited_for),
		cmocka_unit_test(a_call_may_queue_itself),
		cmocka_unit_test(calls_from_a_busy_thread_all_run),
		cmocka_unit_test(timers_fire_once_in_order),
		cmocka_unit_test(a_timer_may_set_itself),
		cmocka_unit_test(the_clock_stands_still_while_the_thread_is_away),
		cmocka_unit_test(looks_count_a_little_each),
		cmocka_unit_test(a_timer_taken_back_by_another_does_not_fire),
		cmocka_unit_test(an_unwatched_descriptor_is_not_reported),
		cmocka_unit_test(jobs_run_in_order_and_may_free_themselves),
		cmocka_unit_test(a_job_that_hangs_is_seen),
		cmocka_unit_test(a_job_that_waits_can_be_taken_back),
		cmocka_unit_test(jobs_go_on_beside_one_that_hangs),
		cmocka_unit_test(a_job_waits_for_the_newest_of_those_that_run),
		cmocka_unit_test(a_job_behind_a_hung_one_of_its_owner_waits_for_that_one),
		cmocka_unit_test(a_job_that_somebody_waits_for_goes_first),
		cmocka_unit_test(a_child_has_none_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
