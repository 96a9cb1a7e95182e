/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The statistics file: how it is written, and what remains of it when its process ends. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/stats/read.h"
#include "lib/stats/stats_file.h"
#include "lib/stats/summary.h"
#include "tests/unit/stats_world.h"

static int begin(void **state)
{
	int err = world_begin(state);

	assert_int_equal(stats_open("job", 7, ""), 0);
	return err;
}

static const struct stats_switch *last_switch(void)
{
	uint64_t n = stats_file.h->table[1].written;

	assert_true(n > 0);
	assert_int_equal(stats_file.switches[n - 1].seq, n);
	return stats_file.switches + n - 1;
}

static void a_failover_and_where_its_time_went(void **state)
{
	struct world_conn c = world_conn(17);
	const struct stats_switch *s;

	(void)state;
	stats_conn_fault(c.slot, 950, 950);
	stats_conn_fault(c.slot, 900, 900);
	stats_conn_fault(c.slot, 990, 990);
	world_move(&c, SHIFT_R_LINK_DOWN, 1, 1000);
	s = last_switch();
	assert_int_equal(s->outcome, STATS_COMMITTED);
	assert_int_equal(s->kind, STATS_FAILOVER);
	assert_int_equal(s->cause, SHIFT_R_LINK_DOWN);
	assert_int_equal(s->phase_ns[STATS_PHASE_DETECT], 100);
	assert_int_equal(s->phase_ns[STATS_PHASE_FENCE], 300);
	assert_int_equal(s->phase_ns[STATS_PHASE_ARM], 10);
	assert_int_equal(s->phase_ns[STATS_PHASE_HANDSHAKE], 1000);
	assert_int_equal(s->phase_ns[STATS_PHASE_REPOST], 40);
	assert_int_equal(s->outage_ns, 2350 - 900);
	assert_int_equal(s->proved, 5);
	assert_int_equal(s->replayed, 7);
	assert_int_equal(s->epoch, 1);
	assert_string_equal(s->from_nic, "mlx5_0");
	assert_string_equal(s->nic, "mlx5_1");
	assert_int_equal(stats_file.h->now.outage_max_ns, 1450);
	assert_int_equal(stats_file.h->now.outage_total_ns, 1450);
}

static void requests_of_the_second_switch_alone(void **state)
{
	struct world_conn c = world_conn(17);
	const struct stats_switch *s;

	(void)state;
	world_move(&c, SHIFT_R_PROBES_LOST, 1, 1000);
	world_move(&c, SHIFT_R_FAIL_BACK, 0, 5000);
	s = last_switch();
	assert_int_equal(s->kind, STATS_FAILBACK);
	assert_true(s->planned);
	assert_int_equal(s->proved, 5);
	assert_int_equal(s->from_epoch, 1);
	assert_int_equal(s->outage_ns, 1350);
	assert_int_equal(stats_file.h->now.conns_moved, 1);
	assert_int_equal(stats_file.h->now.committed, 2);
}

static void data_flows_while_a_peer_is_asked(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_PREPARE, SHIFT_R_OPERATOR, 1000);
	world_change(&c, SHIFT_ST_DRAIN, SHIFT_R_PREPARED, 1500);
	world_change(&c, SHIFT_ST_FENCE, SHIFT_R_OPERATOR, 1600);
	world_change(&c, SHIFT_ST_QUARANTINE, SHIFT_R_FENCED, 1700);
	world_change(&c, SHIFT_ST_ARM, SHIFT_R_SETTLED, 1900);
	world_change(&c, SHIFT_ST_SWITCHING, SHIFT_R_ARMED, 1900);
	c.view.r = 1;
	world_change(&c, SHIFT_ST_ACTIVE, SHIFT_R_COMMIT, 2000);
	assert_int_equal(last_switch()->kind, STATS_MIGRATION);
	assert_int_equal(last_switch()->phase_ns[STATS_PHASE_PREPARE], 500);
	assert_int_equal(last_switch()->phase_ns[STATS_PHASE_DRAIN], 100);
	assert_int_equal(last_switch()->phase_ns[STATS_PHASE_WAIT], 200);
	assert_int_equal(last_switch()->outage_ns, 500);
}

