/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The proof of delivery: which WRs were executed, and how the others are dealt with. */
#include <string.h>

#include "tests/unit/fixture.h"

static void lost_ack_of_a_send(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 100, true);
	w_post(&w, 0, SHIFT_OP_SEND, 100, true);
	pass_packets(0, 0, 1); /* executed, never acknowledged */
	fail_over(0);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(stats(0)->replayed, 1);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[1].recv_completed, 2);
	assert_int_equal(w_view(&w, 0).r, 1);
}

static void a_write_resumes_where_it_was_cut(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 4500, true);
	pass_packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->trimmed, 1);
	assert_int_equal(w.h[0].completed, 1);
	assert_int_equal(w.h[0].placed[0], 4500);
}

/* No packet of its own shows that it was carried out, but a packet of the WR behind it does. */
static void a_local_operation_before_a_wr_in_part_is_done(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_LOCAL_INV, 0, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 4500, true);
	pass_packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(stats(0)->replayed, 1);
	assert_int_equal(stats(0)->trimmed, 1);
	assert_int_equal(w.h[0].completed, 2);
}

static void a_send_cut_in_the_middle_is_replayed_whole(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 4500, true);
	pass_packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->replayed_partial, 1);
	assert_int_equal(w.h[0].times[0], 1);
}

static void a_read_without_its_data_is_asked_again(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 3000, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 2);
	break_rail_0(0);
	while (w_state(&w, 0) != SHIFT_ST_ACTIVE)
		if (!w_op(&w, 0) && !w_op(&w, 1) && !w_msg(&w, 0))
			break;
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].completed, 0); /* the WRITE is done, but must wait for the READ */
	assert_true(w_settle(&w, 50));
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(stats(0)->proved, 1);
}

static void a_reissued_read_survives_the_next_failure(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 3000, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 2);
	w.ack_cut[1] = true;
	break_rail_0(0);
	w_run(&w, 0);
	assert_int_equal(w_view(&w, 0).r, 1);
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 2);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].times[1], 1);
}

static void a_lost_atomic_is_terminal(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	pass_packets(0, 0, 2);
	break_rail_0(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w_state(&w, 1), SHIFT_ST_DEAD); /* told by FAILED */
	assert_true(w.h[0].qp_err);
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(w.h[0].first_error, SHIFT_WC_RETRY_EXC_ERR);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_ATOMIC);
	assert_int_equal(w.h[0].times[1], 1);
	assert_int_equal(w.h[0].placed[2], 0);
}

static void a_read_before_a_lost_atomic_still_completes(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_READ, 10, true);
	w_post(&w, 0, SHIFT_OP_CMP_SWAP, 8, true);
	w_post(&w, 0, SHIFT_OP_SEND, 8, true);
	pass_packets(0, 0, 2);
	break_rail_0(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].completed, 3);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_ATOMIC);
	assert_int_equal(w.h[0].times[1], 1);
	assert_int_equal(w.h[0].times[2], 0);
}

static void a_lost_atomic_may_continue(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true};

	(void)state;
	cfg.lost_atomic_continue = true;
	again(&cfg);
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	pass_packets(0, 0, 1);
	fail_over(0);
	assert_int_equal(stats(0)->lost_atomics, 1);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].times[0], 1);
}

static void unsignaled_wrs_complete_silently(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		w_post(&w, 0, i % 2 ? SHIFT_OP_SEND : SHIFT_OP_WRITE, 10, i == 9);
	pass_packets(0, 0, 6);
	for (int i = 0; i < 3; i++)
		w_ack(&w, 0, 0);
	fail_over(0);
	assert_int_equal(stats(0)->proved, 3);
	assert_int_equal(w.h[0].completed, 10);
	assert_int_equal(w.h[1].recv_completed, 5);
}

static void a_stale_rq_psn_fails_visibly(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 4);
	w_ack(&w, 0, 0);
	w_ack(&w, 0, 0);
	take_cqes(0);
	w.fence_bias = -3; /* less than our NIC has acknowledged */
	break_rail_0(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PROOF);
	assert_int_equal(w.h[0].times[3], 1);
}

