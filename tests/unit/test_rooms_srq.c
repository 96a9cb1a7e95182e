/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues and their QPs while jobs are late, and when they end
 * (lib/object/vsrq.c, lib/conn/srq_qps.c). */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/rooms.h"

#include "lib/conn/srq_all.h"
#include "lib/conn/srq_qps.h"
#include "lib/object/vsrq.h"
#include "lib/verbs/post_send.h"
#include "lib/verbs/qp.h"

enum { DEPTH = 4, PAGE = 4096, DESTROYED = 50, KNOWN_STILL = 8 };

static struct ibv_srq *real_srq; /* in a page of its own: who touches it later crashes */
static struct vsrq *s;
static int srq_posts;

/* --- the NICs' SRQs -------------------------------------------------------------------------- */

static struct ibv_srq *srq_of(struct ibv_pd *pd)
{
	struct ibv_srq *srq = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

	assert_ptr_not_equal(srq, MAP_FAILED);
	srq->pd = pd;
	srq->context = pd->context;
	return srq;
}

static struct ibv_srq *nic_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)attr;
	return srq_of(pd);
}

static int nic_destroy_srq(struct ibv_srq *srq)
{
	return munmap(srq, PAGE);
}

static int nic_post_srq(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	srq_posts++;
	return 0;
}

/* No program sleeps here. */
static struct ibv_pd *nic_alloc_no_pd(struct ibv_context *ctx)
{
	(void)ctx;
	return NULL;
}

static void make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = DEPTH, .max_sge = 1}};

	real_srq = srq_of(&world.real_pd);
	assert_ptr_equal(hook_created_srq(real_srq, &world.real_pd, &attr), real_srq);
	s = vsrq_find(real_srq);
	assert_non_null(s);
}

/* The library knows the last few that ended by their ids still. With these more it is none of ours.
 */
static void end_some_more(void)
{
	for (int i = 0; i < KNOWN_STILL; i++) {
		make_srq();
		assert_int_equal(hook_destroy_srq(real_srq), 0);
		rooms_run_jobs();
	}
}

static int begin(void **state)
{
	rooms_begin(state);
	for (int i = 0; i < RAILS; i++)
		world.ctx[i].ops.post_srq_recv = nic_post_srq;
	world.dev.ops = world.ctx[0].ops;
	real.create_srq = nic_create_srq;
	real.destroy_srq = nic_destroy_srq;
	real.alloc_pd = nic_alloc_no_pd;
	end_some_more(); /* those of the test before have gone */
	make_srq();
	return 0;
}

static void post(void)
{
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;

	assert_int_equal(hot_post_srq_recv(real_srq, &wr, &bad), 0);
}

/* All that lies on NIC 0 is of a life that is over, and its drain waits for the worker. */
static void leave_ghosts(void)
{
	assert_true(vsrq_join(s, 0));
	post();
	assert_int_equal(srq_posts, 1);
	vsrq_leave(s, 0, true);
	srq_posts = 0;
	assert_true(s->books.nic[0].draining);
}

/* --- the end of an SRQ ----------------------------------------------------------------------- */

static void a_destroyed_srq_has_nothing_left_to_do(void **state)
{
	int refs = world.pd.obj.refs;

	(void)state;
	leave_ghosts();
	assert_int_equal(hook_destroy_srq(real_srq), 0);
	rooms_run_jobs();
	rooms_pass(5000ull * MS);
	end_some_more();
	assert_int_equal(world.pd.obj.refs, refs - 1);
}

static void a_late_drain_does_not_touch_a_destroyed_srq(void **state)
{
	int refs = world.pd.obj.refs;

	(void)state;
	leave_ghosts();
	world.workers_stuck = true;
	assert_int_equal(hook_destroy_srq(real_srq), 0);
	rooms_run_jobs();
	rooms_pass(5000ull * MS);
	end_some_more();
	assert_int_equal(world.pd.obj.refs, refs - 1);
}

