/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands that measure, as parts of `shift-bench all`. */
#ifndef SHIFT_BENCH_PARTS_H
#define SHIFT_BENCH_PARTS_H

#include "cmd/shift-bench/hosts.h"

/* Lists of cases that no option has given. of_all: with --quick fewer still. */
typedef void part_defaults_fn(bool quick, bool of_all);

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
