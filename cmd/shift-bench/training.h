/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A training job on both hosts: its progress lines, a fault in the middle, and its restart from the
 * last checkpoint when it has died. */
#ifndef SHIFT_BENCH_TRAINING_H
#define SHIFT_BENCH_TRAINING_H

#include "cmd/shift-bench/fault.h"
#include "cmd/shift-bench/progress.h"

struct training {
	struct hosts *hosts;
	const struct bench_options *options;
	const char *const *words[HOSTS]; /* of the job; NULL at the end */
	long port;			 /* on which it listens on b; 0: it is not waited for */
	const struct fault *fault;	 /* NULL: none */
	long fault_at_ms;		 /* after the first step */
	long fault_for_ms;		 /* 0: until the job has ended */
	long restart_ms;		 /* from the end of a job that died to its restart */
	long stall_ms;			 /* without a step for so long it counts as dead */
	bool busy;			 /* other traffic is on the backup NIC */
	bool with_shift;
	bool unknown_job; /* protection_of() */
};

struct training_outcome {
	struct progress progress; /* of host a; if it printed no step, of host b */
	cJSON *detail;		  /* "marks", "lives", with shift "protection" */
	double fault_ms;	  /* since the job was started; NAN: none */
	long restarts;
	struct away away;
	const char *failure; /* NULL: the job was done; lives as long as the process */
};

/* Where the job of that host has its checkpoint. It is removed before and after. */
const char *training_checkpoint(enum host host);

/* EXIT_OK also if the job failed: failure says why. training_free() in any case. */
int training_run(const struct training *t, struct training_outcome *out);
void training_free(struct training_outcome *out);

#endif
