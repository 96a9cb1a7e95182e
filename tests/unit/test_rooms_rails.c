/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What lib/core asks for is carried out: completions handed over, messages sent, rails opened; and
 * what the lock does on the way in and out (lib/conn/actions.c, conn_lock.c, cq_counts.c). */
#include "tests/unit/rooms.h"

#include <errno.h>

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/cq_counts.h"
#include "lib/conn/repost.h"
#include "lib/nic/peer_path.h"
#include "lib/verbs/qp.h"

static struct vqp *v;
static struct peer_path path = {.link = (struct ctrl_link_peer *)(void *)"rail 1"};

static int begin(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	return 0;
}

static int end(void **state)
{
	return rooms_end_qp(state, v);
}

/* --- actions ------------------------------------------------------------------------------- */

static void what_lib_core_completes_reaches_the_right_cq(void **state)
{
	struct ibv_wc wc[4];

	(void)state;
	core.completion[0] = (struct shift_wc){.wr_id = 1,
					       .status = 12,
					       .opcode = IBV_WC_RDMA_READ,
					       .vendor_err = 13,
					       .byte_len = 14};
	core.completion[1] = (struct shift_wc){
		.wr_id = 2, .status = 5, .opcode = IBV_WC_RECV, .is_recv = true, .byte_len = 9};
	core.completion[2] = (struct shift_wc){.wr_id = 3};
	core.completions = 3;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_COMPLETE});
	assert_int_equal(vcq_take(&world.send_cq, 4, wc), 2);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[0].status, 12);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc[0].vendor_err, 13);
	assert_int_equal(wc[0].byte_len, 14);
	assert_int_equal(wc[0].qp_num, QPN);
	assert_int_equal(wc[1].wr_id, 3);
	assert_int_equal(wc[1].opcode, IBV_WC_SEND);
	assert_int_equal(vcq_take(&world.recv_cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[0].status, 5);
	assert_int_equal(wc[0].opcode, IBV_WC_RECV);
	assert_int_equal(wc[0].byte_len, 9);
	assert_int_equal(wc[0].qp_num, QPN);
}

static void what_flushes_reaches_the_right_cq(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	for (int recv = 0; recv < 2; recv++) {
		vqp_deliver_flush(v, 40 + (uint64_t)recv, recv);
		assert_int_equal(vcq_take(recv ? &world.recv_cq : &world.send_cq, 2, wc), 1);
		assert_int_equal(wc[0].wr_id, 40 + recv);
		assert_int_equal(wc[0].status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc[0].opcode, recv ? IBV_WC_RECV : IBV_WC_SEND);
		assert_int_equal(wc[0].qp_num, QPN);
	}
	assert_int_equal(vcq_take(&world.send_cq, 2, wc), 0);
}

/* Rule 5. */
static void a_fence_stops_posts_to_its_rail(void **state)
{
	(void)state;
	v->repost.tx_rail = 1;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 2, .epoch = 1});
	assert_false(v->repost.tx_stopped);
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 1});
	assert_true(v->repost.tx_stopped);
	rooms_run_jobs(); /* a rail is fenced again only when its fence has ended */
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 2, .epoch = 1});
	assert_true(v->repost.tx_stopped);
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_HOLD});
	assert_true(v->repost.tx_stopped);
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_RELEASE});
	assert_false(v->repost.tx_stopped);
	rooms_run_jobs();
}

static void the_end_is_seen_by_the_program(void **state)
{
	(void)state;
	assert_false(v->life.dead);
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_QP_ERR});
	assert_true(v->life.dead);
	assert_int_equal(v->program.state, IBV_QPS_ERR);
	assert_int_equal(v->qp->state, IBV_QPS_ERR);
	v->life.closed = false;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_CLOSED});
	assert_true(v->life.closed);
	assert_ptr_equal(world.woken, &v->life.closed_cond);
}

static void messages_go_over_the_path_of_their_rail(void **state)
{
	struct shift_action a = {.type = SHIFT_ACT_SEND_MSG,
				 .rail = 1,
				 .msg = {.type = 2, .epoch = 3, .src_conn = 4, .dst_conn = 5}};

	(void)state;
	rooms_act(v, &a);
	assert_traced(""); /* there is none */
	v->rails.twin[1].path = &path;
	rooms_act(v, &a);
	assert_traced("send rail 1 type 2 epoch 3 from 4 to 5\n");
	a.rail = 2;
	rooms_act(v, &a);
	assert_traced("");
	v->rails.twin[1].path = NULL;
}