/* A completion of a QP that is gone may be polled while its SRQ is destroyed. */
static void *poll_late_one(void *arg)
{
	struct ibv_wc wc = {.wr_id = s->first_id};

	vsrq_translate(&wc);
	return arg;
}

static void a_late_completion_does_not_meet_a_freed_srq(void **state)
{
	int refs = world.pd.obj.refs;

	(void)state;
	for (int i = 0; i < DESTROYED; i++) {
		int held = s->obj.refs;
		pthread_t poller;

		short_lock_take(&s->lock);
		assert_int_equal(pthread_create(&poller, NULL, poll_late_one, NULL), 0);
		for (int n = 0; n < 1000 && s->obj.refs == held; n++)
			usleep(100);
		short_lock_give(&s->lock); /* the poller wakes later than this goes on */
		assert_int_equal(hook_destroy_srq(real_srq), 0);
		rooms_run_jobs();
		pthread_join(poller, NULL);
		make_srq();
	}
	assert_int_equal(hook_destroy_srq(real_srq), 0);
	rooms_run_jobs();
	end_some_more();
	assert_int_equal(world.pd.obj.refs, refs - 1);
}

/* --- QPs ------------------------------------------------------------------------------------- */

static struct vqp *v;

static int begin_qp(void **state)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();

	begin(state);
	attr.srq = real_srq;
	v = vqp_find(hook_create_qp(&world.real_pd, &attr));
	assert_non_null(v);
	assert_non_null(v->conn);
	assert_ptr_equal(v->hot.srq, s);
	rooms_run_jobs();
	for (int i = 1; i < RAILS; i++)
		if (s->rail[i].srq)
			s->rail[i].srq->context = &world.ctx[i];
	for (int i = 0; i < RAILS; i++) {
		struct twin *t = &v->rails.twin[i];

		t->gid.value.raw[0] = 0xfe;
		t->gid.value.raw[15] = (uint8_t)(i + 1);
		t->gid_index = 3;
		t->mtu = 1024;
	}
	rooms_start_qp(v);
	return 0;
}

/* The NIC takes what was not polled of a QP out of its CQ. */
static int (*destroys)(struct ibv_qp *qp);

static int drop_and_destroy(struct ibv_qp *qp)
{
	world.wcs_polled = world.wcs;
	return destroys(qp);
}

static int (*modifies)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

static int drop_and_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	world.wcs_polled = world.wcs;
	return modifies(qp, attr, mask);
}

/* Its receive is not there any more, and was nobody's whom we protect. */
static void what_a_qp_of_another_kind_has_taken_does_not_stay(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr attr = rooms_qp_attr();
	struct ibv_qp *ud;

	(void)state;
	attr.srq = real_srq;
	attr.qp_type = IBV_QPT_UD;
	destroys = real.destroy_qp;
	modifies = real.modify_qp;
	for (int i = 0; i < 2; i++) {
		ud = hook_create_qp(&world.real_pd, &attr);
		assert_null(vqp_find(ud)->conn);
		ud->srq = real_srq;
		post();
		assert_int_equal(shift_srq_total(&s->books), 1);
		world.wc[0] = (struct ibv_wc){
			.wr_id = s->books.next - 1, .opcode = IBV_WC_RECV, .qp_num = ud->qp_num};
		world.wcs_polled = 0;
		world.wcs = 1;
		real.modify_qp = i ? modifies : drop_and_modify;
		real.destroy_qp = i ? drop_and_destroy : destroys;
		assert_int_equal(i ? hook_destroy_qp(ud) : hook_modify_qp(ud, &reset, IBV_QP_STATE),
				 0);
		assert_int_equal(shift_srq_total(&s->books), 0);
		real.modify_qp = modifies;
		real.destroy_qp = destroys;
		if (!i)
			assert_int_equal(hook_destroy_qp(ud), 0);
	}
}

static int end_qp(void **state)
{
	return rooms_end_qp(state, v);
}

