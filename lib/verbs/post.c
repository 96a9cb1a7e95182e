/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Work requests on their way to a NIC. Fast: logged, then posted to rail 0 as they are. */
#include <errno.h>
#include <string.h>

#include "lib/verbs/keys.h"
#include "lib/verbs/log.h"
#include "lib/verbs/vobj.h"

#define SGES_MAX 64 /* more than any NIC accepts in practice; QPs with more are not protected */

_Static_assert(sizeof(struct shift_sge) == sizeof(struct ibv_sge),
	       "the log takes them as they are");

#define SAME_PLACE(a, b) (offsetof(struct shift_raw_wr, a) == offsetof(struct ibv_send_wr, b))

_Static_assert(SAME_PLACE(wr_id, wr_id) && SAME_PLACE(next, next) && SAME_PLACE(sge, sg_list) &&
		       SAME_PLACE(num_sge, num_sge) && SAME_PLACE(opcode, opcode) &&
		       SAME_PLACE(flags, send_flags) && SAME_PLACE(imm, imm_data) &&
		       SAME_PLACE(remote_addr, wr.rdma.remote_addr) &&
		       SAME_PLACE(rkey, wr.rdma.rkey) &&
		       sizeof(struct shift_raw_wr) <= sizeof(struct ibv_send_wr),
	       "runs take them as they are");

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

static void from_log(struct ibv_send_wr *wr, const struct shift_wr *from)
{
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = from->wr_id;
	wr->sg_list = (struct ibv_sge *)from->sge;
	wr->num_sge = (int)from->num_sge;
	wr->opcode = from->opcode;
	wr->send_flags = from->flags;
	wr->imm_data = from->imm;
	if (from->opcode == SHIFT_OP_CMP_SWAP || from->opcode == SHIFT_OP_FETCH_ADD) {
		wr->wr.atomic.remote_addr = from->remote_addr;
		wr->wr.atomic.rkey = from->rkey;
		wr->wr.atomic.compare_add = from->compare_add;
		wr->wr.atomic.swap = from->swap;
	} else {
		wr->wr.rdma.remote_addr = from->remote_addr;
		wr->wr.rdma.rkey = from->rkey;
	}
}

/* Refused for what the program asked, not because the NIC is broken. */
static bool program_mistake(int err)
{
	return err == ENOMEM || err == EINVAL || err == EOPNOTSUPP || err == ENOTSUP;
}

/* Refused on rail 0, and for the program to know, as there is no other rail that would take it. */
static bool for_the_program(const struct vqp *v, int err)
{
	return program_mistake(err) || !vqp_is_protected(v);
}

/* --- the pump: from the log to a NIC --------------------------------------------------------- */

/* lkeys and the rkey of the twin. 0, -EAGAIN (later), or -ENOENT: a key that does not exist, which
 * the NIC shall say in its own words. */
static int twin_keys(struct vqp *v, uint8_t rail, struct shift_wr *wr, struct shift_sge *sge)
{
	int err;

	if (!(wr->flags & SHIFT_F_INLINE))
		for (uint32_t i = 0; i < wr->num_sge; i++) {
			err = vmr_lkey(v->pd, v->dev->nic[rail], sge[i].lkey, &sge[i].lkey);
			if (err == -EAGAIN)
				return err;
		}
	if (wr->opcode == SHIFT_OP_SEND || wr->opcode == SHIFT_OP_SEND_IMM || !wr->rkey)
		return 0;
	err = keys_get(v, wr->rkey, &wr->rkey);
	return err == -ENOENT ? 0 : err;
}

/* taken: also where it fails, if the provider does not say which it refused (DESIGN 4.5). */
static int post_logged(struct vqp *v, struct shift_wr *wr, struct shift_sge *sge, bool *taken)
{
	struct ibv_qp *qp = vqp_rail_qp(v, v->tx_rail);
	struct ibv_send_wr out, *bad = NULL;
	int err;

	*taken = false;
	if (v->tx_rail) {
		err = twin_keys(v, v->tx_rail, wr, sge);
		if (err)
			return err;
	}
	from_log(&out, wr);
	if (v->tx_rail)
		out.wr_id = (uint64_t)v->tx_epoch << TWIN_EPOCH_SHIFT;
	err = v->tx_rail ? ibv_post_send(qp, &out, &bad) : v->post_send(qp, &out, &bad);
	*taken = !err || !bad;
	return -err;
}

