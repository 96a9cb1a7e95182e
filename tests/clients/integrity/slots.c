/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Slots that the peer WRITEs: checked, cleared, and watched for being set again.
 *
 * A slot is [front flag][payload][end flag], right-aligned, so that the end flag has a fixed place.
 * A WRITE that is replayed from its first packet sets the front flag again, also when its end
 * was never seen: the front flag of a polled slot is cleared on its own.
 */

#include "tests/clients/integrity/integrity.h"

static uint8_t *slot_end(const struct run *r, const struct lane *l, enum stream s, uint32_t seq)
{
	return l->memory + r->layout.slots[s] + (seq % SLOTS + 1) * r->layout.slot_stride;
}

static uint32_t payload(const struct lane *l, enum stream s, uint32_t seq)
{
	return message_length(!side_own(), l->index, s, seq);
}

static uint8_t *front(const struct run *r, const struct lane *l, enum stream s, uint32_t seq)
{
	return slot_end(r, l, s, seq) - payload(l, s, seq) - 16;
}

static bool holds(const uint8_t *p, uint32_t seq)
{
	return memory_load(p) == word_encode(seq);
}

/* All of it is there: checks the bytes, then clears both flags. */
static void consume(struct run *r, struct lane *l, enum stream s, uint32_t seq, bool front_seen)
{
	uint8_t *first = front(r, l, s, seq);
	uint32_t length = payload(l, s, seq);

	if (front_seen && holds(first, seq))
		l->n.duplicated++; /* it was cleared */
	else if (!front_seen && !holds(first, seq))
		l->n.bad_bytes += 8;
	message_fill(l->expected, message_key(!side_own(), l->index, s, seq), 0, length);
	l->n.bad_bytes += bytes_bad(l, s == FLAGS ? "flagged WRITE" : "WRITE", seq, first + 8,
				    l->expected, length);
	memory_store(first, 0);
	memory_store(slot_end(r, l, s, seq) - 8, 0);
	sequence_note(&l->slots[s], seq, &l->n);
}

/* Is one that was cleared there again, wholly or with its first part? */
static void watch(struct run *r, struct lane *l, enum stream s)
{
	struct sequence *q = &l->slots[s];

	for (uint32_t back = 1; back <= SLOTS && back <= q->next; back++) {
		uint32_t seq = q->next - back;
		uint8_t *end = slot_end(r, l, s, seq) - 8;

		if (holds(end, seq)) {
			memory_store(end, 0);
			memory_store(front(r, l, s, seq), 0);
			sequence_note(q, seq, &l->n);
		} else if (holds(front(r, l, s, seq), seq) && !holds(end, seq)) {
			/* Its end may be on its way: then that is counted, once. */
			memory_store(front(r, l, s, seq), 0);
			l->n.duplicated += !q->missing[seq % WINDOW];
		}
	}
}

/* A later slot is set: the next one is late or lost, unless it has just come. */
static void look_ahead(struct run *r, struct lane *l)
{
	uint32_t next = l->slots[FLAGS].next;

	for (uint32_t seq = next + 1; seq < next + SLOTS; seq++)
		if (holds(slot_end(r, l, FLAGS, seq) - 8, seq)) {
			if (!holds(slot_end(r, l, FLAGS, next) - 8, next)) {
				l->front_seen = false;
				consume(r, l, FLAGS, seq, false);
			}
			return;
		}
}

static void poll_flags(struct run *r, struct lane *l)
{
	for (;;) {
		uint32_t next = l->slots[FLAGS].next;
		uint8_t *first = front(r, l, FLAGS, next);

		if (holds(slot_end(r, l, FLAGS, next) - 8, next)) {
			consume(r, l, FLAGS, next, l->front_seen);
			l->front_seen = false;
			continue;
		}
		if (!holds(first, next))
			break;
		memory_store(first, 0);
		l->n.duplicated += l->front_seen;
		l->front_seen = true;
		break;
	}
	look_ahead(r, l);
}

static void poll_writes(struct run *r, struct lane *l)
{
	struct sequence *q = &l->slots[WRITES];

	while (q->next < l->announced) {
		if (holds(slot_end(r, l, WRITES, q->next) - 8, q->next))
			consume(r, l, WRITES, q->next, false);
		else
			sequence_skip(q, q->next + 1, &l->n);
	}
}

/* A number that the peer tells; it never shrinks, unless an old status block was written again.
 * Returns whether it is news. */
static bool hear(struct lane *l, const uint8_t *p, uint32_t *known)
{
	uint32_t value;

	if (!word_decode(memory_load(p), &value) || value == *known)
		return false;
	if (value > *known) {
		*known = value;
		l->progress_ms = now_ms();
		return true;
	}
	l->n.duplicated++;
	return false;
}

void slots_poll(struct run *r, struct lane *l)
{
	const uint8_t *status = l->memory + r->layout.status;

	hear(l, status + offsetof(struct status_block, announced), &l->announced);
	hear(l, status + offsetof(struct status_block, writes_free), &l->writes_free);
	hear(l, status + offsetof(struct status_block, flags_free), &l->flags_free);
	hear(l, status + offsetof(struct status_block, granted), &l->credit);
	if (!l->last && hear(l, status + offsetof(struct status_block, last), &l->last))
		srq_last_heard(l);
	if (opt.w.ops & 1u << OP_WRITE) {
		poll_writes(r, l);
		watch(r, l, WRITES);
	}
	if (opt.w.ops & 1u << OP_FLAG) {
		poll_flags(r, l);
		watch(r, l, FLAGS);
	}
}

/* The peer has sent so many, and all of them have arrived if they ever will. */
void slots_close(struct run *r, struct lane *l, const struct totals *sent)
{
	slots_poll(r, l);
	sequence_close(&l->slots[WRITES], sent->sent[WRITES], &l->n);
	sequence_close(&l->slots[FLAGS], sent->sent[FLAGS], &l->n);
}
