/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A QP that is RESET and used again, with the same PSNs (doc/protocol.md, 7.33, 7.34). Each life of
 * host h has the id 10 * life + h. */
#include "tests/unit/fixture.h"

#define S 1000000000ull

static void post_receives(int h)
{
	for (int i = 0; i < W_READY_RECVS; i++)
		w_recv(&w, h);
}

static uint32_t life_id(int life, int h)
{
	return (uint32_t)(10 * life + h);
}

static void next_life(int h)
{
	w_next_life(&w, h, w.h[h].cfg.id + 10);
	post_receives(h);
}

static bool protected(int h)
{
	return w_view(&w, h).protected_;
}

/* Both have published, and both find it. */
static void meet(void)
{
	w_meet(&w, 0);
	w_meet(&w, 1);
	w_run(&w, 0);
}

/* In a world in which HELLO is still to come. */
static int setup_first_life(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true};

	setup(state);
	again(&cfg);
	return 0;
}

static int setup_protected(void **state)
{
	setup_first_life(state);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
	return 0;
}

static void next_life_of_both(void)
{
	next_life(0);
	next_life(1);
	w.msgs = 0;
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* --- what is late from the life before -------------------------------------------------------- */

/* The proof that host 1 gave in a switch of life 1 in which it had got `sends`. */
static struct shift_msg proof_of_life_1(int sends)
{
	struct shift_msg proof = {0};

	for (int i = 0; i < sends; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, sends);
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	for (int round = 0; round < 50 && !proof.type; round++) {
		take_cqes(0);
		take_cqes(1);
		finish_ops(0);
		finish_ops(1);
		for (uint32_t i = 0; i < w.msgs; i++)
			if (!w.msg[i].to && w.msg[i].m.type == SHIFT_MSG_SWITCH &&
			    shift_switch_proves(&w.msg[i].m))
				proof = w.msg[i].m;
		if (!proof.type)
			w_msg(&w, 0);
	}
	assert_int_equal(proof.type, SHIFT_MSG_SWITCH);
	assert_int_equal(proof.recv_cum, sends);
	return proof;
}

/* Life 1 sent 5 and all arrived. Life 2 sends 5, and 2 have arrived when its path dies. */
static void a_late_switch_is_no_proof(void **state)
{
	struct shift_msg late = proof_of_life_1(5);
	struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = late.rail, .msg = &late};

	(void)state;
	assert_true(w_settle(&w, 200));
	next_life_of_both();
	w.now += 10 * S; /* no quarantine in the way */
	for (int i = 0; i < 5; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 2);
	w.ctl_cut[1] = w.ctl_cut[2] = true;
	break_rail_0(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	assert_int_equal(w_view(&w, 0).e, late.epoch);
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SWITCHING);
	assert_int_equal(w.h[0].completed, 0);
	w.ctl_cut[1] = w.ctl_cut[2] = false;
	assert_true(w_settle(&w, 200));
	assert_int_equal(w.h[0].completed, 5);
	assert_int_equal(w.h[1].recv_completed, 5);
}

static void a_late_end_does_not_end_it(void **state)
{
	struct shift_msg late = {.type = SHIFT_MSG_FAILED,
				 .src_nonce = 101,
				 .dst_nonce = 100,
				 .src_conn = w.h[1].cfg.id,
				 .dst_conn = w.h[0].cfg.id};
	struct shift_event ev = {.type = SHIFT_EV_MSG, .msg = &late};

	(void)state;
	next_life_of_both();
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	late.type = SHIFT_MSG_CLOSED;
	give_event(0, &ev);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* A packet of life 1 does not fit into the window of the same epoch in life 2. */
static void equal_epochs_have_other_psns(void **state)
{
	uint32_t tx, rx;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).e, 2);
	tx = w.h[0].qp[1].tx_psn;
	rx = w.h[0].qp[1].rx_psn;
	next_life_of_both();
	w.now += 10 * S;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).e, 2);
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_not_equal(w.h[0].qp[1].tx_psn, tx);
	assert_int_not_equal(w.h[0].qp[1].rx_psn, rx);
}