static void arm(uint8_t rail, uint32_t epoch)
{
	struct shift_action a = {.type = SHIFT_ACT_ARM, .rail = rail, .epoch = epoch};

	rooms_act(v, &a);
}

static void assert_live(unsigned int k, unsigned int live)
{
	assert_int_equal(v->rails.joined >> k & 1, live);
	assert_int_equal(s->books.nic[k].live, live);
}

static void armed_elsewhere_it_has_left(void **state)
{
	(void)state;
	assert_live(0, 1);
	arm(1, 2);
	rooms_run_jobs();
	assert_live(0, 0);
	assert_live(1, 1);
	assert_int_equal(vqp_rail_qp(v, 1)->state, IBV_QPS_RTS);
}

/* The background thread has the lock first. The connection goes to another NIC then. */
static void it_was_taken_for_hung(struct gate *const *gates, unsigned int n)
{
	(void)gates;
	(void)n;
	world.on_sync = NULL;
	v->rails.jobs[1].arm_since = 0;
	assert_true(srq_qp_join(v, 2, 0));
}

static void one_armed_too_late_is_not_live(void **state)
{
	(void)state;
	arm(1, 2);
	rooms_be_fast(v, true);
	world.on_sync = it_was_taken_for_hung;
	rooms_run_jobs();
	assert_null(world.on_sync);
	assert_live(2, 1);
	assert_live(1, 0);
	assert_int_equal(vqp_rail_qp(v, 1)->state, IBV_QPS_RESET);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
}

/* RESET, INIT, RTR, and the RESET that is to undo it. */
static void one_that_cannot_be_undone_is_live_until_it_is_elsewhere(void **state)
{
	(void)state;
	arm(1, 2);
	world.modify_fails_at = 3;
	world.next_fails_at = 1;
	rooms_run_jobs();
	assert_live(1, 1);
	arm(2, 3);
	rooms_run_jobs();
	assert_live(2, 1);
	assert_live(1, 0);
}

static void one_without_a_twin_is_not_live(void **state)
{
	struct ibv_qp *qp = atomic_exchange(&v->rails.twin[1].qp, NULL);

	(void)state;
	arm(1, 2);
	rooms_run_jobs();
	assert_live(1, 0);
	atomic_store(&v->rails.twin[1].qp, qp);
}

/* NIC 1 has postings of the past, and its drainer takes one in 400 ms. */
static void one_in_400_ms(void)
{
	struct shift_srq_nic *n = &s->books.nic[1];

	if (n->state == SHIFT_SRQ_GHOSTS && (world.now - START_NS) % (400ull * MS) == 0 &&
	    !--n->ghosts)
		*n = (struct shift_srq_nic){.state = SHIFT_SRQ_EMPTY};
}

static bool joins_after(uint32_t ghosts, void (*drainer)(void))
{
	bool joins;

	world.now = START_NS;
	s->books.nic[1] = (struct shift_srq_nic){
		.state = SHIFT_SRQ_GHOSTS, .ghosts = ghosts, .draining = true};
	world.on_sleep = drainer;
	joins = srq_qp_join(v, 1, 500ull * MS);
	world.on_sleep = NULL;
	return joins;
}

static void who_joins_waits_while_the_drainer_gets_on(void **state)
{
	(void)state;
	assert_false(joins_after(3, NULL));
	assert_int_equal(world.now, START_NS + 500ull * MS);
	assert_false(joins_after(30, one_in_400_ms));
	assert_int_equal(world.now, START_NS + 1500ull * MS);
	assert_true(joins_after(3, one_in_400_ms));
	assert_int_equal(world.now, START_NS + 1200ull * MS);
}

static void a_fence_is_asked_for_at_300_ms(void)
{
	if (world.now - START_NS == 300ull * MS)
		v->rails.jobs[1].fence_follows = true;
}

/* What it arms would be fenced at once, and the fence waits for it. */
static void who_joins_does_not_hold_up_a_fence(void **state)
{
	(void)state;
	assert_false(joins_after(3, a_fence_is_asked_for_at_300_ms));
	assert_int_equal(world.now, START_NS + 300ull * MS);
	v->rails.jobs[1].fence_follows = false;
}

