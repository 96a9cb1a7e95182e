/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completions: from the NIC, and those that the core makes for the program (lib/core/cqe.c). */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define SECOND	1000000000ull
#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(void)
{
	return w.h[0].c;
}

/* --- what the program sees ----------------------------------------------------------------------
 */

/* Each opcode, made DONE at the front of the log: its completion. */
static struct shift_wc completion_of(enum shift_opcode opcode, uint32_t length)
{
	struct shift_wr_entry *e;
	struct shift_wc wc = {.byte_len = 7, .vendor_err = 7, .is_recv = true};

	shift_sendlog_track(&conn()->sq);
	w_post(&w, 0, opcode, length, true);
	e = shift_sendlog_at(&conn()->sq, conn()->sq.head - 1);
	e->wr_id = 1000 + opcode;
	e->state = SHIFT_WR_DONE;
	shift_sendlog_advance(&conn()->sq);
	assert_true(shift_conn_completion(conn(), &wc));
	assert_int_equal(wc.wr_id, 1000 + opcode);
	assert_int_equal(wc.status, SHIFT_WC_SUCCESS);
	assert_int_equal(wc.vendor_err, 0);
	assert_false(wc.is_recv);
	return wc;
}

static void each_opcode_has_its_completion(void **state)
{
	static const struct {
		enum shift_opcode opcode;
		enum shift_wc_opcode wc;
		bool length;
	} row[] = {
		{SHIFT_OP_WRITE, SHIFT_WC_RDMA_WRITE, false},
		{SHIFT_OP_WRITE_IMM, SHIFT_WC_RDMA_WRITE, false},
		{SHIFT_OP_SEND, SHIFT_WC_SEND, false},
		{SHIFT_OP_SEND_IMM, SHIFT_WC_SEND, false},
		{SHIFT_OP_SEND_INV, SHIFT_WC_SEND, false},
		{SHIFT_OP_READ, SHIFT_WC_RDMA_READ, true},
		{SHIFT_OP_CMP_SWAP, SHIFT_WC_COMP_SWAP, true},
		{SHIFT_OP_FETCH_ADD, SHIFT_WC_FETCH_ADD, true},
		{SHIFT_OP_LOCAL_INV, SHIFT_WC_LOCAL_INV, false},
		{SHIFT_OP_BIND_MW, SHIFT_WC_BIND_MW, false},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_wc wc = completion_of(row[i].opcode, 8);

		assert_int_equal(wc.opcode, row[i].wc);
		assert_int_equal(wc.byte_len, row[i].length ? 8 : 0);
	}
}

/* Of an unsignaled WR there is none, but it is gone; and they are given one by one, in order. */
static void unsignaled_wrs_leave_silently(void **state)
{
	struct shift_wc wc;

	(void)state;
	shift_sendlog_track(&conn()->sq);
	for (int i = 0; i < 5; i++)
		w_post(&w, 0, SHIFT_OP_WRITE, 10, i % 2);
	for (uint64_t i = 0; i < 5; i++)
		shift_sendlog_at(&conn()->sq, i)->state = SHIFT_WR_DONE;
	conn()->sq.scan = 5;
	shift_sendlog_advance(&conn()->sq);
	for (uint64_t i = 1; i <= 3; i += 2) {
		assert_true(shift_conn_completion(conn(), &wc));
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(w_view(&w, 0).send_tail, i + 1);
	}
	assert_false(shift_conn_completion(conn(), &wc));
	assert_int_equal(w_view(&w, 0).send_tail, 5);
	assert_int_equal(*conn()->sq.sig_done, 2);
}

/* --- completions are only counted on rail 0 ------------------------------------------------------
 */

static void on_a_twin_each_completion_is_matched(void **state)
{
	(void)state;
	assert_false(shift_conn_tracked(conn()));
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_true(shift_conn_tracked(conn()));
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_settle(&w, 20));
	assert_true(shift_conn_tracked(conn()));
	assert_false(shift_conn_fast(conn()));
}

