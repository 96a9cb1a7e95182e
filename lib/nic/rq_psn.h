/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Is a NIC's rq_psn live (doc/protocol.md, A2)? Exactly-once rests on it,
 * and some drivers show a copy of what was set once.
 *
 * Two RC QPs of our own on the NIC are connected with each other through its own address, so
 * that no peer is needed: A writes to B, B is moved to ERR in the middle and fenced as a
 * connection's QP is. B's memory shows which packets it executed; rq_psn must say the same.
 */
#ifndef SHIFT_NIC_RQ_PSN_H
#define SHIFT_NIC_RQ_PSN_H

#include "lib/stats/layout.h"
#include "lib/nic/nic.h"

/* rq_psn as the NIC says it now. false: it does not answer. */
bool rq_psn_query(struct ibv_qp *qp, uint32_t *psn);

/*
 * rq_psn when the responder of a QP in ERR (RESET on soft-RoCE) has stopped: the second half of the
 * fence's barrier. Soft-RoCE's RESET has waited for that. Elsewhere it says the same twice, a
 * millisecond apart. false: it does not answer, or does not stop.
 */
bool rq_psn_at_rest(const struct nic *nic, struct ibv_qp *qp, uint32_t *psn);

/*
 * Measure a ready NIC, on its resolver, which is given back after each of the rounds: some
 * milliseconds each, and seconds if the NIC does not answer. done: called once, on the background
 * thread; why: of UNMEASURED and STALE, static. 0, or -ENOMEM: nothing was begun.
 */
int rq_psn_measure(struct nic *nic,
		   void (*done)(struct nic *nic, enum stats_psn answer, const char *why));

/* ---- what a round consists of, and what it proves: pure (live_judge.c) ----------------------- */

/*
 * The WRITEs of a round go to the same memory, each over the one before; of several lengths, the
 * longest of so many packets. Each 8 bytes that are written at the begin of a packet, the stamp,
 * tell the WRITE: so a kilobyte of memory tells how far any number of packets came.
 */
enum { RQ_PSN_WRITES = 64, RQ_PSN_PARTS = 3 };

uint32_t rq_psn_bytes(unsigned int write, uint32_t mtu);
uint64_t rq_psn_stamp(unsigned int write, unsigned int part, uint32_t mtu);

struct rq_psn_facts {
	uint32_t mtu;	/* bytes, of the path */
	uint32_t first; /* PSN of the first packet */
	uint32_t armed; /* rq_psn before any packet */
	uint32_t idle;	/* ... when so many WRITEs had completed, and no others were posted */
	unsigned int idle_writes;
	uint32_t stopped, later;     /* ... behind the fence, and after all else */
	unsigned int acked, posted;  /* WRITEs that completed with success, and all */
	uint64_t seen[RQ_PSN_PARTS]; /* stamps in B's memory at the end; 0: never written */
};

/* What contradicts that rq_psn is live; NULL: nothing. */
const char *rq_psn_contradiction(const struct rq_psn_facts *f);

#endif
