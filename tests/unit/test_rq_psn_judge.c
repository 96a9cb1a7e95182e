// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* What a round of WRITEs and a fence prove of rq_psn (lib/nic/rq_psn_judge.c); the NIC is a copy
 * of memory, packet by packet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/core/psn.h"
#include "lib/nic/rq_psn.h"

enum { MTU = 1024, MTU_MAX = 4096, IDLE = 16 };

static uint64_t source[RQ_PSN_PARTS * MTU_MAX / 8 + RQ_PSN_WRITES],
	sink[RQ_PSN_PARTS * MTU_MAX / 8];

/* --- a NIC ----------------------------------------------------------------------------------- */

static unsigned int packets(unsigned int write, uint32_t mtu)
{
	uint32_t bytes = rq_psn_bytes(write, mtu);

	return bytes ? (bytes + mtu - 1) / mtu : 1;
}

static unsigned int packets_before(unsigned int write, uint32_t mtu)
{
	unsigned int n = 0;

	while (write--)
		n += packets(write, mtu);
	return n;
}

static void execute_packet(unsigned int write, unsigned int part, uint32_t mtu)
{
	uint32_t left = rq_psn_bytes(write, mtu) - part * mtu;

	memcpy((char *)sink + (size_t)part * mtu, (char *)(source + write) + (size_t)part * mtu,
	       left < mtu ? left : mtu);
}

/* Of which WRITE the nth packet is. */
static unsigned int write_of(unsigned int n, uint32_t mtu)
{
	unsigned int write = 0;

	for (; n >= packets(write, mtu); write++)
		n -= packets(write, mtu);
	return write;
}

static void look(struct rq_psn_facts *f)
{
	for (unsigned int i = 0; i < RQ_PSN_PARTS; i++)
		f->seen[i] = sink[i * f->mtu / 8];
}

/* The first n packets were executed, and rq_psn is right. */
static struct rq_psn_facts after(unsigned int n, uint32_t first, uint32_t mtu)
{
	struct rq_psn_facts f = {.mtu = mtu,
				 .first = first,
				 .armed = first,
				 .idle = shift_psn_add(first, packets_before(IDLE, mtu)),
				 .idle_writes = IDLE,
				 .acked = IDLE,
				 .posted = RQ_PSN_WRITES};

