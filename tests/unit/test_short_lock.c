/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A lock of the data path: nobody gets in beside another, nobody sleeps for ever. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
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
			pause_ms(1); /* the others come to sleep */
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
	assert_int_equal(lock.state, SHORT_LOCK_FREE);
}

static _Atomic int kept;

static void *takes(void *arg)
{
	errno = EXDEV;
	short_lock_take(&lock);
	kept = errno;
	short_lock_give(&lock);
	return arg;
}

/* A thread that sleeps is woken, and the program's errno stays. */
static void test_who_sleeps_is_woken(void **state)
{
	pthread_t thread;

	(void)state;
	kept = 0;
	short_lock_take(&lock);
	assert_int_equal(pthread_create(&thread, NULL, takes, NULL), 0);
	while (lock.state != SHORT_LOCK_AWAITED)
		pause_ms(1);
	pause_ms(20);
	assert_int_equal(kept, 0);
	errno = ENOTTY;
	short_lock_give(&lock);
	assert_int_equal(errno, ENOTTY);
	pthread_join(thread, NULL);
	assert_int_equal(kept, EXDEV);
	assert_int_equal(lock.state, SHORT_LOCK_FREE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_who_sleeps_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
