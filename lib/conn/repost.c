/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/conn/repost.h"

#include <errno.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/post_errors.h"
#include "lib/conn/peer_keys.h"

bool repost_is_for_program(const struct vqp *v, int err)
{
	return post_is_mistaken(err) || !vqp_is_protected(v);
}

/* --- sends ------------------------------------------------------------------------------------ */

void wr_from_log(struct ibv_send_wr *wr, const struct shift_wr *from)
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

/* The second look: the registration may have ended after the first, and then it has not found us
 * waiting. */
static int twin_lkey(struct vqp *v, uint8_t rail, uint32_t lkey, uint32_t *twin)
{
	int err = vmr_lkey(v->pd, v->dev->nic[rail], lkey, twin);

	if (err != -EAGAIN)
		return err;
	atomic_store(&v->repost.wants_lkey, true);
	return vmr_lkey(v->pd, v->dev->nic[rail], lkey, twin);
}

/* What has no byte needs no key, and gets none. A key of rail 0 is never posted on a twin: there it
 * may be that of somebody else's memory. */
int twin_lkeys(struct vqp *v, uint8_t rail, struct shift_sge *sge, uint32_t n, uint32_t *length)
{
	*length = 0;
	for (uint32_t i = 0; i < n; i++) {
		int err = 0;

		if (sge[i].length)
			err = twin_lkey(v, rail, sge[i].lkey, &sge[i].lkey);
		else
			sge[i].lkey = 0;
		if (err)
			return err == -ENOENT ? -ENOKEY : err;
		*length += sge[i].length;
	}
	return 0;
}

/* Replaces the program's keys by those of the twin's rail. 0; -EAGAIN (later, also when the NIC has
 * refused: it is asked again) or -ENOMEM; -ENOKEY: there is no such memory on that rail. */
static int twin_keys(struct vqp *v, uint8_t rail, struct shift_wr *wr, struct shift_sge *sge)
{
	uint32_t length = 0;
	int err = 0;

	if (!(wr->flags & SHIFT_F_INLINE))
		err = twin_lkeys(v, rail, sge, wr->num_sge, &length);
	else if (wr->num_sge)
		length = sge[0].length;
	if (err || wr->opcode == SHIFT_OP_SEND || wr->opcode == SHIFT_OP_SEND_IMM)
		return err == -ENOBUFS ? -EAGAIN : err;
	if (wr->opcode == SHIFT_OP_LOCAL_INV || wr->opcode == SHIFT_OP_SEND_INV)
		return -ENOKEY; /* of a memory window: there are none on a twin */
	if (wr->opcode == SHIFT_OP_CMP_SWAP || wr->opcode == SHIFT_OP_FETCH_ADD)
		length = 8;
	if (!length) {
		wr->rkey = 0;
		return 0;
	}
	err = peer_keys_get(v, wr->rkey, &wr->rkey);
	return err == -ENOENT ? -ENOKEY : err;
}

/* *taken: the NIC has the request. It may have it although the post fails, if the provider does not
 * say which request it refused (doc/protocol.md, V9). */
static int post_logged(struct vqp *v, struct shift_wr *wr, struct shift_sge *sge, bool *taken)
{
	struct ibv_qp *qp = vqp_rail_qp(v, v->repost.tx_rail);
	struct ibv_send_wr out, *bad = NULL;
	int err;

	*taken = false;
	if (v->repost.tx_rail) {
		err = twin_keys(v, v->repost.tx_rail, wr, sge);
		if (err)
			return err;
	}
	wr_from_log(&out, wr);
	if (v->repost.tx_rail)
		out.wr_id = (uint64_t)v->repost.tx_epoch << TWIN_EPOCH_SHIFT;
	err = v->repost.tx_rail ? ibv_post_send(qp, &out, &bad) : v->post_send(qp, &out, &bad);
	*taken = !err || !bad;
	return -err;
}

/* The NIC has not taken the sends that wait, so they will not flush. The core posts them elsewhere.
 */
static void report_not_taken(struct vqp *v)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED,
				 .rail = v->repost.tx_rail,
				 .epoch = v->repost.tx_epoch};
	struct shift_sge sge[SGES_MAX];
	struct shift_wr wr;

	while (shift_conn_repost(v->conn, &v->repost.tx_next, v->repost.tx_end, &wr, sge))
		ev.count++; /* and then none waits any more */
	shift_conn_event(v->conn, &ev, now_ns());
}

bool repost_may_pump(const struct vqp *v)
{
	return v->repost.tx_next < v->repost.tx_end && !v->repost.tx_stopped && !pause_repost(v);
}

int repost_one(struct vqp *v)
{
	struct shift_sge sge[SGES_MAX];
	uint64_t next = v->repost.tx_next;
	struct shift_wr wr;
	bool taken;
	int err;

	if (!shift_conn_repost(v->conn, &next, v->repost.tx_end, &wr, sge)) {
		v->repost.tx_next = v->repost.tx_end;
		return 0;
	}
	err = post_logged(v, &wr, sge, &taken);
	if (taken)
		v->repost.tx_next = next;
	return err && taken ? -EIO : err;
}

/* Those that wait are told to the core as not taken when the fence withdraws them. */
static void report_no_key(struct vqp *v, uint8_t rail, uint32_t epoch)
{
	struct shift_event ev = {.type = SHIFT_EV_NO_KEY, .rail = rail, .epoch = epoch};

	log_warn("QP %#x: a request names memory that %s has no key for (not registered by "
		 "ibv_reg_mr or a dmabuf variant, at this end or the peer's): it fails",
		 v->qp->qp_num, v->dev->nic[rail]->name);
	shift_conn_event(v->conn, &ev, now_ns());
}

