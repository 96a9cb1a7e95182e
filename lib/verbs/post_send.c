/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sends on their way to a NIC. On the fast way they are logged, then posted to rail 0 as they are.
 */
#include "lib/verbs/post_send.h"

#include <errno.h>
#include <stddef.h>

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/repost.h"
#include "lib/conn/self_qp.h"
#include "lib/conn/srq_qps.h"

_Static_assert(sizeof(struct shift_sge) == sizeof(struct ibv_sge),
	       "the log takes the program's SGEs as they are");

#define SAME_PLACE(a, b) (offsetof(struct shift_raw_wr, a) == offsetof(struct ibv_send_wr, b))

_Static_assert(SAME_PLACE(wr_id, wr_id) && SAME_PLACE(next, next) && SAME_PLACE(sge, sg_list) &&
		       SAME_PLACE(num_sge, num_sge) && SAME_PLACE(opcode, opcode) &&
		       SAME_PLACE(flags, send_flags) && SAME_PLACE(imm, imm_data) &&
		       SAME_PLACE(remote_addr, wr.rdma.remote_addr) &&
		       SAME_PLACE(rkey, wr.rdma.rkey) &&
		       SAME_PLACE(remote_addr, wr.atomic.remote_addr) &&
		       SAME_PLACE(atomic.compare_add, wr.atomic.compare_add) &&
		       SAME_PLACE(atomic.swap, wr.atomic.swap) &&
		       SAME_PLACE(atomic.rkey, wr.atomic.rkey) &&
		       sizeof(struct shift_raw_wr) <= sizeof(struct ibv_send_wr),
	       "runs take the program's WRs as they are");

static const struct shift_raw_wr *raw_wr(const struct ibv_send_wr *wr)
{
	return (const struct shift_raw_wr *)wr;
}

static void to_log(struct shift_wr *to, const struct ibv_send_wr *wr)
{
	to->wr_id = wr->wr_id;
	to->sge = (const struct shift_sge *)wr->sg_list;
	to->num_sge = (uint32_t)wr->num_sge;
	to->opcode = (uint8_t)wr->opcode;
	to->flags = (uint8_t)wr->send_flags;
	to->imm = wr->imm_data;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		to->remote_addr = wr->wr.atomic.remote_addr;
		to->rkey = wr->wr.atomic.rkey;
		to->compare_add = wr->wr.atomic.compare_add;
		to->swap = wr->wr.atomic.swap;
	} else {
		to->remote_addr = wr->wr.rdma.remote_addr;
		to->rkey = wr->wr.rdma.rkey;
		to->compare_add = to->swap = 0;
	}
}

/* --- sends ----------------------------------------------------------------------------------- */

/* Newer than the log. */
static bool is_unknown(const struct ibv_send_wr *wr)
{
	return wr->opcode > IBV_WR_SEND_WITH_INV;
}

/* The bind of a memory window, and what the log does not know, cannot be posted from the log. So it
 * goes straight to the NIC. The log counts it. */
static int slow_direct(struct vqp *v, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr one = *wr, *bad;
	struct shift_wr log;
	int rail, err;

	if (!vqp_release(v, is_unknown(wr) ? STATS_UNPROTECTED_TOO_LARGE
					   : STATS_UNPROTECTED_MEMORY_WINDOW))
		return -EOPNOTSUPP;
	if (v->repost.tx_next < v->repost.tx_end)
		return -ENOMEM; /* as if the queue were full: sends before it wait to be posted */
	one.next = NULL;
	to_log(&log, wr);
	if (is_unknown(wr))
		log = (struct shift_wr){.wr_id = wr->wr_id,
					.opcode = SHIFT_OP_BIND_MW,
					.flags = log.flags & SHIFT_F_SIGNALED};
	err = shift_conn_post_send(v->conn, &log, &rail);
	if (err < 0)
		return err;
	err = v->post_send(v->qp, &one, &bad);
	if (err)
		shift_conn_unpost_send(v->conn, 1);
	return -err;
}

