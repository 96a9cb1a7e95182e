/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program of chance. The seed says how many QPs and CQs and threads there are, and each step: a
 * QP (some are used far more than others), a list, and each of its WRs. All of that is drawn
 * before anything is measured, and does not depend on when completions come, so a seed posts the
 * same on every machine.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/shift-bench/verbs_client/client.h"

enum {
	DEPTH = 256,
	CQE = 32000, /* some NICs have no larger CQ */
	SIGNAL_MAX = 64,
	LENGTH_MAX = 16384,
	PASS_WRS = 20000, /* and then the same again */
	STEPS_A_TURN = 8,
	OPS = 7,
};

/* Of 64, in most seeds; an atomic is rare in programs. */
static const enum ibv_wr_opcode opcodes[OPS] = {
	IBV_WR_RDMA_WRITE,	   IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,	   IBV_WR_RDMA_READ,	       IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_ATOMIC_CMP_AND_SWP,
};
static const char *const names[OPS] = {"write", "write_imm", "send",   "send_imm",
				       "read",	"fetch_add", "cmp_swp"};

struct drawn_wr {
	uint8_t op, num_sge, is_inline, recv_sge;
	uint32_t length, place;
};

struct step {
	uint32_t qp, first; /* of its WRs */
	uint8_t wrs, poll;  /* poll: completions asked for afterwards; 0: no poll */
};

struct plan {
	struct step *steps;
	struct drawn_wr *wrs;
	uint32_t step_count, wr_count;
};

struct lane {
	/* WRs that are not known to be done: a queue has their places until then. */
	_Atomic uint32_t sends __attribute__((aligned(64)));
	_Atomic uint32_t receives;
	uint8_t signal_every;
};

struct worker {
	struct plan plan;
	uint64_t seed;
	uint8_t unsignaled[VERBS_QPS_MAX];
	struct ibv_send_wr wr[VERBS_LIST_MAX];
	struct ibv_sge sge[VERBS_LIST_MAX][CLIENT_SGES];
	struct ibv_recv_wr recv[VERBS_LIST_MAX];
	struct ibv_sge recv_sge;
	uint64_t posted, completions;
	struct stretches stretches;
} __attribute__((aligned(64)));

static struct lane lanes[VERBS_QPS_MAX];
static _Atomic uint32_t due[VERBS_QPS_MAX]; /* completions, by CQ */
static struct worker worker[2];
static uint32_t threads;

/* --- drawing --------------------------------------------------------------------------------- */

static uint32_t draw(uint64_t *seed, uint32_t n) /* 0..n-1 */
{
	return (uint32_t)(client_random(seed) >> 32) % n;
}

/* min..max, small ones as often as large ones: the number of digits is drawn. */
static uint32_t draw_size(uint64_t *seed, uint32_t min, uint32_t max)
{
	double share = (double)(client_random(seed) >> 11) / 9007199254740992.0;
	uint32_t n = (uint32_t)(min * pow((max + 1.0) / min, share));

	return n > max ? max : n;
}

struct taste {
	uint32_t qps, list_max, sges_of_8, inlines_of_8;
	double skew;
	uint32_t weight[OPS], weights;
};

static void draw_taste(uint64_t *seed, struct taste *t)
{
	t->list_max = draw_size(seed, 1, VERBS_LIST_MAX);
	t->sges_of_8 = draw(seed, 5);
	t->inlines_of_8 = draw(seed, 5);
	t->skew = 1 + draw(seed, 4);
	for (unsigned int i = 0; i < OPS; i++) {
		bool is_atomic = i >= OPS - 2;

		t->weight[i] = draw(seed, is_atomic ? 2 : 32);
		t->weights += t->weight[i];
	}
	t->weight[0]++;
	t->weights++;
}

static uint8_t draw_op(uint64_t *seed, const struct taste *t)
{
	uint32_t n = draw(seed, t->weights);
	uint8_t op = 0;

	while (n >= t->weight[op])
		n -= t->weight[op++];
	return op;
}

static bool is_atomic(const struct drawn_wr *wr)
{
	return wr->op >= OPS - 2;
}

static bool is_two_sided(const struct drawn_wr *wr)
{
	return wr->op >= 1 && wr->op <= 3;
}

