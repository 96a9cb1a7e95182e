/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is known of each rail, and which one is chosen (lib/core/rails.c). */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define MS	1000000ull
#define SECOND	1000000000ull
#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct rail *rail(int i)
{
	return &w.h[0].c->rail[i];
}

/* --- which rail can be a target -------------------------------------------------------------- */

enum spoiled { NOTHING, DOWN, VETOED, HUNG, UNACCOUNTED, ARMED, FENCING };

static void spoil_rail(struct rail *r, enum spoiled how)
{
	*r = (struct rail){.healthy_ns = NEVER};
	r->down = how == DOWN;
	r->vetoed = how == VETOED;
	r->hung = how == HUNG;
	r->unaccounted = how == UNACCOUNTED;
	r->armed = how == ARMED;
	r->fencing = how == FENCING;
}

static void each_reason_alone_shuts_a_rail(void **state)
{
	static const struct {
		enum spoiled how;
		bool possible, usable;
	} row[] = {
		{NOTHING, true, true},	{DOWN, false, false},	     {VETOED, false, false},
		{HUNG, false, false},	{UNACCOUNTED, false, false}, {ARMED, true, false},
		{FENCING, true, false},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		spoil_rail(rail(1), row[i].how);
		assert_int_equal(rail_possible(w.h[0].c, 1), row[i].possible);
		assert_int_equal(rail_usable(w.h[0].c, 1, w.now), row[i].usable);
	}
	assert_false(rail_possible(w.h[0].c, W_RAILS)); /* there is none of that number */
}

static void a_rail_is_usable_when_its_quarantine_is_over(void **state)
{
	(void)state;
	rail(1)->dirty_until = w.now + 1;
	assert_false(rail_usable(w.h[0].c, 1, w.now));
	assert_true(rail_usable(w.h[0].c, 1, w.now + 1));
	rail(1)->dirty_until = NEVER;
	assert_false(rail_usable(w.h[0].c, 1, NEVER - 1));
}

/* Rule 3: what comes first decides, whatever comes after it says. */
static void the_target_is_chosen_in_the_order_of_the_rule(void **state)
{
	static const struct {
		int tries[3], misses[3];
		bool dirty[3], down[3];
		uint8_t r, chosen;
	} row[] = {
		{.r = 1, .chosen = 0},
		{.r = 0, .chosen = 1},
		{.r = 2, .chosen = 0},
		{.r = 0, .tries = {0, 1, 0}, .chosen = 2},
		{.r = 0, .tries = {0, 1, 1}, .chosen = 0},
		{.r = 0, .tries = {1, 2, 3}, .chosen = 0},
		{.r = 0, .tries = {1, 1, 2}, .chosen = 1},
		{.r = 0, .misses = {0, 2, 0}, .chosen = 1},
		{.r = 0, .misses = {0, 3, 0}, .chosen = 2},
		{.r = 0, .tries = {3, 0, 1}, .misses = {0, 3, 0}, .chosen = 2},
		{.r = 0, .tries = {3, 0, 2}, .misses = {0, 3, 0}, .chosen = 1},
		{.r = 0, .tries = {3, 0, 3}, .misses = {0, 3, 0}, .chosen = 1},
		{.r = 0, .dirty = {0, 1, 0}, .chosen = 2},
		{.r = 0, .dirty = {0, 1, 1}, .chosen = 0},
		{.r = 0, .dirty = {1, 1, 1}, .chosen = 1},
		{.r = 0, .tries = {1, 0, 1}, .dirty = {0, 1, 0}, .chosen = 1},
		{.r = 0, .down = {0, 1, 0}, .chosen = 2},
		{.r = 0, .down = {0, 1, 1}, .chosen = 0},
		{.r = 0, .tries = {9, 9, 9}, .down = {1, 0, 1}, .misses = {9, 9, 9}, .chosen = 1},
		{.r = 0, .down = {1, 1, 1}, .chosen = NO_RAIL},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		for (int k = 0; k < W_RAILS; k++) {
			*rail(k) = (struct rail){0};
			rail(k)->tries = (uint32_t)row[i].tries[k];
			rail(k)->misses = (uint32_t)row[i].misses[k];
			rail(k)->dirty_until = row[i].dirty[k] ? NEVER : 0;
			rail(k)->down = row[i].down[k];
		}
		w.h[0].c->r = row[i].r;
		if (rail_choose(w.h[0].c, w.now) != row[i].chosen)
			fail_msg("row %zu: rail %u", i, rail_choose(w.h[0].c, w.now));
	}
}

