/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Twins are made, armed and destroyed by jobs on their NICs' threads, which end in an orderly way
 * (lib/conn/arm.c, twin.c, rail_jobs.c, job_deadlines.c). */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/unit/rooms.h"

#include "lib/conn/arm.h"
#include "lib/conn/conn_lock.h"
#include "lib/conn/job_deadlines.h"
#include "lib/conn/rail_jobs.h"
#include "lib/conn/twin.h"
#include "lib/verbs/qp.h"

static struct vqp *v;

static int begin(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	rooms_start_qp(v);
	for (int i = 0; i < RAILS; i++) {
		struct twin *t = &v->rails.twin[i];

		t->gid.value.raw[0] = 0xfe, t->gid.value.raw[15] = (uint8_t)(i + 1);
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
	return rooms_end_qp(state, v);
}

static void arm(uint8_t rail, uint32_t epoch)
{
	struct shift_action a = {.type = SHIFT_ACT_ARM,
				 .rail = rail,
				 .epoch = epoch,
				 .tx_psn = 1000 + epoch,
				 .rx_psn = 2000 + epoch};

	rooms_act(v, &a);
}

static void taken_back(void)
{
	v->life.closed = true;
}

/* --- arming -------------------------------------------------------------------------------- */

#define TWIN_INIT "modify 0x21 to 0\nmodify 0x21 to 1 pkey 0 port 2 access 0xf\n"
#define TWIN_RTR(psn)                                                                             \
	"modify 0x21 to 2 av 1 c0.01 index 3 hops 33 class 44 flow 55 lid 33 sl 5 port 2 path 0 " \
	"rate 2 mtu 3 dest 0x401 rq_psn " psn " max_dest_rd 12 rnr_timer 13\n"
#define TWIN_RTS(psn) "modify 0x21 to 3 timeout 15 retry 6 rnr_retry 6 sq_psn " psn " max_rd 11\n"

static void a_twin_is_armed_over_its_own_path(void **state)
{
	(void)state;
	arm(1, 2);
	assert_traced("");
	assert_int_equal(v->rails.jobs[1].arm_since, START_NS);
	assert_int_equal(v->timers.overdue.at_ns, START_NS + 100ull * MS);
	assert_int_equal(rooms_run_jobs(), 1);
	assert_traced(TWIN_INIT TWIN_RTR("2002") TWIN_RTS(
		"1002") "peer's keys: epoch 2 rail 1\nour keys: epoch 2 rail 1\n"
			"event ARM_DONE rail 1 epoch 2\n");
	assert_int_equal(v->rails.armed_epoch[1], 2);
	assert_int_equal(v->rails.armed_epoch[0], 0);
	assert_int_equal(v->hot.rail0_epoch, 0);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
	assert_int_equal(v->rails.jobs[1].arm_since, 0);
	assert_ptr_equal(world.woken, &v->rails.job_ended);
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

/* Else what is only slow fails on a twin, where it would not have on rail 0. */
static void a_twin_is_never_less_patient_than_the_program(void **state)
{
	static const struct {
		uint8_t timeout, retries;
		const char *twin;
	} cases[] = {
		{13, 5, " timeout 14 retry 6 "}, {14, 6, " timeout 14 retry 6 "},
		{15, 7, " timeout 15 retry 7 "}, {31, 0, " timeout 31 retry 6 "},
		{1, 7, " timeout 14 retry 7 "},	 {0, 1, " timeout 0 retry 6 "}, /* for ever */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		v->program.attr.timeout = cases[i].timeout;
		v->program.attr.retry_cnt = cases[i].retries;
		trace_clear();
		arm(1, 2);
		rooms_run_jobs();
		assert_non_null(strstr(trace_text(), cases[i].twin));
	}
}

/* 7.15: of the twin, which is more patient, and four times as long as the timeout says. */
static void lib_core_knows_how_long_a_twin_retries(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		uint8_t timeout, retries;
		uint64_t ns;
	} cases[] = {
		{IBV_QPS_RTS, 20, 7, 32 * (4096ull << 20)},
		{IBV_QPS_RTS, 31, 6, 28 * (4096ull << 31)},
		{IBV_QPS_RTS, 13, 5, 28 * (4096ull << 14)},
		{IBV_QPS_RTS, 0, 7, 32 * (4096ull << 14)},
		{IBV_QPS_RTR, 20, 7, 28 * (4096ull << 21)}, /* not said yet */
	};

	(void)state;
	assert_int_equal(core.start.retries_ns, 28 * (4096ull << 15));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		v->program.state = cases[i].state;
		v->program.attr.timeout = cases[i].timeout;
		v->program.attr.retry_cnt = cases[i].retries;
		assert_int_equal(twin_retries_ns(&v->program), cases[i].ns);
	}
}