static struct drawn_wr draw_wr(uint64_t *seed, const struct taste *t)
{
	struct drawn_wr wr = {.op = draw_op(seed, t), .num_sge = 1};
	bool may_inline;

	if (draw(seed, 8) < t->sges_of_8)
		wr.num_sge = (uint8_t)(2 + draw(seed, CLIENT_SGES - 1));
	wr.length = draw_size(seed, 1, LENGTH_MAX);
	wr.place = draw(seed, 16) * LENGTH_MAX;
	wr.recv_sge = (uint8_t)draw(seed, 2);
	may_inline = wr.op <= 3 && wr.length <= CLIENT_INLINE_BYTES;
	wr.is_inline = may_inline && draw(seed, 8) < t->inlines_of_8;
	if (is_atomic(&wr)) {
		wr.length = 8;
		wr.num_sge = 1;
	}
	if (wr.op == 2 || wr.op == 3)
		wr.recv_sge = 1;
	if (wr.num_sge > wr.length)
		wr.num_sge = 1;
	return wr;
}

static void draw_plan(struct worker *w, const struct taste *t, uint32_t wrs)
{
	struct plan *plan = &w->plan;

	plan->steps = calloc(wrs, sizeof(*plan->steps));
	plan->wrs = calloc(wrs, sizeof(*plan->wrs));
	if (!plan->steps || !plan->wrs)
		client_fail("calloc");
	while (plan->wr_count < wrs) {
		struct step *s = &plan->steps[plan->step_count++];
		double share = (double)draw(&w->seed, 1u << 24) / (1u << 24);
		uint32_t list = draw_size(&w->seed, 1, t->list_max);

		s->qp = (uint32_t)(t->qps * pow(share, t->skew));
		s->first = plan->wr_count;
		s->wrs = (uint8_t)(list < wrs - plan->wr_count ? list : wrs - plan->wr_count);
		s->poll = draw(&w->seed, 2) ? (uint8_t)(1 + draw(&w->seed, VERBS_POLL_MAX)) : 0;
		for (uint32_t i = 0; i < s->wrs; i++)
			plan->wrs[plan->wr_count++] = draw_wr(&w->seed, t);
	}
}

/* --- posting and polling --------------------------------------------------------------------- */

/* As client_make_objects() has it. */
static uint32_t send_cq(uint32_t qp)
{
	return qp % client.cq_count;
}

static uint32_t recv_cq(uint32_t qp)
{
	return (qp + 1) % client.cq_count;
}

/* A wr_id is the QP, and how many WRs the completion stands for. */
static void credit(const struct ibv_wc *wc)
{
	struct lane *l = &lanes[wc->wr_id >> 8];

	atomic_fetch_sub_explicit(wc->opcode & IBV_WC_RECV ? &l->receives : &l->sends,
				  wc->wr_id & 0xff, memory_order_relaxed);
}

static uint32_t poll(struct worker *w, uint32_t cq, uint32_t entries)
{
	struct ibv_wc wc[VERBS_POLL_MAX];
	int n = collect_poll_cq(client.cqs[cq], (int)entries, wc);

	for (int i = 0; i < n; i++)
		credit(&wc[i]);
	atomic_fetch_sub_explicit(&due[cq], (uint32_t)n, memory_order_relaxed);
	w->completions += (uint32_t)n;
	return (uint32_t)n;
}

/* Until the queue that `used` counts has room for n more; its completions are in that CQ. */
static void make_room(struct worker *w, _Atomic uint32_t *used, uint32_t cq, uint32_t n)
{
	unsigned int tries = 0;

	while (atomic_fetch_add(used, n) + n > DEPTH) {
		atomic_fetch_sub(used, n);
		if (!poll(w, cq, VERBS_POLL_MAX))
			client_wait_a_little(&tries);
	}
}

/* A CQ never has more to hold than it can. */
static void make_room_in_cq(struct worker *w, uint32_t cq, uint32_t n)
{
	unsigned int tries = 0;

	while (atomic_load(&due[cq]) + n > CQE / 2)
		if (!poll(w, cq, VERBS_POLL_MAX))
			client_wait_a_little(&tries);
	atomic_fetch_add(&due[cq], n);
}

