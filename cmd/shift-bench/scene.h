/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The integrity client from host a to b on rail 0, and one fault in the middle. */
#ifndef SHIFT_BENCH_SCENE_H
#define SHIFT_BENCH_SCENE_H

#include "cmd/shift-bench/fault.h"

struct scene {
	struct hosts *hosts;
	const struct bench_options *options;
	const struct fault *fault;	/* NULL: none */
	const char *const *client;	/* more options of the client; NULL at the end */
	const char *const *environment; /* of the library; NULL: that of the options */
	long connections;		/* of each host; 0: 1 */
	long fault_ms, after_ms;	/* it lasts so long, and the program so much longer */
	bool watch_bytes;		/* of each rail, on both hosts */
	bool with_shift;
	bool no_backup; /* for the library to find: it protects nothing */
};

struct scene_outcome {
	struct pair_outcome pair;
	cJSON *client;	      /* what host a's client printed, or NULL */
	double fault_unix_ms; /* when it began and ended, by its host's clock; NAN */
	double mended_unix_ms;
	double counting_unix_ms; /* when counting began, by our clock */
	char *bytes[HOSTS];	 /* a line for each moment: see bins.h; or NULL */
	cJSON *status[HOSTS];	 /* of shift-ctl, when all were protected; or NULL */
};

/* EXIT_OK also if the run failed: pair.failure says why. scene_free() in any case. */
int scene_run(struct scene *s, struct scene_outcome *out);
void scene_free(struct scene_outcome *out);

#endif
