/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/device.h"

#include <stdlib.h>

#include "lib/base/background.h"
#include "lib/base/env.h"
#include "lib/base/table.h"
#include "lib/nic/nic.h"

enum { DEVICES_MAX = 64, BACKUPS_FIRST = 1 }; /* of `auto`, so many are made at once */

static struct table devices = TABLE_INIT;
static _Atomic(struct vdev *) closed; /* kept reachable, so that leak checkers are quiet */

struct vdev *vdev_find(const struct ibv_context *ctx)
{
	return table_get(&devices, (uintptr_t)ctx);
}

bool vdev_backed_by(const struct vdev *dev, const struct nic *nic)
{
	for (uint8_t i = 1; i < dev->rails; i++)
		if (dev->nic[i] == nic && !vdev_rail_is_spare(dev, i))
			return true;
	return false;
}

struct device_list {
	struct vdev *dev[DEVICES_MAX];
	unsigned int n;
};

static void list_add(void *value, void *arg)
{
	struct device_list *list = arg;

	if (list->n < DEVICES_MAX)
		list->dev[list->n++] = value;
}

/* They are never freed. */
void vdev_each(void (*fn)(struct vdev *dev, void *arg), void *arg)
{
	struct device_list list = {.n = 0};

	table_each(&devices, list_add, &list);
	for (unsigned int i = 0; i < list.n; i++)
		fn(list.dev[i], arg);
}

/* --- which backups are made ------------------------------------------------------------------ */

static struct bg_call rails_changed;

void vdev_on_rails_changed(void (*fn)(void *arg))
{
	rails_changed.fn = fn;
}

static void say_changed(void)
{
	if (rails_changed.fn)
		bg_call(&rails_changed);
}

void vdev_rail_lost(struct vdev *dev, uint8_t rail)
{
	if (!(atomic_fetch_or(&dev->lost, 1u << rail) >> rail & 1))
		say_changed();
}

void vdev_rail_found(struct vdev *dev, uint8_t rail)
{
	if (atomic_fetch_and(&dev->lost, ~(1u << rail)) >> rail & 1)
		say_changed();
}

void vdev_rail_take(struct vdev *dev, uint8_t rail)
{
	if (atomic_fetch_and(&dev->spare, ~(1u << rail)) >> rail & 1)
		say_changed();
}

bool vdev_is_alone(const struct vdev *dev)
{
	for (unsigned int i = 1; i < dev->rails; i++)
		if (dev->nic[i] != dev->nic[0])
			return false;
	return true;
}

static void device_find_rails(struct vdev *dev, const char *name)
{
	char backups[SHIFT_RAILS_MAX - 1][64];
	unsigned int n = env_backups(name, backups, SHIFT_RAILS_MAX - 1);

	dev->nic[0] = nic_get(name, 1);
	dev->rails = dev->nic[0] != NULL;
	for (unsigned int i = 0; dev->rails && i < n; i++) {
		struct nic *nic = nic_get(backups[i], 1);

		if (nic && !vdev_backed_by(dev, nic))
			dev->nic[dev->rails++] = nic;
	}
	if (env_rails_are_auto() && dev->rails > BACKUPS_FIRST + 1)
		dev->spare = dev->was_spare = (1u << dev->rails) - (2u << BACKUPS_FIRST);
}

struct vdev *vdev_new(struct ibv_context *ctx)
{
	struct vdev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->ctx = ctx;
	dev->opened_ns = now_ns();
	pthread_mutex_init(&dev->qps.lock, NULL);
	device_find_rails(dev, ctx->device->name);
	if (!dev->rails || table_put(&devices, (uintptr_t)ctx, dev)) {
		free(dev);
		return NULL;
	}
	say_changed();
	return dev;
}

void vdev_retire(struct ibv_context *ctx)
{
	struct vdev *dev = table_remove(&devices, (uintptr_t)ctx);

	if (!dev)
		return;
	dev->closed = atomic_load(&closed);
	while (!atomic_compare_exchange_weak(&closed, &dev->closed, dev))
		;
}