/* The NIC does not take them: they will not flush, and are posted again elsewhere. */
static void not_taken(struct vqp *v)
{
	struct shift_event ev = {
		.type = SHIFT_EV_POST_FAILED, .rail = v->tx_rail, .epoch = v->tx_epoch};
	struct shift_sge sge[SGES_MAX];
	struct shift_wr wr;

	while (shift_conn_repost(v->conn, &v->tx_next, v->tx_end, &wr, sge))
		ev.count++;
	v->tx_next = v->tx_end;
	shift_conn_event(v->conn, &ev, now_ns());
	vqp_act(v);
}

static bool may_pump(const struct vqp *v)
{
	return v->tx_next < v->tx_end && !v->tx_stopped && !pause_repost(v);
}

/* The next in line. What it returns is -EIO if the NIC has it all the same. */
static int pump_one(struct vqp *v)
{
	struct shift_sge sge[SGES_MAX];
	uint64_t next = v->tx_next;
	struct shift_wr wr;
	bool taken;
	int err;

	if (!shift_conn_repost(v->conn, &next, v->tx_end, &wr, sge)) {
		v->tx_next = v->tx_end;
		return 0;
	}
	err = post_logged(v, &wr, sge, &taken);
	if (taken)
		v->tx_next = next;
	return err && taken ? -EIO : err;
}

static void pump_failed(struct vqp *v, int err)
{
	log_debug("QP %#x: rail %u refused a post (%d)", v->qp->qp_num, v->tx_rail, -err);
	not_taken(v);
}

void vqp_pump(struct vqp *v)
{
	while (may_pump(v)) {
		int err = pump_one(v);

		if (err == -EAGAIN || err == -ENOMEM)
			return; /* a key, or room: whoever brings it comes by here */
		if (err) {
			pump_failed(v, err);
			return;
		}
	}
}

void post_sends(struct vqp *v, const struct shift_action *a)
{
	/* After a planned switch that was let be, some may still wait for room or a key: these
	 * first. */
	if (v->tx_next == v->tx_end || v->tx_rail != a->rail || v->tx_epoch != a->epoch)
		v->tx_next = a->first;
	v->tx_rail = a->rail;
	v->tx_epoch = a->epoch;
	v->tx_end = a->first + a->count;
	v->tx_stopped = false; /* reissued READs go while the program's posts are still held */
}

/* Before a fence's end is told: what never reached the NIC. */
void post_unsent(struct vqp *v, uint8_t rail, uint32_t epoch)
{
	if (v->tx_next < v->tx_end && v->tx_rail == rail && v->tx_epoch == epoch)
		not_taken(v);
}

/* --- sends ----------------------------------------------------------------------------------- */

/* What is posted to a QP that is over flushes, as it would with stock verbs. */
static void flush(struct vqp *v, uint64_t wr_id, bool is_recv)
{
	struct ibv_wc wc = {
		.wr_id = wr_id,
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = is_recv ? IBV_WC_RECV : IBV_WC_SEND,
		.qp_num = v->qp->qp_num,
	};

	vcq_out(is_recv ? v->recv_cq : v->send_cq, &wc);
}

/* It cannot be posted from the log, so it goes straight to the NIC. */
static int slow_bind(struct vqp *v, const struct ibv_send_wr *wr)
{
	struct ibv_send_wr one = *wr, *bad;
	struct shift_wr log;
	int rail, err;

	if (!vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW))
		return -EOPNOTSUPP;
	if (v->tx_next < v->tx_end)
		return -ENOMEM; /* a full queue: others before it wait for room */
	one.next = NULL;
	to_log(&log, wr);
	err = shift_conn_post_send(v->conn, &log, &rail);
	if (err < 0)
		return err;
	err = v->post_send(v->qp, &one, &bad);
	if (err)
		shift_conn_unpost_send(v->conn, 1);
	return -err;
}

/* The first in line, and for rail 0: refused there, it is as if it had not been posted. */
static int post_at_once(struct vqp *v)
{
	int err = pump_one(v);

	if (!err)
		return 0;
	if (v->tx_next < v->tx_end && for_the_program(v, -err)) {
		v->tx_end = v->tx_next;
		shift_conn_unpost_send(v->conn, 1);
		return err;
	}
	pump_failed(v, err);
	return 0;
}

