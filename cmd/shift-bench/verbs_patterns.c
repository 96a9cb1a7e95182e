/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-bench/verbs_patterns.h"

#include <stddef.h>
#include <string.h>

/* QPs, list, signal_every, group, poll. */
#define ONE(n)	       n, 1, 1, 1, 1
#define LIST(n, qps)   qps, n, n, 1, 1
#define SIXTEEN(n)     n, 1, 1, 16, 16
#define SIGNAL_16TH(n) n, 1, 16, 1, 1

const struct verbs_pattern verbs_patterns[] = {
	/* clang-format off: a table */
	{"same-1qp", "a WRITE and its poll, the same WR again and again", VERBS_WRITE, VERBS_SAME,
	 VERBS_ONE_THREAD, ONE(1)},
	{"same-2qp", "to 2 QPs in turn", VERBS_WRITE, VERBS_SAME, VERBS_ONE_THREAD, ONE(2)},
	{"same-8qp", "to 8 QPs in turn", VERBS_WRITE, VERBS_SAME, VERBS_ONE_THREAD, ONE(8)},
	{"same-64qp", "to 64 QPs in turn", VERBS_WRITE, VERBS_SAME, VERBS_ONE_THREAD, ONE(64)},
	{"filled-1qp", "a WR whose fields are all written each time", VERBS_WRITE, VERBS_FILLED,
	 VERBS_ONE_THREAD, ONE(1)},
	{"filled-2qp", "to 2 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD, ONE(2)},
	{"filled-8qp", "to 8 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD, ONE(8)},
	{"filled-64qp", "to 64 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD, ONE(64)},
	{"lengths-1qp", "the same, each with another length", VERBS_WRITE, VERBS_LENGTHS,
	 VERBS_ONE_THREAD, ONE(1)},
	{"lengths-2qp", "to 2 QPs in turn", VERBS_WRITE, VERBS_LENGTHS, VERBS_ONE_THREAD, ONE(2)},
	{"lengths-8qp", "to 8 QPs in turn", VERBS_WRITE, VERBS_LENGTHS, VERBS_ONE_THREAD, ONE(8)},
	{"lengths-64qp", "to 64 QPs in turn", VERBS_WRITE, VERBS_LENGTHS, VERBS_ONE_THREAD,
	 ONE(64)},
	{"unsignaled-1qp", "1 WR of 16 is signaled", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 SIGNAL_16TH(1)},
	{"unsignaled-8qp", "to 8 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 SIGNAL_16TH(8)},
	{"unsignaled-64qp", "to 64 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 SIGNAL_16TH(64)},
	{"list2-1qp", "lists of 2, the last WR signaled", VERBS_WRITE, VERBS_FILLED,
	 VERBS_ONE_THREAD, LIST(2, 1)},
	{"list8-1qp", "lists of 8", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD, LIST(8, 1)},
	{"list32-1qp", "lists of 32", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD, LIST(32, 1)},
	{"list2-8qp", "lists of 2 to 8 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 LIST(2, 8)},
	{"list8-8qp", "lists of 8 to 8 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 LIST(8, 8)},
	{"list32-8qp", "lists of 32 to 8 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 LIST(32, 8)},
	{"poll16-1qp", "16 posts, then polls of 16", VERBS_WRITE, VERBS_FILLED, VERBS_ONE_THREAD,
	 SIXTEEN(1)},
	{"poll16-16qp", "16 posts to 16 QPs, then polls of 16", VERBS_WRITE, VERBS_FILLED,
	 VERBS_ONE_THREAD, SIXTEEN(16)},
	{"poll1-16qp", "16 posts to 16 QPs, then 16 polls of 1", VERBS_WRITE, VERBS_FILLED,
	 VERBS_ONE_THREAD, 16, 1, 1, 16, 1},
	{"poll-empty", "a poll of an empty CQ", VERBS_NO_OP, VERBS_SAME, VERBS_ONE_THREAD, ONE(1)},
	{"inline-1qp", "inline WRITEs", VERBS_WRITE_INLINE, VERBS_FILLED, VERBS_ONE_THREAD, ONE(1)},
	{"inline-8qp", "to 8 QPs in turn", VERBS_WRITE_INLINE, VERBS_FILLED, VERBS_ONE_THREAD,
	 ONE(8)},
	{"read-1qp", "READs", VERBS_READ, VERBS_FILLED, VERBS_ONE_THREAD, ONE(1)},
	{"read-8qp", "to 8 QPs in turn", VERBS_READ, VERBS_FILLED, VERBS_ONE_THREAD, ONE(8)},
	{"send-1qp", "a receive, a SEND, both completions", VERBS_SEND, VERBS_FILLED,
	 VERBS_ONE_THREAD, ONE(1)},
	{"send-8qp", "to 8 QPs in turn", VERBS_SEND, VERBS_FILLED, VERBS_ONE_THREAD, ONE(8)},
	{"send-list8", "lists of 8 receives and of 8 SENDs", VERBS_SEND, VERBS_FILLED,
	 VERBS_ONE_THREAD, 1, 8, 8, 1, 16},
	{"srq-recv", "a receive of an SRQ, a SEND, both completions", VERBS_SEND_SRQ, VERBS_FILLED,
	 VERBS_ONE_THREAD, ONE(1)},
	{"srq-recv-8qp", "to 8 QPs in turn, all on one SRQ", VERBS_SEND_SRQ, VERBS_FILLED,
	 VERBS_ONE_THREAD, ONE(8)},
	{"srq-recv-list8", "lists of 8 receives and of 8 SENDs", VERBS_SEND_SRQ, VERBS_FILLED,
	 VERBS_ONE_THREAD, 1, 8, 8, 1, 16},
	{"imm0-1qp", "a 0-SGE receive, a WRITE_WITH_IMM, both completions", VERBS_WRITE_IMM,
	 VERBS_FILLED, VERBS_ONE_THREAD, ONE(1)},
	{"imm0-8qp", "to 8 QPs in turn", VERBS_WRITE_IMM, VERBS_FILLED, VERBS_ONE_THREAD, ONE(8)},
	{"beside-1qp", "one thread posts, another one polls up to 16", VERBS_WRITE, VERBS_FILLED,
	 VERBS_POST_BESIDE_POLL, 1, 1, 1, 1, 16},
	{"beside-8qp", "to 8 QPs in turn", VERBS_WRITE, VERBS_FILLED, VERBS_POST_BESIDE_POLL, 8, 1,
	 1, 1, 16},
	{"two-post", "two threads post to one QP, both poll its CQ", VERBS_WRITE, VERBS_FILLED,
	 VERBS_TWO_POST, ONE(1)},
	{0},
	/* clang-format on */
};

const struct verbs_pattern *verbs_pattern_find(const char *name)
{
	for (const struct verbs_pattern *p = verbs_patterns; p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

const char *const verbs_controls[] = {
	"open_device", "alloc_pd",   "reg_mr",	     "create_cq",  "create_qp",
	"modify_init", "modify_rtr", "modify_rts",   "destroy_qp", "destroy_cq",
	"dereg_mr",    "dealloc_pd", "close_device", NULL,
};
