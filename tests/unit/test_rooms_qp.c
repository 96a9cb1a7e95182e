/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the program does to its QP, and what it sees of it (lib/verbs/qp.c). */
#include "tests/unit/rooms.h"

#include <errno.h>

#include "lib/conn/conn_lock.h"
#include "lib/verbs/qp.h"

static struct vqp *v;

/* Something else than lib/core lets the program's call return. */
static void it_is_closed(void)
{
	vqp_enter(v);
	core_asks(&(struct shift_action){.type = SHIFT_ACT_CLOSED});
	vqp_leave(v);
}

static int begin(void **state)
{
	rooms_begin(state);
	world.on_wait = it_is_closed;
	v = rooms_create_qp();
	rooms_start_qp(v);
	return 0;
}

static int end(void **state)
{
	if (v) {
		rooms_unlock(v);
		world.on_wait = it_is_closed;
		v->life.closed = true;
		hook_destroy_qp(v->qp);
	}
	v = NULL;
	return rooms_end(state);
}

static int modify(enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = {.qp_state = to};

	return hook_modify_qp(v->qp, &attr, IBV_QP_STATE);
}

/* --- creation ------------------------------------------------------------------------------ */

static struct ibv_qp_init_attr wanted;
static struct ibv_srq srq;

static void not_rc(void)
{
	wanted.qp_type = IBV_QPT_UC;
}

static void with_srq(void)
{
	wanted.srq = &srq;
}

static void no_backup(void)
{
	world.dev.rails = 1;
}

static void two_rails(void)
{
	world.dev.rails = 2;
}

static void foreign_pd(void)
{
	world.real_pd.context = &world.ctx[0];
}

static void send_cq_is_ex(void)
{
	wanted.send_cq = &(struct ibv_cq){0};
}

static void recv_cq_is_ex(void)
{
	wanted.recv_cq = &(struct ibv_cq){0};
}

static void send_cq_bypassed(void)
{
	world.send_cq.bypassed = true;
}

static void recv_cq_bypassed(void)
{
	world.recv_cq.bypassed = true;
}

static void windows(void)
{
	world.pd.windows = true;
}

static void send_channel(void)
{
	world.send_cq.has_channel = true;
}

static void recv_channel(void)
{
	world.recv_cq.has_channel = true;
}

static void send_sges_64(void)
{
	wanted.cap.max_send_sge = 64;
}

static void send_sges_65(void)
{
	wanted.cap.max_send_sge = 65;
}

static void recv_sges_65(void)
{
	wanted.cap.max_recv_sge = 65;
}

