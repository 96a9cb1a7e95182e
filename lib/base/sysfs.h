/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The RDMA devices of this host as the kernel shows them. Any thread; reads files. */
#ifndef SHIFT_BASE_SYSFS_H
#define SHIFT_BASE_SYSFS_H

#include "lib/base/rail_list.h"

/* The devices below root ("/sys/class/infiniband"). Returns how many were stored. */
unsigned int sysfs_devices(const char *root, struct rail_device *devices, unsigned int max);

#endif
