/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Fences, queries of rq_psn, and the completions that both feed (lib/conn/fence_qp.c, drain.c). */
#include "tests/unit/rooms.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/conn/conn_lock.h"
#include "lib/conn/drain.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/repost.h"
#include "lib/verbs/qp.h"

static struct vqp *v;

/* A marker that is posted comes back at once, if world.flushes. */
static int (*plain_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

static int post_and_flush(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_wc wc = {
		.wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp_num};
	int err;

	assert_int_equal(wr->wr_id, v->marker);
	wr->wr_id = 0xfe;
	err = plain_post(qp, wr, bad);
	if (!world.flushes || (err && *bad))
		return err;
	if (qp == v->qp) {
		world.wc[world.wcs++] = wc;
	} else {
		world.twin_wc_nic = qp->qp_num - TWIN_QPN;
		world.twin_wc[world.twin_wcs++] = wc;
	}
	return err;
}

static int begin(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	plain_post = v->post_send;
	v->post_send = post_and_flush;
	for (int i = 1; i < RAILS; i++)
		world.ctx[i].ops.post_send = post_and_flush;
	world.flushes = true;
	return 0;
}

static int end(void **state)
{
	return rooms_end_qp(state, v);
}

static void fence(uint8_t rail, uint32_t epoch)
{
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = rail, .epoch = epoch});
	rooms_run_jobs();
}

/* --- fences -------------------------------------------------------------------------------- */

#define MARKER(qpn) "post " qpn " id 0xfe op 0 flags 0x2 imm 0 to 0 0\n"

static void a_fence_flushes_then_waits_for_the_responder(void **state)
{
	(void)state;
	fence(1, 2);
	assert_traced("modify 0x21 to 6\n" MARKER("0x21") "rq_psn of 0x21 at rest on mlx5_1\n"
							  "event FENCE_DONE rail 1 epoch 2 fence 0 "
							  "psn 0x77 clean\n");
	assert_int_equal(v->rails.jobs[1].fence_since, 0);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
	assert_ptr_equal(v->rails.jobs[1].fence.owner, &v->rails.jobs[1]); /* as a query's */
	fence(0, 3);
	assert_traced("modify 0x10 to 6\n" MARKER("0x10") "rq_psn of 0x10 at rest on mlx5_0\n"
							  "event FENCE_DONE rail 0 epoch 3 fence 0 "
							  "psn 0x77 clean\n");
	assert_int_equal(v->qp->state, IBV_QPS_RTS); /* the program does not see it */
}

/* While its rq_psn has to rest, the worker does what waits behind it; so many fences wait for it
 * once. */
static void others_have_their_turn_while_rq_psn_comes_to_rest(void **state)
{
	(void)state;
	world.looks_moving = 1;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 2});
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_QUERY_PSN, .rail = 1, .epoch = 2});
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), "rq_psn of 0x21 at rest on mlx5_1\n"
					     "rq_psn of 0x21\n"));
	assert_non_null(strstr(trace_text(), "rq_psn of 0x21 at rest on mlx5_1\n"
					     "event FENCE_DONE rail 1 epoch 2 fence 0 psn 0x77 "
					     "clean\n"));
	assert_int_equal(v->rails.jobs[1].under_way, 0);
}

/* Where a look is slow, or rq_psn does not come to rest, the fence is one piece: its deadline must
 * see how long it takes. */
static void a_slow_fence_is_one_piece(void **state)
{
	(void)state;
	for (int slow = 0; slow <= 1; slow++) {
		world.looks_moving = slow ? 1 : 40;
		world.look_ns = slow ? 3000000 : 0;
		rooms_act(v,
			  &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 2});
		for (int i = 0; i < (slow ? 1 : 3); i++)
			assert_true(rooms_run_job());
		assert_false(rooms_run_job());
		assert_non_null(strstr(trace_text(), "FENCE_DONE rail 1"));
		assert_non_null(
			strstr(trace_text(), " clean\n")); /* it has looked until it rested */
		trace_clear();
	}
}