/* 7.29: a program that only receives has not said what RTS needs. */
static void a_qp_in_rtr_is_armed_with_defaults(void **state)
{
	(void)state;
	v->program.state = IBV_QPS_RTR;
	arm(0, 3);
	rooms_run_jobs();
	assert_non_null(
		strstr(trace_text(), "to 3 timeout 21 retry 6 rnr_retry 7 sq_psn 1003 max_rd 1\n"));
	assert_int_equal(v->qp->state, IBV_QPS_RTR); /* as the program must see it */
	trace_clear();
	arm(1, 3);
	rooms_run_jobs();
	assert_non_null(
		strstr(trace_text(), "to 3 timeout 21 retry 6 rnr_retry 7 sq_psn 1003 max_rd 1\n"));
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

static _Atomic bool has_gone_to_err;

static void the_program_goes_to_err(void)
{
	v->program.state = v->qp->state = IBV_QPS_ERR;
	has_gone_to_err = true;
}

static void *resets_rail_0(void *arg)
{
	vqp_to_state(v, 0, IBV_QPS_RESET);
	return arg;
}

/* The program modifies its QP meanwhile, and whoever has the lock keeps it for long. */
static void no_older_state_is_shown(void **state)
{
	const volatile enum ibv_qp_state *shown = &v->qp->state;
	enum ibv_qp_state seen;
	pthread_t thread;

	(void)state;
	has_gone_to_err = false;
	world.on_modify = the_program_goes_to_err;
	pthread_mutex_lock(&v->lock);
	pthread_create(&thread, NULL, resets_rail_0, NULL);
	while (!has_gone_to_err)
		usleep(1000);
	usleep(100000); /* the verb ends */
	seen = *shown;
	pthread_mutex_unlock(&v->lock);
	pthread_join(thread, NULL);
	assert_int_equal(seen, IBV_QPS_ERR);
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
		{3, 3, " index 3 "}, {3, 1, " index 3 "},	 {0, 3, " index 0 "},
		{7, 3, " index 7 "}, {8, 3, "event ARM_FAILED"}, /* it is gone: the table ends at 7
								  */
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
			assert_int_equal(!strstr(trace_text(), " av "), cases[i].at == 8);
		}
}

/* The NIC of rail 1 has it one place before that of rail 0. What it lacks cannot be armed. */
static void the_pkey_is_found_where_it_is(void **state)
{
	static const struct {
		__be16 pkey;
		const char *says;
	} cases[] = {{0, "modify 0x21 to 1 pkey 0 "},	  {0x101, "modify 0x21 to 1 pkey 0 "},
		     {0x109, "modify 0x21 to 1 pkey 8 "}, {0x110, "modify 0x21 to 1 pkey 15 "},
		     {0x111, "event ARM_FAILED rail 1"},  {0x100, "event ARM_FAILED rail 1"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		v->rails.pkey = cases[i].pkey;
		trace_clear();
		arm(1, 2);
		rooms_run_jobs();
		assert_non_null(strstr(trace_text(), cases[i].says));
		trace_clear();
		arm(0, 2); /* it stands where the program has said */
		rooms_run_jobs();
		assert_non_null(strstr(trace_text(), "modify 0x10 to 1 pkey 9 "));
	}
}

/* A GID that is not used need not be there. */
static void without_a_grh_the_lid_is_the_address(void **state)
{
	static const struct {
		uint8_t link_layer;
		uint16_t lid;
		const char *av;
	} cases[] = {{IBV_LINK_LAYER_INFINIBAND, 33, " av 0 c0.01 index 0 "},
		     {IBV_LINK_LAYER_INFINIBAND, 0, " av 1 c0.01 index 3 "},
		     {IBV_LINK_LAYER_ETHERNET, 33, " av 1 c0.01 index 3 "}};

	(void)state;
	v->program.attr.ah_attr.is_global = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		world.nic[1].port_attr.link_layer = cases[i].link_layer;
		v->rails.twin[1].peer.lid = cases[i].lid;
		trace_clear();
		arm(1, 2);
		rooms_run_jobs();
		assert_non_null(strstr(trace_text(), cases[i].av));
	}
	world.gid_at = 8;
	trace_clear();
	arm(0, 3);
	rooms_run_jobs();
	assert_non_null(
		strstr(trace_text(), " av 0 aa.bb index 0 hops 33 class 44 flow 55 lid 66"));
	assert_non_null(strstr(trace_text(), "event ARM_DONE rail 0"));
}

/* What the two NICs have agreed on, before INIT. If a NIC does not take it, the ends would differ.
 */
