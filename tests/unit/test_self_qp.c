/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A QP that is connected with itself (lib/conn/self_qp.c). */
#include "tests/unit/self_world.h"

/* --- while nothing fails --------------------------------------------------------------------- */

static void it_is_as_if_it_were_not_there(void **state)
{
	(void)state;
	assert_true(v->self.on);
	assert_false(data->self.on);
	for (uint64_t i = 0; i < 20; i++) {
		post_read(0x50 + i);
		nic_has(0x50 + i, IBV_WC_SUCCESS);
		assert_completes(0x50 + i, IBV_WC_SUCCESS);
	}
	assert_int_equal(lines("post 0x10 id 0x5"), 16); /* with the program's own wr_id */
	assert_int_equal(reads_on(QPN), 20);
	assert_false(v->self.engaged);
	assert_int_equal(v->hot.slow, 0);
}

static void only_what_names_itself(void **state)
{
	const struct {
		uint32_t dest;
		uint8_t last;
	} others[] = {{QPN + 1, 1}, {QPN, 2}};

	end_both(state);
	for (size_t i = 0; i < 2; i++) {
		rooms_begin(state);
		v = rooms_create_qp();
		to_rts(v, others[i].dest, others[i].last);
		assert_false(v->self.on);
		rooms_end_qp(state, v);
	}
	begin_both(state);
}

static void a_lid_names_itself(void **state)
{
	struct ibv_qp_attr *a = &v->program.attr;

	(void)state;
	v->self.on = false;
	a->ah_attr.is_global = 0;
	a->ah_attr.dlid = (uint16_t)(world.nic[0].port_attr.lid | a->ah_attr.src_path_bits);
	self_qp_started(v);
	assert_true(v->self.on);
	v->self.on = false;
	a->ah_attr.dlid++;
	self_qp_started(v);
	assert_false(v->self.on);
}

/* --- the READs follow the data --------------------------------------------------------------- */

/* One completion for each, when all NICs have done it, with the program's wr_id. */
static void a_read_goes_through_both(void **state)
{
	(void)state;
	data_moves_to(1);
	assert_true(v->self.engaged);
	trace_clear();
	post_read(0x50);
	assert_int_equal(reads_on(QPN), 1);
	assert_int_equal(reads_on(TWIN_QPN + 1), 1);
	assert_int_equal(reads_on(TWIN_QPN + 2), 0);
	/* With the keys of that NIC. */
	assert_int_equal(lines("post 0x21 id 0x100000000 op 4 flags 0x2 imm 0 to 0x8000 0x2022 "
			       "[0x7000 1 0x1011]"),
			 1);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_nothing_completes();
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	assert_nothing_completes();
}

static void the_other_nic_may_be_first(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	post_read(0x51);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_nothing_completes();
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS); /* polled one by one */
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_nothing_completes();
}

/* Data can come as soon as its QP is armed: the READ waits for its own. */
static void a_read_waits_for_its_twin(void **state)
{
	(void)state;
	data_is_on(1);
	self_qps_follow(data, 1);
	trace_clear();
	post_read(0x50);
	assert_int_equal(reads_on(QPN), 1);
	assert_int_equal(reads_on(TWIN_QPN + 1), 0);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_nothing_completes();
	rooms_run_jobs();
	assert_int_equal(reads_on(TWIN_QPN + 1), 1);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

static bool followed; /* when the data's QP was modified first */

static void look_whether_it_has_followed(void)
{
	followed = v->self.engaged;
}

/* The flush QPs follow before the data's QP can take a packet. */
static void they_follow_before_the_data_comes(void **state)
{
	struct shift_action arm = {.type = SHIFT_ACT_ARM, .rail = 1, .epoch = 1};

	(void)state;
	followed = false;
	vqp_enter(data);
	arm_start(data, &arm);
	vqp_leave(data);
	world.on_modify = look_whether_it_has_followed;
	assert_true(rooms_run_job());
	assert_true(followed);
	rooms_run_jobs();
}

static void it_is_connected_as_the_programs_own(void **state)
{
	(void)state;
	data_is_on(1);
	self_qps_follow(data, 1);
	trace_clear();
	rooms_run_jobs();
	assert_int_equal(
		lines("modify 0x21 to 2 av 1 fe.02 index 3 hops 33 class 44 flow 55 lid 65 "
		      "sl 5 port 2 path 0 rate 2 mtu 4 dest 0x21"),
		1);
	assert_int_equal(lines("modify 0x21 to 3"), 1);
	assert_int_equal(lines("modify 0x10"), 0);
}

/* Those under way when the data moves have their own completions, and only once. */
static void reads_under_way_when_the_data_moves(void **state)
{
	(void)state;
	post_read(0x50);
	assert_int_equal(post_wr(0x51, IBV_WR_RDMA_READ, 0), 0);
	post_read(0x52);
	nic_has(0x50, IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	data_moves_to(1);
	nic_has(0x52, IBV_WC_SUCCESS);
	assert_nothing_completes();
	assert_int_equal(reads_on(TWIN_QPN + 1), 2);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 2), IBV_WC_SUCCESS);
	assert_completes(0x52, IBV_WC_SUCCESS);
	assert_nothing_completes();
}

