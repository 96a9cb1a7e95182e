/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Is a NIC's rq_psn live (doc/protocol.md, A2)? Exactly-once rests on it, and some drivers only
 * return the value that was set once.
 *
 * To measure it, two RC QPs of our own on the NIC are connected with each other through the NIC's
 * own address, so that no peer is needed. A writes to B. In the middle B is moved to ERR and
 * fenced, as a connection's QP is. B's memory shows which packets it executed, and rq_psn must say
 * the same.
 *
 * No locks; each function says on which thread it runs.
 */
#ifndef SHIFT_NIC_RQ_PSN_H
#define SHIFT_NIC_RQ_PSN_H

#include "lib/stats/layout.h"
#include "lib/nic/nic.h"

/* Queries rq_psn, and leaves the QP's object as it is. in_err (or NULL): is it in ERR? false: the
 * NIC does not answer. It may hang: on a worker or resolver only. */
bool rq_psn_query(struct ibv_qp *qp, uint32_t *psn, bool *in_err);

/*
 * The second half of the fence's barrier (doc/protocol.md, rule 24): rq_psn when the responder of a
 * QP in ERR (RESET on soft-RoCE) has stopped. On soft-RoCE, RESET has waited for that. On other
 * NICs two queries, a millisecond apart, must give the same value. false: the NIC does not answer,
 * or does not stop. It may hang: on a worker or resolver only.
 */
bool rq_psn_at_rest(const struct nic *nic, struct ibv_qp *qp, uint32_t *psn);

/* The same in steps, so that many QPs wait for one millisecond, and not for one each. A look waits
 * only for what is left of it since the look before at the same QP. */
struct rq_psn_looks {
	uint32_t psn; /* of the last look */
	unsigned int looks;
	uint64_t last_ns;
};

enum rq_psn_rest {
	RQ_PSN_MOVING, /* look again */
	RQ_PSN_AT_REST,
	RQ_PSN_UNKNOWN, /* as false above */
};

/* all: zeros before the first look. */
enum rq_psn_rest rq_psn_look(const struct nic *nic, struct ibv_qp *qp, struct rq_psn_looks *all);

/*
 * Measures a ready NIC, on its resolver. Between the rounds other jobs of the resolver run. A round
 * takes some milliseconds, or seconds if the NIC does not answer. `done` is called once, on the
 * background thread; `why` is a static text, for UNMEASURED and STALE. Returns 0, or -ENOMEM:
 * nothing was begun. Background thread.
 */
int rq_psn_measure(struct nic *nic,
		   void (*done)(struct nic *nic, enum stats_psn answer, const char *why));

/* ---- what a round consists of, and what it proves: pure, any thread (rq_psn_judge.c) --------- */

/*
 * All WRITEs of a round go to the same memory, each over the one before. They have several lengths;
 * the longest takes RQ_PSN_PARTS packets. The first 8 bytes of each packet, its stamp, tell the
 * WRITE that it belongs to. So a little memory tells how far any number of packets came.
 */
enum { RQ_PSN_WRITES = 64, RQ_PSN_PARTS = 3 };

uint32_t rq_psn_bytes(unsigned int write, uint32_t mtu);
uint64_t rq_psn_stamp(unsigned int write, unsigned int part, uint32_t mtu);

struct rq_psn_facts {
	uint32_t mtu;	/* bytes, of the path */
	uint32_t first; /* PSN of the first packet */
	uint32_t armed; /* rq_psn before any packet */
	uint32_t idle; /* rq_psn when idle_writes WRITEs had completed, and no others were posted */
	unsigned int idle_writes;
	uint32_t stopped, later;     /* rq_psn after the fence, and at the very end */
	unsigned int acked, posted;  /* WRITEs that completed with success, and all */
	uint64_t seen[RQ_PSN_PARTS]; /* stamps in B's memory at the end; 0: never written */
};

/* What contradicts that rq_psn is live, as a static text; NULL: nothing does. */
const char *rq_psn_contradiction(const struct rq_psn_facts *f);

#endif
