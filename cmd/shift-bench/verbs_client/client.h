/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The program that `shift-bench verbs` measures: an ordinary one of libibverbs, that knows nothing
 * of shift. It posts and polls in the way that it is told, on QPs that are connected with
 * themselves, and prints lines of a name and a number. What it counts is the same with and without
 * shift.
 *
 * All functions end the process when a verb fails.
 */
#ifndef SHIFT_BENCH_VERBS_CLIENT_H
#define SHIFT_BENCH_VERBS_CLIENT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/shift-bench/verbs_patterns.h"

enum {
	CLIENT_BUFFER_BYTES = 1 << 20,
	CLIENT_INLINE_BYTES = 64,
	CLIENT_SGES = 4,
};

struct client {
	/* The command line. */
	const char *device; /* NULL: the first */
	int gid_index;
	bool elsewhere;	    /* the peer has another address: null provider only */
	bool counting;	    /* callgrind counts: threads take turns, nothing spins */
	uint32_t settle_us; /* when counting: a post's completions are there after that */
	uint64_t wrs;	    /* of a run, about */

	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char *buffer;
	struct ibv_cq **cqs;
	struct ibv_qp **qps;
	bool shared;	     /* the QPs are to have one shared receive queue: */
	struct ibv_srq *srq; /* or NULL */
	uint32_t cq_count, qp_count;
	uint32_t depth; /* of each QP's send queue, and of its receive queue */
};

/* ---- client.c ------------------------------------------------------------------------------- */

extern struct client client;

_Noreturn void client_fail(const char *what);

/* A name and a number, on standard output. */
void client_print(const char *name, double value);

/* A number of the sequence that *state names, and the next state: the same everywhere. */
uint64_t client_random(uint64_t *state);

/* ---- clock.c -------------------------------------------------------------------------------- */

double client_now_ns(void);

/* It sorts them; n > 0. */
double client_median(double *values, uint64_t n);

/* The stretches of a thread's run. If another thread posts, too, its WRs of that time count. */
struct stretches {
	uint64_t each, next; /* WRs of this thread */
	const uint64_t *other;
	uint64_t from; /* WRs of both */
	double from_ns;
	double *ns; /* of a WR */
	uint64_t count;
};

/* A run of at least `wrs` WRs of this thread begins, which has posted `own` until now. other: the
 * same of the other thread, or NULL. */
void stretches_begin(struct stretches *s, uint64_t own, const uint64_t *other, uint64_t wrs);
void stretch_end(struct stretches *s, uint64_t own);

/* To be called often: a stretch may be over. */
static inline void stretches_look(struct stretches *s, uint64_t own)
{
	if (__builtin_expect(own >= s->next, 0))
		stretch_end(s, own);
}

/* Frees them, too. */
double stretches_median(struct stretches *s);

/* ---- objects.c ------------------------------------------------------------------------------ */

struct ibv_context *client_open(void);
struct ibv_qp *client_create_qp(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv);
void client_modify_init(struct ibv_qp *qp);
void client_modify_rtr(struct ibv_qp *qp);
void client_modify_rts(struct ibv_qp *qp);

/* QP i has CQ i modulo cqs for sends, the next one for receives; all are in RTS. */
void client_make_objects(uint32_t qps, uint32_t cqs, uint32_t cqe, uint32_t depth);
void client_destroy_objects(void);

/* ---- calls.c: what callgrind collects ------------------------------------------------------- */

/* What was collected before this is forgotten. */
void collect_begin(void);
void collect_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
void collect_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr);
void collect_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr);

/* How many it returned; all are good ones. */
int collect_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc);

/* ---- threads.c ------------------------------------------------------------------------------ */

/* Runs fn(0) in this thread and fn(1) in another one, which stays; returns when both have. */
void client_run_both(void (*fn)(unsigned int thread));

/* Ends that thread. */
void client_end_threads(void);

/* When counting: waits until it is that thread's turn, and gives the turn to the other one. One
 * whose work is done leaves the turns to the other one. */
void client_take_turn(unsigned int thread);
void client_give_turn(unsigned int thread);
void client_leave_turns(unsigned int thread);

/* In a loop that waits for another thread. */
void client_wait_a_little(unsigned int *tries);

/* ---- what is measured ----------------------------------------------------------------------- */

void client_pattern(const struct verbs_pattern *pattern);
void client_mix(uint64_t seed);
void client_controls(void);

#endif