static void not_every_qp_is_protected(void **state)
{
	static const struct {
		void (*as)(void);
		enum stats_unprotected why; /* SETUP: it can be protected */
	} cases[] = {
		{foreign_pd, STATS_UNPROTECTED_SETUP},
		{two_rails, STATS_UNPROTECTED_SETUP},
		{not_rc, STATS_UNPROTECTED_NOT_RC},
		{with_srq, STATS_UNPROTECTED_SRQ},
		{no_backup, STATS_UNPROTECTED_NO_BACKUP_NIC},
		{send_cq_is_ex, STATS_UNPROTECTED_CQ_EX},
		{recv_cq_is_ex, STATS_UNPROTECTED_CQ_EX},
		{send_cq_bypassed, STATS_UNPROTECTED_POSTED_AROUND},
		{recv_cq_bypassed, STATS_UNPROTECTED_POSTED_AROUND},
		{windows, STATS_UNPROTECTED_MEMORY_WINDOW},
		{send_channel, STATS_UNPROTECTED_CHANNEL},
		{recv_channel, STATS_UNPROTECTED_CHANNEL},
		{send_sges_64, STATS_UNPROTECTED_SETUP},
		{send_sges_65, STATS_UNPROTECTED_TOO_LARGE},
		{recv_sges_65, STATS_UNPROTECTED_TOO_LARGE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp *qp;

		rooms_begin(state);
		wanted = rooms_qp_attr();
		cases[i].as();
		qp = hook_create_qp(&world.real_pd, &wanted);
		assert_non_null(qp);
		v = vqp_find(qp);
		assert_non_null(v);
		assert_int_equal(v->program.why, cases[i].why);
		assert_int_equal(!v->conn, cases[i].why != STATS_UNPROTECTED_SETUP);
		assert_int_equal(!strstr(trace_text(), "bypassed"), !!v->conn);
		assert_int_equal(!strstr(trace_text(), "a life begins"), !v->conn);
		hook_destroy_qp(qp);
		v = NULL;
		rooms_end(state);
	}
}

/* A UD QP is in a multicast group, for example. */
static void a_qp_that_cannot_be_destroyed_stays(void **state)
{
	struct ibv_qp *qp;

	rooms_begin(state);
	wanted = rooms_qp_attr();
	not_rc();
	qp = hook_create_qp(&world.real_pd, &wanted);
	v = vqp_find(qp);
	assert_non_null(v);
	world.destroy_err = EBUSY;
	assert_int_equal(hook_destroy_qp(qp), EBUSY);
	assert_ptr_equal(vqp_find(qp), v);
	assert_false(v->life.gone);
	world.destroy_err = 0;
	assert_int_equal(hook_destroy_qp(qp), 0);
	assert_null(vqp_find(qp));
	v = NULL;
	rooms_end(state);
}

static void a_qp_in_a_foreign_domain_is_not_protected(void **state)
{
	struct ibv_pd foreign = {.context = &world.ctx[0]};
	struct ibv_qp_init_attr attr = rooms_qp_attr();

	rooms_begin(state);
	v = vqp_find(hook_create_qp(&foreign, &attr));
	assert_int_equal(v->program.why, STATS_UNPROTECTED_OTHER);
	assert_null(v->conn);
}

static void lib_core_learns_what_the_qp_is_like(void **state)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();
	enum failback failback[] = {FAILBACK_AUTO, FAILBACK_MANUAL, FAILBACK_NEVER};

	for (int i = 0; i < 3; i++) {
		rooms_begin(state);
		attr.sq_sig_all = i == 1;
		attr.cap.max_send_wr = i == 2 ? 0 : SENDS;
		env.lost_atomic_continue = i == 1;
		env.exactly_once = i != 1;
		env.failback = failback[i];
		v = vqp_find(hook_create_qp(&world.real_pd, &attr));
		assert_int_equal(core.cfg.nonce, 0xa);
		assert_int_equal(core.cfg.id, v->id);
		assert_int_equal(core.cfg.sq_cap, i == 2 ? 1 : SENDS);
		assert_int_equal(core.cfg.rq_cap, RECEIVES);
		assert_int_equal(core.cfg.sq_sge_max, 3);
		assert_int_equal(core.cfg.rq_sge_max, 2);
		assert_int_equal(core.cfg.inline_max, 60);
		assert_int_equal(core.cfg.rails, RAILS);
		for (int rail = 0; rail < RAILS; rail++)
			assert_int_equal(core.cfg.mtu[rail], 1024);
		assert_int_equal(core.cfg.sq_sig_all, i == 1);
		assert_int_equal(core.cfg.exactly_once, i != 1);
		assert_int_equal(core.cfg.lost_atomic_continue, i == 1);
		assert_int_equal(core.cfg.hold_down_ns, i ? 1ull << 61 : 0);
		assert_int_equal(core.cfg.hold_down_max_ns, i ? 1ull << 61 : 0);
		hook_destroy_qp(v->qp);
		v = NULL;
		rooms_end(state);
	}
}

/* All that can be outstanding, and two markers (doc/protocol.md, V10). */
static void the_cqs_have_room_for_all_that_can_flush(void **state)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();
	const int room = SENDS + RECEIVES + 2;

	for (int one_cq = 0; one_cq < 2; one_cq++)
		for (int cqe = room - 1; cqe <= room; cqe++) {
			rooms_begin(state);
			attr.recv_cq = one_cq ? attr.send_cq : &world.real_recv_cq;
			world.real_send_cq.cqe = cqe;
			v = vqp_find(hook_create_qp(&world.real_pd, &attr));
			assert_int_equal(world.real_send_cq.cqe, room);
			assert_int_equal(!strstr(trace_text(), "resize"), one_cq && cqe == room);
			assert_int_equal(world.real_recv_cq.cqe, one_cq ? 1 : room);
			assert_int_equal(world.send_cq.wanted, room);
			assert_int_equal(world.recv_cq.wanted, one_cq ? 0 : room);
			assert_int_equal(!v->hot.recv_marked.wr_id, !one_cq);
			assert_int_not_equal(v->marker, 0);
			hook_destroy_qp(v->qp);
			assert_int_equal(world.send_cq.wanted, 0);
			assert_int_equal(world.recv_cq.wanted, 0);
			v = NULL;
			rooms_end(state);
		}
}

