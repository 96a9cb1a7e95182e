/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "lib/core/psn.h"
#include "lib/core/siphash.h"

static uint64_t rng = 88172645463325252u;

static uint64_t rnd(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % n;
}

static void packets(void **state)
{
	(void)state;
	assert_int_equal(shift_psn_packets(SHIFT_OP_SEND, 0, 1024), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_SEND, 1, 1024), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_WRITE, 1024, 1024), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_WRITE, 1025, 1024), 2);
	assert_int_equal(shift_psn_packets(SHIFT_OP_WRITE_IMM, 0, 256), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_READ, 0, 4096), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_READ, 4096 * 3 + 1, 4096), 4);
	assert_int_equal(shift_psn_packets(SHIFT_OP_CMP_SWAP, 8, 256), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_FETCH_ADD, 8, 256), 1);
	assert_int_equal(shift_psn_packets(SHIFT_OP_LOCAL_INV, 0, 256), 0);
	assert_int_equal(shift_psn_packets(SHIFT_OP_BIND_MW, 4096, 256), 0);
	assert_int_equal(shift_psn_packets(SHIFT_OP_WRITE, 0x80000000u, 256), 1u << 23);
	assert_int_equal(shift_psn_packets(200, 9, 256), 0);
}

/* The naive model counts packets in 64 bits and keeps the PSN beside it, one packet at a time. */
static void against_naive_model(void **state)
{
	(void)state;
	for (int round = 0; round < 200; round++) {
		uint32_t first = (uint32_t)rnd(1 << 24), psn = first;
		uint64_t acked = rnd(1ull << 40), posted = acked + rnd(1 << 24), k;
		uint64_t stop = acked + rnd(posted - acked + 1);

		psn = (uint32_t)((first + acked) % (1u << 24));
		for (uint64_t n = acked; n < stop && n < acked + 5000; n++)
			psn = psn == SHIFT_PSN_MASK ? 0 : psn + 1;
		if (stop > acked + 5000)
			stop = acked + 5000;
		assert_int_equal(psn, shift_psn_add(first, stop));
		assert_int_equal(shift_psn_unwrap(psn, first, acked, posted, &k), 0);
		assert_true(k == stop);
	}
}

static void window_edges(void **state)
{
	uint64_t k = 42;

	(void)state;
	/* Nothing outstanding: only the PSN itself will do. */
	assert_int_equal(shift_psn_unwrap(5, 5, 0, 0, &k), 0);
	assert_true(k == 0);
	assert_int_equal(shift_psn_unwrap(6, 5, 0, 0, &k), -ERANGE);
	assert_true(k == 0);
	/* A PSN behind what is acknowledged is a stale rq_psn, not 2^24 packets. */
	assert_int_equal(shift_psn_unwrap(9, 0, 10, 1000, &k), -ERANGE);
	/* Across the wrap. */
	assert_int_equal(shift_psn_unwrap(1, 0xfffffe, 0, 5, &k), 0);
	assert_true(k == 3);
	assert_int_equal(shift_psn_sub(1, 0xffffff), 2);
	assert_int_equal(shift_psn_unwrap(0xffffff, 0, 0, (1 << 24) - 1, &k), 0);
	assert_true(k == (1 << 24) - 1);
}

/* Appendix A of the paper: key 00..0f, data 00..0e. */
static void siphash_vector(void **state)
{
	const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
	uint8_t data[15];

	(void)state;
	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	assert_true(shift_siphash(key, data, sizeof(data)) == 0xa129ca6149be45e5u);
}

static void h24_separates(void **state)
{
	const uint64_t key[2] = {1, 2};
	uint32_t same = 0;

	(void)state;
	for (uint32_t e = 1; e < 2000; e++) {
		uint32_t a = shift_h24(key, 7, e, 0);

		assert_true(a <= SHIFT_PSN_MASK);
		assert_int_equal(a, shift_h24(key, 7, e, 0));
		same += a == shift_h24(key, 7, e, 1);
		same += a == shift_h24(key, 7, e + 1, 0);
		same += a == shift_h24(key, 8, e, 0);
	}
	assert_true(same < 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets),	 cmocka_unit_test(against_naive_model),
		cmocka_unit_test(window_edges),	 cmocka_unit_test(siphash_vector),
		cmocka_unit_test(h24_separates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
