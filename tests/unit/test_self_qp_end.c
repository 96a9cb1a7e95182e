/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A QP that is connected with itself (lib/conn/self_qp.c): what it owes the program when a READ, a
 * rail, or its life ends. No NIC writes into memory that the program has back.
 */
#include "tests/unit/self_world.h"

#include "lib/conn/actions.h"
#include "lib/verbs/bypass.h"

static void modify_to(enum ibv_qp_state state)
{
	assert_int_equal(
		hook_modify_qp(v->qp, &(struct ibv_qp_attr){.qp_state = state}, IBV_QP_STATE), 0);
}

static const char *trace_has(const char *line)
{
	const char *at = strstr(trace_text(), line);

	assert_non_null(at);
	return at;
}

/* --- its life ends --------------------------------------------------------------------------- */

/* What flushes is the program's again, so no READ of it may be under way on any NIC. */
static void no_read_is_under_way_when_it_flushes(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	trace_clear();
	modify_to(IBV_QPS_ERR);
	assert_int_equal(lines("modify 0x21 to 0"), 1);
	assert_true(trace_has("modify 0x10 to 6") < trace_has("post 0x10 id ")); /* the marker */
	assert_completes(0x50, IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
}

/* RESET of a responder under traffic may cost the NIC: doc/soft-roce.md. */
static void on_soft_roce_it_is_stopped_by_err(void **state)
{
	(void)state;
	world.nic[1].is_rxe = true;
	data_moves_to(1);
	post_read(0x50);
	trace_clear();
	modify_to(IBV_QPS_ERR);
	assert_int_equal(lines("modify 0x21 to 6"), 1);
	assert_true(trace_has("modify 0x21 to 6") < trace_has("modify 0x21 to 0"));
	twin_has(1, ours(1, 1), IBV_WC_WR_FLUSH_ERR);
	assert_completes(0x50, IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
}

/* The twin may be on the program's NIC (7.49): the program's QP stays as it is. */
static void the_twin_on_the_same_nic_is_stopped(void **state)
{
	struct nic *other = v->dev->nic[1];

	(void)state;
	data_moves_to(1);
	post_read(0x50);
	trace_clear();
	v->dev->nic[1] = v->dev->nic[0];
	modify_to(IBV_QPS_ERR);
	v->dev->nic[1] = other;
	assert_int_equal(lines("modify 0x21 to 0"), 1);
	assert_int_equal(lines("modify 0x10 to 0"), 0);
	assert_completes(0x50, IBV_WC_WR_FLUSH_ERR);
}

static bool said_too_early;

static void look_whether_it_has_flushed(void)
{
	said_too_early = world.send_cq.delivered.head != world.send_cq.delivered.tail;
}

static void it_flushes_after_that(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	said_too_early = true;
	world.on_modify = look_whether_it_has_flushed;
	modify_to(IBV_QPS_ERR);
	assert_false(said_too_early);
	assert_completes(0x50, IBV_WC_WR_FLUSH_ERR);
}

static unsigned int slept;

static void reads_end_then_the_marker_comes(void)
{
	if (!slept++) {
		nic_has(ours(0, 0), IBV_WC_SUCCESS);
		twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
		twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
		nic_has(ours(0, 1), IBV_WC_WR_FLUSH_ERR); /* so it is not done */
	}
	nic_has(v->marker, IBV_WC_WR_FLUSH_ERR);
}

/* As with stock verbs: what the NICs had done before is not flushed, and an error that comes of the
 * end begins nothing anew. */
static void what_is_done_meanwhile(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	post_read(0x51);
	slept = 0;
	world.on_sleep = reads_end_then_the_marker_comes;
	trace_clear();
	modify_to(IBV_QPS_ERR);
	assert_int_equal(lines("modify 0x22"), 0);
	assert_completes(0x50, IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
}

static void nor_after_a_reset(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	trace_clear();
	modify_to(IBV_QPS_RESET);
	assert_true(trace_has("modify 0x21 to 0") < trace_has("a life ends"));
	assert_nothing_completes();
	to_rts(v, QPN, 1);
	rooms_run_jobs();
	post_read(0x60);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS); /* of the life before */
	assert_nothing_completes();
	twin_has(1, ours(2, 0), IBV_WC_SUCCESS);
	assert_completes(0x60, IBV_WC_SUCCESS);
}

/* It costs nothing if none is. */
static void nothing_is_under_way(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	trace_clear();
	modify_to(IBV_QPS_RESET);
	assert_int_equal(lines("modify 0x21"), 0);
	assert_int_equal(lines("post 0x10"), 0);
}

/* A rail 0 that is being armed by us must not come to life again behind the program's ERR. */
static void rail_0_is_being_armed(void **state)
{
	(void)state;
	post_read(0x50);
	rail0_dies(0x50);
	assert_nothing_completes();
	rooms_run_jobs();
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	rooms_pass(SECOND);
	assert_int_equal(v->self.rail[0].state, SELF_ARMING);
	modify_to(IBV_QPS_ERR);
	trace_clear();
	rooms_run_jobs();
	assert_int_equal(lines("modify 0x10"), 0);
}

/* --- it leaves a rail ------------------------------------------------------------------------ */

static void data_goes_back_to_rail_0(void)
{
	data_moves_to(1);
	data_is_on(0);
	rooms_pass(SECOND);
	rooms_pass(600 * MS);
	post_read(0x50);
	post_read(0x51); /* under way when the first is seen to have completed */
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	rooms_pass(400 * MS);
	assert_true(v->self.rail[1].leaves);
}

/* What is under way there may still write into the program's memory. */
static void a_rail_is_left_when_nothing_is_under_way(void **state)
{
	(void)state;
	data_goes_back_to_rail_0();
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	assert_nothing_completes();
	trace_clear();
	post_read(0x52); /* and nothing more is posted there */
	assert_int_equal(reads_on(TWIN_QPN + 1), 0);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	nic_has(ours(0, 2), IBV_WC_SUCCESS);
	assert_completes(0x52, IBV_WC_SUCCESS);
	assert_false(v->self.engaged);
}

static void it_dies_while_it_is_left(void **state)
{
	(void)state;
	data_goes_back_to_rail_0();
	twin_has(1, ours(1, 1), IBV_WC_RETRY_EXC_ERR);
	assert_nothing_completes();
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_false(v->self.engaged);
}

static void it_hangs_while_it_is_left(void **state)
{
	(void)state;
	data_goes_back_to_rail_0();
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	assert_nothing_completes();
	rooms_pass(SECOND);
	rooms_pass(SECOND);
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_false(v->self.engaged);
}

/* All that is not done yet goes there again. */
static void data_comes_while_it_is_left(void **state)
{
	(void)state;
	data_goes_back_to_rail_0();
	trace_clear();
	post_read(0x52);
	assert_int_equal(reads_on(TWIN_QPN + 1), 0);
	data_moves_to(1);
	assert_int_equal(reads_on(TWIN_QPN + 1), 1);
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	nic_has(ours(0, 2), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_nothing_completes();
	twin_has(1, ours(1, 2), IBV_WC_SUCCESS);
	assert_completes(0x52, IBV_WC_SUCCESS);
	assert_true(v->self.engaged);
}

/* The one that is being left is the only one that works: it stays. */
static void rail_0_dies_while_another_is_left(void **state)
{
	(void)state;
	data_goes_back_to_rail_0();
	post_read(0x52);
	data->conn->state = SHIFT_ST_SETUP; /* no data says where to go */
	world.nic[0].link_up = world.nic[2].link_up = false;
	trace_clear();
	nic_has(ours(0, 1), IBV_WC_RETRY_EXC_ERR);
	assert_nothing_completes();
	assert_int_equal(reads_on(TWIN_QPN + 1), 1);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	twin_has(1, ours(1, 2), IBV_WC_SUCCESS);
	assert_completes(0x52, IBV_WC_SUCCESS);
}

/* --- it is left alone ------------------------------------------------------------------------ */

static void a_read_under_way_when_it_is_left_alone(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	assert_int_equal(post_wr(0x51, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_nothing_completes();
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* It is not the other NIC's error that ends it, but rail 0's alone. */
static void and_that_nic_dies(void **state)
{
	struct ibv_wc wc;

	(void)state;
	data_moves_to(1);
	post_read(0x50);
	assert_int_equal(post_wr(0x51, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	twin_has(1, ours(1, 0), IBV_WC_RETRY_EXC_ERR);
	assert_nothing_completes();
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	assert_true(poll_one(&wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void or_hangs(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	assert_int_equal(post_wr(0x51, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_nothing_completes();
	for (int i = 0; i < 3; i++)
		rooms_pass(SECOND);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* A receive that is posted while it is doubled leaves it alone, and flushes as ever. */
static void a_receive_flushes(void **state)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 0x70};
	struct ibv_wc wc;

	(void)state;
	data_moves_to(1);
	assert_int_equal(hot_post_recv(v->qp, &wr, &bad), 0);
	assert_false(v->self.on);
	modify_to(IBV_QPS_ERR);
	world.recv_wc = (struct ibv_wc){
		.wr_id = 0x70, .qp_num = QPN, .status = IBV_WC_WR_FLUSH_ERR};
	world.recv_has = true;
	assert_int_equal(hot_poll_cq(&world.real_recv_cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0x70);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

/* The queue does not lead to the READs that are under way, nor may they be bound. */
static void the_program_asks_for_the_queue(void **state)
{
	(void)state;
	data_moves_to(1);
	assert_int_equal(hook_init_direct_obj(v->qp, NULL), EBUSY);
	assert_false(v->life.bypassed);
	vqp_enter(v);
	assert_false(vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW));
	vqp_leave(v);
	assert_true(v->self.on);
	post_read(0x50);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* Before that it may have it, and is not counted among those that survive. */
static void the_program_asks_before(void **state)
{
	(void)state;
	assert_int_equal(hook_init_direct_obj(v->qp, NULL), 0);
	assert_false(v->self.on);
	trace_clear();
	data_moves_to(1);
	assert_false(v->self.engaged);
	assert_int_equal(lines("protected 0"), 0); /* the reason stays */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_both, end_both)
	const struct CMUnitTest tests[] = {
		TEST(no_read_is_under_way_when_it_flushes),
		TEST(on_soft_roce_it_is_stopped_by_err),
		TEST(the_twin_on_the_same_nic_is_stopped),
		TEST(it_flushes_after_that),
		TEST(what_is_done_meanwhile),
		TEST(nor_after_a_reset),
		TEST(nothing_is_under_way),
		TEST(rail_0_is_being_armed),
		TEST(a_rail_is_left_when_nothing_is_under_way),
		TEST(it_dies_while_it_is_left),
		TEST(it_hangs_while_it_is_left),
		TEST(data_comes_while_it_is_left),
		TEST(rail_0_dies_while_another_is_left),
		TEST(a_read_under_way_when_it_is_left_alone),
		TEST(and_that_nic_dies),
		TEST(or_hangs),
		TEST(a_receive_flushes),
		TEST(the_program_asks_for_the_queue),
		TEST(the_program_asks_before),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(*tests));
}
