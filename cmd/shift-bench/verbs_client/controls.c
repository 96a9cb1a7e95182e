/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the control verbs take, one after the other as a program calls them, again and again. */
#include <stdlib.h>
#include <string.h>

#include "cmd/shift-bench/verbs_client/client.h"

enum { DEPTH = 128, BYTES = 1 << 20, VERBS = 13 };

struct round {
	double *at; /* the next verb's */
	double before;
};

/* Since the verb before this one, which may have failed. */
static void took(struct round *r, bool good)
{
	double now = client_now_ns();

	*r->at++ = now - r->before;
	if (!good)
		client_fail("a control verb");
	r->before = client_now_ns();
}

static void make_and_destroy(struct round *r, char *buffer)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	r->before = client_now_ns();
	ctx = client_open();
	took(r, ctx);
	pd = ibv_alloc_pd(ctx);
	took(r, pd);
	mr = ibv_reg_mr(pd, buffer, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	took(r, mr);
	cq = ibv_create_cq(ctx, 2 * DEPTH, NULL, NULL, 0);
	took(r, cq);
	qp = client_create_qp(pd, cq, cq);
	took(r, qp);
	client_modify_init(qp);
	took(r, true);
	client_modify_rtr(qp);
	took(r, true);
	client_modify_rts(qp);
	took(r, true);
	took(r, !ibv_destroy_qp(qp));
	took(r, !ibv_destroy_cq(cq));
	took(r, !ibv_dereg_mr(mr));
	took(r, !ibv_dealloc_pd(pd));
	took(r, !ibv_close_device(ctx));
}

void client_controls(void)
{
	uint64_t rounds = client.wrs;
	double(*ns)[VERBS] = calloc(rounds, sizeof(*ns));
	double *column = calloc(rounds, sizeof(*column));
	char *buffer = aligned_alloc(4096, BYTES);

	if (!ns || !column || !buffer)
		client_fail("calloc");
	memset(buffer, 0, BYTES);
	client.depth = DEPTH;
	for (uint64_t i = 0; i < rounds; i++)
		make_and_destroy(&(struct round){.at = ns[i]}, buffer);
	for (unsigned int v = 0; v < VERBS; v++) {
		for (uint64_t i = 0; i < rounds; i++)
			column[i] = ns[i][v];
		client_print(verbs_controls[v], client_median(column, (unsigned int)rounds));
	}
	free(ns);
	free(column);
	free(buffer);
}
