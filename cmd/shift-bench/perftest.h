/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* perftest: its command lines, and what it prints (versions 4.5 to 6). */
#ifndef SHIFT_BENCH_PERFTEST_H
#define SHIFT_BENCH_PERFTEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/shift-bench/hosts.h"

enum { PERFTEST_PORT = 18515 };

struct perftest {
	const char *program; /* "ib_write_lat" */
	long size, qps, iterations;
	bool both_ways, unsorted; /* -b; -U, every single latency */
	bool events;		  /* -e: it sleeps on completion channels */
};

/* Runs it on both hosts, on rail 0. limit_ms: as pair_words. */
int perftest_run(struct hosts *h, const struct perftest *p, const struct bench_options *o,
		 bool with_shift, struct pair_outcome *out);

/* The latencies that -U prints, in us, in their order. The caller frees them. */
double *perftest_latencies(const char *output, size_t *count);

struct bandwidth {
	double mib_per_s, messages_per_s;
};

/* False: there is no such row. */
bool perftest_bandwidth(const char *output, struct bandwidth *b);

#endif
