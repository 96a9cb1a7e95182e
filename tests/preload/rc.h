/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* RC connections for the programs of tests/preload.bats: first device, one PD, CQ and MR. */
#ifndef SHIFT_TESTS_PRELOAD_RC_H
#define SHIFT_TESTS_PRELOAD_RC_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

extern struct ibv_context *ctx;
extern struct ibv_pd *pd;
extern struct ibv_cq *cq; /* of both queues of every QP */
extern struct ibv_mr *mr;
extern char buffer[64]; /* registered */

/* If not, prints what failed, with errno, and exits with 1. */
void expect(bool holds, const char *what);

struct use {
	const char *name;
	void (*fn)(void);
};

/* Opens all of the above, calls the use that the command line names, closes all, and prints "done".
 * Returns what main() is to return. */
int rc_main(int argc, char **argv, const struct use *uses, unsigned int n);

struct ibv_qp *create_qp(struct ibv_pd *on, uint32_t depth); /* of each queue */
void destroy(struct ibv_qp *qp);
void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask); /* IBV_QP_STATE is added */
void to_init(struct ibv_qp *qp);
void to_rts(struct ibv_qp *qp, uint32_t peer);	   /* of this device, from INIT */
void connect_to(struct ibv_qp *qp, uint32_t peer); /* from RESET */

/* A signaled one of 8 bytes, from the buffer's begin to those behind them. */
void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t id);
struct ibv_wc any_completion(void); /* waits for it */
struct ibv_wc completion(void);	    /* which must be a success */

#endif
