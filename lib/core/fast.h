/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Logging sends in as few instructions as possible: none longer than 4 MiB, and no atomic before
 * the first one was logged by shift_conn_post_send. A WR is written straight into the log's next
 * entry. What the log has to know beside its entries is kept in shift_run, and the log is told at
 * the end of its ring, or when the run is folded. After that the log is as if each WR had come
 * through shift_conn_post_send.
 *
 * A WR alone, with one SGE that is not inline, takes the shortest way (shift_fast_post), any other
 * one shift_fast_post_other; a list has a loop of its own (shift_fast_post_list). What is not taken
 * here is logged by shift_conn_post_send.
 *
 * The poster owns the run. Before another thread looks at the log, the poster is quiesced and the
 * run is folded.
 */
#ifndef SHIFT_CORE_FAST_H
#define SHIFT_CORE_FAST_H

#include <string.h>

#include "lib/core/wrlog.h"

struct shift_conn;

/* Bytes of a WR: so that a run of unsignaled ones can be long, whatever their lengths. */
#define SHIFT_FAST_SHIFT     22
#define SHIFT_FAST_BYTES_MAX (1u << SHIFT_FAST_SHIFT)

/* A send WR as libibverbs has it, up to the rkey. */
struct shift_raw_wr {
	uint64_t wr_id;
	const struct shift_raw_wr *next;
	const struct shift_sge *sge;
	uint32_t num_sge, opcode;
	uint32_t flags, imm;
	uint64_t remote_addr;
	union {
		uint32_t rkey;
		struct {
			uint64_t compare_add, swap;
			uint32_t rkey;
		} atomic;
	};
} __attribute__((may_alias));

/* A receive as libibverbs has it. */
struct shift_raw_recv {
	uint64_t wr_id;
	const struct shift_raw_recv *next;
	const struct shift_sge *sge;
	uint32_t num_sge;
} __attribute__((may_alias));

/* What WRs with the same opcode and flags have in common. */
struct shift_kind {
	struct {
		uint8_t opcode, flags, num_sge, state;
		uint32_t trim;
	} as_logged;	 /* as it lies in an entry (SHIFT_KIND_AT), of a WR with one SGE */
	uint64_t counts; /* one if signaled, and 1 << 32 if two-sided */
};

#define SHIFT_KIND_AT offsetof(struct shift_wr_entry, opcode)

#define SHIFT_FAST_FLAGS (SHIFT_F_FENCE | SHIFT_F_SIGNALED | SHIFT_F_SOLICITED | SHIFT_F_INLINE)

/* By opcode and flags. */
extern const struct shift_kind shift_kinds[SHIFT_OP_FETCH_ADD + 1][SHIFT_FAST_FLAGS + 1];

struct shift_run {
	struct shift_wr_entry *next, *stop; /* equal: not this way */
	uint64_t opcode_flags;	/* of the newest WR that took the shortest way, as they lie in a WR,
				 */
	struct shift_kind kind; /* and what that means: successive WRs are often alike */
	uint32_t mtu, mtu_shift;
	/* What the log has not been told of: */
	uint64_t counts;       /* the sum of the kinds' */
	uint64_t more_packets; /* of WRs that have more than one, all but the first */
	struct shift_wr_entry *untold;
	/* So many entries, the newest of the log, have no `cum` yet. */
	uint64_t unnumbered;
};

/* More than one packet. false: too long. */
static inline bool shift_fast_count_packets(struct shift_run *r, uint64_t length)
{
	if (length > SHIFT_FAST_BYTES_MAX)
		return false;
	r->more_packets += (length - 1) >> r->mtu_shift;
	return true;
}

