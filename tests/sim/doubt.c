/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The oracle's own account of what the fences of a host prove (rules 2, 6 and 11, 7.4), beside the
 * core's. A fence that proves nothing makes doubtful what is executed in its epoch, and a later
 * fence ends that. So the weaker claims (one-sided WRs at least once) hold for the WRs that were
 * under way at such a commit, and for no others.
 */
#include "lib/core/psn.h"
#include "tests/sim/sim.h"

/* Rule 6, from what the caller has just handed to the core. */
void doubt_fenced(unsigned int h, const struct shift_event *ev, uint32_t rx_psn)
{
	struct host *me = &W.host[h];

	if (ev->fence != SHIFT_FENCE_SURE) {
		me->in_doubt = true;
		return;
	}
	if (ev->epoch < me->rep_epoch || ev->psn == (rx_psn & SHIFT_PSN_MASK))
		return;
	me->rep_epoch = ev->epoch;
	me->rep_psn = ev->psn;
	me->in_doubt = false;
}

static void check_report(unsigned int h, const struct shift_msg *m)
{
	const struct host *me = &W.host[h];
	bool unsure = m->fence == SHIFT_FENCE_UNSURE;

	if (unsure != me->in_doubt)
		violation("%c: SWITCH of epoch %u says %s, and its fences say the opposite",
			  'A' + h, m->epoch, unsure ? "UNSURE" : "SURE");
	if (m->rep_epoch != me->rep_epoch || m->rep_psn != me->rep_psn)
		violation("%c: SWITCH of epoch %u reports (%u, %x), its fences say (%u, %x)",
			  'A' + h, m->epoch, m->rep_epoch, m->rep_psn, me->rep_epoch, me->rep_psn);
	if (!m->recv_valid || (m->recv_valid && m->recv_cum != me->p.recv_done))
		violation("%c: SWITCH of epoch %u says %lu receives, %u have completed", 'A' + h,
			  m->epoch, (unsigned long)m->recv_cum, me->p.recv_done);
}

/* A SWITCH that proves something leaves for the first time: later copies say the same (rule 2). */
void doubt_said(unsigned int h, const struct shift_msg *m)
{
	struct host *me = &W.host[h];

	check_report(h, m);
	me->said[me->said_n++ % SAID] = (struct said){
		.epoch = m->epoch,
		.recv_avail = m->recv_avail,
		.recv_cum = m->recv_cum,
		.unsure = m->fence == SHIFT_FENCE_UNSURE,
	};
}

/* What the host said for an epoch; NULL: nothing. */
const struct said *doubt_find(unsigned int h, uint32_t epoch)
{
	const struct host *me = &W.host[h];

	for (uint32_t i = 0; i < SAID && i < me->said_n; i++)
		if (me->said[i].epoch == epoch)
			return &me->said[i];
	return NULL;
}

/* h commits an epoch. Without a proof all one-sided WRs under way may be executed once more. */
void doubt_commit(unsigned int h, uint32_t epoch)
{
	const struct said *s = doubt_find(1 - h, epoch);
	struct prog *p = &W.host[h].p;

	if (!s) {
		violation("%c: commits epoch %u, for which the peer has said nothing", 'A' + h,
			  epoch);
		return;
	}
	for (uint32_t i = p->next_cqe; s->unsure && i < p->sent; i++)
		p->wr[i].allowed += !p->wr[i].two_sided && !is_atomic(p->wr[i].op);
	for (uint32_t i = p->next_cqe; s->unsure && i < p->sent; i++)
		p->wr[i].doubtful = true;
	if (s->unsure)
		p->again = p->next_cqe;
}
