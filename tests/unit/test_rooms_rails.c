/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What lib/core asks for is carried out on the rails: twins are made and armed, completions handed
 * over, messages sent (lib/conn/actions.c, arm.c, twin.c, rail_jobs.c, conn_lock.c, cq_counts.c).
 */
#include "tests/unit/rooms.h"

#include <errno.h>

#include "lib/conn/actions.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/conn_timers.h"
#include "lib/conn/cq_counts.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/twin.h"
#include "lib/nic/peer_path.h"
#include "lib/verbs/qp.h"

static struct vqp *v;
static struct peer_path path = {.link = (struct ctrl_link_peer *)(void *)"rail 1"};

static void it_is_closed(void)
{
	v->life.closed = true;
}

static int begin(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	for (int i = 0; i < RAILS; i++) {
		struct twin *t = &v->rails.twin[i];

		t->gid.raw[0] = 0xfe, t->gid.raw[15] = (uint8_t)(i + 1);
		t->gid_index = 3;
		t->mtu = 1024;
		t->peer = (struct rail_addr){.gid.raw = {[0] = 0xc0, [15] = (uint8_t)i},
					     .qpn = 0x400u + (uint32_t)i,
					     .lid = (uint16_t)(0x20 + i)};
	}
	return 0;
}

static int end(void **state)
{
	world.on_wait = it_is_closed;
	world.on_modify = NULL;
	hook_destroy_qp(v->qp);
	return rooms_end(state);
}

static void act(const struct shift_action *a)
{
	vqp_enter(v);
	core_asks(a);
	vqp_leave(v);
}

static void arm(uint8_t rail, uint32_t epoch)
{
	struct shift_action a = {.type = SHIFT_ACT_ARM,
				 .rail = rail,
				 .epoch = epoch,
				 .tx_psn = 1000 + epoch,
				 .rx_psn = 2000 + epoch};

	act(&a);
}

/* --- arming ----------------------------------------------------------------------------------- */

#define TWIN_INIT "modify 0x21 to 0\nmodify 0x21 to 1 pkey 0 port 2 access 0xf\n"
#define TWIN_RTR(psn)                                                                             \
	"modify 0x21 to 2 av 1 c0.01 index 3 hops 33 class 44 flow 55 lid 33 sl 5 port 2 path 0 " \
	"rate 0 mtu 3 dest 0x401 rq_psn " psn " max_dest_rd 12 rnr_timer 13\n"
#define TWIN_RTS(psn) "modify 0x21 to 3 timeout 14 retry 6 rnr_retry 6 sq_psn " psn " max_rd 11\n"

static void a_twin_is_armed_over_its_own_path(void **state)
{
	(void)state;
	arm(1, 2);
	assert_traced("");
	assert_int_equal(v->rails.jobs[1].arm_since, START_NS);
	assert_int_equal(rooms_run_jobs(), 1);
	assert_traced(TWIN_INIT TWIN_RTR("2002") TWIN_RTS(
		"1002") "peer's keys: epoch 2 rail 1\nour keys: epoch 2 rail 1\n"
			"event ARM_DONE rail 1 epoch 2\n");
	assert_int_equal(v->rails.armed_epoch[1], 2);
	assert_int_equal(v->rails.armed_epoch[0], 0);
	assert_int_equal(v->hot.rail0_epoch, 0);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
	assert_int_equal(v->rails.jobs[1].arm_since, 0);
	assert_false(v->rails.jobs[1].arming);
}

/* As the program has it, but for the PSNs and where the GID is now. */
static void rail_0_is_armed_as_the_program_wanted(void **state)
{
	(void)state;
	arm(0, 3);
	rooms_run_jobs();
	assert_traced("modify 0x10 to 0\nmodify 0x10 to 1 pkey 9 port 1 access 0xf\n"
		      "modify 0x10 to 2 av 1 aa.bb index 3 hops 33 class 44 flow 55 lid 66 sl 5 "
		      "port 1 path 3 rate 2 mtu 4 dest 0x99 rq_psn 2003 max_dest_rd 12 rnr_timer "
		      "13\nmodify 0x10 to 3 timeout 15 retry 4 rnr_retry 6 sq_psn 1003 max_rd 11\n"
		      "peer's keys: epoch 3 rail 0\nour keys: epoch 3 rail 0\n"
		      "event ARM_DONE rail 0 epoch 3\n");
	assert_int_equal(v->rails.armed_epoch[0], 3);
	assert_int_equal(v->hot.rail0_epoch, 3);
}