/* The program takes its QP back meanwhile: nobody looks at it any more. */
static void a_fence_is_taken_back_between_two_looks(void **state)
{
	(void)state;
	world.looks_moving = 1;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .epoch = 2});
	assert_true(rooms_run_job());
	assert_true(rail_jobs_stop(v));
	assert_int_equal(v->rails.jobs[0].under_way, 0);
	assert_false(rooms_run_job());
	assert_null(strstr(trace_text(), "FENCE_DONE"));
}

/* One that was asked for later begins anew. */
static void the_next_fence_flushes_again(void **state)
{
	(void)state;
	world.looks_moving = 1;
	fence(1, 2);
	trace_clear();
	fence(1, 3);
	assert_traced("modify 0x21 to 6\n" MARKER("0x21") "rq_psn of 0x21 at rest on mlx5_1\n"
							  "event FENCE_DONE rail 1 epoch 3 fence 0 "
							  "psn 0x77 clean\n");
}

/* What a fence proves, by what the NIC did. */
static void what_a_fence_proves(void **state)
{
	static const struct {
		bool err_fails, flushes, at_rest;
		uint8_t psn;
		const char *result;
		bool clean;
	} cases[] = {
		{false, true, true, STATS_PSN_LIVE, "fence 0 psn 0x77 clean\n", true},
		{false, true, true, STATS_PSN_STALE, "fence 1 psn 0x77 clean\n", true},
		{false, true, true, STATS_PSN_UNMEASURED, "fence 1 psn 0x77 clean\n", true},
		{false, true, false, STATS_PSN_LIVE, "fence 1 psn 0x77 hung\n", false},
		{false, false, true, STATS_PSN_LIVE, "fence 1 psn 0x77 hung\n", false},
		{true, true, true, STATS_PSN_LIVE, "fence 1 psn 0x77 hung\n", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (uint32_t before = 0; before < 8; before += 7) {
			begin(state);
			world.modify_fails_at = cases[i].err_fails;
			world.flushes = cases[i].flushes;
			world.at_rest = cases[i].at_rest;
			world.nic[1].psn = cases[i].psn;
			v->rails.unclean = before;
			fence(1, 2);
			assert_non_null(strstr(trace_text(), "event FENCE_DONE rail 1 epoch 2 "));
			assert_non_null(strstr(trace_text(), cases[i].result));
			assert_int_equal(!strstr(trace_text(), MARKER("0x21")), cases[i].err_fails);
			assert_int_equal(v->rails.unclean,
					 cases[i].clean ? before & ~2u : before | 2u);
			end(state);
		}
}

static void soft_roce_is_fenced_by_reset(void **state)
{
	for (int fails = 0; fails < 2; fails++) {
		begin(state);
		world.nic[1].is_rxe = true;
		world.modify_fails_at = fails ? 2 : 0;
		fence(1, 2);
		assert_non_null(strstr(trace_text(), MARKER("0x21") "modify 0x21 to 0\n"));
		assert_int_equal(!strstr(trace_text(), " clean\n"), fails);
		assert_int_equal(!strstr(trace_text(), "at rest"), fails);
		end(state);
	}
}

static void a_rail_without_a_twin_has_nothing_to_fence(void **state)
{
	struct ibv_qp *qp = v->rails.twin[1].qp;

	(void)state;
	v->rails.twin[1].qp = NULL;
	v->rails.unclean = 2;
	fence(1, 2);
	assert_traced("event FENCE_DONE rail 1 epoch 2 fence 1 psn 0 clean\n");
	assert_int_equal(v->rails.unclean, 2);
	v->rails.twin[1].qp = qp;
}

/* 300 ms, as long as it is polled. */
static void a_marker_is_waited_for(void **state)
{
	uint64_t began = world.now;

	(void)state;
	world.flushes = false;
	v->rails.jobs[1].marker_seen = true; /* that of an earlier fence */
	fence(1, 2);
	assert_in_range(world.now - began, 300ull * MS, 301ull * MS);
	assert_non_null(strstr(trace_text(), " hung\n"));
	assert_null(strstr(strstr(trace_text(), MARKER("0x21")) + 1, MARKER("0x21"))); /* once */
}

static int refusals;

static int post_when_there_is_room(struct ibv_qp *qp, struct ibv_send_wr *wr,
				   struct ibv_send_wr **bad)
{
	if (!refusals--)
		return post_and_flush(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}

static void a_full_queue_gets_the_marker_when_it_has_flushed(void **state)
{
	(void)state;
	refusals = 3;
	world.ctx[1].ops.post_send = post_when_there_is_room;
	fence(1, 2);
	assert_non_null(strstr(trace_text(), MARKER("0x21")));
	assert_non_null(strstr(trace_text(), " clean\n"));
	world.ctx[1].ops.post_send = post_and_flush;
}

/* V9: it was queued nevertheless. */
static void a_marker_without_bad_is_not_posted_again(void **state)
{
	(void)state;
	world.post_result = EIO;
	world.post_without_bad = true;
	world.flushes = false;
	fence(1, 2);
	assert_null(strstr(strstr(trace_text(), MARKER("0x21")) + 1, MARKER("0x21")));
	trace_clear();
	world.flushes = true;
	fence(1, 3);
	assert_non_null(strstr(trace_text(), " clean\n"));
	world.post_result = 0;
}

static void the_program_destroys_it(void)
{
	v->life.gone = true;
}

static void the_flush_of_a_qp_that_goes_is_not_waited_for(void **state)
{
	uint64_t began = world.now;

	(void)state;
	world.flushes = false;
	world.on_sleep = the_program_destroys_it;
	fence(1, 2);
	world.on_sleep = NULL;
	assert_true(world.now - began < MS);
	v->life.gone = false;
}

/* Its CQs may be destroyed by then. */
static void the_cqs_of_a_qp_that_goes_are_left_alone(void **state)
{
	(void)state;
	v->life.gone = true;
	world.wc[world.wcs++] = (struct ibv_wc){.wr_id = 1, .qp_num = QPN};
	fence(1, 2);
	assert_null(strstr(trace_text(), "cqe"));
	assert_int_equal(world.wcs_polled, 0);
	v->life.gone = false;
}

/* Both CQs, and after the responder has stopped once more (V5). */
static void it_ends(const struct shift_event *ev)
{
	if (ev->type != SHIFT_EV_FENCE_DONE)
		return;
	assert_int_equal(world.twin_wcs_polled, world.twin_wcs);
}

static void what_a_fence_finds_is_fed_before_it_is_done(void **state)
{
	(void)state;
	core.on_event = it_ends;
	world.twin_wc_nic = 1;
	world.twin_wc[world.twin_wcs++] = (struct ibv_wc){
		.wr_id = 2ull << TWIN_EPOCH_SHIFT | TWIN_RECV, .qp_num = TWIN_QPN + 1, .status = 5};
	fence(1, 2);
	assert_true(strstr(trace_text(), "cqe recv id 0x200000001 rail 1 epoch 2 status 5") <
		    strstr(trace_text(), "event FENCE_DONE"));
	core.on_event = NULL;
}

static void the_last_comes(void)
{
	world.wc[world.wcs++] = (struct ibv_wc){.wr_id = 4, .qp_num = QPN, .status = 5};
	world.recv_wc = (struct ibv_wc){.wr_id = 5, .qp_num = QPN, .status = 5};
	world.recv_has = true;
}

/* What the responder did last is fed, too. */
static void what_comes_until_the_responder_rests_is_fed(void **state)
{
	(void)state;
	world.on_rest = the_last_comes;
	fence(0, 2);
	assert_non_null(strstr(trace_text(), "rq_psn of 0x10 at rest on mlx5_0\n"
					     "cqe send id 0x4 rail 0 epoch 0 status 5 vendor 0 "
					     "bytes 0\ncqe recv id 0x5 rail 0 epoch 0 status 5 "
					     "vendor 0 bytes 0\nevent FENCE_DONE rail 0"));
}

/* 7.23: told before the fence is, so that they are not taken for lost. */
static void sends_that_wait_are_withdrawn_before(void **state)
{
	(void)state;
	v->repost.tx_next = 3;
	v->repost.tx_end = 5;
	v->repost.tx_rail = 1;
	v->repost.tx_epoch = 2;
	fence(1, 2);
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 1 epoch 2 count 2\n"
					     "event FENCE_DONE rail 1 epoch 2"));
}

static void a_fence_of_the_life_before_is_not_told(void **state)
{
	(void)state;
	v->rails.jobs[1].stale = true;
	v->rails.unclean = 2;
	fence(1, 2);
	assert_null(strstr(trace_text(), "event"));
	assert_int_equal(v->rails.unclean, 0); /* but it is the same QP */
	assert_false(v->rails.jobs[1].stale);
}

/* The one before was taken for hung, and still runs. */
static void another_fence_is_asked_for(void)
{
	v->rails.jobs[1].fence_epoch = 9;
	v->rails.jobs[1].fence_since = 12345;
}

static void a_fence_that_was_overtaken_leaves_the_deadline(void **state)
{
	(void)state;
	world.on_modify = another_fence_is_asked_for;
	fence(1, 2);
	assert_non_null(strstr(trace_text(), "event FENCE_DONE rail 1 epoch 2 "));
	assert_int_equal(v->rails.jobs[1].fence_since, 12345);
	v->rails.jobs[1].fence_since = 0;
}

static void a_fence_has_a_deadline(void **state)
{
	(void)state;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 2});
	assert_int_equal(v->rails.jobs[1].fence_since, START_NS);
	assert_true(v->timers.overdue.heap_at);
	rooms_run_jobs();
}