	memset(sink, 0, sizeof(sink));
	for (size_t i = 0; i < sizeof(source) / sizeof(*source); i++)
		source[i] = i + 1;
	for (unsigned int i = 0; i < n; i++) {
		unsigned int write = write_of(i, mtu);

		execute_packet(write, i - packets_before(write, mtu), mtu);
	}
	f.stopped = f.later = shift_psn_add(first, n);
	look(&f);
	return f;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void a_live_one_wherever_it_is_cut(void **state)
{
	static const uint32_t mtus[] = {256, 1024, 4096};
	static const uint32_t firsts[] = {0, 77, SHIFT_PSN_MASK, SHIFT_PSN_MASK - 40};

	(void)state;
	for (unsigned int m = 0; m < 3; m++)
		for (unsigned int i = 0; i < 4; i++)
			for (unsigned int n = packets_before(IDLE, mtus[m]);
			     n <= packets_before(RQ_PSN_WRITES, mtus[m]); n++) {
				struct rq_psn_facts f = after(n, firsts[i], mtus[m]);
				const char *why = rq_psn_contradiction(&f);

				if (why)
					fail_msg("MTU %u, %u packets: %s", mtus[m], n, why);
			}
}

static void lengths_of_every_kind(void **state)
{
	unsigned int one = 0, many = 0, none = 0, begun = 0;

	(void)state;
	for (unsigned int i = 0; i < RQ_PSN_WRITES; i++) {
		uint32_t bytes = rq_psn_bytes(i, MTU);

		none += !bytes;
		one += bytes && bytes < MTU;
		many += bytes == RQ_PSN_PARTS * MTU;
		begun += bytes > MTU && bytes % MTU;
		assert_true(bytes <= RQ_PSN_PARTS * MTU);
	}
	assert_true(one && many && none && begun);
}

/* A WRITE without data leaves no trace: a packet more or less of these is not noticed. */
static void one_packet_too_many_or_too_few(void **state)
{
	unsigned int noticed = 0;

	(void)state;
	for (unsigned int n = packets_before(IDLE, MTU); n < packets_before(RQ_PSN_WRITES, MTU);
	     n++) {
		struct rq_psn_facts f = after(n, 5, MTU);
		bool traceless = !rq_psn_bytes(write_of(n, MTU), MTU);

		f.stopped = f.later = shift_psn_add(f.stopped, 1);
		assert_int_equal(!rq_psn_contradiction(&f), traceless);
		noticed += !traceless;
		f = after(n + 1, 5, MTU);
		f.stopped = f.later = shift_psn_add(f.stopped, -1);
		assert_int_equal(!rq_psn_contradiction(&f), traceless);
	}
	assert_true(noticed > RQ_PSN_WRITES);
}

static void a_copy_of_what_was_set(void **state)
{
	struct rq_psn_facts f = after(100, 1000, MTU);

	(void)state;
	f.idle = f.stopped = f.later = 1000;
	assert_non_null(rq_psn_contradiction(&f));
	f.idle_writes = f.acked = 0; /* not even when nothing was waited for */
	assert_non_null(rq_psn_contradiction(&f));
	f = after(100, 1000, MTU);
	f.armed = 0;
	assert_non_null(rq_psn_contradiction(&f));
}

/* Right while it works, and not in ERR. */
static void lost_with_the_error(void **state)
{
	struct rq_psn_facts f = after(100, 1000, MTU);

	(void)state;
	f.stopped = f.later = 0;
	assert_non_null(rq_psn_contradiction(&f));
	f.stopped = f.later = 1000;
	assert_non_null(rq_psn_contradiction(&f));
	f.stopped = f.later = f.idle;
	assert_non_null(rq_psn_contradiction(&f));
}

static void not_at_rest_behind_the_fence(void **state)
{
	struct rq_psn_facts f = after(100, 1000, MTU);

	(void)state;
	f.stopped = shift_psn_add(f.later, -1);
	assert_non_null(rq_psn_contradiction(&f));
}

static void out_of_bounds(void **state)
{
	struct rq_psn_facts f = after(100, 1000, MTU);

	(void)state;
	f.acked = write_of(100, MTU) + 1; /* more than rq_psn says was executed */
	assert_non_null(rq_psn_contradiction(&f));
	f = after(100, 1000, MTU);
	f.posted = write_of(99, MTU);
	assert_non_null(rq_psn_contradiction(&f));
	f = after(packets_before(RQ_PSN_WRITES, MTU), 1000, MTU);
	f.stopped = f.later = shift_psn_add(f.stopped, 1);
	assert_non_null(rq_psn_contradiction(&f));
}

/* Packets were placed out of order: no number of packets describes that. */
static void memory_that_no_prefix_leaves(void **state)
{
	struct rq_psn_facts f = after(packets_before(33, MTU), 1000, MTU);

	(void)state;
	assert_null(rq_psn_contradiction(&f));
	execute_packet(33, 2, MTU); /* its last packet, without those before */
	look(&f);
	assert_non_null(rq_psn_contradiction(&f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_live_one_wherever_it_is_cut),
		cmocka_unit_test(lengths_of_every_kind),
		cmocka_unit_test(one_packet_too_many_or_too_few),
		cmocka_unit_test(a_copy_of_what_was_set),
		cmocka_unit_test(lost_with_the_error),
		cmocka_unit_test(not_at_rest_behind_the_fence),
		cmocka_unit_test(out_of_bounds),
		cmocka_unit_test(memory_that_no_prefix_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
