/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The handshake to the letter: epochs, targets, what each message says (lib/core/switch.c). The
 * timers are in test_conn_timers.c. */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define MS	1000000ull
#define SECOND	1000000000ull
#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(int h)
{
	return w.h[h].c;
}

/* All that can happen without time passing. */
static void no_time_passes(void)
{
	while (w_msg(&w, 0) || w_op(&w, 0) || w_op(&w, 1) || w_cqe(&w, 0) || w_cqe(&w, 1))
		;
}

/* The n-th message of host h that waits to be delivered. */
static const struct w_msg *said(int h, int n)
{
	for (uint32_t i = 0; i < w.msgs; i++)
		if (w.msg[i].to == !h && !n--)
			return &w.msg[i];
	fail_msg("host %d has not said so much", h);
	return NULL;
}

static int messages_of(int h)
{
	int n = 0;

	for (uint32_t i = 0; i < w.msgs; i++)
		n += w.msg[i].to == !h;
	return n;
}

/* What host `!to` could say. */
static struct shift_msg peer_switch(int to, uint32_t epoch, int rail, enum shift_fence fence)
{
	return (struct shift_msg){.src_nonce = 100 + (uint64_t)!to,
				  .dst_nonce = 100 + (uint64_t)to,
				  .src_conn = 10 + (uint32_t)!to,
				  .dst_conn = 10 + (uint32_t)to,
				  .type = SHIFT_MSG_SWITCH,
				  .epoch = epoch,
				  .rail = (uint8_t)rail,
				  .rep_psn = to ? 0xfffffe : 0x10,
				  .recv_valid = true,
				  .recv_avail = W_READY_RECVS,
				  .fence = (uint8_t)fence};
}

static void hears(int h, const struct shift_msg *m)
{
	give_event(h, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = m, .rail = m->rail});
}

static void hears_switch(int h, uint32_t epoch, int rail, enum shift_fence fence)
{
	struct shift_msg m = peer_switch(h, epoch, rail, fence);

	hears(h, &m);
}

/* --- rule 3: numbers
 * ------------------------------------------------------------------------------ */

static void an_epoch_is_the_next_of_its_sides_parity(void **state)
{
	static const struct {
		int side;
		uint32_t seen, planned, next;
	} row[] = {
		{0, 0, 0, 2}, {0, 1, 0, 2}, {0, 2, 0, 4}, {0, 3, 0, 4},	 {0, 4, 0, 6},
		{1, 0, 0, 1}, {1, 1, 0, 3}, {1, 2, 0, 3}, {1, 3, 0, 5},	 {1, 4, 0, 5},
		{0, 0, 1, 2}, {0, 0, 2, 4}, {0, 3, 7, 8}, {0, 7, 3, 8},	 {1, 0, 1, 3},
		{1, 0, 2, 3}, {1, 3, 7, 9}, {1, 8, 3, 9}, {0, 9, 9, 10},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const int h = row[i].side;

		teardown(state);
		setup(state);
		conn(h)->seen_e = row[i].seen;
		conn(h)->plan.e = row[i].planned;
		w_event(&w, h, SHIFT_EV_LINK_DOWN, 0);
		assert_int_equal(w_view(&w, h).target_e, row[i].next);
	}
}

