/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lib/core/fast.h"
#include "lib/core/wrlog.h"

#define CAP 5 /* not a power of two */

static struct shift_sendlog log_;
static void *mem;
static uint64_t sig_done;

static int setup(void **state)
{
	size_t n = shift_sendlog_size(CAP, 3, 100);

	(void)state;
	mem = aligned_alloc(64, n);
	shift_sendlog_init(&log_, mem, &sig_done, CAP, 3, 100, 1000, false);
	return mem ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(mem);
	return 0;
}

static int post(uint64_t id, uint8_t opcode, uint32_t len, uint8_t flags)
{
	struct shift_sge sge = {.addr = 0x1000 * id, .length = len, .lkey = 7};
	struct shift_wr wr = {.wr_id = id, .opcode = opcode, .flags = flags, .sge = &sge};

	wr.num_sge = 1;
	wr.remote_addr = 0x100000 * id;
	return shift_sendlog_post(&log_, &wr);
}

static void wraps(void **state)
{
	(void)state;
	/* Untracked, as on rail 0: the provider says when the queue is full, not the log. */
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(post(i, SHIFT_OP_WRITE, 2500, SHIFT_F_SIGNALED), 0);
		if (i >= CAP - 1)
			++*log_.sig_done;
	}
	assert_true(shift_sendlog_done_by_signal(&log_) == 1000 - (CAP - 1));
	assert_true(shift_sendlog_at(&log_, 999)->wr_id == 999);
	assert_true(shift_sendlog_at(&log_, 999)->cum == 3000);
	assert_true(shift_sendlog_settle(&log_, CAP - 1, true) == 1000 - (CAP - 1));
	assert_true(shift_sendlog_cum_before(&log_, 996) == 3 * 996);
	/* Tracked: now the log refuses. */
	assert_int_equal(post(1000, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
	assert_int_equal(post(1001, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), -ENOMEM);
}

static void unsignaled_are_found_by_their_flushes(void **state)
{
	(void)state;
	post(0, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED);
	post(1, SHIFT_OP_WRITE, 1, 0);
	post(2, SHIFT_OP_WRITE, 1, 0);
	post(3, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED);
	*log_.sig_done = 1;
	assert_true(shift_sendlog_done_by_signal(&log_) == 1);
	/* Two flushes: WR 1 was acknowledged, though no completion said so. */
	assert_true(shift_sendlog_settle(&log_, 2, true) == 2);
}

static void a_flush_count_cannot_hide_a_signaled_wr(void **state)
{
	(void)state;
	post(0, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED);
	post(1, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED);
	post(2, SHIFT_OP_WRITE, 1, 0);
	*log_.sig_done = 1;
	assert_true(shift_sendlog_settle(&log_, 0, true) == 1);
}

static void an_inexact_fence_believes_signals_only(void **state)
{
	(void)state;
	post(0, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED);
	post(1, SHIFT_OP_WRITE, 1, 0);
	*log_.sig_done = 1;
	assert_true(shift_sendlog_settle(&log_, 0, false) == 1);
}

static void trims(void **state)
{
	struct shift_sge in[3] = {{0x1000, 600, 1}, {0x2000, 600, 2}, {0x3000, 1800, 3}}, out[3];
	struct shift_wr wr = {.wr_id = 9, .opcode = SHIFT_OP_WRITE, .sge = in, .num_sge = 3};

	(void)state;
	wr.remote_addr = 0x9000;
	wr.rkey = 5;
	wr.flags = SHIFT_F_SIGNALED;
	assert_int_equal(shift_sendlog_post(&log_, &wr), 0);
	assert_int_equal(log_.cum, 3);
	shift_sendlog_at(&log_, 0)->trim = 1000;
	shift_sendlog_repost(&log_, 0, &wr, out);
	assert_int_equal(wr.num_sge, 2);
	assert_true(wr.remote_addr == 0x9000 + 1000);
	assert_true(out[0].addr == 0x2000 + 400 && out[0].length == 200 && out[0].lkey == 2);
	assert_true(out[1].addr == 0x3000 && out[1].length == 1800);
	assert_true(wr.wr_id == 9 && wr.rkey == 5 && wr.flags == SHIFT_F_SIGNALED);
	shift_sendlog_renumber(&log_, 500, 1);
	assert_int_equal(log_.cum, 4); /* 2000 bytes are left */
	shift_sendlog_at(&log_, 0)->trim = 1200;
	shift_sendlog_repost(&log_, 0, &wr, out);
	assert_int_equal(wr.num_sge, 1);
	assert_true(out[0].addr == 0x3000);
}

static void inline_payload_is_copied(void **state)
{
	char a[] = "hello ", b[] = "world";
	struct shift_sge in[2] = {{(uintptr_t)a, 6, 0}, {(uintptr_t)b, 5, 0}}, out[3];
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = in, .num_sge = 2};

	(void)state;
	wr.flags = SHIFT_F_INLINE;
	assert_int_equal(shift_sendlog_post(&log_, &wr), 0);
	memset(a, 'x', 6);
	memset(b, 'x', 5);
	shift_sendlog_repost(&log_, 0, &wr, out);
	assert_int_equal(wr.num_sge, 1);
	assert_int_equal(out[0].length, 11);
	assert_memory_equal((void *)(uintptr_t)out[0].addr, "hello world", 11);
	in[0].length = 101;
	wr.sge = in;
	wr.num_sge = 1;
	assert_int_equal(shift_sendlog_post(&log_, &wr), -EINVAL);
}

