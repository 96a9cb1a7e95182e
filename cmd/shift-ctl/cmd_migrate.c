/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>

#include "cmd/shift-ctl/ctl.h"

static const char text[] = "usage: shift-ctl migrate --nic NAME [options]\n"
			   "Move connections away from a NIC that is to be taken out of service.\n"
			   "\n"
			   "  -n, --nic NAME  the RDMA device they are to leave: mlx5_0\n"
			   "  -J, --job NAME  only of this job\n"
			   "  -p, --pid PID   only this process\n"
			   "  -j, --json      the answers, for a program: {\"answers\": [...]}\n"
			   "      --help      this text\n";

int cmd_migrate(int argc, char **argv)
{
	struct ctl_options o;
	char line[128];

	ctl_options_parse(&o, "n", text, argc, argv);
	if (!o.nic)
		die(EXIT_BAD_USAGE, "migrate: --nic is needed");
	snprintf(line, sizeof(line), "migrate %s", o.nic);
	return ask_all(&o, line);
}