/* It works, unprotected, and nothing is held back. */
static void what_cannot_be_had_leaves_the_qp_unprotected(void **state)
{
	for (int what = 0; what < 3; what++) {
		struct ibv_qp_init_attr attr = rooms_qp_attr();
		struct ibv_qp *qp;

		rooms_begin(state);
		world.resize_fails_at = what; /* 1: of the sends' CQ, 2: of the receives' */
		core.no_memory = !what;
		qp = hook_create_qp(&world.real_pd, &attr);
		v = vqp_find(qp);
		assert_null(v->conn);
		assert_int_equal(v->program.why,
				 what ? STATS_UNPROTECTED_OTHER : STATS_UNPROTECTED_NO_MEMORY);
		assert_int_equal(world.send_cq.wanted, 0);
		assert_int_equal(world.recv_cq.wanted, 0);
		hook_destroy_qp(qp);
		v = NULL;
		assert_int_equal(world.send_cq.obj.refs, 1000);
		assert_int_equal(world.recv_cq.obj.refs, 1000);
		assert_int_equal(world.pd.obj.refs, 1000);
		rooms_end(state);
	}
}

/* Or there is no room for the marker of a fence. Verbs allow more than was asked for. */
static void a_qp_without_a_send_queue_gets_one(void **state)
{
	struct ibv_qp_init_attr attr = rooms_qp_attr();

	rooms_begin(state);
	attr.cap.max_send_wr = 0;
	v = vqp_find(hook_create_qp(&world.real_pd, &attr));
	assert_non_null(strstr(trace_text(), "create on 0: cap 1 "));
	assert_int_equal(attr.cap.max_send_wr, 1);
	hook_destroy_qp(v->qp);
	trace_clear();
	attr.cap.max_send_wr = 0;
	world.create_fails = 1;
	for (int i = 0; i < RAILS; i++)
		world.nic[i].ready = false; /* there is no room to be made */
	v = NULL;
	assert_null(hook_create_qp(&world.real_pd, &attr));
	assert_int_equal(attr.cap.max_send_wr, 0);
	attr.srq = &srq; /* not protected: as the program wants it */
	v = vqp_find(hook_create_qp(&world.real_pd, &attr));
	assert_int_equal(attr.cap.max_send_wr, 0);
}

static struct ibv_pd domains[RAILS], parent;

static struct ibv_pd *nic_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = domains + (ctx - world.ctx);

	pd->context = ctx;
	return pd;
}

static struct ibv_pd *nic_alloc_parent(struct ibv_context *ctx,
				       struct ibv_parent_domain_init_attr *attr)
{
	(void)attr;
	parent.context = ctx;
	return &parent;
}

static int nic_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

/* The next parent domain is at the same place, and has no thread. */
static void a_qp_in_a_thread_domain_is_not_protected(void **state)
{
	for (int threaded = 1; threaded >= 0; threaded--) {
		struct ibv_qp_init_attr qp_attr = rooms_qp_attr();
		struct ibv_parent_domain_init_attr attr;
		struct ibv_td td;

		rooms_begin(state);
		world.dev.alloc_parent_domain = nic_alloc_parent;
		real.alloc_pd = nic_alloc_pd;
		real.dealloc_pd = nic_dealloc_pd;
		attr = (struct ibv_parent_domain_init_attr){.pd = hook_alloc_pd(&world.ctx[0]),
							    .td = threaded ? &td : NULL};
		assert_ptr_equal(hook_alloc_parent_domain(&world.ctx[0], &attr), &parent);
		v = vqp_find(hook_create_qp(&parent, &qp_attr));
		assert_int_equal(v->program.why, threaded ? STATS_UNPROTECTED_THREAD_DOMAIN
							  : STATS_UNPROTECTED_SETUP);
		hook_destroy_qp(v->qp);
		v = NULL;
		hook_dealloc_pd(&parent);
		hook_dealloc_pd(attr.pd);
		rooms_run_jobs();
		rooms_end(state);
	}
}

static void a_qp_made_by_direct_verbs_passes_through(void **state)
{
	struct ibv_qp *qp;

	rooms_begin(state);
	qp = calloc(1, sizeof(*qp));
	*qp = (struct ibv_qp){.context = &world.ctx[0],
			      .pd = &world.real_pd,
			      .send_cq = &world.real_send_cq,
			      .recv_cq = &world.real_recv_cq,
			      .qp_num = QPN,
			      .qp_type = IBV_QPT_RC};
	hook_created_foreign_qp(qp, STATS_UNPROTECTED_POSTED_AROUND);
	v = vqp_find(qp);
	assert_null(v->conn);
	assert_int_equal(v->program.why, STATS_UNPROTECTED_POSTED_AROUND);
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_non_null(strstr(trace_text(), "modify 0x10 to 6\n"));
}

