// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Asks for the queues themselves, as programs do that bypass libibverbs; all must work as it does
 * without shift. The program does not know of shift. Usage: direct_verbs [-d LIBRARY] WHAT; -d:
 * uses the functions of LIBRARY, which it loads, else those that it is linked with. STAY in the
 * environment: the objects stay until a line or the end comes on standard input.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/preload/rc.h"

enum { DEPTH = 8 };

/* Of the library that was asked for. */
static int (*init_obj)(struct mlx5dv_obj *obj, uint64_t types) = mlx5dv_init_obj;
static int (*init_obj_1_0)(struct mlx5dv_obj *obj, uint64_t types);
static struct ibv_qp *(*create_by_mlx5dv)(struct ibv_context *, struct ibv_qp_init_attr_ex *,
					  struct mlx5dv_qp_init_attr *) = mlx5dv_create_qp;

static void look_up(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW);

	expect(handle != NULL, "dlopen");
	init_obj = dlsym(handle, "mlx5dv_init_obj");
	init_obj_1_0 = dlvsym(handle, "mlx5dv_init_obj", "MLX5_1.0");
	create_by_mlx5dv = dlvsym(handle, "mlx5dv_create_qp", "MLX5_1.3");
	expect(init_obj && init_obj_1_0 && create_by_mlx5dv, "look-up");
	expect(dlsym(handle, "mlx5dv_query_device") != NULL, "what is not ours");
}

/* --- verbs ------------------------------------------------------------------------------------ */

/* Connected to a QP that does not exist. */
static struct ibv_qp *connected(void)
{
	struct ibv_qp *qp = create_qp(pd, DEPTH);

	connect_to(qp, qp->qp_num ^ 0x800000);
	return qp;
}

static void post_recv(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	expect(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

/* Of a receive, and of others, in any order. */
static void completions(uint64_t recv, uint64_t send)
{
	bool recv_came = !recv, send_came = !send;
	struct ibv_wc wc;

	while (!recv_came || !send_came) {
		if (!ibv_poll_cq(cq, 1, &wc))
			continue;
		expect(wc.status == IBV_WC_SUCCESS, "poll_cq");
		expect(wc.wr_id == (wc.opcode & IBV_WC_RECV ? recv : send), "whose completion");
		*(wc.opcode & IBV_WC_RECV ? &recv_came : &send_came) = true;
	}
}

static void write_some(struct ibv_qp *qp)
{
	for (uint64_t id = 1; id < 40; id++) {
		post(qp, IBV_WR_RDMA_WRITE, id);
		completions(0, id);
	}
}

static void stay(void)
{
	if (getenv("STAY"))
		getchar();
}

static void reset(struct ibv_qp *qp)
{
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
}

/* --- direct verbs ----------------------------------------------------------------------------- */

static void ask_for_qp(struct ibv_qp *qp, int (*init)(struct mlx5dv_obj *obj, uint64_t types),
		       uint64_t version)
{
	struct mlx5dv_qp out = {.comp_mask = 0};
	struct mlx5dv_obj obj = {.qp = {qp, &out}};

	expect(!init(&obj, MLX5DV_OBJ_QP), "init_obj of a QP");
	expect(out.sq.buf && out.comp_mask == version, "what it gives");
}

static void ask_for_cq(void)
{
	struct mlx5dv_cq out = {.comp_mask = 0};
	/* Objects that are not asked for are not looked at. */
	struct mlx5dv_obj obj = {.qp = {(struct ibv_qp *)8, NULL}, .cq = {cq, &out}};

	expect(!init_obj(&obj, MLX5DV_OBJ_CQ), "init_obj of a CQ");
	expect(out.buf && out.comp_mask == 12, "what it gives");
}

/* While it is in use, and then once more from the beginning. */
static void qp(void)
{
	struct ibv_qp *it = connected();

	write_some(it);
	ask_for_qp(it, init_obj, 12);
	write_some(it);
	ask_for_qp(it, init_obj, 12);
	stay();
	reset(it);
	connect_to(it, it->qp_num ^ 0x800000);
	write_some(it);
	destroy(it);
}

static void old(void)
{
	struct ibv_qp *it = connected();

	expect(init_obj_1_0 != NULL, "-d");
	ask_for_qp(it, init_obj_1_0, 10);
	stay();
	destroy(it);
}

/* Those outstanding at that time come back as they were posted. */
static void receives(void)
{
	struct ibv_qp *it = create_qp(pd, DEPTH);

	connect_to(it, it->qp_num);
	post_recv(it, 10);
	post_recv(it, 11);
	ask_for_qp(it, init_obj, 12);
	for (uint64_t id = 10; id < 30; id++) {
		post_recv(it, id + 2);
		post(it, IBV_WR_SEND, 100);
		completions(id, 100);
	}
	reset(it);
	connect_to(it, it->qp_num);
	post_recv(it, 50);
	post(it, IBV_WR_SEND, 100);
	completions(50, 100);
	destroy(it);
}

/* All on it, also those that come later. */
static void both_on_a_cq(void)
{
	struct ibv_qp *a = connected(), *b = connected(), *later;

	write_some(a);
	ask_for_cq();
	later = connected();
	write_some(a);
	write_some(b);
	write_some(later);
	stay();
	destroy(a);
	destroy(b);
	destroy(later);
}

/* Posted to by ibv_wr_*, too. */
static struct ibv_qp *make(struct mlx5dv_qp_init_attr *more)
{
	struct ibv_qp_init_attr_ex attr = {.comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = pd,
					   .send_cq = cq,
					   .recv_cq = cq,
					   .cap = {.max_send_wr = DEPTH,
						   .max_recv_wr = DEPTH,
						   .max_send_sge = 1,
						   .max_recv_sge = 1},
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
					   .qp_type = IBV_QPT_RC};
	struct ibv_qp *it = create_by_mlx5dv(ctx, &attr, more);

	expect(it != NULL, "mlx5dv_create_qp");
	connect_to(it, it->qp_num ^ 0x800000);
	return it;
}

static int build_some(struct ibv_qp *qp, uint64_t first, unsigned int n)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	expect(ex != NULL, "qp_to_qp_ex");
	ibv_wr_start(ex);
	for (unsigned int i = 0; i < n; i++) {
		ex->wr_id = first + i;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)buffer + 8);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 8);
	}
	return ibv_wr_complete(ex);
}

