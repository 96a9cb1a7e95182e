/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/object/device.h"

#include <stdlib.h>

#include "lib/base/env.h"
#include "lib/base/table.h"
#include "lib/nic/nic.h"

static struct table devices = TABLE_INIT;
static _Atomic(struct vdev *) closed; /* kept reachable, so that leak checkers are quiet */

struct vdev *vdev_find(const struct ibv_context *ctx)
{
	return table_get(&devices, (uintptr_t)ctx);
}

bool vdev_backed_by(const struct vdev *dev, const struct nic *nic)
{
	for (unsigned int i = 1; i < dev->rails; i++)
		if (dev->nic[i] == nic)
			return true;
	return false;
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
}

struct vdev *vdev_new(struct ibv_context *ctx)
{
	struct vdev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->ctx = ctx;
	pthread_mutex_init(&dev->qps.lock, NULL);
	device_find_rails(dev, ctx->device->name);
	if (!dev->rails || table_put(&devices, (uintptr_t)ctx, dev)) {
		free(dev);
		return NULL;
	}
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
