/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* T8 to the letter: which questions are asked, which answers count, and what they decide. */
#include "lib/core/conn_int.h"
#include "tests/unit/fixture.h"

#define SECOND	1000000000ull
#define ROWS(t) (sizeof(t) / sizeof(*(t)))

static struct shift_conn *conn(void)
{
	return w.h[0].c;
}

/* The next second of host 0, without an answer to what it asks. */
static void next_second(void)
{
	w.now = conn()->check_at;
	w_tick(&w, 0);
}

/* What host 0 has asked is answered by host 1's NIC. */
static void answer_arrives(void)
{
	while (w_msg(&w, 0) || w_op(&w, 1))
		;
}

static void answered_seconds(int n)
{
	for (int i = 0; i < n; i++) {
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		next_second();
		answer_arrives();
	}
}

/* Host 1 has no receive left, and all that it executed so far is acknowledged. */
static void use_up_receives(void)
{
	for (int i = 0; i < W_READY_RECVS; i++) {
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
		pass_packets(0, 0, 1);
		w_ack(&w, 0, 0);
	}
	take_cqes(0);
	take_cqes(1);
	next_second(); /* so that the next one sees no completion */
}

static void is_left_alone(void)
{
	answered_seconds(6);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).e, 0);
}

static void is_left_after_four_answers(void)
{
	answered_seconds(4);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_NO_PROGRESS);
	assert_int_not_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* --- when it is asked ------------------------------------------------------------------------- */

static void unsignaled_wrs_are_not_waited_for(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	answered_seconds(6);
	assert_int_equal(stats(0)->no_progress_asked, 0);
	assert_false(shift_conn_waits(conn()));
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_true(shift_conn_waits(conn()));
	is_left_after_four_answers();
	assert_int_equal(stats(0)->no_progress_asked, 4);
}

static void it_is_asked_at_the_second_and_not_before(void **state)
{
	const uint64_t at = conn()->check_at;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	assert_true(shift_conn_deadline(conn()) == at);
	w.now = at - 1;
	w_tick(&w, 0);
	assert_int_equal(stats(0)->no_progress_asked, 0);
	w.now = at;
	w_tick(&w, 0);
	assert_int_equal(stats(0)->no_progress_asked, 1);
	assert_true(shift_conn_deadline(conn()) == at + SECOND);
	w_tick(&w, 0);
	assert_int_equal(stats(0)->no_progress_asked, 1);
}

/* On rail 0 nothing is matched with its WR; on a twin it is. */
static void it_is_asked_on_a_twin_too(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	fail_over(0);
	assert_int_equal(w_view(&w, 0).r, 1);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	answered_seconds(2);
	assert_int_equal(stats(0)->no_progress_asked, 0);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	answered_seconds(4);
	assert_int_equal(stats(0)->no_progress_asked, 4);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_NO_PROGRESS);
}

/* --- which WR the answer points at (7.28) ----------------------------------------------------- */

static void an_unsignaled_send_without_a_receive_is_waited_for(void **state)
{
	(void)state;
	use_up_receives();
	w_post(&w, 0, SHIFT_OP_WRITE, 3000, false);
	w_post(&w, 0, SHIFT_OP_SEND, 3000, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	pass_packets(0, 0, 3); /* the WRITE: rq_psn stands before the SEND */
	is_left_alone();
	pass_packets(0, 0, 2); /* it waits with its last packet */
	is_left_alone();
}

static void a_write_behind_an_executed_send_needs_no_receive(void **state)
{
	(void)state;
	use_up_receives();
	w_recv(&w, 1);
	w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	pass_packets(0, 0, 1);
	take_cqes(1);
	is_left_after_four_answers();
}

static void a_send_whose_ack_is_lost_is_not_waited_for(void **state)
{
	(void)state;
	use_up_receives();
	w_recv(&w, 1);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1); /* rq_psn is beyond it, just so */
	take_cqes(1);
	is_left_after_four_answers();
}