/* Posts the only send that waits, to rail 0. If the NIC refuses it, it was never posted. */
static int post_at_once(struct vqp *v)
{
	int err = repost_one(v);

	if (!err)
		return 0;
	if (v->repost.tx_next < v->repost.tx_end && repost_is_for_program(v, -err)) {
		v->repost.tx_end = v->repost.tx_next;
		shift_conn_unpost_send(v->conn, 1);
		return err;
	}
	repost_refused(v, err);
	vqp_act(v);
	return 0;
}

/* Of a QP that is connected with itself. */
static int slow_self(struct vqp *v, const struct ibv_send_wr *wr)
{
	struct shift_wr log;

	if (wr->opcode == IBV_WR_BIND_MW || is_unknown(wr))
		return -EOPNOTSUPP;
	to_log(&log, wr);
	return self_qp_post(v, &log);
}

/* Are so few sends waiting in the log to be posted that there is room for n more? Those that the
 * last commit found done do not count: the program has their completions, and posts in their place.
 */
static bool queue_takes(struct vqp *v, uint32_t n)
{
	uint64_t next = v->repost.tx_next, size = v->init.cap.max_send_wr;
	struct shift_conn_view view;

	if (v->repost.tx_end - next + n <= size)
		return true;
	shift_conn_view(v->conn, &view);
	if (next < view.send_tail)
		next = view.send_tail;
	return v->repost.tx_end + n <= next + size;
}

/* One send, between vqp_enter() and vqp_leave(). 0 or a negative errno. at_once: if it is the only
 * one that waits, so that the program hears what its NIC says; else vqp_leave() posts it. */
static int slow_send(struct vqp *v, const struct ibv_send_wr *wr, bool at_once)
{
	uint64_t at = shift_conn_head(v->conn);
	struct shift_wr log;
	int rail, err;
	bool first;

	if (v->self.engaged)
		return slow_self(v, wr);
	if (!queue_takes(v, 1))
		return -ENOMEM;
	if (wr->opcode == IBV_WR_BIND_MW || is_unknown(wr))
		return slow_direct(v, wr);
	to_log(&log, wr);
	err = shift_conn_post_send(v->conn, &log, &rail);
	if (err == -EIO) {
		vqp_deliver_flush(v, wr->wr_id, false);
		return 0;
	}
	if (err < 0)
		return err;
	vqp_act(v);
	if (rail == SHIFT_HELD)
		return 0;
	first = v->repost.tx_next == v->repost.tx_end;
	if (first) {
		v->repost.tx_next = at;
		v->repost.tx_rail = (uint8_t)rail;
		v->repost.tx_epoch = v->rails.armed_epoch[rail];
	}
	v->repost.tx_end = at + 1;
	return at_once && first && !rail && repost_may_pump(v) ? post_at_once(v) : 0;
}

#define LATE_MAX_NS 2000000000ull

