/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Connections to keep statistics of, without a core behind them; for the tests of lib/stats. */
#ifndef STATS_WORLD_H
#define STATS_WORLD_H

#include "lib/stats/stats.h"

extern char world_dir[64]; /* the run directory of this test */

/* cmocka's set-up and tear-down: the latter fails if anything is left in the run directory. */
int world_begin(void **state);
int world_end(void **state);

struct world_conn {
	int slot;
	struct shift_conn_view view;
	struct shift_conn_stats stats;
};

/* Two rails, mlx5_0 and mlx5_1, ACTIVE since 200 ns. */
struct world_conn world_conn(uint32_t qpn);

void world_change(struct world_conn *c, enum shift_state to, enum shift_reason reason,
		  uint64_t now_ns);

/* From begin_ns: fence 300 ns, arm 10, handshake 1000, repost 40. */
void world_move(struct world_conn *c, enum shift_reason why, uint8_t rail, uint64_t begin_ns);

#endif
