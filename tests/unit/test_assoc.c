// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The set-associative table: what was put is found, until it is forgotten or has to give way. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/base/assoc.h"

#define KEYS	 1000
#define SET_KEYS (ASSOC_WAYS + 1)

static struct assoc a;
static char objects[KEYS];

static int begin(void **state)
{
	(void)state;
	a = (struct assoc)ASSOC_INIT;
	return 0;
}

static int end(void **state)
{
	(void)state;
	assoc_clear(&a);
	return 0;
}

static void put(uintptr_t key, void *object)
{
	if (assoc_is_full(&a, key))
		assoc_grow(&a, key);
	assoc_put(&a, key, object);
}

static void nothing_is_found_in_an_empty_one(void **state)
{
	(void)state;
	assert_null(assoc_find(&a, 17));
	assoc_forget(&a, 17);
	assert_true(assoc_is_full(&a, 17));
	assoc_put(&a, 17, objects); /* as if there were no memory */
	assert_null(assoc_find(&a, 17));
	assoc_clear(&a);
	assert_null(assoc_find(&a, 0));
	put(17, objects);
	assert_ptr_equal(assoc_find(&a, 17), objects);
	assoc_clear(&a);
	assert_null(assoc_find(&a, 17));
}

/* QPNs one after the other, addresses, and any: as many as a program has. */
static uintptr_t some_key(int kind, uintptr_t i)
{
	switch (kind) {
	case 0: return 0x11 + i;
	case 1: return 0x7f0012345610 + i * 0x170;
	case 2: return 0x7f0000000000 + i * 4096;
	}
	return (i + 1) * 0x9e3779b97f4a7c15;
}

static void all_are_found(void **state)
{
	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		for (uintptr_t i = 0; i < KEYS; i++)
			put(some_key(kind, i), objects + i);
		for (uintptr_t i = 0; i < KEYS; i++)
			assert_ptr_equal(assoc_find(&a, some_key(kind, i)), objects + i);
		assert_null(assoc_find(&a, some_key(kind, KEYS)));
		for (uintptr_t i = 0; i < KEYS; i += 2)
			assoc_forget(&a, some_key(kind, i));
		for (uintptr_t i = 0; i < KEYS; i++)
			assert_ptr_equal(assoc_find(&a, some_key(kind, i)),
					 i % 2 ? objects + i : NULL);
		assoc_clear(&a);
	}
}

/* How many are the first of their set, which is found first? */
static size_t firsts(void)
{
	size_t n = 0;

	for (size_t i = 0; i <= a.mask / sizeof(struct assoc_set); i++)
		n += a.sets[i].way[0].key != ASSOC_FREE;
	return n;
}

static void most_are_the_first_of_their_set(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind += 2)
		for (uintptr_t n = 60; n < KEYS; n *= 2) {
			for (uintptr_t i = 0; i < n; i++)
				put(some_key(kind, i), objects + i);
			assert_true(firsts() >= n * 3 / 4);
			assoc_clear(&a);
		}
}

/* At its largest it takes what it has room for, and has no wish to grow. */
static void it_does_not_grow_for_ever(void **state)
{
	const uintptr_t n = 3 * ASSOC_SETS_MAX;
	size_t found = 0;

	(void)state;
	for (uintptr_t i = 0; i < n; i++)
		put(some_key(0, i), objects + i % KEYS);
	assert_int_equal(a.mask / sizeof(struct assoc_set) + 1, ASSOC_SETS_MAX);
	for (uintptr_t i = 0; i < n; i++) {
		char *object = assoc_find(&a, some_key(0, i));

		assert_true(!object || object == objects + i % KEYS);
		found += object != NULL;
	}
	assert_true(found > n * 3 / 4);
	for (uintptr_t i = 0; i < n; i++)
		assoc_forget(&a, some_key(0, i));
	assert_int_equal(firsts(), 0);
	assert_false(assoc_is_full(&a, 17));
}

static bool no_memory;

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	return no_memory ? NULL : __real_aligned_alloc(align, bytes);
}

static void without_memory_it_stays_as_it_is(void **state)
{
	const size_t ways = 4 * ASSOC_WAYS;
	size_t found = 0;

	(void)state;
	no_memory = true;
	put(0x11, objects);
	assert_null(assoc_find(&a, 0x11));
	no_memory = false;
	put(0x11, objects);
	no_memory = true;
	for (uintptr_t i = 1; i < KEYS; i++) {
		put(0x11 + i, objects + i);
		assert_ptr_equal(assoc_find(&a, 0x11 + i), objects + i);
	}
	no_memory = false;
	for (uintptr_t i = 0; i < KEYS; i++)
		found += assoc_find(&a, 0x11 + i) != NULL;
	assert_int_equal(found, ways);
	put(0x10, objects);
	assert_true(a.mask / sizeof(struct assoc_set) + 1 > 4);
}