/* One send, under enter. 0 or a negative errno. */
static int slow_send(struct vqp *v, const struct ibv_send_wr *wr)
{
	uint64_t at = shift_conn_head(v->conn);
	struct shift_wr log;
	int rail, err;
	bool first;

	/* What the log still has to hand to the NIC is as good as a full queue. */
	if (v->tx_end - v->tx_next >= v->init.cap.max_send_wr)
		return -ENOMEM;
	if (wr->opcode == IBV_WR_BIND_MW)
		return slow_bind(v, wr);
	to_log(&log, wr);
	err = shift_conn_post_send(v->conn, &log, &rail);
	if (err == -EIO) {
		flush(v, wr->wr_id, false);
		return 0;
	}
	if (err < 0)
		return err;
	vqp_act(v);
	if (rail == SHIFT_HELD)
		return 0;
	first = v->tx_next == v->tx_end;
	if (first) {
		v->tx_next = at;
		v->tx_rail = (uint8_t)rail;
		v->tx_epoch = v->rail_epoch[rail];
	}
	v->tx_end = at + 1;
	return first && !rail && may_pump(v) ? post_at_once(v) : 0;
}

/* noinline: no burden for those that come by an open gate. */
static __attribute__((noinline)) int slow_post_send(struct vqp *v, struct ibv_send_wr *wr,
						    struct ibv_send_wr **bad)
{
	int err = 0;

	if (v->around)
		return v->post_send(v->qp, wr, bad);
	vqp_enter(v);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = slow_send(v, wr);
	vqp_leave(v);
	if (err)
		*bad = wr;
	return -err;
}

/*
 * Logs the list up to the first that cannot be logged on the fast way; returns that one, or NULL.
 * Not more than a queue of them: the log has room for two, and one may be outstanding.
 */
static struct ibv_send_wr *log_sends(struct vqp *v, struct ibv_send_wr *wr)
{
	struct shift_wr log;
	int rail;

	for (uint32_t n = 0; wr; wr = wr->next, n++) {
		if (n >= v->init.cap.max_send_wr)
			return wr;
		if (wr->opcode == IBV_WR_BIND_MW && !v->released)
			return wr;
		to_log(&log, wr);
		if (shift_conn_secret_due(v->conn, &log))
			return wr;
		if (shift_conn_post_send(v->conn, &log, &rail))
			return wr;
	}
	return NULL;
}

static uint32_t count_sends(const struct ibv_send_wr *wr, const struct ibv_send_wr *end)
{
	uint32_t n = 0;

	for (; wr != end; wr = wr->next)
		n++;
	return n;
}

/* The NIC is broken: the requests stay in the log, and go elsewhere. */
static void nic_refused(struct vqp *v, uint32_t n)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED, .epoch = v->rail0_epoch, .count = n};

	vqp_event(v, &ev);
}

/* Posts what was logged, [wr, end). The program's list is posted as it is when that is all of it.
 */
static int post_list(struct vqp *v, struct ibv_send_wr *wr, const struct ibv_send_wr *end,
		     struct ibv_send_wr **bad)
{
	int err = 0;

	*bad = NULL;
	if (!end)
		return v->post_send(v->qp, wr, bad);
	for (; wr != end && !err; wr = err ? wr : wr->next) {
		struct ibv_send_wr one = *wr, *one_bad = NULL;

		one.next = NULL;
		err = v->post_send(v->qp, &one, &one_bad);
		if (err)
			*bad = one_bad ? wr : NULL;
	}
	return err;
}

/* The provider has refused some of [.., end), or all (bad is NULL) and yet taken them. */
static int post_failed(struct vqp *v, enum gate_how how, int err, struct ibv_send_wr *end,
		       struct ibv_send_wr **bad)
{
	uint32_t n = *bad ? count_sends(*bad, end) : 0;

	if (*bad && for_the_program(v, err)) {
		shift_conn_unpost_send(v->conn, n);
		gate_leave(&v->send_gate, how);
		return err;
	}
	/* Without *bad the provider has queued all of it and could not ring the bell (DESIGN 4.5).
	 */
	gate_leave(&v->send_gate, how);
	nic_refused(v, n);
	return end ? slow_post_send(v, end, bad) : 0;
}

