/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* QPs that the program makes with extended attributes: by ibv_create_qp_ex(), or by a direct verb.
 * On the program's threads, nothing locked. */
#ifndef SHIFT_VERBS_QP_EX_H
#define SHIFT_VERBS_QP_EX_H

#include <infiniband/verbs.h>

#include "lib/stats/stats.h"

/* The real verb. more: what it takes besides. */
typedef struct ibv_qp *make_qp_fn(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				  void *more);

/* Parameters, result and errors are the verb's. why: not STATS_UNPROTECTED_NONE if the QP cannot be
 * protected for what is in `more`. */
struct ibv_qp *hook_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				 make_qp_fn *make, void *more, enum stats_unprotected why);

#endif