/* 64 QPs fit into what a first-level cache holds without being felt. */
static void it_stays_small(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		for (uintptr_t i = 0; i < 64; i++)
			put(some_key(kind, i), objects + i);
		assert_true(a.mask + sizeof(struct assoc_set) <= 8192);
		assoc_clear(&a);
	}
}

/* Keys that always meet: the same in the 32 bits that count. */
static void one_gives_way_in_the_end(void **state)
{
	int found = 0;

	(void)state;
	for (uintptr_t i = 0; i < SET_KEYS; i++)
		put(i << 32 | 0x440, objects + i);
	for (uintptr_t i = 0; i < SET_KEYS; i++) {
		void *object = assoc_find(&a, i << 32 | 0x440);

		assert_true(!object || object == objects + i);
		found += object != NULL;
	}
	assert_int_equal(found, ASSOC_WAYS);
	assert_ptr_equal(assoc_find(&a, (uintptr_t)(SET_KEYS - 1) << 32 | 0x440),
			 objects + SET_KEYS - 1);
	for (uintptr_t i = 0; i < SET_KEYS; i++) {
		assoc_forget(&a, i << 32 | 0x440);
		assert_null(assoc_find(&a, i << 32 | 0x440));
	}
}

/* 0 is a QPN like others: nobody puts it, but a NIC may name it. */
static void a_free_place_is_nobodys(void **state)
{
	(void)state;
	for (uintptr_t i = 1; i < 10; i++)
		put(i, objects + i);
	for (uintptr_t i = 1; i < 10; i++)
		assoc_forget(&a, i);
	for (uintptr_t i = 0; i < 10; i++)
		assert_null(assoc_find(&a, i));
	put(0, objects);
	assert_ptr_equal(assoc_find(&a, 0), objects);
}

/* QPs come and go: the table stays as large as those that live need. */
static void what_was_forgotten_needs_no_room(void **state)
{
	(void)state;
	for (uintptr_t i = 1; i < 100 * KEYS; i++) {
		put(i, objects);
		assoc_forget(&a, i);
	}
	assert_true(a.mask < 64 * sizeof(struct assoc_set));
}

/* A key that is put again after it was forgotten has its new object, and one place. */
static void a_key_comes_again(void **state)
{
	(void)state;
	put(0x30, objects);
	assoc_forget(&a, 0x30);
	put(0x30, objects + 1);
	assert_ptr_equal(assoc_find(&a, 0x30), objects + 1);
	assoc_forget(&a, 0x30);
	assert_null(assoc_find(&a, 0x30));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool stop;
static _Atomic uintptr_t asked, answered;

static void *forget_what_is_asked(void *arg)
{
	uintptr_t key;

	(void)arg;
	while (!atomic_load(&stop)) {
		key = atomic_load(&asked);
		pthread_mutex_lock(&lock);
		assoc_forget(&a, key);
		pthread_mutex_unlock(&lock);
		atomic_store(&answered, key);
	}
	return NULL;
}

/* As gate_forget() does: what is not forgotten is not lost, while the table grows. */
static void another_thread_makes_it_forget(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&asked, 1);
	pthread_create(&thread, NULL, forget_what_is_asked, NULL);
	for (uintptr_t i = 2; i < KEYS; i++) {
		if (assoc_is_full(&a, i)) {
			pthread_mutex_lock(&lock);
			assoc_grow(&a, i);
			pthread_mutex_unlock(&lock);
		}
		assoc_put(&a, i, objects + i);
		if (i % 3)
			continue;
		atomic_store(&asked, i);
		while (atomic_load(&answered) != i)
			;
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	for (uintptr_t i = 2; i < KEYS; i++)
		assert_ptr_equal(assoc_find(&a, i), i % 3 ? objects + i : NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_found_in_an_empty_one), TEST(all_are_found),
		TEST(most_are_the_first_of_their_set),	TEST(it_does_not_grow_for_ever),
		TEST(without_memory_it_stays_as_it_is), TEST(it_stays_small),
		TEST(one_gives_way_in_the_end),		TEST(a_free_place_is_nobodys),
		TEST(what_was_forgotten_needs_no_room), TEST(a_key_comes_again),
		TEST(another_thread_makes_it_forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
