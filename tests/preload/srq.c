// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Uses shared receive queues in ways that few programs do: late, lists, busy, churn, threads or
 * child; each must work as it does without shift. The program does not know of shift.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/preload/rc.h"

enum { ROOM = 8, ROUNDS = 2000, MANY = 20 };

static struct ibv_srq *create_srq_for(uint32_t room)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = room, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	expect(srq != NULL, "create_srq");
	return srq;
}

static struct ibv_srq *create_srq(void)
{
	return create_srq_for(ROOM);
}

static struct ibv_qp *create_qp_on(struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.cap = {.max_send_wr = ROOM, .max_send_sge = 1},
					.qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	expect(qp != NULL, "create_qp");
	return qp;
}

static int post_to(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static bool is_receive(const struct ibv_wc *wc)
{
	return wc->opcode & IBV_WC_RECV;
}

/* A message to itself. Returns the wr_id of the receive that it has taken. */
static uint64_t message(struct ibv_qp *qp)
{
	struct ibv_wc a, b;

	post(qp, IBV_WR_SEND, 1);
	a = completion();
	b = completion();
	expect(is_receive(&a) != is_receive(&b), "one of each");
	return is_receive(&a) ? a.wr_id : b.wr_id;
}

/* QP and SRQ go with completions unpolled. Where the NIC keeps these they are as they were. */
static void late(void)
{
	struct ibv_srq *srq = create_srq();
	struct ibv_qp *qp = create_qp_on(srq, IBV_QPT_UC);
	struct ibv_wc wc;

	connect_to(qp, qp->qp_num);
	for (uint64_t id = 100; id < 103; id++) {
		expect(!post_to(srq, id), "post_srq_recv");
		post(qp, IBV_WR_SEND, id);
	}
	destroy(qp);
	expect(!ibv_destroy_srq(srq), "destroy_srq");
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		expect(wc.wr_id >= 100 && wc.wr_id < 103, "a wr_id of the program's");
}

static void lists(void)
{
	struct ibv_srq *srq = create_srq();
	struct ibv_qp *qp = create_qp_on(srq, IBV_QPT_RC);
	struct ibv_sge sge[2] = {{(uintptr_t)buffer, 8, mr->lkey},
				 {(uintptr_t)buffer, 8, mr->lkey}};
	struct ibv_recv_wr *bad = NULL, wr[ROOM + 2];

	connect_to(qp, qp->qp_num);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < ROOM + 2; i++)
			wr[i] = (struct ibv_recv_wr){.wr_id = UINT64_MAX - (uint64_t)(i & 1),
						     .sg_list = sge,
						     .num_sge = i & 1,
						     .next = &wr[i + 1]};
		wr[3].num_sge = 2;
		wr[ROOM + 1].next = NULL;
		expect(ibv_post_srq_recv(srq, wr, &bad) == EINVAL && bad == &wr[3],
		       "too many SGEs");
		wr[3].num_sge = 1;
		expect(ibv_post_srq_recv(srq, bad, &bad) == ENOMEM && bad == &wr[ROOM], "no room");
		for (int i = 0; i < ROOM; i++)
			expect(message(qp) == UINT64_MAX - (uint64_t)(i & 1), "whose receive");
	}
	destroy(qp);
	expect(!ibv_destroy_srq(srq), "destroy_srq");
}

