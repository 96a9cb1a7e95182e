/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The ways of posting and polling that `shift-bench verbs` measures, by name. The command and its
 * client have the same table; libc only, nothing to be freed, any thread.
 *
 * A round of a pattern: `group` lists of `list` work requests are posted, each to the next of `qps`
 * QPs; then what has been signaled is polled, up to `poll` completions at a time.
 */
#ifndef SHIFT_BENCH_VERBS_PATTERNS_H
#define SHIFT_BENCH_VERBS_PATTERNS_H

#include <stdint.h>

enum verbs_op {
	VERBS_WRITE,
	VERBS_WRITE_INLINE,
	VERBS_READ,
	VERBS_SEND,	 /* with a receive posted before, and its completion polled */
	VERBS_SEND_SRQ,	 /* likewise, from one shared receive queue of all QPs */
	VERBS_WRITE_IMM, /* the same, and the receive has no SGE */
	VERBS_NO_OP,	 /* nothing is posted: polls of an empty CQ */
};

/* What the program does to its work request before it posts it. */
enum verbs_fill {
	VERBS_SAME,    /* only the wr_id changes */
	VERBS_FILLED,  /* every field is written */
	VERBS_LENGTHS, /* the same, and no length is like the one before */
};

enum verbs_threads {
	VERBS_ONE_THREAD,
	VERBS_POST_BESIDE_POLL, /* one thread posts, another one polls */
	VERBS_TWO_POST,		/* two threads, both post to the same QPs and poll the same CQ */
};

struct verbs_pattern {
	const char *name;
	const char *what; /* for the reader: half a line */
	enum verbs_op op;
	enum verbs_fill fill;
	enum verbs_threads threads;
	uint32_t qps;	       /* 1..VERBS_QPS_MAX, posted to in turn */
	uint32_t list;	       /* work requests of a post, 1..VERBS_LIST_MAX */
	uint32_t signal_every; /* work requests of a QP; a list has its last one signaled */
	uint32_t group;	       /* posts before the polls, 1..VERBS_GROUP_MAX */
	uint32_t poll;	       /* completions a poll may return, 1..VERBS_POLL_MAX */
};

enum {
	VERBS_QPS_MAX = 1000,
	VERBS_LIST_MAX = 32,
	VERBS_GROUP_MAX = 16,
	VERBS_POLL_MAX = 16,
};

/* The end has no name. */
extern const struct verbs_pattern verbs_patterns[];

/* NULL: there is none of that name. */
const struct verbs_pattern *verbs_pattern_find(const char *name);

/* The control verbs, in the order in which a program calls them; the end is NULL. */
extern const char *const verbs_controls[];

#endif
