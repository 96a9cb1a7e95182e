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
_Static_assert(GAP(struct shift_raw_wr, opcode, flags) == 4, "compared in one piece");
_Static_assert(SHIFT_KIND_AT % 8 == 0 &&
		       offsetof(struct shift_wr_entry, trim) == SHIFT_KIND_AT + 4 &&
		       offsetof(struct shift_wr_entry, swap) == SHIFT_KIND_AT + 8,
	       "what is alike in WRs of a kind must be a piece of the entry");
_Static_assert(1u << SHIFT_FAST_SHIFT == SHIFT_FAST_BYTES_MAX, "so that it can be divided by");

#define FLAGS SHIFT_FAST_FLAGS

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

const struct shift_kind shift_kinds[SHIFT_OP_FETCH_ADD + 1][FLAGS + 1] = {
	KINDS(SHIFT_OP_WRITE),	   KINDS(SHIFT_OP_WRITE_IMM), KINDS(SHIFT_OP_SEND),
	KINDS(SHIFT_OP_SEND_IMM),  KINDS(SHIFT_OP_READ),      KINDS(SHIFT_OP_CMP_SWAP),
	KINDS(SHIFT_OP_FETCH_ADD),
};

_Static_assert(FLAGS == 15 && SHIFT_OP_WRITE == 0 && SHIFT_OP_WRITE_IMM == 1 &&
		       SHIFT_OP_SEND == 2 && SHIFT_OP_SEND_IMM == 3 && SHIFT_OP_READ == 4 &&
		       SHIFT_OP_CMP_SWAP == 5 && SHIFT_OP_FETCH_ADD == 6,
	       "kinds are found by opcode and flags");

/* Tells the log what has come since the last time. */
static void tell_log(struct shift_sendlog *l, struct shift_run *r)
{
	uint64_t n = (uint64_t)(r->next - r->untold);

	if (!n)
		return;
	l->cum += n + r->more_packets;
	l->sig_posted += l->sig_all ? n : (uint32_t)r->counts;
	l->two_posted += r->counts >> 32;
	shift_count_set(&l->head, l->head + n);
	l->sent = l->head;
	if (l->sig_all || (uint32_t)r->counts)
		l->cum_signal = l->cum - shift_sendlog_unsignaled(l);
	r->unnumbered += n;
}

