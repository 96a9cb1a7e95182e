/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Random numbers of a seed, the same on every machine. */
#ifndef SHIFT_TESTS_COLLSIM_RNG_H
#define SHIFT_TESTS_COLLSIM_RNG_H

#include <math.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

/* splitmix64: each state gives another number, so any seed will do. */
static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* A number that depends on a and b only. */
static inline uint64_t rng_mix(uint64_t a, uint64_t b)
{
	struct rng r = {a * 0x2545f4914f6cdd1du + b};

	return rng_next(&r);
}

/* At least 0, below 1. */
static inline double rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

static inline double rng_between(struct rng *r, double low, double high)
{
	return low + (high - low) * rng_unit(r);
}

/* 0 to n - 1. */
static inline int rng_below(struct rng *r, int n)
{
	return (int)(rng_next(r) % (uint64_t)n);
}

/* About a normal distribution, within three standard deviations: sums of 12, clipped. */
static inline double rng_normal(struct rng *r)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += rng_unit(r);
	return fmax(-3, fmin(3, sum));
}

#endif
