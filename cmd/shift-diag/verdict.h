/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What an analyser has found, in one form for all of them (Aegis, Pulse, Vedrfolnir): as text and
 * as JSON, and the exit status that follows. One thread.
 */
#ifndef SHIFT_DIAG_VERDICT_H
#define SHIFT_DIAG_VERDICT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/shift-diag/records.h"

/* How near to the cause. */
enum verdict_level {
	LEVEL_RANK,
	LEVEL_NIC,
	LEVEL_MACHINE,
	LEVEL_LINK,
	LEVEL_PORT,
	LEVEL_GROUP,
	LEVEL_FLOW, /* somebody else's traffic */
};

/* What went wrong: nothing; it stands still; it is slow; it has failed; it cannot be decided. */
enum verdict_class { CLASS_FINE, CLASS_STOPPED, CLASS_SLOW, CLASS_FAILED, CLASS_UNDECIDED };

/* Where: in the program's computation, or in communication. */
enum verdict_component { COMPONENT_NONE, COMPONENT_COMPUTATION, COMPONENT_COMMUNICATION };

struct culprit {
	int rank; /* REC_NONE: none */
	int pid;  /* 0: none */
	uint32_t qpn;
	double score; /* 0 to 1: its share of what was found; 0: not rated */
	char host[REC_NAME_BYTES], nic[REC_NAME_BYTES];
	char what[REC_NAME_BYTES]; /* a flow or a switch's port; else "" */
};

/* From how much it was found. */
struct coverage {
	int ranks_expected, ranks_seen; /* REC_NONE: it is not known how many there are */
	uint64_t dropped;
	int64_t clock_error_ns;		/* REC_NONE: not known */
	int hosts_expected, hosts_seen; /* that were asked, and have answered; 0: none was asked */
};

struct verdict {
	const char *analyser;	  /* "aegis", "pulse", "vedrfolnir" */
	const char *rule;	  /* by which it was found; static, as man shift-diag names it */
	char job[REC_NAME_BYTES]; /* of a job that runs; "": that of the records */
	enum verdict_class class;
	enum verdict_component component;
	enum verdict_level level;
	double confidence;	/* 0 to 1 */
	uint64_t first_seen_ns; /* since 1970; 0: not known */
	struct coverage coverage;
	struct culprit *culprits; /* the worst first */
	size_t culprits_n;
	char **evidence; /* plain sentences */
	size_t evidence_n;
	char *action;	   /* what to do next; NULL: nothing */
	cJSON *thresholds; /* names and numbers that were compared with; NULL: none */
};

/* Empty: fine. analyser and rule are kept, not copied. */
struct verdict verdict_make(const char *analyser, const char *rule);
void verdict_free(struct verdict *v);

/* Another culprit, zeroed but for its rank, which is REC_NONE. It moves with the next one. Ends the
 * process if there is no memory, as all of these. */
struct culprit *verdict_blame(struct verdict *v);

void verdict_says(struct verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of what speaks against a verdict: its evidence so far is kept. */
void verdict_undecided(struct verdict *v);

void verdict_advises(struct verdict *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void verdict_threshold(struct verdict *v, const char *name, double value);

/* EXIT_FINE, EXIT_CULPRIT, EXIT_UNDECIDED; EXIT_WARNING: something is wrong, and nobody is blamed.
 */
int verdict_status(const struct verdict *v);

/* The members of DIAG's verdict record. The caller frees it. */
cJSON *verdict_json(const struct verdict *v);

/* ---- parts, for who shows verdicts in another way -------------------------------------------- */

const char *verdict_class_name(enum verdict_class c);
const char *verdict_class_text(enum verdict_class c);	      /* "it stands still" */
const char *verdict_component_name(enum verdict_component c); /* or NULL */
const char *verdict_level_name(enum verdict_level l);

/* "rank 3 host node2 pid 4711", not made printable. */
enum { CULPRIT_BYTES = 4 * REC_NAME_BYTES };
void culprit_describe(const struct culprit *c, char *text, size_t bytes);

/* Lines that begin with two blanks. A time that is not known: nothing. */
void coverage_print(const struct coverage *c);
void first_seen_print(uint64_t t_ns);

/* Members of JSON: null if it is NULL or "", or not known. The caller frees a culprit's. */
cJSON *culprit_json(const struct culprit *c);
void json_add_text(cJSON *o, const char *name, const char *text);
void json_add_known(cJSON *o, const char *name, double number, bool is_known);
void json_add_time(cJSON *o, const char *name, uint64_t t_ns);
void json_add_coverage(cJSON *parent, const struct coverage *c);

/* For a person: the finding in one line, then culprits, evidence, what it rests on, what to do. */
void verdict_print(const struct verdict *v);

#endif