static void empty_pieces_of_inline_payload(void **state)
{
	char a[] = "hello ", b[] = "world";
	struct shift_sge in[4] = {{0}, {(uintptr_t)a, 6, 0}, {0}, {(uintptr_t)b, 5, 0}}, out[3];
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = in, .num_sge = 4};

	(void)state;
	wr.flags = SHIFT_F_INLINE;
	assert_int_equal(shift_sendlog_post(&log_, &wr), 0);
	shift_sendlog_repost(&log_, 0, &wr, out);
	assert_int_equal(wr.num_sge, 1);
	assert_int_equal(out[0].length, 11);
	assert_memory_equal((void *)(uintptr_t)out[0].addr, "hello world", 11);
}

static void pieces_of_inline_payload_share_the_room(void **state)
{
	char bytes[100] = "";
	struct shift_sge in[2] = {{(uintptr_t)bytes, 60, 0}, {(uintptr_t)bytes, 40, 0}};
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = in, .num_sge = 2};

	(void)state;
	wr.flags = SHIFT_F_INLINE;
	assert_int_equal(shift_sendlog_post(&log_, &wr), 0);
	in[1].length++;
	assert_int_equal(shift_sendlog_post(&log_, &wr), -EINVAL);
}

static void atomics_keep_their_operands(void **state)
{
	struct shift_sge in = {0x1000, 8, 1}, out[3];
	struct shift_wr wr = {.opcode = SHIFT_OP_CMP_SWAP, .sge = &in, .num_sge = 1};

	(void)state;
	wr.compare_add = 0x1111222233334444u;
	wr.swap = 0x5555666677778888u;
	assert_int_equal(shift_sendlog_post(&log_, &wr), 0);
	shift_sendlog_repost(&log_, 0, &wr, out);
	assert_true(wr.compare_add == 0x1111222233334444u && wr.swap == 0x5555666677778888u);
	assert_int_equal(wr.imm, 0);
}

static void refuses_what_it_cannot_log(void **state)
{
	struct shift_sge in[4] = {{0}};
	struct shift_wr wr = {.opcode = 77, .sge = in};

	(void)state;
	assert_int_equal(shift_sendlog_post(&log_, &wr), -EINVAL);
	wr.opcode = SHIFT_OP_SEND;
	wr.num_sge = 4;
	assert_int_equal(shift_sendlog_post(&log_, &wr), -EINVAL);
	in[0].length = in[1].length = UINT32_MAX;
	wr.num_sge = 2;
	assert_int_equal(shift_sendlog_post(&log_, &wr), -EINVAL);
	assert_true(log_.head == 0 && log_.cum == 0);
}

/* No list is so long: it is not looked at. */
static void refuses_absurd_numbers_of_sges(void **state)
{
	static const struct shift_sge many[UINT8_MAX + 1];
	static const uint32_t numbers[] = {UINT8_MAX + 1, UINT32_MAX};

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct shift_wr wr = {.opcode = SHIFT_OP_SEND,
				      .flags = i & 1 ? SHIFT_F_INLINE : 0,
				      .sge = many,
				      .num_sge = numbers[i / 2]};

		assert_int_equal(shift_sendlog_post(&log_, &wr), -EINVAL);
	}
}