/* --- queries ------------------------------------------------------------------------------- */

static void ask_psn(uint32_t epoch, uint32_t serial)
{
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_QUERY_PSN,
					    .rail = 1,
					    .epoch = epoch,
					    .serial = serial});
}

static void a_query_is_sure_if_the_psn_is_live(void **state)
{
	static const struct {
		bool answers, twin;
		uint8_t psn;
		const char *trace;
	} cases[] = {
		{true, true, STATS_PSN_LIVE,
		 "rq_psn of 0x21\nevent PSN rail 1 epoch 2 fence 0 psn 0x77 serial 3\n"},
		{true, true, STATS_PSN_STALE,
		 "rq_psn of 0x21\nevent PSN rail 1 epoch 2 fence 1 psn 0x77 serial 3\n"},
		{true, true, STATS_PSN_UNMEASURED,
		 "rq_psn of 0x21\nevent PSN rail 1 epoch 2 fence 1 psn 0x77 serial 3\n"},
		{false, true, STATS_PSN_LIVE,
		 "rq_psn of 0x21\nevent PSN rail 1 epoch 2 fence 1 psn 0x77 serial 3\n"},
		{true, false, STATS_PSN_LIVE, "event PSN rail 1 epoch 2 fence 1 psn 0 serial 3\n"},
	};
	struct ibv_qp *qp = v->rails.twin[1].qp;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world.at_rest = cases[i].answers;
		world.nic[1].psn = cases[i].psn;
		v->rails.twin[1].qp = cases[i].twin ? qp : NULL;
		ask_psn(2, 3);
		assert_int_equal(rooms_run_jobs(), 1);
		assert_traced(cases[i].trace);
		assert_false(v->rails.jobs[1].querying);
	}
	v->rails.twin[1].qp = qp;
}