static void one_that_is_made_later_catches_up(void **state)
{
	(void)state;
	hook_modify_qp(v->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE);
	assert_false(v->self.on);
	data_moves_to(1);
	assert_false(v->self.engaged);
	to_rts(v, QPN, 1);
	assert_true(v->self.engaged);
	assert_true(v->self.rail[1].wanted);
}

/* Data of another domain does not concern it. */
static void data_of_another_domain(void **state)
{
	static struct vpd other;
	struct vpd *pd = data->pd;

	(void)state;
	data->pd = &other;
	self_qps_follow(data, 1);
	assert_false(v->self.engaged);
	data->pd = pd;
}

static void no_more_than_the_queue_has(void **state)
{
	(void)state;
	data_moves_to(1);
	for (uint64_t i = 0; i < SENDS; i++)
		post_read(0x50 + i);
	assert_int_equal(post_wr(0x60, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED), ENOMEM);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	post_read(0x60);
}

/* --- and leave a NIC again ------------------------------------------------------------------- */

static void complete_on_both(uint64_t id, uint32_t index)
{
	post_read(id);
	nic_has(ours(0, index), IBV_WC_SUCCESS);
	twin_has(1, ours(1, index), IBV_WC_SUCCESS);
	assert_completes(id, IBV_WC_SUCCESS);
}

/* A READ that was posted after the data has left has to complete there. */
static void a_nic_is_left_by_a_read(void **state)
{
	(void)state;
	data_moves_to(1);
	complete_on_both(0x50, 0);
	rooms_pass(2 * SECOND);
	assert_true(v->self.engaged); /* data comes there */
	data_is_on(0);
	post_read(0x51); /* before it is known that no data comes there */
	rooms_pass(SECOND);
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_true(v->self.rail[1].wanted);
	complete_on_both(0x52, 2);
	rooms_pass(SECOND);
	assert_false(v->self.engaged);
	assert_int_equal(v->hot.slow, 0);
	trace_clear();
	post_read(0x53);
	nic_has(0x53, IBV_WC_SUCCESS);
	assert_completes(0x53, IBV_WC_SUCCESS);
	assert_int_equal(lines("post 0x10 id 0x53 "), 1); /* as without us */
	assert_int_equal(reads_on(TWIN_QPN + 1), 0);
}

/* A program that posts none does not keep its CQ slow. */
static void an_idle_one_leaves_after_the_quarantine(void **state)
{
	(void)state;
	data_moves_to(1);
	data_is_on(0);
	rooms_pass(100 * MS);
	assert_true(v->self.engaged);
	rooms_pass(900 * MS);
	assert_true(v->self.engaged);
	rooms_pass(SECOND);
	rooms_pass(SECOND);
	assert_false(v->self.engaged);
}

static void data_comes_again_before_it_is_left(void **state)
{
	(void)state;
	data_moves_to(1);
	data_is_on(0);
	rooms_pass(SECOND);
	data_moves_to(1);
	rooms_pass(5 * SECOND);
	assert_true(v->self.engaged);
	trace_clear();
	complete_on_both(0x50, 0);
	data_is_on(0); /* what was left before does not count now */
	rooms_pass(SECOND);
	assert_true(v->self.rail[1].wanted);
}

/* --- rail 0 dies ----------------------------------------------------------------------------- */

