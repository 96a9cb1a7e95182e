/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Logging sends in as few instructions as possible: those with one SGE that are no atomics, not
 * inline, and not longer than 4 MiB. A WR is written straight into the log's next entry. The log's
 * own counters wait: while successive WRs have the same opcode and the same flags they are a run,
 * and a run is added to the log at once (folded). After that the log is as if each of them had come
 * through shift_conn_post_send.
 *
 * The poster owns the run. Before another thread looks at the log, the poster is quiesced and the
 * run is folded. A WR that does not go into the run: shift_fast_turn(), which folds it and begins
 * another; if that cannot take it either, shift_conn_post_send.
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
	uint32_t rkey;
	uint32_t pad;
} __attribute__((may_alias));

/* What the entries of a run have in common, as it lies in an entry (SHIFT_KIND_AT). */
struct shift_kind {
	uint8_t opcode, flags, num_sge, state;
	uint32_t trim;
};

struct shift_run {
	struct shift_wr_entry *next, *stop; /* equal: not this way */
	uint64_t one_opcode; /* num_sge and opcode of all its WRs, as they lie in a WR, */
	uint32_t flags;	     /* and their flags */
	struct shift_kind kind;
	uint64_t cum; /* packets since the epoch's commit, the run included */
	uint32_t mtu, mtu_shift;
	struct shift_wr_entry *first;
};

#define SHIFT_KIND_AT offsetof(struct shift_wr_entry, opcode)

/* Packets of a WR that has more than one, as shift_psn_packets(). */
static inline uint32_t shift_fast_packets(const struct shift_run *r, uint32_t length)
{
	return (length + r->mtu - 1) >> r->mtu_shift;
}

/* true: logged. The list is the caller's matter. While shift_conn_fast is true. Two pieces of a WR
 * are copied, and one is compared, as they are (doc/architecture.md, "Store forwarding"). */
static inline bool shift_fast_post(struct shift_run *r, const struct shift_raw_wr *wr)
{
	struct shift_wr_entry *e = r->next;
	const struct shift_sge *sge;
	uint64_t packets = 1, one_opcode;
	uint32_t length;

	memcpy(&one_opcode, &wr->num_sge, sizeof(one_opcode));
	if (__builtin_expect(e == r->stop || one_opcode != r->one_opcode || wr->flags != r->flags,
			     0))
		return false;
	sge = wr->sge;
	length = sge->length;
	if (length > r->mtu) {
		if (__builtin_expect(length > SHIFT_FAST_BYTES_MAX, 0))
			return false;
		packets = shift_fast_packets(r, length);
	}
	e->wr_id = wr->wr_id;
	memcpy(&e->addr, sge, sizeof(*sge));
	memcpy(&e->imm, &wr->imm, 16);
	memcpy((char *)e + SHIFT_KIND_AT, &r->kind, sizeof(r->kind));
	e->cum = r->cum += packets;
	r->next = e + 1;
	return true;
}

/* Adds the run to the log. Nothing goes into it until shift_fast_turn(). */
void shift_fast_fold(struct shift_conn *c, struct shift_run *r);

/* Folds the run, and begins one for WRs like this. false: it must be logged by
 * shift_conn_post_send. Under shift_conn_fast. */
bool shift_fast_turn(struct shift_conn *c, struct shift_run *r, const struct shift_raw_wr *wr);

/* The counter of sends that have completed, to be bumped under shift_conn_fast. */
uint64_t *shift_fast_done(struct shift_conn *c);

/* --- receives -------------------------------------------------------------------------------- */

/* The log of receives, for the two below; under shift_conn_fast. One thread may post to it while
 * another one polls. */
struct shift_recvlog *shift_fast_recvs(struct shift_conn *c);

/* true: logged. false: it has more than one SGE, or the log is full: shift_conn_post_recv. */
static inline bool shift_fast_post_recv(struct shift_recvlog *l, const struct shift_recv_wr *wr)
{
	struct shift_recv_entry *e = shift_recvlog_at(l, l->posted);
	uint64_t done = __atomic_load_n(&l->done, __ATOMIC_ACQUIRE); /* its entry was read */

	if (__builtin_expect(wr->num_sge > 1 || l->posted - done >= l->cap, 0))
		return false;
	e->wr_id = wr->wr_id;
	e->num_sge = wr->num_sge;
	if (wr->num_sge)
		e->sge = *wr->sge;
	shift_count_set(&l->posted, l->posted + 1);
	return true;
}

/* A receive has completed: its wr_id. false: none is outstanding. */
static inline bool shift_fast_recv_done(struct shift_recvlog *l, uint64_t *wr_id)
{
	uint64_t done = l->done;

	if (__builtin_expect(done == __atomic_load_n(&l->posted, __ATOMIC_RELAXED), 0))
		return false;
	*wr_id = shift_recvlog_at(l, done)->wr_id;
	__atomic_store_n(&l->done, done + 1, __ATOMIC_RELEASE);
	return true;
}

#endif
