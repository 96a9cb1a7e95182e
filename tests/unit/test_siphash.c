/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* SipHash-2-4 and the PSNs made of it, against values that another writing of it has made
 * (openssl mac ... SIPHASH). Both ends must compute the same, whatever their byte order. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lib/core/msg.h"
#include "lib/core/psn.h"
#include "lib/core/siphash.h"

/* Bytes 00..0f */
static const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

/* Of the data 00, 01, ... of that length. */
static void siphash_of_each_length(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} want[] = {
		{0, 0x726fdb47dd0e0e31u},   {1, 0x74f839c593dc67fdu},	{2, 0x0d6c8009d9a94f5au},
		{7, 0xab0200f58b01d137u},   {8, 0x93f5f5799a932462u},	{9, 0x9e0082df0ba9e4b0u},
		{15, 0xa129ca6149be45e5u},  {16, 0x3f2acc7f57c29bdbu},	{63, 0x958a324ceb064572u},
		{255, 0xa9c169fec74db21au}, {256, 0x999d0526d2a7bfd7u}, {257, 0x8a817b8d55b29748u},
	};
	uint8_t data[257];

	(void)state;
	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	for (unsigned int i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_true(shift_siphash(key, data, want[i].len) == want[i].hash);
		assert_true(shift_msg_siphash(key, data, want[i].len) == want[i].hash);
	}
}

/* Rule 7: of the connection's number, the epoch and the side, each with all its bits. */
static void h24_has_these_values(void **state)
{
	static const struct {
		uint64_t conn;
		uint32_t epoch;
		unsigned int side;
		uint32_t psn;
	} want[] = {
		{0x63u, 0x1u, 0, 0xeb9b94},	  {0x63u, 0x1u, 1, 0x13935f},
		{0x63u, 0x101u, 0, 0x4ba4fc},	  {0x63u, 0x10001u, 0, 0x0c52e6},
		{0x63u, 0x1000001u, 0, 0xb99d65}, {0xfedcba9876543210u, 0x89abcdefu, 1, 0x599f87},
		{0x0u, 0x0u, 0, 0x5e2e82},
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(shift_h24(key, want[i].conn, want[i].epoch, want[i].side),
				 want[i].psn);
}

/* No bit of what goes in is left out: connections, epochs and sides do not share their PSNs. */
static void each_bit_moves_the_psn(void **state)
{
	uint32_t first = shift_h24(key, 99, 1, 0);

	(void)state;
	for (unsigned int bit = 0; bit < 64; bit++) {
		const uint64_t key_0[2] = {key[0] ^ 1ull << bit, key[1]};
		const uint64_t key_1[2] = {key[0], key[1] ^ 1ull << bit};

		assert_int_not_equal(shift_h24(key, 99 ^ 1ull << bit, 1, 0), first);
		assert_int_not_equal(shift_h24(key_0, 99, 1, 0), first);
		assert_int_not_equal(shift_h24(key_1, 99, 1, 0), first);
	}
	for (unsigned int bit = 0; bit < 32; bit++)
		assert_int_not_equal(shift_h24(key, 99, 1 ^ 1u << bit, 0), first);
	assert_int_not_equal(shift_h24(key, 99, 1, 1), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_of_each_length),
		cmocka_unit_test(h24_has_these_values),
		cmocka_unit_test(each_bit_moves_the_psn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
