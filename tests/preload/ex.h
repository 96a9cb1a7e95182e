/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * QPs that are posted to by ibv_wr_*, for the programs of tests/preload.bats. QUERIED in the
 * environment: a thread keeps their connections entering and leaving their slow way.
 */
#ifndef SHIFT_TESTS_PRELOAD_EX_H
#define SHIFT_TESTS_PRELOAD_EX_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/preload/rc.h"

enum { DEPTH = 32, SGES = 4, INLINE = 100 }; /* of QPs, of a WR */

#define ALL_OPS                                                                                 \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV)

/* As rc_main(), for a minute at most. */
int ex_main(int argc, char **argv, const struct use *uses, unsigned int n);

void pause_us(long us);
pthread_t start(void *(*fn)(void *), void *arg);

struct ibv_qp_ex *create_of(uint32_t depth, uint64_t ops); /* on cq */
struct ibv_qp_ex *create(void);				   /* of DEPTH and ALL_OPS */
struct ibv_qp_ex *connected(void); /* likewise, to a QP that is somewhere else */
void end(struct ibv_qp_ex *ex);
struct ibv_qp *base(struct ibv_qp_ex *ex);

void query_all(void);	    /* once */
pid_t fork_unqueried(void); /* fork(), at a moment when nobody queries */

extern char remote[4096];
static const uint32_t remote_key = 0x700;

/* What the next call of ibv_wr_* takes. spoil(): what is there afterwards is of no account. */
void begin_wr(struct ibv_qp_ex *ex, uint64_t id, unsigned int flags);
void spoil(struct ibv_qp_ex *ex);

/* A WRITE of 8 bytes, from the buffer's begin to remote. Between ibv_wr_start() and
 * ibv_wr_complete(). */
void build_write(struct ibv_qp_ex *ex, uint64_t id, unsigned int flags);

/* A batch of n signaled ones with wr_id first, first + 1, ...: what ibv_wr_complete() says. */
int try_batch(struct ibv_qp_ex *ex, uint64_t first, unsigned int n);
void writes_complete(uint64_t first, unsigned int n);

void post_plain(struct ibv_qp *qp, uint64_t id); /* by ibv_post_send(), and it completes */

/* The next completion. */
void completes(uint64_t id, enum ibv_wc_opcode opcode);
void nothing_more(void); /* completes */

/* As a program that has met an error: nothing completes, and the QP goes on. */
void still_works(struct ibv_qp_ex *ex);

#endif
