/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a fence proves, and which answers count (lib/core/fence.c; rules 5, 6, 18). */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define ROWS(t) (sizeof(t) / sizeof(*(t)))

/* All that can happen without time passing. */
static void no_time_passes(void)
{
	bool did = true;

	while (did) {
		did = w_msg(&w, 0);
		for (int h = 0; h < 2; h++)
			did = w_op(&w, h) || w_cqe(&w, h) || did;
	}
}

/* Host h fences its rail with that answer, and both go to another. */
static void leave_rail_with(int h, bool unsure)
{
	w.fence_unsure[h] = unsure;
	w_event(&w, h, SHIFT_EV_LINK_DOWN, w_view(&w, h).r);
	no_time_passes();
	w.fence_unsure[h] = false;
	for (int r = 0; r < W_RAILS; r++)
		w_event(&w, h, SHIFT_EV_LINK_UP, r);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	w.now += 5000000000;
}

/* One message of host 0 to host 1. */
static void peer_executes_one(void)
{
	const int r = w_view(&w, 0).r;

	assert_true(w_post(&w, 0, SHIFT_OP_SEND, 10, true));
	pass_packets(0, r, 1);
	assert_true(w_ack(&w, 0, r));
	take_cqes(0);
	take_cqes(1);
}

/* What host 1 has said of host 0's packets in its newest SWITCH. */
static void host_1_reports(uint32_t rep_epoch, enum shift_fence fence)
{
	assert_int_equal(w.h[1].c->mine.rep_epoch, rep_epoch);
	assert_int_equal(w.h[1].c->mine.fence, fence);
}

static void doubt_lasts_until_something_newer_is_proven(void **state)
{
	uint32_t e;

	(void)state;
	peer_executes_one();
	leave_rail_with(1, true);
	host_1_reports(0, SHIFT_FENCE_UNSURE);
	leave_rail_with(1, false); /* nothing was executed: the doubt is as it was */
	host_1_reports(0, SHIFT_FENCE_UNSURE);
	e = w_view(&w, 1).e;
	peer_executes_one();
	leave_rail_with(1, false);
	host_1_reports(e, SHIFT_FENCE_SURE);
	leave_rail_with(1, false);
	host_1_reports(e, SHIFT_FENCE_SURE);
	assert_int_equal(w.h[0].completed, 2);
}

/* A driver's software copy of rq_psn is reported nowhere. */
static void an_untrusted_psn_is_not_reported(void **state)
{
	const uint32_t psn = w_view(&w, 1).rep_psn;

	(void)state;
	peer_executes_one();
	leave_rail_with(1, true);
	assert_int_equal(w.h[1].c->mine.rep_psn, psn);
}

/* The peer sends in committed epochs only: one that was never told it cannot have used. */
static void the_report_names_the_newest_epoch_with_execution(void **state)
{
	(void)state;
	peer_executes_one();
	leave_rail_with(0, false);
	host_1_reports(0, SHIFT_FENCE_SURE);
	assert_int_equal(w.h[1].c->mine.rep_psn, 0x11);
	leave_rail_with(0, false);
	host_1_reports(0, SHIFT_FENCE_SURE);
	assert_int_equal(w.h[1].c->mine.rep_psn, 0x11);
}

/* --- which answers count ---------------------------------------------------------------------- */

static void an_answer_of_another_epoch_or_rail_is_not_this_fences(void **state)
{
	const struct shift_event row[] = {
		{.type = SHIFT_EV_FENCE_DONE,
		 .rail = 1,
		 .epoch = 2,
		 .clean = true,
		 .psn = 0xfffffe},
		{.type = SHIFT_EV_FENCE_DONE,
		 .rail = 0,
		 .epoch = 2,
		 .clean = true,
		 .psn = 0xfffffe},
		{.type = SHIFT_EV_FENCE_DONE,
		 .rail = 1,
		 .epoch = 1,
		 .clean = true,
		 .psn = 0xfffffe},
		{.type = SHIFT_EV_FENCE_DONE,
		 .rail = 1,
		 .epoch = 3,
		 .clean = true,
		 .psn = 0xfffffe},
		{.type = SHIFT_EV_FENCE_DONE,
		 .rail = 2,
		 .epoch = 0,
		 .clean = true,
		 .psn = 0xfffffe},
	};

	(void)state;
	leave_rail_with(0, false);
	assert_int_equal(w_view(&w, 0).e, 2);
	assert_int_equal(w_view(&w, 0).r, 1);
	for (size_t i = 0; i < ROWS(row); i++) /* not asked for */
		give_event(0, &row[i]);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	for (size_t i = 1; i < ROWS(row); i++)
		give_event(0, &row[i]);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	give_event(0, &row[0]);
	assert_int_not_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* Each QP is fenced once for each arming, whatever happens meanwhile. */
static void a_rail_is_not_fenced_twice(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w.h[0].ops, 1);
	assert_int_equal(w.h[0].op[0].type, SHIFT_ACT_FENCE);
	assert_int_equal(w.h[0].op[0].rail, 0);
	assert_int_equal(w.h[0].op[0].epoch, 0);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
	assert_int_equal(w.h[0].ops, 1); /* the others were never armed */
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
}

