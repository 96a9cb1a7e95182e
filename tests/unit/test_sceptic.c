/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Defects that a review of lib/core found, each with the schedule that showed it (world.c). */
#include "lib/core/wrlog.h"
#include "tests/unit/fixture.h"

static void ops(int h)
{
	while (w_op(&w, h))
		;
}

static bool cqe_in(int h, const struct shift_cqe *cqe)
{
	struct shift_wc wc;
	bool deliver = shift_conn_cqe(w.h[h].c, cqe, &wc, w.now);

	w_tick(&w, h);
	return deliver;
}

/* Host 0's NIC of rail 0 hangs in its fence; both go to rail 1; later rail 1 fails as well. */
static void second_switch_after_a_hung_nic(void)
{
	w.fence_hung[0] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 1);
	w.fence_hung[0] = false;
	w_post(&w, 0, SHIFT_OP_WRITE, 100, true);
	w.frozen_fence = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* Its receives were posted on rail 1 since: what the hung NIC still writes is of the past. */
static void a_hung_nic_is_not_heard_in_a_later_switch(void **state)
{
	struct shift_cqe cqe = {.is_recv = true};

	(void)state;
	second_switch_after_a_hung_nic();
	assert_false(cqe_in(0, &cqe));
	assert_int_equal(w_view(&w, 0).recv_cum, 0);
	w.frozen_fence = false;
	assert_true(w_settle(&w, 200));
}

/* Nor may it complete a WR that it never had. */
static void a_hung_nic_completes_nothing_in_a_later_switch(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_SUCCESS};

	(void)state;
	second_switch_after_a_hung_nic();
	assert_false(cqe_in(0, &cqe));
	assert_int_equal(w.h[0].completed, 0); /* world: "completed without its data" */
	w.frozen_fence = false;
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].completed, 1);
}

/* An error that was passed through is the program's: no later HELLO may take it back. */
static void an_error_before_hello_is_final(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};

	(void)state;
	again(&cfg);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_break(&w, 0, 0));
	while (w_cqe(&w, 0))
		;
	assert_int_equal(w.h[0].errors, 1);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	w_run(&w, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
}

/* DESIGN 4.4 (8): an unsignaled SEND waits for the receive of a slow program; a signaled WRITE
 * waits behind it. Stock RC waits for ever. */
static void a_slow_program_behind_a_signaled_write(void **state)
{
	(void)state;
	for (int i = 0; i < W_READY_RECVS; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_run(&w, 1);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_run(&w, 100);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->switches, 0);
	w_recv(&w, 1);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w.h[0].completed, W_READY_RECVS + 2);
}

/* The NIC dies: its event comes first, the refusal of the post second. */
static void a_refused_post_is_told_after_the_link_event(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_POST_FAILED, .count = 1};

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.h[0].qp[0].head--; /* the third never entered the queue */
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].errors, 0);
	assert_int_equal(w.h[0].completed, 3);
}

/* A mistake of the program in a receive shows in that receive, not in a send. */
static void a_bad_receive_keeps_its_status(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_LOC_LEN_ERR, .vendor_err = 77, .is_recv = true};
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE, .clean = true, .psn = 0xfffffe};
	struct shift_action a;
	struct shift_wc wc;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_false(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	shift_conn_event(w.h[0].c, &ev, w.now);
	while (shift_conn_action(w.h[0].c, &a))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_true(shift_conn_completion(w.h[0].c, &wc));
	assert_false(wc.is_recv);
	assert_int_equal(wc.status, SHIFT_WC_WR_FLUSH_ERR);
	assert_true(shift_conn_completion(w.h[0].c, &wc));
	assert_true(wc.is_recv);
	assert_int_equal(wc.status, SHIFT_WC_LOC_LEN_ERR);
	assert_int_equal(wc.vendor_err, 77);
	assert_true(shift_conn_completion(w.h[0].c, &wc));
	assert_int_equal(wc.status, SHIFT_WC_WR_FLUSH_ERR);
}

/* Epochs never wrap: nobody counts that far; who says so is no peer of ours. */
static void an_epoch_at_the_end_of_numbers(void **state)
{
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_SWITCH,
			      .epoch = UINT32_MAX,
			      .rail = 1};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};

	(void)state;
	shift_conn_event(w.h[0].c, &ev, w.now);
	w_tick(&w, 0);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROTOCOL);
	ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_WR_FLUSH_ERR); /* only receives were posted */
}

/* Nowhere to go when the link went down; then there is. The program's own retries may take 34 s. */
static void a_rail_that_comes_up_takes_over_from_one_that_is_down(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(w_settle(&w, 50));
	assert_int_equal(w_view(&w, 0).r, 2);
}

/* A refused signaled WR signals nothing: the run of unsignaled packets goes on. */
static void unpost_does_not_end_an_unsignaled_run(void **state)
{
	static _Alignas(64) uint8_t mem[65536];
	struct shift_sendlog l;
	struct shift_sge sge = {.length = 1u << 30};
	struct shift_wr wr = {.opcode = SHIFT_OP_WRITE, .sge = &sge, .num_sge = 1};

	(void)state;
	shift_sendlog_init(&l, mem, 16, 1, 0, 256, false);
	assert_int_equal(shift_sendlog_post(&l, &wr), 0); /* 2^22 packets: not more than that */
	wr.flags = SHIFT_F_SIGNALED;
	assert_int_equal(shift_sendlog_post(&l, &wr), 0);
	shift_sendlog_unpost(&l, 1);
	wr.flags = 0;
	assert_int_equal(shift_sendlog_post(&l, &wr), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_hung_nic_is_not_heard_in_a_later_switch),
		T(a_hung_nic_completes_nothing_in_a_later_switch),
		T(an_error_before_hello_is_final),
		T(a_slow_program_behind_a_signaled_write),
		T(a_refused_post_is_told_after_the_link_event),
		T(a_bad_receive_keeps_its_status),
		T(an_epoch_at_the_end_of_numbers),
		T(a_rail_that_comes_up_takes_over_from_one_that_is_down),
		cmocka_unit_test(unpost_does_not_end_an_unsignaled_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
