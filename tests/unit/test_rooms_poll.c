/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the program polls, on the fast way and behind an error (lib/verbs/poll.c). */
#include "tests/unit/rooms.h"

#include <errno.h>

#include "lib/conn/conn_lock.h"
#include "lib/conn/cq_counts.h"
#include "lib/verbs/poll.h"
#include "lib/verbs/qp.h"

static struct vqp *v;

static int begin_fast(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	world.send_cq.stash = calloc(2, sizeof(struct ibv_wc));
	world.send_cq.stash_size = 2;
	rooms_be_fast(v, true);
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

/* The first of a QP is looked into, then those that are sends are counted. */
static void completions_are_counted(void **state)
{
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
			got += hot_poll_cq(&world.real_send_cq, batch, wc + got);
		assert_traced("cqe send id 0x10 rail 0 epoch 4 status 0 vendor 0 bytes 0\n"
			      "cqe recv id 0x20 rail 0 epoch 4 status 0 vendor 0 bytes 0\n"
			      "cqe recv id 0x21 rail 0 epoch 4 status 0 vendor 0 bytes 0\n");
		assert_int_equal(v->hot.log.sends_done, 2);
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
	assert_traced("cqe send id 0x1 rail 0 epoch 0 status 0 vendor 0 bytes 0\n");
	assert_int_equal(v->hot.log.sends_done, 2); /* also of the one behind another QP's */
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

/* A program that sleeps when a poll returns less than it could would miss the rest. */
static void a_program_that_sleeps_gets_all_at_once(void **state)
{
	struct channel *some = (struct channel *)(void *)&world;
	struct ibv_wc wc[8];

	(void)state;
	core.delivers = true;
	world.send_cq.events.channel = some;
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	nic_has(3, QPN, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 3);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(wc[i].wr_id, 0x101 + i);
	world.send_cq.events.channel = NULL;
}

/* --- who was woken for an error -------------------------------------------------------------- */

static unsigned int sleeps, sleeps_of_the_switch;
static bool switching;

bool __wrap_vqp_any_switching(void);
bool __wrap_vqp_any_switching(void)
{
	return switching;
}

/* A switch, which ends after so many sleeps. */
static void the_switch_goes_on(void)
{
	switching = false; /* what it posts again takes longer */
	if (++sleeps == sleeps_of_the_switch)
		vcq_deliver(&world.send_cq, &(struct ibv_wc){.wr_id = 9, .qp_num = QPN});
}

/* The program sees nothing of the error that its poll finds. */
static int poll_meets_an_error(unsigned int sleeps_to_end)
{
	struct ibv_wc wc[8];
	int got;

	sleeps = 0;
	sleeps_of_the_switch = sleeps_to_end;
	world.on_sleep = the_switch_goes_on;
	switching = true;
	gate_shut(&world.send_cq.gate); /* as its QP is slow from then on */
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	got = hot_poll_cq(&world.real_send_cq, 8, wc);
	gate_open(&world.send_cq.gate);
	world.on_sleep = NULL;
	if (got)
		assert_int_equal(wc[0].wr_id, 9);
	return got;
}

static void who_was_woken_for_an_error_waits_for_the_switch(void **state)
{
	(void)state;
	assert_int_equal(poll_meets_an_error(3), 0);
	assert_int_equal(sleeps, 0); /* who polls without an event does not wait */
	world.send_cq.woken = true;
	assert_int_equal(poll_meets_an_error(3), 1);
	assert_int_equal(sleeps, 3);
	assert_int_equal(poll_meets_an_error(3), 0); /* it was one event */
	assert_int_equal(sleeps, 0);
}

static void it_does_not_wait_long(void **state)
{
	uint64_t before = world.now;

	(void)state;
	world.send_cq.woken = true;
	assert_int_equal(poll_meets_an_error(UINT32_MAX), 0);
	assert_in_range(world.now - before, 400 * MS, 600 * MS);
	assert_int_equal(poll_meets_an_error(UINT32_MAX), 0);
	assert_in_range(world.now - before, 400 * MS, 600 * MS);
}

/* It may serve many connections: those to a host that is gone, and others. */
static void a_thread_waits_in_vain_once(void **state)
{
	uint64_t before;

	(void)state;
	world.send_cq.woken = true;
	assert_int_equal(poll_meets_an_error(UINT32_MAX), 0);
	before = world.now;
	world.send_cq.woken = true;
	assert_int_equal(poll_meets_an_error(3), 0);
	assert_int_equal(sleeps, 0);
	assert_int_equal(world.now, before);
	world.now += 31000ull * MS;
	world.send_cq.woken = true;
	assert_int_equal(poll_meets_an_error(3), 1);
	world.send_cq.woken = true;
	assert_int_equal(poll_meets_an_error(3), 1); /* that one was not in vain */
}

/* Its completion was polled before the event. What is to come is no answer to that. */
static void who_has_found_nothing_on_the_fast_way_does_not_wait(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	for (int i = 0; i < 2; i++) { /* the second knows the CQ */
		world.send_cq.woken = true;
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 0);
		assert_false(world.send_cq.woken);
	}
	assert_int_equal(poll_meets_an_error(3), 0);
	assert_int_equal(sleeps, 0);
}

/* The gate is shut for other reasons: a QP that the program has put into ERR, or one on its twin.
 */
static void it_does_not_wait_if_no_switch_is_under_way(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	switching = false;
	gate_shut(&world.send_cq.gate);
	sleeps = 0;
	sleeps_of_the_switch = UINT32_MAX;
	world.on_sleep = the_switch_goes_on;
	world.send_cq.woken = true;
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 0);
	world.on_sleep = NULL;
	gate_open(&world.send_cq.gate);
	assert_int_equal(sleeps, 0);
}

