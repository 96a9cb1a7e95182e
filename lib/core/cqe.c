/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Posts, completions from the NIC, completions to the program: the data path. */
#include <errno.h>
#include <string.h>

#include "lib/core/conn_int.h"
#include "lib/core/fast.h"

int shift_conn_post_send(struct shift_conn *c, const struct shift_wr *wr, int *rail)
{
	int err;

	COVER(event[c->state][SHIFT_EV_POST_SEND]);
	if (c->silent)
		return -EIO;
	if (shift_wr_atomic(wr->opcode))
		atomics_post(c);
	err = shift_sendlog_post(&c->sq, wr);
	if (err < 0 && shift_wr_atomic(wr->opcode))
		atomics_unpost(c);
	if (err < 0)
		return err;
	if (err)
		c->stats.secret_signals++;
	*rail = c->r;
	if (c->holding) {
		*rail = SHIFT_HELD;
		c->stats.held_posts++;
		if (conn_flushing(c)) {
			giveup_break_quiet(c);
			conn_offer_completions(c);
		}
	}
	conn_check_post(c);
	return err;
}

int shift_conn_post_recv(struct shift_conn *c, const struct shift_recv_wr *wr, int *rail)
{
	int err;

	COVER(event[c->state][SHIFT_EV_POST_RECV]);
	if (c->silent)
		return -EIO;
	err = shift_recvlog_post(c->rq, wr);
	if (err)
		return err;
	*rail = c->r;
	if (conn_recv_held(c)) {
		*rail = SHIFT_HELD;
		if (conn_flushing(c))
			conn_offer_completions(c);
	}
	conn_check_post(c);
	return 0;
}

void shift_conn_unpost_send(struct shift_conn *c, uint32_t n)
{
	shift_sendlog_unpost(&c->sq, n);
}

void shift_conn_unpost_recv(struct shift_conn *c, uint32_t n)
{
	uint64_t open = c->rq->posted - __atomic_load_n(&c->rq->done, __ATOMIC_RELAXED);

	shift_recvlog_unpost(c->rq, n < open ? n : open);
}

/* --- from the NIC ---------------------------------------------------------------------------- */

/*
 * Errors that a failing network or NIC causes (doc/protocol.md, T1, 7.12); others are the program's
 * own. Soft-RoCE says FATAL_ERR when a READ response comes late and meets another WR (check_ack()
 * in its rxe_comp.c).
 */
static bool network_error(uint32_t status)
{
	switch (status) {
	case SHIFT_WC_RETRY_EXC_ERR:
	case SHIFT_WC_RNR_RETRY_EXC_ERR: /* judged at COMMIT, when the peer's receives are known */
	case SHIFT_WC_LOC_QP_OP_ERR:
	case SHIFT_WC_BAD_RESP_ERR:
	case SHIFT_WC_FATAL_ERR:
	case SHIFT_WC_RESP_TIMEOUT_ERR:
	case SHIFT_WC_GENERAL_ERR:
	case SHIFT_WC_WR_FLUSH_ERR: return true;
	}
	return false;
}

static void program_error(struct shift_conn *c, const struct shift_cqe *cqe)
{
	giveup_start(c, SHIFT_R_PROGRAM_ERROR, cqe->status, cqe->vendor_err);
	c->err_recv = cqe->is_recv;
}

static void cqe_error(struct shift_conn *c, const struct shift_cqe *cqe, uint64_t now)
{
	/* A flush names no cause; a later error of the same QP may name it. */
	if (!c->err_status || c->err_status == SHIFT_WC_WR_FLUSH_ERR) {
		c->err_status = cqe->status;
		c->err_vendor = cqe->vendor_err;
	}
	switch ((enum shift_state)c->state) {
	case SHIFT_ST_ACTIVE:
	case SHIFT_ST_PREPARE:
	case SHIFT_ST_DRAIN:
	case SHIFT_ST_SWITCHING:
		if (cqe->rail != c->r)
			return;
		if (!network_error(cqe->status)) {
			program_error(c, cqe);
			return;
		}
		switch_start(c, SHIFT_R_CQE_ERROR, NO_RAIL, now);
		c->plan.rnr = cqe->status == SHIFT_WC_RNR_RETRY_EXC_ERR;
		return;
	case SHIFT_ST_FENCE:
		/* The fence's own drain may show that the QP died of the program's mistake. */
		if (!network_error(cqe->status))
			program_error(c, cqe);
		return;
	case SHIFT_ST_SETUP:
	case SHIFT_ST_NO_RAIL:
	case SHIFT_ST_QUARANTINE:
	case SHIFT_ST_ARM:
	case SHIFT_ST_GIVEUP:
	case SHIFT_ST_DEAD:
	case SHIFT_ST_CLOSING:
	case SHIFT_ST_CLOSED:
	case SHIFT_ST_COUNT: return;
	}
}