static void fill_sges(struct ibv_sge *sge, const struct drawn_wr *d)
{
	uint32_t each = d->length / d->num_sge, at = d->place;

	for (uint32_t i = 0; i < d->num_sge; i++) {
		bool last = i + 1u == d->num_sge;

		sge[i].addr = (uintptr_t)client.buffer + at;
		sge[i].length = last ? d->length - each * i : each;
		sge[i].lkey = client.mr->lkey;
		at += each;
	}
}

static void fill(struct worker *w, uint32_t i, const struct drawn_wr *d)
{
	uint64_t remote = (uintptr_t)client.buffer + CLIENT_BUFFER_BYTES / 2 + d->place;
	struct ibv_send_wr *wr = &w->wr[i];

	fill_sges(w->sge[i], d);
	*wr = (struct ibv_send_wr){
		.next = wr + 1,
		.sg_list = w->sge[i],
		.num_sge = d->num_sge,
		.opcode = opcodes[d->op],
		.send_flags = d->is_inline ? IBV_SEND_INLINE : 0,
		.imm_data = d->place,
	};
	if (is_atomic(d)) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = client.mr->rkey;
		wr->wr.atomic.compare_add = 1;
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = client.mr->rkey;
	}
}

/* The completion says how many WRs it stands for: those of this thread since its last one. */
static bool sign(struct worker *w, struct ibv_send_wr *wr, uint32_t qp)
{
	wr->wr_id = (uint64_t)qp << 8 | ++w->unsignaled[qp];
	if (w->unsignaled[qp] < lanes[qp].signal_every)
		return false;
	wr->send_flags |= IBV_SEND_SIGNALED;
	w->unsignaled[qp] = 0;
	return true;
}

/* Returns how many. */
static uint32_t post_receives(struct worker *w, const struct step *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->wrs; i++) {
		const struct drawn_wr *d = &w->plan.wrs[s->first + i];

		if (!is_two_sided(d))
			continue;
		w->recv[n] = (struct ibv_recv_wr){.wr_id = (uint64_t)s->qp << 8 | 1,
						  .next = &w->recv[n + 1],
						  .sg_list = &w->recv_sge,
						  .num_sge = d->recv_sge};
		n++;
	}
	if (!n)
		return 0;
	make_room(w, &lanes[s->qp].receives, recv_cq(s->qp), n);
	make_room_in_cq(w, recv_cq(s->qp), n);
	w->recv[n - 1].next = NULL;
	collect_post_recv(client.qps[s->qp], w->recv);
	return n;
}

static void do_step(struct worker *w, const struct step *s)
{
	uint32_t signaled = 0, received;

	make_room(w, &lanes[s->qp].sends, send_cq(s->qp), s->wrs);
	for (uint32_t i = 0; i < s->wrs; i++) {
		fill(w, i, &w->plan.wrs[s->first + i]);
		signaled += sign(w, &w->wr[i], s->qp);
	}
	w->wr[s->wrs - 1].next = NULL;
	make_room_in_cq(w, send_cq(s->qp), signaled);
	received = post_receives(w, s);
	collect_post_send(client.qps[s->qp], w->wr);
	if (client.settle_us)
		usleep(client.settle_us);
	if (s->poll)
		poll(w, send_cq(s->qp), s->poll);
	if (s->poll && received)
		poll(w, recv_cq(s->qp), s->poll);
}

static void drain(struct worker *w)
{
	unsigned int tries = 0;

	for (uint32_t i = 0; i < client.cq_count; i++)
		while (atomic_load(&due[i]))
			if (!poll(w, i, VERBS_POLL_MAX))
				client_wait_a_little(&tries);
}

static void run_plan(unsigned int thread)
{
	struct worker *w = &worker[thread];

	client_take_turn(thread);
	for (uint32_t i = 0; i < w->plan.step_count; i++) {
		do_step(w, &w->plan.steps[i]);
		w->posted += w->plan.steps[i].wrs;
		stretches_look(&w->stretches, w->posted);
		if (i % STEPS_A_TURN == STEPS_A_TURN - 1) {
			client_give_turn(thread);
			client_take_turn(thread);
		}
	}
	client_leave_turns(thread);
}

static void run_pass(void)
{
	if (threads == 2)
		client_run_both(run_plan);
	else
		run_plan(0);
	drain(&worker[0]);
}

/* Each thread posts a WRITE, and a SEND with its receive, to each QP: what is done once is done
 * then. */