static __attribute__((noinline)) int post_entered(struct vqp *v, enum gate_how how,
						  struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static __attribute__((noinline)) int fast_failed(struct vqp *v, int err)
{
	struct ibv_send_wr **bad = gate_mark(&v->send_gate);

	*bad = v->fast_bad;
	v->fast_bad = NULL;
	shift_fast_fold(v->conn, &v->run);
	return post_failed(v, GATE_OWNED, err, NULL, bad);
}

/* What was logged, inside the gate as its owner with bad as the mark; leaves it. What an error
 * needs is the mark and in v: so there is nothing else to be saved over the call. */
static inline __attribute__((always_inline)) int post_one(struct vqp *v, struct ibv_qp *qp,
							  struct ibv_send_wr *wr)
{
	int err = v->post_send(qp, wr, &v->fast_bad);

	if (__builtin_expect(err, 0))
		return fast_failed(v, err);
	__asm__("" : "+r"(err)); /* is there already: else it would be made 0 again */
	gate_leave(&v->send_gate, GATE_OWNED);
	return err;
}

/* Inside the gate, which it leaves. */
static __attribute__((noinline)) int post_entered(struct vqp *v, enum gate_how how,
						  struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *rest;
	int err;

	if (how == GATE_OWNED && wr && shift_fast_wrap(v->conn, &v->run) &&
	    shift_fast_post(&v->run, raw_wr(wr)))
		return post_one(v, v->qp, wr);
	shift_fast_fold(v->conn, &v->run);
	rest = log_sends(v, wr);
	err = wr == rest ? 0 : post_list(v, wr, rest, bad);
	if (__builtin_expect(err, 0))
		return post_failed(v, how, err, rest, bad);
	if (wr && !rest)
		shift_fast_arm(v->conn, &v->run, raw_wr(wr));
	gate_leave(&v->send_gate, how);
	return rest ? slow_post_send(v, rest, bad) : 0;
}

static __attribute__((noinline)) int any_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
						   struct ibv_send_wr **bad)
{
	struct vqp *v = vqp_find(qp);
	enum gate_how how;

	if (!v || !v->conn)
		return v ? v->post_send(qp, wr, bad)
			 : vdev_find(qp->context)->ops.post_send(qp, wr, bad);
	how = gate_enter(&v->send_gate, bad);
	if (how == GATE_IS_SHUT)
		return slow_post_send(v, wr, bad);
	if (how == GATE_OWNED)
		gate_remember(&gate_mine.send, qp, v);
	return post_entered(v, how, wr, bad);
}

/* A macro, as the two are compiled for different processors, and what they call is to be inlined.
 */
#define HOT_POST_SEND(name, fast_post)                                                \
	int name(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) \
	{                                                                             \
		struct vqp *v;                                                        \
                                                                                      \
		if (!gate_owns(&gate_mine.send, qp) || !wr)                           \
			return any_post_send(qp, wr, bad);                            \
		v = gate_mine.send.object;                                            \
		if (!gate_enter_owned(&v->send_gate, bad))                            \
			return any_post_send(qp, wr, bad);                            \
		if (__builtin_expect(!fast_post(&v->run, raw_wr(wr)), 0))             \
			return post_entered(v, GATE_OWNED, wr, bad);                  \
		return post_one(v, qp, wr);                                           \
	}                                                                             \
	_Static_assert(1, "a semicolon is to follow")

HOT_POST_SEND(hot_post_send, shift_fast_post);
#ifdef __x86_64__
SHIFT_SSE41 HOT_POST_SEND(hot_post_send_sse41, shift_fast_post_sse41);
#endif

/* --- receives -------------------------------------------------------------------------------- */

static int real_recv(struct vqp *v, int rail, uint64_t wr_id, const struct shift_sge *sge,
		     uint32_t n)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .num_sge = (int)n}, *bad;
	struct shift_sge twin[SGES_MAX];

	wr.sg_list = (struct ibv_sge *)sge;
	if (!rail) {
		wr.wr_id = v->recv_mark ? v->recv_mark : wr_id;
		return -v->post_recv(v->qp, &wr, &bad);
	}
	for (uint32_t i = 0; i < n; i++) {
		twin[i] = sge[i];
		if (vmr_lkey(v->pd, v->dev->nic[rail], sge[i].lkey, &twin[i].lkey) == -EAGAIN)
			return -EAGAIN;
	}
	wr.sg_list = (struct ibv_sge *)twin;
	wr.wr_id = (uint64_t)v->rail_epoch[rail] << TWIN_EPOCH_SHIFT | TWIN_RECV;
	return -ibv_post_recv(vqp_rail_qp(v, (uint8_t)rail), &wr, &bad);
}