/* Its QP accepts packets as soon as the arming has got it that far. */
static void where_it_is_empty_a_fence_comes_after_the_join(void **state)
{
	(void)state;
	v->rails.jobs[1].fence_follows = true;
	assert_true(srq_qp_join(v, 1, 500ull * MS));
	v->rails.jobs[1].fence_follows = false;
}

/* The drainer of NIC 0 does not answer. A hundred QPs may arrive at NIC 1, on two threads that arm
 * QPs without an SRQ, too. */
static void all_qps_wait_once_for_a_receive(void **state)
{
	(void)state;
	post();
	assert_true(srq_qp_join(v, 1, 0));
	srq_qp_await_supply(v, 1);
	assert_int_equal(world.now, START_NS + 200ull * MS);
	srq_qp_await_supply(v, 1);
	assert_int_equal(world.now, START_NS + 200ull * MS);
}

static void it_is_closed(void)
{
	v->life.closed = true;
}

static void fence(uint8_t rail, uint32_t epoch)
{
	struct shift_action a = {.type = SHIFT_ACT_FENCE, .rail = rail, .epoch = epoch};

	rooms_act(v, &a);
}

/* The marker comes back at once. */
static int post_and_flush(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)bad;
	world.twin_wc_nic = qp->qp_num - TWIN_QPN;
	world.twin_wc[world.twin_wcs++] = (struct ibv_wc){
		.wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp_num};
	return 0;
}

static void a_reset_qp_is_live_until_its_fence_has_ended(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	(void)state;
	arm(1, 2);
	rooms_run_jobs();
	fence(1, 2);
	world.ctx[1].ops.post_send = post_and_flush;
	world.on_wait = it_is_closed;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE), 0);
	assert_live(1, 1);
	rooms_run_jobs();
	assert_live(1, 0);
}

static void a_destroyed_qp_is_live_until_its_twin_has_gone(void **state)
{
	(void)state;
	arm(1, 2);
	rooms_run_jobs();
	assert_live(1, 1);
	world.on_wait = it_is_closed;
	world.workers_stuck = true;
	assert_int_equal(hook_destroy_qp(v->qp), 0);
	assert_int_equal(s->books.nic[1].live, 1);
	rooms_run_jobs();
	assert_int_equal(s->books.nic[1].live, 0);
}

/* --- LAST_WQE_REACHED ------------------------------------------------------------------------- */

static int modify(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	world.on_wait = it_is_closed;
	return hook_modify_qp(v->qp, &attr, IBV_QP_STATE);
}

/* How many of the program's QP wait for it; they are taken. */
static int last_wqes(void)
{
	struct ibv_async_event e;
	int n = 0;

	for (; made_event_take(&world.dev, &e); n++) {
		assert_int_equal(e.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
		assert_ptr_equal(e.element.qp, v->qp);
		assert_true(made_event_acked(&v->last_wqe));
	}
	return n;
}

static void err_by_the_program_says_so_once(void **state)
{
	(void)state;
	core.view.protected_ = true;
	assert_int_equal(last_wqes(), 0);
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_int_equal(last_wqes(), 1);
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_int_equal(last_wqes(), 0);
}

static void a_connection_that_is_over_says_so_once(void **state)
{
	(void)state;
	core.view.protected_ = true;
	rooms_act(v, &(struct shift_action){.type = SHIFT_ACT_QP_ERR});
	assert_int_equal(last_wqes(), 1);
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_int_equal(last_wqes(), 0);
}

static void each_life_says_so(void **state)
{
	(void)state;
	core.view.protected_ = true;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(modify(IBV_QPS_ERR), 0);
		assert_int_equal(last_wqes(), 1);
		assert_int_equal(modify(IBV_QPS_RESET), 0);
		assert_int_equal(last_wqes(), 0);
		rooms_start_qp(v);
	}
}