static void warm_up(unsigned int thread)
{
	struct worker *w = &worker[thread];
	struct drawn_wr each[] = {{.op = 0, .length = 8, .num_sge = 1},
				  {.op = 2, .length = 8, .num_sge = 1, .recv_sge = 1}};
	struct plan plan = w->plan;

	w->plan = (struct plan){.wrs = each, .wr_count = 2, .step_count = 1};
	client_take_turn(thread);
	for (uint32_t qp = 0; qp < client.qp_count; qp++)
		for (unsigned int i = 0; i < 2; i++)
			do_step(w, &(struct step){.qp = qp, .first = i, .wrs = 1, .poll = 1});
	client_leave_turns(thread);
	w->plan = plan;
}

/* --- all ------------------------------------------------------------------------------------- */

static void begin(uint64_t seed)
{
	struct taste t = {.qps = draw_size(&seed, 1, VERBS_QPS_MAX)};
	uint32_t cqs = draw_size(&seed, 1, t.qps < 16 ? t.qps : 16);
	uint32_t least = (t.qps * 2 * DEPTH + CQE - 1) / CQE;

	draw_taste(&seed, &t);
	threads = 1 + draw(&seed, 2);
	for (uint32_t i = 0; i < t.qps; i++)
		lanes[i].signal_every = (uint8_t)draw_size(&seed, 1, SIGNAL_MAX);
	client_make_objects(t.qps, cqs > least ? cqs : least, CQE, DEPTH);
	for (uint32_t i = 0; i < threads; i++) {
		worker[i].seed = client_random(&seed);
		worker[i].recv_sge = (struct ibv_sge){(uintptr_t)client.buffer +
							      CLIENT_BUFFER_BYTES - LENGTH_MAX,
						      LENGTH_MAX, client.mr->lkey};
		draw_plan(&worker[i], &t,
			  (uint32_t)(client.wrs < PASS_WRS ? client.wrs : PASS_WRS) / threads + 1);
	}
}

static void print_counts(void)
{
	uint64_t n[OPS] = {0}, posts = 0, wrs = 0, sges = 0, inlines = 0, bytes = 0;

	for (uint32_t t = 0; t < threads; t++) {
		posts += worker[t].plan.step_count;
		for (uint32_t i = 0; i < worker[t].plan.wr_count; i++) {
			const struct drawn_wr *d = &worker[t].plan.wrs[i];

			wrs++;
			n[d->op]++;
			sges += d->num_sge;
			inlines += d->is_inline;
			bytes += d->length;
		}
	}
	client_print("qps", client.qp_count);
	client_print("cqs", client.cq_count);
	client_print("threads", threads);
	client_print("wrs", (double)wrs);
	client_print("posts", (double)posts);
	client_print("receives", (double)(n[1] + n[2] + n[3]));
	client_print("sges", (double)sges);
	client_print("inline", (double)inlines);
	client_print("bytes", (double)bytes);
	for (unsigned int i = 0; i < OPS; i++)
		client_print(names[i], (double)n[i]);
}

/* The plans, as often as it takes; a pass is what it is everywhere. */
static void run(unsigned int passes)
{
	for (uint32_t i = 0; i < threads; i++)
		stretches_begin(&worker[i].stretches, worker[i].posted,
				threads == 2 ? &worker[!i].posted : NULL,
				(uint64_t)passes * worker[i].plan.wr_count);
	for (unsigned int i = 0; i < passes; i++)
		run_pass();
}

static void end(void)
{
	for (uint32_t i = 0; i < threads; i++) {
		free(worker[i].plan.steps);
		free(worker[i].plan.wrs);
	}
	client_destroy_objects();
}

void client_mix(uint64_t seed)
{
	double ns;

	begin(seed);
	if (threads == 2)
		client_run_both(warm_up);
	else
		warm_up(0);
	drain(&worker[0]);
	worker[0].completions = worker[1].completions = 0;
	collect_begin();
	run(client.wrs > PASS_WRS ? (unsigned int)(client.wrs / PASS_WRS) : 1);
	ns = stretches_median(&worker[0].stretches);
	stretches_median(&worker[1].stretches);
	if (!client.counting)
		client_print("ns_per_wr", ns);
	print_counts();
	client_print("completions", (double)(worker[0].completions + worker[1].completions));
	end();
}
