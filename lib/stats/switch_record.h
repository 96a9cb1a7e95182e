/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The record of a switch. The core's own reports of its state make it. It is kept in the slot of
 * its connection until the switch ends, and goes into the ring of records then: the file of a
 * process that dies in the middle of a switch shows how far it came.
 */
#ifndef SHIFT_STATS_SWITCH_RECORD_H
#define SHIFT_STATS_SWITCH_RECORD_H

#include "lib/stats/stats.h"

/* The core changed its state: see stats_conn_change(). The lock of stats_file.h is held, and c is
 * between stats_write_begin() and stats_write_end(). */
void stats_switch_change(struct stats_conn *c, const struct shift_action *report,
			 const struct shift_conn_view *view, const struct shift_conn_stats *stats,
			 uint64_t now_ns);

/* A fault that nobody has reported again for so long is over. */
#define STATS_FAULT_GAP_NS 2000000000ull

#endif