/* 7.29: a program that only receives has not said what RTS needs. */
static void a_qp_in_rtr_is_armed_with_defaults(void **state)
{
	(void)state;
	v->program.state = IBV_QPS_RTR;
	arm(0, 3);
	rooms_run_jobs();
	assert_non_null(
		strstr(trace_text(), "to 3 timeout 14 retry 6 rnr_retry 7 sq_psn 1003 max_rd 1\n"));
	assert_int_equal(v->qp->state, IBV_QPS_RTR); /* as the program must see it */
	trace_clear();
	arm(1, 3);
	rooms_run_jobs();
	assert_non_null(
		strstr(trace_text(), "to 3 timeout 14 retry 6 rnr_retry 7 sq_psn 1003 max_rd 1\n"));
}

static void the_program_does_not_see_rail_0s_state(void **state)
{
	(void)state;
	v->program.state = IBV_QPS_RTS;
	world.modify_fails_at = 3;
	arm(0, 3);
	rooms_run_jobs();
	assert_int_equal(v->qp->state, IBV_QPS_RTS);
}

static void hops_that_are_not_set_are_64(void **state)
{
	(void)state;
	v->program.attr.ah_attr.grh.hop_limit = 0;
	arm(1, 2);
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), " hops 64 "));
	v->program.attr.ah_attr.grh.hop_limit = 1;
	trace_clear();
	arm(1, 3);
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), " hops 1 "));
}

/* Its index moves when an address goes and comes (V14). */
static void the_gid_is_found_where_it_is(void **state)
{
	static const struct {
		int at, hint;
		const char *index;
	} cases[] = {
		{3, 3, " index 3 "}, {3, 1, " index 3 "}, {0, 3, " index 0 "},
		{7, 3, " index 7 "}, {8, 3, " index 3 "}, /* it is gone: the table ends at 7 */
	};

	(void)state;
	for (uint8_t rail = 0; rail < 2; rail++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			world.gid_at = cases[i].at;
			if (rail)
				v->rails.twin[1].gid_index = cases[i].hint;
			else
				v->program.attr.ah_attr.grh.sgid_index = (uint8_t)cases[i].hint;
			trace_clear();
			arm(rail, 2);
			rooms_run_jobs();
			assert_non_null(strstr(trace_text(), cases[i].index));
		}
}

/* The largest that is not larger. */
static void the_twins_mtu_is_one_of_the_five(void **state)
{
	static const struct {
		uint32_t bytes;
		const char *mtu;
	} cases[] = {{128, " mtu 1 "},	{256, " mtu 1 "},  {511, " mtu 1 "},  {512, " mtu 2 "},
		     {1023, " mtu 2 "}, {1024, " mtu 3 "}, {2047, " mtu 3 "}, {2048, " mtu 4 "},
		     {4095, " mtu 4 "}, {4096, " mtu 5 "}, {9000, " mtu 5 "}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		v->rails.twin[1].mtu = cases[i].bytes;
		trace_clear();
		arm(1, 2);
		rooms_run_jobs();
		assert_non_null(strstr(trace_text(), cases[i].mtu));
	}
}

/* At each of the four steps: it is told, and the QP receives nothing. */
static void an_arming_that_fails_ends_in_reset(void **state)
{
#define FAILED                                                                            \
	"modify 0x21 to 0\npeer's keys: epoch 2 rail 1\nour keys: epoch 2 rail 1\nevent " \
	"ARM_FAILED "                                                                     \
	"rail 1 epoch 2\n"
	static const char *const traces[] = {
		"modify 0x21 to 0\n" FAILED,
		TWIN_INIT FAILED,
		TWIN_INIT TWIN_RTR("2002") FAILED,
		TWIN_INIT TWIN_RTR("2002") TWIN_RTS("1002") FAILED,
	};

	(void)state;
	for (int i = 0; i < 4; i++) {
		world.modify_fails_at = i + 1;
		arm(1, 2);
		rooms_run_jobs();
		assert_traced(traces[i]);
		assert_int_equal(atomic_load(&v->rails.twin[1].qp)->state, IBV_QPS_RESET);
	}
}