/* All of them or none. */
static void build_batches(struct ibv_qp *qp)
{
	for (unsigned int n = 1; n <= DEPTH; n++) {
		int err;

		expect(!build_some(qp, 1, n), "wr_complete");
		err = build_some(qp, 50, DEPTH + 1 - n);
		expect(!err || err == ENOMEM, "what does not fit");
		for (uint64_t i = 0; i < n; i++)
			completions(0, 1 + i);
		for (uint64_t i = 0; !err && i < DEPTH + 1 - n; i++)
			completions(0, 50 + i);
	}
	expect(build_some(qp, 1, DEPTH + 1) == ENOMEM, "more than fits");
	write_some(qp);
}

static void made(void)
{
	struct ibv_qp *it = make(NULL);

	write_some(it);
	build_batches(it);
	stay();
	destroy(it);
}

static void special(void)
{
	struct mlx5dv_qp_init_attr more = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS};
	struct ibv_qp *it = make(&more);

	write_some(it);
	build_batches(it);
	stay();
	destroy(it);
}

/* Its queue is asked for, and it is posted to by verbs as before. */
static void asked(void)
{
	struct ibv_qp *it = make(NULL);

	build_batches(it);
	ask_for_qp(it, init_obj, 12);
	build_batches(it);
	stay();
	reset(it);
	connect_to(it, it->qp_num ^ 0x800000);
	build_batches(it);
	destroy(it);
}

/* A QP as an object of the firmware, and another object. */
static void devx(void)
{
	static const uint8_t create_qp_cmd[64] = {0x05, 0x00}, create_cq_cmd[64] = {0x04, 0x00};
	uint8_t out[64];
	struct mlx5dv_devx_obj *it = mlx5dv_devx_obj_create(
		ctx, create_qp_cmd, sizeof(create_qp_cmd), out, sizeof(out));
	struct mlx5dv_devx_obj *other = mlx5dv_devx_obj_create(
		ctx, create_cq_cmd, sizeof(create_cq_cmd), out, sizeof(out));

	expect(it && other, "devx_obj_create");
	stay();
	expect(!mlx5dv_devx_obj_destroy(it) && !mlx5dv_devx_obj_destroy(other), "devx_obj_destroy");
}

/* Only shift refuses anything: prints what it says of a QP in ERR. */
static void over(void)
{
	struct ibv_qp *it = connected();
	struct mlx5dv_qp out;
	struct mlx5dv_obj obj = {.qp = {it, &out}};

	modify(it, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	puts(init_obj(&obj, MLX5DV_OBJ_QP) == EBUSY ? "busy" : "not busy");
	destroy(it);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"qp", qp},	      {"old", old},   {"receives", receives},
		{"cq", both_on_a_cq}, {"made", made}, {"special", special},
		{"asked", asked},     {"over", over}, {"devx", devx}};
	bool by_name = argc > 2 && !strcmp(argv[1], "-d");

	if (by_name)
		look_up(argv[2]);
	return rc_main(by_name ? argc - 2 : argc, by_name ? argv + 2 : argv, uses,
		       sizeof(uses) / sizeof(*uses));
}
