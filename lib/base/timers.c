/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Timers of the background thread: a binary heap of pointers, in which each timer knows its place.
 */
#include "lib/base/timers.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/background.h"
#include "lib/base/log.h"

static struct bg_timer **heap;
static uint32_t used, size;

int timers_reserve(uint32_t count)
{
	struct bg_timer **bigger;

	if (count <= size)
		return 0;
	bigger = realloc(heap, count * sizeof(*heap));
	if (!bigger)
		return -ENOMEM;
	heap = bigger;
	size = count;
	return 0;
}

static void timer_place(uint32_t i, struct bg_timer *timer)
{
	heap[i] = timer;
	timer->heap_at = i + 1;
}

static void sift_up(uint32_t i, struct bg_timer *timer)
{
	while (i && heap[(i - 1) / 2]->at_ns > timer->at_ns) {
		timer_place(i, heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	timer_place(i, timer);
}

static void sift_down(uint32_t i, struct bg_timer *timer)
{
	uint32_t child;

	while ((child = 2 * i + 1) < used) {
		if (child + 1 < used && heap[child + 1]->at_ns < heap[child]->at_ns)
			child++;
		if (heap[child]->at_ns >= timer->at_ns)
			break;
		timer_place(i, heap[child]);
		i = child;
	}
	timer_place(i, timer);
}

/* Finds the place for a timer when position i is free. */
static void timer_settle(uint32_t i, struct bg_timer *timer)
{
	if (i && heap[(i - 1) / 2]->at_ns > timer->at_ns)
		sift_up(i, timer);
	else
		sift_down(i, timer);
}

static void timer_remove(struct bg_timer *timer)
{
	uint32_t i = timer->heap_at - 1;
	struct bg_timer *last = heap[--used];

	timer->heap_at = 0;
	if (last != timer)
		timer_settle(i, last);
}

void bg_timer_set(struct bg_timer *timer, uint64_t at_ns)
{
	if (timer->heap_at)
		timer_remove(timer);
	timer->at_ns = at_ns;
	if (at_ns == UINT64_MAX)
		return;
	if (used == size && timers_reserve(2 * size + 64)) {
		log_error("out of memory: a timer is lost, and a connection may not fail over");
		return;
	}
	sift_up(used++, timer);
}

uint64_t timers_next_ns(void)
{
	return used ? heap[0]->at_ns : UINT64_MAX;
}

/* Runs at most as many timers as there are now. So a timer that sets itself again for a time gone
 * by waits for the next turn of the loop. */
void timers_run(uint64_t now)
{
	uint32_t left = used;

	while (left-- && used && heap[0]->at_ns <= now) {
		struct bg_timer *timer = heap[0];

		timer_remove(timer);
		timer->fn(timer->arg);
	}
}
