/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Work requests: what, from where, signaled or not. */
#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#include "tests/clients/integrity/integrity.h"

static const enum stream stream_of[OPS_TO_CHOOSE] = {
	[OP_SEND] = MESSAGES,	   [OP_SEND_IMM] = MESSAGES, [OP_WRITE] = WRITES,
	[OP_WRITE_IMM] = MESSAGES, [OP_FLAG] = FLAGS,	     [OP_READ] = READS,
	[OP_ADD] = ADDS,	   [OP_SWAP] = SWAPS,
};

static const enum ibv_wr_opcode opcode_of[OPS] = {
	[OP_SEND] = IBV_WR_SEND,
	[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
	[OP_WRITE] = IBV_WR_RDMA_WRITE,
	[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[OP_FLAG] = IBV_WR_RDMA_WRITE,
	[OP_READ] = IBV_WR_RDMA_READ,
	[OP_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[OP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[OP_STATUS] = IBV_WR_RDMA_WRITE,
};

struct request { /* a WR under construction */
	struct record *record;
	struct ibv_send_wr wr;
	struct ibv_sge sges[PIECES_MAX];
	uint32_t buffer; /* in the memory of the lane */
};

uint32_t outstanding(const struct lane *l)
{
	return l->posted - l->retired;
}

/* One entry of the queue is kept for status blocks. */
static uint32_t room(void)
{
	return opt.w.inflight < opt.w.depth ? opt.w.inflight : opt.w.depth - 1;
}

static bool signal_it(struct lane *l)
{
	return opt.w.signal_all || l->unsignaled_run + 1 >= room() / 2 || pick(l, 2);
}

static void request_start(struct run *r, struct lane *l, struct request *q, enum op op)
{
	uint32_t at = l->posted % opt.w.depth;

	memset(q, 0, sizeof(*q));
	q->record = &l->records[at];
	memset(q->record, 0, sizeof(*q->record));
	q->record->op = op;
	q->record->signaled = op == OP_STATUS || signal_it(l);
	q->buffer = r->layout.send + at * r->layout.buffer_stride;
	q->wr.wr_id = (uint64_t)l->index << 32 | l->posted;
	q->wr.opcode = opcode_of[op];
	q->wr.send_flags = q->record->signaled ? IBV_SEND_SIGNALED : 0;
	q->wr.wr.rdma.rkey = l->peer.rkey;
}

static void post_failed(struct run *r, const char *what, int err)
{
	fprintf(stderr, "integrity: post of %s: %s\n", what, strerror(err));
	__atomic_store_n(&r->abort_status, EXIT_ERROR_WC, __ATOMIC_RELEASE);
}

void post_begun(struct run *r, struct lane *l)
{
	int err = wr_api_complete(l);

	if (err)
		post_failed(r, "a batch", err);
}

static bool request_post(struct run *r, struct lane *l, struct request *q)
{
	struct ibv_send_wr *bad;
	int err;

	q->wr.sg_list = q->sges;
	q->wr.num_sge = pieces_sges(l->mr, &q->record->pieces, q->sges);
	err = opt.wr_api ? wr_api_post(l, &q->wr) : ibv_post_send(l->qp, &q->wr, &bad);
	if (err) {
		post_failed(r, op_name(q->record->op), err);
		return false;
	}
	/* A buffer that was sent inline may be used again at once: do so. */
	if (q->wr.send_flags & IBV_SEND_INLINE)
		for (int i = 0; i < q->wr.num_sge; i++)
			memset(l->memory + q->record->pieces.offset[i], 0x5a, q->sges[i].length);
	if (!outstanding(l))
		l->last_completion_ms = l->progress_ms = now_ms();
	l->unsignaled_run = q->record->signaled ? 0 : l->unsignaled_run + 1;
	l->n.posted[q->record->op]++;
	l->n.bytes_sent += q->record->length;
	l->posted++;
	return true;
}

/* Cuts the message in l->scratch into pieces of the buffer; short ones may go inline. */
static void load(struct lane *l, struct request *q, uint32_t bytes)
{
	q->record->length = bytes;
	pieces_cut(&l->random, &q->record->pieces, q->buffer, bytes);
	pieces_scatter(l->memory, &q->record->pieces, l->scratch);
	if (bytes && bytes <= INLINE_MAX && pick(l, 2))
		q->wr.send_flags |= IBV_SEND_INLINE;
}

static void prepare_message(struct run *r, struct lane *l, struct request *q)
{
	uint32_t seq = breaker_next(l, MESSAGES);
	uint32_t length = message_length(side_own(), l->index, MESSAGES, seq);
	uint64_t key = message_key(side_own(), l->index, MESSAGES, seq);

	if (length < 8 && q->record->op == OP_SEND) {
		/* No room for its number but as immediate data. */
		q->record->op = opt.w.ops & 1u << OP_SEND_IMM ? OP_SEND_IMM : OP_WRITE_IMM;
		q->wr.opcode = opcode_of[q->record->op];
	}
	message_build(l->scratch, key, seq, length);
	breaker_corrupt(l, MESSAGES, l->scratch, length);
	q->record->seq = seq;
	q->wr.imm_data = htonl(seq);
	q->wr.wr.rdma.remote_addr = l->peer.memory + r->layout.imm +
				    seq % r->layout.imm_slots * r->layout.imm_stride;
	if (!pick(l, 4))
		q->wr.send_flags |= IBV_SEND_SOLICITED;
	load(l, q, length);
}

static void prepare_slot(struct run *r, struct lane *l, struct request *q, enum stream s)
{
	uint32_t seq = breaker_next(l, s);
	uint32_t length = message_length(side_own(), l->index, s, seq) + 16;
	uint32_t end = r->layout.slots[s] + (seq % SLOTS + 1) * r->layout.slot_stride;

	slot_build(l->scratch, message_key(side_own(), l->index, s, seq), seq, length - 16);
	breaker_corrupt(l, s, l->scratch, length);
	q->record->seq = seq;
	q->wr.wr.rdma.remote_addr = l->peer.memory + end - length;
	load(l, q, length);
}

/* The buffer gets something that no answer looks like. */
static void poison(struct lane *l, struct request *q, uint32_t bytes)
{
	memset(l->scratch, 0xa5, bytes);
	pieces_scatter(l->memory, &q->record->pieces, l->scratch);
}

static void prepare_read(struct run *r, struct lane *l, struct request *q)
{
	uint32_t length = message_length(side_own(), l->index, READS, l->next[READS]++);

	q->record->length = length;
	q->record->read_offset = pick(l, (r->layout.read_bytes - length) / 8) * 8;
	q->wr.wr.rdma.remote_addr = l->peer.memory + r->layout.read + q->record->read_offset;
	pieces_cut(&l->random, &q->record->pieces, q->buffer, length);
	poison(l, q, length);
}

static void prepare_atomic(struct run *r, struct lane *l, struct request *q)
{
	struct record *record = q->record;
	bool add = record->op == OP_ADD;

	record->length = 8;
	record->pieces = (struct pieces){.n = 1, .offset = {q->buffer}, .length = {8}};
	poison(l, q, 8);
	q->wr.wr.atomic.rkey = l->peer.rkey;
	q->wr.wr.atomic.remote_addr = l->peer.memory + (add ? r->layout.add : r->layout.swap);
	if (add) {
		record->seq = breaker_next(l, ADDS);
		record->expected = record->seq;
		q->wr.wr.atomic.compare_add = 1;
		return;
	}
	/* One in four does not fit, changes nothing and has no number of its own. */
	if (opt.break_kind == BREAK_NOTHING && !pick(l, 4)) {
		record->seq = l->next[SWAPS];
		record->expected = swap_value(side_own(), l->index, record->seq);
		q->wr.wr.atomic.compare_add = ~record->expected;
		return;
	}
	record->seq = breaker_next(l, SWAPS);
	record->expected = swap_value(side_own(), l->index, record->seq);
	q->wr.wr.atomic.compare_add = record->expected;
	q->wr.wr.atomic.swap = swap_value(side_own(), l->index, record->seq + 1);
}

static enum op pick_op(struct lane *l)
{
	uint32_t nth = pick(l, __builtin_popcount(opt.w.ops));
	int op = 0;

	for (;; op++)
		if (opt.w.ops & 1u << op && !nth--)
			return (enum op)op;
}

static bool credit(const struct lane *l, enum stream s)
{
	if (s == WRITES)
		return breaker_ready(l, s, l->writes_free);
	if (s == MESSAGES && opt.w.credits)
		return l->next[MESSAGES] < l->credit;
	return s != FLAGS || breaker_ready(l, s, l->flags_free);
}

/* Posts one at random, if there is room for it here and there. */
bool post_data(struct run *r, struct lane *l)
{
	struct request q;
	enum op op = pick_op(l);

	if (outstanding(l) >= room() || !credit(l, stream_of[op]))
		return false;
	request_start(r, l, &q, op);
	switch (stream_of[op]) {
	case MESSAGES: prepare_message(r, l, &q); break;
	case WRITES:
	case FLAGS: prepare_slot(r, l, &q, stream_of[op]); break;
	case READS: prepare_read(r, l, &q); break;
	case ADDS:
	case SWAPS: prepare_atomic(r, l, &q); break;
	case STREAMS: break;
	}
	if (opt.w.fence && !pick(l, 16))
		q.wr.send_flags |= IBV_SEND_FENCE;
	l->data_posted++;
	return request_post(r, l, &q);
}

static enum op pick_message(struct lane *l)
{
	enum op op;

	do
		op = pick_op(l);
	while (stream_of[op] != MESSAGES);
	return op;
}

bool post_message(struct run *r, struct lane *l)
{
	struct request q;

	if (outstanding(l) >= room())
		return false;
	request_start(r, l, &q, pick_message(l));
	q.record->signaled = true;
	q.wr.send_flags |= IBV_SEND_SIGNALED;
	prepare_message(r, l, &q);
	if (!request_post(r, l, &q))
		return false;
	post_begun(r, l);
	return true;
}

/* The peer has at most half of the credit that it might have. */
static bool peer_is_short(const struct lane *l, const struct status_block *now)
{
	uint64_t left = l->told.granted - l->receives_completed;

	return now->granted != l->told.granted &&
	       left <= (now->granted - l->receives_completed) / 2;
}

/*
 * Tells the peer how many writes are announced and how many slots are free again: if half of the
 * slots have changed (so that the peer never has to wait), or it needs credit, or any at random, or
 * always.
 */
bool post_status(struct run *r, struct lane *l, bool always)
{
	struct status_block now = {.announced = breaker_writes(l),
				   .writes_free = l->slots[WRITES].next,
				   .flags_free = l->slots[FLAGS].next,
				   .granted = srq_granted(r, l),
				   .last = l->finished ? l->next[MESSAGES] + 1 : 0};
	uint32_t news = now.announced - l->told.announced + now.writes_free - l->told.writes_free +
			now.flags_free - l->told.flags_free + now.granted - l->told.granted;
	struct status_block encoded = {word_encode(now.announced), word_encode(now.writes_free),
				       word_encode(now.flags_free), word_encode(now.granted),
				       word_encode(now.last)};
	struct request q;

	if (outstanding(l) >= opt.w.depth)
		return false;
	if (!always && !peer_is_short(l, &now) && (!news || (news < SLOTS / 2 && pick(l, 64))))
		return false;
	request_start(r, l, &q, OP_STATUS);
	memcpy(l->memory + q.buffer, &encoded, sizeof(encoded));
	q.record->length = sizeof(encoded);
	q.record->pieces = (struct pieces){
		.n = 1, .offset = {q.buffer}, .length = {sizeof(encoded)}};
	q.wr.send_flags |= IBV_SEND_INLINE;
	q.wr.wr.rdma.remote_addr = l->peer.memory + r->layout.status;
	l->told = now;
	return request_post(r, l, &q);
}
