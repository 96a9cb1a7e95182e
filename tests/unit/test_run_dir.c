/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The run directory: where it is, whose names are jobs, how long it may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "kv/client.h"
#include "lib/base/run_dir.h"

static void test_places(void **state)
{
	char path[128], expected[128] = "/run/shift";

	(void)state;
	setenv("SHIFT_RUN_DIR", "/x/y", 1);
	setenv("XDG_RUNTIME_DIR", "/xdg", 1);
	assert_int_equal(run_dir_path(path, sizeof(path)), 0);
	assert_string_equal(path, "/x/y");
	setenv("SHIFT_RUN_DIR", "", 1);
	assert_int_equal(run_dir_path(path, sizeof(path)), 0);
	assert_string_equal(path, geteuid() ? "/xdg/shift" : "/run/shift");
	unsetenv("XDG_RUNTIME_DIR");
	if (geteuid())
		snprintf(expected, sizeof(expected), "/tmp/shift-%u", geteuid());
	assert_int_equal(run_dir_path(path, sizeof(path)), 0);
	assert_string_equal(path, expected);
}

static void test_jobs(void **state)
{
	char path[128], job[RUN_DIR_JOB_MAX + 2];

	(void)state;
	setenv("SHIFT_RUN_DIR", "/x", 1);
	assert_int_equal(run_dir_of_job(path, sizeof(path), "a.b-c_1"), 0);
	assert_string_equal(path, "/x/a.b-c_1");
	assert_int_equal(kv_socket_path(path, sizeof(path), "a.b-c_1"), 0);
	assert_string_equal(path, "/x/a.b-c_1/kvd.sock");
	assert_int_equal(run_dir_of_job(path, sizeof(path), "../a"), -EINVAL);
	memset(job, 'j', sizeof(job));
	job[sizeof(job) - 1] = 0;
	assert_int_equal(run_dir_of_job(path, sizeof(path), job), -EINVAL);
	job[RUN_DIR_JOB_MAX] = 0;
	assert_int_equal(run_dir_of_job(path, sizeof(path), job), 0);
}

/* The longest directory is the one in which kvd.sock is still the address of a socket. */
static void test_too_long(void **state)
{
	const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/j/kvd.sock");
	char path[256], dir[256];

	(void)state;
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[most + 1] = 0;
	setenv("SHIFT_RUN_DIR", dir, 1);
	assert_int_equal(run_dir_of_job(path, sizeof(path), "j"), -ENAMETOOLONG);
	assert_int_equal(kv_socket_path(path, sizeof(path), "j"), -ENAMETOOLONG);
	dir[most] = 0;
	setenv("SHIFT_RUN_DIR", dir, 1);
	assert_int_equal(run_dir_of_job(path, sizeof(path), "j"), 0);
	assert_int_equal(kv_socket_path(path, sizeof(path), "j"), 0);
	assert_int_equal(strlen(path), sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	assert_int_equal(run_dir_of_job(path, most + 2, "j"), -ENAMETOOLONG);
	assert_int_equal(run_dir_path(path, most), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
