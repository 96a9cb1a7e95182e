/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Receives on their way to a NIC. On the fast way they are logged, then posted to rail 0. */
#include "lib/verbs/post_recv.h"

#include <errno.h>
#include <stddef.h>

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/repost.h"
#include "lib/conn/self_qp.h"

#define SAME_PLACE(a, b) (offsetof(struct shift_raw_recv, a) == offsetof(struct ibv_recv_wr, b))

_Static_assert(SAME_PLACE(wr_id, wr_id) && SAME_PLACE(next, next) && SAME_PLACE(sge, sg_list) &&
		       SAME_PLACE(num_sge, num_sge) &&
		       sizeof(struct shift_raw_recv) == sizeof(struct ibv_recv_wr),
	       "the log takes the program's receives as they are");

enum { CHAIN = 16 }; /* receives that go to the provider at once: one doorbell */

static struct shift_recv_wr recv_for_log(const struct ibv_recv_wr *wr)
{
	return (struct shift_recv_wr){
		.wr_id = wr->wr_id,
		.sge = (const struct shift_sge *)wr->sg_list,
		.num_sge = (uint32_t)wr->num_sge,
	};
}

static int slow_recv(struct vqp *v, const struct ibv_recv_wr *wr)
{
	const struct shift_recv_wr log = recv_for_log(wr);
	int rail, err;

	if (v->self.engaged)
		self_qp_leave_alone(v, STATS_UNPROTECTED_LOOPBACK);
	err = shift_conn_post_recv(v->conn, &log, &rail);
	if (err == -EIO) {
		vqp_deliver_flush(v, wr->wr_id, true);
		return 0;
	}
	if (err)
		return err;
	vqp_act(v);
	if (rail == SHIFT_HELD)
		return 0;
	err = repost_new_recv(v, rail, &log);
	if (!err)
		return 0;
	if (!rail && repost_is_for_program(v, -err)) {
		shift_conn_unpost_recv(v->conn, 1);
		return err;
	}
	repost_recv_refused(v, (uint8_t)rail, err);
	vqp_act(v); /* before the next one is posted, which must not take its place */
	return 0;
}

static __attribute__((noinline)) int slow_post_recv(struct vqp *v, struct ibv_recv_wr *wr,
						    struct ibv_recv_wr **bad)
{
	int err = 0;

	if (v->life.bypassed)
		return v->post_recv(v->qp, wr, bad);
	vqp_enter(v);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = slow_recv(v, wr);
	vqp_leave(v);
	if (err)
		*bad = wr;
	return -err;
}

static inline bool log_recv(struct vqp *v, uint64_t wr_id, const struct ibv_sge *sge, int num_sge)
{
	return shift_fast_post_recv(&v->hot.log.recvs, wr_id, (const struct shift_sge *)sge,
				    (uint32_t)num_sge);
}

static inline bool log_recv_fast(struct vqp *v, const struct ibv_recv_wr *wr)
{
	return log_recv(v, wr->wr_id, wr->sg_list, wr->num_sge);
}

/* One with several SGEs, or one too many. 0 or what the program's call returns. */
static __attribute__((noinline)) int log_other_recv(struct vqp *v, const struct ibv_recv_wr *wr)
{
	const struct shift_recv_wr log = recv_for_log(wr);
	int rail;

	return -shift_conn_post_recv(v->conn, &log, &rail);
}

static inline bool is_marked(const struct vqp *v)
{
	return v->hot.recv_marked.wr_id;
}

/* What goes to the NIC with our mark, in place of the program's wr_id, which is in the log. */
static inline void mark_recv(const struct vqp *v, struct ibv_recv_wr *to,
			     const struct ibv_recv_wr *wr, struct ibv_recv_wr *next)
{
	to->wr_id = v->hot.recv_marked.wr_id;
	to->next = next;
	to->sg_list = wr->sg_list;
	to->num_sge = wr->num_sge;
}

/* Inside the gate, which it leaves. The gate is shut until the core knows: no other thread must
 * post a receive in the place of this one. */
static void recv_refused(struct vqp *v, enum gate_how how, int err)
{
	repost_recv_refused(v, 0, err);
	gate_shut(&v->hot.recv_gate);
	gate_leave(&v->hot.recv_gate, how);
	vqp_enter(v);
	gate_open(&v->hot.recv_gate);
	vqp_leave(v);
}

/* Inside the gate, which it leaves. The NIC has refused the receive wr and has not seen the
 * `behind` ones that were logged after it. */
