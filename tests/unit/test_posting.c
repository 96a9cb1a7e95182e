/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where a post goes in each state, and which receives a new rail gets (3.1, rule 7). */
#include <errno.h>
#include <stdlib.h>

#include "lib/core/conn_int.h"
#include "tests/unit/planned.h"

#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(void)
{
	return w.h[0].c;
}

/* Host 0 gets into that state; what it has on its NIC stays there. */
static void get_into(enum shift_state to)
{
	w.frozen_fence = to == SHIFT_ST_FENCE;
	w.frozen_arm = to == SHIFT_ST_ARM;
	w.fence_hung[0] = to == SHIFT_ST_QUARANTINE;
	switch (to) {
	case SHIFT_ST_ACTIVE: break;
	case SHIFT_ST_PREPARE: w_event(&w, 0, SHIFT_EV_MIGRATE, 1); break;
	case SHIFT_ST_DRAIN:
		w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
		w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
		deliver_all();
		break;
	case SHIFT_ST_NO_RAIL:
		for (int r = 0; r < W_RAILS; r++)
			w_event(&w, 0, SHIFT_EV_LINK_DOWN, r);
		finish_ops(0);
		break;
	default: w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0); finish_ops(0);
	}
	assert_int_equal(w_state(&w, 0), to);
}

static void posts_are_held_where_there_is_no_rail_for_them(void **state)
{
	static const struct {
		enum shift_state in;
		int send, recv;
	} row[] = {
		{SHIFT_ST_ACTIVE, 0, 0},
		{SHIFT_ST_PREPARE, 0, 0},
		{SHIFT_ST_DRAIN, SHIFT_HELD, 0},
		{SHIFT_ST_FENCE, SHIFT_HELD, SHIFT_HELD},
		{SHIFT_ST_NO_RAIL, SHIFT_HELD, SHIFT_HELD},
		{SHIFT_ST_QUARANTINE, SHIFT_HELD, SHIFT_HELD},
		{SHIFT_ST_ARM, SHIFT_HELD, SHIFT_HELD},
		{SHIFT_ST_SWITCHING, SHIFT_HELD, 1},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct shift_sge sge = {.addr = 1, .length = 8};
		const struct shift_wr wr = {.opcode = SHIFT_OP_SEND, .sge = &sge, .num_sge = 1};
		const struct shift_recv_wr recv = {.wr_id = 77};
		uint64_t held;
		int rail;

		teardown(state);
		setup(state);
		get_into(row[i].in);
		held = stats(0)->held_posts;
		assert_int_equal(shift_conn_post_send(conn(), &wr, &rail), 0);
		assert_int_equal(rail, row[i].send);
		assert_int_equal(stats(0)->held_posts - held, row[i].send == SHIFT_HELD);
		assert_int_equal(shift_conn_post_recv(conn(), &recv, &rail), 0);
		assert_int_equal(rail, row[i].recv);
	}
}

/* --- rule 7: the receives of the new rail
 * ------------------------------------------------------------ */

/* Those that were not consumed, oldest first, and those posted meanwhile. */
static void outstanding_receives_are_posted_in_order(void **state)
{
	static const enum shift_state during[] = {SHIFT_ST_FENCE, SHIFT_ST_ARM};

	for (size_t i = 0; i < ROWS(during); i++) {
		teardown(state);
		setup(state);
		for (int n = 0; n < 3; n++) {
			w_post(&w, 1, SHIFT_OP_SEND, 10, true);
			pass_packets(1, 0, 1);
		}
		take_cqes(0);
		get_into(during[i]);
		assert_true(w_recv(&w, 0));
		assert_true(w_recv(&w, 0));
		w.frozen_fence = w.frozen_arm = false;
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
		assert_int_equal(w.h[0].qp[1].recv_head, W_READY_RECVS - 3 + 2);
		for (uint32_t k = 0; k < w.h[0].qp[1].recv_head; k++)
			assert_int_equal(w.h[0].qp[1].recv_id[k], 3 + k);
		assert_true(w_recv(&w, 0)); /* from now on at once */
		assert_int_equal(w.h[0].qp[1].recv_id[W_READY_RECVS - 1], W_READY_RECVS + 2);
	}
}

/* --- the log of receives, as the caller reads it
 * ------------------------------------------------------- */

enum { RECVS = 4, SGES = 3 };

static struct shift_conn *conn_with_sges(void)
{
	struct shift_conn_cfg cfg = {
		.nonce = 1,
		.mtu = {1024},
		.rails = 1,
		.sq_cap = 1,
		.rq_cap = RECVS,
		.rq_sge_max = SGES,
	};
	size_t size = shift_conn_size(&cfg);

	return shift_conn_init(aligned_alloc(64, size), size, &cfg, 0);
}

static void each_receive_is_given_back_whole(void **state)
{
	struct shift_conn *c = conn_with_sges();
	struct shift_sge sge[RECVS][SGES];
	struct shift_recv_wr wr;
	int rail;

	(void)state;
	for (uint32_t i = 0; i < RECVS; i++) {
		for (uint32_t k = 0; k < SGES; k++)
			sge[i][k] = (struct shift_sge){.addr = i, .length = k, .lkey = i + k};
		wr = (struct shift_recv_wr){.wr_id = 70 + i, .sge = sge[i], .num_sge = i};
		assert_int_equal(shift_conn_post_recv(c, &wr, &rail), 0);
	}
	wr.num_sge = 0;
	assert_int_equal(shift_conn_post_recv(c, &wr, &rail), -ENOMEM);
	for (uint32_t i = 0; i < RECVS; i++) {
		shift_conn_recv_at(c, i, &wr);
		assert_int_equal(wr.wr_id, 70 + i);
		assert_int_equal(wr.num_sge, i);
		assert_memory_equal(wr.sge, sge[i], i * sizeof(sge[i][0]));
	}
	free(c);
}

static void refused_receives_are_forgotten(void **state)
{
	static const struct {
		uint32_t refused;
		uint64_t posted;
	} row[] = {{0, 3}, {1, 2}, {2, 1}, {3, 1}, {99, 1}};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_conn *c = conn_with_sges();
		struct shift_recv_wr wr = {.num_sge = 0};
		int rail;

		for (wr.wr_id = 0; wr.wr_id < 3; wr.wr_id++)
			assert_int_equal(shift_conn_post_recv(c, &wr, &rail), 0);
		c->rq->done = 1; /* which cannot be refused any more */
		shift_conn_unpost_recv(c, row[i].refused);
		assert_int_equal(c->rq->posted, row[i].posted);
		free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(posts_are_held_where_there_is_no_rail_for_them),
		WORLD_TEST(outstanding_receives_are_posted_in_order),
		WORLD_TEST(each_receive_is_given_back_whole),
		WORLD_TEST(refused_receives_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
