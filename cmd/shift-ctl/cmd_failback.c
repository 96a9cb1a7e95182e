/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>

#include "cmd/shift-ctl/ctl.h"

static const char text[] =
	"usage: shift-ctl failback [options]\n"
	"Move connections back to the NIC that their program chose, now.\n"
	"\n"
	"  -n, --nic NAME  only those whose program chose this RDMA device: mlx5_0\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"  -j, --json      the answers, for a program: {\"answers\": [...]}\n"
	"      --help      this text\n";

int cmd_failback(int argc, char **argv)
{
	struct ctl_options o;
	char line[128];

	ctl_options_parse(&o, "n", text, argc, argv);
	snprintf(line, sizeof(line), "failback%s%s", o.nic ? " " : "", o.nic ? o.nic : "");
	return ask_all(&o, line);
}