/* It is on its own NIC, which says so, or does not, as without us. */
static void of_one_that_is_not_protected_the_nic_says_so(void **state)
{
	(void)state;
	core.view.protected_ = false;
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_int_equal(last_wqes(), 0);
}

static void of_a_destroyed_qp_nothing_is_said(void **state)
{
	(void)state;
	core.view.protected_ = true;
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_int_equal(made_events_waiting(&world.dev), 1);
	assert_int_equal(hook_destroy_qp(v->qp), 0);
	assert_int_equal(made_events_waiting(&world.dev), 0);
}

static bool acked;

static void ack_it(void)
{
	acked |= made_event_acked(&v->last_wqe);
}

/* A thread of the program has it in its hand, and uses the QP. */
static void destroy_waits_until_it_is_acknowledged(void **state)
{
	struct ibv_async_event e;

	(void)state;
	core.view.protected_ = true;
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_true(made_event_take(&world.dev, &e));
	acked = false;
	world.on_sleep = ack_it;
	assert_int_equal(hook_destroy_qp(v->qp), 0);
	assert_true(acked);
}

static void a_qp_without_an_srq_says_nothing(void **state)
{
	(void)state;
	core.view.protected_ = true;
	v = rooms_create_qp();
	rooms_start_qp(v);
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_int_equal(made_events_waiting(&world.dev), 0);
}

/* --- what is missing, or seems so ------------------------------------------------------------ */

/* No drainer works. */
static void no_drains(void)
{
	for (int i = 0; i < RAILS; i++)
		world.nic[i].ready = false;
}

/* S17. On NIC 1, where the next posting is the QP's. */
static uint64_t suspects_after(bool flushed)
{
	uint64_t before = s->books.stats.suspects;
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR};

	no_drains();
	post();
	assert_int_equal(s->books.nic[1].on, 1);
	wc.wr_id = s->books.next - 1;
	if (flushed)
		assert_false(srq_qp_completed(v, 1, &wc, false));
	assert_int_equal(s->books.nic[1].on, 1); /* given to it anew */
	srq_qp_leave(v, 1);
	return s->books.stats.suspects - before;
}

static void of_a_cut_qp_one_receive_is_suspect(void **state)
{
	(void)state;
	arm(1, 2);
	rooms_run_jobs();
	assert_int_equal(suspects_after(false), 1);
}

static void a_flush_that_names_its_receive_leaves_none_suspect(void **state)
{
	(void)state;
	arm(1, 2);
	rooms_run_jobs();
	assert_int_equal(suspects_after(true), 0);
}

/* S13: the program's first send has that error. */
static void an_error_that_names_no_receive_is_not_for_the_program(void **state)
{
	struct ibv_wc wc = {.wr_id = s->first_id, .status = IBV_WC_LOC_QP_OP_ERR};

	(void)state;
	assert_false(srq_qp_completed(v, 0, &wc, true));
	post();
	wc.wr_id = s->books.next - 1;
	assert_true(srq_qp_completed(v, 0, &wc, true));
	assert_int_equal(wc.wr_id, 7);
}

/* S18: also in the middle of a planned switch, which waits for what is missing, and also if no
 * other rail could take over. */
static void whoever_has_its_data_there_leaves(void **state)
{
	static const struct {
		enum shift_state state;
		uint8_t r;
		bool leaves;
	} cases[] = {
		{SHIFT_ST_ACTIVE, 1, true},	{SHIFT_ST_PREPARE, 1, true},
		{SHIFT_ST_DRAIN, 1, true},	{SHIFT_ST_ACTIVE, 0, false},
		{SHIFT_ST_SETUP, 1, false},	{SHIFT_ST_FENCE, 1, false},
		{SHIFT_ST_SWITCHING, 1, false}, {SHIFT_ST_DEAD, 1, false},
	};

	(void)state;
	arm(1, 2);
	rooms_run_jobs();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		core.view.state = cases[i].state;
		core.view.r = cases[i].r;
		trace_clear();
		srq_qps_evict(s, 1);
		assert_traced(cases[i].leaves ? "event POST_FAILED rail 1 epoch 2\n" : "");
	}
	core.view.state = SHIFT_ST_ACTIVE;
	core.view.r = 1;
	v->life.gone = true;
	srq_qps_evict(s, 1);
	v->life.gone = false;
	assert_traced("");
}

