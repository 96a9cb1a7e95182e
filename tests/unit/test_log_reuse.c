/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* An entry of the send log is used again and again: nothing of the WR before it may be left,
 * whichever way the next one is logged (lib/core/wrlog.c, fast.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/conn_int.h"
#include "lib/core/fast.h"

#define ROWS(t) (sizeof(t) / sizeof(*(t)))

enum { CAP = 8, SGES = 3, INLINE = 64, MTU = 256 };

static struct shift_conn *c;

static int setup(void **state)
{
	struct shift_conn_cfg cfg = {
		.nonce = 1,
		.mtu = {MTU},
		.rails = 1,
		.sq_cap = CAP,
		.sq_sge_max = SGES,
		.inline_max = INLINE,
		.confirmed = true,
	};
	size_t size = shift_conn_size(&cfg);

	(void)state;
	c = shift_conn_init(aligned_alloc(64, size), size, &cfg, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(c);
	return 0;
}

/* What the WRs before have left in all entries. */
static void spoil_entries(int byte)
{
	const size_t slots = (size_t)c->sq.mask + 1;

	memset(c->sq.ring, byte, slots * sizeof(*c->sq.ring));
	memset(c->sq.side, byte, slots * c->sq.side_stride);
}

static const struct shift_sge sges[SGES] = {{0x1000, 300, 1}, {0x2000, 40, 2}, {0x3000, 1, 3}};
static const char payload[] = "of the program";
static const struct shift_sge inline_sges[2] = {{0, 3, 0}, {0, 5, 0}};

static const struct {
	uint8_t opcode, flags;
	uint32_t num_sge;
} kind[] = {
	{SHIFT_OP_WRITE, 0, 1},
	{SHIFT_OP_WRITE, SHIFT_F_SIGNALED, 3},
	{SHIFT_OP_WRITE, SHIFT_F_INLINE, 2},
	{SHIFT_OP_WRITE_IMM, SHIFT_F_SOLICITED, 2},
	{SHIFT_OP_SEND, SHIFT_F_SIGNALED, 0},
	{SHIFT_OP_SEND, SHIFT_F_INLINE, 0},
	{SHIFT_OP_SEND_IMM, SHIFT_F_FENCE, 1},
	{SHIFT_OP_SEND_INV, 0, 1},
	{SHIFT_OP_READ, SHIFT_F_SIGNALED, 1},
	{SHIFT_OP_CMP_SWAP, SHIFT_F_SIGNALED, 1},
	{SHIFT_OP_FETCH_ADD, 0, 1},
	{SHIFT_OP_LOCAL_INV, 0, 0},
};

static struct shift_wr wr_of(size_t i, struct shift_sge *sge)
{
	struct shift_wr wr = {
		.wr_id = 0x1122334455667788,
		.remote_addr = 0xabcdef0123456789,
		.sge = sges,
		.num_sge = kind[i].num_sge,
		.rkey = 0x87654321,
		.imm = 0x13572468,
		.opcode = kind[i].opcode,
		.flags = kind[i].flags,
	};

	if (wr.flags & SHIFT_F_INLINE) {
		memcpy(sge, inline_sges, sizeof(inline_sges));
		sge[0].addr = (uintptr_t)payload;
		sge[1].addr = (uintptr_t)payload + 3;
		wr.sge = sge;
	}
	if (shift_wr_atomic(wr.opcode)) {
		wr.compare_add = 0x0102030405060708;
		wr.swap = 0x1112131415161718;
		wr.imm = 0;
	}
	return wr;
}

static void check_repost(uint64_t i, const struct shift_wr *want)
{
	struct shift_sge sge[SGES];
	struct shift_wr wr;

	assert_int_equal(shift_sendlog_at(&c->sq, i)->state, SHIFT_WR_PENDING);
	shift_sendlog_repost(&c->sq, i, &wr, sge);
	assert_true(wr.wr_id == want->wr_id);
	assert_true(wr.remote_addr == want->remote_addr);
	assert_true(wr.compare_add == want->compare_add && wr.swap == want->swap);
	assert_int_equal(wr.rkey, want->rkey);
	assert_int_equal(wr.imm, want->imm);
	assert_int_equal(wr.opcode, want->opcode);
	assert_int_equal(wr.flags, want->flags);
	if (want->flags & SHIFT_F_INLINE) {
		assert_int_equal(wr.num_sge, want->num_sge ? 1 : 0);
		if (wr.num_sge) {
			assert_int_equal(sge[0].length, 8);
			assert_int_equal(sge[0].lkey, 0);
			assert_memory_equal((void *)(uintptr_t)sge[0].addr, payload, 8);
		}
		return;
	}
	assert_int_equal(wr.num_sge, want->num_sge);
	for (uint32_t k = 0; k < wr.num_sge; k++)
		assert_true(sge[k].addr == want->sge[k].addr &&
			    sge[k].length == want->sge[k].length &&
			    sge[k].lkey == want->sge[k].lkey);
}

static void one_by_one(void **state)
{
	for (size_t i = 0; i < ROWS(kind); i++) {
		struct shift_sge sge[SGES];
		struct shift_wr wr = wr_of(i, sge);
		int rail;

		for (int byte = 0; byte <= 0xff; byte += 0xff) {
			teardown(state);
			setup(state);
			spoil_entries(byte);
			assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
			check_repost(0, &wr);
			assert_true(shift_sendlog_at(&c->sq, 0)->cum == c->sq.cum);
		}
	}
}

static struct shift_raw_wr raw_of(const struct shift_wr *wr)
{
	struct shift_raw_wr raw = {.wr_id = wr->wr_id,
				   .sge = wr->sge,
				   .num_sge = wr->num_sge,
				   .opcode = wr->opcode,
				   .flags = wr->flags,
				   .imm = wr->imm,
				   .remote_addr = wr->remote_addr,
				   .rkey = wr->rkey};

	if (shift_wr_atomic(wr->opcode)) {
		raw.atomic.compare_add = wr->compare_add;
		raw.atomic.swap = wr->swap;
		raw.atomic.rkey = wr->rkey;
	}
	return raw;
}

static void in_runs(void **state)
{
	for (size_t i = 0; i < ROWS(kind); i++) {
		struct shift_sge sge[SGES];
		struct shift_wr wr = wr_of(i, sge);
		struct shift_raw_wr raw = raw_of(&wr);
		struct shift_run run = {0};
		int rail, logged = 0;

		teardown(state);
		setup(state);
		spoil_entries(0xff);
		assert_int_equal(shift_conn_post_send(c, &wr, &rail), 0);
		while (logged < CAP &&
		       (shift_fast_post(&run, &raw) || shift_fast_post_other(c, &run, &raw)))
			logged++;
		shift_fast_fold(c, &run);
		assert_int_equal(logged, wr.opcode <= SHIFT_OP_FETCH_ADD ? CAP : 0);
		assert_true(shift_conn_head(c) == (uint64_t)logged + 1);
		for (int k = 0; k <= logged; k++)
			check_repost((uint64_t)k, &wr);
	}
}

/* All kinds in one list. */
static void in_lists(void **state)
{
	struct shift_raw_wr raw[ROWS(kind)];
	struct shift_sge sge[ROWS(kind)][SGES];
	struct shift_wr wr[ROWS(kind)];

	for (int byte = 0; byte <= 0xff; byte += 0xff) {
		struct shift_run run = {0};
		uint32_t n = 0;

		teardown(state);
		setup(state);
		spoil_entries(byte);
		c->atomic = true;
		for (size_t i = 0; i < ROWS(kind); i++) {
			if (kind[i].opcode == SHIFT_OP_SEND_INV ||
			    kind[i].opcode == SHIFT_OP_LOCAL_INV)
				continue;
			wr[n] = wr_of(i, sge[n]);
			raw[n] = raw_of(&wr[n]);
			if (n)
				raw[n - 1].next = &raw[n];
			n++;
		}
		assert_null(shift_fast_post_list(c, &run, raw, n));
		shift_fast_fold(c, &run);
		assert_true(shift_conn_head(c) == n && n > CAP && n <= c->sq.mask);
		for (uint32_t i = 0; i < n; i++)
			check_repost(i, &wr[i]);
	}
}

/* Receives: the same. */
static void receives(void **state)
{
	static _Alignas(64) uint8_t memory[4096];
	struct shift_recvlog l;
	struct shift_recv_wr wr = {.wr_id = 77, .sge = sges};

	(void)state;
	for (wr.num_sge = 0; wr.num_sge <= SGES; wr.num_sge++) {
		const struct shift_recv_entry *e;

		assert_true(shift_recvlog_size(4, SGES) <= sizeof(memory));
		memset(memory, 0xff, sizeof(memory));
		shift_recvlog_init(&l, memory, 4, SGES);
		l.posted = l.done = 2;
		assert_int_equal(shift_recvlog_post(&l, &wr), 0);
		e = shift_recvlog_at(&l, 2);
		assert_int_equal(e->wr_id, 77);
		assert_int_equal(e->num_sge, wr.num_sge);
		if (wr.num_sge == 1)
			assert_memory_equal(&e->sge, sges, sizeof(sges[0]));
		if (wr.num_sge > 1)
			assert_memory_equal(l.side + (size_t)2 * SGES, sges,
					    wr.num_sge * sizeof(sges[0]));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_by_one),
		TEST(in_runs),
		TEST(in_lists),
		TEST(receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