static void without_a_twin_arming_fails(void **state)
{
	struct ibv_qp *qp = v->rails.twin[1].qp;

	(void)state;
	v->rails.twin[1].qp = NULL;
	arm(1, 2);
	rooms_run_jobs();
	assert_traced("peer's keys: epoch 2 rail 1\nour keys: epoch 2 rail 1\n"
		      "event ARM_FAILED rail 1 epoch 2\n");
	v->rails.twin[1].qp = qp;
}

/* --- arming takes long ------------------------------------------------------------------------ */

static void taken_for_hung(void)
{
	v->rails.jobs[1].arm_since = 0;
}

static void an_arming_that_was_given_up_ends_in_reset(void **state)
{
	(void)state;
	world.on_modify = taken_for_hung;
	arm(1, 2);
	rooms_run_jobs();
	assert_traced(TWIN_INIT TWIN_RTR("2002") TWIN_RTS("1002") FAILED);
	assert_false(v->rails.jobs[1].arming);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
}

static void another_is_asked_for(void)
{
	arm(1, 5);
}

/* The newer is carried out behind it, by the same job. */
static void an_arming_that_is_overtaken(void **state)
{
	(void)state;
	world.on_modify = another_is_asked_for;
	arm(1, 2);
	assert_int_equal(rooms_run_jobs(), 1);
	assert_traced(TWIN_INIT TWIN_RTR("2002") TWIN_RTS(
		"1002") "peer's keys: epoch 2 rail 1\nour keys: epoch 2 rail 1\n"
			"event ARM_DONE rail 1 epoch 2\n" TWIN_INIT TWIN_RTR("2005") TWIN_RTS(
				"1005") "peer's keys: epoch 5 rail 1\nour keys: epoch 5 rail 1\n"
					"event ARM_DONE rail 1 epoch 5\n");
	assert_false(v->rails.jobs[1].arming);
	assert_int_equal(v->rails.armed_epoch[1], 5);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
	assert_int_equal(v->rails.jobs[1].arm_since, 0);
}

static void given_up_and_asked_for_again(void)
{
	taken_for_hung();
	arm(1, 5);
}

static void an_arming_that_was_given_up_and_is_overtaken(void **state)
{
	(void)state;
	world.on_modify = given_up_and_asked_for_again;
	arm(1, 2);
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), "event ARM_DONE rail 1 epoch 5\n"));
	assert_int_equal(v->rails.armed_epoch[1], 5);
}

/* V2: the fence that is asked for meanwhile does not overtake it. */
static void a_fence_follows_the_arming_that_is_under_way(void **state)
{
	struct shift_action fence = {.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 2};
	const char *armed, *to_err;

	(void)state;
	arm(1, 2);
	act(&fence);
	assert_true(v->rails.jobs[1].fence_follows);
	assert_int_equal(rooms_run_jobs(), 2);
	assert_false(v->rails.jobs[1].fence_follows);
	armed = strstr(trace_text(), "event ARM_DONE");
	to_err = strstr(trace_text(), "modify 0x21 to 6");
	assert_true(armed && to_err && armed < to_err);
	trace_clear();
	act(&fence);
	assert_false(v->rails.jobs[1].fence_follows);
	assert_int_equal(rooms_run_jobs(), 1);
}

static void jobs_of_the_life_before_are_not_told(void **state)
{
	(void)state;
	v->rails.jobs[1].stale = true;
	arm(1, 2);
	rooms_run_jobs();
	assert_traced(TWIN_INIT TWIN_RTR("2002") TWIN_RTS("1002"));
	assert_int_equal(v->rails.armed_epoch[1], 0);
	assert_false(v->rails.jobs[1].stale);
}

/* --- jobs end when the program takes its QP back
 * -------------------------------------------------- */