/* Each has its completion, polled on the fast way, or delivered: what it polls after that is more.
 */
static void who_has_had_the_completion_does_not_wait(void **state)
{
	struct ibv_wc wc[8];

	(void)state;
	world.send_cq.woken = true;
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	nic_has(2, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	world.on_sleep = the_switch_goes_on;
	sleeps = 0;
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 8, wc), 1);
	assert_int_equal(sleeps, 0);
	assert_int_equal(poll_meets_an_error(3), 0);
	assert_int_equal(sleeps, 0);
	world.send_cq.woken = true;
	vcq_deliver(&world.send_cq, &(struct ibv_wc){.wr_id = 9, .qp_num = QPN});
	assert_int_equal(poll_meets_an_error(3), 1);
	assert_int_equal(poll_meets_an_error(3), 0);
	assert_int_equal(sleeps, 0);
}

static void an_empty_queue_leaves_the_gate(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 0);
	rooms_be_fast(v, true); /* waits for those that are inside */
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
		rooms_be_fast(v, fast);
		world.poll_fails = -5;
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), -5);
		world.poll_fails = 0;
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 0);
	}
	rooms_be_fast(v, false);
	core.delivers = true;
	nic_has(1, QPN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND);
	world.poll_fails = -5;
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), 1);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 2, wc), -5);
}

static void poll_first(void)
{
	struct ibv_wc wc;

	assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, &wc), 0);
}

/* The gate is shut when this thread meets it for the first time. */
static void poll_while_shut(void)
{
	gate_shut(&world.send_cq.gate);
	poll_first();
	gate_open(&world.send_cq.gate);
	poll_first();
}

static void another_threads_cq_is_not_polled_as_ones_own(void **state)
{
	(void)state;
	rooms_beside(poll_first, poll_while_shut);
	assert_true(world.send_cq.gate.shut & GATE_SHARED);
}

/* --- receives ------------------------------------------------------------------------------ */

/* What the NIC says of a receive is our mark; the program's wr_id is in the log. */
static void a_receive_has_the_programs_wr_id(void **state)
{
	for (int batch = 1; batch <= 4; batch += 3) {
		struct shift_recv_entry ring[4] = {{.wr_id = 0x71}, {.wr_id = 0x72}};
		struct ibv_wc wc[4];
		int got = 0;

		begin_fast(state);
		v->hot.log.recvs = (struct shift_recvlog){
			.ring = ring, .mask = 3, .cap = 4, .posted = 2};
		nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND); /* so that it is known */
		nic_has(0x55, QPN, IBV_WC_SUCCESS, IBV_WC_RECV);
		nic_has(0x55, QPN, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
		nic_has(0x56, QPN, IBV_WC_SUCCESS, IBV_WC_RECV); /* none is outstanding */
		while (got < 4)
			got += hot_poll_cq(&world.real_send_cq, batch, wc + got);
		assert_int_equal(wc[1].wr_id, 0x71);
		assert_int_equal(wc[2].wr_id, 0x72);
		assert_int_equal(v->hot.log.recvs.done, 2);
		assert_traced("cqe send id 0x1 rail 0 epoch 0 status 0 vendor 0 bytes 0\n"
			      "cqe recv id 0x56 rail 0 epoch 0 status 0 vendor 0 bytes 0\n");
		end(state);
	}
}

/* Not even if it is the only one: a receive that failed is not done. */
static void an_error_is_not_counted(void **state)
{
	struct shift_recv_entry ring[4] = {{.wr_id = 0x71}};
	struct ibv_wc wc[2];

	(void)state;
	v->hot.log.recvs = (struct shift_recvlog){.ring = ring, .mask = 3, .cap = 4, .posted = 1};
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, wc), 1);
	nic_has(2, QPN, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	nic_has(3, QPN, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND);
	for (int i = 0; i < 2; i++)
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, wc), 0);
	assert_int_equal(v->hot.log.recvs.done, 0);
	assert_int_equal(v->hot.log.sends_done, 0);
}