/* Back on rail 0: until all that was posted again is done. */
static void back_on_rail_0_they_are_counted_when_all_is_done(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_break(&w, 0, 1));
	take_cqes(0);
	for (int i = 0; i < 20 && w_state(&w, 0) != SHIFT_ST_ACTIVE; i++) {
		while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
			;
		if (w_state(&w, 0) != SHIFT_ST_ACTIVE) {
			w.now += SECOND;
			w_tick(&w, 0);
			w_tick(&w, 1);
		}
	}
	assert_int_equal(w_view(&w, 0).r, 0);
	assert_true(shift_conn_tracked(conn()));
	pass_packets(0, 0, 2);
	assert_true(w_ack(&w, 0, 0));
	take_cqes(0);
	assert_true(shift_conn_tracked(conn()));
	assert_true(w_ack(&w, 0, 0));
	take_cqes(0);
	assert_false(shift_conn_tracked(conn()));
	assert_int_equal(w.h[0].completed, 3);
}

/* --- receives ------------------------------------------------------------------------------------
 */

static bool give_recv(uint32_t status, uint64_t wr_id, struct shift_wc *wc)
{
	struct shift_cqe cqe = {.wr_id = wr_id, .status = status, .is_recv = true};

	*wc = (struct shift_wc){0};
	return shift_conn_cqe(conn(), &cqe, wc, w.now);
}

static void receives_get_their_own_wr_id_back_in_order(void **state)
{
	struct shift_wc wc;

	(void)state;
	for (uint64_t i = 0; i < W_READY_RECVS; i++) {
		assert_true(give_recv(SHIFT_WC_SUCCESS, 0xabc, &wc));
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(w_view(&w, 0).recv_cum, i + 1);
	}
	/* One that nobody posted would be told to the peer as consumed. */
	assert_false(give_recv(SHIFT_WC_SUCCESS, 0xabc, &wc));
	assert_int_equal(w_view(&w, 0).recv_cum, W_READY_RECVS);
}

static void with_an_srq_receives_are_as_they_come(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true, .srq = true};
	struct shift_wc wc;

	(void)state;
	w_free(&w);
	w_init(&w, &cfg, 1);
	assert_true(give_recv(SHIFT_WC_SUCCESS, 0xabc, &wc));
	assert_int_equal(wc.wr_id, 0xabc);
	assert_int_equal(w_view(&w, 0).recv_cum, 1);
}

/* --- before HELLO --------------------------------------------------------------------------------
 */

static void in_setup(void)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};

	again(&cfg);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
}

/* An error that the program was handed makes it unprotected for good (7.27), a success does not. */
static void an_error_in_setup_is_passed_on_and_ends_protection(void **state)
{
	static const struct {
		bool is_recv;
		uint32_t status;
		bool protect;
	} row[] = {
		{true, SHIFT_WC_LOC_LEN_ERR, false},	{true, SHIFT_WC_WR_FLUSH_ERR, false},
		{false, SHIFT_WC_RETRY_EXC_ERR, false}, {false, SHIFT_WC_WR_FLUSH_ERR, false},
		{true, SHIFT_WC_SUCCESS, true},		{false, SHIFT_WC_SUCCESS, true},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_cqe cqe = {.status = row[i].status, .is_recv = row[i].is_recv};
		struct shift_wc wc;

		in_setup();
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
		assert_true(shift_conn_cqe(conn(), &cqe, &wc, w.now));
		w_event(&w, 0, SHIFT_EV_RTS, 0);
		w_event(&w, 1, SHIFT_EV_RTS, 0);
		for (int r = 0; r < 3; r++) {
			while (w_msg(&w, 0))
				;
			w.now += SECOND;
			w_tick(&w, 0);
			w_tick(&w, 1);
		}
		assert_int_equal(w_state(&w, 0), row[i].protect ? SHIFT_ST_ACTIVE : SHIFT_ST_SETUP);
		assert_int_equal(conn()->unprotected, !row[i].protect);
	}
}

static void in_setup_a_receive_without_a_log_entry_is_passed_on(void **state)
{
	struct shift_wc wc;

	(void)state;
	in_setup();
	for (int i = 0; i < W_READY_RECVS; i++)
		assert_true(give_recv(SHIFT_WC_SUCCESS, 1, &wc));
	assert_true(give_recv(SHIFT_WC_SUCCESS, 0xabc, &wc));
	assert_int_equal(wc.wr_id, 0xabc);
	assert_int_equal(w_view(&w, 0).recv_cum, W_READY_RECVS);
}

static void in_setup_a_send_error_keeps_its_wr_id(void **state)
{
	struct shift_cqe cqe = {.wr_id = 0xabc, .status = SHIFT_WC_RETRY_EXC_ERR};
	struct shift_wc wc;

	(void)state;
	in_setup();
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(shift_conn_cqe(conn(), &cqe, &wc, w.now));
	assert_int_equal(wc.wr_id, 0xabc);
}