static void ask_for_all(uint8_t rail)
{
	struct shift_action fence = {.type = SHIFT_ACT_FENCE, .rail = rail, .epoch = 1},
			    query = {.type = SHIFT_ACT_QUERY_PSN, .rail = rail, .epoch = 1};

	act(&query);
	act(&fence);
	arm(rail, 2);
}

static void jobs_that_have_not_begun_are_taken_back(void **state)
{
	int refs = v->obj.refs;

	(void)state;
	ask_for_all(0);
	assert_int_equal(v->rails.jobs[0].under_way, 3);
	assert_int_equal(v->obj.refs, refs + 3);
	rail_jobs_stop(v);
	assert_int_equal(v->rails.jobs[0].under_way, 0);
	assert_int_equal(v->obj.refs, refs);
	assert_int_equal(rooms_run_jobs(), 0);
	assert_traced("");
	assert_false(v->rails.jobs[0].arming || v->rails.jobs[0].querying);
	assert_int_equal(v->rails.jobs[0].fence_since, 0);
	assert_int_equal(v->rails.jobs[0].arm_since, 0);
	ask_for_all(0); /* all can be asked for again */
	assert_int_equal(rooms_run_jobs(), 3);
	assert_non_null(strstr(trace_text(), "event ARM_DONE rail 0 epoch 2\n"));
	assert_non_null(strstr(trace_text(), "event FENCE_DONE rail 0 epoch 1"));
	assert_non_null(strstr(trace_text(), "event PSN rail 0 epoch 1"));
}

static void a_fence_that_was_to_follow_is_taken_back(void **state)
{
	struct shift_action fence = {.type = SHIFT_ACT_FENCE, .epoch = 1};

	(void)state;
	arm(0, 2);
	act(&fence);
	assert_true(v->rails.jobs[0].fence_follows);
	rail_jobs_stop(v);
	assert_false(v->rails.jobs[0].fence_follows);
	assert_int_equal(v->rails.jobs[0].under_way, 0);
	assert_int_equal(rooms_run_jobs(), 0);
}

/* Jobs of other rails end when their NICs let them. They stay stale until the last has. */
static void jobs_of_other_rails_go_on_as_stale(void **state)
{
	(void)state;
	ask_for_all(1);
	rail_jobs_stop(v);
	for (int left = 3; left > 0; left--) {
		assert_int_equal(v->rails.jobs[1].under_way, left);
		assert_true(v->rails.jobs[1].stale);
		assert_false(v->rails.jobs[2].stale);
		assert_true(rooms_run_job());
	}
	assert_false(v->rails.jobs[1].stale);
	assert_null(strstr(trace_text(), "event"));
}

static void a_job_of_rail_0_ends(void)
{
	assert_int_equal(v->rails.jobs[0].under_way, 1);
	v->rails.jobs[0].under_way = 0;
}

static void a_job_of_rail_0_that_runs_is_waited_for(void **state)
{
	(void)state;
	v->rails.jobs[0].under_way = 1;
	world.on_wait = a_job_of_rail_0_ends;
	rail_jobs_stop(v);
	assert_traced("waits\n");
	v->rails.jobs[0].stale = false;
}

/* --- twins -------------------------------------------------------------------------------------
 */

static void create(uint32_t sends, uint32_t receives, bool one_cq)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();

	attr.cap.max_send_wr = sends;
	attr.cap.max_recv_wr = receives;
	attr.recv_cq = one_cq ? attr.send_cq : attr.recv_cq;
	world.dev.rails = 2;
	v = vqp_find(hook_create_qp(&world.real_pd, &attr));
	trace_clear();
	rooms_run_jobs();
}

/* With room for a fence's marker. */
static void a_twin_is_made_like_the_programs_qp(void **state)
{
	rooms_begin(state);
	create(8, 4, false);
	assert_traced("create CQ on 1: 9\ncreate CQ on 1: 4\n"
		      "create on 1: cap 9 4 3 2 60 sig_all 0 type 2\n");
	assert_ptr_equal(atomic_load(&v->rails.twin[1].qp)->send_cq, world.send_cq.shadow[1].cq);
	assert_ptr_equal(atomic_load(&v->rails.twin[1].qp)->recv_cq, world.recv_cq.shadow[1].cq);
	assert_false(v->rails.twin[1].failed);
}

