/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where statistics are looked for, and how much is spent on what another user made: as root. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/stats/places.h"

enum { USER = 59871, OTHER_USER = 59872 };

static char dir[64];

static struct seen {
	size_t calls, of_root, of_user, of_other;
	size_t keep_bytes;
	unsigned int sleep_ms;
} seen;

static bool see_file(void *arg, const struct stats_place *place)
{
	struct timespec t = {.tv_sec = seen.sleep_ms / 1000,
			     .tv_nsec = seen.sleep_ms % 1000 * 1000000L};

	(void)arg;
	seen.calls++;
	seen.of_root += !place->owner;
	seen.of_user += place->owner == USER;
	seen.of_other += place->owner == OTHER_USER;
	*place->kept_bytes += seen.keep_bytes;
	if (place->owner == USER && seen.sleep_ms)
		nanosleep(&t, NULL);
	return true;
}

static int begin(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	strcpy(dir, "/tmp/test_places.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 01777), 0);
	return setenv("SHIFT_RUN_DIR", dir, 1);
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* Files, and the sockets beside them, from number 1 on. */
static void make_job(const char *job, uid_t owner, int files)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, job);
	assert_int_equal(mkdir(path, 0700), 0);
	for (int i = 1; i <= 2 * files; i++) {
		snprintf(path, sizeof(path), "%s/%s/%d.%s", dir, job, (i + 1) / 2,
			 i % 2 ? "stats" : "sock");
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	snprintf(path, sizeof(path), "%s/%s", dir, job);
	assert_int_equal(chown(path, owner, owner), 0);
}

static bool is_root(void)
{
	if (!geteuid())
		return true;
	puts("skipped: needs root, to be several users");
	return false;
}

/* The sockets beside the files do not count. */
static void a_job_of_a_thousand_processes_is_found_whole(void **state)
{
	struct stats_cut cut;

	(void)state;
	if (!is_root())
		return;
	make_job("job", USER, 1000);
	assert_int_equal(stats_each(NULL, 0, see_file, NULL, &cut), 1000);
	assert_int_equal(cut.users, 0);
	assert_int_equal(cut.err, 0);
}

static void of_another_user_some_files_in_all_jobs_together(void **state)
{
	struct stats_cut cut;
	char job[16];

	(void)state;
	if (!is_root())
		return;
	for (int i = 0; i < 10; i++) {
		snprintf(job, sizeof(job), "j%d", i);
		make_job(job, USER, 500);
	}
	make_job("a", 0, 3);
	make_job("z", OTHER_USER, 20);
	stats_each(NULL, 0, see_file, NULL, &cut);
	assert_int_equal(seen.of_user, STATS_OTHERS_NAMES - 10); /* directories count too */
	assert_int_equal(seen.of_root, 3);
	assert_int_equal(seen.of_other, 20);
	assert_int_equal(cut.users, 1);
	assert_int_equal(cut.uid[0], USER);
}

static void directories_alone_do_not_hide_others(void **state)
{
	struct stats_cut cut;
	char path[128];

	(void)state;
	if (!is_root())
		return;
	for (int i = 0; i < STATS_OTHERS_NAMES + 100; i++) {
		snprintf(path, sizeof(path), "%s/a%d", dir, i);
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(chown(path, USER, USER), 0);
	}
	make_job("z", OTHER_USER, 1);
	assert_int_equal(stats_each(NULL, 0, see_file, NULL, &cut), 1);
	assert_int_equal(seen.of_other, 1);
	assert_int_equal(cut.users, 1);
}

static void memory_is_limited(void **state)
{
	struct stats_cut cut;

	(void)state;
	if (!is_root())
		return;
	seen.keep_bytes = STATS_OTHERS_BYTES / 10;
	make_job("a", 0, 30);
	make_job("j", USER, 30);
	make_job("k", USER, 30);
	make_job("z", OTHER_USER, 2);
	stats_each(NULL, 0, see_file, NULL, &cut);
	assert_in_range(seen.of_user, 10, 11);
	assert_int_equal(seen.of_root, 30);
	assert_int_equal(seen.of_other, 2);
	assert_int_equal(cut.users, 1);
	assert_int_equal(cut.uid[0], USER);
}

static void time_is_limited(void **state)
{
	struct stats_cut cut;

	(void)state;
	if (!is_root())
		return;
	seen.sleep_ms = STATS_OTHERS_MS / 4;
	make_job("j", USER, 10);
	make_job("k", USER, 10);
	make_job("z", OTHER_USER, 2);
	stats_each(NULL, 0, see_file, NULL, &cut);
	assert_in_range(seen.of_user, 1, 4);
	assert_int_equal(seen.of_other, 2);
	assert_int_equal(cut.users, 1);
}

static void no_descriptor_is_said(void **state)
{
	struct rlimit was, none;
	struct stats_cut cut;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	make_job("j", geteuid(), 3);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	stats_each(NULL, 0, see_file, NULL, &cut);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(cut.err, -EMFILE);
	assert_int_equal(stats_each(NULL, 0, see_file, NULL, &cut), 3);
	assert_int_equal(cut.err, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_job_of_a_thousand_processes_is_found_whole),
		TEST(of_another_user_some_files_in_all_jobs_together),
		TEST(directories_alone_do_not_hide_others),
		TEST(memory_is_limited),
		TEST(time_is_limited),
		TEST(no_descriptor_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
