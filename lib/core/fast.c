/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Runs of WRs on their way into the log (fast.h). */
#include "lib/core/fast.h"

#include "lib/core/conn_int.h"

#define GAP(type, a, b) (offsetof(type, b) - offsetof(type, a))

_Static_assert(GAP(struct shift_wr_entry, addr, length) == 8 &&
		       GAP(struct shift_wr_entry, addr, lkey) == 12,
	       "an SGE must be a piece of the entry");
_Static_assert(GAP(struct shift_wr_entry, imm, remote_addr) == 4 &&
		       GAP(struct shift_wr_entry, imm, rkey) == 12 &&
		       GAP(struct shift_raw_wr, imm, remote_addr) == 4 &&
		       GAP(struct shift_raw_wr, imm, rkey) == 12,
	       "imm, remote address and rkey are copied in one piece");
_Static_assert(GAP(struct shift_raw_wr, num_sge, opcode) == 4, "compared in one piece");
_Static_assert(SHIFT_KIND_AT % 8 == 0 &&
		       offsetof(struct shift_wr_entry, trim) == SHIFT_KIND_AT + 4 &&
		       offsetof(struct shift_wr_entry, swap) == SHIFT_KIND_AT + 8,
	       "what is alike in a run must be a piece of the entry");
_Static_assert(1u << SHIFT_FAST_SHIFT == SHIFT_FAST_BYTES_MAX, "so that it can be divided by");

/* May WRs of this kind be in a run at all? */
static bool suits_run(const struct shift_raw_wr *wr)
{
	const uint32_t flags = SHIFT_F_FENCE | SHIFT_F_SIGNALED | SHIFT_F_SOLICITED;

	return wr->num_sge == 1 && wr->opcode <= SHIFT_OP_READ && !(wr->flags & ~flags);
}

static bool is_signaled(const struct shift_sendlog *l, const struct shift_run *r)
{
	return l->sig_all || r->flags & SHIFT_F_SIGNALED;
}

static void count_run(struct shift_sendlog *l, struct shift_run *r)
{
	uint64_t n = (uint64_t)(r->next - r->first);

	if (!n)
		return;
	l->cum = r->cum;
	if (is_signaled(l, r)) {
		l->sig_posted += n;
		l->cum_signal = l->cum;
	}
	if (shift_wr_two_sided(r->kind.opcode))
		l->two_posted += n;
	shift_count_set(&l->head, l->head + n);
	l->sent = l->head;
}

void shift_fast_fold(struct shift_conn *c, struct shift_run *r)
{
	count_run(&c->sq, r);
	r->first = r->next = r->stop = NULL;
}

/* Packets of the longest WR. */
static unsigned int worst_shift(const struct shift_run *r)
{
	return SHIFT_FAST_SHIFT - r->mtu_shift;
}

/* How many of them may come before one must be signaled in secret, whatever their lengths. */
static uint64_t run_max(const struct shift_sendlog *l, const struct shift_run *r)
{
	uint64_t unsignaled = l->cum - l->cum_signal;

	if (is_signaled(l, r))
		return UINT64_MAX;
	return unsignaled < SHIFT_SECRET_MAX ? (SHIFT_SECRET_MAX - unsignaled) >> worst_shift(r)
					     : 0;
}

/* false: it is no power of 2. */
static bool set_mtu(struct shift_run *r, uint32_t mtu)
{
	r->mtu = mtu;
	r->mtu_shift = (uint32_t)__builtin_ctz(mtu);
	return 1u << r->mtu_shift == mtu;
}

static void set_kind(struct shift_run *r, const struct shift_raw_wr *wr)
{
	memcpy(&r->one_opcode, &wr->num_sge, sizeof(r->one_opcode));
	r->flags = wr->flags;
	r->kind = (struct shift_kind){.opcode = (uint8_t)wr->opcode,
				      .flags = (uint8_t)wr->flags,
				      .num_sge = 1,
				      .state = SHIFT_WR_PENDING};
}

static void set_stop(const struct shift_sendlog *l, struct shift_run *r)
{
	uint64_t may = run_max(l, r), lap;

	r->cum = l->cum;
	r->first = r->next = shift_sendlog_at(l, l->head);
	lap = (uint64_t)(l->ring + l->mask + 1 - r->next);
	r->stop = r->next + (may < lap ? may : lap);
}

bool shift_fast_turn(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_sendlog *l = &c->sq;

	count_run(l, r);
	if (__builtin_expect(!suits_run(wr) || !set_mtu(r, l->mtu), 0)) {
		r->first = r->next = r->stop = NULL;
		return false;
	}
	set_kind(r, wr);
	set_stop(l, r);
	shift_count_set(&l->turns, l->turns + 1); /* for shift_conn_activity() */
	return r->next != r->stop;
}

uint64_t *shift_fast_done(struct shift_conn *c)
{
	return &c->sq.sig_done;
}

struct shift_recvlog *shift_fast_recvs(struct shift_conn *c)
{
	return &c->rq;
}