static void an_abandoned_one_is_no_outage(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_PREPARE, SHIFT_R_FAIL_BACK, 1000);
	world_change(&c, SHIFT_ST_ACTIVE, SHIFT_R_ABANDONED, 1500);
	assert_int_equal(last_switch()->outcome, STATS_ABANDONED);
	assert_int_equal(last_switch()->outage_ns, 0);
	assert_int_equal(stats_file.h->now.abandoned, 1);
	assert_int_equal(stats_file.h->now.committed, 0);
	stats_conn_reposted(c.slot, 9000);
	assert_int_equal(last_switch()->outage_ns, 0);
}

static void a_fault_overtakes_a_planned_switch(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_PREPARE, SHIFT_R_OPERATOR, 1000);
	world_move(&c, SHIFT_R_CQE_ERROR, 1, 1100);
	assert_false(last_switch()->planned);
	assert_int_equal(last_switch()->cause, SHIFT_R_CQE_ERROR);
	assert_int_equal(last_switch()->kind, STATS_FAILOVER);
}

static void the_peer_began(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_move(&c, SHIFT_R_PEER_SWITCH, 1, 1000);
	assert_true(last_switch()->joined);
	assert_int_equal(last_switch()->kind, STATS_FAILOVER);
}

/* The peer's switch, after both have agreed. */
static void a_planned_one_is_joined(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_DRAIN, SHIFT_R_PREPARED, 1000);
	c.view.planned = true;
	world_move(&c, SHIFT_R_PEER_SWITCH, 1, 1100);
	assert_true(last_switch()->joined);
	assert_true(last_switch()->planned);
	assert_int_equal(last_switch()->kind, STATS_MIGRATION);
	assert_int_equal(stats_file.h->now.failovers, 0);
}

/* Both had agreed, or this end had asked; but what the peer began is something else. */
static void an_unplanned_one_overtakes(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_PREPARE, SHIFT_R_OPERATOR, 1000);
	world_move(&c, SHIFT_R_PEER_SWITCH, 1, 1100);
	assert_true(last_switch()->joined);
	assert_false(last_switch()->planned);
	assert_int_equal(last_switch()->kind, STATS_FAILOVER);
}

static void several_attempts_are_one_switch(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_FENCE, SHIFT_R_CQE_ERROR, 1000);
	world_change(&c, SHIFT_ST_ARM, SHIFT_R_FENCED, 1100);
	world_change(&c, SHIFT_ST_SWITCHING, SHIFT_R_ARMED, 1200);
	world_move(&c, SHIFT_R_TIMEOUT, 1, 2000);
	assert_int_equal(stats_file.h->table[1].written, 1);
	assert_int_equal(last_switch()->attempts, 2);
	assert_int_equal(last_switch()->phase_ns[STATS_PHASE_FENCE], 400);
	assert_int_equal(last_switch()->phase_ns[STATS_PHASE_HANDSHAKE], 1800);
	assert_int_equal(last_switch()->outage_ns, 2350);
}

static void given_up(void **state)
{
	struct world_conn c = world_conn(17);
	char line[256];

	(void)state;
	world_change(&c, SHIFT_ST_NO_RAIL, SHIFT_R_NO_RAIL, 1000);
	world_change(&c, SHIFT_ST_GIVEUP, SHIFT_R_GIVEUP_TIME, 5000);
	world_change(&c, SHIFT_ST_DEAD, SHIFT_R_FENCED, 5500);
	assert_int_equal(last_switch()->outcome, STATS_GIVEN_UP);
	assert_int_equal(last_switch()->outage_ns, 4500);
	assert_int_equal(stats_file.h->now.given_up, 1);
	assert_true(stats_close(line, sizeof(line)) > 0);
	assert_string_equal(line, "1 connection given up: no NIC led to the peer in time, "
				  "see --give-up");
}

