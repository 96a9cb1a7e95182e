/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * QPs on a shared receive queue (doc/srq.md): which of them are live on which NIC, and whose
 * receive a completion names. All functions do nothing for a QP without an SRQ of ours.
 */
#ifndef SHIFT_CONN_SRQ_QPS_H
#define SHIFT_CONN_SRQ_QPS_H

#include "lib/base/plain_read.h"
#include "lib/conn/vqp.h"

/* How long an arming waits for its NIC to be emptied (S6). Three times that, and what it may wait
 * for besides, is less than ARM_MAX_NS of job_deadlines.c. */
#define SRQ_JOIN_NS 500000000ull

/* The QP of that rail may accept packets from now on. Waits for the NIC to be emptied: max_ns after
 * the last receive that came out, and three times that at most, or until a fence is asked for.
 * false: it must not be used now. One thread at a time for each rail; nothing locked. */
bool srq_qp_join(struct vqp *v, uint8_t rail, uint64_t max_ns);

/*
 * A QP that is connected with itself takes no receive before it sends a message, and need not keep
 * receives on rail 0 until then: it cannot be moved, and where the NIC's drainer does not work
 * nobody else would get them (S6). UCX makes one in each process. The first says that it joins
 * later: between vqp_enter() and vqp_leave(). The other is called before each send on the slow way,
 * nothing locked: 0, or ETIMEDOUT, and then the message must not be sent.
 */
void srq_qp_joins_late(struct vqp *v);
int srq_qp_join_to_send(struct vqp *v, uint64_t max_ns);

/* The same where nothing may be waited for, and any locks are held. */
bool srq_qp_join_at_once(struct vqp *v);

/* Waits a moment until the NIC has a receive for it: the peer sends at once (S9). Nothing locked.
 */
void srq_qp_await_supply(struct vqp *v, uint8_t rail);

/* It cannot accept any more: its fence is done, or it was RESET. Any thread, any locks held. */
void srq_qp_leave(struct vqp *v, uint8_t rail);

/* It is armed on that rail: where a fence has hung it counts as gone. Likewise. */
void srq_qp_leave_others(struct vqp *v, uint8_t rail);

/* The same when its QP there was destroyed for the program. Likewise. */
void srq_qp_leave_ended(struct vqp *v, uint8_t rail);

/* The program has RESET it. Any thread, nothing locked. */
void srq_qp_reset(struct vqp *v);

/* To the program it is in ERR now, and on no NIC any more: LAST_WQE_REACHED, once in each life. Any
 * thread, any locks held. */
void srq_qp_in_err(struct vqp *v);

/* The peer makes no progress, and asks. Returns how many receives the NIC has for it, and has
 * looked at that when it asks again (S14, S23); 0 without an SRQ. Likewise. */
uint32_t srq_qp_look(struct vqp *v, uint8_t rail);

/* A receive's completion that lib/core has judged (S13). Returns whether the program gets it, with
 * its own wr_id then. Likewise. */
bool srq_qp_completed(struct vqp *v, uint8_t rail, struct ibv_wc *wc, bool deliver);

/* A receive of rail 0 has completed with success, on the fast way: counts it, and gives it the
 * program's wr_id. false: no receive of ours has that id. Inside the gate of the CQ. */
static inline bool srq_qp_count(struct vqp *v, uint64_t *wr_id)
{
	if (!v->hot.srq || !vsrq_done(v->hot.srq, 0, wr_id))
		return false;
	PLAIN_INCREMENT(&v->hot.log.recvs.done);
	return true;
}

/* The same of a QP with an SRQ, in the usual case (S24). false: nothing was done. */
static inline bool srq_qp_count_usual(struct vqp *v, uint64_t *wr_id)
{
	if (!vsrq_done_usual(v->hot.srq, wr_id))
		return false;
	PLAIN_INCREMENT(&v->hot.log.recvs.done);
	return true;
}

#endif