void repost_tell_recv_refused(struct vqp *v)
{
	uint8_t rail = v->repost.rx_rail;
	struct shift_event ev = {
		.type = SHIFT_EV_POST_FAILED, .rail = rail, .epoch = v->rails.armed_epoch[rail]};

	v->repost.recv_refused = false;
	if (v->repost.recv_no_key)
		report_no_key(v, rail, ev.epoch);
	else
		shift_conn_event(v->conn, &ev, now_ns());
}

void repost_refused(struct vqp *v, int err)
{
	if (err == -ENOKEY) {
		report_no_key(v, v->repost.tx_rail, v->repost.tx_epoch);
		return;
	}
	log_debug("QP %#x: rail %u refused a post (%d)", v->qp->qp_num, v->repost.tx_rail, -err);
	report_not_taken(v);
}

bool repost_pump(struct vqp *v)
{
	while (repost_may_pump(v)) {
		int err = repost_one(v);

		if (err == -EAGAIN || err == -ENOMEM)
			return false; /* the next vqp_leave(), with a key or with room, goes on */
		if (err) {
			repost_refused(v, err);
			return true;
		}
	}
	return false;
}

void repost_sends(struct vqp *v, const struct shift_action *a)
{
	/* After a planned switch that was abandoned, some sends may still wait for room or a key.
	 * They go first. */
	if (v->repost.tx_next == v->repost.tx_end || v->repost.tx_rail != a->rail ||
	    v->repost.tx_epoch != a->epoch)
		v->repost.tx_next = a->first;
	v->repost.tx_rail = a->rail;
	v->repost.tx_epoch = a->epoch;
	v->repost.tx_end = a->first + a->count;
	/* READs that are asked again are posted while the program's posts are still held. */
	v->repost.tx_stopped = false;
}

void repost_withdraw(struct vqp *v, uint8_t rail, uint32_t epoch)
{
	if (v->repost.tx_next < v->repost.tx_end && v->repost.tx_rail == rail &&
	    v->repost.tx_epoch == epoch)
		report_not_taken(v);
}

/* --- receives --------------------------------------------------------------------------------- */

/* With the keys and the wr_id of that rail. 0 or a negative errno; -EAGAIN: not yet. */
static int repost_recv(struct vqp *v, int rail, uint64_t wr_id, const struct shift_sge *sge,
		       uint32_t n)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .num_sge = (int)n}, *bad;
	struct shift_sge twin[SGES_MAX];
	uint32_t length;
	int err;

	wr.sg_list = (struct ibv_sge *)sge;
	if (!rail) {
		wr.wr_id = v->hot.recv_marked.wr_id ? v->hot.recv_marked.wr_id : wr_id;
		return -v->post_recv(v->qp, &wr, &bad);
	}
	if (n)
		memcpy(twin, sge, n * sizeof(*twin));
	err = twin_lkeys(v, (uint8_t)rail, twin, n, &length);
	if (err)
		return err;
	wr.sg_list = (struct ibv_sge *)twin;
	wr.wr_id = (uint64_t)v->rails.armed_epoch[rail] << TWIN_EPOCH_SHIFT | TWIN_RECV;
	return -ibv_post_recv(vqp_rail_qp(v, (uint8_t)rail), &wr, &bad);
}

void repost_recv_refused(struct vqp *v, uint8_t rail, int err)
{
	v->repost.recv_refused = true;
	v->repost.recv_no_key = err == -ENOKEY;
	v->repost.rx_rail = rail;
	if (v->repost.recv_no_key)
		return;
	log_warn("QP %#x: %s refuses a receive (%s): the connection leaves this NIC", v->qp->qp_num,
		 v->dev->nic[rail]->name, strerror(-err));
}

void repost_withdraw_recvs(struct vqp *v, uint8_t rail)
{
	if (v->repost.rx_to == rail)
		v->repost.rx_next = v->repost.rx_end;
}

bool repost_pump_recvs(struct vqp *v)
{
	struct shift_recv_wr wr;

	for (; v->repost.rx_next < v->repost.rx_end; v->repost.rx_next++) {
		int err;

		shift_conn_recv_at(v->conn, v->repost.rx_next, &wr);
		err = repost_recv(v, v->repost.rx_to, wr.wr_id, wr.sge, wr.num_sge);
		if (err == -EAGAIN)
			return false; /* the next vqp_leave(), with the memory, goes on */
		if (err) {
			repost_withdraw_recvs(v, v->repost.rx_to);
			repost_recv_refused(v, v->repost.rx_to, err);
			return true;
		}
	}
	return false;
}

void repost_recvs(struct vqp *v, const struct shift_action *a)
{
	v->repost.rx_next = a->first;
	v->repost.rx_end = a->first + a->count;
	v->repost.rx_to = a->rail;
	repost_pump_recvs(v);
}

int repost_new_recv(struct vqp *v, int rail, const struct shift_recv_wr *wr)
{
	struct shift_conn_view view;
	int err;

	if (v->repost.rx_next < v->repost.rx_end) {
		v->repost.rx_end++; /* it is the newest of the log, and waits behind them */
		return 0;
	}
	err = repost_recv(v, rail, wr->wr_id, wr->sge, wr->num_sge);
	if (err != -EAGAIN)
		return err;
	shift_conn_view(v->conn, &view);
	v->repost.rx_next = view.recv_posted - 1;
	v->repost.rx_end = view.recv_posted;
	v->repost.rx_to = (uint8_t)rail;
	return 0;
}