static __attribute__((noinline)) int recv_failed(struct vqp *v, enum gate_how how, int err,
						 struct ibv_recv_wr *wr, uint32_t behind,
						 struct ibv_recv_wr **bad)
{
	bool broken = !repost_is_for_program(v, err);
	uint32_t taken_back = behind + !broken; /* of a broken NIC this one is for another rail */

	if (taken_back)
		shift_conn_unpost_recv(v->conn, taken_back);
	if (broken) {
		recv_refused(v, how, err);
		return wr->next ? slow_post_recv(v, wr->next, bad) : 0;
	}
	gate_leave(&v->hot.recv_gate, how);
	*bad = wr;
	return err;
}

static __attribute__((noinline)) int recv_one_failed(struct vqp *v, int err)
{
	return recv_failed(v, GATE_OWNED, err, v->hot.recv_now, 0, gate_mark(&v->hot.recv_gate));
}

/* Posts a receive that was logged, or its marked copy, inside the gate as its owner with `bad` as
 * the mark, and leaves the gate. As with post_owned(), little has to be saved over the call. */
static inline __attribute__((always_inline)) int recv_one(struct vqp *v, struct ibv_qp *qp,
							  struct ibv_recv_wr *wr)
{
	int err = v->post_recv(qp, wr, &v->hot.recv_refused);

	if (__builtin_expect(err, 0))
		return recv_one_failed(v, err);
	__asm__("" : "+r"(err)); /* as in post_owned() */
	gate_leave(&v->hot.recv_gate, GATE_OWNED);
	return err;
}

/* 0 or what the program's call returns. */
static inline int log_any_recv(struct vqp *v, const struct ibv_recv_wr *wr)
{
	return log_recv_fast(v, wr) ? 0 : log_other_recv(v, wr);
}

/* Logs the list up to the first that cannot be, and returns that one, with *err; or NULL. *n: how
 * many were. */
static inline struct ibv_recv_wr *log_recvs(struct vqp *v, struct ibv_recv_wr *wr, uint32_t *n,
					    int *err)
{
	for (*n = 0; wr; wr = wr->next, ++*n) {
		*err = log_any_recv(v, wr);
		if (*err)
			break;
	}
	return wr;
}

/* All n were logged, and the NIC has refused the list from `refused` on. Inside the gate, which it
 * leaves. */
static __attribute__((noinline)) int recvs_failed(struct vqp *v, enum gate_how how, int err,
						  struct ibv_recv_wr *wr, uint32_t n,
						  const struct ibv_recv_wr *refused,
						  struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *one = wr;
	uint32_t behind = n - 1;

	for (; behind && one != refused; one = one->next)
		behind--;
	if (one == refused || n == 1)
		return recv_failed(v, how, err, one, behind, bad);
	recv_refused(v, how, err); /* nobody knows how many it has got: see below */
	return 0;
}

/* Only the n of [wr, end) could be logged: they are posted one by one, and the program hears of
 * the next. Inside the gate, which it leaves. */
static __attribute__((noinline)) int recvs_part(struct vqp *v, enum gate_how how,
						struct ibv_recv_wr *wr, uint32_t n,
						struct ibv_recv_wr *end, int full,
						struct ibv_recv_wr **bad)
{
	for (; wr != end; wr = wr->next, n--) {
		struct ibv_recv_wr one = *wr, *refused;
		int err;

		one.next = NULL;
		err = v->post_recv(v->qp, &one, &refused);
		if (err)
			return recv_failed(v, how, err, wr, n - 1, bad);
	}
	gate_leave(&v->hot.recv_gate, how);
	*bad = end;
	return full;
}

/* A list without marks: it goes to the NIC as it is. Inside the gate, which it leaves. */
static __attribute__((noinline)) int recvs_unmarked(struct vqp *v, enum gate_how how,
						    struct ibv_recv_wr *wr,
						    struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *refused = NULL, *end;
	uint32_t n;
	int err;

	end = log_recvs(v, wr, &n, &err);
	if (__builtin_expect(end != NULL, 0))
		return recvs_part(v, how, wr, n, end, err, bad);
	err = n ? v->post_recv(v->qp, wr, &refused) : 0;
	if (__builtin_expect(err, 0))
		return recvs_failed(v, how, err, wr, n, refused, bad);
	gate_leave(&v->hot.recv_gate, how);
	return 0;
}

/* Logs and marks receives from *wr on, which it moves on. Returns how many; *err: why the next one
 * cannot be logged. */