/* --- 7.12: the error that names the cause
 * --------------------------------------------------------- */

static void give_error(uint32_t status, uint32_t vendor)
{
	give_cqe(0, &(struct shift_cqe){.status = status, .vendor_err = vendor});
}

/* Nothing comes of the switch, and the program is told why. */
static void the_end_names(uint32_t status, uint32_t vendor)
{
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	finish_ops(0);
	for (int i = 0; i < 400 && w_state(&w, 0) != SHIFT_ST_DEAD; i++)
		w_run(&w, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, status);
	assert_int_equal(w.h[0].first_vendor, vendor);
}

static void the_first_error_that_is_no_flush_names_the_cause(void **state)
{
	static const struct {
		uint32_t given[3], named;
	} row[] = {
		{{SHIFT_WC_LOC_QP_OP_ERR, SHIFT_WC_WR_FLUSH_ERR, SHIFT_WC_WR_FLUSH_ERR},
		 SHIFT_WC_LOC_QP_OP_ERR},
		{{SHIFT_WC_WR_FLUSH_ERR, SHIFT_WC_LOC_QP_OP_ERR, SHIFT_WC_GENERAL_ERR},
		 SHIFT_WC_LOC_QP_OP_ERR},
		{{SHIFT_WC_GENERAL_ERR, SHIFT_WC_LOC_QP_OP_ERR, SHIFT_WC_WR_FLUSH_ERR},
		 SHIFT_WC_GENERAL_ERR},
		{{SHIFT_WC_WR_FLUSH_ERR, SHIFT_WC_WR_FLUSH_ERR, SHIFT_WC_GENERAL_ERR},
		 SHIFT_WC_GENERAL_ERR},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown(state);
		setup(state);
		for (int k = 0; k < 3; k++)
			w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
		for (int k = 0; k < 3; k++)
			give_error(row[i].given[k], row[i].given[k]);
		w.h[0].qp[0].err = true; /* its flushes are those */
		the_end_names(row[i].named, row[i].named);
	}
}

/* A status of the last switch is not that of the next. */
static void a_commit_forgets_the_error(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	give_error(SHIFT_WC_LOC_QP_OP_ERR, 0x77);
	assert_true(w_settle(&w, 50));
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, w_view(&w, 0).r);
	w.h[0].qp[w_view(&w, 0).r].tail = w.h[0].qp[w_view(&w, 0).r].head; /* no flush either */
	the_end_names(SHIFT_WC_RETRY_EXC_ERR, SHIFT_VENDOR_GIVEUP);
}

/* --- which completions are of the past (rule 26, 7.26)
 * -------------------------------------------- */

static void a_completion_of_another_arming_is_swallowed(void **state)
{
	const struct shift_cqe row[] = {
		{.rail = 0, .epoch = 1}, {.rail = 1, .epoch = 0},	{.rail = 2, .epoch = 2},
		{.rail = 1, .epoch = 0}, {.rail = W_RAILS, .epoch = 0}, {.rail = 255, .epoch = 0},
	};

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_cqe cqe = row[i];

		for (int k = 0; k < 3; k++) {
			cqe.is_recv = k == 1;
			cqe.status = k == 2 ? SHIFT_WC_RETRY_EXC_ERR : SHIFT_WC_SUCCESS;
			give_cqe(0, &cqe);
		}
		assert_int_equal(stats(0)->stale_cqes, 3 * (i + 1));
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).recv_cum, 0);
	assert_int_equal(*conn()->sq.sig_done, 0);
}

/* Host 0's NIC hangs in the fence of rail 0, and writes a receive completion later. */
static void hang_on_rail_0(void)
{
	w.fence_hung[0] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	w.fence_hung[0] = false;
}

static void a_hung_nics_receive_counts_until_receives_are_posted_elsewhere(void **state)
{
	struct shift_wc wc;

	(void)state;
	hang_on_rail_0();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_true(give_recv(SHIFT_WC_SUCCESS, 0, &wc));
	assert_int_equal(w_view(&w, 0).recv_cum, 1);
	w.h[0].recv_completed = 1;
	for (int i = 0; i < 50 && w_state(&w, 0) != SHIFT_ST_ACTIVE; i++)
		w_run(&w, 1);
	assert_false(give_recv(SHIFT_WC_SUCCESS, 1, &wc));
	assert_int_equal(w_view(&w, 0).recv_cum, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, w_view(&w, 0).r); /* nor in the next switch */
	assert_false(give_recv(SHIFT_WC_SUCCESS, 1, &wc));
	finish_ops(0);
	assert_false(give_recv(SHIFT_WC_SUCCESS, 1, &wc));
	assert_int_equal(w_view(&w, 0).recv_cum, 1);
}