/* Host 1 has not RESET its QP yet, and asks the life of host 0 that it knows. */
static void the_life_before_answers_by_its_tombstone(void **state)
{
	struct shift_msg answer;
	struct shift_event ev = {.type = SHIFT_EV_MSG, .rail = 1, .msg = &answer};

	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 1, SHIFT_OP_SEND, 10, true);
	pass_packets(1, 0, 2);
	take_cqes(0);
	next_life(0);
	assert_true(w.h[0].stone.valid);
	answer = w.h[0].stone.answer;
	assert_int_equal(answer.type, SHIFT_MSG_CLOSED);
	assert_int_equal(answer.src_conn, life_id(1, 0));
	break_rail_0(1);
	finish_ops(1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SWITCHING);
	while (w_msg(&w, 0)) /* it asks life 2, which does not listen to life 1 */
		;
	assert_int_equal(w_state(&w, 1), SHIFT_ST_SWITCHING);
	give_event(1, &ev);
	finish_ops(1);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DEAD);
	assert_int_equal(w.h[1].completed, 3); /* two have arrived, the third fails */
	assert_int_equal(w.h[1].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[1].first_vendor, SHIFT_VENDOR_PEER_CLOSED);
}

/* --- who meets whom --------------------------------------------------------------------------- */

/* Host 0 is the first to RESET: the record of the peer's life 1 is still there. */
static void the_peers_past_life_is_not_met(void **state)
{
	(void)state;
	next_life(0);
	assert_false(w_meet(&w, 0));
	w_run(&w, 5);
	assert_false(protected(0));
	assert_true(protected(1)); /* with life 1, which is over */
	next_life(1);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
	assert_int_equal(w_view(&w, 0).recv_cum, 0);
}

/* Life 1 of host 0 was too short to find anybody. Then it does not know that what it finds is still
 * life 1 of host 1, which may have got something of life 1. */
