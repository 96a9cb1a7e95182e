/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The rendezvous' client in a process without descriptors: it waits longer each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kv/client.h"

static int errors;

static void count_error(void *arg, int code, const char *text)
{
	(void)arg;
	(void)code;
	errors += strstr(text, "cannot connect: Too many open files") != NULL;
}

static void without_descriptors_it_waits_longer_each_time(void **state)
{
	const struct kv_callbacks callbacks = {.error = count_error};
	struct kv_client *c = kv_client_new("/tmp/no/kvd.sock", "job", 7, &callbacks);
	struct rlimit before, none = {0, 0};
	int attempts = 0, waited_ms = 0, ms;

	(void)state;
	assert_non_null(c);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (; waited_ms < 500 && attempts < 100; attempts++) {
		kv_client_process(c);
		ms = kv_client_poll_timeout_ms(c);
		if (ms <= 0)
			continue;
		usleep((useconds_t)ms * 1000);
		waited_ms += ms;
	}
	setrlimit(RLIMIT_NOFILE, &before);
	assert_in_range(attempts, 2, 8);
	assert_int_equal(errors, 1); /* said once */
	kv_client_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_descriptors_it_waits_longer_each_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
