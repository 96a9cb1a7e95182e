/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Section 5, by its boundaries: room, secret signals, what is taken back, what is settled, and how
 * it is numbered anew (lib/core/wrlog.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/wrlog.h"

#define ROWS(t) (sizeof(t) / sizeof(*(t)))

enum { CAP = 5, MTU = 256 };

static _Alignas(64) uint8_t memory[1 << 16];
static struct shift_sendlog l;
static uint64_t sig_done;

static void new_log(uint32_t sge_max, uint32_t inline_max, uint32_t mtu)
{
	assert_true(shift_sendlog_size(CAP, sge_max, inline_max) <= sizeof(memory));
	shift_sendlog_init(&l, memory, &sig_done, CAP, sge_max, inline_max, mtu, false);
}

static int setup(void **state)
{
	(void)state;
	new_log(3, 100, MTU);
	return 0;
}

static int post(enum shift_opcode opcode, uint32_t length, unsigned int flags)
{
	static uint64_t id;
	struct shift_sge sge = {.addr = (uintptr_t)memory, .length = length};
	struct shift_wr wr = {.wr_id = id++,
			      .opcode = (uint8_t)opcode,
			      .flags = (uint8_t)flags,
			      .sge = &sge,
			      .num_sge = 1};

	return shift_sendlog_post(&l, &wr);
}

static struct shift_wr_entry *at(uint64_t i)
{
	return shift_sendlog_at(&l, i);
}

/* A log as a word: d done; upper case is signaled; w takes one packet, x three. */
static void post_log(const char *wrs)
{
	for (const char *wr = wrs; *wr; wr++) {
		const char kind = (char)(*wr | 0x20);

		assert_int_equal(post(SHIFT_OP_WRITE, kind == 'x' ? 3 * MTU : 1,
				      *wr & 0x20 ? 0 : SHIFT_F_SIGNALED),
				 0);
		if (kind == 'd')
			at(l.head - 1)->state = SHIFT_WR_DONE;
	}
}

/* --- room
 * ------------------------------------------------------------------------------------------ */

/* A list of one queue's length may be logged while as much is outstanding. */
static void there_is_room_for_two_queues(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 2 * CAP; i++)
		assert_ptr_not_equal(at(0), at(i));
	for (int i = 0; i < 2 * CAP; i++)
		assert_int_equal(post(SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
}

static void held_or_tracked_one_queue_is_what_fits(void **state)
{
	for (int held = 0; held < 2; held++) {
		setup(state);
		if (held)
			shift_sendlog_hold(&l);
		else
			shift_sendlog_track(&l);
		for (int i = 0; i < CAP; i++)
			assert_int_equal(post(SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
		assert_int_equal(post(SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), -ENOMEM);
		assert_true(l.head == CAP && l.cum == CAP && l.sig_posted == CAP);
		l.tail = l.ready = l.scan = 1; /* one was delivered */
		assert_int_equal(post(SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), 0);
		assert_int_equal(post(SHIFT_OP_WRITE, 1, SHIFT_F_SIGNALED), -ENOMEM);
	}
}

/* Beside each entry is room for its SGEs, or its inline payload, whichever is more. */
static void neighbours_do_not_share_their_room(void **state)
{
	static const struct {
		uint32_t sge_max, inline_max;
	} row[] = {{3, 0}, {3, 100}, {8, 100}, {0, 100}, {1, 16}, {2, 17}};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		uint8_t payload[2][100];
		struct shift_sge sge[8], out[8];
		struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = sge};

		new_log(row[i].sge_max, row[i].inline_max, MTU);
		for (int k = 0; k < 2; k++) { /* all that fits, inline */
			memset(payload[k], 'a' + k, sizeof(payload[k]));
			sge[0] = (struct shift_sge){.addr = (uintptr_t)payload[k],
						    .length = row[i].inline_max};
			wr.num_sge = 1;
			wr.flags = SHIFT_F_INLINE;
			assert_int_equal(shift_sendlog_post(&l, &wr), 0);
		}
		wr.num_sge = row[i].sge_max > 1 ? row[i].sge_max : 1;
		wr.flags = 0;
		for (int k = 0; k < 2; k++) {
			for (uint32_t s = 0; s < wr.num_sge; s++)
				sge[s] = (struct shift_sge){(uint64_t)k * 100 + s, 1, s};
			wr.sge = sge;
			assert_int_equal(shift_sendlog_post(&l, &wr), 0);
		}
		for (uint64_t k = 0; k < 2; k++) {
			shift_sendlog_repost(&l, k, &wr, out);
			if (row[i].inline_max)
				assert_memory_equal((void *)(uintptr_t)out[0].addr, payload[k],
						    row[i].inline_max);
			shift_sendlog_repost(&l, 2 + k, &wr, out);
			for (uint32_t s = 0; s < wr.num_sge; s++)
				assert_true(out[s].addr == k * 100 + s && out[s].lkey == s);
		}
		assert_true((uint8_t *)(l.side + ((size_t)l.mask + 1) * l.side_stride) <=
			    memory + shift_sendlog_size(CAP, row[i].sge_max, row[i].inline_max));
	}
}

static void what_cannot_be_logged_is_refused_at_the_boundary(void **state)
{
	struct shift_sge sge[4] = {{.addr = (uintptr_t)memory}};
	const struct {
		uint8_t opcode, flags;
		uint32_t num_sge, length;
		int err;
	} row[] = {
		{SHIFT_OP_SEND_INV, 0, 1, 1, 0},
		{SHIFT_OP_SEND_INV + 1, 0, 1, 1, -EINVAL},
		{SHIFT_OP_SEND, 0, 3, 1, 0},
		{SHIFT_OP_SEND, 0, 4, 1, -EINVAL},
		{SHIFT_OP_WRITE, 0, 1, 0x80000000, 0},
		{SHIFT_OP_WRITE, 0, 1, 0x80000001, -EINVAL},
		{SHIFT_OP_WRITE, SHIFT_F_INLINE, 1, 100, 0},
		{SHIFT_OP_WRITE, SHIFT_F_INLINE, 1, 101, -EINVAL},
		{SHIFT_OP_WRITE, SHIFT_F_INLINE, 4, 100, 0},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_wr wr = {.opcode = row[i].opcode,
				      .flags = row[i].flags,
				      .sge = sge,
				      .num_sge = row[i].num_sge};

		new_log(3, 100, 4096);
		sge[0].length = row[i].length;
		assert_int_equal(shift_sendlog_post(&l, &wr), row[i].err);
		assert_int_equal(l.head, !row[i].err);
	}
}

/* --- secret signals
 * ----------------------------------------------------------------------------------- */

/* A bit that the program sets and we do not know is not ours. */
static void the_program_cannot_set_the_secret_flag(void **state)
{
	(void)state;
	assert_int_equal(post(SHIFT_OP_WRITE, 1, SHIFT_F_SECRET), 0);
	assert_false(shift_sendlog_signaled(&l, at(0)));
	assert_int_equal(l.sig_posted, 0);
}

static void an_unsignaled_atomic_is_signaled_where_completions_are_matched(void **state)
{
	static const enum shift_opcode opcode[] = {SHIFT_OP_FETCH_ADD, SHIFT_OP_CMP_SWAP};

	for (size_t i = 0; i < ROWS(opcode); i++) {
		setup(state);
		assert_int_equal(post(opcode[i], 8, 0), 0);
		shift_sendlog_track(&l);
		assert_int_equal(post(opcode[i], 8, 0), 1);
		assert_int_equal(post(opcode[i], 8, SHIFT_F_SIGNALED), 0);
		assert_int_equal(post(SHIFT_OP_READ, 8, 0), 0);
		assert_false(shift_sendlog_visible(&l, at(1)));
		assert_true(shift_sendlog_signaled(&l, at(1)));
	}
}

/* 2^22 packets may be unsignaled, and not one more; it is matched until its completion is here. */
static void the_packet_too_many_is_signaled(void **state)
{
	for (uint32_t more = 0; more < 2; more++) {
		setup(state);
		assert_int_equal(post(SHIFT_OP_WRITE, MTU * ((1 << 22) - 1), 0), 0);
		assert_int_equal(post(SHIFT_OP_WRITE, MTU * (1 + more), 0), (int)more);
		assert_int_equal(l.tracked, more);
		if (more)
			assert_int_equal(l.special_end, 2);
	}
}

static void what_follows_while_tracked_is_watched_as_well(void **state)
{
	(void)state;
	post_log("W");
	shift_sendlog_track(&l);
	post_log("W");
	assert_int_equal(l.special_end, 1);
	shift_sendlog_track(&l);
	assert_int_equal(l.special_end, 2);
	assert_int_equal(l.tail, 0);
}

/* --- what the NIC did not take
 * ---------------------------------------------------------------------------- */

static void refused_wrs_are_not_sent(void **state)
{
	static const struct {
		const char *wrs;
		uint32_t n;
		uint64_t sent, cum_sent;
	} row[] = {
		{"xwx", 0, 3, 7}, {"xwx", 1, 2, 4}, {"xwx", 2, 1, 3}, {"xwx", 3, 0, 0},
		{"xwx", 9, 0, 0}, {"wdx", 1, 2, 2}, {"xdd", 1, 0, 0}, {"wxdw", 2, 1, 1},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		setup(state);
		post_log(row[i].wrs);
		shift_sendlog_hold(&l);
		shift_sendlog_unsend(&l, row[i].n);
		assert_int_equal(l.sent, row[i].sent);
		assert_int_equal(shift_sendlog_cum_sent(&l), row[i].cum_sent);
		assert_int_equal(l.head, strlen(row[i].wrs));
	}
}

/* Up to which packet the WRs are signaled, after the newest n were refused. */
static void a_refusal_gives_the_last_signal_back(void **state)
{
	static const struct {
		const char *wrs;
		uint32_t n;
		uint64_t cum_signal, cum;
	} row[] = {
		{"wXxW", 0, 8, 8}, {"wXxW", 1, 4, 7}, {"wXxW", 2, 4, 4},
		{"wXxW", 3, 0, 1}, {"XxwX", 1, 3, 7}, {"xxX", 1, 0, 6},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		setup(state);
		post_log(row[i].wrs);
		shift_sendlog_unpost(&l, row[i].n);
		assert_int_equal(l.cum_signal, row[i].cum_signal);
		assert_int_equal(l.cum, row[i].cum);
		assert_int_equal(l.head, strlen(row[i].wrs) - row[i].n);
		assert_int_equal(l.sent, l.head);
	}
}

/* --- completions and fences
 * ----------------------------------------------------------------------------------- */

static void check_done(const char *done)
{
	for (uint64_t i = 0; done[i]; i++)
		assert_int_equal(at(i)->state == SHIFT_WR_DONE, done[i] == 'd');
}

/* Of the oldest signaled WR that is not done; with it all before it. */
static void a_completion_is_of_the_oldest_signaled_wr(void **state)
{
	static const struct {
		const char *wrs, *done;
		int completions;
		uint64_t ready;
	} row[] = {
		{"wwWw", "dddp", 1, 3}, {"WWw", "dpp", 1, 1},	{"WWw", "ddp", 2, 2},
		{"WDWw", "dddp", 2, 3}, {"wDWw", "dddp", 1, 3}, {"wwww", "dddd", 1, 4},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		setup(state);
		post_log(row[i].wrs);
		l.tracked = true;
		for (int n = row[i].completions; n; n--)
			shift_sendlog_complete(&l);
		check_done(row[i].done);
		assert_int_equal(l.ready, row[i].ready);
	}
}

/* Flushes are of those that are not done, from the newest back. */
static void the_flush_count_bounds_what_is_done(void **state)
{
	static const struct {
		const char *wrs;
		uint64_t flushed;
		const char *done;
		uint64_t acked;
	} row[] = {
		{"wwww", 0, "dddd", 4}, {"wwww", 1, "dddp", 3}, {"wwww", 4, "pppp", 0},
		{"wwww", 9, "pppp", 0}, {"wwdw", 2, "dpdp", 1}, {"wdwd", 1, "ddpd", 2},
		{"wWww", 1, "dppp", 1}, {"wDww", 1, "dddp", 3},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		setup(state);
		post_log(row[i].wrs);
		l.tracked = true;
		assert_int_equal(shift_sendlog_settle(&l, row[i].flushed, true), row[i].acked);
		check_done(row[i].done);
		setup(state);
		post_log(row[i].wrs);
		l.tracked = true;
		assert_int_equal(shift_sendlog_settle(&l, row[i].flushed, false), 0);
	}
}

static void packets_before_a_wr_are_counted_to_the_next_pending_one(void **state)
{
	static const struct {
		const char *wrs;
		uint64_t i, cum;
	} row[] = {
		{"xwx", 0, 0}, {"xwx", 1, 3}, {"xwx", 2, 4}, {"xwx", 3, 7},
		{"xdx", 1, 4}, {"xdd", 1, 5}, {"xdd", 3, 5},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		setup(state);
		post_log(row[i].wrs);
		assert_int_equal(shift_sendlog_cum_before(&l, row[i].i), row[i].cum);
	}
}

static void a_new_epoch_numbers_what_is_pending(void **state)
{
	(void)state;
	post_log("xwx");
	at(1)->state = SHIFT_WR_DONE;
	at(2)->trim = MTU; /* two packets are left, one at the new MTU */
	shift_sendlog_hold(&l);
	assert_int_equal(shift_sendlog_renumber(&l, 2 * MTU, 3), 0);
	assert_int_equal(at(0)->cum, 2);
	assert_int_equal(at(1)->cum, 2);
	assert_int_equal(at(2)->cum, 3);
	assert_int_equal(l.cum, 3);
	assert_int_equal(shift_sendlog_cum_sent(&l), 3);
	assert_int_equal(l.sent, 3);
	assert_int_equal(l.mtu, 2 * MTU);
}

/* What is behind the end is held: neither numbered nor sent. */
static void behind_the_end_nothing_is_sent(void **state)
{
	(void)state;
	post_log("xxx");
	shift_sendlog_hold(&l);
	assert_int_equal(shift_sendlog_renumber(&l, MTU, 2), 0);
	assert_int_equal(l.sent, 2);
	assert_int_equal(shift_sendlog_cum_sent(&l), 6);
}

static void what_is_held_is_not_sent(void **state)
{
	(void)state;
	post_log("xw");
	shift_sendlog_hold(&l);
	post_log("xx");
	assert_int_equal(l.sent, 2);
	assert_int_equal(l.head, 4);
	assert_int_equal(shift_sendlog_cum_sent(&l), 4);
	assert_int_equal(l.cum, 10);
	assert_int_equal(shift_sendlog_cum_before(&l, 2), 4); /* nothing that was sent is pending */
	shift_sendlog_hold(&l);				      /* again: nothing */
	assert_int_equal(shift_sendlog_cum_sent(&l), 4);
}

/* The next completion is looked for behind what is done. */
static void the_search_begins_behind_what_is_done(void **state)
{
	(void)state;
	post_log("ddW");
	l.tracked = true;
	shift_sendlog_advance(&l);
	assert_int_equal(l.ready, 2);
	assert_int_equal(l.scan, 2);
	l.scan = 3;
	shift_sendlog_advance(&l);
	assert_int_equal(l.scan, 3);
}

static void a_secret_signal_is_posted_again_as_a_signal(void **state)
{
	struct shift_sge sge[3];
	struct shift_wr wr;

	(void)state;
	shift_sendlog_track(&l);
	assert_int_equal(post(SHIFT_OP_FETCH_ADD, 8, SHIFT_F_FENCE), 1);
	shift_sendlog_repost(&l, 0, &wr, sge);
	assert_int_equal(wr.flags, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
}

/* --- kinds of WRs
 * -------------------------------------------------------------------------------------------------
 */

static void each_opcode_has_its_kind(void **state)
{
	static const struct {
		enum shift_opcode opcode;
		bool two_sided, atomic;
		uint32_t packets; /* of 600 bytes at 256 */
	} row[] = {
		{SHIFT_OP_WRITE, false, false, 3},     {SHIFT_OP_WRITE_IMM, true, false, 3},
		{SHIFT_OP_SEND, true, false, 3},       {SHIFT_OP_SEND_IMM, true, false, 3},
		{SHIFT_OP_SEND_INV, true, false, 3},   {SHIFT_OP_READ, false, false, 3},
		{SHIFT_OP_CMP_SWAP, false, true, 1},   {SHIFT_OP_FETCH_ADD, false, true, 1},
		{SHIFT_OP_LOCAL_INV, false, false, 0}, {SHIFT_OP_BIND_MW, false, false, 0},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		setup(state);
		assert_int_equal(shift_wr_two_sided(row[i].opcode), row[i].two_sided);
		assert_int_equal(shift_wr_atomic(row[i].opcode), row[i].atomic);
		assert_int_equal(post(row[i].opcode, 600, 0), 0);
		assert_int_equal(l.cum, row[i].packets);
		assert_int_equal(l.two_posted, row[i].two_sided);
		at(0)->trim = 256; /* means bytes in a WRITE only */
		assert_int_equal(shift_wr_packets(at(0), MTU),
				 row[i].packets - (row[i].opcode == SHIFT_OP_WRITE));
	}
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(there_is_room_for_two_queues),
		T(held_or_tracked_one_queue_is_what_fits),
		T(neighbours_do_not_share_their_room),
		T(what_cannot_be_logged_is_refused_at_the_boundary),
		T(the_program_cannot_set_the_secret_flag),
		T(an_unsignaled_atomic_is_signaled_where_completions_are_matched),
		T(the_packet_too_many_is_signaled),
		T(what_follows_while_tracked_is_watched_as_well),
		T(refused_wrs_are_not_sent),
		T(a_refusal_gives_the_last_signal_back),
		T(a_completion_is_of_the_oldest_signaled_wr),
		T(the_flush_count_bounds_what_is_done),
		T(packets_before_a_wr_are_counted_to_the_next_pending_one),
		T(a_new_epoch_numbers_what_is_pending),
		T(behind_the_end_nothing_is_sent),
		T(what_is_held_is_not_sent),
		T(the_search_begins_behind_what_is_done),
		T(a_secret_signal_is_posted_again_as_a_signal),
		T(each_opcode_has_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
