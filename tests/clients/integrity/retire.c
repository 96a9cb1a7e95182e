/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completions of what was posted: their order, and the results they stand for. */
#include <string.h>

#include "tests/clients/integrity/integrity.h"

static const uint64_t untouched = 0xa5a5a5a5a5a5a5a5;

static const enum ibv_wc_opcode completion_of[OPS] = {
	[OP_SEND] = IBV_WC_SEND,	 [OP_SEND_IMM] = IBV_WC_SEND,
	[OP_WRITE] = IBV_WC_RDMA_WRITE,	 [OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[OP_FLAG] = IBV_WC_RDMA_WRITE,	 [OP_READ] = IBV_WC_RDMA_READ,
	[OP_ADD] = IBV_WC_FETCH_ADD,	 [OP_SWAP] = IBV_WC_COMP_SWAP,
	[OP_STATUS] = IBV_WC_RDMA_WRITE,
};

static bool all_untouched(const uint8_t *p, uint32_t length)
{
	return *p == (uint8_t)untouched && !memcmp(p, p + 1, length - 1);
}

static void check_read(struct lane *l, const struct record *record)
{
	message_fill(l->expected, message_key(!side_own(), l->index, READS, 0), record->read_offset,
		     record->length);
	pieces_gather(l->memory, &record->pieces, l->scratch, record->length);
	if (record->length && all_untouched(l->scratch, record->length) &&
	    memcmp(l->scratch, l->expected, record->length)) {
		l->n.lost_results++;
		return;
	}
	l->n.bad_bytes += bytes_bad(l, "READ", record->seq, l->scratch, l->expected,
				    record->length);
}

/* A value ahead of the count was added twice somewhere; one behind it, never. */
static void check_add(struct lane *l, const struct record *record, uint64_t got)
{
	int64_t ahead = (int64_t)(got - record->expected) - l->add_skew;

	if (ahead > 0)
		l->n.duplicated += ahead;
	else
		l->n.lost += -ahead;
	l->add_skew += ahead;
}

static void check_swap(struct lane *l, const struct record *record, uint64_t got)
{
	if (got == record->expected)
		return;
	if (got == swap_value(side_own(), l->index, record->seq + 1))
		l->n.duplicated++;
	else if (record->seq && got == swap_value(side_own(), l->index, record->seq - 1))
		l->n.lost++;
	else
		l->n.bad_bytes += 8;
}

static void check_result(struct lane *l, const struct record *record)
{
	uint64_t got;

	if (record->op == OP_READ)
		check_read(l, record);
	if (record->op != OP_ADD && record->op != OP_SWAP)
		return;
	memcpy(&got, l->memory + record->pieces.offset[0], 8);
	if (got == untouched)
		l->n.lost_results++;
	else if (record->op == OP_ADD)
		check_add(l, record, got);
	else
		check_swap(l, record, got);
}

/* Retires all up to and including that one; only the last may be signaled. */
static void retire_to(struct lane *l, uint32_t index)
{
	for (;; l->retired++) {
		const struct record *record = &l->records[l->retired % opt.w.depth];

		check_result(l, record);
		if (l->retired == index)
			break;
		l->n.bad_completions += record->signaled;
	}
	l->retired++;
}

/* From the last completion, if there was one to wait for, until now. */
void note_gap(struct run *r, struct lane *l, double t_ms)
{
	if (l->sends && !l->drained)
		gap_note(l->gaps, (struct gap){.at_ms = l->last_completion_ms - r->start_ms,
					       .ms = t_ms - l->last_completion_ms,
					       .paused_ms = l->paused_ms,
					       .lane = l->index});
	l->last_completion_ms = l->progress_ms = t_ms;
	l->paused_ms = 0;
}

static void note_second(const struct run *r, struct lane *l, double t_ms)
{
	double second = (t_ms - r->start_ms) / 1e3;

	if (second < SECONDS_KEPT)
		l->by_second[(int)second]++;
}

void retire(struct run *r, struct lane *l, const struct ibv_wc *wc, double t_ms)
{
	uint32_t index = (uint32_t)wc->wr_id;
	const struct record *record = &l->records[index % opt.w.depth];

	l->n.completions++;
	note_second(r, l, t_ms);
	note_gap(r, l, t_ms);
	if (index - l->retired >= outstanding(l)) {
		l->n.bad_completions++; /* of none that is outstanding */
		return;
	}
	if (!record->signaled || wc->opcode != completion_of[record->op])
		l->n.bad_completions++;
	retire_to(l, index);
}