/* A local operation has no packet that could be executed. */
static void a_local_operation_is_not_beyond_anything(void **state)
{
	(void)state;
	w_free(&w);
	w_init(&w, NULL, 1); /* no receives */
	w_post(&w, 0, SHIFT_OP_LOCAL_INV, 0, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	is_left_alone();
}

static void a_send_with_receives_at_the_peer_is_a_dead_path(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	is_left_after_four_answers();
}

/* --- four equal answers in a row, and no completion between them -------------------------------
 */

/* The peer's program is late. Then its NIC has to be given the time to be asked again. */
static void a_receive_that_comes_late_begins_the_count_anew(void **state)
{
	(void)state;
	use_up_receives();
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	is_left_alone();
	assert_true(w_recv(&w, 1));
	answered_seconds(3);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	answered_seconds(1);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_NO_PROGRESS);
}

static void a_completion_begins_the_count_anew(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 3);
	take_cqes(1);
	answered_seconds(3);
	w_ack(&w, 0, 0); /* rq_psn stays where it is */
	take_cqes(0);
	answered_seconds(4); /* in the first of these nothing is asked */
	assert_int_equal(stats(0)->no_progress_asked, 6);
	answered_seconds(1);
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_NO_PROGRESS);
}

static void a_completion_before_the_answer_makes_it_void(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 3);
	take_cqes(1);
	answered_seconds(3);
	next_second();
	w_ack(&w, 0, 0);
	take_cqes(0);
	answer_arrives();
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void a_long_message_that_moves_is_left_alone(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 20000, true);
	for (int i = 0; i < 10; i++) {
		answered_seconds(1);
		pass_packets(0, 0, 1);
	}
	answered_seconds(3);
	pass_packets(0, 0, 1);
	assert_int_equal(w_view(&w, 0).e, 0);
	is_left_after_four_answers();
}

static void answers_of_the_epoch_before_do_not_count(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	answered_seconds(3);
	assert_int_equal(conn()->query_same, 3);
	fail_over(0);
	assert_int_equal(conn()->query_same, 0);
}

/* --- which answers count -----------------------------------------------------------------------
 */

static struct shift_msg right_answer(void)
{
	return (struct shift_msg){.src_nonce = 101,
				  .dst_nonce = 100,
				  .src_conn = 11,
				  .dst_conn = 10,
				  .type = SHIFT_MSG_PSN,
				  .epoch = conn()->e,
				  .rep_psn = 0x10,
				  .recv_avail = 5,
				  .fence = SHIFT_FENCE_SURE,
				  .serial = conn()->query_serial};
}

/* Of an SRQ, say: it is there, it is not, it is there again, and the QP never takes it. */
static void receives_that_come_and_go(void **state)
{
	struct shift_msg m;

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	next_second();
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		next_second();
		m = right_answer();
		m.recv_avail = i % 2;
		give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &m});
	}
	assert_int_equal(w_view(&w, 0).reason, SHIFT_R_NO_PROGRESS);
}

static void answer_counts(const struct shift_msg *m, bool counts)
{
	const uint32_t before = conn()->query_same;

	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = m});
	assert_int_equal(conn()->query_same, before + counts);
}

static void only_the_answer_to_the_last_question_counts(void **state)
{
	struct shift_msg m;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	next_second();
	next_second();
	w.msgs = 0;
	m = right_answer();
	m.serial--;
	answer_counts(&m, false);
	m.serial += 2;
	answer_counts(&m, false);
	m = right_answer();
	m.epoch++;
	answer_counts(&m, false);
	m = right_answer();
	m.fence = SHIFT_FENCE_UNSURE;
	answer_counts(&m, false);
	m = right_answer();
	answer_counts(&m, true);
}

