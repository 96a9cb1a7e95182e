/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The time of faults. It goes on while the machine is suspended (CLOCK_BOOTTIME): a fault of two
 * seconds is over when the machine wakes up an hour later, as its user would expect. poll() alone
 * would wait for the rest, as its time stands still meanwhile; a timer is late by nothing.
 */
#include <poll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "faultinject/inject.h"

enum { FDS_MAX = 4, LONGEST_MS = 1000000, BLIND_MS = 100 };

int64_t inject_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int timer_at(int64_t at_ms)
{
	struct itimerspec t = {.it_value = {at_ms / 1000, at_ms % 1000 * 1000000}};
	int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0 && timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL)) {
		close(fd);
		return -1;
	}
	return fd;
}

void inject_poll(struct pollfd *fds, int count, int64_t at_ms)
{
	struct pollfd all[FDS_MAX + 1];
	int timer = -1, ms = -1;

	for (int i = 0; i < count && i < FDS_MAX; i++)
		all[i] = fds[i];
	if (at_ms != INJECT_NEVER) {
		int64_t left = at_ms - inject_now_ms();

		timer = left > 0 ? timer_at(at_ms) : -1;
		/* Without a timer, for want of a descriptor, it looks often. */
		ms = left <= 0	       ? 0
		     : timer >= 0      ? LONGEST_MS
		     : left < BLIND_MS ? (int)left
				       : BLIND_MS;
	}
	all[count] = (struct pollfd){.fd = timer, .events = POLLIN};
	if (poll(all, (nfds_t)count + 1, ms) < 0)
		for (int i = 0; i < count; i++)
			all[i].revents = 0;
	for (int i = 0; i < count; i++)
		fds[i].revents = all[i].revents;
	if (timer >= 0)
		close(timer);
}