/* Each time that a rail is named it counts as tried, once. */
static void each_target_is_a_try(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(conn(0)->rail[1].tries, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(conn(0)->rail[2].tries, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	assert_int_equal(w_view(&w, 0).target_r, NO_RAIL);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	w.frozen_arm = true;
	finish_ops(0); /* only now a target is looked for again */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	assert_int_equal(conn(0)->rail[2].tries, 2);
	assert_int_equal(conn(0)->rail[1].tries, 1);
	assert_int_equal(conn(0)->rail[0].tries, 0);
	assert_int_equal(w_view(&w, 0).target_e, 6); /* 2 and 4 were given to other rails */
	assert_true(conn(0)->plan.started);
}

/* The only rail is the one that we come from, and its NIC hangs. */
static void a_target_that_hangs_in_its_own_fence_is_none(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w.fence_hung[0] = true;
	break_rail_0(0);
	assert_int_equal(w_view(&w, 0).target_r, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
}

/* --- what is said
 * ---------------------------------------------------------------------------------- */

static void check_said(const struct w_msg *m, uint32_t epoch, int rail, enum shift_fence fence)
{
	assert_int_equal(m->rail, rail); /* over the target's control link */
	assert_int_equal(m->m.type, SHIFT_MSG_SWITCH);
	assert_int_equal(m->m.epoch, epoch);
	assert_int_equal(m->m.rail, rail);
	assert_int_equal(m->m.fence, fence);
}

static void a_starter_says_where_it_goes_and_then_its_proof(void **state)
{
	(void)state;
	w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	pass_packets(1, 0, 1);
	take_cqes(0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(messages_of(0), 1);
	check_said(said(0, 0), 2, 1, SHIFT_FENCE_LEAVING);
	assert_int_equal(said(0, 0)->m.recv_valid, true);
	finish_ops(0);
	assert_int_equal(messages_of(0), 2);
	check_said(said(0, 1), 2, 1, SHIFT_FENCE_SURE);
	assert_int_equal(said(0, 1)->m.heard, 0);
	assert_int_equal(said(0, 1)->m.committed, 0);
	assert_int_equal(said(0, 1)->m.rep_epoch, 0);
	assert_int_equal(said(0, 1)->m.rep_psn, 0xffffff);
	assert_int_equal(said(0, 1)->m.recv_cum, 1);
	assert_int_equal(said(0, 1)->m.recv_valid, true);
	assert_int_equal(said(0, 1)->m.recv_avail, W_READY_RECVS - 1);
}

static void a_later_switch_says_in_what_epoch_was_sent(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	no_time_passes();
	assert_int_equal(w_view(&w, 0).lastc, 2);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w.msgs = 0;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	finish_ops(0);
	check_said(said(0, 0), 4, 2, SHIFT_FENCE_LEAVING);
	assert_int_equal(said(0, 0)->m.committed, 2);
	check_said(said(0, 1), 4, 2, SHIFT_FENCE_SURE);
	assert_int_equal(said(0, 1)->m.committed, 2);
}

static void with_an_srq_a_count_is_said(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true, .srq = true};

	(void)state;
	for (int unsure = 0; unsure < 2; unsure++) {
		w_free(&w);
		w_init(&w, &cfg, 1);
		w.fence_unsure[0] = unsure;
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		finish_ops(0);
		assert_int_equal(messages_of(0), 2);
		assert_int_equal(said(0, 1)->m.recv_valid, true);
		assert_true(said(0, 1)->m.recv_avail == UINT32_MAX);
	}
}

/* Frozen: what happens after it was said is of the new epoch. */
static void a_repeated_switch_says_the_same_but_for_heard(void **state)
{
	struct shift_msg first;

	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	first = said(0, 1)->m;
	w_recv(&w, 0);
	shift_conn_cqe(conn(0), &(struct shift_cqe){.is_recv = true, .rail = 1, .epoch = 2},
		       &(struct shift_wc){0}, w.now);
	w.msgs = 0;
	w.now = shift_conn_deadline(conn(0));
	w_tick(&w, 0);
	assert_int_equal(messages_of(0), 1);
	assert_memory_equal(&said(0, 0)->m, &first, sizeof(first));
	w.msgs = 0;
	hears_switch(0, 2, 1, SHIFT_FENCE_SURE);
	assert_int_equal(messages_of(0), 1);
	first.heard = 2;
	assert_memory_equal(&said(0, 0)->m, &first, sizeof(first));
}

/* Only a starter: the peer of a follower knows. */
static void a_follower_announces_nothing(void **state)
{
	(void)state;
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 0); /* it was a starter once */
	no_time_passes();
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_true(w_msg(&w, 0));
	assert_int_equal(w_state(&w, 1), SHIFT_ST_FENCE);
	assert_int_equal(messages_of(1), 0);
	finish_ops(1);
	assert_int_equal(messages_of(1), 1);
	assert_int_equal(said(1, 0)->m.fence, SHIFT_FENCE_SURE);
	no_time_passes();
	assert_int_equal(stats(1)->failovers, 1);
	assert_int_equal(stats(1)->joins, 1);
	assert_int_equal(stats(0)->failovers, 1);
	assert_int_equal(stats(0)->joins, 1);
}

/* A follower that must go elsewhere is a starter, and says so. */
static void a_follower_that_takes_another_rail_starts(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_msg(&w, 0));
	assert_int_equal(w_state(&w, 1), SHIFT_ST_FENCE);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 1);
	assert_true(conn(1)->plan.started);
	assert_int_equal(w_view(&w, 1).target_e, 3);
	assert_int_equal(w_view(&w, 1).target_r, 2);
	no_time_passes();
	assert_int_equal(w_view(&w, 0).r, 2);
	assert_int_equal(stats(1)->failovers, 1);
	assert_int_equal(stats(0)->joins, 1);
}