/* The network brings it again and again. */
static void an_answer_counts_once(void **state)
{
	struct shift_msg m;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	next_second();
	w.msgs = 0;
	m = right_answer();
	answer_counts(&m, true);
	for (int i = 0; i < 5; i++)
		answer_counts(&m, false);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

static void asked_over(uint8_t rail)
{
	next_second();
	assert_int_equal(w.msgs, 1);
	assert_int_equal(w.msg[0].rail, rail);
	w.msgs = 0;
}

static void answer_came(void)
{
	struct shift_msg m = right_answer();

	answer_counts(&m, true);
}

/* The rail of the data may pass no message, either, and may never have been probed. */
static void a_question_that_is_not_answered_takes_another_rail(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	for (uint8_t i = 0; i < 2 * W_RAILS; i++)
		asked_over(i % W_RAILS);
	asked_over(0);
	asked_over(1);
	answer_came();
	asked_over(1); /* it stays there */
	asked_over(2);
	answer_came();
	asked_over(2);
	w_ack(&w, 0, 0);
	pass_packets(0, 0, 1);
	w_ack(&w, 0, 0);
	take_cqes(0);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	next_second();
	assert_int_equal(w.msgs, 0);
	asked_over(0); /* a new trouble: first over the rail of the data */
}

static void after_a_switch_the_new_rail_is_asked_first(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	asked_over(0);
	asked_over(1);
	asked_over(2);
	fail_over(0);
	w.msgs = 0;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	asked_over(1);
	asked_over(2);
}

static void an_answer_of_an_older_epoch_does_not_count(void **state)
{
	struct shift_msg m;

	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	fail_over(0);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	next_second();
	next_second();
	m = right_answer();
	m.epoch = 0;
	answer_counts(&m, false);
	assert_int_equal(stats(0)->stale_msgs, 1);
}

/* --- how the peer's question is answered --------------------------------------------------------
 */

static void peer_asks(uint32_t epoch, uint32_t serial)
{
	struct shift_msg m = right_answer();

	m.type = SHIFT_MSG_QUERY_PSN;
	m.epoch = epoch;
	m.serial = serial;
	give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .msg = &m});
}

static void a_question_of_another_epoch_is_not_put_to_the_nic(void **state)
{
	(void)state;
	peer_asks(1, 7);
	assert_int_equal(w.h[0].ops, 0);
	peer_asks(0, 7);
	assert_int_equal(w.h[0].ops, 1);
	assert_int_equal(w.h[0].op[0].type, SHIFT_ACT_QUERY_PSN);
	assert_int_equal(w.h[0].op[0].serial, 7);
	assert_int_equal(w.h[0].op[0].epoch, 0);
	assert_int_equal(w.h[0].op[0].rail, 0);
}

static void only_the_nics_answer_to_the_last_question_is_told(void **state)
{
	static const struct {
		struct shift_event ev;
		bool told;
	} row[] = {
		{{.serial = 8}, true},
		{{.serial = 7}, false},
		{{.serial = 9}, false},
		{{.serial = 8, .rail = 1}, false},
		{{.serial = 8, .epoch = 1}, false},
		{{.serial = 8, .psn = 0xabcdef12, .fence = SHIFT_FENCE_UNSURE}, true},
	};

	(void)state;
	for (size_t i = 0; i < ROWS(row); i++) {
		struct shift_event ev = row[i].ev;

		ev.type = SHIFT_EV_PSN;
		peer_asks(0, 7);
		peer_asks(0, 8);
		w.h[0].ops = w.msgs = 0;
		give_event(0, &ev);
		assert_int_equal(w.msgs, row[i].told);
		if (!row[i].told)
			continue;
		assert_int_equal(w.msg[0].rail, 0);
		assert_int_equal(w.msg[0].m.type, SHIFT_MSG_PSN);
		assert_int_equal(w.msg[0].m.serial, 8);
		assert_int_equal(w.msg[0].m.epoch, 0);
		assert_int_equal(w.msg[0].m.fence, row[i].ev.fence);
		assert_int_equal(w.msg[0].m.rep_psn, row[i].ev.psn & 0xffffff);
		assert_int_equal(w.msg[0].m.recv_avail, W_READY_RECVS);
	}
}

