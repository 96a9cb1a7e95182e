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

#define FLAGS (SHIFT_F_FENCE | SHIFT_F_SIGNALED | SHIFT_F_SOLICITED | SHIFT_F_INLINE)

#define SIGNALED(flags) (!!(flags & SHIFT_F_SIGNALED))
#define TWO_SIDED(op)	(op == SHIFT_OP_SEND || op == SHIFT_OP_SEND_IMM || op == SHIFT_OP_WRITE_IMM)

#define KIND(op, f)                                                                            \
	{                                                                                      \
		{op, f, 1, SHIFT_WR_PENDING, 0}, (uint64_t)TWO_SIDED(op) << 32 | SIGNALED((f)) \
	}
#define KINDS_4(op, f) KIND(op, f), KIND(op, f + 1), KIND(op, f + 2), KIND(op, f + 3)
#define KINDS(op)                                                               \
	{                                                                       \
		KINDS_4(op, 0), KINDS_4(op, 4), KINDS_4(op, 8), KINDS_4(op, 12) \
	}

/* By opcode and flags. */
static const struct shift_kind kinds[SHIFT_OP_FETCH_ADD + 1][FLAGS + 1] = {
	KINDS(SHIFT_OP_WRITE),	   KINDS(SHIFT_OP_WRITE_IMM), KINDS(SHIFT_OP_SEND),
	KINDS(SHIFT_OP_SEND_IMM),  KINDS(SHIFT_OP_READ),      KINDS(SHIFT_OP_CMP_SWAP),
	KINDS(SHIFT_OP_FETCH_ADD),
};

_Static_assert(FLAGS == 15 && SHIFT_OP_WRITE == 0 && SHIFT_OP_WRITE_IMM == 1 &&
		       SHIFT_OP_SEND == 2 && SHIFT_OP_SEND_IMM == 3 && SHIFT_OP_READ == 4 &&
		       SHIFT_OP_CMP_SWAP == 5 && SHIFT_OP_FETCH_ADD == 6,
	       "kinds are found by opcode and flags");

static void count(struct shift_run *r, uint64_t n, uint64_t each)
{
	r->counts += n * each;
	if ((uint32_t)each)
		r->cum_signal = r->cum;
}

static void end_run(struct shift_run *r)
{
	uint64_t n = (uint64_t)(r->next - r->first);

	if (n)
		count(r, n, r->kind.counts);
	r->first = r->next;
}

/* Adds to the log's counters what has come since the last time. */
static void count_in_log(struct shift_sendlog *l, struct shift_run *r)
{
	uint64_t n = (uint64_t)(r->next - r->uncounted);

	if (!n)
		return;
	l->cum = r->cum;
	l->cum_signal = l->sig_all ? r->cum : r->cum_signal;
	l->sig_posted += l->sig_all ? n : (uint32_t)r->counts;
	l->two_posted += r->counts >> 32;
	shift_count_set(&l->head, l->head + n);
	l->sent = l->head;
}

void shift_fast_fold(struct shift_conn *c, struct shift_run *r)
{
	end_run(r);
	count_in_log(&c->sq, r);
	r->uncounted = r->first = r->next = r->stop = NULL;
}

/* Packets of the longest WR. */
static unsigned int worst_shift(const struct shift_run *r)
{
	return SHIFT_FAST_SHIFT - r->mtu_shift;
}

/* How many may come before one must be signaled in secret, whatever their kinds and lengths. */
static uint64_t unsignaled_max(const struct shift_sendlog *l, const struct shift_run *r)
{
	uint64_t unsignaled = l->cum - l->cum_signal;

	if (l->sig_all)
		return UINT64_MAX;
	return unsignaled < SHIFT_SECRET_MAX ? (SHIFT_SECRET_MAX - unsignaled) >> worst_shift(r)
					     : 0;
}

/* false: it is no power of 2. */
static bool set_mtu(struct shift_run *r, uint32_t mtu)
{
	if (r->mtu == mtu)
		return true;
	r->mtu = mtu;
	r->mtu_shift = (uint32_t)__builtin_ctz(mtu);
	if (1u << r->mtu_shift == mtu)
		return true;
	r->mtu = 0;
	return false;
}

/* The run is of WRs like this, with one SGE that is not inline. */
static inline void set_kind(struct shift_run *r, const struct shift_raw_wr *wr,
			    const struct shift_kind *kind)
{
	memcpy(&r->one_opcode, &wr->num_sge, sizeof(r->one_opcode));
	r->flags = wr->flags;
	r->kind = *kind;
}

