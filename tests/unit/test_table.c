/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The table from keys to objects: growth, reuse of slots, readers beside a writer. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/base/table.h"

static int object[4096];

static void finds_what_was_put(void **state)
{
	static struct table t = TABLE_INIT; /* as ours: for ever */

	(void)state;
	assert_null(table_get(&t, 1));
	for (uint64_t k = 1; k < 4096; k++)
		assert_int_equal(table_put(&t, k << 12, &object[k]), 0);
	for (uint64_t k = 1; k < 4096; k++)
		assert_ptr_equal(table_get(&t, k << 12), &object[k]);
	assert_null(table_get(&t, 4096ull << 12));
	assert_int_equal(table_put(&t, 1 << 12, &object[7]), 0);
	assert_ptr_equal(table_get(&t, 1 << 12), &object[7]);
}

static void removed_is_gone(void **state)
{
	static struct table t = TABLE_INIT; /* as ours: for ever */

	(void)state;
	for (uint64_t k = 1; k < 100; k++)
		table_put(&t, k, &object[k]);
	for (uint64_t k = 1; k < 100; k += 2)
		assert_ptr_equal(table_remove(&t, k), &object[k]);
	for (uint64_t k = 1; k < 100; k++)
		assert_ptr_equal(table_get(&t, k), k % 2 ? NULL : &object[k]);
	assert_null(table_remove(&t, 1));
	assert_null(table_remove(&t, 1000));
}

/* Objects that come and go, as memory regions do all day, cost no memory. */
static void churn_does_not_grow(void **state)
{
	static struct table t = TABLE_INIT; /* as ours: for ever */
	unsigned int arrays = 0;

	(void)state;
	for (uint64_t k = 1; k < 10; k++)
		table_put(&t, k, &object[k]);
	for (uint64_t k = 1000; k < 1000000; k++) {
		assert_int_equal(table_put(&t, k, &object[k % 4096]), 0);
		assert_ptr_equal(table_remove(&t, k), &object[k % 4096]);
	}
	for (struct table_array *a = atomic_load(&t.array); a; a = a->older)
		arrays++;
	assert_int_equal(arrays, 2);
	for (uint64_t k = 1; k < 10; k++)
		assert_ptr_equal(table_get(&t, k), &object[k]);
}

static struct table shared = TABLE_INIT;
static _Atomic int stop;

/* The stable keys are always there with their own objects, whatever is done to the others. */
static void *reader(void *arg)
{
	uintptr_t wrong = 0;

	(void)arg;
	while (!atomic_load(&stop))
		for (uint64_t k = 1; k < 64; k++) {
			void *v = table_get(&shared, k);
			void *other = table_get(&shared, 1000 + k);

			wrong += v != &object[k];
			wrong += other && other != &object[1000 + k];
		}
	return (void *)wrong;
}

static void readers_beside_a_writer(void **state)
{
	pthread_t threads[3];

	(void)state;
	for (uint64_t k = 1; k < 64; k++)
		table_put(&shared, k, &object[k]);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, NULL), 0);
	for (unsigned int round = 0; round < 20000; round++) {
		uint64_t k = 1000 + round % 64, other = 10000 + round;

		table_put(&shared, k, &object[k]);
		if (round % 3)
			table_remove(&shared, k);
		table_put(&shared, other, &object[0]); /* fills the array: it is renewed */
		table_remove(&shared, other);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_put),
		cmocka_unit_test(removed_is_gone),
		cmocka_unit_test(churn_does_not_grow),
		cmocka_unit_test(readers_beside_a_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
