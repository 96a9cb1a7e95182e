// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* WRITEs as a real NIC executes them, for tests that look at rq_psn. */
#include <stdlib.h>
#include <string.h>

#include "tests/nullverbs/nullverbs.h"

static bool is_set(const char *word)
{
	const char *value = getenv("NULLVERBS_PSN");

	return value && !strcmp(value, word);
}

bool null_is_exact(const struct null_qp *qp)
{
	return qp->peer && qp->peer != qp && qp->peer->attr.dest_qp_num == qp->base.qp_num &&
	       (is_set("live") || is_set("lag") || is_set("mute"));
}

bool null_is_exact_by_peer(const struct null_qp *qp)
{
	return null_is_exact(qp) && !is_set("mute");
}

/* false: the peer does not answer. */
bool null_write(struct null_qp *qp, const struct ibv_send_wr *wr, uint32_t length)
{
	struct null_qp *peer = qp->peer;
	uint32_t mtu = 128u << peer->attr.path_mtu;
	char *to = (char *)(uintptr_t)wr->wr.rdma.remote_addr;

	if ((peer->attr.qp_state != IBV_QPS_RTR && peer->attr.qp_state != IBV_QPS_RTS) ||
	    is_set("mute"))
		return false;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	peer->attr.rq_psn += length ? (length + mtu - 1) / mtu : 1;
	peer->attr.rq_psn &= 0xffffff;
	return true;
}

uint32_t null_rq_psn(const struct null_qp *qp)
{
	bool lags = qp->attr.qp_state == IBV_QPS_ERR && is_set("lag");

	return (qp->attr.rq_psn - lags) & 0xffffff;
}