/* --- modify: what the program has set ------------------------------------------------------ */

/* What the program is told of its QP. */
static struct ibv_qp_attr asked(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(hook_query_qp(v->qp, &attr, ~0, &init), 0);
	return attr;
}

static const struct {
	int mask;
	size_t at, size;
} fields[] = {
#define FIELD(mask, name)                                                              \
	{                                                                              \
		mask, offsetof(struct ibv_qp_attr, name), sizeof(v->program.attr.name) \
	}
	FIELD(IBV_QP_PKEY_INDEX, pkey_index),
	FIELD(IBV_QP_PORT, port_num),
	FIELD(IBV_QP_ACCESS_FLAGS, qp_access_flags),
	FIELD(IBV_QP_AV, ah_attr),
	FIELD(IBV_QP_PATH_MTU, path_mtu),
	FIELD(IBV_QP_DEST_QPN, dest_qp_num),
	FIELD(IBV_QP_RQ_PSN, rq_psn),
	FIELD(IBV_QP_SQ_PSN, sq_psn),
	FIELD(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
	FIELD(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
	FIELD(IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
	FIELD(IBV_QP_TIMEOUT, timeout),
	FIELD(IBV_QP_RETRY_CNT, retry_cnt),
	FIELD(IBV_QP_RNR_RETRY, rnr_retry),
};

static bool field_is(size_t i, const struct ibv_qp_attr *a, const struct ibv_qp_attr *b)
{
	return !memcmp((const char *)a + fields[i].at, (const char *)b + fields[i].at,
		       fields[i].size);
}

/* Each alone: it is kept, and nothing else of what the call carries. */
static void each_attribute_is_kept_by_its_bit(void **state)
{
	struct ibv_qp_attr before = rooms_attr(), others;

	(void)state;
	core.view.r = 1;
	memset(&others, 0xee, sizeof(others));
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		struct ibv_qp_attr now = asked();

		for (size_t other = 0; other < sizeof(fields) / sizeof(*fields); other++)
			assert_true(field_is(other, &now, &before));
		assert_int_equal(hook_modify_qp(v->qp, &others, fields[i].mask), 0);
		now = asked();
		for (size_t other = 0; other < sizeof(fields) / sizeof(*fields); other++)
			assert_true(field_is(other, &now, other == i ? &others : &before));
		assert_int_equal(now.qp_state, IBV_QPS_RTS);
		assert_int_equal(hook_modify_qp(v->qp, &before, fields[i].mask), 0);
	}
}

static void lib_core_learns_how_the_qp_is_connected(void **state)
{
	struct ibv_qp_attr attr = rooms_attr();

	for (int rts = 0; rts < 2; rts++) {
		rooms_begin(state);
		world.on_wait = it_is_closed;
		v = rooms_create_qp();
		attr.qp_state = IBV_QPS_RTR;
		assert_false(v->life.started);
		assert_int_equal(hook_modify_qp(v->qp, &attr, ~IBV_QP_SQ_PSN), 0);
		assert_true(v->life.started);
		attr.qp_state = IBV_QPS_RTS;
		if (rts)
			assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
					 0);
		assert_int_equal(core.start.qpn, QPN);
		assert_int_equal(core.start.dest_qpn, 0x99);
		assert_memory_equal(core.start.dest_gid, attr.ah_attr.grh.dgid.raw, 16);
		assert_int_equal(core.start.sq_psn_known, rts);
		assert_int_equal(core.start.sq_psn, rts ? 2222 : 0);
		assert_int_equal(core.start.rq_psn, 1111);
		assert_int_equal(core.start.mtu, 2048);
		hook_destroy_qp(v->qp);
		v = NULL;
		rooms_end(state);
	}
}

/* Twice as long as the program's own retries take, and at least 30 s (rule 17). */
static void without_a_grh_lib_core_learns_the_lid(void **state)
{
	static const uint8_t lid[16] = {[14] = 0x12, [15] = 0x34};

	(void)state;
	v->program.attr.ah_attr.is_global = 0;
	v->program.attr.ah_attr.dlid = 0x1234;
	v->program.state = IBV_QPS_RTR;
	assert_int_equal(
		hook_modify_qp(v->qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE),
		0);
	assert_memory_equal(core.start.dest_gid, lid, sizeof(lid));
}

static void give_up_time(void **state)
{
	static const struct {
		uint8_t timeout, retry_cnt;
		uint64_t env_ns, ns;
	} cases[] = {
		{15, 4, 0, 30000000000ull},
		{19, 5, 0, 30000000000ull},	  /* 25.8 s */
		{19, 6, 0, 14 * (4096ull << 19)}, /* 30.1 s */
		{22, 0, 0, 2 * (4096ull << 22)},
		{31, 7, 0, 16 * (4096ull << 31)},
		{0, 7, 0, 30000000000ull}, /* for ever: as 14 */
		{31, 7, 5, 5},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
					   .timeout = cases[i].timeout,
					   .retry_cnt = cases[i].retry_cnt};

		env.giveup_ns = cases[i].env_ns;
		assert_int_equal(hook_modify_qp(v->qp, &attr,
						IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT),
				 0);
		assert_int_equal(core.start.giveup_ns, cases[i].ns);
	}
}