static void a_twin_with_one_cq(void **state)
{
	rooms_begin(state);
	create(8, 0, true);
	assert_traced("create CQ on 1: 9\nresize CQ on 1: 10\n"
		      "create on 1: cap 9 1 3 2 60 sig_all 0 type 2 one CQ\n");
	assert_int_equal(world.send_cq.shadow[1].wanted, 10);
}

static void a_twin_without_room_for_the_marker(void **state)
{
	rooms_begin(state);
	world.create_fails = 0;
	create(8, 4, false);
	vqp_unpublish_twin(v, world.nic + 1, TWIN_QPN + 1);
	real.destroy_qp(atomic_exchange(&v->rails.twin[1].qp, NULL));
	world.send_cq.shadow[1].wanted = world.recv_cq.shadow[1].wanted = 0;
	trace_clear();
	world.create_fails = 1;
	twin_create(&v->obj, world.nic + 1);
	assert_traced("create on 1: cap 9 4 3 2 60 sig_all 0 type 2\n"
		      "create on 1: cap 8 4 3 2 60 sig_all 0 type 2\n");
	assert_non_null(v->rails.twin[1].qp);
	assert_int_equal(world.send_cq.shadow[1].wanted, 9);
	twin_create(&v->obj, world.nic + 1); /* it is there */
	assert_traced("");
}

static int destroys;

static int count_destroy(struct ibv_qp *qp)
{
	destroys++;
	free(qp);
	return 0;
}

static void a_twin_that_is_refused_is_reported(void **state)
{
	static struct ibv_qp *made;
	uint8_t rail;

	(void)state;
	vqp_unpublish_twin(v, world.nic + 1, TWIN_QPN + 1);
	made = atomic_exchange(&v->rails.twin[1].qp, NULL);
	real.destroy_qp(made);
	world.send_cq.shadow[1].wanted = world.recv_cq.shadow[1].wanted = 0;
	v->setup.peer_rails = RAILS;
	v->rails.twin[2].failed = true;
	world.create_fails = 2;
	trace_clear();
	twin_create(&v->obj, world.nic + 1);
	assert_true(v->rails.twin[1].failed);
	assert_null(v->rails.twin[1].qp);
	assert_int_equal(world.send_cq.shadow[1].wanted, 0);
	assert_int_equal(world.recv_cq.shadow[1].wanted, 0);
	assert_non_null(strstr(trace_text(), "protected 0: "));
	assert_null(vqp_by_twin(world.nic + 1, TWIN_QPN + 1, &rail));
	trace_clear();
	v->life.gone = true;
	twin_create(&v->obj, world.nic + 1);
	assert_traced("");
	v->life.gone = false;
	twin_create(&v->obj, world.nic + 1);
	assert_false(v->rails.twin[1].failed);
	assert_non_null(strstr(trace_text(), "protected 1: \n"));
	assert_ptr_equal(vqp_by_twin(world.nic + 1, TWIN_QPN + 1, &rail), v);
	assert_int_equal(rail, 1);
	v->rails.twin[2].failed = false;
}

/* What is not protected yet, or not any more, is not reported. */
static void a_twin_of_a_connection_that_is_over_is_not_reported(void **state)
{
	static const struct {
		bool protected_;
		enum shift_state state;
		bool told;
	} cases[] = {{true, SHIFT_ST_SWITCHING, true},
		     {true, SHIFT_ST_GIVEUP, false},
		     {true, SHIFT_ST_DEAD, false},
		     {false, SHIFT_ST_SETUP, false}};

	(void)state;
	v->setup.peer_rails = RAILS;
	twin_destroy(&v->obj, world.nic + 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		core.view.protected_ = cases[i].protected_;
		core.view.state = cases[i].state;
		v->rails.twin[1].failed = false;
		world.create_fails = 2;
		trace_clear();
		twin_create(&v->obj, world.nic + 1);
		assert_int_equal(!strstr(trace_text(), "protected"), !cases[i].told);
	}
}

