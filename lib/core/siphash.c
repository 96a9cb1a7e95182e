/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * SipHash-2-4 after J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF" (2012),
 * section 2.
 */
#include "lib/core/psn.h"
#include "lib/core/siphash.h"

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate_left(s->v1, 13) ^ s->v0;
	s->v3 = rotate_left(s->v3, 16) ^ s->v2;
	s->v0 = rotate_left(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate_left(s->v1, 17) ^ s->v2;
	s->v3 = rotate_left(s->v3, 21) ^ s->v0;
	s->v2 = rotate_left(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t m)
{
	s->v3 ^= m;
	sip_round(s);
	sip_round(s);
	s->v0 ^= m;
}

static uint64_t load_le(const uint8_t *p, size_t n)
{
	uint64_t x = 0;

	for (size_t i = 0; i < n; i++)
		x |= (uint64_t)p[i] << (8 * i);
	return x;
}

uint64_t shift_siphash(const uint64_t key[2], const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t whole = len & ~(size_t)7;
	struct sip s = {
		.v0 = key[0] ^ 0x736f6d6570736575u, /* "somepseudorandomlygeneratedbytes" */
		.v1 = key[1] ^ 0x646f72616e646f6du,
		.v2 = key[0] ^ 0x6c7967656e657261u,
		.v3 = key[1] ^ 0x7465646279746573u,
	};

	for (size_t i = 0; i < whole; i += 8)
		sip_word(&s, load_le(p + i, 8));
	sip_word(&s, (uint64_t)(len & 0xff) << 56 | load_le(p + whole, len - whole));
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint32_t shift_h24(const uint64_t key[2], uint64_t conn, uint32_t epoch, unsigned int side)
{
	uint8_t in[13];

	for (unsigned int i = 0; i < 8; i++)
		in[i] = (uint8_t)(conn >> (8 * i));
	for (unsigned int i = 0; i < 4; i++)
		in[8 + i] = (uint8_t)(epoch >> (8 * i));
	in[12] = (uint8_t)side;
	return (uint32_t)shift_siphash(key, in, sizeof(in)) & SHIFT_PSN_MASK;
}