/* The program was told that its receives flushed. */
static void a_hung_nics_receive_does_not_count_after_the_end(void **state)
{
	struct shift_wc wc;

	(void)state;
	hang_on_rail_0();
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].recv_completed, W_READY_RECVS);
	w_recv(&w, 0);
	assert_false(give_recv(SHIFT_WC_SUCCESS, 0, &wc));
	assert_int_equal(stats(0)->stale_cqes, 1);
}

/* --- 7.15: completions stop the give-up clock
 * ------------------------------------------------------ */

static void a_completion_on_the_new_rail_ends_the_trouble(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_true(conn()->plan.trouble);
	assert_int_equal(conn()->rail[1].tries, 1);
	conn()->plan.backoff = 2;
	conn()->plan.refusals = 3;
	pass_packets(0, 1, 1);
	assert_true(w_ack(&w, 0, 1));
	take_cqes(0);
	assert_false(conn()->plan.trouble);
	assert_int_equal(conn()->plan.backoff, 0);
	assert_int_equal(conn()->plan.refusals, 0);
	assert_int_equal(conn()->rail[1].tries, 0);
}

/* --- an error of another rail, or when nothing can come of it
 * -------------------------------------- */

static void the_programs_error_is_found_in_the_fence_too(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	give_error(SHIFT_WC_RETRY_EXC_ERR, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	give_error(SHIFT_WC_REM_ACCESS_ERR, 0x88);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	w.h[0].qp[0].err = true;
	finish_ops(0);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_REM_ACCESS_ERR);
	assert_int_equal(w.h[0].first_vendor, 0x88);
}

/* The first WR of the queue in which it happened has the error; all others flush. */
static void a_receive_error_is_the_first_receives(void **state)
{
	struct shift_wc wc;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_false(give_recv(SHIFT_WC_LOC_LEN_ERR, 0, &wc));
	w_tick(&w, 0);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROGRAM_ERROR);
	w.h[0].ops = 0;
	for (uint8_t i = 0; i < 1; i++)
		shift_conn_event(conn(),
				 &(struct shift_event){.type = SHIFT_EV_FENCE_DONE,
						       .clean = true,
						       .psn = 0xfffffe},
				 w.now);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_true(shift_conn_completion(conn(), &wc));
	assert_false(wc.is_recv);
	assert_int_equal(wc.status, SHIFT_WC_WR_FLUSH_ERR);
	for (int i = 0; i < W_READY_RECVS; i++) {
		assert_true(shift_conn_completion(conn(), &wc));
		assert_true(wc.is_recv);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.opcode, SHIFT_WC_RECV);
		assert_int_equal(wc.status, i ? SHIFT_WC_WR_FLUSH_ERR : SHIFT_WC_LOC_LEN_ERR);
	}
	assert_false(shift_conn_completion(conn(), &wc));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(each_opcode_has_its_completion),
		WORLD_TEST(unsignaled_wrs_leave_silently),
		WORLD_TEST(on_a_twin_each_completion_is_matched),
		WORLD_TEST(back_on_rail_0_they_are_counted_when_all_is_done),
		WORLD_TEST(receives_get_their_own_wr_id_back_in_order),
		WORLD_TEST(with_an_srq_receives_are_as_they_come),
		WORLD_TEST(an_error_in_setup_is_passed_on_and_ends_protection),
		WORLD_TEST(in_setup_a_receive_without_a_log_entry_is_passed_on),
		WORLD_TEST(in_setup_a_send_error_keeps_its_wr_id),
		WORLD_TEST(the_first_error_that_is_no_flush_names_the_cause),
		WORLD_TEST(a_commit_forgets_the_error),
		WORLD_TEST(a_completion_of_another_arming_is_swallowed),
		WORLD_TEST(a_hung_nics_receive_counts_until_receives_are_posted_elsewhere),
		WORLD_TEST(a_hung_nics_receive_does_not_count_after_the_end),
		WORLD_TEST(a_completion_on_the_new_rail_ends_the_trouble),
		WORLD_TEST(the_programs_error_is_found_in_the_fence_too),
		WORLD_TEST(a_receive_error_is_the_first_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
