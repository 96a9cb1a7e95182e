/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "cmd/shift-ctl/ctl.h"

static const char text[] =
	"usage: shift-ctl events [options]\n"
	"What happened to connections: every change of state, every switch with its phases.\n"
	"\n"
	"  -f, --follow    go on until interrupted, or until the process of --pid ends\n"
	"  -J, --job NAME  only of this job\n"
	"  -p, --pid PID   only this process\n"
	"  -j, --json      for a program: one object per line\n"
	"      --help      this text\n";

int cmd_events(int argc, char **argv)
{
	struct ctl_options o;

	ctl_options_parse(&o, "f", text, argc, argv);
	return live_events(&o.which, o.json, o.follow, EXIT_NONE) ? EXIT_OK : EXIT_FAILED;
}
