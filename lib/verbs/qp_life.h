/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The life of the program's queue pairs, protected or not, for the flight recorder
 * (lib/stats/stats.h). On the program's threads; takes a leaf lock only. */
#ifndef SHIFT_VERBS_QP_LIFE_H
#define SHIFT_VERBS_QP_LIFE_H

#include "lib/conn/vqp.h"

/* What is left to say of a QP that is gone. The device outlives it. */
struct qp_life_name {
	const char *nic;
	uint32_t qpn;
	uint64_t number; /* stats_qp_number() */
};

/* Before anybody else can find it. */
void qp_life_created(const struct vqp *v);

/* The program has modified its state, by these. */
void qp_life_state(const struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask);

/* Before it is destroyed, and when it is. */
struct qp_life_name qp_life_name(const struct ibv_qp *qp);
void qp_life_destroyed(const struct qp_life_name *name);

#endif