/* --- T3, T4: links ---------------------------------------------------------------------------- */

static void missed_probes(int i, int n)
{
	while (n--) {
		w.now += MS;
		w_event(&w, 0, SHIFT_EV_PROBE_MISSED, i);
	}
}

static void answered_probe(int i)
{
	w.now += MS;
	w_event(&w, 0, SHIFT_EV_PROBE_OK, i);
}

static void a_silent_rail_does_not_take_over_from_a_link_that_is_down(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	missed_probes(1, 3);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	answered_probe(1); /* now it could */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* --- two rails on one NIC (7.49) --- */

/* Rail 2 is a third one, on a NIC of its own. */
static void event_of_nic(enum shift_event_type type)
{
	give_event(0, &(struct shift_event){.type = (uint8_t)type, .rail = 0, .also = 1u << 1});
}

static void a_link_that_goes_down_is_not_fled_on_the_same_nic(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	event_of_nic(SHIFT_EV_LINK_DOWN);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	event_of_nic(SHIFT_EV_LINK_UP); /* stock verbs survive that: nothing has happened */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_false(rail(0)->down || rail(1)->down);
}

static void another_nic_is_fled_to_from_both(void **state)
{
	(void)state;
	event_of_nic(SHIFT_EV_LINK_DOWN);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).target_r, 2);
}

/* The second rail of the NIC is in use, and is named second. */
static void the_second_rail_of_the_nic_is_left_too(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	event_of_nic(SHIFT_EV_LINK_DOWN);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).target_r, 2);
}

/* It is what the switch under way aims at. */
static void the_second_rail_of_the_nic_is_not_aimed_at_any_more(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).target_r, 1);
	event_of_nic(SHIFT_EV_LINK_DOWN);
	assert_int_equal(w_view(&w, 0).target_r, 2);
}

/* An error, and the link is down: it is waited for, and then the QP that is clean is taken. */
static void after_an_error_the_link_is_waited_for(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	event_of_nic(SHIFT_EV_LINK_DOWN);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	event_of_nic(SHIFT_EV_LINK_UP);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	assert_int_equal(w_view(&w, 0).target_r, 1);
}

static void probes_of_one_path_are_those_of_all_its_rails(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		w.now += MS;
		event_of_nic(SHIFT_EV_PROBE_MISSED);
		assert_int_equal(rail(0)->misses, i + 1);
		assert_int_equal(rail(1)->misses, i + 1);
	}
	w.now += MS;
	event_of_nic(SHIFT_EV_PROBE_OK);
	assert_true(rail_answers(w.h[0].c, 0) && rail_answers(w.h[0].c, 1));
	assert_false(rail_answers(w.h[0].c, 2));
	assert_int_equal(rail(1)->healthy_ns, w.now);
}

/* Nor does the answer of one count as a witness that the other is silent. */
static void the_rails_of_one_path_are_not_silent_to_each_other(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		w.now += MS;
		event_of_nic(SHIFT_EV_PROBE_MISSED);
	}
	assert_false(rail_silent(w.h[0].c, 0) || rail_silent(w.h[0].c, 1));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void two_misses_are_no_silence(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	missed_probes(1, 2);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* A rail of whose link nothing was heard since is healthy only from the next answer on. */
static void a_link_that_was_down_begins_its_hold_down_anew(void **state)
{
	uint64_t up;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	answered_probe(0);
	w.now += SECOND / 2;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	assert_true(rail(0)->healthy_ns == NEVER);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 0);
	assert_true(rail(0)->healthy_ns == NEVER);
	answered_probe(0);
	up = w.now;
	answered_probe(0); /* a second answer does not begin it anew */
	assert_true(rail(0)->healthy_ns == up);
}

/* T12. The peer says nothing, so that only the quarantine's rules decide. */
static void waits_in_quarantine_for_rail_0(void)
{
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	assert_int_equal(w_view(&w, 0).r, 1);
	for (int r = 0; r < W_RAILS; r++)
		w.ctl_cut[r] = true;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	assert_true(w_break(&w, 0, 1));
	take_cqes(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_int_equal(w_view(&w, 0).target_r, 0);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_int_equal(w_view(&w, 0).target_r, 0);
}

static void a_target_lost_in_quarantine_is_replaced(void **state)
{
	static const enum shift_event_type lost[] = {SHIFT_EV_LINK_DOWN, SHIFT_EV_RAIL_VETO};

	for (size_t i = 0; i < ROWS(lost); i++) {
		teardown(state);
		setup(state);
		waits_in_quarantine_for_rail_0();
		w_event(&w, 0, lost[i], 1); /* not the target */
		assert_int_equal(w_view(&w, 0).target_r, 0);
		w_event(&w, 0, lost[i], 0);
		assert_int_equal(w_view(&w, 0).target_r, 2);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ARM);
	}
}