/* The rail cannot take our receives: it is not one to stay on. */
static void recv_refused(struct vqp *v, uint8_t rail, int err)
{
	v->recv_refused = true;
	v->rx_rail = rail;
	log_warn("QP %#x: %s refuses a receive (%s)", v->qp->qp_num, v->dev->nic[rail]->name,
		 strerror(-err));
}

void post_recvs(struct vqp *v, const struct shift_action *a)
{
	struct shift_recv_wr wr;
	int err = 0;

	for (uint64_t i = a->first; i < a->first + a->count && !err; i++) {
		shift_conn_recv_at(v->conn, i, &wr);
		err = real_recv(v, a->rail, wr.wr_id, wr.sge, wr.num_sge);
	}
	if (err)
		recv_refused(v, a->rail, err);
}

static int slow_recv(struct vqp *v, const struct ibv_recv_wr *wr)
{
	struct shift_recv_wr log = {
		.wr_id = wr->wr_id,
		.sge = (const struct shift_sge *)wr->sg_list,
		.num_sge = (uint32_t)wr->num_sge,
	};
	int rail, err = shift_conn_post_recv(v->conn, &log, &rail);

	if (err == -EIO) {
		flush(v, wr->wr_id, true);
		return 0;
	}
	if (err)
		return err;
	vqp_act(v);
	if (rail == SHIFT_HELD)
		return 0;
	err = real_recv(v, rail, log.wr_id, log.sge, log.num_sge);
	if (!err)
		return 0;
	if (!rail && for_the_program(v, -err)) {
		shift_conn_unpost_recv(v->conn, 1);
		return err;
	}
	recv_refused(v, (uint8_t)rail, err);
	return 0;
}

static __attribute__((noinline)) int slow_post_recv(struct vqp *v, struct ibv_recv_wr *wr,
						    struct ibv_recv_wr **bad)
{
	int err = 0;

	if (v->around)
		return v->post_recv(v->qp, wr, bad);
	vqp_enter(v);
	for (; wr && !err; wr = err ? wr : wr->next)
		err = slow_recv(v, wr);
	vqp_leave(v);
	if (err)
		*bad = wr;
	return -err;
}

/* With the mark in place of the program's wr_id, which is in the log. */
static int fast_recv(struct vqp *v, const struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr one = *wr, *bad;
	struct shift_recv_wr log = {
		.wr_id = wr->wr_id,
		.sge = (const struct shift_sge *)wr->sg_list,
		.num_sge = (uint32_t)wr->num_sge,
	};
	int rail, err = shift_conn_post_recv(v->conn, &log, &rail);

	if (err)
		return err;
	one.next = NULL;
	if (v->recv_mark)
		one.wr_id = v->recv_mark;
	err = v->post_recv(v->qp, &one, &bad);
	if (err)
		shift_conn_unpost_recv(v->conn, 1);
	return -err;
}

/* Inside the gate, which it leaves. */
static int recv_entered(struct vqp *v, enum gate_how how, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr && !err; wr = err ? wr : wr->next)
		err = fast_recv(v, wr);
	gate_leave(&v->recv_gate, how);
	if (err)
		*bad = wr;
	return -err;
}

static __attribute__((noinline)) int any_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
						   struct ibv_recv_wr **bad)
{
	struct vqp *v = vqp_find(qp);
	enum gate_how how;

	if (!v || !v->conn)
		return v ? v->post_recv(qp, wr, bad)
			 : vdev_find(qp->context)->ops.post_recv(qp, wr, bad);
	how = gate_enter(&v->recv_gate, NULL);
	if (how == GATE_IS_SHUT)
		return slow_post_recv(v, wr, bad);
	if (how == GATE_OWNED)
		gate_remember(&gate_mine.recv, qp, v);
	return recv_entered(v, how, wr, bad);
}

int hot_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vqp *v;

	if (!gate_owns(&gate_mine.recv, qp))
		return any_post_recv(qp, wr, bad);
	v = gate_mine.recv.object;
	if (!gate_enter_owned(&v->recv_gate, NULL))
		return any_post_recv(qp, wr, bad);
	return recv_entered(v, GATE_OWNED, wr, bad);
}