/* --- modify of a QP in use ----------------------------------------------------------------- */

static void away_from_rail_0_its_qp_is_left_alone(void **state)
{
	static const struct {
		uint8_t r;
		bool holding;
		uint32_t rail0_epoch;
		int mask;
		bool nic;
	} cases[] = {
		{0, false, 0, IBV_QP_MIN_RNR_TIMER, true},
		{1, false, 0, IBV_QP_MIN_RNR_TIMER, false},
		{0, true, 0, IBV_QP_MIN_RNR_TIMER, false},
		{0, false, 2, IBV_QP_MIN_RNR_TIMER, true},
		/* 7.29: what we have armed is in RTS already */
		{0, false, 0, IBV_QP_STATE, true},
		{0, false, 2, IBV_QP_STATE, false},
		{1, false, 0, IBV_QP_STATE, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
					   .min_rnr_timer = (uint8_t)(i + 1)};

		v->program.state = cases[i].mask == IBV_QP_STATE ? IBV_QPS_RTR : IBV_QPS_RTS;
		core.view.r = cases[i].r;
		core.view.holding = cases[i].holding;
		v->hot.rail0_epoch = cases[i].rail0_epoch;
		trace_clear();
		assert_int_equal(hook_modify_qp(v->qp, &attr, cases[i].mask), 0);
		assert_int_equal(!strstr(trace_text(), "modify"), !cases[i].nic);
		assert_int_equal(!strstr(trace_text(), "start"), cases[i].mask != IBV_QP_STATE);
		assert_int_equal(v->program.attr.min_rnr_timer,
				 cases[i].mask == IBV_QP_STATE ? 4 : i + 1);
	}
}

/* What a QP in RTS may change reaches the NIC also after a fail-back, and also if the program is
 * only now on its way to RTS. */
static void what_changes_in_rts_reaches_the_nic(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = 9, .timeout = 17};

	(void)state;
	v->hot.rail0_epoch = 2;
	trace_clear();
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER), 0);
	assert_non_null(strstr(trace_text(), "modify 0x10 to 3 rnr_timer 9\n"));
	v->program.state = IBV_QPS_RTR;
	trace_clear();
	assert_int_equal(
		hook_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT),
		0);
	assert_non_null(strstr(trace_text(), "modify 0x10 rnr_timer 9\n"));
	assert_int_equal(v->program.attr.timeout, 17);
}

/* SQD, say: it is not RTS. */
static void an_armed_rail_0_takes_other_states(void **state)
{
	(void)state;
	v->hot.rail0_epoch = 2;
	assert_int_equal(modify(IBV_QPS_SQD), 0);
	assert_traced("modify 0x10 to 4\n");
	assert_int_equal(v->qp->state, IBV_QPS_SQD);
	assert_int_equal(v->program.state, IBV_QPS_SQD);
}

static void what_the_nic_refuses_is_not_kept(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .min_rnr_timer = 1};

	(void)state;
	world.modify_fails_at = 1;
	assert_int_equal(hook_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER), EINVAL);
	assert_int_equal(v->program.attr.min_rnr_timer, 13);
	assert_int_equal(v->program.state, IBV_QPS_RTS);
	world.modify_fails_at = 1;
	trace_clear();
	assert_int_equal(modify(IBV_QPS_RTS), EINVAL);
	assert_traced("modify 0x10 to 3\n"); /* and lib/core hears of no start */
}

static void before_it_is_started_the_nic_decides_too(void **state)
{
	struct ibv_qp_attr attr = rooms_attr();

	rooms_begin(state);
	v = rooms_create_qp();
	attr.qp_state = IBV_QPS_RTR;
	world.modify_fails_at = 1;
	assert_int_equal(hook_modify_qp(v->qp, &attr, ~0), EINVAL);
	assert_false(v->life.started);
	assert_int_equal(v->program.attr.dest_qp_num, 0);
	assert_int_equal(v->program.state, IBV_QPS_RESET);
}

