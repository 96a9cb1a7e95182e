// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* lib/base/rail_list.c, sysfs.c and env.c: who backs up whom, and what the environment says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/env.h"
#include "lib/base/log.h"
#include "lib/base/rail_list.h"
#include "lib/base/sysfs.h"

#define MAX 8

static void compares_numbers_as_numbers(void **state)
{
	(void)state;
	assert_true(rails_compare("mlx5_2", "mlx5_10") < 0);
	assert_true(rails_compare("mlx5_10", "mlx5_2") > 0);
	assert_int_equal(rails_compare("mlx5_3", "mlx5_3"), 0);
	assert_true(rails_compare("mlx4_9", "mlx5_0") < 0);
	assert_true(rails_compare("mlx5", "mlx5_0") < 0);
	assert_true(rails_compare("bnxt_re1", "mlx5_0") < 0);
	assert_true(rails_compare("rocep1s0f0", "rocep1s0f1") < 0);
	assert_true(rails_compare("", "a") < 0);
}

static void knows_a_list_when_it_sees_one(void **state)
{
	const char *good[] = {"auto", "a=b", "mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_0", "a=b,b=a"};
	const char *bad[] = {"",      "Auto",	"a",	  "a=",	    "=b",    "a=b,",
			     ",a=b",  "a=b++c", "a=+b",	  "a=b+",   "a=b=c", "a=b c",
			     "a,b=c", "a+b=c",	"a=../b", "a=b;c=d"};
	char name[80] = "a=";

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(rails_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(rails_valid(bad[i]));
	memset(name + 2, 'x', RAIL_NAME_MAX - 1);
	assert_true(rails_valid(name));
	name[RAIL_NAME_MAX + 1] = 'x';
	assert_false(rails_valid(name));
}

static void takes_backups_from_a_list(void **state)
{
	const char *list = "mlx5_1=x,mlx5_10=y+mlx5_1+z,mlx5_0=last";
	char names[MAX][64];

	(void)state;
	assert_int_equal(rails_listed(list, "mlx5_1", names, MAX), 1);
	assert_string_equal(names[0], "x");
	assert_int_equal(rails_listed(list, "mlx5_10", names, MAX), 3);
	assert_string_equal(names[0], "y");
	assert_string_equal(names[1], "mlx5_1");
	assert_string_equal(names[2], "z");
	assert_int_equal(rails_listed(list, "mlx5_10", names, 2), 2);
	assert_int_equal(rails_listed(list, "mlx5_10", names, 0), 0);
	assert_int_equal(rails_listed(list, "mlx5_0", names, MAX), 1);
	assert_int_equal(rails_listed(list, "mlx5_2", names, MAX), 0);
	assert_int_equal(rails_listed(list, "mlx5_", names, MAX), 0);
	assert_int_equal(rails_listed(list, "x", names, MAX), 0);
}

static void expect_auto(struct rail_device *devices, unsigned int n, const char *device,
			const char *expected)
{
	char names[MAX][64], text[512] = "";
	unsigned int found = rails_auto(devices, n, device, names, MAX);

	for (unsigned int i = 0; i < found; i++) {
		strcat(text, names[i]);
		strcat(text, " ");
	}
	assert_string_equal(text, expected);
}

static void goes_round_by_name(void **state)
{
	struct rail_device devices[] = {
		{"mlx5_10", -1, RAIL_ETHERNET},
		{"mlx5_2", -1, RAIL_ETHERNET},
		{"mlx5_0", -1, RAIL_ETHERNET},
	};

	(void)state;
	expect_auto(devices, 3, "mlx5_0", "mlx5_2 mlx5_10 ");
	expect_auto(devices, 3, "mlx5_2", "mlx5_10 mlx5_0 ");
	expect_auto(devices, 3, "mlx5_10", "mlx5_0 mlx5_2 ");
	expect_auto(devices, 3, "mlx5_1", "");
	expect_auto(devices, 1, "mlx5_0", "mlx5_0 "); /* a second QP on the same NIC */
	expect_auto(devices, 0, "mlx5_0", "");
}

static void prefers_its_node_and_its_kind(void **state)
{
	struct rail_device devices[] = {
		{"mlx5_0", 0, RAIL_ETHERNET},
		{"mlx5_1", 1, RAIL_ETHERNET},
		{"mlx5_2", 0, RAIL_ETHERNET},
		{"mlx5_3", 1, RAIL_ETHERNET},
		{"mlx5_4", 0, RAIL_INFINIBAND},
		{"mlx5_5", 0, RAIL_INFINIBAND | RAIL_ETHERNET},
		{"mlx5_6", 1, 0},
	};

	(void)state;
	expect_auto(devices, 7, "mlx5_0", "mlx5_2 mlx5_5 mlx5_1 mlx5_3 ");
	expect_auto(devices, 7, "mlx5_3", "mlx5_1 mlx5_5 mlx5_0 mlx5_2 ");
	expect_auto(devices, 7, "mlx5_4", "mlx5_5 ");
	expect_auto(devices, 7, "mlx5_6", "mlx5_6 ");
}

static void put(const char *root, const char *dir, const char *file, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "mkdir -p %s/%s", root, dir);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof(path), "%s/%s/%s", root, dir, file);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void reads_sysfs(void **state)
{
	char root[] = "/tmp/shift-env-XXXXXX", command[64];
	struct rail_device devices[MAX];
	char names[MAX][64];

	(void)state;
	assert_non_null(mkdtemp(root));
	put(root, "mlx5_0/ports/1", "link_layer", "Ethernet\n");
	put(root, "mlx5_0/device", "numa_node", "1\n");
	put(root, "mlx5_1/ports/1", "link_layer", "InfiniBand\n");
	put(root, "mlx5_1/ports/2", "link_layer", "Ethernet\n");
	assert_int_equal(sysfs_devices(root, devices, MAX), 2);
	assert_int_equal(rails_auto(devices, 2, "mlx5_0", names, MAX), 1);
	assert_string_equal(devices[0].name, "mlx5_0");
	assert_int_equal(devices[0].numa_node, 1);
	assert_int_equal(devices[0].link_layers, RAIL_ETHERNET);
	assert_int_equal(devices[1].numa_node, -1);
	assert_int_equal(devices[1].link_layers, RAIL_ETHERNET | RAIL_INFINIBAND);
	assert_int_equal(sysfs_devices(root, devices, 1), 1);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
	assert_int_equal(sysfs_devices(root, devices, MAX), 0);
}

