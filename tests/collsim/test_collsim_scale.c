/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How the time of the analysers grows with the job: ranks of one ring, and pipelines of two. By
 * ranks times steps (path) and by ranks times operations (pulse) it is to be the same.
 * SCALE=1024 in the environment: up to so many ranks. The table is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cmd/shift-diag/path.h"
#include "cmd/shift-diag/pulse.h"

enum { ROUNDS = 8, EPOCHS = 64, EPOCH_NS = 32000, PAUSE_EPOCHS = 64 };

static const uint64_t BEGAN_NS = 1795855608000000000u;

static int most_ranks(void)
{
	const char *text = getenv("SCALE");

	return text ? atoi(text) : 128;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* An allreduce on a ring: each step waits for that of the rank before. */
static void add_ring(struct path_steps *s, int ranks)
{
	for (int step = 1; step <= 2 * (ranks - 1); step++)
		for (int r = 0; r < ranks; r++) {
			struct path_step *x = path_step_add(s);

			x->rank = r;
			x->step = step;
			x->peer = (r + 1) % ranks;
			x->bytes = x->expected_ns = 1000;
			x->start_ns = (uint64_t)step * 1000;
			x->end_ns = x->start_ns + 1000;
			x->wait_rank = step > 1 ? (r + ranks - 1) % ranks : PATH_NONE;
			x->wait_step = step - 1;
		}
}

/* A step and its two edges are looked at once each; to sort them is not counted. */
static void a_path_grows_as_ranks_times_steps(void **state)
{
	(void)state;
	for (int ranks = 64; ranks <= most_ranks(); ranks *= 2) {
		struct path_steps s = {0};
		struct path_graph g;
		double began, took;
		int rank, step;

		add_ring(&s, ranks);
		began = now_ms();
		assert_int_equal(path_graph_build(&s, &g, &rank, &step), 0);
		took = now_ms() - began;
		printf("# path: %4d ranks, %7zu steps: %7.1f ms, %.3f us a step\n", ranks, s.n,
		       took, took * 1e3 / (double)s.n);
		assert_int_equal(g.critical_n, 2 * (ranks - 1));
		assert_true(g.visits <= 4 * s.n);
		path_graph_free(&g);
		path_steps_free(&s);
	}
}

static void add_comm(struct rec_file *f, const char *name, int size, int rank)
{
	struct rec_comm *c = rec_add_comm(f);

	snprintf(c->comm, sizeof(c->comm), "%s", name);
	c->size = size;
	c->rank = rank;
}

static void add_qp(struct rec_file *f, uint64_t id, int peer)
{
	struct rec_qp *q = rec_add_qp(f);

	q->id = id;
	q->qpn = (uint32_t)id;
	q->peer_rank = peer;
	snprintf(q->nic, sizeof(q->nic), "mlx5_0");
	snprintf(q->peer_host, sizeof(q->peer_host), "node%d", peer);
}

static void add_epochs(struct rec_file *f, uint64_t qp, uint64_t t_ns)
{
	struct rec_epochs *e = rec_add_epochs(f);

	e->qp = qp;
	e->t_ns = t_ns;
	e->n = EPOCHS;
	e->bytes = calloc(EPOCHS, sizeof(*e->bytes));
	e->wr = calloc(EPOCHS, sizeof(*e->wr));
	e->wc = calloc(EPOCHS, sizeof(*e->wc));
	assert_true(e->bytes && e->wr && e->wc);
	for (int i = 0; i < EPOCHS; i++) {
		e->bytes[i] = 400000;
		e->wr[i] = e->wc[i] = 1;
	}
}

static uint64_t add_allreduce(struct rec_file *f, int ranks, uint64_t seq, uint64_t t_ns)
{
	struct rec_coll *c = rec_add_coll(f);

	add_epochs(f, 1, t_ns);
	snprintf(c->comm, sizeof(c->comm), "world");
	snprintf(c->op, sizeof(c->op), "allreduce");
	c->seq = seq;
	c->root = REC_NONE;
	c->sent_bytes = (uint64_t)EPOCHS * 400000;
	c->bytes = c->count = c->sent_bytes * (uint64_t)ranks / (2 * ((uint64_t)ranks - 1));
	c->launch_ns = c->first_wr_ns = t_ns;
	c->end_ns = t_ns + (uint64_t)EPOCHS * EPOCH_NS;
	c->wr = c->wc = EPOCHS;
	return c->end_ns;
}

/* From the even rank of a pair to the odd one. */
static uint64_t add_message(struct rec_file *f, const char *comm, int member, uint64_t group,
			    uint64_t t_ns)
{
	struct rec_p2p *p = rec_add_p2p(f);

	if (!member)
		add_epochs(f, 2, t_ns);
	snprintf(p->comm, sizeof(p->comm), "%s", comm);
	p->group = group;
	p->peer = !member;
	p->is_send = !member;
	p->expected_bytes = p->actual_bytes = (uint64_t)EPOCHS * 400000;
	p->launch_ns = t_ns;
	p->end_ns = t_ns + (uint64_t)EPOCHS * EPOCH_NS;
	return p->end_ns;
}

static void add_rank(struct records *r, int ranks, int rank)
{
	struct rec_file *f = records_add(r);
	uint64_t t = BEGAN_NS + 1000000;
	char pair[32];

	snprintf(f->host, sizeof(f->host), "node%d", rank);
	snprintf(pair, sizeof(pair), "pp-%d", rank / 2);
	f->rank = rank;
	f->pid = 1000 + rank;
	f->began_ns = BEGAN_NS;
	f->epoch_ns = EPOCH_NS;
	f->clock_error_ns = 1000;
	add_qp(f, 1, (rank + 1) % ranks);
	add_qp(f, 2, rank ^ 1);
	add_comm(f, "world", ranks, rank);
	add_comm(f, pair, 2, rank % 2);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		t = add_message(f, pair, rank % 2, i, t) + PAUSE_EPOCHS * EPOCH_NS;
		t = add_allreduce(f, ranks, i, t) + PAUSE_EPOCHS * EPOCH_NS;
	}
	f->read_ns = f->ended_ns = t;
}

static void pulse_grows_as_ranks_times_operations(void **state)
{
	(void)state;
	for (int ranks = 64; ranks <= most_ranks(); ranks *= 2) {
		struct pulse_options o = pulse_defaults();
		struct records r = {0};
		double began, took;
		struct verdict v;
		struct pulse p;

		for (int i = 0; i < ranks; i++)
			add_rank(&r, ranks, i);
		began = now_ms();
		p = pulse_read(&r, &o);
		v = pulse_judge(&p);
		took = now_ms() - began;
		printf("# pulse: %4d ranks, %5zu operations: %8.1f ms, %.1f us a rank and round "
		       "(%s)\n",
		       ranks, p.ops, took, took * 1e3 / (ranks * ROUNDS), v.rule);
		assert_int_equal(v.class, CLASS_FINE);
		verdict_free(&v);
		pulse_free(&p);
		records_free(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_grows_as_ranks_times_steps),
		cmocka_unit_test(pulse_grows_as_ranks_times_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