static void the_arming_ends(void)
{
	v->rails.jobs[1].arming = false;
	assert_non_null(v->rails.twin[1].qp);
}

static void a_twin_is_destroyed_when_its_arming_has_ended(void **state)
{
	uint8_t rail;

	(void)state;
	v->rails.jobs[1].arming = true;
	world.on_sleep = the_arming_ends;
	destroys = 0;
	real.destroy_qp = count_destroy;
	twin_destroy(&v->obj, world.nic + 1);
	world.on_sleep = NULL;
	assert_int_equal(destroys, 1);
	assert_false(v->rails.jobs[1].arming);
	assert_null(v->rails.twin[1].qp);
	assert_null(vqp_by_twin(world.nic + 1, TWIN_QPN + 1, &rail));
	assert_int_equal(world.send_cq.shadow[1].wanted, 0);
	assert_int_equal(world.recv_cq.shadow[1].wanted, 0);
	twin_destroy(&v->obj, world.nic + 1);
	assert_int_equal(destroys, 1);
}

/* --- actions ------------------------------------------------------------------------------------
 */

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
	act(&(struct shift_action){.type = SHIFT_ACT_COMPLETE});
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
	act(&(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 2, .epoch = 1});
	assert_false(v->repost.tx_stopped);
	act(&(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 1, .epoch = 1});
	assert_true(v->repost.tx_stopped);
	act(&(struct shift_action){.type = SHIFT_ACT_FENCE, .rail = 2, .epoch = 1});
	assert_true(v->repost.tx_stopped);
	act(&(struct shift_action){.type = SHIFT_ACT_HOLD});
	assert_true(v->repost.tx_stopped);
	act(&(struct shift_action){.type = SHIFT_ACT_RELEASE});
	assert_false(v->repost.tx_stopped);
	rooms_run_jobs();
}

static void the_end_is_seen_by_the_program(void **state)
{
	(void)state;
	assert_false(v->life.dead);
	act(&(struct shift_action){.type = SHIFT_ACT_QP_ERR});
	assert_true(v->life.dead);
	assert_int_equal(v->program.state, IBV_QPS_ERR);
	assert_int_equal(v->qp->state, IBV_QPS_ERR);
	v->life.closed = false;
	act(&(struct shift_action){.type = SHIFT_ACT_CLOSED});
	assert_true(v->life.closed);
}

