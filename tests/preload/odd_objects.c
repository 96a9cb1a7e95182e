// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Uses one feature of verbs that few programs use: windows, loopback, pair, again, child, largest,
 * domain, thread, extended, receiver, opcode or many; each must work as it does without shift. The
 * program does not know of shift. STAY in the environment: a connection stays until a line or the
 * end comes on standard input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/rc.h"

static void write_one(struct ibv_qp *qp, uint64_t id)
{
	post(qp, IBV_WR_RDMA_WRITE, id);
	expect(completion().wr_id == id, "whose completion");
}

static void send_one(struct ibv_qp *from, struct ibv_qp *to, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = id + 1, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	expect(!ibv_post_recv(to, &recv, &bad_recv), "post_recv");
	expect(!ibv_post_send(from, &wr, &bad), "post_send");
	expect(completion().wr_id + completion().wr_id == 2 * id + 1, "whose completions");
}

static void bind(struct ibv_qp *qp, struct ibv_mw *mw, uint64_t id)
{
	struct ibv_send_wr *bad,
		wr = {.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw_bind one = {.wr_id = id + 1, .send_flags = IBV_SEND_SIGNALED};

	wr.bind_mw.mw = mw;
	expect(!ibv_post_send(qp, &wr, &bad), "BIND_MW");
	expect(completion().wr_id == id, "whose completion");
	expect(!ibv_bind_mw(qp, mw, &one), "bind_mw");
	expect(completion().wr_id == id + 1, "whose completion");
}

/* On a QP that was there before the first window, and on one that came later. */
static void windows(void)
{
	struct ibv_qp *before = create_qp(pd, 8), *after;
	struct ibv_mw *mw;

	connect_to(before, before->qp_num ^ 0x800000); /* somebody elsewhere */
	write_one(before, 1);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	expect(mw != NULL, "alloc_mw");
	after = create_qp(pd, 8);
	connect_to(after, after->qp_num ^ 0x800000);
	for (uint64_t i = 0; i < 40; i += 8) {
		bind(before, mw, 10 + i);
		write_one(before, 12 + i);
		bind(after, mw, 14 + i);
		write_one(after, 16 + i);
	}
	expect(!ibv_dealloc_mw(mw), "dealloc_mw");
	destroy(before);
	destroy(after);
}

static void loopback(void)
{
	struct ibv_qp *qp = create_qp(pd, 8);

	connect_to(qp, qp->qp_num);
	for (uint64_t i = 0; i < 100; i += 2) {
		write_one(qp, i);
		send_one(qp, qp, i);
	}
	if (getenv("STAY"))
		getchar();
	destroy(qp);
}

static void exchange(struct ibv_qp *a, struct ibv_qp *b)
{
	connect_to(a, b->qp_num);
	connect_to(b, a->qp_num);
	for (uint64_t i = 0; i < 100; i += 2) {
		send_one(a, b, i);
		send_one(b, a, i);
		write_one(a, i);
	}
}

static uint32_t depth = 8;

/* Two of one process, on one NIC. */
static void pair(void)
{
	struct ibv_qp *a = create_qp(pd, depth), *b = create_qp(pd, depth);

	exchange(a, b);
	if (getenv("STAY"))
		getchar();
	destroy(a);
	destroy(b);
}

/* The same two, connected once more after RESET. */
static void again(void)
{
	struct ibv_qp *a = create_qp(pd, 8), *b = create_qp(pd, 8);

	for (int i = 0; i < 3; i++) {
		exchange(a, b);
		modify(a, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
		modify(b, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	}
	destroy(a);
	destroy(b);
}

static void memory(void)
{
	struct ibv_mr *of_parent = mr;

	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	expect(mr && !ibv_dereg_mr(of_parent), "memory");
}

/* In a child of fork(): the objects of its parent, and its own. */
static void in_child(struct ibv_qp *a, struct ibv_qp *b)
{
	memory();
	pair();
	modify(a, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	modify(a, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	modify(b, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
	exchange(a, b);
	destroy(a);
	destroy(b);
	for (int i = 0; i < 10; i++)
		pair(); /* at the same addresses */
	_exit(0);
}

static void child(void)
{
	struct ibv_qp *a = create_qp(pd, 8), *b = create_qp(pd, 8);
	int status = 1;
	pid_t pid;

	exchange(a, b);
	pid = fork();
	if (!pid)
		in_child(a, b);
	expect(waitpid(pid, &status, 0) == pid && !status, "the child");
	for (uint64_t i = 0; i < 100; i += 2)
		send_one(a, b, i);
	destroy(a);
	destroy(b);
}

/* With as many sends as the device takes. */
static void largest(void)
{
	struct ibv_device_attr attr;

	expect(!ibv_query_device(ctx, &attr), "query_device");
	depth = (uint32_t)attr.max_qp_wr;
	pair();
}

static void stay(void)
{
	if (getenv("STAY"))
		getchar();
}

static void in_parent(struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &attr);
	struct ibv_mr *of_pd = mr;
	struct ibv_qp *qp;

	expect(parent, "alloc_parent_domain");
	mr = ibv_reg_mr(parent, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	expect(mr && mr->pd == parent, "reg_mr on a parent domain");
	qp = create_qp(parent, 8);
	connect_to(qp, qp->qp_num ^ 0x800000);
	write_one(qp, 1);
	stay();
	destroy(qp);
	expect(!ibv_dereg_mr(mr), "dereg_mr");
	mr = of_pd;
	expect(!ibv_dealloc_pd(parent), "dealloc of a parent domain");
}

static void domain(void)
{
	in_parent(NULL);
}

/* And then one without, which may be at the same address. */
static void thread(void)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(ctx, &td_attr);

	expect(td, "alloc_td");
	in_parent(td);
	expect(!ibv_dealloc_td(td), "dealloc_td");
}

static struct ibv_qp *create_ex(enum ibv_qp_type type, uint32_t features, uint64_t ops,
				uint32_t flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD | features,
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.send_ops_flags = ops,
		.create_flags = flags,
		.qp_type = type};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &attr);

	expect(qp != NULL, "create_qp_ex");
	return qp;
}

/* Each way in which a QP with features is made: 5 of them are protected. */
static void extended(void)
{
	enum { OPS = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, FLAGS = IBV_QP_INIT_ATTR_CREATE_FLAGS };
	const uint64_t write = IBV_QP_EX_WITH_RDMA_WRITE, all_known = 0x2ff;
	const uint32_t padding = IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	struct ibv_qp *qp[] = {
		create_ex(IBV_QPT_RC, 0, 0, 0),
		create_ex(IBV_QPT_RC, OPS, write, 0),
		create_ex(IBV_QPT_RC, OPS, all_known, 0),
		create_ex(IBV_QPT_RC, FLAGS, 0, 0),
		create_ex(IBV_QPT_RC, OPS | FLAGS, write, padding),
		create_ex(IBV_QPT_RC, OPS, write | IBV_QP_EX_WITH_BIND_MW, 0),
		create_ex(IBV_QPT_RC, OPS, write | IBV_QP_EX_WITH_ATOMIC_WRITE, 0),
		create_ex(IBV_QPT_RC, FLAGS, 0, IBV_QP_CREATE_CVLAN_STRIPPING),
		create_ex(IBV_QPT_RC, OPS | FLAGS, write, padding | IBV_QP_CREATE_SCATTER_FCS),
		create_ex(IBV_QPT_RC, IBV_QP_INIT_ATTR_MAX_TSO_HEADER, 0, 0),
		create_ex(IBV_QPT_UD, OPS, IBV_QP_EX_WITH_SEND, 0),
		create_ex(IBV_QPT_UD, 0, 0, 0)};
	const int all = sizeof(qp) / sizeof(*qp);

	for (int i = 0; i < all - 2; i++) {
		connect_to(qp[i], qp[i]->qp_num ^ 0x800000);
		write_one(qp[i], 1);
	}
	stay();
	for (int i = 0; i < all; i++)
		destroy(qp[i]);
}

/* A QP that only receives, and has no send queue. */
static void receiver(void)
{
	struct ibv_qp *a = create_qp(pd, 8), *b;
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_recv_wr = 8, .max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	b = ibv_create_qp(pd, &attr);
	expect(b != NULL, "create_qp");
	connect_to(a, b->qp_num);
	connect_to(b, a->qp_num);
	for (uint64_t i = 0; i < 100; i += 2)
		send_one(a, b, i);
	stay();
	destroy(b);
	destroy(a);
}

/* An opcode that the library does not know. */
static void opcode(void)
{
	struct ibv_qp *qp = create_qp(pd, 8);

	connect_to(qp, qp->qp_num ^ 0x800000);
	for (uint64_t i = 0; i < 40; i += 2) {
		post(qp, (enum ibv_wr_opcode)15, i);
		expect(completion().wr_id == i, "whose completion");
		write_one(qp, i + 1);
	}
	destroy(qp);
}

/* RTR and RTS of many QPs; strace finds them between the two calls of getppid. */
static void many(void)
{
	struct ibv_qp *qp[64];

	for (int i = 0; i < 64; i++) {
		qp[i] = create_qp(pd, 8);
		to_init(qp[i]);
	}
	getppid();
	for (int i = 0; i < 64; i++)
		to_rts(qp[i], qp[i]->qp_num ^ 0x800000);
	getppid();
	if (getenv("STAY"))
		getchar();
	for (int i = 0; i < 64; i++)
		destroy(qp[i]);
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"windows", windows},	{"loopback", loopback}, {"pair", pair},
		{"again", again},	{"child", child},	{"largest", largest},
		{"domain", domain},	{"many", many},		{"thread", thread},
		{"extended", extended}, {"receiver", receiver}, {"opcode", opcode}};

	return rc_main(argc, argv, uses, sizeof(uses) / sizeof(*uses));
}
