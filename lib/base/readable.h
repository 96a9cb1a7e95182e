/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Waiting for a descriptor of the program's for a bounded time. Header only, no locks. */
#ifndef SHIFT_BASE_READABLE_H
#define SHIFT_BASE_READABLE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* A clock that goes while the thread waits in poll(2), from no particular moment. */
static inline uint64_t readable_clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline bool readable_now(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* false: it is not readable at that time of the clock. No signal ends it before. */
static inline bool readable_until(int fd, uint64_t until_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t now;

	while ((now = readable_clock_ms()) < until_ms)
		if (poll(&p, 1, (int)(until_ms - now)) == 1)
			return true;
	return false;
}

#endif
