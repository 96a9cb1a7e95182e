/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* WRs outstanding, no completion, probes fine: ask the peer's NIC (doc/protocol.md, T8). */
#include "lib/core/conn_int.h"

/* The oldest WR that may be outstanding. */
static uint64_t oldest_open(const struct shift_conn *c)
{
	return c->sq.tracked ? c->sq.scan : shift_sendlog_done_by_signal(&c->sq);
}

static uint64_t oldest_signaled(const struct shift_conn *c)
{
	const struct shift_sendlog *l = &c->sq;

	for (uint64_t i = oldest_open(c); i < l->sent; i++) {
		const struct shift_wr_entry *e = shift_sendlog_at(l, i);

		if (e->state == SHIFT_WR_PENDING && shift_sendlog_signaled(l, e))
			return i;
	}
	return NEVER;
}

bool shift_conn_waits(const struct shift_conn *c)
{
	return oldest_signaled(c) != NEVER;
}

/* The WR, signaled or not, that the peer's NIC waits for after k packets (7.28). It is not newer
 * than the oldest signaled WR, whose packets are beyond k. */
static const struct shift_wr_entry *at_packet(const struct shift_conn *c, uint64_t k)
{
	uint64_t i = oldest_open(c);
	const struct shift_wr_entry *e = shift_sendlog_at(&c->sq, i);

	while (i + 1 < c->sq.sent && (e->state != SHIFT_WR_PENDING || e->cum <= k))
		e = shift_sendlog_at(&c->sq, ++i);
	return e;
}

/* 7.15: a twin's retries would have run out by now, so it is the program that is slow. What nobody
 * waits for is not asked about: its completion does not come if it is well, either. */
static bool retries_are_over(const struct shift_conn *c, uint64_t now)
{
	uint64_t since = conn_since(now, c->active_ns);

	return since >= c->cfg.giveup_ns / 4 &&
	       (since >= c->cfg.retries_ns || oldest_signaled(c) == NEVER);
}

/* Has everything completed, unsignaled WRs too, that was ever handed to a NIC? */
static bool all_complete(const struct shift_sendlog *l)
{
	if (l->tracked)
		return l->ready == l->head;
	return l->sig_posted == *l->sig_done && l->cum_signal == l->cum;
}

/* Since when is that so, at the latest? What was sent before dies of age (7.52). */
static void note_quiet(struct shift_conn *c, uint64_t now)
{
	if (!all_complete(&c->sq))
		c->quiet_ns = NEVER;
	else if (c->quiet_ns == NEVER || c->quiet_sent != c->sq.sent)
		c->quiet_ns = now;
	c->quiet_sent = c->sq.sent;
}

/* Nobody has looked for so long that nothing is known of the time between: who is idle is not
 * looked at (shift_conn_lazy_deadline()). */
static bool is_overdue(const struct shift_conn *c, uint64_t now)
{
	return conn_since(now, c->check_at) >= c->cfg.no_progress_ns;
}

/* First over the rail of the data, which may pass no messages, either. */
static void ask(struct shift_conn *c, uint64_t now)
{
	struct shift_msg m = {.type = SHIFT_MSG_QUERY_PSN, .epoch = c->e};

	if (c->query_open)
		c->query_rail = (uint8_t)((c->query_rail + 1) % c->cfg.rails);
	c->query_open = true;
	c->check_at = now + c->cfg.no_progress_ns;
	c->stats.no_progress_asked++;
	m.serial = ++c->query_serial;
	conn_send(c, &m, c->query_rail);
}

/* Once per no_progress_ns while ACTIVE. */
void progress_tick(struct shift_conn *c, uint64_t now)
{
	bool moved = *c->sq.sig_done + c->sq.scan != c->check_done || is_overdue(c, now);

	note_quiet(c, now);
	if (now < c->check_at)
		return;
	if (c->plan.trouble && retries_are_over(c, now))
		conn_trouble_over(c);
	c->check_done = *c->sq.sig_done + c->sq.scan;
	if (moved || oldest_signaled(c) == NEVER)
		conn_watch(c, now);
	else
		ask(c, now);
}

/*
 * The peer's NIC stands still, and so do our completions. If its rq_psn is beyond my oldest
 * signaled WR, that was executed and its completion does not come: the ACK path is dead. If not,
 * the data path is dead, unless the WR waits for a receive.
 */
static bool waits_for_a_receive(const struct shift_conn *c, const struct shift_msg *m,
				uint64_t oldest)
{
	const struct shift_wr_entry *e = shift_sendlog_at(&c->sq, oldest), *stuck = e;
	uint64_t k;

	if (!shift_psn_unwrap(m->rep_psn, c->tx_psn,
			      shift_sendlog_cum_before(&c->sq, oldest_open(c)),
			      shift_sendlog_cum_sent(&c->sq), &k)) {
		if (k >= e->cum && e->cum)
			return false;
		stuck = at_packet(c, k);
	}
	return !m->recv_avail && shift_wr_two_sided(stuck->opcode);
}

static void judge_answer(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	uint64_t oldest = oldest_signaled(c);
	bool same = c->query_same && c->query_psn == m->rep_psn;

	if (!c->query_open)
		return; /* the same answer once more */
	c->query_open = false;
	if (oldest == NEVER || c->check_done != *c->sq.sig_done + c->sq.scan)
		return; /* moved since the question */
	if (waits_for_a_receive(c, m, oldest))
		return; /* when one is there the NIC has its time to come again */
	c->query_same = same ? c->query_same + 1 : 1;
	c->query_psn = m->rep_psn;
	if (c->query_same >= c->cfg.no_progress_answers)
		switch_start(c, SHIFT_R_NO_PROGRESS, NO_RAIL, now);
}

void progress_msg(struct shift_conn *c, const struct shift_msg *m, uint64_t now)
{
	struct shift_action *a;

	if (m->epoch != c->e || conn_recv_held(c)) {
		c->stats.stale_msgs++;
		return;
	}
	if (m->type == SHIFT_MSG_PSN) {
		if (c->state == SHIFT_ST_ACTIVE && m->serial == c->query_serial &&
		    m->fence == SHIFT_FENCE_SURE)
			judge_answer(c, m, now);
		return;
	}
	if (c->state == SHIFT_ST_SETUP)
		return;
	c->asked_serial = m->serial;
	c->asked_rails = c->msg_rails;
	a = conn_emit(c, SHIFT_ACT_QUERY_PSN, c->r);
	a->epoch = c->e;
	a->serial = m->serial;
}

/* Our NIC's answer to the peer's question. */
void progress_psn(struct shift_conn *c, const struct shift_event *ev)
{
	uint64_t avail = c->cfg.srq ? ev->count : c->rq->posted - c->rq->done;
	struct shift_msg m = {
		.type = SHIFT_MSG_PSN,
		.epoch = c->e,
		.rep_psn = ev->psn & SHIFT_PSN_MASK,
		.recv_avail = avail > UINT32_MAX ? UINT32_MAX : (uint32_t)avail,
		.fence = ev->fence,
		.serial = ev->serial,
	};

	if (ev->epoch != c->e || ev->rail != c->r || ev->serial != c->asked_serial ||
	    conn_recv_held(c) || c->state == SHIFT_ST_SETUP)
		return;
	conn_answer(c, &m, c->asked_rails);
}
