/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Protected connections of this process with itself, on the null provider, each of which moves to
 * its twin while it is in use: posted to by ibv_wr_*, polled by ibv_start_poll(). Both ends are
 * here, on two NICs; each NIC is the other's backup. Usage: moves_ex sends|writes [SEED [home]]
 *
 * sends: each goes into a receive of its own, in order, once. writes (with NULLVERBS_PSN=live): the
 * newest into each place of the memory is what stays there. home: they are used until they have
 * come home, and some time more.
 *
 * Exit status: 0, 1 something failed, 2 bad usage.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "lib/core/conn.h"
#include "tests/bench/ends.h"

enum { EXIT_USAGE = 2, PAIRS = 6, DEPTH = 16, MESSAGES = 20000, SLOTS = 64, INLINE = 16 };

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
	struct ibv_qp_ex *qp[PAIRS];
	uint64_t memory[PAIRS][SLOTS];
	_Atomic uint32_t completed[PAIRS];
};

static struct end near, far;
static uint32_t posted[PAIRS], target = MESSAGES;
static uint32_t breaks_at[PAIRS][2]; /* of the near end, and of the far one */
static bool writes;
static unsigned int seed = 1;
static _Atomic bool over;

static void ensure(bool holds, const char *what)
{
	if (!holds)
		die(EXIT_FAILURE, "%s", what);
}

/* --- set-up ------------------------------------------------------------------------------------
 */

static struct ibv_qp_ex *create_qp(const struct end *e)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->pd,
		.send_cq = ibv_cq_ex_to_cq(e->cq),
		.recv_cq = ibv_cq_ex_to_cq(e->cq),
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = INLINE},
		.qp_type = IBV_QPT_RC,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM};
	struct ibv_qp *qp = ibv_create_qp_ex(e->ctx, &attr);

	must(qp, "create_qp_ex");
	return ibv_qp_to_qp_ex(qp);
}

static void open_end(struct end *e, struct ibv_device *device)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4 * PAIRS * DEPTH,
					   .wc_flags = IBV_WC_STANDARD_FLAGS};

	e->ctx = ibv_open_device(device);
	must(e->ctx, "open_device");
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq_ex(e->ctx, &attr);
	must(e->pd && e->cq, "create_cq_ex");
	e->mr = ibv_reg_mr(e->pd, e->memory, sizeof(e->memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(e->mr && !ibv_query_gid(e->ctx, 1, 1, &e->gid), "reg_mr");
	for (int i = 0; i < PAIRS; i++)
		e->qp[i] = create_qp(e);
}

/* --- completions -------------------------------------------------------------------------------
 */

static int pair_of(const struct end *e, uint32_t qpn)
{
	for (int i = 0; i < PAIRS; i++)
		if (e->qp[i]->qp_base.qp_num == qpn)
			return i;
	die(EXIT_FAILURE, "a completion of QP %#x", qpn);
}

/* The next message of its pair. */
static void completed(struct end *e)
{
	int i = pair_of(e, ibv_wc_read_qp_num(e->cq));
	uint32_t next = e->completed[i];
	enum ibv_wc_opcode opcode = ibv_wc_read_opcode(e->cq);

	if (e->cq->status != IBV_WC_SUCCESS || e->cq->wr_id != next)
		die(EXIT_FAILURE, "%s: pair %d: completion of %llu, status %d; %u is next",
		    e == &near ? "near" : "far", i, (unsigned long long)e->cq->wr_id, e->cq->status,
		    next);
	if (e == &far) {
		ensure(opcode == IBV_WC_RECV && ibv_wc_read_byte_len(e->cq) == 8, "a receive");
		ensure(ibv_wc_read_wc_flags(e->cq) & IBV_WC_WITH_IMM &&
			       ibv_wc_read_imm_data(e->cq) == next,
		       "a message in its own receive");
	} else {
		ensure(opcode == (writes ? IBV_WC_RDMA_WRITE : IBV_WC_SEND), "what completed");
	}
	e->completed[i] = next + 1;
}

static void *poller(void *arg)
{
	struct end *e = arg;

	while (!over) {
		struct ibv_poll_cq_attr attr = {0};
		int err = ibv_start_poll(e->cq, &attr);

		if (err) {
			ensure(err == ENOENT, "start_poll");
			sched_yield();
			continue;
		}
		do {
			completed(e);
		} while (!(err = ibv_next_poll(e->cq)));
		ensure(err == ENOENT, "next_poll");
		ibv_end_poll(e->cq);
	}
	return NULL;
}

/* --- messages ----------------------------------------------------------------------------------
 */

static void post_receive(int i, uint32_t id)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = id};

	must(!ibv_post_recv(&far.qp[i]->qp_base, &wr, &bad), "post_recv");
}