static void ece_is_as_it_was_agreed(void **state)
{
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 7};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	world.on_wait = taken_back;
	assert_int_equal(hook_modify_qp(v->qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(hook_set_ece(v->qp, &ece), 0);
	rooms_start_qp(v);
	for (uint8_t rail = 0; rail < 2; rail++) {
		static const char *const says[] = {
			"modify 0x10 to 0\nECE of 0x10: 0x15b3 0x6\nmodify 0x10 to 1 ",
			"modify 0x21 to 0\nECE of 0x21: 0x15b3 0x6\nmodify 0x21 to 1 "};

		trace_clear();
		arm(rail, 2);
		rooms_run_jobs();
		assert_non_null(strstr(trace_text(), says[rail]));
		assert_non_null(strstr(trace_text(), "event ARM_DONE"));
	}
	world.ece_result = EINVAL;
	trace_clear();
	arm(1, 3);
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), "event ARM_FAILED"));
	assert_int_equal(hook_set_ece(v->qp, &ece), EINVAL);
	world.ece_result = 0;
	assert_int_equal(hook_modify_qp(v->qp, &reset, IBV_QP_STATE), 0);
	rooms_start_qp(v); /* a new life */
	arm(1, 2);
	rooms_run_jobs();
	assert_null(strstr(trace_text(), "ECE"));
}

/* The next life hears of its links when it meets a peer: no earlier one has told it. */
static void links_are_those_of_the_life(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	vqp_rail_note_up(v, 1, false);
	assert_true(vqp_rail_was_up(v, 0));
	assert_false(vqp_rail_was_up(v, 1));
	world.on_wait = taken_back;
	assert_int_equal(hook_modify_qp(v->qp, &reset, IBV_QP_STATE), 0);
	assert_true(vqp_rail_was_up(v, 1));
}

static int limit_rate(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *rate)
{
	trace_add("rate of %#x: %u %u\n", qp->qp_num, rate->rate_limit, rate->max_burst_sz);
	return 0;
}

/* Twins are of contexts of ours; those here have no such verb, and are armed all the same. */
static void a_rate_limit_is_kept(void **state)
{
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000, .max_burst_sz = 4};
	static struct verbs_context vctx;

	(void)state;
	world.dev.modify_qp_rate_limit = limit_rate;
	assert_int_equal(hook_modify_qp_rate_limit(v->qp, &rate), 0);
	assert_traced("rate of 0x10: 1000 4\n");
	core.view.r = 1;
	rate.rate_limit = 2000;
	assert_int_equal(hook_modify_qp_rate_limit(v->qp, &rate), 0);
	assert_traced("");
	core.view.r = 0;
	arm(0, 2);
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), "max_rd 11\nrate of 0x10: 2000 4\n"));
	arm(1, 2);
	rooms_run_jobs();
	assert_non_null(strstr(trace_text(), "event ARM_DONE rail 1"));
	assert_null(strstr(trace_text(), "rate of 0x21"));
	vctx = (struct verbs_context){.sz = sizeof(vctx), .modify_qp_rate_limit = limit_rate};
	vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	atomic_load(&v->rails.twin[1].qp)->context = &vctx.context;
	arm(1, 3);
	rooms_run_jobs();
	atomic_load(&v->rails.twin[1].qp)->context = &world.ctx[1];
	assert_non_null(strstr(trace_text(), "rate of 0x21: 2000 4\n"));
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

