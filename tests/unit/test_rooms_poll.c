/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the program polls, on the fast way and behind an error (lib/verbs/poll.c). */
#include "tests/unit/rooms.h"

#include <errno.h>

#include "lib/conn/conn_lock.h"
#include "lib/verbs/poll.h"
#include "lib/verbs/qp.h"

static struct vqp *v;

static void be_fast(bool fast)
{
	core.fast = fast;
	vqp_enter(v);
	vqp_leave(v);
	trace_clear();
}

static int begin_fast(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	world.send_cq.stash = calloc(2, sizeof(struct ibv_wc));
	world.send_cq.stash_size = 2;
	be_fast(true);
	return 0;
}

static int end(void **state)
{
	return rooms_end_qp(state, v);
}

/* --- completions --------------------------------------------------------------------------- */

static void nic_has(uint64_t id, uint32_t qpn, enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	world.wc[world.wcs++] = (struct ibv_wc){
		.wr_id = id, .qp_num = qpn, .status = status, .opcode = opcode, .byte_len = 7};
}

static int (*const polls[])(struct ibv_cq *, int, struct ibv_wc *) = {
	hot_poll_cq,
#ifdef __x86_64__
	hot_poll_cq_sse41,
#endif
};

/* The first is looked into, those like it are counted. */
static void completions_are_counted(void **state)
{
	for (size_t p = 0; p < sizeof(polls) / sizeof(*polls); p++)
		for (int batch = 1; batch <= 5; batch += 4) {
			struct ibv_wc wc[8];
			int got = 0;

			begin_fast(state);
			v->hot.rail0_epoch = 4;
			for (uint64_t i = 0; i < 3; i++)
				nic_has(0x10 + i, QPN, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
			nic_has(0x20, QPN, IBV_WC_SUCCESS, IBV_WC_RECV);
			nic_has(0x21, QPN, IBV_WC_SUCCESS, IBV_WC_RECV);
			while (got < 5)
				got += polls[p](&world.real_send_cq, batch, wc + got);
			assert_traced(
				"cqe send id 0x10 rail 0 epoch 4 status 0 vendor 0 bytes 0\n"
				"cqe recv id 0x20 rail 0 epoch 4 status 0 vendor 0 bytes 0\n"
				"cqe recv id 0x21 rail 0 epoch 4 status 0 vendor 0 bytes 0\n");
			assert_int_equal(world.send_cq.done, 2);
			assert_int_equal(wc[0].wr_id, 0x110); /* as lib/core says */
			assert_int_equal(wc[1].wr_id, 0x11);
			assert_int_equal(wc[3].wr_id, 0x120);
			end(state);
		}
}

static void completions_of_each_qp_are_its_own(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	nic_has(2, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	nic_has(3, 0x66, IBV_WC_SUCCESS, IBV_WC_SEND); /* not known to shift */
	nic_has(6, 0x66, IBV_WC_SUCCESS, IBV_WC_SEND);
	nic_has(4, 0x66, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	nic_has(5, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 6);
	assert_traced("cqe send id 0x1 rail 0 epoch 0 status 0 vendor 0 bytes 0\n"
		      "cqe send id 0x5 rail 0 epoch 0 status 0 vendor 0 bytes 0\n");
	assert_int_equal(world.send_cq.done, 0);
	assert_int_equal(core.done, 1); /* added when another QP's came */
	assert_int_equal(wc[2].wr_id, 3);
	assert_int_equal(wc[4].status, IBV_WC_RETRY_EXC_ERR);
}

static unsigned int failures_met;

void __wrap_stats_conn_met_failure(int slot);
void __wrap_stats_conn_met_failure(int slot)
{
	(void)slot;
	failures_met++;
}

/* What is behind an error is fed in order, before anything that is polled later. */
static void an_error_ends_the_fast_way(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	core.delivers = true;
	failures_met = 0;
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	nic_has(3, QPN, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	nic_has(4, QPN, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 0x101);
	trace_clear();
	nic_has(5, QPN, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	core.fast = false;
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 4);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(wc[i].wr_id, 0x102 + i);
	assert_int_equal(wc[0].status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[3].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(failures_met, 1); /* the others follow from it */
}

static void an_empty_queue_leaves_the_gate(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	for (size_t p = 0; p < sizeof(polls) / sizeof(*polls); p++)
		for (int i = 0; i < 2; i++)
			assert_int_equal(polls[p](&world.real_send_cq, 2, wc), 0);
	be_fast(true); /* waits for those that are inside */
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 1);
}

/* What a CQ that shift does not know has is the NIC's. */
static void the_queue_of_another_is_polled_directly(void **state)
{
	struct ibv_cq other = {.context = &world.ctx[0]};
	struct ibv_wc wc[2];

	(void)state;
	assert_int_equal(hot_poll_cq(&other, 2, wc), 0);
	assert_traced("");
}

static bool drained_alone;

static void nobody_else_drains(struct vcq *cq)
{
	drained_alone = pthread_mutex_trylock(&cq->drain_lock) == EBUSY;
	if (!drained_alone)
		pthread_mutex_unlock(&cq->drain_lock);
}

/* Or what another thread has fed meanwhile would be taken here, before what was fed first. */
static void what_was_drained_is_taken_by_the_same_thread(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	core.delivers = true;
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	world.on_take = nobody_else_drains;
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 1);
	assert_true(drained_alone);
}

static void an_error_that_comes_first_is_looked_into_at_once(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	core.delivers = true;
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 0x102);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 0);
}

/* A queue that overran, say: stock verbs tell it, and so do we behind what was delivered. */
static void a_poll_that_fails_is_told(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	for (int fast = 0; fast < 2; fast++) {
		be_fast(fast);
		world.poll_fails = -5;
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), -5);
		world.poll_fails = 0;
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 0);
	}
	be_fast(false);
	core.delivers = true;
	nic_has(1, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	world.poll_fails = -5;
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 1);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), -5);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define FAST(name)  cmocka_unit_test_setup_teardown(name, begin_fast, end)
	const struct CMUnitTest tests[] = {
		ALONE(completions_are_counted),
		FAST(completions_of_each_qp_are_its_own),
		FAST(an_error_ends_the_fast_way),
		FAST(an_empty_queue_leaves_the_gate),
		FAST(the_queue_of_another_is_polled_directly),
		FAST(what_was_drained_is_taken_by_the_same_thread),
		FAST(an_error_that_comes_first_is_looked_into_at_once),
		FAST(a_poll_that_fails_is_told),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(*tests));
}