void shift_fast_fold(struct shift_conn *c, struct shift_run *r)
{
	tell_log(&c->sq, r);
	shift_sendlog_number(&c->sq, r->unnumbered);
	r->unnumbered = 0;
	r->untold = r->next = r->stop = NULL;
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

/* From the log's head, at most to the end of its ring. false: nothing may come now. */
static bool begin_runs(struct shift_sendlog *l, struct shift_run *r)
{
	uint64_t may, lap, room;

	if (!set_mtu(r, l->mtu))
		return false;
	tell_log(l, r);
	may = unsignaled_max(l, r);
	room = shift_sendlog_room(l);
	may = room < may ? room : may;
	r->untold = r->next = shift_sendlog_at(l, l->head);
	lap = (uint64_t)(l->ring + l->mask + 1 - r->next);
	r->stop = r->next + (may < lap ? may : lap);
	r->counts = r->more_packets = 0;
	r->opcode_flags = SHIFT_OP_WRITE; /* a real kind: a WR may hold anything */
	r->kind = shift_kinds[SHIFT_OP_WRITE][0];
	shift_count_set(&l->turns, l->turns + 1); /* for shift_conn_activity() */
	return may > 0;
}

/* A WR that lies in its entry: its bytes, as far as its packets depend on them. */
struct stored {
	uint64_t length; /* UINT64_MAX: it is not logged here */
	const struct shift_kind *kind;
};

static const struct stored not_stored = {.length = UINT64_MAX};

/* The three below store a WR in the entry e. */

static __attribute__((noinline)) struct stored store_atomic(const struct shift_conn *c,
							    struct shift_wr_entry *e,
							    const struct shift_raw_wr *wr)
{
	uint32_t opcode = wr->opcode, flags = wr->flags;
	const struct shift_kind *kind;

	if (opcode != SHIFT_OP_CMP_SWAP && opcode != SHIFT_OP_FETCH_ADD)
		return not_stored;
	if (!c->atomic || flags >= SHIFT_F_INLINE || wr->num_sge != 1 ||
	    wr->sge->length > SHIFT_FAST_BYTES_MAX)
		return not_stored;
	kind = &shift_kinds[opcode][flags];
	memcpy((char *)e + SHIFT_KIND_AT, &kind->as_logged, 8);
	memcpy(&e->addr, wr->sge, sizeof(*wr->sge));
	e->wr_id = wr->wr_id;
	e->imm = (uint32_t)wr->atomic.compare_add;
	e->trim = (uint32_t)(wr->atomic.compare_add >> 32);
	e->remote_addr = wr->remote_addr;
	e->rkey = wr->atomic.rkey;
	e->swap = wr->atomic.swap;
	return (struct stored){0, kind};
}

/* The payload of an inline WR: one piece, most often. */
static __attribute__((noinline)) struct stored store_inline(const struct shift_sendlog *l,
							    struct shift_wr_entry *e,
							    const struct shift_raw_wr *wr,
							    const struct shift_kind *kind)
{
	const struct shift_sge *sge = wr->sge;
	uint64_t length;

	if (wr->num_sge != 1 || !sge->length || sge->length > l->inline_max) {
		length = shift_sendlog_store_inline(l, e, sge, wr->num_sge);
		e->length = (uint32_t)length;
		return (struct stored){length, kind};
	}
	length = e->length = sge->length;
	e->addr = 0;
	e->lkey = 0;
	memcpy(shift_sendlog_side(l, e), (const void *)(uintptr_t)sge->addr, length);
	return (struct stored){length, kind};
}

/* A WR of any kind. It calls nothing on its way, so it has no registers to save. */
static __attribute__((noinline)) struct stored store_any(const struct shift_conn *c,
							 struct shift_wr_entry *e,
							 const struct shift_raw_wr *wr)
{
	uint32_t opcode = wr->opcode, flags = wr->flags;
	const struct shift_kind *kind;
	uint64_t length;

	if (opcode > SHIFT_OP_READ || flags > FLAGS)
		return store_atomic(c, e, wr);
	kind = &shift_kinds[opcode][flags];
	e->wr_id = wr->wr_id;
	memcpy(&e->imm, &wr->imm, 16);
	memcpy((char *)e + SHIFT_KIND_AT, &kind->as_logged, 8);
	if (flags & SHIFT_F_INLINE)
		return store_inline(&c->sq, e, wr, kind);
	length = shift_sendlog_store(&c->sq, e, wr->sge, wr->num_sge);
	e->length = (uint32_t)length;
	return (struct stored){length, kind};
}

/* Stores a WR in the entry e. false: it is too long, or not logged here. */
static inline __attribute__((always_inline)) bool put_any(const struct shift_conn *c,
							  struct shift_run *r,
							  struct shift_wr_entry *e,
							  const struct shift_raw_wr *wr)
{
	struct stored stored;

	if (__builtin_expect(wr->num_sge == 1, 1) && shift_fast_is_kind(r, wr))
		return shift_fast_put(r, e, wr);
	stored = store_any(c, e, wr);
	if (stored.length > r->mtu && !shift_fast_count_packets(r, stored.length))
		return false;
	r->counts += stored.kind->counts;
	return true;
}

bool shift_fast_post_other(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr)
{
	if (r->next == r->stop && !begin_runs(&c->sq, r))
		return false;
	if (!put_any(c, r, r->next, wr))
		return false;
	r->next++;
	return true;
}

/* Where a list ends that has n more WRs at most: there, or where the run does. */
static inline struct shift_wr_entry *list_stop(const struct shift_run *r, uint32_t n)
{
	return r->stop - r->next < n ? r->stop : r->next + n;
}

/* The same, if the run is at its end: another one begins. r->next: the list can not go on. */
static __attribute__((noinline)) struct shift_wr_entry *next_list_stop(struct shift_conn *c,
								       struct shift_run *r,
								       uint32_t n)
{
	if (!n || r->next != r->stop || !begin_runs(&c->sq, r))
		return r->next;
	return list_stop(r, n);
}

const struct shift_raw_wr *shift_fast_post_list(struct shift_conn *c, struct shift_run *r,
						const struct shift_raw_wr *wr, uint32_t n)
{
	struct shift_wr_entry *stop = list_stop(r, n), *e = r->next;

	for (; wr; wr = wr->next, e++) {
		if (__builtin_expect(e == stop, 0)) {
			n -= (uint32_t)(e - r->next);
			r->next = e;
			stop = next_list_stop(c, r, n);
			e = r->next;
			if (e == stop)
				break;
		}
		if (!put_any(c, r, e, wr))
			break;
	}
	r->next = e;
	return wr;
}
