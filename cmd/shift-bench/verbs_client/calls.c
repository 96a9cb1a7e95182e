/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The calls that are measured, one function each. callgrind collects what happens inside them
 * (--toggle-collect=collect_*) and forgets at collect_begin() what it has (--zero-before), so what
 * the client does around them counts for nothing. Not static: their names survive a strip.
 */
#include "cmd/shift-bench/verbs_client/client.h"

#define COLLECTED __attribute__((noipa))

COLLECTED void collect_begin(void)
{
}

COLLECTED void collect_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (__builtin_expect(ibv_post_send(qp, wr, &bad), 0))
		client_fail("ibv_post_send");
}

COLLECTED void collect_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	if (__builtin_expect(ibv_post_recv(qp, wr, &bad), 0))
		client_fail("ibv_post_recv");
}

COLLECTED void collect_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	if (__builtin_expect(ibv_post_srq_recv(srq, wr, &bad), 0))
		client_fail("ibv_post_srq_recv");
}

COLLECTED int collect_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(cq, entries, wc);

	if (__builtin_expect(n < 0, 0))
		client_fail("ibv_poll_cq");
	for (int i = 0; i < n; i++)
		if (__builtin_expect(wc[i].status != IBV_WC_SUCCESS, 0))
			client_fail(ibv_wc_status_str(wc[i].status));
	return n;
}
