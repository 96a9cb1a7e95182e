/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What shift-run tells the library by environment variables; shift(7) says what each means. Read
 * once, before any other thread of ours runs, and constant after that: any thread may read `env`.
 */
#ifndef SHIFT_BASE_ENV_H
#define SHIFT_BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/log.h"

enum failback { FAILBACK_AUTO, FAILBACK_MANUAL, FAILBACK_NEVER };

struct env {
	char job[65];		   /* SHIFT_JOB; empty: not under shift-run, protect nothing */
	char rails[1024];	   /* SHIFT_RAILS: auto, or mlx5_0=mlx5_1+mlx5_2,mlx5_1=mlx5_0 */
	uint64_t giveup_ns;	   /* SHIFT_GIVE_UP_MS; 0: by the program's retries; never: 2^62 */
	enum failback failback;	   /* SHIFT_FAILBACK */
	enum log_level log_level;  /* SHIFT_LOG: error, warn (default), info, debug */
	char log_file[256];	   /* SHIFT_LOG_FILE */
	uint64_t trace_epoch_ns;   /* SHIFT_TRACE=epochs,32us: record traffic; 0: off */
	char report_dir[256];	   /* SHIFT_REPORT_DIR: leave the statistics there at exit */
	bool summary;		   /* SHIFT_SUMMARY=0: no line at exit */
	bool exactly_once;	   /* SHIFT_EXACTLY_ONCE=0: the papers' semantics, for tests */
	bool lost_atomic_continue; /* SHIFT_LOST_ATOMIC=continue */
	bool atomics_move;	   /* SHIFT_ATOMICS=move */
	bool probes;		   /* SHIFT_PROBES=0 */
	bool link_events;	   /* SHIFT_LINK_EVENTS=0 */
};

extern struct env env;

/* Reads the environment, the first time it is called. A malformed variable takes its default, with
 * one warning. Any thread; errno is kept. */
void env_read(void);

/*
 * The backups of a device by env.rails, best first. For auto they are all other devices of this
 * host with a port of the same link layer: first those of the same NUMA node, each group in the
 * order of names, beginning after the device itself (rail_list.h). If there is none, it is its own
 * backup. Returns how many were stored, at most max. Reads sysfs. Any thread.
 */
unsigned int env_backups(const char *device, char (*backups)[64], unsigned int max);

/* Does shift choose the backups, and none is listed? */
bool env_rails_are_auto(void);

#endif