static void set_all(void)
{
	static const char *const variables[][2] = {
		{"SHIFT_JOB", "job"},
		{"SHIFT_RAILS", "a=b"},
		{"SHIFT_GIVE_UP_MS", "1500"},
		{"SHIFT_FAILBACK", "manual"},
		{"SHIFT_LOG", "error"},
		{"SHIFT_REPORT_DIR", "/r"},
		{"SHIFT_SUMMARY", "0"},
		{"SHIFT_EXACTLY_ONCE", "0"},
		{"SHIFT_LOST_ATOMIC", "continue"},
		{"SHIFT_ATOMICS", "move"},
		{"SHIFT_PROBES", "yes"},
		{"SHIFT_LINK_EVENTS", ""},
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		setenv(variables[i][0], variables[i][1], 1);
}

static void reads_the_environment_once(void **state)
{
	(void)state;
	assert_string_equal(env.rails, "auto");
	set_all();
	env_read();
	setenv("SHIFT_JOB", "other", 1);
	env_read();
	assert_string_equal(env.job, "job");
	assert_string_equal(env.rails, "a=b");
	assert_int_equal(env.giveup_ns, 1500 * 1000000ULL);
	assert_int_equal(env.failback, FAILBACK_MANUAL);
	assert_int_equal(env.log_level, LOG_ERROR);
	assert_string_equal(env.report_dir, "/r");
	assert_false(env.summary);
	assert_false(env.exactly_once);
	assert_true(env.lost_atomic_continue);
	assert_true(env.atomics_move);
	assert_true(env.probes); /* malformed */
	assert_true(env.link_events);
	assert_int_equal(env_backups("a", (char[1][64]){""}, 1), 1);
	assert_int_equal(env_backups("b", (char[1][64]){""}, 1), 0);
}

static void the_log_is_printable(void **state)
{
	char path[] = "/tmp/test_env.XXXXXX", text[256] = "";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	snprintf(env.log_file, sizeof(env.log_file), "%s", path);
	log_always("shift-kvd: %s", "\033[2Jx\n\x9by");
	*env.log_file = 0;
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "]: shift-kvd: \\x1b[2Jx\\x0a\\x9by\n"));
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compares_numbers_as_numbers),
		cmocka_unit_test(knows_a_list_when_it_sees_one),
		cmocka_unit_test(takes_backups_from_a_list),
		cmocka_unit_test(goes_round_by_name),
		cmocka_unit_test(prefers_its_node_and_its_kind),
		cmocka_unit_test(reads_sysfs),
		cmocka_unit_test(reads_the_environment_once),
		cmocka_unit_test(the_log_is_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
