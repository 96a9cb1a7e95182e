/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The report of a run: of processes that ended well, that crashed, and of files that are none. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "lib/stats/report.h"
#include "tests/unit/stats_world.h"

static char dir[128];

static int begin(void **state)
{
	world_begin(state);
	snprintf(dir, sizeof(dir), "%s/report", world_dir);
	return mkdir(dir, 0700);
}

static int end(void **state)
{
	report_remove(dir, "job");
	return world_end(state);
}

/* A process with two connections, of which one fails over and back; crash: it is killed then. */
static void live(const char *report_dir, bool crash)
{
	static const struct stats_srq_state srq = {.room = 15, .posted = 3};
	const char *nic = "mlx5_0";
	struct world_conn a, b;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (stats_open("job", 7, report_dir))
			_exit(1);
		a = world_conn(17);
		b = world_conn(18);
		stats_conn_fault(a.slot, 900, 900);
		world_move(&a, SHIFT_R_LINK_DOWN, 1, 1000);
		world_move(&a, SHIFT_R_FAIL_BACK, 0, 50000);
		a.stats.at_least_once = 1;
		a.stats.maybe_twice = 2;
		stats_conn_update(a.slot, &a.view, &a.stats, 60000);
		stats_conn_psn(a.slot, 1, STATS_PSN_STALE);
		stats_conn_remove(b.slot, 70000);
		stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
		stats_srq_update(stats_srq_add(1, &nic, 15), &srq);
		if (crash)
			raise(SIGKILL);
		stats_close(NULL, 0);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, crash ? SIGKILL : 0);
}

static cJSON *report(int status, char *line, size_t bytes)
{
	static char program[] = "ib_write_bw", option[] = "a \"quoted\" word";
	static char hostile[] = "\033[2J\xc2\x9b\x9b";
	char *const command[] = {program, option, hostile, NULL};
	struct report_run run = {.job = "job", .command = command, .status = status};
	struct report *r = report_read(dir, &run);
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	cJSON *o;

	assert_non_null(r);
	report_summary(r, line, bytes);
	assert_int_equal(report_write(r, f), 0);
	fclose(f);
	report_free(r);
	o = cJSON_Parse(text);
	assert_non_null(o);
	for (const char *p = text; *p; p++)
		assert_true((*p >= ' ' && *p <= '~') || *p == '\n' || *p == '\t');
	free(text);
	return o;
}

/* By a path of names and indexes: "processes.0.pid". */
static const cJSON *at(const cJSON *o, const char *path)
{
	char copy[128], *save, *word;

	snprintf(copy, sizeof(copy), "%s", path);
	for (word = strtok_r(copy, ".", &save); word && o; word = strtok_r(NULL, ".", &save))
		o = cJSON_IsArray(o) ? cJSON_GetArrayItem(o, atoi(word))
				     : cJSON_GetObjectItem(o, word);
	if (!o)
		fail_msg("no %s", path);
	return o;
}

static double number(const cJSON *o, const char *path)
{
	assert_true(cJSON_IsNumber(at(o, path)));
	return at(o, path)->valuedouble;
}

static const char *string(const cJSON *o, const char *path)
{
	assert_true(cJSON_IsString(at(o, path)));
	return at(o, path)->valuestring;
}

static void a_run_that_ended_well(void **state)
{
	char line[256];
	cJSON *o;

	(void)state;
	live(dir, false);
	live("/nowhere", true); /* another run's */
	o = report(3 << 8, line, sizeof(line));
	assert_string_equal(line, "1 connection moved 2 times (1 failover, 1 fail-back), longest "
				  "outage 0.0 ms, 2 requests in doubt");
	assert_string_equal(string(o, "summary"), line);
	assert_int_equal(number(o, "schema_version"), 1);
	assert_string_equal(string(o, "command.1"), "a \"quoted\" word");
	assert_string_equal(string(o, "command.2"), "\033[2J\xc2\x9b\xef\xbf\xbd");
	assert_int_equal(number(o, "exit_status"), 3);
	assert_true(cJSON_IsNull(at(o, "signal")));
	assert_int_equal(cJSON_GetArraySize(at(o, "processes")), 1);
	assert_string_equal(string(o, "processes.0.life"), "ended");
	assert_int_equal(number(o, "totals.connections"),
			 3); /* each is protected or has a reason */
	assert_int_equal(number(o, "totals.protected"), 2);
	assert_int_equal(number(o, "totals.unprotected.SRQ"), 1);
	assert_int_equal(number(o, "totals.counters.at_least_once"), 1);
	assert_int_equal(number(o, "totals.in_doubt"), 2);
	assert_int_equal(number(o, "totals.shared_receive_queues.ever"), 1);
	assert_int_equal(number(o, "processes.0.shared_receive_queues.0.posted"), 3);
	assert_string_equal(string(o, "processes.0.connections.0.rails.1.rq_psn"), "stale");
	assert_string_equal(string(o, "processes.0.switches.0.cause"), "LINK_DOWN");
	assert_string_equal(string(o, "processes.0.switches.0.to.nic"), "mlx5_1");
	assert_float_equal(number(o, "processes.0.switches.0.outage_us"), 1.45, 1e-9);
	assert_float_equal(number(o, "processes.0.switches.0.phases_us.detect"), 0.1, 1e-9);
	assert_float_equal(number(o, "processes.0.switches.0.phases_us.handshake"), 1.0, 1e-9);
	assert_true(cJSON_IsNull(at(o, "processes.0.switches.1.phases_us.detect")));
	assert_int_equal(cJSON_GetArraySize(at(o, "processes.0.events")), 10);
	assert_int_equal(number(o, "processes.0.events_lost"), 0);
	assert_int_equal(cJSON_GetArraySize(at(o, "unreadable")), 0);
	cJSON_Delete(o);
}

static void one_that_crashed_is_found(void **state)
{
	char line[256];
	cJSON *o;

	(void)state;
	live(dir, false);
	live(dir, true);
	o = report(SIGKILL, line, sizeof(line));
	assert_non_null(strstr(line, "2 connections moved 4 times"));
	assert_non_null(strstr(line, ", 1 process ended without a goodbye"));
	assert_string_equal(string(o, "signal"), "SIGKILL");
	assert_true(cJSON_IsNull(at(o, "exit_status")));
	assert_int_equal(number(o, "crashed"), 1);
	assert_int_equal(cJSON_GetArraySize(at(o, "processes")), 2);
	assert_int_equal(number(o, "totals.failovers"), 2);
	cJSON_Delete(o);
}

static void files_that_are_none(void **state)
{
	char path[256], line[256];
	cJSON *o;

	(void)state;
	snprintf(path, sizeof(path), "%s/1-2.stats", dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	o = report(0, line, sizeof(line));
	assert_string_equal(line, "");
	assert_int_equal(cJSON_GetArraySize(at(o, "processes")), 0);
	assert_string_equal(string(o, "unreadable.0.file"), path);
	cJSON_Delete(o);
}

/* Only shift-kvd may remove the files of killed processes. */
static int sweep(void **state)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -r '%s/job'", world_dir);
	assert_int_equal(system(command), 0);
	return end(state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_run_that_ended_well, begin, sweep),
		cmocka_unit_test_setup_teardown(one_that_crashed_is_found, begin, sweep),
		cmocka_unit_test_setup_teardown(files_that_are_none, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
