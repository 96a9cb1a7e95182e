/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams that a control link refuses, and what it says about them. There is no NIC. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/base/log.h"
#include "lib/base/real_verbs.h"
#include "lib/nic/ctrl_link_int.h"

enum { NONCE = 0xa, PEER_NONCE = 0xb };

struct real_verbs real;

static struct nic nic = {.name = "mlx5_0"};
static struct ctrl_link *l;
static struct ctrl_link_peer *peer;
static unsigned int warnings, records;
static char warning[512];

void log_at(enum log_level level, const char *format, ...)
{
	va_list args;

	if (level != LOG_WARN)
		return;
	va_start(args, format);
	vsnprintf(warning, sizeof(warning), format, args);
	va_end(args);
	warnings++;
}

static void take_record(struct nic *from, const struct shift_msg *m)
{
	(void)from;
	(void)m;
	records++;
}

static int begin(void **state)
{
	const uint64_t key[2] = {1, 2};
	struct ctrl_link_addr addr = {.gid.raw = {0xfe, 0x80, [15] = 9}};

	(void)state;
	l = ctrl_link_at(0);
	l->nic = &nic;
	memset(&l->stats, 0, sizeof(l->stats));
	ctrl_link_set_identity(NONCE, key);
	ctrl_link_on_message(take_record);
	peer = ctrl_link_peer_new(&nic, &addr, PEER_NONCE);
	warnings = records = 0;
	return 0;
}

/* A HELLO of a peer; version 0: of ours. */
static void receive(uint64_t nonce, uint8_t version)
{
	const uint64_t key[2] = {1, 2};
	struct shift_msg m = {.type = SHIFT_MSG_HELLO};
	struct shift_msg_writer w;
	uint8_t buf[256];

	shift_msg_begin(&w, buf, sizeof(buf), nonce, NONCE);
	shift_msg_add(&w, &m);
	if (version)
		buf[4] = version;
	ctrl_link_received(l, buf, shift_msg_end(&w, shift_msg_siphash, key));
}

static struct ctrl_link_stats stats(void)
{
	struct ctrl_link_stats s;

	ctrl_link_stats(&nic, &s);
	return s;
}

static void our_version_is_taken(void **state)
{
	(void)state;
	receive(PEER_NONCE, 0);
	assert_int_equal(records, 1);
	assert_int_equal(stats().refused, 0);
}

/* Also one with the right tag. */
static void an_older_one_is_refused_and_said_once(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		receive(PEER_NONCE, 1);
	assert_int_equal(records, 0);
	assert_int_equal(stats().refused, 3);
	assert_int_equal(stats().other_version, 3);
	assert_int_equal(warnings, 1);
	assert_string_equal(warning,
			    "mlx5_0: the peer fe80::9 speaks version 1 of the control messages, we "
			    "speak 3: connections with it are not protected; update shift there");
}

static void a_newer_one_is_for_us_to_learn(void **state)
{
	(void)state;
	receive(PEER_NONCE, 4);
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(warning, "update shift here"));
}

/* It may be no shift at all, and nobody here is connected to it. */
static void a_stranger_is_only_counted(void **state)
{
	(void)state;
	receive(PEER_NONCE + 1, 1);
	assert_int_equal(stats().other_version, 1);
	assert_int_equal(warnings, 0);
}

static int end(void **state)
{
	(void)state;
	l->peers = peer->next;
	free(peer); /* there is no resolver that would */
	return 0;
}

/* Its address handle is made anew. */
static void a_peer_that_listens_elsewhere_is_followed(void **state)
{
	struct ctrl_link_addr addr = {.gid.raw = {0xfe, 0x80, [15] = 10}, .qpn = 7};

	(void)state;
	peer->ah_stale = false;
	ctrl_link_peer_move(peer, &addr);
	assert_memory_equal(&peer->addr, &addr, sizeof(addr));
	assert_true(peer->ah_stale);
}

/* --- RESET of a QP of ours ------------------------------------------------------------------- */

static enum ibv_qp_state states[4];
static unsigned int modified;

/* In RESET already, it refuses ERR. */
static int nic_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	assert_true(modified < 4);
	states[modified++] = attr->qp_state;
	if (qp->state == IBV_QPS_RESET && attr->qp_state == IBV_QPS_ERR)
		return EINVAL;
	qp->state = attr->qp_state;
	return 0;
}

static void reset_from(enum ibv_qp_state state)
{
	struct ibv_qp qp = {.state = state};

	modified = 0;
	real.modify_qp = nic_modify_qp;
	assert_int_equal(nic_reset_qp(&nic, &qp), 0);
	assert_int_equal(qp.state, IBV_QPS_RESET);
}

/* RESET alone may cost the NIC: doc/soft-roce.md. */
static void soft_roce_goes_to_err_before_reset(void **state)
{
	(void)state;
	nic.is_rxe = true;
	reset_from(IBV_QPS_RTS);
	assert_int_equal(modified, 2);
	assert_int_equal(states[0], IBV_QPS_ERR);
	reset_from(IBV_QPS_RESET);
	nic.is_rxe = false;
	reset_from(IBV_QPS_RTS);
	assert_int_equal(modified, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(our_version_is_taken),
		TEST(an_older_one_is_refused_and_said_once),
		TEST(a_newer_one_is_for_us_to_learn),
		TEST(a_stranger_is_only_counted),
		TEST(a_peer_that_listens_elsewhere_is_followed),
		TEST(soft_roce_goes_to_err_before_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
