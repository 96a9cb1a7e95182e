/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the machine was away while something was measured: processor time that the hypervisor gave
 * to others (steal in /proc/stat), and pauses of our own process, which a thread notices that
 * sleeps a few milliseconds and looks how late it wakes.
 */
#ifndef SHIFT_BENCH_MACHINE_H
#define SHIFT_BENCH_MACHINE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Where somebody else's time is counted. */
enum place { PLACE_HERE, PLACE_A, PLACE_B, PLACES };

struct processor_time {
	double total, steal; /* of all processors, in ticks; total 0: not known */
};

/* The first line of /proc/stat. False: it is none. */
bool processor_time_parse(struct processor_time *t, const char *line);

/* This machine's. */
struct processor_time processor_time_here(void);

struct away {
	double at_ms, span_ms;	       /* the time of the run, since the results began */
	double steal_share[PLACES];    /* 0..1, or NAN */
	double pause_max_ms, pause_ms; /* the longest, and all of them that were above PAUSE_MS */
};

enum { PAUSE_MS = 10 };

struct watch {
	struct processor_time before[PLACES];
	double began_ms;
};

/* Starts the thread, once; the clock of at_ms begins. */
void machine_begin(void);

/* places: /proc/stat of a and b, which the caller has read; total 0 if there is none. */
void watch_begin(struct watch *w, const struct processor_time places[PLACES]);
struct away watch_end(const struct watch *w);

/* The guests' part, when their /proc/stat has been read after the end. */
void watch_guests(struct away *a, const struct watch *w,
		  const struct processor_time places[PLACES]);

cJSON *away_json(const struct away *a);

/* Kernel, processor, how many of them: of this machine. */
cJSON *machine_json(void);

/* "stolen 3 %, pause 12 ms", or "": nothing that matters. Valid until the next call. */
const char *away_text(const struct away *a);

#endif
