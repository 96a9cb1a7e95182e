/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Bringing a QP to RTS for an epoch, as lib/conn/arm.c does, and what that waits for. */
#include "tests/sim/sim.h"

/* CQEs of a NIC that answered no fence, while they still count. */
static void feed_hung(unsigned int h)
{
	unsigned int r;

	for (r = 0; r < W.rails; r++)
		if (W.host[h].fence[r].owed)
			host_feed(h, &W.qp[h][r], false, CQ_MAX);
}

/* What an arming waits for on an SRQ costs time, and no switch may be said to be too long for it.
 */
static bool arm_waits(unsigned int h, unsigned int r, uint64_t max_ns)
{
	struct arm_op *m = &W.host[h].arm[r];

	if (!m->until)
		m->until = W.now + max_ns;
	if (W.now >= m->until)
		return false;
	cause_detour(W.now + NS_MS);
	ev_add(W.now + rnd_range(&W.g_host, 100, 1000) * NS_US, EV_ARM, h, r, 0);
	return true;
}

/* Until its NIC has been emptied: so long, anew with each step that the drainer makes, and three
 * times that in all (lib/conn/srq_qps.c). */
static bool arm_waits_to_join(unsigned int h, unsigned int r)
{
	struct arm_op *m = &W.host[h].arm[r];
	uint32_t ghosts = srq_ghosts(h, r);

	if (!m->until)
		m->join_end = W.now + 3 * srq_join_ns(h);
	else if (ghosts < m->ghosts)
		m->until = W.now + srq_join_ns(h);
	m->ghosts = ghosts;
	return W.now < m->join_end && arm_waits(h, r, srq_join_ns(h));
}

static void arm_qp(unsigned int h, unsigned int r)
{
	struct host *me = &W.host[h];
	const struct arm_op *m = &me->arm[r];
	struct qp *q = &W.qp[h][r];

	feed_hung(h); /* the SWITCH that follows freezes the receive count */
	host_feed(h, q, true, CQ_MAX);
	qp_arm(q, m->epoch, m->tx_psn, m->rx_psn);
	q->retry_inf = me->retry_inf;
	q->rnr_inf = W.host[1 - h].cfg.srq; /* S14 */
}

/* On an SRQ: its NIC must be empty first, and have a receive then (S6, S9). */
enum arm_end { ARM_WAITS, ARM_FAILS, ARM_IS_DONE };

static enum arm_end arm_on_srq(unsigned int h, unsigned int r)
{
	struct arm_op *m = &W.host[h].arm[r];
	struct qp *q = &W.qp[h][r];

	if (m->armed && m->epoch != q->epoch) { /* another epoch was asked for meanwhile */
		host_feed(h, q, true, CQ_MAX);
		qp_reset(q);
		srq_leave(h, r, false);
		m->armed = false;
		m->until = 0;
	}
	if (!m->armed) {
		host_feed(h, q, true, CQ_MAX);
		if (!srq_join(h, r))
			return arm_waits_to_join(h, r) ? ARM_WAITS : ARM_FAILS;
		arm_qp(h, r);
		m->armed = true;
		m->until = 0;
	}
	if (!srq_supplied(h, r) && arm_waits(h, r, 5 * NS_MS))
		return ARM_WAITS;
	feed_hung(h);
	srq_leave_others(h, r);
	return ARM_IS_DONE;
}

static void arm_undo(unsigned int h, unsigned int r)
{
	const struct arm_op *m = &W.host[h].arm[r];

	if (!m->armed)
		return;
	host_feed(h, &W.qp[h][r], true, CQ_MAX);
	qp_reset(&W.qp[h]
		      [r]); /* if that hangs: no peer sends to it, and the next arming begins so */
	if (!host_silent(h, r)) /* else it leaves as one whose fence hung */
		srq_leave(h, r, false);
}

/* false: it is not at its end. */
static bool arm_try(unsigned int h, unsigned int r, bool *failed)
{
	struct host *me = &W.host[h];
	enum arm_end end = ARM_IS_DONE;

	*failed = host_silent(h, r) || me->arm_fails;
	if (*failed) {
		me->arm_fails = false;
		arm_undo(h, r);
	} else if (me->cfg.srq) {
		end = arm_on_srq(h, r);
		*failed = end == ARM_FAILS;
	} else {
		arm_qp(h, r);
	}
	return end != ARM_WAITS;
}

void arm_event(unsigned int h, unsigned int r)
{
	struct host *me = &W.host[h];
	struct arm_op *m = &me->arm[r];
	struct shift_event ev = {
		.type = SHIFT_EV_ARM_DONE,
		.rail = (uint8_t)r,
	};
	bool failed, ended = false;

	if (!m->busy)
		return;
	me->answering = true;
	if (!host_silent(h, r) && !me->arm_fails && me->p.closed) {
		m->busy = m->armed = me->answering = false;
		return;
	}
	ended = arm_try(h, r, &failed);
	me->answering = false;
	if (!ended)
		return;
	m->busy = m->armed = false;
	m->until = 0;
	ev.epoch = m->epoch;
	if (failed)
		ev.type = SHIFT_EV_ARM_FAILED;
	me->armed_epoch[r] = m->epoch;
	tr(h, "rail %lu: arm for epoch %lu: event %lu, psn %lx", r, m->epoch, ev.type, m->rx_psn);
	host_give(h, &ev);
}
