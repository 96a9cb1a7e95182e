/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What becomes of each WR at COMMIT, by the peer's report (lib/core/replay.c; rules 10 to 13). */
#include <string.h>

#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(void)
{
	return w.h[0].c;
}

/* --- a log as a word: one letter each
 * --------------------------------------------------------------- Capitals take three packets at
 * the path MTU of rail 0. Only the last WR is signaled. */

static enum shift_opcode opcode_of(char wr)
{
	switch (wr | 0x20) {
	case 'w': return SHIFT_OP_WRITE;
	case 'i': return SHIFT_OP_WRITE_IMM;
	case 's': return SHIFT_OP_SEND;
	case 'm': return SHIFT_OP_SEND_IMM;
	case 'v': return SHIFT_OP_SEND_INV;
	case 'r': return SHIFT_OP_READ;
	case 'c': return SHIFT_OP_CMP_SWAP;
	case 'a': return SHIFT_OP_FETCH_ADD;
	case 'l': return SHIFT_OP_LOCAL_INV;
	}
	fail_msg("no WR '%c'", wr);
	return SHIFT_OP_BIND_MW;
}

/* The model's peer has nothing of what the report will say, and shall not complain. */
static void believe_report(void)
{
	for (uint64_t i = 0; i < w.h[0].posted; i++)
		w.h[0].placed[i] = w.h[0].length[i];
}

static void post_log(const char *wrs)
{
	for (const char *wr = wrs; *wr; wr++)
		assert_true(w_post(&w, 0, opcode_of(*wr), *wr & 0x20 ? 8 : 3000, !wr[1]));
	believe_report();
}

/*
 * What became of it: d done, p posted again whole, t without what was placed, s posted again and
 * signaled in secret, x lost, h held: not posted at all.
 */
static char fate_of(uint64_t i)
{
	const struct shift_wr_entry *e = shift_sendlog_at(&conn()->sq, i);

	if (e->state == SHIFT_WR_DONE)
		return 'd';
	if (e->state == SHIFT_WR_LOST)
		return 'x';
	if (i >= conn()->sq.sent)
		return 'h';
	if (e->opcode == SHIFT_OP_WRITE && e->trim)
		return 't';
	return e->flags & SHIFT_F_SECRET ? 's' : 'p';
}

static void check_fates(const char *wrs, const char *fates)
{
	char got[32] = "";

	for (size_t i = 0; i < strlen(fates); i++)
		got[i] = fate_of(i);
	if (strcmp(got, fates))
		fail_msg("%s: %s, not %s", wrs, got, fates);
}

/* Host 0 has left rail 0 and hears this. */
static void report(const struct shift_msg *m, uint32_t status)
{
	struct shift_msg full = *m;

	if (status)
		give_cqe(0, &(struct shift_cqe){.status = status});
	else
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, conn()->r);
	conn()->flushed = 0; /* the fence counts them */
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	full.type = SHIFT_MSG_SWITCH;
	full.src_nonce = 101;
	full.dst_nonce = 100;
	full.src_conn = 11;
	full.dst_conn = 10;
	full.epoch = conn()->e;
	full.rail = conn()->r;
	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &full, .rail = full.rail});
}

/* In this epoch the peer has executed k packets and consumed so many receives. */
static struct shift_msg executed(int k, uint64_t receives)
{
	return (struct shift_msg){.rep_psn = (0x10 + (uint32_t)k) & 0xffffff,
				  .recv_cum = receives,
				  .recv_valid = true,
				  .recv_avail = 1,
				  .fence = SHIFT_FENCE_SURE};
}

static void anew(void **state)
{
	teardown(state);
	setup(state);
}

/* --- rules 11, 13: by rq_psn
 * -------------------------------------------------------------------------- */