/* 7.2: on a dirty rail it says where it is, that it is fenced, and repeats it. */
static void pending_is_said_in_quarantine(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	no_time_passes();
	assert_int_equal(w_view(&w, 0).r, 1);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	w.msgs = 0;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* no rail is clean */
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_true(w_break(&w, 0, 1));
	take_cqes(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_int_equal(messages_of(0), 2);
	check_said(said(0, 0), 4, 0, SHIFT_FENCE_LEAVING);
	check_said(said(0, 1), 4, 0, SHIFT_FENCE_PENDING);
	assert_int_equal(said(0, 1)->m.heard, 2);
	assert_int_equal(said(0, 1)->m.committed, 2);
	w.now += 20 * MS;
	w_tick(&w, 0);
	assert_int_equal(messages_of(0), 3);
	check_said(said(0, 2), 4, 0, SHIFT_FENCE_PENDING);
}

/* --- rule 4: joining
 * -------------------------------------------------------------------------------- */

static void a_rail_that_the_follower_cannot_use_is_refused(void **state)
{
	static const enum shift_event_type reason[] = {SHIFT_EV_RAIL_VETO, SHIFT_EV_LINK_DOWN};

	for (size_t i = 0; i < ROWS(reason); i++) {
		teardown(state);
		setup(state);
		w_event(&w, 1, reason[i], 1);
		hears_switch(1, 2, 1, SHIFT_FENCE_LEAVING);
		assert_int_equal(w_state(&w, 1), SHIFT_ST_FENCE);
		assert_int_equal(w_view(&w, 1).target_e, 3);
		assert_int_equal(w_view(&w, 1).target_r, 2);
		check_said(said(1, 0), 3, 2, SHIFT_FENCE_LEAVING);
	}
}

/* If both refuse for ever, they do it five times a second. */
static void refusals_come_at_a_pace(void **state)
{
	uint32_t epoch = 0;

	(void)state;
	w_event(&w, 1, SHIFT_EV_RAIL_VETO, 1);
	for (int i = 0; i < 2 * SHIFT_RAILS_MAX; i++) {
		epoch += 2;
		hears_switch(1, epoch, 1, SHIFT_FENCE_LEAVING);
		assert_int_equal(w_view(&w, 1).target_e, epoch + 1);
	}
	epoch += 2;
	hears_switch(1, epoch, 1, SHIFT_FENCE_LEAVING);
	assert_int_equal(w_view(&w, 1).target_e, epoch - 1);
	w.now += 200 * MS - 1;
	hears_switch(1, epoch, 1, SHIFT_FENCE_LEAVING);
	assert_int_equal(w_view(&w, 1).target_e, epoch - 1);
	w.now += 1;
	hears_switch(1, epoch, 1, SHIFT_FENCE_LEAVING);
	assert_int_equal(w_view(&w, 1).target_e, epoch + 1);
	hears_switch(1, epoch + 2, 1, SHIFT_FENCE_LEAVING); /* and the time is counted from here */
	assert_int_equal(w_view(&w, 1).target_e, epoch + 1);
}

/* --- T9: what counts as a failure of the rail
 * -------------------------------------------------------- */

static void only_unplanned_switches_are_failures_of_the_rail(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	no_time_passes();
	assert_int_equal(w_view(&w, 0).r, 1);
	for (int h = 0; h < 2; h++) {
		assert_true(conn(h)->rail[0].failed_ns == 0);
		assert_true(w_view(&w, h).planned);
	}
	w.now += SECOND;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	no_time_passes();
	for (int h = 0; h < 2; h++) {
		assert_true(conn(h)->rail[1].failed_ns == w.now);
		assert_false(w_view(&w, h).planned);
	}
	assert_int_equal(stats(0)->planned, 1);
	assert_int_equal(stats(1)->planned, 0);
}

/* In the course of one switch the rail that was left has failed once. */
static void a_switch_that_goes_on_fails_no_other_rail(void **state)
{
	(void)state;
	waits_for_an_answer();
	assert_true(conn(0)->rail[0].failed_ns == w.now);
	assert_true(conn(0)->plan.trouble == w.now);
	w.now += SECOND;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_true(conn(0)->rail[1].failed_ns == 0);
	assert_true(conn(0)->plan.trouble == w.now - SECOND); /* the give-up clock goes on */
}

/* --- 7.11: which switch was begun by an RNR error
 * ----------------------------------------------------- */

static void an_rnr_is_of_its_own_switch_only(void **state)
{
	(void)state;
	for (int joins = 0; joins < 2; joins++) {
		teardown(state);
		setup(state);
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
		give_cqe(0, &(struct shift_cqe){.status = SHIFT_WC_RNR_RETRY_EXC_ERR});
		assert_true(conn(0)->plan.rnr);
		w.h[0].qp[0].err = true;
		w.h[0].qp[0].tail = w.h[0].qp[0].head;
		assert_true(w_settle(&w, 50));
		w_event(&w, joins, SHIFT_EV_LINK_DOWN, w_view(&w, 0).r);
		while (w_msg(&w, 0))
			;
		assert_true(conn_switching(conn(0)));
		assert_false(conn(0)->plan.rnr);
		assert_true(w_settle(&w, 50));
	}
}

/* --- ARM
 * ------------------------------------------------------------------------------------------------
 */

static void only_the_answer_to_this_arm_counts(void **state)
{
	const struct shift_event row[] = {
		{.type = SHIFT_EV_ARM_DONE, .rail = 1, .epoch = 1},
		{.type = SHIFT_EV_ARM_DONE, .rail = 1, .epoch = 4},
		{.type = SHIFT_EV_ARM_DONE, .rail = 2, .epoch = 2},
		{.type = SHIFT_EV_ARM_FAILED, .rail = 1, .epoch = 1},
		{.type = SHIFT_EV_ARM_FAILED, .rail = 1, .epoch = 4},
		{.type = SHIFT_EV_ARM_FAILED, .rail = 2, .epoch = 2},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) /* not asked for */
		give_event(0, &row[i]);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w.frozen_arm = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	assert_int_equal(w.h[0].op[0].epoch, 2);
	assert_int_equal(w.h[0].op[0].rail, 1);
	for (size_t i = 0; i < ROWS(row); i++)
		give_event(0, &row[i]);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	w.frozen_arm = false;
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	give_event(0, &(struct shift_event){.type = SHIFT_EV_ARM_FAILED, .rail = 1, .epoch = 2});
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
}

/* A newer plan came meanwhile: this epoch is left before the peer hears of it. */
static void an_armed_epoch_that_is_overtaken_is_not_announced(void **state)
{
	(void)state;
	w.frozen_arm = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	w.msgs = 0;
	hears_switch(0, 5, 2, SHIFT_FENCE_SURE);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	w.frozen_arm = false;
	w.frozen_fence = true;
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).e, 2);
	assert_int_equal(messages_of(0), 0);
	w.frozen_fence = false;
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE); /* the peer's proof was here already */
	assert_int_equal(w_view(&w, 0).e, 5);
	assert_int_equal(said(0, 0)->m.heard, 5);
}