/* --- ERR ----------------------------------------------------------------------------------- */

static void err_waits_until_all_rails_are_fenced(void **state)
{
	(void)state;
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_traced("event CLOSE rail 0 how 0\nwaits\n");
	assert_true(v->life.dead);
	assert_int_equal(v->qp->state, IBV_QPS_ERR);
	assert_int_equal(v->program.state, IBV_QPS_ERR);
}

/* 7.27: the NIC flushes, and what is posted later goes to it, too. */
static void err_of_an_unprotected_qp_is_the_nics(void **state)
{
	(void)state;
	core.view.protected_ = false;
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_traced("event CLOSE rail 0 how 0\nwaits\nmodify 0x10 to 6\n");
	assert_false(v->life.dead);
	assert_int_equal(v->program.state, IBV_QPS_ERR);
}

static void err_that_the_nic_refuses(void **state)
{
	(void)state;
	core.view.protected_ = false;
	world.modify_fails_at = 1;
	assert_int_equal(modify(IBV_QPS_ERR), EINVAL);
	assert_int_equal(v->program.state, IBV_QPS_RTS);
}

/* --- RESET --------------------------------------------------------------------------------- */

static void after_reset_nothing_of_the_life_before_is_left(void **state)
{
	struct vqp *found;
	uint32_t id = v->id;

	(void)state;
	v->repost.tx_next = 3;
	v->repost.tx_end = 5;
	v->repost.tx_stopped = true;
	v->hot.rail0_epoch = 2;
	for (int i = 0; i < RAILS; i++)
		v->rails.armed_epoch[i] = 2;
	v->setup.met = v->life.released = true;
	v->rails.unclean = 7;
	core.past = (struct shift_past){.peer = {{.lives = 5, .id = 6, .nonce = 7}}, .armed = 2};
	assert_int_equal(modify(IBV_QPS_RESET), 0);
	assert_traced("event CLOSE rail 0 how 1\nwaits\na life ends\nmodify 0x10 to 0\n"
		      "peer's keys: epoch 0 rail 0\nour keys: epoch 0 rail 0\na life begins\n");
	assert_int_equal(v->repost.tx_next, 0);
	assert_int_equal(v->repost.tx_end, 0);
	assert_false(v->repost.tx_stopped);
	assert_int_equal(v->hot.rail0_epoch, 0);
	for (int i = 0; i < RAILS; i++)
		assert_int_equal(v->rails.armed_epoch[i], 0);
	assert_false(v->setup.met || v->life.released || v->life.started || v->life.dead);
	assert_int_equal(v->rails.unclean, 6);
	assert_int_equal(v->program.state, IBV_QPS_RESET);
	found = vqp_by_id(v->id);
	assert_ptr_equal(found, v);
	assert_null(vqp_by_id(id));
	assert_int_equal(core.cfg.id, v->id);
	assert_int_equal(core.cfg.past.peer[0].lives, 5);
	assert_int_equal(core.cfg.past.peer[0].id, 6);
	assert_int_equal(core.cfg.past.peer[0].nonce, 7);
	assert_int_equal(core.cfg.past.armed, 2);
}

/* --- completions of a life that is over ------------------------------------------------------ */

static void waits(struct vcq *cq, uint32_t qpn, uint64_t wr_id)
{
	vcq_deliver(cq, &(struct ibv_wc){.qp_num = qpn, .wr_id = wr_id});
}

/* The fast way has met an error, and what it polled behind that one. */
static void was_polled(struct vcq *cq, const uint32_t *qpn, uint32_t n)
{
	cq->stash = calloc(n, sizeof(*cq->stash));
	cq->stash_size = cq->stash_n = n;
	for (uint32_t i = 0; i < n; i++)
		cq->stash[i] = (struct ibv_wc){.qp_num = qpn[i], .wr_id = 10 + i};
	gate_shut(&cq->gate);
}

