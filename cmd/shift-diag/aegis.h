/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which rank or host hangs, has failed or is slow: the rules of Aegis (Dong et al., NSDI 2025),
 * with the misprints of its Algorithm 1 corrected. Records in, a verdict out; nothing else is
 * looked at. One thread; memory that runs out ends the process.
 *
 * A rank without records is never counted as healthy: it lowers the confidence of a finding, and
 * without a finding nothing is called fine.
 */
#ifndef SHIFT_DIAG_AEGIS_H
#define SHIFT_DIAG_AEGIS_H

#include "cmd/shift-diag/logs.h"
#include "cmd/shift-diag/records.h"
#include "cmd/shift-diag/verdict.h"

struct aegis_options {
	uint64_t window_ns; /* how far back from the last event records count; not 0 */
};

enum { AEGIS_WINDOW_S = 600 }; /* the paper's T */

/*
 * Why did the job fail? By critical errors (level NIC or MACHINE); by errors between hosts, of
 * which there are two at most, or which have one in common; else as aegis_hang().
 * Rules: critical-error, few-hosts, common-host, and those of aegis_hang().
 */
struct verdict aegis_fail(const struct records *r, const struct logs *logs,
			  const struct aegis_options *o);

/*
 * Who keeps the others waiting? Rules: fewer-launches, open-requests, alone-unfinished,
 * order-of-collectives, idle.
 */
struct verdict aegis_hang(const struct records *r, const struct aegis_options *o);

/*
 * Who makes the job slow? Rules: metric-outlier, shorter-collectives, time-per-byte,
 * slower-network, degradation.
 */
struct verdict aegis_slow(const struct records *r, const struct aegis_options *o);

/* The share of the n durations above 1.2 times their mean, by what they are above it. */
double aegis_degradation(const double *t, size_t n);

/* Whether value[i] is above the mean of the others and twice their deviation, for which at least
 * a tenth of that mean, and floor, are taken. With less than two others: no. */
bool aegis_is_outlier(const double *value, size_t n, size_t i, double floor);

/* ---- what the rules look at ----------------------------------------------------------------- */

struct aegis_member {
	const struct rec_file *file;
	int rank;		     /* in the communicator */
	uint64_t launched;	     /* the largest seq; 0: none */
	uint64_t active_ns;	     /* its last sign of progress in this communicator */
	uint64_t longest_ns;	     /* between two launches, in the window */
	bool unended;		     /* it is not recorded whether its last one has ended */
	const struct rec_coll *open; /* the first one that is under way, or NULL */
};

struct aegis_comm {
	const char *name;
	int size;
	char *const *hosts; /* or NULL */
	struct aegis_member *member;
	size_t members; /* those with records, each rank once, by rank */
};

struct aegis_view {
	const struct rec_file **process; /* the last records of each */
	size_t processes;
	struct aegis_comm *comm;
	size_t comms;
	struct coverage coverage;
};

/* window_ns: how far back from its last sign pauses of a member count. */
struct aegis_view aegis_view_make(const struct records *r, uint64_t window_ns);
void aegis_view_free(struct aegis_view *v);

/* 0 to 1: how much of what there should be was seen, and how well. */
double aegis_coverage(const struct aegis_view *v);
bool aegis_is_complete(const struct aegis_view *v);

/* Names the ranks without records, as evidence. */
void aegis_tell_missing(struct verdict *v, const struct aegis_comm *c);

/* Rule slower-network, of what was launched since then: names the hosts at the ends of a way that
 * became slow, if it is one. Whether the network did. */
bool aegis_slow_network(const struct aegis_view *view, uint64_t begin_ns, struct verdict *v);

struct culprit *aegis_blame(struct verdict *v, const struct rec_file *f);

#endif