/* --- a peer that waits (S14, S23) ------------------------------------------------------------ */

static void ask_psn(uint32_t serial)
{
	struct shift_action a = {.type = SHIFT_ACT_QUERY_PSN, .epoch = 3, .serial = serial};

	trace_clear();
	rooms_act(v, &a);
	rooms_run_jobs();
}

static void the_answer_says_how_many_the_nic_has(void **state)
{
	(void)state;
	assert_true(vsrq_join(s, 1));
	post();
	post();
	assert_int_equal(s->books.nic[0].on, 1);
	no_drains();
	ask_psn(5);
	assert_non_null(strstr(trace_text(), " serial 5 count 1\n"));
	assert_int_equal(s->books.stats.looks, 1);
	vsrq_leave(s, 1, false);
}

/* It has been taken, and nobody has polled: it does not count as there. */
static void what_has_completed_is_fed_before_the_answer(void **state)
{
	const char *fed;

	(void)state;
	world.wc[world.wcs++] = (struct ibv_wc){
		.wr_id = s->first_id, .opcode = IBV_WC_RECV, .qp_num = v->qpn};
	ask_psn(6);
	fed = strstr(trace_text(), "cqe recv ");
	assert_non_null(fed);
	assert_non_null(strstr(fed, " serial 6\n"));
}

/* The receives may lie on another NIC for a moment, also when the QP is back on rail 0. */
static void who_is_armed_waits_for_the_receives_of_an_srq(void **state)
{
	(void)state;
	for (uint8_t rail = 0; rail < 2; rail++)
		for (int srq = 0; srq < 2; srq++) {
			v->rails.twin[2].peer.flags = srq ? RAIL_SRQ : 0;
			trace_clear();
			arm(rail, 2u + rail);
			rooms_run_jobs();
			assert_int_equal(strstr(trace_text(), " rnr_retry 7 ") != NULL, srq);
		}
}

#define QP_TEST(test) cmocka_unit_test_setup_teardown(test, begin_qp, end_qp)

/* --- connected with itself -------------------------------------------------------------------- */

/* host: the last byte of the peer's address; 1 is that of our own NIC 0. */
static void connect_anew(uint32_t qpn, uint8_t host)
{
	struct ibv_qp_attr attr = rooms_attr();

	assert_int_equal(modify(IBV_QPS_RESET), 0);
	rooms_run_jobs();
	assert_live(0, 0);
	attr.dest_qp_num = qpn;
	attr.ah_attr.grh.sgid_index = (uint8_t)world.gid_at;
	attr.ah_attr.grh.dgid = (union ibv_gid){.raw = {[0] = 0xfe, [15] = host}};
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE), 0);
}

static int send_one(enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *bad = NULL, wr = {.opcode = opcode};
	int err = hot_post_send(v->qp, &wr, &bad);

	assert_ptr_equal(bad, err ? &wr : NULL);
	return err;
}

/* It takes no receive before, so what lies there may be fetched, or be given to others. */
static void one_connected_with_itself_is_live_when_it_sends(void **state)
{
	(void)state;
	for (int life = 0; life < 2; life++) {
		connect_anew(v->qp->qp_num, 1);
		assert_live(0, 0);
		assert_int_equal(send_one(IBV_WR_RDMA_READ), 0);
		assert_live(0, 0);
		assert_int_equal(send_one(life ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND), 0);
		assert_live(0, 1);
		assert_int_equal(send_one(IBV_WR_SEND), 0);
		assert_live(0, 1);
		assert_false(gate_is_shut(&v->hot.send_gate) && !v->hot.slow);
	}
}