/* It only receives, so that no completion says it. */
static void a_query_finds_a_qp_in_err(void **state)
{
	(void)state;
	world.in_err = true;
	v->rails.armed_epoch[1] = 2;
	ask_psn(2, 3);
	assert_int_equal(rooms_run_jobs(), 1);
	assert_traced("rq_psn of 0x21\nevent PSN rail 1 epoch 2 fence 0 psn 0x77 serial 3\n"
		      "event POST_FAILED rail 1 epoch 2\n");
	v->rails.armed_epoch[1] = 4; /* meanwhile: it was the fence that took it to ERR */
	ask_psn(2, 3);
	assert_int_equal(rooms_run_jobs(), 1);
	assert_traced("rq_psn of 0x21\nevent PSN rail 1 epoch 2 fence 0 psn 0x77 serial 3\n");
}

static void one_answer_bears_the_newest_question(void **state)
{
	(void)state;
	ask_psn(2, 3);
	ask_psn(4, 5);
	assert_ptr_equal(v->rails.jobs[1].query.owner, &v->rails.jobs[1]); /* as a fence's */
	assert_int_equal(rooms_run_jobs(), 1);
	assert_traced("rq_psn of 0x21\nevent PSN rail 1 epoch 4 fence 0 psn 0x77 serial 5\n");
	assert_int_equal(v->rails.jobs[1].under_way, 0);
	v->rails.jobs[1].stale = true;
	ask_psn(6, 7);
	rooms_run_jobs();
	assert_traced("rq_psn of 0x21\n");
}