static void the_psn_sorts_the_log(void **state)
{
	static const struct {
		const char *wrs;
		int k;
		uint64_t receives;
		const char *fates;
	} row[] = {
		{"www", 0, 0, "ppp"}, {"www", 1, 0, "dpp"},   {"www", 2, 0, "ddp"},
		{"www", 3, 0, "ddd"}, {"W", 0, 0, "p"},	      {"W", 1, 0, "t"},
		{"W", 2, 0, "t"},     {"W", 3, 0, "d"},	      {"wWw", 1, 0, "dpp"},
		{"wWw", 2, 0, "dtp"}, {"wWw", 3, 0, "dtp"},   {"wWw", 4, 0, "ddp"},
		{"S", 0, 0, "p"},     {"S", 1, 0, "p"},	      {"S", 2, 0, "p"},
		{"S", 3, 1, "d"},     {"I", 1, 0, "p"},	      {"I", 2, 0, "p"},
		{"I", 3, 1, "d"},     {"MV", 3, 1, "dp"},     {"MV", 5, 1, "dp"},
		{"MV", 6, 2, "dd"},   {"swim", 4, 3, "dddd"}, {"vsv", 2, 2, "ddp"},
		{"R", 0, 0, "p"},     {"R", 1, 0, "p"},	      {"R", 3, 0, "p"},
		{"rw", 1, 0, "sp"},   {"rw", 2, 0, "sd"},     {"rsr", 3, 1, "sdp"},
		{"l", 0, 0, "p"},     {"lw", 0, 0, "pp"},     {"lw", 1, 0, "dd"},
		{"wl", 1, 0, "dp"},   {"wll", 1, 0, "dpp"},   {"wlw", 1, 0, "dpp"},
		{"wlw", 2, 0, "ddd"}, {"wlW", 2, 0, "ddt"},   {"wlS", 2, 0, "ddp"},
		{"aw", 0, 0, "pp"},   {"wcw", 1, 0, "dpp"},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(row[i].k, row[i].receives);

		anew(state);
		post_log(row[i].wrs);
		report(&m, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		check_fates(row[i].wrs, row[i].fates);
	}
}

static void a_write_goes_on_at_the_first_byte_that_is_missing(void **state)
{
	(void)state;
	for (int k = 1; k <= 2; k++) {
		struct shift_msg m = executed(k, 0);

		anew(state);
		post_log("W");
		report(&m, 0);
		assert_int_equal(shift_sendlog_at(&conn()->sq, 0)->trim, 1024 * k);
		assert_int_equal(w.h[0].qp[1].sq[0].length, 3000 - 1024 * k);
		assert_int_equal(w.h[0].qp[1].sq[0].offset, 1024 * k);
		assert_int_equal(stats(0)->trimmed, 1);
		assert_int_equal(stats(0)->replayed, 1);
	}
}

/* The second cut counts from the first, in packets of the rail of then. */
static void a_write_is_cut_twice(void **state)
{
	struct shift_msg m = executed(1, 0);

	(void)state;
	post_log("W");
	report(&m, 0);
	assert_int_equal(conn()->sq.mtu, 512);
	m.rep_epoch = 2;
	m.rep_psn = (conn()->tx_psn + 2) & 0xffffff;
	report(&m, 0);
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(shift_sendlog_at(&conn()->sq, 0)->trim, 1024 + 2 * 512);
	assert_int_equal(w.h[0].qp[2].sq[0].offset, 1024 + 2 * 512);
	assert_int_equal(w.h[0].qp[2].sq[0].length, 3000 - 1024 - 2 * 512);
	assert_int_equal(stats(0)->trimmed, 2);
}

/* Its receive was not consumed. */
static void only_a_write_is_trimmed(void **state)
{
	for (const char *wr = "WSMVIR"; *wr; wr++) {
		const char log[] = {*wr, 0};
		struct shift_msg m = executed(2, 0);

		anew(state);
		post_log(log);
		report(&m, 0);
		assert_int_equal(stats(0)->trimmed, *wr == 'W');
		assert_int_equal(stats(0)->replayed_partial, *wr != 'W' && *wr != 'R');
		assert_int_equal(w.h[0].qp[1].sq[0].length, *wr == 'W' ? 3000 - 2048 : 3000);
	}
}

/* Rule 10: in lastc, which is newer, it executed nothing. */
static void a_report_of_an_older_epoch_means_nothing_of_this_one(void **state)
{
	struct shift_msg m = executed(1, 0);

	(void)state;
	post_log("ww");
	report(&m, 0);
	check_fates("ww", "dp");
	w_post(&w, 0, SHIFT_OP_WRITE, 8, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 8, true);
	believe_report();
	report(&m, 0);
	assert_int_equal(w_view(&w, 0).e, 4);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	check_fates("wwww", "dppp");
}

/* --- contradictions
 * ------------------------------------------------------------------------------------ */

static void a_contradiction_ends_the_connection(void **state)
{
	static const struct {
		const char *wrs;
		int acked, k;
		uint64_t receives;
		bool no_count;
		uint32_t rep_epoch;
		enum shift_fence fence;
		enum shift_reason reason; /* COMMIT: it is none */
	} row[] = {
		{"ww", 0, 2, 0, .reason = SHIFT_R_COMMIT},
		{"ww", 0, 3, 0, .reason = SHIFT_R_PROOF_FAILED},
		{"ww", 0, -1, 0, .reason = SHIFT_R_PROOF_FAILED},
		{"wwww", 2, 2, 0, .reason = SHIFT_R_COMMIT},
		{"wwww", 2, 4, 0, .reason = SHIFT_R_COMMIT},
		{"wwww", 2, 1, 0, .reason = SHIFT_R_PROOF_FAILED},
		{"wwww", 2, 0, 0, .reason = SHIFT_R_PROOF_FAILED},
		{"ss", 0, 1, 1, .reason = SHIFT_R_COMMIT},
		{"ss", 0, 1, 0, .reason = SHIFT_R_PROOF_FAILED},
		{"ss", 0, 1, 2, .reason = SHIFT_R_PROOF_FAILED},
		{"ss", 0, 1, 9, .no_count = true, .reason = SHIFT_R_COMMIT},
		{"ssss", 2, 3, 3, .reason = SHIFT_R_COMMIT},
		{"ssss", 2, 3, 2, .reason = SHIFT_R_PROOF_FAILED},
		{"ww", 0, 0, 0, .rep_epoch = 1, .reason = SHIFT_R_PROTOCOL},
		{"wsws", 0, 0, 2, .fence = SHIFT_FENCE_UNSURE, .reason = SHIFT_R_COMMIT},
		{"wsws", 0, 0, 3, .fence = SHIFT_FENCE_UNSURE, .reason = SHIFT_R_PROOF_FAILED},
		{"ssss", 2, 0, 2, .fence = SHIFT_FENCE_UNSURE, .reason = SHIFT_R_COMMIT},
		{"ssss", 2, 0, 1, .fence = SHIFT_FENCE_UNSURE, .reason = SHIFT_R_PROOF_FAILED},
		{"ww", 0, 0, 9, .no_count = true, .fence = SHIFT_FENCE_UNSURE,
		 .reason = SHIFT_R_COMMIT},
		{"wws", 0, 0, 0, .no_count = true, .fence = SHIFT_FENCE_UNSURE,
		 .reason = SHIFT_R_PROOF_FAILED},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(row[i].k, row[i].receives);

		anew(state);
		m.recv_valid = !row[i].no_count;
		m.rep_epoch = row[i].rep_epoch;
		m.fence = (uint8_t)row[i].fence;
		for (const char *wr = row[i].wrs; *wr; wr++)
			w_post(&w, 0, opcode_of(*wr), 8, true);
		for (int n = row[i].acked; n; n--) {
			pass_packets(0, 0, 1);
			assert_true(w_ack(&w, 0, 0));
		}
		take_cqes(0);
		believe_report();
		report(&m, 0);
		if (row[i].reason == SHIFT_R_COMMIT) {
			if (w_state(&w, 0) != SHIFT_ST_ACTIVE)
				fail_msg("row %zu: no commit", i);
			continue;
		}
		if (w_state(&w, 0) == SHIFT_ST_ACTIVE)
			fail_msg("row %zu: committed", i);
		assert_int_equal(conn()->end_reason, row[i].reason);
		assert_int_equal(stats(0)->proved, 0);
		assert_int_equal(w.h[0].qp[1].head, 0); /* nothing was posted again */
	}
}

/* 7.37: the newest executed one with the flag counts. */
static void the_newest_fence_proves_all_reads_before_it(void **state)
{
	struct shift_msg m = executed(4, 2);

	(void)state;
	for (int i = 0; i < 2; i++) {
		w_post_flags(&w, 0, SHIFT_OP_READ, 8, 0);
		w_post_flags(&w, 0, SHIFT_OP_SEND, 8, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	}
	believe_report();
	report(&m, 0);
	check_fates("rsrs", "dddd");
	assert_int_equal(stats(0)->reissued_reads, 0);
}

/* It was begun before the SEND, and not before the READ was complete. */
static void a_local_operation_with_the_flag_proves_a_read(void **state)
{
	struct shift_msg m = executed(2, 1);

	(void)state;
	w_post_flags(&w, 0, SHIFT_OP_READ, 8, 0);
	w_post_flags(&w, 0, SHIFT_OP_LOCAL_INV, 0, SHIFT_F_FENCE);
	w_post(&w, 0, SHIFT_OP_SEND, 8, true);
	believe_report();
	report(&m, 0);
	check_fates("rls", "ddd");
}

/* --- rule 11: without a live rq_psn
 * ------------------------------------------------------------------------ */

static void the_receive_count_sorts_the_log_in_doubt(void **state)
{
	static const struct {
		const char *wrs;
		uint64_t receives;
		const char *fates;
		uint64_t maybe_twice;
	} row[] = {
		{"wsws", 0, "pppp", 1}, {"wsws", 1, "ddpp", 1}, {"wsws", 2, "dddd", 0},
		{"wwsw", 0, "pppp", 2}, {"swww", 1, "dppp", 3}, {"sWrs", 1, "dppp", 1},
		{"iv", 1, "dp", 0},	{"iv", 2, "dd", 0},	{"www", 0, "ppp", 3},
		{"ssa", 1, "dpp", 0},	{"sswa", 1, "dppp", 0},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(77, row[i].receives);

		anew(state);
		w.at_least_once_ok = true;
		m.fence = SHIFT_FENCE_UNSURE;
		post_log(row[i].wrs);
		report(&m, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		check_fates(row[i].wrs, row[i].fates);
		assert_int_equal(stats(0)->maybe_twice, row[i].maybe_twice);
		assert_int_equal(stats(0)->at_least_once, 1);
		assert_int_equal(stats(0)->trimmed, 0);
	}
}

/* 7.18: one that may have been executed must not be executed again. */
static void an_atomic_in_doubt_is_lost(void **state)
{
	static const struct {
		const char *wrs;
		uint64_t receives;
		const char *fates;
	} row[] = {
		{"a", 0, "x"},	     {"wac", 0, "pxh"},	  {"sa", 1, "dx"},
		{"swas", 1, "dpxh"}, {"sacs", 1, "dxhh"}, {"as", 1, "xd"},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(0, row[i].receives);

		anew(state);
		w.at_least_once_ok = true;
		m.fence = SHIFT_FENCE_UNSURE;
		post_log(row[i].wrs);
		report(&m, 0);
		assert_int_equal(stats(0)->lost_atomics, 1);
		for (size_t k = 0; row[i].fates[k]; k++)
			if (row[i].fates[k] == 'x')
				assert_int_equal(fate_of(k), 'x');
		assert_int_equal(conn()->sq.lost, strchr(row[i].fates, 'x') - row[i].fates);
	}
}

/* --- a lost atomic
 * ------------------------------------------------------------------------------------------- */

/* What was posted before it must be complete first: the READ has no data yet. */
static void a_lost_atomic_waits_for_what_is_before_it(void **state)
{
	struct shift_msg m = executed(3, 1);

	(void)state;
	post_log("rasw");
	report(&m, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_true(w_view(&w, 0).holding);
	assert_int_equal(w.h[0].qp[1].head, 1); /* nothing behind it is posted */
	assert_true(w.h[0].qp[1].sq[0].signaled);
	assert_int_equal(w.h[0].errors, 0);
	give_cqe(0, &(struct shift_cqe){.rail = 1, .epoch = 2});
	assert_int_equal(conn()->end_reason, SHIFT_R_LOST_ATOMIC);
}

/* Nor is what is behind it posted in the next switch. */
static void a_lost_atomic_goes_on_waiting_after_another_switch(void **state)
{
	struct shift_msg m = executed(3, 1);

	(void)state;
	post_log("rasw");
	report(&m, 0);
	check_fates("rasw", "sxdh");
	m.rep_epoch = 2;
	m.rep_psn = conn()->tx_psn;
	report(&m, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(w.h[0].qp[2].head, 1);
	check_fates("rasw", "sxdh");
	assert_true(w_view(&w, 0).holding);
	give_cqe(0, &(struct shift_cqe){.rail = 2, .epoch = 4});
	assert_int_equal(conn()->end_reason, SHIFT_R_LOST_ATOMIC);
}

/* Executed behind it: they flush, but the peer's count has them (7.9). */
static void what_was_executed_behind_a_lost_atomic_is_known(void **state)
{
	struct shift_msg m = executed(5, 3);

	(void)state;
	post_log("rassms");
	report(&m, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	check_fates("rassms", "sxdddh");
}

/* An unsignaled WR before it has no completion of its own to end the wait. */
static void the_wait_for_a_lost_atomic_ends(void **state)
{
	struct shift_msg m = executed(0, 0);

	(void)state;
	w.at_least_once_ok = true;
	m.fence = SHIFT_FENCE_UNSURE;
	post_log("wwac");
	report(&m, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	check_fates("wwac", "psxh");
	give_cqe(0, &(struct shift_cqe){.rail = 1, .epoch = 2});
	assert_int_equal(conn()->end_reason, SHIFT_R_LOST_ATOMIC);
}

static void with_nothing_before_it_a_lost_atomic_ends_at_once(void **state)
{
	struct shift_msg m = executed(2, 0);

	(void)state;
	post_log("waw");
	report(&m, 0);
	assert_int_equal(conn()->end_reason, SHIFT_R_LOST_ATOMIC);
	assert_int_equal(w.h[0].qp[1].head, 0);
}

/* --- 7.11: an RNR error
 * ----------------------------------------------------------------------------------------- */

static void an_rnr_is_the_programs_only_without_receives_for_that_wr(void **state)
{
	static const struct {
		const char *wrs;
		int k;
		uint64_t receives;
		uint32_t avail, status;
		bool programs;
	} row[] = {
		{"ws", 1, 0, 0, SHIFT_WC_RNR_RETRY_EXC_ERR, true},
		{"ws", 1, 0, 1, SHIFT_WC_RNR_RETRY_EXC_ERR, false},
		{"ws", 1, 0, UINT32_MAX, SHIFT_WC_RNR_RETRY_EXC_ERR, false},
		{"ws", 0, 0, 0, SHIFT_WC_RNR_RETRY_EXC_ERR, false},
		{"sw", 1, 1, 0, SHIFT_WC_RNR_RETRY_EXC_ERR, false},
		{"ss", 1, 1, 0, SHIFT_WC_RNR_RETRY_EXC_ERR, true},
		{"ss", 2, 2, 0, SHIFT_WC_RNR_RETRY_EXC_ERR, false},
		{"ws", 1, 0, 0, SHIFT_WC_RETRY_EXC_ERR, false},
		{"ws", 1, 0, 0, 0, false},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(row[i].k, row[i].receives);

		anew(state);
		m.recv_avail = row[i].avail;
		post_log(row[i].wrs);
		report(&m, row[i].status);
		if ((w_state(&w, 0) == SHIFT_ST_ACTIVE) == row[i].programs)
			fail_msg("row %zu", i);
		if (row[i].programs)
			assert_int_equal(conn()->end_reason, SHIFT_R_PROGRAM_ERROR);
	}
}

/* --- 7.15
 * --------------------------------------------------------------------------------------------------------
 */

static void with_nothing_to_post_again_the_trouble_is_over(void **state)
{
	static const struct {
		int k;
		bool over;
	} row[] = {{0, false}, {1, false}, {2, true}};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(row[i].k, 0);

		anew(state);
		post_log("ww");
		report(&m, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		assert_int_equal(!conn()->plan.trouble, row[i].over);
	}
}

/* --- rule 20: CLOSED carries a proof, too
 * ---------------------------------------------------------------------- */

static void what_the_peer_says_at_its_close_completes(void **state)
{
	static const struct {
		int k;
		uint64_t receives;
		uint64_t proved;
	} row[] = {{2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {2, 1, 0}, {1, 2, 0}, {5, 2, 0}};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_msg m = executed(row[i].k, row[i].receives);

		anew(state);
		m.type = SHIFT_MSG_CLOSED;
		m.src_nonce = 101;
		m.dst_nonce = 100;
		m.src_conn = 11;
		m.dst_conn = 10;
		post_log("sss");
		give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &m});
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
		assert_int_equal(stats(0)->proved, row[i].proved);
		assert_int_equal(w.h[0].errors + w.h[0].flushes, 3 - row[i].proved + W_READY_RECVS);
	}
}

/* 7.18: nothing is replayed, so what is in doubt is neither done nor lost. */
static void in_doubt_a_close_completes_nothing(void **state)
{
	struct shift_msg m = executed(0, 1);

	(void)state;
	m.type = SHIFT_MSG_CLOSED;
	m.fence = SHIFT_FENCE_UNSURE;
	m.src_nonce = 101;
	m.dst_nonce = 100;
	m.src_conn = 11;
	m.dst_conn = 10;
	post_log("swaw");
	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &m});
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(stats(0)->lost_atomics, 0);
	assert_int_equal(stats(0)->maybe_twice, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(the_psn_sorts_the_log),
		WORLD_TEST(a_write_goes_on_at_the_first_byte_that_is_missing),
		WORLD_TEST(a_write_is_cut_twice),
		WORLD_TEST(only_a_write_is_trimmed),
		WORLD_TEST(a_report_of_an_older_epoch_means_nothing_of_this_one),
		WORLD_TEST(a_contradiction_ends_the_connection),
		WORLD_TEST(the_newest_fence_proves_all_reads_before_it),
		WORLD_TEST(a_local_operation_with_the_flag_proves_a_read),
		WORLD_TEST(the_receive_count_sorts_the_log_in_doubt),
		WORLD_TEST(an_atomic_in_doubt_is_lost),
		WORLD_TEST(a_lost_atomic_waits_for_what_is_before_it),
		WORLD_TEST(a_lost_atomic_goes_on_waiting_after_another_switch),
		WORLD_TEST(what_was_executed_behind_a_lost_atomic_is_known),
		WORLD_TEST(the_wait_for_a_lost_atomic_ends),
		WORLD_TEST(with_nothing_before_it_a_lost_atomic_ends_at_once),
		WORLD_TEST(an_rnr_is_the_programs_only_without_receives_for_that_wr),
		WORLD_TEST(with_nothing_to_post_again_the_trouble_is_over),
		WORLD_TEST(what_the_peer_says_at_its_close_completes),
		WORLD_TEST(in_doubt_a_close_completes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
