/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands that measure, as parts of `shift-bench all`. */
#ifndef SHIFT_BENCH_PARTS_H
#define SHIFT_BENCH_PARTS_H

#include "cmd/shift-bench/hosts.h"

/* Lists of cases that no option has given. As a part of `all` there are fewer: it may take an hour,
 * with --quick ten minutes. */
struct scope {
	bool quick, of_all;
};
typedef void part_defaults_fn(struct scope scope);

/* What was given, or else one of the other four. */
static inline const char *by_scope(struct scope scope, const char *given, const char *alone,
				   const char *alone_quick, const char *all, const char *all_quick)
{
	if (given)
		return given;
	if (scope.of_all)
		return scope.quick ? all_quick : all;
	return scope.quick ? alone_quick : alone;
}

/* Measures them; the worst status. Only after the defaults. */
typedef int part_cases_fn(struct results *r, struct hosts *h);

part_defaults_fn latency_defaults, bandwidth_defaults, failover_defaults, timeline_defaults,
	setup_defaults;
part_cases_fn latency_cases, bandwidth_cases, failover_cases, timeline_cases, setup_cases;

/* A command's way between two hosts: finds or starts them, measures, ends them, and saves. Returns
 * the exit status of the program. makes_faults: it needs what makes them, too. */
int measure_between_hosts(struct results *r, bool makes_faults, part_cases_fn *cases);

/* The figures of papers that stand beside those of failover: into the tree, and on the terminal. */
void failover_papers(struct results *r);
void failover_print_papers(const struct results *r);

#endif
