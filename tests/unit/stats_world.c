/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stats_world.h"

char world_dir[64];

int world_begin(void **state)
{
	(void)state;
	strcpy(world_dir, "/tmp/test_stats.XXXXXX");
	assert_non_null(mkdtemp(world_dir));
	return setenv("SHIFT_RUN_DIR", world_dir, 1);
}

int world_end(void **state)
{
	(void)state;
	stats_close(NULL, 0);
	return rmdir(world_dir);
}

struct world_conn world_conn(uint32_t qpn)
{
	static const char *const nics[] = {"mlx5_0", "mlx5_1"};
	struct world_conn c = {.slot = stats_conn_add("mlx5_0", qpn, 100)};

	stats_conn_rails(c.slot, 2, nics);
	stats_conn_protect(c.slot, true, STATS_UNPROTECTED_NONE);
	world_change(&c, SHIFT_ST_ACTIVE, SHIFT_R_HELLO, 200);
	return c;
}

void world_change(struct world_conn *c, enum shift_state to, enum shift_reason reason,
		  uint64_t now_ns)
{
	struct shift_action a = {.type = SHIFT_ACT_REPORT,
				 .from = (uint8_t)c->view.state,
				 .to = (uint8_t)to,
				 .reason = (uint8_t)reason,
				 .rail = c->view.r,
				 .epoch = c->view.e};

	c->view.state = to;
	c->view.reason = reason;
	stats_conn_change(c->slot, &a, &c->view, &c->stats, now_ns);
}

void world_move(struct world_conn *c, enum shift_reason why, uint8_t rail, uint64_t begin_ns)
{
	world_change(c, SHIFT_ST_FENCE, why, begin_ns);
	world_change(c, SHIFT_ST_ARM, SHIFT_R_FENCED, begin_ns + 300);
	c->view.r = rail;
	c->view.e++;
	world_change(c, SHIFT_ST_SWITCHING, SHIFT_R_ARMED, begin_ns + 310);
	c->stats.proved += 5;
	c->stats.replayed += 7;
	world_change(c, SHIFT_ST_ACTIVE, SHIFT_R_COMMIT, begin_ns + 1310);
	stats_conn_reposted(c->slot, begin_ns + 1350);
}