/* RESET without ERR before it may cost the NIC: doc/soft-roce.md. */
static void on_soft_roce_it_ends_by_err(void **state)
{
	(void)state;
	world.nic[1].is_rxe = true;
	world.modify_fails_at = 4;
	arm(1, 2);
	rooms_run_jobs();
	assert_traced(TWIN_INIT TWIN_RTR("2002") TWIN_RTS("1002") "modify 0x21 to 6\n" FAILED);
	assert_int_equal(atomic_load(&v->rails.twin[1].qp)->state, IBV_QPS_RESET);
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

/* --- arming takes long --------------------------------------------------------------------- */

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
			"event ARM_DONE rail 1 epoch 2\nmodify 0x21 to 0\n" TWIN_INIT TWIN_RTR(
				"2005") TWIN_RTS("1005") "peer's keys: epoch 5 rail 1\nour keys: "
							 "epoch 5 rail 1\n"
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
	rooms_act(v, &fence);
	assert_true(v->rails.jobs[1].fence_follows);
	assert_int_equal(rooms_run_jobs(), 2);
	assert_false(v->rails.jobs[1].fence_follows);
	armed = strstr(trace_text(), "event ARM_DONE");
	to_err = strstr(trace_text(), "modify 0x21 to 6");
	assert_true(armed && to_err && armed < to_err);
	trace_clear();
	rooms_act(v, &fence);
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

/* --- jobs end when the program takes its QP back ------------------------------------------- */

static void ask_for_all(uint8_t rail)
{
	struct shift_action fence = {.type = SHIFT_ACT_FENCE, .rail = rail, .epoch = 1},
			    query = {.type = SHIFT_ACT_QUERY_PSN, .rail = rail, .epoch = 1};

	rooms_act(v, &query);
	rooms_act(v, &fence);
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
	rooms_act(v, &fence);
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

/* --- a NIC that does not answer ----------------------------------------------------------------
 */

/* A fence has 1 s, an arming 5 s, from when it was asked for or, if others were before it, from
 * when the NIC began the one that it is at. */
static void a_job_that_does_not_end_is_given_up(void **state)
{
	static const struct {
		bool arm;
		uint64_t began_ms, now_ms; /* began_ms 0: the NIC is at no job */
		bool given_up;
	} cases[] = {
		{false, 0, 999, false},	   {false, 0, 1000, true},   {false, 500, 1499, false},
		{false, 500, 1500, true},  {true, 0, 4999, false},   {true, 0, 5000, true},
		{true, 1000, 5999, false}, {true, 1000, 6000, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rail_jobs *j;

		begin(state);
		j = &v->rails.jobs[1];
		world.now = START_NS + cases[i].now_ms * 1000000;
		world.busy_since = cases[i].began_ms ? START_NS + cases[i].began_ms * 1000000 : 0;
		j->fence_epoch = 7;
		j->arm.epoch = 8;
		*(cases[i].arm ? &j->arm_since : &j->fence_since) = START_NS;
		job_deadlines_check(v);
		assert_traced(!cases[i].given_up ? ""
			      : cases[i].arm
				      ? "event ARM_FAILED rail 1 epoch 8\n"
				      : "event FENCE_DONE rail 1 epoch 7 fence 1 psn 0 hung\n");
		assert_int_equal(j->fence_since + j->arm_since, cases[i].given_up ? 0 : START_NS);
		assert_int_equal(v->timers.overdue.heap_at, !cases[i].given_up);
		if (!cases[i].given_up)
			assert_int_equal(v->timers.overdue.at_ns, world.now + 100ull * MS);
		trace_clear();
		job_deadlines_check(v);
		assert_traced("");
		world.busy_since = 0;
		j->fence_since = j->arm_since = 0;
		end(state);
	}
}

/* --- twins --------------------------------------------------------------------------------- */

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

static void the_job_ends(void)
{
	v->rails.jobs[1].under_way = 0;
	assert_non_null(v->rails.twin[1].qp);
}

/* An arming or a fence that was taken for hung. */
static void a_twin_is_destroyed_when_its_jobs_have_ended(void **state)
{
	uint8_t rail;

	(void)state;
	v->rails.jobs[1].under_way = 1;
	world.on_sleep = the_job_ends;
	destroys = 0;
	real.destroy_qp = count_destroy;
	twin_destroy(&v->obj, world.nic + 1);
	world.on_sleep = NULL;
	assert_int_equal(destroys, 1);
	assert_int_equal(v->rails.jobs[1].under_way, 0);
	assert_null(v->rails.twin[1].qp);
	assert_null(vqp_by_twin(world.nic + 1, TWIN_QPN + 1, &rail));
	assert_int_equal(world.send_cq.shadow[1].wanted, 0);
	assert_int_equal(world.recv_cq.shadow[1].wanted, 0);
	twin_destroy(&v->obj, world.nic + 1);
	assert_int_equal(destroys, 1);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
	const struct CMUnitTest tests[] = {
		TEST(a_twin_is_armed_over_its_own_path),
		TEST(rail_0_is_armed_as_the_program_wanted),
		TEST(lib_core_knows_how_long_a_twin_retries),
		TEST(a_twin_is_never_less_patient_than_the_program),
		TEST(a_qp_in_rtr_is_armed_with_defaults),
		TEST(the_program_does_not_see_rail_0s_state),
		TEST(no_older_state_is_shown),
		TEST(hops_that_are_not_set_are_64),
		TEST(the_gid_is_found_where_it_is),
		TEST(the_pkey_is_found_where_it_is),
		TEST(without_a_grh_the_lid_is_the_address),
		TEST(ece_is_as_it_was_agreed),
		TEST(links_are_those_of_the_life),
		TEST(a_rate_limit_is_kept),
		TEST(the_twins_mtu_is_one_of_the_five),
		TEST(an_arming_that_fails_ends_in_reset),
		TEST(on_soft_roce_it_ends_by_err),
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
		cmocka_unit_test(a_job_that_does_not_end_is_given_up),
		ALONE(a_twin_is_made_like_the_programs_qp),
		ALONE(a_twin_with_one_cq),
		ALONE(a_twin_without_room_for_the_marker),
		TEST(a_twin_that_is_refused_is_reported),
		TEST(a_twin_of_a_connection_that_is_over_is_not_reported),
		TEST(a_twin_is_destroyed_when_its_jobs_have_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
