/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The actions as the caller gets them: their fields, their order, how many there may be. */
#include <string.h>

#include "lib/core/psn.h"
#include "lib/core/siphash.h"
#include "tests/unit/planned.h"

static struct shift_action act[SHIFT_ACTIONS_MAX];
static uint32_t acts;

/* One event at host 0, and nobody does as it asks. */
static void take_actions(const struct shift_event *ev)
{
	acts = 0;
	shift_conn_event(w.h[0].c, ev, w.now);
	memset(act, 0xff, sizeof(act));
	while (shift_conn_action(w.h[0].c, &act[acts]))
		acts++;
	assert_false(shift_conn_action(w.h[0].c, &act[0]));
}

static void actions_of(enum shift_event_type type, int rail, uint32_t epoch)
{
	take_actions(&(struct shift_event){.type = (uint8_t)type,
					   .rail = (uint8_t)rail,
					   .epoch = epoch,
					   .psn = 0xfffffe,
					   .clean = true});
}

/* All of it but the message; fields that the kind does not have are 0. */
static void is_action(uint32_t i, const struct shift_action *want)
{
	assert_in_range(i, 0, acts - 1);
	assert_int_equal(act[i].type, want->type);
	assert_int_equal(act[i].rail, want->rail);
	assert_int_equal(act[i].from, want->from);
	assert_int_equal(act[i].to, want->to);
	assert_int_equal(act[i].reason, want->reason);
	assert_int_equal(act[i].epoch, want->epoch);
	assert_int_equal(act[i].tx_psn, want->tx_psn);
	assert_int_equal(act[i].rx_psn, want->rx_psn);
	assert_int_equal(act[i].serial, want->serial);
	assert_int_equal(act[i].first, want->first);
	assert_int_equal(act[i].count, want->count);
}

#define IS(i, ...) is_action(i, &(struct shift_action){__VA_ARGS__})

#define REPORTS(i, r, e, before, after, why)                                              \
	IS(i, .type = SHIFT_ACT_REPORT, .rail = r, .epoch = e, .from = SHIFT_ST_##before, \
	   .to = SHIFT_ST_##after, .reason = SHIFT_R_##why)

/* A failover from its trigger to its commit, as the peer would see it from inside. */
static void each_action_of_a_failover(void **state)
{
	const uint64_t key[2] = {7, 0};
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_SWITCH,
			      .rail = 1,
			      .epoch = 2,
			      .recv_valid = 1,
			      .rep_psn = 0x10};

	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	actions_of(SHIFT_EV_LINK_DOWN, 0, 0);
	assert_int_equal(acts, 4);
	IS(0, .type = SHIFT_ACT_HOLD);
	REPORTS(1, 0, 0, ACTIVE, FENCE, LINK_DOWN);
	IS(2, .type = SHIFT_ACT_SEND_MSG, .rail = 1);
	assert_int_equal(act[2].msg.fence, SHIFT_FENCE_LEAVING);
	IS(3, .type = SHIFT_ACT_FENCE);
	actions_of(SHIFT_EV_FENCE_DONE, 0, 0);
	assert_int_equal(acts, 2);
	REPORTS(0, 0, 0, FENCE, ARM, FENCED);
	IS(1, .type = SHIFT_ACT_ARM, .rail = 1, .epoch = 2, .tx_psn = shift_h24(key, 99, 2, 0),
	   .rx_psn = shift_h24(key, 99, 2, 1));
	actions_of(SHIFT_EV_ARM_DONE, 1, 2);
	assert_int_equal(acts, 3);
	IS(0, .type = SHIFT_ACT_POST_RECV, .rail = 1, .epoch = 2, .count = W_READY_RECVS);
	REPORTS(1, 1, 2, ARM, SWITCHING, ARMED);
	IS(2, .type = SHIFT_ACT_SEND_MSG, .rail = 1);
	take_actions(&(struct shift_event){.type = SHIFT_EV_MSG, .rail = 1, .msg = &m});
	assert_int_equal(acts, 4);
	IS(0, .type = SHIFT_ACT_SEND_MSG, .rail = 1); /* it has not heard us */
	REPORTS(1, 1, 2, SWITCHING, ACTIVE, COMMIT);
	IS(2, .type = SHIFT_ACT_POST_SEND, .rail = 1, .epoch = 2, .count = 2);
	IS(3, .type = SHIFT_ACT_RELEASE, .rail = 1);
}

