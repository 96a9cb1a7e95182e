/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/made_events.h"

#include <time.h>

#include "lib/base/short_lock.h"
#include "lib/object/device.h"

static struct short_lock lock;

uint32_t made_events_waiting(const struct vdev *dev)
{
	return atomic_load(&dev->made.waiting);
}

/* Under the lock. */
static void append(struct vdev *dev, struct made_event *e)
{
	struct made_event **at = &dev->made.first;

	while (*at && *at != e)
		at = &(*at)->next;
	if (!*at) {
		e->next = NULL;
		*at = e;
	}
	e->waiting++;
	atomic_fetch_add(&dev->made.waiting, 1);
}

void made_event_raise(struct vdev *dev, struct made_event *e)
{
	bool wanted;

	short_lock_take(&lock);
	wanted = !e->over;
	if (wanted)
		append(dev, e);
	short_lock_give(&lock);
	if (wanted)
		event_waker_look(dev);
}

bool made_event_say(struct made_event *e)
{
	bool first;

	short_lock_take(&lock);
	first = !e->said;
	e->said = true;
	short_lock_give(&lock);
	return first;
}

void made_event_renew(struct made_event *e)
{
	short_lock_take(&lock);
	e->said = false;
	short_lock_give(&lock);
}

bool made_event_take(struct vdev *dev, struct ibv_async_event *event)
{
	struct made_event *e;

	if (!made_events_waiting(dev))
		return false;
	short_lock_take(&lock);
	e = dev->made.first;
	if (e) {
		*event = e->event;
		e->unacked++;
		atomic_fetch_sub(&dev->made.waiting, 1);
		if (!--e->waiting)
			dev->made.first = e->next;
	}
	short_lock_give(&lock);
	event_waker_look(dev);
	return e;
}

bool made_event_acked(struct made_event *e)
{
	bool made;

	short_lock_take(&lock);
	made = e->unacked;
	e->unacked -= made;
	short_lock_give(&lock);
	return made;
}

/* Under the lock. */
static uint32_t withdraw(struct vdev *dev, struct made_event *e)
{
	struct made_event **at = &dev->made.first;
	uint32_t n = e->waiting;

	while (*at && *at != e)
		at = &(*at)->next;
	if (!*at)
		return 0;
	*at = e->next;
	atomic_fetch_sub(&dev->made.waiting, n);
	e->waiting = 0;
	return n;
}

static bool all_acked(struct vdev *dev, struct made_event *e, uint32_t *dropped)
{
	bool all;

	short_lock_take(&lock);
	e->over = true;
	*dropped += withdraw(dev, e);
	all = !e->unacked;
	short_lock_give(&lock);
	return all;
}

uint32_t made_event_end(struct vdev *dev, struct made_event *e)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	uint32_t dropped = 0;

	while (!all_acked(dev, e, &dropped))
		nanosleep(&ms, NULL);
	event_waker_look(dev);
	return dropped;
}

void made_event_resume(struct vdev *dev, struct made_event *e, uint32_t dropped)
{
	short_lock_take(&lock);
	e->over = false;
	short_lock_give(&lock);
	for (uint32_t i = 0; i < dropped; i++)
		made_event_raise(dev, e);
}
