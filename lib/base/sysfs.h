/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The RDMA devices of this host as the kernel shows them in sysfs. Reads files; no locks, any
 * thread. */
#ifndef SHIFT_BASE_SYSFS_H
#define SHIFT_BASE_SYSFS_H

#include <stddef.h>

#include "lib/base/rail_list.h"

/* The first line of a file, cut at size - 1 bytes. false: it cannot be read. */
bool sysfs_read_line(const char *path, char *line, size_t size);

/* Stores the devices below root ("/sys/class/infiniband"). Returns how many, at most max; 0 also if
 * root cannot be read. */
unsigned int sysfs_devices(const char *root, struct rail_device *devices, unsigned int max);

#endif