static uint32_t chain_recvs(struct vqp *v, struct ibv_recv_wr **wr, struct ibv_recv_wr *chain,
			    int *err)
{
	struct ibv_recv_wr *one = *wr, *to = chain;

	for (; one && to < chain + CHAIN; one = one->next, to++) {
		*err = log_any_recv(v, one);
		if (*err)
			break;
		mark_recv(v, to, one, to + 1);
	}
	if (to != chain)
		to[-1].next = NULL;
	*wr = one;
	return (uint32_t)(to - chain);
}

/* Inside the gate, which it leaves. */
static __attribute__((noinline)) int recvs_marked(struct vqp *v, enum gate_how how,
						  struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr chain[CHAIN], *refused, *first = wr;
	int err = 0, full = 0;

	while (wr && !full) {
		uint32_t n = chain_recvs(v, &wr, chain, &full), at = 0;

		refused = NULL;
		err = n ? v->post_recv(v->qp, chain, &refused) : 0;
		if (err && n > 1 && (refused < chain || refused >= chain + n)) {
			/* Nobody knows how many it has got. They count when the rail is left. */
			recv_refused(v, how, err);
			return wr ? slow_post_recv(v, wr, bad) : 0;
		}
		if (err) {
			for (; at + 1 < n && chain + at != refused; at++)
				first = first->next;
			return recv_failed(v, how, err, first, n - at - 1, bad);
		}
		first = wr;
	}
	gate_leave(&v->hot.recv_gate, how);
	if (full)
		*bad = wr;
	return full;
}

/* Inside the gate, which it leaves. */
static inline int recv_list(struct vqp *v, enum gate_how how, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad)
{
	return is_marked(v) ? recvs_marked(v, how, wr, bad) : recvs_unmarked(v, how, wr, bad);
}

static __attribute__((noinline)) int recv_entered(struct vqp *v, enum gate_how how,
						  struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return recv_list(v, how, wr, bad);
}

/* To a QP that this thread does not remember. */
static __attribute__((noinline)) int recv_unknown(struct ibv_qp *qp, struct ibv_recv_wr *wr,
						  struct ibv_recv_wr **bad)
{
	struct vqp *v = vqp_find(qp);
	enum gate_how how;

	if (!v || !v->conn)
		return v ? v->post_recv(qp, wr, bad)
			 : vdev_find(qp->context)->ops.post_recv(qp, wr, bad);
	how = gate_enter(&v->hot.recv_gate, NULL);
	if (how == GATE_IS_SHUT)
		return slow_post_recv(v, wr, bad);
	gate_remember(&gate_mine.recv, qp, v);
	return recv_entered(v, how, wr, bad);
}

/* Posts a receive that was logged. Inside the gate, which it leaves. */
static inline int recv_logged(struct vqp *v, enum gate_how how, struct ibv_recv_wr *wr,
			      struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr marked, *refused, *to = wr;
	int err;

	if (is_marked(v)) {
		mark_recv(v, &marked, wr, NULL);
		to = &marked;
	}
	err = v->post_recv(v->qp, to, &refused);
	if (__builtin_expect(err, 0))
		return recv_failed(v, how, err, wr, 0, bad);
	gate_leave(&v->hot.recv_gate, how);
	return 0;
}

/* Another thread posts to it, too, or it is slow. */
static __attribute__((noinline)) int recv_shared(struct vqp *v, struct ibv_recv_wr *wr,
						 struct ibv_recv_wr **bad)
{
	enum gate_how how = gate_enter(&v->hot.recv_gate, NULL);

	if (how == GATE_IS_SHUT)
		return slow_post_recv(v, wr, bad);
	if (wr->next || !log_recv_fast(v, wr))
		return recv_list(v, how, wr, bad);
	return recv_logged(v, how, wr, bad);
}

int hot_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vqp *v = gate_find(&gate_mine.recv, qp);
	struct ibv_sge *sge;
	int num_sge;

	if (!v || !wr)
		return recv_unknown(qp, wr, bad);
	if (!gate_enter_owned(&v->hot.recv_gate, bad))
		return recv_shared(v, wr, bad);
	sge = wr->sg_list;
	num_sge = wr->num_sge;
	if (__builtin_expect(wr->next || !log_recv(v, wr->wr_id, sge, num_sge), 0))
		return recv_entered(v, GATE_OWNED, wr, bad);
	v->hot.recv_now = wr;
	if (is_marked(v)) {
		v->hot.recv_marked.sg_list = sge;
		v->hot.recv_marked.num_sge = num_sge;
		wr = &v->hot.recv_marked;
	}
	return recv_one(v, qp, wr);
}