/* A switch that lost the result of an atomic, and a peer that died without one. */
static void why_it_was_given_up(void **state)
{
	struct world_conn a = world_conn(17), b = world_conn(18), c = world_conn(19);
	char line[256];

	(void)state;
	world_change(&a, SHIFT_ST_FENCE, SHIFT_R_LINK_DOWN, 1000);
	a.stats.lost_atomics = 2;
	world_change(&a, SHIFT_ST_GIVEUP, SHIFT_R_LOST_ATOMIC, 1100);
	world_change(&a, SHIFT_ST_DEAD, SHIFT_R_FENCED, 1200);
	assert_int_equal(last_switch()->ended, SHIFT_R_LOST_ATOMIC);
	world_change(&b, SHIFT_ST_GIVEUP, SHIFT_R_PEER_DIED, 1000);
	world_change(&b, SHIFT_ST_DEAD, SHIFT_R_FENCED, 1100);
	world_change(&c, SHIFT_ST_GIVEUP, SHIFT_R_PEER_DIED, 1000);
	world_change(&c, SHIFT_ST_DEAD, SHIFT_R_FENCED, 1100);
	stats_close(line, sizeof(line));
	assert_string_equal(line, "1 connection given up: the result of an atomic was lost, "
				  "see --lost-atomic; "
				  "2 connections given up: the peer's process is gone or was "
				  "replaced");
}

static void unprotected_ones_that_a_failure_met(void **state)
{
	struct world_conn a = world_conn(17);
	int slot[4];
	char line[512];

	(void)state;
	for (int i = 0; i < 4; i++)
		slot[i] = stats_conn_add(i < 3 ? "mlx5_0" : "mlx5_1", 20, 100);
	stats_conn_protect(slot[0], false, STATS_UNPROTECTED_NO_PEER_LIBRARY);
	stats_conn_protect(slot[1], false, STATS_UNPROTECTED_LOOPBACK);
	stats_conn_protect(slot[3], false, STATS_UNPROTECTED_NO_PEER_LIBRARY);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_NOT_RC);
	stats_nic_met_failure("mlx5_0");
	stats_nic_met_failure("mlx5_0");
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	stats_conn_met_failure(a.slot); /* the program has its errors, as all was given up */
	stats_conn_met_failure(slot[0]);
	stats_conn_met_failure(slot[2]); /* not connected to one of ours yet, but to somebody */
	stats_conn_met_failure(-1);
	stats_close(line, sizeof(line));
	assert_string_equal(
		line, "1 connection met a failure unprotected: not connected yet, or its peer "
		      "has not answered yet; 2 connections met a failure unprotected: receives "
		      "come from a shared receive queue; 1 connection met a failure "
		      "unprotected: the peer runs without shift, or in another job");
}

static void unprotected_ones_without_a_failure_are_not_named(void **state)
{
	char line[256];

	(void)state;
	stats_conn_protect(stats_conn_add("mlx5_0", 20, 100), false, STATS_UNPROTECTED_CQ_EX);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	stats_nic_met_failure("mlx5_1");
	assert_int_equal(stats_close(line, sizeof(line)), 0);
}

/* exit() in the handler of a signal that came while this thread wrote: it must not wait for itself.
 */
static void closed_amid_a_change(void **state)
{
	char line[256];

	(void)state;
	assert_true(stats_lock());
	alarm(10);
	assert_int_equal(stats_close(line, sizeof(line)), 0);
	alarm(0);
	assert_string_equal(line, "");
	stats_unlock();
	assert_non_null(stats_path());
}

static void errors_of_the_program_are_no_switch(void **state)
{
	struct world_conn c = world_conn(17);
	char line[256];

	(void)state;
	world_change(&c, SHIFT_ST_GIVEUP, SHIFT_R_PROGRAM_ERROR, 1000);
	world_change(&c, SHIFT_ST_DEAD, SHIFT_R_FENCED, 1100);
	assert_int_equal(stats_file.h->table[1].written, 0);
	assert_int_equal(stats_file.h->table[0].written, 3);
	assert_int_equal(stats_close(line, sizeof(line)), 0);
	assert_string_equal(line, "");
}

static void removed_amid_a_switch(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	world_change(&c, SHIFT_ST_FENCE, SHIFT_R_CQE_ERROR, 1000);
	stats_conn_remove(c.slot, 1200);
	assert_int_equal(last_switch()->outcome, STATS_CLOSED);
	assert_int_equal(last_switch()->phase_ns[STATS_PHASE_FENCE], 200);
}

static void old_faults_are_forgotten(void **state)
{
	struct world_conn c = world_conn(17);

	(void)state;
	stats_conn_fault(c.slot, 500, 500);
	world_move(&c, SHIFT_R_PROBES_LOST, 1, 61ull * 1000000000);
	assert_int_equal(last_switch()->fault_ns, 0);
	stats_conn_fault(c.slot, 62ull * 1000000000, 62ull * 1000000000);
	stats_conn_fault(c.slot, 0, 62ull * 1000000000);
	world_move(&c, SHIFT_R_PROBES_LOST, 0, 63ull * 1000000000);
	assert_int_equal(last_switch()->fault_ns, 0);
}