/* From the log's head, at most to the end of its ring. false: nothing may come now. */
static bool begin_runs(struct shift_sendlog *l, struct shift_run *r)
{
	static const struct shift_raw_wr any = {.num_sge = 1, .opcode = SHIFT_OP_WRITE};
	uint64_t may, lap, room;

	if (!set_mtu(r, l->mtu))
		return false;
	count_in_log(l, r);
	may = unsignaled_max(l, r);
	room = shift_sendlog_room(l);
	may = room < may ? room : may;
	r->uncounted = r->first = r->next = shift_sendlog_at(l, l->head);
	lap = (uint64_t)(l->ring + l->mask + 1 - r->next);
	r->stop = r->next + (may < lap ? may : lap);
	set_kind(r, &any, &kinds[SHIFT_OP_WRITE][0]);
	r->counts = 0;
	r->cum = l->cum;
	r->cum_signal = l->cum_signal;
	shift_count_set(&l->turns, l->turns + 1); /* for shift_conn_activity() */
	return may > 0;
}

/* The next entry has its data. The run may go on behind it. */
static inline bool put_alone(struct shift_run *r, const struct shift_raw_wr *wr, uint64_t length,
			     const struct shift_kind *kind)
{
	struct shift_wr_entry *e = r->next;
	uint64_t packets = 1;

	if (length > r->mtu) {
		if (length > SHIFT_FAST_BYTES_MAX)
			return false;
		packets = shift_fast_packets(r, (uint32_t)length);
	}
	e->wr_id = wr->wr_id;
	e->length = (uint32_t)length;
	memcpy(&e->imm, &wr->imm, 16);
	e->opcode = kind->as_logged.opcode;
	e->flags = kind->as_logged.flags;
	e->state = SHIFT_WR_PENDING;
	e->trim = 0;
	e->cum = r->cum += packets;
	r->first = r->next = e + 1;
	count(r, 1, kind->counts);
	return true;
}

/* The data of one that is for no run. Its bytes; UINT64_MAX: more than can be logged. */
static inline uint64_t put_data(const struct shift_sendlog *l, struct shift_wr_entry *e,
				const struct shift_raw_wr *wr)
{
	if (wr->flags & SHIFT_F_INLINE)
		return shift_sendlog_store_inline(l, e, wr->sge, wr->num_sge);
	return shift_sendlog_store(l, e, wr->sge, wr->num_sge);
}

static __attribute__((noinline)) bool post_alone(const struct shift_sendlog *l, struct shift_run *r,
						 const struct shift_raw_wr *wr,
						 const struct shift_kind *kind)
{
	return put_alone(r, wr, put_data(l, r->next, wr), kind);
}

/* The most frequent of those that are for no run: one inline piece. It is copied last, so that
 * nothing has to be saved over the call. */
static __attribute__((noinline)) bool post_inline(const struct shift_sendlog *l,
						  struct shift_run *r,
						  const struct shift_raw_wr *wr,
						  const struct shift_kind *kind)
{
	struct shift_wr_entry *e = r->next;
	uint32_t length = wr->sge->length;

	if (!length || length > l->inline_max || !put_alone(r, wr, length, kind))
		return post_alone(l, r, wr, kind);
	e->addr = 0;
	e->lkey = 0;
	e->num_sge = 1;
	return memcpy(shift_sendlog_side(l, e), (const void *)(uintptr_t)wr->sge->addr, length);
}

/* false: it is too long, or more than the log has room for. */
static inline __attribute__((always_inline)) bool post_kind(const struct shift_sendlog *l,
							    struct shift_run *r,
							    const struct shift_raw_wr *wr)
{
	const struct shift_kind *kind = &kinds[wr->opcode][wr->flags];

	if (wr->num_sge != 1)
		return post_alone(l, r, wr, kind);
	if (wr->flags & SHIFT_F_INLINE)
		return post_inline(l, r, wr, kind);
	set_kind(r, wr, kind);
	return shift_fast_put(r, wr);
}

/* By itself, so that the caller saves no registers for WRs that begin nothing. */
static __attribute__((noinline)) bool begin_with(struct shift_sendlog *l, struct shift_run *r,
						 const struct shift_raw_wr *wr)
{
	return begin_runs(l, r) && post_kind(l, r, wr);
}

bool shift_fast_post_other(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_sendlog *l = &c->sq;

	end_run(r);
	if (wr->opcode > SHIFT_OP_READ || wr->flags > FLAGS)
		return false;
	return r->next == r->stop ? begin_with(l, r, wr) : post_kind(l, r, wr);
}

/* --- lists ----------------------------------------------------------------------------------- */

/* The kind of the WR before. Successive ones in a list are often alike. */
struct last_kind {
	uint64_t opcode_flags; /* as they lie in a WR */
	uint64_t as_logged, counts;
};

/* Where they are logged, and what that makes of the run: in registers. */
struct place {
	struct shift_wr_entry *e;
	uint64_t cum;
};

