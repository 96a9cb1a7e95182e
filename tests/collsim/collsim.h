/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Simulated training jobs with something wrong in them, to test the analysers of shift-diag: what
 * the processes would have recorded (shift-records(5)), what switches would have counted, and what
 * was wrong. A case and a seed give the same result each time.
 *
 * One thread. Ends the process if there is no memory.
 */
#ifndef SHIFT_TESTS_COLLSIM_COLLSIM_H
#define SHIFT_TESTS_COLLSIM_COLLSIM_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/shift-diag/records.h"

struct collsim_options {
	const char *name; /* of the case; NULL: one that the seed chooses */
	uint64_t seed;
	int ranks;	   /* 0: as many as the case likes */
	int iterations;	   /* of the program; 0: as many as the case likes */
	bool healthy;	   /* the case without its fault */
	bool no_epochs;	   /* saves most of the time and of the bytes */
	bool no_telemetry; /* nothing from switches */
	uint64_t epoch_ns; /* 0: 32,000 */
	uint64_t hold_ns;  /* for how long is recorded after the last progress of a hung job */
	int64_t clock_ns;  /* by how much clocks of hosts are wrong at most; REC_NONE: 50,000 */
};

enum { COLLSIM_CULPRITS = 64, COLLSIM_TEXT_BYTES = 64 };

/* One that is to blame; what does not apply is REC_NONE or "". */
struct collsim_culprit {
	int rank, nic, node, port;
	int by_node, by_port; /* storm: who sent the pause frames */
	char host[COLLSIM_TEXT_BYTES];
	char flow[COLLSIM_TEXT_BYTES]; /* SOURCE:PORT>DESTINATION:PORT */
};

/* What was wrong. */
struct collsim_truth {
	char name[COLLSIM_TEXT_BYTES]; /* of the case */
	char kind[COLLSIM_TEXT_BYTES]; /* of the fault; "none" */
	const char *class;	       /* "fine", "stopped", "slow", "failed" */
	const char *component;	       /* "none", "computation", "communication" */
	const char *level; /* that the paper reaches: rank, machine, link, port, group; "none" */
	struct collsim_culprit culprit[COLLSIM_CULPRITS];
	int culprits;
	uint64_t zero_ns;  /* the moment 0 of the switches' times, since 1970, by a true clock */
	uint64_t onset_ns; /* since 1970; 0: there is no fault */
	uint64_t healthy_ns, took_ns; /* of the program, without the fault and with; 0: for ever */
	double severity;	      /* as the kind has it: a factor of rate or of time */
};

struct collsim;

/* NULL: there is no such case, or it cannot have so many ranks. Free with collsim_free(). */
struct collsim *collsim_run(const struct collsim_options *o);
void collsim_free(struct collsim *s);

const struct collsim_truth *collsim_truth(const struct collsim *s);

/* Adds a file for each process. The caller frees them with records_free(). */
void collsim_records(struct collsim *s, struct records *r);

/*
 * Text as the simulator of the recorded data writes it. which: "topology.txt", "pfc.txt",
 * "fct.txt", "telemetry_N.txt" of switch N. The caller frees it. NULL: there is no such text.
 */
char *collsim_text(struct collsim *s, const char *which);

/* All of that into files of a directory, which is made: RANK.records, these texts, truth.json. A
 * negative errno if a file cannot be written. */
int collsim_write(struct collsim *s, const char *dir);

/* A file of records as shift-records(5) has it. The caller frees it. */
char *collsim_file_text(const struct rec_file *f);
char *collsim_truth_text(const struct collsim_truth *t);

/* Cases by number from 0; NULL behind the last. */
const char *collsim_case_name(int i);
const char *collsim_case_text(int i);

#endif
