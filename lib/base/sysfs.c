/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "lib/base/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sysfs_read_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, line, size - 1);
	close(fd);
	if (n < 0)
		return false;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return true;
}

static unsigned int link_layers(const char *root, const char *device)
{
	char path[512], line[32];
	unsigned int layers = 0;

	for (unsigned int port = 1;; port++) {
		snprintf(path, sizeof(path), "%s/%s/ports/%u/link_layer", root, device, port);
		if (!sysfs_read_line(path, line, sizeof(line)))
			return layers;
		layers |= strcmp(line, "Ethernet") == 0 ? RAIL_ETHERNET : RAIL_INFINIBAND;
	}
}

/* -1: unknown. Virtual devices (soft-RoCE) have no "device" in sysfs, and so no node. */
static int numa_node(const char *root, const char *device)
{
	char path[512], line[32];

	snprintf(path, sizeof(path), "%s/%s/device/numa_node", root, device);
	return sysfs_read_line(path, line, sizeof(line)) ? atoi(line) : -1;
}

unsigned int sysfs_devices(const char *root, struct rail_device *devices, unsigned int max)
{
	DIR *dir = opendir(root);
	struct dirent *entry;
	unsigned int n = 0;

	if (!dir)
		return 0;
	while (n < max && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (entry->d_name[0] == '.' || length >= RAIL_NAME_MAX)
			continue;
		memcpy(devices[n].name, entry->d_name, length + 1);
		devices[n].numa_node = numa_node(root, entry->d_name);
		devices[n].link_layers = link_layers(root, entry->d_name);
		n++;
	}
	closedir(dir);
	return n;
}
