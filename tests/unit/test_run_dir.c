/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The run directory: where it is, whose names are jobs, how long it may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "kv/client.h"
#include "lib/base/run_dir.h"

static void test_places(void **state)
{
	char path[128];

	(void)state;
	setenv("SHIFT_RUN_DIR", "/x/y", 1);
	setenv("XDG_RUNTIME_DIR", "/xdg", 1);
	assert_int_equal(run_dir_path(path, sizeof(path)), 0);
	assert_string_equal(path, "/x/y");
	setenv("SHIFT_RUN_DIR", "", 1);
	assert_int_equal(run_dir_path(path, sizeof(path)), 0);
	if (!geteuid())
		assert_string_equal(path, "/run/shift");
	unsetenv("SHIFT_RUN_DIR");
}

enum { OTHER = 59873 };

static char xdg[] = "/tmp/test_run_dir.XXXXXX";

static void make_dir(const char *path, uid_t owner, mode_t mode)
{
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chown(path, owner, owner), 0);
	assert_int_equal(chmod(path, mode), 0);
}

/* What another user gets; "": nothing. */
static const char *place_of_other(void)
{
	static char path[128];

	assert_int_equal(seteuid(OTHER), 0);
	if (run_dir_path(path, sizeof(path)))
		*path = 0;
	assert_int_equal(seteuid(0), 0);
	return path;
}

static int begin_as_root(void **state)
{
	(void)state;
	unsetenv("SHIFT_RUN_DIR");
	unsetenv("XDG_RUNTIME_DIR");
	strcpy(xdg + strlen(xdg) - 6, "XXXXXX");
	if (geteuid())
		return 0;
	assert_non_null(mkdtemp(xdg));
	assert_int_equal(chown(xdg, OTHER, OTHER), 0);
	return 0;
}

static int end_as_root(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s/shift", xdg);
	remove(path);
	remove(xdg);
	remove("/tmp/shift-59873");
	remove("/var/tmp/shift-59873");
	unsetenv("XDG_RUNTIME_DIR");
	return 0;
}

static bool is_root(void)
{
	if (geteuid())
		puts("skipped: needs root, to be two users");
	return !geteuid();
}

static void what_another_user_made_keeps_nobody_out(void **state)
{
	(void)state;
	if (!is_root())
		return;
	assert_string_equal(place_of_other(), "/tmp/shift-59873");
	make_dir("/tmp/shift-59873", 0, 0755);
	assert_string_equal(place_of_other(), "/var/tmp/shift-59873");
	make_dir("/var/tmp/shift-59873", 1, 0777);
	assert_string_equal(place_of_other(), "");
	/* Its own, but others may write there. */
	assert_int_equal(chown("/tmp/shift-59873", OTHER, OTHER), 0);
	assert_int_equal(chmod("/tmp/shift-59873", 0777), 0);
	assert_string_equal(place_of_other(), "");
	assert_int_equal(chmod("/tmp/shift-59873", 0755), 0);
	assert_string_equal(place_of_other(), "/tmp/shift-59873");
	remove("/tmp/shift-59873");
	/* A link to a directory of its own is somebody else's link. */
	assert_int_equal(symlink(xdg, "/tmp/shift-59873"), 0);
	assert_string_equal(place_of_other(), "");
}

static void the_one_that_is_there_wins(void **state)
{
	char own[64];

	(void)state;
	if (!is_root())
		return;
	snprintf(own, sizeof(own), "%s/shift", xdg);
	make_dir("/var/tmp/shift-59873", OTHER, 0700);
	assert_string_equal(place_of_other(), "/var/tmp/shift-59873");
	setenv("XDG_RUNTIME_DIR", xdg, 1);
	assert_string_equal(place_of_other(), "/var/tmp/shift-59873");
	remove("/var/tmp/shift-59873");
	assert_string_equal(place_of_other(), own);
	/* A relative one is ignored, also where it leads to a place that would do. */
	assert_int_equal(chdir("/"), 0);
	setenv("XDG_RUNTIME_DIR", xdg + 1, 1);
	assert_string_equal(place_of_other(), "/tmp/shift-59873");
	setenv("XDG_RUNTIME_DIR", xdg, 1);
	make_dir("/tmp/shift-59873", OTHER, 0700);
	make_dir(own, OTHER, 0700);
	assert_string_equal(place_of_other(), own);
	/* Others may replace what is in it. */
	assert_int_equal(chmod(xdg, 0777), 0);
	assert_string_equal(place_of_other(), "/tmp/shift-59873");
	assert_int_equal(chown(xdg, 1, 1), 0);
	assert_int_equal(chmod(xdg, 0755), 0);
	assert_string_equal(place_of_other(), "/tmp/shift-59873");
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
		cmocka_unit_test_setup_teardown(what_another_user_made_keeps_nobody_out,
						begin_as_root, end_as_root),
		cmocka_unit_test_setup_teardown(the_one_that_is_there_wins, begin_as_root,
						end_as_root),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