static void the_answer_goes_where_the_question_came_from(void **state)
{
	(void)state;
	for (uint8_t rail = 0; rail < W_RAILS; rail++) {
		struct shift_msg m = right_answer();

		m.type = SHIFT_MSG_QUERY_PSN;
		give_event(0, &(struct shift_event){.type = SHIFT_EV_MSG, .rail = rail, .msg = &m});
		w.h[0].ops = w.msgs = 0;
		give_event(0, &(struct shift_event){.type = SHIFT_EV_PSN, .serial = m.serial});
		assert_int_equal(w.msgs, 1);
		assert_int_equal(w.msg[0].rail, rail);
	}
}

/* doc/srq.md, S14: as many as its caller says that the NIC has. */
static void with_an_srq_the_callers_number_of_receives_is_told(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true, .srq = true};
	struct shift_cqe cqe = {.is_recv = true};
	struct shift_wc wc;

	(void)state;
	w_free(&w);
	w_init(&w, &cfg, 1);
	assert_true(shift_conn_cqe(w.h[0].c, &cqe, &wc, w.now));
	for (uint32_t count = 0; count < 3; count++) {
		peer_asks(0, 7 + count);
		w.h[0].ops = w.msgs = 0;
		give_event(0, &(struct shift_event){
				      .type = SHIFT_EV_PSN, .serial = 7 + count, .count = count});
		assert_int_equal(w.msgs, 1);
		assert_int_equal(w.msg[0].m.recv_avail, count);
	}
}

/* --- 7.15: the give-up clock --------------------------------------------------------------------
 */

/* After a failover the peer's program is slow, and nothing completes. */
static void the_giveup_clock_stops_after_a_quarter_of_its_time(void **state)
{
	uint64_t active;

	(void)state;
	for (int i = 0; i < W_READY_RECVS + 1; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, false);
	pass_packets(0, 0, W_READY_RECVS);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	active = w.now;
	assert_true(conn()->plan.trouble);
	for (int s = 1; s <= 7; s++) {
		next_second();
		assert_true(conn()->plan.trouble);
	}
	w.now = active + 7500000000 - 1;
	conn()->check_at = w.now; /* else that very moment is no second's */
	w_tick(&w, 0);
	assert_true(conn()->plan.trouble);
	w.now = active + 7500000000;
	conn()->check_at = w.now;
	w_tick(&w, 0);
	assert_false(conn()->plan.trouble);
}

/* A twin passes questions but no data, and each error comes when its retries are over. */
static void the_giveup_clock_waits_for_the_retries_of_a_twin(void **state)
{
	(void)state;
	conn()->cfg.retries_ns = 20 * SECOND;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	while (w.now < conn()->active_ns + 19 * SECOND) {
		assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
		next_second();
		w.msgs = 0; /* so that it is not NO_PROGRESS that sees it */
	}
	assert_true(conn()->plan.trouble);
	w.now = conn()->active_ns + 20 * SECOND - 1;
	conn()->check_at = w.now;
	w_tick(&w, 0);
	assert_true(conn()->plan.trouble);
	conn()->check_at = ++w.now;
	w_tick(&w, 0);
	assert_false(conn()->plan.trouble);
}

static void a_path_that_passes_no_data_ends_at_the_giveup_time(void **state)
{
	(void)state;
	conn()->cfg.giveup_ns = 15 * SECOND;
	conn()->cfg.retries_ns = 20 * SECOND;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	while (w.now < conn()->active_ns + 18 * SECOND) {
		next_second();
		w.msgs = 0;
	}
	assert_true(w_break(&w, 0, w_view(&w, 0).r));
	take_cqes(0);
	ends_dead(SHIFT_R_GIVEUP_TIME);
}

/* Of an unsignaled WR no completion comes, so it does not keep the clock going. */
static void the_giveup_clock_waits_for_no_unsignaled_wr(void **state)
{
	(void)state;
	conn()->cfg.retries_ns = 20 * SECOND;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, false);
	break_rail_0(0);
	while (w_op(&w, 0) || w_op(&w, 1) || w_msg(&w, 0))
		;
	assert_true(conn()->plan.trouble);
	conn()->check_at = w.now = conn()->active_ns + 7500000000;
	w_tick(&w, 0);
	assert_false(conn()->plan.trouble);
}

