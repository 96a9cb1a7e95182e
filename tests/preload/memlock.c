// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Registers memory, 1 MB at a time, until it may lock no more; prints how often that went well.
 * Then gives all but one back, and with -w stays until a line or the end comes on standard input.
 * The program does not know of shift.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define MB	 (1 << 20)
#define MRS_MAX	 1024
#define PAUSE_AT 8 /* the background thread may catch up: its registrations must make way again */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1},
					.qp_type = IBV_QPT_RC};

	return ibv_create_qp(pd, &attr);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = pd ? ibv_create_cq(ctx, 16, NULL, NULL, 0) : NULL;
	struct ibv_qp *qp = cq ? create_qp(pd, cq) : NULL;
	struct ibv_mr *mr[MRS_MAX];
	void *memory = malloc(MB);
	int n = 0;

	(void)argv;
	if (!qp || !memory)
		return 1;
	ibv_free_device_list(list);
	while (n < MRS_MAX && (mr[n] = ibv_reg_mr(pd, memory, MB, IBV_ACCESS_LOCAL_WRITE))) {
		n++;
		if (n == PAUSE_AT)
			getchar();
	}
	printf("%d %s\n", n, errno == ENOMEM ? "ENOMEM" : "not ENOMEM");
	fflush(stdout);
	while (n > 1)
		if (ibv_dereg_mr(mr[--n]))
			return 1;
	if (argc > 1)
		getchar();
	free(memory);
	return ibv_dereg_mr(mr[0]) || ibv_destroy_qp(qp) || ibv_destroy_cq(cq) ||
	       ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}