/* 7.47: a connection whose peer has left is over, but an idle program is not told. */
static void an_end_that_is_not_told_is_one(void **state)
{
	(void)state;
	v->program.state = v->qp->state = IBV_QPS_RTS;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_REPORT,
					    .from = SHIFT_ST_GIVEUP,
					    .to = SHIFT_ST_CLOSED});
	assert_false(v->life.dead);
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_REPORT,
					    .from = SHIFT_ST_GIVEUP,
					    .to = SHIFT_ST_DEAD});
	assert_true(v->life.dead);
	assert_int_equal(v->program.state, IBV_QPS_RTS);
	assert_int_equal(v->qp->state, IBV_QPS_RTS);
}

static void changes_are_reported(void **state)
{
	static const struct {
		enum shift_state from, to;
		const char *line;
	} cases[] = {
		{SHIFT_ST_SETUP, SHIFT_ST_ACTIVE, "protected 1: \n"},
		{SHIFT_ST_SWITCHING, SHIFT_ST_ACTIVE, ""},
		{SHIFT_ST_SETUP, SHIFT_ST_CLOSED, ""},
		{SHIFT_ST_GIVEUP, SHIFT_ST_DEAD, "protected 0: "},
	};

	(void)state;
	v->setup.peer_rails = RAILS;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		trace_clear();
		rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_REPORT,
						    .from = (uint8_t)cases[i].from,
						    .to = (uint8_t)cases[i].to});
		assert_int_equal(strncmp(trace_text(), cases[i].line, strlen(cases[i].line)), 0);
		assert_int_equal(!*trace_text(), !*cases[i].line);
	}
}

/* T2: what lib/core asks for next is carried out, too. */
static void answer_to_a_refused_receive(const struct shift_event *ev)
{
	if (ev->type == SHIFT_EV_POST_FAILED)
		core_asks(&(struct shift_action){.type = SHIFT_ACT_SEND_MSG, .rail = 1});
}

static void a_receive_that_a_rail_refuses_is_told(void **state)
{
	(void)state;
	v->rails.armed_epoch[2] = 6;
	v->rails.twin[1].path = &path;
	core.on_event = answer_to_a_refused_receive;
	world.post_result = EIO;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_POST_RECV,
					    .rail = 2,
					    .epoch = 6,
					    .first = 1,
					    .count = 3});
	assert_traced("receive 0x22 id 0x600000001 [0x300 30 0x200c] [0x400 40 0x200d]\n"
		      "event POST_FAILED rail 2 epoch 6\nsend rail 1 type 0 epoch 0 from 0 to 0\n");
	assert_false(v->repost.recv_refused);
	core.on_event = NULL;
	v->rails.twin[1].path = NULL;
}

static void a_rail_is_open_if_nothing_is_against_it(void **state)
{
	(void)state;
	for (uint32_t mask = 0; mask < 16; mask++)
		for (uint8_t rail = 0; rail < 2; rail++) {
			bool against = mask & 7 || (rail && mask & 8);
			uint32_t bit = 1u << rail;

			v->rails.vetoed = mask & 1 ? bit : 4;
			v->rails.unclean = mask & 2 ? bit : 4;
			v->rails.lacking = mask & 4 ? bit : 4;
			v->rails.twin[1].clean = !(mask & 8);
			v->rails.twin[1].mtu = 512;
			trace_clear();
			vqp_rail_open(v, rail);
			assert_int_equal(!*trace_text(), against);
			if (!against)
				assert_traced(rail ? "event RAIL_OPEN rail 1 mtu 512\n"
						   : "event RAIL_OPEN rail 0\n");
		}
	v->rails.vetoed = v->rails.unclean = v->rails.lacking = 0;
}

/* What keeps it shut does not go when the twins come. */
static void a_rail_that_is_shut_is_not_awaited(void **state)
{
	(void)state;
	for (uint32_t mask = 0; mask < 8; mask++) {
		v->rails.vetoed = mask & 1 ? 2 : 4;
		v->rails.unclean = mask & 2 ? 2 : 4;
		v->rails.lacking = mask & 4 ? 2 : 4;
		trace_clear();
		vqp_rail_await(v, 1);
		assert_traced(mask ? "event RAIL_VETO rail 1\n"
				   : "event RAIL_VETO rail 1 awaited\n");
	}
	v->rails.vetoed = v->rails.unclean = v->rails.lacking = 0;
}

static void a_release_is_lib_cores_to_allow(void **state)
{
	(void)state;
	assert_false(vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW));
	assert_traced("release\n");
	assert_false(v->life.released);
	core.releases = true;
	assert_true(vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW));
	assert_true(v->life.released);
	assert_true(!strncmp(trace_text(), "release\nprotected 0: ", 21));
	trace_clear();
	core.releases = false;
	assert_true(vqp_release(v, STATS_UNPROTECTED_MEMORY_WINDOW)); /* it is already */
	assert_traced("");
}