/* Held is held: the caller is told once. */
static void hold_is_said_once(void **state)
{
	(void)state;
	w_post(&w, 0, SHIFT_OP_SEND, 10, true);
	peer_says(0, SHIFT_MSG_PREPARE, 1, 1, 800);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_DRAIN);
	actions_of(SHIFT_EV_LINK_DOWN, 0, 0);
	for (uint32_t i = 0; i < acts; i++)
		assert_int_not_equal(act[i].type, SHIFT_ACT_HOLD);
	actions_of(SHIFT_EV_PEER_DIED, 0, 0);
	for (uint32_t i = 0; i < acts; i++)
		assert_int_not_equal(act[i].type, SHIFT_ACT_HOLD);
}

/* Each message lies between us and the peer; the question is answered under its serial. */
static void a_question_is_passed_to_the_nic(void **state)
{
	struct shift_msg m = {.src_nonce = 101,
			      .dst_nonce = 100,
			      .src_conn = 11,
			      .dst_conn = 10,
			      .type = SHIFT_MSG_QUERY_PSN,
			      .serial = 4711};

	(void)state;
	take_actions(&(struct shift_event){.type = SHIFT_EV_MSG, .rail = 2, .msg = &m});
	assert_int_equal(acts, 1);
	IS(0, .type = SHIFT_ACT_QUERY_PSN, .serial = 4711);
	take_actions(&(struct shift_event){.type = SHIFT_EV_PSN, .psn = 0x123456, .serial = 4711});
	assert_int_equal(acts, 1);
	IS(0, .type = SHIFT_ACT_SEND_MSG, .rail = 2); /* where it came from */
	assert_int_equal(act[0].msg.type, SHIFT_MSG_PSN);
	assert_int_equal(act[0].msg.serial, 4711);
	assert_int_equal(act[0].msg.rep_psn, 0x123456);
	assert_int_equal(act[0].msg.recv_avail, W_READY_RECVS);
	assert_int_equal(act[0].msg.src_nonce, 100);
	assert_int_equal(act[0].msg.dst_nonce, 101);
	assert_int_equal(act[0].msg.src_conn, 10);
	assert_int_equal(act[0].msg.dst_conn, 11);
}

/* In SETUP messages that exceed the bound are lost and repeated; nothing else happens. */
static void an_overflow_in_setup_ends_nothing(void **state)
{
	static const struct shift_conn_cfg unconfirmed = {.exactly_once = true};
	uint32_t lost = 3;

	(void)state;
	again(&unconfirmed);
	w_event(&w, 0, SHIFT_EV_RTS, 0);
	w.overflow_ok = true;
	for (uint32_t i = 0; i < SHIFT_ACTIONS_USUAL + lost; i++) {
		struct shift_event tick = {.type = SHIFT_EV_TICK};

		w.now = shift_conn_deadline(w.h[0].c);
		shift_conn_event(w.h[0].c, &tick, w.now);
	}
	assert_int_equal(stats(0)->overflow, lost);
	assert_int_equal(w_state(&w, 0), SHIFT_ST_SETUP);
	w.msgs = 0;
	w_tick(&w, 0);
	assert_int_equal(w.msgs, SHIFT_ACTIONS_USUAL);
	assert_true(shift_conn_deadline(w.h[0].c) > w.now);
	w_event(&w, 1, SHIFT_EV_RTS, 0);
	w_run(&w, 2);
	assert_true(w_view(&w, 0).protected_);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(each_action_of_a_failover),
		WORLD_TEST(hold_is_said_once),
		WORLD_TEST(a_question_is_passed_to_the_nic),
		WORLD_TEST(an_overflow_in_setup_ends_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
