/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/verbs/qp_ex.h"

#include "lib/base/real_verbs.h"
#include "lib/base/reentry.h"
#include "lib/conn/memlock.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/wr_builder.h"

static bool has(const struct ibv_qp_init_attr_ex *attr, uint32_t what)
{
	return attr->comp_mask & what;
}

/* Twins are made without these features. The one that is let pass only makes a NIC faster. */
static bool attributes_are_known(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (!has(attr, IBV_QP_INIT_ATTR_PD) || has(attr, ~known))
		return false;
	return !has(attr, IBV_QP_INIT_ATTR_CREATE_FLAGS) ||
	       !(attr->create_flags & ~(uint32_t)IBV_QP_CREATE_PCI_WRITE_END_PADDING);
}

static enum stats_unprotected why_foreign(const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type != IBV_QPT_RC)
		return STATS_UNPROTECTED_NOT_RC;
	if (!attributes_are_known(attr))
		return STATS_UNPROTECTED_ATTRIBUTES;
	if (!has(attr, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return STATS_UNPROTECTED_NONE;
	return wr_builder_knows(attr->send_ops_flags) && real.qp_to_qp_ex
		       ? STATS_UNPROTECTED_NONE
		       : STATS_UNPROTECTED_WR_API;
}

static struct ibv_qp *create_foreign(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				     make_qp_fn *make, void *more, enum stats_unprotected why)
{
	struct ibv_qp *qp = with_room(ctx, make(ctx, attr, more));

	if (qp)
		hook_created_foreign_qp(qp, why);
	return qp;
}

struct ibv_qp *hook_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				 make_qp_fn *make, void *more, enum stats_unprotected why)
{
	struct ibv_qp_init_attr *plain = (struct ibv_qp_init_attr *)attr; /* is its beginning */
	struct ibv_qp_ex *ex = NULL;
	struct ibv_qp *qp;
	bool grown;

	if (why == STATS_UNPROTECTED_NONE)
		why = why_foreign(attr);
	if (why != STATS_UNPROTECTED_NONE)
		return create_foreign(ctx, attr, make, more, why);
	grown = hook_creates_qp(attr->pd, plain);
	qp = with_room(ctx, make(ctx, attr, more));
	if (qp && has(attr, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		ex = real.qp_to_qp_ex(qp);
	return hook_created_qp(qp, attr->pd, plain, grown, ex);
}