/* --- the lock ------------------------------------------------------------------------------ */

static bool is_shut(const struct gate *g)
{
	return (g->shut & ~GATE_SHARED) > GATE_OPEN;
}

static bool all_are(bool shut)
{
	return is_shut(&v->hot.send_gate) == shut && is_shut(&v->hot.recv_gate) == shut &&
	       is_shut(&world.send_cq.gate) == shut && is_shut(&world.recv_cq.gate) == shut;
}

static void the_gates_open_when_nothing_waits(void **state)
{
	(void)state;
	for (int what = 0; what < 8; what++) {
		bool opens = what == 7;

		core.fast = what & 1;
		v->life.dead = !(what & 2);
		v->repost.tx_next = 0;
		v->repost.tx_end = what & 4 ? 0 : 1;
		v->repost.tx_stopped = true;
		vqp_enter(v);
		assert_true(all_are(true));
		assert_int_equal(v->hot.slow, 1);
		vqp_leave(v);
		assert_true(all_are(!opens));
		assert_int_equal(v->hot.slow, !opens);
	}
	trace_clear();
	vqp_enter(v);
	assert_traced("fold\n");
	core.fast = false;
	vqp_leave(v);
	assert_traced("");
}

static unsigned int waited_for;

static void threads_leave(struct gate *const *gates, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		waited_for += is_shut(gates[i]);
}

/* Threads that are on the fast way leave it before anything is read. */
static void threads_inside_the_gates_are_waited_for(void **state)
{
	(void)state;
	core.fast = true;
	vqp_enter(v);
	vqp_leave(v);
	world.on_sync = threads_leave;
	waited_for = 0;
	vqp_enter(v);
	assert_int_equal(waited_for, 4);
	core.fast = false;
	vqp_leave(v);
	vqp_enter(v); /* nobody can be inside */
	assert_int_equal(waited_for, 4);
	vqp_leave(v);
	world.on_sync = NULL;
}

static void only_an_earlier_deadline_sets_the_timer(void **state)
{
	static const struct {
		uint64_t set, deadline, said, want;
	} cases[] = {
		{UINT64_MAX, 500, 0, 500},
		{500, 499, 0, 499},
		{500, 500, 0, 500},
		{500, 501, 0, 500},
		{UINT64_MAX, UINT64_MAX, 1000, 1000 + EXPORTED_KEYS_AGAIN_NS},
		{UINT64_MAX, UINT64_MAX, 0, UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		v->timers.tick_at = cases[i].set;
		core.deadline = cases[i].deadline;
		v->keys.exported.said_ns = cases[i].said;
		vqp_enter(v);
		vqp_leave(v);
		assert_int_equal(v->timers.tick_at, cases[i].want);
		if (cases[i].want != cases[i].set)
			assert_int_equal(v->timers.tick.at_ns, cases[i].want);
	}
	v->keys.exported.said_ns = 0;
	v->life.gone = true;
	core.deadline = 5;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(v->timers.tick_at, UINT64_MAX);
	v->life.gone = false;
	core.deadline = UINT64_MAX;
	vqp_timers_stop(v);
}

static void keys_are_asked_for_again_in_time(void **state)
{
	(void)state;
	v->timers.tick_at = UINT64_MAX;
	world.keys_deadline = 700;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(v->timers.tick_at, 700);
	world.keys_deadline = UINT64_MAX;
	vqp_timers_stop(v);
}

/* A commit is over when the last of its sends is posted again. */
static void the_end_of_a_commit_is_reported(void **state)
{
	struct shift_action commit = {.type = SHIFT_ACT_REPORT,
				      .from = SHIFT_ST_SWITCHING,
				      .to = SHIFT_ST_ACTIVE,
				      .reason = SHIFT_R_COMMIT};

	(void)state;
	rooms_act(v, &commit);
	assert_traced("reposted\n");
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_HOLD});
	assert_traced("");
	world.lkey_result = -EAGAIN;
	vqp_enter(v);
	core_asks(&commit);
	core_asks(&(struct shift_action){
		.type = SHIFT_ACT_POST_SEND, .rail = 1, .epoch = 2, .first = 4, .count = 1});
	vqp_leave(v);
	assert_traced("");
	world.lkey_result = 0;
	vqp_enter(v);
	vqp_leave(v);
	assert_non_null(strstr(trace_text(), "post 0x21 "));
	assert_non_null(strstr(trace_text(), "\nreposted\n"));
}

