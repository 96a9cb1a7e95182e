/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Logging sends in as few instructions as possible: none longer than 4 MiB, and no atomic before
 * the first one was logged by shift_conn_post_send. A WR is written straight into the log's next
 * entry. Successive WRs with one SGE, the same opcode and the same flags are a run. What a run adds
 * to the log's counters is kept in shift_run, and the log is told at the end of its ring, or when
 * it is folded. After that the log is as if each WR had come through shift_conn_post_send.
 *
 * A WR alone of another kind begins another run, or stands between two if it has inline payload,
 * several SGEs or none (shift_fast_post_other). Lists come in a way of their own, which belongs to
 * no run (shift_fast_post_list). What is not taken here is logged by shift_conn_post_send.
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
	} as_logged;	 /* as it lies in an entry (SHIFT_KIND_AT) */
	uint64_t counts; /* one if signaled, and 1 << 32 if two-sided */
};

struct shift_run {
	struct shift_wr_entry *next, *stop; /* equal: not this way */
	uint64_t one_opcode; /* num_sge and opcode of all its WRs, as they lie in a WR, */
	uint32_t flags;	     /* their flags, */
	uint32_t mtu, mtu_shift;
	struct shift_kind kind; /* and what that means */
	uint64_t cum;		/* packets since the epoch's commit, the run included */
	/* For the log's counters. */
	struct shift_wr_entry *first; /* of the run */
	uint64_t counts;	      /* of the runs before it, the sum of their kinds' */
	uint64_t cum_signal;	      /* packets up to the newest signaled WR before it */
	struct shift_wr_entry *uncounted;
};

#define SHIFT_KIND_AT offsetof(struct shift_wr_entry, opcode)

/* Packets of a WR that has more than one, as shift_psn_packets(). */
static inline uint32_t shift_fast_packets(const struct shift_run *r, uint32_t length)
{
	return (length + r->mtu - 1) >> r->mtu_shift;
}

/* Two pieces of a WR are copied as they are (doc/architecture.md, "Store forwarding"). false: it is
 * too long. */
static inline bool shift_fast_put(struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_wr_entry *e = r->next;
	const struct shift_sge *sge = wr->sge;
	uint32_t length = sge->length;
	uint64_t packets = 1;

	if (__builtin_expect(length > r->mtu, 0)) {
		if (length > SHIFT_FAST_BYTES_MAX)
			return false;
		packets = shift_fast_packets(r, length);
	}
	e->wr_id = wr->wr_id;
	memcpy(&e->addr, sge, sizeof(*sge));
	memcpy(&e->imm, &wr->imm, 16);
	memcpy((char *)e + SHIFT_KIND_AT, &r->kind.as_logged, sizeof(r->kind.as_logged));
	e->cum = r->cum += packets;
	r->next = e + 1;
	return true;
}

/* One piece of a WR is compared as it is. */
static inline bool shift_fast_is_like(const struct shift_run *r, const struct shift_raw_wr *wr)
{
	uint64_t one_opcode;

	memcpy(&one_opcode, &wr->num_sge, sizeof(one_opcode));
	return one_opcode == r->one_opcode && wr->flags == r->flags;
}

/* true: logged. The list is the caller's matter. While shift_conn_fast is true. */
static inline bool shift_fast_post(struct shift_run *r, const struct shift_raw_wr *wr)
{
	if (__builtin_expect(r->next == r->stop || !shift_fast_is_like(r, wr), 0))
		return false;
	return shift_fast_put(r, wr);
}

/* Logs the list from wr on, of any kinds, at most n of it. Returns the first WR that it has not
 * logged, or NULL. If it might have logged more, that one must be logged by shift_conn_post_send,
 * after the run was folded. While shift_conn_fast is true. */
const struct shift_raw_wr *shift_fast_post_list(struct shift_conn *c, struct shift_run *r,
						const struct shift_raw_wr *wr, uint32_t n);

/* One WR that the run did not take: the same. true: logged. The next run is of its kind. */
bool shift_fast_post_other(struct shift_conn *c, struct shift_run *r,
			   const struct shift_raw_wr *wr);

/* Adds the run to the log. Nothing goes into it until one of the two above. */
void shift_fast_fold(struct shift_conn *c, struct shift_run *r);

/* The counter of sends that have completed, to be bumped under shift_conn_fast. */
uint64_t *shift_fast_done(struct shift_conn *c);

/* --- receives -------------------------------------------------------------------------------- */

/* The log of receives, for the two below; under shift_conn_fast. One thread may post to it while
 * another one polls. With an SRQ nothing is logged, and it is not for them: only `done` counts. */
struct shift_recvlog *shift_fast_recvs(struct shift_conn *c);

/* true: logged. false: it has more than one SGE, or the log is full: shift_conn_post_recv. */
static inline bool shift_fast_post_recv(struct shift_recvlog *l, const struct shift_raw_recv *wr)
{
	uint64_t done = __atomic_load_n(&l->done, __ATOMIC_ACQUIRE); /* its entry was read */
	uint64_t posted = l->posted;
	struct shift_recv_entry *e = shift_recvlog_at(l, posted);
	uint32_t num_sge = wr->num_sge;

	if (__builtin_expect(num_sge > 1 || (uint32_t)(posted - done) >= l->cap, 0))
		return false;
	e->wr_id = wr->wr_id;
	e->num_sge = num_sge;
	if (num_sge)
		e->sge = *wr->sge;
	shift_count_publish(&l->posted, posted + 1);
	return true;
}

/* A receive has completed: its wr_id. false: none is outstanding. */
static inline bool shift_fast_recv_done(struct shift_recvlog *l, uint64_t *wr_id)
{
	uint64_t done = l->done;

	if (__builtin_expect(done == __atomic_load_n(&l->posted, __ATOMIC_ACQUIRE), 0))
		return false;
	*wr_id = shift_recvlog_at(l, done)->wr_id;
	shift_count_publish(&l->done, done + 1);
	return true;
}

#endif