/* --- completions --------------------------------------------------------------------------- */

static void drain(void)
{
	pthread_mutex_lock(&world.send_cq.drain_lock);
	vcq_drain(&world.send_cq);
	pthread_mutex_unlock(&world.send_cq.drain_lock);
}

static struct ibv_wc completion(uint64_t id, uint32_t qpn, int status, int opcode)
{
	return (struct ibv_wc){.wr_id = id,
			       .qp_num = qpn,
			       .status = (enum ibv_wc_status)status,
			       .opcode = (enum ibv_wc_opcode)opcode,
			       .vendor_err = 8,
			       .byte_len = 9};
}

/* The opcode of an error says nothing (8.3). */
static void errors_are_told_apart(void **state)
{
	static const struct {
		bool twin, one_cq;
		uint64_t id;
		int status, opcode;
		bool recv;
	} cases[] = {
		{true, false, 6ull << 32 | 1, 5, IBV_WC_SEND, true},
		{true, false, 6ull << 32, 5, IBV_WC_RECV, false},
		{true, false, 6ull << 32, 0, IBV_WC_RECV, true},
		{true, false, 6ull << 32 | 1, 0, IBV_WC_SEND, false},
		{false, false, 0x10, 5, IBV_WC_RECV, false}, /* by its CQ */
		{false, true, 0x55, 5, IBV_WC_SEND, true},
		{false, true, 0x56, 5, IBV_WC_RECV, false},
		{false, false, 0x10, 0, IBV_WC_RECV_RDMA_WITH_IMM, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_wc wc = completion(cases[i].id, cases[i].twin ? TWIN_QPN + 1 : QPN,
					      cases[i].status, cases[i].opcode);
		char line[128];

		begin(state);
		v->hot.rail0_epoch = 4;
		v->hot.recv_marked.wr_id = cases[i].one_cq ? 0x55 : 0;
		if (cases[i].one_cq)
			v->recv_cq = v->send_cq;
		if (cases[i].twin) {
			world.twin_wc_nic = 1;
			world.twin_wc[world.twin_wcs++] = wc;
		} else {
			world.wc[world.wcs++] = wc;
		}
		drain();
		snprintf(line, sizeof(line),
			 "cqe %s id %#llx rail %d epoch %d status %d vendor 8 "
			 "bytes 9\n",
			 cases[i].recv ? "recv" : "send", (unsigned long long)cases[i].id,
			 cases[i].twin, cases[i].twin ? 6 : 4, cases[i].status);
		assert_string_equal(trace_text(), line);
		v->recv_cq = &world.recv_cq;
		v->hot.recv_marked.wr_id = 0;
		end(state);
	}
}

static void an_error_of_the_receives_cq_is_a_receives(void **state)
{
	(void)state;
	v->send_cq = &world.recv_cq;
	v->recv_cq = &world.send_cq; /* the one that has something */
	world.wc[world.wcs++] = completion(0x10, QPN, 5, IBV_WC_SEND);
	drain();
	v->send_cq = &world.send_cq;
	v->recv_cq = &world.recv_cq;
	assert_true(!strncmp(trace_text(), "cqe recv ", 9));
}

/* As lib/core says, and as if they came from the program's QP. */
static void what_is_delivered_reaches_the_right_cq(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	core.delivers = true;
	world.twin_wc_nic = 1;
	world.twin_wc[world.twin_wcs++] = completion(6ull << 32, TWIN_QPN + 1, 0, IBV_WC_RDMA_READ);
	world.twin_wc[world.twin_wcs++] = completion(6ull << 32 | 1, TWIN_QPN + 1, 0, IBV_WC_RECV);
	drain();
	assert_int_equal(vcq_take(&world.send_cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, (6ull << 32) + 0x100);
	assert_int_equal(wc[0].qp_num, QPN);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc[0].byte_len, 9);
	assert_int_equal(vcq_take(&world.recv_cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, (6ull << 32) + 0x101);
	assert_int_equal(wc[0].opcode, IBV_WC_RECV);
}

/* There is room for all that all QPs may have outstanding. Of that only what waits at a time is
 * touched. */
static void what_is_taken_at_once_needs_one_place(void **state)
{
	struct ibv_wc wc = completion(0, QPN, 0, IBV_WC_SEND), got;

	(void)state;
	assert_true(vcq_attach(&world.send_cq, 64));
	for (uint64_t i = 0; i < 10; i++) {
		wc.wr_id = i + 1;
		vcq_deliver(&world.send_cq, &wc);
		assert_int_equal(vcq_take(&world.send_cq, 1, &got), 1);
		assert_int_equal(got.wr_id, i + 1);
	}
	for (uint32_t i = 1; i < 64; i++)
		assert_int_equal(world.send_cq.delivered.wc[i].wr_id, 0);
	vcq_detach(&world.send_cq, 64);
}

static void of_qps_without_a_connection_all_is_delivered(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	world.wc[world.wcs++] = completion(0x10, 0x66, 5, IBV_WC_SEND);
	world.twin_wc_nic = 1;
	world.twin_wc[world.twin_wcs++] = completion(0x11, 0x67, 5, IBV_WC_SEND); /* it is gone */
	drain();
	assert_traced("");
	assert_int_equal(vcq_take(&world.send_cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 0x10);
	assert_int_equal(wc[0].qp_num, 0x66);
}

static void a_marker_is_its_rails(void **state)
{
	(void)state;
	world.twin_wc_nic = 2;
	world.twin_wc[world.twin_wcs++] = completion(v->marker, TWIN_QPN + 2, 5, 0);
	drain();
	assert_traced("");
	assert_false(v->rails.jobs[0].marker_seen || v->rails.jobs[1].marker_seen);
	assert_true(v->rails.jobs[2].marker_seen);
	world.wc[world.wcs++] = completion(v->marker, QPN, 5, 0);
	drain();
	assert_traced("");
	assert_true(v->rails.jobs[0].marker_seen);
	assert_false(v->rails.jobs[1].marker_seen);
}

static uint64_t traced_id(const char *line)
{
	return strtoull(strstr(line, "id ") + 3, NULL, 16);
}

/* The stash first, then the NIC's, each whole, in order. */
static void all_there_is_is_fed(void **state)
{
	const char *line;
	uint64_t at = 0;

	(void)state;
	world.send_cq.stash = calloc(40, sizeof(struct ibv_wc));
	world.send_cq.stash_size = 40;
	world.send_cq.stash_n = 40;
	for (uint64_t i = 0; i < 40; i++)
		world.send_cq.stash[i] = completion(0x1000 + i, QPN, 0, 0);
	gate_shut(&world.send_cq.gate);
	vqp_enter(v); /* its own gates are shut, too */
	vqp_leave(v);
	for (uint64_t i = 0; i < 40; i++)
		world.wc[world.wcs++] = completion(0x1028 + i, QPN, 0, 0);
	world.twin_wc_nic = RAILS - 1;
	for (uint64_t i = 0; i < 33; i++)
		world.twin_wc[world.twin_wcs++] = completion(0x1050 + i, TWIN_QPN + RAILS - 1, 0,
							     0);
	drain();
	for (line = trace_text(); (line = strstr(line, "cqe ")); line++, at++)
		assert_int_equal(traced_id(line), 0x1000 + at);
	core.fast = true;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(at, 113);
	assert_int_equal(world.send_cq.stash_n, 0);
	assert_int_equal(world.send_cq.stash_at, 0);
	assert_int_equal(world.send_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
	core.fast = false;
}

/* Where another QP of the CQ is slow. Its gates stay open, and its lock is not taken. */
static void a_fast_qp_of_a_slow_cq_is_only_counted(void **state)
{
	struct shift_recv_entry ring[4] = {{.wr_id = 0x71}};
	struct ibv_wc wc[8];

	(void)state;
	rooms_be_fast(v, true);
	gate_shut(&world.send_cq.gate); /* by that other QP */
	v->recv_cq = &world.send_cq;
	v->hot.log.recvs = (struct shift_recvlog){.ring = ring, .mask = 3, .cap = 4, .posted = 1};
	world.wc[world.wcs++] = completion(0x10, QPN, 0, IBV_WC_SEND);
	world.wc[world.wcs++] = completion(0x55, QPN, 0, IBV_WC_RECV);
	world.wc[world.wcs++] = completion(0x11, QPN, 0, IBV_WC_RDMA_READ);
	world.on_sync = NULL;
	pthread_mutex_lock(&v->lock);
	drain();
	pthread_mutex_unlock(&v->lock);
	assert_traced("");
	assert_int_equal(v->hot.log.sends_done, 2);
	assert_int_equal(v->hot.log.recvs.done, 1);
	assert_int_equal(v->hot.slow, 0);
	assert_int_equal(vcq_take(&world.send_cq, 8, wc), 3);
	assert_int_equal(wc[0].wr_id, 0x10);
	assert_int_equal(wc[1].wr_id, 0x71);
	assert_int_equal(wc[2].wr_id, 0x11);
	/* What it did not post, and an error, are lib/core's matter. */
	world.wc[world.wcs++] = completion(0x56, QPN, 0, IBV_WC_RECV);
	world.wc[world.wcs++] = completion(0x12, QPN, 5, IBV_WC_SEND);
	drain();
	assert_non_null(strstr(trace_text(), "cqe recv id 0x56 "));
	assert_non_null(strstr(trace_text(), "cqe send id 0x12 "));
	assert_int_equal(v->hot.log.sends_done, 2);
	gate_open(&world.send_cq.gate);
	v->recv_cq = &world.recv_cq;
	core.fast = false;
}

static bool delivered_while_counted;

void __real_vcq_deliver(struct vcq *cq, const struct ibv_wc *wc);
void __wrap_vcq_deliver(struct vcq *cq, const struct ibv_wc *wc);
void __wrap_vcq_deliver(struct vcq *cq, const struct ibv_wc *wc)
{
	delivered_while_counted = atomic_load(&cq->counting) == v;
	__real_vcq_deliver(cq, wc);
}

/* A switch may deliver what is behind it. */
static void what_is_counted_is_delivered_before_anybody_enters(void **state)
{
	struct ibv_wc wc;

	(void)state;
	rooms_be_fast(v, true);
	world.wc[world.wcs++] = completion(0x10, QPN, 0, IBV_WC_SEND);
	drain();
	assert_true(delivered_while_counted);
	assert_int_equal(vcq_take(&world.send_cq, 1, &wc), 1);
	assert_null(world.send_cq.counting);
	core.fast = false;
}

static _Atomic bool entered;

static void *enter_v(void *arg)
{
	(void)arg;
	vqp_enter(v);
	entered = true;
	vqp_leave(v);
	return NULL;
}

/* Who counts has read that the QP is fast. */
static void while_a_completion_is_counted_nobody_enters(void **state)
{
	struct vcq *cqs[] = {&world.send_cq, &world.recv_cq};
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 2; i++) {
		rooms_be_fast(v, true);
		entered = false;
		vcq_count_begin(cqs[i], v);
		pthread_create(&thread, NULL, enter_v, NULL);
		usleep(20000);
		assert_false(entered);
		vcq_count_end(cqs[i]);
		pthread_join(thread, NULL);
		assert_true(entered);
		vcq_count_begin(cqs[i], NULL); /* another QP's */
		enter_v(NULL);
	}
	core.fast = false;
}

/* Between what is fed no other thread polls: those that were inside have left. */
static bool was_shut, were_waited_for;

static void threads_leave(struct gate *const *gates, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		were_waited_for |= gates[i] == &world.send_cq.gate &&
				   (gates[i]->shut & ~GATE_SHARED) > GATE_OPEN;
}

static int poll_and_look(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	was_shut = were_waited_for && (world.send_cq.gate.shut & ~GATE_SHARED) > GATE_OPEN &&
		   !world.send_cq.gate.locked;
	return 0;
}

static void the_gate_is_shut_meanwhile(void **state)
{
	(void)state;
	core.fast = true;
	vqp_enter(v);
	vqp_leave(v);
	assert_int_equal(world.send_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
	world.send_cq.poll_cq = poll_and_look;
	were_waited_for = false;
	world.on_sync = threads_leave;
	drain();
	assert_true(was_shut);
	assert_int_equal(world.send_cq.gate.shut & ~GATE_SHARED, GATE_OPEN);
	core.fast = false;
}

int main(void)
{
#define ALONE(name) cmocka_unit_test(name)
#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_fence_flushes_then_waits_for_the_responder),
		TEST(others_have_their_turn_while_rq_psn_comes_to_rest),
		TEST(a_slow_fence_is_one_piece),
		TEST(a_fence_is_taken_back_between_two_looks),
		TEST(the_next_fence_flushes_again),
		ALONE(what_a_fence_proves),
		ALONE(soft_roce_is_fenced_by_reset),
		TEST(a_rail_without_a_twin_has_nothing_to_fence),
		TEST(a_marker_is_waited_for),
		TEST(a_full_queue_gets_the_marker_when_it_has_flushed),
		TEST(a_marker_without_bad_is_not_posted_again),
		TEST(the_flush_of_a_qp_that_goes_is_not_waited_for),
		TEST(the_cqs_of_a_qp_that_goes_are_left_alone),
		TEST(what_a_fence_finds_is_fed_before_it_is_done),
		TEST(what_comes_until_the_responder_rests_is_fed),
		TEST(sends_that_wait_are_withdrawn_before),
		TEST(a_fence_of_the_life_before_is_not_told),
		TEST(a_fence_that_was_overtaken_leaves_the_deadline),
		TEST(a_fence_has_a_deadline),
		TEST(a_query_is_sure_if_the_psn_is_live),
		TEST(a_query_finds_a_qp_in_err),
		TEST(one_answer_bears_the_newest_question),
		ALONE(errors_are_told_apart),
		TEST(an_error_of_the_receives_cq_is_a_receives),
		TEST(what_is_delivered_reaches_the_right_cq),
		TEST(what_is_taken_at_once_needs_one_place),
		TEST(of_qps_without_a_connection_all_is_delivered),
		TEST(a_marker_is_its_rails),
		TEST(all_there_is_is_fed),
		TEST(a_fast_qp_of_a_slow_cq_is_only_counted),
		TEST(what_is_counted_is_delivered_before_anybody_enters),
		TEST(while_a_completion_is_counted_nobody_enters),
		TEST(the_gate_is_shut_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
