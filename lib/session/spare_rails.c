/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/session/spare_rails.h"

#include "lib/base/background.h"
#include "lib/base/log.h"
#include "lib/conn/twin.h"
#include "lib/session/rendezvous.h"

#define OPENING_NS 1000000000ull /* a NIC is given so long to open before another is made */

enum { GOOD_RAILS = 2 };

static void look_at_rails(void *arg)
{
	(void)arg;
	spare_rails_look();
}

static struct bg_timer again = {.fn = look_at_rails};

static void twin_again(struct vqp *v, void *arg)
{
	if (vdev_backed_by(v->dev, arg))
		object_job(&v->obj, arg, twin_create);
}

void spare_rails_make_backups(struct nic *nic)
{
	memory_nic_ready(nic);
	vqp_each(twin_again, nic);
}

static bool rail_is_good(const struct vdev *dev, uint8_t rail)
{
	const struct nic *nic = dev->nic[rail];

	if (!nic->ready)
		return now_ns() - dev->opened_ns < OPENING_NS;
	return nic->link_up && !(atomic_load(&dev->lost) >> rail & 1);
}

static unsigned int count_good(const struct vdev *dev)
{
	unsigned int n = 0;

	for (uint8_t i = 0; i < dev->rails; i++)
		n += !vdev_rail_is_spare(dev, i) && rail_is_good(dev, i);
	return n;
}

static void device_look(struct vdev *dev, void *arg)
{
	unsigned int good = count_good(dev);

	for (uint8_t i = 1; i < dev->rails && good < GOOD_RAILS; i++) {
		if (!vdev_rail_is_spare(dev, i) || !dev->nic[i]->ready || !rail_is_good(dev, i))
			continue;
		log_info("%s: %s is made ready as one more backup", dev->nic[0]->name,
			 dev->nic[i]->name);
		vdev_rail_take(dev, i);
		good++;
	}
	*(bool *)arg |= dev->spare && now_ns() - dev->opened_ns < OPENING_NS;
}

void spare_rails_look(void)
{
	bool opening = false;

	vdev_each(device_look, &opening);
	if (opening)
		bg_timer_set(&again, now_ns() + OPENING_NS);
}

/* What has been taken is made, if it is not there yet. */
static void device_make(struct vdev *dev, void *arg)
{
	uint32_t taken = dev->was_spare & ~atomic_load(&dev->spare);

	(void)arg;
	dev->was_spare &= ~taken;
	for (uint8_t i = 1; i < dev->rails; i++)
		if (taken >> i & 1)
			spare_rails_make_backups(dev->nic[i]);
	if (taken)
		rendezvous_rails_made(dev);
}

void spare_rails_changed(void *arg)
{
	(void)arg;
	spare_rails_look();
	vdev_each(device_make, NULL);
}
