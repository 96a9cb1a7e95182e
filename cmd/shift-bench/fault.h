/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The faults that commands make, by shift-inject in one of the hosts. */
#ifndef SHIFT_BENCH_FAULT_H
#define SHIFT_BENCH_FAULT_H

#include "cmd/shift-bench/hosts.h"

struct fault {
	const char *name; /* "down:a" */
	enum host host;
	const char *const *words; /* of shift-inject, without the NIC; NULL: the cable is pulled */
};

#define WORDS_OF(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A tool that begins in a guest stops what runs there for a moment, so it starts so long before. */
enum { FAULT_AHEAD_MS = 2000 };

/* NULL: there is none. */
const struct fault *fault_named(const char *name);

/* Starts shift-inject on rail 0 of the fault's host: it begins after after_ms, and lasts for for_ms
 * (0: as long as the tool runs). It says what happens as lines of JSON. As run_start(). */
bool fault_start(struct run *run, const struct hosts *h, const struct fault *f, long after_ms,
		 long for_ms);

#endif
