/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-ctl/ctl.h"

static const char text[] =
	"usage: shift-ctl status [options]\n"
	"The protected processes of this host, their connections, and records of crashes.\n"
	"\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"  -j, --json      for a program: {\"processes\": [...]}\n"
	"      --help      this text\n";

int cmd_status(int argc, char **argv)
{
	struct ctl_options o;

	ctl_options_parse(&o, "", text, argc, argv);
	return live_status(&o.which, o.json, EXIT_NONE) ? EXIT_OK : EXIT_FAILED;
}
