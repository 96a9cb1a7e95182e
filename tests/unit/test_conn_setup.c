/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A connection begins, or never does: configurations, HELLO, release. */
#include "tests/unit/fixture.h"

static void impossible_configurations_are_refused(void **state)
{
	struct shift_conn_cfg cfg = {.nonce = 1, .rails = 1, .sq_cap = 1, .mtu = {1024}};

	(void)state;
	assert_true(shift_conn_size(&cfg) > 0);
	cfg.rails = 9;
	assert_int_equal(shift_conn_size(&cfg), 0);
	cfg.rails = 2; /* mtu[1] is 0 */
	assert_int_equal(shift_conn_size(&cfg), 0);
	cfg.rails = 1;
	cfg.sq_cap = 0;
	assert_int_equal(shift_conn_size(&cfg), 0);
	assert_null(shift_conn_init(&cfg, sizeof(cfg), &cfg, 0));
}

static void names_are_complete(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SHIFT_ST_COUNT; i++)
		assert_non_null(shift_state_name(i));
	for (unsigned int i = 0; i < SHIFT_R_COUNT; i++)
		assert_non_null(shift_reason_name(i));
	for (unsigned int i = 0; i < SHIFT_EV_COUNT; i++)
		assert_non_null(shift_event_name(i));
	for (unsigned int i = 0; i < SHIFT_ACT_COUNT; i++)
		assert_non_null(shift_action_name(i));
}

static void hello_protects(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};

	(void)state;
	again(&cfg);
	assert_false(w_view(&w, 0).protected_);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w_run(&w, 3); /* the peer is not in RTS: no answer */
	assert_false(w_view(&w, 0).protected_);
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	w_run(&w, 3);
	assert_true(w_view(&w, 0).protected_);
	assert_true(w_view(&w, 1).protected_);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
}

static void hello_of_another_qp_does_not(void **state)
{
	struct shift_msg m = {.src_nonce = 101, .dst_nonce = 100, .type = SHIFT_MSG_HELLO};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &m};
	struct shift_conn_cfg cfg = {.exactly_once = true};

	(void)state;
	again(&cfg);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	m.dst_conn = 10;
	m.src_conn = 11;
	m.qpn = 4711;
	give_event(0, &ev);
	assert_false(w_view(&w, 0).protected_);
	assert_int_equal(stats(0)->hello_mismatch, 1);
}

static void unprotected_errors_pass_through(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};
	struct shift_cqe cqe = {.wr_id = 42, .status = SHIFT_WC_RETRY_EXC_ERR};
	struct shift_wc wc;

	(void)state;
	again(&cfg);
	assert_true(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	assert_true(wc.wr_id == 42);
}

/* The program has seen this error: no later HELLO may take it back. */
static void an_error_before_hello_is_final(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};

	(void)state;
	again(&cfg);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_break(&w, 0, 0));
	take_cqes(0);
	assert_int_equal(w.h[0].errors, 1);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	w_run(&w, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
}

/* Memory windows release a connection: it is as without us, and the peer learns it when it asks. */
static void released_it_stays_where_it_is(void **state)
{
	(void)state;
	assert_true(shift_conn_release(w.h[0].c));
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	assert_false(w_view(&w, 0).protected_);
	assert_true(shift_conn_release(w.h[0].c));
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 0);
	w_run(&w, 2000);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DEAD);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
}

/* Its QP may go without a close (direct verbs): the peer is not left to wait for an answer. */
static void released_it_leaves_a_tombstone(void **state)
{
	struct shift_tombstone stone;

	(void)state;
	shift_conn_tombstone(w.h[0].c, w.now, &stone);
	assert_false(stone.valid);
	assert_true(shift_conn_release(w.h[0].c));
	shift_conn_tombstone(w.h[0].c, w.now, &stone);
	assert_true(stone.valid);
	assert_int_equal(stone.answer.type, SHIFT_MSG_FAILED);
}

static void after_a_switch_it_is_not_released(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_false(shift_conn_release(w.h[0].c));
	assert_true(w_settle(&w, 2000));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_false(shift_conn_release(w.h[0].c));
	assert_false(shift_conn_release(w.h[1].c));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* Its count of receives includes flushed ones: the peer must not rely on it. */
static void an_unprotected_end_vouches_for_nothing(void **state)
{
	struct shift_cqe cqe = {.status = SHIFT_WC_WR_FLUSH_ERR, .is_recv = true};
	struct shift_tombstone t;
	struct shift_wc wc;

	(void)state;
	assert_true(shift_conn_release(w.h[1].c));
	w_close(&w, 1, SHIFT_CLOSE_ERR);
	assert_true(shift_conn_cqe(w.h[1].c, &cqe, &wc, w.now));
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	finish_ops(1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_CLOSED);
	assert_int_equal(w.msgs, 0); /* an idle peer is told nothing */
	shift_conn_tombstone(w.h[1].c, w.now, &t);
	assert_int_equal(t.answer.type, SHIFT_MSG_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(impossible_configurations_are_refused),
		WORLD_TEST(names_are_complete),
		WORLD_TEST(hello_protects),
		WORLD_TEST(hello_of_another_qp_does_not),
		WORLD_TEST(unprotected_errors_pass_through),
		WORLD_TEST(an_error_before_hello_is_final),
		WORLD_TEST(released_it_stays_where_it_is),
		WORLD_TEST(released_it_leaves_a_tombstone),
		WORLD_TEST(after_a_switch_it_is_not_released),
		WORLD_TEST(an_unprotected_end_vouches_for_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