static void a_target_lost_in_the_fence_is_replaced(void **state)
{
	static const enum shift_event_type lost[] = {SHIFT_EV_LINK_DOWN, SHIFT_EV_RAIL_VETO};

	for (size_t i = 0; i < ROWS(lost); i++) {
		teardown(state);
		setup(state);
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
		w_event(&w, 0, lost[i], 2);
		assert_int_equal(w_view(&w, 0).target_r, 1);
		w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
		w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 2);
		w_event(&w, 0, lost[i], 1);
		assert_int_equal(w_view(&w, 0).target_r, 2);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	}
}

/* --- T12 in SWITCHING ------------------------------------------------------------------------- */

static void a_link_down_in_switching_takes_another_rail(void **state)
{
	(void)state;
	waits_for_an_answer();
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 1); /* rail 0 is dirty, so there is no other */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).target_r, 2);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_LINK_DOWN);
}

static void silence_in_switching_takes_another_rail(void **state)
{
	(void)state;
	waits_for_an_answer();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
		missed_probes(1, 1);
		answered_probe(2);
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).target_r, 2);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROBES_LOST);
}

/* --- T6: silence ------------------------------------------------------------------------------ */

/* The third miss counts at the time when another rail, silent itself so far, is answered. */
static void silence_becomes_evidence_by_an_answer_elsewhere(void **state)
{
	(void)state;
	missed_probes(0, 1);
	answered_probe(2);
	missed_probes(0, 1);
	answered_probe(2);
	missed_probes(2, 3);
	missed_probes(0, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	answered_probe(2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_PROBES_LOST);
}

/* With a single miss as silence, the answer elsewhere must be younger than that miss. */
static void an_older_answer_elsewhere_is_no_evidence(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true, .probe_misses = 1};

	(void)state;
	again(&cfg);
	answered_probe(2);
	missed_probes(0, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_PROBE_OK, 2); /* at the same moment */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	answered_probe(2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

/* A miss counts only if another rail was answered since the one before it. */
static void misses_in_a_row_without_an_answer_between_count_once(void **state)
{
	(void)state;
	missed_probes(0, 1);
	answered_probe(2);
	missed_probes(0, 5);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	answered_probe(2);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	missed_probes(0, 1); /* the third that counts, and the row began before the answers */
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

static void one_miss_ends_health(void **state)
{
	(void)state;
	answered_probe(1);
	assert_true(rail(1)->healthy_ns == w.now);
	missed_probes(1, 1);
	assert_true(rail(1)->healthy_ns == NEVER);
}

/* The row begins anew: so do the misses that count. */
static void an_answer_ends_the_row_of_misses(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		missed_probes(0, 1);
		answered_probe(1);
		missed_probes(0, 1);
		answered_probe(1);
		answered_probe(0);
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	for (int i = 0; i < 3; i++) {
		missed_probes(0, 1);
		answered_probe(1);
	}
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
}

static void a_rail_answers_if_it_ever_did_and_was_not_missed_since(void **state)
{
	(void)state;
	assert_false(rail_answers(w.h[0].c, 1));
	answered_probe(1);
	assert_true(rail_answers(w.h[0].c, 1));
	missed_probes(1, 2);
	assert_true(rail_answers(w.h[0].c, 1));
	missed_probes(1, 1);
	assert_false(rail_answers(w.h[0].c, 1));
	answered_probe(1);
	assert_true(rail_answers(w.h[0].c, 1));
}

/* A clock may begin at 0, and an answer then is an answer. */
static void an_answer_at_time_0_counts(void **state)
{
	struct shift_event ev = {.type = SHIFT_EV_PROBE_OK, .rail = 1};

	(void)state;
	rail_event(w.h[0].c, &ev, 0);
	assert_true(rail_answers(w.h[0].c, 1));
}

/* --- T7: vetoes ------------------------------------------------------------------------------- */

/* The rail in use stays: the operator says MIGRATE, too. */
static void a_veto_does_not_end_the_use_of_a_rail(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w_event(&w, 0, SHIFT_EV_RAIL_OPEN, 0);
	waits_for_an_answer();
	w_event(&w, 0, SHIFT_EV_RAIL_VETO, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
}

/* --- T13: no rail ---------------------------------------------------------------------------- */

/* The peer has followed to a rail that we have lost since. That is no reason for newer epochs. */
static void with_no_rail_the_peers_is_taken_when_it_is_possible(void **state)
{
	uint32_t e;

	(void)state;
	for (int i = 0; i < W_RAILS; i++)
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, i);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_FENCE);
	assert_int_equal(w_view(&w, 0).target_r, NO_RAIL);
	e = w_view(&w, 0).target_e;
	for (int fenced = 0; fenced < 2; fenced++) {
		forged_switch(e, 2, 0);
		assert_int_equal(w_view(&w, 0).target_e, e);
		assert_int_equal(w_view(&w, 0).target_r, NO_RAIL);
		assert_int_equal(w.h[0].c->plan.refusals, 0);
		finish_ops(0);
		assert_int_equal(w_state(&w, 0), SHIFT_ST_NO_RAIL);
	}
}

static void in_the_fence_the_peers_rail_is_taken_up(void **state)
{
	uint32_t e;

	(void)state;
	for (int i = 0; i < W_RAILS; i++)
		w_event(&w, 0, SHIFT_EV_LINK_DOWN, i);
	e = w_view(&w, 0).target_e;
	w_event(&w, 0, SHIFT_EV_LINK_UP, 2);
	assert_int_equal(w_view(&w, 0).target_r, NO_RAIL); /* the fence's end will see it */
	forged_switch(e, 2, 0);
	assert_int_equal(w_view(&w, 0).target_e, e);
	assert_int_equal(w_view(&w, 0).target_r, 2);
}

/* --- T9: the hold-down ------------------------------------------------------------------------ */

static uint64_t hold_down_after(uint64_t now)
{
	rail_failed(w.h[0].c, 0, now);
	assert_true(rail(0)->healthy_ns == NEVER);
	return rail(0)->hold_down_ns / SECOND;
}

static void failures_close_together_double_the_hold_down(void **state)
{
	const uint64_t window = 600 * SECOND;
	uint64_t at = 0;

	(void)state;
	rail(0)->healthy_ns = 1;
	assert_int_equal(hold_down_after(at), 1); /* the first, at time 0 */
	at += window;
	assert_int_equal(hold_down_after(at), 2); /* 0 is kept as 1 ns */
	at += window;
	assert_int_equal(hold_down_after(at), 1);
	at += window - 1;
	assert_int_equal(hold_down_after(at), 2);
	assert_int_equal(hold_down_after(at - 1), 4); /* another thread read the clock before */
	for (uint64_t wanted = 8; wanted <= 256; wanted *= 2)
		assert_int_equal(hold_down_after(at), wanted);
	assert_int_equal(hold_down_after(at), 300);
	assert_int_equal(hold_down_after(at), 300);
	at += window + 1;
	assert_int_equal(hold_down_after(at), 1);
}

/* --- rule 18: dirt ---------------------------------------------------------------------------- */

static void proof(uint32_t epoch, uint32_t committed)
{
	rail_proof(w.h[0].c, &(struct shift_msg){.epoch = epoch, .committed = committed}, w.now);
}

static uint64_t dirty_until(uint32_t tag)
{
	return rail_dirty_until(w.h[0].c, tag, w.now);
}

static void a_proof_is_of_older_epochs_only(void **state)
{
	const uint64_t second = w.now + SECOND; /* the quarantine */

	(void)state;
	proof(6, 4);
	assert_true(dirty_until(7) == NEVER);
	assert_true(dirty_until(6) == NEVER);
	assert_true(dirty_until(5) == 0); /* never committed: nothing was sent */
	assert_true(dirty_until(4) == second);
	assert_true(dirty_until(0) == second);
}

/* What we sent there the peer may answer, if only with ACKs. */
static void what_we_have_sent_is_a_reason_for_quarantine(void **state)
{
	(void)state;
	w.h[0].c->lastc = 5;
	w.h[0].c->sq.cum = 1;
	proof(7, 4);
	assert_true(dirty_until(6) == 0);
	assert_true(dirty_until(5) == w.now + SECOND);
}

/* A rail that comes back after many tries of the others has its turns, and they have theirs. */
static void a_rail_is_at_most_three_tries_behind(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 10; n++) {
		rail_tried(w.h[0].c, 1);
		assert_int_equal(rail(1)->tries, n);
		assert_int_equal(rail(0)->tries, n > 3 ? n - 3 : 0);
		assert_int_equal(rail(2)->tries, n > 3 ? n - 3 : 0);
	}
	rail_tried(w.h[0].c, 2);
	assert_int_equal(rail(2)->tries, 8);
	assert_int_equal(rail(1)->tries, 10);
}

static void only_a_newer_proof_replaces_a_proof(void **state)
{
	const uint64_t first = w.now;

	(void)state;
	proof(6, 4);
	w.now += 5 * MS;
	proof(6, 6);
	proof(5, 5);
	assert_true(dirty_until(5) == 0);
	assert_true(dirty_until(4) == first + SECOND);
	proof(7, 5);
	assert_true(dirty_until(5) == w.now + SECOND);
}

/* It begins the quarantine of those rails that are fenced and wait for it, and of no other. */
static void a_proof_begins_the_quarantine_of_fenced_rails(void **state)
{
	(void)state;
	rail(0)->tag = 2;
	rail(1)->tag = 4;
	rail(1)->dirty_until = NEVER;
	rail(2)->tag = 2;
	rail(2)->dirty_until = 77;
	proof(3, 2);
	assert_true(rail(0)->dirty_until == NEVER); /* in use */
	assert_true(rail(1)->dirty_until == NEVER); /* a newer tag */
	assert_true(rail(2)->dirty_until == 77);    /* begun already */
	w.now += MS;
	proof(5, 4);
	assert_true(rail(1)->dirty_until == w.now + SECOND);
	assert_true(rail(2)->dirty_until == 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(each_reason_alone_shuts_a_rail),
		WORLD_TEST(a_rail_is_usable_when_its_quarantine_is_over),
		WORLD_TEST(the_target_is_chosen_in_the_order_of_the_rule),
		WORLD_TEST(a_silent_rail_does_not_take_over_from_a_link_that_is_down),
		WORLD_TEST(two_misses_are_no_silence),
		WORLD_TEST(a_link_that_goes_down_is_not_fled_on_the_same_nic),
		WORLD_TEST(another_nic_is_fled_to_from_both),
		WORLD_TEST(the_second_rail_of_the_nic_is_left_too),
		WORLD_TEST(the_second_rail_of_the_nic_is_not_aimed_at_any_more),
		WORLD_TEST(after_an_error_the_link_is_waited_for),
		WORLD_TEST(probes_of_one_path_are_those_of_all_its_rails),
		WORLD_TEST(the_rails_of_one_path_are_not_silent_to_each_other),
		WORLD_TEST(a_link_that_was_down_begins_its_hold_down_anew),
		WORLD_TEST(a_target_lost_in_quarantine_is_replaced),
		WORLD_TEST(a_target_lost_in_the_fence_is_replaced),
		WORLD_TEST(a_link_down_in_switching_takes_another_rail),
		WORLD_TEST(silence_in_switching_takes_another_rail),
		WORLD_TEST(silence_becomes_evidence_by_an_answer_elsewhere),
		WORLD_TEST(an_older_answer_elsewhere_is_no_evidence),
		WORLD_TEST(misses_in_a_row_without_an_answer_between_count_once),
		WORLD_TEST(one_miss_ends_health),
		WORLD_TEST(an_answer_ends_the_row_of_misses),
		WORLD_TEST(a_rail_answers_if_it_ever_did_and_was_not_missed_since),
		WORLD_TEST(an_answer_at_time_0_counts),
		WORLD_TEST(a_veto_does_not_end_the_use_of_a_rail),
		WORLD_TEST(with_no_rail_the_peers_is_taken_when_it_is_possible),
		WORLD_TEST(in_the_fence_the_peers_rail_is_taken_up),
		WORLD_TEST(failures_close_together_double_the_hold_down),
		WORLD_TEST(a_proof_is_of_older_epochs_only),
		WORLD_TEST(what_we_have_sent_is_a_reason_for_quarantine),
		WORLD_TEST(a_rail_is_at_most_three_tries_behind),
		WORLD_TEST(only_a_newer_proof_replaces_a_proof),
		WORLD_TEST(a_proof_begins_the_quarantine_of_fenced_rails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