static void one_that_never_sends_leaves_nothing_behind(void **state)
{
	(void)state;
	connect_anew(v->qp->qp_num, 1);
	assert_true(gate_is_shut(&v->hot.send_gate));
	connect_anew(v->qp->qp_num + 1, 1);
	assert_live(0, 1);
	assert_false(v->rails.joins_late);
}

static void another_hosts_qp_of_that_number_is_another(void **state)
{
	(void)state;
	connect_anew(v->qp->qp_num, 9);
	assert_live(0, 1);
}

/* Its message would go into a buffer that another one has by now. */
static void it_does_not_send_to_a_nic_that_is_not_empty(void **state)
{
	(void)state;
	connect_anew(v->qp->qp_num, 1);
	world.now = START_NS;
	s->books.nic[0] = (struct shift_srq_nic){
		.state = SHIFT_SRQ_GHOSTS, .ghosts = 3, .draining = true};
	assert_int_equal(send_one(IBV_WR_SEND), ETIMEDOUT);
	assert_int_equal(world.now, START_NS + 2000ull * MS);
	assert_live(0, 0);
	s->books.nic[0] = (struct shift_srq_nic){.state = SHIFT_SRQ_EMPTY};
	assert_int_equal(send_one(IBV_WR_SEND), 0);
	assert_live(0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_destroyed_srq_has_nothing_left_to_do, begin,
						rooms_end),
		cmocka_unit_test_setup_teardown(a_late_drain_does_not_touch_a_destroyed_srq, begin,
						rooms_end),
		cmocka_unit_test_setup_teardown(a_late_completion_does_not_meet_a_freed_srq, begin,
						rooms_end),
		cmocka_unit_test_setup_teardown(what_a_qp_of_another_kind_has_taken_does_not_stay,
						begin, rooms_end),
		QP_TEST(armed_elsewhere_it_has_left),
		QP_TEST(one_armed_too_late_is_not_live),
		QP_TEST(one_that_cannot_be_undone_is_live_until_it_is_elsewhere),
		QP_TEST(one_without_a_twin_is_not_live),
		QP_TEST(all_qps_wait_once_for_a_receive),
		QP_TEST(who_joins_waits_while_the_drainer_gets_on),
		QP_TEST(who_joins_does_not_hold_up_a_fence),
		QP_TEST(where_it_is_empty_a_fence_comes_after_the_join),
		QP_TEST(a_reset_qp_is_live_until_its_fence_has_ended),
		QP_TEST(of_a_cut_qp_one_receive_is_suspect),
		QP_TEST(a_flush_that_names_its_receive_leaves_none_suspect),
		QP_TEST(an_error_that_names_no_receive_is_not_for_the_program),
		QP_TEST(whoever_has_its_data_there_leaves),
		QP_TEST(the_answer_says_how_many_the_nic_has),
		QP_TEST(what_has_completed_is_fed_before_the_answer),
		QP_TEST(who_is_armed_waits_for_the_receives_of_an_srq),
		cmocka_unit_test_setup_teardown(a_destroyed_qp_is_live_until_its_twin_has_gone,
						begin_qp, rooms_end),
		QP_TEST(one_connected_with_itself_is_live_when_it_sends),
		QP_TEST(one_that_never_sends_leaves_nothing_behind),
		QP_TEST(another_hosts_qp_of_that_number_is_another),
		QP_TEST(it_does_not_send_to_a_nic_that_is_not_empty),
		QP_TEST(err_by_the_program_says_so_once),
		QP_TEST(a_connection_that_is_over_says_so_once),
		QP_TEST(each_life_says_so),
		QP_TEST(of_one_that_is_not_protected_the_nic_says_so),
		cmocka_unit_test_setup_teardown(of_a_destroyed_qp_nothing_is_said, begin_qp,
						rooms_end),
		cmocka_unit_test_setup_teardown(destroy_waits_until_it_is_acknowledged, begin_qp,
						rooms_end),
		cmocka_unit_test_setup_teardown(a_qp_without_an_srq_says_nothing, begin, end_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