/* A probe was missed, and answered or not, requests went on; then, long after, a cable. */
static void a_fault_that_was_over_does_not_count(void **state)
{
	const uint64_t s = 1000000000;
	struct world_conn c = world_conn(17);

	(void)state;
	stats_conn_fault(c.slot, 1 * s, 1 * s);
	world_move(&c, SHIFT_R_CQE_ERROR, 1, 10 * s);
	assert_int_equal(last_switch()->fault_ns, 0);
	assert_int_equal(last_switch()->outage_ns, 1350);
	stats_conn_fault(c.slot, 11 * s, 11 * s);
	stats_conn_fault(c.slot, 20 * s, 20 * s); /* another one */
	world_move(&c, SHIFT_R_PROBES_LOST, 0, 20 * s + 1000);
	assert_int_equal(last_switch()->fault_ns, 20 * s);
	for (uint64_t t = 30 * s; t <= 40 * s; t += s)
		stats_conn_fault(c.slot, 30 * s, t); /* it lasts */
	world_move(&c, SHIFT_R_PROBES_LOST, 1, 41 * s);
	assert_int_equal(last_switch()->fault_ns, 30 * s);
	stats_conn_fault(c.slot, 50 * s, 50 * s); /* a link, and nowhere to go for a while */
	world_move(&c, SHIFT_R_LINK_DOWN, 0, 60 * s);
	assert_int_equal(last_switch()->fault_ns, 50 * s);
}

static void given_up_without_a_try(void **state)
{
	struct world_conn c = world_conn(17);
	char line[256];

	(void)state;
	world_change(&c, SHIFT_ST_GIVEUP, SHIFT_R_PEER_DIED, 1000);
	world_change(&c, SHIFT_ST_DEAD, SHIFT_R_FENCED, 1100);
	assert_int_equal(stats_file.h->table[1].written, 0); /* no switch */
	assert_int_equal(stats_file.h->now.given_up, 1);
	assert_true(stats_close(line, sizeof(line)) > 0);
}

static void slots_are_folded_and_used_again(void **state)
{
	struct world_conn a = world_conn(17), b = world_conn(18), c;
	const struct stats_now *now = &stats_file.h->now;

	(void)state;
	world_move(&a, SHIFT_R_LINK_DOWN, 1, 1000);
	stats_conn_protect(b.slot, false, STATS_UNPROTECTED_OVER);
	stats_conn_remove(a.slot, 5000);
	stats_conn_remove(a.slot, 5000); /* harmless */
	stats_conn_protect(a.slot, false, STATS_UNPROTECTED_OTHER);
	assert_int_equal(now->conns_live, 1);
	assert_int_equal(now->gone, 1);
	assert_int_equal(now->gone_protected, 1);
	assert_int_equal(now->gone_counters.replayed, 7);
	c = world_conn(19);
	assert_int_equal(c.slot, a.slot);
	assert_int_equal(stats_file.conns[c.slot].id, 3);
	assert_int_equal(stats_file.conns[c.slot].moves, 0);
	assert_int_equal(stats_file.conns[c.slot].counters.replayed, 0);
	stats_conn_add("mlx5_0", 20, 6000);
	stats_conn_remove(2, 6100);
	assert_int_equal(now->gone_unprotected[STATS_UNPROTECTED_SETUP], 1);
	assert_int_equal(now->conns_ever, 4);
}

