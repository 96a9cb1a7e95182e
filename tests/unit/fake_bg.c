/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#include "lib/base/background.h"
#include "tests/unit/fake_bg.h"

enum { WATCHES = 64, TIMERS = 8 };

static struct watch {
	bool used;
	int fd;
	void (*fn)(void *arg, uint32_t events);
	void *arg;
} watches[WATCHES];
static struct bg_timer *timers[TIMERS]; /* those that are set */
static int epoll = -1;

static struct watch *find_watch(int fd)
{
	for (int i = 0; i < WATCHES; i++)
		if (watches[i].used && watches[i].fd == fd)
			return watches + i;
	return NULL;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int bg_watch(int fd, uint32_t events, void (*fn)(void *arg, uint32_t events), void *arg)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	struct watch *w = find_watch(fd);
	bool is_new = !w;

	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < WATCHES && !w; i++)
		w = watches[i].used ? NULL : watches + i;
	if (!w)
		return -ENOSPC;
	*w = (struct watch){true, fd, fn, arg};
	return epoll_ctl(epoll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e) ? -errno : 0;
}

void bg_unwatch(int fd)
{
	struct watch *w = find_watch(fd);

	if (!w)
		return;
	w->used = false;
	epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

void bg_timer_set(struct bg_timer *timer, uint64_t at_ns)
{
	struct bg_timer **free_place = NULL;

	for (int i = 0; i < TIMERS; i++) {
		if (timers[i] == timer)
			timers[i] = NULL;
		if (!timers[i])
			free_place = timers + i;
	}
	timer->at_ns = at_ns;
	if (at_ns == UINT64_MAX)
		return;
	if (!free_place)
		abort();
	*free_place = timer;
}

static void run_timers(void)
{
	uint64_t now = now_ns();

	for (int i = 0; i < TIMERS; i++) {
		struct bg_timer *timer = timers[i];

		if (!timer || timer->at_ns > now)
			continue;
		timers[i] = NULL;
		timer->fn(timer->arg);
	}
}

/* A turn does not outlast the time to the next timer. */
static int turn_ms(int timeout_ms)
{
	uint64_t now = now_ns();

	for (int i = 0; i < TIMERS; i++) {
		int64_t left = timers[i] ? (int64_t)(timers[i]->at_ns - now) / 1000000 + 1 : -1;

		if (timers[i] && (timeout_ms < 0 || left < timeout_ms))
			timeout_ms = left > 0 ? (int)left : 0;
	}
	return timeout_ms;
}

int fake_bg_turn(int timeout_ms)
{
	struct epoll_event e[WATCHES];
	int n;

	run_timers();
	n = epoll_wait(epoll, e, WATCHES, turn_ms(timeout_ms));
	for (int i = 0; i < n; i++) {
		struct watch *w = find_watch(e[i].data.fd);

		if (w)
			w->fn(w->arg, e[i].events);
	}
	return n;
}

int fake_bg_watched(void)
{
	int n = 0;

	for (int i = 0; i < WATCHES; i++)
		n += watches[i].used;
	return n;
}
