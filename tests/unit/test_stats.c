/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The statistics file: what the writer puts there, and what is left of it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/stats/writer.h"

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_stats.XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("SHIFT_RUN_DIR", dir, 1);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	stats_close(NULL, 0);
	return rmdir(dir); /* empty, or something was left behind */
}

struct conn {
	int slot;
	struct shift_conn_view view;
	struct shift_conn_stats stats;
};

static void change(struct conn *c, enum shift_state to, enum shift_reason reason, uint8_t rail,
		   uint32_t epoch, uint64_t now_ns)
{
	struct shift_action a = {.type = SHIFT_ACT_REPORT,
				 .from = (uint8_t)c->view.state,
				 .to = (uint8_t)to,
				 .reason = (uint8_t)reason,
				 .rail = rail,
				 .epoch = epoch};

	c->view.state = to;
	c->view.reason = reason;
	c->view.r = rail;
	c->view.e = epoch;
	stats_conn_change(c->slot, &a, &c->view, &c->stats, now_ns);
}

static struct conn new_conn(uint32_t qpn)
{
	static const char *const nics[] = {"mlx5_0", "mlx5_1"};
	struct conn c = {.slot = stats_conn_add("mlx5_0", qpn, 100)};

	assert_true(c.slot >= 0);
	stats_conn_rails(c.slot, 2, nics);
	stats_conn_protect(c.slot, true, 0);
	change(&c, SHIFT_ST_ACTIVE, SHIFT_R_HELLO, 0, 0, 200);
	return c;
}

static void fail_over(struct conn *c)
{
	stats_conn_fault(c->slot, 900);
	change(c, SHIFT_ST_FENCE, SHIFT_R_LINK_DOWN, 0, 0, 1000);
	change(c, SHIFT_ST_ARM, SHIFT_R_FENCED, 0, 0, 1300);
	change(c, SHIFT_ST_SWITCHING, SHIFT_R_ARMED, 1, 1, 1310);
	c->stats.proved += 5;
	c->stats.replayed += 7;
	change(c, SHIFT_ST_ACTIVE, SHIFT_R_COMMIT, 1, 1, 2310);
	stats_conn_reposted(c->slot, 2350);
}

static void a_failover_is_recorded(void **state)
{
	struct stats_switch *s;
	struct conn c;

	(void)state;
	assert_int_equal(stats_open("job", 7, ""), 0);
	c = new_conn(17);
	fail_over(&c);
	assert_int_equal(stats_file.h->table[1].written, 1);
	s = stats_file.switches;
	assert_int_equal(s->seq, 1);
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
	assert_string_equal(s->from_nic, "mlx5_0");
	assert_string_equal(s->nic, "mlx5_1");
	assert_int_equal(stats_file.h->now.outage_max_ns, 1450);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_failover_is_recorded, make_dir, remove_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