static void a_broken_twin_is_tried_again_after_a_pause(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w.arm_fails[1] = true;
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(w_op(&w, 0)); /* fence */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	assert_true(w_op(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_int_equal(w_view(&w, 0).target_r, 1);
	assert_int_equal(w_view(&w, 0).target_e, 4);
	assert_true(shift_conn_deadline(conn(0)) == w.now + 20 * MS);
	w.now += 20 * MS - 1;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	w.now += 1;
	w.arm_fails[1] = false;
	w_tick(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_SETTLED);
}

/* --- rules 8, 9, 16: what is answered, and what commits
 * --------------------------------------------------- */

static void only_a_proof_of_this_epoch_commits(void **state)
{
	static const struct {
		uint32_t epoch;
		enum shift_fence fence;
		bool commits;
	} row[] = {
		{2, SHIFT_FENCE_SURE, true},	 {2, SHIFT_FENCE_UNSURE, true},
		{2, SHIFT_FENCE_PENDING, false}, {2, SHIFT_FENCE_LEAVING, false},
		{1, SHIFT_FENCE_SURE, false},	 {0, SHIFT_FENCE_SURE, false},
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		teardown(state);
		setup(state);
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
		hears_switch(0, row[i].epoch, 1, row[i].fence);
		assert_int_equal(w_state(&w, 0),
				 row[i].commits ? SHIFT_ST_ACTIVE : SHIFT_ST_SWITCHING);
	}
}

/* Or the two ends would answer each other for ever; and a peer that has not heard us would wait. */
static void a_peer_that_has_not_heard_is_answered(void **state)
{
	static const struct {
		uint32_t epoch, heard;
		enum shift_fence fence;
		bool answered;
	} row[] = {
		{2, 0, SHIFT_FENCE_SURE, true},	    {2, 1, SHIFT_FENCE_SURE, true},
		{2, 2, SHIFT_FENCE_SURE, false},    {1, 0, SHIFT_FENCE_SURE, true},
		{1, 2, SHIFT_FENCE_SURE, true},	    {0, 0, SHIFT_FENCE_SURE, true},
		{2, 0, SHIFT_FENCE_LEAVING, false}, {2, 0, SHIFT_FENCE_PENDING, false},
	};
	struct shift_msg m;

	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	no_time_passes();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	for (size_t i = 0; i < ROWS(row); i++) {
		w.msgs = 0;
		m = peer_switch(0, row[i].epoch, 1, row[i].fence);
		m.heard = row[i].heard;
		hears(0, &m);
		if (messages_of(0) != row[i].answered)
			fail_msg("row %zu", i);
		if (row[i].answered)
			check_said(said(0, 0), 2, 1, SHIFT_FENCE_SURE);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		assert_int_equal(w_view(&w, 0).e, 2);
	}
	assert_int_equal(stats(0)->stale_msgs, 3);
	assert_int_equal(stats(0)->switches, 1); /* none of them was committed again */
}

/* Before the first switch there is nothing to answer with. */
static void in_epoch_0_nothing_is_answered(void **state)
{
	(void)state;
	hears_switch(0, 0, 0, SHIFT_FENCE_SURE);
	assert_int_equal(messages_of(0), 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* A proof that came early is kept, and an unproved or older message does not replace it. */
static void an_early_proof_is_kept(void **state)
{
	(void)state;
	w.frozen_fence = true;
	hears_switch(0, 3, 1, SHIFT_FENCE_SURE);
	hears_switch(0, 3, 1, SHIFT_FENCE_PENDING);
	hears_switch(0, 1, 2, SHIFT_FENCE_SURE);
	w.frozen_fence = false;
	assert_int_equal(w_view(&w, 0).target_e, 3);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).e, 3);
	assert_int_equal(w_view(&w, 0).heard, 3);
}

/* --- what a COMMIT ends
 * ------------------------------------------------------------------------------------ */

static void a_commit_ends_what_belonged_to_the_epoch_before(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	conn(0)->query_same = 3;
	conn(0)->in_vain = 2;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	no_time_passes();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(conn(0)->query_same, 0);
	assert_int_equal(conn(0)->in_vain, 0);
	assert_int_equal(conn(0)->flushed, 0);
	assert_true(conn(0)->check_at == w.now + SECOND);
	assert_true(conn(0)->active_ns == w.now);
	assert_int_equal(conn(0)->lastc, 2);
	assert_int_equal(stats(0)->switches, 1);
	assert_true(conn(0)->plan.trouble); /* what was posted again is not back yet */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(an_epoch_is_the_next_of_its_sides_parity),
		WORLD_TEST(each_target_is_a_try),
		WORLD_TEST(a_target_that_hangs_in_its_own_fence_is_none),
		WORLD_TEST(a_starter_says_where_it_goes_and_then_its_proof),
		WORLD_TEST(a_later_switch_says_in_what_epoch_was_sent),
		WORLD_TEST(with_an_srq_a_count_is_said),
		WORLD_TEST(a_repeated_switch_says_the_same_but_for_heard),
		WORLD_TEST(a_follower_announces_nothing),
		WORLD_TEST(a_follower_that_takes_another_rail_starts),
		WORLD_TEST(pending_is_said_in_quarantine),
		WORLD_TEST(a_rail_that_the_follower_cannot_use_is_refused),
		WORLD_TEST(refusals_come_at_a_pace),
		WORLD_TEST(only_unplanned_switches_are_failures_of_the_rail),
		WORLD_TEST(a_switch_that_goes_on_fails_no_other_rail),
		WORLD_TEST(an_rnr_is_of_its_own_switch_only),
		WORLD_TEST(only_the_answer_to_this_arm_counts),
		WORLD_TEST(an_armed_epoch_that_is_overtaken_is_not_announced),
		WORLD_TEST(a_broken_twin_is_tried_again_after_a_pause),
		WORLD_TEST(only_a_proof_of_this_epoch_commits),
		WORLD_TEST(a_peer_that_has_not_heard_is_answered),
		WORLD_TEST(in_epoch_0_nothing_is_answered),
		WORLD_TEST(an_early_proof_is_kept),
		WORLD_TEST(a_commit_ends_what_belonged_to_the_epoch_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
