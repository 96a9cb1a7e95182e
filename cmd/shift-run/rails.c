/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "cmd/shift-run/run.h"
#include "lib/base/sysfs.h"

void rails_check(const char *words)
{
	const char *missing = rails_missing(words);
	struct rail_device d[2];

	if (missing)
		die(EXIT_OURS, "%s: no such RDMA device; see rdma link", missing);
	if ((!words || !strcmp(words, "auto")) && sysfs_devices("/sys/class/infiniband", d, 2) == 1)
		say("%s is the only RDMA device here: its connections survive a link that "
		    "flaps, not a NIC that is gone",
		    d[0].name);
}