/* The value goes with it, or is in the memory of this end until it has completed. */
static void build(int i, uint32_t id)
{
	struct ibv_qp_ex *qp = near.qp[i];
	uint64_t value = id + 1ull;
	uint64_t *from = &near.memory[i][id % SLOTS];
	uint32_t half = (uint32_t)sizeof(value) / 2;
	struct ibv_sge sges[2] = {{(uintptr_t)from, half, near.mr->lkey},
				  {(uintptr_t)from + half, half, near.mr->lkey}};

	*from = value;
	qp->wr_id = id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (writes)
		ibv_wr_rdma_write(qp, far.mr->rkey, (uintptr_t)&far.memory[i][id % SLOTS]);
	else
		ibv_wr_send_imm(qp, id);
	qp->wr_id = UINT64_MAX;
	switch (id % 3) {
	case 0: ibv_wr_set_inline_data(qp, &value, sizeof(value)); break;
	case 1: ibv_wr_set_sge_list(qp, 2, sges); break;
	default: ibv_wr_set_sge(qp, near.mr->lkey, (uintptr_t)from, sizeof(value)); break;
	}
	value = 0;
}

static void break_qp(struct ibv_qp_ex *qp)
{
	static void (*null_break_qp)(struct ibv_qp *);

	if (!null_break_qp)
		*(void **)&null_break_qp = dlsym(RTLD_DEFAULT, "null_break_qp");
	ensure(null_break_qp, "null_break_qp");
	null_break_qp(&qp->qp_base);
}

static bool is_due(int i, int at_end, uint32_t n)
{
	uint32_t at = breaks_at[i][at_end];

	return at >= posted[i] && at < posted[i] + n;
}

/* A batch, and somewhere in it one of the NICs breaks. */
static void batch(int i, uint32_t n)
{
	bool near_breaks = is_due(i, 0, n), far_breaks = is_due(i, 1, n);

	for (uint32_t k = 0; k < n && !writes; k++)
		post_receive(i, posted[i] + k);
	ibv_wr_start(near.qp[i]);
	for (uint32_t k = 0; k < n; k++) {
		build(i, posted[i] + k);
		if (k == n / 2 && near_breaks)
			break_qp(near.qp[i]);
		if (k == n / 2 && far_breaks)
			break_qp(far.qp[i]);
	}
	errno = ibv_wr_complete(near.qp[i]);
	if (errno != ENOMEM || !writes)
		must(!errno, "wr_complete");
	posted[i] += errno ? 0 : n;
}

/* WRITEs also if there is none: what does not fit is refused, or waits. */
static bool has_room(int i, uint32_t n)
{
	uint32_t done = near.completed[i];

	if (!writes && far.completed[i] < done)
		done = far.completed[i];
	return posted[i] + n - done <= (writes ? 2 * DEPTH : DEPTH);
}

static bool all_complete(void)
{
	for (int i = 0; i < PAIRS; i++)
		if (near.completed[i] < target || (!writes && far.completed[i] < target))
			return false;
	return true;
}

static void run(void)
{
	for (int left = PAIRS; left;) {
		left = 0;
		for (int i = 0; i < PAIRS; i++) {
			uint32_t n = (uint32_t)rand_r(&seed) % DEPTH + 1;

			if (n > target - posted[i])
				n = target - posted[i];
			left += posted[i] < target;
			if (n && has_room(i, n))
				batch(i, n);
			else
				sched_yield();
		}
	}
}

static void come_home(void)
{
	while (count_connections(SHIFT_ST_ACTIVE, 0, 0) < 2ul * PAIRS) {
		target += MESSAGES / 20;
		run();
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	target += MESSAGES;
	run();
}

static void expect_memory(void)
{
	for (int i = 0; i < PAIRS; i++)
		for (uint32_t id = target - SLOTS; id < target; id++)
			ensure(!writes || far.memory[i][id % SLOTS] == id + 1ull,
			       "what the newest has written");
}

int main(int argc, char **argv)
{
	struct ibv_device **list;
	pthread_t thread[2];

	cli_begin("moves_ex", EXIT_FAILURE);
	if (argc < 2 || (strcmp(argv[1], "sends") != 0 && strcmp(argv[1], "writes") != 0))
		die(EXIT_USAGE, "usage: moves_ex sends|writes [SEED [home]]");
	writes = !strcmp(argv[1], "writes");
	seed = argc > 2 ? (unsigned int)atoi(argv[2]) : 1;
	printf("seed %u\n", seed);
	alarm(120);
	list = ibv_get_device_list(NULL);
	must(list && list[0] && list[1], "two NICs");
	open_end(&near, list[0]);
	open_end(&far, list[1]);
	for (int i = 0; i < PAIRS; i++) {
		connect_qp(&near.qp[i]->qp_base, &far.gid, far.qp[i]->qp_base.qp_num);
		connect_qp(&far.qp[i]->qp_base, &near.gid, near.qp[i]->qp_base.qp_num);
		/* Odd ones by their far end, and where one end waits for the other, by both. */
		breaks_at[i][0] = breaks_at[i][1] = UINT32_MAX;
		breaks_at[i][writes ? i % 2 : 0] = 1000 + (uint32_t)rand_r(&seed) % 15000;
	}
	await_connections(2ul * PAIRS, SHIFT_ST_ACTIVE, 0, 0);
	await_twins();
	pthread_create(&thread[0], NULL, poller, &near);
	pthread_create(&thread[1], NULL, poller, &far);
	run();
	await_connections(2ul * PAIRS, SHIFT_ST_ACTIVE, 1, 0);
	if (argc > 3)
		come_home();
	while (!all_complete())
		sched_yield();
	over = true;
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	expect_memory();
	puts("done");
	fflush(stdout);
	_exit(0);
}
