/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One pattern of the table, round after round. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/verbs_client/client.h"

enum {
	DEPTH = 128,
	BYTES = 64,
	PLACES = 64, /* of data in the buffer, in turn */
	CQE_MAX = 16384,
	ROUNDS_A_TURN = 16,
	LENGTHS = 64,
};

/* What one thread posts. */
struct poster {
	struct ibv_send_wr wr[VERBS_LIST_MAX];
	struct ibv_sge sge[VERBS_LIST_MAX];
	struct ibv_recv_wr recv[VERBS_LIST_MAX];
	struct ibv_sge recv_sge;
	uint32_t next_qp;
	uint32_t unsignaled[VERBS_QPS_MAX]; /* WRs of each QP since the last signaled one */
	uint64_t wrs, receives, posts, polls, completions;
	struct stretches stretches;
} __attribute__((aligned(64)));

static struct verbs_pattern p;
static struct poster poster[2];
static uint32_t lengths[LENGTHS];
static uint64_t rounds; /* of each thread's stretch */

/* POST_BESIDE_POLL: what has been signaled, what has been polled. */
static struct {
	_Atomic uint64_t posted __attribute__((aligned(64)));
	_Atomic uint64_t polled __attribute__((aligned(64)));
} beside;

static bool is_two_sided(void)
{
	return p.op == VERBS_SEND || p.op == VERBS_SEND_SRQ || p.op == VERBS_WRITE_IMM;
}

static enum ibv_wr_opcode opcode(void)
{
	switch (p.op) {
	case VERBS_READ: return IBV_WR_RDMA_READ;
	case VERBS_SEND:
	case VERBS_SEND_SRQ: return IBV_WR_SEND;
	case VERBS_WRITE_IMM: return IBV_WR_RDMA_WRITE_WITH_IMM;
	case VERBS_WRITE:
	case VERBS_WRITE_INLINE:
	case VERBS_NO_OP: break;
	}
	return IBV_WR_RDMA_WRITE;
}

/* Every field, as a program does that builds its WR anew. */
static inline void write_wr(struct ibv_send_wr *wr, struct ibv_sge *sge, uint64_t n)
{
	sge->addr = (uintptr_t)client.buffer + n % PLACES * 4096;
	sge->length = p.fill == VERBS_LENGTHS ? lengths[n % LENGTHS] : BYTES;
	sge->lkey = client.mr->lkey;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = opcode();
	wr->send_flags = p.op == VERBS_WRITE_INLINE ? IBV_SEND_INLINE : 0;
	wr->imm_data = (uint32_t)n;
	wr->wr.rdma.remote_addr = (uintptr_t)client.buffer + (PLACES + n % PLACES) * 4096;
	wr->wr.rdma.rkey = client.mr->rkey;
}

static void prepare(struct poster *o)
{
	o->recv_sge = (struct ibv_sge){(uintptr_t)client.buffer + CLIENT_BUFFER_BYTES / 2, 8192,
				       client.mr->lkey};
	for (uint32_t i = 0; i < p.list; i++) {
		bool last = i + 1 == p.list;

		write_wr(&o->wr[i], &o->sge[i], i);
		o->wr[i].next = last ? NULL : &o->wr[i + 1];
		o->recv[i].next = last ? NULL : &o->recv[i + 1];
		o->recv[i].sg_list = &o->recv_sge;
		o->recv[i].num_sge = p.op != VERBS_WRITE_IMM;
	}
}

static inline void set_signaled(struct ibv_send_wr *wr, bool signaled)
{
	wr->send_flags = signaled ? wr->send_flags | IBV_SEND_SIGNALED
				  : wr->send_flags & ~(unsigned int)IBV_SEND_SIGNALED;
}

/* A list, to the next QP. Returns how many completions it will have. */
static inline uint32_t post(struct poster *o)
{
	uint32_t at = o->next_qp, completions = 0;
	struct ibv_qp *qp = client.qps[at];

	o->next_qp = at + 1 == p.qps ? 0 : at + 1;
	if (is_two_sided()) {
		for (uint32_t i = 0; i < p.list; i++)
			o->recv[i].wr_id = o->receives++;
		if (client.srq)
			collect_post_srq_recv(client.srq, o->recv);
		else
			collect_post_recv(qp, o->recv);
		completions += p.list;
	}
	for (uint32_t i = 0; i < p.list; i++) {
		bool signaled = ++o->unsignaled[at] >= p.signal_every;

		if (p.fill != VERBS_SAME)
			write_wr(&o->wr[i], &o->sge[i], o->wrs);
		o->wr[i].wr_id = o->wrs++;
		set_signaled(&o->wr[i], signaled);
		if (signaled) {
			o->unsignaled[at] = 0;
			completions++;
		}
	}
	collect_post_send(qp, o->wr);
	o->posts++;
	return completions;
}

static inline uint32_t poll(struct poster *o)
{
	struct ibv_wc wc[VERBS_POLL_MAX];
	int n = collect_poll_cq(client.cqs[0], (int)p.poll, wc);

	o->polls++;
	o->completions += (uint32_t)n;
	return (uint32_t)n;
}