/* It stays as it was when it cannot be destroyed. */
static void busy(void)
{
	struct ibv_srq *srq = create_srq();
	struct ibv_qp *qp = create_qp_on(srq, IBV_QPT_RC);
	struct ibv_qp *ud = create_qp_on(srq, IBV_QPT_UC);

	connect_to(qp, qp->qp_num);
	connect_to(ud, ud->qp_num);
	for (uint64_t i = 0; i < 50; i++) {
		expect(ibv_destroy_srq(srq) == EBUSY, "it has QPs");
		expect(!post_to(srq, 2 * i) && !post_to(srq, 2 * i + 1), "post_srq_recv");
		expect(message(qp) == 2 * i, "whose receive");
		expect(message(ud) == 2 * i + 1, "whose receive");
	}
	destroy(qp);
	expect(ibv_destroy_srq(srq) == EBUSY, "it has a QP");
	destroy(ud);
	expect(!ibv_destroy_srq(srq), "destroy_srq");
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Made, used and destroyed again and again: with QPs in any state. */
static void churn(void)
{
	int had = 0;

	for (int i = 0; i < 3000; i++) {
		struct ibv_srq *srq = create_srq();
		struct ibv_qp *qp = create_qp_on(srq, i & 1 ? IBV_QPT_RC : IBV_QPT_UC);

		expect(!post_to(srq, 5) && !post_to(srq, 6), "post_srq_recv");
		if (i % 4)
			to_init(qp);
		if (i % 4 > 1)
			to_rts(qp, qp->qp_num);
		if (i % 4 > 1)
			expect(message(qp) == 5, "whose receive");
		if (i % 3 == 1)
			expect(!ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR},
					      IBV_QP_STATE),
			       "ERR");
		if (i % 3 == 2)
			expect(!ibv_modify_qp(qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
					      IBV_QP_STATE),
			       "RESET");
		destroy(qp);
		expect(!ibv_destroy_srq(srq), "destroy_srq");
		if (i == 100)
			had = descriptors();
	}
	expect(descriptors() <= had, "descriptors stay open");
}

static struct ibv_srq *shared;
static _Atomic uint64_t to_post, posted, polled, seen[ROUNDS + 1];

static void *poster(void *arg)
{
	(void)arg;
	for (uint64_t id; (id = ++to_post) <= ROUNDS; posted++)
		while (post_to(shared, id | 1ull << 63))
			sched_yield();
	return NULL;
}

static void *poller(void *arg)
{
	struct ibv_wc wc[4];

	(void)arg;
	while (polled < ROUNDS) {
		int n = ibv_poll_cq(cq, 4, wc);

		if (!n)
			sched_yield();
		for (int i = 0; i < n; i++) {
			if (!is_receive(&wc[i]))
				continue;
			expect(wc[i].wr_id >> 63 && (wc[i].wr_id << 1 >> 1) <= ROUNDS,
			       "whose wr_id");
			expect(!seen[wc[i].wr_id << 1 >> 1]++, "once");
			polled++;
		}
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[4];
	struct ibv_qp *qp;

	shared = create_srq();
	qp = create_qp_on(shared, IBV_QPT_RC);
	connect_to(qp, qp->qp_num);
	for (int i = 0; i < 4; i++)
		expect(!pthread_create(&t[i], NULL, i & 1 ? poster : poller, NULL), "a thread");
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_sge sge = {(uintptr_t)buffer, 8, mr->lkey};
		struct ibv_send_wr *bad, wr = {.wr_id = 7,
					       .sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_SEND,
					       .send_flags = IBV_SEND_SIGNALED};
		while ((uint64_t)i >= posted)
			sched_yield();
		while (ibv_post_send(qp, &wr, &bad))
			sched_yield();
	}
	alarm(10);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	destroy(qp);
	expect(!ibv_destroy_srq(shared), "destroy_srq");
}

/* Some are made where others were. */
static void in_child(struct ibv_srq **srqs)
{
	for (int i = 0; i < MANY; i++)
		expect(!ibv_destroy_srq(srqs[i]), "destroy in the child");
	for (int i = 0; i < MANY; i++) {
		struct ibv_srq *other = create_srq_for(8 * ROOM);

		for (int k = 0; k < 8 * ROOM; k++)
			expect(!post_to(other, 7), "post in the child");
		expect(post_to(other, 7) == ENOMEM, "full in the child");
	}
	fflush(stdout);
	_exit(0);
}

static void child(void)
{
	struct ibv_srq *srqs[MANY];
	pid_t pid;
	int status;

	for (int i = 0; i < MANY; i++) {
		srqs[i] = create_srq();
		expect(!post_to(srqs[i], 1), "post");
	}
	pid = fork();
	if (!pid)
		in_child(srqs);
	expect(waitpid(pid, &status, 0) == pid && !status, "the child");
	for (int i = 0; i < MANY; i++)
		expect(!post_to(srqs[i], 2) && !ibv_destroy_srq(srqs[i]), "post, destroy");
}

int main(int argc, char **argv)
{
	static const struct use uses[] = {
		{"late", late},	  {"lists", lists},	{"busy", busy},
		{"churn", churn}, {"threads", threads}, {"child", child},
	};

	return rc_main(argc, argv, uses, sizeof(uses) / sizeof(uses[0]));
}