static void a_full_table(void **state)
{
	struct stat st;

	(void)state;
	for (int i = 0; i < STATS_CONNS_MAX; i++)
		assert_int_equal(stats_conn_add("mlx5_0", (uint32_t)i, 1), i);
	assert_int_equal(stats_conn_add("mlx5_0", 1, 1), -1);
	assert_int_equal(stats_file.h->now.conns_refused, 1);
	stats_conn_remove(77, 2);
	assert_int_equal(stats_conn_add("mlx5_0", 1, 3), 77);
	assert_int_equal(stat(stats_path(), &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 >= STATS_CONNS_MAX * sizeof(struct stats_conn));
}

static void a_few_connections_cost_little(void **state)
{
	struct stat st;

	(void)state;
	world_conn(17);
	assert_int_equal(stat(stats_path(), &st), 0);
	assert_true(st.st_blocks * 512 < 600000);
	print_message("# %zu bytes for a connection\n", sizeof(struct stats_conn));
}

/* To write on would raise SIGBUS in a file that was cut, or hit another process's file. */
static void a_file_that_was_taken_away_does_not_grow(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(unlink(stats_path()), 0);
	fd = open(stats_path(), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(stats_conn_add("mlx5_0", 1, 1), -1);
	assert_int_equal(stats_file.h->now.conns_refused, 1);
}

static void qps_without_a_slot(void **state)
{
	const struct stats_bypass *b = stats_file.h->now.bypass;

	(void)state;
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_NOT_RC);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	assert_int_equal(b[0].count, 2);
	assert_int_equal(b[1].count, 1);
	for (int i = 0; i < 100; i++) { /* those that do not fit are left out */
		char nic[32];

		snprintf(nic, sizeof(nic), "a-very-long-name-of-a-nic_%d", i);
		stats_bypass(nic, STATS_UNPROTECTED_SRQ);
	}
	assert_int_equal(strlen(b[2].nic), STATS_NIC_BYTES - 1);
}

static void a_child_of_fork_leaves_it_alone(void **state)
{
	struct world_conn c = world_conn(17);
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		world_move(&c, SHIFT_R_LINK_DOWN, 1, 1000);
		stats_conn_remove(c.slot, 2000);
		if (stats_conn_add("mlx5_0", 18, 1) != -1 || stats_path() ||
		    stats_open("job", 8, "") || stats_close(NULL, 0))
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(access(stats_path(), F_OK), 0);
	assert_int_equal(stats_file.h->table[1].written, 0);
	assert_int_equal(stats_file.h->now.conns_live, 1);
}

static void without_a_file_nothing_happens(void **state)
{
	struct world_conn c;
	char path[128];
	int fd;

	(void)state;
	assert_int_equal(stats_open("../x", 7, ""), -EINVAL);
	snprintf(path, sizeof(path), "%s/file", world_dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	setenv("SHIFT_RUN_DIR", path, 1);
	assert_int_equal(stats_open("job", 7, ""), -ENOTDIR);
	assert_null(stats_path());
	c = world_conn(17);
	assert_int_equal(c.slot, -1);
	world_move(&c, SHIFT_R_LINK_DOWN, 1, 1000);
	stats_conn_update(c.slot, &c.view, &c.stats, 2);
	stats_conn_fault(c.slot, 1, 1);
	stats_conn_psn(c.slot, 0, STATS_PSN_LIVE);
	stats_conn_remove(c.slot, 3);
	stats_bypass("mlx5_0", STATS_UNPROTECTED_SRQ);
	assert_int_equal(stats_close(path, sizeof(path)), 0);
	snprintf(path, sizeof(path), "%s/file", world_dir);
	unlink(path);
}

static void a_directory_open_to_others_is_not_used(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/job", world_dir);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(stats_open("job", 7, ""), -EPERM);
	rmdir(path);
}

static void an_old_file_of_our_number_goes(void **state)
{
	char path[128];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/job", world_dir);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/job/%d.stats", world_dir, getpid());
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	assert_int_equal(stats_open("job", 7, ""), 0);
	assert_int_equal(stats_file.h->version, STATS_VERSION);
}

/* Leaves one file in the directory and returns its copy. */
static void close_into(const char *report_dir, struct stats_copy *copy)
{
	char path[256];
	struct world_conn c;

	assert_int_equal(mkdir(report_dir, 0700), 0);
	assert_int_equal(stats_open("job", 7, report_dir), 0);
	c = world_conn(17);
	world_move(&c, SHIFT_R_LINK_DOWN, 1, 1000);
	snprintf(path, sizeof(path), "%s/%d-%llu.stats", report_dir, getpid(),
		 (unsigned long long)stats_file.h->opened_real_ns);
	stats_close(NULL, 0);
	assert_int_equal(stats_read(path, copy), 0);
	unlink(path);
	assert_int_equal(rmdir(report_dir), 0);
	assert_int_equal(copy->life, STATS_ENDED);
	assert_int_equal(copy->conn_count, 1);
	assert_int_equal(copy->switch_count, 1);
	assert_int_equal(copy->conns[0].qpn, 17);
}

static void left_in_the_report_directory(void **state)
{
	struct stats_copy copy;
	char dir[128];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/report", world_dir);
	close_into(dir, &copy);
	stats_free(&copy);
}

static void copied_to_another_file_system(void **state)
{
	struct stats_copy copy;
	struct stat a, b;
	char dir[64];

	(void)state;
	if (stat("/dev/shm", &a) || stat("/tmp", &b) || a.st_dev == b.st_dev)
		skip();
	snprintf(dir, sizeof(dir), "/dev/shm/test_stats.%d", getpid());
	close_into(dir, &copy);
	stats_free(&copy);
}

static void the_line_at_exit(void **state)
{
	struct stats_now now = {.conns_moved = 2, .committed = 3, .failovers = 2, .failbacks = 1};
	struct shift_conn_stats counters = {0};
	char line[256], small[20];
	int n;

	(void)state;
	now.outage_max_ns = 38400000;
	n = stats_summary(line, sizeof(line), &now, &counters);
	assert_string_equal(line, "2 connections moved 3 times (2 failovers, 1 fail-back), longest "
				  "outage 38 ms, 0 requests in doubt");
	assert_int_equal(n, strlen(line));
	assert_int_equal(stats_summary(small, sizeof(small), &now, &counters), n);
	assert_string_equal(small, "2 connections moved");
	assert_int_equal(stats_summary(NULL, 0, &now, &counters), n);
	now = (struct stats_now){.conns_moved = 1, .committed = 1, .migrations = 1};
	now.outage_max_ns = 1500000;
	counters.maybe_twice = 1;
	stats_summary(line, sizeof(line), &now, &counters);
	assert_string_equal(line, "1 connection moved 1 time (1 migration), longest outage 1.5 ms, "
				  "1 request in doubt");
	now.outage_max_ns = 12340000000;
	counters.lost_atomics = 1;
	stats_summary(line, sizeof(line), &now, &counters);
	assert_string_equal(line, "1 connection moved 1 time (1 migration), longest outage 12.3 s, "
				  "2 requests in doubt");
	now.given_up_for[SHIFT_R_PEER_DIED] = 1;
	n = stats_summary(line, sizeof(line), &now, &counters);
	assert_non_null(strstr(line, "2 requests in doubt; 1 connection given up: the peer's "));
	assert_int_equal(stats_summary(small, sizeof(small), &now, &counters), n);
	now = (struct stats_now){0};
	stats_summary(line, sizeof(line), &now, &counters);
	assert_string_equal(line, "2 requests in doubt");
}

int main(void)
{
#define TEST(name)     cmocka_unit_test_setup_teardown(name, begin, world_end)
#define NOT_OPEN(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)
	const struct CMUnitTest tests[] = {
		TEST(a_failover_and_where_its_time_went),
		TEST(requests_of_the_second_switch_alone),
		TEST(data_flows_while_a_peer_is_asked),
		TEST(an_abandoned_one_is_no_outage),
		TEST(a_fault_overtakes_a_planned_switch),
		TEST(the_peer_began),
		TEST(a_planned_one_is_joined),
		TEST(an_unplanned_one_overtakes),
		TEST(several_attempts_are_one_switch),
		TEST(given_up),
		TEST(why_it_was_given_up),
		TEST(unprotected_ones_that_a_failure_met),
		TEST(unprotected_ones_without_a_failure_are_not_named),
		TEST(closed_amid_a_change),
		TEST(errors_of_the_program_are_no_switch),
		TEST(removed_amid_a_switch),
		TEST(old_faults_are_forgotten),
		TEST(a_fault_that_was_over_does_not_count),
		TEST(given_up_without_a_try),
		TEST(slots_are_folded_and_used_again),
		TEST(a_full_table),
		TEST(a_few_connections_cost_little),
		TEST(a_file_that_was_taken_away_does_not_grow),
		TEST(qps_without_a_slot),
		TEST(a_child_of_fork_leaves_it_alone),
		NOT_OPEN(without_a_file_nothing_happens),
		NOT_OPEN(a_directory_open_to_others_is_not_used),
		NOT_OPEN(an_old_file_of_our_number_goes),
		NOT_OPEN(left_in_the_report_directory),
		NOT_OPEN(copied_to_another_file_system),
		cmocka_unit_test(the_line_at_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
