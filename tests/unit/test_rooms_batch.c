/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Sends of which all are posted, or none: as ibv_wr_complete() does (post_send_batch() in
 * lib/verbs/post_send.c). */
#include "tests/unit/rooms.h"

#include <errno.h>
#include <stdio.h>

#include "lib/conn/conn_lock.h"
#include "lib/verbs/post_send.h"

enum { BATCH = 3 };

static struct vqp *v;
static struct ibv_sge sge = {.addr = 0x100, .length = 10, .lkey = 0xa};
static struct ibv_send_wr wr[BATCH];

/* What the provider is given, and answers. */
static const struct ibv_send_wr *given;
static int calls, answer;

static int begin(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	for (unsigned int i = 0; i < BATCH; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = 0x10 + i,
					     .next = i + 1 < BATCH ? wr + i + 1 : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED};
	given = NULL;
	calls = answer = 0;
	return 0;
}

static int begin_fast(void **state)
{
	begin(state);
	rooms_be_fast(v, true);
	return 0;
}

static int end(void **state)
{
	return rooms_end_qp(state, v);
}

static int post_all(struct vqp *of, const struct ibv_send_wr *list)
{
	assert_ptr_equal(of, v);
	given = list;
	calls++;
	return answer;
}

static int post_batch(void)
{
	return post_send_batch(v, wr, BATCH, post_all);
}

static unsigned int count(const char *line)
{
	unsigned int n = 0;

	for (const char *at = trace_text(); (at = strstr(at, line)); at++)
		n++;
	return n;
}

/* The log has as many as the provider, and nothing goes to the NIC by another way. */
static void expect(unsigned int logged, unsigned int unlogged)
{
	char line[32];

	assert_int_equal(count("log id"), logged);
	assert_int_equal(count("post 0x10"), 0);
	snprintf(line, sizeof(line), "unlog %u\n", unlogged);
	assert_int_equal(count("unlog"), unlogged != 0);
	assert_int_equal(count(line), unlogged != 0);
	assert_int_equal(v->repost.tx_next, v->repost.tx_end);
	trace_clear();
}

static void is_built_by_the_provider(void **state)
{
	(void)state;
	assert_int_equal(post_batch(), 0);
	assert_ptr_equal(given, wr);
	assert_int_equal(calls, 1);
	expect(BATCH, 0);
}

static void what_the_provider_refuses_is_not_in_the_log(void **state)
{
	(void)state;
	answer = ENOMEM;
	assert_int_equal(post_batch(), ENOMEM);
	assert_int_equal(calls, 1);
	expect(BATCH, BATCH);
}

/* Soft-RoCE refuses with ENOSPC. Any other error is of its doorbell, and it has the batch (V9). */
static void what_soft_roce_says(void **state)
{
	v->dev->nic[0]->is_rxe = true;
	answer = ENOSPC;
	assert_int_equal(post_batch(), ENOSPC);
	expect(BATCH, BATCH);
	answer = ENOMEM;
	assert_int_equal(post_batch(), 0);
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 0\n"));
	expect(BATCH, 0);
	v->dev->nic[0]->is_rxe = false;
	(void)state;
}

static void a_broken_nic_has_nothing_of_it(void **state)
{
	(void)state;
	answer = EIO;
	assert_int_equal(post_batch(), 0);
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 0 count 3\n"));
	assert_int_equal(count("unlog"), 0);
}

/* Of the batch the log takes only the beginning. */
static void the_log_has_no_room_for_all(void **state)
{
	(void)state;
	core.post_ends_after = BATCH - 1;
	assert_int_equal(post_batch(), ENOMEM);
	assert_int_equal(calls, 0);
	assert_int_equal(count("unlog 2\n"), 1);
	assert_int_equal(v->repost.tx_next, v->repost.tx_end);
}

/* It goes behind them, from the log. */
static void others_wait(void **state)
{
	(void)state;
	v->repost.tx_stopped = true;
	v->repost.tx_next = 100;
	v->repost.tx_end = core.head = 101;
	assert_int_equal(post_batch(), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(v->repost.tx_next, 100);
	assert_int_equal(v->repost.tx_end, 101 + BATCH);
	v->repost.tx_stopped = false;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(calls, 0);
	assert_int_equal(count("post 0x10"), 1 + BATCH);
}

static void others_wait_and_may_go(void **state)
{
	(void)state;
	v->repost.tx_next = 100;
	v->repost.tx_end = core.head = 101;
	assert_int_equal(post_batch(), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(count("post 0x10"), 1 + BATCH);
}

static void while_all_is_stopped(void **state)
{
	(void)state;
	core.head = 100;
	v->repost.tx_stopped = true;
	assert_int_equal(post_batch(), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(v->repost.tx_end - v->repost.tx_next, BATCH);
	v->repost.tx_next = v->repost.tx_end;
}

static void on_a_twin(void **state)
{
	(void)state;
	core.post_rail = 1;
	core.head = 100;
	assert_int_equal(post_batch(), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(count("post 0x21"), BATCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define FAST(test) cmocka_unit_test_setup_teardown(test, begin_fast, end)
#define SLOW(test) cmocka_unit_test_setup_teardown(test, begin, end)
		FAST(is_built_by_the_provider),
		FAST(what_the_provider_refuses_is_not_in_the_log),
		FAST(what_soft_roce_says),
		FAST(a_broken_nic_has_nothing_of_it),
		SLOW(is_built_by_the_provider),
		SLOW(what_the_provider_refuses_is_not_in_the_log),
		SLOW(what_soft_roce_says),
		SLOW(a_broken_nic_has_nothing_of_it),
		SLOW(the_log_has_no_room_for_all),
		SLOW(others_wait),
		SLOW(others_wait_and_may_go),
		SLOW(while_all_is_stopped),
		SLOW(on_a_twin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
