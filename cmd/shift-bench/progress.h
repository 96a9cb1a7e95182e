/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The progress lines of a training job, and what they tell of it. Pure. */
#ifndef SHIFT_BENCH_PROGRESS_H
#define SHIFT_BENCH_PROGRESS_H

#include <cjson/cJSON.h>
#include <stddef.h>

struct progress_point {
	double at_ms; /* since the job was started */
	long step;
};

struct progress_points {
	struct progress_point *list;
	size_t count;
};

/* All that one host has said, of all lives of the job. */
struct progress {
	struct progress_points steps, checkpoints;
};

/* "step N" or "checkpoint N", and whatever comes behind a blank, after what a carriage return has
 * overwritten; else nothing is added. */
void progress_add(struct progress *p, const char *line, double at_ms);
void progress_free(struct progress *p);

struct progress_figures {
	double total_s;	      /* until the last step was done */
	double first_step_s;  /* of that until the first one was told */
	double training_s;    /* and from then on */
	double step_ms;	      /* median time of a step, until the fault */
	double step_after_ms; /* the same from the fault on; NAN: no fault */
	double standstill_ms; /* the longest time between two lines */
	double lost_steps;    /* that were done once more */
	double lost_s;	      /* what step_ms for each step would not have needed; NAN: no fault */
};

/* fault_ms: NAN if there was none. Fewer than two steps give NAN. */
struct progress_figures progress_figures_of(const struct progress *p, double fault_ms);

/* [[at_ms, step], ...] */
cJSON *progress_points_json(const struct progress_points *p);

#endif