static bool recv_cqe(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
		     uint64_t now)
{
	bool ok = cqe->status == SHIFT_WC_SUCCESS;

	if (!ok && c->state == SHIFT_ST_SETUP)
		hello_void(c);
	if (ok || c->state == SHIFT_ST_SETUP) {
		wc->wr_id = cqe->wr_id;
		if (c->cfg.srq) {
			shift_count_set(&c->rq->done, c->rq->done + 1);
			return true;
		}
		/* Beyond, if a provider has taken a receive that it said it had refused. */
		if (c->rq->done >= __atomic_load_n(&c->rq->posted, __ATOMIC_ACQUIRE))
			return c->state == SHIFT_ST_SETUP; /* not ours to explain */
		wc->wr_id = shift_recvlog_at(c->rq, c->rq->done)->wr_id;
		shift_count_publish(&c->rq->done, c->rq->done + 1);
		return true;
	}
	cqe_error(c, cqe, now);
	return false;
}

static bool send_ok(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
		    uint64_t now)
{
	if (!c->sq.tracked) {
		++*c->sq.sig_done;
		wc->wr_id = cqe->wr_id;
		return true;
	}
	shift_sendlog_complete(&c->sq);
	if (c->sq.ready > c->sq.tail && !conn_flushing(c))
		conn_offer_completions(c);
	if (c->state == SHIFT_ST_ACTIVE || c->state == SHIFT_ST_PREPARE ||
	    c->state == SHIFT_ST_DRAIN) {
		conn_trouble_over(c);
		replay_lost_check(c);
	}
	if (c->state == SHIFT_ST_DRAIN)
		failback_drained(c, now);
	return false;
}

static bool cqe_is_stale(const struct shift_conn *c, const struct shift_cqe *cqe)
{
	const struct rail *r;

	if (cqe->rail >= c->cfg.rails)
		return true;
	r = &c->rail[cqe->rail];
	/* A hung NIC's completions count until our receives are posted elsewhere, or until the
	 * program has been told the end. They do not count in a later switch: then they are of the
	 * past (7.26). */
	return cqe->epoch != r->tag ||
	       (!r->armed && !(r->hung && r->counts && conn_recv_held(c) && !conn_flushing(c)));
}

static bool take_cqe(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
		     uint64_t now_ns)
{
	if (__builtin_expect(cqe_is_stale(c, cqe), 0)) {
		c->stats.stale_cqes++;
		return false;
	}
	if (cqe->is_recv)
		return recv_cqe(c, cqe, wc, now_ns);
	if (__builtin_expect(cqe->status == SHIFT_WC_SUCCESS, 1))
		return send_ok(c, cqe, wc, now_ns);
	if (c->state == SHIFT_ST_SETUP) {
		hello_void(c);
		shift_sendlog_end(&c->sq);
		wc->wr_id = cqe->wr_id; /* unprotected: as it came */
		return true;
	}
	c->flushed++;
	cqe_error(c, cqe, now_ns);
	return false;
}

bool shift_conn_cqe(struct shift_conn *c, const struct shift_cqe *cqe, struct shift_wc *wc,
		    uint64_t now_ns)
{
	bool deliver;

	COVER(event[c->state][SHIFT_EV_CQE]);
	deliver = take_cqe(c, cqe, wc, now_ns);
	if (c->sq.tracked)
		conn_check(c);
	else
		conn_check_post(c);
	return deliver;
}

/* --- to the program -------------------------------------------------------------------------- */