/* Is it of the run's kind, or else of one that the run may have next? */
static inline bool shift_fast_is_kind(struct shift_run *r, const struct shift_raw_wr *wr)
{
	uint32_t opcode, flags;
	uint64_t opcode_flags;

	memcpy(&opcode_flags, &wr->opcode, sizeof(opcode_flags));
	if (__builtin_expect(opcode_flags == r->opcode_flags, 1))
		return true;
	opcode = wr->opcode;
	flags = wr->flags;
	if (opcode > SHIFT_OP_READ || flags >= SHIFT_F_INLINE)
		return false;
	r->opcode_flags = opcode_flags;
	r->kind = shift_kinds[opcode][flags];
	return true;
}

/* One of the run's kind, into that entry. Two pieces of a WR are copied as they are
 * (doc/architecture.md, "Store forwarding"). false: it is too long. */
static inline bool shift_fast_put(struct shift_run *r, struct shift_wr_entry *e,
				  const struct shift_raw_wr *wr)
{
	const struct shift_sge *sge = wr->sge;
	uint32_t length = sge->length;

	if (__builtin_expect(length > r->mtu, 0) && !shift_fast_count_packets(r, length))
		return false;
	e->wr_id = wr->wr_id;
	memcpy(&e->addr, sge, sizeof(*sge));
	memcpy(&e->imm, &wr->imm, 16);
	memcpy((char *)e + SHIFT_KIND_AT, &r->kind.as_logged, sizeof(r->kind.as_logged));
	r->counts += r->kind.counts;
	return true;
}

/* true: logged. The list is the caller's matter. While shift_conn_fast is true. */
static inline bool shift_fast_post(struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_wr_entry *e = r->next;

	if (__builtin_expect(e == r->stop || wr->num_sge != 1, 0))
		return false;
	if (!shift_fast_is_kind(r, wr) || !shift_fast_put(r, e, wr))
		return false;
	r->next = e + 1;
	return true;
}

/* Logs the list from wr on, of any kinds, at most n of it: what is logged and not posted yet must
 * not be more than one send queue, or the log would take older sends, which the NIC still has, for
 * done (done_without_signal()). Returns the first WR that it has not logged, or NULL. If it might
 * have logged more, that one must be logged by shift_conn_post_send, after the run was folded.
 * While shift_conn_fast is true. */
const struct shift_raw_wr *shift_fast_post_list(struct shift_conn *c, struct shift_run *r,
						const struct shift_raw_wr *wr, uint32_t n);

/* One WR that shift_fast_post did not take: the same. true: logged. */
bool shift_fast_post_other(struct shift_conn *c, struct shift_run *r,
			   const struct shift_raw_wr *wr);

/* Adds the run to the log. Nothing goes into it until one of the two above. */
void shift_fast_fold(struct shift_conn *c, struct shift_run *r);

/* --- receives -------------------------------------------------------------------------------- */

/*
 * shift_hot, under shift_conn_fast. Sends that have completed are counted in sends_done. One thread
 * may post to the log of receives while another one polls. With an SRQ nothing is logged, and none
 * is ever outstanding: only `done` counts.
 */

/* true: logged. false: it has more than one SGE, or the log may be full: shift_conn_post_recv. */
static inline bool shift_fast_post_recv(struct shift_recvlog *l, uint64_t wr_id,
					const struct shift_sge *sge, uint32_t num_sge)
{
	struct shift_recv_entry *e = l->next;

	if (__builtin_expect(e == l->stop, 0))
		return false;
	if (__builtin_expect(num_sge == 1, 1))
		e->sge = *sge;
	else if (num_sge)
		return false;
	e->wr_id = wr_id;
	e->num_sge = num_sge;
	l->next = e + 1;
	shift_count_next(&l->posted);
	return true;
}

/* A receive has completed: its wr_id. false: none is outstanding. */
static inline bool shift_fast_recv_done(struct shift_recvlog *l, uint64_t *wr_id)
{
	uint64_t done = l->done;

	if (!shift_count_is_beyond(&l->posted, done))
		return false;
	*wr_id = shift_recvlog_at(l, done)->wr_id;
	shift_count_next(&l->done);
	return true;
}

#endif
