/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Receives: posted late at random, and what comes in checked. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clients/integrity/integrity.h"

static void post_one(struct run *r, struct lane *l)
{
	uint32_t i = l->receives_posted % opt.w.receives;
	struct ibv_sge sges[PIECES_MAX];
	struct ibv_recv_wr *bad, wr = {.sg_list = sges};
	int err;

	pieces_cut(&l->random, &l->receive_pieces[i],
		   r->layout.receive + i * r->layout.buffer_stride, opt.w.size);
	wr.num_sge = pieces_sges(l->mr, &l->receive_pieces[i], sges);
	wr.wr_id = UINT64_C(1) << 63 | (uint64_t)l->index << 32 | l->receives_posted;
	err = ibv_post_recv(l->qp, &wr, &bad);
	if (err) {
		fprintf(stderr, "integrity: post_recv: %s\n", strerror(err));
		exit(EXIT_SETUP);
	}
	l->receives_posted++;
}

/* All that are free; or none, some or all of them, and sometimes none for a while. */
void receives_post(struct run *r, struct lane *l, bool all)
{
	uint32_t n = opt.w.receives - (l->receives_posted - l->receives_completed);

	if (l->srq) {
		srq_post(r, l->srq, all);
		return;
	}
	if (!n)
		return;
	if (!all && !opt.w.prompt_receives) {
		if (pick(l, 8) || now_ms() < l->receives_held_until_ms)
			return;
		if (!pick(l, 500)) {
			l->receives_held_until_ms = now_ms() + opt.w.hold_ms;
			return;
		}
		n = 1 + pick(l, n);
	}
	while (n--)
		post_one(r, l);
}

/* The number of a message: immediate data, else its first word; without either, the next. */
static uint32_t message_number(struct lane *l, const struct ibv_wc *wc, const uint8_t *message)
{
	uint32_t seq;
	uint64_t word;

	if (wc->wc_flags & IBV_WC_WITH_IMM)
		return ntohl(wc->imm_data);
	memcpy(&word, message, 8);
	if (wc->byte_len >= 8 && word_decode(word, &seq))
		return seq;
	l->n.bad_bytes += 8;
	return l->messages.next;
}

static void check_message(struct lane *l, uint32_t seq, const uint8_t *message, uint32_t length)
{
	uint32_t right = message_length(!side_own(), l->index, MESSAGES, seq);
	uint32_t shorter = length < right ? length : right;

	message_build(l->expected, message_key(!side_own(), l->index, MESSAGES, seq), seq, right);
	l->n.bad_bytes += bytes_bad(l, "message", seq, message, l->expected, shorter);
	l->n.bad_bytes += length + right - 2 * shorter;
}

/* Its data is in the buffer of the receive, of which l->scratch is a copy; or in the lane's memory.
 */
static void check_receive(struct run *r, struct lane *l, const struct ibv_wc *wc, uint32_t length)
{
	const uint8_t *message = l->scratch;
	uint32_t seq = message_number(l, wc, l->scratch);

	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		message = l->memory + r->layout.imm +
			  seq % r->layout.imm_slots * r->layout.imm_stride;
	else if (wc->opcode != IBV_WC_RECV)
		l->n.bad_completions++;
	check_message(l, seq, message, length);
	sequence_note(&l->messages, seq, &l->n);
	l->n.receives++;
	l->receives_completed++;
}

/* One whose receive is not posted is not looked at: nobody knows where it is. */
static void receive_from_srq(struct run *r, struct lane *l, const struct ibv_wc *wc)
{
	struct srq_buffer *b = srq_take(l->srq, wc->wr_id);
	uint32_t length = wc->byte_len <= opt.w.size ? wc->byte_len : opt.w.size;

	if (!b)
		return;
	pieces_gather(l->srq->memory, &b->pieces, l->scratch, length);
	check_receive(r, l, wc, length);
	srq_put_back(l->srq, b);
}

void receive(struct run *r, struct lane *l, const struct ibv_wc *wc)
{
	const struct pieces *p = &l->receive_pieces[l->receives_completed % opt.w.receives];
	uint32_t length = wc->byte_len <= opt.w.size ? wc->byte_len : opt.w.size;

	if (l->srq) {
		receive_from_srq(r, l, wc);
		return;
	}
	if ((uint32_t)wc->wr_id != l->receives_completed) {
		l->n.bad_completions++;
		if (l->receives_posted - l->receives_completed == 0)
			return;
	}
	pieces_gather(l->memory, p, l->scratch, length);
	check_receive(r, l, wc, length);
}
