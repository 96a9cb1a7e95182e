/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The program's queue pairs: which can be protected, and what the program does to them. On the
 * program's threads, nothing locked, unless stated. */
#ifndef SHIFT_VERBS_QP_H
#define SHIFT_VERBS_QP_H

#include "lib/conn/vqp.h"

/* What the room above does for a connection: it finds its peer. Set once, before the first QP. */
struct qp_session {
	uint64_t nonce;		      /* of this process */
	void (*begin)(struct vqp *v); /* a QP that may be protected was made, or was RESET */
	void (*end)(struct vqp *v);   /* it is destroyed, or RESET: forget it; may wait */
};
void qp_set_session(const struct qp_session *session);

/* --- hooks: the verbs of the program, on its threads; parameters and results are the verbs' ----
 */

struct ibv_qp *hook_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);

/* The same for other verbs that make one. Before it: a fence posts a marker, for which a send queue
 * of no entries has no room (V19), so it is asked for one that is larger than the program's (verbs
 * allow that). Returns whether. After it: qp or NULL, and attr with the capacities as accepted. ex:
 * qp, if the program posts to it by ibv_wr_*; else NULL. Returns qp. */
bool hook_creates_qp(const struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *hook_created_qp(struct ibv_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			       bool grown, struct ibv_qp_ex *ex);

/* To be called after a QP was made in a way that can never be protected, for that reason: it is the
 * provider's alone, but counted, and known to be on its NIC. */
void hook_created_foreign_qp(struct ibv_qp *qp, enum stats_unprotected why);

int hook_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr);
int hook_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int hook_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
int hook_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int hook_destroy_qp(struct ibv_qp *qp);

#endif