/* The entry has its data. */
static inline void put_done(struct shift_run *r, struct place *at, uint64_t packets,
			    uint64_t counts)
{
	at->cum += packets;
	at->e->cum = at->cum;
	at->e++;
	r->counts += counts;
	if ((uint32_t)counts)
		r->cum_signal = at->cum;
}

/* An atomic. false: it is not logged here. */
static __attribute__((noinline)) bool put_atomic(const struct shift_conn *c,
						 struct shift_wr_entry *e,
						 const struct shift_raw_wr *wr)
{
	uint32_t opcode = wr->opcode, flags = wr->flags;

	if (opcode != SHIFT_OP_CMP_SWAP && opcode != SHIFT_OP_FETCH_ADD)
		return false;
	if (!c->atomic || flags >= SHIFT_F_INLINE || wr->num_sge != 1 ||
	    wr->sge->length > SHIFT_FAST_BYTES_MAX)
		return false;
	memcpy((char *)e + SHIFT_KIND_AT, &kinds[opcode][flags].as_logged, 8);
	memcpy(&e->addr, wr->sge, sizeof(*wr->sge));
	e->wr_id = wr->wr_id;
	e->imm = (uint32_t)wr->atomic.compare_add;
	e->trim = (uint32_t)(wr->atomic.compare_add >> 32);
	e->remote_addr = wr->remote_addr;
	e->rkey = wr->atomic.rkey;
	e->swap = wr->atomic.swap;
	return true;
}

/* Any other one. false: likewise. */
static inline bool put_any(const struct shift_conn *c, struct shift_run *r, struct place *at,
			   const struct shift_raw_wr *wr, struct last_kind *last)
{
	const struct shift_sge *sge = wr->sge;
	struct shift_wr_entry *e = at->e;
	uint64_t length, packets = 1, opcode_flags;

	memcpy(&opcode_flags, &wr->opcode, sizeof(opcode_flags));
	if (opcode_flags != last->opcode_flags) {
		uint32_t opcode = wr->opcode, flags = wr->flags;

		if (opcode > SHIFT_OP_READ || flags > FLAGS) {
			if (!put_atomic(c, e, wr))
				return false;
			put_done(r, at, 1, kinds[opcode][flags].counts);
			return true;
		}
		last->opcode_flags = opcode_flags;
		memcpy(&last->as_logged, &kinds[opcode][flags].as_logged, 8);
		last->counts = kinds[opcode][flags].counts;
	}
	memcpy((char *)e + SHIFT_KIND_AT, &last->as_logged, 8);
	e->wr_id = wr->wr_id;
	memcpy(&e->imm, &wr->imm, 16);
	if (__builtin_expect(wr->num_sge == 1 && !(wr->flags & SHIFT_F_INLINE), 1)) {
		memcpy(&e->addr, sge, sizeof(*sge));
		length = sge->length;
	} else {
		length = put_data(&c->sq, e, wr);
		e->length = (uint32_t)length;
	}
	if (__builtin_expect(length > r->mtu, 0)) {
		if (length > SHIFT_FAST_BYTES_MAX)
			return false;
		packets = shift_fast_packets(r, (uint32_t)length);
	}
	put_done(r, at, packets, last->counts);
	return true;
}

/* From *wr on, which it moves on, as many as there are places for in the run. */
static inline void put_list(const struct shift_conn *c, struct shift_run *r,
			    const struct shift_raw_wr **list, uint32_t n)
{
	const struct shift_wr_entry *stop = r->stop - r->next < n ? r->stop : r->next + n;
	struct last_kind last = {0, 0, kinds[0][0].counts}; /* a real one: a WR may hold anything */
	struct place at = {r->next, r->cum};
	const struct shift_raw_wr *wr = *list;

	memcpy(&last.as_logged, &kinds[0][0].as_logged, 8);
	for (; wr && at.e != stop && put_any(c, r, &at, wr, &last); wr = wr->next)
		;
	r->cum = at.cum;
	r->first = r->next = at.e;
	*list = wr;
}

const struct shift_raw_wr *shift_fast_post_list(struct shift_conn *c, struct shift_run *r,
						const struct shift_raw_wr *wr, uint32_t n)
{
	const struct shift_wr_entry *from;

	end_run(r);
	do {
		from = r->next;
		put_list(c, r, &wr, n);
		n -= (uint32_t)(r->next - from);
	} while (wr && n && r->next == r->stop && begin_runs(&c->sq, r));
	return wr;
}

uint64_t *shift_fast_done(struct shift_conn *c)
{
	return &c->sq.sig_done;
}

struct shift_recvlog *shift_fast_recvs(struct shift_conn *c)
{
	return &c->rq;
}