static void only_others_are_left(struct vcq *cq)
{
	struct ibv_wc wc[8];

	assert_int_equal(vcq_take(cq, 8, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 4);
}

static void purge_takes_one_qps_completions(void **state)
{
	static const uint32_t qpn[] = {QPN, 7, QPN, QPN, 8};
	struct vcq *cq = &world.send_cq;
	uint32_t shut = cq->gate.shut & ~GATE_SHARED; /* by the connection */

	(void)state;
	was_polled(cq, qpn, 5);
	cq->stash_at = 1;
	for (uint64_t i = 0; i < 5; i++)
		waits(cq, i % 2 ? QPN : 7, i);
	vcq_purge(cq, QPN);
	assert_int_equal(cq->stash_n - cq->stash_at, 2);
	assert_int_equal(cq->stash[cq->stash_at].wr_id, 11);
	assert_int_equal(cq->stash[cq->stash_at + 1].wr_id, 14);
	assert_int_equal(vcq_take(cq, 1, &(struct ibv_wc){0}), 1); /* 0 */
	only_others_are_left(cq);
	vcq_purge(cq, 7); /* the stash has another's */
	assert_int_not_equal(cq->gate.shut & ~GATE_SHARED, shut);
	vcq_purge(cq, 8);
	assert_int_equal(cq->gate.shut & ~GATE_SHARED, shut);
	waits(cq, 7, 1);
	vcq_purge(cq, 7);
	assert_int_equal(cq->gate.shut & ~GATE_SHARED, shut);
	assert_int_equal(vcq_take(cq, 1, &(struct ibv_wc){0}), 0);
	free(cq->stash);
	cq->stash = NULL;
}

/* Also what the NIC has left in its CQ. */
static void nothing_of_a_life_is_left(bool destroy)
{
	world.wc[0] = (struct ibv_wc){.qp_num = QPN, .wr_id = 20};
	world.wc[1] = (struct ibv_wc){.qp_num = 7, .wr_id = 4};
	world.wcs = 2;
	world.recv_wc = (struct ibv_wc){.qp_num = QPN, .wr_id = 21, .opcode = IBV_WC_RECV};
	world.recv_has = true;
	core.delivers = true;
	waits(&world.send_cq, QPN, 1);
	waits(&world.send_cq, 7, 2);
	waits(&world.recv_cq, QPN, 3);
	if (destroy) {
		hook_destroy_qp(v->qp);
		v = NULL;
	} else {
		assert_int_equal(modify(IBV_QPS_RESET), 0);
	}
	only_others_are_left(&world.send_cq);
	assert_int_equal(vcq_take(&world.recv_cq, 1, &(struct ibv_wc){0}), 0);
}

static void reset_purges(void **state)
{
	(void)state;
	nothing_of_a_life_is_left(false);
}

static void destroy_purges(void **state)
{
	(void)state;
	nothing_of_a_life_is_left(true);
}

static void a_qp_that_was_not_in_use_has_nothing_to_close(void **state)
{
	(void)state;
	assert_int_equal(modify(IBV_QPS_RESET), 0);
	trace_clear();
	assert_int_equal(modify(IBV_QPS_RESET), 0);
	assert_traced("a life ends\nmodify 0x10 to 0\npeer's keys: epoch 0 rail 0\n"
		      "our keys: epoch 0 rail 0\na life begins\n");
}

static void a_reset_that_the_nic_refuses_begins_no_life(void **state)
{
	uint32_t id = v->id;

	(void)state;
	world.modify_fails_at = 1;
	assert_int_equal(modify(IBV_QPS_RESET), EINVAL);
	assert_traced("event CLOSE rail 0 how 1\nwaits\na life ends\nmodify 0x10 to 0\n");
	assert_int_equal(v->id, id);
}

/* Memory windows came meanwhile. */
static void a_new_life_in_a_domain_with_windows_is_released(void **state)
{
	(void)state;
	world.pd.windows = core.releases = true;
	assert_int_equal(modify(IBV_QPS_RESET), 0);
	assert_true(v->life.released);
}

/* Jobs of rail 0 end before the program has its QP back, those of other rails go on as stale. */
static void reset_waits_for_the_jobs_of_rail_0(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < 2; i++) {
		struct shift_action query = {.type = SHIFT_ACT_QUERY_PSN, .rail = i, .epoch = 2};

		vqp_enter(v);
		core_asks(&query);
		vqp_leave(v);
	}
	assert_int_equal(v->rails.jobs[0].under_way, 1);
	assert_int_equal(v->rails.jobs[1].under_way, 1);
	assert_int_equal(modify(IBV_QPS_RESET), 0);
	assert_int_equal(v->rails.jobs[0].under_way, 0);
	assert_false(v->rails.jobs[0].stale);
	assert_false(v->rails.jobs[0].querying);
	assert_int_equal(v->rails.jobs[1].under_way, 1);
	assert_true(v->rails.jobs[1].stale);
	trace_clear();
	rooms_run_jobs();
	assert_traced("rq_psn of 0x21\n"); /* and lib/core is not told */
	assert_false(v->rails.jobs[1].stale);
}

/* --- a bypassed QP is the NIC's alone ------------------------------------------------------ */