/* Some sends wait, and their rail refuses them: what lib/core asks for then is carried out. */
static void what_a_refused_post_asks_for_is_carried_out(void **state)
{
	(void)state;
	v->rails.twin[1].path = &path;
	core.on_event = answer_to_a_refused_receive;
	world.post_result = EIO;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_POST_SEND,
					    .rail = 2,
					    .epoch = 6,
					    .first = 4,
					    .count = 3});
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 2 epoch 6 count 3\n"
					     "send rail 1 type 0 epoch 0 from 0 to 0\n"));
	assert_int_equal(v->repost.tx_next, 7);
	core.on_event = NULL;
	v->rails.twin[1].path = NULL;
}

/* --- what a CQ counts ---------------------------------------------------------------------- */

static void a_cq_forgets_a_qp(void **state)
{
	static struct vqp other;
	static struct ibv_qp other_qp = {.qp_num = 0x66};

	(void)state;
	other.qp = &other_qp;
	vcq_remember(&world.send_cq, v, QPN);
	vcq_remember(&world.send_cq, &other, 0x66);
	vcq_forget(&world.send_cq, &other);
	assert_ptr_equal(assoc_find(&world.send_cq.qps, QPN), v);
	assert_null(assoc_find(&world.send_cq.qps, 0x66));
	vcq_forget(&world.send_cq, v);
	assert_null(assoc_find(&world.send_cq.qps, QPN));
}

/* --- receives whose memory is not registered yet --------------------------------------------- */

static void a_new_receive_waits_for_its_memory(void **state)
{
	struct shift_sge own = {.length = 1, .lkey = 1};
	struct shift_recv_wr newest = {.wr_id = 5, .sge = &own, .num_sge = 1};

	(void)state;
	v->rails.armed_epoch[1] = 7;
	world.lkey_result = -EAGAIN;
	core.view.recv_posted = 6;
	vqp_enter(v);
	assert_int_equal(repost_new_recv(v, 1, &newest), 0);
	assert_int_equal(v->repost.rx_next, 5);
	assert_int_equal(v->repost.rx_end, 6);
	assert_int_equal(v->repost.rx_to, 1);
	world.lkey_result = 0;
	vqp_leave(v);
	assert_traced("receive 0x21 id 0x700000001 [0x300 30 0x100c] [0x400 40 0x100d]\n");
}

/* A rail that is fenced must not be posted to any more. */
static void a_fence_ends_the_wait_of_receives(void **state)
{
	(void)state;
	world.lkey_result = -EAGAIN;
	for (uint8_t rail = 1; rail < 3; rail++)
		rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_POST_RECV,
						    .rail = rail,
						    .first = 3,
						    .count = 2});
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 1});
	assert_int_equal(v->repost.rx_end - v->repost.rx_next, 2);
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 2});
	assert_int_equal(v->repost.rx_next, v->repost.rx_end);
	world.lkey_result = 0;
	rooms_run_jobs();
}

/* --- threads that the program cancels --------------------------------------------------------- */

static int cancelled_at;

static void *cancel_inside(void *arg)
{
	vqp_enter(v);
	(void)arg;
	pthread_cancel(pthread_self());
	pthread_testcancel();
	cancelled_at = 1;
	vqp_leave(v);
	cancelled_at = 2;
	pthread_testcancel();
	cancelled_at = 3;
	return NULL;
}

/* Nobody would release the lock. */
static void a_thread_inside_is_not_cancelled(void **state)
{
	pthread_t t;
	void *result;

	(void)state;
	cancelled_at = 0;
	assert_int_equal(pthread_create(&t, NULL, cancel_inside, NULL), 0);
	assert_int_equal(pthread_join(t, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(cancelled_at, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_new_receive_waits_for_its_memory),
		TEST(a_fence_ends_the_wait_of_receives),
		TEST(what_lib_core_completes_reaches_the_right_cq),
		TEST(what_flushes_reaches_the_right_cq),
		TEST(a_fence_stops_posts_to_its_rail),
		TEST(the_end_is_seen_by_the_program),
		TEST(messages_go_over_the_path_of_their_rail),
		TEST(changes_are_reported),
		TEST(an_end_that_is_not_told_is_one),
		TEST(a_receive_that_a_rail_refuses_is_told),
		TEST(a_rail_is_open_if_nothing_is_against_it),
		TEST(a_rail_that_is_shut_is_not_awaited),
		TEST(a_release_is_lib_cores_to_allow),
		TEST(the_gates_open_when_nothing_waits),
		TEST(threads_inside_the_gates_are_waited_for),
		TEST(only_an_earlier_deadline_sets_the_timer),
		TEST(keys_are_asked_for_again_in_time),
		TEST(the_end_of_a_commit_is_reported),
		TEST(what_a_refused_post_asks_for_is_carried_out),
		TEST(a_cq_forgets_a_qp),
		TEST(a_thread_inside_is_not_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