/* --- T6: what is remembered of a silent rail winds no clock up ----------------------------------
 */

static void falls_silent(int h, int rail, int witness)
{
	for (int i = 0; i < 4; i++) {
		w_event(&w, h, SHIFT_EV_PROBE_MISSED, rail);
		w_event(&w, h, SHIFT_EV_PROBE_OK, witness);
		w.now += SECOND / 40;
	}
}

/* The probes of two rails are lost, one at each end, or those of one, and the peer may not use the
 * other. Data passes. */
static void stays(bool waits, bool vetoed)
{
	uint64_t end = w.now + 120 * SECOND;

	for (int h = 0; h < 2; h++)
		w_event(&w, h, SHIFT_EV_LINK_DOWN, 2);
	if (waits) {
		use_up_receives();
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	}
	if (vetoed)
		w_event(&w, 1, SHIFT_EV_RAIL_VETO, 1);
	else
		falls_silent(0, 1, 0);
	falls_silent(!vetoed, 0, 1);
	while (w.now < end)
		w_run(&w, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_ACTIVE);
	assert_in_range(stats(0)->switches, 0, 5);
}

static void two_ends_that_see_other_rails_silent_stay_on_one(void **state)
{
	for (int waits = 0; waits < 2; waits++) {
		stays(waits, false);
		teardown(state);
		setup(state);
	}
}

static void a_peer_that_may_not_leave_a_silent_rail_is_joined_there(void **state)
{
	for (int waits = 0; waits < 2; waits++) {
		stays(waits, true);
		teardown(state);
		setup(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(unsignaled_wrs_are_not_waited_for),
		WORLD_TEST(it_is_asked_at_the_second_and_not_before),
		WORLD_TEST(it_is_asked_on_a_twin_too),
		WORLD_TEST(an_unsignaled_send_without_a_receive_is_waited_for),
		WORLD_TEST(a_write_behind_an_executed_send_needs_no_receive),
		WORLD_TEST(a_send_whose_ack_is_lost_is_not_waited_for),
		WORLD_TEST(a_local_operation_is_not_beyond_anything),
		WORLD_TEST(a_send_with_receives_at_the_peer_is_a_dead_path),
		WORLD_TEST(a_receive_that_comes_late_begins_the_count_anew),
		WORLD_TEST(receives_that_come_and_go),
		WORLD_TEST(a_completion_begins_the_count_anew),
		WORLD_TEST(a_completion_before_the_answer_makes_it_void),
		WORLD_TEST(a_long_message_that_moves_is_left_alone),
		WORLD_TEST(answers_of_the_epoch_before_do_not_count),
		WORLD_TEST(only_the_answer_to_the_last_question_counts),
		WORLD_TEST(an_answer_counts_once),
		WORLD_TEST(a_question_that_is_not_answered_takes_another_rail),
		WORLD_TEST(after_a_switch_the_new_rail_is_asked_first),
		WORLD_TEST(the_answer_goes_where_the_question_came_from),
		WORLD_TEST(an_answer_of_an_older_epoch_does_not_count),
		WORLD_TEST(a_question_of_another_epoch_is_not_put_to_the_nic),
		WORLD_TEST(only_the_nics_answer_to_the_last_question_is_told),
		WORLD_TEST(with_an_srq_the_callers_number_of_receives_is_told),
		WORLD_TEST(the_giveup_clock_stops_after_a_quarter_of_its_time),
		WORLD_TEST(the_giveup_clock_waits_for_the_retries_of_a_twin),
		WORLD_TEST(a_path_that_passes_no_data_ends_at_the_giveup_time),
		WORLD_TEST(the_giveup_clock_waits_for_no_unsignaled_wr),
		WORLD_TEST(two_ends_that_see_other_rails_silent_stay_on_one),
		WORLD_TEST(a_peer_that_may_not_leave_a_silent_rail_is_joined_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
