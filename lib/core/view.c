/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Looking in: names, snapshot, one-line dump. */
#include <stdio.h>
#include <string.h>

#include "lib/core/conn_int.h"

const char *shift_state_name(unsigned int state)
{
	static const char *const name[] = {
#define NAME(n, what) [SHIFT_ST_##n] = #n,
		SHIFT_STATES(NAME)
#undef NAME
	};

	return state < SHIFT_ST_COUNT ? name[state] : "?";
}

const char *shift_reason_name(unsigned int reason)
{
	static const char *const name[] = {
#define NAME(n, what) [SHIFT_R_##n] = #n,
		SHIFT_REASONS(NAME)
#undef NAME
	};

	return reason < SHIFT_R_COUNT ? name[reason] : "?";
}

const char *shift_event_name(unsigned int type)
{
	static const char *const name[] = {
#define NAME(n, what) [SHIFT_EV_##n] = #n,
		SHIFT_EVENTS(NAME)
#undef NAME
	};

	return type < SHIFT_EV_COUNT ? name[type] : "?";
}

const char *shift_action_name(unsigned int type)
{
	static const char *const name[] = {
#define NAME(n, what) [SHIFT_ACT_##n] = #n,
		SHIFT_ACTIONS(NAME)
#undef NAME
	};

	return type < SHIFT_ACT_COUNT ? name[type] : "?";
}

bool shift_conn_tracked(const struct shift_conn *c)
{
	return c->sq.tracked;
}

/* On a twin, and while posts are held, completions are tracked. */
bool shift_conn_fast(const struct shift_conn *c)
{
	return !c->sq.tracked;
}

bool shift_conn_secret_due(const struct shift_conn *c, const struct shift_wr *wr)
{
	uint64_t length = 0;

	if (wr->num_sge > UINT8_MAX)
		return false; /* it will be refused */
	for (uint32_t i = 0; i < wr->num_sge; i++)
		length += wr->sge[i].length;
	return c->sq.cum - c->sq.cum_signal + shift_psn_packets(wr->opcode, length, c->sq.mtu) >
	       SHIFT_SECRET_MAX;
}

uint32_t shift_conn_send_room(const struct shift_conn *c)
{
	uint64_t used = c->sq.head - c->sq.tail;

	if (!c->sq.held && !c->sq.tracked)
		return UINT32_MAX;
	return used < c->sq.cap ? (uint32_t)(c->sq.cap - used) : 0;
}

uint64_t shift_conn_head(const struct shift_conn *c)
{
	return c->sq.head;
}

enum shift_state shift_conn_state(const struct shift_conn *c)
{
	return (enum shift_state)c->state;
}

uint8_t shift_conn_rail(const struct shift_conn *c)
{
	return c->r;
}

bool shift_conn_protected(const struct shift_conn *c)
{
	return c->state != SHIFT_ST_SETUP;
}

bool shift_conn_matched(const struct shift_conn *c)
{
	return c->hello_heard;
}

void shift_conn_view(const struct shift_conn *c, struct shift_conn_view *v)
{
	memset(v, 0, sizeof(*v));
	v->state = shift_conn_state(c);
	v->reason = (enum shift_reason)c->reason;
	v->e = c->e;
	v->target_e = conn_switching(c) && c->plan.e > c->e ? c->plan.e : c->e;
	v->lastc = c->lastc;
	v->heard = c->heard;
	v->rep_epoch = c->rep_epoch;
	v->rep_psn = c->rep_psn;
	for (unsigned int i = 0; i < SHIFT_RAILS_MAX; i++)
		v->tag[i] = c->rail[i].tag;
	v->r = shift_conn_rail(c);
	v->target_r = conn_switching(c) ? c->plan.r : c->r;
	v->protected_ = shift_conn_protected(c);
	v->matched = shift_conn_matched(c);
	v->holding = c->holding;
	v->planned = c->plan.planned;
	v->recv_cum = conn_flushing(c) ? c->recv_final : c->rq->done;
	v->recv_posted = c->cfg.srq ? c->rq->done : c->rq->posted;
	v->send_tail = c->sq.tracked ? c->sq.tail : shift_sendlog_done_by_signal(&c->sq);
	v->send_sent = c->sq.sent;
	v->send_head = c->sq.head;
	v->packets_posted = shift_sendlog_cum_sent(&c->sq);
}

uint32_t shift_conn_data_rails(const struct shift_conn *c)
{
	if (c->state == SHIFT_ST_SETUP || c->state >= SHIFT_ST_GIVEUP)
		return 0;
	return 1u << c->r | 1u << (conn_switching(c) ? c->plan.r : c->r);
}

const struct shift_conn_stats *shift_conn_stats(const struct shift_conn *c)
{
	return &c->stats;
}

int shift_conn_dump(const struct shift_conn *c, char *buf, size_t len)
{
	struct shift_conn_view v;

	shift_conn_view(c, &v);
	return snprintf(
		buf, len,
		"%s(%s) side %u e %u->%u r %u->%u lastc %u heard %u rep (%u,%06x)%s recv "
		"%llu/%llu send %llu/%llu/%llu%s%s, %llu stale; psn %06x from packet %llu of "
		"%llu; theirs: rep (%u,%06x) recv %llu fence %u; error %u, %#x",
		shift_state_name(v.state), shift_reason_name(v.reason), c->cfg.side, v.e,
		v.target_e, v.r, v.target_r, v.lastc, v.heard, v.rep_epoch, v.rep_psn,
		c->rep_unsure ? "?" : "", (unsigned long long)v.recv_cum,
		(unsigned long long)v.recv_posted, (unsigned long long)v.send_tail,
		(unsigned long long)v.send_sent, (unsigned long long)v.send_head,
		v.holding ? " held" : "", c->sq.tracked ? " tracked" : "",
		(unsigned long long)c->stats.stale_cqes, c->tx_psn,
		(unsigned long long)shift_sendlog_cum_before(&c->sq, c->sq.scan),
		(unsigned long long)v.packets_posted, c->theirs.rep_epoch, c->theirs.rep_psn,
		(unsigned long long)c->theirs.recv_cum, c->theirs.fence, c->err_status,
		c->err_vendor);
}