static void an_unmatched_life_is_not_matched_with_the_next(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	next_life(0);
	meet();
	assert_false(protected(0));
	assert_false(protected(1));
	next_life(1);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* A life of host 0 that is connected to another QP: number `qpn`, which never says HELLO. */
static void visit_another(uint32_t qpn)
{
	uint32_t back = w.h[0].cfg.dest_qpn;

	w.h[0].cfg.dest_qpn = qpn;
	next_life(0);
	w.h[0].cfg.dest_qpn = back;
	next_life(0);
}

/* The same, if host 0 was connected to others in between. */
static void nor_with_one_after_a_visit_elsewhere(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	visit_another(77);
	meet();
	assert_false(protected(0));
	assert_false(protected(1));
	visit_another(78);
	next_life(1);
	next_life(1);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* Life 1 was matched. */
static void nor_is_it_met_after_a_visit_elsewhere(void **state)
{
	(void)state;
	visit_another(77);
	assert_false(w_meet(&w, 0));
	next_life(1);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* Or to two others, one after the other. */
static void nor_after_visits_to_two_others(void **state)
{
	uint32_t back = w.h[0].cfg.dest_qpn;

	(void)state;
	for (uint32_t qpn = 77; qpn <= 78; qpn++) {
		w.h[0].cfg.dest_qpn = qpn;
		next_life(0);
	}
	w.h[0].cfg.dest_qpn = back;
	next_life(0);
	assert_false(w_meet(&w, 0));
}

/* The peer's process was started again, and counts its ids from the same number. */
static void one_of_another_process_with_its_id_is_met(void **state)
{
	(void)state;
	next_life(0);
	assert_false(w_meet(&w, 0));
	w.h[1].cfg.nonce += 1000;
	assert_true(w_meet(&w, 0));
}

/* The same, after a life that was matched. */
static void nor_is_it_after_one_that_was(void **state)
{
	(void)state;
	next_life(0);
	next_life(1);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	next_life(0);
	meet();
	assert_false(protected(0));
	assert_false(protected(1));
	next_life(1);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* Only host 0 had heard HELLO when both lives ended. */
static void one_that_matched_alone_goes_on(void **state)
{
	(void)state;
	w_meet(&w, 1);
	w_meet(&w, 0);
	while (w.msgs && !protected(0))
		for (uint32_t i = 0; i < w.msgs; i++)
			if (!w.msg[i].to)
				w_msg(&w, i);
			else
				w.msg[i] = w.msg[--w.msgs];
	assert_true(protected(0));
	assert_false(protected(1));
	next_life_of_both();
	next_life_of_both();
}

/* The peer's program destroys its QP, makes another, and that gets the same number. */
static void a_new_qp_with_an_old_number(void **state)
{
	(void)state;
	next_life_of_both();
	next_life(0);
	w.h[1].cfg.past = (struct shift_past){0};
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	finish_ops(1);
	w.h[1].cfg.id += 10;
	w.h[1].c = shift_conn_init(w.h[1].mem, shift_conn_size(&w.h[1].cfg), &w.h[1].cfg, w.now);
	w.msgs = 0;
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* Whom it has met is gone: HELLO to the next is not put off, however long it called in vain. */
static void another_that_is_met_is_called_at_once(void **state)
{
	(void)state;
	next_life(1);
	w_meet(&w, 0); /* life 2, which never answers */
	w_run(&w, 10);
	next_life(1);
	w.msgs = 0;
	assert_true(w_meet(&w, 0));
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].m.dst_conn, life_id(3, 1));
}

/* The first life of that QP was matched with the third of ours. They live in step from then on. */
static void both_of_which_are_used_again(void **state)
{
	a_new_qp_with_an_old_number(state);
	for (int life = 0; life < 4; life++)
		next_life_of_both();
}

/* Their next lives are too short for HELLO, and that of host 0 ends first. */
static void and_are_told_from_each_other(void **state)
{
	a_new_qp_with_an_old_number(state);
	next_life(0);
	next_life(1);
	next_life(0);
	meet();
	assert_false(protected(0));
	assert_false(protected(1));
	next_life(1);
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
}

/* The record of a process that is gone told of one rail. The one that took its place has all. */
static void another_that_is_met_may_have_more_rails(void **state)
{
	struct shift_conn_peer gone = {.nonce = 77, .id = 77, .rails = 1};

	(void)state;
	assert_true(shift_conn_meet(w.h[0].c, &gone));
	meet();
	assert_true(protected(0));
	assert_true(protected(1));
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void many_lives(void **state)
{
	(void)state;
	for (int life = 2; life < 20; life++) {
		next_life_of_both();
		for (int i = 0; i < 3; i++)
			w_post(&w, life % 2, SHIFT_OP_SEND, 3000, true);
		pass_packets(life % 2, 0, 4);
		w.now += life % 3 ? 0 : 10 * S;
		fail_over(life % 2);
		assert_int_equal(w.h[life % 2].completed, 3);
		assert_int_equal(w.h[!(life % 2)].recv_completed, 3);
	}
}

/* --- quarantine over lives -------------------------------------------------------------------- */

/* When host 0 can arm a rail, counted from now. UINT64_MAX: not in 10 s. */
static uint64_t usable_in(uint8_t rail)
{
	uint64_t start = w.now;

	for (; w.now < start + 10 * S; w.now += S / 100) {
		w_event(&w, 0, SHIFT_EV_MIGRATE, rail);
		if (w_state(&w, 0) != SHIFT_ST_ACTIVE)
			return w.now - start;
	}
	return UINT64_MAX;
}

static void a_rail_of_the_life_before_is_dirty(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	next_life_of_both();
	assert_in_range(usable_in(1), S - S / 100, S + S / 100);
}

static void so_is_the_last_rail(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_MIGRATE, W_RAILS - 1);
	assert_true(w_settle(&w, 20));
	assert_int_equal(w_view(&w, 0).r, W_RAILS - 1);
	next_life_of_both();
	assert_in_range(usable_in(W_RAILS - 1), S - S / 100, S + S / 100);
}

static void a_rail_never_armed_is_not(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	next_life_of_both();
	assert_int_equal(usable_in(2), 0);
}

/* The HELLO of life 2 has proved what it had to, and the quarantine went by in that life. */
static void a_quarantine_that_is_over_is_not_repeated(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	next_life_of_both();
	w.now += 2 * S;
	next_life_of_both();
	assert_int_equal(usable_in(1), 0);
}

/* So many lives of another QP, whose HELLO proves less, and 5 s: then only what the failover at
 * their end has left counts. */
static void expect_no_longer_wait_after(int lives)
{
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w.h[0].cfg.dest_qpn = w.h[1].cfg.qpn = 77;
	for (int i = 0; i < lives; i++)
		next_life_of_both();
	w.now += 5 * S;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	next_life_of_both();
	assert_in_range(usable_in(1), S - S / 100, S + S / 100);
}

/* The same, if life 2 was connected to another QP. */
static void nor_is_the_longer_one(void **state)
{
	(void)state;
	expect_no_longer_wait_after(1);
}

/* A life that matched nobody, or not for long enough, has proved nothing. */
static void one_that_is_not_over_goes_on(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	next_life(0);
	next_life(1);
	w.now += 10 * S;
	next_life_of_both();
	w.now += S / 2;
	next_life_of_both();
	assert_in_range(usable_in(1), S - S / 100, S + S / 100);
}

/* It waits out the quarantine instead of taking the QP at once. */
static void a_failover_waits_for_the_quarantine(void **state)
{
	uint64_t start;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	next_life_of_both();
	start = w.now;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 2);
	w_event(&w, 1, SHIFT_EV_LINK_DOWN, 2);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	cut_rail(0, true);
	break_rail_0(0);
	finish_ops(0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_QUARANTINE);
	assert_true(w_settle(&w, 200));
	assert_true(w.now >= start + S);
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* The peer's HELLO is from a QP that has nothing to do with the one that the rail was armed for: it
 * proves nothing of that one, whose retries must run out. */
static void a_rail_armed_for_another_peer_is_dirty_for_longer(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w.h[0].cfg.dest_qpn = w.h[1].cfg.qpn = 77;
	next_life_of_both();
	assert_in_range(usable_in(1), 4 * S - S / 100, 4 * S + S / 100);
}

/* That an earlier life than the last was connected to another counts, as long as it matters. */
static void it_stays_so_for_the_next_life(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	fail_over(0);
	w.h[0].cfg.dest_qpn = w.h[1].cfg.qpn = 77;
	next_life_of_both();
	w.now += S / 2;
	next_life_of_both();
	assert_in_range(usable_in(1), 4 * S - S / 100, 4 * S + S / 100);
}

static void it_does_not_stay_so_for_ever(void **state)
{
	(void)state;
	expect_no_longer_wait_after(2);
}

/* Rail 0 is the program's: it must not bring the QP to RTR while packets of the life before may be
 * held up there. */
static void rail_0_is_dirty_after_a_failover(void **state)
{
	uint64_t failed = w.now;

	(void)state;
	assert_int_equal(w.h[0].cfg.past.rail0_until, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	break_rail_0(0);
	w_run(&w, 0);
	assert_int_equal(w_view(&w, 1).r, 1);
	w.now += S / 2;
	next_life_of_both();
	assert_int_equal(w.h[0].cfg.past.rail0_until, failed + S);
	assert_int_equal(w.h[1].cfg.past.rail0_until, failed + S);
	w.now += 10 * S;
	next_life_of_both(); /* it was on rail 0 all the time */
	assert_int_equal(w.h[0].cfg.past.rail0_until, failed + S);
}

/* The peer has not said that it is fenced. */
static void rail_0_is_dirty_after_half_a_failover(void **state)
{
	(void)state;
	waits_for_an_answer();
	next_life(0);
	assert_int_equal(w.h[0].cfg.past.rail0_until, w.now + S);
}

/* --- the connection's number ------------------------------------------------------------------ */

static void both_sides_compute_one_number(void **state)
{
	const uint64_t key[2] = {1, 2};
	struct shift_end a = {.gid = {1, 2, 3}, .qpn = 9, .id = 5, .nonce = 70};
	struct shift_end b = {.gid = {1, 2, 3}, .qpn = 10, .id = 4, .nonce = 60}, c;
	uint64_t n;
	uint8_t side;

	(void)state;
	n = shift_conn_number(key, &a, &b, &side);
	assert_int_equal(side, 0);
	assert_true(shift_conn_number(key, &b, &a, &side) == n);
	assert_int_equal(side, 1);
	c = b;
	c.id++;
	assert_true(shift_conn_number(key, &a, &c, &side) != n);
	c = b;
	c.nonce++;
	assert_true(shift_conn_number(key, &a, &c, &side) != n);
	c = b;
	c.qpn++;
	assert_true(shift_conn_number(key, &a, &c, &side) != n);
	c = b;
	c.gid[15]++;
	assert_true(shift_conn_number(key, &a, &c, &side) != n);
	assert_int_equal(side, 0);
	c.gid[0] = 0; /* the GID counts before the QPN */
	shift_conn_number(key, &a, &c, &side);
	assert_int_equal(side, 1);
}

#define FIRST_LIFE(f)	cmocka_unit_test_setup_teardown(f, setup_first_life, teardown)
#define AFTER_A_LIFE(f) cmocka_unit_test_setup_teardown(f, setup_protected, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AFTER_A_LIFE(a_late_switch_is_no_proof),
		AFTER_A_LIFE(a_late_end_does_not_end_it),
		AFTER_A_LIFE(equal_epochs_have_other_psns),
		AFTER_A_LIFE(the_life_before_answers_by_its_tombstone),
		AFTER_A_LIFE(the_peers_past_life_is_not_met),
		FIRST_LIFE(an_unmatched_life_is_not_matched_with_the_next),
		FIRST_LIFE(nor_with_one_after_a_visit_elsewhere),
		AFTER_A_LIFE(nor_is_it_met_after_a_visit_elsewhere),
		AFTER_A_LIFE(nor_after_visits_to_two_others),
		AFTER_A_LIFE(one_of_another_process_with_its_id_is_met),
		AFTER_A_LIFE(nor_is_it_after_one_that_was),
		FIRST_LIFE(one_that_matched_alone_goes_on),
		AFTER_A_LIFE(a_new_qp_with_an_old_number),
		AFTER_A_LIFE(both_of_which_are_used_again),
		AFTER_A_LIFE(and_are_told_from_each_other),
		FIRST_LIFE(another_that_is_met_is_called_at_once),
		FIRST_LIFE(another_that_is_met_may_have_more_rails),
		AFTER_A_LIFE(many_lives),
		AFTER_A_LIFE(a_rail_of_the_life_before_is_dirty),
		AFTER_A_LIFE(so_is_the_last_rail),
		AFTER_A_LIFE(a_rail_never_armed_is_not),
		AFTER_A_LIFE(a_quarantine_that_is_over_is_not_repeated),
		AFTER_A_LIFE(nor_is_the_longer_one),
		AFTER_A_LIFE(one_that_is_not_over_goes_on),
		AFTER_A_LIFE(a_failover_waits_for_the_quarantine),
		AFTER_A_LIFE(a_rail_armed_for_another_peer_is_dirty_for_longer),
		AFTER_A_LIFE(it_stays_so_for_the_next_life),
		AFTER_A_LIFE(it_does_not_stay_so_for_ever),
		AFTER_A_LIFE(rail_0_is_dirty_after_a_failover),
		AFTER_A_LIFE(rail_0_is_dirty_after_half_a_failover),
		cmocka_unit_test(both_sides_compute_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
