/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * integrity-dlopen: the same program, which is not linked with libibverbs. Each function of the
 * verbs is this file's, and finds the real one as plugins do: with dlopen(RTLD_NOW) and dlvsym(),
 * as NCCL, or with dlopen(RTLD_LAZY | RTLD_LOCAL) and dlsym().
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/clients/integrity/integrity.h"

const struct cm_calls *const cm = NULL;

/* verbs.h has them inline, too. */
#undef ibv_query_port
#undef ibv_reg_mr

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;

static void open_library(void)
{
	library = dlopen("libibverbs.so.1", opt.lazy ? RTLD_LAZY | RTLD_LOCAL : RTLD_NOW);
}

static void *find(const char *name, const char *version)
{
	void *symbol = NULL;

	pthread_once(&once, open_library);
	if (library)
		symbol = opt.lazy ? dlsym(library, name) : dlvsym(library, name, version);
	if (symbol)
		return symbol;
	fprintf(stderr, "integrity: %s: %s\n", name, dlerror());
	exit(EXIT_SETUP);
}

/* clang-format off */
#define FORWARD(type, name, version, parameters, arguments)    \
	type name parameters                                   \
	{                                                      \
		static _Atomic(void *) found;                  \
		type(*real) parameters;                        \
                                                               \
		if (!found)                                    \
			found = find(#name, version);          \
		real = (type(*) parameters)(uintptr_t)found;   \
		return real arguments;                         \
	}

FORWARD(void, ibv_ack_async_event, "IBVERBS_1.1", (struct ibv_async_event *event), (event))
FORWARD(void, ibv_ack_cq_events, "IBVERBS_1.1", (struct ibv_cq *cq, unsigned int n), (cq, n))
FORWARD(struct ibv_pd *, ibv_alloc_pd, "IBVERBS_1.1", (struct ibv_context *ctx), (ctx))
FORWARD(int, ibv_close_device, "IBVERBS_1.1", (struct ibv_context *ctx), (ctx))
FORWARD(struct ibv_comp_channel *, ibv_create_comp_channel, "IBVERBS_1.0",
	(struct ibv_context *ctx), (ctx))
FORWARD(struct ibv_cq *, ibv_create_cq, "IBVERBS_1.1",
	(struct ibv_context *ctx, int cqe, void *own, struct ibv_comp_channel *channel,
	 int vector),
	(ctx, cqe, own, channel, vector))
FORWARD(struct ibv_qp *, ibv_create_qp, "IBVERBS_1.1",
	(struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr))
FORWARD(struct ibv_srq *, ibv_create_srq, "IBVERBS_1.1",
	(struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr))
FORWARD(int, ibv_dealloc_pd, "IBVERBS_1.1", (struct ibv_pd *pd), (pd))
FORWARD(int, ibv_dereg_mr, "IBVERBS_1.1", (struct ibv_mr *mr), (mr))
FORWARD(int, ibv_destroy_comp_channel, "IBVERBS_1.0", (struct ibv_comp_channel *channel),
	(channel))
FORWARD(int, ibv_destroy_cq, "IBVERBS_1.1", (struct ibv_cq *cq), (cq))
FORWARD(int, ibv_destroy_qp, "IBVERBS_1.1", (struct ibv_qp *qp), (qp))
FORWARD(int, ibv_destroy_srq, "IBVERBS_1.1", (struct ibv_srq *srq), (srq))
FORWARD(void, ibv_free_device_list, "IBVERBS_1.1", (struct ibv_device **list), (list))
FORWARD(int, ibv_get_async_event, "IBVERBS_1.1",
	(struct ibv_context *ctx, struct ibv_async_event *event), (ctx, event))
FORWARD(int, ibv_get_cq_event, "IBVERBS_1.1",
	(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **own), (channel, cq, own))
FORWARD(struct ibv_device **, ibv_get_device_list, "IBVERBS_1.1", (int *n), (n))
FORWARD(const char *, ibv_get_device_name, "IBVERBS_1.1", (struct ibv_device *device), (device))
FORWARD(int, ibv_modify_qp, "IBVERBS_1.1", (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask),
	(qp, attr, mask))
FORWARD(int, ibv_modify_srq, "IBVERBS_1.1",
	(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask))
FORWARD(struct ibv_context *, ibv_open_device, "IBVERBS_1.1", (struct ibv_device *device),
	(device))
FORWARD(struct ibv_qp_ex *, ibv_qp_to_qp_ex, "IBVERBS_1.6", (struct ibv_qp *qp), (qp))
FORWARD(int, ibv_query_gid, "IBVERBS_1.1",
	(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid),
	(ctx, port, index, gid))
FORWARD(int, ibv_query_port, "IBVERBS_1.1",
	(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr),
	(ctx, port, attr))
FORWARD(struct ibv_mr *, ibv_reg_mr, "IBVERBS_1.1",
	(struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access))
FORWARD(const char *, ibv_wc_status_str, "IBVERBS_1.1", (enum ibv_wc_status status), (status))