/* The program never sees it: what was under way is done by another NIC, once each, in order. */
static void rail_0_dies(void **state)
{
	(void)state;
	post_read(0x50);
	post_read(0x51);
	rail0_dies(0x50);
	nic_has(0x51, IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
	assert_nothing_completes();
	assert_true(v->self.engaged);
	rooms_run_jobs();
	assert_int_equal(reads_on(TWIN_QPN + 1), 2);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_nothing_completes();
	post_read(0x52);
	assert_int_equal(reads_on(TWIN_QPN + 1), 3);
	assert_true(v->self.on);
	assert_int_equal(v->qp->state, IBV_QPS_RTS);
}

/* What the query of a QP that has left rail 0 says is what the program has set. */
static void its_state_is_the_programs(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	post_read(0x50);
	rail0_dies(0x50);
	assert_nothing_completes();
	assert_int_equal(hook_query_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, QPN);
	trace_clear();
	attr.min_rnr_timer = 3;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(lines("modify"), 0); /* when it is armed there again */
}

static void die_on_rail_0(uint64_t id, uint32_t index)
{
	post_read(id);
	rail0_dies(id);
	assert_nothing_completes();
	rooms_run_jobs();
	twin_has(1, ours(1, index), IBV_WC_SUCCESS);
	assert_completes(id, IBV_WC_SUCCESS);
}

static void try_rail_0(void)
{
	for (int i = 0; i < 40 && v->self.engaged; i++) {
		rooms_pass(100 * MS);
		rooms_run_jobs();
	}
}

/* It is emptied, then armed with other PSNs; then the program's posts go there as they are. */
static void back_on_rail_0(void **state)
{
	(void)state;
	die_on_rail_0(0x50, 0);
	trace_clear();
	try_rail_0();
	assert_false(v->self.engaged);
	assert_int_equal(markers, 1);
	assert_true(lines("modify 0x10 to 6") == 1 && lines("modify 0x10 to 3") == 1);
	assert_int_equal(lines("sq_psn 0 "), 0);
	assert_int_equal(v->hot.slow, 0);
	trace_clear();
	post_read(0x51);
	nic_has(0x51, IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
	assert_int_equal(lines("post 0x10 id 0x51 "), 1);
}

static void it_dies_and_is_tried(void)
{
	die_on_rail_0(0x50, 0);
	try_rail_0();
}

/* Its driver may not keep two modifies of one QP apart. */
static void not_while_the_program_modifies_it(void **state)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 3};

	(void)state;
	world.on_modify = it_dies_and_is_tried;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(lines("modify 0x10 "), 1);
	assert_true(v->self.engaged);
	try_rail_0();
	assert_false(v->self.engaged);
}

static void not_while_its_link_is_down(void **state)
{
	(void)state;
	world.nic[0].link_up = false;
	data_moves_to(1);
	post_read(0x50);
	nic_has(ours(0, 0), IBV_WC_LOC_QP_OP_ERR);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	trace_clear();
	for (int i = 0; i < 40; i++) {
		rooms_pass(100 * MS);
		rooms_run_jobs();
	}
	assert_int_equal(lines("modify 0x10"), 0);
	assert_true(v->self.engaged);
}

/* What does not flush may still come: then it is not armed. */
static void not_before_it_is_empty(void **state)
{
	(void)state;
	die_on_rail_0(0x50, 0);
	world.on_sleep = NULL;
	trace_clear();
	for (int i = 0; i < 15; i++) {
		rooms_pass(100 * MS);
		rooms_run_jobs();
	}
	assert_true(lines("modify 0x10 to 6") > 0);	/* ERR */
	assert_int_equal(lines("modify 0x10 to 0"), 0); /* RESET */
	assert_true(v->self.engaged);
}

/* A completion of an earlier arming is none of a READ of now. */
static void completions_of_before(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(2, 0), IBV_WC_RETRY_EXC_ERR);
	twin_has(1, ours(1, 1), IBV_WC_SUCCESS);
	assert_nothing_completes();
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	assert_true(v->self.rail[1].wanted);
}

/* One NIC after the other: it goes on where one is left. */
static void both_die(void **state)
{
	(void)state;
	die_on_rail_0(0x50, 0);
	post_read(0x51);
	twin_has(1, ours(1, 1), IBV_WC_RETRY_EXC_ERR);
	assert_nothing_completes();
	rooms_run_jobs();
	assert_int_equal(reads_on(TWIN_QPN + 2), 1);
	twin_has(2, ours(1, 1), IBV_WC_SUCCESS);
	assert_completes(0x51, IBV_WC_SUCCESS);
}