static void settle(void)
{
	if (client.settle_us)
		usleep(client.settle_us);
}

static inline void one_round(struct poster *o)
{
	uint32_t due = 0;

	if (p.op == VERBS_NO_OP) {
		poll(o);
		o->wrs++;
		return;
	}
	for (uint32_t i = 0; i < p.group; i++)
		due += post(o);
	settle();
	while (due)
		due -= poll(o);
}

static void run_alone(void)
{
	for (uint64_t i = 0; i < rounds; i++) {
		one_round(&poster[0]);
		stretches_look(&poster[0].stretches, poster[0].wrs);
	}
}

/* --- two threads ----------------------------------------------------------------------------- */

static void post_only(void)
{
	uint64_t posted = atomic_load_explicit(&beside.posted, memory_order_relaxed);
	unsigned int tries = 0;

	for (uint64_t i = 0; i < rounds; i++) {
		while (posted - atomic_load_explicit(&beside.polled, memory_order_acquire) >
		       DEPTH - p.group * p.list)
			client_wait_a_little(&tries);
		posted += post(&poster[0]);
		atomic_store_explicit(&beside.posted, posted, memory_order_release);
		stretches_look(&poster[0].stretches, poster[0].wrs);
		if (client.counting && (i % ROUNDS_A_TURN == ROUNDS_A_TURN - 1)) {
			client_give_turn(0);
			client_take_turn(0);
		}
	}
}

static void poll_only(void)
{
	uint64_t polled = atomic_load_explicit(&beside.polled, memory_order_relaxed);
	uint64_t all = polled + rounds * p.group * p.list / p.signal_every;
	unsigned int tries = 0;

	while (polled < all) {
		client_take_turn(1);
		settle();
		while (polled < atomic_load_explicit(&beside.posted, memory_order_acquire)) {
			polled += poll(&poster[1]);
			atomic_store_explicit(&beside.polled, polled, memory_order_release);
		}
		if (client.counting)
			client_give_turn(1);
		else
			client_wait_a_little(&tries);
	}
}

static void run_beside(unsigned int thread)
{
	if (thread) {
		poll_only();
	} else {
		client_take_turn(0);
		post_only();
	}
	client_leave_turns(thread);
}

static void run_two_posters(unsigned int thread)
{
	for (uint64_t i = 0; i < rounds; i++) {
		client_take_turn(thread);
		one_round(&poster[thread]);
		stretches_look(&poster[thread].stretches, poster[thread].wrs);
		if (i % ROUNDS_A_TURN == ROUNDS_A_TURN - 1)
			client_give_turn(thread);
	}
	client_leave_turns(thread);
}

/* --- all ------------------------------------------------------------------------------------- */

static void run(uint64_t wrs)
{
	uint64_t wrs_a_round = p.group * p.list;

	rounds = wrs / wrs_a_round + 1;
	for (unsigned int i = 0; i < 2; i++)
		stretches_begin(&poster[i].stretches, poster[i].wrs,
				p.threads == VERBS_TWO_POST ? &poster[!i].wrs : NULL,
				wrs + wrs_a_round);
	switch (p.threads) {
	case VERBS_ONE_THREAD: run_alone(); break;
	case VERBS_POST_BESIDE_POLL: client_run_both(run_beside); break;
	case VERBS_TWO_POST: client_run_both(run_two_posters); break;
	}
}

/* Every QP is posted to, and every ring comes around, before anything counts. */
static void warm_up(void)
{
	run(2ul * p.group * p.list * (p.qps * p.signal_every + DEPTH));
	for (unsigned int i = 0; i < 2; i++) {
		stretches_median(&poster[i].stretches);
		poster[i].wrs = poster[i].receives = poster[i].posts = poster[i].polls =
			poster[i].completions = 0;
	}
}

static void print_results(void)
{
	double ns = stretches_median(&poster[0].stretches);

	if (!client.counting)
		client_print("ns_per_wr", ns);
	client_print("wrs", (double)(poster[0].wrs + poster[1].wrs));
	client_print("posts", (double)(poster[0].posts + poster[1].posts));
	client_print("receives", (double)(poster[0].receives + poster[1].receives));
	client_print("completions", (double)(poster[0].completions + poster[1].completions));
	stretches_median(&poster[1].stretches);
}

void client_pattern(const struct verbs_pattern *pattern)
{
	uint32_t cqe = pattern->qps * 2 * DEPTH;

	p = *pattern;
	client.shared = p.op == VERBS_SEND_SRQ;
	client_make_objects(p.qps, 1, cqe < CQE_MAX ? cqe : CQE_MAX, DEPTH);
	for (uint32_t i = 0; i < LENGTHS; i++)
		lengths[i] = 1 + (i * 1103u + 12345u) % 4096u;
	prepare(&poster[0]);
	prepare(&poster[1]);
	warm_up();
	collect_begin();
	run(client.wrs);
	print_results();
	client_destroy_objects();
}