static void a_bypassed_qp_is_the_nics(void **state)
{
	(void)state;
	v->life.bypassed = true;
	assert_int_equal(modify(IBV_QPS_ERR), 0);
	assert_traced("modify 0x10 to 6\n");
	assert_int_equal(asked().dest_qp_num, 0xeee);
	v->life.bypassed = false;
}

/* --- query --------------------------------------------------------------------------------- */

static void query_shows_the_connection(void **state)
{
	static const struct {
		uint8_t r;
		bool holding, dead;
		uint32_t rail0_epoch; /* we have armed it */
		bool program;
	} cases[] = {
		{0, false, false, 0, false}, {1, false, false, 0, true}, {0, true, false, 0, true},
		{0, false, true, 0, true},   {0, false, false, 4, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_attr attr;

		core.view.r = cases[i].r;
		core.view.holding = cases[i].holding;
		v->life.dead = cases[i].dead;
		v->hot.rail0_epoch = cases[i].rail0_epoch;
		attr = asked();
		assert_int_equal(attr.dest_qp_num, cases[i].program ? 0x99 : 0xeee);
		assert_int_equal(attr.qp_state, cases[i].program ? IBV_QPS_RTS : IBV_QPS_INIT);
		assert_int_equal(attr.cur_qp_state, attr.qp_state);
		/* libibverbs has not written to it, not even for a moment; or as without us. */
		assert_int_equal(world.query_mask & IBV_QP_STATE,
				 cases[i].program ? 0 : IBV_QP_STATE);
		assert_int_equal(v->qp->state, cases[i].program ? IBV_QPS_RTS : IBV_QPS_INIT);
		v->qp->state = IBV_QPS_RTS;
	}
}

/* In RESET and INIT the QP is the NIC's. */
static void before_it_is_started_query_shows_the_nic(void **state)
{
	rooms_begin(state);
	v = rooms_create_qp();
	core.view.r = 1;
	assert_int_equal(asked().dest_qp_num, 0xeee);
	assert_traced("");
}

static int query_fails(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init)
{
	(void)qp;
	(void)attr;
	(void)mask;
	(void)init;
	return EIO;
}

static void a_query_that_fails_says_nothing(void **state)
{
	struct ibv_qp_attr attr = {.dest_qp_num = 1};
	struct ibv_qp_init_attr init;

	(void)state;
	core.view.r = 1;
	real.query_qp = query_fails;
	assert_int_equal(hook_query_qp(v->qp, &attr, ~0, &init), EIO);
	assert_int_equal(attr.dest_qp_num, 1);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_every_qp_is_protected),
		cmocka_unit_test(a_qp_that_cannot_be_destroyed_stays),
		ALONE(a_qp_in_a_foreign_domain_is_not_protected),
		cmocka_unit_test(lib_core_learns_what_the_qp_is_like),
		cmocka_unit_test(the_cqs_have_room_for_all_that_can_flush),
		cmocka_unit_test(what_cannot_be_had_leaves_the_qp_unprotected),
		ALONE(a_qp_without_a_send_queue_gets_one),
		cmocka_unit_test(a_qp_in_a_thread_domain_is_not_protected),
		ALONE(a_qp_made_by_direct_verbs_passes_through),
		TEST(each_attribute_is_kept_by_its_bit),
		cmocka_unit_test(lib_core_learns_how_the_qp_is_connected),
		TEST(without_a_grh_lib_core_learns_the_lid),
		TEST(give_up_time),
		TEST(away_from_rail_0_its_qp_is_left_alone),
		TEST(what_changes_in_rts_reaches_the_nic),
		TEST(an_armed_rail_0_takes_other_states),
		TEST(what_the_nic_refuses_is_not_kept),
		ALONE(before_it_is_started_the_nic_decides_too),
		TEST(err_waits_until_all_rails_are_fenced),
		TEST(err_of_an_unprotected_qp_is_the_nics),
		TEST(err_that_the_nic_refuses),
		TEST(after_reset_nothing_of_the_life_before_is_left),
		TEST(purge_takes_one_qps_completions),
		TEST(reset_purges),
		TEST(destroy_purges),
		TEST(a_qp_that_was_not_in_use_has_nothing_to_close),
		TEST(a_reset_that_the_nic_refuses_begins_no_life),
		TEST(a_new_life_in_a_domain_with_windows_is_released),
		TEST(reset_waits_for_the_jobs_of_rail_0),
		TEST(a_bypassed_qp_is_the_nics),
		TEST(query_shows_the_connection),
		ALONE(before_it_is_started_query_shows_the_nic),
		TEST(a_query_that_fails_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