/* Rule 19, whichever rail is in use. */
static void at_the_end_the_rail_in_use_is_fenced(void **state)
{
	for (int rail = 0; rail < W_RAILS; rail++) {
		teardown(state);
		setup(state);
		w_event(&w, 0, SHIFT_EV_MIGRATE, rail);
		no_time_passes();
		assert_int_equal(w_view(&w, 0).r, rail);
		w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_GIVEUP);
		assert_int_equal(w.h[0].ops, 1);
		assert_int_equal(w.h[0].op[0].type, SHIFT_ACT_FENCE);
		assert_int_equal(w.h[0].op[0].rail, rail);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	}
}

/* A fence is asked for with the epoch of its own QP, not of the connection. */
static void a_fence_names_the_tag_of_its_rail(void **state)
{
	(void)state;
	leave_rail_with(0, false);
	w.frozen_arm = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	assert_int_equal(w.h[0].op[0].epoch, 2);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	w_event(&w, 0, SHIFT_EV_PEER_DIED, 0);
	assert_int_equal(w.h[0].ops, 2); /* ARM, and behind it the fence of the same QP */
	assert_int_equal(w.h[0].op[1].type, SHIFT_ACT_FENCE);
	assert_int_equal(w.h[0].op[1].epoch, w.h[0].op[0].epoch);
	assert_int_equal(w.h[0].op[1].rail, w.h[0].op[0].rail);
}

/* --- the late end of a fence ------------------------------------------------------------------ */

static void clean_word(int rail, uint32_t epoch, bool clean)
{
	give_event(0, &(struct shift_event){.type = SHIFT_EV_FENCE_DONE,
					    .rail = (uint8_t)rail,
					    .epoch = epoch,
					    .clean = clean});
}

static void a_hung_nic_is_back_only_when_it_is_clean(void **state)
{
	(void)state;
	w.fence_hung[0] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	assert_false(rail_possible(w.h[0].c, 0));
	clean_word(0, 0, false);
	assert_false(rail_possible(w.h[0].c, 0));
	clean_word(0, 1, true);
	assert_false(rail_possible(w.h[0].c, 0));
	clean_word(0, 0, true);
	w.now += 1000000000 - 1; /* what that NIC sent last dies meanwhile (7.39) */
	w_tick(&w, 0);
	assert_false(rail_possible(w.h[0].c, 0));
	w.now += 1;
	w_tick(&w, 0);
	assert_true(rail_possible(w.h[0].c, 0));
	assert_int_equal(stats(0)->hung_fences, 1);
}

/* hung says something of an UNSURE answer only. */
static void a_sure_fence_did_not_hang(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_FENCE_DONE, .hung = true, .clean = true};

	(void)state;
	ev.psn = 0xfffffe;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	give_event(0, &ev);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	assert_true(rail_possible(w.h[0].c, 0));
	assert_int_equal(stats(0)->hung_fences, 0);
}

/* --- what the flushes say --------------------------------------------------------------------- */

enum { WRITES = 5 };

static void post_unsignaled_writes(void)
{
	for (int i = 0; i < WRITES; i++)
		w_post_flags(&w, 0, SHIFT_OP_WRITE, 10, i + 1 == WRITES ? SHIFT_F_SIGNALED : 0);
}

static void each_write_is_placed(void)
{
	assert_true(w_settle(&w, 100));
	for (int i = 0; i < WRITES; i++)
		assert_int_equal(w.h[0].placed[i], 10);
	assert_int_equal(w.h[0].completed, WRITES);
}

/* It flushes nothing, so that all seems to be back. */
static void the_flush_count_of_a_hung_nic_says_nothing(void **state)
{
	(void)state;
	post_unsignaled_writes();
	w.fence_hung[0] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	w.h[0].cq_tail = w.h[0].cq_head;
	w.fence_hung[0] = false;
	each_write_is_placed();
}

/* Only the fence of the epoch in which they were posted flushes them. */
static void the_fence_of_an_epoch_without_data_acknowledges_nothing(void **state)
{
	struct shift_msg pending = {.src_nonce = 101,
				    .dst_nonce = 100,
				    .src_conn = 11,
				    .dst_conn = 10,
				    .type = SHIFT_MSG_SWITCH,
				    .epoch = 2,
				    .rail = 1,
				    .fence = SHIFT_FENCE_PENDING};

	(void)state;
	post_unsignaled_writes();
	w.fence_hung[0] = true;
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	finish_ops(0);
	w.h[0].cq_tail = w.h[0].cq_head;
	w.fence_hung[0] = false;
	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &pending});
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	w.now += 1000000000;
	w_tick(&w, 0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1);
	finish_ops(0);
	assert_int_equal(w_view(&w, 0).send_tail, 0);
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = false;
	each_write_is_placed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(doubt_lasts_until_something_newer_is_proven),
		WORLD_TEST(an_untrusted_psn_is_not_reported),
		WORLD_TEST(the_report_names_the_newest_epoch_with_execution),
		WORLD_TEST(an_answer_of_another_epoch_or_rail_is_not_this_fences),
		WORLD_TEST(a_rail_is_not_fenced_twice),
		WORLD_TEST(at_the_end_the_rail_in_use_is_fenced),
		WORLD_TEST(a_fence_names_the_tag_of_its_rail),
		WORLD_TEST(a_hung_nic_is_back_only_when_it_is_clean),
		WORLD_TEST(a_sure_fence_did_not_hang),
		WORLD_TEST(the_flush_count_of_a_hung_nic_says_nothing),
		WORLD_TEST(the_fence_of_an_epoch_without_data_acknowledges_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