static bool takes_receive(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM ||
	       wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* It may be connected with itself, and be live on its SRQ from its first message on. 0 or an errno.
 */
static int join_for(struct vqp *v, const struct ibv_send_wr *wr)
{
	if (!atomic_load(&v->rails.joins_late))
		return 0;
	if (v->life.dead || v->program.state == IBV_QPS_ERR) /* it is flushed, and takes none */
		return 0;
	for (; wr; wr = wr->next)
		if (takes_receive(wr))
			return srq_qp_join_to_send(v, LATE_MAX_NS);
	return 0;
}

/* noinline, so that it costs posts through an open gate nothing. */
static __attribute__((noinline)) int slow_post_send(struct vqp *v, struct ibv_send_wr *wr,
						    struct ibv_send_wr **bad)
{
	int err;

	if (v->life.bypassed)
		return v->post_send(v->qp, wr, bad);
	err = join_for(v, wr);
	if (err) {
		*bad = wr;
		return err;
	}
	vqp_enter(v);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = slow_send(v, wr, true);
	vqp_leave(v);
	if (err)
		*bad = wr;
	return -err;
}

/* A WR that the short ways do not take. false: it must go the slow way. */
static __attribute__((noinline)) bool log_single(struct vqp *v, const struct ibv_send_wr *wr)
{
	struct shift_wr log;
	int rail;

	shift_fast_fold(v->conn, &v->hot.run);
	if (wr->opcode == IBV_WR_BIND_MW && !v->life.released)
		return false;
	to_log(&log, wr);
	/* The first atomic, if it means that the connection may not move any more. */
	if (shift_wr_atomic(log.opcode) && shift_conn_atomic_releases(v->conn))
		return false;
	if (shift_conn_secret_due(v->conn, &log))
		return false;
	return !shift_conn_post_send(v->conn, &log, &rail);
}

static uint32_t count_sends(const struct ibv_send_wr *wr, const struct ibv_send_wr *end)
{
	uint32_t n = 0;

	for (; wr != end; wr = wr->next)
		n++;
	return n;
}

/* As shift_fast_post_list(). */
static inline struct ibv_send_wr *log_list(struct vqp *v, struct ibv_send_wr *wr, uint32_t n)
{
	return (struct ibv_send_wr *)shift_fast_post_list(v->conn, &v->hot.run, raw_wr(wr), n);
}

/* The list was logged up to `rest`. Goes on, up to the first that cannot be logged on the fast way;
 * returns that one, or NULL. */
static __attribute__((noinline)) struct ibv_send_wr *log_rest(struct vqp *v, struct ibv_send_wr *wr,
							      struct ibv_send_wr *rest,
							      uint32_t most)
{
	for (;;) {
		most -= count_sends(wr, rest);
		if (!most || !log_single(v, rest))
			return rest;
		wr = rest->next;
		rest = wr ? log_list(v, wr, --most) : NULL;
		if (!rest)
			return NULL;
	}
}

/* Logs the list as far as can be on the fast way; returns the next, or NULL. It logs no more than
 * one send queue holds: the log has room for two, and one may be outstanding. */
static inline struct ibv_send_wr *log_sends(struct vqp *v, struct ibv_send_wr *wr)
{
	uint32_t most = v->init.cap.max_send_wr;
	struct ibv_send_wr *rest = log_list(v, wr, most);

	return rest ? log_rest(v, wr, rest, most) : NULL;
}

static inline bool log_other(struct vqp *v, const struct ibv_send_wr *wr)
{
	return shift_fast_post_other(v->conn, &v->hot.run, raw_wr(wr));
}

static inline bool log_one(struct vqp *v, const struct ibv_send_wr *wr)
{
	return shift_fast_post(&v->hot.run, raw_wr(wr)) || log_other(v, wr);
}

/*
 * The NIC is broken: its n newest requests stay in the log, and are posted on another rail. Inside
 * the gate, which it leaves. The gate is shut until the core knows: what another thread posted
 * meanwhile the NIC might take, and it would pass for the requests that it has refused.
 */
static void sends_refused(struct vqp *v, enum gate_how how, uint32_t n)
{
	v->hot.refused = true;
	v->hot.refused_sends = n;
	gate_shut(&v->hot.send_gate);
	gate_leave(&v->hot.send_gate, how);
	vqp_enter(v);
	gate_open(&v->hot.send_gate);
	vqp_leave(v);
}

/* Posts what was logged, [wr, end), one by one. After an error *refused is the first that the
 * provider has refused; NULL: it has queued it, and could not ring the doorbell (V9). *left: how
 * many it has not got. */
static int post_pieces(struct vqp *v, struct ibv_send_wr *wr, const struct ibv_send_wr *end,
		       struct ibv_send_wr **refused, uint32_t *left)
{
	int err = 0;

	*refused = NULL;
	*left = 0;
	for (; wr != end && !err; wr = err ? wr : wr->next) {
		struct ibv_send_wr one = *wr, *one_bad = NULL;

		one.next = NULL;
		err = v->post_send(v->qp, &one, &one_bad);
		if (err) {
			*refused = one_bad ? wr : NULL;
			*left = count_sends(one_bad ? wr : wr->next, end);
		}
	}
	return err;
}

/* A post has failed. refused, left: see above. end: the first that was not logged. *bad is written
 * only if the program hears of the error: one that expects none may pass NULL. */
static int post_failed(struct vqp *v, enum gate_how how, int err, struct ibv_send_wr *refused,
		       uint32_t left, struct ibv_send_wr *end, struct ibv_send_wr **bad)
{
	shift_fast_fold(v->conn, &v->hot.run);
	if (refused && repost_is_for_program(v, err)) {
		*bad = refused;
		shift_conn_unpost_send(v->conn, left);
		gate_leave(&v->hot.send_gate, how);
		return err;
	}
	sends_refused(v, how, left);
	return end ? slow_post_send(v, end, bad) : 0;
}

static __attribute__((noinline)) int fast_failed(struct vqp *v, int err)
{
	struct ibv_send_wr **bad = gate_mark(&v->hot.send_gate), *refused = v->hot.fast_bad;

	v->hot.fast_bad = NULL;
	return post_failed(v, GATE_OWNED, err, refused, count_sends(refused, NULL), NULL, bad);
}

/* Posts what was logged, all of the program's list as it is, inside the gate as its owner with
 * `bad` as the mark, and leaves the gate. All that an error needs is the mark and what is in v, so
 * nothing else has to be saved over the call. */
static inline __attribute__((always_inline)) int post_owned(struct vqp *v, struct ibv_qp *qp,
							    struct ibv_send_wr *wr)
{
	int err = v->post_send(qp, wr, &v->hot.fast_bad);

	if (__builtin_expect(err, 0))
		return fast_failed(v, err);
	__asm__("" : "+r"(err)); /* it is 0 in its register: the compiler must not load 0 again */
	gate_leave(&v->hot.send_gate, GATE_OWNED);
	return err;
}

/* The list was logged up to `end`. Inside the gate, which it leaves. */
static __attribute__((noinline)) int post_part(struct vqp *v, enum gate_how how,
					       struct ibv_send_wr *wr, struct ibv_send_wr *end,
					       struct ibv_send_wr **bad)
{
	struct ibv_send_wr *refused;
	uint32_t left;
	int err = post_pieces(v, wr, end, &refused, &left);

	if (err)
		return post_failed(v, how, err, refused, left, end, bad);
	gate_leave(&v->hot.send_gate, how);
	return slow_post_send(v, end, bad);
}

/* All of the program's list was logged, and is posted as it is. Inside the gate, which it leaves.
 */
static inline int post_whole(struct vqp *v, enum gate_how how, struct ibv_send_wr *wr,
			     struct ibv_send_wr **bad)
{
	struct ibv_send_wr *refused = NULL;
	int err = v->post_send(v->qp, wr, &refused);

	if (__builtin_expect(err, 0))
		return post_failed(v, how, err, refused, refused ? count_sends(refused, NULL) : 0,
				   NULL, bad);
	gate_leave(&v->hot.send_gate, how);
	return 0;
}

/* The list was logged up to `rest`, and may be logged further. Inside the gate, which it leaves. */
static __attribute__((noinline)) int post_rest(struct vqp *v, enum gate_how how,
					       struct ibv_send_wr *wr, struct ibv_send_wr *rest,
					       struct ibv_send_wr **bad)
{
	rest = log_rest(v, wr, rest, v->init.cap.max_send_wr);
	return rest ? post_part(v, how, wr, rest, bad) : post_whole(v, how, wr, bad);
}

/* Inside the gate, which it leaves. */
static inline int post_new_list(struct vqp *v, enum gate_how how, struct ibv_send_wr *wr,
				struct ibv_send_wr **bad)
{
	struct ibv_send_wr *rest = log_list(v, wr, v->init.cap.max_send_wr);

	return rest ? post_rest(v, how, wr, rest, bad) : post_whole(v, how, wr, bad);
}

/* The same of a list that may be empty. */
static __attribute__((noinline)) int post_entered(struct vqp *v, enum gate_how how,
						  struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (__builtin_expect(!wr, 0)) { /* soft-RoCE takes an empty list for an error */
		gate_leave(&v->hot.send_gate, how);
		return 0;
	}
	return post_new_list(v, how, wr, bad);
}

/* One that does not go the shortest way; as the owner, inside the gate, which it leaves. */
static __attribute__((noinline)) int post_other_one(struct vqp *v, struct ibv_send_wr *wr)
{
	if (__builtin_expect(!log_other(v, wr), 0))
		return post_entered(v, GATE_OWNED, wr, gate_mark(&v->hot.send_gate));
	return post_owned(v, v->qp, wr);
}

/* A list, likewise. */
static __attribute__((noinline)) int post_send_list(struct vqp *v, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *rest = log_list(v, wr, v->init.cap.max_send_wr);

	if (__builtin_expect(rest != NULL, 0))
		return post_rest(v, GATE_OWNED, wr, rest, gate_mark(&v->hot.send_gate));
	return post_owned(v, v->qp, wr);
}

/* To a QP that this thread does not remember. */
static __attribute__((noinline)) int post_unknown(struct ibv_qp *qp, struct ibv_send_wr *wr,
						  struct ibv_send_wr **bad)
{
	struct vqp *v = vqp_find(qp);
	enum gate_how how;

	if (!v || !v->conn)
		return v ? v->post_send(qp, wr, bad)
			 : vdev_find(qp->context)->ops.post_send(qp, wr, bad);
	how = gate_enter(&v->hot.send_gate, bad);
	if (how == GATE_IS_SHUT)
		return slow_post_send(v, wr, bad);
	gate_remember(&gate_mine.send, qp, v);
	return post_entered(v, how, wr, bad);
}

/* Another thread posts to it, too, or it is slow. */
static __attribute__((noinline)) int post_shared(struct vqp *v, struct ibv_send_wr *wr,
						 struct ibv_send_wr **bad)
{
	enum gate_how how = gate_enter(&v->hot.send_gate, bad);

	if (how == GATE_IS_SHUT)
		return slow_post_send(v, wr, bad);
	if (wr->next || !log_one(v, wr))
		return post_new_list(v, how, wr, bad);
	return post_whole(v, how, wr, bad);
}

int hot_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vqp *v = gate_find(&gate_mine.send, qp);

	if (!v || !wr)
		return post_unknown(qp, wr, bad);
	if (!gate_enter_owned(&v->hot.send_gate, bad))
		return post_shared(v, wr, bad);
	if (wr->next)
		return post_send_list(v, wr);
	if (!shift_fast_post(&v->hot.run, raw_wr(wr)))
		return post_other_one(v, wr);
	return post_owned(v, qp, wr);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* So that none of the n is refused once the first is logged. */
static bool takes_all(struct vqp *v, uint32_t n)
{
	if (v->self.engaged)
		return shift_conn_head(v->conn) - v->self.tail + n <= v->init.cap.max_send_wr;
	return queue_takes(v, n) && n <= shift_conn_send_room(v->conn);
}

/* Is all of the batch in the log, behind nothing that waits, and to be posted to rail 0 as it is?
 * Where completions are matched with their WRs, one of these may have to be signaled in secret. */
static bool batch_is_home(const struct vqp *v, uint32_t n)
{
	return !v->self.engaged && !v->repost.tx_rail &&
	       v->repost.tx_end - v->repost.tx_next == n && repost_may_pump(v) &&
	       !shift_conn_tracked(v->conn);
}

/* Does the NIC have a batch for which its provider has said err? Soft-RoCE's says ENOSPC of what it
 * does not take. Any other error of it is the doorbell's, and the requests are in its queue (V9).
 * Other drivers say no before they take any. */
static bool batch_is_taken(const struct vqp *v, int err)
{
	return !err || (v->dev->nic[0]->is_rxe && err != ENOSPC);
}

/* As of a single one. */
static int batch_at_once(struct vqp *v, const struct ibv_send_wr *wr, uint32_t n,
			 post_all_fn *post_all)
{
	int err = post_all(v, wr);

	if (!batch_is_taken(v, err) && repost_is_for_program(v, err)) {
		v->repost.tx_end = v->repost.tx_next;
		shift_conn_unpost_send(v->conn, n);
		return -err;
	}
	if (batch_is_taken(v, err))
		v->repost.tx_next = v->repost.tx_end;
	if (err) {
		repost_refused(v, -err);
		vqp_act(v);
	}
	return 0;
}

/* The log has had no room for the rest, as a secret signal was due in the batch, and from there on
 * it says how much is outstanding. Nothing of it is posted yet. */
static void batch_unlog(struct vqp *v, uint32_t logged)
{
	if (v->self.engaged || v->repost.tx_end - v->repost.tx_next < logged)
		return;
	v->repost.tx_end -= logged;
	shift_conn_unpost_send(v->conn, logged);
}

static __attribute__((noinline)) int slow_batch(struct vqp *v, struct ibv_send_wr *list, uint32_t n,
						post_all_fn *post_all)
{
	struct ibv_send_wr *wr = list;
	int err;

	if (v->life.bypassed)
		return post_all(v, list);
	err = join_for(v, list);
	if (err)
		return err;
	vqp_enter(v);
	if (!takes_all(v, n))
		err = -ENOMEM;
	for (; wr && !err; wr = err ? wr : wr->next)
		err = slow_send(v, wr, false);
	if (err && wr != list)
		batch_unlog(v, count_sends(list, wr));
	if (!err && batch_is_home(v, n))
		err = batch_at_once(v, list, n, post_all);
	vqp_leave(v);
	return -err;
}

/* [wr, end) was logged, and is not to be posted this way. Inside the gate, which it leaves. */
static void batch_withdraw(struct vqp *v, enum gate_how how, const struct ibv_send_wr *wr,
			   const struct ibv_send_wr *end)
{
	shift_fast_fold(v->conn, &v->hot.run);
	shift_conn_unpost_send(v->conn, count_sends(wr, end));
	gate_leave(&v->hot.send_gate, how);
}

static enum gate_how batch_enter(struct vqp *v, struct ibv_send_wr *wr)
{
	bool known = gate_find(&gate_mine.send, v->qp);
	enum gate_how how;

	if (known && gate_enter_owned(&v->hot.send_gate, wr))
		return GATE_OWNED;
	how = gate_enter(&v->hot.send_gate, wr);
	if (!known && how != GATE_IS_SHUT)
		gate_remember(&gate_mine.send, v->qp, v);
	return how;
}

/* Where the program is not at fault, its NIC is broken. */
static __attribute__((noinline)) int batch_failed(struct vqp *v, enum gate_how how, int err,
						  const struct ibv_send_wr *wr, uint32_t n)
{
	bool taken = batch_is_taken(v, err);

	if (!taken && repost_is_for_program(v, err)) {
		batch_withdraw(v, how, wr, NULL);
		return err;
	}
	shift_fast_fold(v->conn, &v->hot.run);
	sends_refused(v, how, taken ? 0 : n);
	return 0;
}

int post_send_batch(struct vqp *v, struct ibv_send_wr *wr, uint32_t n, post_all_fn *post_all)
{
	enum gate_how how = batch_enter(v, wr);
	int err;

	if (how == GATE_IS_SHUT)
		return slow_batch(v, wr, n, post_all);
	if (n > 1 || !log_one(v, wr)) {
		struct ibv_send_wr *rest = log_sends(v, wr);

		if (rest) {
			batch_withdraw(v, how, wr, rest);
			return slow_batch(v, wr, n, post_all);
		}
	}
	err = post_all(v, wr);
	if (__builtin_expect(err, 0))
		return batch_failed(v, how, err, wr, n);
	gate_leave(&v->hot.send_gate, how);
	return 0;
}
