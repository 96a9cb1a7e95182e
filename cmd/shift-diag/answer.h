/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One ranked answer from the verdicts of several analysers on one incident: who it was, with the
 * verdicts that name each and those that contradict.
 *
 * Pure: verdicts in, answer out; it prints nothing. One thread. Memory that runs out ends the
 * process. Verdicts and sources outlive the answer, which points to them.
 */
#ifndef SHIFT_DIAG_ANSWER_H
#define SHIFT_DIAG_ANSWER_H

#include "cmd/shift-diag/verdict.h"

#define CLASS_BIT(class) (1u << (class))

/* An analysis that was asked, or could not be. */
struct answer_source {
	const char *command; /* of shift-diag: "hang" */
	/* Which classes it would have noticed at any rank or host: its silence means something. */
	unsigned int sees;
	struct verdict *verdict;
	size_t n;
	const char *why_not; /* it had nothing to look at; NULL: it was asked */
};

struct answer_vote {
	const struct answer_source *source;
	const struct verdict *verdict;
	const struct culprit *culprit; /* as this verdict names it; NULL: of a contradiction */
};

struct answer_culprit {
	struct culprit who; /* all that any of them knows */
	enum verdict_level level;
	enum verdict_class class;
	enum verdict_component component;
	double confidence;
	uint64_t first_seen_ns;
	const char *action;			/* of the surest */
	struct answer_vote *named_by, *against; /* the surest first */
	size_t named_by_n, against_n;
};

struct answer {
	struct answer_culprit *culprit; /* in order; first those to blame, then suspects */
	size_t culprits_n;
	size_t blamed; /* so many have a confidence above ANSWER_BLAMED */
	enum verdict_class class;
	enum verdict_component component;
	double confidence;
	uint64_t first_seen_ns;
	struct coverage coverage;
	const char *action;
	const struct answer_source *source;
	size_t sources;
};

/* Who has more is to blame; with so much or more nothing is decided. */
#define ANSWER_BLAMED  0.5
#define ANSWER_SUSPECT 0.25

/*
 * Analysers that name the same one make it surer, each by the odds of its confidence; of several
 * verdicts of one analyser the surest counts. Who would have noticed, and did not, or names
 * only others, makes it less sure by half its confidence: not to have seen something is worth less
 * than to have seen it. Flows and ports are
 * seen by one analyser only, so nobody's silence speaks against them.
 *
 * What has stopped or failed is told before what is slow, as it can be the cause of that. All is
 * fine only if every class that somebody asked could have seen was seen, and found fine.
 */
struct answer answer_make(const struct answer_source *source, size_t n);
void answer_free(struct answer *a);

/* As verdict_status(). */
int answer_status(const struct answer *a);

/* Members of the answer; the caller frees it. */
cJSON *answer_json(const struct answer *a);

/* For a person. */
void answer_print(const struct answer *a);

#endif