/* A NIC that carries no data, and answers nothing, is left after the quarantine. */
static void one_that_hangs(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	rooms_pass(200 * MS);
	assert_nothing_completes();
	for (int i = 0; i < 3; i++)
		rooms_pass(SECOND);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* But not one that does: the NIC's own retries decide. */
static void one_that_is_slow(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	for (int i = 0; i < 10; i++)
		rooms_pass(SECOND);
	assert_nothing_completes();
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* No NIC is left for the give-up time: as with stock verbs, an error, and the rest flushes. */
static void no_nic_is_left(void **state)
{
	(void)state;
	world.lost = 6;	       /* no address on the others */
	world.on_sleep = NULL; /* and rail 0 does not flush */
	post_read(0x50);
	post_read(0x51);
	rail0_dies(0x50);
	assert_nothing_completes();
	while (world.now < START_NS + 29 * SECOND) {
		rooms_pass(100 * MS);
		rooms_run_jobs();
	}
	assert_nothing_completes();
	while (world.now < START_NS + 32 * SECOND) {
		rooms_pass(100 * MS);
		rooms_run_jobs();
	}
	assert_completes(0x50, IBV_WC_RETRY_EXC_ERR);
	assert_completes(0x51, IBV_WC_WR_FLUSH_ERR);
	post_read(0x52);
	assert_completes(0x52, IBV_WC_WR_FLUSH_ERR);
	assert_false(v->self.on);
	assert_int_equal(v->qp->state, IBV_QPS_ERR);
}

/* One NIC after the other is tried until one can be used. */
static void a_nic_that_can_be_used_later(void **state)
{
	(void)state;
	data->conn->state = SHIFT_ST_SETUP; /* no data says where to go */
	world.lost = 6;
	world.on_sleep = NULL;
	post_read(0x50);
	rail0_dies(0x50);
	assert_nothing_completes();
	world.nic[0].link_up = false;
	rooms_run_jobs();
	world.lost = 2;
	for (int i = 0; i < 50 && !is_ready_on(2); i++) {
		rooms_pass(100 * MS);
		rooms_run_jobs();
	}
	assert_int_equal(reads_on(TWIN_QPN + 2), 1);
	rooms_pass(100 * MS);
	twin_has(2, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* --- what is left alone ---------------------------------------------------------------------- */

/* The program's own mistake is its own, on rail 0 alone or not. */
static void a_mistake(void **state)
{
	(void)state;
	post_read(0x50);
	nic_has(0x50, IBV_WC_REM_ACCESS_ERR);
	assert_completes(0x50, IBV_WC_REM_ACCESS_ERR);
	assert_false(v->self.on);
	assert_false(v->self.engaged);
}

static void a_mistake_on_another(void **state)
{
	(void)state;
	data_moves_to(1);
	post_read(0x50);
	post_read(0x51);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_REM_ACCESS_ERR);
	assert_completes(0x50, IBV_WC_REM_ACCESS_ERR);
	assert_completes(0x51, IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
	assert_false(v->self.on);
}

/* WRITEs cannot be done twice. */
static void other_than_reads(void **state)
{
	(void)state;
	assert_int_equal(post_wr(0x50, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	trace_clear();
	self_qps_follow(data, 1);
	assert_false(v->self.engaged);
	assert_false(v->self.on);
	assert_int_equal(lines("protected 0: connected to itself"), 1);
	rail0_dies(0x50);
	assert_completes(0x50, IBV_WC_LOC_QP_OP_ERR);
}

static void receives_too(void **state)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 1};

	(void)state;
	assert_int_equal(hot_post_recv(v->qp, &wr, &bad), 0);
	self_qps_follow(data, 1);
	assert_false(v->self.on);
}

static void a_write_while_it_is_doubled(void **state)
{
	struct ibv_wc wc;

	(void)state;
	data_moves_to(1);
	post_read(0x50);
	assert_int_equal(post_wr(0x51, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), 0);
	assert_false(v->self.on);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	nic_has(ours(0, 1), IBV_WC_SUCCESS);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
	assert_true(poll_one(&wc));
	assert_int_equal(wc.wr_id, 0x51);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_false(v->self.engaged);
	assert_int_equal(lines("post 0x21 id 0x100000001"), 0);
}

/* Rail 0's key is never used on another NIC. */
static void memory_that_the_other_nic_has_not(void **state)
{
	(void)state;
	data_moves_to(1);
	rkey_result = -ENOENT;
	trace_clear();
	post_read(0x50);
	assert_int_equal(reads_on(TWIN_QPN + 1), 0);
	assert_int_equal(lines("protected 0: memory could not be registered"), 1);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS); /* as without us */
}

static void memory_that_comes_later(void **state)
{
	(void)state;
	data_moves_to(1);
	rkey_result = -EAGAIN;
	post_read(0x50);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_nothing_completes();
	rkey_result = 0;
	memlock_registered();
	assert_int_equal(reads_on(TWIN_QPN + 1), 1);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS);
	assert_completes(0x50, IBV_WC_SUCCESS);
}

/* --- the program ends it --------------------------------------------------------------------- */

static void it_is_reset_and_used_again(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	data_moves_to(1);
	post_read(0x50);
	assert_int_equal(hook_modify_qp(v->qp, &reset, IBV_QP_STATE), 0);
	twin_has(1, ours(1, 0), IBV_WC_SUCCESS); /* late */
	assert_nothing_completes();
	to_rts(v, QPN, 1);
	rooms_run_jobs();
	assert_true(v->self.engaged);
	post_read(0x60);
	nic_has(ours(0, 0), IBV_WC_SUCCESS);
	assert_nothing_completes();
	twin_has(1, ours(2, 0), IBV_WC_SUCCESS);
	assert_completes(0x60, IBV_WC_SUCCESS);
}

static void it_is_reset_while_its_twin_is_armed(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	data_is_on(1);
	self_qps_follow(data, 1);
	assert_int_equal(hook_modify_qp(v->qp, &reset, IBV_QP_STATE), 0);
	rooms_run_jobs();
	assert_false(v->self.engaged);
	assert_int_not_equal(v->self.rail[1].state, SELF_READY);
}

static void it_goes_to_err(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	(void)state;
	data_moves_to(1);
	post_read(0x50);
	assert_int_equal(hook_modify_qp(v->qp, &err, IBV_QP_STATE), 0);
	assert_completes(0x50, IBV_WC_WR_FLUSH_ERR);
	nic_has(ours(0, 0), IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
	post_read(0x51);
	assert_completes(0x51, IBV_WC_WR_FLUSH_ERR);
	assert_nothing_completes();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_both, end_both)
	const struct CMUnitTest tests[] = {
		TEST(it_is_as_if_it_were_not_there),
		TEST(only_what_names_itself),
		TEST(a_lid_names_itself),
		TEST(a_read_goes_through_both),
		TEST(the_other_nic_may_be_first),
		TEST(a_read_waits_for_its_twin),
		TEST(they_follow_before_the_data_comes),
		TEST(it_is_connected_as_the_programs_own),
		TEST(reads_under_way_when_the_data_moves),
		TEST(one_that_is_made_later_catches_up),
		TEST(data_of_another_domain),
		TEST(no_more_than_the_queue_has),
		TEST(a_nic_is_left_by_a_read),
		TEST(an_idle_one_leaves_after_the_quarantine),
		TEST(data_comes_again_before_it_is_left),
		TEST(rail_0_dies),
		TEST(its_state_is_the_programs),
		TEST(back_on_rail_0),
		TEST(not_while_the_program_modifies_it),
		TEST(not_while_its_link_is_down),
		TEST(not_before_it_is_empty),
		TEST(completions_of_before),
		TEST(both_die),
		TEST(one_that_hangs),
		TEST(one_that_is_slow),
		TEST(no_nic_is_left),
		TEST(a_nic_that_can_be_used_later),
		TEST(a_mistake),
		TEST(a_mistake_on_another),
		TEST(other_than_reads),
		TEST(receives_too),
		TEST(a_write_while_it_is_doubled),
		TEST(memory_that_the_other_nic_has_not),
		TEST(memory_that_comes_later),
		TEST(it_is_reset_and_used_again),
		TEST(it_is_reset_while_its_twin_is_armed),
		TEST(it_goes_to_err),
	};

	return run_with_both_gates(tests, sizeof(tests) / sizeof(*tests));
}
