/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The same random numbers everywhere, where no libFuzzer chooses. */
#ifndef SHIFT_FUZZ_RND_H
#define SHIFT_FUZZ_RND_H

#include <stdint.h>

static uint64_t rng; /* not 0 */

static inline uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 32) % n;
}

#endif