static uint32_t wc_opcode(uint8_t opcode)
{
	switch ((enum shift_opcode)opcode) {
	case SHIFT_OP_WRITE:
	case SHIFT_OP_WRITE_IMM: return SHIFT_WC_RDMA_WRITE;
	case SHIFT_OP_SEND:
	case SHIFT_OP_SEND_IMM:
	case SHIFT_OP_SEND_INV: return SHIFT_WC_SEND;
	case SHIFT_OP_READ: return SHIFT_WC_RDMA_READ;
	case SHIFT_OP_CMP_SWAP: return SHIFT_WC_COMP_SWAP;
	case SHIFT_OP_FETCH_ADD: return SHIFT_WC_FETCH_ADD;
	case SHIFT_OP_LOCAL_INV: return SHIFT_WC_LOCAL_INV;
	case SHIFT_OP_BIND_MW: return SHIFT_WC_BIND_MW;
	}
	return SHIFT_WC_SEND;
}

static void make_wc(struct shift_wc *wc, const struct shift_wr_entry *e, uint32_t status,
		    uint32_t vendor)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = e->wr_id;
	wc->status = status;
	wc->vendor_err = vendor;
	wc->opcode = wc_opcode(e->opcode);
	if (e->opcode == SHIFT_OP_READ || shift_wr_atomic(e->opcode))
		wc->byte_len = e->length;
}

/* DONE WRs at the front of the log; the unsignaled ones leave silently. */
static bool next_done(struct shift_conn *c, struct shift_wc *wc)
{
	struct shift_sendlog *l = &c->sq;

	while (l->tail < l->ready) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, l->tail++);

		*l->sig_done += shift_sendlog_signaled(l, e);
		if (shift_sendlog_visible(l, e)) {
			make_wc(wc, e, SHIFT_WC_SUCCESS, 0);
			return true;
		}
	}
	return false;
}

/* The error itself, to the first WR of the queue it happened in; WR_FLUSH_ERR to all others. */
static uint32_t flush_status(struct shift_conn *c, bool is_recv, uint32_t *vendor)
{
	*vendor = 0;
	if (c->err_given || is_recv != c->err_recv)
		return SHIFT_WC_WR_FLUSH_ERR;
	c->err_given = true;
	*vendor = c->err_vendor;
	return c->err_status;
}

/* The QP is over: the first WR gets the error that ended it, the others flush, signaled or not. */
static bool next_flush(struct shift_conn *c, struct shift_wc *wc)
{
	struct shift_sendlog *l = &c->sq;
	uint32_t status, vendor;

	if (c->sq.tail < c->sq.head) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, l->tail++);

		l->ready = l->scan = l->tail;
		if (l->sent < l->tail) /* it was held, and waits no more */
			l->sent = l->tail;
		*l->sig_done += shift_sendlog_signaled(l, e);
		status = flush_status(c, false, &vendor);
		make_wc(wc, e, status, vendor);
		return true;
	}
	if (c->rq->done < c->rq->posted && !c->cfg.srq) {
		memset(wc, 0, sizeof(*wc));
		wc->wr_id = shift_recvlog_at(c->rq, c->rq->done++)->wr_id;
		wc->status = c->err_recv ? flush_status(c, true, &wc->vendor_err)
					 : SHIFT_WC_WR_FLUSH_ERR;
		wc->opcode = SHIFT_WC_RECV;
		wc->is_recv = true;
		return true;
	}
	return false;
}

bool shift_conn_completion(struct shift_conn *c, struct shift_wc *wc)
{
	struct shift_sendlog *l = &c->sq;

	if (c->silent)
		return false;
	if (l->tracked && next_done(c, wc))
		return true;
	if (conn_flushing(c))
		return !c->quiet && next_flush(c, wc);
	conn_untrack(c);
	return false;
}

bool shift_conn_repost(const struct shift_conn *c, uint64_t *index, uint64_t end,
		       struct shift_wr *wr, struct shift_sge *sge)
{
	while (*index < end) {
		uint64_t i = (*index)++;

		if (shift_sendlog_at(&c->sq, i)->state != SHIFT_WR_PENDING)
			continue;
		shift_sendlog_repost(&c->sq, i, wr, sge);
		return true;
	}
	return false;
}

void shift_conn_recv_at(const struct shift_conn *c, uint64_t index, struct shift_recv_wr *wr)
{
	const struct shift_recv_entry *e = shift_recvlog_at(c->rq, index);

	wr->wr_id = e->wr_id;
	wr->num_sge = e->num_sge;
	wr->sge = e->num_sge > 1 ? c->rq->side + (size_t)(index & c->rq->mask) * c->rq->sge_max
				 : &e->sge;
}
