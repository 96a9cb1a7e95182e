/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A lock of the data path: nobody gets in beside another, and who waits costs little. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "lib/base/short_lock.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct short_lock lock;
static unsigned int plain; /* no atomic: only the lock protects it */
static _Atomic unsigned int inside, together;

static void pause_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000};

	nanosleep(&t, NULL);
}

static void *counts(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		short_lock_take(&lock);
		together += inside++ > 0;
		plain++;
		if (i % 1000 == 0)
			pause_ms(1); /* the others wait */
		inside--;
		short_lock_give(&lock);
	}
	return arg;
}

static void test_one_at_a_time(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	plain = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, counts, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(plain, THREADS * ROUNDS);
	assert_int_equal(together, 0);
	assert_int_equal(lock.taken, 0);
}

static _Atomic int kept;
static _Atomic int64_t waited_ns; /* of processor time */
static _Atomic bool waits;

static int64_t thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *takes(void *arg)
{
	int64_t since = thread_ns();

	errno = EXDEV;
	waits = true;
	short_lock_take(&lock);
	kept = errno;
	waited_ns = thread_ns() - since;
	short_lock_give(&lock);
	return arg;
}

/* A thread that waits sleeps: of 200 ms it runs for a tenth at most. The program's errno stays. */
static void test_who_waits_sleeps(void **state)
{
	pthread_t thread;

	(void)state;
	kept = 0;
	short_lock_take(&lock);
	assert_int_equal(pthread_create(&thread, NULL, takes, NULL), 0);
	while (!waits)
		pause_ms(1);
	pause_ms(200);
	assert_int_equal(kept, 0);
	short_lock_give(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(kept, EXDEV);
	assert_true(waited_ns < 20000000);
	assert_int_equal(lock.taken, 0);
}

static void test_try(void **state)
{
	(void)state;
	assert_true(short_lock_try(&lock));
	assert_false(short_lock_try(&lock));
	short_lock_give(&lock);
	assert_true(short_lock_try(&lock));
	short_lock_give(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_who_waits_sleeps),
		cmocka_unit_test(test_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