static void psn_and_receive_count_must_agree(void **state)
{
	char line[512];

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 2);
	w.fence_bias = -1; /* a plausible PSN, but the peer has consumed two receives */
	break_rail_0(0);
	w_run(&w, 20);
	assert_int_equal(w.h[0].first_vendor, SHIFT_VENDOR_PROOF);
	shift_conn_dump(w.h[0].c, line, sizeof(line));
	assert_non_null(strstr(line, "theirs: rep (0,"));
	assert_non_null(strstr(line, ") recv 2 fence 0;"));
}

static void an_untrusted_nic_gives_at_least_once(void **state)
{
	(void)state;
	w.at_least_once_ok = true;
	w.fence_unsure[1] = true;
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_WRITE, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->at_least_once, 1);
	assert_int_equal(stats(0)->proved, 2);
	assert_int_equal(stats(0)->maybe_twice, 1);
	assert_int_equal(w.h[0].times[1], 1); /* two-sided: still exactly once */
	assert_int_equal(w.h[0].completed, 4);
}

static void exactly_once_can_be_switched_off(void **state)
{
	struct shift_conn_cfg cfg = {.confirmed = true};

	(void)state;
	again(&cfg);
	w.at_least_once_ok = true;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1);
	fail_over(0);
	assert_int_equal(w.h[0].times[0], 2); /* the papers' duplicate */
	assert_int_equal(stats(0)->proved, 0);
}

/* --- the fence flag of a WR: its NIC has begun it only when the READs and atomics before were done
 */

/* The NIC of host 0 dies without a word: of what it finished, only its completions tell. */
static void nic_hangs(void)
{
	w.fence_hung[0] = true;
	break_rail_0(0);
	assert_true(w_settle(&w, 200));
	assert_int_equal(w_view(&w, 0).r, 1);
}

/* A READ whose data arrives, unsignaled, so that no completion says so. */
static void read_whose_data_came(uint32_t len)
{
	w_post_flags(&w, 0, SHIFT_OP_READ, len, 0);
	pass_packets(0, 0, 1);
	assert_true(w_ack(&w, 0, 0));
}

static void a_read_before_an_executed_fenced_wr_is_not_asked_again(void **state)
{
	static const uint8_t opcode[] = {SHIFT_OP_SEND,	     SHIFT_OP_WRITE, SHIFT_OP_WRITE_IMM,
					 SHIFT_OP_FETCH_ADD, SHIFT_OP_READ,  SHIFT_OP_SEND_IMM};

	(void)state;
	for (size_t i = 0; i < sizeof(opcode); i++) {
		const bool asked = opcode[i] == SHIFT_OP_READ;

		again(&(struct shift_conn_cfg){
			.exactly_once = true, .confirmed = true, .lost_atomic_continue = true});
		read_whose_data_came(3000);
		w_post_flags(&w, 0, opcode[i], 8, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
		pass_packets(0, 0, 1);
		nic_hangs();
		/* If the fenced one is a READ, its own data is what nobody can know of. */
		assert_int_equal(stats(0)->reissued_reads, asked);
		assert_int_equal(stats(0)->proved, asked ? 1 : 2);
		assert_int_equal(w.h[0].completed, 2);
	}
}

static void the_first_packet_of_a_fenced_wr_proves_the_read(void **state)
{
	(void)state;
	read_whose_data_came(3000);
	w_post_flags(&w, 0, SHIFT_OP_SEND, 3000, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	pass_packets(0, 0, 1);
	nic_hangs();
	assert_int_equal(stats(0)->reissued_reads, 0);
	assert_int_equal(stats(0)->replayed_partial, 1);
	assert_int_equal(w.h[0].completed, 2);
}

static void a_fenced_wr_behind_the_prefix_proves_no_read(void **state)
{
	(void)state;
	w_post_flags(&w, 0, SHIFT_OP_READ, 3000, 0);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post_flags(&w, 0, SHIFT_OP_SEND, 10, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	pass_packets(0, 0, 2);
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(stats(0)->proved, 1);
	assert_int_equal(w.h[0].completed, 3);
}

/* Its fence says nothing of what was posted after it. */
static void a_read_behind_a_fenced_wr_is_asked_again(void **state)
{
	(void)state;
	w_post_flags(&w, 0, SHIFT_OP_SEND, 10, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	w_post(&w, 0, SHIFT_OP_READ, 3000, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 3);
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].completed, 3);
}

/* It takes no packet itself, but what stands behind it was begun later. */
static void a_fenced_local_operation_before_an_executed_wr_proves_the_read(void **state)
{
	(void)state;
	for (uint32_t packets = 1; packets <= 3; packets += 2) { /* also if that is in part */
		again(&(struct shift_conn_cfg){.exactly_once = true, .confirmed = true});
		read_whose_data_came(3000);
		w_post_flags(&w, 0, SHIFT_OP_LOCAL_INV, 0, SHIFT_F_FENCE);
		w_post(&w, 0, SHIFT_OP_WRITE, 3000, true);
		pass_packets(0, 0, (int)packets);
		nic_hangs();
		assert_int_equal(stats(0)->reissued_reads, 0);
		assert_int_equal(w.h[0].completed, 3);
	}
}

/* A local operation takes no packet: nobody can know that it was begun. */
static void a_fenced_local_operation_proves_no_read(void **state)
{
	(void)state;
	w_post_flags(&w, 0, SHIFT_OP_READ, 3000, 0);
	w_post_flags(&w, 0, SHIFT_OP_LOCAL_INV, 0, SHIFT_F_FENCE);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 0, 1); /* the READ */
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].completed, 3);
}