static void messages_go_over_the_path_of_their_rail(void **state)
{
	struct shift_action a = {.type = SHIFT_ACT_SEND_MSG,
				 .rail = 1,
				 .msg = {.type = 2, .epoch = 3, .src_conn = 4, .dst_conn = 5}};

	(void)state;
	act(&a);
	assert_traced(""); /* there is none */
	v->rails.twin[1].path = &path;
	act(&a);
	assert_traced("send rail 1 type 2 epoch 3 from 4 to 5\n");
	a.rail = 2;
	act(&a);
	assert_traced("");
	v->rails.twin[1].path = NULL;
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
		act(&(struct shift_action){.type = SHIFT_ACT_REPORT,
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
	act(&(struct shift_action){
		.type = SHIFT_ACT_POST_RECV, .rail = 2, .epoch = 6, .first = 1, .count = 3});
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
			trace_clear();
			vqp_rail_open(v, rail);
			assert_int_equal(!*trace_text(), against);
			if (!against)
				assert_traced(rail ? "event RAIL_OPEN rail 1\n"
						   : "event RAIL_OPEN rail 0\n");
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

/* --- the lock ------------------------------------------------------------------------------------
 */

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
	world.send_cq.last = v;
	world.send_cq.done = 9;
	core.done = 1;
	trace_clear();
	vqp_enter(v);
	assert_traced("fold\n");
	assert_int_equal(core.done, 10);
	assert_int_equal(world.send_cq.done, 0);
	core.fast = false;
	vqp_leave(v);
	assert_traced("");
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

/* Some sends wait, and their rail refuses them: what lib/core asks for then is carried out. */
static void what_a_refused_post_asks_for_is_carried_out(void **state)
{
	(void)state;
	v->rails.twin[1].path = &path;
	core.on_event = answer_to_a_refused_receive;
	world.post_result = EIO;
	act(&(struct shift_action){
		.type = SHIFT_ACT_POST_SEND, .rail = 2, .epoch = 6, .first = 4, .count = 3});
	assert_non_null(strstr(trace_text(), "event POST_FAILED rail 2 epoch 6 count 3\n"
					     "send rail 1 type 0 epoch 0 from 0 to 0\n"));
	assert_int_equal(v->repost.tx_next, 7);
	core.on_event = NULL;
	v->rails.twin[1].path = NULL;
}

/* --- what a CQ counts
 * ------------------------------------------------------------------------------ */

static void completions_are_added_to_the_qp_that_they_are_of(void **state)
{
	static struct vqp other;

	(void)state;
	core.done = 3;
	world.send_cq.last = v;
	world.send_cq.done = 4;
	vcq_add_done(&world.send_cq, &other);
	vcq_add_done(&world.send_cq, NULL);
	assert_int_equal(core.done, 3);
	vcq_add_done(&world.send_cq, v);
	assert_int_equal(core.done, 7);
	vcq_add_done(&world.send_cq, v);
	assert_int_equal(core.done, 7);
}

static void a_cq_forgets_a_qp(void **state)
{
	static struct vqp other;

	(void)state;
	core.done = 3;
	world.send_cq.last = v;
	world.send_cq.done = 4;
	world.send_cq.alike.qpn = QPN;
	vcq_forget(&world.send_cq, &other);
	assert_ptr_equal(world.send_cq.last, v);
	assert_int_equal(world.send_cq.alike.qpn, QPN);
	assert_int_equal(core.done, 3);
	vcq_forget(&world.send_cq, v);
	assert_null(world.send_cq.last);
	assert_int_equal(world.send_cq.alike.qpn, 0);
	assert_int_equal(core.done, 7);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
	const struct CMUnitTest tests[] = {
		TEST(a_twin_is_armed_over_its_own_path),
		TEST(rail_0_is_armed_as_the_program_wanted),
		TEST(a_qp_in_rtr_is_armed_with_defaults),
		TEST(the_program_does_not_see_rail_0s_state),
		TEST(hops_that_are_not_set_are_64),
		TEST(the_gid_is_found_where_it_is),
		TEST(the_twins_mtu_is_one_of_the_five),
		TEST(an_arming_that_fails_ends_in_reset),
		TEST(without_a_twin_arming_fails),
		TEST(an_arming_that_was_given_up_ends_in_reset),
		TEST(an_arming_that_is_overtaken),
		TEST(an_arming_that_was_given_up_and_is_overtaken),
		TEST(a_fence_follows_the_arming_that_is_under_way),
		TEST(jobs_of_the_life_before_are_not_told),
		TEST(jobs_that_have_not_begun_are_taken_back),
		TEST(a_fence_that_was_to_follow_is_taken_back),
		TEST(jobs_of_other_rails_go_on_as_stale),
		TEST(a_job_of_rail_0_that_runs_is_waited_for),
		ALONE(a_twin_is_made_like_the_programs_qp),
		ALONE(a_twin_with_one_cq),
		ALONE(a_twin_without_room_for_the_marker),
		TEST(a_twin_that_is_refused_is_reported),
		TEST(a_twin_of_a_connection_that_is_over_is_not_reported),
		TEST(a_twin_is_destroyed_when_its_arming_has_ended),
		TEST(what_lib_core_completes_reaches_the_right_cq),
		TEST(what_flushes_reaches_the_right_cq),
		TEST(a_fence_stops_posts_to_its_rail),
		TEST(the_end_is_seen_by_the_program),
		TEST(messages_go_over_the_path_of_their_rail),
		TEST(changes_are_reported),
		TEST(a_receive_that_a_rail_refuses_is_told),
		TEST(a_rail_is_open_if_nothing_is_against_it),
		TEST(a_release_is_lib_cores_to_allow),
		TEST(the_gates_open_when_nothing_waits),
		TEST(only_an_earlier_deadline_sets_the_timer),
		TEST(what_a_refused_post_asks_for_is_carried_out),
		TEST(completions_are_added_to_the_qp_that_they_are_of),
		TEST(a_cq_forgets_a_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
