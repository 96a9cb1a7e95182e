// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Calls each verb that libshift.so exports, once. Prints which before it does so. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

/* Not the macros, which choose for the caller. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define ADDRESS ((void *)0x10000)

#define CALL(verb, ...) (puts(#verb ":"), verb(__VA_ARGS__))

static void expect(int holds, const char *what)
{
	if (!holds) {
		printf("failed: %s (%m)\n", what);
		exit(1);
	}
}

static void memory(struct ibv_pd *pd)
{
	struct ibv_mr *mrs[] = {
		CALL(ibv_reg_mr, pd, ADDRESS, 11, 1),
		CALL(ibv_reg_mr_iova, pd, ADDRESS, 12, 0x20000, 2),
		CALL(ibv_reg_mr_iova2, pd, ADDRESS, 13, 0x30000, 1 << 20),
		CALL(ibv_reg_dmabuf_mr, pd, 0x40, 14, 0x50000, 0, 3),
	};

	expect(!CALL(ibv_reg_dmabuf_mr, pd, 0, 0, 0, -1, 0) && errno == EBADF, "errno of reg");
	expect(CALL(ibv_rereg_mr, mrs[0], 0, NULL, NULL, 0, 0) == 0, "rereg_mr");
	for (int i = 0; i < 4; i++) {
		expect(mrs[i] != NULL, "reg_mr");
		expect(CALL(ibv_dereg_mr, mrs[i]) == 0, "dereg_mr");
	}
}

static void events(struct ibv_context *ctx)
{
	struct ibv_comp_channel *channel = CALL(ibv_create_comp_channel, ctx);
	struct ibv_cq *cq;
	void *context;

	expect(channel && fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "create_comp_channel");
	expect(CALL(ibv_get_cq_event, channel, &cq, &context) == -1 && errno == EAGAIN, "no event");
	cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	expect(cq != NULL, "create_cq");
	CALL(ibv_ack_cq_events, cq, 0);
	expect(ibv_destroy_cq(cq) == 0, "destroy_cq");
	expect(CALL(ibv_destroy_comp_channel, channel) == 0, "destroy_comp_channel");
}

static void queues(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_cq *cq = CALL(ibv_create_cq, ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp *qp;

	expect(cq && CALL(ibv_resize_cq, cq, 32) == 0, "resize_cq");
	qp = CALL(ibv_create_qp, pd, &init);
	expect(qp && CALL(ibv_modify_qp, qp, &attr, IBV_QP_STATE) == 0, "modify_qp");
	expect(CALL(ibv_set_ece, qp, &(struct ibv_ece){.vendor_id = 1, .options = 2}) == 0, "ECE");
	expect(CALL(ibv_query_qp, qp, &attr, IBV_QP_STATE, &init) == 0, "query_qp");
	expect(attr.qp_state == IBV_QPS_INIT, "the state");
	expect(CALL(ibv_destroy_qp, qp) == 0, "destroy_qp");
	expect(CALL(ibv_destroy_cq, cq) == 0, "destroy_cq");
}

int main(void)
{
	/* Its version is of this machine's libibverbs, which another need not have. */
	struct ibv_context *(*verbs_open)(struct ibv_device *, void *) = dlsym(RTLD_DEFAULT,
									       "verbs_open_device");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx, *other;
	struct ibv_async_event event;
	struct ibv_pd *pd;

	expect(list && list[0] && verbs_open, "get_device_list");
	ctx = CALL(ibv_open_device, list[0]);
	other = CALL(verbs_open, list[0], NULL);
	expect(ctx && other, "open_device");
	expect(!CALL(ibv_import_device, 0) && errno == EOPNOTSUPP, "errno of import_device");
	fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK);
	expect(CALL(ibv_get_async_event, ctx, &event) == -1 && errno == EAGAIN, "no event");
	event.event_type = IBV_EVENT_PORT_ACTIVE;
	CALL(ibv_ack_async_event, &event);
	pd = CALL(ibv_alloc_pd, ctx);
	expect(pd != NULL, "alloc_pd");
	memory(pd);
	events(ctx);
	queues(ctx, pd);
	expect(CALL(ibv_dealloc_pd, pd) == 0, "dealloc_pd");
	expect(CALL(ibv_close_device, ctx) == 0, "close_device");
	ibv_free_device_list(list);
	return ibv_close_device(other);
}