static void an_atomic_before_an_executed_fenced_wr_has_its_result(void **state)
{
	(void)state;
	w_post_flags(&w, 0, SHIFT_OP_FETCH_ADD, 8, 0);
	w_post_flags(&w, 0, SHIFT_OP_SEND, 3000, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	pass_packets(0, 0, 2);
	w_ack(&w, 0, 0);
	nic_hangs();
	assert_int_equal(stats(0)->lost_atomics, 0);
	assert_int_equal(w.h[0].times[0], 1);
	assert_int_equal(w.h[0].completed, 2);
}

/* The READ is asked again on rail 1, and the fenced SEND posted again behind it. */
static void a_fenced_wr_that_was_posted_again_proves_the_read_there(void **state)
{
	(void)state;
	w_post_flags(&w, 0, SHIFT_OP_READ, 3000, 0);
	w_post_flags(&w, 0, SHIFT_OP_SEND, 10, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	pass_packets(0, 0, 1);
	w.data_cut[1] = true;
	break_rail_0(0);
	w_run(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(stats(0)->reissued_reads, 1);
	w.data_cut[1] = false;
	pass_packets(0, 1, 1);
	assert_true(w_ack(&w, 0, 1));
	w.h[0].cq_tail = w.h[0].cq_head; /* its completion is lost */
	pass_packets(0, 1, 1);
	w.fence_hung[0] = true;
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(stats(0)->replayed, 2);
	assert_int_equal(w.h[0].completed, 2);
}

/* Without a trusted rq_psn, too: what the receive count proves was executed in the order posted. */
static void a_fenced_send_that_had_its_receive_proves_the_read(void **state)
{
	(void)state;
	w.fence_unsure[1] = true;
	read_whose_data_came(3000);
	w_post_flags(&w, 0, SHIFT_OP_FETCH_ADD, 8, 0);
	pass_packets(0, 0, 1);
	w_post_flags(&w, 0, SHIFT_OP_SEND, 10, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	pass_packets(0, 0, 1);
	nic_hangs();
	assert_int_equal(stats(0)->at_least_once, 1);
	assert_int_equal(stats(0)->reissued_reads, 0);
	assert_int_equal(stats(0)->lost_atomics, 0);
	assert_int_equal(w.h[0].times[1], 1);
	assert_int_equal(w.h[0].completed, 3);
}

/* What a switch needs; no data moves. */
static void let_it_commit(void)
{
	do {
		finish_ops(0);
		finish_ops(1);
	} while (w_msg(&w, 0));
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
}

/* A fenced atomic that was perhaps executed proves nothing: it is given up in doubt (7.18). */
static void doubt_proves_no_read(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true};

	(void)state;
	cfg.lost_atomic_continue = true;
	again(&cfg);
	w.at_least_once_ok = true;
	w.fence_unsure[1] = true;
	w_post_flags(&w, 0, SHIFT_OP_READ, 3000, SHIFT_F_SIGNALED);
	w_post_flags(&w, 0, SHIFT_OP_FETCH_ADD, 8, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	fail_over(0);
	assert_int_equal(stats(0)->lost_atomics, 1);
	assert_int_equal(w.h[0].completed, 2);
	assert_int_equal(w.h[0].placed[0], 3000);
}

/* The same in the next switch. That the atomic is finished in the log still proves no READ,
 * although a SEND behind it was executed meanwhile. */
static void what_was_given_up_in_doubt_proves_no_read_later(void **state)
{
	struct shift_conn_cfg cfg = {.exactly_once = true, .confirmed = true};

	(void)state;
	cfg.lost_atomic_continue = true;
	again(&cfg);
	w.at_least_once_ok = true;
	w.fence_unsure[1] = true;
	w_post_flags(&w, 0, SHIFT_OP_READ, 3000, SHIFT_F_SIGNALED);
	w_post_flags(&w, 0, SHIFT_OP_FETCH_ADD, 8, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	break_rail_0(0);
	let_it_commit();
	assert_int_equal(w_view(&w, 0).r, 1);
	assert_int_equal(stats(0)->lost_atomics, 1);
	w.fence_unsure[1] = false;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	pass_packets(0, 1, 2); /* the READ is executed, and the SEND */
	fail_over(0);
	assert_int_equal(stats(0)->reissued_reads, 1);
	assert_int_equal(w.h[0].placed[0], 3000);
	assert_int_equal(w.h[0].completed, 3);
}

static void closing_proves_a_read_before_a_fenced_wr(void **state)
{
	(void)state;
	read_whose_data_came(3000);
	w_post_flags(&w, 0, SHIFT_OP_SEND, 10, SHIFT_F_FENCE | SHIFT_F_SIGNALED);
	pass_packets(0, 0, 1);
	w.fence_hung[0] = true;
	w_close(&w, 1, SHIFT_CLOSE_DESTROY);
	finish_ops(1);
	break_rail_0(0);
	w_run(&w, 20);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DEAD);
	assert_int_equal(stats(0)->reissued_reads, 0);
	assert_int_equal(stats(0)->proved, 2);
}

/* --- more packets than a PSN can count ----------------------------------------------------------
 */

/* n large WRITEs of host 0 are executed and acknowledged, faster than packet by packet. */
static void writes_arrive(int rail, int n)
{
	struct w_qp *from = &w.h[0].qp[rail], *to = &w.h[1].qp[rail];

	for (; n; n--) {
		struct w_wqe *e = &from->sq[from->tail % (4 * W_SQ)];

		assert_int_equal(e->opcode, SHIFT_OP_WRITE);
		assert_int_equal(to->rx_psn, e->first_psn);
		to->rx_psn = (to->rx_psn + e->packets) & 0xffffff;
		e->executed = e->packets;
		w.h[0].placed[e->id] = e->length;
		assert_true(w_ack(&w, 0, rail));
	}
}

static void run_until_active_on(int rail)
{
	for (int i = 0; i < 20; i++)
		if (w_state(&w, 0) != SHIFT_ST_ACTIVE || w_view(&w, 0).r != rail)
			w_run(&w, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	assert_int_equal(w_view(&w, 0).r, rail);
}

/* So many that each of their completions counts: 9 of them, and K is wrong by 2^24. */
enum { MANY_BYTES = 1 << 30, MANY = 9 };

static void packets_posted_while_held_are_counted(void **state)
{
	(void)state;
	w_event(&w, 0, SHIFT_EV_LINK_DOWN, 0);
	for (int i = 0; i < W_SQ; i++)
		assert_true(w_post(&w, 0, SHIFT_OP_WRITE, MANY_BYTES, false));
	w.data_cut[1] = w.data_cut[2] = true;
	run_until_active_on(1);			       /* 2^21 packets each */
	assert_int_equal(stats(0)->secret_signals, 6); /* half of them for the smaller MTU */
	writes_arrive(1, MANY);
	take_cqes(0);
	w.fence_hung[0] = true;
	assert_true(w_break(&w, 0, 1));
	run_until_active_on(2);
	writes_arrive(2, W_SQ - MANY); /* from the first byte, or bytes are written again */
	assert_true(w_settle(&w, 20));
}

/* Posts that were held go to the rail where they would have gone, as nothing came of the plan. */
static void packets_held_for_an_abandoned_plan_are_counted(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_FETCH_ADD, 8, true);
	w.data_cut[0] = w.data_cut[1] = true;
	w_event(&w, 0, SHIFT_EV_MIGRATE, 1);
	w_run(&w, 0);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	for (int i = 1; i < W_SQ; i++)
		assert_true(w_post(&w, 0, SHIFT_OP_WRITE, 2u * MANY_BYTES, false));
	for (int i = 0; i < 5 && w_state(&w, 0) == SHIFT_ST_DRAIN; i++)
		w_run(&w, 1);
	assert_int_equal(stats(0)->abandoned, 1);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_ACTIVE);
	w.data_cut[0] = false;
	pass_packets(0, 0, 1);
	assert_true(w_ack(&w, 0, 0));
	writes_arrive(0, MANY);
	take_cqes(0);
	w.data_cut[0] = true;
	w.fence_hung[0] = true;
	break_rail_0(0);
	run_until_active_on(1);
	assert_int_equal(w_view(&w, 0).send_tail, 1 + MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(lost_ack_of_a_send),
		WORLD_TEST(a_write_resumes_where_it_was_cut),
		WORLD_TEST(a_local_operation_before_a_wr_in_part_is_done),
		WORLD_TEST(a_send_cut_in_the_middle_is_replayed_whole),
		WORLD_TEST(a_read_without_its_data_is_asked_again),
		WORLD_TEST(a_reissued_read_survives_the_next_failure),
		WORLD_TEST(a_lost_atomic_is_terminal),
		WORLD_TEST(a_read_before_a_lost_atomic_still_completes),
		WORLD_TEST(a_lost_atomic_may_continue),
		WORLD_TEST(unsignaled_wrs_complete_silently),
		WORLD_TEST(a_stale_rq_psn_fails_visibly),
		WORLD_TEST(psn_and_receive_count_must_agree),
		WORLD_TEST(an_untrusted_nic_gives_at_least_once),
		WORLD_TEST(exactly_once_can_be_switched_off),
		WORLD_TEST(a_read_before_an_executed_fenced_wr_is_not_asked_again),
		WORLD_TEST(the_first_packet_of_a_fenced_wr_proves_the_read),
		WORLD_TEST(a_fenced_wr_behind_the_prefix_proves_no_read),
		WORLD_TEST(a_read_behind_a_fenced_wr_is_asked_again),
		WORLD_TEST(a_fenced_local_operation_before_an_executed_wr_proves_the_read),
		WORLD_TEST(a_fenced_local_operation_proves_no_read),
		WORLD_TEST(an_atomic_before_an_executed_fenced_wr_has_its_result),
		WORLD_TEST(a_fenced_wr_that_was_posted_again_proves_the_read_there),
		WORLD_TEST(a_fenced_send_that_had_its_receive_proves_the_read),
		WORLD_TEST(doubt_proves_no_read),
		WORLD_TEST(what_was_given_up_in_doubt_proves_no_read_later),
		WORLD_TEST(closing_proves_a_read_before_a_fenced_wr),
		WORLD_TEST(packets_posted_while_held_are_counted),
		WORLD_TEST(packets_held_for_an_abandoned_plan_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
