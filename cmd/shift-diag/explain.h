/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What shift-diag explain knows: tables of codes, each with what it means, what most often causes
 * it and what to look at next. Constant; any thread.
 */
#ifndef SHIFT_DIAG_EXPLAIN_H
#define SHIFT_DIAG_EXPLAIN_H

#include <stddef.h>

/* Lists have one entry a line, without a newline at the end; NULL: nothing is to be said. */
struct explanation {
	const char *name;   /* RETRY_EXC_ERR */
	long number;	    /* -1: it has none */
	const char *means;  /* NULL: that of the table (explain_means()) */
	const char *causes; /* a list */
	const char *checks; /* a list */
};

enum explain_kind {
	EXPLAIN_WC,	     /* enum ibv_wc_status */
	EXPLAIN_EVENT,	     /* enum ibv_event_type */
	EXPLAIN_MLX5_VENDOR, /* vendor_err of mlx5 */
	EXPLAIN_MLX5_SYNDROME,
	EXPLAIN_BNXT_REQ, /* vendor_err of bnxt_re, of send and of receive completions */
	EXPLAIN_BNXT_RSP,
	EXPLAIN_EFA,
	EXPLAIN_ERDMA,
	EXPLAIN_IRDMA,
	EXPLAIN_UNPROTECTED, /* enum stats_unprotected */
	EXPLAIN_STATE,	     /* enum shift_state */
	EXPLAIN_REASON,	     /* enum shift_reason */
	EXPLAIN_LOG,	     /* messages of libshift: the name is a part of the line */
	EXPLAIN_KINDS,
};

struct explain_table {
	const char *title;  /* "completion status" */
	const char *prefix; /* "IBV_WC_", which may be left out; NULL: none */
	const struct explanation *entries;
	size_t count;
};

/* For each kind, in the order of enum explain_kind. */
const struct explain_table *explain_table(enum explain_kind kind);

extern const struct explain_table explain_wc, explain_event, explain_unprotected, explain_state,
	explain_reason, explain_log;
extern const struct explain_table explain_mlx5_vendor, explain_mlx5_syndrome, explain_bnxt_req,
	explain_bnxt_rsp, explain_efa, explain_erdma, explain_irdma;

/* What it means in a few words, for those whose table says it elsewhere (shift's own). */
const char *explain_means(enum explain_kind kind, const struct explanation *e);

#define EXPLAIN_COUNT(entries) (sizeof(entries) / sizeof(*(entries)))

#endif