/* Twice the capacity can be in the log when the NIC breaks: there is no free entry then. */
static void what_a_full_log_refuses_changes_nothing(void **state)
{
	struct shift_wr_entry oldest;

	(void)state;
	shift_sendlog_init(&log_, mem, &sig_done, 8, 3, 100, 1000, false);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(post(i, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
	shift_sendlog_hold(&log_);
	oldest = *shift_sendlog_at(&log_, 0);
	assert_int_equal(post(16, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), -ENOMEM);
	assert_memory_equal(shift_sendlog_at(&log_, 0), &oldest, sizeof(oldest));
}

static void unpost_takes_back(void **state)
{
	(void)state;
	post(0, SHIFT_OP_SEND, 5000, SHIFT_F_SIGNALED);
	post(1, SHIFT_OP_SEND, 5000, SHIFT_F_SIGNALED);
	shift_sendlog_unpost(&log_, 1);
	assert_true(log_.head == 1 && log_.sent == 1 && log_.cum == 5);
	assert_true(log_.sig_posted == 1 && log_.two_posted == 1);
}

/* A refused signaled WR signals nothing: the run of unsignaled packets goes on. */
static void unpost_does_not_end_an_unsignaled_run(void **state)
{
	static _Alignas(64) uint8_t large[65536];
	struct shift_sendlog l;
	struct shift_sge sge = {.length = 1u << 30};
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = &sge, .num_sge = 1};

	(void)state;
	shift_sendlog_init(&l, large, &sig_done, 16, 1, 0, 256, false);
	assert_int_equal(shift_sendlog_post(&l, &wr), 0); /* 2^22 packets: not more than that */
	wr.flags = SHIFT_F_SIGNALED;
	assert_int_equal(shift_sendlog_post(&l, &wr), 0);
	shift_sendlog_unpost(&l, 1);
	wr.flags = 0;
	assert_int_equal(shift_sendlog_post(&l, &wr), 1);
}

/* 2^22 packets without a signaled WR: one is signaled in secret, and its completion swallowed. */
static void signals_in_secret(void **state)
{
	uint64_t i = 0;

	(void)state;
	shift_sendlog_init(&log_, mem, &sig_done, CAP, 3, 100, 256, false);
	while (!log_.tracked && i < 10)
		post(i++, SHIFT_OP_WRITE, 0x20000000, 0); /* 2^21 packets each */
	assert_true(log_.tracked && i == 3);
	assert_true(shift_sendlog_at(&log_, 2)->flags & SHIFT_F_SECRET);
	assert_false(shift_sendlog_visible(&log_, shift_sendlog_at(&log_, 2)));
	shift_sendlog_complete(&log_);
	assert_true(log_.ready == 3);
}

#define PACKETS_2_21 0x20000000 /* bytes, at a path MTU of 256 */

static bool is_secret(uint64_t i)
{
	return shift_sendlog_at(&log_, i)->flags & SHIFT_F_SECRET;
}

/* Held WRs are posted without being numbered anew, if a planned switch is abandoned. */
static void held_wrs_are_signaled_in_secret_too(void **state)
{
	(void)state;
	shift_sendlog_init(&log_, mem, &sig_done, CAP, 3, 100, 256, false);
	shift_sendlog_hold(&log_);
	assert_int_equal(post(0, SHIFT_OP_WRITE, PACKETS_2_21, 0), 0);
	assert_int_equal(post(1, SHIFT_OP_WRITE, PACKETS_2_21, 0), 0);
	assert_int_equal(post(2, SHIFT_OP_WRITE, PACKETS_2_21, 0), 1);
	assert_int_equal(log_.sig_posted, 1);
}

/* The path MTU of the new rail is smaller: there are more packets than when they were logged. */
static void renumbering_signals_in_secret(void **state)
{
	(void)state;
	shift_sendlog_init(&log_, mem, &sig_done, CAP, 3, 100, 1024, false);
	shift_sendlog_track(&log_);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(
			post(i, SHIFT_OP_WRITE, PACKETS_2_21, i == 3 ? SHIFT_F_SIGNALED : 0), 0);
	assert_int_equal(shift_sendlog_renumber(&log_, 256, 5), 1);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(is_secret(i), i == 2);
	assert_int_equal(log_.sig_posted, 2);
	assert_int_equal(log_.cum, 5u << 21);
	assert_int_equal(log_.cum_signal, 4u << 21);
	assert_int_equal(shift_sendlog_renumber(&log_, 256, 5), 0); /* it is signaled already */
}

/* A WR that is finished has no completion in the new epoch. */
static void a_finished_wr_signals_nothing_when_renumbered(void **state)
{
	(void)state;
	shift_sendlog_init(&log_, mem, &sig_done, CAP, 3, 100, 256, false);
	shift_sendlog_track(&log_);
	assert_int_equal(post(0, SHIFT_OP_READ, PACKETS_2_21, 0), 0);
	assert_int_equal(post(1, SHIFT_OP_WRITE, PACKETS_2_21, 0), 0);
	assert_int_equal(post(2, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
	shift_sendlog_at(&log_, 2)->state = SHIFT_WR_DONE;
	assert_int_equal(shift_sendlog_renumber(&log_, 256, 3), 0);
	assert_int_equal(log_.cum_signal, 0);
	assert_int_equal(post(3, SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
	shift_sendlog_unpost(&log_, 1);
	assert_int_equal(log_.cum_signal, 0);
	assert_int_equal(post(3, SHIFT_OP_WRITE, 1, 0), 1);
}

/* What was unsignaled before the switch counts with what is posted after it. */
static void the_unsignaled_run_goes_on_after_renumbering(void **state)
{
	(void)state;
	shift_sendlog_init(&log_, mem, &sig_done, CAP, 3, 100, 256, false);
	shift_sendlog_track(&log_);
	assert_int_equal(post(0, SHIFT_OP_WRITE, 2 * PACKETS_2_21, 0), 0);
	assert_int_equal(shift_sendlog_renumber(&log_, 256, 1), 0);
	assert_int_equal(post(1, SHIFT_OP_WRITE, 1, 0), 1);
}

static void receives(void **state)
{
	struct shift_sge sge[2] = {{1, 2, 3}, {4, 5, 6}};
	struct shift_recv_wr wr = {.sge = sge, .num_sge = 2};
	struct shift_recvlog l;
	void *m = aligned_alloc(64, shift_recvlog_size(3, 2));

	(void)state;
	shift_recvlog_init(&l, m, 3, 2);
	for (wr.wr_id = 0; wr.wr_id < 100; wr.wr_id++) {
		assert_int_equal(shift_recvlog_post(&l, &wr), 0);
		assert_true(shift_recvlog_at(&l, l.done)->wr_id == l.done);
		if (wr.wr_id >= 2)
			l.done++;
	}
	assert_int_equal(shift_recvlog_post(&l, &wr), 0);
	assert_int_equal(shift_recvlog_post(&l, &wr), -ENOMEM);
	wr.num_sge = 3;
	assert_int_equal(shift_recvlog_post(&l, &wr), -EINVAL);
	/* With an SRQ receives complete that are not of this log. */
	shift_recvlog_init(&l, m, 0, 0);
	wr.num_sge = 1;
	l.done = 5;
	assert_int_equal(shift_recvlog_post(&l, &wr), -ENOMEM);
	free(m);
}

/* As posts do: the fast way, and if it cannot, the other. */
static void post_recv(struct shift_recvlog *l, uint64_t wr_id)
{
	const struct shift_sge sge = {1, 2, 3};
	const struct shift_recv_wr wr = {.wr_id = wr_id, .sge = &sge, .num_sge = 1};

	if (!shift_fast_post_recv(l, wr_id, &sge, 1))
		assert_int_equal(shift_recvlog_post(l, &wr), 0);
	assert_int_equal(shift_recvlog_at(l, l->posted - 1)->wr_id, wr_id);
}

/* The next one takes the place of one that the NIC has refused. */
static void a_receive_is_taken_back(void **state)
{
	struct shift_recvlog l;
	void *m = aligned_alloc(64, shift_recvlog_size(8, 1));

	(void)state;
	shift_recvlog_init(&l, m, 8, 1);
	for (uint64_t i = 0; i < 6; i++)
		post_recv(&l, i);
	shift_recvlog_unpost(&l, 2);
	for (uint64_t i = 10; i < 14; i++)
		post_recv(&l, i);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(shift_recvlog_at(&l, i)->wr_id, i < 4 ? i : i + 6);
	free(m);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(wraps),
		T(unsignaled_are_found_by_their_flushes),
		T(a_receive_is_taken_back),
		T(a_flush_count_cannot_hide_a_signaled_wr),
		T(an_inexact_fence_believes_signals_only),
		T(trims),
		T(inline_payload_is_copied),
		T(empty_pieces_of_inline_payload),
		T(pieces_of_inline_payload_share_the_room),
		T(atomics_keep_their_operands),
		T(refuses_what_it_cannot_log),
		T(refuses_absurd_numbers_of_sges),
		T(what_a_full_log_refuses_changes_nothing),
		T(unpost_takes_back),
		T(unpost_does_not_end_an_unsignaled_run),
		T(signals_in_secret),
		T(held_wrs_are_signaled_in_secret_too),
		T(renumbering_signals_in_secret),
		T(a_finished_wr_signals_nothing_when_renumbered),
		T(the_unsignaled_run_goes_on_after_renumbering),
		T(receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
