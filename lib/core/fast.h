/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Logging sends in as few instructions as possible. Most programs post the same again and again:
 * one SGE of one length, one opcode, the same flags. Of a run of such WRs only what differs is
 * written, straight into the log's next entries; what they have in common, and all counters, are
 * added when the run is folded into the log. After that the log is as if each of them had come
 * through shift_conn_post_send.
 *
 * The poster owns the run. Before another thread looks at the log, the poster is quiesced and the
 * run is folded. A WR that is not like the others: fold, shift_conn_post_send, post it,
 * shift_fast_arm.
 */
#ifndef SHIFT_CORE_FAST_H
#define SHIFT_CORE_FAST_H

#include <string.h>
#ifdef __x86_64__
#include <smmintrin.h>
#endif

#include "lib/core/wrlog.h"

struct shift_conn;

/* A send WR as libibverbs has it, up to the rkey. */
struct shift_raw_wr {
	uint64_t wr_id;
	const struct shift_raw_wr *next;
	const struct shift_sge *sge;
	uint32_t num_sge, opcode;
	uint32_t flags, imm;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t pad;
} __attribute__((may_alias));

/* What the WRs of a run have in common. The processor compares it in one piece. */
struct shift_alike {
	uint32_t num_sge, opcode, flags, length;
} __attribute__((aligned(16)));

struct shift_run {
	struct shift_wr_entry *next, *stop; /* equal: not this way */
	struct shift_alike alike;

	struct shift_wr_entry *first; /* of this lap around the ring */
	uint64_t before;	      /* WRs of earlier laps */
	uint64_t left;		      /* so many more may come after this lap's end */
	struct shift_alike last;      /* of the last one that was not in a run */
	bool known;		      /* alike is set */
};

static inline bool shift_is_alike(const struct shift_alike *a, const struct shift_raw_wr *wr)
{
	return wr->num_sge == a->num_sge && wr->opcode == a->opcode && wr->flags == a->flags &&
	       wr->sge->length == a->length;
}

/* Where the next WR goes. Volatile, so that next is added to in memory and not kept until then. */
static inline struct shift_wr_entry *shift_fast_next(const struct shift_run *r)
{
	return *(struct shift_wr_entry *const volatile *)&r->next;
}

/* Two pieces of a WR are copied as they are. */
static inline void shift_fast_log(struct shift_run *r, struct shift_wr_entry *e,
				  const struct shift_raw_wr *wr, const struct shift_sge *sge)
{
	uint64_t wr_id = wr->wr_id;

	r->next++;
	memcpy(&e->addr, sge, sizeof(*sge));
	memcpy(&e->imm, &wr->imm, 16);
	e->wr_id = wr_id;
}

/* true: logged. Holds for a list of one WR only, and while shift_conn_fast is true. */
static inline bool shift_fast_post(struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_wr_entry *e = shift_fast_next(r);

	if (wr->next || e == r->stop || !shift_is_alike(&r->alike, wr))
		return false;
	shift_fast_log(r, e, wr, wr->sge);
	return true;
}

#ifdef __x86_64__
#define SHIFT_SSE41 __attribute__((target("sse4.1")))

/* The same in fewer instructions. */
static inline SHIFT_SSE41 bool shift_fast_post_sse41(struct shift_run *r,
						     const struct shift_raw_wr *wr)
{
	const __m128i all_but_length = _mm_set_epi32(0, -1, -1, -1);
	struct shift_wr_entry *e = shift_fast_next(r);
	const struct shift_sge *sge;
	__m128i head;

	if (__builtin_expect(wr->next || e == r->stop, 0))
		return false;
	head = _mm_loadu_si128((const __m128i *)(const void *)&wr->num_sge);
	head = _mm_xor_si128(head, *(const __m128i *)(const void *)&r->alike);
	/* Only then is there an SGE to be looked at. */
	if (__builtin_expect(!_mm_testz_si128(head, all_but_length), 0))
		return false;
	sge = wr->sge;
	if (__builtin_expect(sge->length != r->alike.length, 0))
		return false;
	shift_fast_log(r, e, wr, sge);
	return true;
}
#endif

/* The ring's end was reached, and the run may go on at its start: try again. */
bool shift_fast_wrap(struct shift_conn *c, struct shift_run *r);

/* Adds the run to the log. Nothing goes into the run until it is armed again. */
void shift_fast_fold(struct shift_conn *c, struct shift_run *r);

/* Under shift_conn_fast, the run folded: those like wr may come, or like those before, if wr is
 * the first of its kind. wr has been logged and posted. */
void shift_fast_arm(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr);

/* The counter of sends that have completed, to be bumped under shift_conn_fast. */
uint64_t *shift_fast_done(struct shift_conn *c);

#endif