/* --- a QP that is gone --------------------------------------------------------------------- */

static bool forgot_inside;

static void nobody_is_inside(struct gate *const *gates, unsigned int n)
{
	if (n != 1 || gates[0] != &world.send_cq.gate)
		return;
	assert_ptr_equal(assoc_find(&world.send_cq.qps, QPN), v);
	assert_true((gates[0]->shut & ~GATE_SHARED) > GATE_OPEN);
	forgot_inside = true;
}

/* It is forgotten when no thread is inside that may have found it, and then the fast way goes on.
 */
static void a_cq_forgets_a_qp(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, wc), 1);
	trace_clear();
	world.on_sync = nobody_is_inside;
	forgot_inside = false;
	vcq_forget(&world.send_cq, v);
	world.on_sync = NULL;
	assert_true(forgot_inside);
	assert_null(assoc_find(&world.send_cq.qps, QPN));
	for (uint64_t i = 2; i < 4; i++) {
		nic_has(i, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
		assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, wc), 1);
	}
	assert_traced("cqe send id 0x2 rail 0 epoch 0 status 0 vendor 0 bytes 0\n");
	assert_int_equal(v->hot.log.sends_done, 1);
}

static unsigned int forgets;

static void it_cannot_be_found_again(struct gate *const *gates, unsigned int n)
{
	if (n != 1 || (gates[0] != &world.send_cq.gate && gates[0] != &world.recv_cq.gate) ||
	    vqp_find(v->qp)) /* it is drained */
		return;
	assert_null(table_get(&world.dev.qps, QPN));
	forgets++;
}

static void it_is_closed(void)
{
	v->life.closed = true;
}

/* The NIC gives the number of a QP that was destroyed to the next one. */
static void a_number_is_used_again(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	nic_has(1, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, wc), 1);
	world.recv_wc = (struct ibv_wc){.qp_num = QPN, .opcode = IBV_WC_RECV};
	world.recv_has = true;
	assert_int_equal(hot_poll_cq(&world.real_recv_cq, 1, wc), 1);
	assert_ptr_equal(assoc_find(&world.send_cq.qps, QPN), v);
	assert_ptr_equal(assoc_find(&world.recv_cq.qps, QPN), v);
	world.on_wait = it_is_closed;
	world.on_sync = it_cannot_be_found_again;
	forgets = 0;
	hook_destroy_qp(v->qp);
	world.on_wait = NULL;
	world.on_sync = NULL;
	v = rooms_create_qp();
	rooms_start_qp(v);
	rooms_be_fast(v, true);
	assert_int_equal(forgets, 2);
	assert_null(assoc_find(&world.send_cq.qps, QPN));
	assert_null(assoc_find(&world.recv_cq.qps, QPN));
	nic_has(2, QPN, IBV_WC_SUCCESS, IBV_WC_SEND);
	assert_int_equal(hot_poll_cq(&world.real_send_cq, 1, wc), 1);
	assert_traced("cqe send id 0x2 rail 0 epoch 0 status 0 vendor 0 bytes 0\n");
	assert_ptr_equal(assoc_find(&world.send_cq.qps, QPN), v);
}

/* More than the smallest table holds. */
static void a_cq_has_many_qps(void **state)
{
	static struct vqp many[300];

	(void)state;
	for (uint32_t i = 0; i < 300; i++)
		vcq_remember(&world.send_cq, many + i, 0x1000 + i);
	for (uint32_t i = 0; i < 300; i++)
		assert_ptr_equal(assoc_find(&world.send_cq.qps, 0x1000 + i), many + i);
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define FAST(name)  cmocka_unit_test_setup_teardown(name, begin_fast, end)
	const struct CMUnitTest tests[] = {
		ALONE(completions_are_counted),
		FAST(completions_of_each_qp_are_its_own),
		FAST(an_error_ends_the_fast_way),
		FAST(a_program_that_sleeps_gets_all_at_once),
		FAST(who_was_woken_for_an_error_waits_for_the_switch),
		FAST(it_does_not_wait_long),
		FAST(a_thread_waits_in_vain_once),
		FAST(who_has_found_nothing_on_the_fast_way_does_not_wait),
		FAST(it_does_not_wait_if_no_switch_is_under_way),
		FAST(who_has_had_the_completion_does_not_wait),
		FAST(an_empty_queue_leaves_the_gate),
		FAST(another_threads_cq_is_not_polled_as_ones_own),
		FAST(the_queue_of_another_is_polled_directly),
		FAST(what_was_drained_is_taken_by_the_same_thread),
		FAST(an_error_that_comes_first_is_looked_into_at_once),
		FAST(a_poll_that_fails_is_told),
		ALONE(a_receive_has_the_programs_wr_id),
		FAST(an_error_is_not_counted),
		FAST(a_cq_forgets_a_qp),
		FAST(a_number_is_used_again),
		FAST(a_cq_has_many_qps),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(*tests));
}
